"""The rules of Zenoh: zwire keeps them, and a node with one fault breaks those about it alone."""

import contextlib
import re
import socket
import struct
import threading
from pathlib import Path

import pytest

import nodes
from conformance_pages import KNOWN
from zwire import conformance

pytestmark = pytest.mark.slow

PROTOCOL = Path(__file__).parents[2] / "docs" / "protocol"
GROUP = "224.0.0.251"


def judged(session, **options):
    return conformance.run(session.listening()[0], **options)


def broken(report):
    assert report.of("failed") == []
    return {verdict.rule.id: verdict.detail for verdict in report.of("deviates")}


def test_rules_have_sections_and_one_sentence_each():
    text = "".join(page.read_text() for page in PROTOCOL.glob("*.md"))
    anchors = set(re.findall(r"^\(([a-z]+-[^)]+)\)=$", text, re.MULTILINE))
    rules = [rule for protocol in conformance.PROTOCOLS for rule in conformance.rules(protocol)]
    assert {rule.section for rule in rules} <= anchors
    assert len({rule.id for rule in rules}) == len(rules)
    zenoh = conformance.rules("zenoh")
    assert all(re.fullmatch(r"[A-Z].*[^ ]\.", rule.sentence) for rule in zenoh)
    assert len({rule.sentence for rule in zenoh}) == len(zenoh)
    assert sum(rule.check is not None for rule in zenoh) >= 250


@pytest.mark.parametrize("protocol", conformance.PROTOCOLS)
def test_the_page_lists_every_rule(protocol):
    """`make conformance` writes it anew."""
    page = (PROTOCOL.with_name("conformance") / f"{protocol}.md").read_text()
    listed = re.findall(
        r"^\| \[([^]]+)\]\([^)]*\) \| [^|]* \| (.*?) \|", page.partition("## Rules\n")[2], re.MULTILINE
    )
    wanted = [(rule.id, rule.sentence.replace("|", "\\|")) for rule in conformance.rules(protocol)]
    assert sorted(listed) == sorted(wanted)


@pytest.mark.parametrize("mode", ["router", "peer"])
def test_zwire_keeps_every_rule(mode):
    with nodes.opened(mode, listen=nodes.LOCAL) as session:
        report = judged(session)
    unexpected = {rule: seen for rule, seen in broken(report).items() if rule not in KNOWN}
    assert unexpected == {}
    # A rule that zwire follows after a change leaves the list.
    applied = {verdict.rule.id for verdict in report.of("conforms")}
    assert applied & KNOWN.keys() == set()
    assert report.conforms
    assert len(applied) >= 400


@pytest.mark.parametrize(
    ("settings", "only", "least"),
    [
        ({"transport__unicast__compression__enabled": True}, r"-3\.13/|compress", 15),
        (
            {"transport__unicast__lowlatency": True, "transport__unicast__qos__enabled": False},
            r"-3\.14/|low-latency",
            6,
        ),
    ],
    ids=["compression", "low latency"],
)
def test_rules_of_an_option(settings, only, least):
    with nodes.router(**settings) as hub:
        report = judged(hub, only=only)
    assert broken(report) == {}
    assert report.of("not applicable") == []
    assert len(report.of("conforms")) >= least


@pytest.mark.parametrize("mode", ["router", "peer"])
def test_rules_of_scouting(mode):
    group = f"{GROUP}:{nodes.free_port(socket.SOCK_DGRAM)}"
    multicast = {"enabled": True, "address": group, "interface": "lo", "autoconnect": []}
    settings = {f"scouting__multicast__{name}": value for name, value in multicast.items()}
    with nodes.opened(mode, listen=nodes.LOCAL, **settings) as session:
        report = judged(session, only=r"wire-2\.|wire-1\.10/|behaviour-1\.6/", scouting=group)
    assert broken(report) == {}
    assert report.of("not applicable") == []
    assert len(report.of("conforms")) >= 19


