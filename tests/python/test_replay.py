"""Replays: when rows go, which, where to, and what the command says."""

import contextlib
import datetime as dt
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import anyio
import pyarrow as pa
import pytest

import nodes
from loops import PATIENCE, everywhere, pair
from terminal import shown
from zwire import recording, zenoh
from zwire.aio import recording as aio_recording
from zwire.cli import main
from zwire.errors import KeyExprError, RowError, TimedOut
from zwire.recording import _replay
from zwire.spark import schema

pytestmark = pytest.mark.slow

BEGIN = dt.datetime(2026, 3, 4, 5, 6, 7, tzinfo=dt.UTC)


def at(seconds):
    return None if seconds is None else BEGIN + dt.timedelta(seconds=seconds)


def batches(*times, size=7):
    """A row for each time (seconds), numbered, in batches of a few rows."""
    rows = [
        {"key": f"a/{number % 2}", "payload": b"%d" % number, "kind": "put", "recv_ts": at(when)}
        for number, when in enumerate(times)
    ]
    return pa.Table.from_pylist(rows, schema=schema.SAMPLE.arrow()).to_batches(max_chunksize=size)


class World:
    """A session, and the time in it: only waiting and publishing take any."""

    def __init__(self, costs=lambda _number: 0.0):
        self.now = 1000.0
        self.costs = costs
        self.sent = []
        self.waits = 0

    def clock(self):
        return self.now

    def sleep(self, seconds):
        assert 0 < seconds <= 1
        self.waits += 1
        self.now += seconds

    def put_batch(self, batch, **_qos):
        rows = batch.column("payload").to_pylist()
        for row in rows:
            self.sent.append((round(self.now - 1000, 6), int(row)))
            self.now += self.costs(int(row))
        return SimpleNamespace(bytes=sum(map(len, rows)), unmatched=0)

    def play(self, found, **options):
        return _replay.drive(self, found, options, clock=self.clock, sleep=self.sleep)


def test_rows_go_when_they_are_due():
    world = World()
    done = world.play(batches(*(number / 100 for number in range(300))))
    assert [number for _, number in world.sent] == list(range(300))
    for when, number in world.sent:
        assert 0 <= when - number / 100 <= 0.0011
    assert (done.rows, done.bytes, done.unsent) == (300, 790, 0)
    assert done.seconds == pytest.approx(2.99, abs=0.001)
    assert done.played == pytest.approx(2.99)
    assert done.late <= 0.001


@pytest.mark.parametrize("rate", [0.25, 2, 1000])
def test_the_rate_is_times_the_speed(rate):
    world = World()
    done = world.play(batches(0, 10, 40), rate=rate)
    for (when, _), due in zip(world.sent, (0, 10, 40), strict=True):
        assert when == pytest.approx(due / rate, abs=0.0011)
    assert done.played == 40


def test_without_a_rate_nothing_waits():
    world = World()
    assert world.play(batches(0, 1000, 5000), rate=None).seconds == 0
    assert (world.waits, len(world.sent)) == (0, 3)


def test_what_publishing_costs_does_not_add_up():
    world = World(lambda _number: 0.004)
    done = world.play(batches(*(number / 100 for number in range(2000))))
    assert done.late < 0.01
    assert world.sent[-1][0] == pytest.approx(19.99, abs=0.01)


def test_it_catches_up_and_says_how_late_it_was():
    world = World(lambda number: 3.0 if number == 50 else 0.0)
    done = world.play(batches(*(number / 100 for number in range(1000))))
    assert done.late == pytest.approx(2.99, abs=0.01)
    assert world.sent[51][0] == pytest.approx(3.5, abs=0.01)
    assert world.sent[400][0] == pytest.approx(4.0, abs=0.01)
    assert world.sent[-1][0] == pytest.approx(9.99, abs=0.002)


def test_rows_that_are_due_together_go_together():
    world = World()
    calls = []
    put, world.put_batch = (
        world.put_batch,
        lambda batch, **qos: calls.append(batch.num_rows) or put(batch, **qos),
    )
    world.play(batches(*(number / 1e6 for number in range(10_000)), size=10_000))
    # One call for a millisecond of rows, not for each row.
    assert len(calls) <= 12


