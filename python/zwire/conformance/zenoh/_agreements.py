"""Rules of the handshake: what is agreed on, leases, and links of one node."""

from __future__ import annotations

import contextlib
import functools
import time
from typing import TYPE_CHECKING

from zwire.conformance._rules import expect
from zwire.conformance.zenoh import _wire as wire
from zwire.conformance.zenoh._book import BOOK, MUST, OBSERVED, RELEASE, SHOULD
from zwire.conformance.zenoh._link import PATIENCE, QUIET, needs
from zwire.conformance.zenoh._opening import refuses_init, refuses_open
from zwire.conformance.zenoh._probes import (
    INVALID,
    MAX_LINKS,
    TO_SELF,
    UNKNOWN,
    flagged,
    next_transport,
    takes,
)
from zwire.conformance.zenoh._wire import CLIENT, PEER

if TYPE_CHECKING:
    from zwire.conformance.zenoh._link import Target

HALF_OPEN = 100
"""Handshakes that a node has at once at most, by default."""
HELD = 32
"""Silent connections beside which a handshake succeeds."""
BIT_8, BIT_32 = 0x00, 0x0A
"""Resolutions."""


# ---- Agreements ----


@BOOK.rule(
    "zenoh-wire-3.3/no-sizes",
    MUST,
    "An acceptor takes an INIT SYN without sizes for one with 32-bit numbers and batches of 65535 bytes.",
)
def _(target: Target) -> None:
    with target.link(sizes=None, first=0x0FFF_FFFF) as link:
        takes(link, lambda octets: wire.frame(link.number(), octets))


@BOOK.rule(
    "zenoh-behaviour-0/sizes-in-ack",
    MUST,
    "An acceptor puts sizes into the INIT ACK when the offered ones are below the defaults.",
)
def _(target: Target) -> None:
    with target.link(sizes=(BIT_32, 2048)) as link:
        expect(link.init_ack.batch is not None, "INIT ACK without sizes, which means 65535")


@BOOK.rule(
    "zenoh-wire-3.5/batch-size", MUST, "An acceptor answers a batch size that is at most the offered one."
)
def _(target: Target) -> None:
    with target.link(sizes=(BIT_32, 2048)) as link:
        expect(link.size <= 2048, f"batch size {link.size}")


@BOOK.rule(
    "zenoh-wire-3.5/resolution",
    MUST,
    "An acceptor answers a resolution that is in each field at most the offered one.",
)
def _(target: Target) -> None:
    for offered in (0x00, 0x01, 0x04, 0x05, 0x08, 0x0A):
        with target.link(sizes=(offered, 65535)) as link:
            got = 0x0A if link.init_ack.resolution is None else link.init_ack.resolution
            within = got & 0x03 <= offered & 0x03 and got & 0x0C <= offered & 0x0C
            expect(within, f"{got:#04x} for {offered:#04x}")


