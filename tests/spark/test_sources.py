"""Formats of Spark: found without a word, checked before the job, and what they read is what was answered."""

import os
import pickle
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

import zwire.spark as zs
from zwire.errors import ConfigError
from zwire.spark.sources import MODULES, _get
from zwire.spark.sources._zwire import ZwireDataSource
from zwire.spool import Appender

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.smoke


@pytest.fixture
def answers(client):
    """A value at each key below ``store`` from 0 to 9, an error below ``bad``; and what was asked."""
    asked = []

    def reply(query):
        asked.append(str(query.selector))
        for number in range(10):
            key = f"store/{number}/v"
            if query.key_expr.intersects(key):
                query.reply(key, str(number), encoding="text/plain")

    def refuse(query):
        query.reply_err("no")

    queryables = [client.declare_queryable("store/**", reply), client.declare_queryable("bad", refuse)]
    yield asked
    for queryable in queryables:
        queryable.undeclare()


def read(spark, endpoint, **options):
    return spark.read.format("zwire").option("endpoints", endpoint).options(**options)


def test_selectors_are_asked_a_partition_each(spark, endpoint, answers):
    frame = read(spark, endpoint, selectors="store/*/v, store/3/**").load()
    assert frame.schema == zs.schema.SELECTED.spark()
    assert frame.rdd.getNumPartitions() == 2
    rows = frame.collect()
    assert sorted((row.selector, row.key, bytes(row.payload)) for row in rows) == sorted(
        [("store/3/**", "store/3/v", b"3")]
        + [("store/*/v", f"store/{number}/v", b"%d" % number) for number in range(10)]
    )
    assert {row.encoding for row in rows} == {"text/plain"}
    one = read(
        spark, endpoint, selector="store/7/v", columns="payload,key", timeout="5s", target="all"
    ).load()
    assert one.columns == ["payload", "key"]
    assert [(bytes(row.payload), row.key) for row in one.collect()] == [(b"7", "store/7/v")]


def test_errors_end_the_job_or_are_rows(spark, endpoint, answers):
    with pytest.raises(PythonException, match="bad: no"):
        read(spark, endpoint, selector="bad").load().collect()
    (row,) = read(spark, endpoint, selector="bad", errors="rows").load().collect()
    assert (row.key, row.error, row.selector) == (None, "no", "bad")


def test_many_replies_to_one_query_all_come(spark, endpoint, client):
    def reply(query):
        for number in range(20_000):
            query.reply(f"many/{number}", b"x" * 64)

    queryable = client.declare_queryable("many/*", reply)
    frame = read(spark, endpoint, selector="many/*", consolidation="none", timeout="60").load()
    row = frame.agg(f.count("*"), f.countDistinct("key"), f.sum(f.length("payload"))).collect()[0]
    assert tuple(row) == (20_000, 20_000, 20_000 * 64)
    queryable.undeclare()


@pytest.mark.parametrize(
    ("source", "options", "instead"),
    [
        ("zwire", {"selector": "a"}, "narrower selectors"),
        ("zwire", {"spool": "SPOOL"}, "keyFilter, startingTimestamp, endingTimestamp, startingOffsets"),
        (
            "zwire.gaps",
            {"spool": "SPOOL"},
            "startingTimestamp, endingTimestamp, startingOffsets, endingOffsets",
        ),
        ("zwire.pcap", {"path": "CAPTURE"}, "keyexprs, messages, kinds, startingTimestamp, endingTimestamp"),
    ],
)
def test_push_down_is_refused_with_the_options_that_do_the_same(spark, tmp_path, source, options, instead):
    """Spark applies filters that it has pushed down to later queries of the same DataFrame as well."""
    (tmp_path / "a.pcap").touch()
    Appender(tmp_path / "spool").close()
    places = {"SPOOL": str(tmp_path / "spool"), "CAPTURE": str(tmp_path / "a.pcap")}
    given = {name: places.get(value, value) for name, value in options.items()}
    spark.read.format(source).options(**given, pushdown="false").load()
    for reader in (
        (spark.read,) if source == "zwire.pcap" or "selector" in given else (spark.read, spark.readStream)
    ):
        with pytest.raises(AnalysisException, match=rf"'pushdown' is refused: .* Give {instead}"):
            reader.format(source).options(**given, pushdown="true").load()
    with pytest.raises(AnalysisException, match="'pushdown' is refused"):
        spark.read.format(source).options(**given, pushdown="true").schema("key string").load().collect()


