"""Classes of messages: slots, defaults as in ROS 2, equality with arrays, and constants of the type."""

from __future__ import annotations

import keyword
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from zwire._lazy import Lazy
from zwire.ros2._definitions import Primitive, Record, Several, Text, nested

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from zwire.ros2._definitions import Kind
else:
    np = Lazy("numpy")

DTYPES = {"?": "?", "b": "i1", "B": "u1", "h": "i2", "H": "u2", "i": "i4", "I": "u4", "q": "i8", "Q": "u8"}
DTYPES |= {"f": "f4", "d": "f8"}
"""Types of numpy by the codes of the module struct, without the order of octets."""


def attribute(field: str) -> str:
    """Return the name of a field as an attribute: keywords of Python have an underscore behind them."""
    return f"{field}_" if keyword.iskeyword(field) else field


class Message:  # noqa: PLW1641 - messages can change, so they have no hash
    """A message of ROS 2: the base of all their classes.

    Fields are attributes in the order of the definition, constants of the definition are attributes of the
    class. Fields that are not given have their default, or zero, an empty text, an empty array. Arrays of
    numbers are numpy arrays, other arrays are lists. Messages compare by value and are not hashable.

    Args:
        args: Values of the first fields, in order.
        fields: Values by the names of fields.

    Raises:
        TypeError: A name is no field, or is given twice.
    """

    __slots__ = ("_source",)

    __msgtype__: ClassVar[str]
    """Name of the type, ``package/msg/Type``."""

    # Name of each field and what makes its default.
    _defaults: ClassVar[tuple[tuple[str, Callable[[], Any]], ...]] = ()
    _record: ClassVar[Record]
    # Where a message that has not been read gets its attributes from.
    _source: Any

    def __init__(self, *args: Any, **fields: Any) -> None:  # noqa: ANN401 - of the fields
        defaults = self._defaults
        if len(args) > len(defaults):
            raise TypeError(f"{self.__msgtype__} has {len(defaults)} fields, {len(args)} values are given")
        for (name, _), value in zip(defaults, args, strict=False):
            if name in fields:
                raise TypeError(f"{self.__msgtype__}: {name} is given twice")
            setattr(self, name, value)
        for name, make in defaults[len(args) :]:
            setattr(self, name, fields.pop(name) if name in fields else make())
        if fields:
            raise TypeError(f"{self.__msgtype__} has no field {', '.join(map(repr, fields))}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message) or self.__msgtype__ != other.__msgtype__:
            return NotImplemented
        return all(_same(getattr(self, name), getattr(other, name)) for name, _ in self._defaults)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self._record, tuple(getattr(self, name) for name, _ in self._defaults))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={_shown(getattr(self, name))}" for name, _ in self._defaults)
        return f"{self.__msgtype__.rpartition('/')[2]}({values})"


def _same(left: object, right: object) -> bool:
    if isinstance(left, bytes | bytearray | memoryview):
        left = np.frombuffer(left, "u1")
    if isinstance(right, bytes | bytearray | memoryview):
        right = np.frombuffer(right, "u1")
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return bool(np.array_equal(left, right))  # type: ignore[arg-type]  # any value, and False if it is none
    return left == right


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"<{value.size} {value.dtype}>" if value.size > 16 else str(value.tolist())
    return repr(value)


_MOST_CLASSES = 4096
"""Most classes that are kept: definitions may come from other machines, and a process may read many."""


@lru_cache(_MOST_CLASSES)
def class_of(record: Record) -> type[Message]:
    """Return the class of a type; the same one for equal types, so that stores share it."""
    inner = {name: class_of(found) for name, found in nested([record]).items() if found is not record}
    names = [attribute(name) for name, _ in record.fields]
    given = dict(record.defaults)
    kinds = list(zip(names, record.fields, strict=True))
    body: dict[str, Any] = {attribute(name): value for name, value in record.constants if name not in names}
    body |= {
        "__slots__": tuple(names),
        "__annotations__": {name: annotation(kind, inner) for name, (_, kind) in kinds},
        "__match_args__": tuple(names),
        "__msgtype__": record.name,
        "__module__": f"zwire.ros2.{record.name.rpartition('/')[0].replace('/', '.')}",
        "__doc__": f"``{record.name}``: " + ", ".join(f"``{name}``" for name in names) + ".",
        "_defaults": tuple((name, _default(kind, given.get(field), inner)) for name, (field, kind) in kinds),
        "_record": record,
    }
    return type(record.name.rpartition("/")[2], (Message,), body)


@lru_cache(_MOST_CLASSES)
def lazy_of(record: Record) -> type[Message]:
    """Return the class of messages that have been decoded and not been read.

    The first use of an attribute gives them all of theirs, and makes them messages of the type's class.
    """
    cls = class_of(record)
    body = {"__slots__": (), "__module__": cls.__module__, "__doc__": cls.__doc__}
    return type(cls.__name__, (cls,), {**body, "__getattr__": _get, "__setattr__": _set, "__delattr__": _del})


def _load(message: Message) -> None:
    # Another thread may have done it.
    if (source := message._source) is not None:  # noqa: SLF001 - its own
        source.load(message)


def _get(message: Message, name: str) -> Any:  # noqa: ANN401 - any attribute
    if name.startswith("_"):
        raise AttributeError(f"{message.__msgtype__} has no attribute {name!r}")  # protocols ask for theirs
    # As _load does, without a call: this is the way to each attribute that is read first.
    if (source := message._source) is not None:  # noqa: SLF001 - its own
        source.load(message)
    return object.__getattribute__(message, name)


def _set(message: Message, name: str, value: Any) -> None:  # noqa: ANN401 - any attribute
    _load(message)
    object.__setattr__(message, name, value)


def _del(message: Message, name: str) -> None:
    _load(message)
    object.__delattr__(message, name)


def _rebuilt(record: Record, values: tuple[Any, ...]) -> Message:
    return class_of(record)(*values)


def annotation(kind: Kind, inner: dict[str, type[Message]]) -> Any:  # noqa: ANN401 - a type
    """Return the type of a field's values."""
    match kind:
        case Primitive(code=code):
            return bool if code == "?" else float if code in "fd" else int
        case Text():
            return str
        case Several(item=Primitive()):
            return np.ndarray
        case Several(item=item):
            return list[annotation(item, inner)]  # type: ignore[misc]  # made at run time
        case Record(name=name):
            return inner[name]


def _default(kind: Kind, given: Any, inner: dict[str, type[Message]]) -> Callable[[], Any]:  # noqa: ANN401
    match kind:
        case Several(item=Primitive(code=code), length=length):
            dtype = DTYPES[code]
            if given is not None:
                return lambda: np.array(given, dtype)
            return lambda: np.zeros(length or 0, dtype)
        case Several(item=item, length=length):
            if given is not None:
                return lambda: list(given)
            one = _default(item, None, inner)
            return lambda: [one() for _ in range(length or 0)]
        case Record(name=name):
            return inner[name]
        case Text():
            value: Any = "" if given is None else given
        case Primitive(code=code):
            value = given if given is not None else False if code == "?" else 0.0 if code in "fd" else 0
    return lambda: value
