"""Spoolers of a ZRE network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from zwire import zre
from zwire.errors import ConfigError
from zwire.spool._append import undone
from zwire.spool._spooler import Keeper, Retention

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from typing import Any

# Queues are bounded in bytes; this many events without a payload are more than those take.
_MANY = 1 << 30

_HELD = ("queue", "queue_bytes", "on_overflow")
"""Settings of a node's queue that the spooler makes itself."""


class ZreSpooler(Keeper):
    """Keeps the events of a ZRE network in a spool, from its creation until :meth:`close`.

    The spooler is a node of that network. It keeps every enter, exit, evasive, silent, join, leave and leader
    event, the messages to its groups, and those to itself. The table is ``zre``. A context manager.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        groups: str | Sequence[str] = (),
        *,
        node: zre.Node | None = None,
        config: zre.Config | Mapping[str, Any] | None = None,
        durability: Literal["os", "disk"] = "os",
        compression: Literal["none", "lz4", "zstd"] = "none",
        overflow: Literal["drop_newest", "drop_oldest", "block"] = "drop_newest",
        queue_bytes: int = 64 << 20,
        linger: float = 0.02,
        segment_bytes: int = 256 << 20,
        segment_seconds: float = 600.0,
        retention: Retention | None = None,
        columns: Sequence[str] | None = None,
        tier: str | None = None,
    ) -> None:
        """Open the spool for writing, start a node and join the groups.

        Args:
            path: The folder.
            groups: Groups to join; their messages are kept.
            node: An existing node to use, neither started nor stopped here; no other code may take its
                events. By default the spooler starts a node of its own.
            config: Configuration of that node.
            durability: ``os``: readers see rows when the kernel has them; ``disk``: when the disk has them.
            compression: Compression of the files: ``zstd`` takes least room, ``lz4`` least time. Programs of
                before this option cannot read compressed segments.
            overflow: Policy when the queue is full. ``block`` stops reading from peers for up to 2 s,
                and then drops the newest: a node that does not read for longer looks dead to its peers.
            queue_bytes: Most bytes queued. Like ``overflow`` it applies to a node of its own; a given node
                uses its ``queue_bytes`` and ``on_overflow``.
            linger: Seconds that a row may wait for further rows, before it is written in a block of its own.
            segment_bytes: Size in bytes at which a segment is sealed, and a new one begun.
            segment_seconds: Age in seconds at which a segment is sealed likewise.
            retention: How long rows are kept; without a limit by default.
            columns: Columns to keep, besides the mandatory ones; all by default.
            tier: Address of a store for sealed segments, as of :class:`Spooler`.

        Raises:
            SpoolLocked: Another writer has the spool open.
            SpoolMismatch: The folder has a spool with another table or other columns.
            ConfigError: An option that cannot be used; ``path`` names it.
        """
        self._own = node is None
        if node is None:
            given = zre.Config.of(config, {})
            for name in _HELD:
                if getattr(given, name) != getattr(zre.Config(), name):
                    raise ConfigError(f"{name}: say overflow and queue_bytes instead", path=name)
            held = {"queue": _MANY, "queue_bytes": queue_bytes, "on_overflow": overflow}
            node = zre.Node(config=zre.Config.of(given, held))
        elif config is not None:
            raise ConfigError("config: not allowed with a given node", path="config")
        self._node = node
        # Open the spool first: if that fails, no peer has seen the node.
        self._open(
            path,
            retention,
            table="zre",
            linger=linger,
            columns=columns,
            durability=durability,
            compression=compression,
            segment_bytes=segment_bytes,
            segment_seconds=segment_seconds,
            tier=tier,
        )
        with undone(self.close):
            self._writer.feed(node)
            for group in [groups] if isinstance(groups, str) else groups:
                node.join(group)
            if self._own:
                node.start()

    @property
    def node(self) -> zre.Node:
        """The node of the spooler."""
        return self._node

    def _end(self) -> None:
        if self._own:
            # Stopping closes its queue; queued events stay for the writer to take.
            self._node.stop()


class ZreLogSpooler(Keeper):
    """Keeps the log lines of nodes (ZRE/LOG) in a spool, from its creation until :meth:`close`.

    It has a collector, and a node that announces it; every node that supports ZRE/LOG sends there. The
    table is ``zre.log``. A context manager.

    ::

        with spool.ZreLogSpooler("logs", bind="tcp://127.0.0.1:*", announce=False) as keeper:
            with zre.LogSender("10.0.0.1:49152") as sender:
                sender.connect(keeper.endpoint)
                sender.log("WARNING", data="battery low")
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        bind: str = "tcp://*:*",
        advertise: str | None = None,
        announce: bool = True,
        config: zre.Config | Mapping[str, Any] | None = None,
        durability: Literal["os", "disk"] = "os",
        compression: Literal["none", "lz4", "zstd"] = "none",
        overflow: Literal["drop_newest", "drop_oldest"] = "drop_newest",
        queue_bytes: int = 32 << 20,
        linger: float = 0.02,
        segment_bytes: int = 256 << 20,
        segment_seconds: float = 600.0,
        retention: Retention | None = None,
        columns: Sequence[str] | None = None,
        tier: str | None = None,
    ) -> None:
        """Open the spool for writing, listen, and announce the collector.

        Args:
            path: The folder.
            bind: Endpoint on which the collector listens.
            advertise: Endpoint announced to nodes instead of that.
            announce: Whether a node of its own announces the collector. Without it, :attr:`endpoint` has to
                be given to the nodes by other means.
            config: Configuration of that node.
            durability: ``os``: readers see rows when the kernel has them; ``disk``: when the disk has them.
            compression: Compression of the files: ``zstd`` takes least room, ``lz4`` least time. Programs of
                before this option cannot read compressed segments.
            overflow: Policy when the queue is full. A sender of log lines never waits.
            queue_bytes: Most bytes queued.
            linger: Seconds that a row may wait for further rows, before it is written in a block of its own.
            segment_bytes: Size in bytes at which a segment is sealed, and a new one begun.
            segment_seconds: Age in seconds at which a segment is sealed likewise.
            retention: How long rows are kept; without a limit by default.
            columns: Columns to keep, besides the mandatory ones; all by default.
            tier: Address of a store for sealed segments, as of :class:`Spooler`.

        Raises:
            SpoolLocked: Another writer has the spool open.
            SpoolMismatch: The folder has a spool with another table or other columns.
            ConfigError: An option that cannot be used; ``path`` names it.
        """
        if overflow not in {"drop_newest", "drop_oldest"}:
            problem = f"overflow: {overflow!r} is not drop_newest or drop_oldest: log senders never wait"
            raise ConfigError(problem, path="overflow")
        held: Any = {"queue": _MANY, "queue_bytes": queue_bytes, "on_overflow": overflow}
        self._log = zre.LogCollector(bind, advertise, **held)
        self._node: zre.Node | None = None
        with undone(self._log.close):
            self._open(
                path,
                retention,
                table="zre.log",
                linger=linger,
                columns=columns,
                durability=durability,
                compression=compression,
                segment_bytes=segment_bytes,
                segment_seconds=segment_seconds,
                tier=tier,
            )
        with undone(self.close):
            self._writer.feed(self._log)
            if announce:
                given = zre.Config.of(config, {"collector": self._log.endpoint})
                # No code takes the events of this node.
                unheard = zre.Config.of(given, {"queue": 1, "on_overflow": "drop_oldest"})
                self._node = zre.Node(config=unheard)
                self._node.start()

    @property
    def endpoint(self) -> str:
        """The endpoint to which nodes send log lines, as ``tcp://host:port``."""
        return self._log.endpoint

    def stats(self) -> dict[str, Any]:
        """Return counters of the spooler, as :meth:`Spooler.stats` does.

        ``malformed`` messages were no valid ZRE/LOG.
        """
        return {**super().stats(), "malformed": self._log.malformed}

    def _end(self) -> None:
        if self._node is not None:
            self._node.stop()
        self._log.close()
