"""The bridge between pyre or zyre on one side and eclipse-zenoh on the other, with beacons; kills and cuts.

The router is in this process, which no network of the test reaches: sessions come by a Unix socket.
"""

import contextlib
import itertools
import threading
import time

import pytest

import nodes
from nodes import eventually

eclipse = pytest.importorskip("zenoh")

# Bound of a takeover, and what two processes take to tell of it.
TAKEOVER = 2.0
TOLD = 0.5

# Most messages that a bridge hands to ZRE in one go.
CHUNK = 64


class Zenoh:
    """The Zenoh side of a test: a router, and a session of eclipse-zenoh that hears all messages."""

    def __init__(self, folder):
        self.endpoint = f"unixsock-stream/{folder}/zenoh.sock"
        self.router = nodes.opened("router", listen=[self.endpoint])
        config = eclipse.Config()
        for key, value in (
            ("mode", '"client"'),
            ("connect/endpoints", f'["{self.endpoint}"]'),
            ("scouting/multicast/enabled", "false"),
        ):
            config.insert_json5(key, value)
        self.session = eclipse.open(config)
        self.samples = []
        self.subscriber = self.session.declare_subscriber("zre/group/**", self.samples.append)

    def bridge(self, party, groups=("CHAT",), host=None, settings=None, **options):
        """A bridge in a process of its own, on a host of the LAN."""
        given = nodes.settings("client", connect=[self.endpoint], **(settings or {}))
        return party.add("bridge_peer.py", host, options={"groups": list(groups), **options}, **given)

    def heard(self, sender):
        """Texts of the messages of a peer."""
        end = f"/{sender.uuid.lower()}"
        return [s.payload.to_bytes().decode() for s in list(self.samples) if str(s.key_expr).endswith(end)]

    def end(self):
        self.session.close()
        self.router.close()


@pytest.fixture
def net(tmp_path_factory):
    # Paths of Unix sockets are short.
    made = Zenoh(tmp_path_factory.mktemp("z"))
    yield made
    made.end()


def active(*bridges, within=10.0):
    """The one that forwards."""

    def forwards():
        return [each for each in bridges if each.ask("stats")["active"]]

    eventually(lambda: len(forwards()) == 1, "one bridge forwards", within=within)
    return forwards()[0]


def members(peer, group, *others):
    for other in others:
        peer.wait("JOIN", other, group=group)


def test_pyre_and_eclipse_zenoh_talk(party, net):
    made = net.bridge(party)
    theirs = party.pyre("theirs", groups=["CHAT", "OTHER"], headers={"X-KIND": "pyre"})
    active(made)
    members(theirs, "CHAT", made)
    assert theirs.told("ENTER", made)[0]["headers"] == {"X-ZENOH-BRIDGE": made.endpoint}
    theirs.shout("CHAT", "hello")
    theirs.shout("CHAT", ["several", b"", bytes(range(256))])
    theirs.shout("OTHER", "not named")
    eventually(lambda: len(net.samples) == 2, "both messages")
    one, several = net.samples
    assert str(one.key_expr) == f"zre/group/CHAT/{theirs.uuid.lower()}"
    assert (one.payload.to_bytes(), str(one.encoding)) == (b"hello", "zenoh/bytes")
    frames = eclipse.ext.z_deserialize(list[bytes], several.payload)
    assert (frames, str(several.encoding)) == (
        [b"several", b"", bytes(range(256))],
        "zenoh/serialized;zre-frames",
    )
    # The attachment in the serialization of eclipse-zenoh, up to the octets of the ids, which are no list.
    kinds = tuple[eclipse.ext.UInt64, eclipse.ext.UInt8, str]
    octets = one.attachment.to_bytes()
    number, hops, name = eclipse.ext.z_deserialize(kinds, eclipse.ZBytes(octets[33:]))
    assert (octets[0], octets[1:17].hex(), int(hops), name) == (1, theirs.uuid.lower(), 0, "theirs")
    assert int.from_bytes(octets[17:33], "little") == int(made.endpoint, 16)
    assert int(number) > 0
    # The other way.
    net.session.put("zre/group/CHAT/me", "from Zenoh")
    assert theirs.wait("SHOUT", made, group="CHAT")["content"] == [b"from Zenoh"]
    payload = eclipse.ext.z_serialize([b"two", b"frames"])
    net.session.put("zre/group/CHAT/me", payload, encoding="zenoh/serialized;zre-frames")
    assert theirs.wait("SHOUT", made, count=2)["content"] == [b"two", b"frames"]
    net.session.put(f"zre/peer/{theirs.uuid.lower()}/me", "psst")
    assert theirs.wait("WHISPER", made)["content"] == [b"psst"]
    (token,) = net.session.liveliness().get(f"zre/@peer/{theirs.uuid.lower()}/*")
    assert str(token.ok.key_expr).endswith(made.endpoint)
    assert len(list(net.session.liveliness().get("zre/@group/CHAT/*"))) == 1
    theirs.stop()
    eventually(lambda: not list(net.session.liveliness().get("zre/@peer/*/*")), "the token is gone")


