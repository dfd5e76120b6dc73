"""Publishes as fast as it can: one by one, or as Arrow batches."""

# pyarrow has no types:
# pyright: basic

import time

import common

from zwire import zenoh

options = common.parser(__doc__, key="test/throughput")
options.add_argument("--size", type=int, default=8, help="bytes of each message (default: 8)")
options.add_argument("--batch", type=int, default=1, help="messages of one call (default: 1)")
common.add_count(options, "messages")
args = options.parse_args()

payload = bytes(args.size)
with (
    common.open_session(args) as session,
    session.declare_publisher(args.key, congestion_control=zenoh.CongestionControl.BLOCK) as publisher,
):
    publisher.wait_matching()
    print("publishing", flush=True)
    batch = None
    if args.batch > 1:
        import pyarrow as pa

        batch = pa.record_batch({"payload": [payload] * args.batch})
    sent, start = 0, time.monotonic()
    while args.count is None or sent < args.count:
        if batch is None:
            publisher.put(payload)
        else:
            session.put_batch(batch, key_expr=args.key)
        sent += args.batch
    session.flush(timeout=60)
    print(f"{sent / (time.monotonic() - start):.0f} messages/s")
