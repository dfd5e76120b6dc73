"""Analysis of captures: the pairs of talkers, the use of bandwidth, and broken messages."""

from __future__ import annotations

import argparse
from pathlib import Path

import robots
from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "captures",
        nargs="*",
        help="files, folders and globs of pcap and pcapng; without any one is made here",
    )
    options.add_argument(
        "--seconds", type=int, default=120, help="of the capture that is made here; default: %(default)s"
    )
    options.add_argument(
        "--out", type=Path, default=Path("forensics-out"), help="where it is written; default: %(default)s"
    )
    return options.parse_args(arguments)


def make(out: Path, seconds: int) -> str:
    """Write a capture of a hub, robots and a listener, and damage two octets of it, as disks do."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "hub.pcap"
    file.unlink(missing_ok=True)
    with (
        robots.hub(tap=str(file)) as endpoint,
        robots.client(endpoint) as listener,
        listener.declare_subscriber("fleet/**") as subscriber,
    ):
        subscriber.wait_ready(10)
        robots.publish(endpoint, robots.readings(5, seconds))
        # A publisher that is not sure of delivery repeats the message.
        robots.publish(endpoint, robots.readings(1, 10))
        listener.flush(10)
    octets = bytearray(file.read_bytes())
    # The robots send full keys, so the last key is in one of their messages.
    last = octets.rindex(b"fleet/robot-3/telemetry")
    octets[last - 2 : last] = b"\xff\xff"
    file.write_bytes(octets)
    return str(file)


def main(spark: SparkSession, options: argparse.Namespace) -> None:
    """Read the captures once and analyse them in several ways."""
    paths = options.captures or [make(options.out.absolute(), options.seconds)]
    columns = "ts,src,dst,protocol,message,kind,key,payload,sn,error,offset,file"
    rows = spark.read.format("zwire.pcap").option("columns", columns).load(paths).cache()

    print("pairs of talkers")
    rows.groupBy("src", "dst", "protocol").agg(
        f.count("*").alias("messages"),
        f.sum(f.length("payload")).alias("bytes"),
        f.round(f.max("ts").cast("double") - f.min("ts").cast("double"), 3).alias("seconds"),
        f.count_if(f.col("message") == "close").alias("closed"),
    ).orderBy(f.desc("messages")).show(10, truncate=False)

    print("keys by volume, counted once: a hub sends each message again to every subscriber")
    puts = rows.where("message = 'push' and kind = 'put'")
    first = puts.groupBy("key").agg(f.min_by("dst", "ts").alias("dst"))
    puts.join(first, ["key", "dst"]).groupBy("key").agg(
        f.count("*").alias("messages"), f.sum(f.length("payload")).alias("bytes")
    ).orderBy(f.desc("bytes"), "key").show(10, truncate=False)

    print("said more than once by the same sender")
    repeated = puts.groupBy("src", "dst", "key", f.md5("payload")).agg((f.count("*") - 1).alias("repeats"))
    again = repeated.where("repeats > 0").groupBy("src", "dst", "key").agg(f.sum("repeats").alias("repeats"))
    again.orderBy(f.desc("repeats"), "key").show(10, truncate=False)

    print("what could not be decoded, and where it is")
    errors = rows.where("message = 'error'")
    errors.select("file", "src", "dst", "offset", "error").show(20, truncate=False)
    print(f"{rows.count()} messages, {errors.count()} errors")
    rows.unpersist()


if __name__ == "__main__":
    chosen = parse()
    builder = SparkSession.builder.appName("forensics").config("spark.sql.shuffle.partitions", "2")
    with builder.getOrCreate() as session:
        main(session, chosen)
