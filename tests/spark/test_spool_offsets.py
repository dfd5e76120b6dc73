"""Streams over spools as Spark calls them, without Spark: offsets, limits, plans, and what is refused."""

import itertools
import json
import os
import pickle
import shutil
import time

import pyarrow as pa
import pytest

import zwire.spark as zs
from zwire import spool
from zwire.errors import ConfigError, OffsetOutOfRange, SpoolCorrupt, SpoolError, SpoolMismatch
from zwire.spark.sources import _spool, _stream
from zwire.spark.sources._logs import Part, Span
from zwire.spark.sources._offsets import Position

COLUMNS = ["key", "payload", "shard", "offset"]


def fill(folder, rows, *, shards=3, **options):
    with spool.Appender(folder, shards=shards, **options) as appender:
        append(appender, rows)
    return spool.open(folder)


def append(appender, rows, first=0):
    for number in range(first, first + rows):
        appender.append(key=f"k/{number % 7}", payload=b"%d" % number)
    appender.flush()


def follow(*folders, columns=COLUMNS, table="samples", **options):
    options.setdefault("startingOffsets", "earliest")
    given = {"spool": ",".join(map(str, folders)), **options}
    schema = zs.schema.SAMPLE if table == "samples" else zs.schema.GAP
    return _stream.SpoolStreamReader(given, schema.select(columns).spark(), "zwire", table)


def limited(reader):
    return reader.getDefaultReadLimit()


def step(reader, start):
    return reader.latestOffset(start, limited(reader))


def read(reader, start, end):
    batches = []
    for part in reader.partitions(start, end):
        # As Spark does it: reader and partition travel.
        again = pickle.loads(pickle.dumps(reader))
        batches += again.read(pickle.loads(pickle.dumps(part)))
    return batches


def numbers(batches):
    return sorted(int(value) for batch in batches for value in batch.column("payload").to_pylist())


def rows_between(start, end):
    return sum(end["s"].values()) - sum(start["s"].values())


def test_offsets_are_text_in_a_fixed_order():
    places = {"b": {10: 5, 2: 7}, "a": {0: 1}}
    text = json.dumps(Position(places, "me").to_json())
    assert text == '{"v": 1, "spools": {"a": {"0": 1}, "b": {"2": 7, "10": 5}}, "consumer": "me"}'
    assert Position.from_json(json.loads(text)) == Position(places, "me")
    assert (
        json.dumps(Position({"a": {1: 2, 0: 1}}).to_json()) == '{"v": 1, "spool": "a", "s": {"0": 1, "1": 2}}'
    )
    assert Position({"a": {-1: 4}}).to_json()["s"] == {"gaps": 4}


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({}, "version None is unknown"),
        ({"v": 2, "spool": "a", "s": {}}, "version 2 is unknown"),
        ({"v": 1}, "neither 'spool' nor 'spools'"),
        ({"v": 1, "spool": "a"}, "no object with offsets"),
        ({"v": 1, "spool": 7, "s": {}}, "7 is no text"),
        ({"v": 1, "spools": {"a": {"0": -1}}}, "-1 is no offset"),
        ({"v": 1, "spools": {"a": {"0": True}}}, "True is no offset"),
        ({"v": 1, "spools": {"a": {"٣": 1}}}, "is no shard"),
        ({"v": 1, "spool": "a", "s": {"0": 1}, "consumer": 1}, "1 is no text"),
    ],
)
def test_what_is_no_offset_is_refused(found, problem):
    with pytest.raises(SpoolMismatch, match=problem):
        Position.from_json(found)


def test_readers_pickle_and_look_at_nothing(tmp_path):
    reader = follow(tmp_path / "nothing")
    again = pickle.loads(pickle.dumps(reader))
    assert (again.given, again.table, again.schema) == (reader.given, reader.table, reader.schema)
    with pytest.raises(SpoolError, match="there is no spool"):
        reader.initialOffset()
    reader.stop()
    reader.stop()


def test_a_live_reader_pickles_without_what_is_live(tmp_path):
    fill(tmp_path, 10)
    reader = follow(tmp_path)
    reader.initialOffset()
    assert pickle.loads(pickle.dumps(reader))._follower is None


