"""Processes that take part where one is killed: publishers, and a query that follows a spool.

``python victims.py generate ENDPOINT NAME STOP`` publishes numbered samples until there is a file ``STOP``,
and prints how many. ``python victims.py query MASTER SPOOL OUT CHECKPOINT DIGESTS STOP`` follows a spool
until there is a file ``STOP``, starts its query again whenever it fails, and notes the checksum of each batch
of Arrow that its tasks have read.
"""

import hashlib
import json
import sys
import time
import uuid
from pathlib import Path

PUBLISHERS = 2
KEYS = 5
HANDFUL = 5
PACE = 0.05
"""Seconds between two groups of samples of each publisher."""
TASK = 0.05
"""Seconds that each task stays between its first row and its last, so that a kill can find it there."""


def generate(endpoint, name, stop):
    from zwire import zenoh

    block = zenoh.CongestionControl.BLOCK
    config = {"mode": "client", "connect/endpoints": [endpoint]}
    sent = {f"{name}-{number}": 0 for number in range(PUBLISHERS)}
    with zenoh.open(config) as session:
        entities = {mine: session.declare_publisher(f"k/{mine}").id for mine in sent}
        while not Path(stop).exists():
            for mine, entity in entities.items():
                for _ in range(HANDFUL):
                    number = sent[mine]
                    key, payload = f"k/{mine}/{number % KEYS}", f"{mine}/{number}"
                    info = zenoh.SourceInfo(entity, number)
                    session.put(key, payload, source_info=info, congestion_control=block)
                    sent[mine] += 1
            time.sleep(PACE)
        session.flush(10)
    print(json.dumps(sent), flush=True)


def noting(folder):
    """A function for ``mapInArrow`` that notes the checksums of its input, for each attempt."""

    def through(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        batch = context.getLocalProperty("streaming.sql.batchId")
        name = f"{batch}-{context.partitionId()}-{uuid.uuid4().hex}"
        pause = TASK
        with (Path(folder) / name).open("w", buffering=1) as notes:
            for one in batches:
                notes.write(hashlib.sha256(one.serialize()).hexdigest() + "\n")
                time.sleep(pause)
                pause = 0.0
                yield one
            notes.write("end\n")

    return through


def session(master):
    from pyspark.sql import SparkSession

    folder = Path(__file__).parent
    if master.startswith("local"):
        sys.path.insert(0, str(folder / "spark"))
        from conftest import SETTINGS
    else:
        sys.path.insert(0, str(folder))
        from cluster import SETTINGS
    builder = SparkSession.builder.master(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    # Small batches, so that killed attempts have read some of them.
    return builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "100").getOrCreate()


def follow(master, folder, out, checkpoint, digests, stop):
    from pyspark.errors import StreamingQueryException

    spark = session(master)
    columns = "key,payload,source_zid,source_eid,source_sn,shard,offset"
    options = {"startingOffsets": "earliest", "maxRowsPerTrigger": "5000", "columns": columns}
    stream = spark.readStream.format("zwire").options(spool=folder, **options).load()
    stream = stream.mapInArrow(noting(digests), stream.schema)
    sink = stream.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
    done = False
    while not done:
        query = sink.start()
        print("started", flush=True)
        try:
            while not (done := Path(stop).exists()):
                if query.awaitTermination(1):
                    break
            query.processAllAvailable()
            query.stop()
        except StreamingQueryException as error:
            print("failed", str(error)[:200].replace("\n", " "), flush=True)
            done = False
    print("done", flush=True)


if __name__ == "__main__":
    {"generate": generate, "query": follow}[sys.argv[1]](*sys.argv[2:])
