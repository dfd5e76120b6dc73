"""Rules of key expressions: forms that are refused, and which of them match."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, SHOULD
from zwire.conformance.zenoh._scene import (
    QUERYABLE,
    SUBSCRIBER,
    TOKEN,
    announce,
    ask,
    bodies,
    clients,
    get,
    keys,
    replies,
    reply_payloads,
    respond,
)
from zwire.conformance.zenoh._wire import CURRENT, CURRENT_FUTURE, SUBSCRIBERS, TOKENS, Key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zwire.conformance.zenoh._link import Target

BLOCK = wire.qos(block=True)
ALL, ALL_COMPLETE = 1, 2
"""Targets of a query."""
Pair = tuple[str, str]

EXAMPLES = """
a a TTT, a b fff, a/b a/b TTT, a a/b fff, * a TTf, * a/b fff, * @a fff, * ** TfT, ** a TTf, ** a/b/c TTf
** @a fff, ** a/@b fff, ** @a/b fff, ** * TTf, ** **/a TTf, a/** a TTf, a/** a/b TTf, a/** a/b/c TTf
a/** a/@b fff, a/** a/b/@c fff, a/** ab fff, a/** ** TfT, a/* a fff, a/* a/b TTf, a/* a/b/c fff
a/* a/@b fff, a/* a/** TfT, a/* a/*/** TfT, a/** a/*/** TTf, a/*/** a/b TTf, a/*/** a fff
a/*/** a/b/c TTf, a/**/b a/b TTf, a/**/b a/x/b TTf, a/**/b a/x/y/b TTf, a/**/b a/b/b TTf, a/**/b a/b/c fff
a/**/b a/@x/b fff, a/**/@x/**/b a/@x/b TTf, a/**/@x/**/b a/y/@x/z/b TTf, **/b b TTf, **/b a/b TTf
**/b a/b/c fff, **/b @a/b fff, **/@a @a TTf, **/@a b/@a TTf, @a/** @a TTf, @a/** @a/b TTf, @a/** @a/@b fff
@a/* @a/b TTf, @a/* @a/@b fff, @a/*/c @a/b/c TTf, @$* @a fff, @a$* @ab fff, @a$* @a$* TTT, a$* a TTf
a$* abc TTf, a$* ab/c fff, a$* ba fff, $*a ba TTf, $*a a TTf, $*b$* abc TTf, $*b$* ac fff
ab$*cd abxxcd TTf, ab$*cd abcd TTf, ab$*cd abcdx fff, ab$*cd abc fff, ab$*b ab fff, ab$*ba aba fff
a$*a a fff, a$*a aa TTf, a$* $*b Tff, a$*c $*b fff, a$* b$* fff, a$* * TfT, * a$* TTf, ** a$* TTf
a/$*b a/** TfT, a$*b$*c a$*c TfT, a$*c a$*b$*c TTf, a/* */a Tff, a/* */b Tff, a/*/c a/b/* Tff
a/**/c a/b/** Tff, a/** **/a Tff, a/**/c b/** fff, **/a/** b/a/c TTf, **/a/** a TTf, **/a/** b fff
*/** a TTf, */** ** TfT, */* a/b TTf, */* a fff, */* ** TfT, a/b/** a/** TfT, a/** a/b/** TTf
x/a$*d$*e x/a$*c$*e Tff, x/c$* x/abc$* fff, a/é a/* TfT, A a fff, a$* @a fff, $*a @a fff, a/b a/b/** TfT
a/b/** a/b TTf, a/b/* a/b fff, a/*/b/** a/x/b TTf, ** @a/** fff
"""
"""Pairs of keys A and B of ``zenoh-wire`` 6.4, and whether A intersects B, A includes B, and B includes A."""


def _pairs(text: str) -> list[Pair]:
    """Pairs of keys of a text that has commas between the pairs."""
    return [(first, second) for first, second in (pair.split() for pair in text.split(","))]


def _examples() -> list[tuple[str, str, str]]:
    rows = [row.split() for line in EXAMPLES.strip().splitlines() for row in line.split(", ")]
    return [(first, second, verdicts) for first, second, verdicts in rows]


# ---- Which keys match ----


def _turned(pairs: Sequence[Pair]) -> list[Pair]:
    return [(second, first) for first, second in pairs]


def _pushes(target: Target, pairs: Sequence[Pair]) -> list[bool]:
    """Whether a PUSH on the second key of each pair reaches a subscriber of the first one."""
    key = target.unique_key()
    with clients(target) as (subscriber, publisher):
        at = list(enumerate(pairs, 1))
        subscriber.declare(*(wire.d_subscriber(id, f"{key}/{id}/{pair[0]}") for id, pair in at))
        subscriber.waiting += subscriber.barrier()
        publisher.send(*(wire.push(f"{key}/{id}/{pair[1]}", wire.put(b"%d" % id), BLOCK) for id, pair in at))
        publisher.barrier()
        seen = {m.body.payload for m in subscriber.barrier() if m.kind == "PUSH" and m.body}
        return [b"%d" % id in seen for id, _ in at]


def _queries(target: Target, pairs: Sequence[Pair], goal: int) -> list[bool]:
    """Whether a REQUEST for the second key of each pair reaches a complete queryable of the first one."""
    key = target.unique_key()
    with clients(target) as (server, querier):
        at = list(enumerate(pairs, 1))
        info = wire.queryable_info(complete=True)
        server.declare(*(wire.d_queryable(id, f"{key}/{id}/{pair[0]}", info) for id, pair in at))
        server.waiting += server.barrier()
        for id, pair in at:
            get(querier, f"{key}/{id}/{pair[1]}", (0x34, goal))
        querier.barrier()
        asked = [message for message in server.barrier() if message.kind == "REQUEST"]
        server.send(*(wire.response_final(message.id) for message in asked))
        seen = {int(server.text(message).removeprefix(f"{key}/").split("/")[0]) for message in asked}
        return [id in seen for id, _ in at]


def _tokens(target: Target, pairs: Sequence[Pair]) -> list[bool]:
    """Whether an interest in the second key of each pair gets a token of the first one."""
    key = target.unique_key()
    with clients(target) as (owner, asker):
        at = list(enumerate(pairs, 1))
        owner.declare(*(wire.d_token(id, f"{key}/{id}/{pair[0]}") for id, pair in at))
        owner.waiting += owner.barrier()
        return [bool(bodies(ask(asker, CURRENT, TOKENS, f"{key}/{id}/{pair[1]}", id))) for id, pair in at]


def _expect(pairs: Sequence[Pair], seen: list[bool], wanted: list[bool]) -> None:
    wrong = [
        pair for pair, is_seen, is_wanted in zip(pairs, seen, wanted, strict=True) if is_seen != is_wanted
    ]
    expect(not wrong, f"{len(wrong)} of {len(pairs)} pairs are judged the other way, such as {wrong[:4]}")


def _judges(meeting: str, apart: str, target: Target) -> None:
    pairs = _pairs(meeting) + _pairs(apart)
    wanted = [True] * len(_pairs(meeting)) + [False] * len(_pairs(apart))
    _expect(pairs, _pushes(target, pairs), wanted)
    _expect(_turned(pairs), _pushes(target, _turned(pairs)), wanted)


for _id, _sentence, _meeting, _apart in (
    (
        "6.2/star-not-none",
        "The wildcard * at the end of a key does not match the key before it.",
        "a/* a/b, a/*/b/** a/x/b",
        "a/* a, a/b/* a/b, */* a",
    ),
    (
        "6.2/double-star-at-end",
        "A key that ends with /** matches the key before it and all below it, and no longer chunk.",
        "a/** a, a/** a/b, a/** a/b/c, a/b/** a/b",
        "a/** ab, a/b/** a",
    ),
    (
        "6.2/double-star-at-begin",
        "A key that begins with **/ matches what follows at any depth, and nothing behind it.",
        "**/b b, **/b a/b, **/b c/a/b",
        "**/b a/b/c, **/b ab",
    ),
    (
        "6.2/dollar-star-none",
        "The wildcard $* matches no bytes at all as well as several.",
        "a$* a, a$* abc, $*a a, $*a ba, ab$*cd abcd, ab$*cd abxxcd",
        "a$* ba, a$* ab/c, ab$*cd abcdx, ab$*cd abc",
    ),
    (
        "6.2/dollar-star-no-overlap",
        "The bytes before and behind the wildcard $* do not share bytes of the chunk that they match.",
        "a$*a aa, ab$*b abb, ab$*ba abba",
        "a$*a a, ab$*b ab, ab$*ba aba",
    ),
    (
        "6.2/dollar-star-in-verbatim",
        "The text $* within a chunk that begins with @ is no wildcard.",
        "@a$* @a$*, @$* @$*",
        "@$* @a, @a$* @ab, @a$* @a",
    ),
    (
        "6.2/verbatim-below-verbatim",
        "A wildcard behind a chunk that begins with @ matches chunks without @ alone.",
        "@a/** @a, @a/** @a/b, @a/* @a/b, @a/*/c @a/b/c",
        "@a/** @a/@b, @a/* @a/@b, a/b/** a/b/@c",
    ),
    (
        "6.3/double-star-tries-all",
        "A key with ** before other chunks matches if any number of chunks for ** makes the rest match.",
        "a/**/b a/b, a/**/b a/b/b, a/**/b a/x/y/b, **/a/** b/a/c, **/a/** a",
        "a/**/b a/b/c, **/a/** b, a/**/b a/@x/b",
    ),
    (
        "6.3/double-star-around-verbatim",
        "The wildcard ** on both sides of a chunk with @ matches chunks before and behind that chunk.",
        "a/**/@x/**/b a/@x/b, a/**/@x/**/b a/y/@x/z/b, **/@a @a, **/@a b/@a",
        "a/**/@x/**/b a/y/@z/b, **/@a b/@a/c, **/@a @b/@a",
    ),
    (
        "6.3/star-before-double-star",
        "A key with */** matches at least one chunk there.",
        "a/*/** a/b, a/*/** a/b/c, */** a, a/* a/*/**, */** **",
        "a/*/** a, a/*/** a/@b",
    ),
    (
        "6.3/star-with-star",
        "Two keys with * match if each chunk of one matches that of the other, and both have as many.",
        "a/* */a, a/* */b, a/*/c a/b/*, */* a/*",
        "a/*/c a/*, */* a/b/c, a/*/c b/*/c",
    ),
    (
        "6.3/double-star-with-double-star",
        "Two keys with ** match if some chunks for both make them equal.",
        "a/**/c a/b/**, a/** **/a, ** **/a, a/** **, */* **, a/b/** a/**",
        "a/**/c b/**, ** @a/**, a/** @a/**",
    ),
    (
        "6.3/dollar-star-with-dollar-star",
        "Two chunks with $* match if some bytes for both make them equal.",
        "a$* $*b, a$*b$*c a$*c, x/a$*d$*e x/a$*c$*e, $*b$* abc",
        "a$*c $*b, a$* b$*, x/c$* x/abc$*, $*b$* ac",
    ),
    (
        "6.3/dollar-star-with-star",
        "A chunk with $* matches the wildcards * and **.",
        "a$* *, ** a$*, a/$*b a/**, a/$*b */*",
        "a$* */*, a/$*b *",
    ),
):
    BOOK.rule(f"zenoh-wire-{_id}", MUST, _sentence)(functools.partial(_judges, _meeting, _apart))


