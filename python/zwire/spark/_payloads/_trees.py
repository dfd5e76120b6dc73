"""JSON, CBOR and MessagePack: maps become columns, by the rules that ``zwire.typed`` reads models with."""

from __future__ import annotations

from datetime import date, datetime
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, cast

from zwire.spark._types import types
from zwire.typed._formats import CODECS
from zwire.typed._tree import Converter, Misfit, Wire, scalars, wanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType, DecimalType, StructType

    from zwire.typed._formats import CborCodec, JsonCodec, MsgpackCodec

    Step = Callable[[Any], Any]

NAMES = ("json", "cbor", "msgpack")

_WHOLE = {"ByteType": 8, "ShortType": 16, "IntegerType": 32, "LongType": 64}

_PYTHON = {
    "StringType": str,
    "BinaryType": bytes,
    "BooleanType": bool,
    "FloatType": float,
    "DoubleType": float,
    "DateType": date,
    "TimestampType": datetime,
    "TimestampNTZType": datetime,
}


def codec(name: str) -> JsonCodec | CborCodec | MsgpackCodec:
    """Return the codec of a format of trees."""
    (found,) = (codec for codec in CODECS if codec.name == name)
    return cast("JsonCodec | CborCodec | MsgpackCodec", found)


def shape(*, free_keys: bool) -> Converter:
    """Return the shape of models for the codecs; ``free_keys`` allows keys of maps other than texts."""
    return Converter(lambda tree: tree, lambda tree: tree, (), free_keys=free_keys)


def tree_reader(name: str, schema: StructType) -> Callable[[bytes], list[Any]]:
    """Return a reader of a payload as values of columns; fields not in the schema are left out."""
    made = codec(name)
    asked = shape(free_keys=_has_free_keys(schema))
    # Without the library of the format this names the extra.
    made.read(b"0" if name == "json" else b"\x00", asked)  # type: ignore[arg-type]  # any buffer will do
    load = _columns(schema, made.wire)
    return lambda payload: load(made.read(payload, asked))  # type: ignore[arg-type]  # any buffer will do


def _has_free_keys(kind: DataType) -> bool:
    if isinstance(kind, types.MapType):
        return not isinstance(kind.keyType, types.StringType) or _has_free_keys(kind.valueType)
    if isinstance(kind, types.ArrayType):
        return _has_free_keys(kind.elementType)
    if isinstance(kind, types.StructType):
        return any(_has_free_keys(field.dataType) for field in kind)
    return False


def _columns(schema: StructType, wire: Wire) -> Callable[[Any], list[Any]]:
    steps = [(field.name, _step(field.dataType, wire)) for field in schema]

    def load(tree: Any) -> list[Any]:  # noqa: ANN401 - whatever the payload holds
        if type(tree) is not dict:
            raise wanted("map", tree)
        values = []
        for name, step in steps:
            value = tree.get(name)
            if value is not None:
                try:
                    value = step(value)
                except Misfit as error:
                    error.steps.append(name)
                    raise
            values.append(value)
        return values

    return load


def _step(kind: DataType, wire: Wire) -> Step:
    """Return a function that converts a non-null value of a type for Arrow."""
    if isinstance(kind, types.StructType):
        names, load = kind.fieldNames(), _columns(kind, wire)
        return lambda tree: dict(zip(names, load(tree), strict=True))
    if isinstance(kind, types.ArrayType):
        return _array(_step(kind.elementType, wire))
    if isinstance(kind, types.MapType):
        return _map(_key(kind.keyType, wire), _step(kind.valueType, wire))
    if isinstance(kind, types.DecimalType):
        return _decimal(kind, scalars(wire)[Decimal].load)
    name = type(kind).__name__
    if name in _WHOLE:
        return _whole(_WHOLE[name], kind.simpleString())
    return scalars(wire)[_PYTHON[name]].load


def _whole(bits: int, name: str) -> Step:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def load(value: Any) -> int:  # noqa: ANN401 - whatever the payload holds
        if type(value) is not int:
            raise wanted("int", value)
        if not low <= value <= high:
            raise Misfit(f"{str(value)[:40]} is beyond {name}")
        return value

    return load


def _decimal(kind: DecimalType, load: Step) -> Step:
    unit = Decimal(1).scaleb(-kind.scale)

    def exact(value: Any) -> Decimal:  # noqa: ANN401 - whatever the payload holds
        number = load(value)
        try:
            found: Decimal = number.quantize(unit, ROUND_HALF_EVEN)
        except InvalidOperation:
            found = Decimal("NaN")
        if not found.is_finite() or len(found.as_tuple().digits) > kind.precision:
            raise Misfit(f"{str(value)[:40]} is beyond {kind.simpleString()}")
        return found

    return exact


def _array(step: Step) -> Step:
    def load(value: Any) -> list[Any]:  # noqa: ANN401 - whatever the payload holds
        if type(value) is not list:
            raise wanted("list", value)
        made = []
        for number, item in enumerate(value):
            try:
                made.append(None if item is None else step(item))
            except Misfit as error:
                error.steps.append(number)
                raise
        return made

    return load


def _map(key_step: Step, step: Step) -> Step:
    def load(value: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401 - whatever the payload holds
        if type(value) is not dict:
            raise wanted("map", value)
        made = []
        for key, item in value.items():
            try:
                made.append((key_step(key), None if item is None else step(item)))
            except Misfit as error:
                error.steps.append(str(key)[:40])
                raise
        return made

    return load


def _key(kind: DataType, wire: Wire) -> Step:
    """Return the step that reads keys; in a format with text keys, numbers are parsed from the texts."""
    name = type(kind).__name__
    step = _step(kind, wire)
    if not wire.text_keys or name not in _WHOLE:
        return step

    def load(value: Any) -> Any:  # noqa: ANN401 - whatever the payload holds
        try:
            return step(int(value))
        except ValueError:
            raise Misfit(f"{value[:40]!r} is no whole number") from None

    return load
