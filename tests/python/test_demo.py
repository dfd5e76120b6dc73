"""The parts of the demo that need no Spark."""

import importlib.util
import json
import shutil
import subprocess
import sys
import time

import pytest

from zwire import zenoh
from zwire.cli import main
from zwire.demo import road
from zwire.demo.counts import Counts, Tally
from zwire.demo.fleet import NUMBER
from zwire.demo.hub import Hub, client
from zwire.demo.kept import Value, lines, missing, stored
from zwire.demo.processes import Fleet
from zwire.demo.talk import talk
from zwire.errors import TimedOut, TransportError


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        (["pyspark"], "pyspark: pip install 'zwire[spark]'"),
        (["matplotlib"], "matplotlib: pip install 'zwire[plot]'"),
        (["pyarrow", "matplotlib"], "pyarrow, matplotlib: pip install 'zwire[plot,spark]'"),
    ],
)
def test_a_missing_package_is_one_line_that_names_the_extra(missing, says, monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else find(name))
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == f"zwire demo: needs {says}\n"


def test_a_missing_jdk_is_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["demo"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "JDK 17" in line
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["demo"]) == 1


def test_wrong_numbers_are_refused(capsys):
    assert main(["demo", "--processes", "0"]) == 2
    assert main(["demo", "--seconds", "-1"]) == 2
    assert "--seconds: expected a number of seconds" in capsys.readouterr().err
    assert main(["demo", "--seconds", "0"]) == 2
    assert "positive" in capsys.readouterr().err


def test_a_zre_node_and_a_session_talk(tmp_path):
    with Hub(tmp_path / "hub.pcap") as hub:
        assert talk(hub.endpoint, 10.0) == ("hello from ZRE", "hello from Zenoh")


def counted(**stations):
    counts = Counts(2)
    for station, tallies in stations.items():
        counts.put(station, tallies)
    return counts


SENT = {(0, "position"): Tally(10, 10), (1, "image"): Tally(2, 2)}


def test_equal_counts_are_no_problem():
    assert counted(sent=SENT, received=dict(SENT), decoded=dict(SENT)).problems() == []


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({**SENT, (0, "position"): Tally(9, 9)}, "received: 9 messages of position of process 0"),
        ({**SENT, (0, "position"): Tally(11, 10)}, "received: 11 messages of position of process 0, 10 diff"),
        # One lost, another one twice.
        ({**SENT, (0, "position"): Tally(10, 9)}, "received: 10 messages of position of process 0, 9 diff"),
        ({(0, "position"): Tally(10, 10)}, "received: 0 messages of image of process 1"),
        ({**SENT, (2, "image"): Tally(1, 1)}, "received: 1 messages of image of process 2"),
    ],
)
def test_any_difference_is_named(found, says):
    (problem,) = counted(sent=SENT, received=found).problems()
    assert problem.startswith(says)


def test_nothing_at_all_is_a_problem():
    assert counted(sent={}, received={}).problems() == ["nothing was sent"]


def test_the_table_has_a_line_for_each_process_and_the_sum():
    lines = counted(sent=SENT, received={}).table()
    assert [line.split() for line in lines if line[-1:].isalnum()] == [
        ["process", "sent", "received"],
        ["0", "10", "0"],
        ["1", "2", "0"],
        ["all", "12", "0"],
    ]
    assert len({len(line) for line in lines if line}) == 1


@pytest.fixture
def hub():
    with zenoh.open({"mode": "router", "listen/endpoints": ["tcp/127.0.0.1:0"]}) as session:
        yield session.listening()[0]


def test_the_fleet_publishes_answers_and_ends(hub, tmp_path):
    with zenoh.open({"mode": "client", "connect/endpoints": [hub]}) as session:
        subscriber = session.declare_subscriber("fleet/**")
        fleet = Fleet(hub, count=2, robots=2, seconds=0.3, errors=tmp_path / "errors")
        with fleet:
            assert set(fleet.wait("ready", 20)) == {0, 1}
            fleet.go()
            sent = fleet.wait("sent", 20)
            assert sent[0]["counts"]["position"] == sent[1]["counts"]["position"] == 2 * 30
            total = sum(sum(tally["counts"].values()) for tally in sent.values())
            samples = []
            while len(samples) < total:
                more = subscriber.recv_many(1000, timeout=5)
                assert more, f"{len(samples)} of {total}"
                samples += more
            for process in (0, 1):
                mine = [s for s in samples if str(s.key_expr).startswith(f"fleet/{process}/")]
                numbers = sorted(NUMBER.unpack(s.attachment.to_bytes())[0] for s in mine)
                assert numbers == list(range(len(mine)))
            for process, answers in ((0, 1), (1, 0)):
                replies = list(session.get(f"fleet/{process}/robot-1/status", timeout=5))
                assert len(replies) == answers
            status = json.loads(next(iter(session.get("fleet/0/robot-1/status"))).ok.payload.to_bytes())
            assert status["sent"] == sum(str(s.key_expr).startswith("fleet/0/robot-1/") for s in samples)
            (unknown,) = session.get("fleet/0/nobody/status", timeout=5)
            assert unknown.err.payload.to_string() == "there is no such robot"
        assert all(process.returncode == 0 for process in fleet._processes)
    assert (tmp_path / "errors").read_text() == ""


