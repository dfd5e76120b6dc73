"""Guards of the binding: conversion only, no clock of its own. `make house` measures its circles of modules.

Each guard also proves that it looked at something: a guard over an empty tree would pass for ever.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUST = ROOT / "rust"
BINDING = RUST / "zwire-py" / "src"

TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{.*\Z", re.DOTALL)
COMMENT = re.compile(r"//.*")
CLOCK = re.compile(r"\b(?:SystemTime|Instant)::now\b|\bfn \w+ = Instant::now|\(Instant::now\)")
THREAD = re.compile(r"\bthread::(?:spawn|Builder)\b")

# Files that may read a clock, relative to `rust/`.
CLOCKS = {
    "zwire-engine/src/rt/clock.rs": "the readings behind `Now`; everything else asks this module",
}
# Files of the binding that may start a thread, relative to its `src/`: all of these threads call Python.
THREADS = {
    "loops/waking.rs": "thread that wakes event loops through `call_soon_threadsafe`",
    "log.rs": "thread that hands log records to `logging`",
}
# Files of the binding that do not use PyO3, relative to its `src/`.
WITHOUT_PYTHON = {
    "capture/mod.rs": "list of modules",
    "loops/mod.rs": "list of modules",
    "zenoh/mod.rs": "list of modules",
    "zmtp/mod.rs": "list of modules",
    "zre/mod.rs": "list of modules",
}


def production(path: Path) -> str:
    """Return the text of a Rust file without comments and tests."""
    return COMMENT.sub("", TESTS.sub("", path.read_text()))


def sources() -> list[Path]:
    """Return the Rust files of all crates of the product, except for files with tests only."""
    files = [path for crate in RUST.glob("zwire-*") for path in (crate / "src").rglob("*.rs")]
    tests = {"tests.rs", "testing.rs"}
    return sorted(path for path in files if path.name not in tests and "tests" not in path.parts)


def hits(pattern: re.Pattern[str], root: Path, files: list[Path]) -> dict[str, int]:
    found = {path.relative_to(root).as_posix(): len(pattern.findall(production(path))) for path in files}
    return {name: count for name, count in found.items() if count}


def binding() -> list[Path]:
    return [path for path in sources() if path.is_relative_to(BINDING)]


def test_clocks_are_read_in_one_file():
    files = sources()
    assert len({path.relative_to(RUST).parts[0] for path in files}) >= 5, "the guard has not found the crates"
    assert sorted(hits(CLOCK, RUST, files)) == sorted(CLOCKS)


def test_the_binding_starts_threads_only_to_call_python():
    assert sorted(hits(THREAD, BINDING, binding())) == sorted(THREADS)


def test_the_binding_names_no_clock():
    files = binding()
    assert len(files) > 50, "the guard has not found the binding"
    assert hits(re.compile(r"\bSystemTime\b|\bInstant::now\b"), BINDING, files) == {}


def test_every_file_of_the_binding_is_about_python():
    files = binding()
    assert len(files) > 50, "the guard has not found the binding"
    without = {path.relative_to(BINDING).as_posix() for path in files if "pyo3" not in production(path)}
    assert without == set(WITHOUT_PYTHON)


def test_errors_are_translated_without_a_wildcard():
    text = production(BINDING / "errors.rs")
    enums = re.findall(r"\b(\w*(?:Error|Reason))::\w+", text)
    assert len(set(enums)) > 8, "the guard has not found the conversion"
    assert re.findall(r"[|\s]_ =>", text) == []
    # A wildcard of another kind: the compiler demands one for an enum that may grow.
    growing = re.compile(r"#\[non_exhaustive\]\s*(?:#\[[^\]]*\]\s*)*pub enum (\w*(?:Error|Reason))\b")
    assert [name for path in sources() for name in growing.findall(production(path))] == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (CLOCK, "let now = std::time::Instant::now();"),
        (CLOCK, "tokio::time::Instant::now() + LIMIT"),
        (CLOCK, "SystemTime::now().duration_since(UNIX_EPOCH)"),
        (THREAD, "std::thread::spawn(move || run())"),
        (THREAD, "thread::Builder::new()"),
    ],
)
def test_the_patterns_see_what_they_forbid(pattern, text):
    assert pattern.search(text)
    assert not pattern.search(COMMENT.sub("", f"// {text}"))
