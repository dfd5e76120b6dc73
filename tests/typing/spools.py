"""Spools: written, read, looked into."""

import datetime as dt
from pathlib import Path
from typing import Any, assert_type

import polars as pl

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
    with spool.KafkaServer({"fleet": "a"}, listen="127.0.0.1:0") as topics:
        assert_type(topics, spool.KafkaServer)
        assert_type(topics.topics, list[str])
    with spool.connect(server.id, config={"mode": "client"}, timeout=1.0) as remote:
        assert_type(remote, spool.RemoteSpool)
        assert_type(remote.received(0, 1), int | None)
    view = spool.open(Path("a"))
    assert_type(view, spool.Spool)
    assert_type(view.end(), dict[int, int])
    assert_type(view.at(dt.datetime.now(dt.UTC)), dict[int, int])
    assert_type(view.changes(), list[dict[int, int]])
    spool.reshard(Path("a"), 4, timeout=1.5)
    spool.reshard("a", shards="4")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    start = view.walk(view.earliest(), view.end(), max_rows=5)
    assert_type(view.split(start, view.end(), 4), list[spool.Range])
    assert_type(view.plan(keys=["a/**"], since=1.5), spool.Plan)
    assert_type(
        view.read(0, 0, 5, keys=zenoh.KeyExpr("a"), until=dt.datetime.now(dt.UTC)).segments,
        tuple[int, int] | None,
    )
    for batch in view.read(0, 0, 5, columns=["key"]):
        assert_type(len(batch), int)
    assert_type(spool.verify("a"), list[spool.Problem])
    # The results of `to_arrow` and its neighbours are of pyarrow, which has no types.
    lazy = view.scan_polars(columns=["key"], keys=["a/**"], start=dt.datetime.now(dt.UTC), stop={0: 5})
    assert_type(lazy, pl.LazyFrame)
    view.scan_polars(column=["key"])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    view.commit("a", {"0": 1})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
