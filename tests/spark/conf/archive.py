"""Write an archive of Spark's classes, which a JVM maps instead of loading them: ``archive.py FILE``.

Half of the processor time of a JVM in the tests is the loading of classes. The jobs below load those that
tests need. Without an archive, or with one of another Java or PySpark, a JVM loads them itself.
"""

# ruff: noqa: N802
import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition, SimpleDataSourceStreamReader

from cluster import SHORT_JOBS

JVM_SECONDS = 120


class Numbers(DataSource):
    """Numbers, as a batch and as a stream."""

    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "key string, n long"

    def reader(self, schema):
        return BatchReader()

    def simpleStreamReader(self, schema):
        return StreamReader()


class BatchReader(DataSourceReader):
    """Two partitions of a row each."""

    def partitions(self):
        return [InputPartition(1), InputPartition(2)]

    def read(self, partition):
        yield "a", partition.value


class StreamReader(SimpleDataSourceStreamReader):
    """A stream of a single row."""

    def initialOffset(self):
        return {"n": 0}

    def read(self, start):
        return iter([("a", 0)] if start["n"] == 0 else []), {"n": 1}

    def readBetweenOffsets(self, start, end):
        return iter([("a", start["n"])])


def jobs(spark, folder):
    """Run what the tests run most; each further job takes longer here than it saves."""
    frame = spark.createDataFrame([("a", 1, b"x"), ("b", 2, None)], "key string, n int, payload binary")
    frame.repartition(2).groupBy("key").agg(f.sum("n"), f.count("*")).orderBy("key").collect()
    frame.write.mode("append").parquet(f"{folder}/parquet")
    spark.dataSource.register(Numbers)
    spark.read.format("numbers").load().filter("n = 1").collect()
    query = spark.readStream.format("numbers").load().writeStream.format("noop").start()
    query.processAllAvailable()
    query.stop()


def main(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    # A folder on the class path prevents an archive, and the folder of settings is on it.
    os.environ["SPARK_CONF_DIR"] = str(file.parent / "none")
    new = file.with_suffix(".new")
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            # Those of the JVMs that map the archive: another collector could not.
            "spark.driver.extraJavaOptions": f"{SHORT_JOBS} -XX:ArchiveClassesAtExit={new}",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.log.level": "FATAL",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
        }
        spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        gateway = spark.sparkContext._gateway
        try:
            jobs(spark, folder)
        finally:
            spark.stop()
            gateway.shutdown()
            gateway.proc.stdin.close()
            # The JVM writes the archive at its end.
            gateway.proc.wait(JVM_SECONDS)
    new.replace(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
