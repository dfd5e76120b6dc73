"""Rules of WHISPER, SHOUT, PING and PING-OK (``zre`` 8, 9.3, 11.5, 11.7)."""

from __future__ import annotations

from zwire.conformance._rules import expect
from zwire.conformance.zre import _wire as wire
from zwire.conformance.zre._book import BOOK, MODERN, MUST, OBSERVED, SHOULD, ZYRE
from zwire.conformance.zre._target import GROUP, QUIET, Target
from zwire.conformance.zre._wire import PING, PING_OK, SHOUT, WHISPER


@BOOK.rule("zre-9.3/whisper", MUST, "A WHISPER is a header frame without a body, and the content behind it.")
def _(target: Target) -> None:
    with target.peer() as peer:
        whisper = peer.echo()[-1]
        expect(
            whisper.raw == wire.header(target.generation, WHISPER, whisper.sequence),
            f"WHISPER {whisper.raw.hex()}",
        )


@BOOK.rule("zre-9.3/shout", MUST, "A SHOUT is a header frame with the group, and the content behind it.")
def _(target: Target) -> None:
    with target.peer(groups=[GROUP], status=1) as peer:
        shout = peer.shouted(GROUP)
        head = wire.header(target.generation, SHOUT, shout.sequence)
        expect(shout.raw == head + wire.string(GROUP), f"SHOUT {shout.raw.hex()}")


@BOOK.rule("zre-11.7/ping-ok", MUST, "A node answers a PING by a PING-OK of the header alone.")
def _(target: Target) -> None:
    with target.peer() as peer:
        peer.send(PING)
        answer = peer.next(PING_OK)
        expect(
            answer.raw == wire.header(target.generation, PING_OK, answer.sequence),
            f"PING-OK {answer.raw.hex()}",
        )


@BOOK.rule("zre-11.7/each-ping", MUST, "A node answers each PING by one PING-OK.")
def _(target: Target) -> None:
    with target.peer() as peer:
        for _ in range(5):
            peer.send(PING)
        for _ in range(5):
            peer.next(PING_OK)
        expect(not (more := peer.quiet()), f"{[message.kind for message in more]} came behind five PING-OK")


@BOOK.rule("zre-11.7/ping-ok-unanswered", MUST, "A node sends no answer to a PING-OK.")
def _(target: Target) -> None:
    with target.peer() as peer:
        peer.send(PING_OK)
        before = peer.barrier()
        expect(not before, f"{[message.kind for message in before]} came")


@BOOK.rule("zre-11.5/empty", MUST, "A node delivers an empty frame of content.")
def _(target: Target) -> None:
    with target.peer() as peer:
        peer.echo(b"")


@BOOK.rule("zre-11.5/binary", MUST, "A node delivers content of any octets unchanged.")
def _(target: Target) -> None:
    with target.peer() as peer:
        peer.echo(bytes(range(256)) + target.unique())


@BOOK.rule("zre-11.5/large", MUST, "A node delivers a frame of content of one megabyte.")
def _(target: Target) -> None:
    with target.peer() as peer:
        peer.echo(target.unique() + bytes(1_000_000))


@BOOK.rule(
    "zre-11.5/frames",
    MUST,
    "A node delivers the content of a WHISPER frame by frame.",
    roles=(*MODERN, "zyre1"),
)
def _(target: Target) -> None:
    with target.peer() as peer:
        peer.echo(b"one", b"", target.unique())


@BOOK.rule(
    "zre-11.5/shout-frames",
    MUST,
    "A node delivers the content of a SHOUT frame by frame.",
    roles=(*MODERN, "zyre1"),
)
def _(target: Target) -> None:
    with target.peer(groups=[GROUP], status=1) as peer:
        peer.shouted(GROUP, b"", target.unique(), b"three")


@BOOK.rule(
    "zre-11.5/frames-20",
    SHOULD,
    "A node of 20/ZRE keeps the session of a peer that sends several frames of content.",
    roles=["20"],
)
def _(target: Target) -> None:
    with target.peer() as peer:
        peer.whisper(b"one", b"two")
        peer.barrier()


@BOOK.rule("zre-11.5/order", MUST, "A node handles the messages of a peer in their order.")
def _(target: Target) -> None:
    with target.peer() as peer:
        contents = [target.unique() for _ in range(50)]
        for content in contents:
            peer.whisper(content)
        target.needs_echo()
        seen = peer.until(lambda message: message.content == (contents[-1],))
        answered = [message.content[0] for message in seen if message.id == WHISPER]
        expect(answered == contents, f"{len(answered)} answers, or in another order")


