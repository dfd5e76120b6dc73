"""Rules of groups and the status (``zre`` 11.4)."""

from __future__ import annotations

import itertools

from zwire.conformance._rules import Deviation, NotApplicable, expect
from zwire.conformance.zre import _wire as wire
from zwire.conformance.zre._book import BOOK, MUST, SHOULD, alone
from zwire.conformance.zre._target import GROUP, Peer, Target
from zwire.conformance.zre._wire import JOIN, LEAVE, ZreMessage


@BOOK.rule("zre-11.4/hello-group", MUST, "A peer is a member of each group in its HELLO.")
def _(target: Target) -> None:
    with target.peer(groups=[target.unique(), GROUP], status=2) as peer:
        peer.shouted(GROUP)


@BOOK.rule("zre-11.4/join", MUST, "A peer is a member of a group behind its JOIN.")
def _(target: Target) -> None:
    with target.peer() as peer:
        expect(not peer.hears_group(GROUP), "the peer is a member before its JOIN")
        peer.change(JOIN, GROUP, 1)
        expect(peer.hears_group(GROUP), "the peer is no member behind its JOIN")


@BOOK.rule("zre-11.4/leave", MUST, "A peer is no member of a group behind its LEAVE.")
def _(target: Target) -> None:
    with target.peer(groups=[GROUP], status=1) as peer:
        expect(peer.hears_group(GROUP), "the peer is no member before its LEAVE")
        peer.change(LEAVE, GROUP, 2)
        expect(not peer.hears_group(GROUP), "the peer is a member behind its LEAVE")


@BOOK.rule("zre-11.4/again", MUST, "A peer that has left a group becomes a member again by another JOIN.")
def _(target: Target) -> None:
    with target.peer(groups=[GROUP], status=1) as peer:
        peer.change(LEAVE, GROUP, 2)
        peer.change(JOIN, GROUP, 3)
        expect(peer.hears_group(GROUP), "the peer is no member")


@BOOK.rule("zre-11.4/case", MUST, "Names of groups are case sensitive.")
def _(target: Target) -> None:
    with target.peer(groups=[GROUP.upper(), GROUP.title()], status=2) as peer:
        expect(not peer.hears_group(GROUP), "a member of CONFORMANCE is one of conformance")


@BOOK.rule("zre-11.4/whole-name", MUST, "Groups with names that begin alike are different groups.")
def _(target: Target) -> None:
    with target.peer(groups=[GROUP[:-1], GROUP + b"s"], status=2) as peer:
        expect(not peer.hears_group(GROUP), "a member of another group is one of conformance")


@BOOK.rule("zre-11.4/one-group", MUST, "A LEAVE ends the membership in its group alone.")
def _(target: Target) -> None:
    other = target.unique()
    with target.peer(groups=[GROUP, other], status=2) as peer:
        peer.change(LEAVE, other, 3)
        expect(peer.hears_group(GROUP), "the peer is no member of the group that it has not left")


@BOOK.rule("zre-11.4/one-peer", MUST, "A LEAVE ends the membership of its peer alone.")
def _(target: Target) -> None:
    with target.peer(groups=[GROUP], status=1) as one, target.peer(groups=[GROUP], status=1) as two:
        two.change(LEAVE, GROUP, 2)
        two.barrier()
        expect(one.hears_group(GROUP), "another member lost its membership")


@BOOK.rule("zre-11.4/free-status", MUST, "The status in HELLO need not be the number of groups.")
def _(target: Target) -> None:
    with target.peer(groups=[GROUP], status=200) as peer:
        peer.change(JOIN, target.unique(), 201)
        expect(peer.hears_group(GROUP), "the peer is no member of its group")


@BOOK.rule("zre-11.4/status-wraps", MUST, "The status wraps from 255 to 0.")
def _(target: Target) -> None:
    with target.peer(status=254) as peer:
        peer.change(JOIN, GROUP, 255)
        peer.change(JOIN, target.unique(), 0)
        peer.change(JOIN, target.unique(), 1)
        expect(peer.hears_group(GROUP), "the peer is no member of its group")


@BOOK.rule(
    "zre-11.4/double-join",
    MUST,
    "A second JOIN of the same group counts in the status and changes nothing else.",
)
def _(target: Target) -> None:
    with target.peer() as peer:
        peer.change(JOIN, GROUP, 1)
        peer.change(JOIN, GROUP, 2)
        peer.change(JOIN, target.unique(), 3)
        first = peer.shouted(GROUP)
        copies = [message.content for message in peer.echo() if message.content == first.content]
        expect(not copies, f"{1 + len(copies)} copies of a SHOUT came")


@BOOK.rule(
    "zre-11.4/leave-unknown",
    MUST,
    "A LEAVE of a group that the peer is not in counts in the status and changes nothing else.",
)
def _(target: Target) -> None:
    with target.peer() as peer:
        peer.change(LEAVE, target.unique(), 1)
        peer.change(JOIN, GROUP, 2)
        expect(peer.hears_group(GROUP), "the peer is no member behind a later JOIN")


@BOOK.rule("zre-11.4/long-name", MUST, "The name of a group has up to 255 octets.")
def _(target: Target) -> None:
    target.needs_foreign_groups()
    group = target.unique().ljust(255, b"x")
    with target.peer() as peer:
        peer.change(JOIN, group, 1)
        answer = peer.shouted(group)
        expect(answer.group == group, f"SHOUT to {answer.group!r}")


