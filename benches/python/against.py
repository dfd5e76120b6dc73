"""Comparison of this checkout with another one, such as the commit before a change.

Each area is measured by the ``benches/run.py`` of both checkouts, in turns and in alternating order, each
with the ``.venv`` beside it. A row passes unless it is worse by more than the tolerance beyond its noise.
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


@dataclass
class Pair:
    """Trials of a row in both checkouts."""

    unit: str
    less_is_better: bool
    here: list[float] = field(default_factory=list)
    there: list[float] = field(default_factory=list)

    @property
    def gain(self) -> float:
        """Here to there, so that more is better."""
        ratio = median(self.here) / median(self.there)
        return 1 / ratio if self.less_is_better else ratio

    @property
    def noise(self) -> float:
        """Two standard errors of the ratio of medians, estimated by median absolute deviations."""
        return 2 * math.hypot(_error(self.here), _error(self.there))

    @property
    def worse(self) -> bool:
        return self.gain < 1 - TOLERANCE - self.noise


def _error(trials: list[float]) -> float:
    """The relative standard error of the median of normally distributed trials."""
    middle = median(trials)
    deviation = 1.4826 * median(abs(trial - middle) for trial in trials)
    return 1.2533 * deviation / middle / math.sqrt(len(trials))


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
    """Measure the areas in both checkouts; return a table, and whether no row is worse."""
    pairs: dict[tuple[str, str], Pair] = {}
    failed: list[str] = []
    for area in areas:
        for turn in range(2 * passes):
            here = turn % 4 in {0, 3}
            checkout = HERE if here else there
            progress(f"{area}: {'this checkout' if here else checkout}")
            for row in _rows(checkout, f"^{area} ", options):
                if row["failed"] or row["skipped"]:
                    failed.append(f"{row['area']} {row['name']}: {row['failed'] or row['skipped']}")
                    continue
                pair = pairs.setdefault((row["area"], row["name"]), Pair(row["unit"], row["less_is_better"]))
                (pair.here if here else pair.there).extend(trial["value"] for trial in row["ours"])
    both = {key: pair for key, pair in pairs.items() if pair.here and pair.there}
    failed += [f"{area} {name}: only in one checkout" for area, name in pairs.keys() - both.keys()]
    lines = [f"{'row':<58}  here/there  noise  verdict"]
    for (area, name), pair in sorted(both.items(), key=lambda item: item[1].gain):
        verdict = "WORSE" if pair.worse else "ok"
        lines.append(f"{area + ' ' + name:<58}  {pair.gain:10.3f}  {pair.noise:5.3f}  {verdict}")
    lines += [f"not compared: {text}" for text in dict.fromkeys(failed)]
    return "\n".join(lines), bool(both) and not any(pair.worse for pair in both.values())
