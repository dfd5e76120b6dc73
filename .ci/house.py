"""Measures of the source tree, with a bound for each: ``python3 .ci/house.py``, or ``make house``.

Reads files only: no build, no import of zwire, nothing but the standard library. Exits with 1 when a figure
exceeds its bound, or its ceiling where `NOT_YET` has one. ``--list ROW`` prints each finding of a row as
``file:line: text``.
"""

from __future__ import annotations

import argparse
import ast
import bisect
import functools
import re
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

N = TypeVar("N")
T = TypeVar("T")

# Rows above their bound today, with the figure that they may not exceed. Lower a ceiling when its figure
# falls, and remove the entry when the figure reaches the bound.
NOT_YET: dict[str, float] = {
    "12": 6,
}

# Rows that are printed and never fail: the sizes are aims, not rules.
PRINTED = {"7a", "7b", "11"}

# Thread-locals of production Rust that pass nothing between functions.
THREAD_LOCALS = {
    "WALL": "cache of the wall clock, read again after a millisecond",
    "SCRATCH": "buffer of a reader, empty between two reads",
    "HOLDS_CORE": "re-entrancy check: a thread that holds a core must not take a second one",
    "CURRENT": "re-entrancy check: a callback must not wait for its own end",
}

# Claims of docs/architecture.md (a fragment of each) and the test in tests/python that fails when one stops
# being true. A claim that the page no longer makes needs no guard.
CLAIMS = (
    ("translates in one place, exhaustively", "test_errors_are_translated_without_a_wildcard"),
    ("wall clock, read once by the driver", "test_clocks_are_read_in_one_file"),
    ("threads other than those that call Python", "test_every_file_of_the_binding_is_about_python"),
    (
        "sockets, clock, files, threads, randomness, Python",
        "test_the_proto_crate_reaches_no_runtime_no_socket_no_randomness_and_no_python",
    ),
    ("anything that a protocol document decides", "test_the_engine_reaches_no_dissector_and_no_python"),
    (
        "sockets, threads, clock, randomness, protocols, Python",
        "test_the_spool_reaches_no_socket_no_randomness_no_protocol_and_no_python",
    ),
    ("a guard imports it in a fresh process", "test_importing_starts_no_thread_and_loads_nothing_heavy"),
    ("a guard reads its imports", "test_only_spark_helpers_and_the_demo_import_spark"),
)

FEATURES = ("tls", "quic", "ws", "yaml", "lz4", "curve")

# Where comments and docstrings are read.
PROSE = ("rust", "python", "tests", "benches", "examples", "docs/_ext", ".ci")
NOT_OURS = {"target", "__pycache__", "corpus", "artifacts", "_build"}

ACTOR = re.compile(r"\b(?:who|whoever|whose|whom|nobody|somebody|anybody|everybody)\b", re.IGNORECASE)
OPENER = re.compile(r"[\s*_(\"]*(?:What|Who|It|They|Those|One|That)\b")

RUST = re.compile(
    r"""(?P<comment> //[^\n]* | /\*(?s:.)*?\*/ )
      | (?P<raw> \b[bc]?r(?P<hashes>\#*)"(?s:.)*?"(?P=hashes) )
      | (?P<text> "(?:\\(?s:.)|[^"\\])*" )
      | (?P<char> '(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^\\'\n])' )""",
    re.VERBOSE,
)
# A string of Python 3.11 cannot contain its own quote, so strings and comments are found without a parser.
PYTHON = re.compile(
    r'''(?P<text> """(?:\\(?s:.)|[^\\])*?""" | \'\'\'(?:\\(?s:.)|[^\\])*?\'\'\'
               | "(?:\\(?s:.)|[^"\\\n])*" | '(?:\\(?s:.)|[^'\\\n])*' )
      | (?P<comment> \#[^\n]* )''',
    re.VERBOSE,
)
NOT_NEWLINE = re.compile(r"[^\n]")
TESTS_ONLY = re.compile(r"#!?\[cfg\((?:test|all\(test\b[^\]]*)\)\]")
ATTRIBUTE = re.compile(r"\s*#\[")
VISIBILITY = r"(?:pub(?:\s*\([^)]*\))?\s+)?"
ITEM = re.compile(
    rf"\s*{VISIBILITY}(?:(?:default|async|unsafe|const|extern(?:\s*\"\s*\")?)\s+)*"
    r"(fn|mod|use|struct|enum|union|trait|impl|type|static|const|macro_rules|extern)\b"
)
TYPE = re.compile(
    rf"^[ \t]*{VISIBILITY}(?:unsafe\s+)?"
    r"(?:(?P<inside>impl|trait)\b(?:\s+(?P<trait>\w+))?|(?:struct|enum|union|type)\s+(?P<name>\w+))"
    r"|(?P<brace>[{}])",
    re.MULTILINE,
)


