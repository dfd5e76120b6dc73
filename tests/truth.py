"""The captures of tests/vectors, and the notes of the applications in them.

A test decodes a capture in any way and asks `missing` for the noted messages that its rows
do not hold.
"""

import base64
import gzip
import hashlib
import json
import lzma
from collections import Counter
from datetime import datetime
from pathlib import Path

CAPTURES = Path(__file__).parent / "vectors" / "captures"

ALL = sorted(file.name.partition(".")[0] for file in CAPTURES.glob("*.pcap*"))

# The queries of the last one are answered too late, which gives no message.
UNANSWERED = {("zenoh-query", "slow/1")}

PRIORITIES = {
    "REAL_TIME": 1,
    "INTERACTIVE_HIGH": 2,
    "INTERACTIVE_LOW": 3,
    "DATA_HIGH": 4,
    "DATA": 5,
    "DATA_LOW": 6,
    "BACKGROUND": 7,
}


def comparable(cell):
    """Instants as numbers, since those of Spark have no zone, and bytes as such."""
    if isinstance(cell, datetime):
        return cell.timestamp()
    return bytes(cell) if isinstance(cell, bytearray) else cell


def full(name):
    return name if name.startswith("z") else f"zenoh-{name}"


def path(name):
    """Return the file of a capture; a name without its protocol is of Zenoh."""
    (found,) = CAPTURES.glob(f"{full(name)}.pcap*.gz")
    return str(found)


def told(name):
    """Return the notes of the applications, in order."""
    (found,) = CAPTURES.glob(f"{full(name)}.truth.jsonl.*")
    with (gzip if found.suffix == ".gz" else lzma).open(found, "rt") as lines:
        return list(map(json.loads, lines))


def keys(name):
    """Return the secrets of a capture under CURVE, as the decoder takes them."""
    secrets = [fact for fact in told(name) if fact["op"] in ("key_pair", "keys")]
    fields = ("secret_hex", "server_secret", "client_secret")
    return [fact[field] for fact in secrets for field in fields if field in fact]


def bytes_of(fact, field):
    """Payloads of more than 4,096 octets are a length and a hash in the truth."""
    if f"{field}_sha256" in fact:
        return fact[f"{field}_len"], fact[f"{field}_sha256"]
    text = fact.get(f"{field}_b64")
    return short(None if text is None else base64.b64decode(text))


def short(value):
    if value is None:
        return None
    return (len(value), hashlib.sha256(value).hexdigest()) if len(value) > 4096 else bytes(value)


def frames(fact, field):
    return tuple(map(base64.b64decode, fact[field]))


def facts(name):
    """Messages put, deleted, answered, shouted, whispered and sent, as the applications noted them.

    Not for `zenoh-bulk`, which notes more messages with less detail: the length and CRC-32 of each payload.
    """
    name = full(name)
    found = Counter()
    sockets = {}
    for fact in told(name):
        op, key = fact["op"], fact.get("key")
        if fact.get("on_wire") is False or (name, key) in UNANSWERED:
            continue
        if "socket" in fact:
            sockets[fact["peer"]] = fact["socket"]
        if op == "event" and fact["event"] in ("SHOUT", "WHISPER"):
            said = frames(fact, "content_b64")
            found[fact["event"].lower(), fact["from"], fact.get("group"), *said] += 1
            continue
        if op == "recv":
            # A ROUTER gets the sender's identity as an additional frame, and questions have an empty one in
            # front.
            socket = sockets[fact["peer"]]
            front = (b"",) if socket in ("REQ", "REP") else ()
            found["message", *front, *frames(fact, "frames_b64")[socket == "ROUTER" :]] += 1
            continue
        payload, encoding = bytes_of(fact, "payload"), fact.get("encoding") or "zenoh/bytes"
        if (name, fact.get("peer"), encoding) == ("zenoh-old-version", "A", "example/custom-type"):
            # 1.0.0 sends an encoding of its own as the schema of the default one.
            encoding = "zenoh/bytes;example/custom-type"
        attachment = bytes_of(fact, "attachment")
        if (op == "put" and name == "zenoh-bulk") or (op == "put" and fact.get("partial")):
            found["push", "put", key, payload] += 1
        elif op == "put":
            found["push", "put", key, payload, encoding, attachment, PRIORITIES[fact["priority"]]] += 1
        elif op == "delete":
            found["push", "del", key, None, None, attachment, PRIORITIES[fact["priority"]]] += 1
        elif op == "reply" and fact.get("partial"):
            found["response", "put", key, payload] += 1
        elif op == "reply":
            found["response", "put", key, payload, encoding, attachment] += 1
        elif op == "reply_del":
            found["response", "del", key, None, None, attachment] += 1
        elif op == "reply_err":
            found["response", "err", payload, encoding] += 1
    return found


def seen(rows):
    """The same messages, taken from rows."""
    found = Counter()
    for row in rows:
        if row.message in ("shout", "whisper"):
            found[row.message, row.peer, row.group, *map(bytes, row.content)] += 1
            continue
        if row.protocol == "zmtp" and row.message == "message":
            found["message", *map(bytes, row.content)] += 1
            continue
        payload, attachment = short(row.payload), short(row.attachment)
        if row.message == "push":
            found["push", row.kind, row.key, payload, row.encoding, attachment, row.priority] += 1
            found["push", row.kind, row.key, payload] += 1
        elif row.message == "response" and row.kind == "err":
            found["response", "err", payload, row.encoding] += 1
        elif row.message == "response":
            found["response", row.kind, row.key, payload, row.encoding, attachment] += 1
            found["response", row.kind, row.key, payload] += 1
    return found


def missing(name, rows):
    """Return the noted messages that the rows do not hold; there has to be at least one note."""
    wanted = facts(name)
    assert wanted, f"no facts about {name}"
    return wanted - seen(rows)


def multiply(name, copies, target):
    """Write several copies of a capture into one, each with other addresses."""
    unpacked = gzip.decompress(Path(path(name)).read_bytes())
    with Path(target).open("wb") as file:
        file.write(unpacked[:24])
        for copy in range(copies):
            # From 127.0.COPY.1 to itself, behind Ethernet and half of IPv4.
            packets = bytearray(unpacked[24:])
            at = 0
            while at < len(packets):
                packets[at + 16 + 14 + 14] = packets[at + 16 + 14 + 18] = copy
                at += 16 + int.from_bytes(packets[at + 8 : at + 12], "little")
            file.write(packets)
