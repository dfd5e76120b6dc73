"""Prints publications, in a callback."""

import threading

import common

from zwire import zenoh

options = common.parser(__doc__, key="demo/example/**")
common.add_count(options, "samples")
args = options.parse_args()

enough = threading.Event()
seen = 0


def print_sample(sample: zenoh.Sample) -> None:
    """Print a sample; calls come one after the other."""
    global seen  # noqa: PLW0603 - a page of code needs no class for it
    if not enough.is_set():
        print(f"{sample.kind.name} {sample.key_expr}: {sample.payload.to_string()}", flush=True)
    seen += 1
    if seen == args.count:
        enough.set()


with common.open_session(args) as session:
    subscriber = session.declare_subscriber(args.key, print_sample)
    subscriber.wait_ready(timeout=10)
    print(f"subscribed to {args.key}", flush=True)
    enough.wait()
