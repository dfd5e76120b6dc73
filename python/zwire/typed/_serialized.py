"""Models in the format of ``zwire.zenoh.ext``, which has no names: a dataclass is the tuple of its fields."""

from __future__ import annotations

import dataclasses
import typing
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from zwire.typed._shape import init_fields
from zwire.typed._tree import Misfit, each_of, instance, named, wanted
from zwire.zenoh import ZBytes, ext

if TYPE_CHECKING:
    from zwire.typed._tree import Step

_LEAVES = (bool, int, float, str, bytes, bytearray, ZBytes)
_NUMBERS = tuple(getattr(ext, name) for name in ext.__all__ if name.startswith(("Int", "UInt", "Float")))


class Form(NamedTuple):
    """The type on the wire, and the conversions to it and back."""

    type: Any
    dump: Step
    load: Step


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
        return Form(model, _leaf(model), lambda value: value)
    if dataclasses.is_dataclass(model) and isinstance(model, type):
        if model in around:
            raise TypeError(f"{model.__name__} contains itself, which has no serialized form")
        hints = typing.get_type_hints(model)
        return _record(model, {name: _form(hints[name], (*around, model)) for name in init_fields(model)})
    if origin is tuple and Ellipsis not in arguments:
        return _record(tuple, {str(at): _form(part, around) for at, part in enumerate(arguments)})
    if origin in (list, set, frozenset):
        item = _form(arguments[0], around)

        def dump(values: Any) -> list[Any]:  # noqa: ANN401
            return each_of(item.dump, instance(values, origin))

        return Form(origin[item.type], dump, lambda value: origin(map(item.load, value)))
    if origin is dict:
        key, item = (_form(part, around) for part in arguments)
        return Form(
            dict[key.type, item.type],  # type: ignore[name-defined]
            lambda value: {key.dump(name): item.dump(part) for name, part in instance(value, dict).items()},
            lambda value: {key.load(name): item.load(part) for name, part in value.items()},
        )
    raise TypeError(f"{getattr(model, '__name__', model)} has no serialized form")


def _leaf(model: Any) -> Step:  # noqa: ANN401
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


def _record(make: Any, parts: dict[str, Form]) -> Form:  # noqa: ANN401
    """Return the form of a tuple or a dataclass."""

    def dump(value: Any) -> Any:  # noqa: ANN401
        items: Any = value
        if make is not tuple:
            items = [getattr(instance(value, make), name) for name in parts]
        elif not isinstance(value, tuple) or len(value) != len(parts):
            raise Misfit(f"a tuple of {len(parts)} items expected")
        pairs = zip(parts.items(), items, strict=True)
        return tuple(named((name, part.dump, item) for (name, part), item in pairs).values())

    def load(values: Any) -> Any:  # noqa: ANN401
        items = [part.load(value) for part, value in zip(parts.values(), values, strict=True)]
        return tuple(items) if make is tuple else make(**dict(zip(parts, items, strict=True)))

    return Form(tuple[tuple(part.type for part in parts.values())], dump, load)  # type: ignore[misc]
