"""Tiers of spools: sealed segments in object stores, which fail while they are written and read."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pytest

import objects
from nodes import client, eventually, free_port, router
from terminal import running
from zwire import errors, sink, spool, zenoh
from zwire.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

ALONE = {"mode": "peer", "listen/endpoints": [], "scouting/multicast/enabled": False}
BLOCK = {"congestion_control": zenoh.CongestionControl.BLOCK}


@pytest.fixture(scope="module")
def server() -> Iterator[objects.Store]:
    with objects.store() as server:
        yield server


@pytest.fixture
def s3(server: objects.Store, monkeypatch) -> Iterator[objects.Store]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    yield server
    server.heal()


def rows(view: spool.Spool) -> list[tuple[int, bytes]]:
    found = []
    for batch in view.read(0, view.earliest()[0], view.end()[0], columns=["offset", "payload"]):
        found += [tuple(row.values()) for row in pa.record_batch(batch).to_pylist()]
    return found


class Keeping:
    """A spooler with small segments, and numbered samples for it."""

    def __init__(self, folder: Path, url: str | None, **options: Any) -> None:
        self.session = zenoh.open(zenoh.Config(ALONE))
        options = {"segment_bytes": 100_000, **options}
        self.spooler = spool.Spooler(folder, "robot/**", session=self.session, tier=url, **options)
        self.view = spool.open(folder)

    def put(self, count: int) -> None:
        """Store so many samples, about a segment for each ten."""
        for _ in range(count):
            self.session.put("robot/1", os.urandom(10_000), **BLOCK)
            # A block of its own, so that segments end between them.
            assert self.spooler.flush(10)

    @property
    def tier(self) -> dict[str, Any]:
        return self.spooler.stats()["tier"]

    def upload(self, seconds: float = 20) -> None:
        """Wait until the tier has all sealed segments."""
        eventually(lambda: self.tier["behind"] == 0 and self.tier["bytes"] > 0, within=seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.spooler.close()
        self.session.close()


def local(folder: Path) -> int:
    return len(list((folder / "0").glob("*.arrow")))


def test_a_folder_gives_its_segments_to_its_tier_and_readers_follow(tmp_path, capfd):
    folder, store = tmp_path / "spool", tmp_path / "tier"
    url = f"file://{store}"
    with Keeping(folder, url, retention=spool.Retention(local_bytes=150_000)) as keeping:
        keeping.put(55)
        before = rows(keeping.view)
        keeping.upload()
        eventually(lambda: local(folder) <= 2)
        assert rows(spool.open(folder)) == before, "the older rows are in the tier alone"
        assert rows(keeping.view) == before, "also for a reader that was opened before there were any"
        assert keeping.tier["problem"] is None
        assert keeping.tier["uploaded"] == keeping.tier["bytes"]
    both = spool.open(folder)
    assert (both.tier, both.earliest(), both.end()) == (url, {0: 0}, {0: 55})

    # The tier alone, by its address and by its path; the segment that close has sealed is there as well.
    for place in (url, store):
        alone = spool.open(place)
        assert (alone.id, alone.end(), alone.columns) == (both.id, both.end(), both.columns)
        assert rows(alone) == before
    assert spool.verify(url) == spool.verify(folder) == []
    assert alone.split({0: 0}, {0: 55}, 3) == both.split({0: 0}, {0: 55}, 3)
    assert spool.stat(url)["shards"][0]["segments"] == spool.stat(folder)["shards"][0]["segments"] > 4
    with pytest.raises(errors.OffsetOutOfRange, match="the spool holds offsets 0 to 55"):
        alone.read(0, 0, 56)
    alone.commit("nightly", {0: 30})
    assert spool.open(url).consumers() == {"nightly": {0: 30}}
    assert main(["spool", "stat", url]) == main(["spool", "verify", url]) == 0
    assert spool.stat(folder)["tier"] == spool.stat(url)["tier"]
    assert f"tier      {url}, {spool.stat(url)['bytes']} bytes, 0 rows behind" in capfd.readouterr().out
    assert main(["spool", "cat", url, "-n", "1", "--columns", "offset"]) == 0
    assert capfd.readouterr().out == "offset=0\n"

    # A spooler keeps to the tier that the folder has.
    with pytest.raises(errors.SpoolMismatch, match=f"segments of this spool are in {url}, not in"):
        Keeping(folder, f"{url}2")
    with Keeping(folder, None, segment_seconds=0.5) as keeping:
        keeping.put(1)
        keeping.upload()
    assert spool.open(url).end() == {0: 56}

    # A folder that is lost does not lose its rows, and a new one does not write among them.
    shutil.rmtree(folder)
    assert rows(spool.open(url))[:55] == before
    with Keeping(folder, url) as keeping:
        eventually(lambda: keeping.tier["problem"] is not None)
        assert f"has spool {both.id}, not {keeping.spooler.id}" in keeping.tier["problem"]


def test_a_range_server_serves_what_is_in_the_tier(tmp_path):
    folder, url = tmp_path / "spool", f"file://{tmp_path / 'tier'}"
    with Keeping(folder, url, retention=spool.Retention(local_bytes=0)) as keeping:
        keeping.put(25)
        before = rows(keeping.view)
        keeping.upload()
        eventually(lambda: local(folder) <= 2)
    with router() as hub:
        for place in (folder, url):
            with (
                spool.serve(place, session=hub) as server,
                spool.connect(
                    server.id, config={"mode": "client", "connect/endpoints": hub.listening()}
                ) as far,
            ):
                assert rows(far) == before


def test_a_spooler_merges_small_segments_of_its_tier_beside_readers(s3, tmp_path):
    url = s3.bucket("merged")
    with Keeping(tmp_path / "spool", url, segment_bytes=1000) as keeping:
        keeping.put(8)
        eventually(lambda: spool.open(url).end()[0] >= 7)
        reading = spool.open(url).read(0, 0, 7, columns=["offset"], max_rows=1)
        first = [pa.record_batch(next(reading)).column("offset")[0].as_py() for _ in range(3)]
        keeping.put(60)
        eventually(lambda: keeping.tier["merged"] >= 32 and keeping.tier["behind"] == 0, within=30)
        assert keeping.tier["problem"] is None
        rest = [row for batch in reading for row in pa.record_batch(batch).column("offset").to_pylist()]
        assert first + rest == list(range(7))
    whole = rows(spool.open(tmp_path / "spool"))
    assert len(whole) == 68
    assert rows(spool.open(url)) == whole
    found = spool.stat(url)["shards"][0]
    assert found["segments"] < 40
    assert not list((tmp_path / "spool").glob("merging*"))
    with router() as hub, spool.serve(url, session=hub) as server:
        config = {"mode": "client", "connect/endpoints": hub.listening()}
        with spool.connect(server.id, config=config) as far:
            assert rows(far) == whole
    assert sink.run(url, sink.parquet(tmp_path / "table"), max_rows=10)["rows"] == 68


def test_the_command_merges_small_segments_of_a_spool_without_a_spooler(s3, tmp_path, capsys):
    url = s3.bucket("compacted")
    small = {"segment_bytes": 1000, "retention": spool.Retention(compact_bytes=None)}
    with Keeping(tmp_path / "spool", url, **small) as keeping:
        keeping.put(40)
        keeping.upload()
        # An upload that was stopped before its entry.
        s3.call("PUT", "/compacted/a/spool/0/00000000000000009999-0123abcd.arrow", b"x" * 100)
        assert keeping.tier["merged"] == 0
        before = rows(spool.open(url))
        # The spooler goes on: before, during and after it.
        assert main(["spool", "compact", url, "--grace", "1", "--size", "200k"]) == 0
        said = capsys.readouterr().err
        assert " segments replaced by " in said
        assert "0 orphans" in said, "an object that may be an upload in progress stays"
        keeping.put(20)
        keeping.upload()
        assert rows(spool.open(url))[: len(before)] == before
        assert keeping.tier["problem"] is None
    assert len(rows(spool.open(url))) == 60
    few = spool.stat(url)["shards"][0]["segments"]
    assert few < 30
    done = spool.compact(tmp_path / "spool", grace_seconds=1, orphan_seconds=1e-6)
    assert (done.orphans, done.orphan_bytes) == (1, 100)
    assert spool.stat(url)["shards"][0]["segments"] < few
    view = spool.open(url)
    assert rows(view) == rows(spool.open(tmp_path / "spool"))
    # Neither a folder without a tier, nor a place without a spool.
    with spool.Appender(tmp_path / "alone") as appender:
        appender.append(key="a", payload=b"1")
    assert main(["spool", "compact", str(tmp_path / "alone")]) == 1
    assert "has no tier" in capsys.readouterr().err
    with pytest.raises(errors.ConfigError, match="segment_bytes"):
        spool.compact(url, segment_bytes=0)
    with pytest.raises(errors.SpoolError, match=r"no spool|no meta"):
        spool.compact(s3.bucket("nothing"))


SEED = int(os.environ.get("ZWIRE_TIER_SEED", "11"))

# Merges, and kills itself after some seconds.
MERGER = """
import os, signal, sys, threading
from zwire import spool

