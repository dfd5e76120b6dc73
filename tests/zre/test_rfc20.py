"""zwire in generation 1: with a node written from 20/ZRE, with the zyre of its time, and in mixed networks.

The scripted node aborts, and so fails the test, on whatever a zyre of that time died of or the text forbids.
"""

import time

import pytest

from zre.peers import PATIENCE

ALL = ["20", "zyre1", "36"]
OLD = [("20", "3.0"), ("20", "2.0"), ("zyre1", "3.0"), ("zyre1", "2.0")]


def clean(judge, *, tried=False):
    """All messages that the strict node saw are as they have to be.

    ``tried``: a node of several generations may greet as 36/ZRE before it knows better; old nodes do not take
    the 17 octets of that identity for any node.
    """
    state = judge.state()
    assert [i for i in state["ignored"] if not (tried and i.startswith("identity 01"))] == []
    assert state["complaints"] == []


def messages(judge, kind, count=1):
    """The messages of one kind that the strict node has got, once there are ``count`` of them."""
    end = time.monotonic() + PATIENCE
    while True:
        seen = judge.ask("messages")
        if [m["message"] for m in seen].count(kind) >= count:
            return seen
        assert time.monotonic() < end, seen
        time.sleep(0.05)


@pytest.mark.parametrize(("generation", "zmtp"), OLD)
@pytest.mark.parametrize("generations", [None, ALL], ids=["alone", "with-others"])
def test_every_message_both_ways(party, generation, zmtp, generations):
    ours = party.zwire(
        "ours",
        generations=generations or [generation],
        headers={"X-ROLE": "edge", "X-EMPTY": ""},
        groups=["CHAT", "SENSORS"],
    )
    theirs = party.scripted(generation, zmtp=zmtp, headers={"X-A": "b=c"}, groups=["CHAT"])
    # HELLO: address, mailbox, groups, status, headers.
    entered = theirs.wait("ENTER", ours)
    assert entered["headers"] == {"X-ROLE": "edge", "X-EMPTY": ""}
    assert entered["address"] == ours.endpoint
    theirs.wait("JOIN", ours, group="SENSORS")
    entered = ours.wait("ENTER", theirs)
    assert entered["headers"] == {"X-A": "b=c"}
    assert entered["address"] == theirs.endpoint
    # The generation has no name: the first six digits of the UUID stand for it.
    assert entered["name"] == theirs.uuid[:6]
    ours.wait("JOIN", theirs, group="CHAT")
    # WHISPER and SHOUT.
    ours.whisper(theirs, "temp=21.5")
    assert theirs.wait("WHISPER", ours)["content"] == [b"temp=21.5"]
    theirs.whisper(ours, "")
    assert ours.wait("WHISPER", theirs)["content"] == [b""]
    assert ours.shout("CHAT", "Hello") == {"queued": 1, "not_responding": 0, "refused": 0}
    assert theirs.wait("SHOUT", ours, group="CHAT")["content"] == [b"Hello"]
    assert theirs.shout("SENSORS", b"\x00\xff" * 1000) == 1
    assert ours.wait("SHOUT", theirs, group="SENSORS")["content"] == [b"\x00\xff" * 1000]
    # "ZRE does not support multi-frame message contents."
    if generation == "20":
        assert ours.whisper(theirs, ["two", "frames"]) == "refused"
        assert ours.shout("CHAT", ["two", "frames"]) == {"queued": 0, "not_responding": 0, "refused": 1}
    else:
        assert ours.whisper(theirs, ["two", "frames"]) == "queued"
        assert theirs.wait("WHISPER", ours, count=2)["content"] == [b"two", b"frames"]
    # JOIN and LEAVE.
    ours.join("ALERTS")
    theirs.wait("JOIN", ours, group="ALERTS")
    ours.leave("CHAT")
    theirs.wait("LEAVE", ours, group="CHAT")
    theirs.join("ALERTS")
    ours.wait("JOIN", theirs, group="ALERTS")
    theirs.leave("ALERTS")
    ours.wait("LEAVE", theirs, group="ALERTS")
    # PING and PING-OK: "When a node receives a PING command it SHALL reply with a PING-OK command."
    theirs.ask("ping", peer=ours.uuid)
    seen = messages(theirs, "PING-OK")
    assert [m["sequence"] for m in seen] == list(range(1, len(seen) + 1))
    clean(theirs, tried=generations is not None)
    # The beacon with a zero port.
    ours.stop()
    theirs.wait("EXIT", ours, within=3)


