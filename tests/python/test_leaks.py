"""Sessions that come and go leave nothing behind. ``make leaks`` goes round ten thousand times."""

import subprocess
import sys
from pathlib import Path

import pytest

from leaks import cycles

SCRIPT = Path(cycles.__file__)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="memory, threads and descriptors are read from /proc")
def test_two_hundred_sessions_leave_nothing_behind():
    # In a process of its own: other tests do not affect its memory.
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--cycles", "200"],
        check=False,
        capture_output=True,
        text=True,
        timeout=25,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.endswith("flat\n")


def test_what_grows_is_named():
    flat = cycles.Held(memory=40 << 20, threads=3, descriptors=10)
    assert cycles.problems(flat, flat, 1000) == []
    leaking = cycles.Held(memory=50 << 20, threads=4, descriptors=12)
    assert cycles.problems(flat, leaking, 1000) == [
        "memory has grown by 10486 bytes a cycle",
        "1 more threads",
        "2 more descriptors",
    ]
