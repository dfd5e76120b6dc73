"""``.ci/progress.py``, which tells how far a build is."""

import os
import subprocess
import sys

import pytest

import snippets

SCRIPT = snippets.ROOT / ".ci" / "progress.py"

BUILD = """
import sys, time
for name in ("one", "two", "zwire-py"):
    print(f"   Compiling {name} v1.0.0", file=sys.stderr, flush=True)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def cargo(tmp_path):
    """A cargo that knows three crates, one of them twice."""
    program = tmp_path / "cargo"
    program.write_text("#!/bin/sh\nprintf 'one v1\\ntwo v1\\none v1 (*)\\nzwire-py v1\\n'\n")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}


def run(cargo, *command):
    return subprocess.run(
        [sys.executable, SCRIPT, *command],
        cwd=snippets.ROOT,
        env=cargo,
        capture_output=True,
        text=True,
        timeout=25,
        check=False,
    )


def test_a_build_says_what_it_has_compiled(cargo):
    done = run(cargo, sys.executable, "-c", BUILD, "0")
    assert done.returncode == 0
    assert done.stderr.startswith("   compiled 3 crates in ")
    assert done.stdout == ""


def test_a_failed_build_shows_its_output(cargo):
    done = run(cargo, sys.executable, "-c", BUILD, "7")
    assert done.returncode == 7
    assert "Compiling two v1.0.0" in done.stderr


def test_nothing_to_build_says_nothing(cargo):
    done = run(cargo, sys.executable, "-c", "")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_lines_say_how_far_a_build_is():
    sys.path.insert(0, str(SCRIPT.parent))
    import progress

    assert progress.line(0, 3, "", 2) == "   0:02  reading what is built already"
    assert progress.line(2, 3, "two", 61) == "   1:01  compiling crate 2 of at most 3: two"
    assert progress.line(4, 3, "four", 0) == "   0:00  compiling crate 4: four"
    assert "the last crate" in progress.line(3, 3, "zwire-py", 0)
