"""Messages as plain values, as the command line and YAML have them, and definitions as texts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from zwire.errors import InvalidValue
from zwire.ros2._definitions import CODES, Kind, Primitive, Record, Several, Text, nested, short
from zwire.ros2._messages import Message

_NAMES: Final = {code: name for name, code in CODES.items() if name not in {"byte", "char"}}
_LINE: Final = "=" * 80


def plain(message: Message, most: int | None = None) -> dict[str, Any]:
    """Return a message as a dict of plain values.

    Args:
        message: The message.
        most: Items of an array that are shown, characters of a text; all if left out.
    """
    return {name: _shown(getattr(message, name), most) for name, _ in message._defaults}  # noqa: SLF001


def _shown(value: Any, most: int | None) -> Any:  # noqa: ANN401 - any value of a field
    if isinstance(value, Message):
        return plain(value, most)
    if isinstance(value, str):
        return value if most is None or len(value) <= most else f"{value[:most]}..."
    if not hasattr(value, "__len__"):
        return value
    items = value if most is None else value[:most]
    shown = items.tolist() if hasattr(items, "tolist") else [_shown(item, most) for item in items]
    return shown if len(items) == len(value) else [*shown, f"... of {len(value)}"]


def fill(message: Message, values: Mapping[str, Any]) -> Message:
    """Set fields of a message, and of those in it, from plain values; return it.

    Raises:
        InvalidValue: A name is no field, or a value none of its field.
    """
    if not isinstance(values, Mapping):
        raise InvalidValue(f"{message.__msgtype__}: expected fields with values, not {values!r}")
    known = dict(message._defaults)  # noqa: SLF001 - its fields
    for name, value in values.items():
        if name not in known:
            raise InvalidValue(f"{message.__msgtype__} has no field {name!r}; it has {', '.join(known)}")
        old = getattr(message, name)
        inner = get_args(type(message).__annotations__[name])
        if isinstance(old, Message):
            fill(old, value)
        elif isinstance(old, list) and inner and isinstance(inner[0], type) and issubclass(inner[0], Message):
            setattr(message, name, [fill(inner[0](), item) for item in value])
        else:
            setattr(message, name, _converted(old, value))
    return message


def _converted(old: Any, value: Any) -> Any:  # noqa: ANN401 - values of a field
    """Return a value in the type of the field's default: YAML reads 1 where a float is meant."""
    if isinstance(old, float) and isinstance(value, int):
        return float(value)
    if isinstance(old, str) and isinstance(value, int | float):
        return str(value)
    return value


def definition(record: Record) -> str:
    """Return the definition of a type with those of the types in it, as MCAP has it (``ros2msg``)."""
    others = nested([record])
    del others[record.name]
    texts = ["\n".join(_lines(record))]
    texts += ["\n".join([_LINE, f"MSG: {short(name)}", *_lines(others[name])]) for name in sorted(others)]
    return "\n".join(texts) + "\n"


def _lines(record: Record) -> Iterator[str]:
    given = dict(record.defaults)
    for name, value in record.constants:
        yield f"{_constant(value)} {name}={value if isinstance(value, str) else _literal(value)}"
    for name, kind in record.fields:
        if name == "structure_needs_at_least_one_member":
            continue
        yield f"{_type(kind)} {name}{f' {_literal(given[name])}' if name in given else ''}"


def _type(kind: Kind) -> str:
    match kind:
        case Primitive(code=code, name=name):
            return name or _NAMES[code]
        case Text(bound=bound):
            return f"string<={bound}" if bound else "string"
        case Several(item=item, length=length, bound=bound):
            count = length if length is not None else f"<={bound}" if bound else ""
            return f"{_type(item)}[{count}]"
        case Record(name=name):
            return short(name)


def _constant(value: Any) -> str:  # noqa: ANN401 - of a constant
    """Return a type that has a value; that in the definition is not kept, and no payload depends on it."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "uint64" if value >= 1 << 63 else "int64"
    return "float64" if isinstance(value, float) else "string"


def _literal(value: Any) -> str:  # noqa: ANN401 - of a default
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else repr(value)
    return "[" + ", ".join(_literal(item) for item in itertools.islice(value, None)) + "]"