@pytest.mark.parametrize(
    "generation",
    ["20", pytest.param("zyre1", marks=pytest.mark.long), pytest.param("43", marks=pytest.mark.long)],
)
def test_all_generations_cross(party, net, generation):
    generations = ["43"] if generation == "43" else ["20", "zyre1", "36"]
    made = net.bridge(party, node={"generations": generations})
    active(made)
    ours = party.zwire("ours", groups=["CHAT"], generations=[generation])
    members(ours, "CHAT", made)
    ours.shout("CHAT", "hello")
    eventually(lambda: net.heard(ours) == ["hello"], "the message")
    net.session.put("zre/group/CHAT/me", "from Zenoh")
    assert ours.wait("SHOUT", made)["content"] == [b"from Zenoh"]
    several = eclipse.ext.z_serialize([b"two", b"frames"])
    net.session.put("zre/group/CHAT/me", several, encoding="zenoh/serialized;zre-frames")
    net.session.put("zre/group/CHAT/me", "last")
    if generation != "20":
        assert ours.wait("SHOUT", made, count=2)["content"] == [b"two", b"frames"]
    else:
        # A message of 20/ZRE has one frame.
        assert ours.wait("SHOUT", made, count=2)["content"] == [b"last"]
        # The bridge counts a batch when it has sent it.
        eventually(lambda: made.ask("stats")["refused"] == 1, "the message that was refused")


def test_zyre_talks_across(party, net):
    made = net.bridge(party)
    theirs = party.zyre(groups=["CHAT"])
    active(made)
    members(theirs, "CHAT", made)
    theirs.shout("CHAT", "hello")
    eventually(lambda: net.heard(theirs) == ["hello"], "the message")
    net.session.put("zre/group/CHAT/me", "from Zenoh")
    assert theirs.wait("SHOUT", made)["content"] == [b"from Zenoh"]


class Talk:
    """Numbers from both sides, one every few milliseconds, until it ends."""

    def __init__(self, net, ours):
        self.net, self.ours = net, ours
        self.stopping = threading.Event()
        self.sent = 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        for number in itertools.count():
            if self.stopping.wait(0.005):
                return
            self.ours.shout("CHAT", str(number))
            self.net.session.put("zre/group/CHAT/me", str(number))
            self.sent = number + 1

    def end(self):
        self.stopping.set()
        self.thread.join(10)

    def came(self):
        """Numbers that came at each side."""
        there = [int(text) for text in self.net.heard(self.ours)]
        here = [int(event["content"][0]) for event in self.ours.told("SHOUT")]
        return there, here


def lost_and_doubled(came, sent):
    return sorted(set(range(sent)) - set(came)), sorted({n for n in came if came.count(n) > 1})


@pytest.fixture
def talk(net):
    with contextlib.ExitStack() as stack:

        def start(ours):
            made = Talk(net, ours)
            stack.callback(made.end)
            return made

        yield start


def several(party, net, count, **settings):
    """Bridges of one LAN that know each other, and a peer with them."""
    made = [net.bridge(party, **settings) for _ in range(count)]
    ours = party.zwire("ours", groups=["CHAT"])
    members(ours, "CHAT", *made)
    eventually(
        lambda: all(b.ask("stats")["other_bridges"] == count - 1 for b in made), "they know each other"
    )
    # That the peers know a bridge does not mean that it knows them.
    peers = sum(peer.program != "bridge_peer.py" for peer in party.peers)
    eventually(lambda: all(b.ask("stats")["peers"] == peers for b in made), "they know the peers")
    active(*made)
    return made, ours


