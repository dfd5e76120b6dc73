"""Runs the stages of a test run: ``python3 .ci/stages.py test``, or ``make test``.

A stage is a target of the Makefile. A run has lanes: the stages of a lane run one after another, and lanes
run side by side. A lane that has ended takes from the shared stages of the run. The output of the first lane
passes through; other stages print theirs when they end. After a failure no further stage begins, unless
``KEEP_GOING=1`` is set. A table of seconds comes last, also after a failure or an interrupt.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass

# Lanes of each run. CONTRIBUTING.md says which tests belong to which run.
# In `test`, the second lane compiles and checks at a low priority while tests of the first wait for peers.
# The measures of `house` are among the Python tests.
RUNS: dict[str, tuple[tuple[str, ...], ...]] = {
    "quick": (("ext", "test-py-quick"), ("house", "lint-quick", "test-rust-quick")),
    "test": (
        (
            "setup",
            "test-network",
            "test-interop",
            "test-zre",
            "test-spark",
        ),
        (
            "build-lib",
            "ext",
            "build-rust",
            "test-rust",
        ),
    ),
    "test-long": (
        (
            "setup",
            "ext",
            "deny",
            "reproducible",
            "features",
            "elsewhere",
            "docs",
            "bench-smoke",
            "test-rust-long",
            "test-py-long",
            "test-interop-long",
            "test-network-long",
            "test-zre-long",
            "test-spark-long",
            "fuzz-long",
        ),
    ),
}

# Stages that no lane of a run owns. The longest comes first: the other lane takes the rest beside it.
SHARED: dict[str, tuple[str, ...]] = {"test": ("test-py", "docs-check", "lint-py", "lint-rust")}

# Stages of other lanes that have to end first.
AFTER = {"ext": ("setup",), "test-network": ("ext",), "test-py-quick": ("ext",)}

# Stages that only compute. The processor is given to tests first, which have deadlines.
PATIENT = {"build-rust", "lint-rust", "lint-py", "docs-check"}


@dataclass
class Stage:
    """Target of the Makefile, with the time and result of its run."""

    name: str
    seconds: float = 0.0
    cpu: float = 0.0
    result: str = "not run"


class Run:
    """Stages of a run, which lanes take from their beginning to their end."""

    def __init__(self, name: str, make: str, *, keep_going: bool) -> None:
        self.lanes = [[Stage(stage) for stage in lane] for lane in RUNS[name]]
        shared = [Stage(stage) for stage in SHARED.get(name, ())]
        self.stages = [*itertools.chain(*self.lanes), *shared]
        # An iterator gives each stage to one lane.
        self.shared = iter(shared)
        self.make = make
        self.keep_going = keep_going
        self.ended = {stage.name: threading.Event() for stage in self.stages}
        self.stopped = threading.Event()
        self.built = False

    def start(self) -> None:
        """Run all lanes until their end."""
        threads = [threading.Thread(target=self.lane, args=(number,)) for number in range(len(self.lanes))]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            # The processes of the stages have got the same signal.
            self.stopped.set()
            for thread in threads:
                thread.join()
            raise

    def lane(self, number: int) -> None:
        """Run the stages of a lane, then shared ones."""
        for stage in itertools.chain(self.lanes[number], self.shared):
            for name in AFTER.get(stage.name, ()):
                if name in self.ended:
                    self.ended[name].wait()
            if not self.stopped.is_set() and not self.stage(stage, quiet=number > 0) and not self.keep_going:
                self.stopped.set()
            self.ended[stage.name].set()

    def stage(self, stage: Stage, *, quiet: bool) -> bool:
        """Run a stage and record its times; return whether it passed."""
        command = [self.make, "--no-print-directory", stage.name]
        if self.built:
            command.append("EXT=built")
        if stage.name in PATIENT:
            command = ["nice", *command]
        with tempfile.TemporaryFile() if quiet else contextlib.nullcontext() as output:
            if output is None:
                print(f"\n== {stage.name}", flush=True)
            started = time.monotonic()
            process = subprocess.Popen(command, stdout=output, stderr=output)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            stage.seconds, stage.cpu = time.monotonic() - started, usage.ru_utime + usage.ru_stime
            stage.result = "passed" if status == 0 else f"FAILED ({process.returncode})"
            if output is not None:
                output.seek(0)
                text = output.read().decode(errors="replace")
                print(f"\n== {stage.name}\n{text}== {stage.name}: {stage.result}", flush=True)
        self.built = self.built or (stage.name == "ext" and status == 0)
        return status == 0


def table(stages: list[Stage], seconds: float) -> str:
    """Return a table of the stages with their seconds, and the time of the whole run."""
    whole = Stage("total", seconds, sum(stage.cpu for stage in stages), "")
    width = max(len(stage.name) for stage in [whole, *stages])
    lines = [f"{'stage':<{width}}  seconds  processor  result"]
    lines += [
        f"{stage.name:<{width}}  {stage.seconds:7.1f}  {stage.cpu:9.1f}  {stage.result}".rstrip()
        for stage in [*stages, whole]
    ]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run the stages of the named run."""
    if len(arguments) != 1 or arguments[0] not in RUNS:
        print(f"usage: stages.py {'|'.join(RUNS)}", file=sys.stderr)
        return 2
    keep_going = os.environ.get("KEEP_GOING") == "1"
    run = Run(arguments[0], os.environ.get("MAKE", "make"), keep_going=keep_going)
    started = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt):
        run.start()
    print(f"\n{table(run.stages, time.monotonic() - started)}", flush=True)
    if any(stage.result != "passed" for stage in run.stages):
        failed = [stage.name for stage in run.stages if stage.result.startswith("FAILED")]
        print(f"== FAILED: {', '.join(failed) or 'interrupted'}", flush=True)
        return 1
    print("== all stages passed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
