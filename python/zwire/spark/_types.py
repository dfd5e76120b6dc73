"""Types of Spark for SQL types of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.spark._lazy import types

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.types import DataType
    from pyspark.sql.types import StructType as StructType  # noqa: PLC0414 - for the types of others


def struct(columns: Iterable[tuple[str, str]]) -> StructType:
    """Give the schema of Spark for names and SQL types."""
    return types.StructType([types.StructField(name, type_of(kind)) for name, kind in columns])


_PLAIN = {
    "string": "StringType",
    "binary": "BinaryType",
    "boolean": "BooleanType",
    "tinyint": "ByteType",
    "smallint": "ShortType",
    "int": "IntegerType",
    "bigint": "LongType",
    "float": "FloatType",
    "double": "DoubleType",
    "timestamp": "TimestampType",
}


def type_of(kind: str) -> DataType:
    """Return the type of Spark for a SQL type."""
    if kind.startswith("array<"):
        return types.ArrayType(type_of(kind[6:-1]))
    if kind == "map<string,string>":
        return types.MapType(types.StringType(), types.StringType())
    made: DataType = getattr(types, _PLAIN[kind])()
    return made
