"""The soak run in small: its judge, and seconds of it without Spark. ``make soak`` runs it for an hour."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

import crash
from soak import figures, run
from soak.figures import Histogram, Trend, Verdict

CHANCE = random.Random(5)
HOUR = range(0, 3600, 5)


def series(value, noise=0.0):
    """Samples of an hour, with peaks now and then."""
    return [(t, value(t) + CHANCE.uniform(-noise, noise) + (40 if t % 300 == 0 else 0)) for t in HOUR]


@pytest.mark.parametrize(
    ("kind", "flat", "leaking"),
    [
        ("memory", lambda t: 30 + 4 * t / 3600, lambda t: 30 + 36 * t / 3600),
        ("threads", lambda t: 12, lambda t: 12 + t // 900),
        ("descriptors", lambda t: 40 + t % 7, lambda t: 40 + t // 120),
        ("latency", lambda t: 1.0 + 0.3 * t / 3600, lambda t: 1.0 + 3.0 * t / 3600),
    ],
)
def test_the_judge_tells_a_leak_from_a_flat_series(kind, flat, leaking):
    noise = 0.0 if kind == "threads" else 0.3
    assert figures.judged("it", kind, Trend.of(series(flat, noise))).holds
    assert not figures.judged("it", kind, Trend.of(series(leaking, noise))).holds


def test_growth_in_the_warm_up_is_no_leak():
    assert figures.judged("it", "memory", Trend.of(series(lambda t: min(t, 600)))).holds
    # The same growth later on is one.
    assert not figures.judged("it", "memory", Trend.of(series(lambda t: t))).holds


def test_large_processes_may_grow_by_a_part_and_spark_by_more():
    trend = Trend(rise=20.0, median=300.0)
    assert figures.judged("it", "memory", trend).holds
    assert not figures.judged("it", "memory", Trend(rise=20.0, median=100.0)).holds
    assert figures.judged("it", "memory", Trend(rise=200.0, median=400.0), generous=True).holds
    assert not figures.judged("it", "memory", Trend(rise=300.0, median=400.0), generous=True).holds


def test_a_histogram_has_percentiles_a_few_percent_too_high_at_most():
    histogram, part = Histogram(), Histogram()
    values = [round(CHANCE.lognormvariate(12, 1)) for _ in range(20_000)]
    for number, value in enumerate(values):
        (part if number % 3 else histogram).add(value)
    histogram.merge(part)
    values.sort()
    for share in (0.5, 0.99, 0.999):
        exact = values[round(share * len(values)) - 1]
        assert exact <= histogram.percentile(share) <= 1.04 * exact
    assert histogram.summary()["max"] == values[-1] / figures.MS
    assert histogram.summary()["count"] == len(values)


@pytest.mark.parametrize("value", [0, 1, 31, 32, 33, 63, 64, 65, 1000, 10**6, 10**9, 2**63 - 1])
def test_a_bucket_ends_just_above_its_values(value):
    edge = Histogram.edge(Histogram.bucket(value))
    assert value <= edge <= value + value / 32
    assert Histogram.bucket(edge) == Histogram.bucket(value)
    assert Histogram.bucket(edge + 1) == Histogram.bucket(value) + 1


def test_a_row_says_where_its_bound_is_exceeded():
    assert Verdict.below("p99.9 (ms)", 5.0, 5.0).row() == "| p99.9 (ms) | 5.00 | < 5 | **EXCEEDED** |"
    assert Verdict.most("lost", 0, 0).row() == "| lost | 0.00 | <= 0 | ok |"
    assert Verdict("sent", 1234).row() == "| sent | 1,234.00 |  |  |"


SMALL = ("--minutes", "0.1", "--window", "1", "--restart", "2", "--settle", "0", "--rate", "200")


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(sys.platform != "linux", reason="resources are read from /proc")
def test_seconds_of_it_lose_nothing_and_leave_no_process(tmp_path):
    out = tmp_path / "out"
    # Without bounds for latency and slopes: other tests run on the same processors.
    more = ("--without-spark", "--untimed", "--out", str(out))
    done = subprocess.run(
        [sys.executable, run.__file__, *SMALL, *more],
        check=False,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((out / "soak.json").read_text())
    assert [each["name"] for each in found["restarts"]] == ["peer_a", "aio"]
    values = {verdict["measure"]: verdict["value"] for verdict in found["verdicts"]}
    assert values["calm pair: messages sent"] > 1000
    for measure in ("peer_b: answered", "aio: given up", "spool: rows", "zre_1: shout", "churn: sessions"):
        assert values[measure] > 0, measure
    assert not crash.pids({worker["pid"] for worker in found["workers"]})


@pytest.mark.skipif(sys.platform != "linux", reason="resources are read from /proc")
def test_a_worker_that_ends_by_itself_is_named_and_the_others_end(tmp_path):
    # A worker of a role that does not exist ends at once.
    script = f"""
import sys
sys.argv[1:] = ["--without-spark", "--untimed", "--out", {str(tmp_path / "out")!r}]
sys.path.insert(0, {str(Path(run.__file__).parent.parent)!r})
from soak import run
launch = run.Stage.launch
roles = {{"zre_1": "none"}}
run.Stage.launch = lambda self, name, role, **more: launch(self, name, roles.get(name, role), **more)
sys.exit(run.main())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=25
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED: zre_1: ended within" in done.stdout
    assert "KeyError: 'none'" in done.stdout
    found = json.loads((tmp_path / "out" / "soak.json").read_text())
    assert not crash.pids({worker["pid"] for worker in found["workers"]})
