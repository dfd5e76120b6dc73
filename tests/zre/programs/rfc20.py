"""Messages of 20/ZRE and ZRE/LOG, octet by octet from the published text, and the HELLO of zyre 1.0.0.

Decoding is strict: what the grammar does not allow, an octet too many included, is a :class:`Malformed`.
"""

import struct

SIGNATURE = b"\xaa\xa1"
LOG_SIGNATURE = b"\xaa\xa2"
HELLO, WHISPER, SHOUT, JOIN, LEAVE, PING, PING_OK = range(1, 8)
NAMES = {
    HELLO: "HELLO",
    WHISPER: "WHISPER",
    SHOUT: "SHOUT",
    JOIN: "JOIN",
    LEAVE: "LEAVE",
    PING: "PING",
    PING_OK: "PING-OK",
}
LEVELS = {"ERROR": 1, "WARNING": 2, "INFO": 3}
EVENTS = {"": 0, "JOIN": 1, "LEAVE": 2, "ENTER": 3, "EXIT": 4, "SEND": 5, "RECV": 6}


class Malformed(Exception):  # noqa: N818 - it is what the message is
    """The octets are no message of this protocol."""


def beacon(uuid, port):
    return b"ZRE\x01" + uuid + port.to_bytes(2, "big")


def read_beacon(datagram):
    """Return ``(uuid, port)``: a recognized header and a body of the correct size."""
    if len(datagram) != 22 or datagram[:4] != b"ZRE\x01":
        raise Malformed(f"no beacon: {datagram[:64].hex()}")
    return datagram[4:20], int.from_bytes(datagram[20:], "big")


# ---- Fields: "20" counts with one octet; "zyre1" (zyre 1.0.0) with four, and its list entries are long ----


def string(text):
    raw = text.encode()
    return bytes([len(raw)]) + raw


def long_string(text):
    raw = text.encode()
    return len(raw).to_bytes(4, "big") + raw


def strings(texts, generation):
    if generation == "20":
        return bytes([len(texts)]) + b"".join(map(string, texts))
    return len(texts).to_bytes(4, "big") + b"".join(map(long_string, texts))


def dictionary(entries, generation):
    if generation == "20":
        return bytes([len(entries)]) + b"".join(string(f"{k}={v}") for k, v in entries.items())
    return len(entries).to_bytes(4, "big") + b"".join(string(k) + long_string(v) for k, v in entries.items())


class Reader:
    def __init__(self, octets):
        self.octets = octets
        self.at = 0

    def take(self, size):
        part = self.octets[self.at : self.at + size]
        if len(part) < size:
            raise Malformed(f"ends at octet {len(self.octets)}: {self.octets.hex()}")
        self.at += size
        return part

    def number(self, size):
        return int.from_bytes(self.take(size), "big")

    def string(self, size=1):
        try:
            return self.take(self.number(size)).decode()
        except UnicodeDecodeError:
            raise Malformed(f"a text that is not UTF-8: {self.octets.hex()}") from None

    def strings(self, generation):
        if generation == "20":
            return [self.string() for _ in range(self.number(1))]
        return [self.string(4) for _ in range(self.number(4))]

    def dictionary(self, generation):
        if generation == "20":
            entries = {}
            for _ in range(self.number(1)):
                name, equals, value = self.string().partition("=")
                if not equals:
                    raise Malformed(f"the header {name!r} has no '='")
                entries[name] = value
            return entries
        return {self.string(): self.string(4) for _ in range(self.number(4))}

    def end(self):
        if self.at < len(self.octets):
            raise Malformed(f"{len(self.octets) - self.at} octets too many: {self.octets.hex()}")


# ---- Messages ----


def header(kind, sequence):
    return SIGNATURE + bytes([kind]) + sequence.to_bytes(2, "big")


def hello(sequence, address, port, groups, status, headers, generation):
    return (
        header(HELLO, sequence)
        + string(address)
        + port.to_bytes(2, "big")
        + strings(groups, generation)
        + bytes([status])
        + dictionary(headers, generation)
    )


def shout(sequence, group):
    return header(SHOUT, sequence) + string(group)


def change(kind, sequence, group, status):
    """JOIN or LEAVE."""
    return header(kind, sequence) + string(group) + bytes([status])


def decode(frames, generation):
    """The fields of one message, as a dictionary; content as a list of frames."""
    octets = frames[0]
    if octets[:2] != SIGNATURE:
        raise Malformed(f"another signature: {octets[:8].hex()}")
    reader = Reader(octets[2:])
    kind = reader.number(1)
    if kind not in NAMES:
        raise Malformed(f"unknown message {kind}")
    fields = {"message": NAMES[kind], "sequence": reader.number(2)}
    if kind == HELLO:
        fields["address"] = reader.string()
        fields["port"] = reader.number(2)
        fields["groups"] = reader.strings(generation)
        fields["status"] = reader.number(1)
        fields["headers"] = reader.dictionary(generation)
    elif kind == SHOUT:
        fields["group"] = reader.string()
    elif kind in (JOIN, LEAVE):
        fields["group"] = reader.string()
        fields["status"] = reader.number(1)
    reader.end()
    content = frames[1:]
    if kind in (WHISPER, SHOUT):
        if not content:
            raise Malformed(f"{NAMES[kind]} without content")
        fields["content"] = content
    elif content:
        raise Malformed(f"{NAMES[kind]} with content")
    return fields


# ---- ZRE/LOG ----


def log_hash(text):
    """The hash of zyre: 16 bits, from its source as documented (the text names no function)."""
    h = 0
    for octet in text.encode():
        h = ((33 * h) ^ octet) & 0xFFFF
    return h


def log(level, event, node, peer, time, data):
    return (
        LOG_SIGNATURE
        + bytes([1, LEVELS[level], EVENTS[event]])
        + struct.pack(">HHQ", node, peer, time)
        + string(data)
    )


def read_log(frames):
    if len(frames) != 1:
        raise Malformed(f"a LOG of {len(frames)} frames")
    octets = frames[0]
    if octets[:2] != LOG_SIGNATURE:
        raise Malformed(f"another signature: {octets[:8].hex()}")
    reader = Reader(octets[2:])
    if reader.number(1) != 1:
        raise Malformed(f"no LOG: {octets.hex()}")
    level, event = reader.number(1), reader.number(1)
    try:
        fields = {
            "level": next(k for k, v in LEVELS.items() if v == level),
            "event": next(k for k, v in EVENTS.items() if v == event),
        }
    except StopIteration:
        raise Malformed(f"level {level}, event {event}") from None
    fields |= {"node": reader.number(2), "peer": reader.number(2), "time": reader.number(8)}
    fields["data"] = reader.string()
    reader.end()
    return fields
