"""z_serialize and z_deserialize against bytes that eclipse-zenoh 1.10.2 wrote."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zwire.errors import DecodeError
from zwire.zenoh import KeyExpr, ZBytes, ext
from zwire.zenoh.ext import (
    Float32,
    Float64,
    Int8,
    Int32,
    Int128,
    UInt8,
    UInt16,
    UInt128,
    ZDeserializeError,
    z_deserialize,
    z_serialize,
)

VECTORS = [
    (int, 1, "01000000"),
    (int, -1, "ffffffff"),
    (float, 1.5, "000000000000f83f"),
    (bool, True, "01"),
    (str, "aé", "0361c3a9"),
    (bytes, b"ab", "026162"),
    (bytearray, bytearray(b"ab"), "026162"),
    (ZBytes, ZBytes(b"a"), "0161"),
    (list[int], [1, 2], "020100000002000000"),
    (list[int], [], "00"),
    (dict[str, int], {"a": 1}, "01016101000000"),
    (set[int], {1}, "0101000000"),
    (frozenset[int], frozenset([1]), "0101000000"),
    (tuple[int, str], (1, "a"), "010000000161"),
    (tuple[()], (), ""),
    (list[tuple[int, str]], [(1, "a")], "01010000000161"),
    (UInt8, UInt8(3), "03"),
    (Int128, Int128(-1), "ff" * 16),
    (UInt128, UInt128(1), "01" + "00" * 15),
    (Float32, Float32(1.5), "0000c03f"),
    (Float64, Float64(1.5), "000000000000f83f"),
    (str, "x" * 200, "c801" + "78" * 200),
]


@pytest.mark.parametrize(("tp", "value", "wire"), VECTORS, ids=lambda v: str(v)[:20])
def test_both_ways(tp, value, wire):
    assert bytes(z_serialize(value)).hex() == wire
    read = z_deserialize(tp, ZBytes(bytes.fromhex(wire)))
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(("tp", "value", "wire"), VECTORS, ids=lambda v: str(v)[:20])
def test_every_truncation_is_an_error_and_more_is_none(tp, value, wire):
    whole = bytes.fromhex(wire)
    for length in range(len(whole)):
        with pytest.raises(ZDeserializeError):
            z_deserialize(tp, ZBytes(whole[:length]))
    assert z_deserialize(tp, ZBytes(whole + b"more")) == value


@pytest.mark.parametrize(
    ("tp", "wire", "offset"),
    [
        (bool, b"\2", 1),
        (str, b"\1\xff", 2),
        (str, b"\xff" * 11, 10),
        (str, b"\xff" * 9 + b"\2", 10),
        (list[str], b"\xff\xff\xff\xff\x0f", 5),
        (list[tuple[()]], b"\xff\xff\xff\xff\x0f", 5),
    ],
)
def test_bytes_that_are_no_value(tp, wire, offset):
    with pytest.raises(ZDeserializeError) as caught:
        z_deserialize(tp, ZBytes(wire))
    error = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(error, DecodeError)
    assert error.offset == offset
    assert error.reading


def test_what_has_no_form():
    for value in (None, object(), KeyExpr("a"), iter([1]), [None], (object(),)):
        with pytest.raises(TypeError, match="no serialized form"):
            z_serialize(value)
    for tp in (object, KeyExpr, None, int | str, type(None)):
        with pytest.raises(TypeError, match="no serialized form"):
            z_deserialize(tp, ZBytes(b""))
    with pytest.raises(TypeError, match="how many"):
        z_deserialize(tuple[int, ...], ZBytes(b""))
    for tp in (list, dict, tuple):
        with pytest.raises(ValueError, match="what its items are"):
            z_deserialize(tp, ZBytes(b""))


def test_values_that_do_not_fit():
    with pytest.raises(OverflowError):
        z_serialize(2**31)
    with pytest.raises(ValueError, match="same type"):
        z_serialize([1, "a"])
    with pytest.raises(ValueError, match="same type"):
        z_serialize({1: "a", "b": "c"})


@pytest.mark.parametrize(
    ("cls", "low", "high"), [(Int8, -128, 127), (UInt16, 0, 65535), (Int32, -(2**31), 2**31 - 1)]
)
def test_numbers_know_their_range(cls, low, high):
    assert (cls(low), cls(high)) == (low, high)
    for wrong in (low - 1, high + 1):
        # Both: eclipse-zenoh asserts it.
        with pytest.raises(AssertionError):
            cls(wrong)
        with pytest.raises(ValueError, match=f"{wrong} does not fit into {cls.__name__}"):
            cls(wrong)


@given(
    st.dictionaries(st.text(), st.tuples(st.integers(0, 2**128 - 1), st.lists(st.floats(allow_nan=False))))
)
def test_nested_values_survive(value):
    typed = {key: (UInt128(number), floats) for key, (number, floats) in value.items()}
    assert z_deserialize(dict[str, tuple[UInt128, list[float]]], z_serialize(typed)) == typed


def test_the_names_are_those_of_the_reference():
    assert {"Int8", "Int64", "UInt64", "Float32", "z_serialize", "ZDeserializeError"} <= set(ext.__all__)
