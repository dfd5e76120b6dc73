"""Rows of the table: figures of both sides, and whether the ratio reaches the target."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any


@dataclass
class Trial:
    """A measurement of one side."""

    # Messages per second, bytes per second or microseconds: the unit is that of the row.
    value: float
    # Processor seconds per message, of all processes that took part.
    cpu: float | None = None


@dataclass
class Row:
    """A comparison of two sides."""

    area: str
    name: str
    unit: str
    # The implementation compared with.
    peer: str
    ours: list[Trial] = field(default_factory=list)
    theirs: list[Trial] = field(default_factory=list)
    # The target of the ratio: a minimum, or a maximum where less is better; `None` for no target.
    target: float | None = None
    # An absolute target instead of a ratio; where both are given, both have to be met.
    floor: float | None = None
    less_is_better: bool = False
    note: str = ""
    # The reason why nothing was measured.
    skipped: str = ""
    failed: str = ""

    @property
    def our_value(self) -> float | None:
        return median(t.value for t in self.ours) if self.ours else None

    @property
    def their_value(self) -> float | None:
        return median(t.value for t in self.theirs) if self.theirs else None

    def ratios(self) -> list[float]:
        """Ours to theirs, round by round: both sides of a round had about the same load of the machine."""
        return [a.value / b.value for a, b in zip(self.ours, self.theirs, strict=False) if b.value]

    @property
    def ratio(self) -> float | None:
        ratios = self.ratios()
        return median(ratios) if ratios else None

    @property
    def cpu_ratio(self) -> float | None:
        """Their processor time per message to ours: depends less on other load of the machine."""
        ratios = [b.cpu / a.cpu for a, b in zip(self.ours, self.theirs, strict=False) if a.cpu and b.cpu]
        return median(ratios) if ratios else None

    def verdict(self, judged: bool) -> str:
        if self.failed:
            return "FAILED"
        if self.skipped:
            return "skipped"
        if not judged:
            return "ran"
        bounds = [(self.our_value, self.floor), (self.ratio, self.target)]
        judged_by = [(a, b) for a, b in bounds if a is not None and b is not None]
        if not judged_by:
            return "-"
        return "met" if all(a <= b if self.less_is_better else a >= b for a, b in judged_by) else "MISSED"

    def as_json(self, judged: bool) -> dict[str, Any]:
        out = asdict(self)
        out |= {"ours_median": self.our_value, "theirs_median": self.their_value, "ratio": self.ratio}
        out |= {"ratios": self.ratios(), "cpu_ratio": self.cpu_ratio, "verdict": self.verdict(judged)}
        return out


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    scaled = {"MB/s": value / 1e6, "ns": value * 1e9, "µs": value * 1e6, "ms": value * 1e3}.get(unit, value)
    if unit.endswith("/s") and unit != "MB/s":
        if scaled >= 1e6:
            return f"{scaled / 1e6:.2f} M{unit}"
        if scaled >= 1e4:
            return f"{scaled / 1e3:.0f} k{unit}"
        return f"{scaled:,.0f} {unit}"
    return f"{scaled:,.1f} {unit}" if scaled < 1000 else f"{scaled:,.0f} {unit}"


def _target(row: Row) -> str:
    sign = "≤" if row.less_is_better else "≥"
    number = "" if row.floor is None else f"{sign} {_number(row.floor, row.unit)}"
    ratio = "" if row.target is None else f"{sign} {row.target:g}x"
    return ", ".join(filter(None, (number, ratio)))


def cells(row: Row, judged: bool) -> list[str]:
    """Return the cells of a row, in the order of `HEAD`."""
    ratios = row.ratios()
    ratio = f"{row.ratio:.2f}x" if row.ratio is not None else ""
    spread = f"{min(ratios):.2f}-{max(ratios):.2f}" if len(ratios) > 1 else ""
    cpu = f"{row.cpu_ratio:.2f}x" if row.cpu_ratio is not None else ""
    ours, theirs = _number(row.our_value, row.unit), _number(row.their_value, row.unit)
    verdict = row.verdict(judged)
    return [row.area, row.name, ours, theirs, row.peer, ratio, spread, cpu, _target(row), verdict]


HEAD = ["area", "what", "zwire", "peer", "peer is", "ratio", "rounds", "cpu", "target", "verdict"]
RIGHT = {2, 3, 5, 6, 7, 8}


def table(rows: list[Row], judged: bool) -> str:
    """The table as Markdown that also reads well on a terminal."""
    lines = [HEAD, *(cells(row, judged) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]

    def text(line: list[str]) -> str:
        cells = (
            c.rjust(w) if i in RIGHT else c.ljust(w)
            for i, (c, w) in enumerate(zip(line, widths, strict=True))
        )
        return f"| {' | '.join(cells)} |"

    rule = "|" + "|".join("-" * (w + 1) + (":" if i in RIGHT else "-") for i, w in enumerate(widths)) + "|"
    out = [text(HEAD), rule, *(text(line) for line in lines[1:])]
    for row in rows:
        notes = filter(None, (row.failed, row.skipped, row.note))
        out.extend(f"- {row.area}, {row.name}: {note.strip()}" for note in notes)
    return "\n".join(out)
