"""The bridge between ZRE and Zenoh on the loopback: directions, rules, names, hostile samples, takeovers."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import nodes
from nodes import eventually
from zwire import errors, zenoh, zre
from zwire.bridge import zre as bridge
from zwire.cli import main as cli
from zwire.errors import ConfigError, TimedOut, UsageError
from zwire.zenoh import SampleKind

if TYPE_CHECKING:
    from collections.abc import Iterator

NODE = {"beacons": False, "bind": "127.0.0.1", "mailbox": 0}


class Lan:
    """ZRE nodes and bridges that know each other by their endpoints, as others do by beacons."""

    def __init__(self, hub: zenoh.Session, stack: contextlib.ExitStack | None = None) -> None:
        self.hub = hub
        self.stack = stack or contextlib.ExitStack()
        self.gossip = f"tcp://127.0.0.1:{nodes.free_port()}"
        self.first = True

    def _found(self) -> dict[str, Any]:
        how = "gossip_bind" if self.first else "gossip_connect"
        self.first = False
        return {**NODE, how: self.gossip}

    def node(self, *groups: str, **settings: Any) -> zre.Node:
        node = zre.Node(**{**self._found(), **settings})
        for group in groups:
            node.join(group)
        node.start()
        self.stack.callback(node.stop)
        return node

    def bridge(
        self, groups: Any = ("chat",), session: zenoh.Session | None = None, **options: Any
    ) -> bridge.Bridge:
        if session is None:
            session = self.stack.enter_context(nodes.client(self.hub))
        node = {**self._found(), **options.pop("node", {})}
        return self.stack.enter_context(bridge.Bridge(session, groups, node=node, **options))

    def met(self, node: zre.Node, made: bridge.Bridge, group: str | None = "chat") -> None:
        """Wait until both know each other, also as members of a group."""
        eventually(lambda: made.uuid in node.peers(), "the peer knows the bridge")
        token = f"{made.network}/@peer/{node.uuid.lower()}/*"
        if group is not None:
            eventually(lambda: made.uuid in node.peers_by_group(group), "the bridge is in the group")
            token = f"{made.network}/@group/{group}/{node.uuid.lower()}"
        eventually(lambda: list(self.hub.liveliness().get(token, timeout=5)), "the bridge knows the peer")


class Worlds:
    """Networks with bridges that listen for others before they forward, for 2.5 s: beside the other tests."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        def hub() -> zenoh.Session:
            return stack.enter_context(nodes.router())

        # Three bridges of one LAN.
        self.several = Lan(hub(), stack)
        self.three = [self.several.bridge() for _ in range(3)]
        self.ada = self.several.node("chat", name="Ada")
        # Two LANs at one router, the first of which has forwarded before the second one comes.
        self.here = Lan(hub(), stack)
        self.there = Lan(self.here.hub, stack)
        self.first = self.here.bridge(mode="mirror", virtual_nodes=1)
        self.eve = self.here.node("chat", name="Eve")
        # Three LANs and three networks of Zenoh, in a ring: each LAN is joined to two of them.
        hubs = {name: hub() for name in ("x", "y", "z")}
        self.ring = []
        for pair in ("xy", "yz", "zx"):
            lan = Lan(hubs[pair[0]], stack)
            joined = [
                lan.bridge(session=stack.enter_context(nodes.client(hubs[name])), network=name)
                for name in pair
            ]
            self.ring.append((lan.node("chat", name=pair), joined))
        active(self.first)
        self.bob = self.there.node("chat", name="Bob", headers={"X-B": "2"})
        self.second = self.there.bridge()


@pytest.fixture(scope="module")
def worlds() -> Iterator[Worlds]:
    with contextlib.ExitStack() as stack:
        yield Worlds(stack)


class Shared(Lan):
    """A LAN with two bridges that many tests use; its nodes end with each test."""

    def __init__(self, hub: zenoh.Session, stack: contextlib.ExitStack) -> None:
        super().__init__(hub, stack)
        few = bridge.Rule("few", rate=3)
        self.named = self.bridge(["chat", bridge.Rule("quiet", to_zre=False), few])
        self.all = self.bridge(["*"], network="all")
        active(self.named)
        active(self.all)


