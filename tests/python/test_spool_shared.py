"""Several spoolers of one spool: one writes, another takes over, and each sample is there once or named."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

import objects
import shared
from nodes import client, eventually, router
from zwire import errors, spool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zwire import zenoh

pytestmark = pytest.mark.slow

NUMBERED = [f"shared/number/{name}" for name in "abc"]
ALONE = {"mode": "peer", "listen/endpoints": [], "scouting/multicast/enabled": False}
TIMED = ["shared/time/a"]


@pytest.fixture
def hub() -> Iterator[zenoh.Session]:
    with router() as session:
        yield session


def settled(place: str, publishers: shared.Publishers, running: list[shared.Process]) -> shared.Sums:
    """The sums after one more sample on each key, which names what is missing before it."""
    shared.holder(running)
    for key in publishers.sent:
        publishers.put(key)
    publishers.session.flush(10)

    eventually(lambda: shared.Sums(place, publishers.sent).is_whole, "all rows in the store", within=20)
    return shared.Sums(place, publishers.sent)


def run(hub: zenoh.Session, folder: Path, url: str, env: dict[str, str], faults: list[str]) -> list[float]:
    """Publish to two spoolers while the holder has faults; return the seconds of each takeover."""
    took = []
    endpoint = hub.listening()[0]
    with (
        client(hub) as session,
        shared.spoolers(2, folder, url, endpoint, env) as running,
    ):
        shared.holder(running)
        eventually(lambda: sorted(each.state for each in running) == ["holding", "standby"], within=20)
        with shared.Publishers(session, NUMBERED + TIMED) as publishers:
            for fault in faults:
                time.sleep(random.uniform(0.5, 2.5))
                was = shared.holder(running)
                other = next(each for each in running if each is not was)
                begin = time.monotonic()
                was.kill() if fault == "kill" else was.stop()
                eventually(lambda: other.since(begin) is not None, "a takeover", within=15)  # noqa: B023
                took.append(other.since(begin))
                if fault == "kill":
                    running.remove(was)
                    running.append(shared.Process(was.folder, url, endpoint, env=env))
                else:
                    was.go_on()
                eventually(lambda: running[-1].state == "standby" or running[0].state == "standby", within=20)
        sums = settled(url, publishers, running)
        print(f"takeovers after {[round(seconds, 1) for seconds in took]} s: {sums}")
        # Samples with times have no numbers that could name them.
        timed = shared.Sums(url, {key: publishers.sent[key] for key in TIMED})
        assert (timed.doubled, timed.unordered) == (0, [])
        shared.Sums(url, {key: publishers.sent[key] for key in NUMBERED}).check()
        assert max(took) <= 10, took
    return took


def test_another_spooler_takes_over_when_the_first_is_killed(hub, tmp_path):
    run(hub, tmp_path, f"file://{tmp_path / 'store'}", {}, ["kill"])


def test_a_spooler_without_others_goes_on_behind_its_own_rows(hub, tmp_path):
    url = f"file://{tmp_path / 'store'}"
    endpoint = hub.listening()[0]
    with client(hub) as session, shared.spoolers(1, tmp_path, url, endpoint, {}) as running:
        shared.holder(running)
        with shared.Publishers(session, NUMBERED) as publishers:
            time.sleep(1.5)
            running[0].kill()
            running[0] = shared.Process(running[0].folder, url, endpoint, env={})
            shared.holder(running)
        sums = settled(url, publishers, running)
        sums.check()
        # No offset is skipped: those of the folder were used by no other spooler.
        assert spool.open(url).end()[0] == sums.rows
        assert spool.stat(running[0].folder)["lease"] == spool.stat(url)["lease"]
        assert spool.stat(url)["lease"]["epoch"] == 2
    # Closed, it has uploaded everything and given the lease back; only a shared spooler may go on.
    assert spool.stat(url)["rows"] == sums.rows
    with pytest.raises(errors.SpoolMismatch, match="several spoolers share this spool"):
        spool.Spooler(running[0].folder, "shared/**", tier=url)
    with pytest.raises(errors.SpoolMismatch, match="several spoolers share this spool"):
        spool.Appender(running[0].folder)


def test_a_spool_is_shared_through_a_tier_that_has_its_rows(tmp_path):
    folder, url = tmp_path / "spool", f"file://{tmp_path / 'store'}"
    with spool.Appender(folder) as appender:
        appender.append(key="shared/a", payload=b"1")
    for tier, said in ((None, "a spool that several spoolers share has a tier"), (url, "are in no tier")):
        with pytest.raises(errors.ZwireError, match=said):
            spool.Spooler(folder, "shared/**", config=ALONE, shared=True, tier=tier)
    # Another spooler's spool is not mixed with that of the folder.
    other = f"file://{tmp_path / 'other'}"
    with spool.Spooler(tmp_path / "else", "shared/**", config=ALONE, shared=True, tier=other):
        pass
    with pytest.raises(errors.SpoolMismatch, match=r"has spool .*, and the folder has"):
        spool.Spooler(folder, "shared/**", config=ALONE, shared=True, tier=other)
    with pytest.raises(errors.SpoolMismatch, match="has 1 shards, not 2"):
        spool.Spooler(tmp_path / "new", "shared/**", config=ALONE, shared=True, tier=other, shards=2)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("place", ["folder", "s3"])
def test_spoolers_take_turns_through_kills_and_pauses(hub, tmp_path, place, monkeypatch):
    faults = ["kill", "stop"] * 4
    if place == "folder":
        run(hub, tmp_path, f"file://{tmp_path / 'store'}", {}, faults)
        return
    with objects.store() as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        run(hub, tmp_path, server.bucket("shared"), server.env, faults)
