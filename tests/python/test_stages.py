"""Lanes of a test run: order, priority of failures, and the table at the end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# In place of make: notes each target with its arguments, and fails where it is told to.
MAKE = """#!/bin/sh
echo "begin $*" >> "$NOTES"
sleep 0.05
echo "end $2" >> "$NOTES"
[ "$2" != "$FAILS" ]
"""


@pytest.fixture
def stages(tmp_path):
    make, notes = tmp_path / "make", tmp_path / "notes"
    make.write_text(MAKE)
    make.chmod(0o755)

    def run(name, **settings):
        result = subprocess.run(
            [sys.executable, ROOT / ".ci" / "stages.py", name],
            env={
                **os.environ,
                "MAKE": str(make),
                "NOTES": str(notes),
                "KEEP_GOING": "",
                "FAILS": "",
                **settings,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return result, notes.read_text().splitlines()

    return run


def test_stages_wait_for_those_that_they_need(stages):
    result, notes = stages("test")
    assert result.returncode == 0, result.stdout
    assert result.stdout.endswith("== all stages passed\n")
    ended = [note.removeprefix("end ") for note in notes if note.startswith("end ")]
    assert len(ended) == len(set(ended)) > 10
    begun = [note.split()[2:] for note in notes if note.startswith("begin ")]
    assert notes.index("end setup") < notes.index("begin --no-print-directory ext")
    assert notes.index("begin --no-print-directory build-lib") < notes.index("end setup")
    for name, *given in begun:
        before = name in {"setup", "build-lib", "ext"}
        assert given == ([] if before else ["EXT=built"]), name


def test_nothing_begins_after_a_failure(stages):
    result, notes = stages("test", FAILS="ext")
    assert result.returncode == 1
    assert result.stdout.endswith("== FAILED: ext\n")
    assert not [note for note in notes if "test-" in note or "lint" in note]


def test_all_stages_run_where_failures_are_collected(stages):
    result, notes = stages("test", FAILS="lint-py", KEEP_GOING="1")
    assert result.returncode == 1
    assert result.stdout.endswith("== FAILED: lint-py\n")
    assert "end docs-check" in notes
    assert "end test-spark" in notes


def test_an_unknown_run_is_refused(stages, tmp_path):
    (tmp_path / "notes").touch()
    result, notes = stages("some")
    assert (result.returncode, notes) == (2, [])
    assert result.stderr.startswith("usage: stages.py quick|test|test-long")
