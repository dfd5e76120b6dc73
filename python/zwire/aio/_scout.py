"""Searches for nodes, for event loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire import _zwire
from zwire.aio import _threads
from zwire.aio._channel import Receiver, parse
from zwire.aio._context import Beginning, Context

if TYPE_CHECKING:
    from zwire._zwire import Hello, _IntoConfig, _IntoWhatAmIMatcher
    from zwire.aio._channel import IntoHandler


class Scout(Receiver["Hello"], Context):
    """A search for nodes: an asynchronous iterator over the answers, unless it has a callback."""

    @property
    def dropped(self) -> int:
        """Number of answers dropped because the handler was full."""
        return self._inner.dropped  # type: ignore[no-any-return]

    def stop(self) -> None:
        """End the search. Repeated calls have no effect."""
        self._inner.stop()

    async def _leave(self) -> None:
        self.stop()


class Scouting(Beginning[Scout]):
    """A search that is about to begin: ``await`` it, enter it with ``async with``, or iterate over it."""

    def __init__(self, handler: object, what: _IntoWhatAmIMatcher | None, config: _IntoConfig | None) -> None:
        self._handler = handler
        self._what = what
        self._config = config

    async def _begin(self) -> Scout:
        channel, _, _ = parse(self._handler, 1)

        def begin() -> _zwire.Scout[_zwire.Handler[Hello]]:
            return _zwire.scout(channel, self._what, self._config)

        found = await _threads.make(_zwire.Scout.stop, begin)
        return Scout(lambda _: found, self._handler)


def scout(
    handler: IntoHandler[Hello] | None = None,
    what: _IntoWhatAmIMatcher | None = None,
    config: _IntoConfig | None = None,
) -> Scouting:
    """Search for nodes; ``await`` it, or enter it with ``async with``, and iterate over the answers."""
    return Scouting(handler, what, config)
