"""Captures as a table: what the applications said, whatever is selected, in bounded memory."""

import os
import shutil
import subprocess
import sys
from collections import Counter, namedtuple
from datetime import UTC

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

import truth
import zwire.spark as zs
from truth import ALL, CAPTURES, missing, path
from zwire import capture
from zwire.spark.sources import _pcap

HERE = str(CAPTURES)

pytestmark = pytest.mark.smoke


def read(spark, **options):
    return spark.read.format("zwire.pcap").options(**options)


@pytest.fixture(scope="module")
def secrets(tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text("\n".join(key for name in ALL for key in truth.keys(name)))
    return f"file:{file}"


def test_every_capture_says_what_its_applications_said(spark, secrets):
    names = [name for name in ALL if name != "zenoh-bulk"]
    assert len(names) > 19
    columns = "message,protocol,kind,key,payload,encoding,attachment,priority,peer,group,content,file"
    frame = read(spark, keys=secrets, columns=columns, minPartitions=2).load([path(name) for name in names])
    by_file = {}
    table = frame.toArrow()
    make = namedtuple("Row", table.column_names)  # noqa: PYI024 - the columns are those of the table
    for row in map(make, *table.to_pydict().values()):
        by_file.setdefault(row.file, []).append(row)
    assert set(by_file) == {path(name) for name in names}
    for name in names:
        assert missing(name, by_file[path(name)]) == Counter(), name


def test_a_hundred_thousand_messages_are_those_that_were_sent(spark):
    frame = read(spark, columns="key,payload", messages="push", keyexpr="bulk/**").load(path("bulk"))
    found = frame.selectExpr("key", "length(payload) as size", "crc32(payload) as crc").toArrow().to_pydict()
    sent = [fact for fact in truth.told("bulk") if fact["op"] == "put"]
    assert len(sent) == 100_000
    # One publisher and one connection: they are in the order in which they were sent.
    assert found["key"] == [fact["key"] for fact in sent]
    assert found["size"] == [fact["payload_len"] for fact in sent]
    assert found["crc"] == [fact["payload_crc32"] for fact in sent]


def test_all_columns_are_those_of_the_decoder(spark):
    names = ["query", "router", "zre-v2-chat", "zmtp-null"]
    frame = read(spark).load([path(name) for name in names])
    assert frame.schema == zs.schema.DECODE.spark()
    found = {}
    for row in frame.toArrow().to_pylist():
        found.setdefault(row.pop("file"), []).append(row)
    for name in names:
        batches = [pa.record_batch(batch) for batch in capture.decode(path(name))]
        assert found[path(name)] == pa.Table.from_batches(batches).to_pylist(), name


def test_options_filter(spark):
    rows = read(spark).load(path("query")).cache()
    middle = rows.agg(f.percentile_approx("ts", 0.5)).first()[0]
    key = rows.where("message = 'response' and kind = 'put'").first().key
    stamp = middle.astimezone(UTC).isoformat()
    for options, where in (
        ({"keyexpr": f"{key}, no/such", "message": "response"}, f"key = '{key}' and message = 'response'"),
        ({"keyexprs": f"{key.partition('/')[0]}/**"}, f"key like '{key.partition('/')[0]}/%'"),
        ({"messages": "push,response", "kinds": "put"}, "message in ('push', 'response') and kind = 'put'"),
        ({"startingTimestamp": stamp, "message": "request"}, f"ts >= '{middle}' and message = 'request'"),
        ({"endingTimestamp": stamp}, f"ts < '{middle}'"),
        ({"endingTimestamp": "1000"}, "false"),
    ):
        assert read(spark, **options).load(path("query")).collect() == rows.where(where).collect(), options
    assert 0 < rows.where(f"ts < '{middle}'").count() < 181
    rows.unpersist()


def test_options_never_hide_what_could_not_be_decoded(spark, tmp_path):
    (tmp_path / "bad.pcap").write_bytes(b"no capture at all")
    frame = read(spark, keyexpr="a/*", messages="push", startingTimestamp="2026-01-01T00:00:00Z").load(
        str(tmp_path)
    )
    assert frame.first().message == "error"


def test_no_bad_file_ends_a_job(spark, tmp_path):
    shutil.copy(path("query"), tmp_path / "a.pcap.gz")
    (tmp_path / "bad.pcap").write_bytes(b"no capture at all")
    (tmp_path / "_hidden").write_bytes(b"no capture at all")
    (tmp_path / "empty").mkdir()
    paths = [str(tmp_path), str(tmp_path / "empty"), f"file:{tmp_path}/a.pcap.gz"]
    rows = read(spark).load(paths).collect()
    assert len(rows) == 182
    (bad,) = [row for row in rows if row.message == "error"]
    assert bad.error == f"{tmp_path}/bad.pcap: capture file magic: illegal value 1852776547 at offset 0"
    assert read(spark).load(str(tmp_path / "empty")).count() == 0


def test_files_are_found_and_packed(tmp_path):
    for name, size in (("a.pcap", 10), ("b.pcapng", 20), ("c.txt", 30), (".d.pcap", 40)):
        (tmp_path / name).write_bytes(bytes(size))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "e.pcap").write_bytes(bytes(50))

    def found(**options):
        given = {"path": str(tmp_path), **options}
        return [
            (os.path.relpath(file.path, tmp_path), file.size)
            for file in _pcap.listed(_pcap.Options("test", given, _pcap.KNOWN))
        ]

    assert found() == [("a.pcap", 10), ("b.pcapng", 20), ("c.txt", 30)]
    assert found(pathGlobFilter="*.pcap*") == [("a.pcap", 10), ("b.pcapng", 20)]
    assert found(recursiveFileLookup="true", pathGlobFilter="*.pcap") == [("a.pcap", 10), ("deep/e.pcap", 50)]
    assert found(path=f"{tmp_path}/**/*.pcap") == [("a.pcap", 10), ("deep/e.pcap", 50)]
    assert found(path=f"{tmp_path}/a*", paths=f'["{tmp_path}/b.pcapng"]') == [
        ("a.pcap", 10),
        ("b.pcapng", 20),
    ]

    def packed(sizes, **options):
        files = [_pcap.File(str(number), size) for number, size in enumerate(sizes)]
        return _pcap.packed(files, _pcap.Options("test", options, _pcap.KNOWN))

    mib = 1 << 20
    assert [len(part) for part in packed([mib] * 100, minPartitions="1")] == [25, 25, 25, 25]
    assert len(packed([mib] * 100, minPartitions="10")) == 10
    assert len(packed([mib] * 3, minPartitions="10")) == 3
    assert packed([1, 4096 * mib, 2], minPartitions="1") == [["1"], ["2", "0"]]
    assert packed([]) == []
    assert len(packed([64 * mib] * 4, minPartitions="1", maxPartitionBytes="64m")) == 4


