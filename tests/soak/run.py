"""Soak run: a router with all kinds of neighbours for an hour, sampled, and judged by slopes.

``make soak MINUTES=90`` prints a table in Markdown, writes all samples to ``soak-out``, and fails on a slope
of memory, threads, descriptors or latency, and on any message, query or process that was lost. Each worker
of :mod:`workers` is a process in a session of its own, so that it ends with all that it has started.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import os
import queue
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import crash
from nodes import free_port
from soak import figures
from soak.figures import Trend, Verdict

WORKERS = Path(__file__).with_name("workers.py")
START = 150.0
"""Seconds within which a worker is ready; a JVM on a busy machine is the slowest."""

LEAVE = 45.0
"""Seconds within which a worker ends after it was asked to: a spooler may write for 30."""

LONG_LIFE = 300.0
"""Seconds of life from which a slope is judged, or a third of a short run."""

WINDOWS = 24
"""Windows of latency from which their slope is judged: two minutes of the default length."""

P999, MOST = 5.0, 50.0
"""Milliseconds: p99.9 and the longest latency of the calm pair stay below."""


@dataclass
class Incarnation:
    """A worker from its start to its end, with the samples of its resources."""

    name: str
    process: subprocess.Popen
    started: float
    said: queue.SimpleQueue = field(default_factory=queue.SimpleQueue)
    last: dict[str, Any] = field(default_factory=dict)
    windows: list[dict[str, float]] = field(default_factory=list)
    latency: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    gauges: list[dict[str, float]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    leaving: bool = False
    problem: str = ""

    def order(self, order: str, **more: Any) -> None:
        # A worker that has just failed is found elsewhere.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps({"order": order, **more}) + "\n")
            self.process.stdin.flush()

    def read(self) -> None:
        """Take what the worker says until it ends, in a thread."""
        for line in self.process.stdout:
            said = json.loads(line)
            match said.pop("kind"):
                case "report" | "end" as kind:
                    self.last = said
                    if kind == "report" and said["gauges"]:
                        self.gauges.append({"time": time.monotonic(), **said["gauges"]})
                case "window":
                    self.windows.append({"time": time.monotonic(), **said})
                case "latency":
                    self.latency = said
                case word:
                    self.said.put((word, said))
        code = self.process.wait()
        if not self.leaving:
            self.problem = f"{self.name}: unexpected end with {code}"
        self.ended.set()
        self.said.put(("ended", {}))

    def wait(self, word: str, seconds: float) -> dict[str, Any]:
        """Wait for a word of the worker."""
        try:
            found, said = self.said.get(timeout=seconds)
        except queue.Empty:
            found, said = "nothing", {}
        if found != word:
            raise AssertionError(f"{self.name}: {found} within {seconds:g} s, and not {word}")
        return said

    def parts(self) -> dict[str, list[int]]:
        """The processes to sample by name; only Spark has more than one."""
        if self.name != "spark":
            return {self.name: [self.process.pid]}
        others = [pid for pid in crash.pids([self.process.pid]) if pid != self.process.pid]
        jvms = set(crash.pids([self.process.pid], "org.apache.spark"))
        return {
            "spark driver": [self.process.pid],
            "spark JVM": [pid for pid in others if pid in jvms],
            "spark workers": [pid for pid in others if pid not in jvms],
        }

    def sample(self) -> None:
        for part, pids in self.parts().items():
            found = collections.Counter()
            for pid in pids:
                found.update(figures.held(pid))
            if found:
                self.samples.setdefault(part, []).append({"time": time.monotonic(), **found})

    def end(self) -> None:
        """Kill the processes that are still there, without an end of the worker's own."""
        self.leaving = True
        crash.end_all(crash.pids([self.process.pid]))
        self.ended.wait(LEAVE)


