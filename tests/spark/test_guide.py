"""The examples of the guide run as they stand, one after the other."""

import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "docs/guide/spark.md").read_text(), re.DOTALL | re.MULTILINE
)


@pytest.fixture
def folder(tmp_path):
    for name in ("query", "pubsub-basic"):
        shutil.copy(ROOT / f"tests/vectors/captures/zenoh-{name}.pcap.gz", tmp_path)
    return str(tmp_path)


def test_the_examples_of_the_guide_run(spark, endpoint, client, folder):
    def square(query):
        number = int(str(query.key_expr).rsplit("/", 1)[1])
        query.reply(query.key_expr, str(number * number))

    queryable = client.declare_queryable("square/*", square)
    subscriber = client.declare_subscriber("**")
    names = {"spark": spark, "config": endpoint, "folder": folder}
    assert len(BLOCKS) > 5, "the guide has no examples"
    for block in BLOCKS:
        exec(compile(block, "docs/guide/spark.md", "exec"), names)
    keys = [str(sample.key_expr) for sample in subscriber.recv_many(100, timeout=5)]
    assert keys.count("fleet/1/battery") == keys.count("fleet/2/battery") == 3
    assert keys.count("told/3") == 1
    queryable.undeclare()
