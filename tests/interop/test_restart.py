"""A hub that is killed and comes back under running clients."""

import signal
import time

import pytest

from interop.harness import ECLIPSE, ZWIRE, eventually, free_port, shown, subscribed

# What the acceptance of a restart allows beyond the lease.
GRACE = 2.0
LEASE = 10.0


# Hub, publisher, subscriber, seconds without a hub.
CASES = [
    (ZWIRE, ZWIRE, ZWIRE, 0),
    (ZWIRE, ZWIRE, ECLIPSE, 2),
    (ZWIRE, ECLIPSE, ZWIRE, 0),
    (ZWIRE, ECLIPSE, ECLIPSE, 0),
    (ECLIPSE, ZWIRE, ZWIRE, 2),
    (ECLIPSE, ZWIRE, ECLIPSE, 0),
    (ECLIPSE, ECLIPSE, ZWIRE, 0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_traffic_flows_again(net, case):
    hub, publisher, subscriber, away = case
    port = free_port()
    first = net.hub(hub, port=port)
    pub = net.client(publisher, first)
    sub = net.client(subscriber, first)
    subscribed(pub, sub, "back/**")
    sub.subscribe(name="flow", key="back/flow")
    pub.publisher(name="pub", key="back/declared")
    sub.queryable(name="queryable", key="back/q", script=[{"do": "reply", "payload": "x"}])
    pub.querier(name="querier", key="back/q")
    pub.liveliness_subscribe(name="alive", key="back/token", history=True)
    sub.token(name="token", key="back/token")
    assert [s["kind"] for s in pub.received(name="alive", count=1, seconds=5)] == ["PUT"]
    pub.trickle(key="back/flow", period=0.01)
    assert len(sub.received(name="flow", count=10, seconds=5)) >= 10
    first.kill()
    time.sleep(away)
    net.hub(hub, port=port)
    restarted = time.monotonic()
    # Whatever was on its way when the hub died has come by now or never will.
    sub.forget(name="flow")
    limit = restarted + LEASE + GRACE
    assert sub.received(name="flow", count=10, seconds=limit - time.monotonic(), within=20)
    back = time.monotonic() - restarted
    assert back < LEASE + GRACE
    pub.stop()
    # Everything that was declared is there again, without being asked for.
    while not pub.matching(name="pub") or not pub.matching(name="querier"):
        assert time.monotonic() < limit
        time.sleep(0.05)
    pub.publish(name="pub", payload="declared")
    end = time.monotonic() + 5
    while not any(
        (s["key"], s["payload"]) == ("back/declared", shown(b"declared"))
        for s in sub.received(name="sub", count=1, seconds=1)
    ):
        assert time.monotonic() < end
    assert [r["payload"] for r in pub.querier_get(name="querier")["replies"]] == [shown(b"x")]
    kinds = [s["kind"] for s in pub.received(name="alive", count=3, seconds=5)]
    assert kinds == ["PUT", "DELETE", "PUT"]


@pytest.mark.parametrize("hub", [ZWIRE, ECLIPSE])
def test_a_hub_that_stops_answering_is_left(net, hub):
    """No end of the connection is seen, as when a cable is cut; only the lease tells."""
    lease = 1.0
    settings = {"transport/link/tx/lease": int(lease * 1000)}
    frozen = net.hub(hub, **settings)
    pub, sub = (net.client(ZWIRE, frozen, **settings) for _ in range(2))
    subscribed(pub, sub, "flow/*")
    pub.trickle(key="flow/a", period=0.01)
    frozen.process.send_signal(signal.SIGSTOP)
    for node in (pub, sub):
        eventually("the lease is over", lambda n=node: n.info()["routers"] == [], within=lease + 1)
    frozen.process.send_signal(signal.SIGCONT)
    sub.forget(name="sub")
    assert len(sub.received(name="sub", count=10, seconds=lease + GRACE)) >= 10
    pub.stop()
