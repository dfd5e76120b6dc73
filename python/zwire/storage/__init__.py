"""Storages: the latest value of each key, kept while its publisher is gone, and given to queriers.

::

    from zwire import storage, zenoh

    with zenoh.open() as session:
        with storage.Storage(session, "robots/**", volume=storage.Disk("/var/lib/robots")) as robots:
            session.put("robots/1/battery", "87")
            robots.flush()  # it is on the disk
            for reply in session.get("robots/**"):
                print(reply.ok.key_expr, reply.ok.payload.to_string())

A session keeps as many storages as wanted. Volumes are :class:`Memory`, :class:`Disk`, :class:`History`,
:class:`Files`, or an object of the program with the methods of :class:`Volume`. ``zwire router`` starts
those of ``plugins/storage_manager`` in its configuration.
"""

from __future__ import annotations

from zwire.storage._storage import GarbageCollection, Replication, Storage
from zwire.storage._volume import S3, Custom, Disk, Files, History, Memory, Value, Volume

__all__ = [
    "S3",
    "Custom",
    "Disk",
    "Files",
    "GarbageCollection",
    "History",
    "Memory",
    "Replication",
    "Storage",
    "Value",
    "Volume",
]
