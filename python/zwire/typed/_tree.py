"""Values of models as trees of plain values, and back: common to JSON, CBOR and MessagePack.

A tree is made of ``None``, ``bool``, ``int``, ``float``, ``str``, ``list``, ``dict``, and of types for which
a wire has a form of its own. The conversion of a type is built once for each wire, at the declaration; a type
without a form is a ``TypeError`` there, not at the first message.
"""

from __future__ import annotations

import base64
import binascii
import math
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_DEPTH = 100
"""Levels of a tree from a peer. Far more than data has, and far less than the recursion limit: decoded trees
can be compared, copied and printed."""

_NAMES = {"NoneType": "null", "str": "text", "dict": "map"}


class Misfit(Exception):  # noqa: N818 - it says what happened
    """A value that does not fit; each enclosing level prepends its part of the place to ``path``."""

    def __init__(self, problem: str, offset: int | None = None, *, steps: Iterable[str | int] = ()) -> None:
        """Keep the problem, with the offset of its byte and the innermost steps to its place, if known."""
        super().__init__(problem)
        self.problem = problem
        self.offset = offset
        self.steps = list(steps)

    @property
    def path(self) -> str | None:
        """The place as text, ``a.b[3]``."""
        text = "".join(
            f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(self.steps)
        ).removeprefix(".")
        return text[:200] or None


@dataclass(frozen=True)
class Wire:
    """The types for which a format has forms of its own."""

    name: str
    native: frozenset[type] = frozenset()
    text_keys: bool = False
    """Whether keys of maps are texts, regardless of the model."""
    finite: bool = False
    """Whether NaN and the infinities have no form."""
    int_bits: int | None = None
    """Largest number of bits of an integer; larger ones have no form."""


JSON = Wire("JSON", text_keys=True, finite=True)
CBOR = Wire("CBOR", frozenset({bytes, datetime, Decimal, UUID}))
MSGPACK = Wire("MessagePack", frozenset({bytes, datetime}), int_bits=64)

_PLAIN = frozenset({type(None), bool, int, float, str, list, dict})
_PLAIN_KEYS = frozenset({str, bytes, int, UUID})

Step: TypeAlias = "Callable[[Any], Any]"


@dataclass(eq=False)
class Converter:
    """Conversion of values of one type: from trees by ``load``, to trees by ``dump``.

    Both raise :class:`Misfit`. ``kinds`` names the types of plain values that ``load`` accepts, its own
    first.
    """

    load: Step
    dump: Step
    kinds: tuple[str, ...]
    tags: dict[str, frozenset[Any]] = field(default_factory=dict)
    """For a map with fixed names: the values of the fields that are a ``Literal``."""
    free_keys: bool = False
    """For a whole model: whether some of its maps have keys other than texts."""
    closed: bool = False
    """For a whole model: whether the type of every part is declared, which bounds the depth."""


def kind(value: object) -> str:
    """Name the type of a value in the terms of the formats."""
    name = type(value).__name__
    return _NAMES.get(name, name)


def instance(value: Any, cls: Any) -> Any:  # noqa: ANN401
    """Return the value if it is an instance of the class.

    Raises:
        Misfit: It is none.
    """
    if not isinstance(value, cls):
        raise wanted(cls.__name__, value)
    return value


def wanted(what: str, value: object) -> Misfit:
    """Make the error for a value of another type than expected."""
    return Misfit(f"{what} expected, not {kind(value)}")


def each_of(step: Step, values: Iterable[Any]) -> list[Any]:
    """Convert each value; an error says which one it was."""
    out: list[Any] = []
    try:
        for value in values:
            out.append(step(value))  # noqa: PERF401 - the length says where it failed
    except Misfit as problem:
        problem.steps.append(len(out))
        raise
    return out


def named(parts: Iterable[tuple[str, Step, Any]]) -> dict[str, Any]:
    """Convert parts with names, each by its step; an error says which one it was."""
    out = {}
    name = ""
    try:
        for name, step, value in parts:
            out[name] = step(value)
    except Misfit as problem:
        problem.steps.append(name)
        raise
    return out


def check_tree(tree: Any, wire: Wire) -> None:  # noqa: ANN401 - any tree
    """Refuse trees nested too deeply, before any recursion, and values that fit no model."""
    plain = _PLAIN | wire.native
    level = [tree]
    for _ in range(MAX_DEPTH + 1):
        for cls in {type(node) for node in level} - plain:
            raise Misfit(f"a {cls.__name__} of {wire.name}, which no model has a place for")
        maps = [node for node in level if type(node) is dict]
        for cls in {type(key) for node in maps for key in node} - _PLAIN_KEYS:
            raise Misfit(f"a {cls.__name__} of {wire.name} as the key of a map")
        level = [child for node in level if type(node) is list for child in node]
        level += [child for node in maps for child in node.values()]
        if not level:
            return
    raise Misfit(f"nested more than {MAX_DEPTH} levels deep")


# ---- Scalars ----------------------------------------------------------------------------------------


def exactly(cls: type, what: str) -> Step:
    """Accept values of exactly that type; a bool is no int."""

    def same(value: Any) -> Any:  # noqa: ANN401 - a value of a tree
        if type(value) is cls:
            return value
        raise wanted(what, value)

    return same


def _load_float(value: Any) -> float:  # noqa: ANN401
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Misfit("a number beyond those of float") from None
    raise wanted("float", value)


def _dump_float(wire: Wire) -> Step:
    def dump(value: Any) -> float:  # noqa: ANN401
        # Scalars of numpy have __float__; texts do not.
        if isinstance(value, bool) or not hasattr(value, "__float__"):
            raise wanted("float", value)
        number = float(value)
        if wire.finite and not math.isfinite(number):
            raise Misfit(f"{number} has no form in {wire.name}")
        return number

    return dump