url, seconds = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
threading.Timer(float(seconds), os.kill, (os.getpid(), signal.SIGKILL)).start()
while True:
    spool.compact(url, segment_bytes=20_000, grace_seconds=1, orphan_seconds=1e-6)
    spool.compact(url, segment_bytes=64_000, grace_seconds=1, orphan_seconds=1e-6)
"""


def test_a_process_that_merges_is_killed_and_no_row_is_lost_or_twice(tmp_path, request):
    folder, url = tmp_path / "spool", f"file://{tmp_path / 'tier'}"
    count, rounds = 400, 12
    with spool.Appender(folder) as appender:
        for number in range(count):
            appender.append(key=f"robot/{number % 5}", payload=str(number))
            appender.seal()
    keep = spool.Retention(compact_bytes=None, local_bytes=0)
    with Keeping(folder, url, columns=None, retention=keep, segment_bytes=256 << 20) as keeping:
        keeping.upload()
    expected = [(number, str(number).encode()) for number in range(count)]
    assert rows(spool.open(url)) == expected
    chance, segments = random.Random(SEED), []

    def start():
        words = [sys.executable, "-c", MERGER, url, str(chance.uniform(0, 0.6))]
        merger = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        request.addfinalizer(merger.kill)
        return merger

    # A process starts while the last one merges and its rows are read.
    following = start()
    for number in range(rounds):
        merger = following
        assert merger.stdout.readline() == "ready\n"
        if number + 1 < rounds:
            following = start()
        merger.communicate("\n", timeout=20)
        assert merger.returncode == -signal.SIGKILL
        assert rows(spool.open(url)) == expected
        segments.append(spool.stat(url)["shards"][0]["segments"])
    print(f"segments after each kill: {segments}")
    assert segments[-1] < count
    # The next one that is not killed leaves nothing behind.
    spool.compact(url, grace_seconds=1, orphan_seconds=1e-6)
    assert rows(spool.open(url)) == expected
    assert spool.stat(url)["shards"][0]["segments"] <= 2
    assert len(list((tmp_path / "tier" / "0").glob("*.arrow"))) <= 2
    with Keeping(folder, url, columns=None, segment_bytes=256 << 20) as keeping:
        keeping.upload()
        assert keeping.tier["problem"] is None
    assert rows(spool.open(url))[:count] == expected


# Takes samples for a tier of small parts, and prints its greatest memory in MiB at the end.
SPOOLER = """
import sys
from pathlib import Path
from zwire import spool, zenoh