def _judges_examples(judge: Callable[[Target, Sequence[Pair]], list[bool]], target: Target) -> None:
    pairs = [(first, second) for first, second, _ in _examples()]
    wanted = [verdicts[0] == "T" for _, _, verdicts in _examples()]
    _expect(pairs, judge(target, pairs), wanted)
    _expect(_turned(pairs), judge(target, _turned(pairs)), wanted)


def _asks_all(target: Target, pairs: Sequence[Pair]) -> list[bool]:
    return _queries(target, pairs, ALL)


for _id, _sentence, _judge in (
    (
        "subscribers",
        "A PUSH reaches a subscriber if their keys intersect, for all pairs of the table.",
        _pushes,
    ),
    (
        "queryables",
        "A REQUEST reaches a queryable if their keys intersect, for all pairs of the table.",
        _asks_all,
    ),
    ("tokens", "An interest gets a token if their keys intersect, for all pairs of the table.", _tokens),
):
    BOOK.rule(f"zenoh-wire-6.4/{_id}", MUST, _sentence)(functools.partial(_judges_examples, _judge))


@BOOK.rule(
    "zenoh-wire-6.4/complete",
    MUST,
    "A REQUEST with the target AllComplete reaches a complete queryable if the queryable's key includes the "
    "query's, for all pairs of the table.",
)
def _(target: Target) -> None:
    examples = _examples()
    pairs = [(first, second) for first, second, _ in examples]
    _expect(pairs, _queries(target, pairs, ALL_COMPLETE), [verdicts[1] == "T" for *_, verdicts in examples])
    seen = _queries(target, _turned(pairs), ALL_COMPLETE)
    _expect(_turned(pairs), seen, [verdicts[2] == "T" for *_, verdicts in examples])