class NothingToMeasureError(Exception):
    """No files to measure: the figure would be meaningless."""


@dataclass(frozen=True)
class Finding:
    """Line of a file that a row counts."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text.strip()}"


@dataclass
class Row:
    """Row of the table: a measure, its figure and its bound."""

    key: str
    measure: str
    figure: float
    bound: float
    unit: str = ""
    findings: list[Finding] = field(default_factory=list)

    def verdict(self, ceilings: dict[str, float]) -> str:
        """Compare with bound and ceiling: ``ok``, ``printed only``, ``open`` or ``BEYOND``."""
        if self.key in PRINTED:
            return "ok" if self.figure <= self.bound else "printed only"
        if self.figure <= self.bound:
            return "ok, remove its ceiling" if self.key in ceilings else "ok"
        if self.key in ceilings:
            ceiling = ceilings[self.key]
            return (
                f"open, ceiling {ceiling:g}" if self.figure <= ceiling else f"BEYOND its ceiling {ceiling:g}"
            )
        return "BEYOND"


def blank(text: str) -> str:
    """Replace every character by a space, except for line ends."""
    return NOT_NEWLINE.sub(" ", text)


def blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Replace parts of a text by spaces, so that offsets and lines stay the same."""
    parts, end = [], 0
    for start, stop in sorted(spans):
        if stop > end:
            parts += [text[end:start], blank(text[max(start, end) : stop])]
            end = stop
    return "".join([*parts, text[end:]])


