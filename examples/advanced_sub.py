"""Prints the publications of advanced_pub.py, the cached ones first, and reports lost ones."""

import common

from zwire import zenoh
from zwire.zenoh import ext

options = common.parser(__doc__, key="demo/example/**")
options.add_argument("--history", type=int, default=10, help="earlier values of each publisher (default: 10)")
common.add_count(options, "samples")
args = options.parse_args()


def print_miss(miss: ext.Miss) -> None:
    """Report samples that could not be recovered."""
    print(f"missed {miss.nb} of {miss.source.zid}", flush=True)


with common.open_session(args) as session:
    subscriber: ext.AdvancedSubscriber[zenoh.Handler[zenoh.Sample]] = ext.declare_advanced_subscriber(
        session,
        args.key,
        history=ext.HistoryConfig(detect_late_publishers=True, max_samples=args.history),
        recovery=ext.RecoveryConfig(heartbeat=True),
    )
    subscriber.sample_miss_listener(print_miss)
    print(f"subscribed to {args.key}", flush=True)
    count = 0
    while count != args.count:
        sample = subscriber.recv()
        print(f"{sample.key_expr}: {sample.payload.to_string()}", flush=True)
        count += 1
    subscriber.undeclare()