def test_nothing_new_is_the_same_offset_a_thousand_times(tmp_path):
    fill(tmp_path, 100)
    reader = follow(tmp_path)
    start = reader.initialOffset()
    assert reader.initialOffset() == start
    assert start["s"] == {"0": 0, "1": 0, "2": 0}
    end = step(reader, start)
    assert rows_between(start, end) == 100
    text = json.dumps(end)
    for _ in range(1000):
        end = step(reader, json.loads(text))
        assert json.dumps(end) == text
    assert reader.partitions(end, end) == []
    assert follow(tmp_path, startingOffsets="latest").initialOffset()["s"] == end["s"]


@pytest.mark.parametrize("limit", [{"maxRowsPerTrigger": "30"}, {"maxOffsetsPerTrigger": "30"}])
def test_batches_keep_to_a_limit_of_rows(tmp_path, limit):
    fill(tmp_path, 100)
    reader = follow(tmp_path, **limit)
    at, seen, sizes = reader.initialOffset(), [], []
    while (end := step(reader, at)) != at:
        seen += numbers(read(reader, at, end))
        sizes.append(rows_between(at, end))
        at = end
    assert sizes == [30, 30, 30, 10]
    assert sorted(seen) == list(range(100))


def test_batches_keep_to_a_limit_of_bytes_and_to_both(tmp_path):
    with spool.Appender(tmp_path) as appender:
        for _ in range(20):
            for _ in range(5):
                appender.append(key="a", payload=bytes(20_000))
            appender.flush()
    reader = follow(tmp_path, maxBytesPerTrigger="250k")
    at, sizes = reader.initialOffset(), []
    while (end := step(reader, at)) != at:
        sizes.append(rows_between(at, end))
        at = end
    assert sum(sizes) == 100
    assert max(sizes) * 20_000 <= 250 * 1024
    assert len(sizes) <= 20
    both = follow(tmp_path, maxBytesPerTrigger="250k", maxRowsPerTrigger="7")
    at = both.initialOffset()
    assert rows_between(at, step(both, at)) == 7
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    assert rows_between(at, both.latestOffset(at, ReadAllAvailable())) == 100


def test_several_spools_share_a_limit_and_are_told_apart(tmp_path):
    for name, rows in (("x", 300), ("y", 100)):
        fill(tmp_path / name, rows, shards=2)
    ids = {name: spool.open(tmp_path / name).id for name in "xy"}
    reader = follow(tmp_path / "y", tmp_path / "x", maxRowsPerTrigger="40")
    reader.schema = _schema_with_spool()
    start = reader.initialOffset()
    assert list(start["spools"]) == sorted(ids.values())
    end = step(reader, start)
    came = {name: sum(end["spools"][ids[name]].values()) for name in "xy"}
    assert came == {"x": 30, "y": 10}
    rows = [row for batch in read(reader, start, end) for row in batch.to_pylist()]
    assert {name: sum(row["spool"] == ids[name] for row in rows) for name in "xy"} == came
    by_bytes = follow(tmp_path / "y", tmp_path / "x", maxBytesPerTrigger="4k")
    at, seen = by_bytes.initialOffset(), []
    while (end := step(by_bytes, at)) != at:
        seen += numbers(read(by_bytes, at, end))
        at = end
    assert sorted(seen) == sorted([*range(300), *range(100)])
    with pytest.raises(SpoolMismatch, match="are the same spool"):
        follow(tmp_path / "x", tmp_path / "x").initialOffset()


def _schema_with_spool():
    return (
        zs.schema.RowSchema((*zs.schema.SAMPLE.columns, ("spool", "string")))
        .select([*COLUMNS, "spool"])
        .spark()
    )


def test_a_spool_that_is_added_is_read_from_its_beginning(tmp_path):
    fill(tmp_path / "x", 10)
    fill(tmp_path / "y", 20)
    one = follow(tmp_path / "x")
    start = step(one, one.initialOffset())
    both = follow(tmp_path / "x", tmp_path / "y")
    end = step(both, start)
    assert numbers(read(both, start, end)) == list(range(20))


def test_available_now_ends_at_what_was_there(tmp_path):
    with spool.Appender(tmp_path) as appender:
        append(appender, 50)
        reader = follow(tmp_path, maxRowsPerTrigger="20")
        reader.prepareForTriggerAvailableNow()
        at, seen = reader.initialOffset(), []
        while (end := step(reader, at)) != at:
            seen += numbers(read(reader, at, end))
            at = end
            append(appender, 10, first=1000)
    assert seen == list(range(50))


