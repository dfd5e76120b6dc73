"""Scenes of several links to the node: interests and their answers, queries and their replies."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._link import PATIENCE
from zwire.conformance.zenoh._wire import CLIENT, PEER, Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zwire.conformance.zenoh._link import Link, Target

LINK_STATE = 1
"""Id of the OAM that carries link state."""
ALL_KINDS = wire.SUBSCRIBERS | wire.QUERYABLES | wire.TOKENS
SUBSCRIBER, QUERYABLE, TOKEN = 2, 4, 6
"""Kinds of entities, as :func:`zwire.conformance.zenoh._wire.d_entity` takes them."""
NULL_KEY: wire.Ext = (0x5F, b"\0\0")
"""Extension WireExpr of an undeclaration that names no key."""
OPTION = {SUBSCRIBER: wire.SUBSCRIBERS, QUERYABLE: wire.QUERYABLES, TOKEN: wire.TOKENS}
DECLARES = {SUBSCRIBER: "D_SUBSCRIBER", QUERYABLE: "D_QUERYABLE", TOKEN: "D_TOKEN"}
WITHDRAWS = {SUBSCRIBER: "U_SUBSCRIBER", QUERYABLE: "U_QUERYABLE", TOKEN: "U_TOKEN"}


@contextlib.contextmanager
def links(target: Target, *roles: int) -> Iterator[list[Link]]:
    """Links of some roles.

    Peers say at once that they have declared all, so that the node sends them nothing without a match.
    """
    with contextlib.ExitStack() as held:
        opened = []
        for role in roles:
            link = held.enter_context(target.link(role=role))
            if role == PEER:
                link.declare(wire.d_final(), interest=0)
                link.waiting += link.barrier()
            opened.append(link)
        yield opened


def clients(target: Target, count: int = 2) -> contextlib.AbstractContextManager[list[Link]]:
    """Links of clients."""
    return links(target, *[CLIENT] * count)


# ---- Declarations and interests ----


def announce(link: Link, kind: int, key: str | wire.Key, id: int = 1, *exts: wire.Ext) -> None:
    """Declare an entity, and wait until the node knows it."""
    link.declare(wire.d_entity(kind, id, key, *exts))
    link.waiting += link.barrier()


def withdraw(link: Link, kind: int, id: int = 1, *exts: wire.Ext) -> None:
    """Undeclare an entity, and wait until the node knows that."""
    link.declare(wire.undeclare(kind, id, *exts))
    link.waiting += link.barrier()


def send_interest(link: Link, octets: bytes) -> None:
    """Send an INTEREST, on the priority of control where it was agreed."""
    link.send(octets, priority=wire.CONTROL if link.has_qos else wire.DATA)


def ask(link: Link, mode: int, options: int, key: str | wire.Key | None = None, id: int = 1) -> list[Message]:
    """Send an interest; returns the declarations that answer it, up to its D_FINAL exclusively."""
    send_interest(link, wire.interest(id, mode, options, key, wire.qos(wire.CONTROL, block=True)))
    seen = link.until(lambda message: is_final(message, id))
    return [message for message in seen[:-1] if message.interest == id]


def watch(link: Link, options: int, key: str | wire.Key | None = None, id: int = 1) -> None:
    """Send an interest in what comes from now on, and wait until the node knows it."""
    send_interest(link, wire.interest(id, wire.FUTURE, options, key, wire.qos(wire.CONTROL, block=True)))
    link.barrier()


def is_final(message: Message, interest: int) -> bool:
    """Whether a message is the D_FINAL of an interest."""
    return message.interest == interest and message.body is not None and message.body.kind == "D_FINAL"


def bodies(messages: list[Message], *kinds: str) -> list[Message]:
    """Declarations of some kinds in messages, or all declarations."""
    found = [m.body for m in messages if m.kind == "DECLARE" and m.body is not None]
    return [body for body in found if not kinds or body.kind in kinds]


def keys(link: Link, messages: list[Message], *kinds: str) -> list[str]:
    """Sorted keys of the declarations of some kinds, by default those of entities."""
    return sorted(link.text(body) for body in bodies(messages, *(kinds or DECLARES.values())))


def withdrawn_key(link: Link, body: Message, known: dict[int, str]) -> str | None:
    """Key that an undeclaration names, by its extension or else by the id of an announcement."""
    named = body.ext(0x5F)
    if isinstance(named, bytes):
        reader = wire.Reader(named)
        flags = reader.octet()
        scope = reader.number()
        suffix = reader.rest.decode() if flags & 1 else None
        if scope or suffix:
            return link.text(Message(body.kind, key=wire.Key(suffix, scope, bool(flags & 2)), raw=named))
    return known.get(body.id)


# ---- Queries ----


def get(link: Link, key: str | wire.Key, *exts: wire.Ext, body: bytes | None = None, id: int = 0) -> int:
    """Send a REQUEST; returns its id."""
    id = id or link.target.unique_id()
    link.send(wire.request(id, key, wire.query() if body is None else body, *exts))
    return id


def replies(link: Link, id: int, timeout: float = PATIENCE) -> list[Message]:
    """RESPONSE messages to a request, up to its RESPONSE_FINAL exclusively."""
    seen = link.until(lambda message: message.kind == "RESPONSE_FINAL" and message.id == id, timeout)
    return [message for message in seen if message.kind == "RESPONSE" and message.id == id]


def reply_payloads(link: Link, id: int) -> list[bytes]:
    """Payloads of the PUTs that answer a request."""
    found = [message.body for message in replies(link, id) if message.body is not None]
    return [body.body.payload for body in found if body.kind == "REPLY" and body.body is not None]


def finals(messages: list[Message], id: int) -> int:
    """Number of RESPONSE_FINAL messages for a request."""
    return sum(message.kind == "RESPONSE_FINAL" and message.id == id for message in messages)


def respond(link: Link, asked: Message, *payloads: bytes, key: str | None = None) -> None:
    """Answer a REQUEST by a REPLY for each payload, and finish it."""
    at = link.text(asked) if key is None else key
    link.send(*(wire.response(asked.id, at, wire.reply(wire.put(payload))) for payload in payloads))
    link.send(wire.response_final(asked.id))


# ---- Content on its way ----


def arrived(link: Link) -> list[str]:
    """Keys of the PUSH messages that the node has sent on a link up to now."""
    return [link.text(message) for message in link.barrier() if message.kind == "PUSH"]


def pushed(target: Target, body: bytes, *exts: wire.Ext) -> Message:
    """A PUSH with a body and extensions as it arrives at a subscriber."""
    with target.flow() as flow:
        flow.sender.send(wire.push(f"{flow.key}/a", body, *exts))
        flow.sender.waiting += flow.sender.barrier()
        seen = flow.received()
        expect(len(seen) == 1, f"{len(seen)} PUSH messages came for one")
        return seen[0]


def requested(target: Target, body: bytes, *exts: wire.Ext) -> Message:
    """A REQUEST with a body and extensions as it arrives at a queryable."""
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        get(querier, key, *exts, body=body)
        querier.waiting += querier.barrier()
        return server.next("REQUEST")


def responded(target: Target, body: bytes, *exts: wire.Ext, asking: tuple[wire.Ext, ...] = ()) -> Message:
    """A RESPONSE as it arrives at the querier; ``asking`` are the extensions of the REQUEST."""
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        id = get(querier, key, *asking)
        asked = server.next("REQUEST")
        server.send(wire.response(asked.id, key, body, *exts), wire.response_final(asked.id))
        server.waiting += server.barrier()
        seen = replies(querier, id)
        expect(len(seen) == 1, f"{len(seen)} RESPONSE messages came for one")
        expect(querier.text(seen[0]) == key, f"key {querier.text(seen[0])}")
        return seen[0]


def body_of(message: Message) -> Message:
    """PUT, DEL, QUERY or ERR of a message, also one within a REPLY."""
    body = message.body
    if body is not None and body.kind == "REPLY":
        body = body.body
    if body is None:
        raise AssertionError(f"{message.kind} was read without its body")
    return body


# ---- Link state ----


@dataclass
class Record:
    """Record of a node in link state (``zenoh-wire`` 4.9)."""

    psid: int
    sn: int
    zid: bytes | None = None
    role: int | None = None
    """1 for a router, 2 for a peer, 4 for a client."""
    locators: list[str] = field(default_factory=list)
    links: list[int] = field(default_factory=list)

    def __bytes__(self) -> bytes:
        options = (self.zid is not None) | (self.role is not None) << 1 | bool(self.locators) << 2
        octets = wire.vle(options) + wire.vle(self.psid) + wire.vle(self.sn)
        octets += b"" if self.zid is None else wire.sized(self.zid)
        octets += b"" if self.role is None else bytes([self.role])
        if self.locators:
            octets += wire.vle(len(self.locators)) + b"".join(wire.sized(at.encode()) for at in self.locators)
        return octets + wire.vle(len(self.links)) + b"".join(map(wire.vle, self.links))


def link_state(*records: Record) -> bytes:
    """OAM with link state."""
    return wire.oam(LINK_STATE, state_body(*records), wire.qos(wire.CONTROL, block=True))


def state_body(*records: Record) -> bytes:
    """Body of link state."""
    return wire.vle(len(records)) + b"".join(map(bytes, records))


def records_of(body: bytes) -> list[Record]:
    """Read the body of link state; raises :exc:`zwire.conformance.zenoh._wire.Undecodable`."""
    reader = wire.Reader(body)
    found = [_record(reader) for _ in range(reader.number())]
    if reader.rest:
        raise wire.Undecodable(f"{len(reader.rest)} bytes behind the last record of link state")
    return found


def _record(reader: wire.Reader) -> Record:
    options = reader.number()
    record = Record(reader.number(), reader.number())
    record.zid = reader.sized() if options & 1 else None
    record.role = reader.octet() if options & 2 else None
    if options & 4:
        record.locators = [reader.sized().decode() for _ in range(reader.number())]
    record.links = [reader.number() for _ in range(reader.number())]
    if options & 8:
        for _ in record.links:
            reader.number()
    return record


def state_from(link: Link, timeout: float = PATIENCE) -> list[Record]:
    """Records of the next OAM with link state that the node sends."""
    found = link.until(lambda message: message.kind == "OAM" and message.id == LINK_STATE, timeout)
    return records_of(found[-1].payload)
