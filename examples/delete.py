"""Publishes the deletion of a key."""

import common

from zwire import zenoh

args = common.parser(__doc__).parse_args()

with common.open_session(args) as session:
    session.delete(args.key, congestion_control=zenoh.CongestionControl.BLOCK)
    session.flush(timeout=10)
    print(f"deleted {args.key}")
