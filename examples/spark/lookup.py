"""A lookup join: a query to the fleet for each row, many at a time; the replies become columns."""

from __future__ import annotations

import argparse
import json
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import robots
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import zwire.spark
from zwire import zenoh

if TYPE_CHECKING:
    from collections.abc import Generator


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--connect",
        metavar="ENDPOINT",
        help="a hub such as tcp/10.0.0.7:7447 with nodes that answer, instead of some here",
    )
    options.add_argument("--orders", type=int, default=1000, help="rows; default: %(default)s")
    options.add_argument(
        "--in-flight",
        type=int,
        default=64,
        help="questions of a task under way at once; default: %(default)s",
    )
    options.add_argument(
        "--timeout", type=float, default=5.0, help="seconds for an answer; default: %(default)s"
    )
    return options.parse_args(arguments)


@contextmanager
def warehouse(endpoint: str) -> Generator[None]:
    """Answer below ``stock/``: articles 0 to 89 are known; for every tenth of them the reply is an error."""

    def answer(query: zenoh.Query) -> None:
        key = str(query.key_expr)
        article = int(key.rpartition("/")[2])
        if article >= 90:
            return  # unknown article: the query ends without a reply
        if article % 10 == 9:
            query.reply_err(f"article {article} is being counted")
            return
        value = json.dumps({"shelf": f"{'ABC'[article % 3]}{article // 3}", "pieces": article * 7 % 50})
        query.reply(key, value, encoding=zenoh.Encoding.APPLICATION_JSON)

    with robots.client(endpoint) as session:
        queryable = session.declare_queryable("stock/*", answer)
        queryable.wait_ready(10)
        yield


def main(spark: SparkSession, options: argparse.Namespace) -> None:
    """Join orders with the replies of the warehouse."""
    with (
        robots.hub(options.connect) as endpoint,
        nullcontext() if options.connect else warehouse(endpoint),
    ):
        orders = spark.range(options.orders).select(
            f.col("id").alias("order"), f.concat(f.lit("stock/"), f.col("id") % 100).alias("article")
        )
        # Rows keep their partition and order; how="inner" leaves out rows without a reply.
        joined = zwire.spark.get(
            orders, "article", endpoint, in_flight=options.in_flight, timeout=options.timeout
        )
        stock = f.from_json(f.col("payload").cast("string"), "shelf string, pieces int")
        enriched = joined.select(
            "order",
            "article",
            f.when(f.col("error").isNull(), stock).alias("stock"),
            f.expr("if(error is not null, 'error', if(payload is null, 'missing', 'answered'))").alias(
                "result"
            ),
            "error",
        ).select("order", "article", "stock.*", "result", "error")
        # Each action queries again: keep the replies.
        enriched = enriched.persist()
        started = time.monotonic()
        counts = {row["result"]: row["count"] for row in enriched.groupBy("result").count().collect()}
        seconds = time.monotonic() - started
        enriched.orderBy("order").where("order between 85 and 94").show(truncate=False)
        print(*(f"{name}: {counts.get(name, 0)}" for name in ("answered", "missing", "error")), sep=", ")
        print(f"{options.orders} rows asked in {seconds:.1f} s, {options.in_flight} of each task in flight")
        enriched.unpersist()


if __name__ == "__main__":
    chosen = parse()
    builder = SparkSession.builder.appName("lookup").config("spark.sql.shuffle.partitions", "2")
    with builder.getOrCreate() as session:
        main(session, chosen)
