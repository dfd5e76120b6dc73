"""The programs of ``examples/spark``: one as a user starts it, all of them on the Spark of the tests."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import snippets
from truth import path

FOLDER = snippets.ROOT / "examples" / "spark"


@pytest.fixture
def program(spark, tmp_path, monkeypatch):
    """Imports a program, in a folder of its own."""
    from pyspark import cloudpickle

    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.chdir(tmp_path)
    taken = []

    def take(name):
        module = importlib.import_module(name)
        if module not in taken:
            taken.append(module)
            # A program that is started is `__main__`; its functions travel like this.
            cloudpickle.register_pickle_by_value(module)
        return module

    yield take
    for module in taken:
        cloudpickle.unregister_pickle_by_value(module)
    for name in [*programs(), "robots"]:
        sys.modules.pop(name, None)


@pytest.fixture
def example(program, spark, capsys):
    """Runs the main function of a program, and gives the lines that it prints."""

    def run(name, *arguments):
        module = program(name)
        module.main(spark, module.parse([str(each) for each in arguments]))
        return capsys.readouterr().out.splitlines()

    return run


def programs():
    return sorted(file.stem for file in FOLDER.glob("*.py") if file.stem != "robots")


def test_telemetry_becomes_windows_that_a_second_run_goes_on_with(example, spark, tmp_path):
    first = example("telemetry", "--robots", 2, "--seconds", 300)
    assert first[-2:] == [
        "600 readings: 240 in 4 windows that are over, 360 in others",
        "0 rows in zwire.gaps",
    ]
    second = example("telemetry", "--robots", 2, "--seconds", 300, "--start", 300)
    assert second[-2] == "1200 readings: 840 in 14 windows that are over, 360 in others"
    rows = spark.read.parquet(str(tmp_path / "telemetry-out" / "windows")).collect()
    # The first robot had no radio in the second minute; its readings came later and are all counted.
    assert {row.readings for row in rows} == {60}
    assert len({(row.start, row.key) for row in rows}) == len(rows) == 14


def test_captures_tell_who_talked_and_what_is_broken(example):
    lines = example("forensics", "--seconds", 60)
    assert sum("fleet/robot-" in line for line in lines) == 6, lines
    assert any("|fleet/robot-0/telemetry|10     |" in line for line in lines), lines
    assert any("PUSH key: value" in line and "hub.pcap" in line for line in lines), lines
    assert lines[-1].endswith(" messages, 1 errors")
    assert example("forensics", path("router"))[-1] == "224 messages, 0 errors"


def test_scores_reach_their_robots_once(example, program, spark, endpoint, client, tmp_path):
    assert example("scoring", "--robots", 2, "--seconds", 100) == [
        "robot-0: 100 scores, the worst 0.658, 0 came again",
        "robot-1: 100 scores, the worst 6.098, 0 came again",
    ]
    # As if the driver had died before it wrote down that the first batch is done: all goes out again.
    robot = program("scoring").Robot(client, "robot-1")
    robot.subscriber.wait_ready(10)
    spool, checkpoint = (tmp_path / "scoring-out" / name for name in ("spool", "checkpoint"))
    for _ in range(2):
        for commit in (checkpoint / "commits").glob("*0*"):
            commit.unlink()
        program("scoring").score_all(spark, endpoint, str(spool), str(checkpoint))
    client.flush(10)
    assert (robot.scores, robot.repeats) == (100, 100)


def test_orders_are_joined_with_answers(example):
    lines = example("lookup", "--orders", 200, "--in-flight", 16)
    assert lines[-2] == "answered: 162, missing: 20, error: 18"
    rows = {cells[2]: cells for line in lines if len(cells := [cell.strip() for cell in line.split("|")]) > 5}
    assert rows["stock/88"][3:6] == ["B29", "16", "answered"]
    assert rows["stock/89"][5:7] == ["error", "article 89 is being counted"]
    assert rows["stock/90"][3:7] == ["NULL", "NULL", "missing", "NULL"]


def test_logs_of_nodes_are_a_table(example):
    lines = example("zre_logs", "--nodes", 4)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    nodes = [row for row in cells if row[0].startswith("robot-") and len(row) == 7]
    assert [row[:3] for row in nodes] == [[f"robot-{number}", "1", "1"] for number in range(4)]
    assert all(int(row[5]) >= 3 and int(row[6]) >= 3 for row in nodes), nodes
    assert ["robot-0", "warning", "battery low"] in cells


@pytest.mark.long
def test_a_program_runs_as_it_is(tmp_path):
    done = subprocess.run(
        [sys.executable, str(FOLDER / "lookup.py"), "--orders", "10"],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "answered: 9, missing: 0, error: 1" in done.stdout.splitlines()


def test_every_program_is_in_the_list():
    text = (FOLDER / "README.md").read_text()
    tested = Path(__file__).read_text()
    for name in programs():
        assert f"| `{name}.py` |" in text
        assert f'example("{name}"' in tested
