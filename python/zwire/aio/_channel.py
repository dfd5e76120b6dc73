"""The receiving end of a channel, and callbacks that run in the event loop."""

from __future__ import annotations

import contextvars
import weakref

from zwire import _zwire
from zwire._zwire import Inbox, end_turn, spend
from zwire.aio._context import Generic, Ready, T
from zwire.aio._loops import Door, current, deadline, left
from zwire.aio._query import Query, back, fail, hand
from zwire.errors import TimedOut, UsageError

TYPE_CHECKING = False  # as in zwire.errors
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self, TypeAlias

    from zwire._zwire import _RustHandler

    IntoCallback: TypeAlias = (
        "Callback[T] | _zwire.Callback[T] | _zwire.BatchCallback[T] | Callable[[T], object]"
    )
    IntoHandler: TypeAlias = "_RustHandler[T] | IntoCallback[T] | tuple[IntoCallback[T], object]"


def _wrapped(item: Any, wrap: Callable[[Any], T]) -> T | None:  # noqa: ANN401 - as it was received
    return None if item is None else wrap(item)


class Handler(Generic[T]):
    """The receiving end of a channel: an asynchronous iterator, which ends with its session.

    Several tasks may receive from one; each item goes to one of them. Backpressure is that of the channel:
    an item stays in the channel until a task takes it. A cancelled receive has taken no item.

    ::

        replies = session.get("demo/**", timeout=1)
        async for reply in replies:
            print(reply.result.payload.to_string())
    """

    def __init__(self, handler: _zwire.Handler[Any], wrap: Callable[[Any], T] | None = None) -> None:
        self._handler = handler
        self._inbox = inbox = Inbox(handler)
        self._door = Door(inbox)
        self._wrap = wrap
        self._take: Callable[[], T | None] = inbox.take
        self._take_in_turn: Callable[[], T | None] = inbox.take_in_turn
        if wrap is not None:
            self._take = lambda: _wrapped(inbox.take(), wrap)
            self._take_in_turn = lambda: _wrapped(inbox.take_in_turn(), wrap)

    def _ended(self) -> BaseException:
        """Return the exception that says that no more items come."""
        try:
            self._handler.try_recv()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the caller has to hear
            return error
        return UsageError("the channel is closed and empty")

    def try_recv(self) -> T | None:
        """Take the next item, or None if the channel is empty."""
        try:
            return self._take()
        except StopAsyncIteration:
            raise self._ended() from None

    async def _next(self, timeout: float | None) -> T:
        """Wait for the next item. Raises ``StopAsyncIteration`` at the end."""
        end = deadline(timeout)
        if end_turn():
            await current().turn()
        waited = False
        while True:
            try:
                item = self._take()
            finally:
                if waited:
                    self._door.pass_on()
            if item is not None:
                return item
            if not await self._door.wait(left(end)):
                raise TimedOut(f"nothing came within {timeout} s", seconds=timeout)
            waited = True

    async def recv(self, timeout: float | None = None) -> T:
        """Wait for the next item.

        Args:
            timeout: Seconds; None waits for ever.

        Raises:
            TimedOut: No item came in that time.
            SessionClosed: The session is closed, and everything was taken.
            UsageError: The channel is closed and empty.
        """
        try:
            return await self._next(timeout)
        except StopAsyncIteration:
            raise self._ended() from None

    async def recv_many(self, max_items: int, timeout: float | None = None) -> list[T]:
        """Take up to ``max_items`` items in one go, waiting for the first only.

        Args:
            max_items: Largest number of items to take.
            timeout: Seconds; None waits for ever. When they are over, the list is empty.

        Raises:
            SessionClosed: The session is closed, and everything was taken.
            UsageError: The channel is closed and empty.
        """
        items: list[Any] = await self.batch(
            lambda: self._handler.recv_many(max_items, 0.0), timeout, enough=max_items <= 0
        )
        return items if self._wrap is None else [self._wrap(item) for item in items]

    async def some(self, max_items: int) -> list[T]:
        """As :meth:`recv_many`; raises ``StopAsyncIteration`` at the end."""
        items = [await self._next(None)]
        while len(items) < max_items:
            try:
                item = self._take()
            except StopAsyncIteration:
                break
            if item is None:
                break
            items.append(item)
        return items

    async def batch(
        self,
        take: Callable[[], Any],
        timeout: float | None,
        *,
        enough: bool = False,
    ) -> Any:  # noqa: ANN401 - whatever `take` gives
        """Call ``take``, which does not block, until it returns something or the time is over."""
        end = deadline(timeout)
        if end_turn():
            await current().turn()
        waited = enough
        while True:
            # Taking an empty batch is not free: builds one without rows.
            if waited or len(self._handler):
                try:
                    taken = take()
                finally:
                    if waited:
                        self._door.pass_on()
                if len(taken) or enough:
                    spend(len(taken))
                    return taken
            if not await self._door.wait(left(end)):
                return take()
            waited = True

    @property
    def end(self) -> str | None:
        """Outcome of the get that feeds this handler; None while the get runs, and for other handlers.

        ``completed``, ``no_queryable``, ``budget_spent``, ``timed_out``, ``link_lost`` or ``cancelled``.
        """
        return self._handler.end

    @property
    def dropped(self) -> int:
        """Number of items dropped because the channel was full."""
        return self._handler.dropped

    @property
    def replaced(self) -> int:
        """Number of items replaced by newer ones of the same key, in a ``LatestChannel``."""
        return self._handler.replaced

    def __repr__(self) -> str:
        return repr(self._handler)

    def __len__(self) -> int:
        return len(self._handler)

    def __bool__(self) -> bool:
        return True

    def __aiter__(self) -> Handler[T]:
        return self if self._wrap is None else _Loop(self, self)

    def _loop_over(self, receiver: object) -> Handler[T]:
        """Return the iterator for one loop over its receiver, which stays declared as long as the loop."""
        return (_Holding if self._wrap is None else _Loop)(self, receiver)

    async def __anext__(self) -> T:
        # Fast path for a task with queued items: no waiting, nothing to prepare.
        item = self._take_in_turn()
        return await self._next(None) if item is None else item


