"""Conformance suite of ZRE: nodes that keep its rules, and one that breaks them, one fault at a time."""

import contextlib
import select
import socket
import threading

import pytest

from conformance_pages import KNOWN
from zre.peers import JUDGED, judged
from zwire import conformance
from zwire.conformance._run import judge as judge_all
from zwire.conformance.zmtp import _wire as zmtp
from zwire.conformance.zre import BOOK, Target
from zwire.conformance.zre import _wire as wire

GROUP = "conformance"
HEADERS = {b"X-CONFORMANCE": b"1"}
BROADCAST = "127.255.255.255"
# Rules that need seconds of silence or tens of thousands of messages.
SLOW = "zre-11.7/(?!ping-ok|each)|wrap|thousand|many$"


class Session:
    """What the scripted node knows of a peer."""

    def __init__(self, dealer, address):
        self.dealer = dealer
        self.address = address
        self.sent = 0
        self.expected = None
        self.groups = set()


class ScriptedNode:
    """A node of 36/ZRE on the loopback with at most one fault, a word that the methods look for."""

    def __init__(self, fault=None):
        self.fault = fault
        self.uuid = bytes(range(1, 17))
        self.identity = b"\x01" + self.uuid
        self.sessions = {}
        self.told = 0
        self.turn = threading.Lock()
        self.ended = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.ear = self.udp()
        self.ear.bind(("", 0))
        self.beacon_port = self.ear.getsockname()[1]
        self.mouth = self.udp()
        self.threads = [threading.Thread(target=self.serve), threading.Thread(target=self.shine)]

    @staticmethod
    def udp():
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT, socket.SO_BROADCAST):
            made.setsockopt(socket.SOL_SOCKET, option, 1)
        return made

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        for open_socket in (self.listener, self.ear, self.mouth):
            open_socket.close()

    # ---- Threads ----

    def shine(self):
        port = self.port ^ (0xFF00 if self.fault == "port" else 0)
        octets = wire.beacon(self.uuid, port) + b"\0" * (self.fault == "size")
        while not self.ended.wait(0.1 if self.fault == "hasty" else 1.0):
            self.mouth.sendto(octets, (BROADCAST, self.beacon_port))

    def serve(self):
        links = {}
        while not self.ended.is_set():
            ready, _, _ = select.select([self.listener, self.ear, *links], [], [], 0.1)
            for source in ready:
                if source is self.listener:
                    link = wire.Connection(source.accept()[0], "ROUTER", b"")
                    with contextlib.suppress(OSError):
                        link.handshake(5)
                        links[link] = True
                        self.take(link, link.messages(read=False))
                elif source is self.ear:
                    self.hear(*self.ear.recvfrom(100))
                else:
                    self.take(source, source.messages())
                    if source.is_closed:
                        source.close()
                        del links[source]
        for link in links:
            link.close()
        for uuid in list(self.sessions):
            self.drop(uuid)

    # ---- Discovery ----

    def hear(self, octets, source):
        if octets[4:20] == self.uuid or octets[:3] != b"ZRE":
            return
        if self.fault != "lax" and (octets[3:4] != b"\x01" or len(octets) != 22):
            return
        uuid, port = octets[4:20], int.from_bytes(octets[20:22], "big")
        if not port and self.fault != "goodbye":
            self.drop(uuid)
        elif port and uuid not in self.sessions:
            for other, session in list(self.sessions.items()):
                if session.address == (source[0], port):
                    self.drop(other)
            self.greet(uuid, (source[0], port))

    def greet(self, uuid, address):
        try:
            stream = socket.create_connection(address, 5)
        except OSError:
            return
        dealer = wire.Connection(stream, "DEALER")
        # The peer may wait for this node, so this node does not wait for its greeting.
        ready = zmtp.metadata([(b"Socket-Type", b"DEALER"), (b"Identity", self.identity)])
        dealer.send_octets(zmtp.greeting(minor=0) + zmtp.command(b"READY", ready))
        self.sessions[uuid] = Session(dealer, address)
        self.told += self.fault == "status"
        hello = wire.hello(
            "36",
            "127.0.0.1",
            self.port,
            groups=[] if self.fault == "groupless" else [GROUP.encode()],
            status=1 + self.told & 0xFF,
            headers={} if self.fault == "headless" else HEADERS,
        )
        self.sessions[uuid].sent = 1
        for _ in range(1 + (self.fault == "twice")):
            dealer.send(hello)

    def drop(self, uuid):
        session = self.sessions.pop(uuid, None)
        if session is not None:
            session.dealer.close()

    # ---- Messages ----

    def take(self, link, messages):
        if len(link.identity) != 17 or link.identity == self.identity:
            return
        for frames in messages:
            self.handle(link.identity[1:], frames)

    def handle(self, uuid, frames):
        head = frames[0]
        session = self.sessions.get(uuid)
        if self.fault == "fragile" and head[:3] == b"\xaa\xa1\x7f":
            self.ended.set()
        if head[:2] != wire.SIGNATURE and self.fault != "signature":
            return
        if head[:4] == b"\xaa\xa1\x01\x02":
            self.enter(uuid, frames)
            return
        if session is None or session.expected is None or len(head) < 6 or head[3] != 2:
            return
        number = int.from_bytes(head[4:6], "big")
        if number != session.expected and self.fault != "gap":
            self.drop(uuid)
            return
        session.expected = number + 1 & 0xFFFF
        if head[2] == wire.PING:
            head = head[:6]
        with contextlib.suppress(wire.Malformed):
            self.obey(session, wire.decode("36", [head]), frames[1:])

    def enter(self, uuid, frames):
        try:
            hello = wire.decode("36", frames)
        except wire.Malformed:
            return
        if hello.address == ("127.0.0.1", self.port) or hello.sequence != 1:
            return
        known = self.sessions.get(uuid)
        if known is None or known.expected is not None:
            self.drop(uuid)
            self.greet(uuid, hello.address)
        if session := self.sessions.get(uuid):
            session.expected = hello.sequence + 1
            session.groups = set(map(self.group, hello.groups))

    def group(self, name):
        return name.lower() if self.fault == "case" else name

    def obey(self, session, message, content):
        if message.id == wire.PING:
            for _ in range(1 + (self.fault == "doubled")):
                self.send(session, wire.PING_OK)
        elif message.id == wire.JOIN:
            session.groups.add(self.group(message.group))
        elif message.id == wire.LEAVE and self.fault != "leave":
            session.groups.discard(self.group(message.group))
        elif message.id == wire.WHISPER and content:
            self.send(session, wire.WHISPER, b"", *(content[:1] if self.fault == "frames" else content))
        elif message.id == wire.ELECT:
            self.send(session, wire.ELECT, message.raw[6:])
        elif message.id == wire.SHOUT and content:
            for each in list(self.sessions.values()):
                if self.group(message.group) in each.groups or self.fault == "loud":
                    self.send(each, wire.SHOUT, wire.string(message.group), *content)

    def send(self, session, id, body=b"", *content):
        session.sent = session.sent + 1 & 0xFFFF
        session.dealer.send(wire.header("36", id, session.sent) + body, *content)


