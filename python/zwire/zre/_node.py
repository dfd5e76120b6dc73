"""The node of the application."""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from zwire._zwire import Event, ZreNode
from zwire.errors import UsageError
from zwire.zre._config import Config

if TYPE_CHECKING:
    import uuid as uuids
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Protocol

    from typing_extensions import Buffer

    class ArrowArray(Protocol):
        """What offers the Arrow C interface."""

        def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
            """Hand over a schema and an array."""


__all__ = ["Delivery", "Node", "Sent", "Shouted"]


class Delivery(enum.StrEnum):
    """What became of a message for one peer."""

    QUEUED = "queued"
    """It is on its way. Whether it arrives shows only in what the peer answers."""
    FULL = "full"
    """As many messages as may wait for the peer do. This one is lost, and the session begins anew."""
    NOT_RESPONDING = "not_responding"
    """The connection to the peer failed, and another one is not yet there."""
    REFUSED = "refused"
    """The content has several frames, and the generation of the peer one."""


@dataclass(frozen=True, slots=True)
class Shouted:
    """What became of a message for a group."""

    peers: dict[str, Delivery]
    """Each member, by UUID, and what became of its copy."""

    def count(self, delivery: Delivery) -> int:
        """How many members it became that of."""
        return sum(found == delivery for found in self.peers.values())

    @property
    def queued(self) -> int:
        """Members that it is on its way to."""
        return self.count(Delivery.QUEUED)

    @property
    def full(self) -> int:
        """Members for which too many messages wait."""
        return self.count(Delivery.FULL)

    @property
    def not_responding(self) -> int:
        """Members whose connection failed."""
        return self.count(Delivery.NOT_RESPONDING)

    @property
    def refused(self) -> int:
        """Members whose generation has one frame per message."""
        return self.count(Delivery.REFUSED)


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a batch: its messages, and how many copies of them had which outcome."""

    messages: int
    """Messages of the batch."""
    queued: int
    """Copies that are on their way."""
    full: int
    """Copies that found the queue of their peer full, and are lost."""
    not_responding: int
    """Copies for peers without a connection."""
    refused: int
    """Copies for peers whose generation has one frame per message."""


class Node(ZreNode):
    """A node of a ZRE network.

    A context manager, which starts and stops it, and an iterator over its events, also asynchronously, unless
    it has a ``callback``, which then gets them one at a time in a thread of its own. A node starts once; one
    that has stopped is replaced by another one.

    Args:
        name: What peers call it.
        config: A :class:`Config`, or a mapping of its fields.
        callback: Who gets the events.
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
        """Make a node that has not started."""
        if name is not None:
            settings["name"] = name
        return super().__new__(cls, Config.of(config, settings).settings(), callback)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.stop)

    def whisper(self, peer: str | uuids.UUID, content: str | Buffer | Iterable[str | Buffer]) -> Delivery:
        """Send a message to one peer, and tell what became of it; never waits.

        Args:
            peer: Its UUID.
            content: One frame, or several.

        Raises:
            UnknownPeer: It is not there.
            InvalidValue: No frame at all, or more than a message may have.
            UsageError: The node does not run.
        """
        return Delivery(self._whisper(peer, content))

    def shout(self, group: str, content: str | Buffer | Iterable[str | Buffer]) -> Shouted:
        """Send a message to each peer in a group, and tell what became of each copy; never waits.

        This node need not be in the group, and gets no copy.

        Args:
            group: Its name.
            content: One frame, or several.

        Raises:
            InvalidValue: A name that peers could not be told, no frame at all, or more than a message may
                have.
            UsageError: The node does not run.
        """
        outcomes = self._shout(group, content)
        return Shouted({peer: Delivery(outcome) for peer, outcome in outcomes.items()})

    def whisper_many(
        self,
        peer: str | uuids.UUID,
        contents: Iterable[str | Buffer | Iterable[str | Buffer]] | ArrowArray,
        *,
        patience: float = 10.0,
    ) -> Sent:
        """Send many messages to one peer, as fast as it takes them.

        Unlike :meth:`whisper` this waits where as many messages as may wait for the peer do. A peer that
        takes nothing for ``patience`` seconds loses messages, and its session begins anew.

        Args:
            peer: Its UUID.
            contents: One frame, or several, for each message; or a record batch of Arrow with a column
                ``content`` of binary, or of lists of binary.
            patience: Seconds.

        Raises:
            UnknownPeer: It is not there.
            InvalidValue: A content that peers could not be told; what was before it is sent.
            UsageError: The node does not run.
        """
        return Sent(*self._send_many(peer, None, contents, patience))

    def shout_many(
        self,
        group: str,
        contents: Iterable[str | Buffer | Iterable[str | Buffer]] | ArrowArray,
        *,
        patience: float = 10.0,
    ) -> Sent:
        """Send many messages to each peer in a group, as fast as the slowest takes them.

        As :meth:`whisper_many`. Whoever joins meanwhile gets what comes after.
        """
        return Sent(*self._send_many(None, group, contents, patience))

    def __aiter__(self) -> AsyncIterator[Event]:
        """Iterate over events in a running event loop; ends after STOP."""
        return self._events()

    async def _events(self) -> AsyncIterator[Event]:
        loop = asyncio.get_running_loop()
        notifier = self._notifier()
        readable = asyncio.Event()
        loop.add_reader(notifier, readable.set)
        try:
            while True:
                try:
                    event = self.try_recv()
                except UsageError:
                    # After STOP. In a forked child there would have been no notifier.
                    return
                if event is None:
                    readable.clear()
                    self._hush()
                    await readable.wait()
                else:
                    yield event
        finally:
            loop.remove_reader(notifier)
