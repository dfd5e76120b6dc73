"""Recording of live samples, and `zwire play` of what was recorded."""

import contextlib
import signal
import struct
import subprocess
import sys
import threading
import time

import mcap.reader
import pyarrow as pa
import pytest

import nodes
from nodes import eventually
from zwire import recording, zenoh
from zwire.cli import main
from zwire.errors import RecordingError
from zwire.recording import McapSchema, _losses, _mcap, _record, _rotation
from zwire.zenoh import CongestionControl, ext

pytestmark = pytest.mark.slow

FORMATS = ["mcap", "arrow", "parquet"]
PATIENCE = 20.0
RECV_TS = pa.timestamp("us", "UTC")


@pytest.fixture
def alone():
    """A session without neighbours."""
    with nodes.opened("peer") as session:
        yield session


@pytest.fixture(params=FORMATS)
def path(request, tmp_path):
    return tmp_path / f"run.{request.param}"


def publish(session, count, key="a/{}", begin=0):
    for number in range(begin, begin + count):
        session.put(
            key.format(number % 3),
            b"%d" % number,
            encoding="application/json",
            congestion_control=CongestionControl.BLOCK,
        )


def numbers(*paths):
    return [number for path in paths for number in numbers_of(recording.read(path))]


def numbers_of(found):
    return [int(payload) for payload in pa.table(found).column("payload").to_pylist()]


def partial(path):
    """The file with the rows until a recorder ends."""
    return path.with_suffix(".partial.arrow") if path.suffix == ".parquet" else path


def test_what_is_published_is_recorded_once(alone, path):
    before = time.time()
    with recording.Recorder(alone, ["a/*", "a/**", "a/1"], path) as recorder:
        publish(alone, 300)
        alone.delete("a/1", attachment="why")
    done = recorder.stats()
    assert (done.rows, done.bytes, done.files, done.rotated, done.losses) == (301, 790, (path,), 0, {})
    assert done.lost == ({"attachment": 1} if path.suffix == ".mcap" else {})
    rows = pa.table(recording.read(path)).to_pylist()
    assert [int(row["payload"]) for row in rows[:-1]] == list(range(300))
    assert (rows[-1]["key"], rows[-1]["kind"], rows[-1]["payload"]) == ("a/1", "del", None)
    assert all(before <= row["recv_ts"].timestamp() <= time.time() for row in rows)
    assert recording.damage(path) == recording.losses(path) == []
    assert recorder.close() == done
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_readers_of_mcap_read_it(alone, tmp_path):
    path = tmp_path / "run.mcap"
    schemas = {"demo.Pose": McapSchema("jsonschema", b"{}")}
    with recording.Recorder(alone, ["a/**"], path, schemas=schemas, flush_seconds=0.05) as recorder:
        alone.put("a/b", "{}", encoding="application/json;demo.Pose")
        eventually(lambda: recorder.stats().rows == 1)
        recorder._lose("gap", 3, "a/**", "01/2")
    with path.open("rb") as file:
        reader = mcap.reader.make_reader(file, validate_crcs=True)
        ((schema, channel, message),) = reader.iter_messages()
        ((loss),) = reader.iter_metadata()
    assert (schema.name, schema.encoding, schema.data) == ("demo.Pose", "jsonschema", b"{}")
    assert (channel.topic, channel.message_encoding, message.data) == ("a/b", "json", b"{}")
    assert loss.name == "zwire.loss"
    assert {**loss.metadata, "noticed": ""} == {
        "reason": "gap",
        "samples": "3",
        "key": "a/**",
        "source": "01/2",
        "noticed": "",
    }


def test_files_follow_each_other(alone, path):
    (path.parent / f"run-0007{path.suffix}").touch()
    options = {"rotate_bytes": 2000, "flush_seconds": 0.01}
    with recording.Recorder(alone, ["a/**"], path, **options) as recorder:
        published = 0
        while recorder.stats().rotated < 3:
            publish(alone, 50, begin=published)
            published += 50
            eventually(lambda published=published: recorder.stats().rows == published)
    done = recorder.stats()
    names = [file.name for file in done.files]
    assert names == [f"run-{number:04}{path.suffix}" for number in range(8, 8 + len(names))]
    assert len(names) == done.rotated + 1
    assert numbers(*done.files) == list(range(published))
    assert all(recording.damage(file) == [] for file in done.files)
    assert not list(path.parent.glob("*.partial.arrow"))


