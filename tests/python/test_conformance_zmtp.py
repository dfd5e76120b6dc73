"""The rules of ZMTP: good sockets keep them, and a socket with one fault breaks those about it alone."""

import contextlib
import itertools
import re
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import conformance_zmtp_peers as peers
from zwire import conformance

pytestmark = pytest.mark.slow

DOCUMENT = Path(__file__).parents[2] / "docs" / "protocol" / "zmtp.md"
TIMER = 2.0
LEVELS = "MUST", "SHOULD", "observed"


def judged(of, kind, mechanism, **settings):
    with peers.target(of, kind, mechanism, **settings) as (endpoint, options):
        return conformance.run(endpoint, protocol="zmtp", **options)


def side_by_side(judge, cases):
    """Report for each case; most of its time a run waits."""
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(cases, pool.map(judge, cases), strict=True))


def broken(report, *levels):
    assert report.of("failed") == []
    return {verdict.rule.id for verdict in report.of("deviates") if verdict.rule.level.value in levels}


def test_rules_have_sections_and_sentences():
    anchors = set(re.findall(r"^\((zmtp-[0-9.]+)\)=$", DOCUMENT.read_text(), re.MULTILINE))
    rules = conformance.rules("zmtp")
    assert {rule.section for rule in rules} <= anchors
    assert all(re.fullmatch(r"[A-Z].*[^ ]\.", rule.sentence) for rule in rules)
    assert len({rule.sentence for rule in rules}) == len(rules)
    assert sum(rule.check is not None for rule in rules) >= 75


def test_zwire_keeps_every_rule():
    cases = list(itertools.product(peers.ZWIRE, ["NULL", "PLAIN", "CURVE"]))
    reports = side_by_side(lambda case: judged("zwire", *case), cases)
    assert {case: broken(report, *LEVELS) for case, report in reports.items()} == {
        case: set() for case in cases
    }
    for case, report in reports.items():
        assert report.conforms
        # Without encryption the suite gets no further than the WELCOME of CURVE.
        assert len(report.of("conforms")) >= (30 if "CURVE" in case else 100)


def test_zwire_of_3_0_keeps_every_rule():
    reports = side_by_side(lambda kind: judged("zwire", kind, "NULL", version="3.0"), peers.ZWIRE)
    assert {kind: broken(report, *LEVELS) for kind, report in reports.items()} == {
        kind: set() for kind in reports
    }


@pytest.mark.parametrize("handover", [False, True])
def test_zwire_keeps_the_rules_about_duplicates(handover):
    with peers.target("zwire", "ROUTER", handover=handover) as (endpoint, options):
        report = conformance.run(endpoint, protocol="zmtp", only="zmtp-12.1/", **options)
    left_out = {verdict.rule.id for verdict in report.of("not applicable")}
    assert broken(report, "MUST", "SHOULD") == set()
    assert left_out == {"zmtp-12.1/no-delivery-of-duplicate" if handover else "zmtp-12.1/loser-closed"}


@pytest.mark.long
def test_libzmq_breaks_the_known_musts_alone():
    cases = [
        *((kind, "NULL") for kind in peers.LIBZMQ),
        ("ROUTER", "PLAIN"),
        ("PUB", "PLAIN"),
        ("PUB", "CURVE"),
    ]
    reports = side_by_side(lambda case: judged("libzmq", *case), cases)
    greeting, spelling = "zmtp-2/whole-greeting-on-mismatch", "zmtp-6.2/error-spelling"
    assert {case: broken(report, "MUST", "observed") for case, report in reports.items()} == {
        case: {greeting, spelling} if "PLAIN" in case else {greeting} for case in cases
    }
    known = {
        "zmtp-2/all-in-one-segment",
        "zmtp-3.1/as-server-sent",
        "zmtp-8.1/case-of-identity",
        "zmtp-8.1/case-of-socket-type",
        "zmtp-8.2/error-on-mismatch",
        "zmtp-8.3/identity-too-long",
        "zmtp-10/long-ttl",
        "zmtp-10/ping-without-ttl",
    }
    assert {case: broken(report, "SHOULD") - known for case, report in reports.items()} == {
        case: set() for case in cases
    }


def test_what_is_no_target_is_an_error():
    with pytest.raises(ValueError, match="endpoint"):
        conformance.run("udp/127.0.0.1:5555", protocol="zmtp")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"tcp/127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(OSError, match="no ZMTP 3 socket"):
            conformance.run(endpoint, protocol="zmtp")
    with pytest.raises(OSError, match="refused"):
        conformance.run(endpoint, protocol="zmtp")


