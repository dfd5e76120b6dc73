"""Recordings in files: what goes in comes out, and other readers and writers agree."""

import datetime as dt
import gzip
import io
import random
import sys
from pathlib import Path

import mcap.reader
import mcap.writer
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nodes
import truth
from zwire import spool, zenoh
from zwire.capture import decode
from zwire.errors import KeyExprError, RecordingError
from zwire.recording import McapSchema, Remap, _mcap, _write, conform, read, write
from zwire.spark import schema

pytestmark = pytest.mark.slow

BEGIN = dt.datetime(2026, 3, 4, 5, 6, 7, 123456, dt.UTC)
FORMATS = ["parquet", "arrow", "mcap"]


def at(seconds):
    return BEGIN + dt.timedelta(seconds=seconds)


def hlc(when, counter=0):
    stamp = zenoh.NTP64(int(when.timestamp()), when.microsecond * 1000)
    return int(stamp) + counter


def row(number, **other):
    """A sample with something in each column that all formats keep."""
    when = at(number / 100)
    return {
        "key": f"robot/{number % 3}/pose",
        "payload": b"%d" % number,
        "kind": "put",
        "encoding": "application/protobuf;demo.Pose" if number % 2 else "text/plain",
        "timestamp": when,
        "hlc": hlc(when),
        "hlc_id": b"\x07\x01",
        "source_zid": b"\x05",
        "source_eid": 3,
        "source_sn": number,
        "priority": 1 + number % 7,
        "congestion": "drop" if number % 2 else "block",
        "express": False,
        "reliable": True,
        "link": "tcp/127.0.0.1:7447",
        "recv_ts": when + dt.timedelta(microseconds=500),
        **other,
    }


def table(rows):
    return pa.Table.from_pylist(rows, schema=schema.SAMPLE.arrow())


def made(count=100, **other):
    return table([row(number, **other) for number in range(count)])


@pytest.fixture(params=FORMATS)
def path(request, tmp_path):
    return tmp_path / f"run.{request.param}"


def test_what_is_written_is_read(path):
    rows = [row(number) for number in range(50)]
    rows[7] |= {"kind": "del", "payload": None, "encoding": None}
    rows[8] |= {"hlc_id": None, "hlc": None, "timestamp": None, "priority": None, "link": None}
    written = write(table(rows).to_batches(max_chunksize=20), path)
    assert (written.rows, written.lost) == (50, {})
    assert written.bytes == sum(len(each["payload"] or b"") for each in rows)
    found = pa.table(read(path))
    assert found.schema == schema.SAMPLE.arrow()
    for name in found.schema.names:
        if path.suffix == ".mcap" and name == "hlc":
            continue  # cut to nanoseconds, see below
        assert found.column(name).to_pylist() == table(rows).column(name).to_pylist(), name


def test_attachments_and_places_go_into_tables_only(path):
    extra = {"attachment": b"\x00why", "shard": 2, "offset": 9}
    lost = {"attachment": 3, "shard": 3, "offset": 3} if path.suffix == ".mcap" else {}
    assert write(made(3, **extra).to_batches(), path).lost == lost
    for name, value in extra.items():
        assert pa.table(read(path)).column(name).to_pylist() == [None if lost else value] * 3


def test_an_mcap_keeps_the_nanoseconds_of_a_time_stamp(tmp_path):
    path = tmp_path / "run.mcap"
    stamps = [hlc(BEGIN, counter) for counter in (0, 3, 17, 1 << 20)]
    write(table([row(0, hlc=stamp) for stamp in stamps]).to_batches(), path)
    for stamp, found in zip(stamps, pa.table(read(path)).column("hlc").to_pylist(), strict=True):
        assert 0 <= found - stamp < 5  # a nanosecond is 4.3 of its units