@pytest.mark.parametrize(
    ("given", "options", "problem"),
    [
        (None, {}, "'path' is missing"),
        ("/no/such/file", {}, "no such file or folder"),
        ("s3://bucket/x.pcap", {}, "local paths"),
        (HERE, {"port": "7447"}, "did you mean 'ports'"),
        (HERE, {"keyexpr": "a//b"}, "'a//b': a key expression has no empty chunk"),
        (HERE, {"startingTimestamp": "now"}, "milliseconds since 1970 or a time such as"),
        (HERE, {"ports": "70000"}, "numbers of 1 to 65535"),
        (HERE, {"keys": "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"}, "env:NAME"),
        (HERE, {"columns": "colour"}, "column 'colour' is not one of"),
        (HERE, {"endpoints": "tcp/x:1"}, "unknown option 'endpoints'"),
    ],
)
def test_wrong_options_are_said_when_loading(spark, given, options, problem):
    source = _pcap.PcapDataSource({**options, **({} if given is None else {"path": given})})
    with pytest.raises(ValueError, match=problem):
        source.schema()
    if given == "/no/such/file":
        with pytest.raises(AnalysisException, match=problem):
            read(spark, **options).load(given)


@pytest.mark.long
def test_a_large_capture_needs_no_more_memory_than_a_small_one(tmp_path):
    large = tmp_path / "large.pcap"
    truth.multiply("bulk", 8, large)
    assert large.stat().st_size > 80 << 20
    script = """
import resource, sys
from zwire.spark import schema
from zwire.spark.sources import _pcap
def rows(path):
    reader = _pcap.PcapDataSource({"path": path}).reader(schema.DECODE.spark())
    return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
rows(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(rows(sys.argv[2]), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    command = [sys.executable, "-c", script, path("query"), str(large)]
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    rows, grown = map(int, out.split())
    assert rows == 8 * 100_011
    assert grown < 40 << 10, f"the reader has grown by {grown} KiB"
