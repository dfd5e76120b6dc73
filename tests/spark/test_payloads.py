"""Payloads become columns, by their encoding; what does not fit says why, and its row loses nothing."""

import json
import math
import struct
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal

import cbor2
import msgpack
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from pyspark.errors import PythonException
from pyspark.sql import types as t

import zwire.spark as zs
from zwire.errors import PayloadError
from zwire.spark import _types
from zwire.spark._payloads import _apply, _msg, _protobuf, _trees
from zwire.typed._tree import Misfit

# ---- CDR, as rosbags 0.11.9 writes it ---------------------------------------------------------------

ALL = """
# a comment
int8 K=5
string<=20 NAME="x=1 # no comment"
bool b
byte o
char c
int8 i8 -3   # a default
uint8 u8
int16 i16
uint16 u16
float32 f32
uint64 u64
uint32 u32
int64 i64
string<=10 s
uint8[] blob
uint8[4] four
float64[] empty
int32 after
string[2] two
int16[<=3] few
uint64[] big
Point[] points
test/Nothing nothing
===
MSG: test/msg/Point
float32 x
string label
================================================================================
MSG: test/Nothing
"""
ALL_LITTLE = (
    "00010000016441fdfa00d08a60ea00000000c03fffffffffffffffffffffffff000000000000000000000080070000006772c3bcc3"
    "9f0000030000000102030908070600000000004d0000000200000078000000010000000000000002000000ffff0200020000000000"
    "000000000000000000800100000000000000020000000000003f02000000700000000000c03f010000000000"
)
ALL_BIG = (
    "00000000016441fdfa008ad0ea6000003fc00000ffffffffffffffffffffffff000000008000000000000000000000076772c3bcc3"
    "9f0000000000030102030908070600000000000000004d0000000278000000000000010000000000000002ffff0002000000020000"
    "000080000000000000000000000000000001000000023f00000000000002700000003fc00000000000010000"
)
ALL_VALUES = {
    "b": True,
    "o": 100,
    "c": 65,
    "i8": -3,
    "u8": 250,
    "i16": -30000,
    "u16": 60000,
    "f32": 1.5,
    "u64": -1,
    "u32": 2**32 - 1,
    "i64": -(2**63),
    "s": "grüß",
    "blob": b"\1\2\3",
    "four": b"\11\10\7\6",
    "empty": [],
    "after": 77,
    "two": ["x", ""],
    "few": [-1, 2],
    "big": [-(2**63), 1],
    "points": [{"x": 0.5, "label": "p"}, {"x": 1.5, "label": ""}],
    "nothing": {"structure_needs_at_least_one_member": 0},
}
JOINTS = "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort\n"
JOINTS_LITTLE = bytes.fromhex(
    "0001000000f1536515cd5b0705000000626173650000000003000000020000006100000006000000656c626f7700000001000000"
    "0000000002000000000000000000f83f00000000000004400000000001000000000000000000f0bf"
)
JOINTS_VALUES = [
    {"stamp": {"sec": 1_700_000_000, "nanosec": 123_456_789}, "frame_id": "base"},
    ["a", "elbow", ""],
    [1.5, 2.5],
    [],
    [-1.0],
]


def cdr_reader(record, names):
    """Return a function that reads one payload as the values of its columns."""
    columns = _apply.Columns(record, names)

    def read(payload):
        arrays, errors = columns.read(pa.array([payload], pa.binary()))
        if errors[0].is_valid:
            assert not any(array[0].is_valid for array in arrays)
            raise Misfit(errors[0].as_py())
        return [array[0].as_py() for array in arrays]

    return read


@pytest.mark.parametrize("payload", [ALL_LITTLE, ALL_BIG])
def test_cdr_of_every_type(payload):
    record = _msg.parse(ALL, "test/msg/All")
    names = [name for name, _ in record.fields]
    assert names == list(ALL_VALUES)
    payload = bytes.fromhex(payload)
    assert cdr_reader(record, names)(payload) == list(ALL_VALUES.values())
    assert cdr_reader(record, ["big", "b"])(payload) == [ALL_VALUES["big"], True]
    schema = _msg.schema_of(record)
    for field in schema:
        made, _ = _apply.Columns(record, [field.name]).read(pa.array([payload], pa.binary()))
        assert made[0].type == _types.arrow_type(field.dataType)
    kinds = {field.name: field.dataType.simpleString() for field in schema}
    assert (kinds["u8"], kinds["u16"], kinds["u32"], kinds["u64"]) == ("smallint", "int", "bigint", "bigint")
    assert (kinds["blob"], kinds["points"]) == ("binary", "array<struct<x:float,label:string>>")


