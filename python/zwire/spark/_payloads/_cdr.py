"""Plain CDR (XCDR1), as ROS 2 and DDS send it: values of a type that both sides know.

A header of four octets gives the byte order. Each number is aligned to a multiple of its size, counted from
behind the header::

    00 01 00 00 | int32 sec | uint32 nanosec | uint32 length, text, 0 | pad | float64 x ...
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import TYPE_CHECKING, Any

from zwire.spark._payloads._msg import Primitive, Record, Several, Text
from zwire.spark._types import signed
from zwire.typed._tree import Misfit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zwire.spark._payloads._msg import Kind

_ORDERS = {0: ">", 1: "<"}
_SIZES = {code: struct.calcsize(f"={code}") for code in "?bBhHiIqQfd"}

_RUN = 256
"""Most numbers read in one call; longer fixed arrays are read like sequences."""

_PADDING = 3
"""Octets that may follow the last value: some writers fill up to a multiple of four."""


class _Cursor:
    __slots__ = ("at", "data", "order")

    def __init__(self, data: bytes, order: str) -> None:
        self.data = data
        self.order = order
        self.at = 0

    def count(self) -> int:
        """Read the number of items that follow; each of them has at least one octet."""
        at = (self.at + 3) & ~3
        try:
            (number,) = struct.unpack_from(f"{self.order}I", self.data, at)
        except struct.error:
            raise self.short() from None
        self.at = at + 4
        if number > len(self.data) - self.at:
            raise Misfit(f"{number} items or octets are announced, {len(self.data) - self.at} left", at + 4)
        return int(number)

    def short(self) -> Misfit:
        return Misfit("the payload ends early", len(self.data) + 4)


if TYPE_CHECKING:
    # A step reads at the cursor, and appends to a flat list.
    Step = Callable[[_Cursor, list[Any]], None]
    # A builder takes the parts of a type from that list.
    Build = Callable[[Iterator[Any]], Any]


def cdr_reader(record: Record, names: list[str]) -> Callable[[bytes], list[Any]]:
    """Return a reader of a payload as the values of some columns."""
    steps = _steps(record)
    builds = [_build(kind) for _, kind in record.fields]
    places = [next(at for at, (field, _) in enumerate(record.fields) if field == name) for name in names]

    def read(payload: bytes) -> list[Any]:
        if len(payload) < 4:
            raise Misfit(f"a payload of {len(payload)} octets has no header of CDR")
        order = _ORDERS.get(int.from_bytes(payload[:2], "big"))
        if order is None:
            raise Misfit(f"{payload[:2].hex()} is no header of plain CDR", 0)
        cursor = _Cursor(payload[4:], order)
        flat: list[Any] = []
        for step in steps:
            step(cursor, flat)
        rest = len(cursor.data) - cursor.at
        if rest > _PADDING:
            raise Misfit(f"{rest} octets after the end: is it of another type?", cursor.at + 4)
        coming = iter(flat)
        values = [build(coming) for build in builds]
        return [values[place] for place in places]

    return read


def _steps(record: Record) -> list[Step]:
    """Return the steps; adjacent numbers, also of different structures, are read in one call."""
    steps: list[Step] = []
    codes = ""
    for part in _parts(record):
        if isinstance(part, str):
            codes += part
            continue
        if codes:
            steps.append(_run(codes))
            codes = ""
        steps.append(_text if isinstance(part, Text) else _several(part))
    return [*steps, _run(codes)] if codes else steps


def _parts(kind: Kind) -> Iterator[str | Text | Several]:
    match kind:
        case Primitive(code=code):
            yield code
        case Several(item=Primitive(code=code), length=int() as length) if length <= _RUN and code != "B":
            yield code * length
        case Record(fields=fields):
            for _, field in fields:
                yield from _parts(field)
        case _:
            yield kind


def _run(codes: str) -> Step:
    """Read some numbers. Their alignment depends on where they begin: eight cases."""
    layouts = {order: [_layout(order, codes, start) for start in range(8)] for order in "<>"}
    unsigned = [place for place, code in enumerate(codes) if code == "Q"]

    def step(cursor: _Cursor, out: list[Any]) -> None:
        layout = layouts[cursor.order][cursor.at & 7]
        try:
            values = list(layout.unpack_from(cursor.data, cursor.at))
        except struct.error:
            raise cursor.short() from None
        cursor.at += layout.size
        for place in unsigned:
            values[place] = signed(values[place])
        out.extend(values)

    return step


def _layout(order: str, codes: str, start: int) -> struct.Struct:
    text, at = order, start
    for code in codes:
        pad = -at % _SIZES[code]
        text += "x" * pad + code
        at += pad + _SIZES[code]
    return struct.Struct(text)


def _text(cursor: _Cursor, out: list[Any]) -> None:
    size = cursor.count()
    octets = cursor.data[cursor.at : cursor.at + size]
    try:
        out.append(octets.removesuffix(b"\0").decode())
    except UnicodeDecodeError as error:
        raise Misfit(f"no UTF-8: {error.reason}", cursor.at + 4 + error.start) from None
    cursor.at += size


def _several(kind: Several) -> Step:
    if isinstance(kind.item, Primitive):
        return _numbers(kind.item.code, kind.length)
    inner = Record("", (("", kind.item),))
    steps, build = _steps(inner), _build(kind.item)

    def step(cursor: _Cursor, out: list[Any]) -> None:
        count = cursor.count() if kind.length is None else kind.length
        items = []
        for _ in range(count):
            flat: list[Any] = []
            for each in steps:
                each(cursor, flat)
            items.append(build(iter(flat)))
        out.append(items)

    return step


def _numbers(code: str, length: int | None) -> Step:
    size = _SIZES[code]

    def step(cursor: _Cursor, out: list[Any]) -> None:
        count = cursor.count() if length is None else length
        if not count:
            # Types without alignment.
            out.append(b"" if code == "B" else [])
            return
        at = cursor.at + -cursor.at % size
        end = at + count * size
        if end > len(cursor.data):
            raise cursor.short()
        cursor.at = end
        if code == "B":
            out.append(cursor.data[at:end])
            return
        values = struct.unpack_from(f"{cursor.order}{count}{code}", cursor.data, at)
        out.append([signed(value) for value in values] if code == "Q" else list(values))

    return step


def _build(kind: Kind) -> Build:
    match kind:
        case Record(fields=fields):
            parts = [(name, _build(field)) for name, field in fields]
            return lambda flat: {name: build(flat) for name, build in parts}
        case Several(item=Primitive(code=code), length=int() as length) if length <= _RUN and code != "B":
            return lambda flat: list(islice(flat, length))
        case _:
            return next