@BOOK.rule(
    "zenoh-wire-9.1/resolution-64-bit",
    OBSERVED,
    "An acceptor answers the resolution 0x0f by 0x0a.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link(sizes=(0x0F, 65000)) as link:
        expect(link.init_ack.resolution == 0x0A, f"resolution {link.init_ack.resolution}")


@BOOK.rule("zenoh-wire-3.5/patch", MUST, "An acceptor answers a patch that is at most the offered one.")
def _(target: Target) -> None:
    for offered in (0, 1):
        with target.link(exts=(wire.QOS_INIT, (0x27, offered))) as link:
            got = link.init_ack.ext(0x27) or 0
            expect(isinstance(got, int) and got <= offered, f"patch {got!r} for {offered}")


@BOOK.rule("zenoh-wire-9.1/patch-5", OBSERVED, "An acceptor answers the patch 5 by 1.", seen=RELEASE)
def _(target: Target) -> None:
    with target.link(exts=((0x27, 5),)) as link:
        expect(link.init_ack.ext(0x27) == 1, f"patch {link.init_ack.ext(0x27)!r}")


def _needs_offer(headers: tuple[int, ...], target: Target) -> None:
    with target.link(exts=()) as link:
        found = [header for header in headers if link.init_ack.ext(header) is not None]
        expect(not found, f"extensions {[hex(header) for header in found]} in INIT ACK")


for _name, _title, _headers in (
    ("qos", "QoS", (0x01, 0x21)),
    ("shm", "Shm", (0x42, 0x22)),
    ("multilink", "MultiLink", (0x44,)),
    ("low-latency", "LowLatency", (0x05,)),
    ("compression", "Compression", (0x06,)),
    ("patch-absent", "Patch", (0x27,)),
):
    BOOK.rule(
        f"zenoh-wire-3.5/{_name}-of-both",
        MUST,
        f"An acceptor puts {_title} into the INIT ACK only if the INIT SYN had it.",
    )(functools.partial(_needs_offer, _headers))


@BOOK.rule(
    "zenoh-wire-3.14/not-with-qos", SHOULD, "An acceptor does not agree on low latency together with QoS."
)
def _(target: Target) -> None:
    with target.connection() as link:
        ack = link.init(wire.init(link.zid, exts=(wire.QOS_INIT, wire.LOW_LATENCY, wire.PATCH)))
        expect(ack.ext(0x01) is None or ack.ext(0x05) is None, "both in INIT ACK")


@BOOK.rule(
    "zenoh-wire-3.6/qos-link-1",
    OBSERVED,
    "An acceptor takes QoSLink with the value 1 as an offer of QoS.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link() as link:
        needs(link.has_qos, "QoS")
    with target.link(exts=((0x21, 1),)) as link:
        exts = link.init_ack.exts
        expect((0x01, None) in exts or (0x21, 1) in exts, f"extensions {exts} in INIT ACK")


@BOOK.rule(
    "zenoh-wire-3.6/qos-link-0",
    OBSERVED,
    "An acceptor takes QoSLink with the value 0 as no QoS.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link(exts=((0x21, 0),)) as link:
        ack = link.init_ack
        expect(ack.ext(0x01) is None and not ack.ext(0x21), f"extensions {ack.exts} in INIT ACK")


def _opens(exts: tuple[wire.Ext, ...], target: Target) -> None:
    with target.link(exts=exts):
        pass


OFFERED: tuple[tuple[str, str, tuple[wire.Ext, ...]], ...] = (
    ("auth", "Auth, when it asks for no authentication itself", ((0x43, b"\x02"),)),
    ("multilink", "MultiLink", ((0x44, b"\x40" + bytes(range(1, 65)) + b"\x03\x01\x00\x01"),)),
    ("compression", "Compression", (wire.COMPRESSION,)),
    ("region-name", "RegionName", ((0x48, b"north"),)),
    ("no-extension", "no extension at all", ()),
)
for _name, _title, _exts in OFFERED:
    BOOK.rule(
        f"zenoh-wire-3.6/{_name}",
        MUST,
        f"An acceptor completes the handshake after an INIT SYN with {_title}.",
    )(functools.partial(_opens, _exts))


@BOOK.rule(
    "zenoh-behaviour-2.2/optional-in-init",
    MUST,
    "An acceptor skips unknown extensions without the mandatory bit in an INIT SYN, whatever their encoding.",
)
def _(target: Target) -> None:
    with target.link(exts=(UNKNOWN[0], wire.QOS_INIT, *UNKNOWN[1:], wire.PATCH)) as link:
        expect(link.lives(), "the node closed the link")


@BOOK.rule(
    "zenoh-behaviour-2.2/optional-in-open",
    MUST,
    "An acceptor skips unknown extensions without the mandatory bit in an OPEN SYN, whatever their encoding.",
)
def _(target: Target) -> None:
    with target.connection() as link:
        link.init()
        link.finish(wire.open_syn(link.init_ack.cookie, exts=UNKNOWN))
        expect(link.lives(), "the node closed the link")


@BOOK.rule(
    "zenoh-behaviour-2.2/other-encoding",
    SHOULD,
    "An acceptor takes an extension of INIT with a known id and another encoding for an unknown one.",
)
def _(target: Target) -> None:
    with target.link(exts=((0x41, b"\x01"), wire.PATCH)) as link:
        expect(link.init_ack.ext(0x01) is None, "QoS in INIT ACK")
        expect(link.lives(), "the node closed the link")


@BOOK.rule("zenoh-wire-1.8/order-in-init", MUST, "An acceptor takes the extensions of INIT in any order.")
def _(target: Target) -> None:
    with target.link() as usual, target.link(exts=(wire.PATCH, wire.QOS_INIT)) as link:
        agreed = sorted(header for header, _ in link.init_ack.exts)
        expected = sorted(header for header, _ in usual.init_ack.exts)
        expect(agreed == expected, f"agreed on {agreed} in place of {expected}")


def _refuses_extension(exts: tuple[wire.Ext, ...], target: Target) -> None:
    refuses_init(lambda zid: wire.init(zid, exts=exts), 0, target)


REFUSED: tuple[tuple[str, str, tuple[wire.Ext, ...]], ...] = (
    ("both-qos", "with QoS and QoSLink", (wire.QOS_INIT, (0x21, 1))),
    ("priority-above-7", "with a priority above 7 in QoSLink", ((0x21, 0x02 | 8 << 3 | 9 << 11),)),
    ("region-empty", "with an empty RegionName", ((0x48, b""),)),
    ("region-long", "with a RegionName of 33 bytes", ((0x48, b"r" * 33),)),
)
for _name, _title, _exts in REFUSED:
    BOOK.rule(
        f"zenoh-wire-9.1/{_name}",
        OBSERVED,
        f"An acceptor refuses an INIT SYN {_title} by CLOSE GENERIC.",
        seen=RELEASE,
    )(functools.partial(_refuses_extension, _exts))


@BOOK.rule(
    "zenoh-wire-9.1/remote-bound-2",
    OBSERVED,
    "An acceptor refuses an OPEN SYN with the RemoteBound 2 by CLOSE GENERIC.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    refuses_open(lambda cookie: wire.open_syn(cookie, exts=((0x27, 2),)), 0, target)


# ---- Leases and first numbers ----


@BOOK.rule(
    "zenoh-behaviour-2.6/ack-lease", MUST, "An OPEN ACK announces the lease of its node, which is not 0."
)
def _(target: Target) -> None:
    with target.link() as link:
        expect(link.open_ack.lease_ms > 0, "lease 0")


@BOOK.rule(
    "zenoh-wire-3.4/ack-lease-seconds",
    OBSERVED,
    "An OPEN ACK gives the lease in seconds exactly when it is a whole number of them.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link() as link:
        lease, seconds = link.open_ack.lease_ms, bool(link.open_ack.flags & 0x40)
        expect(seconds == (lease % 1000 == 0), f"{lease} ms with T={seconds:d}")


@BOOK.rule(
    "zenoh-wire-3.4/lease-in-seconds", MUST, "An acceptor reads the lease of an OPEN SYN with T as seconds."
)
def _(target: Target) -> None:
    with target.connection() as link:
        link.init()
        link.finish(flagged(wire.open_syn(link.init_ack.cookie, lease_ms=2), 0x40))
        time.sleep(QUIET)
        expect(link.lives(), f"the node closed the link within {QUIET:g} s")


@BOOK.rule(
    "zenoh-wire-3.4/ack-number", MUST, "The first sequence number of an OPEN ACK fits the agreed resolution."
)
def _(target: Target) -> None:
    with target.link(sizes=(BIT_8, 65535)) as link:
        expect(link.open_ack.sn <= link.mask, f"number {link.open_ack.sn} above {link.mask}")


@BOOK.rule(
    "zenoh-wire-3.4/first-number",
    MUST,
    "The first FRAME of a node on a channel has the number that its OPEN ACK announced.",
)
def _(target: Target) -> None:
    with target.link() as link:
        link.send(wire.request(1, f"{target.unique_key()}/none", wire.query()))
        frame = next_transport(link)
        expect(frame.kind == "FRAME", f"{frame.kind} came")
        expect(frame.sn == link.open_ack.sn, f"number {frame.sn} after {link.open_ack.sn} in OPEN ACK")


@BOOK.rule(
    "zenoh-wire-3.4/first-number-taken",
    MUST,
    "A receiver takes the announced number as the first one of each channel.",
)
def _(target: Target) -> None:
    with target.link(first=4711) as link:
        channels = [(wire.DATA, True), (wire.DATA, False)]
        channels += [(wire.CONTROL, True), (7, False)] if link.has_qos else []
        for priority, reliable in channels:
            takes(link, link.frame, priority=priority, reliable=reliable)


# ---- Several links of one node ----


@BOOK.rule(
    "zenoh-behaviour-2.3/second-link",
    SHOULD,
    "An acceptor refuses a second link of a connected ZenohID by CLOSE MAX_LINKS when it agreed on one link.",
)
def _(target: Target) -> None:
    with target.link() as first, target.connection(first.zid) as second:
        second.init()
        second.send_batch(wire.open_syn(second.init_ack.cookie, lease_ms=60_000))
        reason = second.close_reason()
        expect(reason == MAX_LINKS, f"CLOSE {reason}")


@BOOK.rule(
    "zenoh-behaviour-2.3/second-link-differs",
    OBSERVED,
    "An acceptor refuses a second link of a connected ZenohID with other parameters by CLOSE INVALID.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link() as first, target.connection(first.zid) as second:
        second.init(wire.init(first.zid, role=PEER, sizes=(BIT_8, 65535)))
        second.send_batch(wire.open_syn(second.init_ack.cookie))
        reason = second.close_reason()
        expect(reason == INVALID, f"CLOSE {reason}")


@BOOK.rule(
    "zenoh-behaviour-2.3/first-link-stays",
    MUST,
    "A second link of a connected ZenohID leaves the link that exists alone.",
)
def _(target: Target) -> None:
    with target.link() as first, target.connection(first.zid) as second:
        second.init()
        second.send_batch(wire.open_syn(second.init_ack.cookie))
        second.closed()
        expect(first.lives(), "the node closed the first link")


@BOOK.rule(
    "zenoh-behaviour-1.5/after-close",
    OBSERVED,
    "An acceptor takes a new link of a ZenohID at the first try when the old one ended by CLOSE.",
    seen=RELEASE,
)
def _(target: Target) -> None:
    with target.link() as first:
        first.send_batch(wire.close())
        expect(first.closed(), "the node did not close the link")
    with target.link(zid=first.zid) as second:
        expect(second.lives(), "the node closed the second link")


@BOOK.rule(
    "zenoh-behaviour-1.5/after-loss",
    MUST,
    "An acceptor takes a new link of a ZenohID after the connection of the old one was closed.",
)
def _(target: Target) -> None:
    with target.link() as first:
        pass
    until = time.monotonic() + PATIENCE
    while not _reopens(target, first.zid):
        expect(time.monotonic() < until, f"no link within {PATIENCE:g} s")
        time.sleep(0.05)


def _reopens(target: Target, zid: bytes) -> bool:
    with target.connection(zid) as link:
        link.init()
        link.send_batch(wire.open_syn(link.init_ack.cookie))
        return next_transport(link).kind == "OPEN"


@BOOK.rule(
    "zenoh-behaviour-2.3/own-id",
    SHOULD,
    "An acceptor refuses its own ZenohID by CLOSE CONNECTION_TO_SELF in place of OPEN ACK.",
)
def _(target: Target) -> None:
    with target.connection(target.zid) as link:
        link.init()
        link.send_batch(wire.open_syn(link.init_ack.cookie))
        reason = link.close_reason()
        expect(reason == TO_SELF, f"CLOSE {reason}")


@BOOK.rule(
    "zenoh-behaviour-2.3/two-ids", MUST, "An acceptor keeps links of different ZenohIDs beside each other."
)
def _(target: Target) -> None:
    with target.link() as first, target.link() as second:
        expect(second.lives(), "the node closed the second link")
        expect(first.lives(), "the node closed the first link")


@BOOK.rule(
    "zenoh-behaviour-2.1/half-open-beside",
    MUST,
    f"An acceptor completes a handshake while {HELD} other connections are silent.",
    alone=True,
)
def _(target: Target) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(HELD):
            held.enter_context(target.connection())
        with target.link() as link:
            expect(link.lives(), "the node closed the link")


@BOOK.rule(
    "zenoh-behaviour-2.1/half-open-bound",
    SHOULD,
    f"An acceptor has at most {HALF_OPEN} handshakes at once, and closes a connection for each one beyond.",
    alone=True,
)
def _(target: Target) -> None:
    beyond = 8
    with contextlib.ExitStack() as held:
        links = [held.enter_context(target.connection()) for _ in range(HALF_OPEN + beyond)]
        until, closed = time.monotonic() + PATIENCE, 0
        while closed < beyond and time.monotonic() < until:
            closed = sum(link.closed(0.001) for link in links)
        expect(closed >= beyond, f"{closed} of {len(links)} silent connections were closed")


# ---- First messages ----


@BOOK.rule(
    "zenoh-behaviour-1.4/link-state-to-peer",
    SHOULD,
    "A router sends link state first on the link of a peer.",
    roles=("router",),
)
def _(target: Target) -> None:
    with target.link(role=PEER) as link:
        message = link.network()
        expect(message.kind == "OAM" and message.id == 1, f"{message.kind} {message.raw.hex()} came first")


@BOOK.rule(
    "zenoh-behaviour-1.4/final-to-peer",
    MUST,
    "A peer sends D_FINAL for the interest 0 on the link of a peer without being asked.",
    roles=("peer",),
)
def _(target: Target) -> None:
    with target.link(role=PEER) as link:
        final = link.next("D_FINAL")
        expect(final.interest == 0, f"interest {final.interest}")


@BOOK.rule("zenoh-wire-4.10/silent-to-client", MUST, "A node announces nothing on the link of a client.")
def _(target: Target) -> None:
    with target.link(role=CLIENT) as link:
        seen = link.barrier()
        expect(not seen, f"{[message.kind for message in seen]} came")