def test_every_cut_and_flip_of_cdr_is_an_error_or_values():
    read = cdr_reader(_msg.parse(JOINTS), ["header", "name", "position", "velocity", "effort"])
    assert read(JOINTS_LITTLE) == JOINTS_VALUES
    for end in range(len(JOINTS_LITTLE)):
        with pytest.raises(Misfit):
            read(JOINTS_LITTLE[:end])
    for at in range(len(JOINTS_LITTLE)):
        for flip in (0x01, 0x80, 0xFF):
            payload = bytearray(JOINTS_LITTLE)
            payload[at] ^= flip
            with suppress(Misfit):
                assert len(read(bytes(payload))) == 5
    assert read(JOINTS_LITTLE + b"\0\0\0") == JOINTS_VALUES
    for payload, problem in (
        (b"\0\7\0\0" + JOINTS_LITTLE[4:], "0007 is no header of plain CDR"),
        (JOINTS_LITTLE + b"\0\0\0\0", "4 octets after the end: is it of another type?"),
        (b"\0\1\0\0" + bytes(8) + b"\xff\xff\xff\xff", "4294967295 items or octets are announced, 0 left"),
        (b"\0\1\0\0" + bytes(8) + struct.pack("<I2s", 2, b"\xff\0"), "no UTF-8"),
    ):
        with pytest.raises(Misfit, match=problem.replace("?", r"\?")):
            read(payload)


@pytest.mark.parametrize(
    ("definition", "problem"),
    [
        ("float64", "'float64' is no field"),
        ("Colour c", "there is no definition of Colour"),
        ("wstring w", "wstring has another form"),
        ("float64[99999999] x", "99999999 items is too long"),
        ("A a\n===\nMSG: x/A\nA again", "x/A contains itself"),
        ("int8 a\n===\nfloat64 x", "comes MSG: and a type"),
    ],
)
def test_definitions_that_are_none_are_refused(definition, problem):
    with pytest.raises(ValueError, match=problem):
        _msg.parse(definition)


# ---- Trees ------------------------------------------------------------------------------------------

SCHEMA = t.StructType(
    [
        t.StructField("n", t.IntegerType()),
        t.StructField("x", t.DoubleType()),
        t.StructField("s", t.StringType()),
        t.StructField("ok", t.BooleanType()),
        t.StructField("raw", t.BinaryType()),
        t.StructField("at", t.TimestampType()),
        t.StructField("day", t.DateType()),
        t.StructField("money", t.DecimalType(6, 2)),
        t.StructField(
            "p", t.StructType([t.StructField("x", t.DoubleType()), t.StructField("y", t.FloatType())])
        ),
        t.StructField("tags", t.ArrayType(t.StringType())),
        t.StructField("m", t.MapType(t.StringType(), t.LongType())),
    ]
)
TREE = {
    "n": 7,
    "x": 2,
    "s": "ü",
    "ok": True,
    "at": "2026-01-31T12:00:00.5+01:00",
    "day": "2026-01-31",
    "money": 12.5,
    "p": {"x": 1.5, "unknown": [1]},
    "tags": ["a", None],
    "m": {"a": 1, "b": None},
    "also": {"deep": [1, 2]},
}
VALUES = [
    7,
    2.0,
    "ü",
    True,
    b"\0\1",
    datetime(2026, 1, 31, 11, 0, 0, 500_000, UTC),
    date(2026, 1, 31),
    Decimal("12.50"),
    {"x": 1.5, "y": None},
    ["a", None],
    [("a", 1), ("b", None)],
]


