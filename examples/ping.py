"""Measures round trips to pong.py."""

import statistics
import time

import common

options = common.parser(__doc__, key=None)
options.add_argument("--size", type=int, default=64, help="bytes of each message (default: 64)")
options.add_argument("--warm-up", type=float, default=1.0, help="seconds before it counts")
options.add_argument("-n", "--count", type=int, default=1000, help="round trips (default: 1000)")
args = options.parse_args()

payload = bytes(args.size)
with (
    common.open_session(args) as session,
    session.declare_subscriber("test/pong") as pong,
    session.declare_publisher("test/ping", express=True) as ping,
):
    pong.wait_ready(timeout=10)
    ping.wait_matching()

    def round_trip() -> float:
        """Return the microseconds of one round trip."""
        start = time.perf_counter_ns()
        ping.put(payload)
        pong.recv(timeout=10)
        return (time.perf_counter_ns() - start) / 1000

    end = time.monotonic() + args.warm_up
    while time.monotonic() < end:
        round_trip()
    times = [round_trip() for _ in range(args.count)]
    print(f"{args.size} bytes: median {statistics.median(times):.0f} us, best {min(times):.0f} us")