def test_many_segments_are_few_partitions_and_soon_planned(tmp_path):
    appender = spool.Appender(tmp_path, shards=32, columns=["encoding"])
    rows = pa.RecordBatch.from_pydict({"key": ["k"] * 25, "payload": [bytes(2000)] * 25})
    for _ in range(32):
        for shard in range(32):
            appender.append_batch(rows, shard=shard)
        appender.seal()
    appender.close()
    assert sum(name.endswith(".arrow") for _, _, names in os.walk(tmp_path) for name in names) >= 1000
    reader = follow(tmp_path)
    start = reader.initialOffset()
    begin = time.process_time()
    end = step(reader, start)
    reader.reportLatestOffset()
    parts = reader.partitions(start, end)
    # Of the processor, so that a busy machine does not matter.
    assert time.process_time() - begin < 0.5
    assert 1 < len(parts) <= 2 * os.cpu_count()
    sizes = [sum(span.stop - span.start for span in part.spans) for part in parts]
    assert sum(sizes) == 32 * 32 * 25
    assert max(sizes) < 1.2 * min(sizes)
    assert len(follow(tmp_path, maxPartitions="1").partitions(start, end)) == 1
    few = {**start, "s": {shard: offset + 1 for shard, offset in start["s"].items()}}
    assert len(reader.partitions(start, few)) == 1


def test_large_shards_are_cut_and_covered(tmp_path):
    with spool.Appender(tmp_path) as appender:
        for number in range(800):
            appender.append(key="a", payload=b"%d" % number + b" " * 50_000)
    reader = follow(tmp_path, maxPartitions="5")
    start = reader.initialOffset()
    end = step(reader, start)
    parts = reader.partitions(start, end)
    assert len(parts) == 5
    covered = sorted((span.start, span.stop) for part in parts for span in part.spans)
    assert covered[0][0] == 0
    assert covered[-1][1] == 800
    assert all(before[1] == after[0] for before, after in itertools.pairwise(covered))


def test_the_same_range_is_the_same_rows(tmp_path):
    with spool.Appender(tmp_path, shards=3, segment_bytes=20_000) as appender:
        append(appender, 500)
        reader = follow(tmp_path)
        start = reader.initialOffset()
        end = step(reader, start)
        first = read(reader, start, end)
        append(appender, 500, first=500)
    # As after a restart: another process, and it is planned before anything else is asked.
    again = read(follow(tmp_path), start, end)
    assert pa.Table.from_batches(again).equals(pa.Table.from_batches(first))
    assert numbers(again) == list(range(500))


def test_progress_tells_lag_and_loss(tmp_path):
    with spool.Appender(tmp_path, shards=1) as appender:
        for number in range(10):
            appender.append(key="a", recv_ts=1_000_000 * number)
        appender.append_gap(0, "drop", count=3)
    reader = follow(tmp_path, maxRowsPerTrigger="4")
    assert reader.reportLatestOffset() is None
    at = reader.initialOffset()
    at = step(reader, at)
    said = reader.reportLatestOffset()
    assert said["s"] == {"0": 10}
    assert (said["lag_rows"], said["lag_ms"], said["dropped"], said["gaps"]) == (6, 5000, 0, 1)
    behind = [said[f"{which}OffsetsBehindLatest"] for which in ("avg", "min", "max")]
    assert behind == [6.0, 6, 6]
    while (end := step(reader, at)) != at:
        at = end
    assert [reader.reportLatestOffset()[name] for name in ("lag_rows", "lag_ms")] == [0, 0]


def test_queries_are_consumers_under_a_name_that_stays(tmp_path):
    view = fill(tmp_path, 20, shards=1)
    reader = follow(tmp_path)
    start = reader.initialOffset()
    name = start["consumer"]
    assert view.consumers() == {name: {0: 0}}
    end = step(reader, start)
    reader.commit(end)
    assert view.consumers() == {name: {0: 20}}
    # The checkpoint knows it, so that it is the same one after a restart, and another one for another query.
    assert step(follow(tmp_path), end)["consumer"] == name
    assert follow(tmp_path).initialOffset()["consumer"] != name

    named = follow(tmp_path, consumer="mine")
    assert "consumer" not in named.initialOffset()
    named.commit(end)
    assert view.consumers()["mine"] == {0: 20}
    before = len(view.consumers())
    nobody = follow(tmp_path, consumer="none")
    nobody.commit(nobody.initialOffset())
    assert len(view.consumers()) == before


