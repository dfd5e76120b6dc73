"""Payloads that are no values of a model, and values and models without a form: named with their place."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from models import FORMLESS, Ambiguous, Circle, Extra, Gear, Group, Model, Pose, Struct, Untold
from zwire import errors, typed


def test_annotations_that_nobody_can_resolve():
    @dataclass
    class Local:
        other: "Nowhere"  # noqa: F821

    with pytest.raises(TypeError, match="name 'Nowhere' is not defined; its annotations must be visible"):
        typed.encode(Local(1))


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


@dataclass
class Inner:
    """Refers to a class that has no form."""

    outer: "Outer | None"


@dataclass
class Outer:
    """Has a form but for its last field."""

    inner: Inner | None
    rest: complex


@pytest.mark.parametrize("value", [Outer(None, 1j), Inner(None)], ids=["outer", "inner"])
def test_each_value_of_a_class_without_a_form_is_the_same_error(value):
    for _ in range(2):
        with pytest.raises(errors.PayloadError, match="complex has no form in JSON"):
            typed.encode([Outer(None, 1j)], list, codec="json")
        with pytest.raises(errors.PayloadError, match="complex has no form in JSON"):
            typed.encode([value], list, codec="json")


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
