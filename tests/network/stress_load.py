"""Effects of load on other nodes than its cause; `make stress` runs it. Each test prints its figure."""

import itertools
import signal
import statistics
import time

import pytest

from interop.harness import ZWIRE, Net, eventually, random_bytes, reached, shown
from network.relay import HELD, Relay

MBIT = 1_000_000

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def net():
    made = Net()
    yield made
    made.end()


def percentile(ages, share):
    """Of what is in order."""
    return ages[min(len(ages) - 1, int(len(ages) * share))]


# ---- One subscriber that does not read ----

SUBSCRIBERS = 10
ROUNDS = 5
SECONDS = 2.0
SIZE = 1024


class Crowd:
    """A router, a publisher and ten subscribers, of which the last one can be stalled."""

    def __init__(self, net):
        self.hub = net.hub(ZWIRE)
        self.publisher = net.client(ZWIRE, self.hub)
        self.subscribers = [net.client(ZWIRE, self.hub) for _ in range(SUBSCRIBERS)]
        for subscriber in self.subscribers:
            subscriber.subscribe(name="ready", key="ready")
            reached(self.publisher, subscriber, "ready", "ready")
            subscriber.latency_subscribe(name="ages", key="load")
        eventually("all are there", self._all_hear)

    def _all_hear(self):
        self.publisher.pace(key="load", seconds=0.05, rate=100)
        return all(s.latencies(name="ages") for s in self.subscribers)

    def round(self, rate=None):
        """The messages sent, and the ages of those that the other subscribers got, per subscriber."""
        others = self.subscribers[:-1]
        for s in others:
            s.latencies(name="ages")
        sent = self.publisher.pace(key="load", seconds=SECONDS, size=SIZE, rate=rate)
        counts = None
        while counts != (counts := [s.count(name="ages") for s in others]):
            time.sleep(0.1)
        return sent, [s.latencies(name="ages") for s in others]

    def rounds(self, rate=None):
        """Rounds in turns: all read, one is stalled."""
        last = self.subscribers[-1].process
        with_all, with_one_stalled = [], []
        self.round(rate)
        for _ in range(ROUNDS):
            with_all.append(self.round(rate))
            last.send_signal(signal.SIGSTOP)
            try:
                with_one_stalled.append(self.round(rate))
            finally:
                last.send_signal(signal.SIGCONT)
            # It reads what has waited for it.
            eventually("it is quiet", lambda: self._quiet(self.subscribers[-1]), 10)
        return with_all, with_one_stalled

    @staticmethod
    def _quiet(subscriber):
        before = subscriber.count(name="ages")
        time.sleep(0.1)
        return subscriber.count(name="ages") == before


def test_one_stalled_subscriber_of_ten(net, figures):
    crowd = Crowd(net)

    def throughput(rounds):
        return statistics.median(sum(map(len, ages)) / len(ages) / sent["seconds"] for sent, ages in rounds)

    healthy, stalled = map(throughput, crowd.rounds())
    cost = 1 - stalled / healthy
    figures.add(
        "throughput beside a stalled subscriber", f"{healthy:,.0f} -> {stalled:,.0f}/s each", "< 5 % less"
    )
    half = healthy / 2

    def p99(rounds):
        return statistics.median(
            percentile(sorted(itertools.chain.from_iterable(ages)), 0.99) for _, ages in rounds
        )

    quick, slow = map(p99, crowd.rounds(half))
    figures.add(
        f"p99 at half load ({half:,.0f}/s) beside it",
        f"{quick * 1e3:.2f} -> {slow * 1e3:.2f} ms",
        "< 1 ms more",
    )
    assert cost < 0.05
    assert slow - quick < 1e-3


# ---- A slow link ----

RATE = 20 * MBIT


@pytest.fixture
def slow(net):
    """A publisher behind a link of 20 Mbit/s, and a subscriber at its router."""
    hub = net.hub(ZWIRE)
    with Relay(int(hub.endpoint.rpartition(":")[2]), rate=RATE) as relay:
        publisher = net.node(ZWIRE, "client", connect=[f"tcp/127.0.0.1:{relay.port}"])
        subscriber = net.client(ZWIRE, hub)
        subscriber.subscribe(name="sub", key="slow/**")
        reached(publisher, subscriber, "sub", "slow/probe")
        yield publisher, subscriber, relay


def test_a_hundred_megabytes_under_drop_arrive(slow, figures):
    publisher, subscriber, _ = slow
    large = {"size": 100_000_000, "seed": 5}
    start = time.monotonic()
    publisher.send("put", key="slow/large", payload=large, congestion_control="DROP")
    bound = large["size"] * 8 / RATE
    got = subscriber.received(name="sub", count=1, seconds=2 * bound, within=3 * bound)
    seconds = time.monotonic() - start
    publisher.answer()
    figures.add(
        "100 MB under drop over 20 Mbit/s",
        f"{'arrived' if got else 'lost'} after {seconds:.1f} s (the link alone: {bound:.0f} s)",
        "arrives",
    )
    assert [s["payload"] for s in got] == [shown(random_bytes(**large))]


BULK = 1_000_000
# The largest batch: what has begun to be sent is in front of whatever comes.
BATCH = 65535


