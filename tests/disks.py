"""Programs on a small disk that gets full for real: a file system of memory in a namespace of its own."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@functools.cache
def _way() -> tuple[tuple[str, ...], str]:
    """The command that gives a process file systems of its own, or else the reason why there is none."""
    if not shutil.which("unshare"):
        return (), "a small disk needs unshare (apt-get install util-linux)"
    for way in (("unshare", "--mount"), ("unshare", "--mount", "--user", "--map-root-user")):
        command = [*way, "mount", "-t", "tmpfs", "-o", "size=64k", "none", "/mnt"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        if done.returncode == 0:
            return way, ""
    return (), f"the kernel gives us no file system of our own: {done.stderr.strip()}"


def run_on_small_disk(program: str, path: Path, size: str) -> None:
    """Run a program in Python with a disk of a size, such as ``600k``, at a path, which is its argument."""
    way, reason = _way()
    if reason:
        pytest.skip(reason)
    mount = f'mount -t tmpfs -o size={size} none "$1" && exec "${{@:2}}"'
    done = subprocess.run(
        [*way, "bash", "-c", mount, "bash", str(path), sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        timeout=28,
        check=False,
    )
    assert done.returncode == 0, done.stderr
