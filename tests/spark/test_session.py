"""Sessions of Spark workers: one for each worker and configuration.

Opened late, used again, closed when idle, and left alone by forks. Functions here read their partition to its
end even where they do not care: Spark uses a worker again only if it has taken all its input.
"""

import gc
import os
import pathlib
import subprocess
import sys
import time

import pytest

import zwire.spark as zs
from zwire.spark import _sessions


def eventually(condition, seconds=15.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def test_workers_keep_their_session_between_jobs(spark, endpoint, hub):
    def use(partition):
        session = zs.session(endpoint)
        session.put("used", str(len(list(partition))))
        yield os.getpid(), str(session.zid()), zs.session(endpoint) is session

    seen = set()
    for _ in range(4):
        seen.update(spark.sparkContext.parallelize(range(8), 4).mapPartitions(use).collect())
    assert all(same for _, _, same in seen)
    # Sixteen tasks, and as many sessions as processes.
    assert len(seen) == len({pid for pid, _, _ in seen}) <= 3
    assert {zid for _, zid, _ in seen} <= {str(t.zid) for t in hub.info.transports()}


def test_an_idle_session_closes_and_the_next_task_opens_another(spark, endpoint, hub):
    config = {"connect/endpoints": [endpoint], "zwire/idle_close_ms": 400}

    def use(partition):
        list(partition)
        before = zs.session_counts()["opened"]
        zs.session(config).put("a", "b")
        yield os.getpid(), zs.session_counts()["opened"] - before

    rdd = spark.sparkContext.parallelize([0], 1).mapPartitions(use)
    ((pid, opened),) = rdd.collect()
    assert opened == 1
    # The worker is still there, waiting for its next task; its session says goodbye by itself.
    eventually(lambda: not hub.info.transports())
    os.kill(pid, 0)
    assert rdd.collect()[0][1] == 1


def test_a_session_in_use_is_not_idle(endpoint, hub):
    # Those that tests before have left in this process stay for 30 s.
    zs.close_sessions()
    config = {"connect/endpoints": [endpoint], "zwire/idle_close_ms": 100}
    session = zs.session(config)
    time.sleep(0.5)
    assert not session.is_closed()
    closed = zs.session_counts()["closed_idle"]
    del session
    eventually(lambda: zs.session_counts()["closed_idle"] == closed + 1)
    eventually(lambda: not hub.info.transports())
    # With the last session goes the thread that watches them.
    eventually(lambda: _sessions._process.closer is None)


def test_a_session_without_idle_time_stays(endpoint):
    config = {"connect/endpoints": [endpoint], "zwire/idle_close_ms": 0}
    zid = str(zs.session(config).zid())
    time.sleep(0.3)
    assert str(zs.session(config).zid()) == zid
    zs.close_sessions()


def test_a_closed_session_is_replaced(endpoint):
    first = zs.session(endpoint)
    first.close()
    second = zs.session(endpoint)
    assert not second.is_closed()
    assert second is not first
    zs.close_sessions()
    assert second.is_closed()
    assert zs.session_counts()["open"] == 0


def test_a_fork_inside_a_task_harms_nobody(spark, endpoint, client, collected):
    subscriber = client.declare_subscriber("fork/*")

    def fork(_):
        import signal

        from zwire.errors import UsageError

        def in_child(work):
            """The exit code of a child that does some work, or that was killed for taking too long."""
            pid = os.fork()
            if pid == 0:
                signal.alarm(10)
                code = 1
                try:
                    code = work()
                finally:
                    os._exit(code)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        def inherited():
            try:
                session.put("fork/wrong", "x")
            except UsageError:
                return 0
            return 2

        def fresh():
            own = zs.session(endpoint)
            own.put("fork/child", "x")
            zs.close_sessions()
            return 0 if own is not session else 3

        session = None
        results = [in_child(fresh)]
        session = zs.session(endpoint)
        session.put("fork/parent", "before")
        results += [in_child(inherited) for _ in range(10)] + [in_child(fresh) for _ in range(10)]
        session.put("fork/parent", "after")
        yield results, zs.session(endpoint) is session

    # The first child comes before this worker has a session for this hub.
    ((results, same),) = spark.sparkContext.parallelize([0], 1).mapPartitions(fork).collect()
    assert results == [0] * 21
    assert same
    got = [f"{s.key_expr} {s.payload.to_string()}" for s in collected(subscriber, 13)]
    assert sorted(got) == ["fork/child x"] * 11 + ["fork/parent after", "fork/parent before"]


def test_the_driver_can_go_on_while_workers_work(spark, endpoint, client, collected):
    """A session of the driver, its workers started after it."""
    subscriber = client.declare_subscriber("who/*")
    driver = zs.session(endpoint)
    driver.put("who/driver", "before")
    rdd = spark.sparkContext.parallelize([("who/worker", "x")] * 4, 4)
    rdd.mapPartitions(zs.put_partition(endpoint)).collect()
    driver.put("who/driver", "after")
    assert len(collected(subscriber, 6)) == 6
    zs.close_sessions()


def test_sessions_leak_neither_threads_nor_descriptors(spark, endpoint):
    def cycle(_):
        def count():
            return [len(list(pathlib.Path("/proc/self", what).iterdir())) for what in ("task", "fd")]

        def more(counts, now):
            return any(
                number > max(before) for number, before in zip(now, zip(*counts, strict=True), strict=True)
            )

        counts = []
        for _ in range(60):
            zs.session(endpoint).put("a", "b")
            zs.close_sessions()
            now, end = count(), time.monotonic() + 5
            # The task of a link releases its socket a moment after the close.
            while len(counts) >= 30 and more(counts[:30], now) and time.monotonic() < end:
                time.sleep(0.01)
                now = count()
            counts.append(now)
        yield counts

    (counts,) = spark.sparkContext.parallelize([0], 1).mapPartitions(cycle).collect()
    # The first cycles start the runtime and its threads.
    assert max(threads for threads, _ in counts[30:]) <= max(threads for threads, _ in counts[:30])
    assert max(files for _, files in counts[30:]) <= max(files for _, files in counts[:30])


@pytest.mark.parametrize("module", ["zwire.spark", "zwire.spark.schema"])
def test_importing_loads_neither_spark_nor_arrow_and_starts_no_thread(module):
    code = (
        f"import {module}, sys, os\n"
        "heavy = {'pyspark', 'pyarrow', 'pandas', 'numpy'} & set(sys.modules)\n"
        "sys.exit(bool(heavy) or len(os.listdir('/proc/self/task')) > 1)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_worker_collects_no_garbage_of_what_it_has_loaded(spark, endpoint):
    """Spark collects after each task: of modules, longer than a task of one row takes. Not in the driver."""
    put = zs.put_partition(endpoint)

    def attempt(_):
        list(put([("freeze/a", b"x")]))
        first = gc.get_freeze_count()
        list(put([("freeze/a", b"x")]))
        yield first, gc.get_freeze_count()

    ((first, second),) = spark.sparkContext.parallelize([0], 1).mapPartitions(attempt).collect()
    assert first > 10_000
    assert second <= first, "once for each worker: what a task leaves is garbage"
    before = gc.get_freeze_count()
    list(put([("freeze/a", b"x")]))
    zs.close_sessions()
    assert gc.get_freeze_count() == before