folder, url, endpoint, count = sys.argv[1:]
config = {"mode": "router", "listen/endpoints": [endpoint], "scouting/multicast/enabled": False}
with zenoh.open({**config, "zwire/handler/capacity_bytes": 64 << 20}) as session:
    keep = spool.Retention(local_bytes=0)
    with spool.Spooler(
        folder, "load", session=session, overflow="block", segment_bytes=16 << 20, retention=keep, tier=url
    ) as spooler:
        print("ready", flush=True)
        sys.stdin.readline()
        assert spooler.flush(60)
        assert spooler.stats()["rows"] == int(count), spooler.stats()
    tier = spooler.stats()["tier"]
    assert tier["behind"] == 0 and tier["problem"] is None, tier
status = Path("/proc/self/status").read_text()
print(int(status.partition("VmHWM:")[2].split()[0]) >> 10, flush=True)
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_a_spooler_with_a_tier_under_load_has_less_than_256_mib(s3, tmp_path, kind):
    url = f"file://{tmp_path / 'tier'}" if kind == "folder" else s3.bucket("load")
    count, size = 8000, 64 << 10
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    words = [sys.executable, "-c", SPOOLER, tmp_path / "spool", url, endpoint, count]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([str(word) for word in words], **pipes) as spooler:
        assert spooler.stdin is not None
        assert spooler.stdout is not None
        assert spooler.stdout.readline() == "ready\n"
        config = {"mode": "client", "connect/endpoints": [endpoint], "scouting/multicast/enabled": False}
        with zenoh.open(config) as session:
            publisher = session.declare_publisher("load", **BLOCK)
            publisher.wait_matching(1, 20)
            payload = os.urandom(size)
            for _ in range(count):
                publisher.put(payload)
            publisher.undeclare()
        spooler.stdin.write("\n")
        spooler.stdin.flush()
        said = spooler.stdout.readline()
    assert spooler.returncode == 0
    print(f"{kind}: {said.strip()} MiB at most, for {count * size >> 20} MiB")
    assert int(said) < 256
    assert spool.open(url).end() == {0: count}


