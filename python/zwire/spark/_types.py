"""Types of Spark for SQL types of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.spark._lazy import types

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.types import StructType as StructType  # noqa: PLC0414 - for the types of others


def struct(columns: Iterable[tuple[str, str]]) -> StructType:
    """Give the schema of Spark for names and SQL types."""
    text, octets = types.StringType(), types.BinaryType()
    kinds = {
        "string": text,
        "binary": octets,
        "boolean": types.BooleanType(),
        "tinyint": types.ByteType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "double": types.DoubleType(),
        "timestamp": types.TimestampType(),
        "array<string>": types.ArrayType(text),
        "array<binary>": types.ArrayType(octets),
        "map<string,string>": types.MapType(text, text),
    }
    return types.StructType([types.StructField(name, kinds[kind]) for name, kind in columns])
