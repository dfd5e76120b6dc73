"""The spooler of subscribers, and the base of all spoolers."""

from __future__ import annotations

import os
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
    """Largest size of the spool in bytes. Rows deleted unread become a row in the log of gaps."""

    consumer_seconds: float | None = 7 * 86400.0
    """Seconds without a commit after which a consumer expires: rows are no longer kept for it."""


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

    @property
    def id(self) -> str:
        """The id of the spool: 32 hexadecimal digits."""
        return self._writer.id

    def stats(self) -> dict[str, Any]:
        """Return counters of the spooler.

        ``received`` messages came, ``dropped`` of them did not fit in the queue, ``waiting`` and
        ``waiting_bytes`` are in it. ``rows`` and ``bytes`` of payload went into the spool, ``refused``
        messages did not (too large, or given up at the end). ``lost`` and ``duplicates`` are counted by the
        numbers of publishers, or peers. ``expired`` consumers have not committed for too long
        (:class:`Retention`). ``problem`` is the last error, or ``None``.
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
        overflow: Literal["drop_newest", "drop_oldest", "block"] = "drop_newest",
        queue_bytes: int = 64 << 20,
        recovery: bool = True,
        history: bool | float = False,
        linger: float = 0.02,
        segment_bytes: int = 256 << 20,
        segment_seconds: float = 600.0,
        retention: Retention | None = None,
        columns: Sequence[str] | None = None,
        serve: bool = False,
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
            segment_seconds: Age in seconds at which a segment is sealed likewise.
            retention: How long rows are kept; without a limit by default.
            columns: Columns to keep, besides the mandatory ones; all by default.
            serve: Answer ranges of the spool in the same session, for :func:`connect`.

        Raises:
            SpoolLocked: Another writer has the spool open.
            SpoolMismatch: The folder has a spool with other columns or shards.
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
                segment_bytes=segment_bytes,
                segment_seconds=segment_seconds,
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