@pytest.mark.parametrize("admission", [True, False])
def test_a_batch_is_told_to_the_spool_when_the_next_one_is_asked_for(tmp_path, monkeypatch, admission):
    """Spark asks for it after it has committed the batch before, and goes on to ask while there is none."""
    monkeypatch.setattr(_stream, "ADMISSION", admission)
    view = fill(tmp_path, 20, shards=1)
    reader = follow(tmp_path, consumer="mine", maxRowsPerTrigger="10")

    def ask(start):
        return step(reader, start) if admission else reader.latestOffset()

    at = reader.initialOffset()
    for read in (0, 10, 20):
        end = ask(at)
        assert view.consumers() == {"mine": {0: read}}
        at = end
    told = view.commits()["mine"]
    assert [ask(at) for _ in range(3)] == [at] * 3
    assert view.commits()["mine"] == told, "a poll writes nothing"


def test_a_commit_that_fails_is_no_end(tmp_path, caplog):
    fill(tmp_path, 5)
    reader = follow(tmp_path)
    (tmp_path / "consumers").write_text("in the way")
    for _ in range(3):
        reader.commit(reader.initialOffset())
    assert len([record for record in caplog.records if "commit of consumer" in record.message]) == 1


def test_rows_are_kept_until_queries_have_read_them(client, tmp_path):
    keep = spool.Retention(seconds=0.001)
    with spool.Spooler(tmp_path, "r/**", session=client, segment_bytes=10_000, retention=keep) as spooler:
        reader = follow(tmp_path)
        start = reader.initialOffset()
        publish(client, spooler, 200)
        view = spool.open(tmp_path)
        end = step(reader, start)
        assert numbers(read(reader, start, end)) == list(range(200))
        assert view.earliest() == {0: 0}
        reader.commit(end)
        publish(client, spooler, 1)
        wait(lambda: view.earliest()[0] > 0)
        assert view.earliest()[0] <= 200
        assert rows_between(end, step(reader, end)) == 1


def test_a_query_slower_than_a_bound_of_bytes_ends_or_goes_on_behind(client, tmp_path, caplog):
    keep = spool.Retention(bytes=60_000)
    with spool.Spooler(tmp_path, "r/**", session=client, segment_bytes=10_000, retention=keep) as spooler:
        reader = follow(tmp_path)
        start = reader.initialOffset()
        publish(client, spooler, 20)
        early = step(reader, start)
        publish(client, spooler, 400)
        wait(lambda: spool.open(tmp_path).marks()[0]["bytes"] <= 60_000)
        earliest = spool.open(tmp_path).earliest()[0]
        assert earliest > 20
        for call in (lambda r: step(r, start), lambda r: r.partitions(start, early)):
            with pytest.raises(OffsetOutOfRange, match=r"shard 0, offset 0: .* deleted by its retention"):
                call(reader)
        # One that was planned before it was deleted.
        part = Part([Span(str(tmp_path), start["spool"], 0, 10, 420)])
        with pytest.raises(OffsetOutOfRange, match="shard 0, offset 10"):
            list(reader.read(part))
        lenient = follow(tmp_path, failOnDataLoss="false")
        end = step(lenient, start)
        assert numbers(read(lenient, start, end)) == list(range(earliest, 420))
        assert numbers(lenient.read(part)) == list(range(earliest, 420))
        assert read(lenient, start, early) == []
        assert any("deleted by its retention" in record.message for record in caplog.records)
        lost = follow(tmp_path, table="gaps", columns=["kind", "count"])
        first = lost.initialOffset()
        rows = [row for batch in read(lost, first, step(lost, first)) for row in batch.to_pylist()]
        assert sum(row["count"] for row in rows if row["kind"] == "gap") >= earliest


def wait(until):
    deadline = time.monotonic() + 20
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def publish(client, spooler, rows):
    """Numbers that go on, with a kilobyte each."""
    first = sum(spool.open(spooler.path).end().values())
    for number in range(first, first + rows):
        client.put("r/x", b"%d" % number + b" " * 1000)
        if number % 10 == 9:
            spooler.flush()
    assert spooler.flush()


def test_another_spool_is_refused_or_begun_at_its_start(tmp_path, caplog):
    fill(tmp_path, 30)
    reader = follow(tmp_path)
    start = step(reader, reader.initialOffset())
    shutil.rmtree(tmp_path)
    view = fill(tmp_path, 10)
    for call in (lambda r: step(r, start), lambda r: r.partitions(start, start)):
        with pytest.raises(SpoolMismatch, match=f"has read spool {start['spool']} until now.*{view.id}"):
            call(follow(tmp_path))
    lenient = follow(tmp_path, failOnDataLoss="false")
    end = step(lenient, start)
    assert numbers(read(lenient, start, end)) == list(range(10))
    assert any("has read spool" in record.message for record in caplog.records)
    assert step(lenient, end) is end


