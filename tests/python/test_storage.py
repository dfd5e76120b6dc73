"""Storages in Python: volumes, errors, counters, configuration."""

import json
import subprocess
import sys
import threading
import time

import pytest

import nodes
from zwire import errors, spool, storage, zenoh


def values(session, selector):
    """Keys and payloads of the replies."""
    replies = list(session.get(selector))
    assert all(reply.ok for reply in replies), [
        reply.err.payload.to_string() for reply in replies if reply.err
    ]
    return {str(reply.ok.key_expr): reply.ok.payload.to_string() for reply in replies}


def failures(session, selector):
    return [reply.err.payload.to_string() for reply in session.get(selector) if reply.err]


@pytest.fixture(params=["memory", "disk"])
def volume(request, tmp_path):
    return storage.Memory() if request.param == "memory" else storage.Disk(tmp_path / "storage")


def test_values_are_kept_and_given(session, volume):
    with storage.Storage(session, "a/**", volume=volume, strip_prefix="a", complete=True) as kept:
        session.put("a/x", "1", encoding="text/plain", attachment="note")
        session.put("a/y", "2")
        session.delete("a/y")
        assert values(session, "a/**") == {"a/x": "1"}
        (reply,) = session.get("a/x")
        assert reply.ok.encoding == zenoh.Encoding.TEXT_PLAIN
        assert reply.ok.attachment.to_string() == "note"
        assert reply.ok.timestamp is not None
        kept.flush()
        stats = kept.stats()
        assert (stats["stored"], stats["deleted"], stats["keys"], stats["tombstones"]) == (2, 1, 1, 1)
        assert (stats["received"], stats["waiting"], stats["dropped"], stats["problem"]) == (3, 0, 0, None)
        assert repr(kept) == "<Storage 'a/**'>"
    kept.close()
    assert values(session, "a/**") == {}
    with pytest.raises(errors.UsageError, match="closed"):
        kept.flush()


def test_a_put_behind_a_delete_without_a_stamp_is_the_later_one():
    """The router stamps the put and not the delete, which gets a later time at the storage."""
    with (
        nodes.router() as hub,
        nodes.client(hub) as robot,
        nodes.client(hub) as shelf,
        storage.Storage(shelf, "a/**") as kept,
    ):
        assert shelf.ready(timeout=10)
        older = zenoh.Timestamp.parse_rfc3339("2020-01-01T00:00:00Z/1")
        for key, deleted in (("a/x", "a/x"), ("a/y", "a/*")):
            robot.put(key, "0")
            early = hub.new_timestamp()
            robot.delete(deleted)
            # As the router stamps them; the second one is older than what the first one is stored with.
            robot.put(key, "1", timestamp=early)
            robot.put(key, "2", timestamp=hub.new_timestamp())
            robot.put(key, "old", timestamp=older)
            robot.put("a/end", key)
            nodes.eventually(lambda key=key: values(hub, "a/end") == {"a/end": key}, "all have arrived")
            assert values(hub, key) == {key: "2"}
            robot.delete("a/**")
        nodes.eventually(lambda: values(hub, "a/**") == {}, "a later delete counts")
        assert kept.stats()["outdated"] == 2


def test_a_disk_has_values_after_the_next_start(session, tmp_path):
    folder = storage.Disk(tmp_path / "storage")
    with storage.Storage(session, "a/**", volume=folder):
        for number in range(1000):
            session.put(f"a/{number}", str(number))
    with storage.Storage(session, "a/**", volume=folder) as kept:
        assert len(values(session, "a/*")) == 1000
        assert kept.stats()["keys"] == 1000


