"""Takes the newest values of a key at its own pace; older ones are dropped."""

import time

import common

from zwire.zenoh import handlers

options = common.parser(__doc__, key="demo/example/**")
options.add_argument("--size", type=int, default=3, help="values that are kept (default: 3)")
common.add_interval(options, "looks")
common.add_count(options, "looks that found something")
args = options.parse_args()

with (
    common.open_session(args) as session,
    session.declare_subscriber(args.key, handlers.RingChannel(args.size)) as subscriber,
):
    subscriber.wait_ready(timeout=10)
    print(f"subscribed to {args.key}", flush=True)
    looks = 0
    while looks != args.count:
        time.sleep(args.interval)
        samples = subscriber.recv_many(args.size, timeout=0)
        looks += bool(samples)
        for sample in samples:
            print(f"{sample.key_expr}: {sample.payload.to_string()}", flush=True)
    print(f"{subscriber.dropped} older ones are gone")
