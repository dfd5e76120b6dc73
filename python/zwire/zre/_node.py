"""The node of the application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from zwire._zwire import Event, ZreNode
from zwire.zre._config import Config

if TYPE_CHECKING:
    import uuid as uuids
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from typing import Protocol

    from zwire._zwire import _Frames

    class ArrowArray(Protocol):
        """An object that offers the Arrow C interface."""

        def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
            """Export a schema and an array."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of a batch: its number of messages, and the number of copies with each outcome.

    ::

        local = {"beacons": False, "bind": "127.0.0.1", "mailbox": 0}
        with zre.Node("one", local) as one, zre.Node("two", local, peers=[one.endpoint]) as two:
            two.wait_for_peers(1, timeout=5)
            sent = two.whisper_many(one.uuid, [b"1", b"2", b"3"])
            print(sent.messages, sent.queued)  # 3 3
    """

    messages: int
    """Messages of the batch."""
    queued: int
    """Copies queued for sending."""
    full: int
    """Copies lost because the queue of their peer was full."""
    not_responding: int
    """Copies for peers without a connection."""
    refused: int
    """Copies for peers that speak a version with one frame per message."""


class Node(ZreNode):
    """A node of a ZRE network.

    A context manager, which starts and stops it, and an iterator over its events, also asynchronously, unless
    it has a ``callback``, which then gets them one at a time. A node starts once; after a stop, create
    another one.

    Args:
        name: The name announced to peers.
        config: A :class:`Config`, or a mapping of its fields.
        callback: Gets the events.
        settings: Fields of :class:`Config`, on top of ``config``.

    Raises:
        ConfigError: A setting that is unknown or cannot be used; ``path`` names it.
    """

    def __new__(
        cls,
        name: str | None = None,
        config: Config | Mapping[str, Any] | None = None,
        *,
        callback: Callable[[Event], object] | None = None,
        **settings: Any,  # noqa: ANN401 - each is checked where the node is made
    ) -> Self:
        """Create a node that is not started."""
        if name is not None:
            settings["name"] = name
        return super().__new__(cls, Config.of(config, settings).settings(), callback)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        from zwire.aio import _threads

        await _threads.run(self.start)
        return self

    async def __aexit__(self, *_error: object) -> None:
        from zwire.aio import _threads

        await _threads.run(self.stop)

    def whisper_many(
        self,
        peer: str | uuids.UUID,
        contents: Iterable[_Frames] | ArrowArray,
        *,
        patience: float = 10.0,
    ) -> Sent:
        """Send many messages to one peer, as fast as it takes them.

        Unlike :meth:`whisper` this waits while the queue of the peer is full. A peer that
        takes nothing for ``patience`` seconds loses messages, and its session begins anew.

        Args:
            peer: UUID of the peer.
            contents: One frame, or several, for each message; or a record batch of Arrow with a column
                ``content`` of binary, or of lists of binary.
            patience: Longest wait for room, in seconds.

        Raises:
            UnknownPeer: The peer is unknown.
            InvalidValue: A content cannot be sent; the messages before it are sent.
            UsageError: The node is not running.
        """
        return Sent(*self._send_many(peer, None, contents, patience))

    def shout_many(
        self,
        group: str,
        contents: Iterable[_Frames] | ArrowArray,
        *,
        patience: float = 10.0,
    ) -> Sent:
        """Send many messages to each peer in a group, as fast as the slowest takes them.

        As :meth:`whisper_many`. A peer that joins meanwhile gets the messages sent after that.
        """
        return Sent(*self._send_many(None, group, contents, patience))

    def __aiter__(self) -> AsyncIterator[Event]:
        """Iterate over events in a running event loop; ends after STOP."""
        from zwire.aio._channel import Handler

        return Handler(iter(self))