def test_trees_of_three_formats_say_the_same():
    at = datetime.fromisoformat(TREE["at"])
    for name, payload in (
        ("json", json.dumps({**TREE, "raw": "AAE="}).encode()),
        ("cbor", cbor2.dumps({**TREE, "raw": b"\0\1", "at": at, "money": Decimal("12.5")})),
        ("msgpack", msgpack.packb({**TREE, "raw": b"\0\1", "at": at}, datetime=True)),
    ):
        assert _trees.tree_reader(name, SCHEMA)(payload) == VALUES, name
    assert _trees.tree_reader("json", SCHEMA)(b"{}") == [None] * 11
    # RFC 8949, appendix A: {1: 2, 3: 4}
    keys = t.StructType([t.StructField("a", t.MapType(t.LongType(), t.LongType()))])
    assert _trees.tree_reader("cbor", keys)(b"\xa1\x61a\xa2\x01\x02\x03\x04") == [[(1, 2), (3, 4)]]
    assert _trees.tree_reader("json", keys)(b'{"a": {"1": 2, "-3": 4}}') == [[(1, 2), (-3, 4)]]


@pytest.mark.parametrize(
    ("payload", "problem", "path"),
    [
        (b"[1]", "map expected, not list", None),
        (b"null", "map expected, not null", None),
        (b'{"n": 1.5}', "int expected, not float", "n"),
        (b'{"n": true}', "int expected, not bool", "n"),
        (b'{"n": 2147483648}', "2147483648 is beyond int", "n"),
        (b'{"x": "2"}', "not text", "x"),
        (b'{"s": 2}', "text expected, not int", "s"),
        (b'{"raw": "!"}', "no base64", "raw"),
        (b'{"at": "soon"}', "'soon' is no datetime", "at"),
        (b'{"money": 12345.678}', "is beyond decimal", "money"),
        (b'{"p": 1}', "map expected, not int", "p"),
        (b'{"p": {"x": []}}', "not list", "p.x"),
        (b'{"tags": ["a", 2]}', "text expected", "tags[1]"),
        (b'{"m": {"k": "v"}}', "int expected", "m.k"),
        (b'{"x": NaN}', "NaN is no JSON", None),
        (b'{"s": "\\ud800"}', "", None),
        (b"{", "no JSON", None),
    ],
)
def test_what_does_not_fit_says_where(payload, problem, path):
    with pytest.raises((Misfit, UnicodeError)) as caught:
        _trees.tree_reader("json", SCHEMA)(payload)
    assert problem in str(caught.value)
    assert getattr(caught.value, "path", None) == path


# ---- Protobuf ---------------------------------------------------------------------------------------


def described():
    """Descriptors as protoc gives them, and a message that its own library writes."""
    file = descriptor_pb2.FileDescriptorProto(name="fleet.proto", package="fleet", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    mode = file.enum_type.add(name="Mode")
    for number, name in enumerate(("IDLE", "DRIVE")):
        mode.value.add(name=name, number=number)
    node = file.message_type.add(name="Node")
    node.field.add(name="name", number=1, type=9, label=1)
    node.field.add(name="next", number=2, type=11, type_name=".fleet.Node", label=1)
    state = file.message_type.add(name="State")
    entry = state.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=13, label=1)
    state.oneof_decl.add(name="_speed")
    for number, (name, kind, extra) in enumerate(
        (
            ("id", 4, {}),
            ("x", 1, {}),
            ("speed", 2, {"proto3_optional": True, "oneof_index": 0}),
            ("mode", 14, {"type_name": ".fleet.Mode"}),
            ("at", 11, {"type_name": ".google.protobuf.Timestamp"}),
            ("raw", 12, {}),
            ("tags", 9, {"label": 3}),
            ("nodes", 11, {"type_name": ".fleet.Node", "label": 3}),
            ("counts", 11, {"type_name": ".fleet.State.CountsEntry", "label": 3}),
        ),
        1,
    ):
        state.field.add(name=name, number=number, type=kind, **{"label": 1, **extra})
    stamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(stamp)
    return descriptor_pb2.FileDescriptorSet(file=[stamp, file]).SerializeToString()


