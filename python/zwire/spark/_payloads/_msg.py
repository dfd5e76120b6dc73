"""Types of CDR as columns of Spark, and the other way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.ros2._definitions import Primitive, Record, Several, Text, parse
from zwire.spark._types import type_of, types

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from zwire.ros2._definitions import Kind

__all__ = ["Record", "parse", "record_of", "schema_of"]

# Types of Spark that hold all values of a number, by its code in the module struct. A char of ROS 2 is an
# octet; an unsigned 64-bit number becomes its bit pattern.
_COLUMNS = {
    "?": "boolean",
    "b": "tinyint",
    "B": "smallint",
    "h": "smallint",
    "H": "int",
    "i": "int",
    "I": "bigint",
    "q": "bigint",
    "Q": "bigint",
    "f": "float",
    "d": "double",
}


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


def record_of(schema: StructType, name: str = "") -> Record:
    """Derive a message from columns: integers are signed, arrays and binaries are sequences."""
    fields = ((field.name, _kind_of(field.dataType, f"{name}/{field.name}")) for field in schema)
    return Record(name, tuple(fields))


def _kind_of(kind: DataType, name: str) -> Kind:
    # Signed numbers only: a wider column may hold an unsigned one.
    codes = {name: code for code, name in _COLUMNS.items() if code not in "BHIQ"}
    if kind.simpleString() in codes:
        return Primitive(codes[kind.simpleString()])
    if isinstance(kind, types.StringType):
        return Text()
    if isinstance(kind, types.BinaryType):
        return Several(Primitive("B"), None)
    if isinstance(kind, types.ArrayType):
        return Several(_kind_of(kind.elementType, name), None)
    if isinstance(kind, types.StructType):
        return record_of(kind, name)
    raise ValueError(f"CDR has no type for {kind.simpleString()}")
