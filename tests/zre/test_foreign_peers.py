"""The foreign peers among themselves: that they work, and that the strict one is strict."""

import pytest

from nodes import eventually
from zre.peers import Party, PeerError


def test_two_nodes_of_pyre_meet(party):
    a = party.pyre("a", headers={"X-ROLE": "edge"}, groups=["CHAT"])
    b = party.pyre("b", groups=["CHAT"])
    assert b.wait("ENTER", a)["headers"] == {"X-ROLE": "edge"}
    b.wait("JOIN", a, group="CHAT")
    a.wait("JOIN", b, group="CHAT")
    a.shout("CHAT", "hello")
    assert b.wait("SHOUT", a)["content"] == [b"hello"]
    b.whisper(a, [b"one", b"two"])
    assert a.wait("WHISPER", b)["content"] == [b"one", b"two"]
    a.leave("CHAT")
    b.wait("LEAVE", a, group="CHAT")
    a.stop()
    b.wait("EXIT", a)


@pytest.mark.parametrize("generation", ["20", "zyre1"])
@pytest.mark.parametrize("zmtp", ["3.0", "2.0"])
def test_two_scripted_nodes_meet(party, generation, zmtp):
    a = party.scripted(generation, headers={"X-ROLE": "edge"}, groups=["CHAT", "SENSORS"], zmtp=zmtp)
    b = party.scripted(generation, zmtp=zmtp)
    assert b.wait("ENTER", a) | {"time": 0} == {
        "type": "ENTER",
        "time": 0,
        "peer": a.uuid,
        "headers": {"X-ROLE": "edge"},
        "address": a.endpoint,
    }
    b.wait("JOIN", a, group="SENSORS")
    a.wait("ENTER", b)
    b.join("CHAT")
    a.wait("JOIN", b, group="CHAT")
    assert a.shout("CHAT", "hello") == 1
    assert b.wait("SHOUT", a, group="CHAT")["content"] == [b"hello"]
    b.whisper(a, "temp=21.5")
    assert a.wait("WHISPER", b)["content"] == [b"temp=21.5"]
    b.leave("CHAT")
    a.wait("LEAVE", b, group="CHAT")
    b.ask("ping", peer=a.uuid)
    b.whisper(a, "last")
    a.wait("WHISPER", b, count=2)
    numbers = [m["sequence"] for m in a.ask("messages")]
    assert numbers == list(range(1, len(numbers) + 1))
    # The last beacon of a node overtakes what is under way on its connection.
    eventually(lambda: "PING-OK" in [m["message"] for m in b.ask("messages")], "the answer to the ping")
    a.ask("stop")
    b.wait("EXIT", a)
    assert b.ask("state")["ignored"] == []


@pytest.mark.parametrize(("generation", "version"), [("20", "20"), ("zyre1", "1.0.0")])
def test_zyre_of_its_time_takes_the_scripted_node_for_one_of_its_own(party, generation, version):
    zyre = party.zyre(version, headers={"X-ROLE": "edge"}, groups=["CHAT"])
    node = party.scripted(generation, headers={"X-A": "1", "X-B": "2"}, groups=["CHAT"])
    assert zyre.wait("ENTER", node)["headers"] == {"X-A": "1", "X-B": "2"}
    zyre.wait("JOIN", node, group="CHAT")
    assert node.wait("ENTER", zyre)["headers"] == {"X-ROLE": "edge"}
    node.wait("JOIN", zyre, group="CHAT")
    for number in range(20):
        node.shout("CHAT", f"shout {number}")
        zyre.whisper(node, f"whisper {number}")
    assert zyre.wait("SHOUT", node, count=20)["content"] == [b"shout 19"]
    assert node.wait("WHISPER", zyre, count=20)["content"] == [b"whisper 19"]
    node.join("MORE")
    zyre.wait("JOIN", node, group="MORE")
    zyre.leave("CHAT")
    node.wait("LEAVE", zyre, group="CHAT")
    node.ask("ping", peer=zyre.uuid)
    node.stop()
    zyre.wait("EXIT", node)


def test_two_nodes_of_zyre_meet_by_beacon(party):
    a = party.zyre(name="a", headers={"X-ROLE": "edge"})
    b = party.zyre(name="b")
    assert b.wait("ENTER", a)["headers"] == {"X-ROLE": "edge"}
    a.join("CHAT")
    b.wait("JOIN", a, group="CHAT")
    b.shout("CHAT", ["one", "two"])
    assert a.wait("SHOUT", b)["content"] == [b"one", b"two"]
    a.stop()
    b.wait("EXIT", a)