def test_times_that_fall_or_are_missing_go_with_the_row_before():
    world = World()
    world.play(batches(None, 0, 2, 1, None, 1.5, 3, size=3))
    assert [round(when, 2) for when, _ in world.sent] == [0, 0, 2, 2, 2, 2, 3]
    world = World()
    world.play(batches(None, None))
    assert [when for when, _ in world.sent] == [0, 0]


def test_without_a_time_of_receiving_the_time_stamp_counts():
    rows = [{"key": "a", "payload": b"%d" % number, "timestamp": at(number)} for number in range(3)]
    world = World()
    world.play([pa.RecordBatch.from_pylist(rows)])
    assert [round(when, 2) for when, _ in world.sent] == [0, 1, 2]


def test_long_pauses_can_be_cut():
    world = World()
    done = world.play(batches(0, 1, 3601, 3602, 9000, size=2), max_gap=5)
    assert [round(when, 2) for when, _ in world.sent] == [0, 1, 6, 7, 12]
    assert done.played == 12


def test_rounds_follow_each_other():
    world = World()
    done = world.play(batches(5, 6, 7, size=2), loop=3)
    assert [round(when, 2) for when, _ in world.sent] == [0, 1, 2, 2, 3, 4, 4, 5, 6]
    assert done.rows == 9


def test_an_endless_loop_ends_when_there_is_nothing():
    assert World().play([], loop=None).rows == 0
    assert World().play(batches(0, 1), loop=None, keys=["x"]).rows == 0


def test_an_iterator_is_good_for_one_round():
    assert World().play(iter(batches(0, 1))).rows == 2
    with pytest.raises(ValueError, match="loop needs a recording or a list"):
        World().play(iter(batches(0, 1)), loop=2)


def test_keys_are_chosen_and_get_other_names():
    world = World()
    keys = []
    put, world.put_batch = (
        world.put_batch,
        lambda batch, **qos: keys.extend(batch.column("key").to_pylist()) or put(batch, **qos),
    )
    world.play(batches(0, 1, 2, 3), keys=["a/1"], remap={"a": "b/c"})
    assert keys == ["b/c/1"] * 2
    assert [when for when, _ in world.sent] == pytest.approx(
        [0, 2], abs=0.001
    )  # from the first one that goes


def test_an_interrupt_ends_it_and_progress_was_told():
    world = World()
    told = []

    def interrupted(seconds):
        world.sleep(seconds)
        if world.now > 1002.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _replay.drive(
            world, batches(0, 1, 2, 3), {"progress": told.append}, clock=world.clock, sleep=interrupted
        )
    assert [done.rows for done in told] == [1, 2, 3]
    assert told[-1].played == 2


@pytest.mark.parametrize(
    "options",
    [
        {"rate": 0},
        {"rate": float("nan")},
        {"loop": 0},
        {"max_gap": -1},
        {"priority": 8},
        {"congestion": "wait"},
        {"timestamps": "old"},
        {"wait_for_subscribers": float("inf")},
        {"keys": ["a//b"]},
        {"remap": {"a": "b/*"}},
    ],
)
def test_options_that_are_none_are_refused(options):
    with pytest.raises(ValueError, match=r"must be|empty chunk|wildcards|//"):
        World().play(batches(0), **options)


def test_rows_that_went_nowhere_are_counted(file, endpoint, capsys, monkeypatch):
    world = World()
    world.put_batch = lambda batch, **_qos: SimpleNamespace(bytes=0, unmatched=batch.num_rows - 1)
    done = world.play(batches(0, 0, 0, 1, 1))
    assert (done.rows, done.unsent) == (5, 3)
    monkeypatch.setattr(zenoh.Session, "put_batch", lambda _self, batch, **_qos: world.put_batch(batch))
    assert main(["replay", file, "-e", endpoint, "--rate", "max"]) == 1
    assert "99 of them went nowhere: there was no link" in capsys.readouterr().err


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="replay has no option speed"):
        World().play(batches(0), speed=2)


# ---- With a network ---------------------------------------------------------------------------------


@pytest.fixture
def client(hub):
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(nodes.client(hub))


@pytest.fixture
def file(tmp_path):
    """A hundred rows in half a second."""
    path = tmp_path / "run.mcap"
    recording.write(batches(*(number / 200 for number in range(100)), size=50), path)
    return str(path)


