"""Replicated storages on the loopback: two sessions, hostile replicas, configuration, admin space."""

import json
import struct
import time

import pytest

import nodes
from zwire import errors, storage, zenoh
from zwire.cli import main

SHORT = storage.Replication(interval=0.3, propagation_delay=0.05)

# Fingerprint of `demo/**` with the defaults, of `zenoh-services` 4.9.
OF_DEMO = 5452541923675143030


def values(session, selector):
    """Keys and payloads of the storage beside the session."""
    local = zenoh.Locality.SESSION_LOCAL
    replies = session.get(selector, allowed_destination=local)
    return {str(reply.ok.key_expr): reply.ok.payload.to_string() for reply in replies if reply.ok}


@pytest.fixture
def pair():
    """Two routers with a link."""
    with nodes.router() as one, nodes.opened("router", connect=one.listening()) as other:
        nodes.eventually(lambda: one.info.routers_zid() and other.info.routers_zid(), "a link")
        yield one, other


def test_a_late_replica_gets_what_is_there(pair, tmp_path):
    one, other = pair
    with storage.Storage(one, "r/**", strip_prefix="r", replication=SHORT) as first:
        for number in range(500):
            one.put(f"r/{number}", str(number), encoding="text/plain", attachment=f"note {number}")
        one.put("r", "the prefix itself")
        one.delete("r/7")
        one.put("r/1$*", "wild")
        first.flush()
        with storage.Storage(
            other, "r/**", strip_prefix="r", volume=storage.Disk(tmp_path / "other"), replication=SHORT
        ) as second:
            nodes.eventually(lambda: values(other, "r/**") == values(one, "r/**"), "the same", within=30)
            (reply,) = other.get("r/8", allowed_destination=zenoh.Locality.SESSION_LOCAL)
            assert reply.ok.attachment.to_string() == "note 8"
            assert reply.ok.encoding == zenoh.Encoding.TEXT_PLAIN
            stats = second.stats()
            assert stats["aligned"] >= 501
            assert (stats["malformed"], stats["refused"], stats["problem"]) == (0, 0, None)
        assert values(one, "r/**")["r"] == "the prefix itself"


def test_changes_of_both_sides_meet(pair):
    one, other = pair
    with (
        storage.Storage(one, "r/**", replication=SHORT) as first,
        storage.Storage(other, "r/**", replication=SHORT) as second,
    ):
        # Storages hear of both: a publication for this session alone is what a lost one is for the other.
        alone = {"allowed_destination": zenoh.Locality.SESSION_LOCAL}
        one.put("r/c/d", "1", **alone)
        one.put("r/a", "of one", **alone)
        other.put("r/a", "of other", **alone)
        other.put("r/b", "to be deleted", **alone)
        one.delete("r/b", **alone)
        other.put("r/c/*", "wild", **alone)
        other.put("r/x", "x", **alone)
        first.flush()
        second.flush()

        def is_whole():
            here = values(one, "r/**")
            return here == values(other, "r/**") and here.keys() >= {"r/a", "r/c/d", "r/x"}

        nodes.eventually(is_whole, "the same content", within=30)
        assert values(one, "r/**") == {"r/a": "of other", "r/c/d": "wild", "r/x": "x"}


def test_wrong_parameters_are_refused(session):
    for replication, problem in [
        (storage.Replication(interval=0.001), "replication/interval"),
        (storage.Replication(sub_intervals=0), "replication/sub_intervals"),
        (storage.Replication(propagation_delay=6.0), "replication/propagation_delay"),
        (storage.Replication(hot=1 << 40), "replication/hot"),
    ]:
        with pytest.raises(errors.ConfigError, match=problem):
            storage.Storage(session, "r/**", replication=replication)


def number(value):
    return struct.pack("<Q", value)


def event(key, ntp64, action, *, clock=0x33):
    """An event as zenohd writes it: key, time, time of the last own update, action."""
    stamp = number(ntp64) + clock.to_bytes(16, "little")
    name = b"\1" + number(len(key)) + key if key else b"\0"
    return name + stamp + b"\1" + stamp + struct.pack("<I", action)


def ask(session, zid, query):
    """Replies of the replica, as attachments and payloads."""
    selector = f"@zid/{zid}/{OF_DEMO}/aligner"
    replies = session.get(
        selector, attachment=query, consolidation=zenoh.ConsolidationMode.NONE, target=zenoh.QueryTarget.ALL
    )
    return [(reply.ok.attachment.to_bytes(), reply.ok.payload.to_bytes()) for reply in replies]


