"""Messages as CDR and back, by the kernel: the plan of a type, and the conversion of arrays to octets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from zwire._lazy import library
from zwire._zwire import CdrColumns, CdrPlan
from zwire.ros2._definitions import Primitive, Record, Several, Text
from zwire.ros2._messages import DTYPES, attribute, class_of, lazy_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zwire.ros2._definitions import Kind

    # Name; kind, and its bound or place; how many, and the number or bound.
    Described: TypeAlias = tuple[str, str, int, str, int]

_CODES = "?bBhHiIqQfd"
"""Codes of numbers in the order of the kernel."""


def plan_of(record: Record) -> CdrPlan:
    """Return the plan of a type.

    Raises:
        ImportError: numpy is not installed.
        ValueError: The type is too large.
    """
    np = library("numpy", "ros2")
    records, described = _described(record)
    classes = [class_of(each) for each in records]

    def dtypes(order: str) -> list[Any]:
        return [np.dtype(order + DTYPES[code]) for code in _CODES]

    def pack(value: Any, dtype: Any) -> Any:  # noqa: ANN401 - any array, and a type of numpy
        found = np.asarray(value)
        if found.dtype == dtype:
            made = np.ascontiguousarray(found)
        elif found.size == 0:
            made = np.empty(0, dtype)
        elif dtype.kind in "iub" and found.dtype.kind not in "iub":
            raise ValueError(f"an array of {found.dtype} is not one of {dtype}")
        else:
            made = np.ascontiguousarray(found, dtype)
            if dtype.kind in "iu" and not np.array_equal(made, found):
                raise ValueError(f"a number is beyond {dtype}")
        return made.reshape(-1).view("u1")

    return CdrPlan(
        described,
        [
            (cls, lazy_of(each), [attribute(name) for name, _ in each.fields])
            for each, cls in zip(records, classes, strict=True)
        ],
        np.frombuffer,
        pack,
        (
            [np.dtype(f"<{DTYPES[code]}") for code in _CODES],
            [np.dtype(f">{DTYPES[code]}") for code in _CODES],
        ),
    )


def columns_of(record: Record, names: list[str]) -> CdrColumns:
    """Return the decoder of payloads into columns of Arrow, for some fields of a type.

    Raises:
        ValueError: The type is too large.
    """
    places = {name: place for place, (name, _) in enumerate(record.fields)}
    return CdrColumns(_described(record)[1], [places[name] for name in names])


def _described(record: Record) -> tuple[list[Record], list[tuple[str, list[Described]]]]:
    """Return a type and those in it in the form that the kernel takes, inner ones first."""
    records = list(_inner_first(record))
    places = {each.name: place for place, each in enumerate(records)}
    fields = [[_field(name, kind, places) for name, kind in each.fields] for each in records]
    return records, [(each.name, found) for each, found in zip(records, fields, strict=True)]


def _inner_first(record: Record) -> Iterator[Record]:
    """Return a type and those in it, each behind those in itself."""
    waiting: list[tuple[Record, bool]] = [(record, False)]
    done: set[str] = set()
    while waiting:
        each, seen = waiting.pop()
        if each.name in done:
            continue
        if seen:
            done.add(each.name)
            yield each
            continue
        waiting.append((each, True))
        for _, kind in each.fields:
            inner = kind.item if isinstance(kind, Several) else kind
            if isinstance(inner, Record):
                waiting.append((inner, False))


def _field(name: str, kind: Kind, places: dict[str, int]) -> Described:
    """Return a field in the form that the kernel takes."""
    many, count = "1", 0
    if isinstance(kind, Several):
        many, count = ("v", kind.bound) if kind.length is None else ("a", kind.length)
        kind = kind.item
    match kind:
        case Primitive(code=code):
            return name, code, 0, many, count
        case Text(bound=bound):
            return name, "s", bound, many, count
        case Record(name=inner):
            return name, "r", places[inner], many, count
        case Several():
            raise TypeError("an array of arrays, which no definition has")