# ---- Which keys are refused ----

REFUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "empty-chunk": ("a key with an empty chunk", ("{}//b", "{}/a//b")),
    "leading-slash": ("a key that begins with a slash", ("/{}/a",)),
    "trailing-slash": ("a key that ends with a slash", ("{}/", "{}/a/")),
    "hash": ("a key with #", ("{}/a#b", "{}/#")),
    "question-mark": ("a key with ?", ("{}/a?b", "{}/?")),
    "star-in-chunk": (
        "a key with * beside other characters of a chunk",
        ("{}/a*", "{}/*a", "{}/a*b", "{}/***", "{}/@*"),
    ),
    "dollar": ("a key with $ that no * follows", ("{}/a$", "{}/$", "{}/a$b", "{}/$$*")),
    "dollar-star-twice": ("a key with $*$*", ("{}/a$*$*b", "{}/$*$*")),
    "dollar-star-alone": ("a key with $* as a whole chunk", ("{}/$*", "{}/$*/b")),
    "double-star-twice": ("a key with ** behind **", ("{}/**/**", "{}/**/**/b")),
    "star-behind-double-star": ("a key with * behind **", ("{}/**/*", "{}/**/*/b")),
}
"""Names of forms that are no key expression in canonical form, what they are, and examples below a key."""


