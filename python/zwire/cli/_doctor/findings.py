"""Findings of a diagnosis: what a check saw, what it means, what to do."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    Level = Literal["ok", "note", "warning", "fault"]

LEVELS = ("ok", "note", "warning", "fault")
"""Levels of findings, the worst last."""

_CODES = {"ok": 0, "note": 0, "warning": 3, "fault": 1}
"""Exit code of a command by its worst finding."""

_COLOURS = {"ok": "32", "note": "36", "warning": "33", "fault": "31"}


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    ``name`` is the same for the same cause on every host, so that scripts may compare it.
    """

    name: str
    level: Level
    saw: str
    means: str = ""
    do: str = ""

    def lines(self) -> list[str]:
        """Return the finding as text."""
        lines = [f"{self.level:8} {self.name}: {self.saw}"]
        lines += [f"{'':9}means: {self.means}"] if self.means else []
        lines += [f"{'':9}do: {self.do}"] if self.do else []
        return lines

    def fields(self) -> dict[str, str]:
        """Return the finding as fields of a JSON object."""
        return asdict(self)


def worst(findings: Iterable[Finding]) -> str:
    """Return the worst level."""
    return max((finding.level for finding in findings), key=LEVELS.index, default="ok")


def exit_code(findings: Iterable[Finding]) -> int:
    """Return the exit code for some findings: 1 for a fault, 3 for a warning, else 0."""
    return _CODES[worst(findings)]


def show(finding: Finding) -> None:
    """Print a finding: on a terminal in lines of its width, and in colour if NO_COLOR is not set."""
    from zwire._text import printable

    lines = [printable(line) for line in finding.lines()]
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        # A name or address is not broken: a terminal breaks it where it has to, and it is copied whole.
        wrap = textwrap.TextWrapper(
            width, subsequent_indent=" " * 9, break_long_words=False, break_on_hyphens=False
        )
        lines = [part for line in lines for part in wrap.wrap(line)]
    first, *rest = lines
    if coloured():
        first = f"\x1b[{_COLOURS[finding.level]}m{finding.level:8}\x1b[0m{first[8:]}"
    sys.stdout.write("".join(f"{line}\n" for line in (first, *rest)))
    sys.stdout.flush()


def coloured() -> bool:
    """Whether the standard output is a terminal that shows colours, and the user wants them."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and sys.stdout.isatty()