def test_files_follow_each_other_after_a_time_unless_nothing_came(alone, tmp_path):
    path = tmp_path / "run.mcap"
    with recording.Recorder(alone, ["a"], path, rotate_seconds=0.05, flush_seconds=0.01) as recorder:
        time.sleep(0.2)
        assert recorder.stats().rotated == 0
        alone.put("a", "1")
        eventually(lambda: recorder.stats().rotated == 1)
        alone.put("a", "2")
    assert numbers(*recorder.stats().files) == [1, 2]


def test_losses_are_named_in_the_file(hub, path):
    """Misses of a numbering publisher, a full queue, and links that end."""
    with contextlib.ExitStack() as stack:
        there = stack.enter_context(nodes.client(hub))
        here = stack.enter_context(nodes.client(hub))
        recorder = stack.enter_context(
            recording.Recorder(here, ["a/**"], path, flush_seconds=0.02, recovery=False)
        )
        publisher = ext.declare_advanced_publisher(
            there, "a/b", sample_miss_detection=ext.MissDetectionConfig()
        )
        source = publisher.id
        zid, eid = source.zid, source.eid
        # The hub may know the recorder before the publisher does, which then would send nothing.
        publisher.wait_matching(timeout=PATIENCE)
        publisher.put("1")
        eventually(lambda: recorder.stats().rows == 1)
        # A later number of the same publisher: the recorder misses those between.
        there.put("a/b", "2", source_info=zenoh.SourceInfo(source, 9))
        eventually(lambda: recorder.stats().losses.get("gap"))
    losses = recording.losses(path)
    gap = next(loss for loss in losses if loss.reason == "gap")
    assert (gap.samples, gap.key, gap.source) == (8, "a/**", f"{zid}/{eid}")
    assert recorder.stats().losses["gap"] == 8


def test_an_ended_link_is_a_loss(tmp_path):
    path = tmp_path / "run.mcap"
    port = nodes.free_port()
    where = f"tcp/127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        hub = nodes.opened("router", listen=[where])
        here = stack.enter_context(nodes.opened("client", connect=[where]))
        recorder = stack.enter_context(recording.Recorder(here, ["a"], path, flush_seconds=0.02))
        hub.close()
        eventually(lambda: recorder.stats().losses.get("link"))
        stack.enter_context(nodes.opened("router", listen=[where]))
        eventually(lambda: recorder.stats().losses.get("reconnect"))
    reasons = [(loss.reason, loss.samples) for loss in recording.losses(path)]
    assert reasons[:2] == [("link", None), ("reconnect", None)]


def test_a_slow_disk_is_a_loss(alone, tmp_path, monkeypatch):
    path = tmp_path / "run.mcap"
    monkeypatch.setattr(_record, "_QUEUE", 8)
    monkeypatch.setattr(_record, "_WAITING", 1)
    held = []
    add = _record.Recorder._add

    def slow(self, batch):
        held.append(batch)
        if len(held) == 1:
            eventually(lambda: self.stats().losses.get("drop"), within=PATIENCE)
        add(self, batch)

    monkeypatch.setattr(_record.Recorder, "_add", slow)
    with recording.Recorder(alone, ["a/**"], path) as recorder:
        published = 0
        while not recorder.stats().losses.get("drop"):
            publish(alone, 20, begin=published)
            published += 20
            time.sleep(0.01)
    drops = sum(loss.samples for loss in recording.losses(path))
    assert {loss.reason for loss in recording.losses(path)} == {"drop"}
    assert drops == recorder.stats().losses["drop"]
    assert len(numbers(path)) + drops == published


def test_keys_beyond_the_channels_of_a_file_are_losses(alone, tmp_path, monkeypatch):
    monkeypatch.setattr("zwire.recording._mcap._MOST_CHANNELS", 2)
    path = tmp_path / "run.mcap"
    with recording.Recorder(alone, ["a/**"], path) as recorder:
        publish(alone, 30)
    assert len(numbers(path)) == recorder.stats().rows == 20
    assert recorder.stats().losses == {"channels": 10}
    assert sum(loss.samples for loss in recording.losses(path)) == 10