@pytest.fixture(scope="module")
def _shared(worlds: Worlds) -> Iterator[Shared]:
    with contextlib.ExitStack() as stack:
        yield Shared(stack.enter_context(nodes.router()), stack)


@pytest.fixture
def shared(_shared: Shared) -> Iterator[Shared]:
    with contextlib.ExitStack() as _shared.stack:
        yield _shared


@pytest.fixture
def lan(router: zenoh.Session) -> Iterator[Lan]:
    made = Lan(router)
    with made.stack:
        yield made


@pytest.fixture
def router() -> Iterator[zenoh.Session]:
    with nodes.router() as session:
        yield session


def active(made: bridge.Bridge) -> bridge.Bridge:
    eventually(lambda: made.stats()["active"], "the bridge forwards")
    return made


def heard(node: zre.Node, kind: str, within: float = 5.0) -> Any:
    end = time.monotonic() + within
    while True:
        event = node.recv(timeout=max(0.0, end - time.monotonic()))
        if event.type == kind:
            return event


def test_a_shout_is_a_publication_of_its_sender(shared):
    ada = shared.node("chat", name="Ada")
    shared.met(ada, shared.named)
    with shared.hub.declare_subscriber("zre/**") as subscriber:
        ada.shout("chat", "hello")
        ada.shout("chat", ["two", b""])
        ada.shout("secret", "not named")
        one, two = subscriber.recv(timeout=5), subscriber.recv(timeout=5)
        key = f"zre/group/chat/{ada.uuid.lower()}"
        assert (str(one.key_expr), bytes(one.payload), str(one.encoding)) == (key, b"hello", "zenoh/bytes")
        assert (bytes(two.payload), str(two.encoding)) == (b"\x02\x03two\x00", "zenoh/serialized;zre-frames")
        # Version, UUID, and the name at the end; numbers count up.
        first, second = bytes(one.attachment), bytes(two.attachment)
        assert first[0] == 1
        assert first[1:17] == bytes.fromhex(ada.uuid)
        assert first.endswith(b"\x03Ada")
        numbers = [int.from_bytes(each[33:41], "little") for each in (first, second)]
        assert numbers[1] == numbers[0] + 1
        with pytest.raises(TimedOut):
            subscriber.recv(timeout=0.05)


def test_a_publication_is_a_shout(shared):
    made, router = shared.named, shared.hub
    ada = shared.node("chat", "quiet")
    shared.met(ada, made)
    router.put("zre/group/quiet/me", "one way")
    router.put("zre/group/chat/me", "hello")
    event = heard(ada, "SHOUT")
    assert (event.peer, event.group, event.content) == (made.uuid, "chat", [b"hello"])
    router.put("zre/group/chat/me", b"\x02\x03two\x00", encoding="zenoh/serialized;zre-frames")
    assert heard(ada, "SHOUT").content == [b"two", b""]


def test_a_program_with_the_bridge_publishes_as_well(lan):
    with nodes.client(lan.hub) as session:
        made = active(lan.bridge(session=session))
        ada = lan.node("chat")
        lan.met(ada, made)
        session.put("zre/group/chat/me", "hello")
        assert heard(ada, "SHOUT").content == [b"hello"]


def test_whispers_go_both_ways_and_are_answered(shared):
    made, router = shared.named, shared.hub
    ada = shared.node(name="Ada")
    shared.met(ada, made, None)
    to = f"zre/peer/{ada.uuid.lower()}/me"
    router.put(to, "psst")
    assert heard(ada, "WHISPER").content == [b"psst"]
    replies = list(router.get(to, payload="answer me", timeout=5))
    assert [reply.ok.payload.to_bytes() for reply in replies] == [b""]
    assert heard(ada, "WHISPER").content == [b"answer me"]
    (refused,) = router.get(f"zre/peer/{'0' * 31}1/me", payload="?", timeout=5)
    assert "no peer" in refused.err.payload.to_string()
    (refused,) = router.get(to, payload=b"\0", encoding="zenoh/serialized;zre-frames", timeout=5)
    assert "no frames" in refused.err.payload.to_string()
    key = f"zre/peer/{made.uuid.lower()}/{ada.uuid.lower()}"
    with router.declare_subscriber(key) as subscriber:
        ada.whisper(made.uuid, "to you")
        assert bytes(subscriber.recv(timeout=5).payload) == b"to you"


