"""Runs the stages of a test run one after another: ``python3 .ci/stages.py test``, or ``make test``.

A stage is a target of the Makefile, and its output passes through. The run stops at the first stage that
fails, unless ``KEEP_GOING=1`` is set. A table of seconds comes last, also after a failure or an interrupt.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass

# Stages of each run. CONTRIBUTING.md says which tests belong to which run.
RUNS = {
    "quick": ("house", "lint-quick", "ext", "test-rust-quick", "test-py-quick"),
    "test": (
        "house",
        "setup",
        "ext",
        "lint-rust",
        "lint-py",
        "docs-html",
        "test-rust",
        "test-py",
        "test-interop",
        "test-network",
        "test-zre",
        "test-spark",
        "fuzz-smoke",
        "bench-smoke",
    ),
    "test-long": (
        "ext",
        "deny",
        "features",
        "test-rust-long",
        "test-interop-long",
        "test-spark-long",
        "fuzz-long",
    ),
}


@dataclass
class Stage:
    """Target of the Makefile, with the time and result of its run."""

    name: str
    seconds: float = 0.0
    cpu: float = 0.0
    result: str = "not run"


def processor_seconds() -> float:
    """Return the processor time of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(stage: Stage, make: str, *, built: bool) -> bool:
    """Run a stage and record its times; return whether it passed."""
    print(f"\n== {stage.name}", flush=True)
    # Built once for all stages that need it.
    given = ["EXT=built"] if built else []
    started, before = time.monotonic(), processor_seconds()
    try:
        status = subprocess.run([make, "--no-print-directory", stage.name, *given], check=False).returncode
        stage.result = "passed" if status == 0 else f"FAILED ({status})"
    except KeyboardInterrupt:
        stage.result = "interrupted"
        raise
    finally:
        stage.seconds, stage.cpu = time.monotonic() - started, processor_seconds() - before
    return status == 0


def table(stages: list[Stage]) -> str:
    """Return a table of the stages with their seconds, and the sums."""
    whole = Stage("total", sum(stage.seconds for stage in stages), sum(stage.cpu for stage in stages), "")
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
    stages = [Stage(name) for name in RUNS[arguments[0]]]
    make, keep_going = os.environ.get("MAKE", "make"), os.environ.get("KEEP_GOING") == "1"
    failed: list[str] = []
    built = False
    try:
        for stage in stages:
            if run(stage, make, built=built):
                built = built or stage.name == "ext"
            else:
                failed.append(stage.name)
                if not keep_going:
                    break
    except KeyboardInterrupt:
        failed.append("interrupted")
    print(f"\n{table(stages)}", flush=True)
    if failed:
        print(f"== FAILED: {', '.join(failed)}", flush=True)
        return 1
    print("== all stages passed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
