"""Publishes one value."""

import common

from zwire import zenoh

options = common.parser(__doc__)
options.add_argument("-v", "--value", default="hello")
args = options.parse_args()

with common.open_session(args) as session:
    # A publication may be dropped where a queue is full; this one waits for room instead.
    session.put(args.key, args.value, congestion_control=zenoh.CongestionControl.BLOCK)
    session.flush(timeout=10)
    print(f"put {args.key}: {args.value}")