ROWS = [
    {
        "key": "a/put",
        "payload": b"one",
        "kind": "put",
        "encoding": "text/plain;x",
        "timestamp": at(0.25),
        "hlc": int(zenoh.NTP64(1_772_600_767, 250_000_000)) + 5,
        "hlc_id": b"\x42",
        "attachment": b"beside",
        "priority": 2,
        "congestion": "drop",
        "express": True,
        "recv_ts": at(0),
    },
    {"key": "a/del", "payload": None, "kind": "del", "attachment": b"why", "recv_ts": at(0.01)},
    {"key": "a/plain", "payload": b"", "kind": "put", "timestamp": at(1), "recv_ts": at(0.02)},
]


@pytest.mark.parametrize("timestamps", ["new", "original"])
def test_samples_arrive_as_they_were_recorded(client, timestamps):
    there, here = client(), client()
    with there.declare_subscriber("a/*") as subscriber:
        subscriber.wait_ready(PATIENCE)
        rows = pa.Table.from_pylist(ROWS, schema=schema.SAMPLE.arrow()).to_batches()
        done = recording.replay(here, rows, timestamps=timestamps, congestion=None)
        put, deleted, plain = (subscriber.recv(PATIENCE) for _ in range(3))
    assert (done.rows, done.bytes, done.unsent) == (3, 3, 0)
    assert (str(put.key_expr), bytes(put.payload), str(put.encoding)) == ("a/put", b"one", "text/plain;x")
    assert (bytes(put.attachment), put.priority, put.express) == (
        b"beside",
        zenoh.Priority.INTERACTIVE_HIGH,
        True,
    )
    assert put.congestion_control == zenoh.CongestionControl.DROP
    assert (deleted.kind, bytes(deleted.attachment)) == (zenoh.SampleKind.DELETE, b"why")
    assert deleted.congestion_control == zenoh.CongestionControl.BLOCK
    assert (bytes(plain.payload), plain.attachment) == (b"", None)
    if timestamps == "original":
        assert int(put.timestamp.get_time_as_ntp64()) == ROWS[0]["hlc"]
        assert bytes(put.timestamp.get_id()) == b"\x42"
        assert plain.timestamp.get_time() == at(1)
        # An id of a time stamp has no zeros at its end.
        assert bytes(plain.timestamp.get_id()) == bytes(here.zid())
    else:
        assert put.timestamp.get_time() > at(3600)  # the hub's


def test_quality_of_service_can_be_given(client):
    there, here = client(), client()
    with there.declare_subscriber("a/*") as subscriber:
        subscriber.wait_ready(PATIENCE)
        rows = pa.Table.from_pylist(ROWS[:1], schema=schema.SAMPLE.arrow()).to_batches()
        for timestamps in ("new", "original"):
            recording.replay(here, rows, priority=6, express=False, timestamps=timestamps)
            sample = subscriber.recv(PATIENCE)
            assert (sample.priority, sample.express) == (zenoh.Priority.DATA_LOW, False)
            assert sample.congestion_control == zenoh.CongestionControl.BLOCK


@pytest.mark.parametrize("timestamps", ["new", "original"])
def test_a_row_that_cannot_be_published_is_named(client, timestamps):
    rows = batches(*[0] * 10)
    keys = pa.array(["a"] * 3 + ["a//b"] + ["a"] * 3)
    rows[0] = rows[0].set_column(0, rows[0].schema.field(0), keys)
    here, told = client(), []
    with pytest.raises(RowError, match="row 3 of what is published, key 'a//b'") as raised:
        recording.replay(here, rows, timestamps=timestamps, progress=told.append)
    assert (raised.value.row, raised.value.key) == (3, "a//b")
    assert told[-1].rows == 3


def test_it_waits_for_a_subscriber(client):
    there, here = client(), client()
    with pytest.raises(TimedOut, match=r"no subscriber for a/0 and 1 other keys within 0.05 s"):
        recording.replay(here, batches(0, 0), wait_for_subscribers=0.05)
    made = []
    timer = threading.Timer(0.05, lambda: made.append(there.declare_subscriber("a/1")))
    timer.start()
    done = recording.replay(here, batches(0, 0), wait_for_subscribers=PATIENCE)
    timer.join()
    assert done.rows == 2
    # A key that is none is for its row to say, not for the waiting.
    bad = [batch.set_column(0, "key", pa.array(["a/1", "a//b"])) for batch in batches(0, 0)]
    with pytest.raises(RowError, match="key 'a//b'"):
        recording.replay(here, bad, wait_for_subscribers=PATIENCE)
    assert bytes(made[0].recv(PATIENCE).payload) == b"1"


