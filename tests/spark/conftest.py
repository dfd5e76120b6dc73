"""A Spark session for the whole run, and a hub in this process for its workers."""

import functools
import inspect
import os
import sys
import time
from pathlib import Path

import pytest

import cluster as standalone
import nodes

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
# The settings are given by name, and their folder does not exist: a folder on the class path would prevent
# the archive of classes.
CONF = Path(__file__).parent / "conf"
os.environ["SPARK_CONF_DIR"] = str(CONF / "none")
os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {CONF / 'spark-defaults.conf'} pyspark-shell"
os.environ["SPARK_SUBMIT_OPTS"] = os.environ["SPARK_LAUNCHER_OPTS"] = standalone.JAVA
# For the daemon of workers that the settings name.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(CONF), os.environ.get("PYTHONPATH")]))

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "FATAL",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    # The output of our functions must match the schema exactly, beyond what Spark tolerates.
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
}


def pytest_collection_modifyitems(items):
    for item in items:
        if "/tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    # A second attempt of tasks, so that retries can be seen.
    builder = SparkSession.builder.master("local[2,2]").appName("zwire tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    session = builder.config("spark.local.dir", str(folder / "local")).getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """The address of a master that two workers have registered with, and their processes."""
    with standalone.cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(autouse=True)
def functions_travel_by_value(request):
    """Workers cannot import test modules, so their functions are sent as they are."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


@pytest.fixture
def as_arrow():
    """Convert a schema as Spark does, in UTC, which is the default before 4.2."""
    from pyspark.sql.pandas.types import to_arrow_schema

    has = "timezone" in inspect.signature(to_arrow_schema).parameters
    return functools.partial(to_arrow_schema, timezone="UTC") if has else to_arrow_schema


@pytest.fixture
def hub():
    with nodes.router() as session:
        yield session


@pytest.fixture
def endpoint(hub):
    return hub.listening()[0]


@pytest.fixture
def client(hub):
    with nodes.client(hub) as session:
        yield session


@pytest.fixture
def collected():
    """Take samples from a subscriber until there are ``count``, and a moment more to detect surplus ones."""

    def collect(subscriber, count, seconds=20.0):
        end = time.monotonic() + seconds
        samples = []
        while len(samples) < count and time.monotonic() < end:
            samples += subscriber.recv_many(count, timeout=0.2)
        return samples + subscriber.recv_many(1000, timeout=0.1)

    return collect
