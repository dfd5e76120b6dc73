"""The numbers of `stats()`: complete, typed, described, and true."""

import asyncio
import time
import types
import typing

from loops import ALONE
from nodes import client, eventually
from zwire import aio, stats, zenoh, zmtp, zre
from zwire.zenoh.handlers import BatchCallback, Callback, Channel, LatestChannel

PATIENCE = 10
BLOCK = zenoh.CongestionControl.BLOCK


def check(value, annotation):
    """The value is of the type that its annotation says, all the way down."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.NotRequired:
        check(value, arguments[0])
    elif origin is typing.Literal:
        assert value in arguments
    elif origin in {typing.Union, types.UnionType}:
        if value is not None:
            check(value, next(argument for argument in arguments if argument is not type(None)))
    elif origin is list:
        for item in value:
            check(item, arguments[0])
    elif origin is dict:
        for item in value.values():
            check(item, arguments[1])
    elif typing.is_typeddict(annotation):
        hints = typing.get_type_hints(annotation)
        assert annotation.__required_keys__ <= set(value) <= set(hints)
        for name, item in value.items():
            check(item, hints[name])
    else:
        assert type(value) is annotation, (value, annotation)


def test_every_number_of_a_session_has_its_type_and_its_description(hub, session):
    tokens = session.liveliness().declare_subscriber("a/**", zenoh.handlers.RingChannel(2))
    kept = [session.declare_subscriber("a/**"), hub.declare_queryable("q"), tokens]
    for one in (hub, session):
        check(one.stats(), stats.SessionStats)
    assert {name for name in hub.stats() if not name.startswith("per_")} == set(stats.SESSION)
    assert set(hub.stats()) == set(stats.SessionStats.__annotations__)
    kinds = {of["kind"] for one in (hub, session) for of in one.stats()["per_subscriber"]}
    assert kinds == {"subscriber", "liveliness"}
    assert len(kept) == 3


def test_every_number_of_a_node_and_of_a_socket_has_its_type_and_its_description():
    with zre.Node("one", interfaces=["lo"]) as node:
        check(node.stats(), stats.NodeStats)
        assert set(node.stats()) == set(stats.NODE)
    with zmtp.Dealer() as socket:
        check(socket.stats(), stats.SocketStats)


def test_each_link_says_who_and_what_goes_through_its_lanes(hub, session):
    subscriber = hub.declare_subscriber("k")
    for _ in range(7):
        session.put("k", b"x" * 100, priority=zenoh.Priority.REAL_TIME, congestion_control=BLOCK)
    for _ in range(7):
        assert subscriber.recv(timeout=PATIENCE)
    (link,) = session.stats()["per_link"]
    assert link["zid"] == str(hub.zid())
    assert link["whatami"] == "router"
    assert link["dst"] == hub.listening()[0]
    assert 0 < link["seconds"] < 600
    names = list(link["lanes"])
    assert (names[0], names[-1]) == ("control", "background")
    real_time = link["lanes"]["real_time"]
    assert (real_time["tx_messages"], real_time["tx_dropped"], real_time["waiting_bytes"]) == (7, 0, 0)
    assert sum(lane["tx_messages"] for lane in link["lanes"].values()) == link["tx_messages"]
    # Octets are counted when the write has returned, and the peer may deliver them before that.
    eventually(lambda: session.stats()["per_link"][0]["tx_bytes"] > 700)
    (back,) = hub.stats()["per_link"]
    assert (back["zid"], back["whatami"]) == (str(session.zid()), "client")
    assert (back["src"], back["dst"]) == (link["dst"], link["src"])
    eventually(lambda: hub.stats()["per_link"][0]["rx_bytes"] == session.stats()["per_link"][0]["tx_bytes"])


def test_without_priorities_there_is_one_lane(hub):
    with client(hub, **{"transport/unicast/qos/enabled": False}) as session:
        session.put("k", "x", priority=zenoh.Priority.REAL_TIME, congestion_control=BLOCK)
        (link,) = session.stats()["per_link"]
        assert list(link["lanes"]) == ["data"]
        assert link["lanes"]["data"]["tx_messages"] == link["tx_messages"]


def test_a_full_lane_counts_what_it_drops_and_what_waits(hub):
    settings = {"zwire/queue/bytes_per_priority": 65_536}
    with client(hub, **settings) as session, session.declare_publisher("k") as publisher:
        reader = hub.declare_subscriber("k", Channel(1, full="block", deadline=PATIENCE))
        eventually(lambda: publisher.matching_status.matching)

        def lane():
            return session.stats()["per_link"][0]["lanes"]["data"]

        # A peer that does not read: the path fills up from its end.
        end = time.monotonic() + PATIENCE
        while lane()["tx_dropped"] == 0:
            assert time.monotonic() < end
            publisher.put(bytes(60_000))
        full = lane()
        assert full["capacity_bytes"] == 65_536
        assert full["waiting_bytes"] > 0
        found = session.stats()
        assert found["link.tx_dropped"] == found["drops"] >= full["tx_dropped"] > 0
        assert found["drops.per_second"] > 0
        assert found["drops.seconds"] > 0
        reader.undeclare()


def test_what_links_have_counted_stays_when_they_are_gone(hub):
    with client(hub) as session:
        session.put("k", bytes(1000), congestion_control=BLOCK)
        session.flush(PATIENCE)
    eventually(lambda: hub.stats()["links"] == 0)
    before = hub.stats()
    assert before["link.rx_bytes"] > 1000
    assert before["links.ended.closed_by_peer"] == 1
    assert before["per_link"] == []
    with client(hub) as session:
        session.put("k", bytes(1000), congestion_control=BLOCK)
        session.flush(PATIENCE)
        assert hub.stats()["link.rx_bytes"] > before["link.rx_bytes"] + 1000


def test_a_node_that_comes_back_is_counted(hub):
    for _ in range(3):
        client(hub, id="a1b2").close()
        eventually(lambda: hub.stats()["links"] == 0)
    # The router may see the end of the last link before it has counted its begin.
    eventually(lambda: hub.stats()["links.reconnected"] == 2)
    assert hub.stats()["links.ended.closed_by_peer"] == 3


def test_each_queue_says_what_has_come_and_what_waits(session):
    full = session.declare_subscriber("k", Channel(3))
    latest = session.declare_subscriber("k", LatestChannel(5))
    for number in range(10):
        session.put("k", str(number), allowed_destination=zenoh.Locality.SESSION_LOCAL)
    full.recv()
    first, second = session.stats()["per_subscriber"]
    assert (first["key_expr"], first["full"], first["capacity"]) == ("k", "drop_oldest", 3)
    assert (first["received"], first["dropped"], first["replaced"], first["waiting"]) == (10, 7, 0, 2)
    assert first["waiting_bytes"] > 2
    assert not first["stalled"]
    assert (second["full"], second["capacity"]) == ("latest", 5)
    assert (second["received"], second["dropped"], second["replaced"], second["waiting"]) == (10, 0, 9, 1)
    full.undeclare()
    latest.undeclare()
    found = session.stats()
    assert found["per_subscriber"] == []
    assert (found["handler.dropped"], found["handler.replaced"]) == (7, 9)
    assert found["drops"] == 7


def test_gets_and_queries_are_open_until_they_are_answered(hub, session):
    queryable = hub.declare_queryable("q")
    replies = session.get("q", timeout=PATIENCE)
    query = queryable.recv(timeout=PATIENCE)
    assert session.stats()["gets.open"] == 1
    assert hub.stats()["queries.open"] == 1
    (queue,) = hub.stats()["per_queryable"]
    assert (queue["key_expr"], queue["kind"], queue["received"], queue["waiting"]) == ("q", "queryable", 1, 0)
    query.reply("q", "x")
    query.drop()
    assert len(list(replies)) == 1
    assert session.stats()["gets.open"] == 0
    assert hub.stats()["queries.open"] == 0


def test_errors_of_callbacks_are_counted(hub, session, monkeypatch):
    monkeypatch.setattr("sys.unraisablehook", lambda what: None)

    def fail(_):
        raise LookupError

    subscriber = session.declare_subscriber("k", fail)
    session.declare_subscriber("k", BatchCallback(fail, on_error=fail))
    session.declare_queryable("q", fail)
    session.put("k", "x")
    assert [reply.ok for reply in session.get("q", timeout=PATIENCE)] == [None]
    hub.declare_queryable("r", lambda query: query.reply("r", "x")).wait_ready(PATIENCE)
    session.get("r", Callback(fail), timeout=PATIENCE)
    eventually(lambda: session.stats()["handler.errors"] == 4)
    assert subscriber.errors == 1
    subscriber.undeclare()
    session.close()
    assert session.stats()["handler.errors"] == 4
    assert hub.stats()["handler.errors"] == 0


def test_errors_of_callbacks_in_event_loops_are_counted():
    async def fail(_):
        raise LookupError

    async def run():
        async with aio.open(ALONE) as session:
            serving = session.declare_queryable("q", aio.Callback(fail, on_error=lambda error: None))
            assert [reply.ok for reply in await session.get("q", timeout=PATIENCE)] == [None]
            await serving.undeclare()
            return session.share().stats()["handler.errors"]

    assert asyncio.run(run()) == 1


def test_a_closed_session_still_says_what_it_has_counted(hub):
    session = client(hub)
    session.put("k", "x", congestion_control=BLOCK)
    session.close()
    assert session.stats()["link.tx_bytes"] > 0
