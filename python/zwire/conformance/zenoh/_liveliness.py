"""Rules of liveliness: tokens, those that ask for them, and their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE
from zwire.conformance.zenoh._scene import (
    NULL_KEY,
    TOKEN,
    announce,
    ask,
    bodies,
    clients,
    keys,
    watch,
    withdraw,
    withdrawn_key,
)
from zwire.conformance.zenoh._wire import CURRENT, CURRENT_FUTURE, KEYEXPRS, TOKENS

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Link, Target


def _live(asker: Link, key: str) -> list[str]:
    """Keys of tokens that a liveliness get returns."""
    return keys(asker, ask(asker, CURRENT, KEYEXPRS | TOKENS, key, id=asker.target.unique_id()))


def _history(asker: Link, key: str) -> dict[int, str]:
    """Subscribe to liveliness with history; returns the keys of tokens by the ids of their announcements."""
    found = bodies(ask(asker, CURRENT_FUTURE, KEYEXPRS | TOKENS, key), "D_TOKEN")
    return {body.id: asker.text(body) for body in found}


def _expect_end(asker: Link, known: dict[int, str], key: str) -> None:
    gone = asker.next("U_TOKEN").body
    seen = gone and withdrawn_key(asker, gone, known)
    expect(seen == key, f"U_TOKEN names {seen}")


@BOOK.rule(
    "zenoh-behaviour-3.10/get",
    MUST,
    "A liveliness get returns the keys of all live tokens that intersect its key.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (one, two, asker):
        announce(one, TOKEN, f"{key}/a")
        announce(one, TOKEN, f"{key}/b/c", id=2)
        announce(two, TOKEN, f"{key}/d")
        announce(two, TOKEN, f"{key}-other", id=2)
        seen = _live(asker, f"{key}/**")
        expect(seen == [f"{key}/a", f"{key}/b/c", f"{key}/d"], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-3.10/get-without-token",
    MUST,
    "A liveliness get that no token matches ends at once, without the wait of its time-out.",
)
def _(target: Target) -> None:
    with target.link() as asker:
        seen = _live(asker, f"{target.unique_key()}/**")
        expect(not seen, f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-3.10/get-once-per-key",
    MUST,
    "A liveliness get returns a key once, however many tokens have it.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (one, two, asker):
        announce(one, TOKEN, key)
        announce(one, TOKEN, key, id=2)
        announce(two, TOKEN, key)
        seen = _live(asker, key)
        expect(seen == [key], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-3.10/get-after-end",
    MUST,
    "A liveliness get returns no token that has been undeclared.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, TOKEN, f"{key}/a")
        announce(owner, TOKEN, f"{key}/b", id=2)
        withdraw(owner, TOKEN)
        seen = _live(asker, f"{key}/*")
        expect(seen == [f"{key}/b"], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-3.10/history",
    MUST,
    "An interest in current and future tokens returns those that live, and later those that appear.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, TOKEN, f"{key}/a")
        known = _history(asker, f"{key}/*")
        expect(list(known.values()) == [f"{key}/a"], f"history {known}")
        announce(owner, TOKEN, f"{key}/b", id=2)
        body = asker.next("D_TOKEN").body
        expect(body and asker.text(body) == f"{key}/b", "another key came")


@BOOK.rule(
    "zenoh-behaviour-3.10/undeclared",
    MUST,
    "A node announces the end of an undeclared token to those that have an interest in it.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, TOKEN, f"{key}/a")
        known = _history(asker, f"{key}/*")
        withdraw(owner, TOKEN)
        _expect_end(asker, known, f"{key}/a")


@BOOK.rule(
    "zenoh-behaviour-3.10/undeclared-with-null-key",
    MUST,
    "A receiver takes a U_TOKEN with a null WireExpr extension by its id.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, TOKEN, f"{key}/a")
        known = _history(asker, f"{key}/*")
        withdraw(owner, TOKEN, 1, NULL_KEY)
        _expect_end(asker, known, f"{key}/a")


@BOOK.rule(
    "zenoh-behaviour-3.10/cut",
    MUST,
    "A node announces the end of the tokens of a link that was cut.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, TOKEN, f"{key}/a")
        known = _history(asker, f"{key}/*")
        owner.stream.close()
        _expect_end(asker, known, f"{key}/a")


@BOOK.rule(
    "zenoh-behaviour-3.10/closed",
    MUST,
    "A node announces the end of the tokens of a link that CLOSE has ended.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, TOKEN, f"{key}/a")
        known = _history(asker, f"{key}/*")
        owner.send_batch(wire.close(0))
        _expect_end(asker, known, f"{key}/a")


@BOOK.rule(
    "zenoh-behaviour-3.10/lease",
    MUST,
    "A node announces the end of the tokens of a link that was silent for the lease that it has announced.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with target.link(lease_ms=1000) as owner, target.link() as asker:
        announce(owner, TOKEN, f"{key}/a")
        known = _history(asker, f"{key}/*")
        _expect_end(asker, known, f"{key}/a")


@BOOK.rule(
    "zenoh-behaviour-3.10/second-token",
    MUST,
    "A second token on a live key is not announced, and neither is the end of one of the two.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (one, two, asker):
        announce(one, TOKEN, key)
        known = _history(asker, key)
        announce(two, TOKEN, key)
        withdraw(one, TOKEN)
        early = [body.kind for body in bodies(asker.barrier())]
        expect(not early, f"{early} came while a token is left")
        withdraw(two, TOKEN)
        _expect_end(asker, known, key)


@BOOK.rule(
    "zenoh-behaviour-3.10/declared-again",
    MUST,
    "A token that is declared again after its end is announced again.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        known = _history(asker, key)
        for _ in range(2):
            announce(owner, TOKEN, key)
            body = asker.next("D_TOKEN").body
            expect(body and asker.text(body) == key, "another key came")
            known = {body.id: key} if body else {}
            withdraw(owner, TOKEN)
            _expect_end(asker, known, key)


@BOOK.rule(
    "zenoh-behaviour-3.10/end-of-unseen-token",
    MUST,
    "A node names the key in the U_TOKEN of a token that it has not announced to the receiver.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, TOKEN, f"{key}/a")
        watch(asker, KEYEXPRS | TOKENS, f"{key}/*")
        withdraw(owner, TOKEN)
        _expect_end(asker, {}, f"{key}/a")


@BOOK.rule(
    "zenoh-behaviour-3.10/verbatim",
    MUST,
    "Wildcards in the key of a liveliness get match no chunk of a token that begins with @.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, TOKEN, f"{key}/@v/a")
        seen = [_live(asker, f"{key}/{name}") for name in ("**", "*/a", "@v/*")]
        expect(seen == [[], [], [f"{key}/@v/a"]], f"keys {seen} for **, */a and @v/*")


@BOOK.rule(
    "zenoh-behaviour-3.10/wild-token",
    OBSERVED,
    "A liveliness get returns a token that has a key with wildcards, by that key.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        announce(owner, TOKEN, f"{key}/*/x")
        seen = _live(asker, f"{key}/a/x")
        expect(seen == [f"{key}/*/x"], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.3/own-tokens",
    OBSERVED,
    "A node's answer to a client has the client's own tokens.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with target.link() as owner:
        announce(owner, TOKEN, f"{key}/a")
        seen = _live(owner, f"{key}/*")
        expect(seen == [f"{key}/a"], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.3/own-tokens-announced",
    OBSERVED,
    "A node announces a client's own tokens to it for its Future interest.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with target.link() as owner:
        watch(owner, KEYEXPRS | TOKENS, f"{key}/*")
        owner.declare(wire.d_token(1, f"{key}/a"))
        seen = keys(owner, owner.barrier())
        expect(seen == [f"{key}/a"], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-3.10/no-data",
    MUST,
    "A node sends subscribers nothing for tokens on their key.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        announce(flow.sender, TOKEN, f"{flow.key}/a")
        withdraw(flow.sender, TOKEN)
        seen = flow.received()
        expect(not seen, f"{len(seen)} PUSH messages came")


@BOOK.rule(
    "zenoh-behaviour-3.10/many-tokens",
    MUST,
    "A liveliness get returns each of 300 tokens of one link.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (owner, asker):
        for id in range(1, 301):
            owner.declare(wire.d_token(id, f"{key}/{id}"))
        owner.barrier()
        seen = _live(asker, f"{key}/*")
        expect(len(set(seen)) == 300, f"{len(set(seen))} keys")


BOOK.unreachable(
    "zenoh-behaviour-3.10/get-time-out",
    MUST,
    "A session ends a liveliness get by the ERR Timeout if its D_FINAL does not come.",
    "no message shows the result of a get of the node's own application",
)