class ClosedError(Exception):
    """The connection is over."""


class Node:
    """A ROUTER of which the application echoes, in plain Python; subclasses have one fault each."""

    def __init__(self, listener):
        self.listener = listener
        self.streams = {}
        self.identities = set()
        self.lock = threading.Lock()
        self.threads = []

    def accept(self):
        while True:
            try:
                stream, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self.serve, args=(stream,))
            with self.lock:
                self.streams[thread] = stream
            thread.start()
            self.threads.append(thread)

    def serve(self, stream):
        with stream:
            identity = b""
            with contextlib.suppress(ClosedError, OSError):
                identity = self.shake_hands(stream)
                self.traffic(stream)
            # `running` shuts down each stream that is listed: a closed one is none.
            with self.lock:
                self.identities.discard(identity)
                del self.streams[threading.current_thread()]

    def shake_hands(self, stream):
        """Identity of the peer, which is in use from now on."""
        end = time.monotonic() + TIMER
        stream.sendall(b"\xff" + bytes(8) + b"\x7f\3\1" + b"NULL".ljust(52, b"\0"))
        self.check_greeting(stream, end)
        stream.sendall(command(b"READY", self.properties_sent()))
        flags, body = self.handshake_frame(stream, end)
        if not flags & 4 or not body.startswith(b"\5READY"):
            raise ClosedError
        claimed = self.identity(stream, body[6:])
        with self.lock:
            if self.is_taken(claimed):
                raise ClosedError
            self.identities.add(claimed)
        return claimed

    def is_taken(self, identity):
        return identity and identity in self.identities

    def publish(self, stopped):
        """A ROUTER publishes nothing."""

    def properties_sent(self):
        return b"\x0bSocket-Type\0\0\0\6ROUTER\x08Identity\0\0\0\0"

    def handshake_frame(self, stream, end):
        return self.frame(stream, end)

    def check_greeting(self, stream, end):
        head = self.octets(stream, 1, end)
        if head != b"\xff":
            raise ClosedError
        rest = self.octets(stream, 10, end)
        if not rest[8] & 1 or rest[9] < 3:
            raise ClosedError
        if not self.mechanism_fits(self.octets(stream, 53, end)[1:21]):
            # Whatever was sent before has to arrive.
            stream.shutdown(socket.SHUT_WR)
            raise ClosedError

    def mechanism_fits(self, name):
        return name == b"NULL".ljust(20, b"\0")

    def identity(self, stream, metadata):
        found = self.parsed(metadata)
        kind = self.of(found, b"socket-type")
        identity = self.of(found, b"identity") or b""
        if not self.type_fits(kind) or len(identity) > 255:
            stream.sendall(command(b"ERROR", self.reason(b"Invalid socket type")))
            raise ClosedError
        return identity

    def of(self, found, name):
        return {key.lower(): value for key, value in found}.get(name)

    def type_fits(self, kind):
        return kind in (None, b"REQ", b"DEALER", b"ROUTER")

    def reason(self, text):
        return bytes([len(text)]) + text

    def parsed(self, metadata):
        found = []
        while metadata:
            if len(metadata) < self.least_property():
                return found
            name, rest = metadata[1 : 1 + metadata[0]], metadata[1 + metadata[0] :]
            if len(rest) < 4 or len(rest) < 4 + int.from_bytes(rest[:4], "big"):
                raise ClosedError
            size = int.from_bytes(rest[:4], "big")
            found.append((name, rest[4 : 4 + size]))
            metadata = rest[4 + size :]
        return found

    def least_property(self):
        return 0

    def traffic(self, stream):
        message, ttl = [], None
        while True:
            flags, body = self.frame(stream, ttl and time.monotonic() + ttl)
            ttl = None
            if flags & 4:
                ttl = self.command(stream, flags, body)
                continue
            message.append(body)
            if not flags & 1:
                stream.sendall(b"".join(self.echo(message)))
                message = []

    def command(self, stream, flags, body):
        if flags & 1 or not body or body[0] >= len(body):
            raise ClosedError
        if not body.startswith(b"\4PING"):
            return self.unknown(body)
        if len(body) < 7:
            raise ClosedError
        stream.sendall(command(b"PONG", self.context(body[7:])))
        return int.from_bytes(body[5:7], "big") / 10

    def unknown(self, body):
        return None

    def context(self, sent):
        return sent[:16]

    def echo(self, message):
        for number, body in enumerate(message):
            yield self.encoded(body, more=number < len(message) - 1)

    def encoded(self, body, *, more):
        if len(body) > 255:
            return struct.pack(">BQ", 2 | more, len(body)) + body
        return bytes([more, len(body)]) + body

    def frame(self, stream, end):
        flags = self.octets(stream, 1, end)[0]
        if flags & 0xF8:
            raise ClosedError
        size = int.from_bytes(self.octets(stream, 8 if flags & 2 else 1, end), "big")
        if self.is_absurd(size):
            raise ClosedError
        return flags, self.octets(stream, size, end)

    def is_absurd(self, size):
        return size > 1 << 30

    def octets(self, stream, count, end):
        found = b""
        while len(found) < count:
            left = end - time.monotonic() if end else None
            if left is not None and left <= 0:
                raise ClosedError
            stream.settimeout(left)
            part = stream.recv(min(count - len(found), 1 << 20))
            if not part:
                raise ClosedError
            found += part
        return found