def test_messages_of_protobuf_by_their_descriptor(tmp_path):
    described_by = described()
    (tmp_path / "fleet.desc").write_bytes(described_by)
    assert _protobuf.descriptors(tmp_path / "fleet.desc") == described_by
    state = _protobuf.message_class("fleet.State", described_by)
    schema = _protobuf.schema_of(state)
    assert schema.simpleString() == (
        "struct<id:bigint,x:double,speed:float,mode:string,at:timestamp,raw:binary,tags:array<string>,"
        "nodes:array<struct<name:string,next:binary>>,counts:map<string,bigint>>"
    )
    message = state(id=2**64 - 1, x=1.5, mode=1, raw=b"\0", tags=["a"], counts={"k": 2**32 - 1})
    message.at.FromMicroseconds(1_500_000)
    message.nodes.add(name="n").next.name = "inner"
    read = _protobuf.message_reader(state, schema.fieldNames())
    inner = message.nodes[0].next.SerializeToString()
    assert read(message.SerializeToString()) == [
        -1,
        1.5,
        None,
        "DRIVE",
        1_500_000,
        b"\0",
        ["a"],
        [{"name": "n", "next": inner}],
        [("k", 2**32 - 1)],
    ]
    assert read(state(mode=9, speed=0.0).SerializeToString())[2:5] == [0.0, "9", None]
    with pytest.raises(Misfit, match=r"no fleet\.State"):
        read(b"\xff\xff")
    for name, given, problem in (
        ("fleet.Colour", described_by, r"'fleet\.Colour'.*fleet\.Node, fleet\.State"),
        ("fleet.State", b"\xff", "no set of descriptors"),
    ):
        with pytest.raises(ValueError, match=problem):
            _protobuf.message_class(name, given)


# ---- In Spark ---------------------------------------------------------------------------------------


def table(*rows):
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pylist(
        list(rows), schema=pa.schema([("x", pa.float32()), ("n", pa.uint16())])
    )
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write(batch)
    return sink.getvalue().to_pybytes()


def test_each_row_goes_by_its_encoding(spark):
    cdr = struct.pack("<4sd", b"\0\1\0\0", 4.5) + struct.pack("<i", 4)
    rows = [
        ("a", b'{"x": 1.5, "n": 1}', "application/json;fleet.Position"),
        ("b", cbor2.dumps({"x": 2.5, "n": 2}), "application/cbor"),
        ("c", msgpack.packb({"x": 3.5, "n": 3}), "application/msgpack"),
        ("d", cdr, "application/cdr"),
        ("e", table({"x": 5.5, "n": 5}, {"x": 6.5, "n": 6}), "application/vnd.apache.arrow.stream"),
        ("f", table(), "application/vnd.apache.arrow.stream"),
        ("g", None, None),
        ("h", b'{"x": "far"}', "application/json"),
        ("i", b"12", "text/plain"),
        ("j", b"12", None),
        ("k", b'{"x": 7.5}', "text/json"),
        ("l", b"\0", "application/protobuf"),
    ]
    frame = spark.createDataFrame(rows, "key string, payload binary, encoding string").coalesce(1)
    decoded = zs.decode_payload(frame, "x double, n int")
    assert decoded.columns == ["key", "payload", "encoding", "x", "n", "error"]
    found = decoded.collect()
    assert [(row.key, row.x, row.n) for row in found if row.error is None] == [
        ("a", 1.5, 1),
        ("b", 2.5, 2),
        ("c", 3.5, 3),
        ("d", 4.5, 4),
        ("e", 5.5, 5),
        ("e", 6.5, 6),
        ("f", None, None),
        ("g", None, None),
        ("k", 7.5, None),
    ]
    problems = {row.key: row.error for row in found if row.error is not None}
    assert problems == {
        "h": "application/json: float expected, not text at x",
        "i": "text/plain: nothing reads this as columns; say what it is with format",
        "j": "zenoh/bytes: nothing reads this as columns; say what it is with format",
        "l": "application/protobuf: nothing reads this as columns; say what it is with format",
    }
    given = {row[0]: row for row in rows}
    assert [row.payload for row in found if row.key == "e"] == [given["e"][1], None]
    assert all((row.key, row.payload, row.encoding) == given[row.key] for row in found if row.n != 6)
    with pytest.raises(PythonException, match="float expected, not text at x"):
        zs.decode_payload(frame, "x double, n int", errors="raise").collect()


