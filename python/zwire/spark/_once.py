"""Removal of duplicates from several spools that keep the same keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.spark._checked import dtypes
from zwire.spark._types import f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NEEDED = ("key", "hlc", "hlc_id", "source_zid", "source_eid", "source_sn", "shard", "offset")
_NAME = "_zwire_once"


def once(df: DataFrame, watermark: str = "10 minutes", *, time: str = "recv_ts") -> DataFrame:
    """Return each sample once, where several spoolers have kept the same keys; all columns stay.

    Two rows are the same sample if publisher and number are the same; of samples without a number, if key,
    time and clock are. Samples with neither stay, once for each spooler that has them: duplicates among them
    cannot be recognised.

    Args:
        df: Samples of several spools, with the columns ``key``, ``hlc``, ``hlc_id``, ``source_zid``,
            ``source_eid``, ``source_sn``, ``shard``, ``offset`` and ``spool``; batch or stream.
        watermark: Of streams: how long a row is remembered, in the syntax of Spark. A row that comes
            later behind the newest one is dropped, whether it is a duplicate or not; so the time has to be
            longer than any time by which one spool is read behind the other.
        time: Of streams: the time column of the watermark.

    Raises:
        ValueError: A column is missing.
    """
    there = dict(dtypes(df))
    needed = [*_NEEDED, "spool"] if not df.isStreaming else [*_NEEDED, "spool", time]
    missing = [name for name in needed if name not in there]
    if missing:
        raise ValueError(
            f"there is no column {missing[0]!r}: read several spools, with the option columns=all"
        )

    def identity(kind: int, who: str, first: str, second: str, where: str | None = None) -> Column:
        name = f.lit(None) if where is None else f.col(where)
        return f.struct(
            f.lit(kind).alias("kind"),
            f.col(who).cast("binary").alias("who"),
            f.col(first).cast("bigint").alias("first"),
            f.col(second).cast("bigint").alias("second"),
            name.cast("string").alias("where"),
        )

    known = (
        f.when(f.col("source_sn").isNotNull(), identity(0, "source_zid", "source_eid", "source_sn"))
        .when(f.col("hlc").isNotNull(), identity(1, "hlc_id", "hlc", "hlc", "key"))
        .otherwise(identity(2, "spool", "shard", "offset"))
    )
    named = df.withColumn(_NAME, known)
    if not df.isStreaming:
        return named.dropDuplicates([_NAME]).drop(_NAME)
    return named.withWatermark(time, watermark).dropDuplicatesWithinWatermark([_NAME]).drop(_NAME)