class Stage:
    """All workers of a run: starts, restarts, samples and ends them."""

    def __init__(self, out: Path, options: argparse.Namespace) -> None:
        self.out = out
        self.options = options
        self.settings: dict[str, Any] = {
            "window": options.window,
            "rate": options.rate,
            "nice": options.nice,
            "folder": str(out / "spool"),
            "beacon": free_port(socket.SOCK_DGRAM),
        }
        self.all: list[Incarnation] = []
        self.now: dict[str, Incarnation] = {}
        self.kinds: dict[str, tuple[str, dict[str, Any]]] = {}
        self.problems: list[str] = []
        self.restarts: list[dict[str, Any]] = []
        self.machine: list[dict[str, float]] = []
        self.stopped = threading.Event()

    def launch(self, name: str, role: str, **more: Any) -> Incarnation:
        """Start a worker, without waiting for it."""
        self.kinds[name] = (role, more)
        settings = json.dumps({**self.settings, "name": name, **more})
        with (self.out / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(WORKERS), role, settings],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        worker = Incarnation(name, process, time.monotonic())
        self.all.append(worker)
        self.now[name] = worker
        threading.Thread(target=worker.read, daemon=True).start()
        return worker

    def start(self) -> None:
        """Start all workers; the calm pair last, so that its figures are those of a stage that is set."""
        self.settings["router"] = self.launch("router", "hub").wait("ready", START)["endpoint"]
        ends = {name: f"tcp/127.0.0.1:{free_port()}" for name in ("peer_a", "peer_b")}
        first = [
            self.launch("spool", "spooler"),
            self.launch("second_router", "second_router"),
            self.launch("anchor", "anchor"),
            self.launch("peer_a", "peer", other="peer_b", own=ends["peer_a"], partners=[]),
            self.launch("peer_b", "peer", other="peer_a", own=ends["peer_b"], partners=[ends["peer_a"]]),
            self.launch("zre_1", "node"),
            self.launch("zre_2", "node"),
        ]
        self.ready(first)
        more = [("aio", "looped"), ("reader", "reader"), ("wanderer", "wanderer"), ("churn", "churn")]
        if self.options.spark:
            more.append(("spark", "spark"))
        self.ready([self.launch(name, role) for name, role in more])
        for name in ("peer_a", "peer_b"):
            self.now[name].order("resume")
        self.stopped.wait(self.options.settle)
        self.launch("calm_subscriber", "calm_subscriber").wait("ready", START)
        self.launch("calm_publisher", "calm_publisher").wait("ready", START)

    @staticmethod
    def ready(workers: list[Incarnation]) -> None:
        for worker in workers:
            worker.wait("ready", START)

    def restart(self, name: str, *, politely: bool) -> None:
        """End a worker and start it again. Queries of its partner have no answer meanwhile."""
        role, more = self.kinds[name]
        partner = self.now.get(more.get("other", ""))
        if partner:
            partner.order("excuse")
            partner.wait("excused", START)
        if politely:
            self.leave(self.now[name])
        else:
            self.now[name].end()
        worker = self.launch(name, role, **more)
        worker.wait("ready", START)
        if partner:
            partner.order("resume")
            worker.order("resume")
        self.restarts.append({"time": time.monotonic(), "name": name, "politely": politely})

    def leave(self, worker: Incarnation, **more: Any) -> None:
        """Ask a worker to end, and wait for it."""
        worker.leaving = True
        worker.order("end", **more)
        if not worker.ended.wait(LEAVE):
            self.problems.append(f"{worker.name}: still running {LEAVE:g} s after it was asked to end")
            worker.end()
        elif worker.process.returncode:
            self.problems.append(f"{worker.name}: failed with {worker.process.returncode} at its end")

    def sampling(self) -> None:
        """Sample all workers and the machine each few seconds, in a thread."""
        before, total = self.seconds(), figures.busy()
        while not self.stopped.wait(self.options.window):
            for worker in list(self.now.values()):
                if not worker.ended.is_set():
                    worker.sample()
            after, later = self.seconds(), figures.busy()
            # Parts that have begun or ended meanwhile count as other programs; they are few.
            own = sum(max(0.0, after[part] - before[part]) for part in after.keys() & before.keys())
            self.machine.append({"time": time.monotonic(), "own": own, "others": later - total - own})
            before, total = after, later

    def seconds(self) -> dict[tuple[int, str], float]:
        """The seconds of processor of each part of each worker, as sampled last."""
        return {
            (worker.process.pid, part): samples[-1]["seconds"]
            for worker in list(self.now.values())
            for part, samples in list(worker.samples.items())
        }

    def run(self) -> None:
        """Let the workers run for the time, and restart some."""
        threading.Thread(target=self.sampling, daemon=True).start()
        victims = ["peer_a", "aio", "second_router", "zre_2", "spool", "churn", "peer_b"]
        # An odd number of victims in turns, so that each is killed and asked in turns as well.
        orders = zip(itertools.cycle(victims), itertools.cycle([False, True]), strict=False)
        end = time.monotonic() + self.options.seconds
        due = time.monotonic() + self.options.restart
        tell = 12 * self.options.window
        told = time.monotonic() + tell
        while (now := time.monotonic()) < end:
            self.broken()
            if now >= told:
                told += tell
                print(self.progress(), flush=True)
            if now >= due and now + self.options.restart / 2 < end:
                name, politely = next(orders)
                self.restart(name, politely=politely)
                due += self.options.restart
            self.stopped.wait(0.2)

    def summed(self, kind: str) -> collections.Counter[str]:
        """The ``counts`` or ``faults`` of all workers in all their lives."""
        found: collections.Counter[str] = collections.Counter()
        for worker in self.all:
            found.update({f"{worker.name}: {name}": n for name, n in worker.last.get(kind, {}).items()})
        return found

    def progress(self) -> str:
        """Describe the run up to now: a run that has already failed need not be waited for."""
        windows = self.now["calm_subscriber"].windows
        load = statistics.fmean(each["own"] + each["others"] for each in self.machine[1:] or self.machine)
        parts = [
            f"{len(windows) * self.options.window / 60:.0f} min",
            f"{sum(each['count'] for each in windows):,.0f} messages",
            f"p99.9 of the worst window {max((each['p99.9'] for each in windows), default=0):.2f} ms",
            f"max {max((each['max'] for each in windows), default=0):.2f} ms",
            f"processors {100 * load / (self.options.window * os.cpu_count()):.0f} %",
            f"{len(self.restarts)} restarts",
            f"faults {dict(+self.summed('faults')) or 'none'}",
        ]
        return ", ".join(parts)

    def broken(self) -> None:
        """Raise if a worker has ended by itself."""
        found = [worker.problem for worker in self.all if worker.problem]
        if found:
            raise AssertionError("; ".join(found))

    def finish(self) -> None:
        """End all workers politely: the calm pair first, the router last."""
        publisher = self.now["calm_publisher"]
        self.leave(publisher)
        sent = publisher.last["counts"]["sent"]
        self.stopped.set()
        self.leave(self.now["calm_subscriber"], expected=sent)
        # A query to a peer that has left has no answer.
        self.now["peer_b"].order("excuse")
        # Each leaves after those that depend on it.
        last = ["zre_1", "zre_2", "peer_a", "peer_b", "anchor", "second_router", "spool", "router"]
        for name in sorted(self.now, key=lambda name: last.index(name) if name in last else -1):
            if not self.now[name].ended.is_set():
                self.leave(self.now[name])
        self.broken()

    def end(self) -> None:
        """Kill all that is left."""
        self.stopped.set()
        for worker in self.all:
            if not worker.ended.is_set():
                worker.end()


