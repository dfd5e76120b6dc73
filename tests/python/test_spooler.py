"""Spoolers: what is published is in the spool once, and what is not is told."""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from nodes import client, eventually, opened, router, settings
from zwire import errors, spool, zenoh
from zwire.zenoh import ext

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SEED = os.environ.get("ZWIRE_CRASH_SEED", "7")

BLOCK = {"congestion_control": zenoh.CongestionControl.BLOCK}


def rows(view: spool.Spool, *columns: str) -> list[dict]:
    """The rows of all shards, each in its order."""
    found = []
    for shard, end in view.end().items():
        for batch in view.read(shard, view.earliest()[shard], end, columns=columns or None):
            found += pa.record_batch(batch).to_pylist()
    return found


def gaps(view: spool.Spool) -> list[dict]:
    return [row for batch in view.gaps() for row in pa.record_batch(batch).to_pylist()]


def test_what_is_published_is_in_the_spool_with_everything_that_goes_with_it(hub, tmp_path):
    with (
        client(hub) as publisher,
        client(hub) as session,
        spool.Spooler(tmp_path, "robot/**", session=session) as spooler,
    ):
        spooler.ready(5)
        stamp = publisher.new_timestamp()
        source = zenoh.SourceInfo(publisher.declare_publisher("x").id, 41)
        publisher.put(
            "robot/1",
            b"full",
            encoding="application/json;v1",
            priority=zenoh.Priority.REAL_TIME,
            express=True,
            attachment=b"more",
            timestamp=stamp,
            source_info=source,
            **BLOCK,
        )
        publisher.put("robot/2", b"", **BLOCK)
        publisher.delete("robot/1", **BLOCK)
        publisher.put("other", b"not wanted", **BLOCK)
        eventually(lambda: spooler.stats()["received"] == 3)
        assert spooler.flush(5)
        view = spool.open(tmp_path)
        assert view.id == spooler.id
        full, empty, gone = rows(view)
        assert spooler.stats()["rows"] == 3
    assert full["key"] == "robot/1"
    assert (full["payload"], full["kind"], full["encoding"]) == (b"full", "put", "application/json;v1")
    assert (full["priority"], full["congestion"], full["express"], full["reliable"]) == (
        1,
        "block",
        True,
        True,
    )
    assert full["attachment"] == b"more"
    assert abs(full["timestamp"].timestamp() - stamp.get_time().timestamp()) < 2e-6
    assert full["hlc"] is not None
    assert full["hlc_id"] == bytes.fromhex(str(publisher.zid()).zfill(32))[::-1].rstrip(b"\0")
    assert full["source_zid"] == full["hlc_id"]
    assert full["source_sn"] == 41
    assert (empty["payload"], empty["kind"], empty["attachment"]) == (b"", "put", None)
    assert empty["source_sn"] is None
    assert (gone["key"], gone["payload"], gone["kind"]) == ("robot/1", None, "del")


def test_a_stream_is_whole_and_in_order_in_every_shard(hub, tmp_path):
    count = 20_000
    with (
        client(hub) as publisher,
        client(hub) as session,
        # Several of them match, and each sample is there once.
        spool.Spooler(tmp_path, ["a/**", "a/*/x", "b/*"], session=session, shards=3) as spooler,
    ):
        spooler.ready(5)
        for number in range(count):
            publisher.put(f"a/{number % 50}/x" if number % 5 else f"b/{number % 50}", str(number), **BLOCK)
        publisher.put("b/last", b"last", **BLOCK)
        eventually(lambda: spooler.stats()["rows"] == count + 1)
        assert spooler.flush(5)
        assert spooler.stats()["dropped"] == 0
    view = spool.open(tmp_path)
    numbers, by_key = [], {}
    for row in rows(view, "key", "payload", "shard", "offset"):
        by_key.setdefault(row["key"], []).append(row)
        numbers.append(row["payload"])
    assert sorted(numbers) == sorted([b"last", *(b"%d" % number for number in range(count))])
    for mine in by_key.values():
        assert len({row["shard"] for row in mine}) == 1
        if mine[0]["payload"] != b"last":
            order = [int(row["payload"]) for row in mine]
            assert order == sorted(order)


