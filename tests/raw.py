"""Zenoh octet by octet: links of peers that are not ours, and that may break every rule.

Messages are bytes, written by the encoders of the conformance suite, which take any value.
"""

import contextlib
import itertools
import socket
import struct

from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._wire import sized, vle

BATCH = 30_000
"""Octets of messages in a batch; eclipse-zenoh takes no batches of 50,000 over the loopback."""

PATIENCE = 15.0
"""Seconds within which a node answers, on a busy machine."""

ROUTER, PEER, CLIENT = wire.ROUTER, wire.PEER, wire.CLIENT
TOKENS = wire.TOKENS
SUBSCRIBER, QUERYABLE, TOKEN = 2, 4, 6
"""Kinds of declarations."""

_NODES = itertools.count(1)


def address_of(endpoint):
    """``tcp/127.0.0.1:7447`` as a pair for sockets."""
    host, _, port = endpoint.removeprefix("tcp/").rpartition(":")
    return host, int(port)


def batch(body):
    """A batch of a stream, behind its length."""
    return struct.pack("<H", len(body)) + body


def connect(address):
    stream = socket.create_connection(address, timeout=PATIENCE)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def receive(stream):
    """The next batch."""
    raw = b""
    while len(raw) < 2 or len(raw) < 2 + struct.unpack_from("<H", raw)[0]:
        part = stream.recv(2 if len(raw) < 2 else 2 + struct.unpack_from("<H", raw)[0] - len(raw))
        assert part, "the node closed"
        raw += part
    return raw[2:]


def opening(*, role=CLIENT, zid=None, compression=False):
    """INIT with sizes and extensions: QoS, compression, patch 1."""
    zid = struct.pack("<I", 0xABCD0000 + next(_NODES)) if zid is None else zid
    head = b"\xc1\x09" + bytes([(len(zid) - 1) << 4 | role]) + zid
    return batch(head + b"\x0a\xff\xff\x81" + (b"\x86" if compression else b"") + b"\x27\x01")


def answer(ack, lease):
    """OPEN to an INIT ACK, with a lease in seconds."""
    assert ack[0] & 0x3F == 0x21, f"no INIT ACK: {ack.hex()}"
    at = 3 + (ack[2] >> 4) + 1 + (3 if ack[0] & 0x40 else 0)
    cookie = ack[at : at + 1 + ack[at]]
    return batch(b"\x42" + vle(lease) + b"\x05" + cookie)


def introduce(address, *, lease=10, role=CLIENT, zid=None, compression=False):
    """A connection after the handshake: QoS, batches of 65535 bytes, a lease in seconds, first number 5."""
    stream = connect(address)
    stream.sendall(opening(role=role, zid=zid, compression=compression))
    stream.sendall(answer(receive(stream), lease))
    ack = receive(stream)
    assert ack[0] & 0x3F == 0x22, f"no OPEN ACK: {ack.hex()}"
    return stream


def closes(stream):
    """Whether the node ends the connection; what it still says is read over."""
    with contextlib.suppress(ConnectionResetError):
        while stream.recv(65536):
            pass
    return True


def ended(stream):
    """Whether the node has ended the connection; what it has said is read over."""
    stream.settimeout(0.2)
    try:
        return closes(stream)
    except TimeoutError:
        return False


def pushed(stream, data):
    """Sends as much as the node takes before it closes."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stream.sendall(data)


class Sender:
    """The numbers of the two channels that a link of :func:`introduce` sends on, and its batches."""

    # FRAME with the extension of the priority 0, and without it.
    CONTROL, DATA = (b"\xa5", b"\x31\x00"), (b"\x25", b"")

    def __init__(self, stream):
        self.stream = stream
        self.numbers = {self.CONTROL: 5, self.DATA: 5}

    def frame(self, messages, channel=DATA):
        """A batch with a FRAME of messages, on the channel of data or of control."""
        number = self.numbers[channel]
        self.numbers[channel] = number + 1
        return batch(channel[0] + vle(number) + channel[1] + messages)

    def send(self, messages, channel=DATA):
        """Sends as much as the node takes."""
        pushed(self.stream, self.frame(messages, channel))

    def declare(self, kind, keys, first=1):
        """Declares keys under the ids from ``first`` on, as many in a batch as fit."""
        body = b""
        for number, key in enumerate(keys, first):
            message = declaration(kind, number, key)
            if len(body) + len(message) > BATCH:
                self.send(body, self.CONTROL)
                body = b""
            body += message
        self.send(body, self.CONTROL)


def declaration(kind, number, key):
    """DECLARE with D_SUBSCRIBER, D_QUERYABLE or D_TOKEN, on the priority of control."""
    return wire.declare(wire.d_entity(kind, number, key), wire.qos(wire.CONTROL, block=True))


def put(key, payload=b"x"):
    """PUSH with PUT."""
    return wire.push(key, wire.put(payload))


def request(number, key):
    """REQUEST with QUERY."""
    return wire.request(number, key, wire.query())


def interest(number, options, key=None):
    """INTEREST in present and future declarations; options are the bits of kinds."""
    return wire.interest(number, wire.CURRENT_FUTURE, options, key)


def gossip(number, locator, role=2):
    """OAM with the link state of one node: its id, role (1, 2 and 4) and locator, and no links."""
    zid = struct.pack("<I", 0xEE000000 + number)
    entry = b"\x07" + vle(number) + b"\x01" + sized(zid) + bytes([role]) + b"\x01" + sized(locator.encode())
    return b"\x5f\x01" + sized(b"\x01" + entry + b"\x00")
