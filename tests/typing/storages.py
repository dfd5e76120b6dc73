"""Storages: volumes, and a database of the program."""

from pathlib import Path
from typing import Any, assert_type

from zwire import storage, zenoh


class Table:
    """A volume."""

    def put(self, key: str, value: storage.Value) -> None: ...

    def get(self, key: str) -> storage.Value | None: ...

    def delete(self, key: str, timestamp: zenoh.Timestamp) -> None: ...

    def keys(self) -> list[tuple[str, zenoh.Timestamp]]:
        return []


def kept(session: zenoh.Session) -> None:
    """Use each volume."""
    table: storage.Volume = Table()
    assert_type(storage.Storage(session, "b", volume=table), storage.Storage)
    volumes: list[Any] = [
        storage.Memory(),
        storage.Disk(Path("a"), cache_bytes=1 << 20),
        storage.History("a"),
        storage.Files("a", read_only=True),
        storage.S3("bucket", url="http://localhost:9000"),
        storage.Custom(table, deadline=1.0, durable=True),
        table,
    ]
    for volume in volumes:
        collection = storage.GarbageCollection(period=1.0, lifespan=60.0)
        replicas = storage.Replication(interval=5.0, hot=3)
        with storage.Storage(
            session, "a/**", volume=volume, garbage_collection=collection, replication=replicas
        ) as made:
            assert_type(made, storage.Storage)
            assert_type(made.flush(1.0), None)
            assert_type(made.stats(), dict[str, Any])