def test_formats_with_types_of_their_own_in_spark(spark):
    state = _protobuf.message_class("fleet.State", described())
    rows = [(state(x=1.5, counts={"a": 2}).SerializeToString(), JOINTS_LITTLE, "mine")]
    frame = spark.createDataFrame(rows, "proto binary, joints binary, error string")
    one = zs.decode_payload(
        frame, format="protobuf", message="fleet.State", descriptors=described(), payload="proto", prefix="p_"
    )
    both = zs.decode_payload(
        one, format="cdr", definition=JOINTS, payload="joints", columns=["name", "header"], prefix="j_"
    )
    row = both.first()
    assert (row.p_x, row.p_counts, row.p_error, row.error) == (1.5, {"a": 2}, None, "mine")
    assert (row.j_name, row.j_header.stamp.sec, row.j_error) == (["a", "elbow", ""], 1_700_000_000, None)
    assert set(both.columns) - set(one.columns) == {"j_name", "j_header", "j_error"}


def run(spec, payloads):
    """The decoded table of some payloads, without Spark."""
    batch = pa.RecordBatch.from_pydict({"payload": pa.array(payloads, pa.binary())})
    return pa.Table.from_batches(list(_apply.Unpack(spec)(iter([batch]))))


def spec(schema, format, **given):
    return _apply.Spec(schema, format, "payload", None, "", given.pop("errors", "rows"), **given)


def test_values_that_arrow_does_not_take_cost_their_row_alone():
    schema = t.StructType([t.StructField("n", t.LongType()), t.StructField("at", t.TimestampType())])
    good = b'{"n": 1, "at": "2026-01-01T00:00:00Z"}'
    out = run(spec(schema, "json"), [good, b'{"n": 9223372036854775808}', good, None, b"\xff" * 400])
    assert out["n"].to_pylist() == [1, None, 1, None, None]
    assert [error and error[:30] for error in out["error"].to_pylist()] == [
        None,
        "json: 9223372036854775808 is b",
        None,
        None,
        "json: no UTF-8: invalid start ",
    ]