# ---- Judging ----


def calm_rows(stage: Stage) -> list[Verdict]:
    """Latency and losses of the calm pair."""
    subscriber, publisher = stage.now["calm_subscriber"], stage.now["calm_publisher"]
    latency, sent = subscriber.latency, publisher.last["counts"]["sent"]
    rows = [
        Verdict("calm pair: messages sent", sent),
        Verdict.most("calm pair: messages sent and not received, or twice", abs(sent - latency["count"]), 0),
        Verdict("calm pair: p50 (ms)", latency["p50"]),
        Verdict("calm pair: p99 (ms)", latency["p99"]),
    ]
    if not stage.options.timed:
        return rows
    rows += [
        Verdict.below("calm pair: p99.9 (ms)", latency["p99.9"], P999),
        Verdict.below("calm pair: max (ms)", latency["max"], MOST),
        Verdict("calm pair: publisher behind its schedule at most (ms)", publisher.last["gauges"]["late_ms"]),
    ]
    windows = subscriber.windows
    if len(windows) >= WINDOWS:
        trend = Trend.of([(window["time"], window["p99"]) for window in windows])
        rows.append(figures.judged("calm pair, p99", "latency", trend))
    return rows


def long_life(stage: Stage) -> float:
    return min(LONG_LIFE, stage.options.seconds / 3)


def resource_rows(stage: Stage) -> list[Verdict]:
    """The steepest slope of each resource of each worker, over its long lives."""
    found: dict[tuple[str, str], list[Verdict]] = {}
    for worker in stage.all:
        for part, samples in worker.samples.items():
            # Pools of a JVM grow for minutes, whatever the length of the run.
            generous = part.startswith("spark ")
            least = LONG_LIFE if generous else long_life(stage)
            if samples[-1]["time"] - samples[0]["time"] < least:
                continue
            for kind in ("memory", "threads", "descriptors"):
                trend = Trend.of([(sample["time"], sample[kind]) for sample in samples])
                row = figures.judged(part, kind, trend, generous=generous)
                found.setdefault((part, kind), []).append(row)
    # The one that fails by most, if any does.
    return [max(rows, key=lambda row: (not row.holds, row.value)) for rows in found.values()]


