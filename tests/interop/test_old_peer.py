"""Against the first release of the 1.x line, in each role: hub, publisher, subscriber, asker, answerer, peer.

It has no queriers, no matching status, no tokens and no timestamps of one's own.
"""

import time

import pytest

from interop.harness import (
    ECLIPSE,
    OLD,
    ZWIRE,
    all_declared,
    eventually,
    free_port,
    random_bytes,
    reached,
    shown,
    subscribed,
)
from interop.test_data import MIB, WILD
from interop.test_queries import KEPT, STAMPED, replies

# Hub, client that sends or asks, client that receives or answers: each role of the first release beside ours,
# and the other mixes in `make test-long`.
MATRIX = [
    (ZWIRE, OLD, ZWIRE),
    (ZWIRE, ZWIRE, OLD),
    (OLD, ZWIRE, ZWIRE),
]
LONG_MATRIX = [
    (ZWIRE, OLD, OLD),
    (ZWIRE, OLD, ECLIPSE),
    (ZWIRE, ECLIPSE, OLD),
    (OLD, OLD, ZWIRE),
    (OLD, ZWIRE, OLD),
    (ECLIPSE, OLD, ZWIRE),
    (ECLIPSE, ZWIRE, OLD),
]


def mixes():
    """The mixes of a run, with their names."""
    for mix in (*MATRIX, *LONG_MATRIX):
        yield pytest.param(mix, id="-".join(mix), marks=[pytest.mark.long] if mix in LONG_MATRIX else [])


# Of the replies of STAMPED. Of two without a timestamp it keeps the first where others keep the second.
OLD_KEPT = {"NONE": "1234566", "MONOTONIC": "13466", "LATEST": "3466", "AUTO": "3466"}


@pytest.fixture(params=mixes())
def nodes(request, net):
    """Hub, client, other client."""
    hub, near, far = request.param
    hub = net.hub(hub)
    return hub, net.client(near, hub), net.client(far, hub)


def answering(asker, answerer, key, script, name="queryable", **options):
    """Declares a queryable and waits until a get on ``ready`` after it is answered."""
    answerer.queryable(name=name, key=key, script=script, **options)
    ready = f"ready/{name}"
    answerer.queryable(name=ready, key=ready, script=[{"do": "reply", "payload": ""}])
    eventually("the queryable is known", lambda: asker.get(selector=ready)["replies"])


@pytest.mark.parametrize("through", ["session", pytest.param("publisher", marks=pytest.mark.long)])
def test_a_hundred_thousand_messages_arrive(nodes, through):
    _, publisher, subscriber = nodes
    count = 100_000
    subscribed(publisher, subscriber, "ready/*")
    subscriber.subscribe(name="flood", key="flood/**", count=True)
    all_declared(publisher, subscriber)
    key = "flood/a/b"
    if through == "publisher":
        publisher.publisher(name=key, key=key, congestion_control="BLOCK")
    publisher.flood(key=key, count=count, size=64, within=60)
    got = subscriber.received(name="flood", count=count, seconds=60, within=70)
    assert got == {"count": count, "misplaced": 0}


def test_fields_and_large_payloads_arrive(nodes):
    _, publisher, subscriber = nodes
    subscribed(publisher, subscriber, "field/**")
    publisher.put(
        key="field/all",
        payload="hello",
        encoding="text/plain;utf8",
        attachment=[0, 255],
        priority="REAL_TIME",
        congestion_control="BLOCK",
        express=True,
    )
    publisher.delete(key="field/gone", attachment="why", priority="BACKGROUND")
    got = {s["key"]: s for s in subscriber.received(name="sub", count=2, seconds=5)}
    full, gone = got["field/all"], got["field/gone"]
    assert (full["kind"], full["payload"], full["encoding"]) == ("PUT", shown(b"hello"), "text/plain;utf8")
    assert (full["attachment"], full["priority"]) == (shown(b"\x00\xff"), "REAL_TIME")
    assert (full["congestion"], full["express"]) == ("BLOCK", True)
    assert full["timestamp"]
    assert (gone["kind"], gone["payload"], gone["attachment"]) == ("DELETE", "", shown(b"why"))
    assert gone["priority"] == "BACKGROUND"
    subscriber.forget(name="sub")
    # Around the size of a batch, and one of many fragments.
    sizes = [48_000, 49_120, 65_400, 65_536, 8 * MIB]
    for size in sizes:
        publisher.put(
            key=f"field/{size}", payload={"size": size, "seed": size}, congestion_control="BLOCK", within=30
        )
    got = subscriber.received(name="sub", count=len(sizes), seconds=20, within=25)
    assert [(s["key"], s["payload"]) for s in got] == [
        (f"field/{size}", shown(random_bytes(size, size))) for size in sizes
    ]