@BOOK.rule("zre-8/utf8-group", MUST, "A name of a group in UTF-8 arrives unchanged.")
def _(target: Target) -> None:
    target.needs_foreign_groups()
    group = target.unique() + "/grün/グループ".encode()
    with target.peer() as peer:
        peer.change(JOIN, group, 1)
        answer = peer.shouted(group)
        expect(answer.group == group, f"SHOUT to {answer.group!r}")


@BOOK.rule("zre-8/spaces", MUST, "A name of a group with spaces and punctuation arrives unchanged.")
def _(target: Target) -> None:
    target.needs_foreign_groups()
    group = target.unique() + b" / a=b; 'c' *"
    with target.peer(groups=[group], status=1) as peer:
        answer = peer.shouted(group)
        expect(answer.group == group, f"SHOUT to {answer.group!r}")


@BOOK.rule("zre-11.4/thousand", SHOULD, "A node follows a thousand JOINs and LEAVEs of a peer.")
def _(target: Target) -> None:
    with target.peer() as peer:
        for status in range(1, 1001):
            peer.change(JOIN if status % 2 else LEAVE, GROUP, status)
        expect(not peer.hears_group(GROUP), "the peer is a member behind its last LEAVE")
        peer.change(JOIN, GROUP, 1001)
        expect(peer.hears_group(GROUP), "the peer is no member behind its last JOIN")


@alone("zre-11.4/wrong-status", SHOULD, "A node keeps the session of a peer when its status does not add up.")
def _(target: Target) -> None:
    with target.peer() as peer:
        peer.change(JOIN, GROUP, 7)
        peer.barrier()
        expect(peer.hears_group(GROUP), "the peer is no member behind its JOIN")
        expect(not peer.links[0].is_closed, "the node closed its connection")


# ---- Groups of the node itself ----


def _change(target: Target, id: int, group: bytes) -> None:
    change = target.join if id == JOIN else target.leave
    if change is None:
        raise NotApplicable("the target has no way to let the node join and leave groups")
    change(group.decode())


def _changes(target: Target, *peers: Peer) -> list[list[ZreMessage]]:
    """JOIN and LEAVE of a new group, as each peer receives them."""
    group = target.unique()
    for id in (JOIN, LEAVE):
        _change(target, id, group)

    def about(message: ZreMessage) -> bool:
        return message.id in (JOIN, LEAVE) and message.group == group

    return [[peer.until(about)[-1] for _ in (JOIN, LEAVE)] for peer in peers]


@alone(
    "zre-9.3/join", MUST, "A node sends a JOIN with the group and the status to a peer when it joins a group."
)
def _(target: Target) -> None:
    with target.peer() as peer:
        join = _changes(target, peer)[0][0]
        head = wire.header(target.generation, JOIN, join.sequence)
        expect(join.raw == head + wire.string(join.group) + bytes([join.status]), f"JOIN {join.raw.hex()}")


@alone(
    "zre-9.3/leave",
    MUST,
    "A node sends a LEAVE with the group and the status to a peer when it leaves a group.",
)
def _(target: Target) -> None:
    with target.peer() as peer:
        leave = _changes(target, peer)[0][1]
        head = wire.header(target.generation, LEAVE, leave.sequence)
        expect(
            leave.raw == head + wire.string(leave.group) + bytes([leave.status]), f"LEAVE {leave.raw.hex()}"
        )


@alone("zre-11.4/to-all", MUST, "A node sends JOIN and LEAVE with the same status to all its peers.")
def _(target: Target) -> None:
    with target.peer() as one, target.peer() as two:
        first, second = [[change.status for change in changes] for changes in _changes(target, one, two)]
        expect(first == second, f"status {first} and {second}")


@alone("zre-11.4/counts", MUST, "The status is one more behind each JOIN and LEAVE of a node.")
def _(target: Target) -> None:
    with target.peer() as peer:
        changes = _changes(target, peer)[0]
        status = [change.status for change in changes]
        expected = [peer.hello.status + step & 0xFF for step in (1, 2)]
        expect(status == expected, f"HELLO with status {peer.hello.status}, then {status}")


@alone("zre-11.4/later-hello", MUST, "A HELLO carries the status and the groups of its moment.")
def _(target: Target) -> None:
    with target.peer() as peer:
        group = target.unique()
        _change(target, JOIN, group)
        status = peer.next(JOIN).status
        with target.peer() as later:
            hello = later.hello
        _change(target, LEAVE, group)
        expect(hello.status == status, f"status {hello.status} behind a JOIN with {status}")
        expect(group in hello.groups, f"groups {hello.groups}")


@alone("zre-11.4/own-wrap", MUST, "The status of a node wraps from 255 to 0.")
def _(target: Target) -> None:
    with target.peer() as peer:
        statuses = [peer.hello.status]
        group = target.unique()
        try:
            for _ in range(130):
                for id in (JOIN, LEAVE):
                    _change(target, id, group)
                    statuses.append(peer.next(id).status)
        except Deviation as deviation:
            raise Deviation(f"after status {statuses[-1]}: {deviation}") from None
        steps = {later - earlier & 0xFF for earlier, later in itertools.pairwise(statuses)}
        expect(steps == {1}, f"statuses {statuses}")