class Source:
    """File of Rust or Python, split into code, strings and comments."""

    def __init__(self, root: Path, path: Path) -> None:
        self.path = path
        self.name = path.relative_to(root).as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.rust = path.suffix == ".rs"

    @functools.cached_property
    def lines(self) -> list[str]:
        """Lines of the file, unchanged."""
        return self.text.split("\n")

    @functools.cached_property
    def _spans(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        comments: list[tuple[int, int]] = []
        strings: list[tuple[int, int]] = []
        for match in (RUST if self.rust else PYTHON).finditer(self.text):
            (comments if match.lastgroup == "comment" else strings).append(match.span())
        return comments, strings

    @functools.cached_property
    def said(self) -> str:
        """Code and strings, without comments."""
        return blanked(self.text, self._spans[0])

    @functools.cached_property
    def code(self) -> str:
        """Code without strings and comments."""
        comments, strings = self._spans
        return blanked(self.text, [*comments, *strings])

    @functools.cached_property
    def tests(self) -> list[tuple[int, int]]:
        """Spans of the items that `#[cfg(test)]` excludes from the product."""
        return [(match.start(), item_end(self.code, match)) for match in TESTS_ONLY.finditer(self.code)]

    @functools.cached_property
    def product(self) -> str:
        """Code without strings, comments and tests."""
        return blanked(self.code, self.tests)

    @functools.cached_property
    def product_said(self) -> str:
        """Code and strings, without comments and tests."""
        return blanked(self.said, self.tests)

    def product_lines(self) -> int:
        """Count the lines of the file that belong to the product, comments and blank lines included."""
        taken: set[int] = set()
        for start, stop in self.tests:
            taken.update(range(self.line(start), self.line(stop - 1) + 1))
        return self.text.count("\n") - len(taken)

    @functools.cached_property
    def _line_ends(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self.text)]

    def line(self, offset: int) -> int:
        """Return the number of the line at an offset."""
        return bisect.bisect_left(self._line_ends, offset) + 1

    def finding(self, offset: int) -> Finding:
        """Return the line at an offset as a finding."""
        return self.finding_at(self.line(offset))

    def finding_at(self, line: int) -> Finding:
        """Return a line as a finding."""
        return Finding(self.name, line, self.lines[line - 1])

    @functools.cached_property
    def _docstrings(self) -> list[tuple[int, int, str]]:
        # Includes the docstrings of attributes and constants.
        return [
            (node.lineno, node.end_lineno or node.lineno, text)
            for node in statements(ast.parse(self.text).body)
            if isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(text := node.value.value, str)
        ]

    @functools.cached_property
    def comments(self) -> list[tuple[int, str]]:
        """Lines of comments and documentation, as number and text."""
        found = []
        for start, stop in self._spans[0]:
            number = self.line(start)
            found += [(number + n, line) for n, line in enumerate(self.text[start:stop].split("\n"))]
        if not self.rust:
            for start, stop, _ in self._docstrings:
                found += [(number, self.lines[number - 1]) for number in range(start, stop + 1)]
        return sorted((number, line) for number, line in found if line.strip())

    @functools.cached_property
    def docs(self) -> list[tuple[int, str]]:
        """Doc comments and docstrings, as number of the first line and text."""
        if not self.rust:
            return [(start, text) for start, _, text in self._docstrings]
        found: list[tuple[int, str]] = []
        last, marker = -1, ""
        for number, line in self.comments:
            mark = line[:3]
            if mark not in {"///", "//!"} or line.startswith("////"):
                continue
            if (number, mark) != (last + 1, marker):
                found.append((number, line[3:]))
            elif not found[-1][1].strip():
                found[-1] = (number, line[3:])
            last, marker = number, mark
        return found


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Iterate over all statements, outer ones first; expressions are not visited."""
    for node in body:
        yield node
        for inner in inner_bodies(node):
            yield from statements(inner)


def inner_bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Iterate over the blocks inside of a statement: its branches, handlers and cases."""
    for part in ("body", "orelse", "finalbody"):
        yield getattr(node, part, [])
    for part in ("handlers", "cases"):
        for inner in getattr(node, part, ()):
            yield inner.body


def item_end(code: str, attribute: re.Match[str]) -> int:
    """Return the end offset of the item below an attribute."""
    if attribute.group().startswith("#!"):
        return len(code)
    at = attribute.end()
    while more := ATTRIBUTE.match(code, at):
        at = closing(code, more.end() - 1)
    item = ITEM.match(code, at)
    braces_end = item is None or item.group(1) not in {"use", "static", "const", "type"}
    depth = 0
    for match in re.compile(r"[()\[\]{};,]").finditer(code, at):
        char = match.group()
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth < 0:
                return match.start()
            if depth == 0 and char == "}" and braces_end:
                return match.end()
        elif depth == 0 and (char == ";" or item is None):
            return match.end()
    return len(code)


def closing(code: str, opening: int) -> int:
    """Return the offset behind the bracket that closes the one at `opening`."""
    depth = 0
    for match in re.compile(r"[()\[\]{}]").finditer(code, opening):
        depth += 1 if match.group() in "([{" else -1
        if depth == 0:
            return match.end()
    return len(code)