def test_a_folder_has_one_user_and_a_damaged_file_is_named(session, tmp_path):
    folder = storage.Disk(tmp_path / "storage")
    with storage.Storage(session, "a/**", volume=folder):
        with pytest.raises(errors.StorageLocked, match="has this folder open") as caught:
            storage.Storage(session, "b/**", volume=folder)
        assert caught.value.file == str(tmp_path / "storage" / "storage.redb")
    (tmp_path / "storage" / "storage.redb").write_bytes(b"something else" * 1000)
    with pytest.raises(errors.StorageCorrupt, match="damaged") as caught:
        storage.Storage(session, "a/**", volume=folder)
    assert caught.value.file.endswith("storage.redb")
    assert caught.value.key is None
    with pytest.raises(errors.StorageError):
        storage.Storage(session, "a/**", volume=storage.Disk(tmp_path / "storage" / "storage.redb"))


def test_wrong_settings_are_refused(session):
    with pytest.raises(errors.ConfigError, match="no prefix") as caught:
        storage.Storage(session, "a/**", strip_prefix="b")
    assert caught.value.path == "strip_prefix"
    with pytest.raises(errors.KeyExprError):
        storage.Storage(session, "a//b")
    with pytest.raises(TypeError, match="it has no put, delete"):
        storage.Storage(session, "a/**", volume={})
    with pytest.raises(errors.ConfigError, match="commit_interval"):
        storage.Storage(session, "a/**", commit_interval=-1.0)


def test_a_closed_session_has_no_storage(hub):
    session = nodes.client(hub)
    kept = storage.Storage(session, "a/**")
    session.close()
    with pytest.raises(errors.SessionClosed):
        storage.Storage(session, "b/**")
    kept.close()


class Dictionary:
    """A volume of a program."""

    def __init__(self):
        self.values = {}
        self.closed = False
        self.hold = threading.Event()
        self.hold.set()

    def put(self, key, value):
        self.hold.wait(20)
        if value.payload == b"poison":
            raise ValueError("I do not take this")
        self.values[key] = value

    def get(self, key):
        if key == "broken":
            raise KeyError("no such table")
        return self.values.get(key)

    def delete(self, key, timestamp):
        assert isinstance(timestamp, zenoh.Timestamp)
        del self.values[key]

    def keys(self):
        return [(key, value.timestamp) for key, value in self.values.items()]

    def close(self):
        self.closed = True


def test_a_volume_of_a_program(session):
    assert isinstance(Dictionary(), storage.Volume)
    database = Dictionary()
    with storage.Storage(session, "a/**", volume=database, strip_prefix="a"):
        session.put("a/x", "1", encoding="text/plain", attachment="note")
        session.put("a/y", "2")
        session.delete("a/y")
        assert values(session, "a/**") == {"a/x": "1"}
        (stored,) = database.values.values()
        assert (stored.payload, stored.attachment) == (b"1", b"note")
        assert stored.encoding == zenoh.Encoding.TEXT_PLAIN
    assert database.closed
    # It knows its keys at the next start.
    late = stored.timestamp
    with storage.Storage(session, "a/**", volume=database, strip_prefix="a") as kept:
        assert values(session, "a/x") == {"a/x": "1"}
        session.put("a/x", "2")
        session.put("a/x", "0", timestamp=late)
        assert values(session, "a/x") == {"a/x": "2"}
        assert kept.stats()["outdated"] == 1


def test_a_volume_that_raises_costs_its_update_alone(session):
    database = Dictionary()
    with storage.Storage(session, "a/**", volume=database, strip_prefix="a") as kept:
        session.put("a/x", "poison")
        session.put("a/y", "2")
        session.put("a/broken", "3")
        assert values(session, "a/y") == {"a/y": "2"}
        assert failures(session, "a/broken") == [
            "the volume failed to return a value: KeyError: 'no such table'"
        ]
        # A wildcard get gives the others.
        replies = list(session.get("a/**"))
        assert sorted(bool(reply.ok) for reply in replies) == [False, True]
        assert kept.stats()["refused"] == 1


