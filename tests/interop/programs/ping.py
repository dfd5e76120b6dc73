"""There and back again."""

import time

import zenoh

with zenoh.open(zenoh.Config.from_env()) as a, zenoh.open(zenoh.Config.from_env()) as b:
    options = {"congestion_control": zenoh.CongestionControl.BLOCK, "express": True}
    pong = b.declare_publisher("test/pong", **options)
    echo = b.declare_subscriber("test/ping", lambda sample: pong.put(sample.payload))
    ping = a.declare_publisher("test/ping", **options)
    back = a.declare_subscriber("test/pong")
    while not (ping.matching_status.matching and pong.matching_status.matching):
        time.sleep(0.01)
    times = []
    for size in (1, 8, 64, 1000, 70_000):
        data = bytes(i % 251 for i in range(size))
        for _ in range(20):
            start = time.perf_counter()
            ping.put(data)
            sample = back.recv()
            times.append(time.perf_counter() - start)
            assert sample.payload.to_bytes() == data
        print(size, len(sample.payload), bytes(sample.payload)[-3:])
    print(len(times), all(0 < t < 5 for t in times))