class Crate:
    """Modules of a crate: each file is a module, and `mod.rs` is the module of its folder."""

    def __init__(self, tree: Tree, folder: Path) -> None:
        self.name = folder.name
        self.sources = tree.sources(folder / "src", ".rs")
        self.modules = {self._module(folder / "src", source.path): source for source in self.sources}
        left_out = {module for module in self.modules if {"tests", "testing"} & set(module)}
        for module, source in self.modules.items():
            for start, stop in source.tests:
                if declared := re.search(r"\bmod\s+(\w+)\s*;", source.code[start:stop]):
                    left_out.add((*module, declared.group(1)))
        self.product = {
            module: source
            for module, source in self.modules.items()
            if not any(module[:length] in left_out for length in range(1, len(module) + 1))
            and not source.code.lstrip().startswith("#![cfg(test)]")
        }
        tree.need(self.product, f"modules in {folder.name}")

    @staticmethod
    def _module(src: Path, path: Path) -> tuple[str, ...]:
        *folders, file = path.relative_to(src).with_suffix("").parts
        return (
            tuple(folders) if file == "mod" or (not folders and file in {"lib", "main"}) else (*folders, file)
        )

    def types(self) -> Iterator[tuple[str, Finding]]:
        """Iterate over the types of the product, as name and place."""
        for source in self.product.values():
            # For each open brace whether it belongs to an `impl` or a `trait`, which have associated types.
            scopes: list[bool] = []
            opens = False
            for match in TYPE.finditer(source.product):
                if brace := match.group("brace"):
                    if brace == "{":
                        scopes.append(opens)
                        opens = False
                    elif scopes:
                        scopes.pop()
                    continue
                name = match.group("name") or match.group("trait")
                opens = match.group("inside") is not None
                if match.group("inside") == "impl" or name is None or (scopes and scopes[-1]):
                    continue
                yield name, source.finding(match.end() - 1)

    def edges(self) -> dict[tuple[str, ...], dict[tuple[str, ...], Finding]]:
        """Return the modules that each module uses, with the first line that does."""
        edges: dict[tuple[str, ...], dict[tuple[str, ...], Finding]] = {}
        for module, source in self.product.items():
            found = edges[module] = {}
            for path, offset, exported in used_paths(source.product):
                target = self._target(module, path)
                # Parents declare their children and pass their names on.
                if target in {None, module} or (exported and target[: len(module)] == module):
                    continue
                found.setdefault(target, source.finding(offset))
        return edges

    def _target(self, module: tuple[str, ...], path: list[str]) -> tuple[str, ...] | None:
        base: tuple[str, ...] = () if path[0] == "crate" else module
        for name in path:
            if name == "super":
                base = base[:-1]
            elif name not in {"crate", "self"}:
                base = (*base, name)
        while base not in self.modules:
            base = base[:-1]
        return base if base in self.product else None


USED = re.compile(
    r"(?<![\w:])(?:crate|super|self)\s*::|\b(?:pub(?:\s*\([^)]*\))?\s+)?use\b|;|\bmod\s+(\w+)\s*;"
)
NAME = re.compile(r"\s*(\w+|\*|\{)")
PATH = re.compile(r"\s*::")


def used_paths(code: str) -> Iterator[tuple[list[str], int, bool]]:
    """Iterate over paths to modules of the crate: names, offset, and whether a `pub use` exports the path."""
    code = re.sub(r"\bpub\s*\(\s*in\b[^)]*\)", lambda match: "pub" + " " * (len(match.group()) - 3), code)
    children = set(re.findall(r"\bmod\s+(\w+)\s*;", code))
    exported = False
    for match in USED.finditer(code):
        said = match.group()
        if said == ";":
            exported = False
        elif said.endswith("use"):
            exported = said.startswith("pub")
        elif said.endswith("::"):
            for path in read_path(code, match.start(), []):
                yield path, match.start(), exported
    # A child is also named without `self`.
    if children:
        names = "|".join(sorted(children))
        for match in re.finditer(rf"(?<![\w:.])({names})\s*::(?!\s*\{{)", code):
            statement = code.rfind(";", 0, match.start()) + 1
            if not re.search(r"\bpub\b[^;]*\buse\b", code[statement : match.start()]):
                yield ["self", match.group(1)], match.start(), False


def read_path(code: str, at: int, before: list[str]) -> Iterator[list[str]]:
    """Iterate over the paths that start at an offset: one, or each of a group in braces."""
    path = list(before)
    while name := NAME.match(code, at):
        at = name.end()
        if name.group(1) == "{":
            end = closing(code, at - 1) - 1
            while at < end and (item := NAME.match(code, at)):
                yield from read_path(code, item.start(1), path)
                at = next_item(code, item.start(1), end)
            return
        if name.group(1) == "*":
            break
        path.append(name.group(1))
        more = PATH.match(code, at)
        if not more:
            break
        at = more.end()
    if len(path) > len(before):
        yield path
    elif before:
        yield before


def next_item(code: str, at: int, end: int) -> int:
    """Return the offset behind the next comma of a group."""
    depth = 0
    for match in re.compile(r"[{},]").finditer(code, at, end):
        char = match.group()
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            return match.end()
    return end


