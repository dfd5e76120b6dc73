"""Spools from Python: written by hand, read by offsets, by others as files of Arrow, and damaged."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from zwire import errors, spool, zenoh
from zwire.spark import schema

if TYPE_CHECKING:
    from pathlib import Path


def fill(folder: Path, rows: int = 1000, *, shards: int = 2, **options: object) -> spool.Spool:
    with spool.Appender(folder, shards=shards, **options) as appender:
        for number in range(rows):
            appender.append(key=f"k/{number % 10}", payload=b"p%d" % number, source_sn=number)
            if number % 97 == 96:
                appender.flush()
    return spool.open(folder)


def table(view: spool.Spool, **options: object) -> pa.Table:
    batches = [
        pa.record_batch(batch)
        for shard, end in view.end().items()
        for batch in view.read(shard, view.earliest()[shard], end, **options)
    ]
    return pa.Table.from_batches(batches)


def test_only_the_owner_may_read_a_spool(tmp_path):
    folder = tmp_path / "telemetry" / "today"
    fill(folder).commit("reader", {0: 1})
    fill(folder)
    made = [folder.parent, folder, *folder.rglob("*")]
    assert len(made) > 10
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in made}
    assert modes == {(True, 0o700), (False, 0o600)}


def test_rows_are_read_with_the_schema_of_spark(tmp_path):
    view = fill(tmp_path)
    rows = table(view)
    rows.validate(full=True)
    assert rows.schema.equals(schema.SAMPLE.arrow(), check_metadata=False)
    assert sorted(rows["source_sn"].to_pylist()) == list(range(1000))
    assert view.columns == list(schema.SAMPLE.names)
    for shard, end in view.end().items():
        mine = rows.filter(pc.equal(rows["shard"], shard))
        assert mine["offset"].to_pylist() == list(range(end))
        # A key stays in its shard, and its order.
        assert mine["source_sn"].to_pylist() == sorted(mine["source_sn"].to_pylist())
    assert not set(view.end()) ^ {0, 1}


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        (
            "zre",
            {
                "type": "SHOUT",
                "peer": "70" * 16,
                "content": [b"a", b""],
                "headers": {"x": "y"},
                "group": "g",
                "status": 3,
            },
            schema.ZRE,
        ),
        (
            "zre.log",
            {"level": 1, "event": 2, "node_hash": 65535, "data": "text", "timestamp": 5},
            schema.ZRE_LOG,
        ),
    ],
)
def test_other_tables_keep_lists_and_maps(tmp_path, name, row, expected):
    with spool.Appender(tmp_path, table=name) as appender:
        for _ in range(3):
            appender.append(row)
            appender.append({})
        appender.flush()
        rows = table(spool.open(tmp_path))
        assert (
            appender.append_batch(rows.drop_columns(["shard", "offset"]).combine_chunks().to_batches()[0])
            == 6
        )
    rows = table(spool.open(tmp_path))
    rows.validate(full=True)
    assert rows.schema.equals(expected.arrow(), check_metadata=False)
    for at in (0, 2, 4, 6, 8, 10):
        found = rows.slice(at, 1).to_pylist()[0]
        if "headers" in found:
            found["headers"] = dict(found["headers"])
        found = {column: found[column] for column in row if column != "timestamp"}
        assert found == {column: value for column, value in row.items() if column != "timestamp"}
        assert rows.slice(at + 1, 1).to_pylist()[0]["data" if name == "zre.log" else "type"] is None


def test_columns_can_be_left_out(tmp_path):
    view = fill(tmp_path, 10, shards=1, columns=["key", "encoding", "source_sn"])
    kept = ["key", "payload", "kind", "encoding", "source_sn", "recv_ts", "shard", "offset"]
    assert view.columns == kept
    assert table(view).column_names == kept
    assert table(view, columns=["offset", "key"]).column_names == ["offset", "key"]
    with pytest.raises(errors.SpoolError, match="hlc"):
        view.read(0, 0, 10, columns=["hlc"])
    with pytest.raises(errors.ConfigError, match="keyy"):
        spool.Appender(tmp_path / "other", columns=["keyy"])
    with pytest.raises(errors.SpoolMismatch, match="not samples"):
        spool.Appender(tmp_path)


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_sealed_segments_are_files_of_arrow(tmp_path, compression):
    segment = 20_000 if compression == "none" else 5_000
    view = fill(tmp_path, shards=1, segment_bytes=segment, compression=compression)
    files = sorted((tmp_path / "0").glob("*.arrow"))
    assert len(files) > 3
    parts = []
    for file in files:
        reader = pa.ipc.open_file(file)
        part = reader.read_all()
        part.validate(full=True)
        # The same without the footer: an open segment is the beginning of such a file.
        assert pa.ipc.open_stream(pa.py_buffer(file.read_bytes()[8:])).read_all().equals(part)
        assert view.id.encode() in reader.schema.metadata[b"zwire.spool"]
        parts.append(part)
    found, stored = table(view).drop_columns("shard"), pa.concat_tables(parts)
    # Files keep the names and types of their format, see zwire-spool/src/layout.rs.
    former = {"timestamp": "ts", "congestion": "congestion_block"}
    assert stored.column_names == [former.get(name, name) for name in found.column_names]
    assert set(stored.column("kind").to_pylist()) == {0}
    assert set(found.column("kind").to_pylist()) == {"put"}
    same = [name for name in stored.column_names if name != "kind" and name in found.column_names]
    assert stored.select(same).equals(found.select(same))


def test_compression_is_chosen_by_each_writer_and_checked(tmp_path):
    for number, compression in enumerate(("zstd", "none", "lz4")):
        with spool.Appender(tmp_path, compression=compression) as appender:
            for _ in range(100):
                appender.append(key="a", payload=f"{number} " * 50)
    payloads = table(spool.open(tmp_path))["payload"].to_pylist()
    assert payloads == [f"{number} ".encode() * 50 for number in range(3) for _ in range(100)]
    sizes = [file.stat().st_size for file in sorted((tmp_path / "0").glob("*.arrow"))]
    assert max(sizes[0], sizes[2]) < sizes[1] / 3
    with pytest.raises(errors.ConfigError, match='"gzip" is not none, lz4 or zstd') as caught:
        spool.Appender(tmp_path / "other", compression="gzip")
    assert caught.value.path == "compression"


def test_an_open_segment_is_readable_by_others_once_it_is_sealed(tmp_path):
    with spool.Appender(tmp_path) as appender:
        appender.append(key="a", payload="1")
        appender.seal()
        (file,) = (tmp_path / "0").glob("*.arrow")
        assert pa.ipc.open_file(file).read_all()["payload"].to_pylist() == [b"1"]
        appender.append(key="a", payload="2")
    assert table(spool.open(tmp_path))["payload"].to_pylist() == [b"1", b"2"]


def test_a_plan_keeps_to_limits_and_covers_everything(tmp_path):
    view = fill(tmp_path, shards=2, segment_bytes=15_000)
    start, end = view.earliest(), view.end()
    parts = view.split(start, end, 5)
    assert len(parts) == 5
    covered = sorted((part.shard, offset) for part in parts for offset in range(part.start, part.stop))
    assert covered == sorted((shard, offset) for shard in end for offset in range(end[shard]))
    sizes = [part.bytes for part in parts]
    assert max(sizes) < 2.5 * min(sizes)

    at, steps = start, 0
    while at != end:
        further = view.walk(at, end, max_rows=70)
        assert 1 <= sum(further.values()) - sum(at.values()) <= 70
        at, steps = further, steps + 1
    assert steps < 20
    at, steps = start, 0
    while at != end:
        further = view.walk(at, end, max_bytes=10_000)
        assert sum(further.values()) > sum(at.values())
        assert all(further[shard] >= at[shard] for shard in at)
        at, steps = further, steps + 1
    assert 5 < steps < 40
    assert sum(view.walk(start, end, max_bytes=1).values()) == 1


def robots(folder, segments=20):
    """Segments of ten rows, each of one robot; row ``n`` was received ``n`` seconds after 1970."""
    with spool.Appender(folder) as appender:
        for number in range(10 * segments):
            appender.append(key=f"fleet/{number // 10 % 10}/pose", payload="1", recv_ts=number * 1_000_000)
            if number % 10 == 9:
                appender.seal()
    return spool.open(folder)


def test_segments_without_wanted_rows_are_not_opened(tmp_path):
    view = robots(tmp_path)
    when = datetime.fromtimestamp(125, UTC)
    cases: list[tuple[dict[str, Any], list[int], tuple[int, int]]] = [
        ({"keys": "fleet/7/**"}, [*range(70, 80), *range(170, 180)], (2, 18)),
        ({"keys": ["fleet/7/pose", zenoh.KeyExpr("fleet/8/*")], "until": 85}, [*range(70, 85)], (2, 18)),
        ({"since": when, "until": 132.0}, [*range(125, 132)], (2, 18)),
        ({"keys": "fleet/70/**"}, [], (0, 20)),
        ({"keys": []}, [], (0, 20)),
        ({"keys": "**"}, [*range(200)], (20, 0)),
        ({}, [*range(200)], (20, 0)),
    ]
    for chosen, offsets, segments in cases:
        rows = view.read(0, 0, 200, columns=["offset"], **chosen)
        found = [row["offset"] for batch in rows for row in pa.record_batch(batch).to_pylist()]
        assert (found, rows.segments) == (offsets, segments), chosen
        plan = view.plan(**chosen)
        assert (plan.segments, plan.skipped) == segments
        parts = view.split({0: 0}, {0: 200}, 3, **chosen)
        # Of a segment that is cut, the blocks count alone.
        assert sum(part.bytes for part in parts) == pytest.approx(plan.bytes, rel=0.05)
    assert view.plan({0: 75}, {0: 100}, keys="fleet/7/**")[:2] == (1, 2)
    assert view.walk({0: 0}, {0: 200}, max_rows=12, keys="fleet/7/**") == {0: 172}
    with pytest.raises(errors.KeyExprError):
        view.read(0, 0, 200, keys="a//b")
    # What is not opened may be damaged.
    for file in tmp_path.glob("0/*.arrow"):
        if int(file.stem) not in (70, 170):
            file.write_bytes(b"damaged")
    assert sum(map(len, view.read(0, 0, 200, keys="fleet/7/**"))) == 20


def test_arrow_files_are_read_as_before_with_a_summary_at_their_end(tmp_path):
    robots(tmp_path, 1)
    (file,) = tmp_path.glob("0/*.arrow")
    with pa.ipc.open_file(file) as reader:
        assert reader.read_all().num_rows == 10
        assert b"zwire.segment" in reader.metadata


def test_offsets_are_found_by_time(tmp_path):
    with spool.Appender(tmp_path) as appender:
        for number in range(100):
            appender.append(key="a", recv_ts=1_000_000 * number)
            if number % 10 == 9:
                appender.flush()
    view = spool.open(tmp_path)
    for seconds, offset in ((-5, 0), (0, 0), (33, 33), (33.5, 34), (99, 99), (100, 100)):
        assert view.at(seconds) == {0: offset}
    assert view.marks()[0]["last_recv_ts"] == 99_000_000


def test_a_spool_pickles_as_its_path_and_ends_are_seen_at_once(tmp_path):
    with spool.Appender(tmp_path) as appender:
        view = pickle.loads(pickle.dumps(spool.open(tmp_path)))
        for number in range(1, 5):
            appender.append(key="a")
            assert view.end() == {0: number - 1}
            appender.flush()
            assert view.end() == {0: number}


def test_consumers_say_how_far_they_are(tmp_path):
    view = fill(tmp_path)
    view.commit("query-1", {0: 10, 1: 5})
    view.commit("query-1", {0: 20, 1: 5})
    view.commit("other", {1: 7})
    assert view.consumers() == {"query-1": {0: 20, 1: 5}, "other": {1: 7}}
    with pytest.raises(errors.SpoolError, match="consumer"):
        view.commit("../../etc/passwd", {0: 1})
    with pytest.raises(errors.SpoolError, match="shard 2"):
        view.commit("query", {2: 1})


def test_gaps_are_rows(tmp_path):
    with spool.Appender(tmp_path) as appender:
        appender.append(key="a")
        appender.append_gap(0, "drop", count=3, detail="the queue was full")
        view = spool.open(tmp_path)
        assert view.gaps_end() == 1
        rows = pa.Table.from_batches([pa.record_batch(batch) for batch in view.gaps()])
    assert rows.schema.equals(schema.GAP.arrow(), check_metadata=False)
    (row,) = rows.to_pylist()
    assert (row["kind"], row["shard"], row["offset"], row["count"]) == ("drop", 0, 1, 3)
    assert list(view.gaps(1)) == []
    # The next writer records since when the spool had no writer.
    spool.Appender(tmp_path).close()
    (row,) = [row for batch in view.gaps(1) for row in pa.record_batch(batch).to_pylist()]
    assert row["kind"] == "epoch"


def test_there_is_one_writer_and_closing_lets_go(tmp_path):
    first = spool.Appender(tmp_path)
    with pytest.raises(errors.SpoolLocked, match="another writer"):
        spool.Appender(tmp_path)
    first.close()
    first.close()
    with pytest.raises(errors.UsageError, match="closed"):
        first.append(key="a")
    spool.Appender(tmp_path).close()


KILLED = """
import os, sys
from zwire import spool
appender = spool.Appender(sys.argv[1])
for number in range(int(sys.argv[2])):
    appender.append(key="a", payload=str(number))
    appender.flush()
