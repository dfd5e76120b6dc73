"""The logs of ten ZRE nodes as a table: ZRE/LOG into a spool, and SQL over it."""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession

from zwire import zre
from zwire.spool import ZreLogSpooler

# One machine, without broadcasts: the nodes get each other's endpoints.
QUIET = {"beacons": False, "bind": "127.0.0.1", "mailbox": 0}
SECONDS = 10.0

BY_NODE = """
select coalesce(name, hex(node_hash)) as name,
       count_if(event = 1) as joined, count_if(event = 2) as left,
       count_if(event = 3) as entered, count_if(event = 4) as gone,
       count_if(event = 5) as sent, count_if(event = 6) as received
from log left join nodes using (node_hash) where level = 3 group by all order by name
"""
WORST = """
select coalesce(name, hex(node_hash)) as name,
       case level when 1 then 'error' else 'warning' end as level, data
from log left join nodes using (node_hash) where level < 3 order by timestamp
"""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, default=10, help="default: %(default)s")
    options.add_argument(
        "--listen", type=float, metavar="SECONDS", help="to the nodes of the network, instead of some here"
    )
    options.add_argument(
        "--out", type=Path, default=Path("zre-logs-out"), help="the spool; default: %(default)s"
    )
    return options.parse_args(arguments)


def talk(spool: str, count: int) -> list[tuple[int, str]]:
    """Let nodes meet and shout, and keep their logs. Return the hash of each node in logs, and its name."""
    with ExitStack() as running:
        nodes: list[zre.Node] = []
        for number in range(count):
            known = [node.endpoint for node in nodes if node.endpoint]
            config = {**QUIET, "peers": known, "log_traffic": True}
            nodes.append(running.enter_context(zre.Node(f"robot-{number}", config)))
        endpoints = [node.endpoint or "" for node in nodes]
        # Its node announces the collector. Elsewhere: `zwire spool keep --dir DIR --zre-log`.
        keeper = running.enter_context(
            ZreLogSpooler(spool, bind="tcp://127.0.0.1:*", config={**QUIET, "peers": endpoints})
        )
        for node in nodes:
            node.wait_for_peers(count, SECONDS)  # the others, and the keeper's
            node.join("FLEET")
        settle(keeper)
        for node in nodes:
            node.shout("FLEET", b"here I am")
        with zre.LogSender(endpoints[0].removeprefix("tcp://")) as sender:
            sender.connect(keeper.endpoint)
            sender.log("WARNING", data="battery low")
            settle(keeper)
        for node in nodes:
            node.leave("FLEET")
        settle(keeper)
        keeper.flush()
    return [(zre.log_hash(end.removeprefix("tcp://")), f"robot-{n}") for n, end in enumerate(endpoints)]


def settle(keeper: ZreLogSpooler) -> None:
    """Wait until no line has come for half a second: log lines are not acknowledged."""
    before, end = -1, time.monotonic() + SECONDS
    while (received := keeper.stats()["received"]) != before and time.monotonic() < end:
        before = received
        time.sleep(0.5)


def main(spark: SparkSession, options: argparse.Namespace) -> None:
    """Keep logs, and query them in SQL."""
    spool = str(options.out.absolute())
    names: list[tuple[int, str]] = []
    if options.listen:
        with ZreLogSpooler(spool):
            time.sleep(options.listen)
    else:
        names = talk(spool, options.nodes)
    spark.createDataFrame(names, "node_hash int, name string").createOrReplaceTempView("nodes")
    spark.sql(f"create or replace temporary view log using zre.log options (path '{spool}')")
    spark.sql(BY_NODE).show()
    spark.sql(WORST).show(truncate=False)
    print(f"{spark.table('log').count()} records")


if __name__ == "__main__":
    chosen = parse()
    builder = SparkSession.builder.appName("zre_logs").config("spark.sql.shuffle.partitions", "2")
    with builder.getOrCreate() as session:
        main(session, chosen)
