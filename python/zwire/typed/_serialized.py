"""Models in the format of ``zwire.zenoh.ext``, which has no names: a dataclass is the tuple of its fields."""

from __future__ import annotations

import dataclasses
import typing
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from zwire.typed._tree import Misfit, wanted
from zwire.zenoh import ZBytes, ext

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Form", "form"]

_LEAVES = (bool, int, float, str, bytes, bytearray, ZBytes)
_NUMBERS = tuple(getattr(ext, name) for name in ext.__all__ if name.startswith(("Int", "UInt", "Float")))


class Form(NamedTuple):
    """The type on the wire, and the conversions to it and back."""

    type: Any
    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


@lru_cache(maxsize=1024)
def form(model: Any) -> Form:  # noqa: ANN401 - any annotation
    """Determine how a type is serialized.

    Raises:
        TypeError: The type, or a part of it, has no form.
    """
    return _form(model, ())


def _form(model: Any, around: tuple[Any, ...]) -> Form:  # noqa: ANN401
    origin, arguments = typing.get_origin(model), typing.get_args(model)
    if model in _LEAVES or model in _NUMBERS:
        return Form(model, _of(model), lambda value: value)
    if dataclasses.is_dataclass(model) and isinstance(model, type):
        if model in around:
            raise TypeError(f"{model.__name__} contains itself, which has no serialized form")
        return _fields(model, (*around, model))
    if origin in (list, set, frozenset):
        item = _form(arguments[0], around)
        return Form(
            origin[item.type],
            _each(origin, item.dump),
            lambda value: origin(item.load(part) for part in value),
        )
    if origin is dict:
        key, item = (_form(part, around) for part in arguments)
        return Form(
            dict[key.type, item.type],  # type: ignore[name-defined]
            _pairs(key.dump, item.dump),
            lambda value: {key.load(name): item.load(part) for name, part in value.items()},
        )
    if origin is tuple and Ellipsis not in arguments:
        return _record(tuple, [(str(at), _form(part, around)) for at, part in enumerate(arguments)])
    raise TypeError(f"{getattr(model, '__name__', model)} has no serialized form")


def _of(model: Any) -> Callable[[Any], Any]:  # noqa: ANN401
    def dump(value: Any) -> Any:  # noqa: ANN401
        # A plain number is converted to the declared type, within its range; a bool is refused.
        if isinstance(value, bool) == (model is bool):
            if isinstance(value, model):
                return value
            number = (int, float) if issubclass(model, float) else int
            if isinstance(value, number) and issubclass(model, int | float):
                return model(value)
        raise wanted(model.__name__, value)

    return dump


def _each(make: Any, dump: Callable[[Any], Any]) -> Callable[[Any], Any]:  # noqa: ANN401
    def each(values: Any) -> Any:  # noqa: ANN401
        if not isinstance(values, make):
            raise wanted(make.__name__, values)
        out = []
        try:
            for value in values:
                out.append(dump(value))  # noqa: PERF401 - the length says where it failed
        except Misfit as problem:
            problem.steps.append(len(out))
            raise
        return out

    return each


def _pairs(key: Callable[[Any], Any], item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def pairs(values: Any) -> dict[Any, Any]:  # noqa: ANN401
        if not isinstance(values, dict):
            raise wanted("dict", values)
        return {key(name): item(value) for name, value in values.items()}

    return pairs


def _fields(model: Any, around: tuple[Any, ...]) -> Form:  # noqa: ANN401
    hints = typing.get_type_hints(model)
    names = [item.name for item in dataclasses.fields(model) if item.init]
    inner = _record(tuple, [(name, _form(hints[name], around)) for name in names])

    def dump(value: Any) -> Any:  # noqa: ANN401
        if not isinstance(value, model):
            raise wanted(model.__name__, value)
        return inner.dump(tuple(getattr(value, name) for name in names))

    def load(values: Any) -> Any:  # noqa: ANN401
        return model(**dict(zip(names, inner.load(values), strict=True)))

    return Form(inner.type, dump, load)


def _record(make: Any, parts: list[tuple[str, Form]]) -> Form:  # noqa: ANN401
    def dump(values: Any) -> Any:  # noqa: ANN401
        if not isinstance(values, make) or len(values) != len(parts):
            raise Misfit(f"a tuple of {len(parts)} items expected")
        out = []
        for (name, part), value in zip(parts, values, strict=True):
            try:
                out.append(part.dump(value))
            except Misfit as problem:
                problem.steps.append(name)
                raise
        return tuple(out)

    def load(values: Any) -> Any:  # noqa: ANN401
        return tuple(part.load(value) for (_, part), value in zip(parts, values, strict=True))

    return Form(tuple[tuple(part.type for _, part in parts)], dump, load)  # type: ignore[misc]
