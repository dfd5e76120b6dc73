"""Live plots for notebooks.

>>> from zwire import plot
>>> shown = plot.live(session, "robot/*/battery")  # doctest: +SKIP

In a notebook the figure appears below the cell and moves until ``shown.close()``; in other programs
``shown.figure()`` draws it. Needs ``zwire[plot]``; numbers in arrays of numpy need ``zwire[numpy]``.
"""

from __future__ import annotations

import io
import math
import threading
import time
from collections import deque
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from zwire import frames
from zwire._lazy import library
from zwire._text import printable
from zwire.errors import PayloadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from matplotlib.figure import Figure

    from zwire.zenoh import Sample, Session

__all__ = ["Live", "live"]

_DEEPEST = 4
"""Levels of a JSON object at which numbers are looked for."""

_WIDEST = 64
"""Numbers of one sample that are plotted."""

_LONGEST = 60
"""Characters of a name in the legend."""

Numbers: TypeAlias = float | Mapping[str, float] | None
"""Number of a sample, or numbers by name."""


class Live:
    """A plot of the numbers of a subscription, see :func:`live`."""

    def __init__(
        self,
        session: Session,
        key: str,
        value: Callable[[Sample], Numbers] | None,
        *,
        seconds: float,
        points: int,
        series: int,
    ) -> None:
        library("matplotlib", "plot")
        self._key = key
        self._value = value
        self._seconds, self._points, self._most = seconds, points, series
        self._lock = threading.Lock()
        self._series: dict[str, deque[tuple[float, float]]] = {}
        self._ended = threading.Event()
        self._shown: Any = None
        self._thread: threading.Thread | None = None
        self.samples: int = 0
        """Number of samples so far."""
        self.skipped: int = 0
        """Number of samples without a number, or of which ``value`` has raised."""
        self.refused: int = 0
        """Numbers beyond the largest number of series."""
        self._subscriber = session.declare_subscriber(key, self._add)

    def __repr__(self) -> str:
        return f"<Live plot of {self._key}, {len(self._series)} series, {self.samples} samples>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_args: object) -> None:
        self.close()

    def _ipython_display_(self) -> None:
        """Show it at the end of a cell, unless it is shown already."""
        self.show()

    def close(self) -> None:
        """End the subscription; the figure stays as it is."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._subscriber.undeclare()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def series(self) -> dict[str, list[tuple[float, float]]]:
        """Return the points of each series: seconds since 1970, and the number."""
        with self._lock:
            return {name: list(points) for name, points in self._series.items()}

    def figure(self) -> Figure:
        """Draw the present points."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.5), layout="constrained")
        axes = figure.subplots()
        now = time.time()
        found = self.series()
        for name, points in found.items():
            inside = [(at - now, number) for at, number in points if now - at <= self._seconds]
            label = printable(name)
            # A name with an underscore in front would not be in the legend, and $ begins a formula.
            label = label if len(label) <= _LONGEST else f"{label[:_LONGEST]} ..."
            axes.plot(
                [at for at, _ in inside],
                [number for _, number in inside],
                marker="." if len(inside) < 2 else None,
                label=" " + label.replace("$", r"\$"),
            )
        axes.set_xlim(-self._seconds, 0)
        axes.set_xlabel("seconds ago")
        more = f", {self.refused:,} numbers of further series" if self.refused else ""
        title = f"{self._key}: {self.samples:,} samples{more}".replace("$", r"\$")
        axes.set_title(printable(title), fontsize="medium")
        axes.grid(visible=True, alpha=0.3)
        if found:
            axes.legend(loc="upper left", fontsize="small")
        return figure

    def png(self) -> bytes:
        """Return the figure as an image."""
        out = io.BytesIO()
        self.figure().savefig(out, format="png", dpi=100)
        return out.getvalue()

    def show(self, interval: float = 0.5) -> None:
        """Show the figure in the notebook, and draw it again every ``interval`` seconds until ``close``.

        Raises:
            ImportError: IPython is not installed.
        """
        if self._thread is not None:
            return
        try:
            display: Any = import_module("IPython.display").display
        except ImportError as error:
            raise ImportError("a notebook has IPython; elsewhere use figure()") from error
        self._shown = display(_Picture(self), display_id=True)
        # A thread of its own, so that the figure moves while cells run.
        self._thread = threading.Thread(target=self._move, args=(interval,), name="zwire-plot", daemon=True)
        self._thread.start()

    def _move(self, interval: float) -> None:
        while not self._ended.wait(interval):
            if self._shown is not None:
                self._shown.update(_Picture(self))

    def _add(self, sample: Sample) -> None:
        now = time.time()
        key = str(sample.key_expr)
        try:
            found = list(_named(key, self._numbers(sample)))
        except (PayloadError, TypeError, ValueError, ArithmeticError, LookupError):
            found = []
        with self._lock:
            self.samples += 1
            if not found:
                self.skipped += 1
            for name, number in found[:_WIDEST]:
                points = self._series.get(name)
                if points is None:
                    if len(self._series) >= self._most:
                        self.refused += 1
                        continue
                    points = self._series[name] = deque(maxlen=self._points)
                points.append((now, number))

    def _numbers(self, sample: Sample) -> Any:  # noqa: ANN401 - of the payload
        if self._value is not None:
            return self._value(sample)
        if sample.kind.name == "DELETE":
            return None
        return frames.value(sample.payload, sample.encoding)


class _Picture:
    """What a notebook shows in the place of the plot."""

    def __init__(self, plot: Live) -> None:
        self._plot = plot

    def __repr__(self) -> str:
        return repr(self._plot)

    def _repr_png_(self) -> bytes:
        return self._plot.png()


def live(
    session: Session,
    key: str,
    *,
    value: Callable[[Sample], Numbers] | None = None,
    seconds: float = 60.0,
    points: int = 10_000,
    series: int = 16,
    interval: float = 0.5,
) -> Live:
    """Plot numbers while they come.

    Each number of a sample is a point of a series: the payload itself, or the fields of a JSON object
    (``robot/1/pose.x``). In a notebook the figure is shown at once.

    Args:
        session: Session of :mod:`zwire.zenoh`.
        key: Key expression.
        value: Returns the number of a sample, numbers by name, or ``None``; by default those of the payload.
        seconds: Width of the plot.
        points: Most points that a series keeps.
        series: Most series; further ones are counted in ``refused``.
        interval: Seconds between two drawings in a notebook.

    Raises:
        ImportError: matplotlib is missing (``zwire[plot]``).
        KeyExprError: The key is not legal.
        ValueError: A number is not above 0.
    """
    for name, number in (
        ("seconds", seconds),
        ("points", points),
        ("series", series),
        ("interval", interval),
    ):
        if not 0 < number < math.inf:
            raise ValueError(f"{name} must be above 0, not {number!r}")
    made = Live(session, key, value, seconds=seconds, points=points, series=series)
    if _in_notebook():
        made.show(interval)
    return made


def _in_notebook() -> bool:
    """Return whether a kernel of Jupyter runs this program."""
    import sys

    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


def _named(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, float]]:  # noqa: ANN401
    """Yield the numbers in a value, with their names."""
    if isinstance(value, dict):
        if depth < _DEEPEST:
            for field, inner in value.items():
                yield from _named(f"{name}.{field}", inner, depth + 1)
        return
    if isinstance(value, str | list | tuple | bytes) or value is None:
        # A text may be a number; lists are no points.
        number = float(value) if isinstance(value, str) and not depth else math.nan
    elif getattr(value, "size", 1) == 1:
        number = float(value)
    else:
        return
    if math.isfinite(number):
        yield name, number