def test_a_volume_that_hangs_costs_its_deadline_alone(session):
    database = Dictionary()
    volume = storage.Custom(database, deadline=0.2)
    with (
        storage.Storage(session, "a/**", volume=volume, strip_prefix="a") as kept,
        storage.Storage(session, "b/**"),
    ):
        session.put("a/x", "1")
        assert values(session, "a/x") == {"a/x": "1"}
        database.hold.clear()
        session.put("a/y", "2")
        session.put("b/y", "3")
        assert values(session, "b/y") == {"b/y": "3"}
        nodes.eventually(lambda: kept.stats()["refused"] == 1, "the late put is given up")
        assert failures(session, "a/x") == ["the volume did not return a value within 0.2 s"]
        database.hold.set()
        nodes.eventually(lambda: not failures(session, "a/x"), "the volume is back")
        assert values(session, "a/x") == {"a/x": "1"}


def test_durable_queries_and_flushes(session, tmp_path):
    with storage.Storage(session, "a/**", volume=storage.Disk(tmp_path), commit_interval=3600.0) as kept:
        session.put("a/x", "1")
        assert values(session, "a/x") == {"a/x": "1"}
        assert kept.stats()["commits"] == 0
        assert values(session, "a/x?_durable") == {"a/x": "1"}
        assert kept.stats()["commits"] == 1
        kept.flush()
        assert kept.stats()["commits"] == 1


def test_a_put_after_a_delete_of_a_client_stays():
    section = {"storages": {"s": {"key_expr": "a/*", "volume": "memory"}}}
    with nodes.router(plugins__storage_manager=section) as hub, nodes.client(hub) as session:
        for number in range(200):
            session.delete(f"a/{number}")
            session.put(f"a/{number}", "1")
        assert len(values(session, "a/*")) == 200


def test_old_deletes_are_forgotten(session):
    collection = storage.GarbageCollection(period=0.05, lifespan=0.2)
    with (
        storage.Storage(session, "a/**", garbage_collection=collection) as kept,
        storage.Storage(session, "b/**"),
    ):
        early = session.new_timestamp()
        session.delete("a/x")
        session.delete("b/x")
        session.put("b/x", "0", timestamp=early)
        assert values(session, "b/x") == {}, "this storage has not forgotten yet"
        nodes.eventually(lambda: kept.stats()["expired"] == 1, "the tombstone is forgotten")
        session.put("a/x", "1", timestamp=early)
        assert values(session, "a/x") == {"a/x": "1"}


def test_storages_of_a_configuration(tmp_path):
    section = {
        "volumes": {"mine": {"backend": "memory"}},
        "storages": {
            "fleet": {
                "key_expr": "fleet/**",
                "strip_prefix": "fleet",
                "volume": {"id": "disk", "dir": str(tmp_path)},
            },
            "other": {"key_expr": "other/*", "volume": "mine"},
            "broken": {"key_expr": "broken/*", "volume": "rocksdb"},
        },
    }
    more = {"plugins__storage_manager": section, "adminspace__enabled": True}
    for first in (True, False):
        with nodes.router(**more) as hub, nodes.client(hub) as session:
            if first:
                session.put("fleet/1", "a")
                session.put("other/1", "b")
            assert values(session, "fleet/**") == {"fleet/1": "a"}
            assert values(session, "other/*") == ({"other/1": "b"} if first else {})
            reports = values(session, "@/*/router/plugins/**")
            names = {json.loads(report)["name"] for report in reports.values()}
            assert names >= {"storage_manager", "storage_manager/memory"}
            assert {key.partition("/plugins/")[2] for key in reports} == names
            shown = values(session, "@/*/router/status/plugins/storage_manager/storages/*")
            assert {key.rpartition("/")[2] for key in shown} == {"fleet", "other"}
            assert {"key_expr": "other/*", "volume": "mine"} in [json.loads(text) for text in shown.values()]


