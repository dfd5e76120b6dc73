"""Rules of links of peers, to a router and to a peer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._scene import (
    DECLARES,
    LINK_STATE,
    OPTION,
    QUERYABLE,
    SUBSCRIBER,
    TOKEN,
    WITHDRAWS,
    announce,
    arrived,
    ask,
    bodies,
    clients,
    get,
    is_final,
    keys,
    links,
    records_of,
    replies,
    reply_payloads,
    respond,
    send_interest,
    state_from,
    withdraw,
    withdrawn_key,
)
from zwire.conformance.zenoh._wire import (
    AGGREGATE,
    CLIENT,
    CURRENT,
    CURRENT_FUTURE,
    PEER,
    SUBSCRIBERS,
    TOKENS,
)

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Link, Target

ROUTER = ("router",)
PASSING = 1.0
"""Seconds within which a peer passes an interest on, where only time can tell that it does not."""
KINDS = (SUBSCRIBER, QUERYABLE, TOKEN)


def _crosses(target: Target, publisher_role: int, subscriber_role: int) -> bool:
    """Whether a PUSH of one link reaches a subscriber of another one."""
    key = target.unique_key()
    with links(target, publisher_role, subscriber_role) as (publisher, subscriber):
        subscriber.subscribe(f"{key}/*")
        publisher.send(wire.push(f"{key}/a", wire.put()))
        publisher.barrier()
        return arrived(subscriber) == [f"{key}/a"]


def _is_asked(target: Target, querier_role: int, server_role: int) -> bool:
    """Whether a query of one link reaches a queryable of another one, and the reply comes back."""
    key = target.unique_key()
    with links(target, querier_role, server_role) as (querier, server):
        server.serve(key)
        id = get(querier, key)
        querier.waiting += querier.barrier()
        for message in server.barrier():
            if message.kind == "REQUEST":
                respond(server, message, b"x")
        return reply_payloads(querier, id) == [b"x"]


# ---- A peer on a router ----


@BOOK.rule(
    "zenoh-behaviour-1.4/link-state-for-peers",
    SHOULD,
    "A router sends a peer link state first, if need be an empty list.",
    roles=ROUTER,
)
def _(target: Target) -> None:
    with target.link(role=PEER) as peer:
        first = peer.until(lambda _: True)[0]
        expect((first.kind, first.id) == ("OAM", LINK_STATE), f"first came {first.kind} {first.raw.hex()}")
        records_of(first.payload)


@BOOK.rule(
    "zenoh-behaviour-4.6/nothing-more-for-peers",
    SHOULD,
    "A router sends a peer no declarations for which the peer has no interest.",
    roles=ROUTER,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with links(target, CLIENT, PEER) as (owner, peer):
        for kind in KINDS:
            announce(owner, kind, f"{key}/{kind}", id=kind)
        seen = [body.kind for body in bodies(peer.barrier())]
        expect(not seen, f"{seen} came")


@BOOK.rule(
    "zenoh-behaviour-5.3/peer-to-client",
    MUST,
    "A router forwards a PUSH of a peer to a client that subscribes to its key.",
    roles=ROUTER,
)
def _(target: Target) -> None:
    expect(_crosses(target, PEER, CLIENT), "the PUSH did not come")


@BOOK.rule(
    "zenoh-behaviour-5.3/client-to-peer",
    MUST,
    "A router forwards a PUSH of a client to a peer that subscribes to its key.",
    roles=ROUTER,
)
def _(target: Target) -> None:
    expect(_crosses(target, CLIENT, PEER), "the PUSH did not come")


@BOOK.rule(
    "zenoh-behaviour-5.3/peer-to-peer",
    OBSERVED,
    "A router forwards no PUSH from one of its peers to another one.",
    seen=RELEASE,
    roles=ROUTER,
)
def _(target: Target) -> None:
    expect(not _crosses(target, PEER, PEER), "the PUSH came")


@BOOK.rule(
    "zenoh-behaviour-5.4/peer-asks-client",
    MUST,
    "A router forwards the query of a peer to a client's queryable.",
    roles=ROUTER,
)
def _(target: Target) -> None:
    expect(_is_asked(target, PEER, CLIENT), "the reply did not come")


@BOOK.rule(
    "zenoh-behaviour-5.4/client-asks-peer",
    MUST,
    "A router forwards the query of a client to a peer's queryable.",
    roles=ROUTER,
)
def _(target: Target) -> None:
    expect(_is_asked(target, CLIENT, PEER), "the reply did not come")


@BOOK.rule(
    "zenoh-behaviour-5.5/peer-asks-peer",
    OBSERVED,
    "A router forwards no query from one of its peers to another one.",
    seen=RELEASE,
    roles=ROUTER,
)
def _(target: Target) -> None:
    expect(not _is_asked(target, PEER, PEER), "the reply came")


@BOOK.rule(
    "zenoh-behaviour-5.5/interest-of-peer",
    MUST,
    "A router answers the interest of a peer by what its clients have declared, and then D_FINAL.",
    roles=ROUTER,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with links(target, CLIENT, PEER) as (owner, peer):
        for kind in KINDS:
            announce(owner, kind, f"{key}/{kind}", id=kind)
        seen = keys(peer, ask(peer, CURRENT_FUTURE, sum(OPTION.values()), f"{key}/*"))
        expect(seen == [f"{key}/{kind}" for kind in KINDS], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-5.5/entities-of-peer",
    MUST,
    "A router announces to clients what its peers have declared, and its end with the peer's link.",
    roles=ROUTER,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with links(target, CLIENT, PEER) as (asker, peer):
        for kind in KINDS:
            announce(peer, kind, f"{key}/{kind}", id=kind)
        found = bodies(ask(asker, CURRENT_FUTURE, sum(OPTION.values()), f"{key}/*"))
        seen = sorted(asker.text(body) for body in found)
        expect(seen == [f"{key}/{kind}" for kind in KINDS], f"keys {seen}")
        peer.stream.close()
        ended: set[str] = set()
        while ended != set(WITHDRAWS.values()):
            body = asker.until(lambda m: bodies([m], *WITHDRAWS.values()))[-1].body
            ended.add(body.kind if body else "")


@BOOK.rule(
    "zenoh-behaviour-4.3/own-tokens-of-peer",
    OBSERVED,
    "A router's answer to a peer leaves out the peer's own tokens.",
    seen=RELEASE,
    roles=ROUTER,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with links(target, PEER) as (peer,):
        announce(peer, TOKEN, f"{key}/a")
        seen = keys(peer, ask(peer, CURRENT, TOKENS, f"{key}/*"))
        expect(not seen, f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.3/aggregate-of-peer",
    OBSERVED,
    "A router ignores the option aggregate in the interest of a peer.",
    seen=RELEASE,
    roles=ROUTER,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with links(target, CLIENT, PEER) as (owner, peer):
        owner.subscribe(f"{key}/**")
        seen = keys(peer, ask(peer, CURRENT_FUTURE, SUBSCRIBERS | AGGREGATE, f"{key}/a"))
        expect(seen == [f"{key}/**"], f"keys {seen}")


@BOOK.rule(
    "zenoh-wire-4.10/peer-without-final",
    MUST,
    "A router forwards the PUSH of a peer without D_FINAL, and sends that peer only what it declared.",
    roles=ROUTER,
)
def _(target: Target) -> None:
    with target.flow(role=PEER) as flow:
        flow.sender.send(wire.push(f"{flow.key}/a", wire.put(b"early")))
        seen = flow.payloads()
        expect(seen == [b"early"], f"payloads {seen}")
        with target.link() as other:
            other.send(wire.push(f"{flow.key}/b", wire.put()))
            other.barrier()
        expect(not arrived(flow.sender), "a PUSH came that the peer has no subscriber for")


@BOOK.rule(
    "zenoh-behaviour-4.7/declarations-with-interest-0",
    MUST,
    "A node takes the declarations of a peer also if they carry the interest id 0.",
    roles=ROUTER,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with links(target, CLIENT, PEER) as (publisher, peer):
        peer.declare(wire.d_subscriber(1, f"{key}/*"), interest=0)
        peer.declare(wire.d_final(), interest=0)
        peer.barrier()
        publisher.send(wire.push(f"{key}/a", wire.put()))
        expect(peer.text(peer.next("PUSH")) == f"{key}/a", "another key came")


# ---- A peer on a peer ----


@BOOK.rule(
    "zenoh-behaviour-4.6/link-state-of-peer",
    SHOULD,
    "A peer sends a peer link state, with its own record first.",
    roles=("peer",),
    alone=True,
)
def _(target: Target) -> None:
    with target.link(role=PEER) as peer:
        found = state_from(peer)
        expect(found and found[0].psid == 0, f"records {found}")
        expect(found[0].zid == target.zid and found[0].role == 2, f"record {found[0]}")


@BOOK.rule(
    "zenoh-behaviour-4.6/initial-final",
    MUST,
    "A peer sends a peer D_FINAL with the interest id 0 when it has declared all, also if that is nothing.",
    roles=("peer",),
    alone=True,
)
def _(target: Target) -> None:
    with target.link(role=PEER) as peer:
        peer.until(lambda message: is_final(message, 0))


@BOOK.rule(
    "zenoh-behaviour-4.6/initial-declarations",
    MUST,
    "A peer sends a peer, before D_FINAL, the subscribers, queryables and tokens of its clients.",
    roles=("peer",),
    alone=True,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with target.link() as owner:
        for kind in KINDS:
            announce(owner, kind, f"{key}/{kind}", id=kind)
        with target.link(role=PEER) as peer:
            seen = peer.until(lambda message: is_final(message, 0))
            found = [name for name in keys(peer, seen) if name.startswith(key)]
            expect(found == [f"{key}/{kind}" for kind in KINDS], f"keys {found}")


def _expect_declared_and_withdrawn(owner: Link, peer: Link, kind: int, key: str) -> None:
    """Check that a peer hears of an entity and of its end, among what it hears of other links."""
    announce(owner, kind, key)
    seen = peer.until(lambda message: keys(peer, [message]) == [key])
    body = bodies(seen)[-1]
    expect(body.kind == DECLARES[kind], f"{body.kind} came")
    withdraw(owner, kind)
    peer.until(
        lambda message: (
            key in [withdrawn_key(peer, gone, {body.id: key}) for gone in bodies([message], WITHDRAWS[kind])]
        )
    )


@BOOK.rule(
    "zenoh-behaviour-4.6/later-declarations",
    MUST,
    "A peer declares to a peer each new entity as it appears, and undeclares it when it ends.",
    roles=("peer",),
    alone=True,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with links(target, CLIENT, PEER) as (owner, peer):
        for kind in KINDS:
            _expect_declared_and_withdrawn(owner, peer, kind, f"{key}/{kind}")


@BOOK.rule(
    "zenoh-behaviour-4.5/only-matches-after-final",
    MUST,
    "A peer that has got the D_FINAL of a peer sends it only the PUSH and REQUEST messages that match.",
    roles=("peer",),
    alone=True,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with links(target, CLIENT, PEER) as (client, peer):
        peer.subscribe(f"{key}/in")
        for name in ("out", "in"):
            client.send(wire.push(f"{key}/{name}", wire.put()))
        expect(not replies(client, get(client, f"{key}/out")), "a reply came")
        seen = [peer.text(message) for message in peer.barrier() if message.kind in {"PUSH", "REQUEST"}]
        expect(seen == [f"{key}/in"], f"got {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.5/everything-before-final",
    OBSERVED,
    "A peer sends a peer all PUSH messages until it gets its D_FINAL.",
    seen=RELEASE,
    roles=("peer",),
    alone=True,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with target.link() as client, target.link(role=PEER) as peer:
        peer.until(lambda message: is_final(message, 0))
        client.send(wire.push(f"{key}/a", wire.put()))
        expect(peer.text(peer.next("PUSH")) == f"{key}/a", "another key came")


@BOOK.rule(
    "zenoh-behaviour-4.5/query-before-final",
    OBSERVED,
    "A peer sends a peer all REQUEST messages until it gets its D_FINAL.",
    seen=RELEASE,
    roles=("peer",),
    alone=True,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with target.link() as client, target.link(role=PEER) as peer:
        # The first message says that the target knows the peer; the end of the handshake does not.
        peer.until(lambda _: True)
        id = get(client, key)
        asked = peer.next("REQUEST")
        respond(peer, asked, b"blind")
        seen = reply_payloads(client, id)
        expect(seen == [b"blind"], f"replies {seen}")


@BOOK.rule(
    "zenoh-behaviour-5.5/between-peer-and-client",
    MUST,
    "A peer forwards PUSH messages and queries between its clients and other peers.",
    roles=("peer",),
    alone=True,
)
def _(target: Target) -> None:
    for one, other in ((PEER, CLIENT), (CLIENT, PEER)):
        expect(_crosses(target, one, other), f"no PUSH from {one} to {other} (1 is a peer, 2 a client)")
        expect(_is_asked(target, one, other), f"no reply to {one} from {other} (1 is a peer, 2 a client)")


@BOOK.rule(
    "zenoh-behaviour-5.5/not-between-peers",
    SHOULD,
    "A peer forwards nothing between two other peers.",
    roles=("peer",),
    alone=True,
)
def _(target: Target) -> None:
    expect(not _crosses(target, PEER, PEER), "a PUSH came")
    expect(not _is_asked(target, PEER, PEER), "a query came")


@BOOK.rule(
    "zenoh-behaviour-9.3/tokens-for-peer",
    MUST,
    "A peer answers a Current interest of a peer in tokens by the tokens and D_FINAL.",
    roles=("peer",),
    alone=True,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with links(target, CLIENT, PEER) as (owner, peer):
        announce(owner, TOKEN, f"{key}/a")
        peer.barrier()
        seen = keys(peer, ask(peer, CURRENT, TOKENS, f"{key}/*"))
        expect(seen == [f"{key}/a"], f"keys {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.4/token-interest-is-passed-on",
    OBSERVED,
    "A peer passes a client's interest in tokens on to peers without D_FINAL, and waits for theirs.",
    seen=RELEASE,
    roles=("peer",),
    alone=True,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with target.link() as client, target.link(role=PEER) as peer:
        peer.until(lambda message: is_final(message, 0))
        send_interest(client, wire.interest(5, CURRENT, TOKENS, f"{key}/*"))
        passed = peer.next("INTEREST", PASSING)
        expect(passed.key and peer.text(passed) == f"{key}/*", f"interest {passed.raw.hex()}")
        peer.declare(wire.d_token(0, f"{key}/a"), wire.d_final(), interest=passed.id)
        seen = client.until(lambda message: is_final(message, 5))
        expect(keys(client, seen) == [f"{key}/a"], f"keys {keys(client, seen)}")


@BOOK.rule(
    "zenoh-behaviour-4.4/link-end-is-final",
    MUST,
    "A peer that waits for a D_FINAL of another peer takes the end of that link for it.",
    roles=("peer",),
    alone=True,
)
def _(target: Target) -> None:
    with target.link() as client, target.link(role=PEER) as peer:
        peer.until(lambda message: is_final(message, 0))
        send_interest(client, wire.interest(5, CURRENT, TOKENS, target.unique_key()))
        peer.stream.close()
        client.until(lambda message: is_final(message, 5))


@BOOK.rule(
    "zenoh-behaviour-5.3/many-peers",
    MUST,
    "A router sends a PUSH of a client once to each of 20 peers that subscribe to its key.",
    roles=ROUTER,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with links(target, CLIENT, *[PEER] * 20) as (publisher, *peers):
        for peer in peers:
            peer.subscribe(f"{key}/*")
        publisher.send(wire.push(f"{key}/a", wire.put()))
        publisher.barrier()
        wrong = [seen for seen in map(arrived, peers) if seen != [f"{key}/a"]]
        expect(not wrong, f"{len(wrong)} peers got something else, such as {wrong[:1]}")


@BOOK.rule(
    "zenoh-wire-4.10/no-loop",
    MUST,
    "A node sends a PUSH once to a link, also if links that it serves publish the same again.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (publisher, relay, subscriber):
        for link in (publisher, relay, subscriber):
            link.subscribe(f"{key}/*")
        publisher.send(wire.push(f"{key}/a", wire.put(b"1")))
        relay.next("PUSH")
        relay.send(wire.push(f"{key}/a", wire.put(b"2")))
        relay.waiting += relay.barrier()
        seen = [len(arrived(link)) for link in (publisher, relay, subscriber)]
        expect(seen == [1, 0, 2], f"{seen} PUSH messages at publisher, relay and subscriber")
