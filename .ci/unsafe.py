"""Writes `docs/security/unsafe.md`, the list of unsafe code in the product: ``python3 .ci/unsafe.py``.

The argument of a block is the comment with ``SAFETY`` above its statement; that of a declaration is the
reason of its attribute. A place without one is an error.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

from house import Source, Tree, closing

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "security" / "unsafe.md"

HEAD = """\
# Unsafe code

Rust checks memory safety except in code that is marked `unsafe`. The crates of zwire deny it (`unsafe_code`
in `Cargo.toml`), and each place below has an attribute that allows it, with a reason. This page is generated
by `.ci/unsafe.py`; a test fails if the page is stale or a place has no argument. `make sanitize` runs these
places under AddressSanitizer.

Not listed are tests and benchmarks, which are no part of the wheel, and the crates that zwire depends on:
[the SBOM](hardening.md#check-the-wheel) names them.
"""

UNSAFE = re.compile(r"\bunsafe\b")
FUNCTION = re.compile(r"\bfn\s+(\w+)[^;{]*(?=\{)")
ALLOWED = re.compile(r'allow\(unsafe_code, reason = "([^"]+)"\)')


class Place(NamedTuple):
    """Use of the keyword, with its argument."""

    file: str
    item: str
    kind: str
    argument: str


class NoArgumentError(Exception):
    """A place has no argument."""


def argument(source: Source, line: int) -> str | None:
    """Return the argument in the comment above the statement on a line."""
    lines = [text.strip() for text in source.lines[: line - 1]]
    # The keyword may stand in a later line of its statement.
    while lines and not lines[-1].startswith("//") and not lines[-1].endswith((";", "}")):
        lines.pop()
    said: list[str] = []
    while lines and lines[-1].startswith("//"):
        said.insert(0, lines.pop().removeprefix("//").strip())
        if said[0].startswith("SAFETY: "):
            return " ".join(said).removeprefix("SAFETY: ")
    return None


def place(source: Source, at: int) -> Place:
    """Return the place at an offset of a file."""
    found = argument(source, source.line(at))
    body = source.product[at : closing(source.product, source.product.index("{", at))]
    if re.match(r"unsafe\s+(extern|fn)\b", body):
        name = ", ".join(re.findall(r"\bfn\s+(\w+)", body))
        kind, reasons = "declaration", ALLOWED.findall(source.text[:at])
        found = reasons[-1] if reasons else None
    elif not re.match(r"unsafe\s*\{", body):
        name, kind = " ".join(body.partition("{")[0].split()), "implementation"
    else:
        functions = FUNCTION.finditer(source.product, 0, at)
        name = [match[1] for match in functions if closing(source.product, match.end()) > at][-1]
        kind = "block"
    if found is None:
        raise NoArgumentError(f"{source.finding(at)}: no argument why this is sound; write a SAFETY comment")
    found = found[0].upper() + found[1:]
    return Place(source.name.partition("/src/")[2], name, kind, found if found.endswith(".") else found + ".")


def page(root: Path = ROOT) -> str:
    """Return the text of the page."""
    tree = Tree(root)
    parts, without = [HEAD], []
    for crate in tree.crates():
        places = [
            place(source, match.start())
            for _, source in sorted(crate.product.items())
            for match in UNSAFE.finditer(source.product)
        ]
        if not places:
            without.append(f"`{crate.name}`")
            continue
        rows = ["| File | Item | Kind | Argument |", "|---|---|---|---|"]
        rows += [f"| `{p.file}` | `{p.item}` | {p.kind} | {p.argument} |" for p in places]
        parts.append(f"## {crate.name}\n\n" + "\n".join(rows) + "\n")
    parts.append("## Crates without unsafe code\n\n" + ", ".join(without) + ".\n")
    return "\n".join(parts)


if __name__ == "__main__":
    try:
        PAGE.write_text(page(), encoding="utf-8")
    except NoArgumentError as error:
        sys.exit(str(error))
