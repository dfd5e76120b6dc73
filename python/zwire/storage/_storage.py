"""The storage of a session."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zwire._closing import Closing
from zwire._zwire import StorageHandle
from zwire.storage._volume import S3, Bridge, Custom, Disk, Files, History, Memory, Volume

if TYPE_CHECKING:
    from typing import Any

    from zwire.zenoh import KeyExpr, Session


@dataclass(frozen=True)
class GarbageCollection:
    """How long deletes are remembered, so that an older put which comes late does not bring the key back.

    ::

        week = storage.GarbageCollection(lifespan=7 * 86_400)
        kept = storage.Storage(session, "demo/**", volume=storage.Memory(), garbage_collection=week)
    """

    period: float = 30.0
    """Seconds between two collections."""

    lifespan: float = 86_400.0
    """Seconds after which a delete, or a wildcard update, is forgotten."""


@dataclass(frozen=True)
class Replication:
    """Parameters of a storage that others, in other sessions, have the same content as.

    Storages are replicas of each other if key expression, prefix and all of these are equal. The
    protocol is that of zenohd, whose storages may be among them.
    """

    interval: float = 10.0
    """Seconds between two digests. A difference is mended after one or two of them."""

    sub_intervals: int = 5
    """Parts of an interval. Of recent differences only the parts concerned are compared by key."""

    hot: int = 6
    """Number of the latest intervals, which are compared by parts."""

    warm: int = 30
    """Number of the intervals before those, which are compared one by one."""

    propagation_delay: float = 0.25
    """Seconds that a publication may take to the replicas; at most half of the interval."""


def _options(volume: Memory | Disk | History | Files | S3 | Custom | Volume) -> dict[str, object]:
    if isinstance(volume, Memory):
        return {}
    if isinstance(volume, Disk | History | Files):
        options = {**vars(volume), "kind": type(volume).__name__.lower()}
        return options | {"dir": os.fspath(options.pop("path"))}
    if isinstance(volume, S3):
        return {**vars(volume)}
    custom = volume if isinstance(volume, Custom) else Custom(volume)
    if not isinstance(custom.volume, Volume):
        missing = [name for name in ("put", "get", "delete", "keys") if not hasattr(custom.volume, name)]
        raise TypeError(f"{custom.volume!r} is no volume: it has no {', '.join(missing)}")
    return {"object": Bridge(custom.volume), "deadline": custom.deadline, "durable": custom.durable}


class Storage(Closing):
    """Keeps the values of a key expression and answers queries until :meth:`close`. A context manager.

    A put is stored if no later update of its key is known, by their timestamps; one without a timestamp
    gets one of the session. Encodings and attachments are kept. Deletes and updates with wildcards apply to
    keys that are stored, and to older puts that come later; a put with wildcards creates no key.

    Queries see every update that reached the session before them. ``_time=[..]`` in a selector restricts
    replies to values of that time. A query with the parameter ``_durable`` is answered when everything
    before it is on the disk: a publisher anywhere can ask so whether its puts are safe.
    """

    def __init__(
        self,
        session: Session,
        key_expr: KeyExpr | str,
        *,
        volume: Memory | Disk | History | Files | S3 | Custom | Volume | None = None,
        strip_prefix: KeyExpr | str | None = None,
        complete: bool = False,
        commit_interval: float = 0.05,
        garbage_collection: GarbageCollection | None = None,
        replication: Replication | None = None,
        name: str | None = None,
    ) -> None:
        """Start a storage. It receives what is published after the call.

        Args:
            session: The session that it belongs to, and ends with.
            key_expr: Keys that are stored.
            volume: Where; in memory by default.
            strip_prefix: Prefix of the key expression that the volume does not store.
            complete: Whether the storage has every value of the key expression, so that queriers which want
                one complete answer need not ask others.
            commit_interval: Seconds until an update is on the disk at the latest. Updates of that time share
                one commit; a flush makes one at once.
            garbage_collection: How long deletes are remembered.
            replication: Parameters that the replicas of the storage in other sessions have as well; without
                them it has none.
            name: Name in log messages; the key expression by default.

        Raises:
            StorageLocked: Another storage has the folder.
            StorageCorrupt: The file is damaged.
            StorageError: The volume cannot be used.
            ConfigError: The prefix does not fit the key expression, or the replication has no sense.
        """
        collection = garbage_collection or GarbageCollection()
        options: dict[str, object] = {
            "key_expr": key_expr,
            "strip_prefix": strip_prefix,
            "complete": complete,
            "commit_interval": commit_interval,
            "gc_period": collection.period,
            "gc_lifespan": collection.lifespan,
            "name": name,
        }
        if replication is not None:
            options |= {
                "replication_interval": replication.interval,
                "replication_sub_intervals": replication.sub_intervals,
                "replication_hot": replication.hot,
                "replication_warm": replication.warm,
                "replication_delay": replication.propagation_delay,
            }
        self.key_expr: str = str(key_expr)
        self._handle = StorageHandle(session, options | _options(Memory() if volume is None else volume))

    def __repr__(self) -> str:
        """Show the key expression."""
        return f"<Storage {self.key_expr!r}>"

    def flush(self, timeout: float = 10.0) -> None:
        """Wait until every update that the session received before the call is on the disk.

        A volume in memory has no disk: then until it can be queried.

        Raises:
            NotDurable: Not within the timeout; the volume may have failed. Or at once, and one time, if the
                volume has refused updates since the last call, or the queue has dropped some.
        """
        self._handle.flush(timeout)

    def stats(self) -> dict[str, Any]:
        """Return counters.

        ``received`` samples came, ``dropped`` of them did not fit in the queue, ``waiting`` are in it.
        ``stored`` puts and ``deleted`` keys changed the volume, ``outdated`` updates were older than what
        it has, ``wildcards`` were applied to many keys, ``refused`` updates were not taken by the volume,
        ``lost`` ones not when the storage was closed. ``queries`` were answered by ``replies``. ``commits``
        made updates durable, after ``failures`` others; ``problem`` is the text of a failure that lasts, or
        ``None``. The volume has ``keys`` with values, ``tombstones`` of deleted ones, of which ``expired``
        have been forgotten, and ``bytes``.

        With replicas, ``digests`` were published, ``differences`` of others were found, and ``aligned``
        updates came from them. ``malformed`` messages or events of replicas were none; events that were
        ``ahead`` of the clock too far are taken later.
        """
        return self._handle.stats()

    def close(self, timeout: float = 10.0) -> None:
        """Make what was received durable, and release the volume. A second call does nothing.

        Raises:
            StorageError: Not everything could be stored.
        """
        self._handle.close(timeout)