def test_peers_and_members_are_tokens_with_descriptions(shared):
    router = shared.hub
    ada = shared.node("a/b", name="Ada", headers={"X-A": "1"})
    uuid = ada.uuid.lower()
    watch = {
        name: router.liveliness().declare_subscriber(key, history=True)
        for name, key in (("@peer", f"all/@peer/{uuid}/*"), ("@group", f"all/@group/*/{uuid}"))
    }
    assert str(watch["@peer"].recv(timeout=5).key_expr).startswith(f"all/@peer/{uuid}/")
    assert str(watch["@group"].recv(timeout=5).key_expr) == f"all/@group/a%2Fb/{uuid}"
    (reply,) = router.get(f"all/@peer/{uuid}/info", timeout=5)
    info = json.loads(reply.ok.payload.to_bytes())
    assert (info["name"], info["headers"]["X-A"], info["groups"], info["generation"]) == (
        "Ada",
        "1",
        ["a/b"],
        "36",
    )
    ada.leave("a/b")
    gone = watch["@group"].recv(timeout=5)
    assert (gone.kind, str(gone.key_expr)) == (SampleKind.DELETE, f"all/@group/a%2Fb/{uuid}")
    ada.stop()
    gone = watch["@peer"].recv(timeout=5)
    assert gone.kind == SampleKind.DELETE


# The octets that a chunk cannot have, at the ends and within; 255 octets.
NAMES = ["a/b", "*", "$*", "?#%", "@home", "% ", "grün/é", "\x01\x7f", "n" * 255, "/" * 255]


def test_groups_of_any_name_cross_both_ways(shared):
    router = shared.hub
    ada = shared.node(*NAMES)
    for name in NAMES:
        eventually(lambda name=name: shared.all.uuid in ada.peers_by_group(name), f"the group {name!r}")
    with router.declare_subscriber("all/group/**") as subscriber:
        for name in NAMES:
            ada.shout(name, name)
        keys = {}
        for _ in NAMES:
            sample = subscriber.recv(timeout=5)
            keys[sample.payload.to_string()] = str(sample.key_expr).rpartition("/")[0]
    assert keys["a/b"] == "all/group/a%2Fb"
    assert keys["@home"] == "all/group/%40home"
    for name in NAMES:
        router.put(f"{keys[name]}/me", name)
        event = heard(ada, "SHOUT")
        assert (event.group, event.content) == (name, [name.encode()])


def test_hostile_samples_are_counted_and_harm_nobody(shared):
    made, router = shared.named, shared.hub
    ada = shared.node("chat", name="Ada")
    shared.met(ada, made)
    before = made.stats()
    uuid, other = ada.uuid.lower(), "ab" * 16
    hops = b"\x01" + bytes.fromhex(other) + b"\x07" + bytes(15) + bytes(8) + b"\x09\x00"
    false = b"\x01" + bytes.fromhex(other) + b"\x07" + bytes(15) + bytes(8) + b"\x00\x00"
    router.put("zre/group/%63hat/me", "another spelling")
    router.put("zre/group/chat/%zz", "no name")
    for octets in (b"\xff\xff\xff\xff\x0f", b"\0"):
        router.put("zre/group/chat/me", octets, encoding="zenoh/serialized;zre-frames")
    router.put(f"zre/group/chat/{uuid}", "as Ada")
    router.put(f"zre/group/chat/{other}", "round and round", attachment=hops)
    router.put("zre/group/chat/me", "not its sender", attachment=false)
    for _ in range(2):
        router.put(f"zre/group/chat/{other}", "twice", attachment=false)
    router.put(f"zre/@bridge/{'f' * 30}", b"zwire-zre-bridge")
    router.put("zre/group/chat/me", "last", attachment=b"of a program")
    assert heard(ada, "SHOUT").content == [b"twice"]
    assert heard(ada, "SHOUT").content == [b"last"]
    names = ("malformed", "spoofed", "looped", "duplicates", "to_zre", "failed")
    expected = {
        # The key with another spelling does not match the subscription.
        "malformed": 4,
        "spoofed": 1,
        "looped": 1,
        "duplicates": 1,
        "to_zre": 2,
        "failed": 0,
    }
    # A message is counted when it has been handed on, which its receiver may see first.
    eventually(lambda: {name: made.stats()[name] - before[name] for name in names} == expected)


