"""zwire with zeromq-pyre, by beacons on a network of our own."""

import concurrent.futures
import time
from pathlib import Path

import pytest

# Settable at us, constants of pyre that its program replaces: the tests need not wait half a minute.
SHORT = {"evasive": 1.0, "expired": 3.0}


def meet(party, **settings):
    ours = party.zwire("ours", headers={"X-ROLE": "edge"}, groups=["CHAT"], **settings)
    theirs = party.pyre("theirs", headers={"X-KIND": "pyre", "X-EMPTY": ""}, groups=["CHAT", "OTHER"])
    return ours, theirs


def test_a_node_that_starts_before_its_network(party):
    host = party.network.host()
    host.unplug()
    host.wait_for_carrier(present=False)
    ours = party.zwire("ours", host, groups=["CHAT"])
    assert ours.endpoint.startswith("tcp://127.0.0.1:")
    theirs = party.pyre("theirs", groups=["CHAT"])
    host.plug()
    ours.wait("JOIN", theirs, group="CHAT")
    theirs.wait("ENTER", ours, address=ours.endpoint.replace("127.0.0.1", host.address))
    theirs.shout("CHAT", "hello")
    assert ours.wait("SHOUT", theirs)["content"] == [b"hello"]


def test_they_discover_each_other_with_name_and_headers(party):
    ours, theirs = meet(party)
    entered = ours.wait("ENTER", theirs)
    assert entered["name"] == "theirs"
    assert entered["headers"] == {"X-KIND": "pyre", "X-EMPTY": ""}
    assert entered["address"] == theirs.endpoint
    entered = theirs.wait("ENTER", ours)
    assert entered["name"] == "ours"
    assert entered["headers"] == {"X-ROLE": "edge"}
    assert entered["address"] == ours.endpoint
    ours.wait("JOIN", theirs, group="OTHER")
    theirs.wait("JOIN", ours, group="CHAT")
    state = ours.state()
    assert state["groups"] == {theirs.uuid: ["CHAT", "OTHER"]}
    assert state["generation"] == {theirs.uuid: "36"}


def test_join_shout_whisper_leave_both_ways(party):
    ours, theirs = meet(party)
    ours.wait("JOIN", theirs, group="CHAT")
    theirs.wait("JOIN", ours, group="CHAT")
    for a, b in ((ours, theirs), (theirs, ours)):
        a.shout("CHAT", "hello")
        assert b.wait("SHOUT", a, group="CHAT")["content"] == [b"hello"]
        a.shout("CHAT", ["several", b"", bytes(range(256))])
        assert b.wait("SHOUT", a, count=2)["content"] == [b"several", b"", bytes(range(256))]
        a.whisper(b, ["psst", "psst"])
        assert b.wait("WHISPER", a)["content"] == [b"psst", b"psst"]
        a.join("LATE")
        b.wait("JOIN", a, group="LATE")
        a.leave("LATE")
        b.wait("LEAVE", a, group="LATE")
    theirs.leave("CHAT")
    ours.wait("LEAVE", theirs, group="CHAT")
    assert ours.shout("CHAT", "nobody") == {"queued": 0, "not_responding": 0, "refused": 0}


def test_a_thousand_messages_each_way_arrive_in_order(party):
    ours, theirs = meet(party)
    ours.wait("ENTER", theirs)
    theirs.wait("ENTER", ours)
    for a, b in ((ours, theirs), (theirs, ours)):
        for number in range(1000):
            a.send("whisper", peer=b.uuid, content=[str(number).encode().hex()])
        for _ in range(1000):
            a.answer()
        b.wait("WHISPER", a, count=1000)
        assert [int(e["content"][0]) for e in b.told("WHISPER", a)] == list(range(1000))