def test_each_key_expression_can_have_a_shard(hub, tmp_path):
    keys = ["a/**", "b/**"]
    with (
        client(hub) as publisher,
        spool.Spooler(
            tmp_path,
            keys,
            shards="keyexprs",
            config=settings("client", connect=hub.listening()),
        ) as spooler,
    ):
        spooler.ready(5)
        for number in range(10):
            publisher.put("ab"[number % 2] + "/x", str(number), **BLOCK)
        eventually(lambda: spooler.stats()["rows"] == 10)
        assert spooler.flush(5)
    found = rows(spool.open(tmp_path), "key", "shard")
    assert [row["shard"] for row in found] == [0] * 5 + [1] * 5
    assert [row["key"] for row in found] == ["a/x"] * 5 + ["b/x"] * 5
    with client(hub) as session, pytest.raises(errors.SpoolMismatch, match="shard rule"):
        spool.Spooler(tmp_path, keys, shards=2, session=session)


def test_numbers_that_are_missing_are_rows(hub, tmp_path):
    with (
        client(hub) as publisher,
        client(hub) as session,
        spool.Spooler(tmp_path, "k", session=session) as spooler,
    ):
        spooler.ready(5)
        entity = publisher.declare_publisher("k").id
        for number in (7, 8, 12, 12, 13):
            publisher.put("k", str(number), source_info=zenoh.SourceInfo(entity, number), **BLOCK)
        eventually(lambda: spooler.stats()["rows"] == 5)
        assert spooler.flush(5)
        stats = spooler.stats()
        assert (stats["lost"], stats["duplicates"]) == (3, 1)
        missing, again = gaps(spool.open(tmp_path))
    assert (missing["kind"], missing["sn_from"], missing["sn_to"], missing["count"]) == ("gap", 9, 11, 3)
    assert (missing["shard"], missing["offset"], missing["source_eid"]) == (0, 2, entity.eid)
    assert (again["kind"], again["sn_from"], again["offset"]) == ("duplicate", 12, 3)


def test_a_publisher_that_counts_nothing_does_not_fill_the_disk(hub, tmp_path):
    with (
        client(hub) as publisher,
        client(hub) as session,
        spool.Spooler(tmp_path, "k", session=session) as spooler,
    ):
        spooler.ready(5)
        source = zenoh.SourceInfo(publisher.declare_publisher("k").id, 7)
        for _ in range(3000):
            publisher.put("k", b"", source_info=source, **BLOCK)
        eventually(lambda: spooler.stats()["rows"] == 3000)
        assert spooler.flush(5)
        view = spool.open(tmp_path)
        assert sum(row["count"] for row in gaps(view)) == 2999
        blocks = sum(file.stat().st_size for file in (tmp_path / "gaps").glob("*.idx")) // 64
        assert blocks < 200


def test_numbers_that_came_while_nobody_wrote_are_rows(hub, tmp_path):
    with client(hub) as publisher:
        entity = publisher.declare_publisher("k").id
        for numbers in ((0, 1, 2), (3, 4), (9,)):
            with client(hub) as session, spool.Spooler(tmp_path, "k", session=session, shards=2) as spooler:
                spooler.ready(5)
                for number in numbers:
                    publisher.put("k", str(number), source_info=zenoh.SourceInfo(entity, number), **BLOCK)
                eventually(lambda: spooler.stats()["rows"] == len(numbers))  # noqa: B023 - done before the next
    missing = [row for row in gaps(spool.open(tmp_path)) if row["kind"] == "gap"]
    assert [(row["sn_from"], row["sn_to"], row["count"]) for row in missing] == [(5, 8, 4)]