@pytest.mark.parametrize("declared", [False, True], ids=["plain", "declared"])
def test_wildcards_select(nodes, declared):
    _, publisher, subscriber = nodes
    subscribed(publisher, subscriber, "ready/*")
    for number, (key, _, _) in enumerate(WILD):
        if declared:
            subscriber.keyexpr(name=f"key {number}", key=key)
        subscriber.subscribe(name=f"sub {number}", key=f"key {number}" if declared else key)
    all_declared(publisher, subscriber)
    for key in sorted({key for _, yes, no in WILD for key in yes + no}):
        if declared:
            publisher.keyexpr(name=key, key=key)
        # A router of eclipse-zenoh drops what finds no room within a millisecond.
        publisher.put(key=key, payload=key, congestion_control="BLOCK")
    publisher.put(key="ready/end", payload="", congestion_control="BLOCK")
    subscriber.received(name="sub", count=1, seconds=5)
    for number, (key, yes, no) in enumerate(WILD):
        got = [s["key"] for s in subscriber.received(name=f"sub {number}", count=len(yes), seconds=2)]
        assert set(yes) <= set(got), key
        assert not set(no) & set(got), key
        assert len(set(got)) == len(got), key


def test_undeclaring_ends_the_flow(nodes):
    _, publisher, subscriber = nodes
    subscribed(publisher, subscriber, "keep/*")
    subscriber.subscribe(name="leaving", key="leave/*")
    reached(publisher, subscriber, "leaving", "leave/a")
    subscriber.undeclare(name="leaving")
    publisher.put(key="leave/a", payload="nobody hears it")
    publisher.put(key="keep/a", payload="but this")
    assert [s["key"] for s in subscriber.received(name="sub", count=1, seconds=5)] == ["keep/a"]
    assert subscriber.received(name="leaving", count=0, seconds=0) == []


def test_replies_deletions_and_errors_arrive(nodes):
    _, asker, answerer = nodes
    script = [
        {"do": "reply", "key": "q/a", "payload": "full", "encoding": "text/plain", "attachment": [1, 2]},
        {"do": "reply", "key": "q/big", "payload": {"size": 8 * MIB, "seed": 5}},
        {"do": "del", "key": "q/c"},
        {"do": "err", "payload": "bad", "encoding": "application/json"},
    ]
    answering(asker, answerer, "q/**", script)
    answer = asker.get(
        selector="q/*?a=1;b=x|y", payload={"size": 8 * MIB, "seed": 4}, attachment="extra", within=30
    )
    assert replies(answer) == sorted(
        [
            ("error", shown(b"bad")),
            ("q/a", "PUT", shown(b"full")),
            ("q/big", "PUT", shown(random_bytes(8 * MIB, 5))),
            ("q/c", "DELETE", ""),
        ],
    )
    (full,) = (r for r in answer["replies"] if r.get("key") == "q/a")
    assert (full["encoding"], full["attachment"]) == ("text/plain", shown(b"\x01\x02"))
    # The end was said.
    assert answer["seconds"] < 5
    (query,) = answerer.received(name="queryable", count=1, seconds=5)
    assert (query["key"], query["parameters"]) == ("q/*", "a=1;b=x|y")
    assert (query["payload"], query["attachment"]) == (shown(random_bytes(8 * MIB, 4)), shown(b"extra"))


def test_nobody_to_ask_ends_at_once(nodes):
    _, asker, answerer = nodes
    answering(asker, answerer, "some/*", [])
    for selector in ("none/a", "some/a"):
        answer = asker.get(selector=selector)
        assert answer["replies"] == []
        assert answer["seconds"] < 1


