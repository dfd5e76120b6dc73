"""ZBytes: a read-only buffer."""

import array
import gc
import pickle
import sys
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zwire.zenoh import ZBytes

LARGE = bytes(range(256)) * 1024
"""Long enough to be shared instead of copied."""


@pytest.mark.parametrize(
    ("given", "content"),
    [
        (None, b""),
        (b"ab", b"ab"),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        ("aé", "aé".encode()),
        (ZBytes(b"ab"), b"ab"),
        (array.array("H", [1, 2]), array.array("H", [1, 2]).tobytes()),
        (np.arange(3, dtype="<i4"), b"\0\0\0\0\1\0\0\0\2\0\0\0"),
        (np.arange(6, dtype="u1")[::2], b"\0\2\4"),
        (memoryview(b"abcdef")[::-2], b"fdb"),
        (np.array(7, dtype="u1"), b"\7"),
        (np.zeros((2, 0)), b""),
        (pa.py_buffer(b"ab"), b"ab"),
        (LARGE, LARGE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_made_of_any_buffer(given, content):
    assert bytes(ZBytes(given)) == content


@pytest.mark.parametrize("value", [1, 1.5, {"a": 1}, {1, 2}, object()])
def test_nothing_else_is_bytes(value):
    with pytest.raises(TypeError, match="expected bytes, a buffer, a str or ZBytes"):
        ZBytes(value)


@pytest.mark.parametrize("size", [3, len(LARGE)])
def test_what_can_change_is_copied(size):
    source = bytearray(LARGE[:size])
    made = ZBytes(source)
    source[0] = 99
    source.clear()
    assert made == LARGE[:size]


def test_large_bytes_are_shared_and_given_back():
    before = sys.getrefcount(LARGE)
    made = ZBytes(LARGE)
    assert sys.getrefcount(LARGE) == before + 1
    assert memoryview(made).obj is made
    assert (
        np.frombuffer(made, "u1").__array_interface__["data"]
        == np.frombuffer(LARGE, "u1").__array_interface__["data"]
    )
    del made
    assert sys.getrefcount(LARGE) == before


@pytest.mark.parametrize("content", [b"", b"ab", LARGE])
def test_a_view_is_read_only_and_copies_nothing(content):
    made = ZBytes(content)
    view = memoryview(made)
    assert view.readonly
    assert (view.format, view.ndim, view.nbytes) == ("B", 1, len(content))
    assert view == content
    with pytest.raises(TypeError):
        memoryview(made)[:1] = b"x"
    first, second = (np.frombuffer(memoryview(made), "u1") for _ in range(2))
    assert first.__array_interface__["data"][0] == second.__array_interface__["data"][0]
    assert pa.py_buffer(made).to_pybytes() == content
    assert pa.py_buffer(made).address == pa.py_buffer(made).address
    assert not first.flags.writeable


def test_a_view_keeps_the_bytes_alive():
    view = memoryview(ZBytes(b"x" * 100))
    gc.collect()
    assert bytes(view) == b"x" * 100


def test_equality_and_hash_are_those_of_bytes():
    made = ZBytes(b"ab")
    for same in (b"ab", bytearray(b"ab"), memoryview(b"ab"), "ab", ZBytes("ab")):
        assert made == same
        assert same == made or isinstance(same, memoryview)
    for other in (b"abc", "b", 1, None, [97, 98]):
        assert made != other
    assert hash(made) == hash(b"ab")
    assert {b"ab": 1}[made] == 1


def test_texts():
    assert str(ZBytes("aé")) == ZBytes("aé").to_string() == "aé"
    assert repr(ZBytes(b"a'\xff")) == 'ZBytes(b"a\'\\xff")'
    assert repr(ZBytes(LARGE)).startswith("<ZBytes of 262144 bytes: b'\\x00\\x01")
    for read in (str, ZBytes.to_string):
        with pytest.raises(UnicodeDecodeError) as caught:
            read(ZBytes(b"ab\xffc"))
        assert (caught.value.start, caught.value.end, caught.value.object) == (2, 3, b"ab\xffc")


def test_length_and_truth():
    assert len(ZBytes(b"abc")) == 3
    assert ZBytes(b"\0")
    assert not ZBytes()


@given(st.binary(max_size=40), st.slices(40), st.integers(-45, 45))
def test_indexing_is_that_of_bytes(content, part, index):
    made = ZBytes(content)
    assert made[part] == content[part]
    assert isinstance(made[part], ZBytes)
    assert list(made) == list(content)
    if -len(content) <= index < len(content):
        assert made[index] == content[index]
    else:
        with pytest.raises(IndexError):
            made[index]


def test_a_slice_shares_memory():
    made = ZBytes(LARGE)
    address = np.frombuffer(made, "u1").__array_interface__["data"][0]
    assert np.frombuffer(made[10:20], "u1").__array_interface__["data"][0] == address + 10


@pytest.mark.parametrize("content", [b"", b"ab", LARGE])
def test_it_pickles(content):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(ZBytes(content), protocol))
        assert isinstance(again, ZBytes)
        assert again == content


def test_a_subclass_of_bytes_is_bytes():
    class Mine(bytes):
        pass

    assert ZBytes(Mine(LARGE)) == LARGE


def test_a_buffer_that_refuses_says_so_itself():
    released = memoryview(b"ab")
    released.release()
    with pytest.raises(ValueError, match="released"):
        ZBytes(released)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the interpreter adds this method by itself")
def test_the_buffer_method_of_later_interpreters():
    assert ZBytes(b"ab").__buffer__(0) == b"ab"
    with pytest.raises(BufferError):
        ZBytes(b"ab").__buffer__(1)


class Rows(list):
    pass


class Pair(NamedTuple):
    head: bytes
    body: bytes


@pytest.mark.parametrize(
    ("pieces", "content"),
    [
        ([], b""),
        ((), b""),
        ([b"", bytearray()], b""),
        ([b"ab"], b"ab"),
        ([LARGE], LARGE),
        ((b"a", bytearray(b"b"), memoryview(b"c"), ZBytes("d")), b"abcd"),
        ([np.arange(3, dtype="<u2"), np.arange(6, dtype="u1")[1::2]], b"\0\0\1\0\2\0\1\3\5"),
        ([memoryview(b"abcdef")[::-2], np.array(7, dtype="u1"), pa.py_buffer(b"x")], b"fdb\7x"),
        ([b"<", LARGE, np.frombuffer(LARGE, "<i4"), bytearray(LARGE), b">"], b"<" + LARGE * 3 + b">"),
        ([ZBytes([b"a", LARGE]), ZBytes((LARGE, b"b"))], b"a" + LARGE * 2 + b"b"),
        (Rows([b"a", b"b"]), b"ab"),
        (Pair(b"a", LARGE), b"a" + LARGE),
    ],
    ids=lambda value: f"{type(value).__name__}-{len(value)}",
)
def test_made_of_several_buffers(pieces, content):
    made = ZBytes(pieces)
    assert len(made) == len(content)
    assert bool(made) == bool(content)
    assert made.to_bytes() == bytes(made) == content
    assert memoryview(made) == content
    assert made == content
    assert hash(made) == hash(content)
    assert made[1:-1] == content[1:-1]
    assert pickle.loads(pickle.dumps(made)) == content


@given(st.lists(st.binary(max_size=9) | st.integers(0, 20_000).map(lambda n: LARGE[:n]), max_size=9))
def test_several_buffers_are_their_concatenation(pieces):
    assert bytes(ZBytes(pieces)) == b"".join(pieces)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], r"bytes\[0\]: expected bytes, a buffer or ZBytes, not int"),
        ([b"", b"", b"", None], r"bytes\[3\]: expected bytes, a buffer or ZBytes, not NoneType"),
        ([LARGE, [b"a"]], r"bytes\[1\]: expected bytes, a buffer or ZBytes, not list"),
        ((b"a", ()), r"bytes\[1\]: expected bytes, a buffer or ZBytes, not tuple"),
        ((b"a", "b"), r"bytes\[1\]: expected bytes, a buffer or ZBytes, not str"),
    ],
)
def test_an_item_that_is_no_buffer_is_named(value, message):
    with pytest.raises(TypeError, match=f"^{message}$"):
        ZBytes(value)


def test_the_error_of_an_item_has_a_note_with_its_index():
    released = memoryview(b"ab")
    released.release()
    with pytest.raises(ValueError, match="released") as caught:
        ZBytes([b"a", released])
    assert caught.value.__notes__ == ["bytes[1]"]


@pytest.mark.parametrize("size", [3, 5000, len(LARGE)])
def test_items_that_can_change_are_copied(size):
    sources = [bytearray(LARGE[:size]), np.frombuffer(LARGE[:size], "u1").copy()]
    made = ZBytes(sources)
    sources[0][0] = sources[1][0] = 99
    sources[0].clear()
    sources.clear()
    assert made == LARGE[:size] * 2


def test_large_bytes_of_a_list_are_shared_and_given_back():
    large = bytes(LARGE)[:-1]
    before = sys.getrefcount(large)
    made = ZBytes([b"head", large, large])
    assert sys.getrefcount(large) == before + 2
    assert memoryview(made).obj is made
    del made
    ZBytes(LARGE)
    assert sys.getrefcount(large) == before


def test_a_million_buffers_are_one_payload():
    assert ZBytes([b"x"] * 1_000_000) == b"x" * 1_000_000