def test_readers_of_mcap_see_keys_encodings_schemas_and_times(tmp_path):
    path = tmp_path / "run.mcap"
    rows = [row(0, encoding="application/json"), row(1), row(2, encoding="application/protobuf;demo.Other")]
    schemas = {"demo.Pose": McapSchema("protobuf", b"a FileDescriptorSet")}
    write(table(rows).to_batches(), path, schemas=schemas)
    with path.open("rb") as file:
        reader = mcap.reader.make_reader(file, validate_crcs=True)
        assert reader.get_header().library.startswith("zwire ")
        found = list(reader.iter_messages())
        statistics = reader.get_summary().statistics
    assert (statistics.message_count, statistics.channel_count) == (3, 3)
    assert [channel.topic for _, channel, _ in found] == ["robot/0/pose", "robot/1/pose", "robot/2/pose"]
    assert [channel.message_encoding for _, channel, _ in found] == ["json", "protobuf", "protobuf"]
    named, other = found[1][0], found[2][0]
    assert found[0][0] is None
    assert (named.name, named.encoding, named.data) == ("demo.Pose", "protobuf", b"a FileDescriptorSet")
    assert (other.name, other.encoding, other.data) == ("demo.Other", "", b"")
    message = found[1][2]
    micros = (at(0.01) - dt.datetime.fromtimestamp(0, dt.UTC)) // dt.timedelta(microseconds=1)
    assert message.log_time == (micros + 500) * 1000
    assert message.publish_time == micros * 1000
    assert (message.data, message.sequence) == (b"1", 1)


@pytest.mark.parametrize("compression", mcap.writer.CompressionType)
@pytest.mark.parametrize("chunks", [True, False])
def test_an_mcap_of_others_is_read(tmp_path, compression, chunks):
    path = tmp_path / "bag.mcap"
    with path.open("wb") as file:
        writer = mcap.writer.Writer(file, compression=compression, use_chunking=chunks)
        writer.start("ros2", "somebody")
        shape = writer.register_schema("sensor_msgs/msg/Imu", "ros2msg", b"float64 x")
        imu = writer.register_channel("/imu/data", "cdr", shape)
        plain = writer.register_channel("/status", "json", 0)
        writer.add_message(imu, 2_000_000_999, b"\x00\x01", 1_000_000_500, 4)
        writer.add_message(plain, 3_000_000_000, b"{}", 3_000_000_000)
        writer.finish()
    first, second = pa.table(read(path)).to_pylist()
    assert (first["key"], first["encoding"]) == ("imu/data", "application/cdr;sensor_msgs/msg/Imu")
    assert (first["payload"], first["kind"], first["source_sn"]) == (b"\x00\x01", "put", None)
    assert first["recv_ts"] == dt.datetime.fromtimestamp(2, dt.UTC)
    assert first["timestamp"] == dt.datetime.fromtimestamp(1, dt.UTC)
    assert (second["key"], second["encoding"]) == ("status", "application/json")


def test_tables_are_what_pyarrow_reads(tmp_path):
    rows = made(10)
    write(rows.to_batches(), tmp_path / "run.parquet", columns=["key", "payload", "recv_ts"])
    found = pq.read_table(tmp_path / "run.parquet")
    assert found.equals(rows.select(["key", "payload", "recv_ts"]))
    write(rows.to_batches(), tmp_path / "run.arrow", compress=False)
    with pa.memory_map(str(tmp_path / "run.arrow")) as file:
        assert pa.ipc.open_file(file).read_all().equals(rows)


def test_small_batches_share_a_row_group(tmp_path, monkeypatch):
    monkeypatch.setattr(_write, "_GROUP_ROWS", 64)
    path = tmp_path / "run.parquet"
    write(made(200).to_batches(max_chunksize=3), path)
    found = pq.ParquetFile(path).metadata
    assert [found.row_group(number).num_rows for number in range(found.num_row_groups)] == [66, 66, 66, 2]
    assert pa.table(read(path)).equals(made(200))