def test_consolidation(nodes):
    _, asker, answerer = nodes
    stamped = answerer.implementation != OLD
    if stamped:
        for name in ("t1", "t2", "t3"):
            answerer.new_timestamp(name=name)
    # What it answers on `c/a` needs timestamps of one's own.
    answering(asker, answerer, "c/*", [step for step in STAMPED if stamped or step.get("key") != "c/a"])
    for mode, kept in (OLD_KEPT if asker.implementation == OLD else KEPT).items():
        answer = asker.get(selector="c/*", consolidation=mode)
        got = sorted(r["payload"] for r in answer["replies"])
        assert got == sorted(shown(digit.encode()) for digit in kept if stamped or digit > "3"), mode


@pytest.mark.parametrize("target", ["BEST_MATCHING", "ALL", "ALL_COMPLETE"])
def test_targets(nodes, net, target):
    hub, asker, answerer = nodes
    other = net.client(ZWIRE, hub)
    for number, (node, key, complete) in enumerate(
        [(answerer, "t/**", True), (other, "t/*", False), (other, "t/a", True)]
    ):
        script = [{"do": "reply", "key": f"t/{number}", "payload": ""}]
        answering(asker, node, key, script, name=str(number), complete=complete)
    got = {r["key"] for r in asker.get(selector="t/*", target=target)["replies"]}
    assert (
        got
        == {
            "BEST_MATCHING": {"t/0"},
            "ALL": {"t/0", "t/1", "t/2"},
            "ALL_COMPLETE": {"t/0"},
        }[target]
    )


def test_a_timeout_ends_with_an_error(nodes):
    _, asker, answerer = nodes
    script = [{"do": "reply", "key": "slow/a", "payload": "early"}, {"do": "hold"}]
    answering(asker, answerer, "slow/*", script)
    answer = asker.get(selector="slow/a", timeout=0.7)
    assert replies(answer)[-1:] == [("slow/a", "PUT", shown(b"early"))]
    assert ("error", shown(b"Timeout")) in replies(answer)
    assert 0.65 <= answer["seconds"] < 1.5


def test_a_crash_ends_a_query(nodes):
    _, asker, answerer = nodes
    answering(asker, answerer, "crash/*", [{"do": "reply", "key": "crash/a", "payload": "x"}, {"do": "hold"}])
    asker.send("get", selector="crash/a", consolidation="NONE")
    answerer.received(name="queryable", count=1, seconds=5)
    # What was answered before the crash has left.
    time.sleep(0.3)
    answerer.kill()
    answer = asker.answer()
    assert replies(answer) == [("crash/a", "PUT", shown(b"x"))]
    assert answer["seconds"] < 3


@pytest.mark.parametrize("pair", [(ZWIRE, OLD), (OLD, ZWIRE)], ids="-".join)
@pytest.mark.parametrize("mode", ["peer", "client"])
def test_peers_talk_directly(net, pair, mode):
    """The first listens, the second connects, data and questions go both ways."""
    port = free_port()
    listener = net.node(pair[0], "peer", listen=[f"tcp/127.0.0.1:{port}"])
    other = net.node(pair[1], mode, connect=[f"tcp/127.0.0.1:{port}"])
    for near, far, key in [(other, listener, "up"), (listener, other, "down")]:
        subscribed(near, far, f"{key}/*")
        far.subscribe(name="flood", key=f"{key}/flood/*", count=True)
        far.subscribe(name="ready", key="ready/*")
        reached(near, far, "ready", "ready/now")
        near.flood(key=f"{key}/flood/a", count=20_000, size=64, within=30)
        got = far.received(name="flood", count=20_000, seconds=30, within=40)
        assert got == {"count": 20_000, "misplaced": 0}
        near.put(key=f"{key}/big", payload={"size": 8 * MIB, "seed": 3}, congestion_control="BLOCK")
        got = far.received(name="sub", count=1, seconds=10)
        assert [s["payload"] for s in got] == [shown(random_bytes(8 * MIB, 3))]
        script = [{"do": "reply", "key": f"{key}/q", "payload": "x"}, {"do": "err", "payload": "e"}]
        answering(near, far, f"{key}/q", script, name=key)
        answer = near.get(selector=f"{key}/q")
        assert replies(answer) == sorted([("error", shown(b"e")), (f"{key}/q", "PUT", shown(b"x"))])
        assert near.get(selector="nothing/here", timeout=2)["seconds"] < 1
