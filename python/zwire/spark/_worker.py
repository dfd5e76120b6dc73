"""The process of a worker of Spark, which runs one task after the other."""

from __future__ import annotations

import functools
import gc
import sys
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    T = TypeVar("T")
    P = ParamSpec("P")

_settled = False


def settle() -> None:
    """Exempt all that this worker has loaded from the collection of garbage; once, at the end of a task.

    Spark collects garbage after each task. That takes 25 ms in a worker with pyarrow and pandas, longer than
    a task of one row, and finds nothing in modules.
    """
    global _settled  # noqa: PLW0603 - of this process
    if _settled or not _in_task():
        return
    _settled = True
    gc.collect()
    gc.freeze()


def _in_task() -> bool:
    if "pyspark" not in sys.modules:
        return False
    from pyspark import TaskContext

    return TaskContext.get() is not None


def task(function: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """Make a function that runs as a task call :func:`settle` behind its last result."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        yield from function(*args, **kwargs)
        settle()

    return run
