"""Publications between the implementations, through either hub and directly."""

import pytest

from interop.harness import (
    ECLIPSE,
    ZWIRE,
    all_declared,
    eventually,
    free_port,
    mixes,
    random_bytes,
    reached,
    shown,
    subscribed,
)

MIB = 1 << 20


@pytest.fixture(params=mixes())
def nodes(request, net):
    """Hub, publishing client, subscribing client."""
    hub, publisher, subscriber = request.param
    hub = net.hub(hub)
    return hub, net.client(publisher, hub), net.client(subscriber, hub)


def flooded(publisher, subscriber, key, through):
    """A hundred thousand numbered messages; all arrive, in order."""
    count = 100_000
    subscribed(publisher, subscriber, "ready/*")
    subscriber.subscribe(name="flood", key="flood/**", count=True)
    all_declared(publisher, subscriber)
    if through == "publisher":
        publisher.publisher(name=key, key=key, congestion_control="BLOCK")
        eventually("the publisher has a subscriber", lambda: publisher.matching(name=key))
    publisher.flood(key=key, count=count, size=64, within=60)
    got = subscriber.received(name="flood", count=count, seconds=60, within=70)
    assert got == {"count": count, "misplaced": 0}


@pytest.mark.parametrize("through", ["session", pytest.param("publisher", marks=pytest.mark.long)])
def test_a_hundred_thousand_messages_arrive(nodes, through):
    _, publisher, subscriber = nodes
    flooded(publisher, subscriber, "flood/a/b", through)


def test_fields_arrive_as_they_were_sent(nodes):
    _, publisher, subscriber = nodes
    subscribed(publisher, subscriber, "field/**")
    stamp = publisher.new_timestamp(name="stamp")
    publisher.put(key="field/plain", payload="")
    publisher.put(
        key="field/all",
        payload="hello",
        encoding="text/plain;utf8",
        attachment=[0, 1, 2, 255],
        priority="REAL_TIME",
        congestion_control="BLOCK",
        express=True,
        timestamp="stamp",
    )
    publisher.put(
        key="field/custom", payload=[0, 159, 146, 150], encoding="of/ours;v=1", priority="BACKGROUND"
    )
    publisher.delete(key="field/gone", attachment="why", priority="INTERACTIVE_HIGH", timestamp="stamp")
    got = {s["key"]: s for s in subscriber.received(name="sub", count=4, seconds=5)}
    assert set(got) == {"field/plain", "field/all", "field/custom", "field/gone"}
    plain, full, custom, gone = (got["field/" + name] for name in ("plain", "all", "custom", "gone"))
    # The hub stamps what has no timestamp.
    assert plain.pop("timestamp")
    assert custom.pop("timestamp")
    for sample in got.values():
        sample.pop("at")
        sample.pop("key")
    assert plain == {
        "kind": "PUT",
        "payload": "",
        "encoding": "zenoh/bytes",
        "attachment": None,
        "priority": "DATA",
        "congestion": "DROP",
        "express": False,
    }
    assert full == {
        "kind": "PUT",
        "payload": shown(b"hello"),
        "encoding": "text/plain;utf8",
        "attachment": shown(b"\x00\x01\x02\xff"),
        "timestamp": stamp,
        "priority": "REAL_TIME",
        "congestion": "BLOCK",
        "express": True,
    }
    assert (custom["payload"], custom["encoding"]) == (shown(b"\x00\x9f\x92\x96"), "of/ours;v=1")
    assert custom["priority"] == "BACKGROUND"
    assert (gone["kind"], gone["payload"], gone["attachment"]) == ("DELETE", "", shown(b"why"))
    assert (gone["priority"], gone["timestamp"]) == ("INTERACTIVE_HIGH", stamp)