def test_clocks_of_bridges_do_not_matter(shared):
    """Numbers of a bridge begin at its time. A bridge that is set back is heard once its token has gone."""
    ada = shared.node("chat")
    shared.met(ada, shared.named)
    now = time.time_ns() // 1000
    here, there = "cd" * 16, 3_600_000_000
    for zid, number, text in ((3, now + there, "an hour ahead"), (4, now - there, "an hour behind")):
        octets = b"\x01" + bytes.fromhex(here) + bytes([zid]) + bytes(15) + number.to_bytes(8, "little")
        shared.hub.put(f"zre/group/chat/{here}", text, attachment=octets + b"\0\0")
        assert heard(ada, "SHOUT").content == [text.encode()]
    again = b"\x01" + bytes.fromhex(here) + b"\x03" + bytes(15) + now.to_bytes(8, "little") + b"\0\0"
    shared.hub.put(f"zre/group/chat/{here}", "the past", attachment=again)
    shared.hub.put("zre/group/chat/me", "last")
    assert heard(ada, "SHOUT").content == [b"last"]
    shared.hub.liveliness().declare_token("zre/@bridge/3").undeclare()

    def is_heard():
        shared.hub.put(f"zre/group/chat/{here}", "set back", attachment=again)
        with contextlib.suppress(TimedOut):
            return heard(ada, "SHOUT", 0.05).content == [b"set back"]

    eventually(is_heard, "the bridge with another clock")


def test_records_of_peers_are_publications(lan, router):
    made = active(lan.bridge(log=True))
    with router.declare_subscriber("zre/@log/*") as subscriber:
        ada = lan.node("chat")
        lan.met(ada, made)
        ada.join("late")
        record = subscriber.recv(timeout=5)
        assert str(record.key_expr) == f"zre/@log/{ada.uuid.lower()}"
        found = json.loads(record.payload.to_bytes())
        assert (found["level"], found["node"]) == ("INFO", ada.uuid.lower())


def test_rates_are_of_a_sender(shared):
    made = shared.named
    ada = shared.node("few")
    shared.met(ada, made, "few")
    before = made.stats()["above_rate"]
    for name in ("me", "you"):
        for number in range(10):
            shared.hub.put(f"zre/group/few/{name}", f"{name} {number}")
    got = [heard(ada, "SHOUT").content[0].decode() for _ in range(6)]
    assert sorted(got) == sorted(f"{name} {number}" for name in ("me", "you") for number in range(3))
    eventually(lambda: made.stats()["above_rate"] - before == 14, "the others are counted")


def test_an_observer_sends_nothing_to_zre(lan, router):
    made = active(lan.bridge(mode="observer"))
    ada = lan.node("chat")
    lan.met(ada, made)
    with router.declare_subscriber("zre/group/**") as subscriber:
        router.put("zre/group/chat/me", "hello")
        subscriber.recv(timeout=5)
        ada.shout("chat", "hello")
        assert ada.uuid.lower() in str(subscriber.recv(timeout=5).key_expr)
    with pytest.raises(TimedOut):
        heard(ada, "SHOUT", 0.1)


