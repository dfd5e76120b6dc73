"""Figures of a soak run: histograms of latency, resources of processes, and the slopes that are allowed."""

from __future__ import annotations

import itertools
import math
import os
import statistics
from dataclasses import dataclass
from pathlib import Path

MS = 1_000_000
"""Nanoseconds of a millisecond."""


class Histogram:
    """Counts of nanoseconds in logarithmic buckets: constant memory, percentiles at most 3.2 % too high."""

    # 32 buckets for each power of two.
    FINE = 5

    def __init__(self) -> None:
        self.counts = [0] * (64 << self.FINE)
        self.total = 0
        self.most = 0

    def add(self, nanoseconds: int) -> None:
        """Count one value."""
        self.counts[self.bucket(nanoseconds)] += 1
        self.total += 1
        self.most = max(self.most, nanoseconds)

    @classmethod
    def bucket(cls, value: int) -> int:
        """Return the index of the bucket of a value."""
        if value < 1 << cls.FINE:
            return max(value, 0)
        shift = value.bit_length() - 1 - cls.FINE
        return (shift << cls.FINE) + (value >> shift)

    @classmethod
    def edge(cls, bucket: int) -> int:
        """Return the largest value of a bucket."""
        if bucket < 2 << cls.FINE:
            return bucket
        shift = (bucket >> cls.FINE) - 1
        return (((bucket - (shift << cls.FINE)) + 1) << shift) - 1

    def merge(self, other: Histogram) -> None:
        """Add the counts of another histogram."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total
        self.most = max(self.most, other.most)

    def percentile(self, share: float) -> int:
        """Return a value that this share of the counted ones does not exceed."""
        due = math.ceil(share * self.total)
        for bucket, seen in enumerate(itertools.accumulate(self.counts)):
            if seen >= due:
                return min(self.edge(bucket), self.most)
        return self.most

    def summary(self) -> dict[str, float]:
        """Return the number of values, and percentiles in milliseconds."""
        shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
        found = {name: self.percentile(share) / MS for name, share in shares.items()}
        return {"count": self.total, **found, "max": self.most / MS}


@dataclass
class Verdict:
    """A row of the final table; a row without a bound is information only."""

    measure: str
    value: float
    bound: str = ""
    holds: bool = True

    @classmethod
    def most(cls, measure: str, value: float, bound: float) -> Verdict:
        """Judge a value that must not exceed the bound."""
        return cls(measure, value, f"<= {bound:g}", value <= bound)

    @classmethod
    def below(cls, measure: str, value: float, bound: float) -> Verdict:
        """Judge a value that must stay below the bound."""
        return cls(measure, value, f"< {bound:g}", value < bound)

    def row(self) -> str:
        """Return the row as Markdown."""
        verdict = ("ok" if self.holds else "**EXCEEDED**") if self.bound else ""
        return f"| {self.measure} | {self.value:,.2f} | {self.bound} | {verdict} |"


def table(verdicts: list[Verdict]) -> str:
    """Return all rows as a table in Markdown."""
    head = ["| Measure | Value | Bound | Verdict |", "|---|---:|---:|---|"]
    return "\n".join([*head, *(verdict.row() for verdict in verdicts)])


# ---- Resources of a process ----


TICKS = os.sysconf("SC_CLK_TCK")


def busy() -> float:
    """Return the seconds that all processors have worked since the start, or waited for their host."""
    user, nice, system, _idle, _iowait, *more = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + sum(more)) / TICKS


def held(pid: int) -> dict[str, float]:
    """Return what a process holds, and its seconds of processor; nothing once it is gone.

    Anonymous memory, because pages of files come and go by the decisions of the kernel.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return {}
    fields = dict(line.split(":", 1) for line in lines)
    if "RssAnon" not in fields:
        # A zombie has no memory any more.
        return {}
    memory = int(fields["RssAnon"].split()[0]) / 1024
    seconds = (int(used[11]) + int(used[12])) / TICKS
    return {
        "memory": memory,
        "threads": int(fields["Threads"]),
        "descriptors": descriptors,
        "seconds": seconds,
    }


# ---- Slopes ----

WARM = 1 / 3
"""Share of a life before the slope is judged: allocators, caches and tables grow to their size in it."""

POINTS = 240
"""Most points of a slope: its cost is quadratic. More samples are joined to medians of neighbours."""

Series = list[tuple[float, float]]
"""Pairs of seconds and values."""


def thinned(series: Series) -> Series:
    """Join neighbours to medians, down to `POINTS`."""
    width = math.ceil(len(series) / POINTS) or 1
    blocks = [series[at : at + width] for at in range(0, len(series), width)]
    return [(statistics.median(t for t, _ in b), statistics.median(v for _, v in b)) for b in blocks]


def slope(series: Series) -> float:
    """Return the Theil-Sen estimate, the median of the slopes of all pairs: single peaks do not move it."""
    rates = [(v - u) / (t - s) for (s, u), (t, v) in itertools.combinations(thinned(series), 2) if t > s]
    return statistics.median(rates) if rates else 0.0


@dataclass
class Trend:
    """The slope of a series behind its warm-up, and its rise over that time."""

    rise: float
    median: float

    @classmethod
    def of(cls, series: Series) -> Trend:
        """Measure a series."""
        start, end = series[0][0], series[-1][0]
        judged = [(t, v) for t, v in series if t >= start + WARM * (end - start)]
        rise = slope(judged) * (judged[-1][0] - judged[0][0])
        return cls(rise, statistics.median(value for _, value in judged))


MEMORY_FLOOR = 8.0
"""MiB that an allocator may take late in a run: arenas of threads, and pages it has not given back."""

MEMORY_SHARE = 0.1
"""The same for large processes, as a part of the median."""

COUNT_BOUND = 2.0
"""Threads, descriptors, links, open queries: a pool may grow by one or two, and a leak grows by more."""

LATENCY_FLOOR, LATENCY_SHARE = 1.0, 0.5
"""A rise of p99 fails if it exceeds both: milliseconds, and a part of the median."""

GENEROUS = {"memory": 256.0, "threads": 10.0, "descriptors": 20.0}
"""Bounds of Spark: its heap grows up to -Xmx, and its pools follow the jobs."""


def judged(name: str, kind: str, trend: Trend, *, generous: bool = False) -> Verdict:
    """Judge the rise of a resource (``memory``, ``threads``, ...) of a process, or of ``latency``."""
    if generous:
        bound = GENEROUS[kind]
    elif kind == "memory":
        bound = max(MEMORY_FLOOR, MEMORY_SHARE * trend.median)
    elif kind == "latency":
        bound = max(LATENCY_FLOOR, LATENCY_SHARE * trend.median)
    else:
        bound = COUNT_BOUND
    unit = {"memory": " (MiB)", "latency": " (ms)"}.get(kind, "")
    return Verdict.most(f"{name}: rise of {kind}{unit}", trend.rise, round(bound, 2))
