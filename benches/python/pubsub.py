"""Publish to subscribe between two processes, a peer that listens and a peer that connects."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from python.children import Child, children, free_port
from python.plan import MIB, NAMES, OURS, THEIRS, Plan, interleaved, progress
from python.roles import Node, Stream
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

AREA = "pubsub"
PEER = "eclipse-zenoh"
_keys = itertools.count()


def pair(module: str) -> tuple[Child, Child]:
    """A subscriber and a publisher, to be made ready in this order."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    subscriber = Child(f"{module} subscriber", Node, module, "peer", endpoint, None)
    return subscriber, Child(f"{module} publisher", Node, module, "peer", None, endpoint)


def trial(subscriber: Child, publisher: Child, way: str, size: int, seconds: float, *others: Child) -> Trial:
    """Messages per second from the first to the last; processor time of both and of the others."""
    key = f"bench/pubsub/{next(_keys)}"
    took_part = (subscriber, publisher, *others)
    before = sum(child.cpu() for child in took_part)
    subscriber.call("subscribe", way, key)
    subscriber.send("collect", way)
    publisher.send("publish", way, key, size, seconds)
    sent = publisher.result()
    got = subscriber.result()
    cpu = sum(child.cpu() for child in took_part) - before
    if got["received"] != sent["sent"]:
        raise LostError(f"{publisher.name} sent {sent['sent']} of {size} B, {got['received']} came")
    return Trial(got["received"] / got["seconds"], cpu / got["received"])


class LostError(Exception):
    """Some of the messages sent did not arrive."""


def stream_trial(reader: Child, writer: Child, seconds: float) -> Trial:
    before = reader.cpu() + writer.cpu()
    reader.send("read")
    writer.send("write", seconds)
    written = writer.result()
    got = reader.result()
    if got["received"] != written:
        raise LostError(f"{written} octets were written, {got['received']} came")
    cpu = reader.cpu() + writer.cpu() - before
    return Trial(written / got["seconds"], cpu / written * MIB)


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    per_size: dict[int, dict[str, Row]] = {}
    for size in plan.sizes:
        rows = {
            way: Row(AREA, f"{NAMES[size]} {way}", "msg/s", PEER, target=target if size <= 64 else None)
            for way, target in (("callback", 1.5), ("iterate", None), ("batch", 5.0))
        }
        rows["batch"].peer = f"{PEER}, its faster way"
        if size == MIB:
            for way in ("callback", "batch"):
                what = f"1 MiB {way}, share of loopback TCP"
                rows[f"limit {way}"] = Row(AREA, what, "MB/s", "loopback TCP", target=0.6)
            rows["limit theirs"] = Row(AREA, "1 MiB callback of eclipse-zenoh", "MB/s", "loopback TCP")
        per_size[size] = rows
    wanted = {size: rows for size, rows in per_size.items() if plan.wants(*rows.values())}
    if not wanted:
        return

    ours, theirs = pair(OURS), pair(THEIRS)
    port = free_port()
    plain = Child("stream reader", Stream, port, True), Child("stream writer", Stream, port, False)
    with children(*ours, *theirs, *plain):
        for size, rows in wanted.items():
            progress(f"{AREA} {NAMES[size]}")
            _one_size(plan, size, rows, ours, theirs, plain)
            yield from plan.chosen(list(rows.values()))


def _one_size(
    plan: Plan,
    size: int,
    rows: dict[str, Row],
    ours: tuple[Child, Child],
    theirs: tuple[Child, Child],
    plain: tuple[Child, Child],
) -> None:
    sides = [
        lambda: trial(*theirs, "callback", size, plan.seconds),
        lambda: trial(*ours, "callback", size, plan.seconds),
        lambda: trial(*theirs, "iterate", size, plan.seconds),
        lambda: trial(*ours, "iterate", size, plan.seconds),
        lambda: trial(*ours, "batch", size, plan.seconds),
    ]
    if size == MIB:
        sides.append(lambda: stream_trial(*plain, plan.seconds))
    for result in interleaved(plan.rounds, sides):
        their_call, our_call, their_loop, our_loop, our_batch, *limit = result
        rows["callback"].ours.append(our_call)
        rows["callback"].theirs.append(their_call)
        rows["iterate"].ours.append(our_loop)
        rows["iterate"].theirs.append(their_loop)
        rows["batch"].ours.append(our_batch)
        rows["batch"].theirs.append(max(their_call, their_loop, key=lambda t: t.value))
        for stream in limit:
            for name, side in (("callback", our_call), ("batch", our_batch), ("theirs", their_call)):
                rows[f"limit {name}"].ours.append(Trial(side.value * MIB, side.cpu))
                rows[f"limit {name}"].theirs.append(stream)
