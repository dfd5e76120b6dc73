"""The modules of pyspark, imported when one of their names is first used; types of SQL, Spark and Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire._lazy import Lazy, pa

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import functions as f
    from pyspark.sql import types
    from pyspark.sql.types import DataType
    from pyspark.sql.types import StructType as StructType  # noqa: PLC0414 - for the types of others

    __all__ = ["f", "struct", "type_of", "types"]
else:
    f, types = Lazy("pyspark.sql.functions"), Lazy("pyspark.sql.types")


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


def struct_of(schema: str | StructType) -> StructType:
    """Return a schema; a text is parsed as DDL. Types that payloads cannot have are refused."""
    made = types.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(made, types.StructType) or not made.fields:
        raise ValueError("the schema of a payload has at least one column")
    for field in made:
        arrow_type(field.dataType)
    return types.StructType([types.StructField(each.name, _nullable(each.dataType)) for each in made])


def arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type that Spark uses for a type of SQL; refuse intervals, variants and the like."""
    plain = {
        types.StringType: pa.string(),
        types.BinaryType: pa.binary(),
        types.BooleanType: pa.bool_(),
        types.ByteType: pa.int8(),
        types.ShortType: pa.int16(),
        types.IntegerType: pa.int32(),
        types.LongType: pa.int64(),
        types.FloatType: pa.float32(),
        types.DoubleType: pa.float64(),
        types.DateType: pa.date32(),
        types.TimestampType: pa.timestamp("us", "UTC"),
        types.TimestampNTZType: pa.timestamp("us"),
    }
    if type(kind) in plain:
        return plain[type(kind)]
    if isinstance(kind, types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, types.ArrayType):
        return pa.list_(pa.field("element", arrow_type(kind.elementType)))
    if isinstance(kind, types.MapType):
        return pa.map_(arrow_type(kind.keyType), arrow_type(kind.valueType))
    if isinstance(kind, types.StructType):
        return pa.struct([pa.field(field.name, arrow_type(field.dataType)) for field in kind])
    raise ValueError(f"payloads have no columns of type {kind.simpleString()}")


def _nullable(kind: DataType) -> DataType:
    """Return the same type with all its parts nullable, as payloads may leave any of them out."""
    if isinstance(kind, types.StructType):
        return types.StructType([types.StructField(each.name, _nullable(each.dataType)) for each in kind])
    if isinstance(kind, types.ArrayType):
        return types.ArrayType(_nullable(kind.elementType))
    if isinstance(kind, types.MapType):
        return types.MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind


_HELD_BY = {
    # A column known only by nulls becomes text.
    "string": "string large_string string_view null",
    "binary": "binary large_binary binary_view fixed_size_binary",
    "boolean": "boolean",
    "tinyint": "int8",
    "smallint": "int16 uint8",
    "int": "int32 uint16",
    "bigint": "int64 uint32",
    "float": "float16 float32",
    "double": "float64",
}
"""Types of Arrow by the SQL type that holds all of their values."""


def sql_type(kind: pa.DataType) -> DataType:
    """Return the type of SQL that holds all values of an Arrow type."""
    t = pa.types
    for name, fits in _HELD_BY.items():
        if any(getattr(t, f"is_{each}")(kind) for each in fits.split()):
            return type_of(name)
    if t.is_uint64(kind):
        return types.DecimalType(20, 0)
    if t.is_date(kind):
        return types.DateType()
    if t.is_timestamp(kind):
        return types.TimestampNTZType() if kind.tz is None else types.TimestampType()
    if t.is_decimal(kind) and kind.precision <= 38 and kind.scale >= 0:
        return types.DecimalType(kind.precision, kind.scale)
    if t.is_dictionary(kind):
        return sql_type(kind.value_type)
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return types.ArrayType(sql_type(kind.value_type))
    if t.is_map(kind):
        return types.MapType(sql_type(kind.key_type), sql_type(kind.item_type))
    if t.is_struct(kind):
        return types.StructType([types.StructField(field.name, sql_type(field.type)) for field in kind])
    raise ValueError(f"Spark has no type for {kind}")


def signed(number: int) -> int:
    """Return an unsigned 64-bit number as SQL holds it: signed, with the same bits."""
    return number - (1 << 64) if number >> 63 else number
