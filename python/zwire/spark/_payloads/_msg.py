"""Types of CDR: read from a ROS 2 message definition, or taken from columns.

A definition is the text of a ``.msg`` file, followed by those of the types in it, each behind a line of ``=``
and one that says ``MSG: package/Type``: what ``ros2 interface show`` and recordings have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zwire.spark._types import type_of, types

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

# Names of types, their codes in the module struct, and the types of Spark that hold all of their values. A
# char of ROS 2 is an octet; an unsigned 64-bit number becomes its bit pattern.
_PRIMITIVES = {
    "bool": ("?", "boolean"),
    "byte": ("B", "smallint"),
    "char": ("B", "smallint"),
    "int8": ("b", "tinyint"),
    "uint8": ("B", "smallint"),
    "int16": ("h", "smallint"),
    "uint16": ("H", "int"),
    "int32": ("i", "int"),
    "uint32": ("I", "bigint"),
    "int64": ("q", "bigint"),
    "uint64": ("Q", "bigint"),
    "float32": ("f", "float"),
    "float64": ("d", "double"),
}
_COLUMNS = dict(_PRIMITIVES.values())


@dataclass(frozen=True)
class Primitive:
    """A number or a boolean."""

    code: str


@dataclass(frozen=True)
class Text:
    """A text in UTF-8."""


@dataclass(frozen=True)
class Several:
    """Items of one type: a fixed number ``length``, or a number given in the payload."""

    item: Kind
    length: int | None


@dataclass(frozen=True)
class Record:
    """Fields in order."""

    name: str
    fields: tuple[tuple[str, Kind], ...]


Kind: TypeAlias = Primitive | Text | Several | Record

# Types of nearly every message, so that a definition may leave them out.
_KNOWN = {
    "builtin_interfaces/Time": "int32 sec\nuint32 nanosec",
    "builtin_interfaces/Duration": "int32 sec\nuint32 nanosec",
    "std_msgs/Header": "builtin_interfaces/Time stamp\nstring frame_id",
}

_FIELD = re.compile(
    r"(?P<type>[A-Za-z][\w/]*)(?:<=\d+)?(?P<array>\[(?P<bound><=)?(?P<length>\d*)\])?\s+(?P<name>[A-Za-z]\w*)(?P<rest>.*)"
)

# An empty structure of C has one member, and it is sent.
_NOTHING = "structure_needs_at_least_one_member"

_MOST_LENGTH = 1 << 20
"""Most items of an array with a fixed length; longer ones are a mistake, or an attack on memory."""


def _short(name: str) -> str:
    """Shorten the name of a type: ``package/msg/Type`` is ``package/Type``."""
    parts = name.split("/")
    return f"{parts[0]}/{parts[-1]}" if len(parts) > 1 else name


def parse(definition: str, name: str = "") -> Record:
    """Parse a definition; ``name`` is that of its first message, ``package/msg/Type``.

    Types of the same package need no package in front. Errors name the line or the type.
    """
    first, *others = re.split(r"^=+[ \t]*$", definition, flags=re.MULTILINE)
    texts = dict(_KNOWN)
    for other in others:
        head, _, text = other.strip().partition("\n")
        if not head.startswith("MSG:"):
            raise ValueError(f"behind a line of = comes MSG: and a type, not {head[:80]!r}")
        texts[_short(head.removeprefix("MSG:").strip())] = text
    return _Parser(texts).record(_short(name), first, ())


class _Parser:
    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self.made: dict[str, Record] = {}

    def record(self, name: str, text: str, above: tuple[str, ...]) -> Record:
        lines = (line.partition("#")[0].strip() for line in text.splitlines())
        fields = tuple(filter(None, (self._field(line, name, above) for line in lines)))
        return Record(name, fields or ((_NOTHING, Primitive("B")),))

    def _field(self, line: str, record: str, above: tuple[str, ...]) -> tuple[str, Kind] | None:
        if not line:
            return None
        match = _FIELD.fullmatch(line)
        if match is None:
            raise ValueError(f"{record or 'message'}: {line[:80]!r} is no field")
        if match["rest"].lstrip().startswith("="):
            return None  # a constant, which is not sent
        kind: Kind = self._kind(match["type"], record, above)
        if match["array"]:
            bounded = match["bound"] is not None or not match["length"]
            length = None if bounded else int(match["length"])
            if length is not None and length > _MOST_LENGTH:
                raise ValueError(f"{record}: an array of {length} items is too long")
            kind = Several(kind, length)
        return match["name"], kind

    def _kind(self, name: str, record: str, above: tuple[str, ...]) -> Kind:
        if name in _PRIMITIVES:
            return Primitive(_PRIMITIVES[name][0])
        if name == "string":
            return Text()
        if name == "wstring":
            raise ValueError(f"{record}: wstring has another form with each vendor, and is not read")
        full = _short(name)
        if "/" not in full:
            package = record.partition("/")[0] if "/" in record else ""
            near = [full, f"{package}/{full}", *(text for text in self.texts if text.endswith(f"/{full}"))]
            full = next((text for text in near if text in self.texts), full)
        if full not in self.texts:
            raise ValueError(f"{record or 'message'}: there is no definition of {name}")
        if full in above:
            raise ValueError(f"{full} contains itself")
        if full not in self.made:
            self.made[full] = self.record(full, self.texts[full], (*above, full))
        return self.made[full]


def schema_of(record: Record) -> StructType:
    """Return the columns of a message. Sequences of octets are binary."""
    return types.StructType([types.StructField(name, _column(kind)) for name, kind in record.fields])


def _column(kind: Kind) -> DataType:
    match kind:
        case Primitive():
            return type_of(_COLUMNS[kind.code])
        case Text():
            return types.StringType()
        case Several(item=Primitive(code="B")):
            return types.BinaryType()
        case Several():
            return types.ArrayType(_column(kind.item))
        case Record():
            return schema_of(kind)


def record_of(schema: StructType) -> Record:
    """Derive a message from columns: integers are signed, arrays and binaries are sequences."""
    return Record("", tuple((field.name, _kind_of(field.dataType)) for field in schema))


def _kind_of(kind: DataType) -> Kind:
    # Signed numbers only: a wider column may hold an unsigned one.
    codes = {name: code for code, name in _COLUMNS.items() if code not in "BHIQ"}
    if kind.simpleString() in codes:
        return Primitive(codes[kind.simpleString()])
    if isinstance(kind, types.StringType):
        return Text()
    if isinstance(kind, types.BinaryType):
        return Several(Primitive("B"), None)
    if isinstance(kind, types.ArrayType):
        return Several(_kind_of(kind.elementType), None)
    if isinstance(kind, types.StructType):
        return record_of(kind)
    raise ValueError(f"CDR has no type for {kind.simpleString()}")