@pytest.mark.slow
def test_three_bridges_and_kills_lose_and_double_nothing(party, net, talk):
    theirs = party.pyre("theirs", groups=["CHAT"], evasive=1, expired=3)
    made, ours = several(party, net, 3)
    members(theirs, "CHAT", *made)
    running = talk(ours)
    killed = []
    for _ in range(2):
        eventually(lambda start=running.sent: running.sent > start + 50, "messages")
        first = active(*made)
        made.remove(first)
        first.kill()
        killed.append(first)
        active(*made, within=TAKEOVER + TOLD)
    eventually(lambda start=running.sent: running.sent > start + 50, "messages")
    running.end()
    eventually(lambda: max(running.came()[0]) == max(running.came()[1]) == running.sent - 1, "the last ones")
    for came in running.came():
        assert lost_and_doubled(came, running.sent)[1] == []
        assert sorted(came) == came
    there, here = (set(lost_and_doubled(came, running.sent)[0]) for came in running.came())
    # The router gives a message to all or to none.
    assert there == set()
    # A bridge writes a chunk connection by connection, first to other bridges: a kill in between loses it.
    for first in killed:
        final = max(int(event["content"][0]) for event in ours.told("SHOUT", first))
        chunk = list(itertools.takewhile(here.__contains__, itertools.count(final + 1)))
        assert len(chunk) <= CHUNK
        here.difference_update(chunk)
    assert here == set()
    # pyre reads connections in turn: messages of the next bridge may come before the last of the first.
    bridges = {bridge.uuid for bridge in (*killed, *made)}

    def at_pyre():
        return [int(event["content"][0]) for event in theirs.told("SHOUT") if event["peer"] in bridges]

    eventually(lambda: running.sent - 1 in at_pyre(), "the last one at pyre")
    assert lost_and_doubled(at_pyre(), running.sent)[1] == []
    (last,) = made
    assert last.ask("stats")["takeovers"] >= 1
    # A kill leaves nothing behind: the tokens of the last one go at once, and pyre forgets the first ones.
    last.kill()
    eventually(
        lambda: not list(net.session.liveliness().get("zre/@peer/*/*")), "its tokens are gone", within=2
    )
    again = net.bridge(party)
    members(theirs, "CHAT", again)
    active(again)
    theirs.shout("CHAT", "again")
    eventually(lambda: net.heard(theirs) == ["again"], "the next message")
    for gone in killed:
        theirs.wait("EXIT", gone, within=8)


@pytest.mark.long
@pytest.mark.slow
def test_a_bridge_that_is_cut_off_from_its_lan_is_replaced(party, net, talk):
    made, ours = several(party, net, 2)
    first = active(*made)
    (second,) = [each for each in made if each is not first]
    running = talk(ours)
    eventually(lambda: running.sent > 100, "messages")
    first.host.swallow()
    cut = running.sent
    eventually(lambda: second.ask("stats")["active"], "the other one takes over", within=TAKEOVER + TOLD)
    taken = running.sent
    eventually(lambda: not first.ask("stats")["active"], "the first one yields", within=TOLD)
    first.host.carry()
    eventually(lambda start=running.sent: running.sent > start + 200, "messages")
    running.end()

    def all_came():
        return all(not lost_and_doubled(came, running.sent)[0] for came in running.came())

    eventually(all_came, "all messages")
    there, here = running.came()
    assert lost_and_doubled(there, running.sent) == ([], [])
    # The connections of the first one bring after the cut what they had taken before the takeover.
    _, doubled = lost_and_doubled(here, running.sent)
    assert set(doubled) <= set(range(cut - 20, taken + 20))


@pytest.mark.long
@pytest.mark.slow
def test_a_reserve_that_is_cut_off_changes_nothing(party, net, talk):
    made, ours = several(party, net, 2)
    first = active(*made)
    (second,) = [each for each in made if each is not first]
    running = talk(ours)
    second.host.swallow()
    time.sleep(3)
    assert first.ask("stats")["active"]
    assert not second.ask("stats")["active"]
    second.host.carry()
    running.end()
    eventually(lambda: max(running.came()[0]) == max(running.came()[1]) == running.sent - 1, "the last ones")
    for came in running.came():
        assert came == list(range(running.sent))


def test_a_slow_peer_among_others_delays_none(party, net):
    made = net.bridge(party, node={"high_water_mark": 100})
    slow, ours = party.zwire("slow", groups=["CHAT"]), party.zwire("ours", groups=["CHAT"])
    active(made)
    for peer in (slow, ours):
        members(peer, "CHAT", made)
    # That they know the bridge does not mean that it knows them.
    eventually(lambda: made.ask("stats")["peers"] == 2, "the bridge knows both")
    slow.freeze()
    sent = 0

    def publish():
        """Messages that fit into the queue of a peer: then only the frozen one is slow on a busy machine."""
        nonlocal sent
        for number in range(sent, sent + 50):
            data = str(number).encode() + b" " + bytes(20_000)
            net.session.put("zre/group/CHAT/me", data, congestion_control=eclipse.CongestionControl.BLOCK)
        sent += 50
        ours.wait("SHOUT", made, count=sent)

    try:
        end = time.monotonic() + 15
        while made.ask("stats")["full"] == 0:
            assert time.monotonic() < end, f"the queue of the frozen peer has room after {sent} messages"
            publish()
        publish()
    finally:
        slow.thaw()
    assert [int(e["content"][0].split()[0]) for e in ours.told("SHOUT")] == list(range(sent))
    assert made.ask("stats")["dropped_to_zre"] == 0
