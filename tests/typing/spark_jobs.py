"""Partitions of Spark."""

from collections.abc import Iterator
from typing import Any, assert_type

from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession

import zwire.spark
from zwire.config import SessionConfig


def frames(spark: SparkSession, values: DataFrame) -> None:
    config = SessionConfig(mode="client", connect="tcp/127.0.0.1:7447")
    assert_type(zwire.spark.put(values, config, congestion="drop", errors="skip"), DataFrame)
    assert_type(zwire.spark.get(values, "selector", {"mode": "client"}), DataFrame)
    assert_type(zwire.spark.decode(zwire.spark.captures(spark, ["a.pcap"]), "path"), DataFrame)
    assert_type(zwire.spark.once(values, "1 hour", time="recv_ts"), DataFrame)
    zwire.spark.put(values, config, congestion="maybe")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    zwire.spark.put(values, config, prio=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    zwire.spark.put(values)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def rows(rdd: RDD[Any]) -> None:
    summaries = rdd.mapPartitions(zwire.spark.put_partition("tcp/127.0.0.1:7447"))
    assert_type(summaries.collect(), list[zwire.spark.PutSummary])
    replies = rdd.mapPartitions(zwire.spark.get_partition("tcp/127.0.0.1:7447", timeout=3))
    assert_type(replies.collect(), list[zwire.spark.ReplyRow])
    assert_type(rdd.mapPartitions(zwire.spark.decode_partition()).collect(), list[zwire.spark.DecodedRow])
    assert_type(zwire.spark.batches(rdd), RDD[zwire.spark.Batch])


def own(partition: Iterator[str]) -> Iterator[str]:
    session = zwire.spark.session("tcp/127.0.0.1:7447")
    for key in partition:
        for reply in session.get(key):
            if reply.ok is not None:
                yield reply.ok.payload.to_string()