class Tree:
    """Files of the repository, each read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._read: dict[Path, Source] = {}
        self._crates: dict[Path, Crate] = {}

    def need(self, found: T, what: str) -> T:
        """Raise if nothing was found: without files every bound would be met."""
        if not found:
            raise NothingToMeasureError(f"no {what} below {self.root}")
        return found

    def source(self, path: Path) -> Source:
        """Return a file, which has to exist."""
        if path not in self._read:
            self.need(path.is_file(), path.relative_to(self.root).as_posix())
            self._read[path] = Source(self.root, path)
        return self._read[path]

    def sources(self, folder: Path | str, *suffixes: str) -> list[Source]:
        """Return all files of a folder with one of these suffixes."""
        paths = sorted(path for path in self._walk(self.root / folder) if path.suffix in suffixes)
        return self.need([self.source(path) for path in paths], f"files {'/'.join(suffixes)} in {folder}")

    def _walk(self, folder: Path) -> Iterator[Path]:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.is_dir():
                if path.name not in NOT_OURS and not path.is_symlink():
                    yield from self._walk(path)
            else:
                yield path

    def crate(self, name: str) -> Crate:
        """Return the crate in a folder."""
        folder = self.root / "rust" / name
        if folder not in self._crates:
            self._crates[folder] = Crate(self, folder)
        return self._crates[folder]

    def crates(self) -> list[Crate]:
        """Return all crates of the product."""
        manifests = sorted((self.root / "rust").glob("*/Cargo.toml"))
        names = [path.parent.name for path in manifests if path.parent.name != "fuzz"]
        return [self.crate(name) for name in self.need(names, "crates in rust/")]

    def rust(self) -> list[Source]:
        """Return the files of all crates of the product."""
        return [source for crate in self.crates() for source in crate.product.values()]

    def python(self) -> list[Source]:
        """Return the modules of the Python package."""
        return self.sources("python/zwire", ".py")

    def prose(self) -> list[Source]:
        """Return the files with comments and documentation."""
        folders = [folder for folder in PROSE if (self.root / folder).is_dir()]
        self.need(folders, "folders with sources")
        found = [path for folder in folders for path in self._walk(self.root / folder)]
        sources = [self.source(path) for path in sorted(found) if path.suffix in {".rs", ".py", ".pyi"}]
        return self.need(sources, "files of Rust or Python")


def percent(part: int, whole: int) -> float:
    """Return a share as a percentage."""
    return round(100 * part / whole, 2)


def actors(tree: Tree) -> Iterator[Row]:
    """Measure comments that name actors by a pronoun."""
    lines, findings = 0, []
    for source in tree.prose():
        lines += len(source.comments)
        findings += [source.finding_at(number) for number, text in source.comments if ACTOR.search(text)]
    tree.need(lines, "comments")
    yield Row(
        "1", "comment lines with who, whose, nobody ...", percent(len(findings), lines), 0.3, "%", findings
    )


def openers(tree: Tree) -> Iterator[Row]:
    """Measure documentation that opens with a pronoun."""
    docs, findings = 0, []
    for source in tree.prose():
        docs += len(source.docs)
        findings += [source.finding_at(number) for number, text in source.docs if OPENER.match(text)]
    tree.need(docs, "doc comments")
    yield Row(
        "2", "doc comments that open with What, It, One ...", percent(len(findings), docs), 1, "%", findings
    )


def shared_names(tree: Tree) -> Iterator[Row]:
    """Measure types of a crate that share their name with another type."""
    for key, name in (("3a", "zwire-proto"), ("3b", "zwire-engine")):
        by_name: dict[str, list[Finding]] = {}
        for type_name, finding in tree.crate(name).types():
            by_name.setdefault(type_name, []).append(finding)
        count = tree.need(sum(map(len, by_name.values())), f"types in {name}")
        findings = [finding for _, group in sorted(by_name.items()) if len(group) > 1 for finding in group]
        share = percent(len(findings), count)
        yield Row(key, f"types of {name} that share their name", share, 8, "%", findings)


def engine_root(tree: Tree) -> Iterator[Row]:
    """Measure the files beside `lib.rs` of the engine."""
    folder = tree.root / "rust/zwire-engine/src"
    files = tree.need(sorted(folder.glob("*.rs")), "files in the root of zwire-engine")
    findings = [Finding(path.relative_to(tree.root).as_posix(), 1, "") for path in files]
    yield Row("4", "files in the root of zwire-engine/src", len(files), 4, findings=findings)


def largest_circle(edges: dict[N, dict[N, Finding]]) -> list[N]:
    """Return the largest strongly connected component (Tarjan), empty if there is no circle."""
    index: dict[N, int] = {}
    low: dict[N, int] = {}
    stack: list[N] = []
    on_stack: set[N] = set()
    largest: list[N] = []
    for start, first in edges.items():
        if start in index:
            continue
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        work = [(start, iter(first))]
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in edges:
                    continue
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(edges[target])))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    circle, stack[at:] = stack[at:], []
                    on_stack.difference_update(circle)
                    if len(circle) > max(1, len(largest)):
                        largest = circle
    return largest


def module_name(module: object) -> str:
    """Return a module as a path."""
    return ("::".join(module) or "crate") if isinstance(module, tuple) else str(module)


def circle_row(key: str, name: str, edges: dict[N, dict[N, Finding]]) -> Row:
    """Return the row of a circle; its findings are the lines that close it."""
    circle = set(largest_circle(edges))
    findings = [
        Finding(
            found.file, found.line, f"{module_name(module)} -> {module_name(target)}: {found.text.strip()}"
        )
        for module, targets in edges.items()
        if module in circle
        for target, found in targets.items()
        if target in circle
    ]
    return Row(key, f"largest circle of modules in {name}", len(circle), 4, findings=findings)


def circles(tree: Tree) -> Iterator[Row]:
    """Measure circles of modules that use each other."""
    for crate in tree.crates():
        yield circle_row(f"5.{crate.name.removeprefix('zwire-')}", crate.name, crate.edges())
    yield circle_row("5.python", "python/zwire", python_edges(tree))


def python_edges(tree: Tree) -> dict[str, dict[str, Finding]]:
    """Return the modules that each module of the Python package imports while it is imported itself."""
    base = tree.root / "python"
    names = {}
    for source in tree.sources("python/zwire", ".py", ".pyi"):
        parts = source.path.relative_to(base).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if source.path.suffix == ".py" or name not in names:
            names[name] = source
    edges: dict[str, dict[str, Finding]] = {}
    for name, source in names.items():
        found = edges[name] = {}
        if source.path.suffix == ".pyi":
            continue
        package = name.split(".") if source.path.stem == "__init__" else name.split(".")[:-1]
        for node in run_at_import(ast.parse(source.text).body):
            for target in imported(node, package, names):
                if target != name:
                    found.setdefault(target, source.finding_at(node.lineno))
    return edges


def run_at_import(body: Iterable[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Iterate over the imports that run with their module; not those in functions and for type checkers."""
    for node in body:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield node
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                yield from run_at_import(node.orelse)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                pass
            case _:
                for inner in inner_bodies(node):
                    yield from run_at_import(inner)


