"""Parts common to the writers of all formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import TaskContext

from zwire.errors import ConfigError
from zwire.spark.schema import RowSchema

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.types import StructType
else:
    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter
    except ImportError:  # Spark 4.0 has a base class for rows only
        from pyspark.sql.datasource import DataSourceStreamWriter as DataSourceStreamArrowWriter

__all__ = ["DataSourceStreamArrowWriter"]


def append_only(source: str, *, overwrite: bool) -> None:
    """Refuse a mode that would take back messages already sent."""
    if overwrite:
        raise ConfigError(f'{source}: what is sent cannot be overwritten: give mode("append")', path="mode")


def refuse_second_copies(source: str, hint: str) -> None:
    """Fail a task that Spark may run twice at the same time, since both copies would send."""
    # Spark passes its settings to tasks together with their batch.
    if local_property("spark.speculation") == "true":
        problem = f"{source}: with spark.speculation a second copy of a task sends its rows as well: {hint}"
        raise ConfigError(problem, path="spark.speculation")


def local_property(name: str) -> str | None:
    """Return a setting of this task; ``None`` outside of tasks."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def partition() -> int:
    """Return the partition number of this task."""
    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def row_schema(schema: StructType) -> RowSchema:
    """Return the columns of a DataFrame as a row schema."""
    made = []
    for field in schema:
        kind = plain(field.dataType.simpleString())
        made.append((field.name, "int" if kind == "smallint" else kind))
    return RowSchema(tuple(made))


def plain(kind: str) -> str:
    """Return the type of the values: ``varchar(9)`` and ``char(9)`` are ``string``."""
    return "string" if kind.startswith(("varchar", "char")) else kind
