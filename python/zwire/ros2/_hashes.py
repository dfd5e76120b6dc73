"""Hashes of types, ``RIHS01_`` and 64 digits: SHA-256 of their description as JSON (REP 2016)."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from zwire.ros2._definitions import Primitive, Record, Several, Text, nested

if TYPE_CHECKING:
    from zwire.ros2._definitions import Kind

# Numbers of types (type_description_interfaces/msg/FieldType), by the codes of the module struct. A char of a
# .msg file is described as a uint8: the hash of AddTwoInts, whose event has chars, shows it.
_NUMBERS = {"b": 2, "B": 3, "h": 4, "H": 5, "i": 6, "I": 7, "q": 8, "Q": 9, "f": 10, "d": 11, "?": 15}
_BYTE, _TEXT, _BOUNDED_TEXT = 16, 17, 21
# Added to the number of the items' type.
_ARRAY, _BOUNDED, _SEQUENCE = 48, 96, 144


def hash_of(record: Record) -> str:
    """Return the hash of a type."""
    others = nested([record])
    described = _described(others.pop(record.name))
    rest = [_described(others[name]) for name in sorted(others)]
    text = json.dumps({"type_description": described, "referenced_type_descriptions": rest})
    return f"RIHS01_{sha256(text.encode()).hexdigest()}"


def _described(record: Record) -> dict[str, Any]:
    fields = [{"name": name, "type": _field(kind)} for name, kind in record.fields]
    return {"type_name": record.name, "fields": fields}


def _field(kind: Kind) -> dict[str, Any]:
    number = capacity = most = 0
    within = ""
    if isinstance(kind, Several):
        capacity = kind.length or kind.bound
        number = _ARRAY if kind.length is not None else _BOUNDED if kind.bound else _SEQUENCE
        kind = kind.item
    match kind:
        case Primitive(code=code, name=name):
            number += _BYTE if name == "byte" else _NUMBERS[code]
        case Text(bound=most):
            number += _BOUNDED_TEXT if most else _TEXT
        case Record(name=within):
            number += 1
        case Several():
            raise TypeError("an array of arrays, which no definition has")
    return {"type_id": number, "capacity": capacity, "string_capacity": most, "nested_type_name": within}
