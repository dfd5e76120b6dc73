"""Blocking calls in threads of their own: open, close, and sends that find their queue full.

Idle threads end. Their number is limited: a call that finds all of them busy waits for its turn, as a
task.
"""

from __future__ import annotations

import collections
import os
import threading

from zwire._zwire import Stopper
from zwire.aio._loops import current

TYPE_CHECKING = False  # as in zwire.errors
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final, ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")

MOST_CALLS: Final = 32
"""Most threads for calls that return by themselves."""
MOST_WAITS: Final = 256
"""Most threads for calls that may wait without end. They keep no other call waiting."""
LINGER: Final = 0.2
"""Seconds for which a thread waits for the next call."""


class _Pool:
    def __init__(self, most: int) -> None:
        self._most = most
        self.forget()

    def forget(self) -> None:
        self._changed = threading.Condition()
        self._calls: collections.deque[Callable[[], None]] = collections.deque()
        self._threads = 0
        self._idle = 0

    def submit(self, call: Callable[[], None]) -> None:
        with self._changed:
            self._calls.append(call)
            if self._idle < len(self._calls) and self._threads < self._most:
                threading.Thread(target=self._work, name="zwire-aio", daemon=True).start()
                self._threads += 1
            else:
                self._changed.notify()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            if not self._calls:
                self._idle += 1
                self._changed.wait(LINGER)
                self._idle -= 1
            if self._calls:
                return self._calls.popleft()
            self._threads -= 1
            return None

    def _work(self) -> None:
        while (call := self._next()) is not None:
            call()
            # Drop the references now, not when the next call comes.
            del call


_calls, _waits = _Pool(MOST_CALLS), _Pool(MOST_WAITS)


def _forget() -> None:
    """Start afresh in a forked child, which has none of the threads."""
    _calls.forget()
    _waits.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class _Call:
    """A call in another thread; the task that made it may be cancelled meanwhile."""

    def __init__(self, undo: Callable[[Any], object] | None) -> None:
        self.stopper = Stopper()
        self._undo = undo
        self._lock = threading.Lock()
        self._abandoned = False
        self.result: Any = None
        self.error: BaseException | None = None

    def make(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        with self._lock:
            if self._abandoned:
                return
        try:
            result, error = self.stopper.run(function, *args, **kwargs), None
        except BaseException as raised:  # noqa: BLE001 - it is raised where the call came from
            result, error = None, raised
        with self._lock:
            if not self._abandoned:
                self.result, self.error = result, error
                return
        # The task was cancelled: no one is left to take the result.
        if error is None and self._undo is not None:
            self._undo(result)

    def abandon(self) -> None:
        """Give up the result: its task was cancelled."""
        with self._lock:
            self._abandoned = True
            result, error, self.result = self.result, self.error, None
        self.stopper.stop()
        if result is not None and error is None and self._undo is not None:
            # The call finished in the very moment in which its task was cancelled.
            undo = self._undo

            def late() -> None:
                undo(result)

            _calls.submit(late)


async def _in(
    pool: _Pool,
    undo: Callable[[Any], object] | None,
    function: Callable[..., T],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> T:
    reactor = current()
    signal = reactor.signal()
    call = _Call(undo)

    def work() -> None:
        call.make(function, args, kwargs)
        try:
            reactor.post(lambda: reactor.fire(signal))
        except RuntimeError:
            # The loop is closed, and its tasks with it.
            call.abandon()

    pool.submit(work)
    try:
        await reactor.wait(signal, None)
    except BaseException:
        call.abandon()
        raise
    if call.error is not None:
        try:
            raise call.error
        finally:
            # An error that refers to the frame that it was raised in is a cycle.
            del call
    result: T = call.result
    return result


async def run(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that blocks for a while. If the task is cancelled, the wait is ended early."""
    return await _in(_calls, None, function, args, kwargs)


async def wait(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that may block without end."""
    return await _in(_waits, None, function, args, kwargs)


async def make(
    undo: Callable[[T], object], function: Callable[..., T], /, *args: object, **kwargs: object
) -> T:
    """Call a function in a thread; undo its result if the task is cancelled before it takes it."""
    return await _in(_waits, undo, function, args, kwargs)