def test_wrong_settings_of_a_tier_are_refused(tmp_path):
    with pytest.raises(errors.SpoolError) as raised:
        Keeping(tmp_path / "a", "s3://key:secret@bucket/a")
    assert "credentials do not belong there" in str(raised.value)
    assert "secret" not in str(raised.value)
    with pytest.raises(errors.SpoolError, match="ftp is not one of s3, "):
        Keeping(tmp_path / "b", "ftp://host/a")
    with pytest.raises(errors.ZwireError, match="local_bytes: this spool has no tier"):
        Keeping(tmp_path / "c", None, retention=spool.Retention(local_bytes=1))
    with pytest.raises(errors.SpoolError, match="there is no spool"):
        spool.open(f"file://{tmp_path}/nothing")


def test_a_command_keeps_with_a_tier(tmp_path):
    folder, url = tmp_path / "spool", f"file://{tmp_path / 'tier'}"
    words = ["spool", "keep", "--dir", folder, "a", "--tier", url, "--local-bytes", "1M", "--roll", "1s"]
    with router() as hub, client(hub) as publisher:
        with running(*words, "-e", hub.listening()[0]):
            publisher.put("a", b"1", **BLOCK)
            eventually(lambda: spool.open(folder).end() == {0: 1})
        assert [payload for _, payload in rows(spool.open(url))] == [b"1"]