def machine_rows(stage: Stage) -> list[Verdict]:
    """The load: a latency that other programs have caused says nothing of a router."""
    scale = 100 / (stage.options.window * os.cpu_count())
    return [
        Verdict(f"processors: {what} (%)", scale * find(each[name] for each in stage.machine[1:]))
        for what, name, find in (
            ("this run, on average", "own", statistics.fmean),
            ("other programs, on average", "others", statistics.fmean),
            ("other programs, at most", "others", max),
        )
    ]


def fault_rows(stage: Stage) -> list[Verdict]:
    """Faults of all workers, which have to be zero, and the counts that show that they have worked."""
    faults, counts = stage.summed("faults"), stage.summed("counts")
    rows = [Verdict.most(name, count, 0) for name, count in sorted(faults.items()) if count]
    rows.append(Verdict.most("faults of all workers", faults.total(), 0))
    informative = [Verdict(name, count) for name, count in sorted(counts.items())]
    return [*rows, *informative]


def judge(stage: Stage) -> list[Verdict]:
    """All rows of the table; of a run that has failed those that it has got to."""
    rows = []
    if "calm_subscriber" in stage.now and stage.now["calm_subscriber"].latency:
        rows += calm_rows(stage)
    if len(stage.machine) > 1:
        rows += machine_rows(stage)
    rows += fault_rows(stage)
    rows.append(Verdict("restarts", len(stage.restarts)))
    router = stage.now["router"].gauges
    if not router:
        return rows
    rows += [
        Verdict(f"router: {name} at most", max(each[name] for each in router))
        for name in router[0]
        if name != "time"
    ]
    if stage.options.timed:
        for kind in ("links", "queries.open"):
            rows.append(
                figures.judged("router", kind, Trend.of([(each["time"], each[kind]) for each in router]))
            )
        rows += resource_rows(stage)
    return rows


def written(stage: Stage, rows: list[Verdict], problems: list[str]) -> None:
    """Write all samples as JSON."""
    workers = [
        {
            "name": worker.name,
            "pid": worker.process.pid,
            "started": worker.started,
            "last": worker.last,
            "samples": worker.samples,
            "windows": worker.windows,
            "gauges": worker.gauges,
            "latency": worker.latency,
        }
        for worker in stage.all
    ]
    found = {
        "options": {name: str(value) for name, value in vars(stage.options).items()},
        "verdicts": [vars(row) for row in rows],
        "problems": problems,
        "restarts": stage.restarts,
        "machine": stage.machine,
        "workers": workers,
    }
    (stage.out / "soak.json").write_text(json.dumps(found, indent=1))


def logs(stage: Stage) -> str:
    """The last lines of each log that has some."""
    found = []
    for log in sorted(stage.out.glob("*.log")):
        lines = log.read_text(errors="replace").splitlines()[-8:]
        if lines:
            found.append("\n".join([f"-- {log.name}", *lines]))
    return "\n".join(found)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--minutes", type=float, default=60, help="length of the run behind its start (%(default)s)")
    add("--out", type=Path, default=Path("soak-out"), help="folder of samples and logs (%(default)s)")
    add(
        "--nice",
        type=int,
        default=0,
        help="added to the niceness of router and calm pair; below 0 as root only",
    )
    add("--rate", type=float, default=1000, help="messages a second of the calm pair (%(default)s)")
    add("--window", type=float, default=5, help="seconds between two samples (%(default)s)")
    add("--restart", type=float, default=120, help="seconds between two restarts (%(default)s)")
    add("--settle", type=float, default=10, help="seconds before the calm pair starts (%(default)s)")
    add("--without-spark", dest="spark", action="store_false", help="leave Spark out, which needs a JDK")
    add(
        "--untimed",
        dest="timed",
        action="store_false",
        help="judge no latency and no slope: for seconds on a busy machine, where both say nothing",
    )
    found = parser.parse_args()
    found.seconds = 60 * found.minutes
    return found


def main() -> int:
    """Run from the command line."""
    chosen = options()
    out = chosen.out.absolute()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    stage = Stage(out, chosen)
    problems = stage.problems
    # A service manager ends a program by SIGTERM; workers have sessions of their own and would stay.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        stage.start()
        stage.run()
        stage.finish()
    except AssertionError as error:
        problems.append(str(error))
    finally:
        stage.end()
        rows = judge(stage)
        written(stage, rows, problems)
    shutil.rmtree(stage.settings["folder"], ignore_errors=True)
    print(figures.table(rows))
    failed = [row.measure for row in rows if not row.holds]
    for problem in [*problems, *(f"exceeded: {name}" for name in failed)]:
        print(f"FAILED: {problem}")
    if problems or failed:
        print(logs(stage))
        return 1
    print(f"passed; samples are in {os.path.relpath(out)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
