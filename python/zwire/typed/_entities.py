"""Shared parts of the typed entities, for sessions of either interface: bases, iterators and handlers."""

from __future__ import annotations

import functools
import inspect
import threading
import time
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, cast

from zwire.errors import UsageError
from zwire.zenoh.handlers import BatchCallback, Callback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zwire import zenoh
    from zwire.zenoh import handlers

    AnyChannel: TypeAlias = (
        handlers.DefaultHandler[Any]
        | handlers.FifoChannel[Any]
        | handlers.RingChannel[Any]
        | handlers.Channel[Any]
        | handlers.LatestChannel[Any]
    )

T = TypeVar("T")

LEFT_OUT: Any = object()
"""Marks an item that is skipped."""


class Keyed:
    """An entity declared on a key expression, in either interface."""

    _declared: Any

    @property
    def key_expr(self) -> zenoh.KeyExpr:
        """The key expression."""
        return cast("zenoh.KeyExpr", self._declared.key_expr)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of values by {self._declared!r}>"


class Counting(Keyed):
    """A reader of payloads that counts those that are no values of its model."""

    def __init__(self) -> None:
        """Start the count at 0."""
        self._failed = 0
        # Callbacks may run in several threads.
        self._lock = threading.Lock()

    @property
    def failed(self) -> int:
        """Number of payloads so far that were no values of the model."""
        return self._failed

    def _count_failure(self) -> None:
        with self._lock:
            self._failed += 1


class Declared:
    """An entity ended by ``undeclare`` or ``with``."""

    _declared: Any

    def undeclare(self) -> None:
        """Undeclare the entity. A second call raises ``UsageError``."""
        self._declared.undeclare()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.undeclare()


class Items(Generic[T]):
    """Values made of the items of an iterator; an item that cannot be converted does not end it."""

    def __init__(self, source: Iterator[Any], read: Callable[[Any], T]) -> None:
        """Wrap the items of the source; items for which ``read`` returns ``LEFT_OUT`` are skipped."""
        self._source = source
        self._read = read

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        while True:
            item = self._read(next(self._source))
            if item is not LEFT_OUT:
                return item


def remaining(timeout: float | None) -> Iterator[float | None]:
    """Iterate over the seconds left of a timeout: all of it, and then what is left at each step."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        yield timeout
        timeout = None if end is None else max(0.0, end - time.monotonic())


def only_blocking(session: object, handler: object = None) -> None:
    """Refuse sessions of event loops, which have functions of their own, and coroutine functions."""
    if type(session).__module__.startswith("zwire.aio"):
        raise TypeError("a session of zwire.aio: use zwire.aio.typed, which has functions of the same names")
    call = handler.callback if isinstance(handler, Callback | BatchCallback) else handler
    if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__):
        raise UsageError(
            "the handler is an `async def` function, which would never be awaited here: "
            "use `zwire.aio.typed`, or a function that is not async"
        )


def wrap(handler: Any, read: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - a channel or a callback
    """Turn a callback of values into one of samples or queries; a channel is returned unchanged.

    ``read`` returns ``LEFT_OUT`` for items to skip.
    """
    if not callable(handler):
        return handler
    # Wrap inside of a Callback, so that its settings for threads, errors and the end apply.
    call = handler.callback if isinstance(handler, Callback | BatchCallback) else handler

    # Reports of exceptions name the function of the program.
    @functools.wraps(call)
    def deliver(item: Any) -> Any:  # noqa: ANN401
        value = read(item)
        return None if value is LEFT_OUT else call(value)

    @functools.wraps(call)
    def deliver_many(items: list[Any]) -> Any:  # noqa: ANN401
        values = [value for item in items if (value := read(item)) is not LEFT_OUT]
        return call(values) if values else None

    if isinstance(handler, BatchCallback):
        return BatchCallback(
            deliver_many, handler.drop, max_items=handler.max_items, on_error=handler.on_error
        )
    if isinstance(handler, Callback):
        return Callback(deliver, handler.drop, indirect=handler.indirect, on_error=handler.on_error)
    return deliver
