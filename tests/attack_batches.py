"""Attacks with compressed batches (``zenoh-wire`` 3.13): a few bytes that expand to many."""

from __future__ import annotations

import contextlib
import random
import struct
import threading
import time

import attack
import raw
from attack import Measure, calm, drain, scaled, undisturbed
from raw import vle
from zwire.conformance.zenoh import _compression as lz4

COMPRESSED = {"transport/unicast/compression/enabled": True}
RAW, LZ4 = b"\x00", b"\x01"
"""Headers of batches."""

LARGEST = 65_535


def repeated(before: bytes, unit: bytes, times: int) -> bytes:
    """LZ4 block of some bytes and repetitions of others, in one match."""
    literals, match = before + unit, len(unit) * (times - 2) - 4
    token = min(len(literals), 15) << 4 | min(match, 15)
    head = bytes([token]) + lz4._extended(len(literals)) + literals
    return head + struct.pack("<H", len(unit)) + lz4._extended(match) + lz4.lz4_literals(unit)


def bombs() -> list[bytes]:
    """Blocks that are damaged, or longer than a batch may be."""
    chance = random.Random(5)
    whole = lz4.lz4_run(b"\x25\x05", 0, 60_000, b"behind")
    return [
        lz4.lz4_run(b"", 0, LARGEST + 1, b"behind"),
        lz4.lz4_run(b"", 0, 10_000_000, b"behind"),
        # Lengths of 16 MB, and of as much as fits, without the bytes.
        b"\xf0" + b"\xff" * 65_000,
        b"\x1f\x00\x01\x00" + b"\xff" * 65_000,
        b"\xff" * 65_000,
        # Matches of nothing, and of bytes before the first.
        b"\x1f\x00\x00\x00" + b"\x00" * 20,
        b"\x1f\x00\xff\xff" + b"\x00" * 20,
        *(whole[: chance.randrange(1, len(whole))] for _ in range(20)),
        *(chance.randbytes(chance.randrange(1, 2000)) for _ in range(20)),
        b"",
    ]


@attack.attack("LZ4 batches that are damaged or too long")
def damaged(implementation: str) -> list[Measure]:
    blocks = bombs()
    with calm(implementation, settings=COMPRESSED) as (router, others, _):
        peak, number, end = 0.0, 0, time.monotonic() + attack.SECONDS
        while time.monotonic() < end:
            with (
                contextlib.suppress(OSError, AssertionError),
                contextlib.closing(raw.introduce(router.address, compression=True)) as stream,
            ):
                raw.pushed(stream, raw.batch(LZ4 + blocks[number % len(blocks)]))
            number += 1
            peak = max(peak, router.mib())
        alive = Measure("router lives", float(router.lives()), least=1)
        return [alive, Measure("MiB at most", peak, most=64), *undisturbed(others.seen())]


@attack.attack("LZ4 batches of 5,000 messages each, on 8 links")
def many_messages(implementation: str) -> list[Measure]:
    unit = raw.put("x", b"")
    times = (LARGEST - 20) // len(unit)
    with calm(implementation, settings=COMPRESSED) as (router, others, held):
        peak, end = 0.0, time.monotonic() + attack.SECONDS

        def flood() -> None:
            with contextlib.suppress(OSError, AssertionError):
                stream = held.enter_context(raw.introduce(router.address, lease=60, compression=True))
                drain(stream)
                number = 5
                while time.monotonic() < end:
                    some = b""
                    for _ in range(100):
                        some += raw.batch(LZ4 + repeated(b"\x25" + vle(number), unit, times))
                        number = (number + 1) & 0x0FFF_FFFF
                    stream.settimeout(max(0.1, end - time.monotonic()))
                    stream.sendall(some)

        threads = [threading.Thread(target=flood) for _ in range(scaled(8))]
        for each in threads:
            each.start()
        while time.monotonic() < end:
            peak = max(peak, router.mib())
            time.sleep(0.05)
        for each in threads:
            each.join()
        return [Measure("MiB at most", peak, most=256), *undisturbed(others.seen())]