class _Holding(Handler[T]):
    """A handler that holds the object that it iterates over."""

    def __init__(self, handler: Handler[T], iterated: object) -> None:
        # Share one door: a channel has one bell.
        self.__dict__.update(handler.__dict__)
        self._iterated = iterated

    def __aiter__(self) -> Self:
        return self


class _Loop(_Holding[T]):
    """A loop over queries. Ends the query it returned last if that was answered, and keeps no reference."""

    def __init__(self, handler: Handler[T], iterated: object) -> None:
        super().__init__(handler, iterated)
        self._last: weakref.ref[Query] | None = None

    def _end_turn(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            back(last(), "went-on")

    async def __anext__(self) -> T:
        self._end_turn()
        item = await super().__anext__()
        if isinstance(item, Query):
            hand(item)
            self._last = weakref.ref(item)
        return item

    def __del__(self) -> None:
        # It was left.
        try:
            self._end_turn()
        except UsageError:
            # Not from within its event loop, or that has ended.
            return


class Callback(Generic[T]):
    """A callback, perhaps a coroutine function, that runs in the event loop.

    Args:
        callback: Gets each item, in their order.
        drop: Called when no more items come.
        concurrency: Largest number of calls under way at once; they begin in the order of their items. With
            1, each waits for the one before.
        on_error: Gets what ``callback`` raises; otherwise the exception handler of the loop.
    """

    def __init__(
        self,
        callback: Callable[[T], object],
        drop: Callable[[], object] | None = None,
        *,
        concurrency: int = 1,
        on_error: Callable[[BaseException], object] | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {concurrency}")
        if not callable(callback):
            raise TypeError(f"callback must be a callable, not {type(callback).__name__}")
        self.callback = callback
        self.drop = drop
        self.concurrency = concurrency
        self.on_error = on_error
        self.batch: int | None = None

    def __call__(self, arg: T) -> object:
        return self.callback(arg)

    def __repr__(self) -> str:
        return f"<Callback of {self.callback!r}, concurrency={self.concurrency}>"


serving: contextvars.ContextVar[Server[Any] | None] = contextvars.ContextVar("zwire.aio", default=None)
"""The server with a callback that runs in this task."""


class Server(Generic[T]):
    """The tasks of one callback. They keep a reference to the declared entity."""

    def __init__(self, handler: Handler[T], callback: Callback[T], declared: object) -> None:
        self._handler = handler
        self._callback = callback
        self._declared = declared
        self.stopped = False
        self.errors = 0
        self._workers = 0
        self._busy = 0
        self._reactor = current()
        self._over = False
        self._waiters: list[Any] = []
        self._start()

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until the callback has come back for the last time; False when the time is over first."""
        if not self._over and serving.get() is not self and self._reactor is current():
            signal = self._reactor.signal()
            self._waiters.append(signal)
            return await self._reactor.wait(signal, timeout)
        return True

    def stop(self) -> None:
        """Call the callback no more; its ``drop`` still is."""
        self.stopped = True

    def _start(self) -> None:
        self._workers += 1
        self._reactor.spawn(self._work)

    async def _next(self) -> Any:  # noqa: ANN401 - an item, or a list of them
        if self._callback.batch is None:
            return await anext(self._handler)
        return await self._handler.some(self._callback.batch)

    async def _work(self) -> None:
        serving.set(self)
        try:
            while not self.stopped:
                try:
                    item = await self._next()
                except StopAsyncIteration:
                    break
                if self.stopped:
                    break
                self._busy += 1
                if self._busy == self._workers < self._callback.concurrency:
                    self._start()
                try:
                    await self._call(item)
                finally:
                    self._busy -= 1
                # A query is finished when no reference to it is left.
                del item
        finally:
            self._workers -= 1
            if not self._workers:
                await self._end()

    async def _call(self, item: T) -> None:
        # Items of one kind, or a list of such, which is the program's from now on.
        items: list[object] = item if isinstance(item, list) else [item]
        is_asked = bool(items) and isinstance(items[0], Query)
        queries = [weakref.ref(query) for query in items if isinstance(query, Query)] if is_asked else []
        del items
        for query in queries:
            hand(query())
        try:
            result = self._callback.callback(item)
            if hasattr(result, "__await__"):
                await result
        except BaseException as error:  # one bad call does not end the subscription
            if self._reactor.ends(error):
                raise
            self._report(error)
            for query in queries:
                await fail(query(), error)
                back(query(), "raised")
        else:
            for query in queries:
                back(query(), "returned")

    async def _end(self) -> None:
        self._declared = None
        self._over = True
        for signal in self._waiters:
            self._reactor.fire(signal)
        if self._callback.drop is not None:
            try:
                result = self._callback.drop()
                if hasattr(result, "__await__"):
                    await result
            except Exception as error:  # noqa: BLE001 - as above
                self._report(error)

    def _report(self, error: BaseException) -> None:
        self.errors += 1
        self._handler._inbox.count_error()  # noqa: SLF001 - of the same file
        if self._callback.on_error is None:
            self._reactor.report(f"exception in {self._callback.callback!r}", error)
            return
        try:
            self._callback.on_error(error)
        except Exception as raised:  # noqa: BLE001 - as above
            self._reactor.report(f"exception in {self._callback.on_error!r}", raised)


def parse(handler: Any, concurrency: int) -> tuple[Any, Callback[Any] | None, Any]:  # noqa: ANN401
    """Take ``handler`` apart: the channel to declare with, the callback, what ``handler`` shows.

    Raises:
        ValueError: The handler is of no supported kind.
    """
    if isinstance(handler, tuple) and len(handler) == 2:
        return None, parse(handler[0], concurrency)[1], handler[1]
    if isinstance(handler, Callback):
        return None, handler, None
    if isinstance(handler, _zwire.Callback | _zwire.BatchCallback):
        callback: Callback[Any] = Callback(
            handler.callback, handler.drop, concurrency=concurrency, on_error=handler.on_error
        )
        if isinstance(handler, _zwire.BatchCallback):
            callback.batch = handler.max_items
        return None, callback, None
    if callable(handler):
        return None, Callback(handler, concurrency=concurrency), None
    return handler, None, None


class Receiver(Ready, Generic[T]):
    """An entity with a channel, or with a callback in its place."""

    def __init__(
        self,
        declare: Callable[[Any], Any],
        handler: object,
        wrap: Callable[[Any], T] | None = None,
        *,
        concurrency: int = 1,
        servers: weakref.WeakSet[Server[Any]] | None = None,
    ) -> None:
        channel, callback, shown = parse(handler, concurrency)
        if callback is not None:
            # A callback needs a running loop: fail before anything is declared.
            current()
        self._inner = inner = declare(channel)
        self._channel: Handler[T] | None = Handler(self._source(inner), wrap)
        self._shown = shown
        # For receivers that this one declares in turn.
        self._servers = servers
        self._server: Server[T] | None = None
        if callback is not None:
            self._server = Server(self._channel, callback, inner)
            if servers is not None:
                servers.add(self._server)
            self._channel = None

    def __repr__(self) -> str:
        return repr(self._inner)

    @staticmethod
    def _source(inner: Any) -> _zwire.Handler[Any]:  # noqa: ANN401
        source: _zwire.Handler[Any] = inner.handler
        return source

    def _open(self) -> Handler[T]:
        if self._channel is None:
            raise UsageError("this has a callback: items go there, not through a channel")
        return self._channel

    @property
    def handler(self) -> Any:  # noqa: ANN401 - as in the other interface
        """The channel, or the object given with the callback."""
        return self._shown if self._channel is None else self._channel

    def try_recv(self) -> T | None:
        """Take the next item, or None if the channel is empty."""
        return self._open().try_recv()

    async def recv(self, timeout: float | None = None) -> T:
        """Wait for the next item.

        Args:
            timeout: Seconds; None waits for ever.

        Raises:
            TimedOut: No item came in that time.
            SessionClosed: The session is closed, and everything was taken.
            UsageError: It has ended, and everything was taken; or there is a callback, which gets the items.
        """
        return await self._open().recv(timeout)

    async def recv_many(self, max_items: int, timeout: float | None = None) -> list[T]:
        """Take up to ``max_items`` items in one go, waiting for the first only.

        ``timeout`` is in seconds; when they are over, the list is empty. Errors are those of :meth:`recv`.
        """
        return await self._open().recv_many(max_items, timeout)

    def __aiter__(self) -> Handler[T]:
        return self._open()._loop_over(self)  # noqa: SLF001 - of the same file
