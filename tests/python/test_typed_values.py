"""Values of models as payloads and back, and the bytes of them beside what the reference libraries write."""

import base64
import contextlib
import json
import pickle
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypedDict, TypeVar
from uuid import UUID

import cbor2
import msgpack
import msgspec
import numpy as np
import pyarrow as pa
import pydantic
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from zwire import errors, typed
from zwire.typed import _table
from zwire.zenoh import Encoding, ZBytes, ext

TREES = ["json", "cbor", "msgpack"]
ID = UUID("3db014d2-a569-439c-b71f-2dbe4accdd4e")
NOON = datetime(2026, 11, 22, 12, 0, 0, 250_000, tzinfo=UTC)


class Gear(Enum):
    DRIVE = "d"
    REVERSE = "r"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Pose(NamedTuple):
    x: float
    y: float


class Formless:
    """Nothing has a form for it. The same text in every process, so that workers name their tests alike."""

    def __repr__(self):
        return "formless"


FORMLESS = Formless()


class Extra(TypedDict):
    note: str
    weight: NotRequired[float]


Metres = NewType("Metres", float)


@dataclass
class Circle:
    shape: Literal["circle"]
    radius: float


@dataclass
class Group:
    shape: Literal["group"]
    parts: "list[Circle | Group]" = field(default_factory=list)


@dataclass
class Everything:
    flag: bool
    count: int
    ratio: float
    text: str
    raw: bytes
    at: datetime
    day: date
    hour: time
    lasted: timedelta
    price: Decimal
    id: UUID
    gear: Gear
    level: Level
    pose: Pose
    extra: Extra
    numbers: list[int]
    names: set[str]
    pair: tuple[int, str]
    many: tuple[float, ...]
    by_name: dict[str, Level]
    by_number: dict[int, list[str]]
    maybe: int | None
    either: int | str
    figure: Circle | Group
    distance: Metres
    noted: Annotated[int, "something"]
    anything: Any
    defaulted: float = 0.5


EVERYTHING = Everything(
    flag=True,
    count=-(2**63),
    ratio=0.1,
    text="aé\N{ROBOT FACE}\0",
    raw=bytes(range(256)),
    at=NOON,
    day=date(2026, 11, 22),
    hour=time(12, 30),
    lasted=timedelta(seconds=1.5),
    price=Decimal("10.50"),
    id=ID,
    gear=Gear.REVERSE,
    level=Level.HIGH,
    pose=Pose(1.0, 2.0),
    extra={"note": "n"},
    numbers=[1, 2],
    names={"a", "b"},
    pair=(1, "a"),
    many=(1.0, 2.0),
    by_name={"a": Level.LOW},
    by_number={7: ["x"], -1: []},
    maybe=None,
    either="e",
    figure=Group("group", [Circle("circle", 1.0), Group("group")]),
    distance=Metres(3.5),
    noted=4,
    anything={"k": [1, 2.5, None, "t", {"deep": True}]},
)


class Struct(msgspec.Struct):
    x: float
    at: datetime
    tags: list[str] = []


class Model(pydantic.BaseModel):
    x: float
    at: datetime
    gear: Gear = Gear.DRIVE


@dataclass
class Both:
    struct: Struct
    models: list[Model]


@dataclass
class Inner:
    label: str
    value: float


@dataclass
class Fields:
    number: int
    wide: ext.UInt64
    names: list[str]
    inner: Inner


def message_class():
    """A message of protobuf, from a descriptor that is made here."""
    file = descriptor_pb2.FileDescriptorProto(name="zwire_test.proto", package="fleet", syntax="proto3")
    message = file.message_type.add(name="Position")
    for number, (name, kind) in enumerate([("x", 1), ("name", 9), ("inner", 11)], 1):
        message.field.add(
            name=name, number=number, type=kind, label=1, type_name=".fleet.Position" if kind == 11 else None
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("fleet.Position"))


def there_and_back(value, model=None, **options):
    payload, encoding = typed.encode(value, model, **options)
    return typed.decode(payload, encoding, model or type(value))


@pytest.mark.parametrize("codec", TREES)
def test_every_type_survives(codec):
    assert there_and_back(EVERYTHING, codec=codec) == EVERYTHING