def test_a_clean_exit_is_heard_at_once(party):
    ours, theirs = meet(party)
    other = party.pyre("other")
    ours.wait("ENTER", theirs)
    ours.wait("ENTER", other)
    theirs.wait("ENTER", ours)
    other.wait("ENTER", ours)
    theirs.stop()
    ours.wait("EXIT", theirs, within=2)
    ours.stop()
    other.wait("EXIT", ours, within=2)
    ours.wait("STOP", ours)


def test_a_killed_pyre_becomes_evasive_and_expires(party):
    ours, theirs = meet(party, **SHORT)
    entered = ours.wait("ENTER", theirs)
    theirs.wait("ENTER", ours)
    theirs.kill()
    evasive = ours.wait("EVASIVE", theirs)
    gone = ours.wait("EXIT", theirs)
    assert evasive["time"] - entered["time"] > 0.9
    assert 1.5 < gone["time"] - evasive["time"] < 3.5
    # Edge-triggered: once per episode.
    assert [k for k in ours.kinds(theirs) if k in ("EVASIVE", "SILENT", "EXIT")] in (
        ["EVASIVE", "EXIT"],
        ["EVASIVE", "SILENT", "EXIT"],
    )


def test_pyre_expires_a_killed_zwire(party):
    ours = party.zwire("ours")
    theirs = party.pyre("theirs", evasive=1, expired=3)
    theirs.wait("ENTER", ours)
    ours.wait("ENTER", theirs)
    ours.kill()
    theirs.wait("EXIT", ours, within=8)


def test_a_restart_gives_one_exit_and_one_enter(party):
    ours = party.zwire("ours")
    host = party.network.host()
    first = party.pyre("theirs", host=host)
    ours.wait("ENTER", first)
    first.stop()
    ours.wait("EXIT", first)
    second = party.pyre("theirs", host=host)
    ours.wait("ENTER", second)
    assert ours.kinds(first) == ["ENTER", "EXIT"]
    assert ours.kinds(second) == ["ENTER"]


def frames_sent(host):
    return int(host.run("cat", "/sys/class/net/eth0/statistics/tx_packets"))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pyre", "zyre"])
def test_a_thousand_starts_and_stops_make_no_storm(parties, kind):
    """Five networks, 200 each: one foreign node and one zwire stay, further nodes of zwire come and go."""
    cycles = 200

    def run(party):
        stays = party.zwire("stays")
        theirs = getattr(party, kind)(name="theirs")
        stays.wait("ENTER", theirs)
        comes = party.zwire("comes")
        theirs.wait("ENTER", comes)
        comes.stop()
        theirs.wait("EXIT", comes)
        before = [frames_sent(h) for h in party.network.hosts]
        comes.ask("cycle", times=cycles, peers=2, within=110)
        # The last goodbye is on its way.
        time.sleep(1.0)
        sent = [frames_sent(h) - b for h, b in zip(party.network.hosts, before, strict=True)]
        for peer in (stays, theirs):
            # Nodes that came have gone, and none came twice. A goodbye may be heard before the HELLO is read:
            # then there was no ENTER, and pyre and zyre tell an EXIT without a name.
            events = [e for e in peer.told() if e.get("name") not in (None, "", "notset")]
            told = [(e["type"], e["peer"]) for e in events if e["type"] in ("ENTER", "EXIT")]
            twice = {u for k, u in told if told.count((k, u)) > 1}
            assert not twice, [(peer.program, e) for e in events if e["peer"] in twice]
            came, went = ({u for k, u in told if k == word} for word in ("ENTER", "EXIT"))
            assert went < came
            assert len(came - went) == 1
            assert cycles * 0.9 < len(went) <= cycles + 1
        return max(sent) / cycles

    with concurrent.futures.ThreadPoolExecutor() as pool:
        frames = list(pool.map(run, [parties() for _ in range(5)]))
    # TCP handshakes, ZMTP greetings, HELLO and beacons of one cycle are some 40 frames of one host.
    assert max(frames) < 120, frames


def test_the_program_of_pyre_is_not_the_one_in_this_tree():
    import pyre

    assert "site-packages" in Path(pyre.__file__).parts
