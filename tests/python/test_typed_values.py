"""Values of models as payloads and back, and the bytes of them beside what the reference libraries write."""

import base64
import contextlib
import json
import pickle
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Generic, TypeVar
from uuid import UUID

import cbor2
import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import (
    EVERYTHING,
    ID,
    NOON,
    Both,
    Circle,
    Everything,
    Extra,
    Fields,
    Gear,
    Group,
    Inner,
    Level,
    Model,
    Pose,
    Struct,
    message_class,
    there_and_back,
)
from zwire import errors, typed
from zwire.zenoh import Encoding, ZBytes, ext

pytestmark = pytest.mark.slow

TREES = ["json", "cbor", "msgpack"]


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


def test_numbers_of_numpy_are_numbers():
    value = Circle("circle", np.float32(1.5))
    assert there_and_back(value) == Circle("circle", 1.5)
    assert there_and_back(np.array([1.5, 2.5]), list[float], codec="cbor") == [1.5, 2.5]
    assert there_and_back([np.int64(3)], list[int], codec="msgpack") == [3]


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