def test_offsets_above_the_end_are_refused_or_left_out(tmp_path):
    fill(tmp_path, 30, shards=1)
    start = follow(tmp_path).initialOffset()
    above = {**start, "s": {"0": 31}}
    for reader, calls in (
        (follow(tmp_path), (lambda r: step(r, above), lambda r: r.partitions(start, above))),
        (follow(tmp_path, startingOffsets='{"0": 31}'), (lambda r: r.initialOffset(),)),
    ):
        for call in calls:
            with pytest.raises(
                OffsetOutOfRange, match=r"shard 0, offset 31: .* holds offsets 0 to 30"
            ) as caught:
                call(reader)
            assert (caught.value.shard, caught.value.offset) == (0, 31)
    lenient = follow(tmp_path, failOnDataLoss="false")
    assert numbers(read(lenient, start, above)) == list(range(30))
    assert step(lenient, above)["s"] == {"0": 30}
    assert read(lenient, above, step(lenient, above)) == []


def test_a_task_says_where_it_looked_in_vain(tmp_path):
    fill(tmp_path / "a", 10, shards=1)
    reader = follow(tmp_path / "a")
    start = reader.initialOffset()
    (part,) = reader.partitions(start, step(reader, start))
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(SpoolError, match=r"no such folder where this task runs: .*all executors") as caught:
        list(reader.read(part))
    assert (caught.value.shard, caught.value.offset) == (0, 0)
    fill(tmp_path / "a", 10, shards=1)
    with pytest.raises(SpoolMismatch, match=f"shard 0, offset 0: .*, not {start['spool']}"):
        list(reader.read(part))