def test_what_comes_out_is_bounded():
    schema = t.StructType([t.StructField("x", t.DoubleType())])
    big = pa.RecordBatch.from_pydict({"x": pa.array([float(n) for n in range(100_000)])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, big.schema) as stream:
        stream.write(big)
    batch = pa.RecordBatch.from_pydict({"payload": [sink.getvalue().to_pybytes(), b"x"]})
    out = list(_apply.Unpack(spec(schema, "arrow"))(iter([batch])))
    assert [piece.num_rows for piece in out] == [32_768, 32_768, 32_768, 1_696, 1]
    assert [len(piece) - piece["payload"].null_count for piece in out] == [1, 0, 0, 0, 1]
    assert out[-1]["error"].to_pylist()[0].startswith("arrow: no Arrow IPC")
    text = json.dumps({"x": 1, "pad": "x" * (1 << 20)}).encode()
    batch = pa.RecordBatch.from_pydict({"payload": [text] * 20})
    out = list(_apply.Unpack(spec(schema, "json"))(iter([batch])))
    assert [piece.num_rows for piece in out] == [8, 8, 4]


def test_a_schema_is_derived_from_payloads():
    some = [b'{"x": 1, "s": "a"}', b"{", None, b'{"x": 1.5, "p": {"y": [1]}, "z": null}', b"[]"]
    found = zs.payload_schema(some)
    assert found.simpleString() == "struct<x:double,s:string,p:struct<y:array<bigint>>,z:string>"
    assert run(spec(found, "json"), some[:1])["x"].to_pylist() == [1.0]
    assert zs.payload_schema([table({"x": 1, "n": 1})], "arrow").simpleString() == "struct<x:float,n:int>"
    stamped = cbor2.dumps({"at": datetime.now(UTC), "raw": b"", "d": Decimal("1.25")})
    assert (
        zs.payload_schema([stamped], "cbor").simpleString()
        == "struct<at:timestamp,raw:binary,d:decimal(3,2)>"
    )
    for payloads, problem in (([b"{"], "none of the payloads"), ([b'{"x": 1}', b'{"x": "a"}'], "contradict")):
        with pytest.raises(ValueError, match=problem):
            zs.payload_schema(payloads)


def test_what_is_wrong_is_said_before_the_job(spark):
    frame = spark.createDataFrame([(b"", "x", 1)], "payload binary, encoding string, error int")
    for options, problem in (
        ({}, "needs a schema"),
        ({"schema": "x double", "format": "xml"}, "format must be one of auto, json"),
        ({"schema": "x double", "errors": "skip"}, "errors must be one of rows, raise"),
        ({"schema": "x double", "payload": "content"}, "no column 'content'"),
        ({"schema": "x double", "payload": "encoding"}, "'encoding' must be binary, not string"),
        ({"schema": "x double", "encoding": "kind"}, "no column 'kind'; give format"),
        ({"schema": "x double"}, "a column 'error' already: give a prefix"),
        ({"schema": "x interval day to second"}, "no columns of type interval"),
        ({"schema": "m map<string,int>", "format": "cdr"}, "CDR has no type for map"),
        ({"format": "cdr"}, "cdr needs definition or schema"),
        ({"format": "protobuf", "schema": "x double"}, "needs the name of the message and descriptors"),
        ({"descriptors": described()}, "give the name of one"),
        ({"definition": "float64 x", "schema": "y double"}, "the schema is not that of the definition"),
        ({"definition": "float64 x", "columns": ["y"]}, "column 'y' is not one of x"),
    ):
        with pytest.raises(ValueError, match=problem):
            zs.decode_payload(frame, **options)


# ---- ROS 2 ------------------------------------------------------------------------------------------


def test_keys_and_attachments_of_ros_2(spark):
    """Attachments as the serializer of eclipse-zenoh 1.10.2 makes them, of the fields rmw_zenoh gives it."""
    gid = bytes(range(16))
    plain = struct.pack("<qq", 41, 1_700_000_000_123_456_789)
    named = (
        b"\x0fsequence_number" + plain[:8] + b"\x10source_timestamp" + plain[8:] + b"\x0asource_gid\x10" + gid
    )
    hashed = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"
    key = f"3/robot/1/chatter/std_msgs::msg::dds_::String_/{hashed}"
    rows = [
        (key, plain + b"\x10" + gid),
        (key.replace("String_", "Int8_"), plain + gid),
        ("0/add/example_interfaces::srv::dds_::AddTwoInts_/TypeHashNotSupported", named),
        ("0/chatter/std_msgs::msg::dds_::String_", plain),
        ("no/key/of/ros", struct.pack("<qq", -1, -1) + b"\x10" + gid),
        (None, None),
    ]
    frame = spark.createDataFrame(rows, "key string, attachment binary").coalesce(1)
    found = zs.ros2(frame).collect()
    assert found[0].asDict() == {
        "key": key,
        "attachment": rows[0][1],
        "ros_domain": 3,
        "ros_topic": "/robot/1/chatter",
        "ros_type": "std_msgs/msg/String",
        "ros_hash": hashed,
        "ros_seq": 41,
        "ros_source_ts": found[0].ros_source_ts,
        "ros_gid": gid,
    }
    assert math.isclose(found[0].ros_source_ts.timestamp(), 1_700_000_000.123456, abs_tol=1e-7)
    assert (found[1].ros_type, found[1].ros_seq, found[1].ros_gid) == ("std_msgs/msg/Int8", 41, gid)
    assert (found[2].ros_topic, found[2].ros_type) == ("/add", "example_interfaces/srv/AddTwoInts")
    assert (found[2].ros_seq, found[2].ros_source_ts, found[2].ros_gid) == (41, found[0].ros_source_ts, gid)
    assert [row.ros_topic for row in found[3:]] == [None, None, None]
    assert [row.ros_seq for row in found[3:]] == [None, -1, None]
    assert zs.ros2(frame.select("key")).columns == ["key", "ros_domain", "ros_topic", "ros_type", "ros_hash"]
    for given, problem in (
        (frame.select("attachment"), "no column 'key'"),
        (zs.ros2(frame), "'ros_domain' already"),
    ):
        with pytest.raises(ValueError, match=problem):
            zs.ros2(given)


def test_errors_of_payloads_are_ours():
    schema = t.StructType([t.StructField("n", t.LongType())])
    with pytest.raises(PayloadError, match="json: int expected, not text at n"):
        run(spec(schema, "json", errors="raise"), [b'{"n": "1"}'])