def test_order_of_a_sender_is_kept_under_load(shared):
    count = 2000
    made, router = shared.named, shared.hub
    ada = shared.node("chat")
    shared.met(ada, made)
    names = ("to_zenoh", "to_zre", "dropped_to_zre", "full")
    before = made.stats()
    with router.declare_subscriber("zre/group/**") as subscriber:
        ada.shout_many("chat", (str(number) for number in range(count)))
        got = []
        while len(got) < count:
            got += [int(sample.payload.to_string()) for sample in subscriber.recv_many(500, timeout=5)]
    assert got == list(range(count))
    for number in range(count):
        router.put("zre/group/chat/me", str(number), congestion_control=zenoh.CongestionControl.BLOCK)
    assert [int(heard(ada, "SHOUT").content[0]) for _ in range(count)] == list(range(count))

    def counted():
        stats = made.stats()
        return [stats[name] - before[name] for name in names]

    eventually(lambda: counted() == [count, count, 0, 0], "all are counted")


def test_a_session_has_one_bridge_to_a_network(lan):
    with nodes.client(lan.hub) as session:
        made = lan.bridge(session=session)
        with pytest.raises(UsageError, match="another name"):
            lan.bridge(session=session)
        lan.bridge(session=session, network="lab")
        made.close()
        lan.bridge(session=session)


def test_a_slow_subscriber_costs_the_oldest_messages_and_no_memory(lan):
    made = active(lan.bridge(queue=100))
    ada = lan.node("chat")
    lan.met(ada, made)
    with (
        nodes.client(lan.hub) as slow,
        slow.declare_subscriber("zre/group/**", zenoh.handlers.Channel(10)) as subscriber,
    ):
        body, count = bytes(100_000), 0
        end = time.monotonic() + 10
        while made.stats()["dropped_to_zenoh"] == 0:
            assert time.monotonic() < end
            ada.shout_many("chat", (body for _ in range(50)))
            count += 50
        assert subscriber.recv(timeout=5).payload.to_bytes() == body

    def crossed():
        stats = made.stats()
        return stats["to_zenoh"] + stats["dropped_to_zenoh"]

    eventually(
        lambda: crossed() == count,
        lambda: f"each of {count} messages has crossed or is counted: {made.stats()}",
    )


def test_a_peer_that_reads_nothing_delays_no_other_one(lan, router):
    """Its queue has no room for the octets of a batch: the bridge waits for its patience, and goes on."""
    made = active(lan.bridge(patience=0.2, node={"high_water_bytes": 200_000, "shared_memory": False}))
    ada, slow = lan.node("chat", name="Ada"), lan.node("chat", name="Slow", queue=10)
    for node in (ada, slow):
        lan.met(node, made)
    body, sent = bytes(50_000), 0
    end = time.monotonic() + 10
    while made.stats()["full"] == 0:
        assert time.monotonic() < end
        for number in range(sent, sent + 8):
            data = number.to_bytes(4, "big") + body
            router.put("zre/group/chat/me", data, congestion_control=zenoh.CongestionControl.BLOCK)
        got = [int.from_bytes(heard(ada, "SHOUT").content[0][:4], "big") for _ in range(8)]
        assert got == list(range(sent, sent + 8))
        sent += 8
    assert made.stats()["dropped_to_zre"] == 0