@pytest.mark.parametrize(("generation", "zmtp"), OLD)
def test_it_leaves_by_a_zero_port(party, generation, zmtp):
    ours = party.zwire("ours", generations=ALL)
    theirs = party.scripted(generation, zmtp=zmtp)
    ours.wait("ENTER", theirs)
    theirs.wait("ENTER", ours)
    theirs.stop()
    ours.wait("EXIT", theirs, within=3)


def test_identity_of_32_characters(party):
    ours = party.zwire("ours", generations=["20"])
    theirs = party.scripted("20", identity="hex", groups=["CHAT"])
    ours.wait("ENTER", theirs)
    theirs.wait("ENTER", ours)
    theirs.whisper(ours, "one")
    assert ours.wait("WHISPER", theirs)["content"] == [b"one"]


def test_a_silent_peer_is_pinged_and_answers(party):
    ours = party.zwire("ours", generations=["20"], evasive=0.5, expired=4.0)
    theirs = party.scripted("20", interval=60)
    theirs.wait("ENTER", ours)
    ours.wait("ENTER", theirs)
    messages(theirs, "PING", count=3)
    # Asked in time it is not even called evasive.
    assert ours.kinds(theirs) == ["ENTER"]
    clean(theirs)


def test_a_peer_that_answers_no_ping_expires(party):
    ours = party.zwire("ours", generations=["20"], evasive=0.5, expired=2.0)
    theirs = party.scripted("20", interval=60, mute=True)
    ours.wait("ENTER", theirs)
    ours.wait("EXIT", theirs, within=6)


def test_a_gap_ends_the_session_and_tells_the_loss(party):
    ours = party.zwire("ours", generations=["20"])
    theirs = party.scripted("20")
    ours.wait("ENTER", theirs)
    theirs.wait("ENTER", ours)
    theirs.ask("skip", peer=ours.uuid, messages=3)
    theirs.whisper(ours, "after a gap")
    assert ours.wait("MESSAGES_LOST", theirs)["lost"] == 3
    ours.wait("EXIT", theirs)


def test_a_wrong_status_is_repaired_and_not_fatal(party):
    ours = party.zwire("ours", generations=["20"])
    theirs = party.scripted("20")
    ours.wait("ENTER", theirs)
    theirs.wait("ENTER", ours)
    theirs.ask("misreport", change=5)
    theirs.join("ONE")
    theirs.join("TWO")
    ours.wait("JOIN", theirs, group="TWO")
    assert "EXIT" not in ours.kinds(theirs)
    assert ours.state()["groups"][theirs.uuid] == ["ONE", "TWO"]


@pytest.mark.parametrize("generation", ["20", "zyre1"])
def test_a_peer_told_by_endpoint(party, generation):
    ours = party.zwire("ours", generations=ALL, beacons=False)
    theirs = party.scripted(generation, beacons=False)
    theirs.ask("connect", endpoint=ours.endpoint)
    ours.wait("ENTER", theirs)
    theirs.wait("ENTER", ours)
    ours.whisper(theirs, "one")
    theirs.wait("WHISPER", ours)
    clean(theirs)


def test_two_nodes_of_zwire_in_generation_1(party):
    a = party.zwire("a", generations=["20"], headers={"X-ROLE": "edge"}, groups=["CHAT"])
    b = party.zwire("b", generations=["20"], groups=["CHAT"])
    judge = party.scripted("20")
    assert b.wait("ENTER", a)["headers"] == {"X-ROLE": "edge"}
    a.wait("JOIN", b, group="CHAT")
    b.wait("JOIN", a, group="CHAT")
    a.shout("CHAT", "hello")
    assert b.wait("SHOUT", a)["content"] == [b"hello"]
    b.whisper(a, "psst")
    assert a.wait("WHISPER", b)["content"] == [b"psst"]
    a.leave("CHAT")
    b.wait("LEAVE", a, group="CHAT")
    assert a.state()["generation"][b.uuid] == "20"
    judge.wait("ENTER", a)
    judge.wait("ENTER", b)
    a.stop()
    b.wait("EXIT", a, within=3)
    judge.wait("EXIT", a, within=3)
    clean(judge)