@pytest.mark.parametrize("cache", [None, 5])
def test_a_heartbeat_names_what_was_sent_without_a_spooler(hub, tmp_path, cache):
    """The publisher publishes nothing more; what its cache has is no gap."""
    with client(hub) as publisher:
        numbered = ext.declare_advanced_publisher(
            publisher,
            "k",
            cache=cache and ext.CacheConfig(cache),
            sample_miss_detection=ext.MissDetectionConfig(heartbeat=0.05),
            **BLOCK,
        )
        with client(hub) as session, spool.Spooler(tmp_path, "k", session=session) as spooler:
            spooler.ready(5)
            numbered.wait_matching(timeout=5)
            for number in range(10):
                numbered.put(str(number))
            eventually(lambda: spooler.stats()["rows"] == 10)
        for number in range(10, 20):
            numbered.put(str(number))
        with client(hub) as session, spool.Spooler(tmp_path, "k", session=session) as spooler:
            eventually(lambda: spooler.stats()["lost"] > 0)
            eventually(lambda: spooler.stats()["rows"] == (cache or 0))
    missing = [row for row in gaps(spool.open(tmp_path)) if row["kind"] == "gap"]
    last = 19 - (cache or 0)
    assert [(row["sn_from"], row["sn_to"], row["count"]) for row in missing] == [(10, last, last - 9)]


@pytest.mark.parametrize("ending", ["closed", "killed"])
def test_a_publisher_that_is_seldom_heard_is_remembered_across_a_restart(hub, tmp_path, ending):
    many = 140_000
    busy = pa.record_batch({"key": ["k"] * many, "payload": [b""] * many})
    with client(hub) as publisher:
        entity = publisher.declare_publisher("k").id

        def numbered(number):
            info = zenoh.SourceInfo(entity, number)
            publisher.put("k", str(number), source_info=info, **BLOCK)

        command = [sys.executable, "-c", KEEP, tmp_path, hub.listening()[0]]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with process:
            assert process.stdout.readline() == "ready\n"
            numbered(5)
            publisher.put_batch(busy, **BLOCK)
            view = spool.open(tmp_path)
            eventually(lambda: sum(view.end().values()) == many + 1)
            # A spooler writes down the numbers that it knows within a second, before it may be killed.
            eventually((tmp_path / "publishers").exists)
            if ending == "killed":
                process.kill()
            process.stdin.close()
            process.wait(20)
        with client(hub) as session, spool.Spooler(tmp_path, "k", shards=2, session=session) as spooler:
            spooler.ready(5)
            numbered(10)
            eventually(lambda: spooler.stats()["rows"] == 1)
    (missing,) = [row for row in gaps(spool.open(tmp_path)) if row["kind"] == "gap"]
    assert (missing["sn_from"], missing["sn_to"], missing["count"]) == (6, 9, 4)


@pytest.mark.parametrize("damage", [b"", b"ZWIRPUBS", bytes(1 << 16)])
def test_what_is_remembered_of_publishers_may_be_damaged(hub, tmp_path, damage):
    with spool.Appender(tmp_path) as appender:
        appender.append(key="k", source_zid=b"\7", source_eid=1, source_sn=5)
    (tmp_path / "publishers").write_bytes(damage)
    with client(hub) as session, spool.Spooler(tmp_path, "k", session=session) as spooler:
        spooler.ready(5)
        session.put("k", "x", **BLOCK)
        eventually(lambda: spooler.stats()["rows"] == 1)
        assert spooler.stats()["problem"] is None


def test_numbers_that_a_killed_spooler_had_not_written_are_told_once(hub, tmp_path):
    with spool.Appender(tmp_path, shards=2) as appender:
        # Of two blocks that were due, only the later one came to the disk.
        for shard, number in ((0, 5), (1, 6), (0, 7), (1, 10), (1, 11)):
            appender.append(key="k", source_zid=b"zid", source_eid=3, source_sn=number, shard=shard)
    for _ in range(2):
        with client(hub) as session, spool.Spooler(tmp_path, "k", shards=2, session=session):
            pass
    (missing,) = [row for row in gaps(spool.open(tmp_path)) if row["kind"] == "gap"]
    assert (missing["sn_from"], missing["sn_to"], missing["count"]) == (8, 9, 2)
    assert (missing["source_zid"], missing["source_eid"]) == (b"zid", 3)