@BOOK.rule("zre-11.5/one-peer", MUST, "A node sends a WHISPER to one peer alone.")
def _(target: Target) -> None:
    with target.peer() as one, target.peer() as other:
        content = one.echo()[-1].content
        seen = other.barrier()
        expect(content not in [message.content for message in seen], "another peer got it")


@BOOK.rule("zre-3/attribution", MUST, "A node attributes a message to the peer of its connection.")
def _(target: Target) -> None:
    with target.peer() as one, target.peer() as two:
        contents = [target.unique(), target.unique()]
        target.needs_echo()
        one.whisper(contents[0])
        two.whisper(contents[1])
        for peer, content in zip((one, two), contents, strict=True):
            answer = peer.next(WHISPER)
            expect(answer.content == (content,), f"answer {answer.content} to {content!r}")


@BOOK.rule("zre-3/one-way", MUST, "A node sends no message on a connection that a peer opened.")
def _(target: Target) -> None:
    with target.peer(groups=[GROUP], status=1) as peer:
        peer.echo()
        peer.shouted(GROUP)
        peer.quiet()
        expect(not peer.strays, f"messages {peer.strays}")


@BOOK.rule("zre-3/one-dealer", MUST, "A node sends all messages to a peer on one connection.")
def _(target: Target) -> None:
    with target.peer(groups=[GROUP], status=1) as peer:
        peer.echo()
        peer.shouted(GROUP)
        peer.barrier()
        expect(len(peer.links) == 1, f"{len(peer.links)} connections")


@BOOK.rule("zre-11.5/every-member", MUST, "A node sends a SHOUT to each member of the group.")
def _(target: Target) -> None:
    content = target.unique()
    with target.peer(groups=[GROUP], status=1) as one, target.peer(groups=[GROUP], status=1) as two:
        target.needs_echo()
        one.shout(GROUP, content)
        for peer in (one, two):
            peer.until(lambda message: message.id == SHOUT and message.content == (content,))


@BOOK.rule("zre-11.5/one-copy", MUST, "A node sends a member one copy of a SHOUT.")
def _(target: Target) -> None:
    with target.peer(groups=[GROUP], status=1) as peer:
        first = peer.shouted(GROUP)
        seen = [message.content for message in peer.echo()]
        expect(first.content not in seen, "a second copy came")


@BOOK.rule("zre-11.5/members-alone", MUST, "A node sends a SHOUT to members of the group alone.")
def _(target: Target) -> None:
    with target.peer(groups=[GROUP], status=1) as member, target.peer() as other:
        content = member.shouted(GROUP).content
        seen = other.barrier()
        expect(content not in [message.content for message in seen], "a peer outside the group got it")


@BOOK.rule("zre-11.5/outsider", MUST, "A node takes a SHOUT of a peer that is not in the group.")
def _(target: Target) -> None:
    content = target.unique()
    with target.peer(groups=[GROUP], status=1) as member, target.peer() as other:
        target.needs_echo()
        other.shout(GROUP, content)
        member.until(lambda message: message.id == SHOUT and message.content == (content,))


@BOOK.rule(
    "zre-11.5/foreign-group",
    OBSERVED,
    "A node delivers a SHOUT to a group that it has not joined.",
    seen=ZYRE,
)
def _(target: Target) -> None:
    group = target.unique()
    with target.peer(groups=[group], status=1) as peer:
        expect(peer.hears_group(group), "no answer to the SHOUT")


@BOOK.rule("zre-9.3/trailing", SHOULD, "A node ignores octets behind the last field of a message.")
def _(target: Target) -> None:
    with target.peer() as peer:
        peer.send(PING, b"more")
        peer.next(PING_OK)
        peer.barrier()


@BOOK.rule("zre-9.3/extra-frame", SHOULD, "A node ignores frames behind a message without content.")
def _(target: Target) -> None:
    with target.peer() as peer:
        peer.send(PING, b"", b"more")
        peer.next(PING_OK)
        peer.barrier()


@BOOK.rule(
    "zre-11.1/independent",
    MUST,
    "A node handles the messages behind a HELLO before the peer has taken the connection of the node.",
)
def _(target: Target) -> None:
    with target.stranger() as peer:
        content = target.unique()
        target.needs_echo()
        peer.connect()
        peer.say_hello()
        peer.whisper(content)
        peer.until(lambda message: message.id == WHISPER and message.content == (content,))


@BOOK.rule(
    "zre-11.1/quiet", MUST, "A node sends a peer that says nothing after HELLO no WHISPER and no SHOUT."
)
def _(target: Target) -> None:
    with target.peer() as peer:
        seen = [message.kind for message in peer.quiet(QUIET) if message.id in (WHISPER, SHOUT)]
        expect(not seen, f"{seen} came")
