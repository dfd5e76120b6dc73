"""Builds the wheel twice and compares the bytes: ``python .ci/reproducible.py BIN-OF-VENV``.

Each build compiles a copy of the working tree in a folder of its own, with its own target folder. The paths
have different lengths. On a difference, the first differing member and its offset are printed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def difference(first: Path, second: Path) -> str | None:
    """Return a description of the first difference of two wheels; None if both have the same bytes."""
    if first.read_bytes() == second.read_bytes():
        return None
    with zipfile.ZipFile(first) as one, zipfile.ZipFile(second) as other:
        for left, right in zip_longest(one.infolist(), other.infolist()):
            if left is None or right is None or left.filename != right.filename:
                names = [member.filename if member else "no member" for member in (left, right)]
                return f"the wheels list {names[0]} and {names[1]} at the same position"
            a, b = one.read(left), other.read(right)
            if a != b:
                at = next(i for i, (x, y) in enumerate(zip_longest(a, b)) if x != y)
                near = [content[max(0, at - 32) : at + 32] for content in (a, b)]
                return f"{left.filename} differs at offset {at:#x}: {near[0]!r} and {near[1]!r}"
            if (left.date_time, left.external_attr) != (right.date_time, right.external_attr):
                return f"{left.filename} differs in its time or permissions"
    return "the wheels differ outside of their members"


def copy(to: Path) -> None:
    """Copy the files of the working tree that git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    for name in listed.decode().split("\0"):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def build(folder: Path, target: Path, bin_of_venv: str) -> Path:
    """Return the wheel that is built from a copy of the working tree in a folder."""
    copy(folder)
    subprocess.run([".ci/wheel", bin_of_venv, folder / "dist", target], cwd=folder, check=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def main(arguments: list[str]) -> int:
    """Build both wheels and print whether they have the same bytes."""
    if len(arguments) != 1:
        print("usage: reproducible.py BIN-OF-VENV", file=sys.stderr)
        return 2
    # The copies are no git repositories, so .ci/wheel cannot ask git for the time.
    log = ["git", "log", "-1", "--format=%ct"]
    commit = subprocess.run(log, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    os.environ.setdefault("SOURCE_DATE_EPOCH", commit)
    with tempfile.TemporaryDirectory(prefix="zwire-") as scratch:
        print("== building the first wheel", flush=True)
        first = build(Path(scratch, "first"), Path(scratch, "first", "target"), arguments[0])
        print("== building the second wheel", flush=True)
        second = build(Path(scratch, "another-folder", "second"), Path(scratch, "elsewhere"), arguments[0])
        found = difference(first, second)
        digest = sha256(first.read_bytes()).hexdigest()
        print(f"NOT reproducible: {found}" if found else f"reproducible: {first.name}, SHA-256 {digest}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
