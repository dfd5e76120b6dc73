"""Summaries of measured times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT = 1_000_000
"""Most times that a command keeps for its summary: 8 MB."""


def summary(seconds: Sequence[float]) -> dict[str, float] | None:
    """Return least, median, 99th percentile and greatest of some times in milliseconds; None without any."""
    if not seconds:
        return None
    ordered = sorted(seconds)

    def at(part: float) -> float:
        # The nearest rank: a percentile is a time that was measured.
        return round(ordered[math.ceil(part * len(ordered)) - 1] * 1e3, 4)

    return {"min": round(ordered[0] * 1e3, 4), "median": at(0.5), "p99": at(0.99), "max": at(1.0)}


def spoken(times: dict[str, float] | None) -> str:
    """Return a summary as text."""
    return "no times" if times is None else ", ".join(f"{name} {value:g} ms" for name, value in times.items())
