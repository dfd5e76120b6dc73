"""Spoolers that hold the shards of one spool: each sample is there once or named, in order of its key."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import TYPE_CHECKING, Self

import pyarrow.parquet as pq
import pytest

import objects
import shared
from nodes import client, eventually, router
from zwire import errors, spool
from zwire.cli import main
from zwire.sink import Sink, parquet
from zwire.spool._view import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from zwire import zenoh

pytestmark = pytest.mark.slow

SHARDS = 4
# Their checksums choose each shard twice.
NAMES = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
KEYS = [f"shared/number/{name}" for name in NAMES]
ALONE = {"mode": "peer", "listen/endpoints": [], "scouting/multicast/enabled": False}


@pytest.fixture
def hub() -> Iterator[zenoh.Session]:
    with router() as session:
        yield session


class Spoolers:
    """Spoolers with their spool, which are started and stopped."""

    def __init__(
        self, hub: zenoh.Session, folder: Path, url: str, env: dict[str, str], shards: int = SHARDS
    ) -> None:
        self.endpoint, self.folder, self.url, self.env = hub.listening()[0], folder, url, env
        # Those that the spool begins with, and those that it has now.
        self.first = self.shards = shards
        self.running: list[shared.Process] = []

    def start(self, name: str) -> shared.Process:
        process = shared.Process(self.folder / name, self.url, self.endpoint, env=self.env, shards=self.first)
        self.running.append(process)
        return process

    def kill(self, process: shared.Process) -> None:
        process.kill()
        self.running.remove(process)

    def are_even(self) -> bool:
        """Whether each shard has one spooler, and none has two more than another one."""
        held = [each.shards for each in self.running]
        counts = [len(shards) for shards in held]
        return sorted(shard for shards in held for shard in shards) == list(range(self.shards)) and (
            max(counts) - min(counts) <= 1
        )

    def settle(self, within: float = 40) -> float:
        """Wait until the shards are spread; return the seconds."""
        return self.until(self.are_even, within)

    def until(self, condition: Callable[[], bool], within: float) -> float:
        """Wait for a condition; return the seconds."""
        begin = time.monotonic()
        while not condition():
            assert time.monotonic() < begin + within, (
                f"not within {within} s:\n{shared.said(self.running, begin)}"
            )
            time.sleep(0.02)
        return time.monotonic() - begin

    def taken(self, shards: set[int], within: float = 15) -> float:
        """Wait until other spoolers write these shards; return the seconds."""
        return self.until(lambda: shards <= set().union(*(each.shards for each in self.running)), within)

    def sums(self, publishers: shared.Publishers) -> shared.Sums:
        """The sums after one more sample on each key, which names what is missing before it."""
        for key in publishers.sent:
            publishers.put(key)
        publishers.session.flush(10)
        end = time.monotonic() + 60
        while not (sums := shared.Sums(self.url, publishers.sent)).is_whole:
            assert time.monotonic() < end, f"{sums}, not {sums.missing}; last {sums.last} of {sums.counts}"
            time.sleep(0.5)
        return sums

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running:
            process.close()


# Two times a spooler waits for the signs of life of others, and once for the end of a lease: 25 s in all.
@pytest.mark.timeout(120)
def test_a_spooler_joins_and_another_one_is_killed(hub, tmp_path):
    url = f"file://{tmp_path / 'store'}"
    with client(hub) as session, Spoolers(hub, tmp_path, url, {}) as spoolers:
        first, second = spoolers.start("one"), spoolers.start("two")
        spoolers.settle()
        with shared.Publishers(session, KEYS) as publishers:
            spoolers.start("three")
            joined = spoolers.settle()
            lease = spool.stat(url)["lease"]["shards"]
            assert sorted(lease) == list(range(SHARDS)), lease
            lost = first.shards
            assert lost
            spoolers.kill(first)
            took = spoolers.taken(lost)
        sums = spoolers.sums(publishers)
        marks = spool.stat(url)["shards"].values()
        assert all(mark["last_recv_ts"] for mark in marks), "a shard without rows"
        print(f"joined after {joined:.1f} s, taken over after {took:.1f} s")
        sums.check()
        assert took <= 10
        # Closed, it gives its shards away at once.
        lost = second.shards
        second.close()
        spoolers.running.remove(second)
        assert spoolers.taken(lost) <= 10
    assert spool.stat(url)["lease"] == {"shards": {}}
    # Each of these spools has spoolers of its kind alone, and each of the folders.
    for options in ({"shared": True}, {}):
        with pytest.raises(errors.SpoolMismatch, match=r"spread alone|several spoolers share"):
            spool.Spooler(tmp_path / "three", "shared/**", config=ALONE, tier=url, shards=SHARDS, **options)


def test_a_program_that_does_not_know_claims_refuses_the_manifest(tmp_path):
    url = f"file://{tmp_path / 'store'}"
    with spool.Spooler(tmp_path / "one", "a/**", config=ALONE, tier=url, spread=True, shards=2) as spooler:
        eventually(lambda: spooler.stats()["lease"]["shards"] == [0, 1], within=20)
        assert spooler.stats()["lease"]["state"] == "holding"
    entries = sorted((tmp_path / "store" / "manifest").glob("0*.json"))
    assert {json.loads(entry.read_text())["v"] for entry in entries} == {3}
    # One that has begun its spool alone keeps it, and so do those that take turns.
    for name, options in (("turns", {"shared": True}), ("alone", {})):
        other = f"file://{tmp_path / name}"
        with spool.Spooler(tmp_path / f"{name}-1", "a/**", config=ALONE, tier=other, **options) as spooler:
            eventually((tmp_path / name / "manifest").is_dir, within=20)
        with pytest.raises(errors.SpoolMismatch, match="one writer at a time"):
            spool.Spooler(tmp_path / f"{name}-1", "a/**", config=ALONE, tier=other, spread=True)


def test_the_number_of_shards_changes_while_rows_come_and_are_read(hub, tmp_path):
    url = f"file://{tmp_path / 'store'}"
    config = {"mode": "client", "connect/endpoints": [hub.listening()[0]]}
    given = {"config": config, "tier": url, "spread": True, "segment_seconds": 0.3}
    with (
        client(hub) as session,
        spool.Spooler(tmp_path / "one", "shared/**", shards=2, **given) as spooler,
        shared.Publishers(session, KEYS) as publishers,
    ):
        eventually(lambda: spooler.stats()["lease"]["shards"] == [0, 1], within=20)
        eventually(lambda: sum(spool.open(url).end().values()) > 0, within=20)
        table = parquet(tmp_path / "table")
        sinking = Sink(url, table, max_rows=50, consumer="sinking")
        assert sinking.step() is not None
        opened = spool.open(url)
        changes = []
        for shards in (5, 1):
            begin = time.monotonic()
            spool.reshard(url, shards, timeout=20)
            changes.append(time.monotonic() - begin)
            eventually(lambda: len(opened.changes()) == len(changes), within=5)
            eventually(lambda: spooler.stats()["lease"]["shards"] == [0, 1, 2, 3, 4], within=20)
            grow(opened)
        publishers.__exit__()
        assert spooler.flush(10)
    print(f"changed within {[round(seconds, 1) for seconds in changes]} s")
    sums = shared.Sums(url, publishers.sent)
    sums.check()
    assert (sums.named, sums.last) == (0, {key: count - 1 for key, count in publishers.sent.items()})
    assert set(sums.kinds) == {"epoch"}, "numbers are named that are there"
    assert opened.shards == [0, 1, 2, 3, 4]
    assert spool.stat(url)["spread"] == {"shards": 1, "changes": 2}
    assert not spool.verify(url)
    # All keys were in the one shard at last, and no range of a reader goes over a change.
    opened = spool.open(url)  # the one before may have a state of some seconds ago
    first, second = opened.changes()
    ends = opened.end()
    assert (sorted(first), sorted(second)) == ([0, 1], [0, 1, 2, 3, 4])
    assert ends[0] > second[0]
    assert [ends[shard] for shard in (1, 2, 3, 4)] == [second[shard] for shard in (1, 2, 3, 4)]
    assert opened.walk(opened.earliest(), ends) == {**dict.fromkeys(range(5), 0), **first}
    assert opened.walk(first, ends) == second
    assert opened.walk(second, ends) == ends
    # A sink that has begun before follows, with the rows of each key in order.
    while sinking.step() is not None:
        pass
    rows = pq.read_table(tmp_path / "table").sort_by("recv_ts").num_rows
    assert (rows, sinking.offsets()) == (sums.rows, ends)
    # One that has not heard of the change begins with either number, and with no other one.
    with pytest.raises(errors.SpoolMismatch, match="this spool has 2 shards, not 3"):
        spool.Spooler(tmp_path / "two", "shared/**", shards=3, **given)
    for shards in (2, 1):
        spool.Spooler(tmp_path / "two", "shared/**", shards=shards, **given).close()
    # Without a spooler, the change is made at once.
    assert main(["spool", "reshard", url, "--shards", "3"]) == 0
    assert spool.stat(url)["spread"] == {"shards": 3, "changes": 3}


def grow(view: spool.Spool) -> None:
    """Wait for further rows."""
    before = sum(view.end().values())
    eventually(lambda: sum(view.end().values()) > before + 50, within=20)


def test_shards_of_a_spool_with_one_spooler_do_not_change(tmp_path):
    with spool.Appender(tmp_path / "alone", shards=2) as appender:
        appender.append(key="a", payload=b"1")
    with pytest.raises(errors.SpoolError, match="has no tier"):
        spool.reshard(tmp_path / "alone", 4)
    assert spool.open(tmp_path / "alone").changes() == []
    url = f"file://{tmp_path / 'store'}"
    with spool.Spooler(tmp_path / "one", "a/**", config=ALONE, tier=url):
        eventually((tmp_path / "store" / "manifest").is_dir, within=20)
    with pytest.raises(errors.SpoolMismatch, match="one writer at a time"):
        spool.reshard(url, 4)


def test_ranges_are_read_up_to_each_change_first():
    ranges = {0: (5, 30), 1: (0, 20), 2: (0, 9)}
    assert list(in_order(ranges, [])) == [(0, 5, 30), (1, 0, 20), (2, 0, 9)]
    changes = [{0: 10, 1: 7}, {0: 10, 1: 20, 2: 4}]
    assert list(in_order(ranges, changes)) == [
        *[(0, 5, 10), (1, 0, 7)],
        *[(1, 7, 20), (2, 0, 4)],
        *[(0, 10, 30), (2, 4, 9)],
    ]
    assert list(in_order({0: (3, 3), 1: (8, 9)}, changes)) == [(1, 8, 9)]


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["none", "kill", "pause"])
def test_spoolers_change_the_number_of_shards_under_load(hub, tmp_path, fault):
    url = f"file://{tmp_path / 'store'}"
    took = []
    with client(hub) as session, Spoolers(hub, tmp_path, url, {}, shards=2) as spoolers:
        for name in ("one", "two"):
            spoolers.start(name)
        spoolers.settle()
        with shared.Publishers(session, KEYS) as publishers:
            for shards in (4, 2):
                time.sleep(random.uniform(0.5, 2))
                begin = time.monotonic()
                change = threading.Thread(target=spool.reshard, args=(url, shards))
                change.start()
                if fault != "none":
                    time.sleep(random.uniform(0, 1.5))
                    was = random.choice(spoolers.running)
                    if fault == "kill":
                        spoolers.kill(was)
                        spoolers.start(was.folder.name)
                    else:
                        was.stop()
                        time.sleep(8)
                        was.go_on()
                change.join(90)
                assert not change.is_alive()
                took.append(time.monotonic() - begin)
                spoolers.shards = 4
                spoolers.settle()
        sums = spoolers.sums(publishers)
    print(f"changed within {[round(seconds, 1) for seconds in took]} s")
    sums.check()
    view = spool.open(url)
    assert (len(view.changes()), view.shards) == (2, [0, 1, 2, 3])
    if fault == "none":
        assert (sums.named, sums.rows) == (0, sums.sent)
        assert max(took) < 20


@pytest.mark.long
def test_a_spooler_goes_on_behind_the_rows_of_its_folder(hub, tmp_path):
    url = f"file://{tmp_path / 'store'}"
    with client(hub) as session, Spoolers(hub, tmp_path, url, {}) as spoolers:
        first = spoolers.start("one")
        spoolers.settle()
        with shared.Publishers(session, KEYS) as publishers:
            time.sleep(1.5)
            spoolers.kill(first)
            spoolers.start("one")
            spoolers.settle()
        sums = spoolers.sums(publishers)
        sums.check()
        # No offset is skipped: those of the folder were used by no other spooler.
        assert sum(spool.open(url).end().values()) == sums.rows


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("place", ["folder", "s3"])
def test_spoolers_share_the_shards_through_kills_pauses_and_joins(hub, tmp_path, place, monkeypatch):
    if place == "folder":
        chaos(hub, tmp_path, f"file://{tmp_path / 'store'}", {})
        return
    with objects.store() as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        chaos(hub, tmp_path, server.bucket("spread"), server.env)


def chaos(hub: zenoh.Session, folder: Path, url: str, env: dict[str, str]) -> None:
    took = []
    with client(hub) as session, Spoolers(hub, folder, url, env) as spoolers:
        for name in ("one", "two", "three"):
            spoolers.start(name)
        spoolers.settle()
        with shared.Publishers(session, KEYS) as publishers:
            for fault in ["kill", "pause", "close", "restart"] * 2:
                time.sleep(random.uniform(0.5, 2.5))
                was = random.choice(spoolers.running)
                lost, name = was.shards, was.folder.name
                spoolers.running.remove(was)
                if fault == "pause":
                    was.stop()
                elif fault == "close":
                    was.close()
                else:
                    was.kill()
                if fault != "restart":
                    took.append(spoolers.taken(lost))
                if fault == "pause":
                    was.go_on()
                    spoolers.running.append(was)
                else:
                    spoolers.start(name)
                spoolers.settle(within=40)
        sums = spoolers.sums(publishers)
    print(f"shards taken over after {[round(seconds, 1) for seconds in took]} s")
    sums.check()
    assert max(took) <= 10, took
