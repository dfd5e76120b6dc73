"""Daemon of Spark's Python workers that imports their packages before it forks them.

Spark's own daemon forks first, because an import may start threads; then each worker of each short job takes
most of a second of processor time to import pyarrow, pandas and pyspark. The variables below keep those
packages from starting threads.
"""

# ruff: noqa: F401, ICN001
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")

import pandas
import pyarrow.compute
import pyarrow.dataset
import pyspark.sql.worker.plan_data_source_read
import pyspark.sql.worker.write_into_data_source
import pyspark.worker
from pyspark.daemon import manager

import zwire.spark

if __name__ == "__main__":
    manager()
