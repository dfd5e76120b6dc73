"""Table of columns: Rust, Python and Spark share it, and all sources of rows produce its columns."""

import subprocess
import sys
import uuid
import warnings

import pyarrow as pa
import pytest

import nodes
import truth
from zwire import _zwire, capture, columns, errors, spool, zmtp, zre
from zwire.recording import _rows
from zwire.spark import schema

PATIENCE = 10
QUIET = {"beacons": False, "bind": "127.0.0.1", "mailbox": 0}
TABLES = {name: getattr(columns, name) for name in columns.__all__ if name.isupper()}


def same(batch, table):
    """Assert that a batch has exactly the columns of a table, with their types, all nullable."""
    found = batch.schema if isinstance(batch, pa.RecordBatch) else pa.schema(batch)
    assert found.equals(table.arrow(), check_metadata=False), found
    assert all(field.nullable for field in found)


def test_python_has_the_tables_of_rust():
    described = _zwire.column_tables()
    assert {name.lower() for name in TABLES} == set(described)
    for name, table in TABLES.items():
        rows, former = described[name.lower()]
        assert [(column, kind, table.meanings[column]) for column, kind in table.columns] == rows
        assert table.renamed == former
        assert all(meaning for _, _, meaning in rows)
        assert set(former.values()) <= set(table.names)


def test_spark_has_the_tables_of_python():
    for name in ("GAP", "PUT", "REPLY", "SAMPLE", "ZRE", "ZRE_LOG", "RowSchema"):
        assert getattr(schema, name) is getattr(columns, name)
    assert schema.SELECTED.columns == (*columns.REPLY.columns, ("selector", "string"))
    assert schema.DECODE.columns == (*columns.RECORD.columns, ("file", "string"))
    assert columns.SAMPLE.names == _rows.COLUMNS


def test_a_name_has_one_type():
    kinds = {}
    for table in TABLES.values():
        for name, kind in table.columns:
            assert kinds.setdefault(name, kind) == kind, name
    assert len(kinds) > 40


def test_rows_that_are_read_can_be_put():
    assert set(columns.RECEIVED.names) <= set(columns.PUT.names) <= set(columns.SAMPLE.names)


def test_samples_have_the_columns_of_the_table(tmp_path):
    with (
        nodes.opened("peer") as session,
        session.declare_subscriber("a/**") as subscriber,
        spool.Spooler(tmp_path, "a/**", session=session, linger=0) as spooler,
    ):
        same(pa.record_batch(subscriber.recv_batch(timeout=0)), columns.RECEIVED)
        session.put("a/b", "x")
        session.delete("a/b")
        same(pa.record_batch(subscriber.recv_batch(timeout=PATIENCE)), columns.RECEIVED)
        assert spooler.flush(PATIENCE)
        view = spool.open(tmp_path)
        assert view.columns == list(columns.SAMPLE.names)
        rows = view.read(0, 0, 2)
        same(rows, columns.SAMPLE)
        (batch,) = map(pa.record_batch, rows)
        same(batch, columns.SAMPLE)
        assert batch.column("kind").to_pylist() == ["put", "del"]
        assert batch.column("congestion").to_pylist() == ["drop", "drop"]
        same(view.gaps(), columns.GAP)
        # Rows of a spool can be published without a conversion.
        assert session.put_batch(batch.select(columns.PUT.names)).rows == 2


def test_zre_has_the_columns_of_the_table(tmp_path):
    with (
        spool.ZreSpooler(tmp_path, "G", config=QUIET, linger=0) as spooler,
        zre.Node("one", {**QUIET, "peers": [spooler.node.endpoint]}) as one,
    ):
        one.wait_for_peers(1, PATIENCE)
        batch = pa.record_batch(one.recv_batch(timeout=PATIENCE))
        same(batch, columns.ZRE_RECEIVED)
        assert batch.column("type")[0].as_py() == "ENTER"
        assert uuid.UUID(batch.column("peer")[0].as_py()).hex.upper() == spooler.node.uuid
        spooler.flush(PATIENCE)
    rows = spool.open(tmp_path).read(0, 0, 1)
    (batch,) = map(pa.record_batch, rows)
    same(batch, columns.ZRE)
    assert batch.column("peer")[0].as_py() == one.uuid
    assert batch.column("name")[0].as_py() == "one"


