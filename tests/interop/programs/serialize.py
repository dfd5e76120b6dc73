"""Values in the serialization format, there and back, and over the network."""

import zenoh
from zenoh.ext import (
    Float32,
    Int8,
    Int64,
    Int128,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    ZDeserializeError,
    z_deserialize,
    z_serialize,
)

CASES = [
    (Int8, Int8(-5)),
    (UInt16, UInt16(40_000)),
    (UInt32, UInt32(1 << 31)),
    (Int64, Int64(-(1 << 40))),
    (UInt64, UInt64((1 << 64) - 1)),
    (Int128, Int128(-(1 << 100))),
    (int, -7),
    (float, 2.5),
    (Float32, Float32(0.5)),
    (bool, True),
    (str, "héllo"),
    (bytes, b"\x00\x01"),
    (bytearray, bytearray(b"ab")),
    (list[int], [1, 2, 3]),
    (list[str], []),
    (set[int], {7}),
    (frozenset[str], frozenset({"x"})),
    (dict[str, int], {"a": 1, "b": -1}),
    (tuple[int, str, bool], (1, "x", False)),
    (list[tuple[str, float]], [("pi", 3.14), ("e", 2.72)]),
    (dict[str, list[UInt8]], {"k": [UInt8(1), UInt8(255)]}),
]

for kind, value in CASES:
    data = z_serialize(value)
    back = z_deserialize(kind, data)
    print(kind.__name__, data.to_bytes().hex(), back, back == value, type(back).__name__)

for kind, raw in [
    (int, b"\x01"),
    (str, b"\x05ab"),
    (list[int], b"\x02\x00\x00\x00\x00"),
    (bool, b"\x02"),
    (int, b"12345"),
]:
    try:
        print(z_deserialize(kind, zenoh.ZBytes(raw)))
    except ZDeserializeError:
        print(kind, "does not fit")

with zenoh.open(zenoh.Config.from_env()) as session:
    subscriber = session.declare_subscriber("values/*")
    session.put("values/a", z_serialize({"speed": 1.5}), encoding=zenoh.Encoding.ZENOH_SERIALIZED)
    sample = subscriber.recv()
    print(sample.encoding, z_deserialize(dict[str, float], sample.payload))