@pytest.mark.parametrize("codec", TREES)
def test_models_of_other_libraries_survive(codec):
    for value in (Struct(1.5, NOON, ["a"]), Model(x=1.5, at=NOON, gear=Gear.REVERSE)):
        assert there_and_back(value, codec=codec) == value

    both = Both(Struct(1.0, NOON), [Model(x=2.0, at=NOON)])
    assert there_and_back(both, codec=codec) == both


T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    content: T
    more: "list[Box[T]]" = field(default_factory=list)
    named: dict[str, T] | None = None


@dataclass
class Endless(Generic[T]):
    inner: "Endless[list[T]] | None" = None


@pytest.mark.parametrize("codec", TREES)
def test_generic_dataclasses_have_the_types_that_they_are_given(codec):
    value = Box(NOON, [Box(NOON)], {"a": NOON})
    assert there_and_back(value, Box[datetime], codec=codec) == value
    with pytest.raises(errors.PayloadError, match=r"int expected, not text at more\[0\]\.content"):
        typed.decode(b'{"content":1,"more":[{"content":"a"}]}', "application/json", Box[int])
    assert typed.decode(b'{"content":[1,"a"]}', "application/json", Box) == Box([1, "a"])
    with pytest.raises(TypeError, match="more and more"):
        typed.encode(Endless(), Endless[int], codec=codec)


def test_annotations_that_nobody_can_resolve():
    @dataclass
    class Local:
        other: "Nowhere"  # noqa: F821

    with pytest.raises(TypeError, match="name 'Nowhere' is not defined; its annotations must be visible"):
        typed.encode(Local(1))


@pytest.mark.parametrize("codec", TREES)
@pytest.mark.parametrize(
    ("model", "value"),
    [
        (dict, {"a": [1, None]}),
        (list, [1, "a", {"b": 2.5}]),
        (list[Pose], [Pose(1.0, 2.0)]),
        (dict[str, float], {"a": 1.0}),
        (Extra, {"note": "n", "weight": 1.0}),
        (Pose, Pose(1.0, 2.0)),
        (int, 3),
        (str, "text"),
        (type(None), None),
        (int | None, None),
        (float | int, 3),
        (Any, {"a": 1}),
        (frozenset[int], frozenset({1})),
        (dict[UUID, int], {ID: 1}),
        (dict[Level, int], {Level.LOW: 1}),
        (Circle | Group, Group("group", [])),
    ],
    ids=str,
)
def test_plain_types_survive(codec, model, value):
    again = there_and_back(value, model, codec=codec)
    assert again == value
    assert type(again) is type(value)


def test_the_bytes_of_json_are_those_of_the_text():
    payload, encoding = typed.encode(EVERYTHING)
    assert encoding == Encoding("application/json;Everything")
    tree = json.loads(bytes(payload))
    assert base64.b64decode(tree["raw"]) == bytes(range(256))
    assert tree["at"] == "2026-11-22T12:00:00.250000+00:00"
    assert (tree["day"], tree["hour"], tree["lasted"]) == ("2026-11-22", "12:30:00", 1.5)
    assert (tree["price"], tree["id"], tree["gear"], tree["level"]) == ("10.50", str(ID), "r", 2)
    assert tree["by_number"] == {"7": ["x"], "-1": []}
    assert (tree["pose"], tree["pair"]) == ([1.0, 2.0], [1, "a"])


def test_cbor_has_what_the_library_has():
    tree = cbor2.loads(bytes(typed.encode(EVERYTHING, codec="cbor")[0]))
    assert (tree["at"], tree["price"], tree["id"]) == (NOON, Decimal("10.50"), ID)
    assert tree["raw"] == bytes(range(256))
    assert tree["by_number"] == {7: ["x"], -1: []}
    foreign = cbor2.dumps({"x": 1, "at": NOON, "more": "is ignored"})
    assert typed.decode(foreign, "application/cbor", Struct) == Struct(1.0, NOON)
    assert typed.decode(foreign, "application/cbor", Model) == Model(x=1.0, at=NOON)


def test_messagepack_has_what_the_library_has():
    payload, encoding = typed.encode(EVERYTHING, codec="msgpack")
    assert str(encoding) == "application/msgpack;Everything"
    tree = msgpack.unpackb(bytes(payload), timestamp=3, strict_map_key=False)
    assert (tree["at"], tree["price"], tree["id"]) == (NOON, "10.50", str(ID))
    assert tree["by_number"] == {7: ["x"], -1: []}
    foreign = msgpack.packb({"x": 1.0, "at": NOON}, datetime=True)
    for model in (Struct, Model):
        for encoding in ("application/msgpack", "application/x-msgpack"):
            assert typed.decode(foreign, encoding, model) == model(x=1.0, at=NOON)