def test_columns_of_others_are_understood(tmp_path):
    found = pa.table(
        {
            "key": pa.array(["a", "b", "c"]).dictionary_encode(),
            "payload": pa.array([b"1", b"", b"3"], pa.large_binary()),
            "kind": pa.array(["put", "del", None], pa.string_view()),
            "timestamp": pa.array([1_000_000_123] * 3, pa.timestamp("ns")),
            "congestion": ["drop", "block_first", None],
            "hlc": pa.array([2**63 + 1, 5, None], pa.uint64()),
            "unknown": [1, 2, 3],
        }
    )
    pq.write_table(found, tmp_path / "other.parquet")
    first, second, third = pa.table(read(tmp_path / "other.parquet")).to_pylist()
    assert (first["key"], first["payload"], first["kind"], first["hlc"]) == ("a", b"1", "put", 1 - 2**63)
    assert first["timestamp"] == dt.datetime.fromtimestamp(1, dt.UTC)
    assert (second["payload"], second["kind"], second["congestion"]) == (None, "del", "block_first")
    assert (third["payload"], third["kind"], third["congestion"]) == (b"3", "put", None)


def test_files_with_former_names_are_read(tmp_path):
    former = {
        "key": ["a", "b"],
        "payload": pa.array([b"1", None], pa.binary()),
        "kind": pa.array([0, 1], pa.int8()),
        "ts": pa.array([5, None], pa.timestamp("us", "UTC")),
        "congestion_block": [True, False],
    }
    pq.write_table(pa.table(former), tmp_path / "old.parquet")
    found = pa.table(read(tmp_path / "old.parquet"))
    assert found.column("kind").to_pylist() == ["put", "del"]
    assert found.column("timestamp").to_pylist() == former["ts"].to_pylist()
    assert found.column("congestion").to_pylist() == ["block", "drop"]
    with pytest.warns(DeprecationWarning, match="'ts' is called 'timestamp' now"):
        only = pa.table(read(tmp_path / "old.parquet", columns=["key", "ts"]))
    assert only.column_names == ["key", "timestamp"]
    with pytest.warns(DeprecationWarning, match="is called"):
        assert pa.Table.from_batches([conform(pa.record_batch(former))]).equals(found)


def test_an_mcap_with_former_metadata_is_read(tmp_path):
    path = tmp_path / "old.mcap"
    with path.open("wb") as file:
        writer = mcap.writer.Writer(file)
        writer.start("", "zwire")
        said = {"zwire.kind": "1", "zwire.congestion_block": "true"}
        channel = writer.register_channel("a/b", "", 0, said)
        writer.add_message(channel, 1_000, b"", 1_000)
        writer.finish()
    (row,) = pa.table(read(path)).to_pylist()
    assert (row["kind"], row["congestion"], row["payload"]) == ("del", "block", None)


def test_what_a_subscriber_gets_is_written():
    with nodes.opened("peer") as session, session.declare_subscriber("a/**") as subscriber:
        session.put("a/b", "x", encoding="text/plain", attachment="y")
        session.delete("a/c")
        batch = subscriber.recv_batch(timeout=5)
    found = conform(batch, recv_ts=BEGIN).to_pylist()
    assert [(each["key"], each["payload"], each["kind"]) for each in found] == [
        ("a/b", b"x", "put"),
        ("a/c", None, "del"),
    ]
    assert (found[0]["encoding"], found[0]["attachment"]) == ("text/plain", b"y")
    assert (found[0]["priority"], found[0]["congestion"]) == (5, "drop")
    assert {each["recv_ts"] for each in found} == {BEGIN}


def test_publications_of_a_capture_are_read():
    source = truth.path("pubsub-basic")
    pushed = pa.table(decode(source)).to_pylist()
    pushed = [each for each in pushed if each["message"] == "push"]
    found = pa.table(read(source)).to_pylist()
    assert len(found) == len(pushed) > 3
    for ours, theirs in zip(found, pushed, strict=True):
        assert (ours["key"], ours["recv_ts"], ours["link"]) == (theirs["key"], theirs["ts"], theirs["src"])
        assert ours["payload"] == (theirs["payload"] if ours["kind"] == "put" else None)
        for name in ("timestamp", "hlc", "hlc_id"):
            assert ours[name] == theirs[name]
    link = found[0]["link"]
    only = pa.table(read(source, link=f"{link[:-1]}*"))
    assert set(only.column("link").to_pylist()) <= {each["link"] for each in found}
    assert link in only.column("link").to_pylist()


