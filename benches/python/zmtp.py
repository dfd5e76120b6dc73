"""Sockets of ZeroMQ between two processes, against libzmq through pyzmq."""

from __future__ import annotations

from typing import TYPE_CHECKING

from python.children import Child, children
from python.plan import KIB, MIB, Plan, interleaved, progress
from python.pubsub import LostError
from python.rows import Row, Trial
from python.zmtp_roles import Socket

if TYPE_CHECKING:
    from collections.abc import Iterator

AREA = "zmtp"
PEER = "pyzmq"
PING_SIZE = 64
NAMES = {64: "64 B", 8 * KIB: "8 KiB", MIB: "1 MiB"}
# Targets of the ratio, per message and in batches.
TARGETS = {64: (1.5, 5.0), 8 * KIB: (None, None), MIB: (2.0, None)}


def pair(module: str, receiver: str, sender: str) -> tuple[Child, Child]:
    """A receiver that binds and a sender that connects, to be made ready."""
    return Child(f"{module} {receiver}", Socket, module, receiver), Child(
        f"{module} {sender}", Socket, module, sender
    )


def join(receiver: Child, sender: Child) -> None:
    sender.call("connect", receiver.call("bind"))
    receiver.send("greeted")
    sender.call("greet")
    receiver.result()


def trial(receiver: Child, sender: Child, way: str, size: int, seconds: float) -> Trial:
    """Messages per second from the first to the last, and the processor time of both."""
    before = receiver.cpu() + sender.cpu()
    receiver.send("collect", way)
    sender.send("publish", way, size, seconds)
    sent, got = sender.result(), receiver.result()
    if got["received"] != sent["sent"]:
        raise LostError(f"{sender.name} sent {sent['sent']} of {size} B, {got['received']} came")
    cpu = receiver.cpu() + sender.cpu() - before
    return Trial(got["received"] / got["seconds"], cpu / max(1, got["received"]))


def round_trips(router: Child, dealer: Child, seconds: float) -> Trial:
    before = router.cpu() + dealer.cpu()
    router.send("echo")
    times = sorted(dealer.call("ping", PING_SIZE, seconds))
    router.result()
    return Trial(times[len(times) // 2], (router.cpu() + dealer.cpu() - before) / len(times))


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    for receiver, sender, sizes in (("ROUTER", "DEALER", list(NAMES)), ("SUB", "PUB", [64])):
        rows = {size: _rows(f"{sender} to {receiver}", size) for size in sizes}
        ping = Row(AREA, f"round trip {PING_SIZE} B, p50", "µs", PEER, target=1.0, less_is_better=True)
        with_ping = receiver == "ROUTER" and plan.wants(ping)
        wanted = {size: pair_of_rows for size, pair_of_rows in rows.items() if plan.wants(*pair_of_rows)}
        if not wanted and not with_ping:
            continue
        ours, theirs = pair("zwire", receiver, sender), pair("zmq", receiver, sender)
        with children(*ours, *theirs):
            join(*ours)
            join(*theirs)
            for size, (single, batch) in wanted.items():
                progress(f"{AREA} {sender} to {receiver} {NAMES[size]}")
                _one_size(plan, size, single, batch, ours, theirs)
                yield from plan.chosen([single, batch])
            if with_ping:
                progress(f"{AREA} round trip")
                _round_trips(plan, ping, ours, theirs)
                yield ping


def _one_size(
    plan: Plan, size: int, single: Row, batch: Row, ours: tuple[Child, Child], theirs: tuple[Child, Child]
) -> None:
    sides = [
        lambda: trial(*theirs, "single", size, plan.seconds),
        lambda: trial(*ours, "single", size, plan.seconds),
        lambda: trial(*ours, "batch", size, plan.seconds),
    ]
    for their_single, our_single, our_batch in interleaved(plan.rounds, sides):
        single.ours.append(our_single)
        batch.ours.append(our_batch)
        single.theirs.append(their_single)
        batch.theirs.append(their_single)


def _round_trips(plan: Plan, ping: Row, ours: tuple[Child, Child], theirs: tuple[Child, Child]) -> None:
    sides = [lambda: round_trips(*theirs, plan.seconds), lambda: round_trips(*ours, plan.seconds)]
    for their_trip, our_trip in interleaved(plan.rounds, sides):
        ping.ours.append(our_trip)
        ping.theirs.append(their_trip)


def _rows(what: str, size: int) -> tuple[Row, Row]:
    single, batch = TARGETS[size]
    return (
        Row(AREA, f"{what} {NAMES[size]}", "msg/s", PEER, target=single),
        Row(AREA, f"{what} {NAMES[size]} batch", "msg/s", PEER, target=batch),
    )