def test_a_required_storage_that_fails_fails_the_session():
    section = {"__required__": True, "storages": {"x": {"key_expr": "x", "volume": "rocksdb"}}}
    with pytest.raises(errors.ConfigError, match="takes its place") as caught:
        nodes.router(plugins__storage_manager=section)
    assert caught.value.path == "plugins/storage_manager/storages/x/volume"
    with pytest.raises(errors.ConfigError, match="unknown; known here: volumes, storages"):
        nodes.router(plugins__storage_manager={"storage": {}})


def test_a_wildcard_get_of_many_keys_does_not_hold_up_others(session):
    with storage.Storage(session, "a/**"):
        for number in range(20_000):
            session.put(f"a/{number}", b"x" * 100, congestion_control=zenoh.CongestionControl.BLOCK)
        assert len(values(session, "a/*")) == 20_000
        slow = session.get("a/*", zenoh.handlers.FifoChannel(1))
        start = time.monotonic()
        assert values(session, "a/1").keys() == {"a/1"}
        assert time.monotonic() - start < 5
        del slow


def test_a_history_answers_for_the_past(session, tmp_path):
    with storage.Storage(session, "a/**", volume=storage.History(tmp_path)) as kept:
        for number in range(10):
            session.put("a/x", str(number), encoding="text/plain")
        session.delete("a/x")
        assert values(session, "a/**") == {}
        past = [reply.ok for reply in session.get("a/x?_time=[now(-1h)..]")]
        assert [sample.payload.to_string() for sample in past[:-1]] == [str(number) for number in range(10)]
        assert past[-1].kind == zenoh.SampleKind.DELETE
        assert list(session.get("a/x?_time=[..now(-1h)]")) == []
        kept.flush()
        view = spool.open(tmp_path)
        assert view.end() == {0: 11}


def test_files_that_people_can_look_at(session, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "theirs.txt").write_text("by hand")
    volume = storage.Files(tmp_path)
    with storage.Storage(session, "f/**", volume=volume, strip_prefix="f") as kept:
        session.put("f/notes/ours.json", "{}", encoding="application/json")
        found = values(session, "f/**")
        assert found == {"f/notes/theirs.txt": "by hand", "f/notes/ours.json": "{}"}
        (tmp_path / "notes" / "later.txt").write_text("seen at once")
        assert values(session, "f/notes/later.txt") == {"f/notes/later.txt": "seen at once"}
        assert len(values(session, "f/**")) == 3
        session.put("f/../../escape", "x")
        with pytest.raises(errors.NotDurable, match="1 were refused by the volume"):
            kept.flush()
        kept.flush()
        assert kept.stats()["refused"] == 1
    assert (tmp_path / "notes" / "ours.json").read_text() == "{}"
    assert not (tmp_path.parent / "escape").exists()


PROGRAM = """
import sys
from zwire import storage, zenoh

class Table(dict):
    def put(self, key, value):
        print("put", key, flush=True)
    def delete(self, key, timestamp):
        pass
    def keys(self):
        return []

session = zenoh.open({"mode": "peer", "scouting/multicast/enabled": False})
on_disk = storage.Storage(session, "a/**", volume=storage.Disk(sys.argv[1]), commit_interval=3600.0)
own = storage.Storage(session, "b/**", volume=Table())
for number in range(1000):
    session.put(f"a/{number}", "1")
session.put("b/1", "1")
"""


def test_a_program_that_ends_without_a_close_has_stored_everything(session, tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=25, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "put b/1\n", "")
    with storage.Storage(session, "a/**", volume=storage.Disk(tmp_path)) as kept:
        assert kept.stats()["keys"] == 1000


def test_a_dropped_storage_with_a_volume_of_a_program_ends(session):
    database = Dictionary()
    kept = storage.Storage(session, "a/**", volume=database)
    session.put("a/x", "1")
    start = time.monotonic()
    del kept
    assert time.monotonic() - start < 4
    assert list(database.values) == ["a/x"]
    assert database.closed