def test_messages_of_protobuf():
    position = message_class()
    value = position(x=1.5, name="a", inner=position(x=2.0))
    payload, encoding = typed.encode(value)
    assert str(encoding) == "application/protobuf;fleet.Position"
    assert bytes(payload) == value.SerializeToString()
    assert typed.decode(payload, encoding, position) == value
    text, encoding = typed.encode(value, codec="json")
    assert str(encoding) == "application/json;fleet.Position"
    assert json.loads(bytes(text)) == {"x": 1.5, "name": "a", "inner": {"x": 2.0}}
    assert typed.decode(text, encoding, position) == value
    with pytest.raises(errors.PayloadError, match="Error parsing message"):
        typed.decode(b"\xff\xff", "application/protobuf", position)


def test_tables_of_arrow_see_the_payload_itself():
    table = pa.table({"x": pa.array(range(1_000), pa.int64()), "name": ["a"] * 1_000})
    payload, encoding = typed.encode(table)
    assert str(encoding) == "application/vnd.apache.arrow.stream"
    again = typed.decode(payload, encoding, pa.Table)
    assert again == table
    inside = memoryview(payload)
    start = np.frombuffer(inside, np.uint8).ctypes.data
    assert start <= again["x"].chunk(0).buffers()[1].address < start + len(inside)
    (batch,) = table.to_batches()
    assert there_and_back(batch) == batch
    assert typed.decode(payload, encoding, pa.RecordBatch) == batch
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write(table)
    assert typed.decode(sink.getvalue(), "application/vnd.apache.arrow.file", pa.Table) == table
    assert there_and_back(table.slice(0, 0)).num_rows == 0


def test_the_format_of_zenoh():
    value = Fields(1, ext.UInt64(2), ["a"], Inner("c", 1.5))
    payload, encoding = typed.encode(value, codec="zenoh")
    assert str(encoding) == "zenoh/serialized;Fields"
    assert bytes(payload) == bytes(ext.z_serialize((1, ext.UInt64(2), ["a"], ("c", 1.5))))
    assert typed.decode(payload, encoding, Fields) == value
    with pytest.raises(errors.PayloadError, match="bytes wanted") as caught:
        typed.decode(payload[:7], encoding, Fields)
    assert caught.value.offset == 4
    assert there_and_back({"a": [1, 2]}, dict[str, list[int]], codec="zenoh") == {"a": [1, 2]}
    for value, model, problem in [
        ("text", int, "int expected"),
        (True, int, "int expected"),
        ([1, "a"], list[int], r"int expected, not text at \[1\]"),
        (2**40, int, "OverflowError"),
    ]:
        with pytest.raises(errors.PayloadError, match=problem):
            typed.encode(value, model, codec="zenoh")


def test_texts_and_bytes():
    payload, encoding = typed.encode("aé")
    assert (bytes(payload), str(encoding)) == ("aé".encode(), "zenoh/string")
    assert typed.decode(payload, "text/plain", str) == "aé"
    for model in (bytes, bytearray, memoryview, ZBytes):
        for encoding in ("zenoh/bytes", "application/json;Q", "image/png", "made/up"):
            value = typed.decode(payload, encoding, model)
            assert type(value) is model
            assert bytes(value) == bytes(payload)
    assert typed.decode(payload, "application/cdr;std_msgs::String", ZBytes) == payload
    cdr, encoding = typed.encode(b"\0\1\0\0", codec="cdr", schema="std_msgs::String")
    assert (bytes(cdr), str(encoding)) == (b"\0\1\0\0", "application/cdr;std_msgs::String")