def test_a_schema_of_the_user_chooses_columns(spark, endpoint, answers):
    reader = spark.read.format("zwire").option("endpoints", endpoint).option("selector", "store/1/v")
    assert reader.schema("key string, payload binary").load().collect()[0].key == "store/1/v"
    for ddl, problem in (
        ("key string, colour string", "column 'colour' is not one of"),
        ("payload string", "column 'payload' is binary, not string"),
        ("key string not null", "column 'key' can be null"),
    ):
        with pytest.raises(ConfigError, match=problem):
            _get.reader({"selector": "a"}, StructType.fromDDL(ddl))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "give selector"),
        ({"selektor": "a"}, "did you mean 'selector'"),
        ({"selector": "a", "timout": "1"}, "unknown option 'timout', did you mean 'timeout'"),
        ({"selector": "a//b"}, "'a//b': a key expression has no empty chunk"),
        ({"selectors": " "}, "has no selector"),
        ({"selector": "a", "target": "some"}, "best_matching, all, all_complete"),
        ({"selector": "a", "columns": "colour"}, "column 'colour' is not one of"),
        ({"selector": "a", "zenoh.transport.auth.usrpwd.password": "geheim"}, "env:NAME"),
    ],
)
def test_wrong_options_are_said_when_loading(spark, options, problem):
    with pytest.raises(ConfigError, match=problem) as caught:
        ZwireDataSource(options).schema()
    assert "geheim" not in str(caught.value)
    if "timout" in options:
        with pytest.raises(AnalysisException, match=problem):
            spark.read.format("zwire").options(**options).load()


def test_sql_reads_too(spark, endpoint, answers):
    options = f"selector 'store/*/v', endpoints '{endpoint}'"
    spark.sql(f"create or replace temporary view stored using zwire options ({options})")
    assert spark.sql("select count(*) from stored where payload > x'37'").collect()[0][0] == 2


def test_readers_pickle_and_open_nothing(endpoint):
    before = zs.session_counts()["opened"]
    made = _get.reader({"selector": "a/**", "endpoints": endpoint}, zs.schema.SELECTED.spark())
    again = pickle.loads(pickle.dumps(made))
    assert again.selectors == ["a/**"]
    assert [pickle.loads(pickle.dumps(part)).selector for part in made.partitions()] == ["a/**"]
    assert zs.session_counts()["opened"] == before


def test_formats_are_in_the_wheel_and_cheap():
    """Spark imports all of them at the first look for any format, also in jobs that use none of ours."""
    files = {path.stem for path in (ROOT / "python").glob("*.py")}
    assert files == set(MODULES)
    assert all(name.startswith("pyspark_zwire") for name in files)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["tool"]["maturin"]["include"] == ["python/pyspark_zwire*.py"]
    probe = """
import sys
import pyspark.sql.datasource
before = set(sys.modules)
import MODULES
new = set(sys.modules) - before
assert "zwire.spark.sources._zwire" in new
assert not [name for name in new if name.split(".")[0] in ("pyarrow", "pandas", "numpy", "google")], new
assert not [name for name in new if name.startswith("zwire.typed")], new
"""
    subprocess.run(
        [sys.executable, "-c", probe.replace("MODULES", ", ".join(MODULES))],
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
    )


def test_formats_can_be_registered_by_hand(spark):
    assert zs.register(spark) == [import_module(name).DefaultSource.name() for name in MODULES]
