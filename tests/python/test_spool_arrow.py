"""Rows of spools and of their tiers as tables of pyarrow, in DuckDB and in Polars."""

from __future__ import annotations

import datetime as dt
import os
import resource
import sys
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import nodes
import objects
import sinking
from zwire import errors, spool, zenoh
from zwire.spool import _scan

if TYPE_CHECKING:
    from collections.abc import Iterator

ALONE = {"mode": "peer", "listen/endpoints": [], "scouting/multicast/enabled": False}
BEGIN = 1_700_000_000
ROWS = 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A spool of two shards: a row each second, of five keys."""
    folder = tmp_path_factory.mktemp("spool") / "spool"
    with spool.Appender(folder, shards=2, segment_bytes=20_000) as appender:
        for number in range(ROWS):
            at = (BEGIN + number) * 1_000_000
            appender.append(key=f"robot/{number % 5}", payload=str(number), recv_ts=at)
            if number % 100 == 99:
                # Blocks of a hundred rows.
                appender.flush()
        appender.append_gap(1, "drop", count=7, detail="the queue was full")
    return folder


@pytest.fixture
def reads(monkeypatch) -> Iterator[list]:
    """The columns and ranges of each read."""
    seen = []
    batches = _scan.Scan.batches

    def noted(self, columns=None, **more):
        ranges = more.get("ranges") or self.ranges
        seen.append((columns, {shard: span for shard, span in ranges.items() if span[0] < span[1]}, more))
        return batches(self, columns, **more)

    monkeypatch.setattr(_scan.Scan, "batches", noted)
    return seen


def sql(query: str, table: ds.Dataset) -> list[tuple]:
    """Run a query of DuckDB about `robots`."""
    with duckdb.connect() as connection:
        connection.register("robots", table)
        return connection.sql(query).fetchall()


def numbers(table: pa.Table) -> list[int]:
    return sorted(int(payload) for payload in table.column("payload").to_pylist())


def moment(number: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(BEGIN + number, dt.UTC)


def test_a_table_has_the_selected_rows(folder):
    view = spool.open(folder)
    whole = view.to_arrow()
    assert numbers(whole) == list(range(ROWS))
    assert whole.schema.names == view.columns
    some = view.to_arrow(columns=["payload", "offset"], keys=["robot/1", "robot/3"])
    assert some.schema.names == ["payload", "offset"]
    assert numbers(some) == [n for n in range(ROWS) if n % 5 in (1, 3)]
    assert numbers(view.to_arrow(start=moment(900), stop=float(BEGIN + 950))) == list(range(900, 950))
    end = view.end()
    part = view.to_arrow(start={0: 10}, stop={0: 20, 1: 5})
    assert sorted(zip(part["shard"].to_pylist(), part["offset"].to_pylist(), strict=True)) == [
        *((0, n) for n in range(10, 20)),
        *((1, n) for n in range(5)),
    ]
    assert view.to_arrow(shards=[1]).num_rows == end[1]
    assert view.to_arrow(columns=["key"]).schema.names == ["key"]


def test_losses_are_a_table_too(folder):
    view = spool.open(folder)
    for losses in (view.to_arrow(gaps=True), view.scan_polars(gaps=True).collect().to_arrow()):
        assert [(row["shard"], row["kind"], row["count"]) for row in losses.to_pylist()] == [(1, "drop", 7)]
    robots = view.to_dataset(gaps=True)
    assert sql("select kind, sum(count) from robots group by kind", robots) == [("drop", 7)]


def test_wrong_arguments_are_named(folder):
    view = spool.open(folder)
    with pytest.raises(errors.ConfigError, match="shards: this spool has 0, 1, not 7"):
        view.to_arrow(shards=[7])
    with pytest.raises(errors.ConfigError, match="stop: this spool has shards 0, 1, not 2"):
        view.to_arrow(stop={2: 5})
    with pytest.raises(errors.ConfigError, match="gaps: the log of gaps is read as a whole"):
        view.to_arrow(gaps=True, start={0: 5})
    with pytest.raises(errors.ConfigError, match="keys: the rows of this spool have no column 'key'"):
        view.to_arrow(gaps=True, keys=["robot/1"])
    with pytest.raises(ValueError, match="column 'kex' is not one of key"):
        view.to_reader(columns=["kex"])
    with pytest.raises(errors.KeyExprError):
        view.to_dataset(keys=["robot//1"])
    with pytest.raises(TypeError, match="lists of texts"):
        view.to_arrow(keys="robot/1")
    with pytest.raises(errors.OffsetOutOfRange):
        view.to_arrow(stop={0: 5000})


@pytest.mark.parametrize(("module", "extra"), [("pyarrow", "arrow"), ("polars", "polars")])
def test_a_missing_package_names_the_extra(folder, monkeypatch, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"{module} is not installed: pip install 'zwire\[{extra}\]'"):
        spool.open(folder).scan_polars()


def test_a_stream_has_one_batch_in_memory(tmp_path):
    with spool.Appender(tmp_path / "spool") as appender:
        batch = pa.record_batch({"key": ["robot/1"] * 100, "payload": [bytes(100_000)] * 100})
        for _ in range(15):
            appender.append_batch(batch)
    view = spool.open(tmp_path / "spool")
    view.to_reader(columns=["key"]).read_all()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    octets = 0
    for batch in view.to_reader():
        octets += batch.nbytes
    assert octets > 150_000_000
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 75_000_000


def test_damage_is_an_error_behind_the_rows_before_it(tmp_path):
    sinking.fill_damaged(tmp_path / "spool")
    view, rows = spool.open(tmp_path / "spool"), 0
    reader = view.to_reader()
    with pytest.raises(errors.SpoolCorrupt):  # noqa: PT012 - rows before it count
        for batch in reader:
            rows += batch.num_rows
    assert rows == 100
    robots = view.to_dataset()
    with pytest.raises(duckdb.Error, match="checksum"):
        sql("select count(*) from robots", robots)
    with pytest.raises(Exception, match="checksum"):
        view.scan_polars().collect()


def test_duckdb_reads_the_columns_and_rows_that_a_query_needs(folder, reads):
    robots = spool.open(folder).to_dataset()
    query = f"""
        select key, count(*) from robots
        where recv_ts >= to_timestamp({BEGIN + 900}) and key <> 'robot/1' group by key order by key
    """
    assert sql(query, robots) == [(f"robot/{n}", 20) for n in (0, 2, 3, 4)]
    ((columns, ranges, _),) = reads
    assert columns == ["key", "recv_ts"]
    assert ranges == {0: (360, 400), 1: (540, 600)}
    reads.clear()
    found = sql('select "offset" from robots where shard = 1 and "offset" between 7 and 9', robots)
    assert sorted(found) == [(7,), (8,), (9,)]
    assert [(columns, ranges) for columns, ranges, _ in reads] == [(["offset", "shard"], {1: (7, 10)})]
    assert sql("select count(*) from robots", robots) == [(ROWS,)]
    twice = 'robots a join robots b using (shard, "offset")'
    assert len(sql(f"select a.payload from {twice} where a.key = 'robot/2'", robots)) == 200


def test_pyarrow_reads_it_as_a_dataset(folder, reads):
    robots = spool.open(folder).to_dataset(columns=["key", "payload", "offset"])
    assert robots.schema.names == ["key", "payload", "offset"]
    late = robots.to_table(columns=["payload"], filter=ds.field("offset") >= 590)
    assert late.num_rows == 10
    assert reads[0][:2] == (["payload", "offset"], {1: (590, 600)})
    assert robots.count_rows() == ROWS
    assert robots.head(3).num_rows == 3
    assert robots.count_rows(filter=ds.field("key") == "robot/1") == 200
    rows = [
        batch.num_rows for batch in robots.to_batches(filter=ds.field("key").isin(["robot/1", "robot/2"]))
    ]
    assert sum(rows) == 400
    for refused in (
        robots.get_fragments,
        lambda: robots.filter(ds.field("key") == "a"),
        lambda: robots.replace_schema(robots.schema),
    ):
        with pytest.raises(errors.NotSupported):
            refused()
    with pytest.raises(errors.NotSupported, match="computed columns"):
        robots.to_table(columns={"twice": ds.field("offset") * 2})


def test_a_filter_never_leaves_out_a_row_that_passes(tmp_path):
    """The clock of the receiver was set back: the times of rows do not ascend."""
    times = [100, 200, 300, 120, 130, 400, 90, 500]
    with spool.Appender(tmp_path / "spool") as appender:
        for number, at in enumerate(times):
            appender.append(key="robot/1", payload=str(number), recv_ts=at * 1_000_000)
            appender.flush()
    view = spool.open(tmp_path / "spool")
    robots = view.to_dataset()
    for least in range(0, 600, 50):
        edge = dt.datetime.fromtimestamp(least, dt.UTC)
        wanted = [n for n, at in enumerate(times) if at >= least]
        stamp = pa.scalar(edge, pa.timestamp("us", "UTC"))
        assert numbers(robots.to_table(filter=ds.field("recv_ts") >= stamp)) == wanted
        lazy = view.scan_polars().filter(pl.col("recv_ts") >= edge)
        assert numbers(lazy.collect().to_arrow()) == wanted
        before = [n for n, at in enumerate(times) if at < least]
        assert numbers(robots.to_table(filter=ds.field("recv_ts") < stamp)) == before
        assert numbers(robots.to_table(filter=~(ds.field("recv_ts") >= stamp))) == before
        either = (ds.field("recv_ts") >= stamp) | (ds.field("offset") < 2)
        assert numbers(robots.to_table(filter=either)) == sorted({0, 1, *wanted})


def test_polars_reads_the_columns_and_rows_that_a_query_needs(folder, reads):
    lazy = spool.open(folder).scan_polars()
    late = lazy.filter(pl.col("recv_ts") >= moment(900), pl.col("key") != "robot/1")
    assert sorted(late.group_by("key").len().collect().rows()) == [(f"robot/{n}", 20) for n in (0, 2, 3, 4)]
    ((columns, ranges, _),) = reads
    assert set(columns) == {"key", "recv_ts"}
    assert ranges == {0: (360, 400), 1: (540, 600)}
    reads.clear()
    chosen = lazy.filter((pl.col("shard") == 0) & pl.col("offset").is_between(5, 10)).select("payload")
    assert chosen.collect().height == 6
    assert reads[0][1] in ({0: (5, 11)}, {0: (0, 400)})
    reads.clear()
    assert lazy.filter(pl.lit(20) > pl.col("offset"), pl.col("offset") >= 10).collect().height == 20
    assert reads[0][1] == {0: (10, 20), 1: (10, 20)}
    reads.clear()
    assert lazy.head(5).select("offset").collect().height == 5
    assert reads[0][2]["limit"] == 5
    assert lazy.filter(pl.col("key") == "robot/1").head(5).collect().height == 5
    assert lazy.select(pl.len()).collect().item() == ROWS
    assert lazy.collect_schema().names() == spool.open(folder).columns
    batch = next(lazy.filter(pl.col("payload").cast(pl.String).str.ends_with("7")).collect_batches())
    assert batch.height > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_a_tier_is_read_in_the_same_ways(tmp_path, monkeypatch, kind, request):
    url = f"file://{tmp_path}/tier"
    if kind == "s3":
        server = request.getfixturevalue("server")
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        url = server.bucket("readers")
    with (
        zenoh.open(zenoh.Config(ALONE)) as session,
        spool.Spooler(tmp_path / "spool", "robot/**", session=session, tier=url) as spooler,
    ):
        for number in range(200):
            session.put(f"robot/{number % 5}", str(number))
        assert spooler.flush(10)
    tier = spool.open(url)
    assert numbers(tier.to_arrow(keys=["robot/2"])) == list(range(2, 200, 5))
    assert sum(batch.num_rows for batch in tier.to_reader(columns=["key"])) == 200
    robots = tier.to_dataset()
    found = sql("select count(*), min(decode(payload)) from robots where key = 'robot/3'", robots)
    assert found == [(40, "103")]
    assert tier.scan_polars().filter(pl.col("key") == "robot/4", pl.col("offset") < 50).collect().height == 10
    assert tier.to_arrow(gaps=True) == spool.open(tmp_path / "spool").to_arrow(gaps=True)


@pytest.fixture(scope="module")
def server() -> Iterator[objects.Store]:
    with objects.store() as server:
        yield server


def test_a_range_server_is_read_in_the_same_ways(folder):
    with (
        nodes.router() as hub,
        spool.serve(folder, session=hub) as server,
        spool.connect(server.id, config=nodes.settings("client", connect=hub.listening())) as remote,
    ):
        assert numbers(remote.to_arrow(keys=["robot/2"])) == list(range(2, ROWS, 5))
        late = f"select count(*) from robots where recv_ts >= to_timestamp({BEGIN + 900})"
        assert sql(late, remote.to_dataset()) == [(100,)]
        assert remote.scan_polars().filter(pl.col("offset") >= 590).collect().height == 10
        assert remote.to_arrow(gaps=True).column("count").to_pylist() == [7]