FAULTS = {
    "size": {"zre-5.1/size"},
    "port": {"zre-5.1/port"},
    "hasty": {"zre-5.2/interval"},
    "lax": {"zre-5.3/version", "zre-5.3/length", "zre-5.3/long-version-1"},
    "goodbye": {"zre-5.3/goodbye", "zre-5.3/return"},
    "status": {"zre-11.4/same-status"},
    "groupless": {"zre-11.4/own-groups"},
    "headless": {"zre-11.6/headers"},
    "twice": {"zre-11.2/once", "zre-11.2/not-ready"},
    "signature": {"zre-21.1/signature-uncounted"},
    "gap": {"zre-11.3/gap", "zre-11.3/repeated", "zre-11.3/gap-lost", "zre-11.3/new-session"},
    "case": {"zre-11.4/case"},
    "leave": {"zre-11.4/leave"},
    "doubled": {"zre-11.7/each-ping"},
    "frames": {"zre-11.5/frames"},
    "loud": {"zre-11.5/members-alone"},
    "fragile": {"zre-21.1/unknown-id"},
}
# Faults of a beacon, a session, a group and a message; `make test-long` has the others.
QUICK = {"size", "headless", "case", "frames"}


def judge(node, only):
    options = {"generation": 36, "interface": "lo", "beacon_port": node.beacon_port}
    return conformance.run(f"tcp/127.0.0.1:{node.port}", protocol="zre", only=only, **options)


def broken(report):
    assert not report.of("failed"), [(v.rule.id, v.detail) for v in report.of("failed")]
    return {verdict.rule.id: verdict.detail for verdict in report.of("deviates")}


def test_a_node_written_from_the_text_keeps_every_rule():
    with ScriptedNode() as node:
        report = judge(node, f"^(?!.*({SLOW}))")
    assert broken(report) == {}
    assert len(report.of("conforms")) > 100


@pytest.mark.parametrize(
    "fault",
    [fault if fault in QUICK else pytest.param(fault, marks=pytest.mark.long) for fault in FAULTS],
)
def test_the_suite_finds_a_fault(fault):
    sections = "|".join(sorted({rule.split("/")[0] for rule in FAULTS[fault]}))
    with ScriptedNode(fault) as node:
        report = judge(node, f"^(?!.*({SLOW}))({sections})/")
    assert set(broken(report)) == FAULTS[fault]


def test_a_node_is_found_by_its_beacon():
    with ScriptedNode() as node, Target(beacon_port=node.beacon_port) as target:
        assert target.uuid == node.uuid
        assert target.address == ("127.0.0.1", node.port)
        assert target.beacons


def test_rules_of_beacons_do_not_apply_without_beacons():
    with ScriptedNode() as node:
        target = {"protocol": "zre", "interface": "none", "only": "zre-5.1/"}
        report = conformance.run(f"tcp/127.0.0.1:{node.port}", **target)
    assert {verdict.outcome for verdict in report.verdicts} == {"not applicable", "unreachable"}


def test_another_generation_is_no_node_of_this_one():
    with ScriptedNode() as node, pytest.raises(ConnectionError, match="does not answer a HELLO"):
        conformance.run(f"tcp/127.0.0.1:{node.port}", protocol="zre", interface="none", generation=20)


@pytest.mark.parametrize("wrong", [{"endpoint": "tcp/127.0.0.1"}, {"endpoint": "x"}, {"generation": 37}])
def test_a_target_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        Target(**wrong)


@pytest.mark.parametrize("generation", ["36", pytest.param("20", marks=pytest.mark.long)])
def test_zwire_keeps_every_rule_but_the_known_ones(namespaces, generation):
    begin, settings = next(row[3:] for row in JUDGED if row[0] == "zwire" and row[2] == generation)
    with judged(generation, begin, settings) as target, target:
        report = judge_all(BOOK, target)
    assert {verdict.rule.id for verdict in report.of("deviates")} <= KNOWN.keys()
    assert not (generation == "36" and report.of("deviates", level=conformance.Level.MUST))
    assert not report.of("failed")
    assert len(report.of("conforms")) > 140
