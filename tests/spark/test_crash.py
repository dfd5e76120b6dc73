"""The contents of the sink after every process taking part was killed."""

import os

import pytest

import crash

SEED = int(os.environ.get("ZWIRE_CRASH_SEED", "7"))
KILLS = int(os.environ.get("ZWIRE_CRASH_KILLS", "0"))

often = pytest.mark.skipif(not KILLS, reason="`make stress` runs it: thirty kills take minutes")


@pytest.mark.long
@pytest.mark.timeout(300)
def test_nothing_is_lost_or_doubled_when_processes_are_killed(spark, tmp_path):
    trial = crash.Crash(tmp_path, 100)
    with trial.running():
        for what in (crash.RUNNER, crash.SPOOLER, crash.WORKER, crash.ALL):
            trial.kill(what, within=True)
        trial.kill_until_repeated(crash.WORKER)
        trial.finish()
    rows, named, compared = trial.check(spark)
    assert rows > 1000
    assert named > 0, "the spooler has lost nothing, so nothing was shown"
    assert compared > 0, "no task was run twice"


@pytest.mark.long
@pytest.mark.timeout(300)
def test_nothing_is_lost_or_doubled_when_executors_are_killed(spark, cluster, tmp_path):
    master, executors = cluster
    trial = crash.Crash(tmp_path, 100, master=master, executors=executors)
    with trial.running():
        trial.kill(crash.EXECUTOR, within=True, every=True)
        trial.kill_until_repeated(crash.EXECUTOR)
        trial.finish()
    rows, _, compared = trial.check(spark)
    assert rows > 500
    assert compared > 0, "no task was run twice"


@often
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", ["classic", "cluster"])
def test_nothing_is_lost_or_doubled_however_often(mode, spark, tmp_path, request):
    where = {}
    if mode == "cluster":
        where["master"], where["executors"] = request.getfixturevalue("cluster")
    trial = crash.chaos(tmp_path, KILLS // 2, SEED, 600, **where)
    rows, named, compared = trial.check(spark)
    print(
        f"{mode}, seed {SEED}: killed {trial.killed}; {sum(trial.sent.values())} sent, {rows} rows, "
        f"{named} named, {trial.batches()} batches, {len(trial.unfinished)} left unfinished, "
        f"{compared} attempts compared"
    )
    assert sum(trial.killed.values()) == KILLS // 2
    assert rows > 500 * KILLS
    assert compared > 0