def test_of_damage_only_the_block_is_lost_if_that_is_allowed(tmp_path, caplog):
    with spool.Appender(tmp_path) as appender:
        for first in range(0, 100, 10):
            append(appender, 10, first)
    strict, lenient = follow(tmp_path), follow(tmp_path, failOnDataLoss="false")
    start = strict.initialOffset()
    end = step(strict, start)
    (file,) = (tmp_path / "0").glob("*.arrow")
    octets = bytearray(file.read_bytes())
    octets[len(octets) // 2] ^= 1
    file.write_bytes(octets)
    with pytest.raises(SpoolCorrupt, match=r"shard 0, offset \d+: .*reading resumes at offset \d+") as caught:
        read(strict, start, end)
    lost = range(caught.value.offset, caught.value.resumes)
    assert len(lost) == 10
    lenient.initialOffset()
    assert numbers(read(lenient, start, end)) == [number for number in range(100) if number not in lost]
    assert "what cannot be read is left out" in caplog.text
    # A whole segment, by its beginning.
    octets[20] ^= 1
    file.write_bytes(octets)
    assert numbers(read(lenient, start, end)) == []


def test_a_folder_that_is_out_of_reach_for_a_moment_is_waited_for(tmp_path, monkeypatch):
    fill(tmp_path / "a", 10)
    reader = follow(tmp_path / "a")
    end = step(reader, reader.initialOffset())
    # As an answer of the operating system; the folder itself would be loss.
    (tmp_path / "a" / "marks").rename(tmp_path / "marks")
    (tmp_path / "a" / "marks").mkdir()
    assert step(reader, end) is end
    monkeypatch.setattr(_stream, "_PATIENCE", 0.0)
    with pytest.raises(SpoolError):
        step(reader, end)
    (tmp_path / "a" / "marks").rmdir()
    (tmp_path / "marks").rename(tmp_path / "a" / "marks")
    assert step(reader, end) is end


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"consumer": "../x"}, "'consumer' must be 1 to 100 letters"),
        ({"maxRowsPerTrigger": "0"}, "'maxRowsPerTrigger' must be at least 1"),
        ({"maxPartitions": "0"}, "'maxPartitions' must be at least 1"),
        ({"startingOffsets": "now"}, "must be earliest, latest or JSON"),
        ({"startingOffsets": "[1]"}, "must be earliest, latest or JSON"),
        ({"startingOffsets": '{"0": 1}'}, r"has shards \[0\] .* which has \[0, 1, 2\]"),
        ({"startingOffsets": '{"0": "x"}'}, "'x' is no offset"),
        ({"startingOffsets": '{"v": 9, "spool": "a", "s": {}}'}, "version 9 is unknown"),
        ({"startingOffsets": '{"spool": "a", "s": {"0": 1}}'}, "is about spool a, and what is read is spool"),
        ({"startingTimestamp": "0"}, "and startingTimestamp exclude each other"),
        ({"endingOffsets": "latest"}, "option 'endingOffsets' is for tables, and this is a stream"),
        ({"endingOffsetsByTimestamp": "{}"}, "option 'endingOffsetsByTimestamp' is for tables"),
        ({"minRowsPerTrigger": "0"}, "'minRowsPerTrigger' must be at least 1"),
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "'minOffsetsPerTrigger' is 9, and max.* is 8",
        ),
        ({"maxTriggerDelay": "1m"}, "'maxTriggerDelay' needs minRowsPerTrigger"),
        ({"minOffsetsPerTrigger": "9", "maxTriggerDelay": "0"}, "'maxTriggerDelay' must be above zero"),
        ({"minPartitions": "4", "maxPartitions": "3"}, "'minPartitions' is 4, and maxPartitions is 3"),
        ({"maxRecordsPerPartition": "4", "maxPartitions": "3"}, "and maxPartitions exclude each other"),
        ({"groupId": "../x"}, "'groupId' must be 1 to 100 letters"),
        ({"groupId": "x", "consumer": "x"}, "'consumer' is given under two names"),
        ({"kafka.group.id": "x"}, "the whole name of the consumer is given as consumer, or as groupId"),
        ({"kafka.bootstrap.servers": "x:9092"}, "it is for brokers of Kafka: give the folder or the address"),
        ({"subscribePattern": "x.*"}, "unknown option 'subscribePattern': give key expressions"),
        (
            {"startingOffsetsByTimestamp": '{"0": 1, "1": 1, "2": 1}'},
            "'startingOffsets' and startingOffsetsByTimestamp exclude each other",
        ),
        (
            {"startingOffsets": None, "startingOffsetsByTimestamp": '{"0": 1, "1": 1}'},
            r"'startingOffsetsByTimestamp' has shards \[0, 1\] .* which has \[0, 1, 2\]",
        ),
        (
            {"startingOffsets": None, "startingOffsetsByTimestamp": '{"0": "soon", "1": 1, "2": 1}'},
            "'startingOffsetsByTimestamp' must be milliseconds since 1970",
        ),
        (
            {"startingOffsets": None, "startingTimestamp": "1", "startingOffsetsByTimestamp": "{}"},
            "'startingOffsetsByTimestamp' and startingTimestamp exclude each other",
        ),
        (
            {"startingOffsetsByTimestampStrategy": "error"},
            "'startingOffsetsByTimestampStrategy' needs startingTimestamp or startingOffsetsByTimestamp",
        ),
        (
            {
                "startingOffsets": None,
                "startingTimestamp": "1",
                "startingOffsetsByTimestampStrategy": "earliest",
            },
            "'startingOffsetsByTimestampStrategy' must be one of error, latest",
        ),
    ],
)
def test_wrong_options_of_streams_are_said(tmp_path, options, problem):
    fill(tmp_path, 10)
    given = {name: value for name, value in {"startingOffsets": "earliest", **options}.items() if value}
    reader = _stream.SpoolStreamReader(
        {"spool": str(tmp_path), **given}, zs.schema.SAMPLE.select(COLUMNS).spark(), "zwire", "samples"
    )
    with pytest.raises(ConfigError, match=problem):
        reader.initialOffset()
    if not {"endingOffsets", "endingOffsetsByTimestamp"} & set(options):
        # Already at `load()`.
        with pytest.raises(ConfigError, match=problem):
            _stream.schema({"spool": str(tmp_path), **given}, "zwire", "samples")


