"""Counts the messages of throughput_pub.py, taken as Arrow batches."""

import time

import common

options = common.parser(__doc__, key="test/throughput")
common.add_count(options, "messages")
args = options.parse_args()

with common.open_session(args) as session, session.declare_subscriber(args.key) as subscriber:
    subscriber.wait_ready(timeout=10)
    print("counting", flush=True)
    count = subscriber.recv_batch().num_rows
    first, start, shown = count, time.monotonic(), time.monotonic()
    while args.count is None or count < args.count:
        count += subscriber.recv_batch(timeout=60).num_rows
        if time.monotonic() - shown > 1:
            shown = time.monotonic()
            print(f"{(count - first) / (shown - start):.0f} messages/s", flush=True)
    print(f"{count} messages, {subscriber.dropped} dropped")