def test_schemas_are_compared():
    payload, _ = typed.encode(Circle("circle", 1.0))
    read = typed.decode(payload, "application/json", Circle)
    assert typed.decode(payload, "application/json;Circle", Circle) == read
    with pytest.raises(errors.SchemaMismatch, match="schema 'Square' where 'Circle' is expected") as caught:
        typed.decode(payload, "application/json;Square", Circle)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.encoding, error.schema, error.expected) == ("application/json", "Square", "Circle")
    assert typed.decode(payload, "application/json;Square", Circle, schema="Square") == read
    assert typed.decode(payload, "application/json;Square", Circle, schema="*") == read
    assert typed.decode(payload, "application/json;", Circle) == read
    # A type without a name expects none.
    assert typed.decode(payload, "application/json;Square", dict)["radius"] == 1.0
    for schema, text in [("fleet.Circle", "application/json;fleet.Circle"), ("", "application/json")]:
        assert str(typed.encode(read, schema=schema)[1]) == text
    assert [typed.schema_name(model) for model in (Struct, Model, Extra, Pose, dict, list[int], str)] == [
        "Struct", "Model", "Extra", "Pose", None, None, None,
    ]  # fmt: skip


def test_models_may_grow():
    # More fields than the reader knows, and fewer, where there is a default.
    assert typed.decode(b'{"shape":"group","new":1}', "application/json", Group) == Group("group")


@pytest.mark.parametrize(
    ("payload", "model", "path", "problem"),
    [
        (b'{"shape":"circle","radius":"a"}', Circle, "radius", "float expected, not text"),
        (b'{"shape":"circle"}', Circle, "radius", "missing"),
        (b'{"shape":"circle","radius":true}', Circle, "radius", "float expected, not bool"),
        (b'{"shape":"square"}', Circle | Group, "shape", "'square' is none of"),
        (b'{"shape":"group","parts":[{"shape":"circle"}]}', Group, "parts[0].radius", "missing"),
        (b"[1,[2]]", list[int], "[1]", "int expected, not list"),
        (b"1.0", int, None, "int expected, not float"),
        (b"true", int, None, "int expected, not bool"),
        (b'{"a":{"b":null}}', dict[str, dict[str, str]], "a.b", "text expected, not null"),
        (b'{"x":1}', dict[int, int], "x", "'x' is no int"),
        (b'"x"', Gear, None, "'x' is no Gear"),
        (b'"x"', UUID, None, "'x' is no UUID"),
        (b'"x"', datetime, None, "'x' is no datetime"),
        (b'"x"', Decimal, None, "'x' is no Decimal"),
        (b'"x\\u0000"', bytes | None, None, "no base64"),
        (b"[1.0]", Pose, None, "2 items expected, not 1"),
        (b"1e300", timedelta, None, "are no timedelta"),
        (b"[]", int | str, None, "list is none of int | str"),
        (b'{"x":1,"at":"yesterday"}', Struct, "at", "Invalid RFC3339"),
        (b'{"x":1,"at":"yesterday"}', Model, "at", "valid datetime"),
    ],
    ids=repr,
)
def test_what_does_not_fit_is_named_with_its_place(payload, model, path, problem):
    with pytest.raises(errors.PayloadError) as caught:
        typed.decode(payload, "application/json", model)
    assert problem in str(caught.value)
    assert caught.value.path == path
    assert caught.value.encoding == "application/json"


@pytest.mark.parametrize(
    ("value", "model", "codec", "path", "problem"),
    [
        (Circle("circle", float("nan")), None, "json", "radius", "nan has no form in JSON"),
        (Circle("circle", "a"), None, "json", "radius", "float expected, not text"),
        ([1, 2**64], list[int], "msgpack", "[1]", "more than the 64 bits"),
        ({"a": FORMLESS}, dict, "json", "a", "Formless has no form in JSON"),
        ({1.5: 1}, dict, "cbor", "1.5", "text expected, not float"),
        ("a", list[str], "json", None, "list expected, not text"),
        ({"note": 1, "wrong": 2}, Extra, "json", None, "'wrong' is not in Extra"),
        ({}, Extra, "json", "note", "missing"),
        ("\ud800", str, "json", None, "UnicodeEncodeError"),
        (1, str, "text", None, "str expected, not int"),
        (Pose(1.0, 2.0), Struct, "json", None, "Struct expected, not Pose"),
        (Pose(1.0, 2.0), Model, "cbor", None, "Model expected, not Pose"),
        ([], Circle | Group, "json", None, "list is none of Circle | Group"),
        (3, bytes, "json-bytes", None, "int"),
    ],
    ids=repr,
)
def test_what_has_no_form_is_named_with_its_place(value, model, codec, path, problem):
    codec, model = ("json", dict[str, bytes]) if codec == "json-bytes" else (codec, model)
    value, path = ({"k": value}, "k") if model == dict[str, bytes] else (value, path)
    with pytest.raises(errors.PayloadError) as caught:
        typed.encode(value, model, codec=codec)
    assert problem in str(caught.value)
    assert caught.value.path == path


