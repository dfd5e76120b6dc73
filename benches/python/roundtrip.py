"""Round trips: ping-pong of an express publication, and queries one at a time."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from python.children import Child, children, free_port
from python.plan import OURS, THEIRS, Plan, interleaved, progress
from python.roles import Node
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PEER = "eclipse-zenoh"
SIZE = 64
UNDER_WAY = 32


def pair(module: str) -> tuple[Child, Child]:
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    listens = Child(f"{module} listener", Node, module, "peer", endpoint, None)
    return listens, Child(f"{module} caller", Node, module, "peer", None, endpoint)


def trial(listens: Child, calls: Child, command: str, *args: float) -> tuple[list[float], float]:
    """Seconds of each round trip, sorted, and the processor seconds of one."""
    before = listens.cpu() + calls.cpu()
    times = sorted(calls.call(command, *args))
    if not times:
        raise TimeoutError(f"{calls.name} made no round trip")
    return times, (listens.cpu() + calls.cpu() - before) / len(times)


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    p50 = Row("ping", f"round trip {SIZE} B, p50", "µs", PEER, target=0.8, less_is_better=True)
    p99 = Row("ping", f"round trip {SIZE} B, p99", "µs", PEER, target=0.8, less_is_better=True)
    rate = Row("query", f"queries, one reply of {SIZE} B", "query/s", PEER, target=2.0)
    tail = Row("query", "time of a query, p99", "µs", PEER, less_is_better=True)
    many = Row("query", f"queries, {UNDER_WAY} under way", "query/s", PEER, target=3.0)
    if not plan.wants(p50, p99, rate, tail, many):
        return
    ours, theirs = pair(OURS), pair(THEIRS)
    with children(*ours, *theirs):
        for listens, _ in (ours, theirs):
            listens.call("pong")
            listens.call("answer", SIZE)
        seconds = plan.seconds * 2
        if plan.wants(p50, p99):
            progress("ping")
            sides = _both(theirs, ours, "ping", SIZE, seconds)
            for (their_times, their_cpu), (our_times, our_cpu) in interleaved(plan.rounds, sides):
                for row, at in ((p50, 0.5), (p99, 0.99)):
                    row.ours.append(Trial(our_times[int(len(our_times) * at)], our_cpu))
                    row.theirs.append(Trial(their_times[int(len(their_times) * at)], their_cpu))
            yield from plan.chosen([p50, p99])
        if plan.wants(rate, tail):
            progress("query")
            sides = _both(theirs, ours, "ask", seconds)
            for (their_times, their_cpu), (our_times, our_cpu) in interleaved(plan.rounds, sides):
                rate.ours.append(Trial(len(our_times) / sum(our_times), our_cpu))
                rate.theirs.append(Trial(len(their_times) / sum(their_times), their_cpu))
                tail.ours.append(Trial(our_times[int(len(our_times) * 0.99)], our_cpu))
                tail.theirs.append(Trial(their_times[int(len(their_times) * 0.99)], their_cpu))
            rate.note = _means(rate)
            yield from plan.chosen([rate, tail])
        if plan.wants(many):
            progress(many.name)
            sides = _both(theirs, ours, "ask_many", seconds, UNDER_WAY)
            for (their_times, their_cpu), (our_times, our_cpu) in interleaved(plan.rounds, sides):
                for row, times, cpu in (
                    (many.ours, our_times, our_cpu),
                    (many.theirs, their_times, their_cpu),
                ):
                    # The longest of them is the time of all.
                    row.append(Trial((len(times) - 1) / times[-1], cpu))
            yield many


def _both(
    theirs: tuple[Child, Child], ours: tuple[Child, Child], *command: float | str
) -> list[Callable[[], tuple[list[float], float]]]:
    return [lambda: trial(*theirs, *command), lambda: trial(*ours, *command)]


def _means(rate: Row) -> str:
    ours, theirs = (1e6 / median(t.value for t in side) for side in (rate.ours, rate.theirs))
    return f"{ours:.0f} µs for a query, theirs {theirs:.0f} µs"
