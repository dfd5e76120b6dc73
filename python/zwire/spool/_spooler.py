"""The spooler of subscribers, and the base of all spoolers."""

from __future__ import annotations

import os
import platform
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from zwire import zenoh
from zwire._closing import Closing
from zwire._zwire import SpoolWriter
from zwire.errors import ConfigError
from zwire.spool._append import undone
from zwire.spool._serve import RangeServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# The engine bounds queues by bytes; this many samples without a payload are more than it takes.
_MANY = 1 << 30

# Timeout of a subscriber that blocks, in seconds: in effect without a limit.
_LONG = 366 * 86400.0

# Age in seconds at which a segment is sealed. Rows of a shared spool are readable when they are in its tier.
_SEGMENT, _SHARED_SEGMENT = 600.0, 10.0

# Seconds by which clocks of publishers may differ from the one here.
_SLACK = 10.0

# Lost links remembered until their neighbour comes back; further ones are not remembered.
_MAX_LOST = 1024


@dataclass(frozen=True)
class Retention:
    """How long rows are kept. Limits that are ``None`` do not apply."""

    seconds: float | None = None
    """Age at which rows read by every consumer are deleted. Without a consumer, all rows are."""

    bytes: int | None = None
    """Largest size of the spool in bytes, with its tier. Rows deleted unread are noted in the log of gaps."""

    consumer_seconds: float | None = 7 * 86400.0
    """Seconds without a commit after which a consumer expires: rows are no longer kept for it."""

    local_bytes: int | None = None
    """Size of the folder in bytes above which the oldest segments that are in the tier are deleted in it.

    It needs a tier; segments that the tier does not have yet stay. Without it the folder has all rows too.
    """

    compact_bytes: int | None = 64 << 20
    """Size of segments in bytes up to which small ones in the tier are merged; ``None``: they stay."""


