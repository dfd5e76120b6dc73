"""Rules of the HELLO that a node sends (``zre`` 4, 8, 9.1, 9.2, 11.2)."""

from __future__ import annotations

from zwire.conformance._rules import expect
from zwire.conformance.zre import _wire as wire
from zwire.conformance.zre._book import BOOK, MODERN, MUST, OLD, SHOULD, alone
from zwire.conformance.zre._target import GROUP, HEADER, Target
from zwire.conformance.zre._wire import HELLO


def _layout(target: Target) -> None:
    # The decoder reads the layout of the target's generation, and takes no octet more or less.
    with target.stranger() as peer:
        peer.connect()
        peer.say_hello()
        expect(peer.is_met(), "the node did not connect")
        first = peer.until(lambda _: True)[0]
        expect(first.id == HELLO, f"{first.kind} {first.raw.hex()}")


BOOK.rule(
    "zre-9.2/layout",
    MUST,
    "A HELLO of 36/ZRE is an endpoint, groups with counts of four octets, status, name and headers.",
    roles=MODERN,
)(_layout)
BOOK.rule(
    "zre-9.2/layout-20",
    MUST,
    "A HELLO of 20/ZRE is an address, a port, groups with counts of one octet, status and headers.",
    roles=["20"],
)(_layout)
BOOK.rule(
    "zre-9.2/layout-zyre1",
    MUST,
    "A HELLO of zyre 1.0.0 is an address, a port, groups with counts of four octets, status and headers.",
    roles=["zyre1"],
)(_layout)


@BOOK.rule("zre-9.1/version-2", MUST, "The version octet behind the message id is 2 in 36/ZRE.", roles=["36"])
def _(target: Target) -> None:
    with target.peer() as peer:
        expect(peer.hello.raw[3] == 2, f"HELLO {peer.hello.raw[:6].hex()}")


@BOOK.rule("zre-9.1/version-3", MUST, "The version octet behind the message id is 3 in 43/ZRE.", roles=["43"])
def _(target: Target) -> None:
    with target.peer() as peer:
        expect(peer.hello.raw[3] == 3, f"HELLO {peer.hello.raw[:6].hex()}")


@BOOK.rule("zre-9.1/no-version", MUST, "The sequence number follows the message id before 36/ZRE.", roles=OLD)
def _(target: Target) -> None:
    with target.peer() as peer:
        expect(peer.hello.raw[3:5] == b"\0\1", f"HELLO {peer.hello.raw[:6].hex()}")


@BOOK.rule("zre-9.1/signature", MUST, "A HELLO begins with the signature AA A1 and the message id 1.")
def _(target: Target) -> None:
    with target.peer() as peer:
        expect(peer.hello.raw[:3] == b"\xaa\xa1\x01", f"HELLO {peer.hello.raw[:6].hex()}")


@BOOK.rule(
    "zre-4/identity-17",
    MUST,
    "The DEALER of a node of 36/ZRE has an identity of 17 octets, 01 and the UUID.",
    roles=MODERN,
)
def _(target: Target) -> None:
    with target.peer() as peer:
        identity = peer.links[0].identity
        expect(identity == b"\x01" + target.uuid, f"identity {identity.hex()}")


@BOOK.rule(
    "zre-4/identity-16",
    MUST,
    "The DEALER of a node of 20/ZRE has the 16 octets of the UUID as identity.",
    roles=OLD,
)
def _(target: Target) -> None:
    with target.peer() as peer:
        identity = peer.links[0].identity
        expect(len(identity) == 16 and identity == target.uuid, f"identity {identity.hex()}")


@BOOK.rule("zre-3/dealer", MUST, "A node connects to the mailbox of a peer with a DEALER socket.")
def _(target: Target) -> None:
    with target.peer() as peer:
        kind = peer.links[0].socket_type
        expect(kind == b"DEALER", f"Socket-Type {kind!r}")


@BOOK.rule("zre-3/router", MUST, "The mailbox of a node is a ROUTER socket.")
def _(target: Target) -> None:
    with target.peer() as peer:
        kind = peer.dealer.socket_type if peer.dealer else b""
        expect(kind == b"ROUTER", f"Socket-Type {kind!r}")


@BOOK.rule("zre-11.2/first", MUST, "The first message of a node on a new connection is HELLO.")
def _(target: Target) -> None:
    with target.stranger() as peer:
        peer.connect()
        peer.say_hello(groups=[GROUP], status=1)
        peer.whisper(target.unique())
        first = peer.until(lambda _: True)[0]
        expect(first.id == HELLO, f"{first.kind} came first")