def test_a_port_that_serves_no_zenoh_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse():
            server.accept()[0].close()

        threading.Thread(target=refuse, daemon=True).start()
        endpoint = f"tcp/127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConnectionError, match="does not open a session"):
            conformance.run(endpoint)


# A node with one fault: a proxy before a good router, which changes the batches of one connection.


class Fault:
    """One connection of the wrong node; without changes it is that of a good one."""

    def to_node(self, batch):
        """Batches that the node takes in place of one; None: it closes the connection."""
        return [batch]

    def to_suite(self, batch):
        """Batches that the node sends in place of one."""
        return [batch]


class Version(Fault):
    def to_suite(self, batch):
        return [batch[:1] + b"\x08" + batch[2:] if is_init_ack(batch) else batch]


class ReservedBits(Fault):
    def to_suite(self, batch):
        if is_init_ack(batch):
            return [batch[:2] + bytes([batch[2] | 0x0C]) + batch[3:]]
        return [bytes([batch[0] | 0x40]) + batch[1:] if is_frame(batch) else batch]


class EveryBatchSize(Fault):
    """Answers 65535 bytes, and takes no more than was offered."""

    def to_suite(self, batch):
        if not is_init_ack(batch) or not batch[0] & 0x40:
            return [batch]
        at = 3 + (batch[2] >> 4) + 1
        return [batch[: at + 1] + b"\xff\xff" + batch[at + 3 :]]


class AnyCookie(Fault):
    def __init__(self):
        self.cookie = b""

    def to_suite(self, batch):
        if is_init_ack(batch):
            at = 3 + (batch[2] >> 4) + 1 + (3 if batch[0] & 0x40 else 0)
            self.cookie = batch[at + 1 : at + 1 + batch[at]]
        return [batch]

    def to_node(self, batch):
        own = batch.find(self.cookie[:8])
        if self.cookie and batch[:1] == b"\x02" and own > 0 and len(batch) == own + len(self.cookie):
            return [batch[:own] + self.cookie]
        return [batch]


class SecondsAsMilliseconds(Fault):
    def to_node(self, batch):
        return [b"\x02" + batch[1:] if batch[:1] == b"\x42" else batch]


class NoBestEffort(Fault):
    """Drops what is not reliable."""

    def to_node(self, batch):
        return [] if batch and batch[0] & 0x3F in {0x05, 0x06} else [batch]


class NoEmptyBatch(Fault):
    def to_node(self, batch):
        return [batch] if batch else None


class EchoedClose(Fault):
    opened = False

    def to_suite(self, batch):
        if batch and batch[0] & 0x3F == 0x22:
            self.opened = True
        return [batch]

    def farewell(self, batch):
        """What the node sends before it closes the connection because of a batch."""
        return [b"\x03\x00"] if self.opened and batch[:1] in {b"\x03", b"\x23"} else []


class NoFirst(Fault):
    """Sends FRAGMENTs without First."""

    def to_suite(self, batch):
        if batch and batch[0] & 0x9F == 0x86:
            at = 1 + next(at for at, octet in enumerate(batch[1:], 1) if octet < 0x80)
            if batch[at] == 0x02:
                return [bytes([batch[0] & 0x7F]) + batch[1:at] + batch[at + 1 :]]
        return [batch]


class NoChains(Fault):
    """Closes the connection for a KEEP_ALIVE with extensions."""

    def to_node(self, batch):
        return None if batch[:1] == b"\x84" else [batch]


class Forgetful(Fault):
    """Sends each FRAME with the number 0."""

    def to_suite(self, batch):
        if batch[:1] != b"\x25":
            return [batch]
        end = 1 + next(at for at, octet in enumerate(batch[1:], 1) if octet < 0x80)
        return [b"\x25\x00" + batch[end:]]


def is_init_ack(batch):
    return bool(batch) and batch[0] & 0x3F == 0x21


def is_frame(batch):
    return bool(batch) and batch[0] & 0x1F == 0x05


