"""Comparison of this checkout with another one, such as the commit before a change.

Each area is measured by the ``benches/run.py`` of both checkouts, a round of each in turn, each with the
``.venv`` beside it. The speed of a machine drifts within minutes, so turns are short and figures of one turn
are compared. Those of zwire are: a ratio to the peer has the noise of both. A row passes unless it is worse
by more than the tolerance beyond its noise.
"""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from python.plan import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parents[2]
# Longest run of one area: codec compiles its peer first.
AREA_SECONDS = 1800.0
# Share by which a row may be worse.
TOLERANCE = 0.05
# Names of rows in areas where they are not that of the area.
ROWS = {"roundtrip": "(ping|query)"}


@dataclass
class Comparison:
    """Figures of a row in both checkouts, by the number of the turn."""

    less_is_better: bool
    here: dict[int, float] = field(default_factory=dict)
    there: dict[int, float] = field(default_factory=dict)

    @property
    def ratios(self) -> list[float]:
        """Here to there in each turn that both have measured, so that more is better."""
        ratios = [self.here[turn] / self.there[turn] for turn in self.here.keys() & self.there.keys()]
        return [1 / ratio for ratio in ratios] if self.less_is_better else ratios

    @property
    def gain(self) -> float:
        return median(self.ratios)

    @property
    def noise(self) -> float:
        """Two standard errors of the median, estimated by the median absolute deviation."""
        gain, ratios = self.gain, self.ratios
        deviation = 1.4826 * median(abs(ratio - gain) for ratio in ratios)
        return 2 * 1.2533 * deviation / math.sqrt(len(ratios))

    @property
    def is_worse(self) -> bool:
        return self.gain < 1 - TOLERANCE - self.noise


def _rows(checkout: Path, only: str, options: Sequence[str]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        command = [checkout / ".venv/bin/python", checkout / "benches/run.py", "--only", only, "--json", out]
        result = subprocess.run(
            [*map(str, command), *options],
            cwd=checkout,
            capture_output=True,
            text=True,
            timeout=AREA_SECONDS,
            check=False,
        )
        if not out.exists():
            raise RuntimeError(f"{checkout}: benches/run.py --only {only!r} failed:\n{result.stderr}")
        rows: list[dict[str, Any]] = json.loads(out.read_text(encoding="utf-8"))["rows"]
        return rows


def compare(there: Path, areas: Sequence[str], passes: int, options: Sequence[str]) -> tuple[str, bool]:
    """Measure the areas in both checkouts; return a table, and whether no row is worse or has failed."""
    found: dict[tuple[str, str], Comparison] = {}
    failed: list[str] = []
    skipped: list[str] = []
    for area in areas:
        for half in range(2 * passes):
            is_here = half % 4 in {0, 3}
            checkout = HERE if is_here else there
            progress(f"{area}: {checkout}")
            for row in _rows(checkout, f"^{ROWS.get(area, area)} ", options):
                key = row["area"], row["name"]
                if row["failed"] or row["skipped"]:
                    reason = f"{' '.join(key)}, {checkout}: {row['failed'] or row['skipped']}"
                    (failed if row["failed"] else skipped).append(reason)
                    continue
                comparison = found.setdefault(key, Comparison(row["less_is_better"]))
                (comparison.here if is_here else comparison.there)[half // 2] = row["ours_median"]
    both = {key: one for key, one in found.items() if one.ratios}
    skipped += [f"{' '.join(key)}: only in one checkout" for key in found.keys() - both.keys()]
    lines = [f"{'row':<58}  here/there  noise  verdict"]
    for key, one in sorted(both.items(), key=lambda item: item[1].gain):
        verdict = "WORSE" if one.is_worse else "ok"
        lines.append(f"{' '.join(key):<58}  {one.gain:10.3f}  {one.noise:5.3f}  {verdict}")
    lines += [f"FAILED: {reason}" for reason in failed]
    lines += [f"not compared: {reason}" for reason in dict.fromkeys(skipped)]
    return "\n".join(lines), bool(both) and not failed and not any(one.is_worse for one in both.values())