def test_a_process_that_fails_is_named(tmp_path):
    with Fleet("tcp/127.0.0.1:1", count=1, robots=1, seconds=1, errors=tmp_path / "errors") as fleet:
        with pytest.raises(TransportError) as caught:
            fleet.wait("ready", 25)
        assert str(caught.value).startswith("process 0 of the fleet has ended: zwire.errors.ConnectError: ")


def test_a_silent_process_is_not_waited_for_without_end(hub, tmp_path):
    with Fleet(hub, count=1, robots=1, seconds=1, errors=tmp_path / "errors") as fleet:
        fleet.wait("ready", 20)
        with pytest.raises(TimedOut, match=r"process 0 of the fleet was not sent within 0\.5 s"):
            fleet.wait("sent", 0.5)


def test_a_process_ends_when_the_demo_is_gone(hub):
    settings = {"endpoint": hub, "process": 0, "robots": 1, "seconds": 60, "answers": True}
    with subprocess.Popen(
        [sys.executable, "-m", "zwire.demo.fleet", json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert json.loads(process.stdout.readline()) == {"word": "ready"}
        process.stdin.write(b"go\n")
        process.stdin.close()
        assert process.wait(timeout=10) in (0, 1)


def sleep_without_missing_files():
    try:
        time.sleep(10)
    except OSError:
        pytest.fail("an import takes it for a module that does not exist")


def test_the_end_of_time_is_no_missing_file():
    with pytest.raises(TimedOut, match=r"not done within 0\.1 s"), road._give_up_after(0.1):
        sleep_without_missing_files()


def test_a_killed_hub_has_each_value_afterwards(tmp_path):
    published = {f"fleet/0/robot-{robot}/position": Value(b"%d" % robot, b"\0" * 8) for robot in range(3)}
    published["result/0/robot-0"] = Value(b"{}", None)
    (tmp_path / "store" / "fleet").mkdir(parents=True)
    (tmp_path / "store" / "fleet" / "of a former demo").touch()
    with Hub(tmp_path / "hub.pcap", tmp_path / "store", errors=tmp_path / "errors") as hub:
        with client(hub.endpoint) as session:
            for key, value in published.items():
                session.put(key, b"an earlier value")
                session.put(key, value.payload, attachment=value.attachment)
            session.flush(timeout=20)
            assert missing(published, stored(hub.endpoint)) == []
        hub.kill()
        captured = hub.capture.stat().st_size
        hub.restart()
        assert missing(published, stored(hub.endpoint)) == []
        assert hub.capture.stat().st_size == captured > 0
        # The check notices a storage that has lost its folder.
        hub.kill()
        shutil.rmtree(hub.store)
        hub.restart()
        assert missing(published, stored(hub.endpoint)) == [
            f"the storage has lost {key}" for key in published
        ]
    assert (tmp_path / "errors").read_text() == ""


def test_a_hub_that_does_not_start_is_named(tmp_path):
    (tmp_path / "hub.pcap").mkdir()
    with pytest.raises(TransportError, match="the hub has ended: "):
        Hub(tmp_path / "hub.pcap", tmp_path / "store", errors=tmp_path / "errors")


def test_each_value_that_the_storage_has_not_is_named():
    old, new = Value(b"old", None), Value(b"new", None)
    assert missing({"a": new, "b": new, "c": new}, {"b": old, "c": new, "d": new}) == [
        "the storage has lost a",
        "the storage has another value of b than was published last",
        "the storage has d, which was never published",
    ]
    assert [line.split() for line in lines({"fleet/0/robot-1/image": new, "result/0/robot-1": old})] == [
        ["image", "1", "values", "3", "bytes"],
        ["result", "1", "values", "3", "bytes"],
    ]