def test_secured_networks_are_joined(tmp_path):
    """CURVE on the side of ZRE; certificates and rules on that of Zenoh."""
    names = ["hub", "bridge", "me"]
    assert cli(["keygen", "tls", *names, "--dir", str(tmp_path), "--host", "127.0.0.1"]) == 0

    def tls(name: str, side: str) -> dict[str, Any]:
        files = {
            "root_ca_certificate": str(tmp_path / "authority.pem"),
            f"{side}_certificate": str(tmp_path / f"{name}.pem"),
            f"{side}_private_key": str(tmp_path / f"{name}.key"),
            "enable_mtls": True,
        }
        return {"transport__link__tls": files}

    rule = {
        "id": "r",
        "permission": "deny",
        "messages": ["put"],
        "flows": ["ingress"],
        "key_exprs": ["zre/group/chat/other"],
    }
    rules = {
        "enabled": True,
        "default_permission": "allow",
        "rules": [rule],
        "subjects": [{"id": "s", "cert_common_names": ["me"]}],
        "policies": [{"rules": ["r"], "subjects": ["s"]}],
    }
    public, secret = zre.keypair()
    theirs, own = zre.keypair()
    with (
        nodes.opened(
            "router", listen=["tls/127.0.0.1:0"], access_control=rules, **tls("hub", "listen")
        ) as hub,
        nodes.client(hub, **tls("bridge", "connect")) as session,
        nodes.client(hub, **tls("me", "connect")) as me,
        zre.Node("Ada", **NODE, secret_key=own, allow=[public]) as ada,
    ):
        ada.join("chat")
        node = {**NODE, "secret_key": secret, "allow": [theirs], "peers": f"{ada.endpoint}|{theirs}"}
        with (
            bridge.Bridge(session, ["chat"], node=node) as made,
            me.declare_subscriber("zre/group/**") as subscriber,
        ):
            Lan(hub).met(ada, active(made))
            ada.shout("chat", "sealed")
            assert subscriber.recv(timeout=5).payload.to_string() == "sealed"
            me.put("zre/group/chat/other", "as another one")
            me.put("zre/group/chat/me", "hello")
            assert heard(ada, "SHOUT").content == [b"hello"]


def test_a_closed_session_ends_the_bridge(lan):
    session = nodes.client(lan.hub)
    made = active(lan.bridge(session=session))
    session.close()
    eventually(lambda: made.stats()["problem"] is not None, "it says so")
    assert "closed" in made.stats()["problem"]
    made.close()
    with pytest.raises(errors.SessionClosed):
        bridge.Bridge(session, ["chat"])


def test_the_uuid_of_a_program():
    zid = "a1b2"
    digest = bytearray(hashlib.sha3_256(b"zwire-zre" + int(zid, 16).to_bytes(16, "little")).digest()[:16])
    digest[0], digest[6], digest[8] = max(1, digest[0]), digest[6] & 15 | 0x80, digest[8] & 0x3F | 0x80
    assert bridge.uuid_of(zid) == digest.hex()
    with pytest.raises(ValueError, match="no id"):
        bridge.uuid_of("xyz")


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"network": "a/**"}, "network"),
        ({"groups": ["a/b"]}, "groups"),
        ({"groups": [bridge.Rule("a", rate=0)]}, "groups"),
        ({"mode": "all"}, "mode"),
        ({"groups": ["50%"]}, "groups"),
        ({"queue": 0}, "queue"),
        ({"whisper_rate": 0}, "whisper_rate"),
        ({"node": {"generations": "37"}}, "generations"),
    ],
)
def test_wrong_options_are_named(router, options, path):
    with pytest.raises(ConfigError) as caught:
        bridge.Bridge(router, **options)
    assert caught.value.path == path


def test_bridges_of_a_configuration(router):
    config = zenoh.Config()
    assert bridge.configured(router, config) == []
    rule = {"pattern": "chat", "to_zre": False, "rate": 5}
    networks = {"lab": {"groups": ["robot-*", rule], "mode": "observer", "node": NODE}}
    config.insert_json5("plugins", json.dumps({"rest": {}, "zre": {"networks": networks}}))
    assert json.loads(bridge.without_bridges(config).get_json("plugins")) == {"rest": {}}
    (made,) = bridge.configured(router, config)
    with made:
        assert made.network == "lab"
        with nodes.client(router) as session:
            eventually(lambda: list(session.liveliness().get("lab/@bridge/*", timeout=1)), "it is there")


@pytest.mark.parametrize(
    ("section", "path"),
    [
        ([], "plugins/zre"),
        ({"network": {}}, "plugins/zre/network"),
        ({"networks": {"a": {"group": []}}}, "plugins/zre/networks/a/group"),
        ({"networks": {"a": {"groups": "chat"}}}, "plugins/zre/networks/a/groups"),
        ({"networks": {"a": {"groups": [{"rate": 1}]}}}, "plugins/zre/networks/a/groups/0/pattern"),
        (
            {"networks": {"a": {"groups": [{"pattern": "a", "way": 1}]}}},
            "plugins/zre/networks/a/groups/0/way",
        ),
        ({"networks": {"a": {"mode": "all"}}}, "plugins/zre/networks/a/mode"),
        ({"networks": {"a": {"node": "eth1"}}}, "plugins/zre/networks/a/node"),
        ({"networks": {"@a": {}}}, "plugins/zre/networks/@a/network"),
    ],
)
def test_wrong_sections_are_named(router, section, path):
    config = zenoh.Config()
    config.insert_json5("plugins", json.dumps({"zre": section}))
    with pytest.raises(ConfigError) as caught:
        bridge.configured(router, config)
    assert caught.value.path == path


