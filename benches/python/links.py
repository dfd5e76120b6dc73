"""Each kind of link: publish to subscribe and round trips, as over TCP, with the same programs."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from python.certificates import write_certificates
from python.children import Child, ChildError, children, free_port
from python.plan import NAMES, OURS, THEIRS, Plan, interleaved, progress
from python.pubsub import LostError
from python.roles import Node
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AREA = "links"
PEER = "eclipse-zenoh"
SIZE = 64
# Most end marks of a trial over a lossy link: a slow receiver may lose some of them.
MARKS = 100
_keys = itertools.count()


@dataclass
class Link:
    """A kind of link: endpoints of both sides, and settings of both."""

    listen: str
    connect: str
    extra: dict[str, Any] = field(default_factory=dict)
    lossy: bool = False


def _plain(protocol: str, lossy: bool = False) -> Callable[[Path], Link]:
    def make(_: Path) -> Link:
        endpoint = f"{protocol}/127.0.0.1:{free_port()}"
        return Link(endpoint, endpoint, lossy=lossy)

    return make


def _certified(protocol: str) -> Callable[[Path], Link]:
    def make(folder: Path) -> Link:
        tls = "transport/link/tls"
        files = write_certificates(folder)
        extra = {f"{tls}/{key}": str(file) for key, file in files.items()}
        return Link(*[f"{protocol}/localhost:{free_port()}"] * 2, extra=extra)

    return make


def _unix(folder: Path) -> Link:
    endpoint = f"unixsock-stream/{folder}/node-{next(_keys)}"
    return Link(endpoint, endpoint)


KINDS: dict[str, Callable[[Path], Link]] = {
    "udp": _plain("udp", lossy=True),
    "unix": _unix,
    "ws": _plain("ws"),
    "tls": _certified("tls"),
    "quic": _certified("quic"),
}


def pair(module: str, link: Link) -> tuple[Child, Child]:
    """A node that listens and one that connects, to be made ready in this order."""
    listens = Child(f"{module} listener", Node, module, "peer", link.listen, None, link.extra)
    return listens, Child(f"{module} caller", Node, module, "peer", None, link.connect, link.extra)


@dataclass
class Flow:
    """The result of a trial, and the share of messages lost."""

    trial: Trial
    lost: float


def flow(pair: tuple[Child, Child], way: str, seconds: float, lossy: bool) -> Flow:
    """Messages received per second."""
    subscriber, publisher = pair
    key = f"bench/links/{next(_keys)}"
    before = subscriber.cpu() + publisher.cpu()
    subscriber.call("subscribe", way, key)
    subscriber.send("collect", way)
    publisher.send("publish", way, key, SIZE, seconds, ends=MARKS if lossy else 1)
    sent = publisher.result()["sent"]
    got = subscriber.result()
    if got["received"] != sent and not lossy:
        raise LostError(f"{publisher.name} sent {sent}, {got['received']} came")
    if not got["received"]:
        raise LostError(f"nothing came of what {publisher.name} sent")
    cpu = subscriber.cpu() + publisher.cpu() - before
    share = 1 - got["received"] / sent
    return Flow(Trial(got["received"] / got["seconds"], cpu / got["received"]), share)


def ping(pair: tuple[Child, Child], seconds: float) -> Trial:
    """The 99th percentile of round trips, in seconds."""
    listens, calls = pair
    before = listens.cpu() + calls.cpu()
    times = sorted(calls.call("ping", SIZE, seconds))
    return Trial(times[int(len(times) * 0.99)], (listens.cpu() + calls.cpu() - before) / len(times))


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    with tempfile.TemporaryDirectory(prefix="zb") as folder:
        for kind, make in KINDS.items():
            rows = (
                Row(AREA, f"{kind}, {NAMES[SIZE]} callback", "msg/s", PEER, target=1.5),
                Row(AREA, f"{kind}, {NAMES[SIZE]} batch", "msg/s", f"{PEER}, its faster way", target=5.0),
                Row(AREA, f"{kind}, round trip {SIZE} B, p99", "µs", PEER, target=0.8, less_is_better=True),
            )
            if not plan.wants(*rows) or not (plan.links is None or kind in plan.links):
                continue
            progress(f"{AREA} {kind}")
            try:
                _one_kind(plan, lambda make=make: make(Path(folder)), rows)
            except ChildError as error:
                # A build without that kind fails when the session is opened.
                reason = str(error).strip().splitlines()[-1]
                if "not supported" not in reason:
                    raise
                for row in rows:
                    row.skipped = reason
            yield from plan.chosen(list(rows))


def _one_kind(plan: Plan, make: Callable[[], Link], rows: tuple[Row, Row, Row]) -> None:
    callback, batch, trip = rows
    link = make()
    theirs, ours = pair(THEIRS, link), pair(OURS, make())
    lost: dict[str, list[float]] = {"ours": [], "in batches": [], "theirs": []}
    with children(*theirs, *ours):
        for listens, _ in (theirs, ours):
            listens.call("pong")
        for their_call, our_call, their_loop, our_batch in interleaved(
            plan.rounds,
            [
                lambda: flow(theirs, "callback", plan.seconds, link.lossy),
                lambda: flow(ours, "callback", plan.seconds, link.lossy),
                lambda: flow(theirs, "iterate", plan.seconds, link.lossy),
                lambda: flow(ours, "batch", plan.seconds, link.lossy),
            ],
        ):
            callback.theirs.append(their_call.trial)
            callback.ours.append(our_call.trial)
            batch.theirs.append(max(their_call.trial, their_loop.trial, key=lambda t: t.value))
            batch.ours.append(our_batch.trial)
            for name, side in (("ours", our_call), ("in batches", our_batch), ("theirs", their_call)):
                lost[name].append(side.lost)
        trips = [lambda: ping(theirs, plan.seconds * 2), lambda: ping(ours, plan.seconds * 2)]
        for their_trip, our_trip in interleaved(plan.rounds, trips):
            trip.theirs.append(their_trip)
            trip.ours.append(our_trip)
    if link.lossy:
        shares = ", ".join(f"{name} {median(share):.0%}" for name, share in lost.items())
        callback.note = f"lost on the way: {shares}"
