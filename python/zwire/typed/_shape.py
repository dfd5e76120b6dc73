"""Converters between trees and types with parts, and models of other libraries."""

from __future__ import annotations

import dataclasses
import re
import sys
import types
import typing
from collections import abc
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from zwire.typed._tree import (
    MAX_DEPTH,
    Converter,
    Misfit,
    Wire,
    each_of,
    enumeration,
    instance,
    kind,
    literal,
    named,
    scalars,
    wanted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zwire.typed._tree import Step

LISTS: dict[Any, Any] = {
    list: list,
    abc.Sequence: list,
    abc.Iterable: list,
    abc.Collection: list,
    set: set,
    abc.Set: frozenset,
    frozenset: frozenset,
}
MAPS = (dict, abc.Mapping, abc.MutableMapping)


@lru_cache(maxsize=1024)
def converter(model: Any, wire: Wire) -> Converter:  # noqa: ANN401 - any annotation
    """Build the converter of a type.

    Raises:
        TypeError: The type, or a part of it, has no form.
    """
    compiler = _Compiler(wire)
    made = compiler.of(model)
    return dataclasses.replace(made, free_keys=compiler.free_keys, closed=compiler.closed)


def is_model_of(library: str, cls: str, model: Any) -> bool:  # noqa: ANN401
    """Return whether a model is a class derived from one of a library; does not load the library."""
    module = sys.modules.get(library)
    base = getattr(module, cls, None)
    return isinstance(base, type) and isinstance(model, type) and issubclass(model, base)


def is_pydantic(model: Any) -> bool:  # noqa: ANN401
    """Return whether a class is made by pydantic: a model or one of its dataclasses."""
    return isinstance(model, type) and hasattr(model, "__pydantic_validator__")


def is_struct(model: Any) -> bool:  # noqa: ANN401
    """Return whether a model is a Struct of msgspec."""
    return is_model_of("msgspec", "Struct", model)


def is_typed_dict(model: Any) -> bool:  # noqa: ANN401
    """Return whether a model is a TypedDict, of typing or of typing_extensions."""
    return isinstance(model, type) and issubclass(model, dict) and hasattr(model, "__required_keys__")


class _Compiler:
    """Builds converters; a recursive type uses the converter under construction."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.scalars = scalars(wire)
        self.made: dict[Any, Converter] = {}
        self.free_keys = False
        self.making: set[Any] = set()
        self.closed = True

    def of(self, tp: Any) -> Converter:  # noqa: ANN401
        if tp is None:
            tp = type(None)
        if tp in self.scalars:
            return self.scalars[tp]
        if tp is Any or tp is object or isinstance(tp, typing.TypeVar):
            self.closed = False
            return Converter(lambda value: value, self.any, ())
        origin, arguments = typing.get_origin(tp) or tp, typing.get_args(tp)
        if origin is typing.Annotated:
            return self.of(arguments[0])
        if isinstance(tp, typing.NewType):
            return self.of(tp.__supertype__)
        if origin is typing.Literal:
            return literal(arguments)
        if origin in (typing.Union, types.UnionType):
            return self.union(tp, [self.of(member) for member in arguments])
        if origin in LISTS:
            return self.items(LISTS[origin], self.of(arguments[0] if arguments else Any))
        if tp is tuple or (origin is tuple and arguments[1:] == (Ellipsis,)):
            return self.items(tuple, self.of(arguments[0] if arguments else Any))
        if origin is tuple:
            return self.record(tuple, arguments)
        if origin in MAPS:
            key, item = arguments or (Any, Any)
            return self.mapping(key, self.of(item))
        self.closed &= tp not in self.making
        if tp not in self.made:
            generic = dataclasses.is_dataclass(typing.get_origin(tp))
            self.made[tp] = self.fields(origin, tp) if generic else self.cls(tp)
        return self.made[tp]

    def cls(self, cls: Any) -> Converter:  # noqa: ANN401
        if not isinstance(cls, type) or typing.get_origin(cls):
            raise TypeError(f"{cls} has no form in {self.wire.name}")
        if is_pydantic(cls) or is_struct(cls):
            self.closed = False
            return self.pydantic(cls) if is_pydantic(cls) else self.struct(cls)
        if dataclasses.is_dataclass(cls) or is_typed_dict(cls):
            return self.fields(cls, cls)
        if issubclass(cls, Enum):
            return enumeration(cls)
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            hints = _hints(cls)
            return self.record(cls, [hints.get(name, Any) for name in cls._fields])
        raise TypeError(f"{cls.__module__}.{cls.__qualname__} has no form in {self.wire.name}")

    # ---- Parts --------------------------------------------------------------------------------------

    def items(self, make: Any, item: Converter) -> Converter:  # noqa: ANN401
        def load(value: Any) -> Any:  # noqa: ANN401
            if type(value) is not list and type(value) is not tuple:
                raise wanted("list", value)
            out = each_of(item.load, value)
            return out if make is list else make(out)

        def dump(value: Any) -> list[Any]:  # noqa: ANN401
            # An array of numpy is iterable as well; a text must not become a list of letters.
            if isinstance(value, str | bytes | bytearray | dict) or not isinstance(value, abc.Iterable):
                raise wanted("list", value)
            return each_of(item.dump, value)

        return Converter(load, dump, ("list", "tuple"))

    def record(self, make: Any, hints: Iterable[Any]) -> Converter:  # noqa: ANN401
        parts = [self.of(hint) for hint in hints]

        def each(values: Any, step: str) -> list[Any]:  # noqa: ANN401
            if not isinstance(values, list | tuple):
                raise wanted("list", values)
            if len(values) != len(parts):
                raise Misfit(f"{len(parts)} items expected, not {len(values)}")
            out: list[Any] = []
            try:
                for part, value in zip(parts, values, strict=True):
                    out.append(getattr(part, step)(value))
            except Misfit as problem:
                problem.steps.append(len(out))
                raise
            return out

        def load(value: Any) -> Any:  # noqa: ANN401
            out = each(value, "load")
            return tuple(out) if make is tuple else make(*out)

        return Converter(load, lambda value: each(value, "dump"), ("list", "tuple"))

    def mapping(self, key_type: Any, item: Converter) -> Converter:  # noqa: ANN401
        key = self.key(key_type)

        def load(value: Any) -> dict[Any, Any]:  # noqa: ANN401
            if type(value) is not dict:
                raise wanted("map", value)
            return each(value, key.load, item.load)

        def dump(value: Any) -> dict[Any, Any]:  # noqa: ANN401
            if not isinstance(value, abc.Mapping):
                raise wanted("map", value)
            return each(value, key.dump, item.dump)

        def each(value: Any, of_key: Step, of_item: Step) -> dict[Any, Any]:  # noqa: ANN401
            out: dict[Any, Any] = {}
            name = None
            try:
                for name, part in value.items():
                    out[of_key(name)] = of_item(part)
            except Misfit as problem:
                problem.steps.append(str(name)[:40])
                raise
            return out

        return Converter(load, dump, ("dict",))

    def key(self, tp: Any) -> Converter:  # noqa: ANN401
        """Return the converter of the keys of a map: texts, if the wire or the model leaves the type open."""
        inner = self.of(tp)
        if tp is Any or tp is object:
            return Converter(lambda value: value, self.any_key, ("str",))
        if inner.kinds == ("str",):
            return inner
        if tp is UUID:
            self.free_keys |= UUID in self.wire.native
            return inner
        if inner.kinds != ("int",):
            raise TypeError(f"{tp} has no form as a key in {self.wire.name}")
        if not self.wire.text_keys:
            self.free_keys = True
            return inner

        def load(value: Any) -> Any:  # noqa: ANN401
            # Not int() alone, which also accepts blanks, underscores and digits of other scripts.
            if type(value) is str and value.isascii() and value.removeprefix("-").isdigit():
                return inner.load(int(value))
            raise Misfit(f"{str(value)[:40]!r} is no int")

        return Converter(load, lambda value: str(inner.dump(value)), ("str",))

    def union(self, tp: Any, members: list[Converter]) -> Converter:  # noqa: ANN401
        """Choose by the type of the plain value alone, so that no value is read twice."""
        by_kind: dict[str, list[Converter]] = {}
        fallback: list[Converter] = []
        for member in members:
            for name in member.kinds:
                by_kind.setdefault(name, []).append(member)
            if not member.kinds:
                fallback.append(member)
        for name, several in by_kind.items():
            # Prefer int to float for an int.
            several.sort(key=lambda member: member.kinds.index(name))
            if name == "list" and len(several) > 1:
                raise TypeError(f"{tp}: two kinds of lists cannot be told apart")
        tag = _tag(tp, by_kind.get("dict", []))

        def load(value: Any) -> Any:  # noqa: ANN401
            found = by_kind.get(type(value).__name__, fallback)
            if tag and type(value) is dict:
                return tag_load(value)
            for member in found[:-1]:
                try:
                    return member.load(value)
                except Misfit:
                    continue
            if not found:
                raise Misfit(f"{kind(value)} is none of {_name(tp)}")
            return found[-1].load(value)

        def tag_load(value: dict[Any, Any]) -> Any:  # noqa: ANN401
            name, of_choice = tag  # type: ignore[misc]
            choice = value.get(name)
            member = of_choice.get(choice) if isinstance(choice, str | int) else None
            if member is None:
                known = ", ".join(map(repr, of_choice))
                raise Misfit(f"{str(choice)[:40]!r} is none of {known}", steps=[name])
            return member.load(value)

        def dump(value: Any) -> Any:  # noqa: ANN401
            inner = None
            own = type(value).__name__
            for member in sorted(members, key=lambda member: member.kinds[:1] != (own,)):
                try:
                    return member.dump(value)
                except Misfit as problem:
                    if problem.steps:
                        inner = problem
            raise inner or Misfit(f"{kind(value)} is none of {_name(tp)}")

        return Converter(load, dump, tuple(by_kind) if not fallback else ())

    # ---- Classes ------------------------------------------------------------------------------------

    def fields(self, cls: Any, tp: Any) -> Converter:  # noqa: ANN401
        """Return the converter of a dataclass or TypedDict; ``tp`` is it with its type parameters, if any."""
        hints = _filled(_hints(cls), cls, tp)
        if len(self.making) >= MAX_DEPTH:
            raise TypeError(f"{cls.__name__} contains more and more different types of itself")
        before = len(self.made)
        made = self.made[tp] = _pending(hints)
        self.making.add(tp)
        by_key = is_typed_dict(cls)
        required = sorted(cls.__required_keys__) if by_key else _without_default(cls)
        try:
            parts = {name: self.of(hints[name]) for name in (hints if by_key else init_fields(cls))}
        except TypeError:
            # A value without a declared type may have this class again. The converters of its fields may
            # refer to the unfinished one.
            for unfinished in list(self.made)[before:]:
                del self.made[unfinished]
            raise
        finally:
            self.making.remove(tp)

        def load(value: Any) -> Any:  # noqa: ANN401
            if type(value) is not dict:
                raise wanted("map", value)
            _all_there(value, required)
            values: dict[str, Any] = {}
            name = ""
            try:
                # Unknown names are ignored, so that a model can grow.
                for name, part in parts.items():
                    if name in value:
                        values[name] = part.load(value[name])
            except Misfit as problem:
                problem.steps.append(name)
                raise
            if by_key:
                return values
            try:
                return cls(**values)
            except (ValueError, TypeError) as error:
                # The error of __post_init__.
                raise Misfit(str(error)) from error

        def dump(value: Any) -> dict[str, Any]:  # noqa: ANN401
            if not isinstance(value, abc.Mapping if by_key else cls):
                raise wanted("map" if by_key else cls.__name__, value)
            if not by_key:
                return named((name, part.dump, getattr(value, name)) for name, part in parts.items())
            for name in value:
                if name not in parts:
                    raise Misfit(f"{str(name)[:40]!r} is not in {cls.__name__}")
            _all_there(value, required)
            return named((name, parts[name].dump, part) for name, part in value.items())

        made.load, made.dump = load, dump
        return made

    def pydantic(self, cls: Any) -> Converter:  # noqa: ANN401
        inner = adapter(cls)

        def load(value: Any) -> Any:  # noqa: ANN401
            return validate(inner.validate_python, value)

        def dump(value: Any) -> Any:  # noqa: ANN401
            return self.any(inner.dump_python(instance(value, cls)))

        return Converter(load, dump, ("dict",))

    def struct(self, cls: Any) -> Converter:  # noqa: ANN401
        import msgspec

        native = self.wire.native

        def load(value: Any) -> Any:  # noqa: ANN401
            return convert(msgspec.convert, value, cls, builtin_types=native, str_keys=True)

        def dump(value: Any) -> Any:  # noqa: ANN401
            return msgspec.to_builtins(instance(value, cls), builtin_types=native, str_keys=True)

        return Converter(load, dump, ("list",) if cls.__struct_config__.array_like else ("dict",))

    # ---- Values without a declared type -------------------------------------------------------------

    def any_key(self, value: Any) -> str:  # noqa: ANN401
        """Write the key of a map without a declared type: as text, which every reader accepts."""
        text = self.any(value)
        if isinstance(text, str):
            return text
        if type(text) is int or isinstance(text, UUID):
            return str(text)
        raise wanted("text", value)

    def any(self, value: Any) -> Any:  # noqa: ANN401
        """Write a value by its own type."""
        cls = type(value)
        if cls in self.scalars:
            return self.scalars[cls].dump(value)
        if isinstance(value, Enum):
            return self.any(value.value)
        for base in (str, int, float, bytes, bytearray, datetime, date, time, timedelta, Decimal, UUID):
            if isinstance(value, base):
                return self.scalars[base].dump(value)
        if isinstance(value, abc.Mapping):
            return self.of(dict).dump(value)
        if isinstance(value, list | tuple | set | frozenset):
            return self.of(list).dump(value)
        try:
            found = self.of(cls)
        except TypeError as error:
            raise Misfit(str(error)) from None
        return found.dump(value)


def _pending(hints: dict[str, Any]) -> Converter:
    """Return a placeholder converter for recursive types; it works once it is settled."""

    def unsettled(_: Any) -> Any:  # noqa: ANN401
        raise AssertionError("the type is not worked out yet")

    tags = {
        name: frozenset(typing.get_args(hint))
        for name, hint in hints.items()
        if typing.get_origin(hint) is typing.Literal
    }
    return Converter(unsettled, unsettled, ("dict",), tags)


def _hints(cls: Any) -> dict[str, Any]:  # noqa: ANN401
    try:
        return typing.get_type_hints(cls)
    except NameError as error:
        raise TypeError(f"{cls.__name__}: {error}; its annotations must be visible in its module") from error


def _filled(hints: dict[str, Any], cls: Any, tp: Any) -> dict[str, Any]:  # noqa: ANN401
    """Put the parameters of a generic class into its annotations; open ones become ``Any``."""
    given = dict(zip(getattr(cls, "__parameters__", ()), typing.get_args(tp), strict=False))

    def fill(hint: Any) -> Any:  # noqa: ANN401
        if isinstance(hint, typing.TypeVar):
            return given.get(hint, Any)
        open_ones = () if isinstance(hint, type) else getattr(hint, "__parameters__", ())
        return hint[tuple(given.get(one, Any) for one in open_ones)] if open_ones else hint

    return {name: fill(hint) for name, hint in hints.items()}


def _name(tp: Any) -> str:  # noqa: ANN401
    return " | ".join(getattr(member, "__name__", str(member)) for member in typing.get_args(tp))


def _tag(tp: Any, maps: list[Converter]) -> tuple[str, dict[Any, Converter]] | None:  # noqa: ANN401
    """Find the field that tells the members of a union apart by its value."""
    if len(maps) < 2:
        return None
    for name in maps[0].tags:
        choices = [member.tags.get(name, frozenset()) for member in maps]
        if all(choices) and len(frozenset().union(*choices)) == sum(map(len, choices)):
            of_choice = zip(choices, maps, strict=True)
            return name, {choice: member for some, member in of_choice for choice in some}
    raise TypeError(
        f"{_name(tp)} cannot be told apart: give each a field of one name with a Literal of its own, "
        'such as kind: Literal["circle"]'
    )


def init_fields(cls: Any) -> list[str]:  # noqa: ANN401
    """List the fields of a dataclass that its constructor takes."""
    return [item.name for item in dataclasses.fields(cls) if item.init]


def _without_default(cls: Any) -> list[str]:  # noqa: ANN401
    fields = {
        item.name: (item.default, item.default_factory) for item in dataclasses.fields(cls) if item.init
    }
    return [name for name, defaults in fields.items() if defaults == (dataclasses.MISSING,) * 2]


def _all_there(value: Any, required: Iterable[str]) -> None:  # noqa: ANN401
    for name in required:
        if name not in value:
            raise Misfit("missing", steps=[name])


# ---- Models of other libraries ----------------------------------------------------------------------


@lru_cache(maxsize=1024)
def adapter(model: Any) -> Any:  # noqa: ANN401 - a TypeAdapter
    """Return the TypeAdapter by which pydantic reads and writes a class."""
    from pydantic import TypeAdapter

    return TypeAdapter(model)


def validate(read: Callable[[Any], Any], value: Any) -> Any:  # noqa: ANN401
    """Read by an adapter of pydantic; the first problem is reported."""
    from pydantic import ValidationError

    try:
        return read(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        steps = [step if isinstance(step, int) else str(step) for step in reversed(first["loc"])]
        raise Misfit(first["msg"], steps=steps) from error


_AT = re.compile(r" - at `\$\.?(.*)`$", re.DOTALL)
_BYTE = re.compile(r"\(byte (\d+)\)")


def convert(read: Callable[..., Any], value: Any, model: Any, **options: Any) -> Any:  # noqa: ANN401
    """Read by a function of msgspec; its errors say where the problem is."""
    import msgspec

    try:
        return read(value, type=model, **options)
    except msgspec.MsgspecError as error:
        text = str(error)
        byte = _BYTE.search(text)
        at = _AT.search(text)
        raise Misfit(
            _AT.sub("", text), int(byte[1]) if byte else None, steps=[at[1]] if at else []
        ) from error
