"""Payloads that were made to harm: each is a typed error, soon, and costs no more than its own size."""

import contextlib
import resource
import struct
import time
from dataclasses import dataclass, field
from typing import Any

import cbor2
import msgpack
import msgspec
import pyarrow as pa
import pydantic
import pytest

from zwire import errors, typed

DEEP = 100_000


@dataclass
class Tree:
    children: "list[Tree]" = field(default_factory=list)
    value: float = 0.0


class Struct(msgspec.Struct):
    children: "list[Struct]" = []


class Model(pydantic.BaseModel):
    children: "list[Model]" = []


def refused(payload, encoding, model):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    with pytest.raises(errors.PayloadError) as caught:
        typed.decode(payload, encoding, model)
    assert time.process_time() - start < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    # Whatever the payload says, the message is one that a log can hold.
    assert len(str(caught.value)) < 1_000
    return caught.value


JSON, CBOR, MSGPACK = "application/json", "application/cbor", "application/msgpack"


@pytest.mark.parametrize("model", [Any, Tree, dict, list], ids=str)
@pytest.mark.parametrize(
    ("payload", "encoding"),
    [
        (b"[" * DEEP, JSON),
        (b"[" * DEEP + b"]" * DEEP, JSON),
        (b'{"children":[' * DEEP, JSON),
        (b'{"children":[' * 200 + b"]}" * 200, JSON),
        (b"[" * 200 + b"]" * 200, JSON),
        (b"\x81" * DEEP, CBOR),
        (b"\x9f" * DEEP, CBOR),
        (b"\xc1" * DEEP, CBOR),
        (b"\x81" * 200 + b"\x01", CBOR),
        (b"\x91" * DEEP, MSGPACK),
        (b"\x91" * 200 + b"\x01", MSGPACK),
        (b"\x81\xa8children\x91" * 200 + b"\x80", MSGPACK),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value[:12]!r}*{len(value)}",
)
def test_deep_nesting(payload, encoding, model):
    refused(payload, encoding, model)


@pytest.mark.parametrize("model", [Struct, Model])
def test_deep_nesting_for_models_of_other_libraries(model):
    refused(b'{"children":[' * DEEP + b"]}" * DEEP, JSON, model)
    refused(b"\x81\xa8children\x91" * DEEP + b"\x80", MSGPACK, model)
    refused(b"\xa1\x68children\x81" * DEEP + b"\xa0", CBOR, model)


def test_depth_that_is_allowed():
    for codec in ("json", "cbor", "msgpack"):
        value = []
        for _ in range(99):
            value = [value]
        payload, encoding = typed.encode(value, list, codec=codec)
        assert typed.decode(payload, encoding, list) == value