# What the store does wrong, and how often; the spooler overcomes each.
WRONG: dict[str, list[dict[str, Any]]] = {
    "errors": [{"method": "PUT", "times": 6, "status": 500, "code": "InternalError"}],
    "slow down": [
        {"method": "PUT", "times": 5, "status": 503, "code": "SlowDown"},
        {"method": "GET", "times": 5, "status": 503, "code": "SlowDown"},
    ],
    "lost answers": [
        {
            "method": "PUT",
            "path": "/manifest/0",
            "times": 3,
            "status": 500,
            "code": "InternalError",
            "lost": True,
        },
        {"method": "PUT", "path": ".arrow", "times": 2, "status": 503, "code": "SlowDown", "lost": True},
    ],
    "torn uploads": [
        {"method": "PUT", "path": ".arrow", "times": 2, "torn": True},
        {"method": "PUT", "path": "/manifest/000", "times": 1, "torn": True},
    ],
    "answers that end early": [{"method": "GET", "path": ".arrow", "times": 4, "cut": True}],
    "expired credentials": [{"method": "PUT", "times": 3, "status": 400, "code": "ExpiredToken"}],
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_store_that_fails_for_a_while_gets_everything(s3, tmp_path, wrong):
    url = s3.bucket("spool-" + wrong.replace(" ", "-"))
    for fault in WRONG[wrong]:
        s3.fail(**fault)
    with Keeping(tmp_path, url) as keeping:
        keeping.put(32)
        keeping.upload()
        before = rows(keeping.view)
    struck = s3.heal()
    assert sum(struck.values()) == sum(fault["times"] for fault in WRONG[wrong]), struck
    alone = spool.open(url)
    assert rows(alone) == before
    assert len(before) == 32
    assert spool.verify(url) == []


def test_a_store_that_goes_away_stops_neither_the_spooler_nor_its_folder(s3, tmp_path):
    url = s3.bucket("spool-away")
    with Keeping(tmp_path, url) as keeping:
        keeping.put(15)
        keeping.upload()
        view = spool.open(url)
        there = rows(view)
        for method in ("GET", "PUT", "HEAD"):
            s3.fail(method, status=404, code="NoSuchBucket")
        keeping.put(30)
        eventually(lambda: keeping.tier["problem"] is not None)
        assert "NoSuchBucket" in keeping.tier["problem"]
        assert keeping.tier["behind"] >= 2
        assert len(rows(spool.open(tmp_path))) == 45, "the folder is read without its tier"
        stat = spool.stat(tmp_path)
        assert (stat["rows"], stat["tier"]["behind"], stat["shards"][0]["segments"]) == (45, None, None)
        assert "NoSuchBucket" in stat["tier"]["problem"]
        time.sleep(1)
        with pytest.raises(errors.SpoolUnreachable, match="NoSuchBucket"):
            view.end()
        s3.heal()
        keeping.upload()
        eventually(lambda: keeping.tier["problem"] is None)
    assert rows(spool.open(url))[: len(there)] == there
    assert spool.open(url).end() == {0: 45}


def test_refused_credentials_and_errors_have_the_place_up_to_which_rows_were_read(s3, tmp_path):
    url = s3.bucket("spool-read")
    with Keeping(tmp_path, url) as keeping:
        keeping.put(40)
        keeping.upload()
    view = spool.open(url)
    last = spool.open(url)._view.segments(0)[-1]

    def read() -> int:
        count = 0
        for batch in view.read(0, 0, 40, max_rows=1):
            count += len(batch)
        return count

    faults: list[tuple[type[errors.SpoolError], dict[str, Any]]] = [
        (errors.SpoolDenied, {"status": 400, "code": "ExpiredToken"}),
        (errors.SpoolDenied, {"status": 403, "code": "AccessDenied"}),
        (errors.SpoolUnreachable, {"status": 404, "code": "NoSuchBucket"}),
    ]
    for kind, fault in faults:
        s3.fail("GET", f"/0/{last:020}-", **fault)
        s3.fail("HEAD", f"/0/{last:020}-", **fault)
        with pytest.raises(kind, match=fault["code"]) as raised:
            read()
        assert (raised.value.shard, raised.value.offset) == (0, last)
        assert "secret" not in str(raised.value)
        s3.heal()
    assert read() == 40
    s3.fail("GET", ".arrow", times=3, status=503, code="SlowDown")
    assert read() == 40
    assert s3.heal() == {"SlowDown": 3}
    # A list of blocks that is missing is made from the segment.
    s3.fail("GET", ".idx", status=404, code="NoSuchKey")
    assert read() == 40


def test_objects_that_are_changed_or_gone_are_told_with_their_place(s3, tmp_path):
    url = s3.bucket("spool-damage")
    with Keeping(tmp_path, url) as keeping:
        keeping.put(40)
        keeping.upload()
    listed = s3.call("GET", "/spool-damage?list-type=2").decode()
    names = [part.split("<")[0] for part in listed.split("<Key>")[1:]]
    segments = [name for name in names if ".arrow" in name and "/0/" in name]
    second, third = segments[1:3]
    bases = spool.open(url)._view.segments(0)
    whole = s3.call("GET", f"/spool-damage/{second}")
    s3.call("PUT", f"/spool-damage/{second}", whole[:5000] + b"?" + whole[5001:])
    s3.call("DELETE", f"/spool-damage/{third}")
    damaged, missing = spool.verify(url)
    assert (damaged.shard, damaged.offset, missing.offset) == (0, bases[1], bases[2])
    assert second.removeprefix("a/spool/") in damaged.message
    assert f"no segment holds offsets {bases[2]} to {bases[3]}" in missing.message


def test_objects_without_wanted_rows_are_not_requested(s3, tmp_path):
    """All other objects are gone, and nothing notices."""
    url = s3.bucket("spool-wanted")
    with Keeping(tmp_path, url, segment_seconds=0.2) as keeping:
        for robot in range(4):
            there = keeping.tier["uploaded"]
            for _ in range(3):
                keeping.session.put(f"robot/{robot}/pose", b"1", **BLOCK)
                assert keeping.spooler.flush(10)
            eventually(lambda there=there: keeping.tier["uploaded"] > there)
            keeping.upload()
    view = spool.open(url)
    plan = view.plan(keys="robot/2/*")
    assert plan.segments < plan.segments + plan.skipped
    wanted = [
        base for base in view._view.segments(0) if view.plan({0: base}, {0: base + 1}, keys="robot/2/**")[0]
    ]
    listed = s3.call("GET", "/spool-wanted?list-type=2").decode()
    for name in [part.split("<")[0] for part in listed.split("<Key>")[1:]]:
        if ".arrow" in name and not any(f"/0/{base:020}-" in name for base in wanted):
            s3.call("DELETE", f"/spool-wanted/{name}")
    found = view.read(0, 0, 12, columns=["key"], keys="robot/2/**")
    keys = [row["key"] for batch in found for row in pa.record_batch(batch).to_pylist()]
    assert keys == ["robot/2/pose"] * 3
    assert found.segments == plan[:2]
    with pytest.raises(errors.SpoolError):
        rows(view)


def test_keys_of_a_profile_are_used(s3, tmp_path, monkeypatch):
    url = s3.bucket("spool-profile")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    keys = tmp_path / "credentials"
    keys.write_text("[robots]\naws_access_key_id = key\naws_secret_access_key = secret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    monkeypatch.setenv("AWS_PROFILE", "robots")
    with Keeping(tmp_path / "spool", url) as keeping:
        keeping.put(12)
        keeping.upload()
    assert len(rows(spool.open(url))) == 12


def test_a_forked_child_reads_a_tier_that_its_parent_has_read(s3, tmp_path):
    url = s3.bucket("spool-fork")
    with Keeping(tmp_path, url) as keeping:
        keeping.put(25)
        keeping.upload()
    view = spool.open(url)
    assert len(rows(view)) == 25
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if len(rows(view)) == len(rows(spool.open(url))) == 25 else 2
        finally:
            os._exit(code)
    end = time.monotonic() + 20
    while (waited := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
        time.sleep(0.02)
    if waited == (0, 0):
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert waited == (child, 0)


def test_what_retention_deletes_goes_from_the_tier_as_well(s3, tmp_path):
    url = s3.bucket("spool-retention")
    keep = spool.Retention(bytes=250_000, local_bytes=0)
    with Keeping(tmp_path, url, retention=keep) as keeping:
        keeping.put(60)
        keeping.upload()

        def few() -> bool:
            listed = s3.call("GET", "/spool-retention?list-type=2").decode()
            return keeping.view.earliest()[0] > 0 and listed.count(".arrow<") <= 4

        eventually(few, within=20)
        first = keeping.view.earliest()[0]
        assert {
            row["kind"] for batch in keeping.view.gaps() for row in pa.record_batch(batch).to_pylist()
        } == {"gap"}
    alone = spool.open(url)
    assert alone.earliest()[0] >= first > 0
    assert [offset for offset, _ in rows(alone)] == list(range(alone.earliest()[0], 60))
    with pytest.raises(errors.OffsetOutOfRange):
        alone.read(0, 0, 60)
