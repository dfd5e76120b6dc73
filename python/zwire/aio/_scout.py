"""Searches for nodes, for event loops."""

from __future__ import annotations

from zwire import _zwire
from zwire.aio import _threads
from zwire.aio._channel import Receiver, parse
from zwire.aio._context import Beginning, Context

TYPE_CHECKING = False  # as in zwire.errors
if TYPE_CHECKING:
    from zwire._zwire import Hello, _IntoConfig, _IntoWhatAmIMatcher
    from zwire.aio._channel import IntoHandler


class Scout(Receiver["Hello"], Context):
    """A search for nodes: an asynchronous iterator over the answers, unless it has a callback.

    ::

        async with aio.scout(what="router|peer") as scout:
            seen = scout.try_recv()  # the first answer, if it is there already
    """

    @property
    def dropped(self) -> int:
        """Number of answers dropped because the handler was full."""
        return self._inner.dropped  # type: ignore[no-any-return]

    def stop(self) -> None:
        """End the search. Repeated calls have no effect."""
        self._inner.stop()

    async def _leave(self) -> None:
        self.stop()


def scout(
    handler: IntoHandler[Hello] | None = None,
    what: _IntoWhatAmIMatcher | None = None,
    config: _IntoConfig | None = None,
) -> Beginning[Scout]:
    """Search for nodes; ``await`` it, or enter it with ``async with``, and iterate over the answers."""

    async def begin() -> Scout:
        channel, _, _ = parse(handler, 1)
        found = await _threads.make(_zwire.Scout.stop, _zwire.scout, channel, what, config)
        return Scout(lambda _: found, handler)

    return Beginning(begin)