print("ready", flush=True)
appender.append(key="a", payload="lost")
os.kill(os.getpid(), 9)
"""


def test_a_killed_writer_costs_what_it_had_not_flushed(tmp_path):
    for number in range(1, 4):
        child = subprocess.run(
            [sys.executable, "-c", KILLED, tmp_path, "20"], capture_output=True, timeout=20, check=False
        )
        assert child.stdout == b"ready\n", child.stderr
        assert spool.open(tmp_path).end() == {0: 20 * number}
    rows = table(spool.open(tmp_path))
    assert rows["payload"].to_pylist() == [b"%d" % (number % 20) for number in range(60)]
    assert rows["offset"].to_pylist() == list(range(60))


def test_damage_is_told_with_shard_and_offset(tmp_path):
    view = fill(tmp_path, shards=1)
    (file,) = (tmp_path / "0").glob("*.arrow")
    octets = bytearray(file.read_bytes())
    octets[len(octets) // 2] ^= 4
    file.write_bytes(octets)
    with pytest.raises(
        errors.SpoolCorrupt, match=r"shard 0, offset \d+: .*0000\.arrow: .*checksum"
    ) as caught:
        table(view)
    assert caught.value.shard == 0
    assert 0 < caught.value.offset < 1000
    assert pickle.loads(pickle.dumps(caught.value)).offset == caught.value.offset
    # What is before can be read.
    assert sum(len(batch) for batch in view.read(0, 0, caught.value.offset)) == caught.value.offset
    file.unlink()
    with pytest.raises(errors.SpoolCorrupt, match="no segment holds offsets 0 to"):
        table(view)


def test_what_is_not_there_is_refused(tmp_path):
    view = fill(tmp_path, 10, shards=1)
    with pytest.raises(errors.OffsetOutOfRange, match="offset 11: the spool holds offsets 0 to 10") as caught:
        view.read(0, 5, 11)
    assert isinstance(caught.value, LookupError)
    with pytest.raises(errors.SpoolError, match="shard 3"):
        view.read(3, 0, 0)
    with pytest.raises(errors.SpoolError, match="no spool"):
        spool.open(tmp_path / "nothing")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_reads_and_does_not_write(tmp_path):
    with spool.Appender(tmp_path) as appender:
        appender.append(key="a")
        appender.flush()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                appender.append(key="b")
            except errors.UsageError:
                code = 0 if spool.open(tmp_path).end() == {0: 1} else 2
            os._exit(code)
        deadline = time.monotonic() + 10
        while (done := os.waitpid(child, os.WNOHANG))[0] == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert done[1] == 0
        appender.append(key="c")
    assert table(spool.open(tmp_path))["key"].to_pylist() == ["a", "c"]


def test_each_damaged_block_is_told_and_no_more_is_lost(tmp_path):
    with spool.Appender(tmp_path) as appender:
        for number in range(100):
            appender.append(key="k", payload=b"%d" % number)
            if number % 10 == 9:
                appender.flush()
    (file,) = (tmp_path / "0").glob("*.arrow")
    octets = bytearray(file.read_bytes())
    for share in (3, 2):
        octets[len(octets) // share] ^= 1
    file.write_bytes(octets)
    problems = spool.verify(tmp_path)
    assert len(problems) == 2
    rows = 0
    for start, stop in zip(
        [0, *(each.offset + 10 for each in problems)], [*(each.offset for each in problems), 100], strict=True
    ):
        rows += sum(len(batch) for batch in spool.open(tmp_path).read(0, start, stop))
    assert rows == 80