CHUNKS_ALONE = (
    "empty-chunk",
    "leading-slash",
    "trailing-slash",
    "double-star-twice",
    "star-behind-double-star",
)
"""Names of the forms in which each chunk by itself is allowed, or empty."""


def refused(key: str, *names: str) -> list[str]:
    """Keys of the refused forms of some names, or of all, below a key."""
    return [form.format(key) for name in names or REFUSED for form in REFUSED[name][1]]


def place(target: Target) -> tuple[str, str]:
    """A key, and one that matches all below it also if chunks stand before it.

    The chunk with @ keeps the wildcards of other checks away.
    """
    chunk = "@" + target.unique_key().replace("/", "-")
    return f"conformance/{chunk}", f"**/{chunk}/**"


def _drops(forms: Sequence[str], target: Target) -> None:
    key, below = place(target)
    with clients(target) as (subscriber, publisher):
        subscriber.subscribe(below)
        for form in (*forms, "{}/last"):
            publisher.send(wire.push(form.format(key), wire.put(form.encode())))
            expect(publisher.lives(), f"the node closed the link for {form.format('a')!r}")
        payloads = [m.body.payload.decode() for m in subscriber.barrier() if m.kind == "PUSH" and m.body]
        # A node that lets wildcards match chunks with @ also delivers what other checks publish.
        seen = [payload for payload in payloads if "{}" in payload]
        expect(seen == ["{}/last"], f"the keys {seen} passed, where {{}} is a key")


for _id, (_title, _forms) in REFUSED.items():
    BOOK.rule(f"zenoh-wire-6.1/{_id}", SHOULD, f"A node drops a PUSH on {_title}, and keeps the link.")(
        functools.partial(_drops, _forms)
    )


