"""Spools: written, read, looked into."""

import datetime as dt
from pathlib import Path
from typing import Any, assert_type

from zwire import spool, zenoh, zre


def written(session: zenoh.Session) -> None:
    with spool.Appender(Path("a"), shards=2, columns=["key"]) as appender:
        appender.append(key="a", payload=b"b")
        appender.append({"key": "a"}, shard=1)
    keep = spool.Retention(seconds=60.0, bytes=1 << 30)
    with spool.Spooler("b", ["a/**"], session=session, retention=keep, shards="keyexprs") as spooler:
        assert_type(spooler, spool.Spooler)
        assert_type(spooler.flush(1.0), bool)
        assert_type(spooler.stats(), dict[str, Any])
    with spool.ZreSpooler("c", ["G"], config={"beacons": False}) as events:
        assert_type(events.node, zre.Node)
        assert_type(events.stats(), dict[str, Any])
    with spool.ZreLogSpooler("d", announce=False) as records:
        assert_type(records.endpoint, str)
    spool.ZreLogSpooler("d", overflow="block")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    spool.Spooler("b", "a", overflow="drop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def read(session: zenoh.Session) -> None:
    with spool.serve("a", session=session, commits=False) as server:
        assert_type(server, spool.RangeServer)
    with spool.connect(server.id, config={"mode": "client"}, timeout=1.0) as remote:
        assert_type(remote, spool.RemoteSpool)
        assert_type(remote.received(0, 1), int | None)
    view = spool.open(Path("a"))
    assert_type(view, spool.Spool)
    assert_type(view.end(), dict[int, int])
    assert_type(view.at(dt.datetime.now(dt.UTC)), dict[int, int])
    start = view.walk(view.earliest(), view.end(), max_rows=5)
    assert_type(view.split(start, view.end(), 4), list[spool.Range])
    for batch in view.read(0, 0, 5, columns=["key"]):
        assert_type(len(batch), int)
    assert_type(spool.verify("a"), list[spool.Problem])
    view.commit("a", {"0": 1})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
