"""The remote API over WebSockets: each operation, the bytes of the published client, hostile frames."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import nodes
import zwire
from remote_api import BINARY, DEFAULT_QOS, RemoteClient, field, u32
from zwire import http as zhttp
from zwire import zenoh

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = "127.0.0.1:0"
ANY = b"\x02"
NO_ENCODING = b"\0\0\0"
BYTES = b"\0\0"
QOS = bytes([DEFAULT_QOS])
SETTINGS = b"\x10"


@pytest.fixture
def router():
    """A router."""
    with nodes.router(adminspace__enabled=True) as session:
        yield session


@pytest.fixture
def server(router):
    """A server of it."""
    with zhttp.serve(router, HERE) as server:
        yield server


@pytest.fixture
def client(server):
    """A client of the remote API."""
    with RemoteClient(server.port) as client:
        yield client


@contextmanager
def another(server: zhttp.Server) -> Iterator[RemoteClient]:
    """Connect one more."""
    with RemoteClient(server.port) as client:
        yield client


def test_the_bytes_of_the_published_client(router, client):
    """Sent by zenoh-ts 1.10.0; the answers are those of its tables."""
    client.frame(BINARY, bytes.fromhex("9900000000"))
    answer = client.message()
    assert answer is not None
    assert answer.raw[:6] == bytes.fromhex("800000000024")
    assert len(answer.raw) == 6 + 36
    client.frame(BINARY, bytes.fromhex("82010000000000000003612f6202"))
    assert client.message().raw == bytes.fromhex("810100000002")
    client.frame(BINARY, bytes.fromhex("84020000000100000004712f2a2a0102"))
    assert client.message().raw == bytes.fromhex("810200000004")
    client.frame(BINARY, bytes.fromhex("80030000000200000001700000 00a5"))
    assert client.message().raw == bytes.fromhex("810300000000")
    with router.declare_subscriber("**") as subscriber:
        client.frame(BINARY, bytes.fromhex("0e01610268690000000000a5"))
        client.frame(BINARY, bytes.fromhex("0f01610000a5"))
        client.frame(BINARY, bytes.fromhex("10020000000178000000"))
        put, deleted, published = (subscriber.recv(timeout=10) for _ in range(3))
    assert (str(put.key_expr), bytes(put.payload), str(put.encoding)) == ("a", b"hi", "zenoh/bytes")
    assert deleted.kind == zenoh.SampleKind.DELETE
    assert (str(published.key_expr), bytes(published.payload)) == ("p", b"x")
    with router.declare_queryable("g/*", lambda query: query.reply("g/1", str(query.parameters))):
        client.frame(BINARY, bytes.fromhex("120300000003672f2a03783d31000000ad1010270000"))
        reply, end = client.event(), client.event()
    assert (reply.id, reply.u32(), reply.u8()) == (7, 3, 1)
    assert reply.sample()["payload"] == b"x=1"
    assert (end.id, end.u32()) == (8, 3)
    client.frame(BINARY, bytes.fromhex("830400000000000000"))
    assert client.message().raw == bytes.fromhex("810400000003")


def test_clients_are_in_the_admin_space(router, server, client):
    """Lists of `@/<zid>/remote-plugin`, with the names and under the keys of the reference."""
    prefix = f"@/{router.zid()}/remote-plugin"

    def found(key):
        replies = [reply.ok for reply in router.get(key, timeout=5)]
        assert all(str(sample.encoding) == "application/json" for sample in replies)
        return {str(sample.key_expr): json.loads(str(sample.payload)) for sample in replies}

    uuid = client.ask(25).text()
    client.declare(0, u32(1), field("a/p"), b"\x04\0", field(""), QOS)
    client.declare(2, u32(2), field("a/s/**"), ANY)
    client.declare(4, u32(3), field("a/q"), b"\0", ANY)
    client.declare(6, u32(4), field("a/a"), bytes([0xAD]), SETTINGS, u32(1000))
    client.declare(8, u32(5), field("a/t"))
    one = {
        "uuid": uuid,
        "remote_address": client.address,
        "publishers": {"1": "a/p"},
        "subscribers": {"2": "a/s/**"},
        "queryables": {"3": "a/q"},
        "queriers": {"4": "a/a"},
        "liveliness_tokens": {"5": "a/t"},
    }
    assert found(f"{prefix}/clients/{uuid}") == {f"{prefix}/clients/{uuid}": one}
    for key in (f"{prefix}/clients", f"{prefix}/clients/*", f"{prefix}/clients/**"):
        assert found(key) == {key: [one]}
    # Lists of several nodes have different keys.
    assert found("@/*/remote-plugin/clients/*") == {f"{prefix}/clients/**": [one]}
    (raw,) = router.get(f"{prefix}/clients/*")
    assert str(raw.ok.payload) == json.dumps([one], indent=2)
    assert found(f"{prefix}/clients/{uuid[:-1]}") == {}
    config = {
        "websocket_port": HERE,
        "secure_websocket": None,
        "__path__": None,
        "__required__": None,
        "__config__": None,
    }
    names = {f"{prefix}/config": config, f"{prefix}/version": zwire.__version__}
    assert found(f"{prefix}/**") == names
    assert found(f"{prefix}/version") == {f"{prefix}/version": zwire.__version__}
    for request, number in ((1, 1), (3, 2), (5, 3), (7, 4), (9, 5)):
        client.declare(request, u32(number))
    empty = {name: {} for name, value in one.items() if isinstance(value, dict)}
    with another(server) as second:
        other = second.ask(25).text()
        (listed,) = found(f"{prefix}/clients/*").values()
        assert {each["uuid"] for each in listed} == {uuid, other}
        assert {**one, **empty} in listed
    nodes.eventually(lambda: found(f"{prefix}/clients/*") == {f"{prefix}/clients/*": [{**one, **empty}]})


@pytest.mark.parametrize(
    "settings", [{"adminspace__enabled": True, "adminspace__permissions__read": False}, {}], ids=str
)
def test_clients_are_not_in_an_admin_space_that_must_not_be_read(settings):
    with (
        nodes.router(**settings) as router,
        zhttp.serve(router, HERE) as server,
        RemoteClient(server.port) as client,
    ):
        client.ask(25)
        assert list(router.get(f"@/{router.zid()}/remote-plugin/**", timeout=5)) == []


def test_samples_have_all_their_fields(router, client):
    client.declare(2, u32(7), field("s/**"), ANY)
    stamp = router.new_timestamp()
    router.put(
        "s/x",
        b"v",
        encoding="text/plain;utf-8",
        attachment=b"att",
        timestamp=stamp,
        priority=zenoh.Priority.DATA_HIGH,
        congestion_control=zenoh.CongestionControl.BLOCK,
        express=True,
    )
    router.delete("s/x")
    event = client.event()
    assert (event.id, event.u32()) == (5, 7)
    sample = event.sample()
    event.done()
    assert sample["timestamp"][1] == str(router.zid())
    del sample["timestamp"]
    # Priority 4, block, express, reliable, any destination.
    assert sample == {
        "key": "s/x",
        "payload": b"v",
        "kind": 0,
        "encoding": (4, "utf-8"),
        "attachment": b"att",
        "qos": 4 | 8 | 16 | 32 | 2 << 6,
    }
    event = client.event()
    event.u32()
    assert event.sample()["kind"] == 1
    client.declare(3, u32(7))
    assert client.ask(3, u32(7)).id == 2, "it is undeclared already"


def test_numbers_in_use_are_refused(client):
    client.declare(2, u32(1), field("a"), ANY)
    answer = client.ask(2, u32(1), field("b"), ANY)
    assert (answer.id, answer.text()) == (2, "the id 1 already exists")


def test_pages_talk_to_each_other(server, client):
    with another(server) as other:
        client.declare(2, u32(0), field("chat"), ANY)
        other.send(14, field("chat"), field("hello"), BYTES + b"\0", NO_ENCODING[:2], QOS)
        event = client.event()
        assert event.u32() == 0
        assert event.sample()["payload"] == b"hello"
        client.declare(4, u32(1), field("q"), b"\0", ANY)
        other.send(
            18,
            u32(5),
            field("q"),
            field("p=1"),
            b"\x01",
            field("body"),
            b"\x01",
            b"\x04\0",
            field(""),
            b"\0",
            bytes([0xAD]),
            SETTINGS,
            u32(5000),
        )
        query = client.event()
        assert (query.id, query.u32()) == (6, 1)
        number = query.u32()
        assert (query.text(), query.text()) == ("q", "p=1")
        assert query.option(query.octets) == b"body"
        assert query.option(lambda: (query.u16(), query.text())) == (4, "")
        assert (query.option(query.octets), query.u8()) == (None, 1)
        query.done()
        client.send(21, u32(number), field("q"), field("one"), BYTES + b"\0", b"\0\0", QOS)
        client.send(22, u32(number), field("q"), b"\0\0", QOS)
        client.send(23, u32(number), field("no"), b"\x04\0", field(""))
        client.send(24, u32(number))
        replies = [other.event() for _ in range(3)]
        assert [reply.u32() for reply in replies] == [5, 5, 5]
        # An error comes at once, the newest of each key at the end.
        kinds = sorted((reply.id, reply.u8()) if reply.id == 7 else (8, 0) for reply in replies)
        assert kinds == [(7, 0), (7, 1), (8, 0)]


def test_publishers_and_queriers_know_their_counterparts(router, client):
    client.declare(0, u32(1), field("m/p"), b"\x04\0", field(""), QOS)
    client.declare(6, u32(2), field("m/q"), bytes([0xAD]), SETTINGS, u32(1000))
    client.declare(26, u32(3), u32(1))
    client.declare(29, u32(4), u32(2))
    answer = client.ask(28, u32(1))
    assert (answer.id, answer.u8()) == (9, 0)
    with (
        router.declare_subscriber("m/p") as subscriber,
        router.declare_queryable("m/q", lambda query: query.reply("m/q", b"r")),
    ):
        changes = [client.event(), client.event()]
        assert sorted((change.id, change.u32(), change.u8()) for change in changes) == [
            (10, 3, 1),
            (10, 4, 1),
        ]
        assert client.ask(30, u32(2)).u8() == 1
        client.send(16, u32(1), field("v"), b"\0", b"\0\0")
        sample = subscriber.recv(timeout=10)
        assert (bytes(sample.payload), str(sample.encoding)) == (b"v", "text/plain")
        client.send(17, u32(1), b"\0\0")
        assert subscriber.recv(timeout=10).kind == zenoh.SampleKind.DELETE
        client.send(19, u32(9), u32(2), field(""), b"\0\0\0")
        reply = client.event()
        assert (reply.u32(), reply.u8(), reply.sample()["payload"]) == (9, 1, b"r")
        assert client.event().id == 8
    changes = [client.event(), client.event()]
    assert sorted((change.id, change.u32(), change.u8()) for change in changes) == [(10, 3, 0), (10, 4, 0)]
    for request, number in ((27, 3), (27, 4), (1, 1), (7, 2)):
        client.declare(request, u32(number))


def test_liveliness(router, server, client):
    client.declare(10, u32(1), field("live/**"), b"\x01")
    with another(server) as other:
        other.declare(8, u32(0), field("live/page"))
        event = client.event()
        assert (event.id, event.u32(), event.sample()["key"]) == (5, 1, "live/page")
        client.send(20, u32(2), field("live/**"), u32(2000))
        reply = client.event()
        assert (reply.id, reply.u32(), reply.u8(), reply.text()) == (7, 2, 1, "live/page")
        assert client.event().id == 8
        with router.liveliness().declare_subscriber("live/**", history=True) as subscriber:
            assert str(subscriber.recv(timeout=10).key_expr) == "live/page"
    event = client.event()
    assert event.u32() == 1
    assert event.sample()["kind"] == 1, "the connection of the page ended"
    client.declare(11, u32(1))


def test_questions_about_the_session(router, client):
    with nodes.client(router) as other:
        # The router may open the link a moment later than the client.
        nodes.eventually(router.info.links)
        info = client.ask(12)
        assert (info.id, info.zid()) == (4, str(router.zid()))
        stamp = client.ask(13)
        assert (stamp.id, stamp.u64() >> 32 > 1_700_000_000, stamp.zid()) == (3, True, str(router.zid()))
        transports = client.ask(31)
        assert (transports.id, transports.u8()) == (11, 1)
        assert (transports.zid(), transports.u8(), transports.u8(), transports.u8()) == (
            str(other.zid()),
            4,
            1,
            0,
        )
        links = client.ask(32)
        assert (links.id, links.u8(), links.zid()) == (12, 1, str(other.zid()))
        assert links.text() in router.listening()
        client.declare(33, u32(1), b"\x01")
        client.declare(35, u32(2), b"\x01")
        first, second = client.event(), client.event()
        assert {(e.id, e.u32(), e.u8(), e.zid()) for e in (first, second)} == {
            (13, 1, 0, str(other.zid())),
            (14, 2, 0, str(other.zid())),
        }
    gone = [client.event(), client.event()]
    assert {(e.id, e.u32(), e.u8()) for e in gone} == {(13, 1, 1), (14, 2, 1)}
    client.declare(34, u32(1))
    client.declare(36, u32(2))


def test_a_page_that_goes_finishes_its_queries(router, server):
    with another(server) as page:
        page.declare(4, u32(0), field("slow"), b"\0", ANY)
        replies = router.get("slow", timeout=30)
        assert page.event().id == 6
        begun = time.monotonic()
    assert list(replies) == []
    assert time.monotonic() - begun < 15


def test_what_cannot_be_read_is_refused_or_ignored(client):
    for problem, raw in [
        ("unknown id", b"\xa5" + u32(0)),
        ("key", b"\x82" + u32(0, 1) + field("a//b") + ANY),
        ("origin", b"\x82" + u32(0, 1) + field("a") + b"\x07"),
        ("more bytes", b"\x8e" + u32(0) + b"\x01a\xff\xff\xff\xff\x7f"),
        ("does not exist", b"\x90" + u32(0, 99) + field("x") + b"\0\0\0"),
        ("does not exist", b"\x98" + u32(0, 99)),
    ]:
        client.frame(BINARY, raw)
        answer = client.message()
        assert answer is not None, problem
        assert answer.id == 2, problem
        assert problem in answer.text()
    # Without a number nothing is answered, and text and empty messages are ignored.
    client.frame(BINARY, b"")
    client.frame(BINARY, b"\x82\x01")
    client.frame(BINARY, b"\x25")
    client.frame(1, b"text")
    assert client.ask(25).id == 0


@pytest.mark.parametrize(
    "octets",
    [
        b"\x82\x01a",  # not masked
        b"\xf2\x81\0\0\0\0a",  # reserved bits
        b"\x83\x81\0\0\0\0a",  # an unknown kind
        b"\x09\x81\0\0\0\0a",  # a ping in parts
        b"\x89\xfe\x01\x00\0\0\0\0" + bytes(256),  # a long ping
        b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",  # a length that lies
        b"\x80\x81\0\0\0\0a",  # a continuation of nothing
        b"\x88\x81\0\0\0\0a",  # a close with half a code
    ],
)
def test_frames_that_lie_cost_their_connection(server, client, octets):
    client.stream.sendall(octets)
    client.until_closed()
    with another(server) as other:
        assert other.ask(25).id == 0


def test_a_message_in_parts_is_one_and_has_a_bound(router):
    with (
        zhttp.serve(router, HERE, limits=zhttp.Limits(body=1000)) as server,
        another(server) as client,
        router.declare_subscriber("a") as subscriber,
    ):
        message = b"\x0e" + field("a") + field(bytes(500)) + b"\0\0\0\0\0" + QOS
        client.frame(BINARY, message[:100], fin=False)
        client.frame(0, message[100:])
        assert len(bytes(subscriber.recv(timeout=10).payload)) == 500
        client.frame(BINARY, bytes(600), fin=False)
        client.frame(0, bytes(600))
        client.until_closed()


def test_a_page_that_does_not_read_loses_the_oldest(router, server, client):
    client.declare(2, u32(0), field("flood"), ANY)
    for number in range(12_000):
        router.put("flood", number.to_bytes(4, "big") + bytes(4000))
    router.put("flood", b"last")
    last = b""
    seen = 0
    while last != b"last":
        event = client.event()
        event.u32()
        last = event.sample()["payload"]
        seen += 1
    assert seen <= 12_001
    assert client.ask(25).id == 0


def test_a_page_with_many_events_is_answered(router, client):
    client.declare(2, u32(0), field("flood"), ANY)
    client.declare(2, u32(1), field("calm"), ANY)
    for _ in range(12_000):
        router.put("flood", bytes(4000))
    router.put("calm", b"1")
    router.put("flood", b"last")
    assert client.ask(25).id == 0
    # Thousands of events are still to come then, and the other subscriber has its turn before them.
    seen = [(event.u32(), event.sample()["payload"]) for event in client.events]
    client.events.clear()
    assert (0, b"last") not in seen
    calm = (1, b"1") in seen
    while not calm:
        event = client.event()
        seen.append((event.u32(), event.sample()["payload"]))
        calm = seen[-1] == (1, b"1")
    assert (0, b"last") not in seen


@pytest.mark.parametrize(
    ("id", "fields"),
    [
        (18, field("a//b")),
        (18, field("a") + b"\x05x"),
        (18, b""),
        (19, u32(99)),
        (20, field("a")),
        (20, b"\xff"),
    ],
)
def test_gets_that_cannot_be_read_end(client, id, fields):
    """The published client asks without a number, and waits for the end of the get that it has named."""
    client.send(id, u32(7), fields)
    reply, end = client.event(), client.event()
    assert (reply.id, reply.u32(), reply.u8()) == (7, 7, 0)
    assert reply.octets()
    assert (end.id, end.u32()) == (8, 7)
    # With a number the answer to it is all; without an id there is nothing to end.
    assert client.ask(id, u32(7), fields).id == 2
    client.send(id, b"\x07\0")
    assert client.ask(25).id == 0


def test_refused_gets_end(client):
    query = field("") + NO_ENCODING + QOS + SETTINGS + u32(1000)
    client.send(18, u32(3), field("a//b"), query)
    client.send(19, u32(4), u32(99), field(""), NO_ENCODING)
    assert client.ask(18, u32(6), field("a"), query).id == 1
    for number, text in ((3, b"Get key"), (4, b"the id 99 does not exist")):
        reply, end = client.event(), client.event()
        assert (reply.id, reply.u32(), reply.u8()) == (7, number, 0)
        assert text in reply.octets()
        assert (end.id, end.u32()) == (8, number)
    end = client.event()
    assert (end.id, end.u32()) == (8, 6)


def test_lost_replies_are_told(router, client):
    replied = threading.Event()

    def answer(query: zenoh.Query) -> None:
        for number in range(80_000):
            query.reply(f"many/{number}", bytes(1000))
        replied.set()

    with router.declare_queryable("many/**", answer):
        settings = u32(100_000)
        client.send(
            18, u32(0), field("many/**"), field("_time=[now(-1h)..]"), NO_ENCODING, QOS, SETTINGS, settings
        )
        assert replied.wait(60)
        got = 0
        while (event := client.event()).id == 7:
            assert event.u32() == 0
            got += event.u8()
            last = event
    assert event.id == 8
    assert 0 < got < 80_000
    assert b"replies were dropped" in last.raw


def test_tokens_of_pages(router):
    with zhttp.serve(router, HERE, tokens=[zhttp.Token("abc", "ann", expires=time.time() + 2)]) as server:
        with RemoteClient(server.port) as refused:
            assert refused.status == 401
        headers = "Sec-WebSocket-Protocol: zwire, bearer.abc\r\n"
        with RemoteClient(server.port, headers=headers) as client:
            assert client.status == 101
            assert b"sec-websocket-protocol: zwire\r\n" in client.head.lower()
            assert client.ask(25).id == 0
            assert client.message() is None
            assert client.closed == (1008, "the token has expired")


def test_pages_of_other_origins_are_refused(router):
    with zhttp.serve(router, HERE, origins=["https://a.example"]) as server:
        with RemoteClient(server.port, headers="Origin: https://b.example\r\n") as client:
            assert client.status == 403
        with RemoteClient(server.port, headers="Origin: https://a.example\r\n") as client:
            assert client.ask(25).id == 0


def test_access_rules_apply_to_pages():
    rules = {
        "enabled": True,
        "default_permission": "deny",
        "rules": [
            {
                "id": "r",
                "permission": "allow",
                "messages": ["put", "declare_subscriber"],
                "key_exprs": ["open/**"],
            }
        ],
        "subjects": [{"id": "ann", "usernames": ["ann"]}],
        "policies": [{"rules": ["r"], "subjects": ["ann"]}],
    }
    tokens = [zhttp.Token("abc", "ann")]
    with (
        nodes.router(access_control=rules) as router,
        zhttp.serve(router, HERE, tokens=tokens) as server,
        RemoteClient(server.port, headers="Authorization: Bearer abc\r\n") as client,
    ):
        client.declare(2, u32(0), field("open/**"), ANY)
        for id, fields in [
            (2, (u32(1), field("closed"), ANY)),
            (4, (u32(2), field("open/q"), b"\0", ANY)),
            (8, (u32(3), field("open/t"))),
            (10, (u32(4), field("open/t"), b"\0")),
            (0, (u32(5), field("closed"), b"\0\0\0", QOS)),
            (14, (field("closed"), field("x"), b"\0\0\0", b"\0\0", QOS)),
            (18, (u32(6), field("open/x"), field(""), b"\0\0\0", bytes([0xAD]), SETTINGS, u32(1000))),
        ]:
            answer = client.ask(id, *fields)
            assert answer.id == 2, id
            assert "refuse" in answer.text()
        client.send(14, field("open/x"), field("x"), b"\0\0\0", b"\0\0", QOS)
        assert client.event().id == 5
        for id in (31, 32):
            assert "/session/**" in client.ask(id).text(), id
        for id in (33, 35):
            assert client.ask(id, u32(7), b"\1").id == 2, id


def test_replies_of_pages_are_judged():
    rule = {
        "id": "r",
        "permission": "allow",
        "messages": ["query", "declare_queryable", "reply"],
        "key_exprs": ["open/**"],
        "flows": ["ingress", "egress"],
    }
    rules = {
        "enabled": True,
        "default_permission": "deny",
        "rules": [rule],
        "subjects": [{"id": "ann", "usernames": ["ann"]}],
        "policies": [{"rules": ["r"], "subjects": ["ann"]}],
    }
    size = {"messages": ["reply"], "flows": ["ingress"], "key_exprs": ["**"], "size_limit": 100}
    with (
        nodes.router(access_control=rules, low_pass_filter=[size]) as router,
        zhttp.serve(router, HERE, tokens=[zhttp.Token("abc", "ann")]) as server,
        RemoteClient(server.port, headers="Authorization: Bearer abc\r\n") as client,
    ):
        client.declare(4, u32(0), field("open/**"), b"\0", ANY)
        replies = router.get("open/x?_anyke", timeout=30)
        query = client.event()
        query.u32()
        number = u32(query.u32())
        for key, length, status in [("closed", 1, 2), ("open/x", 101, 2), ("open/x", 100, 1)]:
            answer = client.ask(21, number, field(key), field(bytes(length)), NO_ENCODING, b"\0\0", QOS)
            assert answer.id == status, (key, length)
        answer = client.ask(23, number, field(bytes(101)), NO_ENCODING)
        assert "refuse reply" in answer.text()
        client.send(24, number)
        assert [len(bytes(reply.ok.payload)) for reply in replies] == [100]


def test_tokens_that_the_rules_refuse_vanish():
    rule = {"id": "r", "permission": "allow", "messages": ["liveliness_token"], "key_exprs": ["alive/**"]}
    rules = {
        "enabled": True,
        "default_permission": "deny",
        "rules": [rule],
        "subjects": [{"id": "ann", "usernames": ["ann"]}],
        "policies": [{"rules": ["r"], "subjects": ["ann"]}],
    }
    settings = nodes.settings("router", listen=nodes.LOCAL)
    with (
        zenoh.open(settings | {"access_control": rules}) as router,
        zhttp.serve(router, HERE, tokens=[zhttp.Token("abc", "ann")]) as server,
        RemoteClient(server.port, headers="Authorization: Bearer abc\r\n") as client,
        router.liveliness().declare_subscriber("alive/**") as tokens,
    ):
        client.declare(8, u32(0), field("alive/1"))
        assert tokens.recv(timeout=10).kind == zenoh.SampleKind.PUT
        refusing = rules | {"rules": [rule | {"key_exprs": ["other"]}]}
        router.reconfigure(zenoh.Config.from_dict(settings | {"access_control": refusing}))
        client.ask(25)
        assert tokens.recv(timeout=10).kind == zenoh.SampleKind.DELETE


def test_the_script_is_served(server):
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", "/zwire.js")
    answer = connection.getresponse()
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert b"export async function open" in answer.read()
    connection.request("GET", "/ready")
    assert json.loads(connection.getresponse().read())["ready"]
    connection.close()
