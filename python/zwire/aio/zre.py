"""Nodes of ZRE networks, for event loops; names and parameters are those of :mod:`zwire.zre`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from zwire import zre
from zwire.aio import _threads
from zwire.aio._context import Context
from zwire.aio._entities import Batches
from zwire.aio._zre_calls import NodeCalls
from zwire.zre import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zwire import _zwire
    from zwire._zwire import _ArrowArray, _Frames, _Uuid
    from zwire.zre import Config, Sent

__all__ = ["Node"]


class Node(NodeCalls, Batches[Event], Context):
    """A node of a ZRE network: an asynchronous context manager, and an iterator over its events.

    Args:
        name: The name of the node, as announced to peers.
        config: A ``zwire.zre.Config``, or a mapping of its fields.
        callback: Gets the events instead, one at a time, in the event loop; may be a coroutine function.
        settings: Fields of the configuration, on top of ``config``.

    Raises:
        ConfigError: A setting that is unknown or cannot be used; ``path`` names it.
    """

    _inner: zre.Node

    def __init__(
        self,
        name: str | None = None,
        config: Config | Mapping[str, Any] | None = None,
        *,
        callback: Callable[[Event], object] | None = None,
        **settings: Any,  # noqa: ANN401 - each is checked where the node is made
    ) -> None:
        super().__init__(lambda _: zre.Node(name, config, **settings), callback)

    @staticmethod
    def _source(inner: zre.Node) -> _zwire.Handler[Any]:
        return iter(inner)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def _leave(self) -> None:
        await self.stop()

    def __repr__(self) -> str:
        return repr(self._inner)

    async def whisper_many(
        self, peer: _Uuid, contents: Iterable[_Frames] | _ArrowArray, *, patience: float = 10.0
    ) -> Sent:
        """Send many messages to one peer, in a thread, as fast as it takes them."""
        return await _threads.wait(self._inner.whisper_many, peer, contents, patience=patience)

    async def shout_many(
        self, group: str, contents: Iterable[_Frames] | _ArrowArray, *, patience: float = 10.0
    ) -> Sent:
        """Send many messages to each peer in a group, in a thread, as fast as the slowest takes them."""
        return await _threads.wait(self._inner.shout_many, group, contents, patience=patience)
