"""Volumes: what keeps the values of a storage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from zwire.zenoh import Encoding, Timestamp

    _Stored: TypeAlias = tuple[bytes, Encoding, Timestamp, bytes | None]


@dataclass(frozen=True)
class Value:
    """A value as a storage keeps it."""

    payload: bytes
    """The payload."""

    encoding: Encoding
    """Encoding of the payload."""

    timestamp: Timestamp
    """Time of the value."""

    attachment: bytes | None = None
    """Attachment of the publisher."""


@runtime_checkable
class Volume(Protocol):
    """Database of a program, as a volume: these four methods, and ``close`` if it needs one.

    The methods are called one at a time, in a thread of their own, with keys without the ``strip_prefix``
    of the storage; the prefix itself is the empty key. The storage decides by the stamps whether an update
    is stored at all. It keeps tombstones itself, in memory: after a restart an old put may bring a deleted
    key back.

    ::

        class Table(storage.Volume):
            def __init__(self):
                self.values = {}

            def put(self, key, value):
                self.values[key] = value

            def get(self, key):
                return self.values.get(key)

            def delete(self, key, timestamp):
                self.values.pop(key, None)

            def keys(self):
                return [(key, value.timestamp) for key, value in self.values.items()]

        kept = storage.Storage(session, "demo/**", volume=Table())
    """

    def put(self, key: str, value: Value) -> None:
        """Store a value, in place of an earlier one."""

    def get(self, key: str) -> Value | None:
        """Return the value of a key, ``None`` if there is none."""

    def delete(self, key: str, timestamp: Timestamp) -> None:
        """Remove the value of a key, if there is one."""

    def keys(self) -> Iterable[tuple[str, Timestamp]]:
        """Return every key with the time of its value; called once, when the storage starts."""


@dataclass(frozen=True)
class Memory:
    """Volume in memory: fast, and empty at each start.

    ::

        with storage.Storage(session, "demo/**", volume=storage.Memory()) as kept:
            session.put("demo/a", "x")
            kept.flush()
            print([reply.ok.payload.to_string() for reply in session.get("demo/a")])  # ['x']
    """


@dataclass(frozen=True)
class Disk:
    """Volume on the disk: one file, safe from crashes."""

    path: str | os.PathLike[str]
    """Folder of the storage, which is created if it does not exist. No two storages share one."""

    cache_bytes: int = 64 << 20
    """Memory for pages of the file, in bytes."""


@dataclass(frozen=True)
class History:
    """Volume on the disk that also keeps every update of the past, in a :mod:`spool <zwire.spool>`.

    A query with ``_time`` gets each update of that time. Everything that reads a spool reads the folder.
    """

    path: str | os.PathLike[str]
    """Folder of the storage, which is created if it does not exist. No two storages share one."""

    cache_bytes: int = 64 << 20
    """Memory for pages of the file with the latest values, in bytes."""


@dataclass(frozen=True)
class Files:
    """Volume of plain files, with the keys as their paths, in the layout of ``zenoh-backend-filesystem``.

    Files that other programs write are values, too. Times, encodings and attachments are in a hidden folder.

    ::

        from pathlib import Path

        kept = storage.Storage(session, "maps/**", volume=storage.Files("kept"), strip_prefix="maps")
        session.put("maps/hall.json", "{}")
        kept.flush()
        print(Path("kept/hall.json").read_text())  # {}
    """

    path: str | os.PathLike[str]
    """Folder of the files, which is created if it does not exist."""

    read_only: bool = False
    """Whether updates are refused."""

    follow_links: bool = False
    """Whether symbolic links are followed, also out of the folder."""

    guess_encoding: bool = False
    """Whether the encoding of a value follows from the extension of its file alone."""

    delete_at_end: bool = False
    """Whether the folder is deleted when the storage ends."""


@dataclass(frozen=True)
class S3:
    """Volume in a bucket of S3 with keys as names of objects, in the layout of ``zenoh-backend-s3``.

    Each put is a request. What is not given comes from the environment (``AWS_...``) and the profile of the
    AWS tools. While the server does not answer, updates wait.

    ::

        volume = storage.S3(
            "fleet", url="http://127.0.0.1:9000", access_key="minio", secret_key="secret", read_only=True
        )
    """

    bucket: str
    """The bucket, which has to exist."""

    url: str | None = None
    """Address of the server, such as ``http://127.0.0.1:9000``; that of AWS by default."""

    region: str | None = None
    """Region of the bucket."""

    access_key: str | None = field(default=None, repr=False)
    """Id of the key."""

    secret_key: str | None = field(default=None, repr=False)
    """The secret of the key."""

    read_only: bool = False
    """Whether updates are refused."""

    delete_at_end: bool = False
    """Whether all objects are deleted when the storage ends."""


@dataclass(frozen=True)
class Custom:
    """Volume of a program, with options."""

    volume: Volume
    """The object."""

    deadline: float = 5.0
    """Seconds that a call may take. A later one counts as failed, and the next ones until it returns as well.

    The storage goes on: a failed update is counted as ``refused``, a failed query gets an error reply."""

    durable: bool = False
    """Whether a value is safe from crashes when ``put`` returns."""


class Bridge:
    """Calls a volume of a program with objects of Python, for the compiled module."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume

    def put(
        self, key: str, payload: bytes, encoding: Encoding, timestamp: Timestamp, attachment: bytes | None
    ) -> None:
        self._volume.put(key, Value(payload, encoding, timestamp, attachment))

    def get(self, key: str) -> _Stored | None:
        value = self._volume.get(key)
        if value is None:
            return None
        return value.payload, value.encoding, value.timestamp, value.attachment

    def delete(self, key: str, timestamp: Timestamp) -> None:
        self._volume.delete(key, timestamp)

    def keys(self) -> Iterator[tuple[str, Timestamp]]:
        return iter(self._volume.keys())

    def close(self) -> None:
        close = getattr(self._volume, "close", None)
        if close is not None:
            close()