def test_a_capture_that_is_cut_off_says_so(tmp_path):
    octets = gzip.decompress(Path(truth.path("pubsub-basic")).read_bytes())
    path = tmp_path / "cut.pcap"
    path.write_bytes(octets)
    whole, failed = rows_of(path)
    assert not failed
    path.write_bytes(octets[:-30])
    found, failed = rows_of(path)
    assert failed
    assert found == whole[: len(found)]
    assert found


def test_keys_times_and_columns_are_chosen(path):
    write(made(100).to_batches(), path)
    some = pa.table(read(path, keys=["robot/1/**", "x"], start=0.1, stop=at(0.5), columns=["payload"]))
    expected = [b"%d" % number for number in range(100) if number % 3 == 1 and 10 <= number < 50]
    assert some.schema.names == ["payload"]
    assert some.column("payload").to_pylist() == expected
    assert pa.table(read(path, start=5)).num_rows == 0


def test_sources_are_merged_by_time_each_in_its_order(tmp_path):
    parts = [tmp_path / "a.parquet", tmp_path / "b.mcap", tmp_path / "folder"]
    numbers = [range(0, 300, 3), range(1, 300, 3), range(2, 300, 3)]
    (parts[2] / "0").mkdir(parents=True)
    (parts[2] / "0" / "_SUCCESS").write_text("")
    files = [parts[0], parts[1], [parts[2] / "0" / "000.arrow", parts[2] / "0" / "150.arrow"]]
    for file, some in zip(files, numbers, strict=True):
        rows = [row(number) for number in some]
        if isinstance(file, list):
            write(table(rows[:50]).to_batches(), file[0])
            write(table(rows[50:]).to_batches(max_chunksize=7), file[1])
        else:
            write(table(rows).to_batches(max_chunksize=11), file)
    found = read(*parts)
    assert pa.table(found).column("source_sn").to_pylist() == list(range(300))
    assert pa.table(found).num_rows == 300  # once more
    assert found.position == found.size > 0


def test_a_spool_is_read_with_all_its_shards(tmp_path):
    with spool.Appender(tmp_path / "spool", shards=3) as appender:
        for batch in made(200).drop_columns(["shard", "offset"]).to_batches(max_chunksize=30):
            appender.append_batch(batch)
        appender.append(key="robot/9/pose", payload=None, kind="del")
        appender.flush()
        found = pa.table(read(tmp_path / "spool", columns=["source_sn", "kind", "shard", "offset"]))
    assert sorted(found.column("source_sn").to_pylist()[:-1]) == list(range(200))
    assert found.column("kind").to_pylist()[-1] == "del"
    places = list(zip(found.column("shard").to_pylist(), found.column("offset").to_pylist(), strict=True))
    assert len(set(places)) == 201
    for shard in range(3):
        offsets = [offset for at_shard, offset in places if at_shard == shard]
        assert offsets == list(range(len(offsets)))
    segment = next((tmp_path / "spool").glob("*/*.arrow"))
    assert pa.table(read(segment)).num_rows > 0


def test_what_is_earlier_than_the_row_before_stays_behind_it(tmp_path):
    rows = [row(5), row(1), row(9, recv_ts=None, timestamp=None), row(3)]
    write(table(rows).to_batches(), tmp_path / "a.arrow")
    write(table([row(4), row(6)]).to_batches(), tmp_path / "b.arrow")
    found = pa.table(read(tmp_path / "a.arrow", tmp_path / "b.arrow"))
    assert found.column("source_sn").to_pylist() == [4, 5, 1, 9, 3, 6]


def small(form):
    """A file of a few hundred rows in pieces that can be cut apart."""
    rows = made(300)
    out = io.BytesIO()
    if form == "mcap":
        writer = _mcap.McapWriter(out)
        writer._writer._Writer__chunk_size = 2000
        for batch in rows.to_batches(max_chunksize=50):
            writer.write(batch)
        writer.close()
    elif form == "mcap-plain":
        writer = mcap.writer.Writer(out, use_chunking=False)
        writer.start()
        channel = writer.register_channel("a", "", 0)
        for number in range(300):
            writer.add_message(channel, number, b"x" * 40 + b"%d" % number, number)
        writer.finish()
    else:
        with pa.ipc.new_file(out, rows.schema) as writer:
            for batch in rows.to_batches(max_chunksize=50):
                writer.write_batch(batch)
    return out.getvalue()