def test_numbers_of_numpy_are_numbers():
    value = Circle("circle", np.float32(1.5))
    assert there_and_back(value) == Circle("circle", 1.5)
    assert there_and_back(np.array([1.5, 2.5]), list[float], codec="cbor") == [1.5, 2.5]
    assert there_and_back([np.int64(3)], list[int], codec="msgpack") == [3]


@dataclass
class Ambiguous:
    one: Pose | list[int]


@dataclass
class Untold:
    one: Everything | Circle


@pytest.mark.parametrize(
    ("model", "codec", "problem"),
    [
        (Ambiguous, "json", "two kinds of lists cannot be told apart"),
        (Untold, "json", "cannot be told apart: give each a field of one name with a Literal"),
        (complex, "json", "complex has no form in JSON"),
        (dict[float, int], "json", "has no form as a key"),
        (FORMLESS, "json", "has no form"),
        (bytes, "json", "bytes has no form in JSON"),
        (Circle, "protobuf", "no message class"),
        (Circle, "arrow", "neither a Table nor a RecordBatch"),
        (Circle, "text", "is not str"),
        (Circle, "bytes", "none of bytes"),
        (Group, "zenoh", "no serialized form"),
        (int | None, "zenoh", "no serialized form"),
    ],
    ids=str,
)
def test_models_without_a_form_are_refused_at_once(model, codec, problem):
    with pytest.raises(TypeError, match=problem):
        typed.encode(None, model, codec=codec)


def test_codecs_have_names():
    with pytest.raises(ValueError, match=r"no codec is called 'jsn': there are arrow, bytes, cbor"):
        typed.encode(1, codec="jsn")


class Fixed(typed.Codec):
    """Two digits after the point."""

    name = "fixed"
    encoding = "application/x-fixed"

    def encode(self, value, model):
        return f"{value:.2f}"

    def decode(self, payload, model):
        return model(payload.to_string())


def test_codecs_of_programs():
    registry = typed.Registry(typed.registry)
    registry.register("application/x-fixed", Fixed())
    payload, encoding = typed.encode(1.234, codec="fixed", registry=registry)
    assert (str(encoding), payload.to_string()) == ("application/x-fixed", "1.23")
    assert typed.decode(payload, encoding, float, registry=registry) == 1.23
    with pytest.raises(errors.PayloadError, match="ValueError: could not convert") as caught:
        typed.decode(b"abc", encoding, float, registry=registry)
    assert isinstance(caught.value.__cause__, ValueError)
    # One of a program goes before ours, one for a schema before one for all.
    registry.register("application/json;Odd", Fixed())
    assert typed.decode(b"1.5", "application/json;Odd", float, registry=registry) == 1.5
    assert typed.decode(b"1.5", "application/json;Even", list | float, registry=registry) == 1.5
    registry.register("application/json", Fixed())
    assert typed.decode(b"2", "application/json", str, registry=registry) == "2"
    with pytest.raises(errors.UnknownEncoding) as caught:
        typed.decode(b"1", "application/x-fixed", float)
    assert "application/json" in caught.value.known
    assert "application/x-fixed" not in caught.value.known
    with pytest.raises(ValueError, match="has a name"):
        registry.register(";schema", Fixed())


def test_a_missing_library_names_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cbor2", None)
    with pytest.raises(ImportError, match=r"cbor2 is not installed: pip install 'zwire\[codecs\]'"):
        typed.encode(Circle("circle", 1.0), codec="cbor")
    with pytest.raises(errors.PayloadError, match="cbor2 is not installed"):
        typed.decode(b"\1", "application/cbor", int)


def test_times_keep_what_they_know():
    east = timezone(timedelta(hours=5, minutes=30))
    for value in (NOON, NOON.replace(tzinfo=None), NOON.astimezone(east)):
        for codec in TREES:
            again = there_and_back(value, datetime, codec=codec)
            assert again == value
            assert (again.tzinfo is None) == (value.tzinfo is None)
    assert typed.decode(b'"2026-11-22T12:00:00.250Z"', "text/json", datetime) == NOON


