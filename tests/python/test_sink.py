"""Sinks: the rows of a spool in tables of Delta Lake, Iceberg and Parquet, each once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import objects
import sinking
from nodes import eventually
from sinking import FORMATS
from zwire import errors, metrics, sink, spool, zenoh
from zwire.cli import main
from zwire.sink import _sink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALONE = {"mode": "peer", "listen/endpoints": [], "scouting/multicast/enabled": False}
ROWS = 2000
KILLS = int(os.environ.get("ZWIRE_SINK_KILLS", "60"))
SEED = int(os.environ.get("ZWIRE_SINK_SEED", "11"))

every_format = pytest.mark.parametrize("form", FORMATS)


def filled(folder: Path, rows: int = ROWS, first: int = 0) -> Path:
    with spool.Appender(folder, shards=2) as appender:
        for number in range(first, first + rows):
            appender.append(key=f"robot/{number % 5}", payload=str(number))
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    return filled(tmp_path_factory.mktemp("spool") / "spool")


def numbers(table: sink.Table) -> list[int]:
    return sorted(int(payload) for payload in table.to_arrow().column("payload").to_pylist())


def test_a_sink_passes_over_segments_without_its_keys(tmp_path):
    with spool.Appender(tmp_path / "spool") as appender:
        for number in range(2000):
            appender.append(key=f"robot/{number // 100}", payload=str(number))
            if number % 100 == 99:
                appender.seal()
    table = sink.parquet(tmp_path / "table")
    keys = ["robot/7", "robot/12"]
    task = sink.Sink(tmp_path / "spool", table, keys=keys, max_rows=100)
    done = [task.step(), task.step(), task.step()]
    assert done[2] is None
    assert [(batch.rows, batch.filtered) for batch in done[:2] if batch] == [(100, 1100), (100, 700)]
    assert numbers(table) == [*range(700, 800), *range(1200, 1300)]
    assert task.offsets() == {0: 2000}


def test_a_table_of_iceberg_is_in_a_bucket(source, tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with objects.store() as server:
        server.bucket("lake")
        options = {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/catalog.db",
            "warehouse": "s3://lake/ice",
            "s3.endpoint": server.endpoint,
            "s3.access-key-id": "key",
            "s3.secret-access-key": "secret",
            "s3.region": "us-east-1",
        }

        def table() -> sink.Table:
            return sink.iceberg("fleet.robots", options=options, partition_by=["key"])

        task = sink.Sink(source, table(), max_rows=600)
        assert task.step() is not None
        # The store fails while files of the next batch are written: a later sink goes on.
        server.fail("PUT", "/lake/ice", status=403, code="AccessDenied")
        with pytest.raises(errors.SinkError):
            task.step()
        assert server.heal()["AccessDenied"] > 0
        stats = sink.run(source, table(), max_rows=600)
        assert (stats["lag_rows"], stats["commits"]) == (0, 3)
        assert numbers(table()) == list(range(ROWS))
        assert sink.run(source, table())["commits"] == 0
        assert b"/data/key=robot" in server.call("GET", "/lake?prefix=ice")


def names(view: spool.Spool, name: str = "zwire") -> list[str]:
    return [f"{name}/{view.id}/{shard}" for shard in view.shards]


@every_format
def test_a_table_has_each_row_once(form, source, tmp_path):
    table = sinking.table(form, tmp_path)
    assert table.schema() is None
    assert table.marks(["any"]) == {}
    stats = sink.run(source, table, max_rows=600)
    assert (stats["rows"], stats["commits"], stats["lag_rows"], stats["lost"]) == (ROWS, 4, 0, 0)
    assert numbers(table) == list(range(ROWS))
    view = spool.open(source)
    assert list(table.marks(names(view)).values()) == list(view.end().values())
    assert sink.run(source, table)["commits"] == 0
    # All columns of the spool, with their values.
    there, here = (
        each.sort_by([("shard", "ascending"), ("offset", "ascending")])
        for each in (table.to_arrow(), view.to_arrow())
    )
    assert there.schema.names == here.schema.names
    assert there.to_pylist() == here.to_pylist()
    # The consumer of the sink has committed, so that rows can be deleted.
    name = sink.Sink(source, table).consumer
    assert view.consumers()[name] == view.end()


@every_format
def test_a_sink_continues_where_the_table_is(form, tmp_path):
    source = filled(tmp_path / "spool", 500)
    table = sinking.table(form, tmp_path)
    made = sink.Sink(source, table, max_rows=200)
    assert made.step().rows == 200
    assert made.stats()["lag_rows"] == 300
    del made
    filled(source, 500, first=500)
    again = sink.Sink(source, sinking.table(form, tmp_path))
    assert sum(again.offsets().values()) == 200
    assert again.step().rows == 800
    assert again.step() is None
    assert numbers(table) == list(range(1000))


@every_format
def test_rows_can_be_chosen_and_partitioned(form, source, tmp_path):
    table = sinking.table(form, tmp_path, partition_by=["date", "key"])
    columns = ["key", "payload", "recv_ts"]
    stats = sink.run(source, table, keys=["robot/1", "robot/2"], columns=columns)
    assert (stats["rows"], stats["filtered"]) == (800, 1200)
    rows = table.to_arrow()
    assert rows.schema.names == [*columns, "date"]
    assert set(rows.column("key").to_pylist()) == {"robot/1", "robot/2"}
    days = pc.cast(rows.column("recv_ts"), pa.date32()).to_pylist()
    assert rows.column("date").to_pylist() == days
    # Nothing of another key comes, and the sink goes on.
    assert sink.run(source, table, keys=["other"], name="other")["filtered"] == ROWS
    assert sink.run(source, table, keys=["other"], name="other")["filtered"] == 0
    (tmp_path / "other").mkdir()
    with pytest.raises(errors.ConfigError, match="partition_by: 'colour' is not one of the columns"):
        sink.run(source, sinking.table(form, tmp_path / "other", partition_by=["colour"]))


@every_format
def test_the_log_of_gaps_is_a_table(form, tmp_path):
    with spool.Appender(tmp_path / "spool") as appender:
        appender.append(key="robot/1", payload=b"1")
        appender.append_gap(0, "drop", count=7, detail="the queue was full")
    table = sinking.table(form, tmp_path)
    assert sink.run(tmp_path / "spool", table, gaps=True)["rows"] == 1
    assert sink.run(tmp_path / "spool", table, gaps=True)["rows"] == 0
    ((row),) = table.to_arrow().to_pylist()
    assert (row["kind"], row["count"]) == ("drop", 7)


@every_format
def test_a_batch_is_written_once_by_its_number(form, tmp_path):
    table = sinking.table(form, tmp_path)
    batch = pa.table({"key": ["a", "b"], "payload": [b"1", b"2"]})
    assert table.write(batch, name="scores", number=0)
    assert not table.write(batch, name="scores", number=0)
    assert table.write(batch.to_batches()[0], name="scores", number=1)
    assert table.write(batch, name="others", number=0)
    assert table.to_arrow().num_rows == 6
    assert table.marks(["scores", "others", "none"]) == {"scores": 1, "others": 0}
    with pytest.raises(errors.SinkConflict, match="batch 0 of 'scores' is older than batch 1") as caught:
        table.write(batch, name="scores", number=0)
    assert caught.value.table == table.address
    with pytest.raises(errors.SinkError, match="the table has no column 'colour'"):
        table.write(pa.table({"key": ["a"], "colour": ["red"]}), name="scores", number=2)
    # Missing columns are null, and types are converted.
    table.write(pa.table({"key": pa.array(["c"], pa.large_string())}), name="scores", number=2)
    assert {"key": "c", "payload": None} in table.to_arrow().to_pylist()


@every_format
def test_two_writers_with_one_name_are_seen(form, source, tmp_path):
    first = sink.Sink(source, sinking.table(form, tmp_path), max_rows=100)
    second = sink.Sink(source, sinking.table(form, tmp_path), max_rows=200)
    first.step()
    second.offsets()
    first.step()
    with pytest.raises(errors.SinkConflict, match="another writer uses the same name"):
        second.step()
    # The other one commits between the look at the marks and the commit.
    third, append = sink.Sink(source, sinking.table(form, tmp_path), max_rows=300), type(second.table)._append

    def late(rows, marks):
        first.step()
        append(third.table, rows, marks)

    third.table._append = late
    with pytest.raises(errors.SinkConflict):
        third.step()
    assert first.table.to_arrow().num_rows == 300


@every_format
def test_two_writers_with_two_names_share_a_table(form, source, tmp_path):
    one = sink.Sink(source, sinking.table(form, tmp_path), name="one", keys=["robot/1"], max_rows=500)
    two = sink.Sink(source, sinking.table(form, tmp_path), name="two", keys=["robot/2"])
    one.step()
    append = type(two.table)._append
    late = iter([one.step])

    def in_between(rows, marks):
        for step in late:
            step()
        append(two.table, rows, marks)

    two.table._append = in_between
    assert two.step().rows == 400
    one.run(once=True)
    assert numbers(one.table) == sorted([*range(1, ROWS, 5), *range(2, ROWS, 5)])


@every_format
def test_an_answer_that_is_lost_behind_a_commit_leaves_no_second_copy(form, source, tmp_path, monkeypatch):
    made = sink.Sink(source, sinking.table(form, tmp_path), max_rows=700)
    made.step()
    owner, name, commit = sinking.spot(form)
    faults = iter([True])

    def lost(*args, **more):
        done = commit(*args, **more)
        if next(faults, False):
            raise OSError("the connection was lost")
        return done

    monkeypatch.setattr(owner, name, lost)
    with pytest.raises(errors.SinkError, match="the connection was lost"):
        made.run(once=True)
    # The rows are in the table: the next sink, and this one, see it.
    assert sum(sink.Sink(source, made.table).offsets().values()) == 1400
    assert sum(made.offsets().values()) == 1400
    made.run(once=True)
    assert numbers(made.table) == list(range(ROWS))


def check(form: str, source: Path, folder: Path, codes: list[int]) -> None:
    """The table has each row of the spool once, after a last run to the end."""
    table = sinking.table(form, folder)
    sink.run(source, table)
    view = spool.open(source)
    assert numbers(table) == sorted(int(p) for p in view.to_arrow(columns=["payload"])["payload"].to_pylist())
    rows = table.to_arrow()
    assert rows.group_by(["shard", "offset"]).aggregate([]).num_rows == rows.num_rows
    assert codes.count(-signal.SIGKILL) >= len(codes) * 2 // 3, codes


@pytest.mark.slow
@every_format
def test_no_row_is_lost_or_twice_when_a_sink_is_killed(form, source, tmp_path):
    codes = [
        sinking.attempt(form, source, tmp_path, moment, max_rows=100)
        for moment in (
            ("before", 2),
            ("after", 1),
            ("time", 0.15),
            ("before", 1),
            ("after", 2),
            ("time", 0.25),
        )
    ]
    check(form, source, tmp_path, codes)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("partition_by", [(), ("date", "key")], ids=["plain", "partitions"])
@every_format
def test_no_row_is_lost_or_twice_however_often_a_sink_is_killed(form, partition_by, tmp_path):
    source = filled(tmp_path / "spool", 20_000)
    longest = 1.5 if form == "iceberg" else 0.6
    options = {"max_rows": 50, "partition_by": partition_by}
    codes = [
        sinking.attempt(form, source, tmp_path, moment, **options)
        for moment in sinking.moments(SEED, KILLS, longest)
    ]
    assert codes.count(0) <= len(codes) // 10, "the table was complete too early"
    left = sinking.table(form, tmp_path)
    files = list(tmp_path.rglob("*.parquet"))
    known = left.to_arrow().num_rows
    check(form, source, tmp_path, codes)
    print(f"{form}, {partition_by}: {codes.count(-signal.SIGKILL)} kills, {known} rows in {len(files)} files")


@every_format
def test_rows_of_zre_have_their_columns(form, tmp_path):
    event = {"type": "shout", "peer": "01" * 16, "group": "CHAT", "content": [b"a", b"bc"]}
    with spool.Appender(tmp_path / "spool", table="zre") as appender:
        appender.append({**event, "headers": {"X-KEY": "value"}})
        appender.append({**event, "type": "exit", "content": []})
    table = sinking.table(form, tmp_path, partition_by=["date"])
    assert sink.run(tmp_path / "spool", table)["rows"] == 2
    view = spool.open(tmp_path / "spool")
    assert table.to_arrow().drop_columns(["date"]).to_pylist() == view.to_arrow().to_pylist()
    with pytest.raises(errors.ConfigError, match="have no column 'key'"):
        sink.run(tmp_path / "spool", table, keys=["robot/**"])


def test_files_of_a_killed_attempt_are_no_rows_and_are_deleted(source, tmp_path):
    assert sinking.attempt("parquet", source, tmp_path, ("before", 2), max_rows=500) == -signal.SIGKILL
    table = sink.parquet(tmp_path / "parquet")
    files = set(map(str, (tmp_path / "parquet").glob("*.parquet")))
    assert len(files) == 2
    assert len(table.files()) == 1
    assert table.to_arrow().num_rows == 500
    assert table.vacuum(3600) == 0, "an attempt may be in progress"
    assert table.vacuum(0) == 1
    assert set(map(str, (tmp_path / "parquet").glob("*.parquet"))) == set(table.files())


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_small_files_become_large_ones_beside_a_sink(form, source, tmp_path, monkeypatch):
    table = sinking.table(form, tmp_path, partition_by=["key"])
    made = sink.Sink(source, table, max_rows=300)
    for _ in range(4):
        made.step()
    if form == "parquet":
        # A batch comes while files are merged.
        write = table._write

        def slow(*args):
            monkeypatch.setattr(table, "_write", write)
            sink.Sink(source, sinking.table(form, tmp_path, partition_by=["key"]), max_rows=300).step()
            return write(*args)

        monkeypatch.setattr(table, "_write", slow)
    before = numbers(table)
    done = sinking.table(form, tmp_path).compact() if form == "delta" else table.compact()
    assert done.removed >= 20
    assert done.added == 5
    assert set(before) <= set(numbers(table))
    sink.Sink(source, table).run(once=True)
    assert table.vacuum(0) >= 20
    assert numbers(table) == list(range(ROWS))


def test_delta_deletes_files_that_no_version_names(source, tmp_path):
    table = sinking.table("delta", tmp_path)
    sink.run(source, table)
    (file,) = (tmp_path / "delta").glob("*.parquet")
    shutil.copy(file, file.with_name("part-00000-killed.snappy.parquet"))
    assert table.vacuum(3600) == 0
    assert table.vacuum(0) == 1
    assert list((tmp_path / "delta").glob("*.parquet")) == [file]
    assert numbers(table) == list(range(ROWS))


def test_iceberg_says_what_compacts_it_and_expires_snapshots(source, tmp_path):
    table = sinking.table("iceberg", tmp_path)
    sink.run(source, table, max_rows=500)
    with pytest.raises(errors.NotSupported, match="rewrite_data_files of Spark"):
        table.compact()
    assert table.vacuum(3600) == 0
    assert table.vacuum(0) == 3
    assert numbers(table) == list(range(ROWS))
    assert sink.run(source, table)["rows"] == 0, "the marks are not those of snapshots"


def test_a_log_of_parquet_is_read_from_its_checkpoints(source, tmp_path):
    table = sink.parquet(tmp_path / "parquet")
    stale = sink.parquet(tmp_path / "parquet")
    sink.run(source, table, max_rows=500)
    stale.marks([])
    batch = pa.table({"key": ["a"], "payload": [b"1"]})
    for number in range(130):
        table.write(batch, name="many", number=number)
    log = tmp_path / "parquet/_zwire"
    assert [file.name for file in sorted((log / "checkpoint").iterdir())] == [
        f"{n:020}.json" for n in (63, 127)
    ]
    table.vacuum(0)
    # Entries of the log and checkpoints that the last one covers.
    assert len(list((log / "log").iterdir())) == 7
    fresh = sink.parquet(tmp_path / "parquet")
    assert fresh.files() == table.files()
    # A writer that has not looked since must not create a number again that was deleted.
    assert stale.write(batch, name="stale", number=0)
    assert fresh.marks(["many", "stale"]) == {"many": 129, "stale": 0}
    assert fresh.to_arrow().num_rows == ROWS + 131
    (log / "log" / f"{fresh._state.number + 1:020}.json").write_text('{"v": 2}')
    with pytest.raises(errors.SinkError, match="its log has version 2, this is 1"):
        fresh.files()


def test_duckdb_reads_the_files_of_a_log(source, tmp_path):
    table = sink.parquet(tmp_path / "parquet", partition_by=["date"])
    sink.run(source, table, max_rows=500)
    with duckdb.connect() as connection:
        found = connection.sql(f"select count(*), count(distinct payload) from read_parquet({table.files()})")
        assert found.fetchall() == [(ROWS, ROWS)]


def test_a_batch_has_bounds(tmp_path):
    with spool.Appender(tmp_path / "spool") as appender:
        for _ in range(40):
            appender.append(key="robot/1", payload=bytes(100_000))
            appender.flush()
    made = sink.Sink(tmp_path / "spool", sink.parquet(tmp_path / "parquet"), max_bytes=1_000_000)
    rows = []
    made.run(once=True, report=lambda batch: rows.append(batch.rows))
    assert sum(rows) == 40
    assert max(rows) <= 10
    # Files grow with the rows of a batch only.
    many = pa.table({"key": [f"robot/{n}" for n in range(1001)]})
    table = sink.parquet(tmp_path / "many", partition_by=["key"])
    with pytest.raises(errors.SinkError, match="more than 1000: partition by other columns"):
        table.write(many, name="a", number=0)


def test_rows_are_committed_in_time_and_the_batch_in_progress_ends(tmp_path):
    source, batches = filled(tmp_path / "spool", 10), []

    def run(interval, rows):
        """Let a sink run until it has committed so many rows."""
        made = sink.Sink(source, sink.parquet(tmp_path / "parquet"), interval=interval, max_rows=50)
        thread = threading.Thread(target=made.run, kwargs={"report": batches.append})
        thread.start()
        eventually(lambda: sum(batch.rows for batch in batches) == rows)
        made.stop()
        thread.join(10)
        assert not thread.is_alive()
        assert numbers(made.table) == list(range(rows))

    run(0.3, 10)
    filled(source, 120, first=10)
    # Full batches do not wait, the last twenty rows do.
    run(3600.0, 110)
    run(0.3, 130)
    assert [batch.rows for batch in batches] == [10, 50, 50, 20]


def test_a_signal_handler_may_stop_a_sink_in_any_line_of_its_wait(tmp_path, monkeypatch):
    """The handler runs in the thread that waits, and may wait for no lock that this thread holds."""
    source, table = filled(tmp_path / "spool", 10), sink.parquet(tmp_path / "parquet")
    sink.run(source, table)
    monkeypatch.setattr(_sink, "_LOOK", 0.001)

    def counted(frame, event, _argument):
        nonlocal left
        code = frame.f_code
        if event == "line" and (code is sink.Sink.run.__code__ or code.co_filename == threading.__file__):
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGTERM)
        return counted

    before = signal.signal(signal.SIGTERM, lambda *_: made.stop())
    try:
        for left in range(1, 40):  # noqa: B007 - the trace counts down
            made = sink.Sink(source, table)
            sys.settrace(counted)
            try:
                assert made.run()["rows"] == 0
            finally:
                sys.settrace(None)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_rows_that_are_lost_are_never_left_out_silently(tmp_path, caplog):
    sinking.fill_damaged(tmp_path / "spool")
    table = sink.parquet(tmp_path / "parquet")
    with pytest.raises(errors.SpoolCorrupt):
        sink.run(tmp_path / "spool", table)
    assert table.to_arrow().num_rows == 0
    stats = sink.run(tmp_path / "spool", table, losses="skip")
    assert (stats["rows"], stats["lost"]) == (200, 100)
    assert "what cannot be read is left out" in caplog.text


def test_rows_that_were_deleted_unread_are_an_error(tmp_path):
    keep = spool.Retention(bytes=300_000)
    table = sink.parquet(tmp_path / "parquet")
    with (
        zenoh.open(zenoh.Config(ALONE)) as session,
        spool.Spooler(
            tmp_path / "spool", "robot/**", session=session, segment_bytes=100_000, retention=keep
        ) as spooler,
    ):

        def put(count):
            for _ in range(count):
                session.put("robot/1", bytes(10_000), congestion_control=zenoh.CongestionControl.BLOCK)
                assert spooler.flush(10)

        put(5)
        made = sink.Sink(tmp_path / "spool", table)
        assert made.step().rows == 5
        put(95)
        view = spool.open(tmp_path / "spool")
        eventually(lambda: view.earliest()[0] > 5)
        first = view.earliest()[0]
        with pytest.raises(
            errors.OffsetOutOfRange, match=f"deleted {first - 5} rows that the table does not"
        ):
            made.step()
        skipping = sink.Sink(tmp_path / "spool", table, losses="skip")
        batch = skipping.step()
        assert (batch.rows + batch.lost, batch.lost) == (95, first - 5)
        assert "zwire_sink_lost_total" in metrics.prometheus(skipping)


def test_wrong_options_are_named(source, tmp_path):
    table = sink.parquet(tmp_path / "parquet")
    for options, problem in (
        ({"name": "a/b"}, "name: expected up to 61 letters"),
        ({"max_rows": 0}, "max_rows: expected a whole number"),
        ({"losses": "ignore"}, "losses: expected raise or skip"),
    ):
        with pytest.raises(errors.ConfigError, match=problem):
            sink.Sink(source, table, **options)
    with pytest.raises(TypeError, match="Sink has no option rows"):
        sink.Sink(source, table, rows=5)
    with pytest.raises(ValueError, match="column 'kex'"):
        sink.Sink(source, table, columns=["kex"])
    with pytest.raises(errors.ConfigError, match=r"expected NAMESPACE\.TABLE"):
        sinking.sink.iceberg("robots")
    with pytest.raises(errors.SinkError, match="there is no Delta table"):
        sink.delta(tmp_path / "none").to_arrow()
    with pytest.raises(errors.SinkError, match="there is no table of Parquet"):
        sink.parquet(tmp_path / "none").compact()
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("form", "module"), [("delta", "deltalake"), ("iceberg", "pyiceberg"), ("parquet", "obstore")]
)
def test_a_missing_package_names_the_extra(form, module, source, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, module, None)
    place = "s3://bucket/prefix" if form == "parquet" else "a.b"
    with pytest.raises(ImportError, match=rf"{module} is not installed: pip install 'zwire\[{form}\]'"):
        getattr(sink, form)(place)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == module else True)
    assert main(["sink", form, "--from", str(source), "--to", place]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"pip install 'zwire[{form}]'" in line


@every_format
def test_the_command_ends_when_the_table_has_the_rows(form, source, tmp_path, capsys):
    place = str(tmp_path / form) if form != "iceberg" else "fleet.robots"
    more = ["--progress", "0.001s"]
    if form == "iceberg":
        for option in (
            "type=sql",
            f"uri=sqlite:///{tmp_path}/catalog.db",
            f"warehouse=file://{tmp_path}/ice",
        ):
            more += ["--option", option]
    command = ["sink", form, "--from", str(source), "--to", place, "--once", "--rows", "900", *more]
    assert main(command) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"sink zwire: {source} to {form} {place}, from 0:0 1:0"
    assert lines[1].startswith("900 rows in 1 commits, 1100 rows and ")
    assert lines[-1].startswith(f"{ROWS} rows in 3 commits, 0 rows and 0.0 s behind")
    assert main(command) == 0
    assert "0 rows in 0 commits" in capsys.readouterr().err
    table = sinking.table(form, tmp_path)
    assert numbers(table) == list(range(ROWS))
    if form != "iceberg":
        assert main(["sink", "compact", form, "--to", place, "--delete", "1s"]) == 0
        assert "3 files replaced by 1" in capsys.readouterr().err
        assert numbers(table) == list(range(ROWS))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["delta", "--from", "none", "--to", "x"], 1, "there is no spool"),
        (["delta", "--to", "x"], 2, "FROM is missing"),
        (["delta", "--from", "SPOOL", "--to", "x", "--columns", "kex"], 2, "column 'kex'"),
        (
            ["delta", "--from", "SPOOL", "--to", "x", "--partition", "colour", "--once"],
            2,
            "'colour' is not one of",
        ),
        (["iceberg", "--from", "SPOOL", "--to", "x"], 2, "expected NAMESPACE.TABLE"),
        (["delta", "--from", "SPOOL", "--to", "x", "--option", "y"], 2, "--option y: expected NAME=VALUE"),
        (["delta", "--from", "SPOOL", "--to", "x", "--rows", "0"], 2, "--rows: expected a whole number"),
        (["compact", "iceberg", "--to", "x"], 2, "expected one of delta, parquet"),
        (["compact", "parquet", "--to", "none"], 1, "there is no table of Parquet"),
        (["delt"], 2, "did you mean delta?"),
    ],
)
def test_mistakes_of_the_command_are_one_line(arguments, code, words, source, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["sink", *[str(source) if word == "SPOOL" else word for word in arguments]]) == code
    (*_, line) = capsys.readouterr().err.splitlines()
    assert words in line
    assert "Traceback" not in line


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_the_command_behind_the_batch_in_progress(number, code, tmp_path):
    source = filled(tmp_path / "spool", 100)
    words = ["sink", "parquet", "--from", source, "--to", tmp_path / "parquet", "--every", "0.1s"]
    words += ["--metrics", "127.0.0.1:0"]
    process = subprocess.Popen([sys.executable, "-m", "zwire", *words], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr.readline().startswith("sink zwire: ")
        table = sink.parquet(tmp_path / "parquet")
        eventually(lambda: table.schema() is not None and table.to_arrow().num_rows == 100)
        place = process.stderr.readline().removeprefix("metrics at ").strip()

        def served():
            with urllib.request.urlopen(place, timeout=10) as answer:
                return answer.read().decode()

        # The sink counts rows behind their commit.
        counted = f'zwire_sink_rows_total{{sink="zwire",table="{table.address}"}} 100\n'
        eventually(lambda: counted in served())
        assert "zwire_spool_rows" in served()
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code, err
    assert err.endswith("100 rows in 1 commits, 0 rows and 0.0 s behind\n")


@pytest.fixture(scope="module")
def server() -> Iterator[objects.Store]:
    with objects.store() as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_a_store_is_like_a_folder(form, source, server, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    url = server.bucket(f"sink-{form}")
    table = getattr(sink, form)(url, partition_by=["key"])
    if form == "parquet":
        # The answer to a commit is lost: the library repeats it, and its object exists.
        server.fail("PUT", "_zwire/log/", times=1, status=500, code="InternalError", lost=True)
    assert sink.run(source, table, max_rows=900)["commits"] == 3
    assert sink.run(source, table)["rows"] == 0
    assert numbers(table) == list(range(ROWS))
    assert table.compact().added == 5
    table.vacuum(0)
    assert numbers(getattr(sink, form)(url)) == list(range(ROWS))
    if form == "parquet":
        assert server.heal() == {"InternalError": 1}
        assert all(file.startswith(f"{url}/key=robot%2F") for file in table.files())
        server.fail("PUT", "_zwire/log/", status=403, code="AccessDenied")
        with pytest.raises(errors.SinkError, match=f"{url}/_zwire/log/"):
            table.write(pa.table({"key": ["a"]}), name="a", number=0)
        server.heal()


def test_a_sink_reads_a_tier(tmp_path):
    url = f"file://{tmp_path}/tier"
    with (
        zenoh.open(zenoh.Config(ALONE)) as session,
        spool.Spooler(tmp_path / "spool", "robot/**", session=session, tier=url) as spooler,
    ):
        for number in range(50):
            session.put(f"robot/{number % 5}", str(number))
        assert spooler.flush(10)
    table = sink.parquet(tmp_path / "parquet")
    assert sink.run(url, table)["rows"] == 50
    # The same spool: its offsets are the same in the folder.
    assert sink.run(tmp_path / "spool", table)["rows"] == 0
    assert json.dumps(spool.stat(url)["consumers"])