@everywhere
async def test_it_runs_on_an_event_loop_and_ends_when_it_is_cancelled():
    async with pair() as (near, far):
        subscriber = near.declare_subscriber("a/*")
        await subscriber.wait_ready(PATIENCE)
        done = await aio_recording.replay(far, batches(0, 0.01, 0.02))
        assert done.rows == 3
        told = []

        async def cancel():
            while not told:  # noqa: ASYNC110 - a thread tells
                await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel)
                await aio_recording.replay(far, batches(0, 3600), progress=told.append)
        assert [one.rows for one in told] == [1]
        assert [bytes((await subscriber.recv()).payload) for _ in range(4)] == [b"0", b"1", b"2", b"0"]


# ---- From the command line --------------------------------------------------------------------------


def test_the_command_publishes_and_sums_up(client, endpoint, file, capsys):
    there = client()
    with there.declare_subscriber("b/*") as subscriber:
        subscriber.wait_ready(PATIENCE)
        command = ["replay", file, "-e", endpoint, "--rate", "max", "--loop", "2", "--remap", "a=b"]
        assert main([*command, "--keys", "a/1", "--from", "0.1", "--to", "0.2"]) == 0
        got = [int(bytes(subscriber.recv(PATIENCE).payload)) for _ in range(20)]
        assert subscriber.try_recv() is None
    assert got == [*range(21, 41, 2), *range(21, 41, 2)]
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("published 20 samples, 40 bytes in ")
    assert "nowhere" not in err


def test_the_command_waits_for_somebody_who_listens(endpoint, file, capsys):
    assert main(["replay", file, "-e", endpoint, "--wait-for-subscribers", "0.05"]) == 3
    assert capsys.readouterr().err.startswith("zwire replay: no subscriber for a/0 and 1 other keys")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_ends_in_order(client, endpoint, file, number):
    there = client()
    with there.declare_subscriber("a/*") as subscriber:
        subscriber.wait_ready(PATIENCE)
        command = [sys.executable, "-m", "zwire", "replay", file, "-e", endpoint, "--loop", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            for _ in range(20):
                subscriber.recv(PATIENCE)
            process.send_signal(number)
            _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert err.startswith("published ")
    assert int(err.split()[1]) > 10
    assert err.count("\n") == 1


def test_a_damaged_file_is_played_as_far_as_it_goes(endpoint, tmp_path, capsys):
    path = tmp_path / "run.arrow"
    recording.write(batches(*[0] * 300, size=50), path, compress=False)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert main(["replay", str(path), "-e", endpoint]) == 1
    err = capsys.readouterr().err
    assert f"zwire replay: {path} after " in err
    assert err.startswith("published ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rate", "0"], "--rate: expected a speed"),
        (["--remap", "a"], "expected FROM=TO"),
        (["--remap", "a=b/*"], "must have the wildcards of 'a'"),
        (["--keys", "a//b"], "'a//b'"),
        (["--from", "soon"], "--from: expected an instant"),
        (["--loop", "-1"], "--loop: expected a whole number"),
        (["--format", "csv"], "expected one of parquet, arrow, mcap, pcap"),
    ],
)
def test_wrong_arguments_are_named(arguments, said, file, capsys):
    assert main(["replay", file, *arguments]) == 2
    assert said in capsys.readouterr().err


def test_what_is_no_recording_is_named(tmp_path, capsys):
    (tmp_path / "x").write_text("nothing of ours")
    assert main(["replay", str(tmp_path / "x")]) == 1
    assert "no Parquet, Arrow IPC, MCAP or capture" in capsys.readouterr().err
    assert main(["replay", str(tmp_path / "none")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_the_command_draws_a_bar_on_a_terminal_only(endpoint, file):
    seen = shown([sys.executable, "-m", "zwire", "replay", file, "-e", endpoint])
    assert b"%" in seen
    assert b" samples, 0." in seen
    assert b"published 100 samples" in seen.rpartition(b"\x1b[K")[2]


def test_keys_that_are_none_are_errors_of_the_library_too():
    with pytest.raises(KeyExprError):
        recording.Remap({"a": "b//c"})