def test_a_replica_answers_in_the_octets_of_the_reference(hub, session):
    with storage.Storage(hub, "demo/**", replication=storage.Replication()) as kept:
        early = zenoh.Timestamp.parse_rfc3339("2024-07-01T15:32:06.860Z/33")
        session.put("demo/a", "1", timestamp=early)
        session.delete("demo/b", timestamp=early)
        nodes.eventually(lambda: kept.stats()["stored"] + kept.stats()["deleted"] == 2, "both updates")
        ntp64 = int(early.get_time_as_ntp64())
        zid = str(hub.zid())
        ((answer, _),) = ask(session, zid, bytes(4))
        assert answer == bytes(4) + number(len(zid)) + zid.encode()
        ((answer, _),) = ask(session, "*", bytes(4))
        assert answer.endswith(zid.encode())
        everything = ask(session, zid, struct.pack("<I", 1))
        assert sorted(payload for _, payload in everything) == [b"", b"1"]
        put = next(answer for answer, payload in everything if payload)
        stamp = put[4 + 1 + 8 + 6 :][:24]
        assert put == b"\4\0\0\0\1" + number(6) + b"demo/a" + stamp + b"\1" + stamp + bytes(4)
        assert stamp[:8] == number(ntp64)
        assert stamp[8:] == (0x33).to_bytes(16, "little")
        # No query of a replica, and one that lies about its length.
        assert ask(session, zid, b"\5\0\0\0" + b"\xff" * 8) == []
        assert kept.stats()["malformed"] == 1
        assert list(session.get(f"@zid/{zid}/{OF_DEMO}/aligner")) == []


def test_hostile_replicas_cost_a_counter(hub, session):
    zid, now = str(session.zid()), int(time.time())
    replies = {
        "a length that lies": b"\3\0\0\0" + b"\xff" * 8,
        "an unknown kind": b"\x63\0\0\0",
        "nothing": b"",
        "a key of another place": b"\3\0\0\0" + number(1) + event(b"other/x", now << 32, 1),
        "a key that is none": b"\3\0\0\0" + number(1) + event(b"demo//x", now << 32, 1),
        "the clock zero": b"\3\0\0\0" + number(1) + event(b"demo/x", now << 32, 1, clock=0),
        "the year 2097": b"\3\0\0\0" + number(1) + event(b"demo/x", 0xF000_0000 << 32, 1),
        "a value of the year 2097": b"\4\0\0\0" + event(b"demo/y", 0xF000_0000 << 32, 0),
    }
    asked = []

    def answer(query):
        asked.append(query.attachment.to_bytes())
        for reply in replies.values():
            query.reply(query.key_expr, "evil", attachment=reply)
        query.reply_err("no")

    with (
        session.declare_queryable(f"@zid/{zid}/{OF_DEMO}/aligner", answer),
        storage.Storage(hub, "demo/**", replication=storage.Replication()) as kept,
    ):
        # The storage is empty, and asks which replicas there are: four replies cannot be read.
        nodes.eventually(lambda: kept.stats()["malformed"] == 4, "the question is answered")
        assert asked == [bytes(4)]
        hub.put("demo/mine", "1")
        kept.flush()
        digest = session.declare_publisher(f"@-digest/{zid}/{OF_DEMO}")
        malformed = [b"", b"\xff" * 100, number(1) + number(0) * 3, number(OF_DEMO) + number(0) + b"\xff" * 8]
        for count, octets in enumerate(malformed, 5):
            digest.put(octets)
            nodes.eventually(lambda count=count: kept.stats()["malformed"] == count, "the digest is counted")
        # Cold, one warm and one hot interval differ from what is here.
        warm, hot = number(1) + number(5), number(1) + number(7) + number(1) + number(3)
        differs = [number(1), warm + number(9), hot + number(9)]
        digest.put(number(OF_DEMO) + b"".join(differs))
        # Besides those, two events of other places.
        nodes.eventually(lambda: kept.stats()["malformed"] == 8 + 6, "replies are counted")
        nodes.eventually(lambda: kept.stats()["ahead"] == 2, "events of the future are counted")
        assert asked[1:] == [b"\2\0\0\0\1" + warm + hot]
        assert values(hub, "demo/**") == {"demo/mine": "1"}
        stats = kept.stats()
        assert (stats["aligned"], stats["tombstones"], stats["keys"]) == (0, 0, 1)


def test_the_admin_space_has_the_state_and_the_check_is_silent(tmp_path, capsys):
    replication = {"interval": 10, "sub_intervals": 5, "hot": 6, "warm": 30, "propagation_delay": 250}
    kept = {"key_expr": "demo/**", "volume": "memory", "replication": replication}
    section = {"storages": {"r": kept}}
    more = {"plugins__storage_manager": section, "adminspace__enabled": True}
    file = tmp_path / "router.json5"
    file.write_text(json.dumps({"mode": "router", "plugins": {"storage_manager": section}}))
    assert main(["config", "check", str(file)]) == 0
    assert "replication" not in capsys.readouterr().out
    with nodes.router(**more) as hub, nodes.client(hub) as session:
        session.put("demo/a", "1")
        path = f"@/{hub.zid()}/router/status/plugins/storage_manager/storages/r"
        assert values(session, "demo/a") == {}

        def state():
            (reply,) = session.get(f"{path}/replication")
            return json.loads(reply.result.payload.to_string())

        nodes.eventually(lambda: state()["events"] == 1, "the event")
        shown = state()
        assert shown["fingerprint"] == str(OF_DEMO)
        assert (shown["interval"], shown["hot"], shown["malformed"]) == (10.0, 6, 0)
        (reply,) = session.get(path)
        assert json.loads(reply.result.payload.to_string()) == {"key_expr": "demo/**", "volume": "memory"}