KEEP = """
import sys
from zwire import spool
with spool.Spooler(
    sys.argv[1], "k/**", shards=2, segment_bytes=50_000, linger=0.001,
    config={"mode": "client", "connect/endpoints": [sys.argv[2]]},
) as spooler:
    spooler.ready(5)
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_killed_spoolers_keep_all_but_what_gaps_name(hub, tmp_path):
    sent = 0
    with client(hub) as publisher:
        numbered = publisher.declare_publisher("k")

        def put() -> None:
            nonlocal sent
            info = zenoh.SourceInfo(numbered.id, sent)
            publisher.put(f"k/{sent % 10}", str(sent), source_info=info, **BLOCK)
            sent += 1

        for round_ in range(3):
            command = [sys.executable, "-c", KEEP, tmp_path, hub.listening()[0]]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            with process:
                assert process.stdout.readline() == "ready\n"
                # A publication without a subscriber before the first row would not be detected as missing:
                # wait.
                numbered.wait_matching(1, 10)
                view = spool.open(tmp_path)
                before = sum(view.end().values())
                while sum(view.end().values()) < before + 700:
                    put()
                if round_ < 2:
                    process.kill()
                else:
                    process.stdin.close()
                process.wait(10)
            # No spooler writes these.
            for _ in range(20):
                put()
    found = rows(view, "key", "payload", "shard", "offset")
    kept = [int(row["payload"]) for row in found]
    assert len(set(kept)) == len(kept)
    for key in {row["key"] for row in found}:
        order = [int(row["payload"]) for row in found if row["key"] == key]
        assert order == sorted(order)
    named = set()
    for row in gaps(view):
        if row["kind"] == "gap":
            named |= set(range(row["sn_from"], row["sn_to"] + 1))
    # A loss at the very end is not detected: no later sample reveals it.
    assert not set(kept) & named
    assert set(kept) | named == set(range(max(kept) + 1))
    assert len(named) >= 40


class Sender:
    """Publishes numbered payloads from a thread, and knows what it has sent."""

    def __init__(self, session: zenoh.Session, name: str, put: Callable[[bytes, int], None]) -> None:
        self.name, self.session, self.put = name, session, put
        self.sent: list[float] = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self.stop.wait(0.002):
            number = len(self.sent)
            self.sent.append(time.time())
            self.put(f"{self.name}/{number}".encode(), number)


@contextlib.contextmanager
def senders(hub: zenoh.Session) -> Iterator[list[Sender]]:
    """One of each kind: without numbers, with them alone, with heartbeats, with a cache, with both."""
    made = []

    def plain(session: zenoh.Session, key: str) -> Callable[[bytes, int], None]:
        return lambda payload, _: session.put(key, payload, **BLOCK)

    def numbered(session: zenoh.Session, key: str) -> Callable[[bytes, int], None]:
        entity = session.declare_publisher(key).id
        return lambda payload, number: session.put(
            key, payload, source_info=zenoh.SourceInfo(entity, number), **BLOCK
        )

    def advanced(cache: int | None, heartbeat: float | None) -> Any:
        def declare(session: zenoh.Session, key: str) -> Callable[[bytes, int], None]:
            publisher = ext.declare_advanced_publisher(
                session,
                key,
                cache=cache and ext.CacheConfig(cache),
                sample_miss_detection=ext.MissDetectionConfig(heartbeat=heartbeat),
                **BLOCK,
            )
            return lambda payload, _: publisher.put(payload)

        return declare

    kinds = {
        "plain": plain,
        "numbered": numbered,
        "heartbeat": advanced(None, 0.05),
        "cache": advanced(30, None),
        "both": advanced(30, 0.05),
    }
    with contextlib.ExitStack() as stack:
        for name, declare in kinds.items():
            session = stack.enter_context(client(hub))
            made.append(Sender(session, name, declare(session, f"k/{name}")))
        try:
            yield made
        finally:
            for sender in made:
                sender.stop.set()
            for sender in made:
                if sender.thread.ident is not None:
                    sender.thread.join(10)


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=[pytest.mark.long, pytest.mark.timeout(300)])])
def test_every_sample_is_a_row_or_named_however_often_the_spooler_is_killed(hub, tmp_path, kills):
    """At random moments, also while it starts, under traffic of all kinds of publishers.

    A sample without a number has no name: its place is between two rows with a start between them.
    """
    random_ = random.Random(f"{SEED} {kills}")
    command = [sys.executable, "-c", KEEP, tmp_path, hub.listening()[0]]

    def start(*, wait: bool) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(process.kill)
        if wait:
            assert process.stdout.readline() == "ready\n"
        return process

    def end(process: subprocess.Popen[str]) -> None:
        process.stdin.close()
        process.wait(20)
        process.stdout.close()

    def known() -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for row in rows(spool.open(tmp_path), "payload"):
            name, _, number = row["payload"].decode().partition("/")
            found.setdefault(name, set()).add(int(number))
        return found

    with contextlib.ExitStack() as stack:
        traffic = stack.enter_context(senders(hub))
        process = start(wait=True)
        for sender in traffic:
            # A loss before the first row of a publisher would not be detected.
            sender.thread.start()
        eventually(lambda: len(known()) == len(traffic))
        for _ in range(kills):
            time.sleep(random_.uniform(0, 0.6))
            process.kill()
            end(process)
            time.sleep(random_.choice([0, random_.uniform(0, 0.2)]))
            process = start(wait=random_.random() < 0.7)
        process.kill()
        end(process)
        process = start(wait=True)
        # A row of each after the last start tells of all before it.
        before = {sender.name: len(sender.sent) for sender in traffic}
        eventually(
            lambda: all(max(known().get(name, {0})) >= count for name, count in before.items()), within=20
        )
        for sender in traffic:
            sender.stop.set()
            sender.thread.join(10)
            sender.session.flush(10)
        last = {sender.name: len(sender.sent) - 1 for sender in traffic}
        eventually(lambda: all(number in known()[name] for name, number in last.items()), within=20)
        end(process)
        assert process.returncode == 0

    view = spool.open(tmp_path)
    found = rows(view, "payload", "shard", "offset", "recv_ts", "source_zid", "source_eid", "source_sn")
    lost = gaps(view)
    names, kept, places = {}, {sender.name: [] for sender in traffic}, {}
    for row in found:
        name, _, text = row["payload"].decode().partition("/")
        kept[name].append(int(text))
        places[name, int(text)] = row
        if row["source_sn"] is not None:
            assert row["source_sn"] == int(text)
            names[row["source_zid"], row["source_eid"]] = name
    named: dict[str, set[int]] = {sender.name: set() for sender in traffic}
    for row in lost:
        if row["kind"] == "gap":
            numbers = set(range(row["sn_from"], row["sn_to"] + 1))
            assert len(numbers) == row["count"]
            named[names[row["source_zid"], row["source_eid"]]] |= numbers
    starts = [row for row in lost if row["kind"] == "epoch"]
    for sender in traffic:
        everything = set(range(len(sender.sent)))
        mine = set(kept[sender.name])
        unnamed = everything - mine - named[sender.name]
        both = len(mine & named[sender.name])
        print(
            f"{kills} kills, seed {SEED}, {sender.name}: {len(everything)} sent = {len(mine)} rows + "
            f"{len(named[sender.name])} named - {both} that came later + {len(unnamed)} within starts; "
            f"{len(kept[sender.name]) - len(mine)} stored twice"
        )
        assert mine | named[sender.name] <= everything
        if sender.name != "plain":
            assert not unnamed, sorted(unnamed)[:20]
        for number in unnamed:
            behind = min(each for each in mine if each > number)
            front = max(each for each in mine if each < number)
            first, then = places[sender.name, front], places[sender.name, behind]
            (start_row, *_) = [
                row
                for row in starts
                if row["shard"] == then["shard"] and first["offset"] < row["offset"] <= then["offset"]
            ]
            since = int(re.search(r"at (\d+) us since 1970", start_row["detail"])[1]) / 1e6
            # A sample is on its way for some time: the one behind the last row may have been sent before
            # that row arrived.
            assert since - 1.0 < sender.sent[number] < then["recv_ts"].timestamp()
    total = sum(len(sender.sent) for sender in traffic)
    print(
        f"{kills} kills, seed {SEED}: {total} sent, {len(found)} rows, {sum(map(len, named.values()))} named"
    )
    assert sum(len(named[name]) for name in ("numbered", "heartbeat")) > 0, "nothing was lost"


def test_a_queue_that_is_full_drops_and_tells(hub, tmp_path):
    small = {"zwire__handler__capacity_bytes": 20_000}
    with (
        client(hub) as publisher,
        client(hub, **small) as session,
        spool.Spooler(tmp_path, "k", session=session, linger=0) as spooler,
    ):
        spooler.ready(5)
        # Each of them is more than the queue holds, so the next one does not fit while one waits.
        payload, sent = bytes(30_000), 0
        while spooler.stats()["dropped"] == 0:
            publisher.put("k", payload, **BLOCK)
            sent += 1
            assert sent < 20_000
        eventually(lambda: spooler.stats()["received"] == sent)
        assert spooler.flush(5)
        view = spool.open(tmp_path)
        dropped = spooler.stats()["dropped"]
        eventually(lambda: sum(row["count"] for row in gaps(view) if row["kind"] == "drop") == dropped)
        assert view.end() == {0: sent - dropped}
        assert view.marks()[0]["dropped"] == dropped


def test_a_spooler_that_starts_again_goes_on_and_tells(hub, tmp_path):
    with client(hub) as publisher:
        for round_ in range(3):
            with (
                client(hub) as session,
                spool.Spooler(tmp_path, "k", session=session, durability="disk") as spooler,
            ):
                spooler.ready(5)
                publisher.put("k", str(round_), **BLOCK)
                eventually(lambda: spooler.stats()["rows"] == 1)
    view = spool.open(tmp_path)
    assert [row["payload"] for row in rows(view, "payload", "offset")] == [b"0", b"1", b"2"]
    assert [row["kind"] for row in gaps(view)] == ["epoch", "epoch"]
    assert "since the last row" in gaps(view)[0]["detail"]


def test_a_link_that_comes_back_is_a_gap(tmp_path):
    with router() as first:
        endpoint = first.listening()
        zid = first.zid()
        session = client(first, connect__retry__period_init_ms=20, connect__retry__period_max_ms=50)
        spooler = spool.Spooler(tmp_path, "k", session=session)
        spooler.ready(5)
    with session, spooler:
        again = opened("router", listen=endpoint, id=str(zid))
        with again:
            view = spool.open(tmp_path)
            eventually(lambda: view.gaps_end() == 1)
            (row,) = gaps(view)
    assert row["kind"] == "reconnect"
    assert str(zid) in row["detail"]


@contextlib.contextmanager
def forty_rows(
    hub: zenoh.Session, folder: Path, keep: spool.Retention, *, read: int
) -> Iterator[spool.Spool]:
    """A spool of forty rows in some ten segments, with its spooler running, and a reader at ``read``."""
    with (
        client(hub) as publisher,
        client(hub) as session,
        spool.Spooler(folder, "k", session=session, segment_bytes=5_000, retention=keep) as spooler,
    ):
        spooler.ready(5)
        view = spool.open(folder)
        view.commit("reader", {0: read})
        for number in range(40):
            publisher.put("k", bytes(1000), **BLOCK)
            eventually(lambda: spooler.stats()["received"] == number + 1)  # noqa: B023 - done before the next
            assert spooler.flush(5)
        yield view


def test_consumers_and_age_decide_what_is_kept(hub, tmp_path):
    keep = spool.Retention(seconds=0.0)
    with forty_rows(hub, tmp_path, keep, read=0) as view:
        files = len(list((tmp_path / "0").glob("*.arrow")))
        assert files > 10
        assert view.earliest() == {0: 0}
        view.commit("reader", {0: 20})
        eventually(lambda: view.earliest()[0] > 10)
        assert view.earliest()[0] <= 20
        assert len(list((tmp_path / "0").glob("*.arrow"))) < files
        with pytest.raises(errors.OffsetOutOfRange, match="offset 0"):
            view.read(0, 0, 40)
        assert gaps(view) == []
        assert len(rows(view, "offset")) == 40 - view.earliest()[0]


def test_what_is_missing_is_told_as_long_as_the_rows_around_it_are_kept(hub, tmp_path):
    keep = spool.Retention(seconds=0.0)
    with client(hub) as publisher:
        entity = publisher.declare_publisher("k").id
        for numbers in ((0, 1, 5), (6,), (7,)):
            with (
                client(hub) as session,
                spool.Spooler(tmp_path, "k", session=session, retention=keep) as spooler,
            ):
                view = spool.open(tmp_path)
                # A reader that has read nothing yet: every row is kept for it.
                view.commit("reader", {0: 0})
                spooler.ready(5)
                for number in numbers:
                    info = zenoh.SourceInfo(entity, number)
                    publisher.put("k", str(number), source_info=info, **BLOCK)
                last = view.end()[0] + len(numbers)
                eventually(lambda: view.end()[0] >= last)  # noqa: B023 - done before the next
                # Housekeeping comes once a second.
                time.sleep(1.2)
            assert view.earliest() == {0: 0}
            missing = [(row["sn_from"], row["sn_to"]) for row in gaps(view) if row["kind"] == "gap"]
            assert missing == [(2, 4)]


def test_the_greatest_size_is_kept_to_and_what_nobody_read_is_told(hub, tmp_path):
    keep = spool.Retention(bytes=20_000)
    with forty_rows(hub, tmp_path, keep, read=3) as view:
        eventually(lambda: view.earliest()[0] > 20)
        eventually(lambda: sum(row["count"] for row in gaps(view)) == view.earliest()[0] - 3)
        assert {row["kind"] for row in gaps(view)} == {"gap"}
        eventually(lambda: view.marks()[0]["bytes"] <= 20_000)


def test_a_session_that_is_closed_under_it_is_a_problem(hub, tmp_path):
    session = client(hub)
    with spool.Spooler(tmp_path, "k", session=session) as spooler:
        session.put("k", b"kept")
        eventually(lambda: spooler.stats()["rows"] == 1)
        assert spooler.stats()["problem"] is None
        session.close()
        eventually(lambda: spooler.stats()["problem"] is not None)
        assert "nothing more is kept" in spooler.stats()["problem"]
    assert spool.open(tmp_path).end() == {0: 1}


def test_what_cannot_be_is_refused(hub, tmp_path):
    with client(hub) as session:
        with pytest.raises(errors.ConfigError, match="keyexprs"):
            spool.Spooler(tmp_path, [], session=session)
        with pytest.raises(errors.ConfigError, match="overflow"):
            spool.Spooler(tmp_path, "k", session=session, overflow="drop")  # type: ignore[arg-type]
        with spool.Spooler(tmp_path, "k", session=session), pytest.raises(errors.SpoolLocked):
            spool.Spooler(tmp_path, "k", session=session)
        spooler = spool.Spooler(tmp_path, "k", session=session)
        spooler.close()
        spooler.close()
        with pytest.raises(errors.UsageError, match="closed"):
            spooler.flush()
        # The session still belongs to its opener.
        session.put("k", b"")


def test_rows_say_by_which_link_they_came(hub, tmp_path):
    """Of a client its only one, of a router each; of its own session none."""
    with (
        client(hub) as publisher,
        client(hub) as session,
        spool.Spooler(tmp_path / "client", "k", session=session) as far,
        spool.Spooler(tmp_path / "router", "k", session=hub) as near,
    ):
        far.ready(5)
        near.ready(5)
        publisher.put("k", b"published", **BLOCK)
        hub.put("k", b"own", **BLOCK)
        for spooler in (far, near):
            eventually(lambda spooler=spooler: spooler.stats()["rows"] == 2)
            assert spooler.flush(5)
        (link,) = [link for link in hub.info.links() if str(link.zid) == str(publisher.zid())]
        there = {bytes(row["payload"]): row["link"] for row in rows(spool.open(tmp_path / "client"))}
        assert there == dict.fromkeys([b"published", b"own"], hub.listening()[0])
        here = {bytes(row["payload"]): row["link"] for row in rows(spool.open(tmp_path / "router"))}
        assert here == {b"published": str(link.dst), b"own": None}