def command(name, data):
    body = bytes([len(name)]) + name + data
    return bytes([4, len(body)]) + body


class AnyMechanism(Node):
    def mechanism_fits(self, name):
        return True


class AnyType(Node):
    def type_fits(self, kind):
        return True


class ShortContext(Node):
    def context(self, sent):
        return sent[:8]


class LongFramesOnly(Node):
    def encoded(self, body, *, more):
        return struct.pack(">BQ", 2 | more, len(body)) + body


class NoEmptyFrames(Node):
    def echo(self, message):
        return super().echo([body for body in message if body] or [b"nothing"])


class NoSizeLimit(Node):
    def is_absurd(self, size):
        return False


class NoHandshakeTimer(Node):
    def octets(self, stream, count, end):
        # A TTL is less than half of the timer here, or as long as no check waits.
        return super().octets(stream, count, end if end and end - time.monotonic() < TIMER / 2 else None)


class NoTtl(Node):
    def command(self, stream, flags, body):
        super().command(stream, flags, body)


class FatalUnknowns(Node):
    def unknown(self, body):
        raise ClosedError


class CaseOfNames(Node):
    def of(self, found, name):
        return dict(found).get({b"socket-type": b"Socket-Type", b"identity": b"Identity"}[name])


class OctetLeft(Node):
    def least_property(self):
        return 2


class ErrorWithoutLength(Node):
    def reason(self, text):
        return text


class LowerCaseNames(Node):
    def properties_sent(self):
        return super().properties_sent().replace(b"Identity", b"identity")


class PatientHandshake(Node):
    def handshake_frame(self, stream, end):
        while not (frame := self.frame(stream, end))[1].startswith((b"\5READY", b"\5ERROR")):
            pass
        return frame


class Publisher(Node):
    """A PUB of which the application publishes a counter."""

    def __init__(self, listener):
        super().__init__(listener)
        self.prefixes = {}

    def properties_sent(self):
        return b"\x0bSocket-Type\0\0\0\3PUB"

    def type_fits(self, kind):
        return kind in (None, b"SUB", b"XSUB")

    def is_taken(self, identity):
        """A PUB knows no peer by its identity, and a peer may return before its old connection has ended."""
        return False

    def traffic(self, stream):
        thread = threading.current_thread()
        with self.lock:
            self.prefixes[thread] = []
        try:
            super().traffic(stream)
        finally:
            with self.lock:
                del self.prefixes[thread]

    def unknown(self, body):
        if body.startswith(b"\x09SUBSCRIBE"):
            self.subscribe(body[10:])
        if body.startswith(b"\6CANCEL"):
            self.cancel(body[7:])

    def echo(self, message):
        if message[0][:1] == b"\1":
            self.subscribe(message[0][1:])
        if message[0][:1] == b"\0":
            self.cancel(message[0][1:])
        return []

    def subscribe(self, prefix):
        with self.lock:
            if prefix not in self.prefixes[threading.current_thread()]:
                self.prefixes[threading.current_thread()].append(prefix)

    def cancel(self, prefix):
        with self.lock:
            if prefix in self.prefixes[threading.current_thread()]:
                self.prefixes[threading.current_thread()].remove(prefix)

    def publish(self, stopped):
        number = 0
        while not stopped.wait(0.04):
            number += 1
            octets = self.encoded(b"conformance", more=True) + self.encoded(b"%d" % number, more=False)
            with self.lock:
                for thread, prefixes in self.prefixes.items():
                    with contextlib.suppress(OSError):
                        self.streams[thread].sendall(octets * self.copies(prefixes))

    def copies(self, prefixes):
        return any(b"conformance".startswith(prefix) for prefix in prefixes)


