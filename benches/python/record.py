"""The table of recorded runs in a page of the documentation, which ``run.py --record`` writes.

The page has a section for each day and machine, between two comments. A new run replaces the rows that it has
measured, wherever they are; others stay, with their day and machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from python.rows import cells

if TYPE_CHECKING:
    from python.rows import Row

BEGIN, END = "<!-- recorded: begin -->", "<!-- recorded: end -->"
HEAD = ["area", "what", "zwire", "peer", "peer is", "ratio", "rounds"]
_RULE = "|---|---|---:|---:|---|---:|---|"


class PageError(ValueError):
    """The page has no place for the table, or a line there that is no part of it."""


@dataclass
class Section:
    """Rows that were measured on one day and machine."""

    title: str
    note: str
    rows: list[list[str]] = field(default_factory=list)


def read(page: str) -> tuple[str, list[Section], str]:
    """Return the text before the table, its sections, and the text after it."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise PageError(f"the page has to have {BEGIN} and {END} once each")
    before, _, rest = page.partition(BEGIN)
    inside, _, after = rest.partition(END)
    sections: list[Section] = []
    for part in re.split(r"^### ", inside, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        lines = [line for line in body.splitlines() if line.strip()]
        note = " ".join(line for line in lines if not line.startswith("|"))
        table = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")
        ]
        if not table or table[0] != HEAD or any(len(row) != len(HEAD) for row in table):
            raise PageError(f"the section {title!r} has no table with the columns {', '.join(HEAD)}")
        sections.append(Section(title, note, table[2:]))
    return before, sections, after


def write(page: str, new: Section) -> str:
    """Return the page with a new section, which comes first."""
    before, old, after = read(page)
    measured = {tuple(row[:2]) for row in new.rows}
    same = [section for section in old if (section.title, section.note) == (new.title, new.note)]
    kept = [row for section in same for row in section.rows if tuple(row[:2]) not in measured]
    sections = [Section(new.title, new.note, [*new.rows, *kept])]
    for section in old:
        rows = [row for row in section.rows if tuple(row[:2]) not in measured]
        if section not in same and rows:
            sections.append(Section(section.title, section.note, rows))
    text = "".join(_text(section) for section in sections)
    return f"{before}{BEGIN}\n\n{text}{END}{after}"


def _text(section: Section) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (HEAD, *section.rows)]
    return "\n".join([f"### {section.title}", "", section.note, "", lines[0], _RULE, *lines[1:], "", ""])


def section(rows: list[Row], about: dict[str, object], day: str, rounds: int, seconds: float) -> Section:
    """Return the section of a run. Rows that failed, or were skipped, are no part of it."""
    versions = ("zwire", "eclipse-zenoh", "pyzmq", "pyarrow", "pyspark")
    note = ", ".join(f"{name} {about[name]}" for name in ("system", "python", *versions) if about.get(name))
    made = [
        cells(row, judged=False)[: len(HEAD)] for row in rows if row.ours and not (row.failed or row.skipped)
    ]
    return Section(
        f"{day}, {about['cores']} cores, {about['processor']}",
        f"{rounds} rounds of {seconds:g} s per side; {note}.",
        [[cell.replace("|", "/") for cell in row] for row in made],
    )
