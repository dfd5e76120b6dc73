"""Rules of sequence numbers (``zre`` 11.3)."""

from __future__ import annotations

from zwire.conformance._rules import Deviation, expect
from zwire.conformance.zre import _wire as wire
from zwire.conformance.zre._book import BOOK, MODERN, MUST, OLD, SHOULD, alone
from zwire.conformance.zre._target import GROUP, Peer, Target
from zwire.conformance.zre._wire import PING, PING_OK, SHOUT, WHISPER

_BURST = 500
"""Messages on their way at once; a node queues some thousands for a peer."""


@BOOK.rule("zre-11.3/counts", MUST, "A node numbers its messages to a peer from 1 on, of all kinds alike.")
def _(target: Target) -> None:
    with target.peer(groups=[GROUP], status=1) as peer:
        target.needs_echo()
        content = target.unique()
        peer.send(PING)
        peer.whisper(content)
        peer.shout(GROUP, content)
        waiting = {PING_OK, WHISPER, SHOUT}
        numbers = [peer.hello.sequence]
        while waiting:
            message = peer.until(lambda _: True)[-1]
            numbers.append(message.sequence)
            if message.content in ((), (content,)):
                waiting.discard(message.id)
        expect(numbers == list(range(1, len(numbers) + 1)), f"numbers {numbers}")


@BOOK.rule("zre-11.3/each-peer", MUST, "A node counts the messages to each peer on their own.")
def _(target: Target) -> None:
    with target.peer() as one, target.peer() as two:
        for _ in range(3):
            one.barrier()
        two.send(PING)
        number = two.next(PING_OK).sequence
        expect(number == 2, f"the first message behind HELLO has number {number}")


@alone("zre-11.3/own-wrap", MUST, "A node goes from number 65535 to 0 in its messages to a peer.")
def _(target: Target) -> None:
    with target.peer() as peer:
        _near_the_end(peer)
        last = 0
        for expected in (65534, 65535, 0, 1):
            peer.send(PING)
            answer = peer.next(PING_OK)
            expect(answer.sequence == expected, f"number {answer.sequence} behind {last}")
            last = answer.sequence


def _near_the_end(peer: Peer) -> None:
    """Exchange PINGs until the node has sent number 65533."""
    sent, got = 1, 1
    while got < 65533:
        burst = min(_BURST, 65533 - got)
        head = wire.SIGNATURE + bytes([PING]) + wire.VERSIONS[peer.generation]
        frames = [head + (sent + number).to_bytes(2, "big") for number in range(1, burst + 1)]
        _send_all(peer, frames)
        sent += burst
        for _ in range(burst):
            got = peer.next(PING_OK).sequence
    peer.sequence = sent


def _send_all(peer: Peer, frames: list[bytes]) -> None:
    if peer.dealer is not None:
        peer.dealer.send_octets(b"".join(bytes([0, len(frame)]) + frame for frame in frames))


@alone("zre-11.3/wrap", MUST, "A node takes number 0 of a peer behind 65535.")
def _(target: Target) -> None:
    with target.peer() as peer:
        head = wire.SIGNATURE + bytes([PING_OK]) + wire.VERSIONS[target.generation]
        numbers = list(range(2, 65535))
        for at in range(0, len(numbers), _BURST):
            _send_all(peer, [head + number.to_bytes(2, "big") for number in numbers[at : at + _BURST]])
            peer.sequence = numbers[at : at + _BURST][-1]
        for number in (65535, 0, 1):
            try:
                peer.barrier()
            except Deviation as deviation:
                raise Deviation(f"number {number}: {deviation}") from None
        expect(peer.sequence == 1, f"number {peer.sequence}")


def _skipped(peer: Peer) -> None:
    peer.barrier()
    peer.sequence += 1
    peer.send(PING)


def _repeated(peer: Peer) -> None:
    peer.barrier()
    peer.sequence -= 1
    peer.send(PING)


def _ends(target: Target, fault: object) -> None:
    with target.peer() as peer:
        fault(peer)  # type: ignore[operator]
        expect(peer.is_ended(peer.links[0]), "the node keeps its connection to the peer")


@alone(
    "zre-11.3/gap",
    MUST,
    "A node of 36/ZRE closes its connection to a peer that leaves out a number.",
    roles=MODERN,
)
def _(target: Target) -> None:
    _ends(target, _skipped)


@alone(
    "zre-16/gap",
    SHOULD,
    "A node of 20/ZRE closes its connection to a peer that leaves out a number.",
    roles=OLD,
)
def _(target: Target) -> None:
    _ends(target, _skipped)


@alone(
    "zre-11.3/repeated",
    MUST,
    "A node of 36/ZRE closes its connection to a peer that repeats a number.",
    roles=MODERN,
)
def _(target: Target) -> None:
    _ends(target, _repeated)


@alone(
    "zre-11.3/gap-lost",
    MUST,
    "A node does not deliver the message behind a gap as one of the old session.",
    roles=MODERN,
)
def _(target: Target) -> None:
    target.needs_echo()
    with target.peer() as peer:
        content = target.unique()
        peer.sequence += 1
        peer.whisper(content)
        seen = [message.content for message in peer.quiet()]
        expect((content,) not in seen, "the message was delivered")


@alone(
    "zre-11.3/new-session",
    MUST,
    "A peer begins a new session after a gap by a HELLO with number 1.",
    roles=MODERN,
)
def _(target: Target) -> None:
    with target.peer(groups=[GROUP], status=1) as peer:
        _skipped(peer)
        expect(peer.is_ended(peer.links[0]), "the node keeps its connection to the peer")
        peer.renew(groups=[GROUP], status=1)
        expect(peer.hello.sequence == 1, f"HELLO with number {peer.hello.sequence}")
        peer.shouted(GROUP)
        peer.barrier()


@alone("zre-11.3/gap-alone", MUST, "A gap in the numbers of a peer costs no other peer its session.")
def _(target: Target) -> None:
    with target.bystander(), target.peer() as peer:
        _skipped(peer)
        peer.is_ended(peer.links[0], 1.0)