@dataclass
class Row:
    flag: bool
    count: int
    at: datetime
    day: date
    hour: time
    lasted: timedelta
    price: Decimal
    id: UUID
    raw: bytes
    gear: Gear
    level: Level | None
    shape: Literal["a", "b"]
    pose: Pose
    circles: list[Circle]
    names: set[str]
    by_name: dict[str, Pose | None]
    extra: Extra
    distance: Metres


def test_the_columns_of_a_model():
    schema = typed.arrow_schema(Row)
    pose = pa.struct([pa.field("x", pa.float64(), False), pa.field("y", pa.float64(), False)])
    assert schema.field("at").type == pa.timestamp("us", "UTC")
    assert schema.field("price").type == schema.field("id").type == schema.field("gear").type == pa.string()
    assert (schema.field("level").type, schema.field("level").nullable) == (pa.int64(), True)
    assert schema.field("pose").type == pose
    assert schema.field("by_name").type == pa.map_(pa.string(), pose)
    assert schema.field("circles").type.value_type.field("radius").type == pa.float64()
    assert schema.field("extra").type.field("weight").nullable
    assert [typed.arrow_schema(model).names for model in (Struct, Model, Extra, Pose)] == [
        ["x", "at", "tags"], ["x", "at", "gear"], ["note", "weight"], ["x", "y"],
    ]  # fmt: skip
    for model in (int, list[int], dict, Group, Untold, Ambiguous, dict[str, int]):
        with pytest.raises(TypeError, match=r"no named fields|no column"):
            typed.arrow_schema(model)


def test_the_rows_of_a_model():
    row = Row(
        flag=True,
        count=1,
        at=NOON,
        day=NOON.date(),
        hour=time(1, 2),
        lasted=timedelta(seconds=1),
        price=Decimal("1.10"),
        id=ID,
        raw=b"\0",
        gear=Gear.DRIVE,
        level=None,
        shape="b",
        pose=Pose(1.0, 2.0),
        circles=[Circle("circle", 1.0)],
        names={"a"},
        by_name={"p": Pose(1.0, 2.0), "q": None},
        extra={"note": "n"},
        distance=Metres(1.0),
    )
    table = pa.Table.from_pylist([_table._column(Row).convert(row)], schema=typed.arrow_schema(Row))
    table.validate(full=True)
    (out,) = table.to_pylist()
    assert (out["at"], out["day"], out["hour"], out["lasted"]) == (row.at, row.day, row.hour, row.lasted)
    assert (out["price"], out["id"], out["gear"], out["level"]) == ("1.10", str(ID), "d", None)
    assert out["pose"] == {"x": 1.0, "y": 2.0}
    assert out["by_name"] == [("p", {"x": 1.0, "y": 2.0}), ("q", None)]
    assert out["extra"] == {"note": "n", "weight": None}


def test_messages_of_zre():
    value = Circle("circle", 1.5)
    frames = typed.to_frames(value, codec="cbor")
    assert frames[0] == b"application/cbor;Circle"
    assert typed.from_frames(frames, Circle) == value
    assert typed.from_frames([b'{"shape":"circle","radius":1.5}'], Circle) == value
    for content in ([], [b"a"] * 3, [b"\xff", b"{}"], [b"{"]):
        with pytest.raises(errors.PayloadError):
            typed.from_frames(content, Circle)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(plain)
def test_any_tree_survives(value):
    for codec in ("cbor", "msgpack"):
        assert there_and_back(value, Any, codec=codec) == value


@given(st.builds(Circle, st.just("circle"), st.floats(allow_nan=False, allow_infinity=False)))
def test_json_is_what_the_standard_library_reads(value):
    payload, _ = typed.encode(value)
    assert json.loads(bytes(payload)) == {"shape": "circle", "radius": value.radius}
    assert there_and_back(value) == value


@given(
    st.binary(max_size=64), st.sampled_from(["application/json", "application/cbor", "application/msgpack"])
)
def test_any_bytes_are_a_value_or_a_typed_error(payload, encoding):
    for model in (Any, Everything, Struct, Model, dict[int, list[Pose]]):
        # Whatever else is raised is the failure.
        with contextlib.suppress(errors.PayloadError):
            typed.decode(payload, encoding, model)
