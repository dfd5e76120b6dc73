"""Tables and flows of Spark Declarative Pipelines over spools. Needs PySpark 4.1 or newer.

::

    from pyspark import pipelines as dp
    from zwire.spark import declarative

    declarative.table("samples", "/var/spool/robots", keyFilter="robot/**")

    @dp.materialized_view
    def levels():
        ...

A pipeline calls these functions in its Python files, as those of ``pyspark.pipelines``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zwire.errors import NotSupported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

__all__ = ["flow", "losses", "table"]


def table(
    name: str,
    spool: str,
    *,
    comment: str | None = None,
    partition_cols: Sequence[str] | None = None,
    table_properties: Mapping[str, str] | None = None,
    format: str | None = None,
    **options: object,
) -> None:
    """Define a streaming table with the rows of a spool, each once.

    Args:
        name: Name of the table.
        spool: Folder, address of a store, or ``zwire:<id>``, as the option of the source; several with commas
            between.
        comment: Comment of the table.
        partition_cols: Columns of partitions.
        table_properties: Properties of the table.
        format: Format of the table, such as ``delta``; by default that of the catalog.
        **options: Options of the source ``zwire``; ``startingOffsets`` is ``earliest`` by default.

    Raises:
        NotSupported: PySpark is older than 4.1.
    """
    _pipelines().create_streaming_table(
        name,
        comment=comment,
        partition_cols=None if partition_cols is None else list(partition_cols),
        table_properties=None if table_properties is None else dict(table_properties),
        format=format,
    )
    flow(name, spool, name=name, **options)


def flow(target: str, spool: str, *, name: str | None = None, **options: object) -> None:
    """Define a flow that appends the rows of a spool to a streaming table or a sink of the pipeline.

    Several flows, with names of their own, may have one target.

    Args:
        target: Name of the table or sink.
        spool: As in :func:`table`.
        name: Name of the flow, which keeps its position; by default that of the target with ``_rows``.
        **options: Options of the source ``zwire``.

    Raises:
        NotSupported: PySpark is older than 4.1.
    """
    _append(target, name or f"{target}_rows", "zwire", spool, options)


def losses(name: str, spool: str, **options: object) -> None:
    """Define a streaming table with the log of gaps of a spool: the messages that are missing in it.

    Args:
        name: Name of the table.
        spool: As in :func:`table`.
        **options: Options of the source ``zwire.gaps``.

    Raises:
        NotSupported: PySpark is older than 4.1.
    """
    _pipelines().create_streaming_table(name)
    _append(name, name, "zwire.gaps", spool, options)


def _append(target: str, name: str, source: str, spool: str, options: Mapping[str, object]) -> None:
    given = {"startingOffsets": "earliest", **{key: str(value) for key, value in options.items()}}

    def rows() -> DataFrame:
        from pyspark.sql import SparkSession

        session = SparkSession.active()
        return session.readStream.format(source).option("spool", spool).options(**given).load()

    _pipelines().append_flow(target=target, name=name)(rows)


def _pipelines() -> Any:  # noqa: ANN401 - a module that PySpark 4.0 does not have
    try:
        from pyspark import pipelines
    except ImportError as error:
        raise NotSupported(
            f"Spark Declarative Pipelines need PySpark 4.1 or newer with zwire[spark]: {error}"
        ) from error
    return pipelines
