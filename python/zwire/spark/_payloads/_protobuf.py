"""Protobuf: the fields of a message as columns, by its descriptor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from zwire._lazy import library
from zwire.spark._types import signed, type_of, types
from zwire.typed._tree import Misfit

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from pyspark.sql.types import DataType, StructType

    Step = Callable[[Any], Any]

_TIMESTAMP = "google.protobuf.Timestamp"

# Numbers of google.protobuf.FieldDescriptor.Type; unsigned ones are wider, or bit patterns of 64 bits.
_NAMES = {1: "double", 2: "float", 8: "boolean", 9: "string", 12: "binary", 14: "enum"}
_NAMES |= dict.fromkeys((3, 7, 13, 16, 18), "bigint") | dict.fromkeys((5, 15, 17), "int")
_NAMES |= dict.fromkeys((4, 6), "unsigned")
_GROUP, _MESSAGE = 10, 11
_MOST_DEPTH = 16


def descriptors(given: bytes | str | PathLike[str]) -> bytes:
    """Return a set of descriptors, as bytes or read from a file of ``protoc --include_imports -o FILE``."""
    return bytes(given) if isinstance(given, bytes | bytearray) else Path(given).read_bytes()


def message_class(name: str, described: bytes) -> Any:  # noqa: ANN401 - it is made at run time
    """Make the class of a message."""
    files = library("google.protobuf.descriptor_pb2", "codecs")
    pools = library("google.protobuf.descriptor_pool", "codecs")
    factory = library("google.protobuf.message_factory", "codecs")
    errors = library("google.protobuf.message", "codecs")
    try:
        listed = files.FileDescriptorSet.FromString(described)
    except errors.DecodeError as error:
        raise ValueError(f"this is no set of descriptors: {error}") from None
    pool = pools.DescriptorPool()
    try:
        for file in listed.file:
            pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
        return factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except (KeyError, TypeError) as error:
        names = sorted(f"{f.package}.{m.name}".strip(".") for f in listed.file for m in f.message_type)
        have = ", ".join(names)[:500]
        raise ValueError(f"the descriptors do not give {name!r} ({error}); they have {have}") from None


def schema_of(message: Any) -> StructType:  # noqa: ANN401 - a class that was made at run time
    """Return the columns of a message. Enums become their names; recursive messages stay bytes."""
    return _struct(message.DESCRIPTOR, ())


def message_reader(message: Any, names: list[str]) -> Callable[[bytes], list[Any]]:  # noqa: ANN401 - the same
    """Return a reader of a payload as the values of some columns."""
    errors = library("google.protobuf.message", "codecs")
    described = message.DESCRIPTOR
    steps = [_getter(described.fields_by_name[name], (described.full_name,)) for name in names]

    def read(payload: bytes) -> list[Any]:
        try:
            value = message.FromString(payload)
        except errors.DecodeError as error:
            raise Misfit(f"no {described.full_name}: {error}") from None
        return [step(value) for step in steps]

    return read


def _is_repeated(field: Any) -> bool:  # noqa: ANN401 - a descriptor
    # The label is deprecated, and its successor is not in all versions.
    found = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
    return bool(found)


def _is_map(field: Any) -> bool:  # noqa: ANN401 - a descriptor
    return bool(field.type == _MESSAGE and field.message_type.GetOptions().map_entry)


def _struct(described: Any, above: tuple[str, ...]) -> StructType:  # noqa: ANN401 - a descriptor
    inner = (*above, described.full_name)
    fields = [types.StructField(field.name, _type(field, inner)) for field in described.fields]
    if not fields:
        raise ValueError(f"{described.full_name} has no fields")
    return types.StructType(fields)


def _type(field: Any, above: tuple[str, ...]) -> DataType:  # noqa: ANN401 - a descriptor
    if _is_map(field):
        parts = field.message_type.fields_by_name
        return types.MapType(_single(parts["key"], above), _single(parts["value"], above))
    single = _single(field, above)
    return types.ArrayType(single) if _is_repeated(field) else single


def _stays_bytes(field: Any, above: tuple[str, ...]) -> bool:  # noqa: ANN401 - a descriptor
    """Whether a message stays bytes: it contains itself, or is empty."""
    kind = field.message_type
    return kind.full_name in above or len(above) >= _MOST_DEPTH or not kind.fields


def _single(field: Any, above: tuple[str, ...]) -> DataType:  # noqa: ANN401 - a descriptor
    if field.type in (_MESSAGE, _GROUP):
        if field.message_type.full_name == _TIMESTAMP:
            return types.TimestampType()
        if _stays_bytes(field, above):
            return types.BinaryType()
        return _struct(field.message_type, above)
    name = _NAMES[field.type]
    return type_of({"unsigned": "bigint", "enum": "string"}.get(name, name))


def _getter(field: Any, above: tuple[str, ...]) -> Step:  # noqa: ANN401 - a descriptor
    name = field.name
    if _is_map(field):
        parts = field.message_type.fields_by_name
        key, item = _value(parts["key"], above), _value(parts["value"], above)
        return lambda message: [(key(k), item(v)) for k, v in getattr(message, name).items()]
    value = _value(field, above)
    if _is_repeated(field):
        return lambda message: [value(each) for each in getattr(message, name)]
    if field.has_presence:
        return lambda message: value(getattr(message, name)) if message.HasField(name) else None
    return lambda message: value(getattr(message, name))


def _value(field: Any, above: tuple[str, ...]) -> Step:  # noqa: ANN401 - a descriptor
    """Return a function that converts a value for Arrow."""
    if field.type in (_MESSAGE, _GROUP):
        kind = field.message_type
        if kind.full_name == _TIMESTAMP:
            return _instant
        if _stays_bytes(field, above):
            return lambda message: message.SerializeToString()
        inner = (*above, kind.full_name)
        steps = [(each.name, _getter(each, inner)) for each in kind.fields]
        return lambda message: {name: step(message) for name, step in steps}
    form = _NAMES[field.type]
    if form == "enum":
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    if form == "unsigned":
        return signed
    return lambda value: value


def _instant(stamp: Any) -> int:  # noqa: ANN401 - a message that was made at run time
    """Return a timestamp in microseconds since 1970, as Arrow takes it."""
    return int(stamp.seconds) * 1_000_000 + int(stamp.nanos) // 1000