def rows_of(path):
    """The rows of a file, and whether they ended with an error that names it."""
    found = []
    try:
        for batch in read(path):
            found += batch.column("payload").to_pylist()
    except RecordingError as error:
        return found, str(path) in str(error) and error.file == str(path)
    return found, False


@pytest.mark.parametrize("form", ["arrow", "mcap", "mcap-plain"])
def test_of_a_file_that_is_cut_off_what_is_whole_is_read(form, tmp_path):
    octets = small(form)
    path = tmp_path / "cut"
    path.write_bytes(octets)
    whole, failed = rows_of(path)
    assert (len(whole), failed) == (300, False)
    seen = set()
    for end in random.Random(1).sample(range(40, len(octets)), 40):
        path.write_bytes(octets[:end])
        found, _ = rows_of(path)
        assert found == whole[: len(found)]
        seen.add(len(found))
    assert len(seen) > 3
    path.write_bytes(octets[: len(octets) // 3])
    found, failed = rows_of(path)
    assert 0 < len(found) < 300
    assert failed


@pytest.mark.parametrize("form", ["parquet", "arrow", "mcap"])
def test_a_damaged_file_is_an_error_that_names_it(form, tmp_path):
    path = tmp_path / f"run.{form}"
    write(made(200).to_batches(), path)
    octets = path.read_bytes()
    chance = random.Random(2)
    failures = 0
    for _ in range(60):
        bad = bytearray(octets)
        for _ in range(8):
            bad[chance.randrange(8, len(bad))] ^= 1 << chance.randrange(8)
        path.write_bytes(bad)
        failures += rows_of(path)[1]
    assert failures > 10


@pytest.mark.parametrize("place", [1 << 63, (1 << 64) - 1, 1 << 40])
def test_an_index_that_points_out_of_the_file_is_an_error(tmp_path, place):
    path = tmp_path / "run.mcap"
    write(made(20).to_batches(), path)
    with path.open("rb") as file:
        (chunk,) = mcap.reader.make_reader(file).get_summary().chunk_indexes
    octets = path.read_bytes()
    right, wrong = (number.to_bytes(8, "little") for number in (chunk.chunk_start_offset, place))
    index = chunk.message_end_time.to_bytes(8, "little") + right
    assert octets.count(index) == 1
    path.write_bytes(octets.replace(index, index[:8] + wrong))
    assert rows_of(path) == ([], True)


def test_what_is_no_recording_is_refused(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_bytes(b"something else")
    with pytest.raises(RecordingError, match="no Parquet, Arrow IPC, MCAP or capture"):
        read(path)
    with pytest.raises(RecordingError, match="holds no recording"):
        read(tmp_path.joinpath("empty").mkdir() or tmp_path / "empty")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.mcap")
    pq.write_table(pa.table({"topic": ["a"]}), path)
    with pytest.raises(RecordingError, match="no column 'key' among"):
        list(read(path))
    pq.write_table(pa.table({"key": ["a"], "kind": ["query"]}), path)
    with pytest.raises(RecordingError, match="'query', which is none of put, del"):
        list(read(path))
    pq.write_table(pa.table({"key": ["a"], "priority": ["high"]}), path)
    with pytest.raises(RecordingError, match="'priority' is string and cannot be read as int8"):
        list(read(path))
    with pytest.raises(ValueError, match="format must be one of parquet, arrow, mcap, pcap, not 'csv'"):
        read(path, format="csv")
    with pytest.raises(KeyExprError):
        read(path, keys=["a//b"])
    with pytest.raises(ValueError, match="column 'x' is not one of"):
        read(path, columns=["x"])
    with pytest.raises(TypeError, match="read has no option until"):
        read(path, until=3)


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"one of parquet, arrow, mcap, not 'run.csv'"):
        write([], tmp_path / "run.csv")
    with pytest.raises(ValueError, match="columns cannot be chosen"):
        write([], tmp_path / "run.mcap", columns=["key"])
    timeless = table([row(0), row(1, timestamp=None, hlc=None, recv_ts=None)])
    with pytest.raises(
        RecordingError, match="row 1, key 'robot/1/pose': neither recv_ts nor timestamp"
    ) as raised:
        write(timeless.to_batches(), tmp_path / "run.mcap")
    assert raised.value.rows == 1
    # What came before is a whole file.
    assert pa.table(read(tmp_path / "run.mcap")).num_rows == 1


def test_what_came_before_an_error_is_a_whole_file(path):
    def batches():
        yield from made(10).to_batches()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(batches(), path)
    assert pa.table(read(path)).num_rows == 10


def test_an_mcap_has_so_many_channels(tmp_path, monkeypatch):
    monkeypatch.setattr(_mcap, "_MOST_CHANNELS", 3)
    rows = [row(0, key=f"a/{number}") for number in range(4)]
    with pytest.raises(RecordingError, match="row 3, key 'a/3': an MCAP has at most 3 channels"):
        write(table(rows).to_batches(), tmp_path / "run.mcap")


@pytest.mark.parametrize(
    ("old", "new", "key", "expected"),
    [
        ("robot", "sim", "robot/1/pose", "sim/1/pose"),
        ("robot", "sim", "robot", "sim"),
        ("robot", "sim", "robots/1", "robots/1"),
        ("robot/1", "", "robot/1/pose", "pose"),
        ("robot/1", "", "robot/1", "robot/1"),
        ("", "site/a", "robot/1", "site/a/robot/1"),
        ("robot/*/pose", "sim/*/p", "robot/1/pose", "sim/1/p"),
        ("robot/*/pose", "sim/*/p", "robot/1/2/pose", "robot/1/2/pose"),
        ("robot/*", "all", "robot/1", "all"),
        ("*/a/**", "b/*/**", "x/a/y/z", "b/x/y/z"),
        ("*/a/**", "b/*/**", "x/a", "b/x"),
        ("**/pose", "p/**", "a/b/pose", "p/a/b"),
        ("**/pose", "p/**", "pose", "p"),
        ("**", "p/**", "a/b", "p/a/b"),
        ("a$*/b", "$*z/c", "axy/b", "xyz/c"),
        ("*", "x/*", "@admin", "@admin"),
        ("**", "x/**", "a/@b", "a/@b"),
        ("a.b/*", "c/*", "axb/1", "axb/1"),
    ],
)
def test_keys_get_other_names(old, new, key, expected):
    assert Remap({old: new})(key) == expected
    assert Remap({"never": "x", old: new}).column(pa.array([key, None, key])).to_pylist() == [
        expected,
        None,
        expected,
    ]


CHUNK = st.sampled_from(["a", "b", "ab", "@v", "*", "**", "a$*", "$*b"])


@given(
    st.lists(CHUNK, min_size=1, max_size=4),
    st.lists(st.sampled_from(["a", "b", "ab", "abb", "@v"]), min_size=1, max_size=5),
)
@settings(max_examples=400, deadline=None)
def test_a_rule_is_for_the_keys_that_its_expression_includes(chunks, key):
    old, key = str(zenoh.KeyExpr.autocanonize("/".join(chunks))), "/".join(key)
    if "*" not in old:
        return
    included = zenoh.KeyExpr(old).includes(key)
    # With its own wildcards as the new name every key keeps its name.
    assert Remap({old: old})(key) == key
    assert (Remap({old: "other"})(key) == "other") == included


def test_rules_that_are_none_are_refused():
    with pytest.raises(ValueError, match="must have the wildcards of 'a/\\*' in their order: \\*"):
        Remap({"a/*": "b/**"})
    with pytest.raises(ValueError, match="in their order: none"):
        Remap({"a": "b/*"})
    with pytest.raises(KeyExprError):
        Remap({"a//b": "c"})


def test_without_its_library_the_error_names_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "run.mcap"
    write(made(1).to_batches(), path)
    monkeypatch.setitem(sys.modules, "mcap", None)
    with pytest.raises(ImportError, match=r"mcap is not installed: pip install 'zwire\[record\]'"):
        list(read(path))