def test_queries_begin_where_options_say(tmp_path):
    with spool.Appender(tmp_path, shards=2) as appender:
        for number in range(20):
            appender.append(key="a", recv_ts=1_000_000 * number, shard=number % 2)
    for options, expected in (
        ({"startingOffsets": '{"0": 3, "1": -1}'}, {"0": 3, "1": 10}),
        ({"startingOffsets": '{"0": -2, "1": -2}'}, {"0": 0, "1": 0}),
        ({"startingOffsets": None, "startingTimestamp": "10500"}, {"0": 6, "1": 5}),
        ({"startingOffsets": None, "startingTimestamp": "1970-01-01T00:00:10Z"}, {"0": 5, "1": 5}),
        (
            {"startingOffsets": None, "startingOffsetsByTimestamp": '{"0": 10500, "1": 3000}'},
            {"0": 6, "1": 1},
        ),
        (
            {
                "startingOffsets": None,
                "startingOffsetsByTimestamp": '{"0": "1970-01-01T00:00:10Z", "1": 99000}',
                "startingOffsetsByTimestampStrategy": "latest",
            },
            {"0": 5, "1": 10},
        ),
        ({"startingOffsets": None}, {"0": 10, "1": 10}),
    ):
        given = {name: value for name, value in {"startingOffsets": "earliest", **options}.items() if value}
        reader = _stream.SpoolStreamReader(
            {"spool": str(tmp_path), **given}, zs.schema.SAMPLE.select(COLUMNS).spark(), "zwire", "samples"
        )
        assert reader.initialOffset()["s"] == expected, options


@pytest.mark.parametrize(
    "options",
    [{"startingTimestamp": "18500"}, {"startingOffsetsByTimestamp": '{"0": 18500, "1": 18500}'}],
)
def test_a_beginning_later_than_every_row_of_a_shard_is_refused_if_that_is_wanted(tmp_path, options):
    with spool.Appender(tmp_path, shards=2) as appender:
        for number in range(20):
            appender.append(key="a", recv_ts=1_000_000 * number, shard=number % 2)

    def initial(**more):
        given = {"spool": str(tmp_path), **options, **more}
        schema = zs.schema.SAMPLE.select(COLUMNS).spark()
        return _stream.SpoolStreamReader(given, schema, "zwire", "samples").initialOffset()

    assert initial()["s"] == {"0": 10, "1": 9}
    name = next(iter(options))
    problem = rf"'{name}' is later than every row of shard 0 of spool .*; startingOffsetsBy.*=latest begins"
    with pytest.raises(ConfigError, match=problem):
        initial(startingOffsetsByTimestampStrategy="error")


def test_a_batch_waits_for_rows_or_for_a_time(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(_stream.time, "monotonic", lambda: now[0])
    with spool.Appender(tmp_path, shards=2) as appender:
        append(appender, 3)
        reader = follow(tmp_path, minOffsetsPerTrigger="10", maxTriggerDelay="60s", consumer="c")
        first = reader.initialOffset()
        at = step(reader, first)
        assert rows_between(first, at) == 3, "the first batch of a run does not wait"
        append(appender, 4, first=3)
        now[0] += 59
        assert step(reader, at) == at
        assert spool.open(tmp_path).consumers()["c"] == {int(k): v for k, v in at["s"].items()}
        assert reader.reportLatestOffset()["lag_rows"] == 4
        append(appender, 6, first=7)
        end = step(reader, at)
        assert rows_between(at, end) == 10, "enough rows"
        append(appender, 1, first=13)
        assert step(reader, end) == end
        now[0] += 60
        last = step(reader, end)
        assert rows_between(end, last) == 1, "waited for long enough"
        append(appender, 2, first=14)
        assert step(reader, last) == last
        # The rest of `Trigger.AvailableNow` is read whatever its size.
        reader.prepareForTriggerAvailableNow()
        assert rows_between(last, step(reader, last)) == 2
    by_default = follow(tmp_path, minOffsetsPerTrigger="10")
    step(by_default, first)
    assert by_default._live().delay == 15 * 60


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"minPartitions": "4"}, [25] * 4),
        ({"minPartitions": "1000"}, [1] * 100),
        ({"maxRecordsPerPartition": "30"}, [25] * 4),
        ({"maxRecordsPerPartition": "1000"}, [100]),
        ({"minPartitions": "2", "maxRecordsPerPartition": "20"}, [20] * 5),
        ({"minPartitions": "10", "maxRecordsPerPartition": "20"}, [10] * 10),
        ({}, [100]),
    ],
)
def test_tasks_are_cut_by_rows_if_options_say_so(tmp_path, options, sizes):
    fill(tmp_path, 100, shards=1)
    reader = follow(tmp_path, **options)
    start = reader.initialOffset()
    end = step(reader, start)
    parts = reader.partitions(start, end)
    assert [sum(span.stop - span.start for span in part.spans) for part in parts] == sizes
    assert numbers(read(reader, start, end)) == list(range(100))
    # The same of a table.
    given = {"spool": str(tmp_path), "columns": ",".join(COLUMNS), **options}
    table = _spool.reader(given, reader.schema, "zwire", "samples")
    assert len(table.partitions()) == len(sizes)


