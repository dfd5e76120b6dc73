"""Counts that prove that nothing was lost: equal at each station, for each process and kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = ("position", "battery", "image")


class Tally(NamedTuple):
    """Messages of a process and a kind at a station."""

    messages: int
    different: int
    """Number of distinct messages; less than the total if some came twice."""


Tallies: TypeAlias = "dict[tuple[int, str], Tally]"
"""Tallies by process and kind."""


class Counts:
    """Messages counted at each station, in the order of the stations."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self.stations: dict[str, Tallies] = {}

    def add(self, station: str, process: int, kind: str, tally: Tally) -> None:
        """Set one tally."""
        self.stations.setdefault(station, {})[process, kind] = tally

    def put(self, station: str, tallies: Mapping[tuple[int, str], Tally]) -> None:
        """Set all tallies of a station."""
        self.stations[station] = dict(tallies)

    def of(self, station: str, process: int) -> int:
        """Count the messages of a process, of any kind."""
        return sum(tally.messages for (p, _), tally in self.stations[station].items() if p == process)

    def total(self, station: str) -> int:
        """Count the messages of all processes."""
        return sum(tally.messages for tally in self.stations[station].values())

    def problems(self) -> list[str]:
        """Name each count that differs from the number sent."""
        sent = self.stations["sent"]
        wrong = []
        if not self.total("sent"):
            wrong.append("nothing was sent")
        for station, tallies in self.stations.items():
            for process, kind in sorted(set(sent) | set(tallies)):
                expected = sent.get((process, kind), Tally(0, 0))
                found = tallies.get((process, kind), Tally(0, 0))
                if found != expected:
                    wrong.append(
                        f"{station}: {found.messages:,} messages of {kind} of process {process}, "
                        f"{found.different:,} different ones; {expected.messages:,} were sent"
                    )
        return wrong

    def table(self) -> list[str]:
        """Return the counts by process, as lines of text."""
        head = ["process", *self.stations]
        rows = [
            [str(process), *(f"{self.of(station, process):,}" for station in self.stations)]
            for process in range(self.processes)
        ]
        rows.append(["all", *(f"{self.total(station):,}" for station in self.stations)])
        widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
        line = "  ".join("-" * width for width in widths)

        def laid(row: list[str]) -> str:
            return "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))

        return ["", laid(head), line, *map(laid, rows[:-1]), line, laid(rows[-1])]

    def as_dict(self) -> dict[str, dict[str, dict[str, int]]]:
        """Return the counts as a nested dict: station, process, kind."""
        return {
            station: {
                str(process): {
                    kind: tallies[process, kind].messages for kind in KINDS if (process, kind) in tallies
                }
                for process in range(self.processes)
            }
            for station, tallies in self.stations.items()
        }
