"""Fan-out and fan-in: one publisher and eight subscribers, and the reverse, over direct links of peers."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from python.children import Child, children, free_port
from python.plan import NAMES, OURS, THEIRS, Plan, interleaved, progress
from python.pubsub import LostError
from python.roles import Node
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AREA = "fan"
PEER = "eclipse-zenoh"
SIZE = 64
MANY = 8
_keys = itertools.count()


@dataclass
class Star:
    """A listening peer, and the others, which connect to it."""

    centre: Child
    others: list[Child]

    def all(self) -> list[Child]:
        return [self.centre, *self.others]


@contextlib.contextmanager
def star(module: str, many: int) -> Iterator[Star]:
    """``many`` peers around one, each in a process of its own."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with children(Child(f"{module} centre", Node, module, "peer", endpoint, None)) as (centre,):
        names = [f"{module} {index + 1} of {many}" for index in range(many)]
        with children(*(Child(name, Node, module, "peer", None, endpoint) for name in names)) as others:
            yield Star(centre, list(others))


def trial(peers: Star, outwards: bool, way: str, seconds: float) -> Trial:
    """Deliveries per second, from the first to the last of all, and processor time of all processes."""
    one, many = [peers.centre], peers.others
    publishers, subscribers = (one, many) if outwards else (many, one)
    key = f"bench/fan/{next(_keys)}"
    signs = [f"{key}/sign/{index}" for index in range(len(subscribers))]
    before = sum(child.cpu() for child in peers.all())
    for subscriber, sign in zip(subscribers, signs, strict=True):
        subscriber.call("subscribe", way, key, len(publishers), sign)
    for subscriber in subscribers:
        subscriber.send("collect", way)
    for publisher in publishers:
        publisher.send("publish", way, key, SIZE, seconds, signs)
    sent = sum(publisher.result()["sent"] for publisher in publishers)
    got = [subscriber.result() for subscriber in subscribers]
    cpu = sum(child.cpu() for child in peers.all()) - before
    if any(each["received"] != sent for each in got):
        raise LostError(f"{sent} were sent, {[each['received'] for each in got]} came")
    took = max(each["last"] for each in got) - min(each["first"] for each in got)
    return Trial(sent * len(got) / took, cpu / (sent * len(got)))


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    many = 2 if plan.smoke else MANY
    directions = {True: f"1 to {many}", False: f"{many} to 1"}
    rows = {
        outwards: (
            Row(AREA, f"{name}, {NAMES[SIZE]} callback", "msg/s", PEER, target=1.5),
            Row(AREA, f"{name}, {NAMES[SIZE]} batch", "msg/s", f"{PEER}, its faster way", target=5.0),
        )
        for outwards, name in directions.items()
    }
    wanted = {outwards: pair for outwards, pair in rows.items() if plan.wants(*pair)}
    if not wanted:
        return
    progress("fan: starting")
    with star(THEIRS, many) as theirs, star(OURS, many) as ours:
        for outwards, (callback, batch) in wanted.items():
            progress(f"fan {directions[outwards]}")
            for call, our_call, loop, our_batch in interleaved(
                plan.rounds, _sides(theirs, ours, outwards, plan.seconds)
            ):
                callback.theirs.append(call)
                callback.ours.append(our_call)
                batch.theirs.append(max(call, loop, key=lambda t: t.value))
                batch.ours.append(our_batch)
            yield from plan.chosen([callback, batch])


def _sides(theirs: Star, ours: Star, outwards: bool, seconds: float) -> list[Callable[[], Trial]]:
    return [
        lambda: trial(theirs, outwards, "callback", seconds),
        lambda: trial(ours, outwards, "callback", seconds),
        lambda: trial(theirs, outwards, "iterate", seconds),
        lambda: trial(ours, outwards, "batch", seconds),
    ]