class CountedSubscriptions(Publisher):
    def subscribe(self, prefix):
        with self.lock:
            self.prefixes[threading.current_thread()].append(prefix)


class CopyForEachPrefix(Publisher):
    def copies(self, prefixes):
        return sum(b"conformance".startswith(prefix) for prefix in prefixes)


class WholeTopics(Publisher):
    def copies(self, prefixes):
        return b"conformance" in prefixes or b"" in prefixes


class CancelOfEverything(Publisher):
    def cancel(self, prefix):
        with self.lock:
            self.prefixes[threading.current_thread()].clear()


class NoFilter(Publisher):
    def copies(self, prefixes):
        return bool(prefixes)


@contextlib.contextmanager
def running(kind):
    """Endpoint of a scripted node."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        node = kind(listener)
        stopped = threading.Event()
        threads = [
            threading.Thread(target=node.accept),
            threading.Thread(target=node.publish, args=(stopped,)),
        ]
        for thread in threads:
            thread.start()
        try:
            yield f"tcp/127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stopped.set()
            listener.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(10)
            with node.lock:
                for stream in node.streams.values():
                    # A reset of the peer has disconnected a stream that its thread has not closed yet.
                    with contextlib.suppress(OSError):
                        stream.shutdown(socket.SHUT_RDWR)
            for thread in node.threads:
                thread.join(10)
                assert not thread.is_alive()


FAULTS = {
    Node: set(),
    Publisher: set(),
    AnyMechanism: {
        "14/mechanism-case",
        "14/mechanism-costs-one",
        "3.1/mechanism-whole",
        "3.1/other-mechanism",
        "3.1/unknown-mechanism",
    },
    AnyType: {
        "8.1/case-of-socket-type",
        "8.1/case-of-type",
        "8.2/draft-pairs",
        "8.2/error-on-mismatch",
        "8.2/illegal-pairs",
        "8.2/unknown-type",
    },
    ShortContext: {"10/context-too-long", "10/longest-context"},
    LongFramesOnly: {"4/short-form"},
    NoEmptyFrames: {"4/empty-frame", "4/empty-frames-anywhere", "4/long-form-of-short"},
    NoSizeLimit: {"14/size-costs-one", "4/size-above-63-bits", "4/size-all-ones", "4/size-terabyte"},
    NoHandshakeTimer: {"2/silent", "2/silent-after-greeting", "2/slow-handshake"},
    NoTtl: {"10/ttl"},
    FatalUnknowns: {
        "10/traffic-is-life",
        "10/unsolicited-pong",
        "14/second-ready",
        "5/case-of-names",
        "5/join-and-leave",
        "5/unknown-ignored",
    },
    CaseOfNames: {"8.1/case-of-identity", "8.1/case-of-socket-type"},
    OctetLeft: {"8.1/one-octet-left"},
    ErrorWithoutLength: {"11/error-format"},
    LowerCaseNames: {"8.1/identity-sent", "8.1/spelling"},
    PatientHandshake: {"14/message-before-ready", "14/ping-before-ready", "5/unknown-in-handshake"},
    CountedSubscriptions: {"9/set-of-prefixes"},
    CopyForEachPrefix: {"9/sent-once"},
    WholeTopics: {"9/other-prefix-stays", "9/prefix"},
    CancelOfEverything: {"9/other-prefix-stays"},
    NoFilter: {"9/first-frame-alone", "9/no-match"},
}


# Without a fault, and with one of a frame, a command and a subscription; `make test-long` has the others.
QUICK = {Node: set(), Publisher: set(), **dict(list(FAULTS.items())[2::6])}


@pytest.mark.parametrize("faults", [QUICK, pytest.param(FAULTS, marks=pytest.mark.long)], ids=["some", "all"])
def test_a_fault_breaks_the_rules_about_it_alone(faults):
    def judge(kind):
        with running(kind) as endpoint:
            return conformance.run(endpoint, protocol="zmtp", handshake_timeout=TIMER)

    reports = side_by_side(judge, faults)
    assert {kind: broken(report, *LEVELS) for kind, report in reports.items()} == {
        kind: {f"zmtp-{rule}" for rule in rules} for kind, rules in faults.items()
    }
    assert len(reports[Node].of("conforms")) >= 100
    assert len(reports[Publisher].of("conforms")) >= 100