def test_rows_beyond_the_channels_are_converted_once(tmp_path, monkeypatch):
    monkeypatch.setattr(_mcap, "_MOST_CHANNELS", 2)
    write, sizes = _mcap.McapWriter.write, []

    def written(self, batch, **options):
        sizes.append(batch.num_rows)
        return write(self, batch, **options)

    monkeypatch.setattr(_mcap.McapWriter, "write", written)
    keys = [f"a/{number % 1000}" for number in range(3000)]
    rows = recording.conform(pa.record_batch({"key": keys, "recv_ts": pa.array([0] * 3000, RECV_TS)}))
    file = _rotation.Mcap(tmp_path / "run.mcap", None, compress=True)
    assert file.write(rows) == 2994
    file.close()
    assert sum(sizes) == 3000
    assert pa.table(recording.read(file.path)).column("key").to_pylist() == ["a/0", "a/1"] * 3


def test_losses_beyond_a_bound_are_added_up(alone, path, monkeypatch):
    monkeypatch.setattr(_record, "_MOST_LOSSES", 3)
    with recording.Recorder(alone, ["a"], path) as recorder:
        for number in range(10):
            recorder._lose("gap", 2, "a", str(number))
    losses = recording.losses(path)
    assert [loss.samples for loss in losses] == [2, 2, 2, 14]
    assert losses[-1].source is None


@pytest.mark.parametrize(
    "text",
    [
        b'[{"reason": "gap", "samples": "x"}]',
        b'[{"reason": "gap", "samples": 1e999, "noticed": "2026-01-01"}]',
        b"[" * 100_000,
        b"{}[",
    ],
)
def test_damaged_losses_of_arrow_are_an_error(text, tmp_path):
    path = tmp_path / "run.arrow"
    schema = pa.schema([("key", pa.string())])
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        batch = pa.record_batch([["a"]], schema=schema)
        writer.write_batch(batch, custom_metadata={_losses.LIST: text})
    with pytest.raises(RecordingError, match=r"its losses cannot be read"):
        recording.losses(path)


@pytest.mark.parametrize(
    "damaged", [b"\xff\xff\xff\xffzwire.loss", b"\x0a\x00\x00\x00zwire.loss\xff\xff\xff"]
)
def test_damaged_losses_leave_the_rows_to_play(damaged, file, endpoint, capsys):
    data = file.read_bytes()
    whole = b"\x0a\x00\x00\x00zwire.loss"
    at = data.index(whole)
    file.write_bytes(data[:at] + damaged + data[at + len(damaged) :])
    assert recording.damage(file) == []
    with pytest.raises(RecordingError, match=r"its losses cannot be read") as caught:
        recording.losses(file)
    assert caught.value.file == str(file)
    assert main(["play", str(file), "-e", endpoint, "--rate", "max"]) == 0
    err = capsys.readouterr().err
    assert f"note: {file}: its losses cannot be read" in err
    assert "published 900 samples" in err


def test_files_are_never_replaced(alone, path):
    path.write_bytes(b"precious")
    with pytest.raises(FileExistsError, match="exists already"):
        recording.Recorder(alone, ["a"], path)
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"rotate_bytes": 0}, "rotate_bytes must be above 0"),
        ({"flush_seconds": float("inf")}, "flush_seconds must be above 0"),
        ({"format": "csv"}, "format must be one of"),
        ({"keys": []}, "no key expression given"),
        ({"keys": ["a//b"]}, "empty chunk"),
    ],
)
def test_wrong_options_are_refused(alone, tmp_path, options, problem):
    keys = options.pop("keys", ["a"])
    with pytest.raises(ValueError, match=problem):
        recording.Recorder(alone, keys, tmp_path / "run.mcap", **options)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_disk_ends_it_and_is_raised(alone, tmp_path, monkeypatch):
    def full(_self, _batch):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zwire.recording._rotation.Mcap.write", full)
    recorder = recording.Recorder(alone, ["a"], tmp_path / "run.mcap")
    alone.put("a", "1")

    def failed():
        with contextlib.suppress(OSError):
            recorder.check()
            return False
        return True

    eventually(failed)
    with pytest.raises(OSError, match="No space left"):
        recorder.close()


def test_an_interrupted_close_completes_the_file_and_can_be_repeated(alone, path, monkeypatch):
    interrupted, add = threading.Event(), _record.Recorder._add

    def slow(self, batch):
        eventually(lambda: self._ending)
        if not interrupted.is_set():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            interrupted.wait(PATIENCE)
        add(self, batch)

    monkeypatch.setattr(_record.Recorder, "_add", slow)
    recorder = recording.Recorder(alone, ["a/**"], path)
    publish(alone, 30)
    with pytest.raises(KeyboardInterrupt):
        recorder.close()
    # What ends the process waits for the thread that writes.
    assert recorder._writing.is_alive()
    interrupted.set()
    eventually(lambda: not recorder._writing.is_alive())
    assert recorder.close().rows == 30
    assert numbers(path) == list(range(30))
    assert recording.damage(path) == []