@pytest.mark.parametrize(
    ("payload", "encoding"),
    [
        (b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff", CBOR),
        (b"\x7b\x00\x00\x00\x0f\xff\xff\xff\xff", CBOR),
        (b"\x9b\x7f\xff\xff\xff\xff\xff\xff\xff", CBOR),
        (b"\x9b\x00\x00\x00\x03\xff\xff\xff\xff", CBOR),
        (b"\xbb\x00\x00\x00\x03\xff\xff\xff\xff", CBOR),
        (b"\xdd\xff\xff\xff\xff", MSGPACK),
        (b"\xdf\xff\xff\xff\xff", MSGPACK),
        (b"\xc6\xff\xff\xff\xff", MSGPACK),
        (b"\xdb\xff\xff\xff\xff", MSGPACK),
        (b"\xff" * 9 + b"\x01", "zenoh/serialized"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.hex(),
)
def test_lengths_that_are_only_claimed(payload, encoding):
    for model in (list[int], list[str]):
        refused(payload, encoding, model)


@pytest.mark.parametrize(
    "payload",
    [
        # Shared values: a list of itself, and lists of two of the one before, which unfold to 2^20 items.
        bytes.fromhex("d81c81d81d00"),
        b"\x95" + b"".join(b"\xd8\x1c\x82" + bytes([0xD8, 0x1D, n]) * 2 for n in range(20)),
        # A regular expression, a mail, a fraction, a set, an unknown tag, a simple value, undefined.
        b"\xd8\x23\x68(a+)+$xx",
        b"\xd8\x24\x61a",
        bytes.fromhex("d81e820103"),
        bytes.fromhex("d901028101"),
        bytes.fromhex("d9123403"),
        bytes.fromhex("e0"),
        bytes.fromhex("f7"),
        # Bytes that are left, a break without a beginning, a key that is a list.
        b"\x01\x02",
        b"\xff",
        bytes.fromhex("a18001"),
    ],
    ids=lambda value: value.hex()[:24],
)
def test_cbor_that_is_more_than_data(payload):
    refused(payload, CBOR, Any)


def test_messagepack_that_is_more_than_data():
    for payload in (
        b"\xd4\x05\x00",
        b"\x81\x90\x01",
        b"\x81\x01\x02",
        b"\xc7\x0c\xff" + b"\x7f" * 12,
        b"\xc1",
        b"\x01\x02",
    ):
        refused(payload, MSGPACK, Any)


@pytest.mark.parametrize("count", [20_000])
def test_keys_that_collide(count):
    # All have one hash; a table of them would take seconds to fill.
    modulus = 2**61 - 1
    keys = {number * modulus: 0 for number in range(100)}
    body = b"".join(cbor2.dumps(modulus * number) + b"\0" for number in range(1, count + 1))
    refused(b"\xba" + struct.pack(">I", count) + body, CBOR, dict)
    refused(msgpack.packb({key: 0 for key in keys if key < 2**64}), MSGPACK, dict)


@pytest.mark.parametrize(
    "text",
    ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 5_000, '"\\ud800"', '"\ud800"', "01", "'a'"],
)
def test_json_that_is_none(text):
    payload = text.encode("utf-8", "surrogatepass")
    for model in (Any, float, list):
        for whole in (payload, b"[" + payload + b"]"):
            refused(whole, JSON, model)


def test_nan_where_the_format_has_it():
    for codec in ("cbor", "msgpack", "zenoh"):
        payload, encoding = typed.encode(float("nan"), codec=codec)
        value = typed.decode(payload, encoding, float)
        assert value != value  # noqa: PLR0124 - that is what NaN is


@pytest.mark.parametrize("encoding", [JSON, CBOR, MSGPACK, "zenoh/serialized"])
def test_every_truncation(encoding):
    codec = {JSON: "json", CBOR: "cbor", MSGPACK: "msgpack"}.get(encoding, "zenoh")
    model = dict[str, list[float]]
    payload, _ = typed.encode({"a": [1.5, 2.5], "b": []}, model, codec=codec)
    for length in range(len(payload)):
        refused(payload[:length], encoding, model)


def test_tables_that_are_broken():
    table = pa.table({"text": ["some", "texts", "of", "varying", "length"] * 20})
    whole = bytes(typed.encode(table)[0])
    encoding = "application/vnd.apache.arrow.stream"
    for length in (0, 1, 7, 100, len(whole) // 2):
        refused(whole[:length], encoding, pa.Table)
    # Every byte of the head, and the offsets of the texts: an error or a table that holds what it says.
    for at in range(len(whole)):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        with contextlib.suppress(errors.PayloadError):
            value = typed.decode(bytes(broken), encoding, pa.Table)
            value.validate(full=True)
            value.to_pylist()


def compressed(table, codec):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as stream:
        stream.write(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_tables_that_unfold(codec):
    encoding = "application/vnd.apache.arrow.stream"
    table = pa.table({"x": pa.array([0] * 1_000, pa.int64()), "text": ["a"] * 1_000})
    words = pa.table({"word": pa.array(["a", "b"] * 500).dictionary_encode()})
    for whole in (table, words):
        assert typed.decode(compressed(whole, codec), encoding, pa.Table) == whole
    payload = compressed(table, codec)
    for claim in (2**62, 2**40, 2**29, -2):
        at = payload.index(struct.pack("<q", 8_000))
        refused(payload[:at] + struct.pack("<q", claim) + payload[at + 8 :], encoding, pa.Table)
    # 80 MB out of some kilobytes, that are really there.
    small = typed.Registry(typed.registry)
    small.register(encoding, typed.ArrowCodec(max_bytes=1 << 20))
    zeros = pa.table({"x": pa.array([0]).take(pa.array([0] * 200_000))})
    bomb = compressed(zeros, codec)
    assert len(bomb) < 20_000
    with pytest.raises(errors.PayloadError, match="compressed batches of more than"):
        typed.decode(bomb, encoding, pa.Table, registry=small)
    assert typed.decode(bomb, encoding, pa.Table) == zeros
    # Rows that take no bytes at all.
    nothing = typed.encode(pa.table({"x": pa.nulls(2_000_000)}))[0]
    with pytest.raises(errors.PayloadError, match="2000000 rows"):
        typed.decode(nothing, encoding, pa.Table, registry=small)
    # Every byte of what says how large it is.
    payload = compressed(table.slice(0, 10), codec)
    for at in range(len(payload)):
        broken = bytearray(payload)
        broken[at] ^= 0xFF
        with contextlib.suppress(errors.PayloadError):
            typed.decode(bytes(broken), encoding, pa.Table).to_pylist()


def test_encodings_that_peers_make_up_are_not_remembered_for_ever():
    reader = typed._values.Reader(Tree, None, "*", None)
    payload, _ = typed.encode(Tree())
    for number in range(2_000):
        encoding = typed._values.Encoding(f"application/json;made-up-{number}")
        assert reader.read(payload, encoding) == Tree()
    assert len(reader._known) <= 256
    error = refused(b"x", "x" * 250, Tree)
    assert error.encoding == "x" * 250


def test_a_constructor_that_raises_is_a_typed_error():
    @dataclass
    class Positive:
        value: int

        def __post_init__(self):
            if self.value < 0:
                raise ValueError("must not be negative")
            if self.value > 100:
                raise RecursionError

    assert "must not be negative" in str(refused(b'{"value":-1}', JSON, Positive))
    refused(b'{"value":101}', JSON, Positive)
    assert refused(b'[{"value":1},{"value":-1}]', JSON, list[Positive]).path == "[1]"