@pytest.mark.parametrize(
    "priority",
    ["REAL_TIME", "INTERACTIVE_HIGH", "INTERACTIVE_LOW", "DATA_HIGH", "DATA", "DATA_LOW", "BACKGROUND"],
)
@pytest.mark.parametrize("pair", [(ZWIRE, ECLIPSE), (ECLIPSE, ZWIRE)], ids="-".join)
def test_a_publisher_passes_on_its_options(net, pair, priority):
    hub = net.hub(ZWIRE)
    publisher, subscriber = (net.client(implementation, hub) for implementation in pair)
    subscribed(publisher, subscriber, "option/**")
    publisher.publisher(
        name="pub",
        key="option/a",
        priority=priority,
        congestion_control="BLOCK",
        express=True,
        encoding="application/json",
        reliability="BEST_EFFORT",
    )
    eventually("the publisher has a subscriber", lambda: publisher.matching(name="pub"))
    # One by one: eclipse-zenoh drops best effort, in spite of BLOCK, when neither of the two batches of its
    # priority is free for a millisecond.
    publisher.publish(name="pub", payload="{}", attachment="a")
    subscriber.received(name="sub", count=1, seconds=5)
    publisher.publish(name="pub", payload="x", encoding="text/plain")
    subscriber.received(name="sub", count=2, seconds=5)
    publisher.publish_delete(name="pub")
    first, second, third = subscriber.received(name="sub", count=3, seconds=5)
    assert [s["priority"] for s in (first, second, third)] == [priority] * 3
    assert [s["congestion"] for s in (first, second, third)] == ["BLOCK"] * 3
    assert [s["express"] for s in (first, second, third)] == [True] * 3
    assert (first["encoding"], first["attachment"]) == ("application/json", shown(b"a"))
    assert (second["encoding"], second["attachment"]) == ("text/plain", None)
    assert third["kind"] == "DELETE"


def test_eight_mebibytes_arrive(nodes):
    _, publisher, subscriber = nodes
    subscribed(publisher, subscriber, "big/**")
    publisher.put(key="big/a", payload={"size": 8 * MIB, "seed": 1}, congestion_control="BLOCK")
    publisher.put(key="big/b", payload={"size": 8 * MIB + 1, "seed": 2}, congestion_control="BLOCK")
    publisher.put(key="big/c", payload="small", congestion_control="BLOCK")
    got = subscriber.received(name="sub", count=3, seconds=20, within=25)
    assert {s["key"]: s["payload"] for s in got} == {
        "big/a": shown(random_bytes(8 * MIB, 1)),
        "big/b": shown(random_bytes(8 * MIB + 1, 2)),
        "big/c": shown(b"small"),
    }


@pytest.mark.parametrize("size", [1000, 32_000, 49_000, 49_120, 65_400, 65_535, 65_536, 131_072])
@pytest.mark.parametrize("pair", [(ZWIRE, ECLIPSE), (ECLIPSE, ZWIRE)], ids="-".join)
def test_payloads_around_the_batch_size_arrive(net, pair, size):
    hub = net.hub(ECLIPSE if size % 2 else ZWIRE)
    publisher, subscriber = (net.client(implementation, hub) for implementation in pair)
    subscribed(publisher, subscriber, "size/**")
    for extra in range(24):
        publisher.put(
            key=f"size/{extra:02}", payload={"size": size + extra, "seed": extra}, congestion_control="BLOCK"
        )
    got = subscriber.received(name="sub", count=24, seconds=10)
    assert [s["key"] for s in got] == [f"size/{extra:02}" for extra in range(24)]
    assert [s["payload"] for s in got] == [shown(random_bytes(size + extra, extra)) for extra in range(24)]


# Lengths of the buffers; the last one has the rest of the payload.
DIVISIONS = [[], [0], [1, 2, 3], [4096] * 8, [20, 32_768, 0, 1], [9000, 1, 9000, 1, 49_000], [1] * 30_000]


@pytest.mark.parametrize("hub", [ZWIRE, ECLIPSE])
def test_payloads_of_several_buffers_arrive_as_one(net, hub):
    hub = net.hub(hub)
    publisher, subscriber = (net.client(implementation, hub) for implementation in (ZWIRE, ECLIPSE))
    subscribed(publisher, subscriber, "list/**")
    publisher.queryable(
        name="answers",
        key="ask/list",
        script=[{"do": "reply", "payload": {"size": 200_000, "seed": 9, "lengths": [5, 100_000, 7]}}],
    )
    sizes = [33_000, 65_535, 300_000]
    for size in sizes:
        for number, lengths in enumerate(DIVISIONS):
            fitting = lengths if sum(lengths) <= size else []
            publisher.put(
                key=f"list/{size}/{number}",
                payload={"size": size, "seed": number, "lengths": fitting},
                congestion_control="BLOCK",
            )
    got = subscriber.received(name="sub", count=len(sizes) * len(DIVISIONS), seconds=20, within=25)
    assert {s["key"]: s["payload"] for s in got} == {
        f"list/{size}/{number}": shown(random_bytes(size, number))
        for size in sizes
        for number in range(len(DIVISIONS))
    }
    eventually("the queryable is known", lambda: subscriber.get(selector="ask/list")["replies"])
    (answer,) = subscriber.get(selector="ask/list")["replies"]
    assert answer["payload"] == shown(random_bytes(200_000, 9))


