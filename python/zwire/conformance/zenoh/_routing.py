"""Rules of the routing of PUSH: to which links it goes, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE
from zwire.conformance.zenoh._scene import QUERYABLE, SUBSCRIBER, announce, arrived, clients, watch, withdraw
from zwire.conformance.zenoh._wire import SUBSCRIBERS, Key

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Link, Target


def _publish(link: Link, *keys: str) -> None:
    """Publish on keys, each with itself as the payload, and wait until the node has taken them."""
    for key in keys:
        link.send(wire.push(key, wire.put(key.encode())))
    link.waiting += link.barrier()


def _matches(target: Target, subscribed: str, matching: tuple[str, ...], others: tuple[str, ...]) -> None:
    """Check which published keys reach a subscriber; all are below one key."""
    key = target.unique_key()
    with clients(target) as (subscriber, publisher):
        subscriber.subscribe(f"{key}/{subscribed}")
        _publish(publisher, *(f"{key}/{name}" for name in (*others, *matching)))
        seen = [name.removeprefix(f"{key}/") for name in arrived(subscriber)]
        expect(seen == list(matching), f"got {seen} of {matching} and {others}")


# ---- Keys that match ----


@BOOK.rule(
    "zenoh-behaviour-5.3/exact-key",
    MUST,
    "A PUSH reaches a subscriber of its key, and none of another key.",
)
def _(target: Target) -> None:
    _matches(target, "a/b", ("a/b",), ("a", "a/b/c", "a/bb", "A/b"))


@BOOK.rule("zenoh-behaviour-3.1/star", MUST, "The wildcard * matches exactly one chunk.")
def _(target: Target) -> None:
    _matches(target, "a/*/c", ("a/x/c", "a/y/c"), ("a/c", "a/x/y/c", "b/x/c"))


@BOOK.rule(
    "zenoh-behaviour-3.1/double-star", MUST, "The wildcard ** matches any number of chunks, also none."
)
def _(target: Target) -> None:
    _matches(target, "a/**/c", ("a/c", "a/x/c", "a/x/y/c"), ("a/x", "b/c", "c"))


@BOOK.rule(
    "zenoh-behaviour-3.1/dollar-star",
    MUST,
    "The wildcard $* matches any characters within one chunk, also none.",
)
def _(target: Target) -> None:
    _matches(target, "a$*z/c", ("az/c", "a-z/c", "aaz/c"), ("a/z/c", "a/c", "az"))


@BOOK.rule(
    "zenoh-behaviour-3.1/verbatim-chunk",
    MUST,
    "A chunk that begins with @ matches the identical chunk.",
)
def _(target: Target) -> None:
    _matches(target, "@v/*", ("@v/a",), ("@w/a", "v/a"))


@BOOK.rule(
    "zenoh-behaviour-3.1/star-not-verbatim",
    MUST,
    "The wildcard * does not match a chunk that begins with @.",
)
def _(target: Target) -> None:
    _matches(target, "*/a", ("v/a",), ("@v/a",))


@BOOK.rule(
    "zenoh-behaviour-3.1/double-star-not-verbatim",
    MUST,
    "The wildcard ** does not match chunks among which one begins with @.",
)
def _(target: Target) -> None:
    _matches(target, "**", ("v/a", "v/a@"), ("@v", "@v/a", "v/@a", "v/@a/b"))


@BOOK.rule(
    "zenoh-behaviour-3.1/dollar-star-not-verbatim",
    MUST,
    "A chunk with the wildcard $* does not match a chunk that begins with @.",
)
def _(target: Target) -> None:
    _matches(target, "$*v/a", ("v/a", "wv/a"), ("@v/a",))


@BOOK.rule(
    "zenoh-wire-4.3/wild-push",
    MUST,
    "A PUSH with wildcards in its key reaches each subscriber that it intersects, with that key.",
)
def _(target: Target) -> None:
    _matches(target, "a/b", ("a/*", "**", "*/b", "a/b"), ("a/*/c", "b/*", "b/**"))


@BOOK.rule(
    "zenoh-behaviour-3.1/wild-with-wild",
    MUST,
    "Two keys with wildcards match if a key exists that both match.",
)
def _(target: Target) -> None:
    _matches(target, "a/*/c", ("a/b/*", "*/b/c", "**/c", "a/**", "a/b$*/c"), ("b/*/c", "a/*", "a/*/*/c"))


@BOOK.rule(
    "zenoh-behaviour-5.3/other-entities",
    MUST,
    "A PUSH does not reach links that have declared queryables or interests on its key, but no subscriber.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (publisher, server, asker):
        announce(server, QUERYABLE, f"{key}/**")
        watch(asker, SUBSCRIBERS, f"{key}/**")
        _publish(publisher, f"{key}/a")
        seen = arrived(server), arrived(asker)
        expect(seen == ([], []), f"got {seen}")


# ---- Which links, and how often ----


@BOOK.rule(
    "zenoh-behaviour-3.4/once-per-link",
    MUST,
    "A link with several subscribers that match a PUSH receives it once.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (subscriber, publisher):
        for id, name in enumerate(("a/b", "a/*", "**", "*/b"), 1):
            subscriber.subscribe(f"{key}/{name}", id)
        _publish(publisher, f"{key}/a/b")
        seen = arrived(subscriber)
        expect(seen == [f"{key}/a/b"], f"got {seen}")


@BOOK.rule(
    "zenoh-behaviour-5.3/each-link", MUST, "Each link with a subscriber that matches a PUSH receives it."
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (one, two, publisher):
        one.subscribe(f"{key}/a")
        two.subscribe(f"{key}/*")
        _publish(publisher, f"{key}/a")
        seen = arrived(one), arrived(two)
        expect(seen == ([f"{key}/a"], [f"{key}/a"]), f"got {seen}")


@BOOK.rule(
    "zenoh-behaviour-5.3/fan-out",
    MUST,
    "A PUSH that subscribers on 20 links match reaches each of them once.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 21) as (publisher, *subscribers):
        for subscriber in subscribers:
            subscriber.subscribe(f"{key}/*")
        _publish(publisher, f"{key}/a", f"{key}/b")
        seen = [arrived(subscriber) for subscriber in subscribers]
        wrong = [names for names in seen if names != [f"{key}/a", f"{key}/b"]]
        expect(not wrong, f"{len(wrong)} links got something else, such as {wrong[:1]}")


@BOOK.rule(
    "zenoh-wire-4.10/no-echo",
    MUST,
    "A node does not send a PUSH back on the link that it came from, even if that link has a subscriber.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (subscriber, publisher):
        for link in (subscriber, publisher):
            link.subscribe(f"{key}/**")
        publisher.send(wire.push(f"{key}/a", wire.put()))
        echoed = arrived(publisher)
        seen = arrived(subscriber)
        expect((echoed, seen) == ([], [f"{key}/a"]), f"{len(echoed)} echoes, {len(seen)} at the other link")


@BOOK.rule(
    "zenoh-behaviour-5.3/order",
    MUST,
    "The PUSH messages of one link and one priority arrive complete and in their order.",
)
def _(target: Target) -> None:
    with target.flow() as flow:
        sent = [b"%d" % number for number in range(500)]
        for at in range(0, 500, 10):
            parts = [wire.push(f"{flow.key}/{p.decode()}", wire.put(p)) for p in sent[at : at + 10]]
            flow.sender.send(*parts)
        seen = flow.payloads()
        wrong = next(
            (at for at, pair in enumerate(zip(seen, sent, strict=False)) if pair[0] != pair[1]), None
        )
        expect(seen == sent, f"{len(seen)} of 500 came, the first one out of order is number {wrong}")


@BOOK.rule(
    "zenoh-behaviour-3.2/without-declaration",
    MUST,
    "A node forwards a PUSH also if the sender has declared nothing for its key.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (subscriber, publisher):
        subscriber.subscribe(key)
        publisher.send(wire.push(key, wire.put(b"at once")))
        got = subscriber.next("PUSH").body
        expect(got and got.payload == b"at once", f"got {got}")


@BOOK.rule(
    "zenoh-behaviour-3.2/not-kept",
    MUST,
    "A node does not keep publications for subscribers that come later.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (subscriber, publisher):
        _publish(publisher, f"{key}/early")
        subscriber.subscribe(f"{key}/*")
        _publish(publisher, f"{key}/late")
        seen = arrived(subscriber)
        expect(seen == [f"{key}/late"], f"got {seen}")


@BOOK.rule(
    "zenoh-behaviour-3.4/after-undeclaration",
    MUST,
    "A node sends nothing for a subscriber after its U_SUBSCRIBER.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (subscriber, publisher):
        subscriber.subscribe(f"{key}/a")
        subscriber.subscribe(f"{key}/b", 2)
        withdraw(subscriber, SUBSCRIBER)
        _publish(publisher, f"{key}/a", f"{key}/b")
        seen = arrived(subscriber)
        expect(seen == [f"{key}/b"], f"got {seen}")


@BOOK.rule(
    "zenoh-behaviour-3.4/declared-again",
    MUST,
    "A node sends to a subscriber that is declared again after its U_SUBSCRIBER.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (subscriber, publisher):
        for _ in range(2):
            subscriber.subscribe(f"{key}/a")
            _publish(publisher, f"{key}/a")
            withdraw(subscriber, SUBSCRIBER)
        seen = arrived(subscriber)
        expect(seen == [f"{key}/a"] * 2, f"got {seen}")


@BOOK.rule(
    "zenoh-behaviour-2.11/after-cut",
    MUST,
    "The end of a subscriber's link disturbs neither the publisher nor other subscribers of the key.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (gone, stays, publisher):
        gone.subscribe(f"{key}/*")
        stays.subscribe(f"{key}/*")
        _publish(publisher, f"{key}/a")
        gone.stream.close()
        _publish(publisher, f"{key}/b", f"{key}/c")
        seen = arrived(stays)
        expect(seen == [f"{key}/{name}" for name in "abc"], f"got {seen}")


@BOOK.rule(
    "zenoh-behaviour-2.11/new-link-starts-empty",
    MUST,
    "A new link of a ZenohID gets nothing for the subscribers of its last link.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with target.link() as publisher:
        with target.link() as old:
            old.subscribe(f"{key}/*")
            old.send_batch(wire.close(0))
            old.closed()
        with target.link(zid=old.zid) as new:
            new.subscribe(f"{key}/b", 7)
            _publish(publisher, f"{key}/a", f"{key}/b")
            seen = arrived(new)
            expect(seen == [f"{key}/b"], f"got {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.1/ids-of-publisher",
    MUST,
    "A node does not send the id that a publisher has declared to links that do not know it.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target, 3) as (one, two, publisher):
        publisher.name(11, f"{key}/a")
        for link in (one, two):
            link.subscribe(f"{key}/**")
        publisher.send(wire.push(Key("/b", 11), wire.put()))
        publisher.barrier()
        seen = arrived(one), arrived(two)
        expect(seen == ([f"{key}/a/b"],) * 2, f"got {seen}")


@BOOK.rule(
    "zenoh-behaviour-4.1/ids-of-subscriber",
    OBSERVED,
    "A node sends a PUSH by the id that the subscriber has declared for exactly its key, with M = 0.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (subscriber, publisher):
        subscriber.name(12, key)
        announce(subscriber, SUBSCRIBER, Key(None, 12))
        publisher.send(wire.push(key, wire.put()))
        got = subscriber.next("PUSH").key
        expect(got == Key(None, 12, of_sender=False), f"key {got}")


@BOOK.rule(
    "zenoh-behaviour-5.3/both-ways",
    MUST,
    "One link publishes and subscribes at once, on different keys.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (one, two):
        one.subscribe(f"{key}/one/*")
        two.subscribe(f"{key}/two/*")
        _publish(one, f"{key}/two/a")
        _publish(two, f"{key}/one/a")
        seen = arrived(one), arrived(two)
        expect(seen == ([f"{key}/one/a"], [f"{key}/two/a"]), f"got {seen}")


@BOOK.rule(
    "zenoh-behaviour-5.3/many-subscribers",
    MUST,
    "A node routes by each of 500 subscribers of one link.",
)
def _(target: Target) -> None:
    key = target.unique_key()
    with clients(target) as (subscriber, publisher):
        for id in range(1, 501):
            subscriber.declare(wire.d_subscriber(id, f"{key}/{id}"))
        subscriber.barrier()
        names = [f"{key}/{id}" for id in (1, 17, 250, 499, 500)]
        _publish(publisher, f"{key}/501", *names)
        seen = arrived(subscriber)
        expect(seen == names, f"got {seen}")


for _id, _sentence in {
    "session-local-subscriber": "A session does not declare subscribers of the locality SessionLocal.",
    "session-local-publication": "A session sends no publication of the locality SessionLocal.",
}.items():
    BOOK.unreachable(
        f"zenoh-behaviour-3.5/{_id}",
        MUST,
        _sentence,
        "locality is a choice of the application in the node, which no message tells",
    )
