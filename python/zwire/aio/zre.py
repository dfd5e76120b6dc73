"""Nodes of ZRE networks, for event loops; names and parameters are those of :mod:`zwire.zre`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from zwire import zre
from zwire.aio import _threads
from zwire.aio._context import Context
from zwire.aio._entities import Batches
from zwire.zre import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zwire import _zwire
    from zwire._zwire import Shouted, _ArrowArray, _Frames, _Uuid
    from zwire.stats import NodeStats
    from zwire.zre import Config, Delivery, Sent

__all__ = ["Node"]


class Node(Batches[Event], Context):
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

    async def start(self) -> None:
        """Open the mailbox, send HELLO to the peers found, and become discoverable."""
        await _threads.run(self._inner.start)

    async def stop(self, linger: float = 1.0) -> None:
        """Leave the network and stop. The last event is STOP. Repeated calls have no effect."""
        await _threads.run(self._inner.stop, linger)

    @property
    def uuid(self) -> str:
        """The UUID: 32 upper-case hexadecimal digits."""
        return self._inner.uuid

    @property
    def name(self) -> str:
        """The name."""
        return self._inner.name

    @property
    def endpoint(self) -> str | None:
        """The endpoint announced to peers; None while the node is not running."""
        return self._inner.endpoint

    @property
    def running(self) -> bool:
        """Whether the node is started and not stopped."""
        return self._inner.running

    def set_header(self, name: str, value: str) -> None:
        """Add a header to the HELLO, before the start."""
        self._inner.set_header(name, value)

    async def join(self, group: str) -> bool:
        """Join a group; False if the node is in it already."""
        return self._inner.join(group)

    async def leave(self, group: str) -> bool:
        """Leave a group; False if the node is not in it."""
        return self._inner.leave(group)

    async def whisper(self, peer: _Uuid, content: _Frames, *, patience: float = 0.0) -> Delivery:
        """Send a message to one peer; return its outcome.

        With ``patience`` it waits, in a thread, up to that many seconds for room.
        """
        if not patience:
            return self._inner.whisper(peer, content)
        return await _threads.run(self._inner.whisper, peer, content, patience=patience)

    async def shout(self, group: str, content: _Frames, *, patience: float = 0.0) -> Shouted:
        """Send a message to each peer in a group; return the outcome of each copy.

        With ``patience`` it waits, in a thread, up to that many seconds for room.
        """
        if not patience:
            return self._inner.shout(group, content)
        return await _threads.run(self._inner.shout, group, content, patience=patience)

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

    def peers(self) -> list[str]:
        """Return the UUIDs of the known peers."""
        return self._inner.peers()

    def peers_by_group(self, group: str) -> list[str]:
        """Return the UUIDs of the peers in a group."""
        return self._inner.peers_by_group(group)

    def own_groups(self) -> list[str]:
        """Return the groups that this node is in."""
        return self._inner.own_groups()

    def peer_groups(self) -> list[str]:
        """Return the groups of all peers."""
        return self._inner.peer_groups()

    def peer_address(self, peer: _Uuid) -> str | None:
        """Return the endpoint of a peer from its HELLO; None if the peer is unknown."""
        return self._inner.peer_address(peer)

    def peer_name(self, peer: _Uuid) -> str | None:
        """Return the name of a peer; None if the peer is unknown."""
        return self._inner.peer_name(peer)

    def peer_headers(self, peer: _Uuid) -> dict[str, str]:
        """Return the headers of a peer; none if the peer is unknown."""
        return self._inner.peer_headers(peer)

    def peer_header(self, peer: _Uuid, name: str) -> str | None:
        """Return one header of a peer; None if the header or the peer is unknown."""
        return self._inner.peer_header(peer, name)

    def peer_generation(self, peer: _Uuid) -> str | None:
        """Return the protocol of a peer: ``20``, ``zyre1``, ``36`` or ``43``; None if the peer is unknown."""
        return self._inner.peer_generation(peer)

    async def wait_for_peers(
        self, count: int, timeout: float | None = None, *, group: str | None = None
    ) -> list[str]:
        """Wait until ``count`` peers are known, or are in ``group``, and return their UUIDs."""
        return await _threads.wait(self._inner.wait_for_peers, count, timeout, group=group)

    async def require_peer(self, endpoint: str) -> None:
        """Keep ``tcp://host:port`` as a peer: connect now, and again whenever it is lost."""
        self._inner.require_peer(endpoint)

    async def contest(self, group: str) -> None:
        """Contest the leadership of a group that the node is in."""
        self._inner.contest(group)

    def leader(self, group: str) -> str | None:
        """Return the UUID of the leader of a group, as far as this node knows."""
        return self._inner.leader(group)

    async def gossip_bind(self, endpoint: str) -> str:
        """Become a gossip hub at ``tcp://host:port``; return the endpoint that it listens on."""
        return await _threads.run(self._inner.gossip_bind, endpoint)

    async def gossip_connect(self, endpoint: str) -> None:
        """Find peers through the gossip hub at ``tcp://host:port``."""
        await _threads.run(self._inner.gossip_connect, endpoint)

    def stats(self) -> NodeStats:
        """Return counters since the start, by name. All rise."""
        return self._inner.stats()

    def doctor(self) -> dict[str, Any]:
        """Diagnose why the node is, or is not, found; see ``zwire.zre.Node.doctor``."""
        return self._inner.doctor()