# Subscription, keys that it gets, keys that it does not.
WILD = [
    ("w/*", ["w/a", "w/b c"], ["w", "w/a/b", "v/a"]),
    ("w/**", ["w", "w/a", "w/a/b/c"], ["v", "v/w"]),
    ("w/*/z", ["w/a/z"], ["w/z", "w/a/b/z"]),
    ("w/**/z", ["w/z", "w/a/z", "w/a/b/z"], ["w/z/a"]),
    ("w/a$*", ["w/a", "w/ab", "w/abc"], ["w/b", "w/ba"]),
    ("w/$*a$*/z", ["w/a/z", "w/bab/z"], ["w/b/z"]),
    ("**/z", ["z", "w/z"], ["w/z/a"]),
    ("w/@v/**", ["w/@v/a"], ["w/v/a"]),
    ("w/é/*", ["w/é/ü"], ["w/e/u"]),
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
    keys = sorted({key for _, yes, no in WILD for key in yes + no})
    for key in keys:
        if declared:
            publisher.keyexpr(name=key, key=key)
        # A router of eclipse-zenoh drops what finds no room within a millisecond.
        publisher.put(key=key, payload=key, congestion_control="BLOCK")
    publisher.put(key="ready/end", payload="", congestion_control="BLOCK")
    subscriber.received(name="sub", count=1, seconds=5)

    def keys_of(number):
        return [s["key"] for s in subscriber.received(name=f"sub {number}", count=0, seconds=0)]

    for number, (key, yes, no) in enumerate(WILD):
        # Each has its callback in a thread of its own: the last key of one may come after the end.
        eventually(f"all of {key}", lambda of=number, wanted=set(yes): wanted <= set(keys_of(of)))
        got = keys_of(number)
        assert not set(no) & set(got), key
        assert len(set(got)) == len(got), key


def test_a_put_may_be_wild(nodes):
    _, publisher, subscriber = nodes
    subscribed(publisher, subscriber, "wild/a/b")
    publisher.put(key="wild/**", payload="to all")
    publisher.put(key="wild/*/c", payload="to others")
    publisher.put(key="wild/a/b", payload="end")
    got = subscriber.received(name="sub", count=2, seconds=5)
    assert [(s["key"], s["payload"]) for s in got] == [
        ("wild/**", shown(b"to all")),
        ("wild/a/b", shown(b"end")),
    ]


def test_an_overlap_delivers_once_per_subscriber(nodes):
    _, publisher, subscriber = nodes
    subscribed(publisher, subscriber, "over/**")
    subscriber.subscribe(name="second", key="over/a")
    subscriber.subscribe(name="third", key="over/*")
    reached(publisher, subscriber, "third", "over/b", also=["sub"])
    publisher.put(key="over/a", payload="1")
    publisher.put(key="over/end", payload="2")
    for name, keys in [
        ("sub", ["over/a", "over/end"]),
        ("second", ["over/a"]),
        ("third", ["over/a", "over/end"]),
    ]:
        assert [s["key"] for s in subscriber.received(name=name, count=len(keys), seconds=5)] == keys


def test_undeclaring_ends_the_flow(nodes):
    _, publisher, subscriber = nodes
    subscribed(publisher, subscriber, "keep/*")
    subscriber.subscribe(name="leaving", key="leave/*")
    reached(publisher, subscriber, "leaving", "leave/a")
    publisher.publisher(name="pub", key="leave/b")
    eventually("there is a subscriber", lambda: publisher.matching(name="pub"))
    subscriber.undeclare(name="leaving")
    eventually("there is no subscriber any more", lambda: not publisher.matching(name="pub"))
    publisher.publish(name="pub", payload="nobody hears it")
    publisher.put(key="leave/a", payload="nor this")
    publisher.put(key="keep/a", payload="but this")
    assert [s["key"] for s in subscriber.received(name="sub", count=1, seconds=5)] == ["keep/a"]
    assert subscriber.received(name="leaving", count=0, seconds=0) == []


def test_matching_follows_the_subscribers(nodes):
    _, publisher, subscriber = nodes
    publisher.publisher(name="pub", key="match/a")
    publisher.matching_listener(name="changes", of="pub")
    assert publisher.matching(name="pub") is False
    subscriber.subscribe(name="one", key="match/**")
    eventually("matching", lambda: publisher.matching(name="pub"))
    subscriber.subscribe(name="two", key="match/a")
    subscriber.undeclare(name="one")
    subscriber.subscribe(name="other", key="elsewhere")
    assert publisher.matching(name="pub") is True
    subscriber.undeclare(name="two")
    eventually("no longer matching", lambda: not publisher.matching(name="pub"))
    subscriber.subscribe(name="three", key="match/*")
    eventually("matching again", lambda: publisher.matching(name="pub"))
    subscriber.kill()
    eventually("not after a crash", lambda: not publisher.matching(name="pub"))
    changes = publisher.received(name="changes", count=4, seconds=3)
    assert [c["matching"] for c in changes] == [True, False, True, False]


def test_locality_is_respected(nodes):
    _, publisher, subscriber = nodes
    subscribed(publisher, subscriber, "place/**")
    publisher.subscribe(name="own", key="place/**")
    publisher.subscribe(name="remote", key="place/**", allowed_origin="REMOTE")
    publisher.subscribe(name="local", key="place/**", allowed_origin="SESSION_LOCAL")
    publisher.put(key="place/any", payload="")
    publisher.put(key="place/here", payload="", allowed_destination="SESSION_LOCAL")
    publisher.put(key="place/there", payload="", allowed_destination="REMOTE")
    assert [s["key"] for s in subscriber.received(name="sub", count=2, seconds=5)] == [
        "place/any",
        "place/there",
    ]
    assert [s["key"] for s in publisher.received(name="own", count=2, seconds=5)] == [
        "place/any",
        "place/here",
    ]
    assert [s["key"] for s in publisher.received(name="local", count=2, seconds=5)] == [
        "place/any",
        "place/here",
    ]
    assert publisher.received(name="remote", count=0, seconds=0) == []


DIRECT = [(ZWIRE, ECLIPSE), (ECLIPSE, ZWIRE), (ZWIRE, ZWIRE)]


@pytest.mark.parametrize("pair", DIRECT, ids="-".join)
@pytest.mark.parametrize("mode", ["peer", "client"])
def test_peers_talk_directly(net, pair, mode):
    """The first listens, the second connects, data goes both ways."""
    listener = net.node(pair[0], "peer", listen=[f"tcp/127.0.0.1:{(port := free_port())}"])
    listener.endpoint = f"tcp/127.0.0.1:{port}"
    other = net.node(pair[1], mode, connect=[listener.endpoint])
    # If the neighbour sends its declarations at once, opening does not wait for the full delay.
    assert other.opened["seconds"] < 0.4
    subscribed(other, listener, "up/*")
    subscribed(listener, other, "down/*")
    large = shown(random_bytes(8 * MIB, 3))
    for publisher, subscriber, key in [(other, listener, "up"), (listener, other, "down")]:
        subscriber.subscribe(name="flood", key=f"{key}/flood/*", count=True)
        subscriber.subscribe(name="ready", key="ready/*")
        reached(publisher, subscriber, "ready", "ready/now")
        publisher.flood(key=f"{key}/flood/a", count=20_000, size=64, within=30)
        got = subscriber.received(name="flood", count=20_000, seconds=30, within=40)
        assert got == {"count": 20_000, "misplaced": 0}
        publisher.put(key=f"{key}/big", payload={"size": 8 * MIB, "seed": 3}, congestion_control="BLOCK")
        got = subscriber.received(name="sub", count=1, seconds=10)
        assert [s["payload"] for s in got] == [large]