def test_two_nodes_of_zyre_meet_by_gossip(party):
    hosts = [party.network.host() for _ in range(2)]
    hub = f"tcp://{hosts[0].address}:9000"
    a = party.zyre(name="a", host=hosts[0], endpoint=f"tcp://{hosts[0].address}:9100", gossip_bind=hub)
    b = party.zyre(name="b", host=hosts[1], endpoint=f"tcp://{hosts[1].address}:9100", gossip_connect=hub)
    a.wait("ENTER", b)
    b.wait("ENTER", a)


def test_gossip_of_czmq_passes_tuples_on(party):
    host = party.network.host()
    endpoint = f"tcp://{host.address}:9000"
    hub = party.gossip(host, bind=endpoint)
    leaf = party.gossip(connect=[endpoint])
    leaf.ask("publish", key="A", value="1")
    assert hub.wait("DELIVER", key="A")["value"] == "1"
    hub.ask("publish", key="B", value="2")
    assert party.gossip(connect=[endpoint]).wait("DELIVER", key="B")["value"] == "2"


def test_the_scripted_node_greets_a_peer_that_it_is_told_of(party):
    a = party.scripted(beacons=False)
    b = party.scripted(beacons=False)
    a.ask("connect", endpoint=b.endpoint)
    a.wait("ENTER", b)
    b.wait("ENTER", a)
    a.whisper(b, "one")
    b.whisper(a, "two")
    b.wait("WHISPER", a)
    a.wait("WHISPER", b)


def test_the_scripted_node_notices_silence(party):
    a = party.scripted(evasive=0.3, expired=1.6)
    b = party.scripted(mute=True, interval=60)
    a.wait("ENTER", b)
    a.wait("EXIT", b, within=5)
    assert "PING" in [m["message"] for m in b.ask("messages")]


def test_a_log_reaches_the_collector(party):
    collector = party.scripted(collector=True)
    node = party.scripted()
    collector.wait("ENTER", node)
    node.join("LOGGED")
    told = collector.wait("LOG", event="JOIN")
    assert told["data"] == "LOGGED"
    assert told["peer"] == 0
    node.ask("send_log", level="WARNING", event="", data="hot", peer="tcp://10.99.0.2:49152")
    # The value is one that zyre 1.0.0 sent.
    assert collector.wait("LOG", level="WARNING")["peer"] == 0x0651


def wrong_sequence(node, peer):
    node.ask("skip", peer=peer.uuid)
    node.ask("ping", peer=peer.uuid)


def wrong_status(node, _):
    node.ask("misreport", change=1)
    node.join("GROUP")


def second_hello(node, peer):
    node.ask("octets", peer=peer.uuid, content=["aaa101000209" + b"10.99.0.1".hex() + "c000000000"])


def unknown_message(node, peer):
    node.ask("octets", peer=peer.uuid, content=["aaa1080002"])


def no_content(node, peer):
    node.ask("octets", peer=peer.uuid, content=["aaa1020002"])


def two_frames_of_content(node, peer):
    node.ask("octets", peer=peer.uuid, content=["aaa1020002", "00", "01"])


def cut_short(node, peer):
    node.ask("octets", peer=peer.uuid, content=["aaa1040002044348"])


def an_octet_too_many(node, peer):
    node.ask("octets", peer=peer.uuid, content=["aaa106000200"])


def another_signature(node, peer):
    node.ask("octets", peer=peer.uuid, content=["aaa0060002"])


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (wrong_sequence, "PING number 3 in place of 2"),
        (wrong_status, "JOIN with status 2 in place of 1"),
        (second_hello, "a second HELLO"),
        (unknown_message, "unknown message 8"),
        (no_content, "WHISPER without content"),
        (two_frames_of_content, "WHISPER with several frames"),
        (cut_short, "ends at octet"),
        (an_octet_too_many, "1 octets too many"),
        (another_signature, "another signature"),
    ],
)
def test_the_strict_node_aborts(networks, fault, reason):
    party = Party(networks())
    node = party.scripted()
    judge = party.scripted()
    judge.wait("ENTER", node)
    node.wait("ENTER", judge)
    fault(node, judge)
    assert judge.status() == 134
    with pytest.raises(PeerError, match=f"aborted: .*{reason}"):
        party.end()
