"""Values as rows of Arrow: the schema of a model, and tables of received values."""

from __future__ import annotations

import dataclasses
import types
import typing
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from zwire.typed import _shape
from zwire.typed._arrow import is_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from zwire.typed._pubsub import Message


class _Column(NamedTuple):
    """The Arrow type for a type, and the conversion of its values for pyarrow."""

    type: Any
    convert: Callable[[Any], Any] | None = None
    nullable: bool = False


def arrow_schema(model: Any) -> pa.Schema:  # noqa: ANN401 - any model
    """Return the Arrow schema of a model with named fields: a column for each.

    ============================  ========================================================
    field                         column
    ============================  ========================================================
    ``bool``, ``int``, ``float``  ``bool``, ``int64``, ``double``
    ``str``, ``bytes``            ``string``, ``binary``
    ``datetime``                  ``timestamp[us, UTC]``; one without a zone counts as UTC
    ``date``, ``time``            ``date32``, ``time64[us]``
    ``timedelta``                 ``duration[us]``
    ``Decimal``, ``UUID``         ``string``
    ``Enum``, ``Literal``         that of their values
    ``list``, ``set``, ...        ``list``
    ``dict``                      ``map``
    a model                       ``struct``
    ``X | None``                  that of ``X``, which may be null
    ============================  ========================================================

    Raises:
        TypeError: The model has no named fields, or one of them no column.
    """
    import pyarrow as pa

    column = _column(model)
    if not pa.types.is_struct(column.type):
        raise TypeError(f"{getattr(model, '__name__', model)} has no named fields")
    return pa.schema(list(column.type))


def rows_of(model: Any) -> Callable[[Any], Any]:  # noqa: ANN401
    """Return a function that turns a value of a model into a row, by name."""
    convert = _column(model).convert
    if convert is None:
        raise TypeError(f"{getattr(model, '__name__', model)} has no named fields")
    return convert


def table(model: Any, messages: Sequence[Message[Any]], key: str | None, timestamp: str | None) -> pa.Table:  # noqa: ANN401
    """Make a table of the values of messages, with the columns for keys and times in front."""
    import pyarrow as pa

    values = [message.value for message in messages]
    if is_arrow(model):
        tables = [pa.Table.from_batches([v]) if isinstance(v, pa.RecordBatch) else v for v in values]
        return pa.concat_tables(tables) if tables else pa.table({})
    convert = rows_of(model)
    made = pa.Table.from_pylist([convert(value) for value in values], schema=arrow_schema(model))
    if timestamp is not None:
        times = [None if m.timestamp is None else m.timestamp.get_time() for m in messages]
        made = made.add_column(0, timestamp, pa.array(times, pa.timestamp("us", "UTC")))
    if key is not None:
        made = made.add_column(0, key, pa.array([str(m.key_expr) for m in messages], pa.string()))
    return made


@lru_cache(maxsize=1024)
def _column(tp: Any) -> _Column:  # noqa: ANN401
    return _find(tp, ())


def _find(tp: Any, around: tuple[Any, ...]) -> _Column:  # noqa: ANN401
    import pyarrow as pa

    plain = _plain()
    if tp in plain:
        return plain[tp]
    origin, arguments = typing.get_origin(tp), typing.get_args(tp)
    if origin is typing.Annotated:
        return _find(arguments[0], around)
    if isinstance(tp, typing.NewType):
        return _find(tp.__supertype__, around)
    if origin in (typing.Union, types.UnionType):
        others = [member for member in arguments if member is not type(None)]
        if len(others) == 1:
            inner = _find(others[0], around)
            return _Column(inner.type, _maybe(inner.convert), nullable=True)
    if origin is typing.Literal:
        return _values(arguments, tp)
    if isinstance(tp, type) and origin is None:
        if issubclass(tp, Enum):
            values = _values([member.value for member in tp], tp)
            return _Column(values.type, lambda member: member.value)
        fields = _fields(tp)
        if fields is not None:
            if tp in around:
                raise TypeError(f"{tp.__name__} contains itself, which no column can")
            return _struct(tp, fields, (*around, tp))
    uniform = origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis
    if uniform or origin in _shape.LISTS:
        item = _find(arguments[0], around)
        each = item.convert
        element = pa.field("item", item.type, nullable=item.nullable)
        return _Column(pa.list_(element), list if each is None else lambda values: [each(v) for v in values])
    if origin in _shape.MAPS:
        key, value = (_find(part, around) for part in arguments)
        of_key, of_value = key.convert or _same, value.convert or _same
        kind = pa.map_(key.type, pa.field("value", value.type, nullable=value.nullable))
        return _Column(kind, lambda items: [(of_key(k), of_value(v)) for k, v in items.items()])
    raise TypeError(f"{getattr(tp, '__name__', tp)} has no column in Arrow")


@lru_cache(maxsize=1)
def _plain() -> dict[Any, _Column]:
    import pyarrow as pa

    return {
        bool: _Column(pa.bool_()),
        int: _Column(pa.int64()),
        float: _Column(pa.float64()),
        str: _Column(pa.string()),
        bytes: _Column(pa.binary()),
        bytearray: _Column(pa.binary(), bytes),
        datetime: _Column(pa.timestamp("us", "UTC")),
        date: _Column(pa.date32()),
        time: _Column(pa.time64("us")),
        timedelta: _Column(pa.duration("us")),
        Decimal: _Column(pa.string(), str),
        UUID: _Column(pa.string(), str),
    }


def _fields(cls: Any) -> list[str] | None:  # noqa: ANN401
    """List the names of the fields of a model; ``None`` if it has none."""
    if _shape.is_struct(cls):
        return list(cls.__struct_fields__)
    if dataclasses.is_dataclass(cls):
        return _shape.init_fields(cls)
    if _shape.is_pydantic(cls):
        return list(cls.model_fields)
    if _shape.is_typed_dict(cls):
        return list(cls.__annotations__)
    return list(cls._fields) if issubclass(cls, tuple) and hasattr(cls, "_fields") else None


def _struct(cls: Any, names: Iterable[str], around: tuple[Any, ...]) -> _Column:  # noqa: ANN401
    import pyarrow as pa

    hints = typing.get_type_hints(cls)
    columns = {name: _find(hints[name], around) for name in names}
    by_key = _shape.is_typed_dict(cls)
    optional = cls.__optional_keys__ if by_key else ()
    fields = [
        pa.field(name, column.type, nullable=column.nullable or name in optional)
        for name, column in columns.items()
    ]

    def convert(value: Any) -> dict[str, Any]:  # noqa: ANN401
        row = {}
        for name, column in columns.items():
            part = value.get(name) if by_key else getattr(value, name)
            row[name] = part if column.convert is None or part is None else column.convert(part)
        return row

    return _Column(pa.struct(fields), convert)


def _values(values: Iterable[Any], tp: Any) -> _Column:  # noqa: ANN401
    kinds = {type(value) for value in values}
    (kind,) = kinds if len(kinds) == 1 else (None,)
    if kind not in (str, int, float, bool):
        raise TypeError(f"{getattr(tp, '__name__', tp)} has values of several kinds, or none, and no column")
    return _plain()[kind]


def _maybe(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:  # noqa: ANN401
    return value