def test_the_command_joins_until_it_is_ended(router):
    command = [sys.executable, "-m", "zwire", "bridge", "zre", "--network", "lab", "--groups", "chat,robot-*"]
    options = ["-e", router.listening()[0], "--set", "bind=127.0.0.1", "--set", "beacons=false"]
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert re.fullmatch("[0-9A-F]{32}\n", process.stdout.readline())
        assert "chat, robot-* to lab/**" in process.stderr.readline()
        assert "forwards" in process.stderr.readline()
        assert list(router.liveliness().get("lab/@bridge/*", timeout=5))
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_router_runs_the_bridges_of_its_file(tmp_path):
    networks = {"lab": {"groups": ["chat"], "node": NODE}}
    config = {
        "listen": {"endpoints": nodes.LOCAL},
        "scouting": {"multicast": {"enabled": False}},
        "plugins": {"zre": {"networks": networks}},
    }
    (tmp_path / "router.json5").write_text(json.dumps(config))
    command = [sys.executable, "-m", "zwire", "router", "-c", str(tmp_path / "router.json5")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        endpoint = process.stdout.readline().strip()
        with nodes.opened("client", connect=[endpoint]) as session:
            tokens = session.liveliness()
            eventually(lambda: list(tokens.get("lab/@bridge/*", timeout=5)), "the bridge is there")
            (status,) = session.get("@/*/router/status/plugins/zre/lab", timeout=5)
            assert json.loads(status.ok.payload.to_bytes())["to_zenoh"] == 0
            del config["plugins"]
            (tmp_path / "router.json5").write_text(json.dumps(config))
            process.send_signal(signal.SIGHUP)
            eventually(lambda: not list(tokens.get("lab/@bridge/*", timeout=5)), "the bridge is gone")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_router_that_returns_has_the_bridge_again(lan):
    port = nodes.free_port()
    endpoint = f"tcp/127.0.0.1:{port}"
    first = nodes.opened("router", listen=[endpoint])
    retry = {"connect__retry__period_init_ms": 50, "connect__timeout_ms": -1}
    session = lan.stack.enter_context(nodes.opened("client", connect=[endpoint], **retry))
    made = active(lan.bridge(session=session))
    ada = lan.node("chat")
    Lan(first).met(ada, made)
    first.close()
    ada.shout("chat", "to nobody")
    with nodes.opened("router", listen=[endpoint]) as second:
        tokens = second.liveliness()
        key = f"zre/@group/chat/{ada.uuid.lower()}"
        eventually(lambda: list(tokens.get(key, timeout=5)), "the token is there again")
        with second.declare_subscriber("zre/group/**") as subscriber:
            ada.shout("chat", "hello")
            assert subscriber.recv(timeout=5).payload.to_string() == "hello"
            second.put("zre/group/chat/me", "and back")
            assert heard(ada, "SHOUT").content == [b"and back"]


def test_a_ring_of_networks_has_no_loop(worlds):
    """Each of two LANs is reached by one network of Zenoh: no bridge passes on what another one sends."""
    ring = worlds.ring
    for node, joined in ring:
        for made in joined:
            active(made)
            eventually(lambda node=node, made=made: made.uuid in node.peers_by_group("chat"), "the bridge")
            eventually(lambda made=made: made.stats()["far_peers"] == 1, "the peer of the next LAN")
    for number in range(5):
        for node, _ in ring:
            node.shout("chat", str(number))
    for node, joined in ring:
        # The bridge to a network sends what comes from there.
        got = {made.uuid: [] for made in joined}
        for _ in range(10):
            event = heard(node, "SHOUT")
            got[event.peer].append(int(event.content[0]))
        assert list(got.values()) == [list(range(5))] * 2
    for node, joined in ring:
        with pytest.raises(TimedOut):
            heard(node, "SHOUT", 0.05)
        assert [made.stats()["looped"] + made.stats()["duplicates"] for made in joined] == [0, 0]


def test_a_mirror_shows_far_peers_as_nodes(worlds):
    eve, bob, first, second = worlds.eve, worlds.bob, worlds.first, active(worlds.second)
    eventually(lambda: bob.uuid in eve.peers(), "a node stands for Bob")
    # The second bridge was still listening when the first one asked for these.
    assert eve.peer_name(bob.uuid) == "Bob"
    assert eve.peer_headers(bob.uuid)["X-B"] == "2"
    eventually(lambda: bob.uuid in eve.peers_by_group("chat"), "it is in the group")
    worlds.there.met(bob, second)
    bob.shout("chat", "hello")
    event = heard(eve, "SHOUT")
    assert (event.peer, event.content) == (bob.uuid, [b"hello"])
    eve.whisper(bob.uuid, "psst")
    event = heard(bob, "WHISPER")
    assert (event.peer, event.content) == (second.uuid, [b"psst"])
    # Nothing comes back.
    with pytest.raises(TimedOut):
        heard(eve, "SHOUT", 0.05)
    # A second node is one too many, until the first one has gone.
    carl = worlds.there.node("chat", name="Carl")
    eventually(lambda: first.stats()["mirror_failed"] == 1, "no node stands for Carl")
    bob.stop()
    eventually(lambda: eve.peers().count(bob.uuid) == 0, "the node has gone")
    eventually(lambda: carl.uuid in eve.peers(), "a node stands for Carl")


def test_one_of_several_bridges_forwards_and_the_next_takes_over(worlds):
    made, ada, router = worlds.three, worlds.ada, worlds.several.hub
    eventually(lambda: len(ada.peers_by_group("chat")) == 3, "Ada sees them")
    eventually(lambda: [each.stats()["active"] for each in made].count(True) == 1, "one forwards")
    eventually(lambda: all(each.stats()["other_bridges"] == 2 for each in made), "they know each other")
    own = {"to": [], "from": []}
    with router.declare_subscriber("zre/group/**") as subscriber:
        sent = 0
        for _ in range(2):
            for _ in range(20):
                ada.shout("chat", f"{sent}")
                router.put("zre/group/chat/me", f"{sent}")
                sent += 1
            (now,) = [each for each in made if each.stats()["active"]]
            made.remove(now)
            now.close()
            eventually(
                lambda: any(each.stats()["active"] for each in made), "another one takes over", within=2
            )
        while len(own["to"]) < sent:
            sample = subscriber.recv(timeout=5)
            if str(sample.key_expr).endswith(ada.uuid.lower()):
                own["to"].append(int(sample.payload.to_string()))
        while len(own["from"]) < sent:
            own["from"].append(int(heard(ada, "SHOUT").content[0]))
        assert own == {"to": list(range(sent)), "from": list(range(sent))}
        with pytest.raises(TimedOut):
            heard(ada, "SHOUT", 0.05)
    assert made[0].stats()["takeovers"] == 1


@pytest.mark.long
def test_ten_thousand_groups_cross(lan, router):
    names = [f"g{number}" for number in range(10_000)]
    made = active(lan.bridge(["g*"]))
    ada = lan.node()
    for name in names:
        ada.join(name)
    eventually(lambda: made.stats()["groups"] == len(names), "the bridge is in all groups", within=60)
    for name in (names[0], names[-1]):
        eventually(lambda name=name: made.uuid in ada.peers_by_group(name), "Ada knows", within=60)
    with router.declare_subscriber("zre/group/**") as subscriber:
        for name in names[::1000]:
            ada.shout(name, name)
            assert subscriber.recv(timeout=10).payload.to_string() == name
