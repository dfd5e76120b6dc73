"""Publishes a value each second, from the first subscriber on."""

import common

options = common.parser(__doc__)
options.add_argument("-v", "--value", default="hello")
common.add_interval(options, "values")
common.add_count(options, "values")
args = options.parse_args()

with common.open_session(args) as session, session.declare_publisher(args.key) as publisher:
    publisher.wait_matching()
    print(f"publishing to {args.key}", flush=True)
    for number in common.numbers(args):
        value = f"[{number:4}] {args.value}"
        publisher.put(value)
        print(value, flush=True)
    session.flush(timeout=10)
