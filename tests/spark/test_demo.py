"""The demo, small: the whole road, what it leaves, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from zwire import spool

SMALL = ["--processes", "2", "--robots", "2", "--seconds", "1"]

# A subscriber that misses one message, and a demo that has to notice.
SABOTAGE = """
import sys
from zwire.cli import main
from zwire.demo.watch import Watch

take, seen = Watch._take, []

def forgetful(self, sample):
    seen.append(sample)
    if len(seen) != 7:
        take(self, sample)

Watch._take = forgetful
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def start(tmp_path):
    """Starts demos, and gives the processes that they started in turn; none may outlive the test."""
    mark = f"ZWIRE_TEST_MARK={uuid.uuid4()}"
    name, _, value = mark.partition("=")
    running = []

    def begin(*command):
        process = subprocess.Popen(
            [sys.executable, *command, "--out", str(tmp_path / "out")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, name: value},
            cwd=tmp_path,
        )
        running.append(process)
        return process

    def descendants():
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue  # it has ended, or belongs to another user
        return found

    begin.descendants = descendants
    yield begin
    for process in running:
        process.kill()
        process.communicate()
    end = time.monotonic() + 20
    while left := descendants():
        assert time.monotonic() < end, f"processes {left} are still there"
        time.sleep(0.1)


def test_the_whole_road(start, tmp_path):
    process = start("-m", "zwire", "demo", *SMALL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert err == "", "what Spark says is for its log"
    results = [line.strip() for line in out.splitlines() if line.strip().startswith("result/")]
    assert [line.split()[0] for line in results] == [
        f"result/{process}/robot-{robot}" for process in (0, 1) for robot in (0, 1)
    ]
    # Of two processes the first answers queries.
    assert ["the robot says the same" in line for line in results] == [True, True, False, False]
    assert "otherwise" not in out
    assert "nothing was lost" in out.splitlines()[-1]

    counts = json.loads((tmp_path / "out" / "counts.json").read_text())
    assert list(counts) == ["sent", "received", "in the tier", "into hub", "out of hub", "came back"]
    sent = counts["sent"]
    assert all(station == sent for station in counts.values())
    assert set(sent) == {"0", "1"}
    for kinds in sent.values():
        assert kinds == {"position": 200, "battery": 20, "image": 4}
    assert (tmp_path / "out" / "fleet.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out" / "hub.pcap").stat().st_size > 1_000_000
    assert (tmp_path / "out" / "spark.log").exists()
    # The host of the spooler is lost, with its folder; the tier is what Spark has read.
    assert "the host of the spooler is lost" in out
    # Three kinds of each of the four robots, and a result; the hub has lost none with its life.
    assert "it runs again with 16 of 16 values" in out
    assert out.count(" 4 values") == 4
    assert sum(spool.open(f"file://{tmp_path}/out/tier").end().values()) == 448


@pytest.mark.long
def test_a_message_that_one_station_has_not_seen_is_a_failure(start):
    process = start("-c", SABOTAGE, "demo", *SMALL)
    out, err = process.communicate(timeout=150)
    assert process.returncode == 1, out + err
    assert "wrong: received: " in out
    assert "nothing was lost" not in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after", ["fleet", pytest.param("spark", marks=pytest.mark.long)])
def test_it_can_be_interrupted(start, number, after):
    process = start("-m", "zwire", "demo", "--processes", "2", "--robots", "2", "--seconds", "60")
    for line in process.stdout:
        if line.split()[2] == after:
            break
    assert len(start.descendants()) >= 3
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    # The fixture sees to it that nothing is left.


@pytest.mark.long
def test_it_gives_up_in_time(start):
    process = start("-m", "zwire", "demo", "--seconds", "60", "--timeout", "2")
    _, err = process.communicate(timeout=40)
    assert process.returncode == 1
    assert err.strip().endswith("zwire demo: not done within 2 s")
    assert "Traceback" not in err
