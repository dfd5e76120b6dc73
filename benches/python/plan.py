"""Duration and number of measurements, and the areas to measure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from python.rows import Row

if TYPE_CHECKING:
    import re

T = TypeVar("T")
OURS, THEIRS = "zwire.zenoh", "zenoh"
KIB, MIB = 1024, 1024 * 1024
NAMES = {8: "8 B", 64: "64 B", KIB: "1 KiB", 64 * KIB: "64 KiB", MIB: "1 MiB"}


@dataclass
class Plan:
    """The plan of a run."""

    smoke: bool = False
    only: re.Pattern[str] | None = None
    # The kinds of links to measure; all, if it is not set.
    links: list[str] | None = None
    # Seconds of one trial of one side.
    seconds: float = 0.5
    rounds: int = 5
    sizes: list[int] = field(default_factory=lambda: list(NAMES))

    def wants(self, *rows: Row) -> bool:
        """Whether any of the rows is selected."""
        return self.only is None or any(self.only.search(f"{row.area} {row.name}") for row in rows)

    def chosen(self, rows: list[Row]) -> list[Row]:
        return [row for row in rows if self.wants(row)]


Area = Callable[[Plan], Iterator[Row]]


def interleaved(rounds: int, sides: list[Callable[[], T]]) -> Iterator[list[T]]:
    """Each side once per round; every other round in reverse, so that no side always comes first."""
    for index in range(rounds):
        order = list(enumerate(sides))
        results = {at: side() for at, side in (order if index % 2 == 0 else reversed(order))}
        yield [results[at] for at in range(len(sides))]


def progress(text: str) -> None:
    """Print what is being measured."""
    print(f"  {time.strftime('%H:%M:%S')} {text}", flush=True)
