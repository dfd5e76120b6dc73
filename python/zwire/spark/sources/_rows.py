"""Mapping between row schemas and the schema of a query in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from zwire.spark.schema import RowSchema


def chosen(source: str, rows: RowSchema, schema: StructType) -> RowSchema:
    """Return the columns that Spark asks for: those of the option ``columns``, or of the user's schema.

    Raises:
        ConfigError: A column is unknown, of another type, or must not be null.
    """
    for name in schema.fieldNames():
        if name in rows.renamed:
            problem = f"{source}: column {name!r} is called {rows.renamed[name]!r} now"
            raise ConfigError(problem, path="columns")
    try:
        found = rows.select(schema.fieldNames())
    except ValueError as error:
        raise ConfigError(f"{source}: {error}", path="columns") from None
    for asked, ours in zip(schema, found.spark(), strict=True):
        if asked.dataType != ours.dataType:
            kinds = f"{ours.dataType.simpleString()}, not {asked.dataType.simpleString()}"
            raise ConfigError(f"{source}: column {asked.name!r} is {kinds}", path=asked.name)
        if not asked.nullable:
            raise ConfigError(f"{source}: column {asked.name!r} can be null", path=asked.name)
    return found