def imported(
    node: ast.Import | ast.ImportFrom, package: list[str], names: dict[str, Source]
) -> Iterator[str]:
    """Iterate over the modules of the package that an import names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in names)
        return
    base = package[: len(package) - node.level + 1] if node.level else []
    module = ".".join([*base, *(node.module.split(".") if node.module else [])])
    for alias in node.names:
        if (inner := f"{module}.{alias.name}") in names:
            yield inner
        elif module in names:
            yield module


# Structures that identify an implementation. Dissector and session have one of each today.
IMPLEMENTATIONS = (
    # A task that writes what a sending half holds, under its lock.
    ("6a", "sender loops", re.compile(r"\bfn\s+write_out\b[^{;]*\b(?:Mutex|Sending)Guard\b")),
    ("6b", "node drivers", re.compile(r"\bfn\s+run_timers?\b|\basync\s+fn\s+run<\w+:\s*Timed>")),
    # A table from numbers on the wire to key expressions.
    (
        "6c",
        "key tables",
        re.compile(r"\b(?:HashMap|BTreeMap|IndexMap)<\s*(?:u16|ExprId|KeyId)\s*,\s*(?:KeyExpr|Text)\b"),
    ),
    # A state that collects fragments.
    (
        "6d",
        "defragmenters",
        re.compile(
            r"\bstruct\s+(?:Defrag|Reassembl)\w*|\benum\s+\w+\s*\{(?:[^{}]|\{[^{}]*\})*?\bCollecting\b"
        ),
    ),
)


def implementations(tree: Tree) -> Iterator[Row]:
    """Measure mechanisms that should have one implementation only."""
    sources = [source for source in tree.rust() if "fuzzing" not in source.name]
    for key, name, pattern in IMPLEMENTATIONS:
        files: dict[str, Finding] = {}
        for source in sources:
            for match in pattern.finditer(source.product):
                files.setdefault(source.name, source.finding(match.end() - 1))
        yield Row(key, f"implementations of {name}", len(files), 1, findings=list(files.values()))


def binding(tree: Tree) -> Iterator[Row]:
    """Measure the size of the binding."""
    sources = tree.sources("rust/zwire-py/src", ".rs")
    sizes = {source.name: source.text.count("\n") for source in sources}
    large = [Finding(name, 1, f"{lines} lines") for name, lines in sizes.items() if lines > 300]
    findings = [Finding(name, 1, f"{lines} lines") for name, lines in sizes.items()]
    yield Row("7a", "lines of rust/zwire-py/src", sum(sizes.values()), 10_500, findings=findings)
    yield Row("7b", "files over 300 lines there", len(large), 6, findings=large)


# Name of a column of zwire with its type beside it.
COLUMN = re.compile(
    r'"(?:kind|congestion|congestion_block|hlc|headers|lost)"\s*[,:]\s*'
    r"(?:DataType::|(?:Text|Bytes|Bool|Int\d+|UInt\d+|Time|BytesList|TextMap)\b"
    r"|\(?\*?_TEXT\b|\(?\*?_WHOLE\b|(?:pa|pyarrow)\.(?!array|scalar|nulls)|\w+Type\("
    r'|\(?"(?:string|binary|tinyint|smallint|int|bigint|boolean|timestamp|map<|array<))'
)


def dialects(tree: Tree) -> Iterator[Row]:
    """Measure the files that define columns of samples, puts, replies, records or events."""
    findings = [
        source.finding(match.start())
        for source in [*tree.rust(), *tree.python()]
        if (match := COLUMN.search(source.product_said if source.rust else source.said))
    ]
    yield Row("8", "files that define columns of rows", len(findings), 1, findings=findings)


def thread_locals(tree: Tree) -> Iterator[Row]:
    """Measure thread-locals that pass parameters between functions."""
    findings = []
    for source in tree.rust():
        for block in re.finditer(r"\bthread_local!\s*[{(\[]", source.product):
            end = closing(source.product, block.end() - 1)
            statics = re.compile(r"\bstatic\s+(\w+)").finditer(source.product, block.end(), end)
            findings += [
                source.finding(each.start()) for each in statics if each.group(1) not in THREAD_LOCALS
            ]
    yield Row("9", "thread-locals that carry parameters", len(findings), 0, findings=findings)


def exhaustive_errors(tree: Tree) -> Iterator[Row]:
    """Measure match arms that would accept a new variant of an error without a conversion of its own."""
    folder = tree.root / "rust/zwire-py/src"
    files = [
        path
        for path in (folder / "errors.rs", *sorted((folder / "errors").glob("**/*.rs")))
        if path.is_file()
    ]
    findings = []
    for source in map(tree.source, tree.need(files, "errors.rs in zwire-py")):
        wildcards = re.finditer(r"(?:^|[\s{,|])_\s*(?:if\b[^{};,]*?)?=>", source.product)
        findings += [source.finding(match.end() - 1) for match in wildcards]
    yield Row("10a", "wildcards among the errors of the binding", len(findings), 0, findings=findings)


def unguarded_claims(tree: Tree) -> Iterator[Row]:
    """Measure the claims of the architecture page without a test."""
    page = tree.root / "docs/architecture.md"
    tree.need(page.is_file(), "docs/architecture.md")
    text = page.read_text(encoding="utf-8")
    tests = tree.sources("tests/python", ".py")
    functions = {
        name for source in tests for name in re.findall(r"^def (test_\w+)", source.code, re.MULTILINE)
    }
    claims = [(text.find(claim), claim, guard) for claim, guard in CLAIMS if claim in text]
    tree.need(claims, "claims with a guard in docs/architecture.md")
    findings = [
        Finding("docs/architecture.md", text.count("\n", 0, at) + 1, f"{claim!r}: no {guard} in tests/python")
        for at, claim, guard in claims
        if guard not in functions
    ]
    yield Row("10b", "claims of docs/architecture.md without guard", len(findings), 0, findings=findings)


def size(tree: Tree) -> Iterator[Row]:
    """Measure the lines of the product."""
    rust = {crate.name: sum(map(Source.product_lines, crate.product.values())) for crate in tree.crates()}
    python = sum(source.text.count("\n") for source in tree.python())
    findings = [Finding(f"rust/{name}", 1, f"{lines} lines") for name, lines in rust.items()]
    findings.append(Finding("python/zwire", 1, f"{python} lines"))
    yield Row("11", "lines of the product", sum(rust.values()) + python, 108_000, findings=findings)


def features(tree: Tree) -> Iterator[Row]:
    """Measure the features that a small build of the engine can leave out."""
    path = tree.root / "rust/zwire-engine/Cargo.toml"
    tree.need(path.is_file(), "rust/zwire-engine/Cargo.toml")
    declared = tomllib.loads(path.read_text(encoding="utf-8")).get("features", {})
    findings = [
        Finding("rust/zwire-engine/Cargo.toml", 1, f"no feature {name}")
        for name in FEATURES
        if name not in declared
    ]
    yield Row(
        "12", f"features of zwire-engine missing of {len(FEATURES)}", len(findings), 0, findings=findings
    )


MEASURES: tuple[Callable[[Tree], Iterator[Row]], ...] = (
    actors,
    openers,
    shared_names,
    engine_root,
    circles,
    implementations,
    binding,
    dialects,
    thread_locals,
    exhaustive_errors,
    unguarded_claims,
    size,
    features,
)


def measured(root: Path) -> list[Row]:
    """Return all rows."""
    tree = Tree(root)
    return [row for measure in MEASURES for row in measure(tree)]


def table(rows: list[Row], ceilings: dict[str, float]) -> str:
    """Return the rows as a table of text."""
    cells = [("row", "measure", "figure", "bound", "verdict")]
    cells += [
        (row.key, row.measure, f"{row.figure:,}{row.unit}", f"{row.bound:,}{row.unit}", row.verdict(ceilings))
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for key, measure, figure, bound, verdict in cells:
        left = f"{key:<{widths[0]}}  {measure:<{widths[1]}}"
        lines.append(f"{left}  {figure:>{widths[2]}}  {bound:>{widths[3]}}  {verdict}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or the findings of a row."""
    parser = argparse.ArgumentParser(description="Measures of the source tree, with a bound for each.")
    parser.add_argument("--list", metavar="ROW", help="print the findings of a row as file:line: text")
    parser.add_argument(
        "--root", type=Path, default=Path(__file__).resolve().parents[1], help=argparse.SUPPRESS
    )
    options = parser.parse_args(arguments)
    try:
        rows = measured(options.root)
    except NothingToMeasureError as error:
        print(f"house: {error}", file=sys.stderr)
        return 1
    if options.list is not None:
        chosen = [row for row in rows if row.key == options.list]
        if not chosen:
            print(
                f"house: no row {options.list}; there are {', '.join(row.key for row in rows)}",
                file=sys.stderr,
            )
            return 2
        print(*chosen[0].findings, sep="\n")
        return 0
    print(table(rows, NOT_YET))
    beyond = [row.key for row in rows if row.verdict(NOT_YET).startswith("BEYOND")]
    if beyond:
        print(f"house: beyond the bound: {', '.join(beyond)}; see `python3 .ci/house.py --list ROW`")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
