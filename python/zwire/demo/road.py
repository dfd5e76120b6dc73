"""The whole demo: a simulated fleet, a hub, a spool that loses its host, a Spark job, and back.

``zwire demo`` runs this. A hub (:mod:`zwire.demo.hub`) writes all that crosses its wire to a capture, and the
latest value of each key to a storage on the disk. Processes of a fleet (:mod:`zwire.demo.fleet`) publish
positions, battery and images over sockets, and some answer queries. A spooler on a host of its own
(:mod:`zwire.demo.host`) keeps the messages and uploads them to a tier; then the host is lost with its folder.
A Spark job (:mod:`zwire.demo.job`) reads the tier, decodes the capture, queries the fleet, and publishes its
results. At each station messages are counted, and the counts have to be the same (:mod:`zwire.demo.counts`).
At last the hub is killed and started again, and its storage has to have the value of each key that was
published last (:mod:`zwire.demo.kept`). Then a ZRE node and a session talk through a bridge
(:mod:`zwire.demo.talk`).
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zwire._text import printable
from zwire.demo.counts import Counts, Tally
from zwire.demo.host import Host
from zwire.demo.hub import Hub, client
from zwire.demo.kept import lines, missing, stored
from zwire.demo.processes import Fleet
from zwire.demo.talk import talk
from zwire.demo.watch import Results, Watch
from zwire.errors import TimedOut

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["Options", "run"]

_PATIENCE = 30.0
"""Seconds for steps that take a fraction of one unless the machine is very busy."""

_RECEIVERS = 2
"""Subscribers of the fleet's messages: the one that counts them, and the spooler."""

_SHOWN = 12
"""Most problems printed; one cause often has many."""


@dataclass(frozen=True)
class Options:
    """The size of the demo."""

    out: Path
    """Folder for the capture, the storage, the tier, the plot, the counts and the log of Spark."""
    processes: int = 4
    robots: int = 6
    """Number of robots in each process."""
    seconds: float = 5.0
    """How long the fleet publishes."""
    timeout: float = 300.0
    """Seconds after which the demo gives up."""


def _show(*lines: str) -> None:
    """Print lines; some have keys that other programs of this machine may have published."""
    print(*map(printable, lines), sep="\n", flush=True)


class _Clock:
    def __init__(self) -> None:
        self.start = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self.start

    def say(self, line: str) -> None:
        _show(f"{self.seconds():5.1f} s  {line}")


def run(options: Options) -> int:
    """Run the demo, print its progress, and return 0 if nothing was lost and 1 otherwise.

    Call it in the main thread: signals end it.

    Raises:
        TransportError: Something did not come in time, or a process of the fleet has failed.
    """
    clock = _Clock()
    options.out.mkdir(parents=True, exist_ok=True)
    with _give_up_after(options.timeout), contextlib.ExitStack() as stack:
        temporary = Path(tempfile.mkdtemp(prefix="zwire-demo-"))
        stack.callback(shutil.rmtree, temporary, ignore_errors=True)
        counts, problems = _run(options, clock, stack, temporary)
    _show(*counts.table(), "", *(f"wrong: {problem}" for problem in problems[:_SHOWN]))
    if problems:
        clock.say(f"{len(problems)} things are wrong")
        return 1
    stations = len(counts.stations)
    clock.say(
        f"nothing was lost: {counts.total('sent'):,} messages, each once at each of {stations} stations, "
        "and the latest of each key after the kill of the hub"
    )
    return 0


