"""Benchmarks in Rust: built by cargo, and run for what they print."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# A first build of a benchmark and all that it uses, optimized, on two cores.
BUILD_SECONDS = 1200.0


class CargoError(Exception):
    """A Rust benchmark did not build or run."""


def output(command: list[str], seconds: float) -> str:
    """Run a command, and return what it prints."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode:
        raise CargoError(f"{' '.join(command[:3])} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def build(cargo: str, bench: str, *verb: str) -> str:
    """Build a benchmark, and return the path of the program."""
    command = [cargo, *verb, "--locked", "--bench", bench, "--no-run", "--message-format=json"]
    messages = (json.loads(line) for line in output(command, BUILD_SECONDS).splitlines() if line[:1] == "{")
    programs = [m["executable"] for m in messages if m.get("executable") and m["target"]["name"] == bench]
    if not programs:
        raise CargoError(f"cargo built no benchmark {bench}")
    return programs[-1]