@BOOK.rule(
    "zenoh-wire-6.1/refused-in-request",
    SHOULD,
    "A node forwards no REQUEST for a key that is not in canonical form, and keeps the link.",
)
def _(target: Target) -> None:
    key, below = place(target)
    with clients(target) as (server, querier):
        server.serve(below)
        for each in (*refused(key), f"{key}/last"):
            get(querier, each)
            querier.barrier()
        asked = [message for message in server.barrier() if message.kind == "REQUEST"]
        server.send(*(wire.response_final(message.id) for message in asked))
        seen = [server.text(message) for message in asked]
        expect(seen == [f"{key}/last"], f"REQUEST messages for {seen} came")


@BOOK.rule(
    "zenoh-wire-6.1/refused-in-declaration",
    SHOULD,
    "A node takes no declaration of a key with empty chunks, or with ** or * behind **, and keeps the link.",
)
def _(target: Target) -> None:
    key, below = place(target)
    options = {SUBSCRIBER: SUBSCRIBERS, QUERYABLE: wire.QUERYABLES, TOKEN: TOKENS}
    with clients(target) as (owner, asker):
        for kind, option in options.items():
            for id, each in enumerate((*refused(key, *CHUNKS_ALONE), f"{key}/last"), 100 * kind):
                announce(owner, kind, each, id)
            seen = keys(asker, ask(asker, CURRENT_FUTURE, option, below, kind))
            expect(seen == [f"{key}/last"], f"declarations of the kind {kind} for {seen}")


@BOOK.rule(
    "zenoh-wire-6.1/refused-in-response",
    SHOULD,
    "A node drops a RESPONSE on a key that is not in canonical form, and keeps the link and the query.",
)
def _(target: Target) -> None:
    key, below = place(target)
    with clients(target) as (server, querier):
        server.serve(below)
        id = get(querier, below, body=wire.query(parameters="_anyke"))
        asked = server.next("REQUEST")
        for each in refused(key):
            server.send(wire.response(asked.id, each, wire.reply(wire.put(each.encode()))))
            expect(server.lives(), f"the node closed the link for {each!r}")
        respond(server, asked, b"last", key=f"{key}/last")
        seen = reply_payloads(querier, id)
        expect(seen == [b"last"], f"replies {seen[:4]}")


@BOOK.rule(
    "zenoh-wire-6.1/refused-in-interest",
    SHOULD,
    "A node keeps the link for an INTEREST in a key with empty chunks, or with ** or * behind **.",
)
def _(target: Target) -> None:
    with target.link() as link:
        for id, each in enumerate(refused(target.unique_key(), *CHUNKS_ALONE)):
            link.send(wire.interest(id, CURRENT_FUTURE, SUBSCRIBERS, each))
            expect(link.lives(), f"the node closed the link for {each!r}")


@BOOK.rule(
    "zenoh-wire-6.1/refused-as-id",
    SHOULD,
    "A node drops a PUSH on an id that was declared for a key with empty chunks, or with ** or * behind **.",
)
def _(target: Target) -> None:
    key, below = place(target)
    with clients(target) as (subscriber, publisher):
        subscriber.subscribe(below)
        for id, each in enumerate(refused(key, *CHUNKS_ALONE), 1):
            publisher.declare(wire.d_keyexpr(id, each))
            publisher.send(wire.push(Key(None, id), wire.put(each.encode())))
            expect(publisher.lives(), f"the node closed the link for {each!r}")
        publisher.send(wire.push(f"{key}/last", wire.put(b"last")))
        publisher.barrier()
        seen = [m.body.payload for m in subscriber.barrier() if m.kind == "PUSH" and m.body]
        expect(seen == [b"last"], f"the keys {seen} passed")


# ---- Which keys are taken ----


def _passes(names: Sequence[str], target: Target) -> None:
    with target.flow() as flow:
        for name in names:
            flow.sender.send(wire.push(f"{flow.key}/{name}", wire.put(b"x"), BLOCK))
        seen = [flow.receiver.text(message).removeprefix(f"{flow.key}/") for message in flow.received()]
        expect(seen == list(names), f"keys {seen} of {names}")


