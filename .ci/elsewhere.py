"""Checks the code for other systems on this one: ``python3 .ci/elsewhere.py FOLDER [CARGO-COMMAND]``.

A crate is compiled for another target only with the standard library of that target, which is often missing
where zwire is developed. This script copies the crates to FOLDER, once for each system below, and changes
their conditions as if that system compiled them: branches of Linux are left out, and those of the other
system are compiled. It finds modules, names and arguments that one branch has and another one lacks. It does
not find functions that a dependency lacks on the other system, nor errors of a `usize` of 32 bits: the
workflow `wheels` compiles for the targets themselves.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

# Words of conditions and what they become. `any()` never holds, `all()` always does; two sections of a
# manifest may not become the same.
SYSTEMS: dict[str, dict[str, str]] = {
    "like-macos": {
        r'target_os = "(linux|android)"': "any()",
        r'target_os = "macos"': "all()",
    },
    "like-windows": {
        r'target_os = "(linux|android|macos)"': "any()",
        r"\bunix\b": "any(any())",
        r"\bwindows\b": "all()",
    },
}

# A condition of an attribute, a macro or a manifest, up to the end of its line.
CONDITION = re.compile(r"(?:cfg(?:_attr)?!?\s*\().*?(?=\]|$|\{)", re.MULTILINE | re.DOTALL)

# Functions of other systems, and those of this one with the same arguments.
STAND_INS = {
    "std::os::windows::fs::FileExt::seek_read": "std::os::unix::fs::FileExt::read_at",
    "std::os::windows::fs::FileExt::seek_write": "std::os::unix::fs::FileExt::write_at",
}


def rewritten(text: str, words: dict[str, str]) -> str:
    """Return the source with its conditions as another system would decide them."""

    def decide(match: re.Match[str]) -> str:
        condition = match[0]
        for word, value in words.items():
            condition = re.sub(word, value, condition)
        return condition

    text = CONDITION.sub(decide, text)
    for name, stand_in in STAND_INS.items():
        text = text.replace(name, stand_in)
    return text


def copy(root: Path, folder: Path, words: dict[str, str]) -> None:
    """Write the workspace to the folder; equal files keep their times, so that Cargo skips them."""
    wanted = {Path("Cargo.toml"), Path("Cargo.lock")}
    for crate in sorted((root / "rust").glob("zwire-*")):
        wanted |= {path.relative_to(root) for path in crate.rglob("*") if path.is_file()}
    for path in sorted(wanted):
        source, target = root / path, folder / path
        octets = source.read_bytes()
        if path.suffix in {".rs", ".toml"}:
            octets = rewritten(octets.decode(), words).encode()
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != octets:
            target.write_bytes(octets)
    for path in sorted((folder / "rust").rglob("*")):
        if path.is_file() and path.relative_to(folder) not in wanted:
            path.unlink()


def main(arguments: list[str]) -> int:
    """Check each system; the exit code tells whether all of them compile."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    folder, cargo = Path(arguments[0]).absolute(), arguments[1:] or ["cargo"]
    root = Path(__file__).parent.parent
    failed = []
    for system, words in SYSTEMS.items():
        copy(root, folder / system, words)
        command = [*cargo, "check", "--quiet", "--manifest-path", str(folder / system / "Cargo.toml")]
        # The lock file names dependencies of the conditions that were removed.
        command += ["--offline", "--workspace", "--lib"]
        print(f"== {system}", flush=True)
        if subprocess.run(command, cwd=root, check=False).returncode:
            failed.append(system)
    print(f"== FAILED: {', '.join(failed)}" if failed else f"== compiled: {', '.join(SYSTEMS)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
