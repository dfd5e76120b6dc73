"""A standalone master with two workers of one core each, from the package of PySpark alone.

Executors are JVMs of their own here, each with a daemon that forks its Python workers: nothing is shared with
the driver but what travels.

``python tests/cluster.py PROGRAM...`` runs programs of Spark there, one after another, in a temporary folder:
``make examples-cluster`` those of ``examples/spark``.
"""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PATIENCE = 60.0

# Without the second compiler, a short job takes half the processor time.
SHORT_JOBS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
# tests/spark/conf/archive.py writes the archive of classes.
ARCHIVE = os.environ.get("ZWIRE_SPARK_ARCHIVE")
JAVA = f"{SHORT_JOBS} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE else SHORT_JOBS

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "FATAL",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "30s",
    "spark.cores.max": "2",
    "spark.python.unix.domain.socket.enabled": "true",
    # As users have it; the other tests share imports of their workers.
    "spark.python.daemon.module": "pyspark.daemon",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
}
"""Configuration of the jobs on the cluster."""


def _spark_class(name, *arguments, log):
    """Start a part of Spark as the scripts of its full distribution do, with its children in a session."""
    import pyspark

    home = Path(pyspark.__file__).parent
    settings = {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
    settings["SPARK_DAEMON_JAVA_OPTS"] = JAVA
    settings["PYSPARK_PYTHON"] = sys.executable
    return subprocess.Popen(
        [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
        stdout=log,
        stderr=subprocess.STDOUT,
        env={**os.environ, **settings},
        start_new_session=True,
    )


def _said(log, pattern, process):
    """Wait until a log has a matching line, and return the match."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        log.seek(0)
        text = log.read().decode(errors="replace")
        if found := re.search(pattern, text):
            return found[1]
        assert process.poll() is None, text
        time.sleep(0.05)
    raise AssertionError(f"no {pattern!r} within {PATIENCE} s:\n{text}")


@contextlib.contextmanager
def _started(*arguments):
    """A process and its log; the process is ended behind the block."""
    with tempfile.TemporaryFile() as log:
        process = _spark_class(*arguments, log=log)
        try:
            yield process, log
        finally:
            # With its executors, and at once: a worker that is asked to end takes 20 s and more.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)


@contextlib.contextmanager
def cluster(folder):
    """Yield the address of the master, and the processes of the workers."""
    local = ("--host", "127.0.0.1", "--webui-port", "0")
    with _started("master.Master", *local, "--port", "0") as (process, log), contextlib.ExitStack() as stack:
        address = _said(log, r"Starting Spark master at (spark://[\d.:]+)", process)
        workers = [
            stack.enter_context(
                _started(
                    "worker.Worker", *local, "-c", "1", "-m", "1g", "-d", str(folder / str(number)), address
                )
            )
            for number in (1, 2)
        ]
        for worker, output in workers:
            _said(output, r"(Successfully registered)", worker)
        yield address, [worker for worker, _ in workers]


def run(programs):
    """Run programs that make a session without naming a master; return the names of those that failed."""
    failed = []
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "workers") as (master, _):
        for program in map(Path, programs):
            print(f"== {program.stem} on {master}", flush=True)
            # Modules beside a program are on its path, and on that of the workers.
            path = os.pathsep.join(
                filter(None, [str(program.parent.resolve()), os.environ.get("PYTHONPATH")])
            )
            settings = SETTINGS | {"spark.master": master, "spark.executorEnv.PYTHONPATH": path}
            options = [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
            environment = {
                "PYSPARK_SUBMIT_ARGS": shlex.join([*options, "pyspark-shell"]),
                "PYSPARK_PYTHON": sys.executable,
                "PYTHONPATH": path,
                "SPARK_LOCAL_IP": "127.0.0.1",
            }
            where = Path(folder) / program.stem
            where.mkdir()
            done = subprocess.run(
                [sys.executable, str(program.resolve())],
                cwd=where,
                env={**os.environ, **environment},
                check=False,
                timeout=10 * PATIENCE,
            )
            if done.returncode != 0:
                failed.append(program.stem)
    return failed


if __name__ == "__main__":
    wrong = run(sys.argv[1:])
    sys.exit(f"failed: {', '.join(wrong)}" if wrong else 0)