def test_tasks_cut_by_rows_cover_several_shards(tmp_path):
    fill(tmp_path / "x", 100)
    fill(tmp_path / "y", 7, shards=1)
    reader = follow(tmp_path / "x", tmp_path / "y", maxRecordsPerPartition="11", minPartitions="3")
    start = reader.initialOffset()
    end = step(reader, start)
    parts = reader.partitions(start, end)
    counts = [sum(span.stop - span.start for span in part.spans) for part in parts]
    assert max(counts) <= 11
    assert len(counts) <= 2 * 107 / 11
    assert numbers(read(reader, start, end)) == sorted([*range(100), *range(7)])
    assert reader.partitions(end, end) == []


def test_gaps_are_followed(tmp_path):
    with spool.Appender(tmp_path) as appender:
        for number in range(5):
            appender.append_gap(0, "drop", count=number)
        reader = follow(tmp_path, table="gaps", columns=["count", "kind"], maxRowsPerTrigger="3")
        at = reader.initialOffset()
        assert at["s"] == {"gaps": 0}
        counts = []
        for _ in range(3):
            end = step(reader, at)
            counts.append([row["count"] for batch in read(reader, at, end) for row in batch.to_pylist()])
            at = end
        assert counts == [[0, 1, 2], [3, 4], []]
        appender.append_gap(0, "gap", count=9)
        assert rows_between(at, step(reader, at)) == 1
    assert spool.open(tmp_path).consumers() == {}


def test_an_old_spark_says_neither_start_nor_limit(tmp_path, monkeypatch):
    """PySpark 4.0 and 4.1 call it like this, and know no limits."""
    monkeypatch.setattr(_stream, "ADMISSION", False)
    fill(tmp_path, 50)
    reader = follow(tmp_path, maxRowsPerTrigger="20")
    at = reader.initialOffset()
    assert "consumer" not in at
    sizes = []
    while (end := reader.latestOffset()) != at:
        sizes.append(rows_between(at, end))
        assert len(numbers(read(reader, at, end))) == sizes[-1]
        at = end
    assert sizes == [20, 20, 10]
    # After a restart the position is unknown, so the first batch takes all rows present.
    again = follow(tmp_path, maxRowsPerTrigger="20")
    assert again.latestOffset() == at
    # With a batch to be done again it is known.
    again = follow(tmp_path, maxRowsPerTrigger="20")
    half = {**at, "s": {"0": 5, "1": 5, "2": 5}}
    again.partitions({**at, "s": {"0": 0, "1": 0, "2": 0}}, half)
    assert rows_between(half, again.latestOffset()) == 20


def test_an_old_spark_asks_for_the_end_of_its_first_batch_before_the_beginning(tmp_path, monkeypatch):
    """So the first batch has no limit; the next ones begin behind it."""
    monkeypatch.setattr(_stream, "ADMISSION", False)
    with spool.Appender(tmp_path, shards=2) as appender:
        append(appender, 50)
        reader = follow(tmp_path, maxRowsPerTrigger="20", minRowsPerTrigger="5")
        end = reader.latestOffset()
        at = reader.initialOffset()
        assert rows_between(at, end) == 50
        seen = numbers(read(reader, at, end))
        append(appender, 4, first=50)
        assert reader.latestOffset() == end, "the first batch was one as well: the next one waits"
        append(appender, 46, first=54)
        at, sizes = end, []
        while (end := reader.latestOffset()) != at:
            sizes.append(rows_between(at, end))
            seen += numbers(read(reader, at, end))
            at = end
            if sizes == [20, 20]:
                append(appender, 1, first=100)
    assert sizes == [20, 20, 11]
    assert seen == list(range(101)), "each row once"


def test_parts_hold_what_pickles(tmp_path):
    fill(tmp_path, 10)
    reader = follow(tmp_path)
    start = reader.initialOffset()
    parts = reader.partitions(start, step(reader, start))
    assert all(isinstance(part, Part) for part in parts)
    assert [pickle.loads(pickle.dumps(part)).spans for part in parts] == [part.spans for part in parts]
    assert "Options of zwire" in repr(reader._options())
