"""Router of Eclipse Zenoh with its storage manager and its REST plug-in: the other side of two areas.

The package of Python has no plug-ins, so a program with both linked in is built by cargo: minutes the first
time. A machine that cannot build it measures zwire alone, and the rows say why.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from python.cargo import BUILD_SECONDS, ROOT, CargoError, output
from python.children import END_SECONDS, START_SECONDS, ChildError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from python.rows import Row

PEER = "zenohd's parts"
SOURCE = ROOT / "benches/rust/zenohd/Cargo.toml"
# Apart from the workspace, whose lock file names other versions of many crates.
TARGET = ROOT / "target/zenohd"


def program(smoke: bool, *rows: Row) -> str | None:
    """Build the program, and return its path; without it, the rows say why. A run of seconds does without."""
    if smoke:
        return None
    command = ["cargo", "build", "--release", "--locked", "--manifest-path", str(SOURCE)]
    try:
        output([*command, "--target-dir", str(TARGET)], BUILD_SECONDS)
    except (CargoError, OSError, subprocess.TimeoutExpired) as error:
        for row in rows:
            row.note = f"{PEER} cannot be built here: {str(error).splitlines()[-1]}"
        return None
    return str(TARGET / "release/zwire-bench-zenohd")


class Router:
    """The program, running."""

    def __init__(self, program: str, settings: Mapping[str, Any]) -> None:
        self._process = subprocess.Popen(
            [program, json.dumps(settings)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], START_SECONDS)
        if not ready or self._process.stdout.readline() != b"ready\n":
            self.end()
            raise ChildError(f"{PEER} did not start ({self._process.returncode})")

    def cpu(self) -> float:
        """Processor seconds that its threads have used."""
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak(self) -> int:
        """Greatest memory so far, in octets."""
        line = next(line for line in self._proc("status").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def _proc(self, name: str) -> str:
        return Path(f"/proc/{self._process.pid}/{name}").read_text(encoding="utf-8")

    def end(self) -> None:
        """End it by the end of its input, then by a signal."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_SECONDS)
        self._process.stdout.close()


@contextlib.contextmanager
def running(program: str, **settings: Any) -> Iterator[Router]:
    """Run it with these settings at the root of its configuration."""
    tree: dict[str, Any] = {"mode": "router", "scouting": {"multicast": {"enabled": False}}}
    router = Router(program, tree | settings)
    try:
        yield router
    finally:
        router.end()