@BOOK.rule("zre-9.2/number", MUST, "A HELLO has the sequence number 1.")
def _(target: Target) -> None:
    with target.peer() as peer:
        expect(peer.hello.sequence == 1, f"number {peer.hello.sequence}")


@BOOK.rule("zre-11.2/once", MUST, "A node sends HELLO once in a session.")
def _(target: Target) -> None:
    with target.peer() as peer:
        seen = peer.barrier() + peer.barrier()
        expect(HELLO not in [message.id for message in seen], "a second HELLO came")


@BOOK.rule("zre-11.4/own-groups", MUST, "A node lists the groups that it has joined in its HELLO.")
def _(target: Target) -> None:
    with target.peer() as peer:
        expect(GROUP in peer.hello.groups, f"groups {peer.hello.groups}")


@BOOK.rule("zre-11.6/headers", MUST, "A node sends its headers in HELLO.")
def _(target: Target) -> None:
    with target.peer() as peer:
        expect(HEADER.items() <= peer.hello.headers.items(), f"headers {peer.hello.headers}")


@BOOK.rule("zre-8/utf8", MUST, "The strings of a HELLO are UTF-8 without zero octets.")
def _(target: Target) -> None:
    with target.peer() as peer:
        headers = [text for entry in peer.hello.headers.items() for text in entry]
        for text in (peer.hello.name, *peer.hello.groups, *headers):
            expect(b"\0" not in text and text.decode(errors="replace").encode() == text, f"string {text!r}")


@BOOK.rule("zre-9.2/name", MUST, "A HELLO of 36/ZRE carries a name.", roles=MODERN)
def _(target: Target) -> None:
    with target.peer() as peer:
        expect(peer.hello.name, "an empty name")


@BOOK.rule("zre-11.4/same-status", MUST, "A node tells all peers the same status.")
def _(target: Target) -> None:
    with target.peer() as one, target.peer() as two:
        expect(one.hello.status == two.hello.status, f"{one.hello.status} and {two.hello.status}")


@BOOK.rule(
    "zre-8/header-values", MUST, "A node takes a HELLO with a header of 200 octets and an equals sign in it."
)
def _(target: Target) -> None:
    with target.peer(headers={b"X-LONG": b"a=" * 100, b"X-EMPTY": b""}) as peer:
        peer.barrier()


@BOOK.rule(
    "zre-8/long-header",
    MUST,
    "A node takes a header value of more than 255 octets.",
    roles=(*MODERN, "zyre1"),
)
def _(target: Target) -> None:
    with target.peer(headers={b"X-LONG": b"v" * 3000}) as peer:
        peer.barrier()


@BOOK.rule("zre-8/many-headers", MUST, "A node takes a HELLO with 200 headers.")
def _(target: Target) -> None:
    with target.peer(headers={b"X-%d" % number: b"%d" % number for number in range(200)}) as peer:
        peer.barrier()


@BOOK.rule("zre-8/many-groups", MUST, "A node takes a HELLO with 200 groups, and knows the last one.")
def _(target: Target) -> None:
    groups = [target.unique() for _ in range(199)]
    with target.peer(groups=[*groups, GROUP], status=200) as peer:
        peer.shouted(GROUP)


@BOOK.rule("zre-8/utf8-name", MUST, "A node takes a HELLO with a name and a header beyond ASCII.")
def _(target: Target) -> None:
    with target.peer(name="Größe 日本".encode(), headers={b"X-SIZE": "groß".encode()}) as peer:
        peer.barrier()


@BOOK.rule("zre-9.2/empty", MUST, "A node takes a HELLO without groups, headers and name.")
def _(target: Target) -> None:
    with target.peer(name=b"") as peer:
        peer.barrier()


@alone(
    "zre-16/no-equals",
    SHOULD,
    "A node ignores a header entry without an equals sign, and takes the HELLO.",
    roles=["20"],
)
def _(target: Target) -> None:
    with target.stranger() as peer:
        peer.connect()
        whole = wire.hello("20", peer.host, peer.port)
        peer.send_octets(whole[:-1] + wire.strings("20", [b"X-NOTHING"]))
        peer.sequence = 1
        peer.next(HELLO)
        peer.barrier()
