"""The examples of Spark in the documentation run as they stand, one after the other."""

import shutil

import pytest

import snippets
from zwire import spool

HERE = "tests/spark/test_guide.py"


def run(page, **names):
    examples = snippets.to_run(page, by=HERE)
    assert examples, "there are no examples"
    with snippets.Runner(page, names) as runner:
        for example in examples:
            runner.run(example)
    return len(examples)


@pytest.fixture
def folder(tmp_path):
    for name in ("query", "pubsub-basic"):
        shutil.copy(snippets.ROOT / f"tests/vectors/captures/zenoh-{name}.pcap.gz", tmp_path)
    return str(tmp_path)


def test_the_examples_of_the_guide_run(spark, endpoint, client, folder, tmp_path):
    def square(query):
        number = int(str(query.key_expr).rsplit("/", 1)[1])
        query.reply(query.key_expr, str(number * number))

    queryable = client.declare_queryable("square/*", square)
    subscriber = client.declare_subscriber("**")
    names = {"spark": spark, "config": endpoint, "folder": folder, "checkpoint": str(tmp_path / "checkpoint")}
    names["spooled"] = str(tmp_path / "spool")
    assert run("docs/guide/spark.md", **names, receiver=client) > 5
    keys = [str(sample.key_expr) for sample in subscriber.recv_many(1000, timeout=5)]
    assert keys.count("fleet/1/battery") == keys.count("fleet/2/battery") == 3
    assert keys.count("told/3") == 1
    queryable.undeclare()


def test_the_example_of_the_first_page_runs(spark, endpoint, folder):
    values = spark.createDataFrame([("a/b", b"1")], "key string, payload binary")
    questions = spark.createDataFrame([("a/*",)], "selector string")
    run("docs/index.md", spark=spark, endpoint=endpoint, folder=folder, values=values, questions=questions)


def test_the_recipe_for_lakehouses_runs(spark, tmp_path):
    with spool.Appender(tmp_path / "spool") as appender:
        for number in range(100):
            appender.append(key=f"robot/{number % 5}", payload=str(number))
    names = {"place": str(tmp_path / "lake"), "checkpoint": str(tmp_path / "checkpoint")}
    run("docs/guide/lakehouse.md", spark=spark, spooled=str(tmp_path / "spool"), **names)


def test_the_example_of_the_quick_start_runs(spark, endpoint):
    run("docs/guide/getting-started.md", spark=spark, endpoint=endpoint)
