"""Publishes like pub.py, and keeps the newest values for late subscribers and for recovery of losses."""

import time

import common

from zwire.zenoh import ext

options = common.parser(__doc__)
options.add_argument("-v", "--value", default="hello")
options.add_argument("--keep", type=int, default=10, help="values that are kept (default: 10)")
common.add_interval(options, "values")
options.add_argument("--linger", type=float, default=0.0, help="seconds to stay after the last one")
common.add_count(options, "values")
args = options.parse_args()

with (
    common.open_session(args) as session,
    ext.declare_advanced_publisher(
        session,
        args.key,
        cache=ext.CacheConfig(args.keep),
        sample_miss_detection=ext.MissDetectionConfig(heartbeat=0.5),
        publisher_detection=True,
    ) as publisher,
):
    for number in common.numbers(args):
        value = f"[{number:4}] {args.value}"
        publisher.put(value)
        print(value, flush=True)
    session.flush(timeout=10)
    time.sleep(args.linger)
