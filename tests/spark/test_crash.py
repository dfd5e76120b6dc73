"""What is in the sink after everything was killed that takes part."""

import os
import random

import pytest

import crash

SEED = int(os.environ.get("ZWIRE_CRASH_SEED", "7"))


@pytest.mark.timeout(170)
def test_nothing_is_lost_or_doubled_when_processes_are_killed(spark, tmp_path):
    pauses = random.Random(SEED)
    trial = crash.Crash(tmp_path, 60)
    with trial.running():
        for what in (crash.RUNNER, crash.WORKER, crash.WRITER, crash.ALL):
            trial.kill(what, pauses.random() * 0.3)
        said = trial.finish()
    assert trial.killed == 4
    assert said.startswith("started")
    assert trial.check(spark) > 1000


@pytest.mark.skipif(
    "ZWIRE_CRASH_KILLS" not in os.environ, reason="`make stress` runs it: thirty kills take minutes"
)
@pytest.mark.timeout(3600)
def test_nothing_is_lost_or_doubled_however_often(spark, tmp_path):
    kills = int(os.environ["ZWIRE_CRASH_KILLS"])
    trial = crash.chaos(tmp_path, kills, SEED, 180)
    assert trial.killed >= kills - 2  # a worker may just have ended by itself
    assert trial.check(spark) > 1000 * kills
