"""The programs of ``examples/``, each as a process of its own, against each other over a hub."""

import re
import subprocess
import sys

import pytest

import snippets

pytestmark = pytest.mark.slow

FOLDER = snippets.ROOT / "examples"


class Example(subprocess.Popen):
    """A running example; ``lines`` are the printed lines that a test has waited for."""

    def __init__(self, name, *options):
        super().__init__(
            [sys.executable, "-W", "error", str(FOLDER / f"{name}.py"), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(self, text):
        """Waits for a line that begins so; the test's timeout bounds it."""
        for line in self.stdout:
            if line.startswith(text):
                return line.rstrip("\n")
        raise AssertionError(f"never said {text!r}: {self.stderr.read()}")

    def rest(self):
        """The rest of its output, until it ends by itself."""
        out, errors = self.communicate(timeout=20)
        assert self.returncode == 0, errors
        return out.splitlines()


@pytest.fixture
def example(router):
    """Starts an example as a client of a hub."""
    running = []

    def start(name, *options):
        options = ("--mode", "client", "--connect", router.endpoint, *options)
        running.append(Example(name, *options))
        return running[-1]

    yield start
    for process in running:
        with process:
            process.kill()


def test_publishing_and_subscribing(example):
    subscriber = example("sub", "-n", "4")
    subscriber.until("subscribed")
    assert example("pub", "-n", "2", "--interval", "0", "-v", "x").rest()[1:] == ["[   0] x", "[   1] x"]
    assert example("put", "-v", "one").rest() == ["put demo/example/python: one"]
    assert example("delete").rest() == ["deleted demo/example/python"]
    assert subscriber.rest() == [
        "PUT demo/example/python: [   0] x",
        "PUT demo/example/python: [   1] x",
        "PUT demo/example/python: one",
        "DELETE demo/example/python: ",
    ]


def test_pulling_the_newest(example):
    puller = example("pull", "--size", "2", "--interval", "0.05")
    puller.until("subscribed")
    example("pub", "-n", "5", "--interval", "0").rest()
    # However many looks it takes: the newest one stays.
    puller.until("demo/example/python: [   4] hello")


def test_asking_and_answering(example):
    queryable = example("queryable", "-n", "3")
    queryable.until("answering")
    assert example("get", "-p", "why").rest() == ["demo/example/python: an answer", "end: completed"]
    assert example("querier", "-n", "2", "--interval", "0").rest() == ["demo/example/python: an answer"] * 2
    assert queryable.rest() == [
        "asked for demo/example/** (why)",
        "asked for demo/example/python?number=0 (question 0)",
        "asked for demo/example/python?number=1 (question 1)",
    ]
    assert example("get").rest() == ["end: completed"]


def test_liveliness(example):
    watcher = example("liveliness_sub", "-n", "2")
    watcher.until("watching")
    token = example("liveliness")
    token.until("alive")
    assert example("liveliness_get").rest() == ["alive: group/python"]
    token.kill()
    assert watcher.rest() == ["alive: group/python", "gone: group/python"]


def test_who_is_there(example, router, tmp_path):
    lines = example("info").rest()
    assert [line.split(":")[0] for line in lines] == ["me", "router", "link"]
    assert router.endpoint in lines[2]
    # A group of our own, on the loopback.
    config = tmp_path / "scouting.json5"
    config.write_text(
        "{scouting: {multicast: {interface: 'lo', address: '224.0.0.224:17451'}}, mode: 'peer',"
        " listen: {endpoints: ['tcp/127.0.0.1:0']}}"
    )
    with Example("liveliness", "--config", str(config)) as peer:
        peer.until("alive")
        found = Example("scout", "--config", str(config)).rest()
        peer.kill()
    assert found[-1] == "1 found"
    assert re.match(r"peer \w+ at tcp/127\.0\.0\.1:\d+", found[0])


def test_round_trips(example):
    pong = example("pong")
    pong.until("sending back")
    (line,) = example("ping", "-n", "20", "--warm-up", "0").rest()
    assert re.fullmatch(r"64 bytes: median \d+ us, best \d+ us", line)


def test_camera_frames(tmp_path):
    plot = tmp_path / "latency.png"
    with Example("camera", "-n", "20", "--rate", "30", "--plot", str(plot)) as camera:
        shown = camera.rest()
    pattern = r"(shared memory|link alone): \d+ frames, median [\d.]+ ms, p99.9 [\d.]+ ms"
    assert [bool(re.fullmatch(pattern, line)) for line in shown] == [True, True], shown
    assert plot.stat().st_size > 1000


@pytest.mark.parametrize("batch", [1, 500])
def test_throughput(example, batch):
    subscriber = example("throughput_sub", "-n", "2000")
    subscriber.until("counting")
    lines = example("throughput_pub", "-n", "2000", "--batch", str(batch)).rest()
    assert re.fullmatch(r"\d+ messages/s", lines[-1])
    assert subscriber.rest()[-1] == "2000 messages, 0 dropped"


def test_advanced_publisher_and_subscriber(example):
    publisher = example("advanced_pub", "-n", "3", "--interval", "0", "--linger", "60")
    publisher.until("[   2]")
    late = example("advanced_sub", "-n", "3").rest()
    assert late[1:] == [f"demo/example/python: [   {number}] hello" for number in range(3)]


def test_values_of_a_class(example):
    subscriber = example("typed_sub", "-n", "4")
    subscriber.until("subscribed")
    assert example("typed_pub", "-n", "1").rest() == ["published as application/json;Position"]
    assert example("typed_pub", "-n", "1", "--codec", "zenoh").rest() == [
        "published as zenoh/serialized;Position"
    ]
    example("put", "-v", "somewhere").rest()
    example("delete").rest()
    lines = subscriber.rest()
    assert lines[:2] == ["demo/example/python: Position(x=0.0, y=0.0)"] * 2
    assert lines[2] == "demo/example/python: zenoh/bytes: no JSON: Expecting value at byte 0"
    assert lines[3] == "demo/example/python: deleted"


def test_in_an_event_loop(example):
    assert example("aio").rest() == [
        *(f"demo/example/python: value {number}" for number in range(3)),
        "demo/example/python: an answer",
    ]


def test_every_example_was_run():
    programs = {path.stem for path in FOLDER.glob("*.py")}
    assert len(programs) > 15, "the guard has not found the examples"
    named = set(re.findall(r"`(\w+)\.py`", (FOLDER / "README.md").read_text()))
    assert named == programs
    source = (snippets.ROOT / "tests" / "python" / "test_examples.py").read_text()
    called = set(re.findall(r"\b(?:example|Example)\(\"(\w+)\"", source)) | {"common"}
    assert called == programs