def talk(ours, others):
    """Every node meets ours, and everything passes both ways."""
    for theirs in others:
        ours.wait("ENTER", theirs)
        theirs.wait("ENTER", ours)
        ours.wait("JOIN", theirs, group="CHAT")
        theirs.wait("JOIN", ours, group="CHAT")
    assert ours.shout("CHAT", "to all") == {"queued": len(others), "not_responding": 0, "refused": 0}
    for theirs in others:
        assert theirs.wait("SHOUT", ours)["content"] == [b"to all"]
        theirs.shout("CHAT", "from one")
        assert ours.wait("SHOUT", theirs)["content"] == [b"from one"]
        ours.whisper(theirs, "psst")
        assert theirs.wait("WHISPER", ours)["content"] == [b"psst"]
        theirs.whisper(ours, "psst")
        assert ours.wait("WHISPER", theirs)["content"] == [b"psst"]
    ours.join("LATE")
    for theirs in others:
        theirs.wait("JOIN", ours, group="LATE")
    ours.leave("LATE")
    for theirs in others:
        theirs.wait("LEAVE", ours, group="LATE")


def test_one_network_of_all_generations_scripted(party):
    ours = party.zwire("ours", generations=ALL, groups=["CHAT"])
    others = [
        party.scripted("20", groups=["CHAT"]),
        party.pyre("pyre", groups=["CHAT"]),
        party.zwire("zwire", groups=["CHAT"]),
    ]
    talk(ours, others)
    assert ours.state()["generation"] == dict(zip((p.uuid for p in others), ["20", "36", "36"], strict=True))
    ours.stop()
    for theirs in others:
        theirs.wait("EXIT", ours, within=3)


def test_one_network_of_zyre_of_all_generations(party):
    """Three releases of zyre, twelve years apart, that cannot talk to each other, and pyre."""
    ours = party.zwire("ours", generations=ALL, groups=["CHAT"])
    others = [
        party.zyre("20", groups=["CHAT"]),
        party.zyre("2.0.1", groups=["CHAT"], name="new"),
        party.pyre("pyre", groups=["CHAT"]),
    ]
    talk(ours, others)
    assert [ours.state()["generation"][p.uuid] for p in others] == ["20", "36", "36"]
    ours.stop()
    for theirs in others:
        theirs.wait("EXIT", ours, within=3)


def test_zyre_1_0_0_and_zyre_2_0_1(party):
    """The middle one has a network of its own: with the oldest one beside it zyre 1.0.0 would abort."""
    ours = party.zwire("ours", generations=ALL, groups=["CHAT"])
    others = [
        party.zyre("1.0.0", groups=["CHAT"]),
        party.zyre("2.0.1", groups=["CHAT"], name="new"),
        party.scripted("zyre1", groups=["CHAT"]),
    ]
    talk(ours, others)
    assert [ours.state()["generation"][p.uuid] for p in others] == ["zyre1", "36", "zyre1"]
    ours.stop()
    for theirs in others:
        theirs.wait("EXIT", ours, within=3)


@pytest.mark.parametrize("version", ["20", "1.0.0"])
def test_old_zyre_lives_through_a_restart_with_the_same_uuid(party, version):
    """The oldest aborts on a second HELLO: it has to hear the goodbye first."""
    uuid = "7F" * 16
    theirs = party.zyre(version)
    host = party.network.host()
    for count in (1, 2, 3):
        ours = party.zwire("ours", host=host, generations=ALL, uuid=uuid)
        theirs.wait("ENTER", uuid, count=count)
        ours.wait("ENTER", theirs)
        ours.stop()
        theirs.wait("EXIT", uuid, count=count)
        ours.end()
    assert theirs.kinds(uuid) == ["ENTER", "EXIT"] * 3
