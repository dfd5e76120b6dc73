"""Event loops: the differences between asyncio and trio, and the wake-up of tasks by the compiled module."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import types
import weakref
from abc import ABC, abstractmethod

from zwire._zwire import WakeThread, Wakeups
from zwire.errors import UsageError

TYPE_CHECKING = False  # as in zwire.errors
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Generator
    from typing import Any

    from zwire._zwire import Inbox, Pending


class Reactor(ABC):
    """An event loop with its doors, and the operations in which asyncio and trio differ."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self.doors: dict[int, Door] = {}
        self._wake = wake
        self._wakeups: Wakeups | None = None
        self._tokens = 0

    @property
    def wakeups(self) -> Wakeups:
        """The object that reports rung bells to this loop; made, with its thread, on first use."""
        if self._wakeups is None:
            self._wakeups = Wakeups(_wake_thread(), self._wake)
        return self._wakeups

    def token(self) -> int:
        """Return the number of a new door."""
        self._tokens += 1
        return self._tokens

    def take(self) -> None:
        """Open the doors for all bells rung since the last call; called in the loop."""
        for token in self.wakeups.take():
            door = self.doors.get(token)
            if door is not None:
                door.open()

    @abstractmethod
    def is_closed(self) -> bool:
        """Whether nothing of the loop runs any more."""

    @abstractmethod
    def task(self) -> object:
        """Return the task that runs."""

    @abstractmethod
    def signal(self) -> Any:  # noqa: ANN401 - a future or an event
        """Make a signal to wait for, once."""

    @abstractmethod
    def fire(self, signal: Any) -> None:  # noqa: ANN401
        """Wake the task that waits for a signal; no effect if it is awake already."""

    @abstractmethod
    async def wait(self, signal: Any, timeout: float | None) -> bool:  # noqa: ANN401
        """Wait for a signal; False when the time was over before it came."""

    @abstractmethod
    async def turn(self) -> None:
        """Let other tasks run."""

    @abstractmethod
    def post(self, call: Callable[[], object]) -> None:
        """Have the loop call a function, from any thread. Raises ``RuntimeError`` if the loop is closed."""

    @abstractmethod
    def spawn(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a task without a parent. It must not raise."""

    def ends(self, error: BaseException) -> bool:
        """Return whether an error ends the task in which it was raised; others are errors of a callback."""
        return not isinstance(error, Exception)

    @abstractmethod
    def report(self, message: str, error: BaseException) -> None:
        """Report an error that no caller can receive as an exception."""


@types.coroutine
def _pass() -> Generator[None, None, None]:
    yield


class _Asyncio(Reactor):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak references: the compiled module cannot report to the collector what it holds.
        reactor, weak = weakref.ref(self), weakref.ref(loop)

        def wake() -> None:
            own, loop = reactor(), weak()
            if own is not None and loop is not None:
                loop.call_soon_threadsafe(own.take)

        super().__init__(wake)
        self._loop = weak
        self._tasks: set[asyncio.Task[None]] = set()

    def _running(self) -> asyncio.AbstractEventLoop:
        loop = self._loop()
        if loop is None:
            raise UsageError("the event loop is closed")
        return loop

    def is_closed(self) -> bool:
        loop = self._loop()
        return loop is None or loop.is_closed()

    def task(self) -> object:
        import asyncio

        return asyncio.current_task()

    def signal(self) -> asyncio.Future[bool]:
        return self._running().create_future()

    def fire(self, signal: asyncio.Future[bool], value: bool = True) -> None:
        if not signal.done():
            signal.set_result(value)

    async def wait(self, signal: asyncio.Future[bool], timeout: float | None) -> bool:
        if timeout is None:
            return await signal
        timer = self._running().call_later(timeout, self.fire, signal, False)
        try:
            return await signal
        finally:
            timer.cancel()

    async def turn(self) -> None:
        await _pass()

    def post(self, call: Callable[[], object]) -> None:
        self._running().call_soon_threadsafe(call)

    def spawn(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self._running().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def ends(self, error: BaseException) -> bool:
        import asyncio

        if isinstance(error, asyncio.CancelledError):
            # A callback may raise it by itself, if it has waited for a cancelled task.
            task = asyncio.current_task()
            return task is None or task.cancelling() > 0
        return not isinstance(error, Exception)

    def report(self, message: str, error: BaseException) -> None:
        self._running().call_exception_handler({"message": message, "exception": error})


class _Trio(Reactor):
    def __init__(self, trio: Any) -> None:  # noqa: ANN401 - it need not be installed
        reactor = weakref.ref(self)
        token = trio.lowlevel.current_trio_token()

        def wake() -> None:
            own = reactor()
            if own is not None:
                token.run_sync_soon(own.take, idempotent=True)

        super().__init__(wake)
        self._trio = trio
        self._trio_token = token
        self._ended = False

    def is_closed(self) -> bool:
        try:
            self._trio_token.run_sync_soon(int)
        except self._trio.RunFinishedError:
            return True
        return False

    def task(self) -> object:
        return self._trio.lowlevel.current_task()

    def signal(self) -> Any:  # noqa: ANN401
        return self._trio.Event()

    def fire(self, signal: Any) -> None:  # noqa: ANN401
        signal.set()

    async def wait(self, signal: Any, timeout: float | None) -> bool:  # noqa: ANN401
        if timeout is None:
            await signal.wait()
            return True
        with self._trio.move_on_after(timeout):
            await signal.wait()
        return bool(signal.is_set())

    async def turn(self) -> None:
        await self._trio.lowlevel.checkpoint()

    def post(self, call: Callable[[], object]) -> None:
        self._trio_token.run_sync_soon(call)

    def spawn(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._trio.lowlevel.spawn_system_task(run)

    def report(self, message: str, error: BaseException) -> None:
        import logging

        logging.getLogger("zwire.aio").error(message, exc_info=error)


class Door:
    """A place where tasks wait until a channel, or another source, has something for them.

    As long as tasks wait, the bell is armed, or one of the tasks is awake and has not looked yet. A task
    that has looked, or stops waiting, calls :meth:`pass_on`.
    """

    __slots__ = ("_reactor", "_source", "_token", "_waiters")

    def __init__(self, source: Inbox[Any] | Pending) -> None:
        self._source = source
        self._reactor: Reactor | None = None
        self._token = 0
        self._waiters: dict[Any, None] = {}

    def _enter(self) -> Reactor:
        reactor = current()
        known = self._reactor
        if known is not reactor:
            if self._waiters and known is not None and not known.is_closed():
                raise UsageError("a task of another event loop waits for this")
            if known is not None:
                known.doors.pop(self._token, None)
            self._waiters.clear()
            self._token = reactor.token()
            self._source.bind(reactor.wakeups, self._token)
            self._reactor = reactor
        return reactor

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until a look may succeed; False if the time was over before that.

        After True, look, which may find nothing if another task was faster, and call :meth:`pass_on`.
        A cancelled wait takes nothing.
        """
        reactor = self._enter()
        signal = reactor.signal()
        self._waiters[signal] = None
        reactor.doors[self._token] = self
        try:
            if self._source.arm():
                self.open()
            woken = await reactor.wait(signal, timeout)
        except GeneratorExit:
            # The task is thrown away, by a collector and in any thread: most likely its loop is gone.
            if self._waiters.pop(signal, self) is None and not reactor.is_closed():
                reactor.post(self.pass_on)
            raise
        except BaseException:
            self._waiters.pop(signal, None)
            self.pass_on()
            raise
        self._waiters.pop(signal, None)
        if not woken:
            self.pass_on()
        return woken

    def open(self) -> None:
        """Wake the task that has waited longest."""
        signal = next(iter(self._waiters), None)
        if signal is not None and self._reactor is not None:
            self._reactor.fire(signal)

    def pass_on(self) -> None:
        """Let the next task look, if there is something to see."""
        if not self._waiters:
            self._source.disarm()
            if self._reactor is not None:
                self._reactor.doors.pop(self._token, None)
        elif self._source.arm():
            self.open()


async def until(pending: Pending, timeout: float | None = None) -> bool:
    """Wait for a condition; False if the time was over before. Raises the error of the condition, if any."""
    door = Door(pending)
    end = deadline(timeout)
    while not pending.look():
        if not await door.wait(left(end)):
            return pending.look()
    return True


def deadline(timeout: float | None) -> float | None:
    """Return the time at which ``timeout`` seconds are over; None for no limit."""
    if timeout is None:
        return None
    if not 0 <= timeout < float("inf"):
        raise ValueError(f"timeout must be seconds >= 0, not {timeout}")
    return _clock() + timeout


def left(end: float | None) -> float | None:
    """Return the seconds left until ``end``; None for no limit."""
    return None if end is None else max(0.0, end - _clock())


def _clock() -> float:
    import time

    return time.monotonic()


_lock = threading.Lock()
_thread: WakeThread | None = None
# Reactors refer to their loops weakly, but their doors refer to tasks, and tasks to their loops: closed loops
# are removed when the next one is made.
_asyncio: dict[int, tuple[weakref.ref[asyncio.AbstractEventLoop], _Asyncio]] = {}


def _wake_thread() -> WakeThread:
    global _thread  # noqa: PLW0603 - one for each process
    with _lock:
        if _thread is None:
            _thread = WakeThread()
            atexit.register(_thread.stop)
        return _thread


def _forget() -> None:
    """Start afresh in a forked child, which has no such thread and must not keep the lock."""
    global _thread, _lock
    _thread, _lock = None, threading.Lock()
    _asyncio.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def current() -> Reactor:
    """The reactor of the loop that runs this task.

    Raises:
        UsageError: Neither asyncio nor trio runs here.
    """
    trio = sys.modules.get("trio")
    # Asked first: inside of a guest run of trio there is a loop of asyncio, too.
    if trio is not None and hasattr(trio, "lowlevel") and _in_trio(trio):
        return _of_trio(trio)
    asyncio = sys.modules.get("asyncio")
    loop = None if asyncio is None else asyncio._get_running_loop()  # noqa: SLF001 - the public one raises
    if loop is None:
        raise UsageError("no event loop runs here: asyncio or trio")
    known = _asyncio.get(id(loop))
    if known is not None and known[0]() is loop:
        return known[1]
    reactor = _Asyncio(loop)
    for key, (weak, old) in list(_asyncio.items()):
        if weak() is None or old.is_closed():
            _asyncio.pop(key, None)
    _asyncio[id(loop)] = weakref.ref(loop), reactor
    return reactor


def _in_trio(trio: Any) -> bool:  # noqa: ANN401
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True


_trio_reactors: Any = None


def _of_trio(trio: Any) -> _Trio:  # noqa: ANN401
    global _trio_reactors  # noqa: PLW0603 - made when trio is there
    if _trio_reactors is None:
        _trio_reactors = trio.lowlevel.RunVar("zwire.aio")
    reactor: _Trio | None = _trio_reactors.get(None)
    if reactor is None:
        reactor = _Trio(trio)
        _trio_reactors.set(reactor)
    return reactor