def test_closing_ends_under_load(alone, tmp_path, monkeypatch):
    """Each batch that is received while the recorder closes is followed by a sample."""
    give = _record.Recorder._give
    more = iter(range(100))

    def given(self, batch):
        give(self, batch)
        if self._ending and next(more, None) is not None:
            alone.put("a", "late")

    monkeypatch.setattr(_record.Recorder, "_give", given)
    with recording.Recorder(alone, ["a"], tmp_path / "run.mcap") as recorder:
        recorder._ending = True
        alone.put("a", "early")
    assert recorder.stats().rows < 10
    assert recorder.stats().losses == {}


def test_losses_in_the_counts_are_in_the_file(alone, path, monkeypatch):
    """A publisher whose numbers have a gap goes on until the recorder has ended."""
    publisher = ext.declare_advanced_publisher(alone, "a/b", sample_miss_detection=ext.MissDetectionConfig())
    source = publisher.id
    write = _record.Recorder._write

    def written(self):
        write(self)
        alone.put("a/b", "2", source_info=zenoh.SourceInfo(source, 9))

    monkeypatch.setattr(_record.Recorder, "_write", written)
    with recording.Recorder(alone, ["a/**"], path, flush_seconds=0.02, recovery=False) as recorder:
        publisher.put("1")
        eventually(lambda: recorder.stats().rows == 1)
        alone.put("a/b", "2", source_info=zenoh.SourceInfo(source, 5))
        eventually(lambda: recorder.stats().losses.get("gap"))
    counted = recorder.stats().losses
    assert counted["gap"] == 4
    assert sum(loss.samples for loss in recording.losses(path)) == 4


def test_after_an_error_the_file_names_what_it_lacks(alone, path, monkeypatch):
    add = _record.Recorder._add

    def full(self, batch):
        if self.stats().rows:
            self._lose("gap", 7, "a", None)
            raise OSError(28, "No space left on device")
        add(self, batch)

    monkeypatch.setattr(_record.Recorder, "_add", full)
    recorder = recording.Recorder(alone, ["a"], path)
    alone.put("a", "1")
    eventually(lambda: recorder.stats().rows == 1)
    alone.put("a", "2")
    with pytest.raises(OSError, match="No space left"):
        recorder.close()
    assert recorder.stats().losses == {"gap": 7, "error": 1}
    assert [(loss.reason, loss.samples) for loss in recording.losses(path)] == [("gap", 7), ("error", 1)]
    assert numbers(path) == [1]


def test_without_a_next_file_the_present_one_is_complete(alone, path, monkeypatch):
    options = {"rotate_seconds": 0.01, "flush_seconds": 0.01}
    recorder = recording.Recorder(alone, ["a"], path, **options)

    def full(_path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recorder, "_open", full)
    alone.put("a", "1")
    with pytest.raises(OSError, match="No space left"):
        eventually(recorder.check)
    with pytest.raises(OSError, match="No space left"):
        recorder.close()
    (file,) = recorder.stats().files
    assert numbers(file) == [1]
    assert recording.damage(file) == []


# ---- SIGKILL ----------------------------------------------------------------------------------------


