"""Plain values as bytes, and publications that can be asked for again.

The bytes are in the format that Zenoh programs of all languages share.

=====================================  ==================================================
type                                   bytes
=====================================  ==================================================
``bool``                               one, 0 or 1
``Int8`` ... ``UInt128``, ``Float32``  fixed width, lowest byte first
``int``, ``float``                     as ``Int32`` and ``Float64``
``str``, ``bytes``, ``ZBytes``         length, then the bytes
``list``, ``set``, ``frozenset``       number of items, then the items; all of one type
``dict``                               number of items, then keys and values in turn
``tuple``                              the items, of any types
=====================================  ==================================================

Lengths and numbers of items are LEB128: seven bits a byte, lowest first. Types are not written: the reader
has to know them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_args, get_origin

from zwire._zwire import (
    AdvancedPublisher,
    AdvancedSubscriber,
    CacheConfig,
    HistoryConfig,
    Miss,
    MissDetectionConfig,
    RecoveryConfig,
    RepliesConfig,
    SampleMissListener,
    ZBytes,
    declare_advanced_publisher,
    declare_advanced_subscriber,
)
from zwire.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "AdvancedPublisher",
    "AdvancedSubscriber",
    "CacheConfig",
    "Float32",
    "Float64",
    "HistoryConfig",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Int128",
    "Miss",
    "MissDetectionConfig",
    "RecoveryConfig",
    "RepliesConfig",
    "SampleMissListener",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "UInt128",
    "ZDeserializeError",
    "declare_advanced_publisher",
    "declare_advanced_subscriber",
    "z_deserialize",
    "z_serialize",
]

_T = TypeVar("_T")

# A length has 64 bits at most.
_MAX_LENGTH_BYTES = 10
# Items without bytes could be claimed in any number.
_MAX_EMPTY_ITEMS = 65536


class ZDeserializeError(DecodeError):
    """Bytes that are no value of the type; ``reading`` names the part, ``offset`` counts bytes."""


class _RangeError(ValueError, AssertionError):
    """A number out of range. eclipse-zenoh asserts the range: programs may catch either error."""


class _Fixed(int):
    """An integer that is serialized with a fixed width."""

    width_bytes: int
    signed: bool

    def __init_subclass__(cls, *, width_bytes: int | None = None, signed: bool = False) -> None:
        super().__init_subclass__()
        if width_bytes is not None:
            cls.width_bytes, cls.signed = width_bytes, signed

    def __new__(cls, i: int) -> Self:
        """Check the range."""
        bits = 8 * cls.width_bytes - cls.signed
        if not (-(1 << bits) if cls.signed else 0) <= i < 1 << bits:
            raise _RangeError(f"{i} does not fit into {cls.__name__}")
        return super().__new__(cls, i)


class Int8(_Fixed, width_bytes=1, signed=True):
    r"""A signed integer of 8 bits.

    ::

        print(bytes(ext.z_serialize(ext.Int8(-1))))  # b'\xff'
    """


class Int16(_Fixed, width_bytes=2, signed=True):
    """A signed integer of 16 bits.

    ::

        payload = ext.z_serialize([ext.Int16(300), ext.Int16(-300)])
        print(ext.z_deserialize(list[ext.Int16], payload))  # [300, -300]
    """


class Int32(_Fixed, width_bytes=4, signed=True):
    """A signed integer of 32 bits; also the form of a plain ``int``.

    ::

        print(ext.z_serialize(ext.Int32(7)) == ext.z_serialize(7))  # True
    """


class Int64(_Fixed, width_bytes=8, signed=True):
    """A signed integer of 64 bits.

    ::

        nanoseconds = ext.Int64(1_700_000_000_000_000_000)  # too large for a plain int, which is an Int32
        print(len(ext.z_serialize(nanoseconds)))  # 8
    """


class Int128(_Fixed, width_bytes=16, signed=True):
    """A signed integer of 128 bits.

    ::

        payload = ext.z_serialize(ext.Int128(-(2**100)))
        print(ext.z_deserialize(ext.Int128, payload) == -(2**100))  # True
    """


class UInt8(_Fixed, width_bytes=1, signed=False):
    """An unsigned integer of 8 bits.

    ::

        payload = ext.z_serialize((ext.UInt8(255), ext.UInt8(0), ext.UInt8(128)))
        print(ext.z_deserialize(tuple[ext.UInt8, ext.UInt8, ext.UInt8], payload))  # (255, 0, 128)
    """


class UInt16(_Fixed, width_bytes=2, signed=False):
    """An unsigned integer of 16 bits.

    ::

        ports = {"hub": ext.UInt16(7447)}
        print(ext.z_deserialize(dict[str, ext.UInt16], ext.z_serialize(ports)))  # {'hub': 7447}
    """


class UInt32(_Fixed, width_bytes=4, signed=False):
    """An unsigned integer of 32 bits.

    ::

        print(bytes(ext.z_serialize(ext.UInt32(0xC0FFEE))).hex())  # eeffc000
    """


class UInt64(_Fixed, width_bytes=8, signed=False):
    """An unsigned integer of 64 bits.

    ::

        try:
            ext.UInt64(-1)
        except ValueError as error:
            print(error)  # -1 does not fit into UInt64
    """


class UInt128(_Fixed, width_bytes=16, signed=False):
    """An unsigned integer of 128 bits.

    ::

        import uuid

        robot = uuid.UUID("0189f7e5-3f5b-7c4e-8f0a-1b2c3d4e5f60")
        payload = ext.z_serialize(ext.UInt128(robot.int))
        print(uuid.UUID(int=ext.z_deserialize(ext.UInt128, payload)) == robot)  # True
    """


class Float32(float):
    """A floating-point number of 32 bits.

    ::

        payload = ext.z_serialize(ext.Float32(0.1))
        print(len(payload), ext.z_deserialize(ext.Float32, payload))  # 4 0.10000000149011612
    """


class Float64(float):
    """A floating-point number of 64 bits; also the form of a plain ``float``.

    ::

        print(ext.z_serialize(ext.Float64(0.1)) == ext.z_serialize(0.1))  # True
    """


def z_serialize(obj: Any) -> ZBytes:  # noqa: ANN401 - the table above says which types
    """Serialize a value.

    Raises:
        TypeError: The value, or a part of it, has no form.
        ValueError: The items of a collection are of several types.
        OverflowError: A plain ``int`` does not fit into 32 bits, or a ``Float32`` is too large.
    """
    out = bytearray()
    _write(out, obj)
    return ZBytes(out)


def _write(out: bytearray, obj: Any) -> None:  # noqa: ANN401
    if isinstance(obj, bool):
        out.append(obj)
    elif isinstance(obj, _Fixed):
        out += obj.to_bytes(obj.width_bytes, "little", signed=obj.signed)
    elif isinstance(obj, int):
        out += obj.to_bytes(4, "little", signed=True)
    elif isinstance(obj, float):
        out += struct.pack("<f" if isinstance(obj, Float32) else "<d", obj)
    elif isinstance(obj, str):
        _write_bytes(out, obj.encode())
    elif isinstance(obj, bytes | bytearray | ZBytes):
        _write_bytes(out, bytes(obj))
    elif isinstance(obj, tuple):
        for item in obj:
            _write(out, item)
    elif isinstance(obj, list | set | frozenset):
        _one_type(obj)
        _write_length(out, len(obj))
        for item in obj:
            _write(out, item)
    elif isinstance(obj, dict):
        _one_type(obj.keys())
        _one_type(obj.values())
        _write_length(out, len(obj))
        for key, value in obj.items():
            _write(out, key)
            _write(out, value)
    else:
        raise TypeError(f"{type(obj).__name__} has no serialized form")


def _one_type(items: Any) -> None:  # noqa: ANN401 - any collection
    if len({type(item) for item in items}) > 1:
        raise ValueError("all items of a collection must have the same type")


def _write_bytes(out: bytearray, content: bytes) -> None:
    _write_length(out, len(content))
    out += content


def _write_length(out: bytearray, length: int) -> None:
    while length >= 0x80:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    out.append(length)


def z_deserialize(tp: type[_T], zbytes: ZBytes) -> _T:
    """Deserialize a value of a type, such as ``int``, ``dict[str, UInt16]`` or ``tuple[str, list[float]]``.

    Surplus bytes at the end are ignored, as in other implementations.

    Raises:
        ZDeserializeError: The bytes are not a value of that type.
        TypeError: The type, or a part of it, has no form.
        ValueError: A collection type does not name the type of its items.
        StalePayload: The payload was borrowed, and its sender has taken it back.
    """
    value: _T = _read(_Reader(memoryview(ZBytes(zbytes))), tp)
    return value


class _Reader:
    """Takes bytes from the front, with a check of the length."""

    __slots__ = ("at", "view")

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.at = 0

    def fail(self, reading: str, problem: str) -> ZDeserializeError:
        return ZDeserializeError(f"{reading}: {problem} (at byte {self.at})", reading=reading, offset=self.at)

    def take(self, count: int, reading: str) -> memoryview:
        left = len(self.view) - self.at
        if count > left:
            raise self.fail(reading, f"{count} bytes wanted, {left} left")
        part = self.view[self.at : self.at + count]
        self.at += count
        return part

    def length(self, reading: str) -> int:
        length = 0
        for index in range(_MAX_LENGTH_BYTES):
            byte = self.take(1, reading)[0]
            length |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if length >> 64:
                    break
                return length
        raise self.fail(reading, "a length has at most 64 bits")

    def content(self, reading: str) -> memoryview:
        return self.take(self.length(reading), reading)

    def items(self, reading: str, read: Callable[[], _T]) -> list[_T]:
        """Read items one by one, so that a falsely claimed number allocates no memory."""
        count = self.length(reading)
        items = []
        for index in range(count):
            before = self.at
            items.append(read())
            if self.at == before and index >= _MAX_EMPTY_ITEMS:
                raise self.fail(reading, f"more than {_MAX_EMPTY_ITEMS} items without bytes")
        return items


def _read(reader: _Reader, tp: Any) -> Any:  # noqa: ANN401 - a value of the type
    origin = get_origin(tp)
    if origin is None:
        return _read_plain(reader, tp)
    arguments = get_args(tp)
    if origin is tuple:
        if Ellipsis in arguments:
            raise TypeError("a tuple must say how many items it has")
        return tuple(_read(reader, item) for item in arguments)
    if origin in (list, set, frozenset):
        return origin(reader.items(origin.__name__, lambda: _read(reader, arguments[0])))
    if origin is dict:
        key, value = arguments
        return dict(reader.items("dict", lambda: (_read(reader, key), _read(reader, value))))
    raise TypeError(f"{tp} has no serialized form")


def _read_plain(reader: _Reader, tp: Any) -> Any:  # noqa: ANN401 - a value of the type
    if not isinstance(tp, type):
        raise TypeError(f"{tp} has no serialized form")
    name = tp.__name__
    if tp is bool:
        byte = reader.take(1, name)[0]
        if byte > 1:
            raise reader.fail(name, f"{byte} is neither 0 nor 1")
        return byte == 1
    if issubclass(tp, _Fixed):
        return tp(int.from_bytes(reader.take(tp.width_bytes, name), "little", signed=tp.signed))
    if tp is int:
        return int.from_bytes(reader.take(4, name), "little", signed=True)
    if tp is Float32:
        return tp(struct.unpack("<f", reader.take(4, name))[0])
    if tp in (float, Float64):
        return tp(struct.unpack("<d", reader.take(8, name))[0])
    if tp is str:
        content = reader.content(name)
        try:
            return str(content, "utf-8")
        except UnicodeDecodeError as error:
            raise reader.fail(name, str(error)) from error
    if tp in (bytes, bytearray, ZBytes):
        return tp(reader.content(name))
    if tp in (list, set, frozenset, dict, tuple):
        raise ValueError(f"{name} must say what its items are, such as {name}[int]")
    raise TypeError(f"{name} has no serialized form")