def _dump_int(wire: Wire) -> Step:
    bits = wire.int_bits

    def dump(value: Any) -> int:  # noqa: ANN401
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise wanted("int", value)
        number = int(value.__index__())
        if bits is not None and not -(1 << bits - 1) <= number < 1 << bits:
            raise Misfit(f"{number} has more than the {bits} bits of {wire.name}")
        return number

    return dump


def _dump_text(value: Any) -> str:  # noqa: ANN401
    if not isinstance(value, str):
        raise wanted("text", value)
    return str(value)


def _dump_bytes(value: Any) -> bytes:  # noqa: ANN401
    try:
        # Not through bytes(), which accepts an int as a length.
        return memoryview(value).tobytes()
    except TypeError:
        raise wanted("bytes", value) from None


def _dump_base64(value: Any) -> str:  # noqa: ANN401
    return base64.b64encode(_dump_bytes(value)).decode()


def _load_base64(value: Any) -> bytes:  # noqa: ANN401
    if type(value) is not str:
        raise wanted("text in base64", value)
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Misfit(f"no base64: {error}") from None


def _parsed(cls: type, parse: Callable[[str], Any], also: tuple[type, ...] = ()) -> Step:
    """Accept values of the type, and texts that parse as one."""

    def load(value: Any) -> Any:  # noqa: ANN401
        if type(value) is cls:
            return value
        if type(value) is str or type(value) in also:
            try:
                return parse(str(value))
            except (ValueError, InvalidOperation):
                raise Misfit(f"{str(value)[:40]!r} is no {cls.__name__}") from None
        raise wanted(cls.__name__, value)

    return load


def _written(cls: type, write: Callable[[Any], Any]) -> Step:
    return lambda value: write(instance(value, cls))


def _dump_instant(value: datetime) -> datetime | str:
    # A time without a zone is no instant, and only a text can represent it.
    return value.isoformat() if value.tzinfo is None else value


def _load_timedelta(value: Any) -> timedelta:  # noqa: ANN401
    try:
        return timedelta(seconds=_load_float(value))
    except (OverflowError, ValueError):
        raise Misfit(f"{value} seconds are no timedelta") from None


def _same(value: Any) -> Any:  # noqa: ANN401
    return value


def scalars(wire: Wire) -> dict[type, Converter]:
    """Return the converters of all scalar types."""
    by_type = {
        type(None): Converter(exactly(type(None), "null"), exactly(type(None), "null"), ("NoneType",)),
        bool: Converter(exactly(bool, "bool"), exactly(bool, "bool"), ("bool",)),
        int: Converter(exactly(int, "int"), _dump_int(wire), ("int",)),
        float: Converter(_load_float, _dump_float(wire), ("float", "int")),
        str: Converter(exactly(str, "text"), _dump_text, ("str",)),
        date: Converter(_parsed(date, date.fromisoformat), _written(date, date.isoformat), ("date", "str")),
        time: Converter(_parsed(time, time.fromisoformat), _written(time, time.isoformat), ("time", "str")),
        timedelta: Converter(_load_timedelta, _written(timedelta, timedelta.total_seconds), ("float", "int")),
    }
    write: Step = _dump_instant if datetime in wire.native else methodcaller("isoformat")
    load = _parsed(datetime, datetime.fromisoformat)
    by_type[datetime] = Converter(load, _written(datetime, write), ("datetime", "str"))
    write = _same if UUID in wire.native else str
    by_type[UUID] = Converter(_parsed(UUID, UUID), _written(UUID, write), ("UUID", "str"))
    write = _same if Decimal in wire.native else str
    # Other languages write a number for a decimal.
    load = _parsed(Decimal, Decimal, also=(int, float))
    by_type[Decimal] = Converter(load, _written(Decimal, write), ("Decimal", "str", "int", "float"))
    if bytes in wire.native:
        by_type[bytes] = Converter(exactly(bytes, "bytes"), _dump_bytes, ("bytes",))
    else:
        by_type[bytes] = Converter(_load_base64, _dump_base64, ("str",))
    inner = by_type[bytes]
    by_type[bytearray] = Converter(lambda value: bytearray(inner.load(value)), inner.dump, inner.kinds)
    return by_type


def enumeration(cls: Any) -> Converter:  # noqa: ANN401 - an Enum class
    """Return the converter of an enumeration, by the values of its members."""
    members = {(type(member.value), member.value): member for member in cls}
    if not all(kind in (str, int, float, bool) for kind, _ in members):
        raise TypeError(f"{cls.__name__}: the values of an enumeration must be texts, numbers or bools")

    def load(value: Any) -> Any:  # noqa: ANN401
        try:
            return members[type(value), value]
        except (KeyError, TypeError):
            raise Misfit(f"{str(value)[:40]!r} is no {cls.__name__}") from None

    kinds = tuple(dict.fromkeys(kind.__name__ for kind, _ in members))
    return Converter(load, _written(cls, attrgetter("value")), kinds)


def literal(values: tuple[Any, ...]) -> Converter:
    """Return the converter of a ``Literal``."""
    if not all(type(value) in (str, int, bool, type(None)) for value in values):
        raise TypeError("the values of a Literal must be texts, ints, bools or None")
    known = {(type(value), value) for value in values}

    def same(value: Any) -> Any:  # noqa: ANN401
        try:
            if (type(value), value) in known:
                return value
        except TypeError:
            pass
        raise Misfit(f"{str(value)[:40]!r} is none of {', '.join(map(repr, values))}")

    kinds = tuple(dict.fromkeys(type(value).__name__ for value in values))
    return Converter(same, same, kinds)
