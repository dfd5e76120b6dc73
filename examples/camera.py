"""Measures the latency of camera frames between two processes, with shared memory and without."""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from zwire import zenoh

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

SHAPE = (1080, 1920, 3)


def config(mode: str, *, shared: bool, **endpoints: list[str]) -> zenoh.Config:
    """Return the configuration of one side."""
    made: dict[str, Any] = {f"{what}/endpoints": where for what, where in endpoints.items()}
    made |= {"mode": mode, "scouting/multicast/enabled": False, "transport/shared_memory/enabled": shared}
    return zenoh.Config(made)


def camera(endpoint: str, *, shared: bool, rate: float, count: int) -> None:
    """Publish frames; the first eight bytes of each are the time of its publication."""
    with (
        zenoh.open(config("client", shared=shared, connect=[endpoint])) as session,
        session.declare_publisher("camera") as publisher,
    ):
        publisher.wait_matching(timeout=20)
        start = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, start + number / rate - time.monotonic()))
            frame = publisher.loan(SHAPE, "uint8")
            frame.array[:] = number % 256
            frame[:8] = time.monotonic_ns().to_bytes(8, "little")
            publisher.put(frame)
        session.flush(timeout=20)


def latencies(report: Connection, *, shared: bool, rate: float, count: int) -> None:
    """Receive the frames of a camera in another process, and report milliseconds until NumPy has them."""
    with (
        zenoh.open(config("peer", shared=shared, listen=["tcp/127.0.0.1:0"])) as session,
        session.declare_subscriber("camera", zenoh.handlers.RingChannel(4)) as frames,
    ):
        arguments = {"shared": shared, "rate": rate, "count": count}
        context = multiprocessing.get_context("spawn")
        publisher = context.Process(target=camera, args=(session.listening()[0],), kwargs=arguments)
        publisher.start()
        found: list[float] = []
        while len(found) < count:
            try:
                payload = frames.recv(timeout=2 if found else 30).payload
            except zenoh.ZError:
                break  # the ring has dropped some
            frame = np.frombuffer(memoryview(payload), "uint8").reshape(SHAPE)
            sent = int.from_bytes(payload[:8], "little")
            found.append((time.monotonic_ns() - sent) / 1e6)
            del frame
        publisher.join()
    report.send(found)


def measured(options: argparse.Namespace, *, shared: bool) -> list[float]:
    """Return the latencies in milliseconds, measured by two fresh processes."""
    here, there = multiprocessing.Pipe()
    arguments = {"shared": shared, "rate": options.rate, "count": options.count}
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=latencies, args=(there,), kwargs=arguments)
    process.start()
    there.close()
    found: list[float] = here.recv()
    process.join()
    return found


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--count", type=int, default=600, help="frames of each run (default: 600)")
    parser.add_argument("--rate", type=float, default=60.0, help="frames per second (default: 60)")
    parser.add_argument("--plot", metavar="FILE", help="draw both runs; needs matplotlib")
    options = parser.parse_args()
    runs = {
        name: measured(options, shared=name == "shared memory") for name in ("shared memory", "link alone")
    }
    for name, found in runs.items():
        times = sorted(found)
        worst = times[min(len(times) - 1, len(times) * 999 // 1000)]
        print(f"{name}: {len(times)} frames, median {statistics.median(times):.2f} ms, p99.9 {worst:.2f} ms")
    if options.plot:
        from matplotlib import pyplot as plt

        plot: Any = plt
        for name, found in runs.items():
            plot.plot(found, label=name, linewidth=0.8)
        plot.xlabel("frame")
        plot.ylabel("latency (ms)")
        plot.yscale("log")
        plot.legend()
        plot.savefig(options.plot)


if __name__ == "__main__":
    main()