def test_records_of_zre_log_have_the_columns_of_the_table(tmp_path):
    with spool.Appender(tmp_path, table="zre.log") as appender:
        appender.append(level=1, event=0, node_hash=7, data="x")
        appender.flush()
        (batch,) = map(pa.record_batch, spool.open(tmp_path).read(0, 0, 1))
    same(batch, columns.ZRE_LOG)


@pytest.mark.parametrize("router", [False, True])
def test_zmtp_has_the_columns_of_the_table(router):
    with zmtp.Router() if router else zmtp.Dealer() as receiver, zmtp.Dealer() as sender:
        sender.connect(receiver.bind("tcp://127.0.0.1:*"))
        sender.send([b"a", b"b"])
        batch = pa.record_batch(receiver.recv_batch(timeout=PATIENCE))
    same(batch, columns.ZMTP_ROUTER if router else columns.ZMTP)
    assert batch.column("frames").to_pylist() == [[b"a", b"b"]]


def test_records_have_the_columns_of_the_table():
    decoder = capture.decode(truth.path("pubsub-basic"))
    same(decoder, columns.RECORD)
    same(pa.record_batch(next(decoder)), columns.RECORD)


def test_replies_have_the_columns_of_the_table():
    from zwire.spark._ask import ReplyRow
    from zwire.spark._read import DecodedRow

    assert ReplyRow._fields == columns.REPLY.names
    assert DecodedRow._fields == schema.DECODE.names


def test_recordings_do_not_import_spark():
    probe = "import sys, zwire.recording; print([name for name in sys.modules if 'spark' in name])"
    found = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, timeout=20)
    assert found.stdout.strip() == b"[]"


@pytest.fixture
def warned():
    """Recorded warnings of former names; in other tests such warnings are errors."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def test_former_names_are_accepted_with_a_warning(tmp_path, warned):
    with spool.Appender(tmp_path, columns=["ts", "congestion_block"]) as appender:
        appender.append(key="a", payload=b"", kind=1, ts=7, congestion_block=True)
        appender.append(key="b", payload=b"", kind="put", timestamp=8, congestion="drop")
        old = {"key": ["c"], "kind": pa.array([1], pa.int8()), "congestion_block": [False]}
        appender.append_batch(pa.record_batch(old))
        appender.flush()
    assert {str(each.message).split('"')[1] for each in warned} == {
        "ts",
        "congestion_block",
        "kind",
        "congestion",
    }
    assert {each.category for each in warned} == {DeprecationWarning}
    warned.clear()
    rows = spool.open(tmp_path).read(0, 0, 3, columns=["key", "ts", "kind", "congestion"])
    assert ['"ts" is called "timestamp" now' in str(each.message) for each in warned] == [True]
    (batch,) = map(pa.record_batch, rows)
    assert batch.schema.names == ["key", "timestamp", "kind", "congestion"]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [7, 8, None]
    assert batch.column("kind").to_pylist() == ["del", "put", "del"]
    assert batch.column("congestion").to_pylist() == ["block", "drop", "drop"]


def test_former_names_of_zre_are_accepted_with_a_warning(tmp_path, warned):
    with spool.Appender(tmp_path, table="zre") as appender:
        appender.append(event="SHOUT", peer=b"p" * 16, peer_name="one", endpoint="tcp://127.0.0.1:1")
        assert len(warned) == 4
        appender.append(type="SHOUT", peer="70" * 16, name="one", address="tcp://127.0.0.1:1")
        assert len(warned) == 4
        appender.flush()
        (batch,) = map(pa.record_batch, spool.open(tmp_path).read(0, 0, 2))
    first, second = batch.select(["type", "peer", "name", "address"]).to_pylist()
    assert first == second
    assert first["peer"] == "70" * 16


def test_words_that_a_column_does_not_take_are_refused(tmp_path):
    with spool.Appender(tmp_path) as appender:
        for column, value in (("kind", "query"), ("congestion", "maybe")):
            with pytest.raises(ValueError, match=f'"{column}" must be .*, not "{value}"'):
                appender.append(key="a", **{column: value})
            with pytest.raises(TypeError, match=f'"{column}" must be'):
                appender.append_batch(pa.record_batch({"key": ["a"], column: [value]}))
        with pytest.raises(TypeError, match="is not one of key, payload, kind, encoding, timestamp"):
            appender.append(time=3)
    with pytest.raises(errors.ConfigError, match="not one of key, payload, kind, encoding, timestamp"):
        spool.Appender(tmp_path / "other", columns=["time"])