for _id, _title, _names in (
    ("spaces", "spaces and control characters", (" ", "a b", " a ", "\t", "a\x00b", "\n")),
    ("punctuation", "punctuation", (";", "=", "&", "%", "{}", "+", ".", "..", ":", "\\", '"', "!", "~", "|")),
    ("at-within-chunk", "@ behind the first character of a chunk", ("a@", "a@b", "a/b@c/d")),
    ("letter-case", "upper and lower case, and keeps the case", ("A", "a", "aB/Ba")),
    ("dollar-star-in-verbatim", "$* in a chunk that begins with @, on the wire", ("a$*/b", "a$*", "b/c$*d")),
):
    BOOK.rule(f"zenoh-wire-6.1/{_id}", MUST, f"A node takes a key with {_title}.")(
        functools.partial(_passes, _names)
    )


@BOOK.rule(
    "zenoh-wire-6.1/no-unicode-normalisation",
    MUST,
    "A node compares chunks byte by byte: a composed letter is none that is composed of two code points.",
)
def _(target: Target) -> None:
    composed, decomposed = "\u00e9", "e\u0301"
    seen = _pushes(target, [(composed, composed), (decomposed, decomposed), (composed, decomposed)])
    expect(seen == [True, True, False], f"the keys match as {seen}")


@BOOK.rule("zenoh-wire-6.1/no-percent-decoding", MUST, "A node does not decode percent signs in keys.")
def _(target: Target) -> None:
    seen = _pushes(target, [("%61", "%61"), ("a", "%61"), ("%61", "a"), ("a/b", "a%2Fb")])
    expect(seen == [True, False, False, False], f"the keys match as {seen}")


@BOOK.rule(
    "zenoh-wire-6.1/bytes-of-wildcard",
    MUST,
    "The wildcard $* stands for any bytes of a chunk, also within characters of several bytes.",
)
def _(target: Target) -> None:
    seen = _pushes(target, [("a$*z", "a\u9375z"), ("\u9375$*", "\u9375\U0001f511"), ("*", "\U0001f511")])
    expect(seen == [True] * 3, f"the keys match as {seen}")


@BOOK.rule("zenoh-wire-6.1/longest", SHOULD, "A node takes a key of 65535 bytes.")
def _(target: Target) -> None:
    with target.flow() as flow:
        key = f"{flow.key}/".ljust(65_535, "k")
        flow.sender.send_fragments(wire.push(key, wire.put(b"x"), BLOCK), size=30_000)
        seen = [flow.receiver.text(message) for message in flow.received()]
        expect(seen == [key], f"keys of {[len(each) for each in seen]} bytes")


@BOOK.rule("zenoh-wire-6.1/many-chunks", SHOULD, "A node takes a key of 500 chunks, and matches it.")
def _(target: Target) -> None:
    deep = "/".join("a" * 500)
    seen = _pushes(target, [(deep, deep), ("**", deep), ("a/**/a", deep), (f"{deep}/a", deep)])
    expect(seen == [True, True, True, False], f"the keys match as {seen}")


# ---- Parameters ----


@BOOK.rule(
    "zenoh-wire-6.6/verbatim",
    MUST,
    "A node forwards parameters byte by byte: it neither decodes, trims, sorts nor merges items.",
)
def _(target: Target) -> None:
    given = (
        "a=1;b;c=2=3;a=4",
        "a=1;;b=2;",
        "a=1|2|3",
        "a=1&b=2",
        " a = 1 ",
        "a%20b=c%3Bd",
        "=x",
        ";",
        "é=鍵",
        "a?b",
    )
    key = target.unique_key()
    with clients(target) as (server, querier):
        server.serve(key)
        for each in given:
            id = get(querier, key, body=wire.query(parameters=each))
            asked = server.next("REQUEST")
            respond(server, asked)
            replies(querier, id)
            got = asked.body and asked.body.parameters
            expect(got == each.encode(), f"parameters {got!r} for {each!r}")