def killed(start, session, path):
    """Kill a recorder; return the seconds of what it had received that are not in its file."""
    path.unlink(missing_ok=True)
    partial(path).unlink(missing_ok=True)
    recorder = start("record", "-o", str(path), "a/**")
    assert recorder.stderr.readline().startswith("recording a/** in ")
    sent = []

    def publish_for(seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            sent.append(time.monotonic())
            session.put("a/b", b"%d" % (len(sent) - 1), congestion_control=CongestionControl.BLOCK)
            time.sleep(0.005)

    def kept():
        found = []
        with contextlib.suppress(ValueError):
            for batch in recording.read(partial(path)):
                found += [int(payload) for payload in batch.column("payload").to_pylist()]
        return found

    # The first rows come to the disk after a second, and after the imports that writing needs.
    while not kept():
        publish_for(0.1)
        assert sent[-1] - sent[0] < PATIENCE
    publish_for(0.6)
    recorder.kill()
    death = time.monotonic()
    recorder.wait(PATIENCE)
    found = kept()
    assert found == list(range(len(found)))
    return death - sent[len(found)] if len(found) < len(sent) else 0.0


@pytest.mark.timeout(120)
def test_sigkill_loses_a_second_at_most(start, session, path):
    lost = []
    for _ in range(3):  # the machine may be busy for longer than that
        lost.append(killed(start, session, path))
        if lost[-1] <= 1.0:
            break
    else:
        pytest.fail(f"lost {lost} s")
    (damage,) = recording.damage(partial(path))
    assert damage.offset <= damage.size == partial(path).stat().st_size
    assert damage.rows > 0


# ---- From the command line --------------------------------------------------------------------------


def test_the_commands_record_and_play(start, session, endpoint, tmp_path, capsys):
    path = tmp_path / "run.mcap"
    recorder = start("record", "-o", str(path), "a/**", "b")
    assert recorder.stderr.readline() == f"recording a/** b in {path}\n"
    publish(session, 30)
    session.flush(PATIENCE)
    eventually(lambda: path.stat().st_size > 100 and not recorder.poll())
    eventually(lambda: rows_of(path) == 30)
    recorder.send_signal(signal.SIGTERM)
    _, err = recorder.communicate(timeout=PATIENCE)
    assert (recorder.returncode, err) == (0, f"recorded 30 samples, 50 bytes in {path}\n")
    with session.declare_subscriber("c/**") as subscriber:
        subscriber.wait_ready(PATIENCE)
        command = ["play", str(path), "-e", endpoint, "--rate", "max", "--remap", "a=c", "--loop", "2"]
        assert main([*command, "--keys", "a/1"]) == 0
        assert [int(bytes(subscriber.recv(PATIENCE).payload)) for _ in range(20)] == [*range(1, 30, 3)] * 2
    assert capsys.readouterr().err.startswith("published 20 samples, 34 bytes in ")


def rows_of(path):
    rows = 0
    with contextlib.suppress(ValueError):
        for batch in recording.read(path):
            rows += batch.num_rows
    return rows


def test_a_recording_ends_after_a_time(endpoint, tmp_path, capsys):
    path = tmp_path / "run.parquet"
    assert main(["record", "-o", str(path), "a", "--seconds", "0.1", "-e", endpoint]) == 3
    assert capsys.readouterr().err.endswith(f"recorded 0 samples, 0 bytes in {path}\n")
    assert pa.table(recording.read(path)).num_rows == 0


def test_an_interrupted_recorder_completes_its_file(start, session, tmp_path):
    path = tmp_path / "run.mcap"
    recorder = start("record", "-o", str(path), "a/**")
    recorder.stderr.readline()
    publish(session, 3)
    eventually(lambda: rows_of(path) == 3)
    recorder.send_signal(signal.SIGINT)
    _, err = recorder.communicate(timeout=PATIENCE)
    assert (recorder.returncode, err) == (130, f"recorded 3 samples, 3 bytes in {path}\n")
    assert recording.damage(path) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a"], "OUTPUT is missing|--output"),
        (["a", "-o", "run.csv"], "give --format"),
        (["a", "-o", "none/run.mcap"], "there is no folder none"),
        (["a", "-o", "here.mcap"], "exists already"),
        (["a//b", "-o", "run.mcap"], "'a//b'"),
        (["a", "-o", "run.mcap", "--rotate-size", "x"], "--rotate-size: expected a size"),
        (["a", "-o", "run.mcap", "--rotate-time", "x"], "--rotate-time: expected a time"),
        (["a", "-o", "run.mcap", "--schema", "x"], "expected NAME=FILE"),
        (["a", "-o", "run.mcap", "--schema", "x=y.desc"], "--schema y.desc: No such file"),
        (["a", "-o", "run.parquet", "--schema", "x=s.json"], "--schema: a file of parquet has no schemas"),
        (["a", "-o", "run.mcap", "-e", "tcp/127.0.0.1"], "the port is missing"),
    ],
)
def test_wrong_arguments_of_record_are_named(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.mcap").touch()
    (tmp_path / "s.json").write_text("{}")
    assert main(["record", *arguments]) == 2
    assert any(text in capsys.readouterr().err for text in said.split("|"))
    assert not (tmp_path / "run.mcap").exists()


@pytest.fixture
def file(tmp_path):
    """Nine hundred rows in several chunks."""
    path = tmp_path / "run.mcap"
    with (
        nodes.opened("peer") as session,
        recording.Recorder(session, ["a/**"], path, flush_seconds=0.01) as recorder,
    ):
        for begin in range(0, 900, 100):
            publish(session, 100, begin=begin)
            eventually(lambda begin=begin: rows_of(path) == begin + 100)
        recorder._lose("gap", 7, "a/**", None)
    return path


def chunks(path):
    """Place and length of each chunk."""
    found, at, data = [], 8, path.read_bytes()
    while at < len(data) - 8:
        opcode, length = struct.unpack_from("<BQ", data, at)
        if opcode == 6:
            found.append((at, length + 9))
        at += 9 + length
    return found


@pytest.mark.parametrize("kind", ["cut", "flipped", "no summary"])
def test_a_damaged_file_is_refused_with_its_place(kind, file, endpoint, session, capsys):
    data = bytearray(file.read_bytes())
    at, length = chunks(file)[4]
    if kind == "cut":
        del data[at + length // 2 :]
    elif kind == "flipped":
        data[at + length - 5] ^= 0x55
    else:
        del data[chunks(file)[-1][0] + chunks(file)[-1][1] :]
        at = len(data)
    file.write_bytes(data)
    (damage,) = recording.damage(file)
    assert (damage.file, damage.size) == (file, len(data))
    assert abs(damage.offset - at) < 300  # indexes of messages follow a chunk
    assert damage.offset <= at
    with session.declare_subscriber("a/**") as subscriber:
        subscriber.wait_ready(PATIENCE)
        command = ["play", str(file), "-e", endpoint, "--rate", "max"]
        assert main(command) == 1
        err = capsys.readouterr().err
        assert f"{file}: damaged at byte {damage.offset} of {len(data)}, {damage.rows} samples" in err
        assert "nothing was published" in err
        assert subscriber.try_recv() is None
        assert main([*command, "--whole"]) == 0
        assert f"published {damage.rows} samples" in capsys.readouterr().err
        got = [int(bytes(subscriber.recv(PATIENCE).payload)) for _ in range(damage.rows)]
    assert got == list(range(damage.rows))
    assert damage.rows == 900 if kind == "no summary" else 0 < damage.rows < 900


@pytest.mark.parametrize("cut", ["late", 300])
@pytest.mark.parametrize("folder", [True, False])
def test_damage_of_one_file_leaves_the_others_whole(cut, folder, file, endpoint, capsys):
    second = file.with_name("second.mcap")
    second.write_bytes(file.read_bytes())
    at, length = chunks(file)[4]
    file.write_bytes(file.read_bytes()[: at + length // 2 if cut == "late" else cut])
    (damage,) = recording.damage(file, second)
    assert damage.file == file
    sources = [file.parent] if folder else [file, second]
    with pytest.raises(ValueError, match="ends early"):
        pa.table(recording.read(*sources))
    found = numbers_of(recording.read(*sources, whole=True))
    assert sorted(found) == sorted([*range(damage.rows), *range(900)])
    command = ["play", *map(str, sources), "-e", endpoint, "--rate", "max", "--whole"]
    assert main(command) == 0
    assert f"published {damage.rows + 900:,} samples" in capsys.readouterr().err


def test_play_says_what_the_recorder_missed(file, endpoint, capsys):
    assert main(["play", str(file), "-e", endpoint, "--rate", "max", "--start", "0", "--end", "100"]) == 0
    assert f"note: {file} names 1 losses, 7 samples: gap" in capsys.readouterr().err


def test_damage_of_other_formats_has_a_place(tmp_path):
    rows = pa.table({"key": ["a"] * 20_000, "payload": [b"x"] * 20_000}).to_batches(max_chunksize=1000)
    for name in ("run.arrow", "run.parquet"):
        path = tmp_path / name
        recording.write(rows, path)
        assert recording.damage(path) == []
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
        (damage,) = recording.damage(path)
        if name == "run.arrow":
            assert 0 < damage.offset < damage.size
            assert damage.rows > 0
        else:
            assert (damage.offset, damage.rows) == (0, 0)


def test_a_recorder_of_a_process_that_ends_is_whole(tmp_path):
    """A program that forgets to close it: `with` is the way, and the threads hold the process until then."""
    code = f"""
import json, sys
from zwire import zenoh, recording
session = zenoh.open({nodes.settings("peer")})
with recording.Recorder(session, ["a"], {str(tmp_path / "run.mcap")!r}) as recorder:
    session.put("a", "1")
    sys.exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)
    assert numbers(tmp_path / "run.mcap") == [1]