FAST = r"-wire-(1\.[2478]|3\.([1345679]|1[0126])|9\.[123])/|-behaviour-(0|2\.[23479])/|/sixteen-messages"
"""Rules of the transport that wait for no lease."""
FAULTS = {
    Version: {"zenoh-wire-3.3/ack-version"},
    ReservedBits: {"zenoh-wire-1.7/init-ack-reserved", "zenoh-wire-1.7/frame-sent"},
    EveryBatchSize: {"zenoh-wire-3.5/batch-size", "zenoh-behaviour-0/full-batch"},
    AnyCookie: {"zenoh-wire-3.3/wrong-cookie"},
    SecondsAsMilliseconds: {"zenoh-wire-3.4/lease-in-seconds"},
    NoBestEffort: {
        "zenoh-wire-3.4/first-number-taken",
        "zenoh-wire-3.9/best-effort",
        "zenoh-wire-3.10/best-effort",
        "zenoh-wire-3.11/best-effort-alike",
        "zenoh-wire-3.11/reliability-apart",
        "zenoh-behaviour-2.5/sixteen-messages",
        "zenoh-behaviour-2.9/between-channels",
    },
    NoEmptyBatch: {"zenoh-wire-3.1/empty-batch", "zenoh-wire-3.1/handshake-empty"},
    EchoedClose: {"zenoh-wire-3.7/no-echo"},
    NoFirst: {"zenoh-wire-3.10/sends-first"},
    NoChains: {"zenoh-wire-1.8/optional-in-keep-alive"},
    Forgetful: {
        "zenoh-wire-3.4/first-number",
        "zenoh-wire-3.11/sends-in-order",
        "zenoh-wire-3.11/sends-wrapped",
    },
}

# No fault, and one of a handshake, a batch and a message; `make test-long` has the others.
QUICK = {Fault, Version, AnyCookie}


@contextlib.contextmanager
def wrong_node(hub, fault):
    """Endpoint of a router with the fault, which is made anew for each connection."""
    host, port = hub.listening()[0].removeprefix("tcp/").rsplit(":", 1)
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    suite, _ = server.accept()
                    connection = fault(), suite, socket.create_connection((host, int(port)))
                    threading.Thread(target=serve, args=connection, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"tcp/127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def batches(stream):
    with stream.makefile("rb") as incoming, contextlib.suppress(OSError):
        while len(head := incoming.read(2)) == 2:
            yield incoming.read(struct.unpack("<H", head)[0])


def send(stream, sent):
    with contextlib.suppress(OSError):
        for batch in sent:
            stream.sendall(struct.pack("<H", len(batch)) + batch)


def end(*streams):
    for stream in streams:
        with contextlib.suppress(OSError):
            stream.shutdown(socket.SHUT_RDWR)


def serve(connection, suite, node):
    """Pass the batches of one connection of the suite on, with the changes of the fault."""
    with suite, node:
        for stream in (suite, node):
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = threading.Thread(target=to_suite, args=(connection, suite, node))
        answers.start()
        to_node(connection, suite, node)
        answers.join()


def to_node(connection, suite, node):
    for batch in batches(suite):
        if hasattr(connection, "farewell"):
            send(suite, connection.farewell(batch))
        taken = connection.to_node(batch)
        if taken is None:
            break
        send(node, taken)
    end(suite, node)


def to_suite(connection, suite, node):
    for batch in batches(node):
        send(suite, connection.to_suite(batch))
    end(suite, node)


@pytest.mark.parametrize(
    "fault",
    [fault if fault in QUICK else pytest.param(fault, marks=pytest.mark.long) for fault in (Fault, *FAULTS)],
    ids=lambda fault: fault.__name__,
)
def test_a_fault_breaks_the_rules_about_it(hub, fault):
    with wrong_node(hub, fault) as endpoint:
        report = conformance.run(endpoint, only=FAST)
    assert broken(report).keys() - KNOWN.keys() == FAULTS.get(fault, set())