def test_real_time_beside_a_bulk_transfer(slow, figures):
    """Told in bytes that pass the link meanwhile: other work of the machine delays both."""
    publisher, subscriber, relay = slow
    subscriber.latency_subscribe(name="ages", key="slow-but-real")
    publisher.bulk(key="slow/bulk", size=BULK, priority="BACKGROUND")
    time.sleep(1)
    sent = publisher.pace(key="slow-but-real", seconds=5, rate=20, priority="REAL_TIME")["count"]
    eventually("all came", lambda: subscriber.count(name="ages") == sent)
    publisher.stop_bulk()
    times = subscriber.times(name="ages")
    ahead = sorted(relay.between(put, came) - HELD for put, came in times)
    ages = sorted((came - put) / 1e6 for put, came in times)
    figures.add(
        f"real time beside bulk over 20 Mbit/s, {sent} messages",
        f"{max(ahead):,} bytes ahead (median {percentile(ahead, 0.5):,}), "
        f"{ages[-1]:.1f} ms (median {percentile(ages, 0.5):.1f} ms)",
        f"one batch ({BATCH:,} bytes)",
    )
    assert max(ahead) <= BATCH


# ---- Time-outs ----

TIMEOUTS = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
PUNCTUAL = 0.05


@pytest.mark.parametrize("modes", [("client", "router", "client"), ("peer", "peer", None)], ids=str)
def test_gets_time_out_when_they_should(net, figures, modes):
    """A queryable holds every query; the get ends at its own time-out all the same."""
    asking, centre, answering = modes
    hub = net.hub(ZWIRE) if centre == "router" else net.node(ZWIRE, "peer", listen=["tcp/127.0.0.1:0"])
    if centre == "peer":
        (hub.endpoint,) = hub.opened["listening"]
    asker = net.node(ZWIRE, asking, connect=[hub.endpoint])
    answerer = net.node(ZWIRE, answering, connect=[hub.endpoint]) if answering else hub
    answerer.queryable(name="q", key="held", script=[{"do": "hold"}])
    asker.querier(name="querier", key="held")
    eventually("the queryable is known", lambda: asker.matching(name="querier"))
    late = []
    for timeout in TIMEOUTS:
        for _ in range(5):
            got = asker.get(selector="held", timeout=timeout)
            assert [r["ok"] for r in got["replies"]] == [False]
            late.append(got["seconds"] - timeout)
    figures.add(
        f"gets that time out, {asking} at a {centre}, 10 ms to 2 s",
        f"{min(late) * 1e3:.1f} to {max(late) * 1e3:.1f} ms late",
        "0 to 50 ms late",
    )
    assert min(late) >= 0
    assert max(late) <= PUNCTUAL


# ---- Many ----


def slope(rows):
    """The last step of a table of (count, value) against its first: 1 is linear."""
    (n0, v0), *_, (n1, v1) = rows
    return (v1 / n1) / (v0 / n0)


# What a run is allowed to lie above a straight line: the machine does other things, too.
LINEAR = 1.5


def met(processes, count):
    return all(size == count - 1 for process in processes for size in process.mesh_sizes())


def test_a_hundred_peers_in_a_mesh(net, figures):
    """Each connects to each before it; all of them in four processes."""
    processes = [net.start(ZWIRE) for _ in range(4)]
    rows, places = [], []
    base = sum(p.memory() for p in processes)
    start = time.monotonic()
    for count in (25, 50, 100):
        while len(places) < count:
            at = processes[len(places) % len(processes)]
            places += at.join_mesh(connect=places)
        eventually("each knows each", lambda n=count: met(processes, n), 60)
        links = count * (count - 1) / 2
        memory = sum(p.memory() for p in processes) - base
        rows.append((count, links, time.monotonic() - start, memory))
        figures.add(
            f"{count} peers in a mesh, {links:,.0f} links",
            f"{rows[-1][2]:.1f} s, {memory / 2**20:.0f} MiB: {memory / links / 2**10:.0f} KiB per link",
            "linear in links",
        )
    assert slope([(links, memory) for _, links, _, memory in rows]) < LINEAR
    assert slope([(links, seconds) for _, links, seconds, _ in rows]) < LINEAR


def test_ten_thousand_subscriptions_on_a_router(net, figures):
    hub = net.hub(ZWIRE)
    subscriber, publisher = net.client(ZWIRE, hub), net.client(ZWIRE, hub)
    subscriber.subscribe(name="last", key="last")
    base = hub.memory()
    rows = []
    seconds = 0.0
    for count in (2_500, 5_000, 10_000):
        seconds += subscriber.subscribe_many(prefix="many", upto=count, within=60)
        memory = hub.memory() - base
        rows.append((count, seconds, memory))
        took = publisher.touch_many(prefix="many", count=count, within=60)
        # Everything before it has arrived with it.
        reached(publisher, subscriber, "last", "last")
        assert subscriber.take_many(prefix="many") == count
        figures.add(
            f"{count:,} subscriptions on a router",
            f"{seconds:.2f} s, {memory / 2**20:.1f} MiB ({memory / count:.0f} B each); "
            f"a put on each {took:.2f} s",
            "linear",
        )
    assert slope([(count, memory) for count, _, memory in rows]) < LINEAR
    assert slope([(count, seconds) for count, seconds, _ in rows]) < LINEAR
