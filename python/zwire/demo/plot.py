"""The plot at the end: positions of the robots, traffic on the wire, and counts."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from zwire.demo.counts import KINDS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Row

    from zwire.demo.counts import Counts


def draw(tracks: list[Row], rates: list[Row], counts: Counts, path: Path) -> None:
    """Write the plot, as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 8), layout="constrained")
    panels = figure.subplot_mosaic([["map", "messages"], ["map", "bytes"], ["map", "counts"]])
    figure.suptitle("zwire demo: a fleet, as decoded from the hub's capture by Spark")

    axes = panels["map"]
    labelled = set()
    for track in tracks:
        label = None if track.process in labelled else f"process {track.process}"
        labelled.add(track.process)
        xs = [place.x for place in track.places]
        ys = [place.y for place in track.places]
        axes.plot(xs, ys, color=f"C{track.process % 10}", linewidth=0.8, label=label)
        axes.plot(xs[-1:], ys[-1:], "o", color=f"C{track.process % 10}", markersize=4)
    axes.set(title="tracks of the robots", xlabel="x in m", ylabel="y in m", aspect="equal")
    axes.legend(loc="upper right", fontsize="small")

    start = min((row.tenth for row in rates), default=0)
    for panel, column, unit, scale in (
        ("messages", "messages", "messages per second", 10.0),
        ("bytes", "bytes", "MB per second", 10.0 / 1e6),
    ):
        axes = panels[panel]
        lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for row in rates:
            lines[row.kind].append(((row.tenth - start) / 10, row[column] * scale))
        for kind in KINDS:
            if lines[kind]:
                axes.plot(*zip(*lines[kind], strict=True), drawstyle="steps-post", label=kind)
        axes.set(title=f"into the hub, {unit}", xlabel="s", yscale="log")
        axes.legend(loc="lower right", fontsize="small")

    axes = panels["counts"]
    bottom = [0] * len(counts.stations)
    for process in range(counts.processes):
        heights = [counts.of(station, process) for station in counts.stations]
        axes.bar(list(counts.stations), heights, bottom=bottom, color=f"C{process % 10}")
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.set(title="messages at each station")
    figure.savefig(path, dpi=120)