class Keeper(Closing, ABC):
    """Base of writers that keep messages of a network in a spool until :meth:`close`. A context manager."""

    path: str
    """The folder."""

    _writer: SpoolWriter

    def _open(self, path: str | os.PathLike[str], retention: Retention | None, **options: object) -> None:
        self.path = os.path.abspath(os.fspath(path))  # noqa: PTH100 - pathlib would be a third of the import.
        limits = vars(retention or Retention()).items()
        options |= {f"retention.{name}": limit for name, limit in limits}
        self._writer = SpoolWriter(self.path, options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path!r}, id={self.id!r}>"

    @property
    def id(self) -> str:
        """The id of the spool: 32 hexadecimal digits."""
        return self._writer.id

    def stats(self) -> dict[str, Any]:
        """Return counters of the spooler.

        ``received`` messages came, ``dropped`` of them did not fit in the queue, ``waiting`` and
        ``waiting_bytes`` are in it. ``rows`` and ``bytes`` of payload went into the spool, ``refused``
        messages did not (too large, or given up at the end). ``raw_bytes`` are those of the rows with all
        columns, before compression, ``stored_bytes`` those in the files. ``lost`` and ``duplicates`` are
        counted by the numbers of publishers, or peers. ``expired`` consumers have not committed for too long
        (:class:`Retention`). ``problem`` is the last error, or ``None``.

        ``tier`` is ``None`` without one: ``behind`` sealed segments with ``behind_bytes`` are not in it yet,
        ``bytes`` are in it, ``uploaded`` of them by this spooler. ``merged`` small segments were replaced
        by larger ones, ``orphans`` of interrupted uploads deleted. ``failures`` counts attempts that
        failed, and ``problem`` is the error of the last attempt, or ``None`` if it succeeded.

        ``lease`` is ``None`` unless the spool is shared: ``state`` is ``holding`` while this spooler writes,
        ``standby`` while another one does, ``starting`` in between, ``finding`` at the beginning. ``holder``
        is the host that has the lease, ``epoch`` its number. ``standby_messages`` with ``standby_bytes`` wait
        here until the tier has them, ``standby_dropped`` had no room; ``takeovers`` counts how often this
        spooler began to write. ``shards`` are those that this spooler writes, if the spoolers share the spool
        by them (``spread``), else ``None``; ``holding`` then means that it has some, and ``epoch`` is the
        greatest number of its claims.
        """
        return self._writer.stats()

    def check(self) -> None:
        """Check that messages are kept.

        Raises:
            SpoolError: The spooler is closed, or its folder was removed.
        """
        self._writer.check()

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until all messages received so far can be read; ``False`` if the time was up first."""
        return self._writer.flush(timeout)

    def close(self, timeout: float = 30.0) -> None:
        """Stop receiving, write all queued messages, seal the segments, unlock the spool.

        Repeated calls have no effect.

        Raises:
            SpoolError: Not everything could be written.
        """
        try:
            self._writer.begin_close()
            self._end()
            self._writer.close(timeout)
        finally:
            self._leave()

    @abstractmethod
    def _end(self) -> None:
        """Stop receiving; may be called twice. Queued messages stay for the writer to take."""

    def _leave(self) -> None:
        """Disconnect from the network."""
        self._end()


class Spooler(Keeper):
    """Keeps publications on key expressions in a spool, from its creation until :meth:`close`.

    A context manager. Messages are always taken from the network: when the disk is too slow, samples wait in
    a queue bounded in bytes, and a sample that does not fit is dropped, counted, and noted in the log of
    gaps.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        keyexprs: str | Sequence[str],
        *,
        session: zenoh.Session | None = None,
        config: zenoh.Config | Mapping[str, Any] | None = None,
        shards: int | Literal["keyexprs"] = 1,
        durability: Literal["os", "disk"] = "os",
        compression: Literal["none", "lz4", "zstd"] = "none",
        overflow: Literal["drop_newest", "drop_oldest", "block"] = "drop_newest",
        queue_bytes: int = 64 << 20,
        recovery: bool = True,
        history: bool | float = False,
        linger: float = 0.02,
        segment_bytes: int = 256 << 20,
        segment_seconds: float | None = None,
        retention: Retention | None = None,
        columns: Sequence[str] | None = None,
        serve: bool = False,
        tier: str | None = None,
        shared: bool = False,
        spread: bool = False,
        standby_bytes: int = 256 << 20,
    ) -> None:
        """Open the spool for writing and declare the subscribers.

        Args:
            path: The folder.
            keyexprs: Key expressions to keep; a sample that several of them match is kept once.
            session: Session of the subscriptions; by default a session of its own is opened.
            config: Configuration of that session.
            shards: Number of shards; the checksum of the key selects the shard of a sample.
                ``keyexprs``: one for each key expression, each written by a thread of its own.
            durability: ``os``: readers see rows when the kernel has them; ``disk``: when the disk has them.
            compression: Compression of the files: ``zstd`` takes least room, ``lz4`` least time. Programs of
                before this option cannot read compressed segments.
            overflow: Policy when the queue is full. ``block`` stops reading the whole link, and so
                blocks all publishers behind it.
            queue_bytes: Most bytes queued for each key expression. Applies to a session of its own; a given
                session uses ``zwire/handler/capacity_bytes``.
            recovery: Whether to ask caches of publishers for samples that are missing by their numbers, also
                for those since the last row. Later samples wait for the answer; a sample that no cache has
                becomes a row in the log of gaps. If false, no cache is asked.
            history: Whether to ask caches, at the beginning and of publishers that appear later, for the
                samples since the last row; or for how many seconds back. It includes ``recovery``.
            linger: Seconds that a row may wait for further rows, before it is written in a block of its own.
            segment_bytes: Size in bytes at which a segment is sealed, and a new one begun.
            segment_seconds: Age in seconds at which a segment is sealed likewise; 600 by default, 10 if the
                spool is shared.
            retention: How long rows are kept; without a limit by default.
            columns: Columns to keep, besides the mandatory ones; all by default.
            serve: Answer ranges of the spool in the same session, for :func:`connect`.
            tier: Address of a store for sealed segments, such as ``s3://bucket/prefix`` or ``file:///folder``,
                without credentials. A spool keeps its tier: later spoolers of the folder use it, too.
            shared: Take turns with other spoolers at the spool in the tier, each with a folder of its own:
                one of them writes, the others stand by and take over within 10 s. Readers read the tier.
            spread: Share the spool in the tier with other spoolers by its shards: each writes as many as the
                others, or one more. A new one gets its share, and the shards of one that ends or fails go to
                the others within 10 s. The spool is one that such spoolers have begun. ``shards`` is the
                number with which it was begun, or the present one after :func:`reshard`.
            standby_bytes: Most bytes for each key expression that wait, while another spooler writes, until
                the tier has them; the oldest go first.

        Raises:
            SpoolLocked: Another writer has the spool open.
            SpoolMismatch: The folder has a spool with other columns or shards, or another tier.
        """
        keys = [keyexprs] if isinstance(keyexprs, str) else list(keyexprs)
        if not keys:
            raise ConfigError("keyexprs: none given", path="keyexprs")
        if overflow not in {"drop_newest", "drop_oldest", "block"}:
            problem = f"overflow: {overflow!r} is not drop_newest, drop_oldest or block"
            raise ConfigError(problem, path="overflow")
        placed: dict[str, object] = {"shards": shards}
        if shards == "keyexprs":
            placed = {"shards": len(keys), "shard_keys": keys}
        if shared or spread:
            placed |= {"shared.host": platform.node(), "shared.standby_bytes": standby_bytes}
            placed |= {"shared.spread": spread}
        if segment_seconds is None:
            segment_seconds = _SHARED_SEGMENT if shared or spread else _SEGMENT
        self._own = session is None
        if session is None:
            opened = zenoh.Config(config)
            opened.insert_json5("zwire/handler/capacity_bytes", str(queue_bytes))
            session = zenoh.open(opened)
        self._session = session
        self._subscribers: list[Any] = []
        self._lost: dict[str, float] = {}
        self._server: RangeServer | None = None
        with undone(self._leave):
            # Open the spool first: samples in it are not asked for again.
            self._open(
                path,
                retention,
                linger=linger,
                columns=columns,
                durability=durability,
                compression=compression,
                segment_bytes=segment_bytes,
                segment_seconds=segment_seconds,
                tier=tier,
                **placed,
            )
        with undone(self.close):
            max_age = self._max_age(history)
            for key in keys:
                deadline = _LONG if overflow == "block" else None
                channel: Any = zenoh.handlers.Channel(_MANY, full=overflow, deadline=deadline)
                if recovery or history:
                    past = bool(history)
                    subscriber = self._writer.subscriber(session, key, channel, history=past, max_age=max_age)
                else:
                    subscriber = session.declare_subscriber(key, channel)
                self._subscribers.append(subscriber)
                self._writer.feed(subscriber)
            if serve:
                self._server = RangeServer(self.path, session=session)
            self._events = session.info.declare_transport_events_listener(self._link_changed)

    @property
    def session(self) -> zenoh.Session:
        """The session of the subscriptions."""
        return self._session

    def ready(self, timeout: float | None = None) -> None:
        """Wait until the neighbours know of the subscriptions.

        Raises:
            TimedOut: They do not know of them within ``timeout`` seconds.
        """
        for subscriber in self._subscribers:
            subscriber.wait_ready(timeout)
        if self._server is not None:
            self._server.ready(timeout)

    def _max_age(self, history: bool | float) -> float | None:
        """Return the age up to which caches are asked, and note it as a gap; ``None`` for no limit."""
        if history is False:
            return None
        since = None
        if history is not True:
            since = time.time() - history
        elif self._writer.last is not None:
            # Rows present already are not taken again.
            since = self._writer.last / 1e6 - _SLACK
        asked = "for all that they have"
        if since is not None:
            asked = f"for what was published since {datetime.fromtimestamp(since, UTC).isoformat()}"
        self._writer.gap("epoch", f"caches of publishers are asked {asked}")
        return None if since is None else max(time.time() - since, 0.0)

    def _end(self) -> None:
        subscribers, self._subscribers = self._subscribers, []
        for subscriber in subscribers:
            # Queued samples stay there for the writer to take.
            subscriber.__exit__(None, None, None)

    def _leave(self) -> None:
        self._end()
        # The rows written last can still be read here for queries already received.
        server, self._server = self._server, None
        if server is not None:
            server.close()
        if self._own:
            self._session.close()

    def _link_changed(self, event: zenoh.TransportEvent) -> None:
        """Note a gap for a neighbour that comes back: messages sent meanwhile may be missing."""
        zid = str(event.transport.zid)
        if event.kind == zenoh.SampleKind.DELETE:
            if len(self._lost) < _MAX_LOST:
                self._lost[zid] = time.monotonic()
            return
        since = self._lost.pop(zid, None)
        if since is not None:
            away = time.monotonic() - since
            self._writer.gap("reconnect", f"the link to {zid} was lost for {away:.3f} s")
