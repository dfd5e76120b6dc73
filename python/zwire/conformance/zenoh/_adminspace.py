"""Rules of the admin space: what a node tells of itself below ``@/<zid>/<whatami>``."""

from __future__ import annotations

import functools
import json
import time
from typing import TYPE_CHECKING, Any

from zwire.conformance._rules import NotApplicable, expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._link import PATIENCE
from zwire.conformance.zenoh._scene import clients, get, replies

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Link, Target
    from zwire.conformance.zenoh._wire import Message

JSON = 5
"""Encoding ``application/json``."""

_rule = functools.partial(BOOK.rule, alone=True)
"""Rules that run alone: a node of eclipse-zenoh 1.10.2 may stop serving all its links if links end while it
answers a query for ``@/<zid>/<whatami>/**``."""


def _root(target: Target) -> str:
    (role,) = target.roles
    return f"@/{wire.zid_text(target.zid)}/{role}"


def _answers(link: Link, key: str) -> dict[str, Message]:
    """PUTs that answer a query to all queryables, by their keys."""
    found: dict[str, Message] = {}
    for message in replies(link, get(link, key, (0x34, 1))):
        if message.body is not None and message.body.body is not None:
            found[link.text(message)] = message.body.body
    return found


def _document(link: Link) -> dict[str, Any]:
    """JSON document of the root; raises :exc:`NotApplicable` for a node without admin space."""
    root = _root(link.target)
    found = _answers(link, root)
    if root not in found:
        raise NotApplicable("the node has no admin space, or it is off")
    try:
        document = json.loads(found[root].payload)
    except ValueError:
        document = None
    expect(isinstance(document, dict), f"{root} has {found[root].payload[:40]!r}, which is no JSON object")
    return document  # type: ignore[no-any-return]


@_rule(
    "zenoh-behaviour-6.1/root",
    SHOULD,
    "The root of the admin space answers with a JSON object that has the node's ZenohID and sessions.",
)
def _(target: Target) -> None:
    with target.link() as link:
        document = _document(link)
        missing = {"zid", "version", "locators", "sessions"}.difference(document)
        expect(not missing, f"no {', '.join(sorted(missing))} in {sorted(document)}")
        expect(document["zid"] == wire.zid_text(target.zid), f"zid {document['zid']!r}")


@_rule(
    "zenoh-behaviour-6.1/root-is-json",
    SHOULD,
    "The root of the admin space has the encoding application/json.",
)
def _(target: Target) -> None:
    with target.link() as link:
        _document(link)
        got = _answers(link, _root(target))[_root(target)].encoding
        expect(got == (JSON, None), f"encoding {got}")


@_rule(
    "zenoh-behaviour-6.1/sessions",
    SHOULD,
    "The sessions in the root of the admin space have each link's peer, by its ZenohID and its role.",
)
def _(target: Target) -> None:
    with target.link() as link:
        sessions = _document(link)["sessions"]
        seen = {entry.get("peer"): entry.get("whatami") for entry in sessions}
        expect(seen.get(wire.zid_text(link.zid)) == "client", f"{len(seen)} sessions, not this one")


@_rule(
    "zenoh-behaviour-6.1/session-ends",
    SHOULD,
    "The sessions in the root of the admin space leave out links that have ended.",
)
def _(target: Target) -> None:
    with target.link() as link:
        _document(link)
        with target.link() as gone:
            gone.send_batch(wire.close(0))
            gone.closed()
        deadline = time.monotonic() + PATIENCE
        while wire.zid_text(gone.zid) in [entry.get("peer") for entry in _document(link)["sessions"]]:
            expect(time.monotonic() < deadline, f"the link is listed {PATIENCE:g} s after its end")


@_rule(
    "zenoh-behaviour-6.1/any-node",
    SHOULD,
    "The root of the admin space answers queries that have * in place of the ZenohID.",
)
def _(target: Target) -> None:
    with target.link() as link:
        _document(link)
        root = _root(target)
        found = _answers(link, f"@/*/{root.rpartition('/')[2]}")
        expect(root in found, f"{len(found)} answers, none of {root}")


@_rule(
    "zenoh-behaviour-6.1/all-of-node",
    SHOULD,
    "A query for everything from the root of the admin space on gets the root among its replies.",
)
def _(target: Target) -> None:
    with target.link() as link:
        _document(link)
        found = _answers(link, f"{_root(target)}/**")
        expect(_root(target) in found, f"{len(found)} answers, not the root")


@_rule(
    "zenoh-behaviour-6.1/other-node",
    MUST,
    "The admin space of a node answers no query for the ZenohID of another node.",
)
def _(target: Target) -> None:
    with target.link() as link:
        _document(link)
        found = _answers(link, f"@/{wire.zid_text(link.zid)}/{_root(target).rpartition('/')[2]}")
        expect(not found, f"answers {sorted(found)}")


@_rule(
    "zenoh-wire-6.5/hidden-from-wildcards",
    MUST,
    "The admin space answers no query that begins with a wildcard, such as ** or */*/router.",
)
def _(target: Target) -> None:
    with target.link() as link:
        _document(link)
        for key in ("**", f"*/{_root(target).partition('/')[2]}", "*/**"):
            found = [name for name in _answers(link, key) if name.startswith("@/")]
            expect(not found, f"{key} is answered by {found}")


@_rule(
    "zenoh-behaviour-6.1/entities",
    OBSERVED,
    "The admin space lists subscribers, queryables and tokens by their key, with their nodes.",
    seen=RELEASE,
    roles=("router",),
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        _document(asker)
        owner.declare(wire.d_subscriber(1, key), wire.d_queryable(1, key), wire.d_token(1, key))
        owner.barrier()
        for name in ("subscriber", "queryable", "token"):
            entry = f"{_root(target)}/{name}/{key}"
            found = _answers(asker, entry)
            expect(entry in found, f"nothing at {entry}")
            nodes = json.loads(found[entry].payload)
            expect(wire.zid_text(owner.zid) in nodes.get("clients", []), f"{entry} has {nodes}")


@_rule(
    "zenoh-behaviour-6.1/entity-ends",
    OBSERVED,
    "The admin space lists no subscriber that has been undeclared.",
    seen=RELEASE,
    roles=("router",),
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        _document(asker)
        owner.subscribe(key)
        before = _answers(asker, f"{_root(target)}/subscriber/{key}")
        owner.declare(wire.undeclare(2, 1))
        owner.barrier()
        after = _answers(asker, f"{_root(target)}/subscriber/{key}")
        expect((len(before), len(after)) == (1, 0), f"{len(before)} answers before and {len(after)} after")


@_rule(
    "zenoh-behaviour-6.1/responder",
    OBSERVED,
    "The replies of the admin space carry the ZenohID of the node as their responder.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link() as link:
        _document(link)
        for message in replies(link, get(link, _root(target))):
            got = message.ext(0x43)
            wanted = bytes([(len(target.zid) - 1) << 4]) + target.zid
            expect(isinstance(got, bytes) and got.startswith(wanted), f"responder {got!r}")


@_rule(
    "zenoh-behaviour-6.1/read-only",
    SHOULD,
    "A node keeps its link and its answers after a PUT of nonsense to its configuration.",
)
def _(target: Target) -> None:
    with target.link() as link:
        before = _document(link)["version"]
        link.send(wire.push(f"{_root(target)}/config/conformance", wire.put(b"not JSON5 {")))
        expect(link.lives(), "the node closed the link")
        expect(_document(link)["version"] == before, "the answer of the root has changed")
