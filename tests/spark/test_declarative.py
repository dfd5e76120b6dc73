"""Tables of Spark Declarative Pipelines over spools."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

import snippets
from zwire import spool
from zwire.errors import NotSupported
from zwire.spark import declarative

PIPELINE = snippets.ROOT / "examples/spark/pipeline"


def fill(folder, first, rows):
    with spool.Appender(folder, shards=2) as appender:
        for number in range(first, first + rows):
            appender.append(key=f"robot/{number % 5}/battery", payload=str(number))
        appender.append_gap(0, "drop", count=3)


@pytest.fixture
def registry():
    """The outputs and flows that a file of a pipeline defines."""
    registries = pytest.importorskip("pyspark.pipelines.graph_element_registry", reason="needs PySpark 4.1")

    class Registry(registries.GraphElementRegistry):
        def __init__(self):
            self.outputs, self.flows = [], []

        def register_output(self, output):
            self.outputs.append(output)

        def register_flow(self, flow):
            self.flows.append(flow)

        def register_auto_cdc_flow(self, flow):
            raise AssertionError(flow)

        def register_sql(self, sql_text, file_path):
            raise AssertionError(sql_text)

    made = Registry()
    with registries.graph_element_registration_context(made):
        yield made


def test_tables_and_flows_are_defined(registry, spark, tmp_path):
    fill(tmp_path / "spool", 0, 10)
    place = str(tmp_path / "spool")
    declarative.table("samples", place, comment="all", keyFilter="robot/1/**", maxRowsPerTrigger=100)
    declarative.flow("samples", place, name="more", columns="key,payload,shard,offset")
    declarative.flow("samples", place)
    declarative.losses("losses", place)
    assert [(output.name, output.comment) for output in registry.outputs] == [
        ("samples", "all"),
        ("losses", None),
    ]
    assert [(flow.target, flow.name) for flow in registry.flows] == [
        ("samples", "samples"),
        ("samples", "more"),
        ("samples", "samples_rows"),
        ("losses", "losses"),
    ]
    samples, more, _, losses = (flow.func() for flow in registry.flows)
    assert samples.isStreaming
    assert "recv_ts" in samples.columns
    assert more.columns == ["key", "payload", "shard", "offset"]
    assert "kind" in losses.columns
    assert "sn_from" in losses.columns


def test_pyspark_without_pipelines_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.pipelines", None)
    monkeypatch.delattr("pyspark.pipelines", raising=False)
    with pytest.raises(NotSupported, match=r"need PySpark 4\.1 or newer"):
        declarative.table("samples", "/var/spool/robots")


@pytest.mark.long
@pytest.mark.timeout(700)
def test_the_example_runs_as_a_pipeline(tmp_path):
    pytest.importorskip("pyspark.pipelines", reason="needs PySpark 4.1")
    shutil.copytree(PIPELINE, tmp_path / "pipeline")
    spec = tmp_path / "pipeline/spark-pipeline.yml"
    text = spec.read_text().replace("/var/spool/robots\n", f"{tmp_path}/spool\n")
    spec.write_text(text.replace("file:///tmp/robots-pipeline", f"file://{tmp_path}/storage"))
    program = Path(sys.executable).with_name("spark-pipelines")
    if not program.exists():
        import pyspark

        program = Path(pyspark.__file__).parent / "bin/spark-pipelines"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
        environment.pop(name, None)
    python = str(snippets.ROOT / "python")
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [python, os.environ.get("PYTHONPATH")]))
    for run in range(2):
        fill(tmp_path / "spool", 500 * run, 500)
        done = subprocess.run(
            [program, "run", "--conf", "spark.sql.catalogImplementation=hive", "--spec", spec],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        assert "Run is COMPLETED" in done.stdout + done.stderr

    def rows(name):
        return ds.dataset(tmp_path / "spark-warehouse" / name, format="parquet").to_table().to_pylist()

    assert sorted(int(row["payload"]) for row in rows("samples")) == list(range(1000))
    # The second appender notes its start as well.
    assert [row["count"] for row in rows("losses") if row["kind"] == "drop"] == [3, 3]
    assert {row["key"]: row["level"] for row in rows("levels")} == {
        f"robot/{number}/battery": 995.0 + number for number in range(5)
    }