def _run(
    options: Options, clock: _Clock, stack: contextlib.ExitStack, temporary: Path
) -> tuple[Counts, list[str]]:
    out = options.out
    hub = stack.enter_context(Hub(out / "hub.pcap", out / "store", errors=temporary / "hub.txt"))
    clock.say(f"hub      {hub.endpoint}, its traffic goes to {hub.capture}, the latest values to {hub.store}")
    watch = stack.enter_context(Watch(hub.endpoint))
    results = stack.enter_context(Results(hub.endpoint))
    from zwire.demo.job import Job

    # Left after the fleet: a JVM that still starts then has the processor for itself.
    job = stack.enter_context(Job(hub.endpoint, temporary=temporary, log=out / "spark.log"))
    size = {"count": options.processes, "robots": options.robots}
    fleet = Fleet(hub.endpoint, **size, seconds=options.seconds, errors=temporary / "fleet.txt")
    stack.enter_context(fleet)
    host = Host(hub.endpoint, temporary / "host", out.absolute() / "tier", errors=temporary / "host.txt")
    stack.enter_context(host)
    fleet.wait("ready", _PATIENCE)
    host.ready()
    clock.say(f"fleet    {options.processes} processes of {options.robots} robots each are connected")
    fleet.go()

    # Spark starts while they publish.
    job.start()
    clock.say(f"spark    {job.version} is up with two cores, what it says goes to {out / 'spark.log'}")

    sent = fleet.wait("sent", options.seconds + _PATIENCE)
    counts = Counts(options.processes)
    for process, tally in sent.items():
        for kind, number in tally["counts"].items():
            counts.add("sent", process, kind, Tally(number, number))
    received = watch.wait(counts.total("sent"), _PATIENCE)
    counts.put("received", received)
    megabytes = sum(tally["bytes"] for tally in sent.values()) / 1e6
    clock.say(f"fleet    {counts.total('sent'):,} messages, {megabytes:.0f} MB; a subscriber has them all")
    with client(hub.endpoint) as session:
        hub.write_out(session)
    uploaded = host.wait(counts.total("sent"), _PATIENCE)
    host.lose()
    clock.say(
        f"spool    {uploaded:,} messages are in the tier; the host of the spooler is lost, its folder too"
    )

    counts.put("in the tier", job.tier(host.tier))
    read = counts.total("in the tier")
    clock.say(f"tier     Spark has read {read:,} messages of {host.tier}, and no other place")

    decoded = job.decode(hub.capture, _RECEIVERS)
    counts.put("into hub", decoded.into_hub)
    counts.put("out of hub", decoded.out_of_hub)
    clock.say(
        f"decode   {decoded.messages:,} messages of the capture ({hub.capture.stat().st_size / 1e6:.0f} MB)"
    )
    answers = job.ask(options.processes, options.robots)
    clock.say(f"ask      {answers.rows} robots have answered, of {options.processes * options.robots} asked")
    published = job.publish()
    clock.say(f"publish  {published.rows} results from {published.partitions} partitions; this came back:")
    came = results.wait(published.rows, _PATIENCE)
    _show(*(f"         {line}" for line in results.lines()))
    counts.put("came back", came)

    expected = {**watch.latest(), **results.latest()}
    safe = missing(expected, stored(hub.endpoint))
    # They would try to reach the hub while it is gone.
    for ending in (fleet, watch, results):
        ending.close()
    hub.kill()
    killed = clock.seconds()
    hub.restart()
    found = stored(hub.endpoint)
    lost = missing(expected, found)
    clock.say(
        f"store    the hub was killed by SIGKILL; {clock.seconds() - killed:.1f} s later it runs again with "
        f"{sum(found.get(key) == value for key, value in expected.items())} of {len(expected)} values:"
    )
    _show(*(f"         {line}" for line in lines(found)))

    to_zenoh, to_zre = talk(hub.endpoint, _PATIENCE)
    clock.say(f"bridge   a session has received {to_zenoh!r}, and a ZRE node {to_zre!r}")

    plot = out / "fleet.png"
    from zwire.demo.plot import draw

    draw(job.tracks(), job.rates(), counts, plot)
    clock.say(f"plot     {plot}")
    (out / "counts.json").write_text(json.dumps(counts.as_dict(), indent=2) + "\n")

    problems = [*counts.problems(), *decoded.problems, *answers.problems, *results.problems()]
    problems += [f"before the kill: {problem}" for problem in safe]
    problems += [f"after the kill: {problem}" for problem in lost]
    if watch.dropped or results.dropped:
        problems.append(f"subscribers have dropped {watch.dropped + results.dropped} samples")
    if published.rows != options.processes * options.robots:
        problems.append(f"{published.rows} results for {options.processes * options.robots} robots")
    return counts, problems


class _GaveUp(BaseException):
    """Signal that the time is over: no `OSError`, which an import takes for a missing file."""


@contextlib.contextmanager
def _give_up_after(seconds: float) -> Iterator[None]:
    """Raise in the main thread, wherever it waits, when the time is over."""

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise _GaveUp

    if not hasattr(signal, "SIGALRM"):
        # Windows: a step that hangs is ended by Ctrl-C.
        yield
        return
    # Spark installs a handler of its own for Ctrl-C, and leaves it behind.
    interrupt = signal.getsignal(signal.SIGINT)
    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _GaveUp:
        raise TimedOut(f"not done within {seconds:g} s", seconds=seconds) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGINT, interrupt)
