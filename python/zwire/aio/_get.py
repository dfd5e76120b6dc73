"""Gets, for event loops."""

from __future__ import annotations

from collections import deque

from zwire._zwire import CancellationToken, Pending, without_waiting
from zwire.aio._channel import Handler, Server, parse
from zwire.aio._loops import current, until
from zwire.errors import UsageError

TYPE_CHECKING = False  # as in zwire.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from zwire._zwire import Reply


class Replies(Handler["Reply"]):
    """A get in progress.

    ``await`` it for a list of all replies, or iterate over them as they come with ``async for``. Then
    :attr:`end` is the outcome. With a callback, ``await`` waits until it was called for the last time, and
    the list is empty. An ``await`` that is cancelled cancels the get; the replies that it has taken are the
    next ones to be received.
    """

    def __init__(
        self,
        get: Callable[..., Any],
        handler: object,
        token: CancellationToken | None,
        settings: dict[str, Any],
        *selector: object,
    ) -> None:
        channel, callback, shown = parse(handler, 1)
        if callback is not None:
            current()
        # A token given by the caller may cancel several gets at once; it cancels this one, too.
        self._token = CancellationToken() if token is None else token
        self._own = token is None
        inner, room = without_waiting(get, *selector, channel, cancellation_token=self._token, **settings)
        super().__init__(inner)
        self._room: Pending | None = room if isinstance(room, Pending) else None
        self._shown = shown
        self._returned: deque[Reply] | None = None
        self._server = None if callback is None else Server(Handler(inner), callback, None)
        if callback is not None:
            self._take = self._take_in_turn = self._has_callback

    def _has_callback(self) -> Reply | None:
        raise UsageError("this has a callback: items go there, not through a channel")

    @property
    def handler(self) -> Any:  # noqa: ANN401 - as in the other interface
        """The object given with the callback."""
        return self._shown

    def _give_back(self, replies: list[Reply]) -> None:
        """Make replies that were taken the next ones to be taken."""
        if self._returned is None:
            returned: deque[Reply] = deque()
            self._returned = returned
            take, take_in_turn = self._take, self._take_in_turn
            self._take = lambda: returned.popleft() if returned else take()
            self._take_in_turn = lambda: returned.popleft() if returned else take_in_turn()
        self._returned.extendleft(reversed(replies))

    async def recv_many(self, max_items: int, timeout: float | None = None) -> list[Reply]:
        """As :meth:`Handler.recv_many`."""
        if self._returned:
            return [self._returned.popleft() for _ in range(min(max_items, len(self._returned)))]
        return await super().recv_many(max_items, timeout)

    def __len__(self) -> int:
        return len(self._returned or ()) + super().__len__()

    def cancel(self) -> None:
        """End the get early. Replies received before can still be taken."""
        if self._own:
            self._token.cancel()
        else:
            raise UsageError("this get has a token of its own: cancel that one")

    async def _all(self) -> list[Reply]:
        replies: list[Reply] = []
        try:
            room, self._room = self._room, None
            if room is not None:
                await until(room)
            if self._server is not None:
                await self._server.wait()
                return replies
            async for reply in self:
                replies.append(reply)  # noqa: PERF401 - what was taken so far is not lost with a comprehension
        except BaseException:
            if self._own:
                self._token.cancel()
            if replies:
                self._give_back(replies)
            raise
        return replies

    def __await__(self) -> Generator[Any, None, list[Reply]]:
        return self._all().__await__()
