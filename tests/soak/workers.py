"""Workers of a soak run, each a process: ``python workers.py ROLE SETTINGS``, started by ``run.py``.

A worker prints lines of JSON: ``ready`` once it takes part, ``report`` each few seconds, ``end`` at the end.
It reads orders from standard input, and leaves politely at ``end`` or when that input ends. Faults, which
must stay zero, are counted apart from counts, which only inform.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gc
import itertools
import json
import os
import random
import struct
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import raw
from leaks import cycles
from soak.figures import Histogram
from zwire import aio, errors, spool, zenoh, zre

BLOCK = zenoh.CongestionControl.BLOCK
QUIET = {"scouting/multicast/enabled": False}
PATIENCE = 20.0
"""Seconds within which a worker expects its partners, on a busy machine."""

QUERY_TIMEOUT = 5.0
NUMBER = struct.Struct(">QQ")
"""Payload of a numbered message: its number, and the time of its sending or the run of its sender."""


class Post:
    """The line of a worker to the conductor."""

    def __init__(self, settings):
        self.settings = settings
        self.stop = threading.Event()
        self.expected = None
        # Partners are not there in the beginning.
        self.excused = True
        self.resuming = False
        self.counts, self.faults = collections.Counter(), collections.Counter()
        self.gauges = {}
        self.sessions = []
        self._due = time.monotonic()
        self._lock = threading.Lock()
        threading.excepthook = self._failed
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        # Not sys.stdin: a thread that waits in it disturbs the end of the interpreter.
        rest = b""
        while octets := os.read(0, 4096):
            *lines, rest = (rest + octets).split(b"\n")
            for line in lines:
                self._obey(json.loads(line))
        self.stop.set()

    def _obey(self, order):
        match order["order"]:
            case "end":
                self.expected = order.get("expected")
                self.stop.set()
            case "excuse":
                self.excused, self.resuming = True, False
                self.say("excused")
            case "resume":
                self.resuming = True

    @staticmethod
    def _failed(failure):
        """End the process: a thread that failed must not go unnoticed."""
        traceback.print_exception(failure.exc_type, failure.exc_value, failure.exc_traceback)
        sys.stderr.flush()
        os._exit(1)

    def say(self, kind, **more):
        with self._lock:
            print(json.dumps({"kind": kind, **more}), flush=True)

    def opened(self, mode="client", **more):
        """A session with the router; names of settings have ``__`` for ``/``."""
        config = {**QUIET, "mode": mode, "connect/endpoints": [self.settings["router"]]}
        session = zenoh.open({**config, **{key.replace("__", "/"): value for key, value in more.items()}})
        self.sessions.append(session)
        return session

    def report(self, kind="report", **more):
        for session in self.sessions:
            if not session.is_closed():
                self.faults["errors in callbacks"] = session.stats()["handler.errors"]
        self.say(kind, counts=self.counts, faults=self.faults, gauges=self.gauges, **more)

    def pulse(self):
        """Report if it is due."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self.settings["window"]
            self.report()


def beats(post, seconds):
    """Numbers, one each few seconds by absolute deadlines, until the end; late ones follow at once."""
    start, number = time.monotonic(), 0
    while not post.stop.is_set():
        wait = start + number * seconds - time.monotonic()
        if wait > 0:
            post.stop.wait(wait)
        elif wait < -1:
            # Without this, a worker that was held up for long would make a burst.
            start -= wait
        yield number
        number += 1
        post.pulse()


class Numbered:
    """Check of numbered messages: each source in each of its runs counts without hole, repeat or swap."""

    # Runs remembered; each restart makes one.
    RUNS = 64

    def __init__(self, faults):
        self.faults = faults
        self.next = {}

    def take(self, source, run, number):
        """Compare a number with the one before; the first one of a run may be any."""
        key = (source, run)
        # Last in the order of the dictionary, so that the oldest run is forgotten first.
        expected = self.next.pop(key, number)
        if number > expected:
            self.faults["lost"] += number - expected
        elif number < expected:
            self.faults["doubled or late"] += 1
        self.next[key] = max(expected, number + 1)
        if len(self.next) > self.RUNS:
            del self.next[next(iter(self.next))]


class Source:
    """A publisher of numbered messages on ``soak/<name>``."""

    def __init__(self, session, name):
        self.publisher = session.declare_publisher(f"soak/{name}", congestion_control=BLOCK)
        self.run = random.getrandbits(48)
        self.sent = 0

    def payload(self):
        self.sent += 1
        return NUMBER.pack(self.sent, self.run)

    def put(self):
        self.publisher.put(self.payload())


def take(checked, sample):
    number, run = NUMBER.unpack(bytes(sample.payload))
    checked.take(str(sample.key_expr), run, number)


# ---- The router and the calm pair ----


def be_nice(post):
    """Set the niceness of this process, before it has further threads."""
    if nice := post.settings["nice"]:
        group = Path("/proc/self/autogroup")
        try:
            os.nice(nice)
            # With autogroups, Linux compares the niceness of sessions; this worker has one of its own.
            if group.exists():
                group.write_text(str(nice))
        except PermissionError as error:
            print(f"niceness {nice} needs privileges, goes on without: {error}", file=sys.stderr)


def gauges_of(router):
    stats = router.stats()
    lanes = [lane for link in stats["per_link"] for lane in link["lanes"].values()]
    names = ("links", "queries.open", "gets.open", "node.query_timeouts", "link.tx_dropped")
    return {
        **{name: stats[name] for name in names},
        "waiting_bytes": sum(lane["waiting_bytes"] for lane in lanes),
        "producers": sum(lane["producers"] for lane in lanes),
    }


def hub(post):
    """The router of all others, which lives as long as the run."""
    be_nice(post)
    with zenoh.open({**QUIET, "mode": "router", "listen/endpoints": ["tcp/127.0.0.1:0"]}) as session:
        post.sessions.append(session)
        post.say("ready", endpoint=session.listening()[0])
        for _ in beats(post, 1.0):
            post.gauges = gauges_of(session)


def calm_publisher(post):
    """A thousand messages a second by absolute deadlines, each with its number and its time of sending."""
    be_nice(post)
    with post.opened() as session:
        publisher = session.declare_publisher("calm/x", congestion_control=BLOCK)
        publisher.wait_matching(1, PATIENCE)
        post.say("ready")
        # A collection would stop the thread for milliseconds, and this loop makes no cycles of references.
        gc.collect()
        gc.freeze()
        gc.disable()
        period = round(1e9 / post.settings["rate"])
        start, sent, late = time.monotonic_ns(), 0, 0
        while not post.stop.is_set():
            wait = start + sent * period - time.monotonic_ns()
            if wait > 0:
                time.sleep(wait / 1e9)
            late = max(late, -wait)
            publisher.put(NUMBER.pack(sent, time.monotonic_ns()))
            sent += 1
            if sent % 1000 == 0:
                post.counts["sent"] = sent
                post.gauges = {"late_ms": late / 1e6}
                post.pulse()
        post.counts["sent"] = sent
        session.flush(PATIENCE)


class Listener:
    """The callback of the calm subscriber: latencies by window, and the numbers that are missing."""

    # More would not fit in memory, and fail the run anyway.
    MISSING = 100_000

    def __init__(self, seconds):
        self.width = round(seconds * 1e9)
        self.until = time.monotonic_ns() + self.width
        self.window = Histogram()
        self.full = collections.deque()
        self.next, self.received = 0, 0
        self.missing = set()
        self.faults = collections.Counter()

    def __call__(self, sample):
        now = time.monotonic_ns()
        number, sent = NUMBER.unpack(bytes(sample.payload))
        if now >= self.until:
            self.full.append(self.window)
            self.window, self.until = Histogram(), now + self.width
        self.window.add(now - sent)
        self.received += 1
        if number == self.next:
            self.next += 1
        elif number > self.next:
            self.faults["gaps"] += 1
            self.missing.update(range(self.next, min(number, self.next + self.MISSING)))
            self.next = number + 1
        elif number in self.missing:
            self.missing.remove(number)
            self.faults["out of order"] += 1
        else:
            self.faults["doubled"] += 1


def calm_subscriber(post):
    """Latency of each message, on the clock that all processes of a machine share."""
    be_nice(post)
    heard, whole = Listener(post.settings["window"]), Histogram()

    def collect():
        while heard.full:
            window = heard.full.popleft()
            whole.merge(window)
            post.say("window", **window.summary())
        post.counts["received"] = heard.received
        post.faults.update(heard.faults - post.faults)

    with post.opened() as session:
        subscriber = session.declare_subscriber("calm/x", heard)
        subscriber.wait_ready(PATIENCE)
        post.say("ready")
        gc.collect()
        gc.freeze()
        # As in the publisher: the callback makes no cycles of references.
        gc.disable()
        for _ in beats(post, 1.0):
            collect()
        end = time.monotonic() + PATIENCE
        while post.expected is not None and heard.received < post.expected and time.monotonic() < end:
            time.sleep(0.05)
        # The last ones may be doubled.
        time.sleep(0.5)
        subscriber.undeclare()
        heard.full.append(heard.window)
        collect()
        post.faults["lost"] = len(heard.missing) + max(0, (post.expected or heard.next) - heard.next)
        buckets = {str(Histogram.edge(b)): n for b, n in enumerate(whole.counts) if n}
        post.say("latency", **whole.summary(), buckets=buckets)


# ---- Peers, a second router, and a client that stays ----


def ask(post, querier, number):
    """Send a query, which has to get exactly one answer unless the partner is being restarted."""
    excused = post.excused
    replies = querier.get(payload=str(number))
    oks = [bytes(reply.ok.payload) for reply in replies if reply.ok]
    if oks == [str(number).encode()]:
        post.counts["answered"] += 1
    elif excused or post.excused:
        post.counts["excused"] += 1
    elif len(oks) > 1:
        post.faults["queries answered twice"] += 1
    else:
        print(f"query {number}: {replies.end}, {oks}", file=sys.stderr, flush=True)
        post.faults["queries without their answer"] += 1


def echo(query):
    # The last one may come when the session is closed already.
    with contextlib.suppress(errors.SessionClosed):
        query.reply(query.key_expr, query.payload)


def peer(post):
    """Peer that queries another one, linked with it directly and through the router."""
    mine, other = post.settings["name"], post.settings["other"]
    connect = [post.settings["router"], *post.settings["partners"]]
    listen = [post.settings["own"]]
    with post.opened("peer", listen__endpoints=listen, connect__endpoints=connect) as session:
        queryable = session.declare_queryable(f"peers/{mine}", echo)
        source = Source(session, mine)
        querier = session.declare_querier(f"peers/{other}", timeout=QUERY_TIMEOUT)
        queryable.wait_ready(PATIENCE)
        post.say("ready")
        for number in beats(post, 0.02):
            source.put()
            if post.resuming:
                querier.wait_matching(1, PATIENCE)
                post.excused = post.resuming = False
            ask(post, querier, number)
            post.counts["published"] = source.sent


def second_router(post):
    """A router behind the first one, so that links between routers come and go."""
    with post.opened("router", listen__endpoints=["tcp/127.0.0.1:0"]) as session:
        checked = Numbered(post.faults)
        session.declare_subscriber("soak/**", lambda sample: take(checked, sample)).wait_ready(PATIENCE)
        source = Source(session, "second_router")
        post.say("ready")
        for _ in beats(post, 0.05):
            source.put()
        post.counts["published"] = source.sent


def anchor(post):
    """A client that stays: answers queries, leaves some unanswered, and checks all numbered messages."""
    kept = collections.deque()
    checked = Numbered(post.faults)

    def hear(sample):
        take(checked, sample)
        post.counts["received"] += 1

    with post.opened() as session:
        session.declare_queryable("anchor/echo", echo)
        session.declare_queryable("anchor/never", lambda query: kept.append((time.monotonic(), query)))
        session.declare_subscriber("soak/**", hear).wait_ready(PATIENCE)
        post.say("ready")
        for _ in beats(post, 0.2):
            while kept and kept[0][0] < time.monotonic() - 1:
                kept.popleft()[1].drop()
        while kept:
            kept.popleft()[1].drop()


# ---- asyncio ----


class Loop:
    """Tasks of an asyncio program: publish, receive with timeouts, query, run into timeouts, cancel."""

    def __init__(self, post, session):
        self.post = post
        self.session = session
        self.source = Source(session, "aio")

    async def publish(self):
        while not self.post.stop.is_set():
            await self.source.publisher.put(self.source.payload())
            await asyncio.sleep(0.01)

    async def receive(self, subscriber):
        """Cancelled waits must lose nothing."""
        checked = Numbered(self.post.faults)
        chance = random.Random(7)
        while not self.post.stop.is_set():
            try:
                sample = await asyncio.wait_for(subscriber.recv(), chance.choice([0.0, 0.005, 0.02]))
            except TimeoutError:
                self.post.counts["cancelled receives"] += 1
                await asyncio.sleep(0)
                continue
            take(checked, sample)
            self.post.counts["received"] += 1

    async def query(self):
        for number in itertools.takewhile(lambda _: not self.post.stop.is_set(), itertools.count()):
            replies = await self.session.get("anchor/echo", payload=str(number), timeout=QUERY_TIMEOUT)
            oks = [bytes(reply.ok.payload) for reply in replies if reply.ok]
            if oks == [str(number).encode()]:
                self.post.counts["answered"] += 1
            else:
                failures = [bytes(reply.err.payload) for reply in replies if reply.err]
                print(f"query {number}: {oks}, {failures}", file=sys.stderr, flush=True)
                self.post.faults["queries without their answer"] += 1
            await asyncio.sleep(0.05)

    async def give_up(self):
        """Queries without an answer: by their timeout, by a cancelled task, by `cancel`."""
        while not self.post.stop.is_set():
            get = self.session.get("anchor/never", timeout=0.2)
            replies = [bytes(reply.err.payload) for reply in await get if reply.err]
            # Not `end`: the router has the same timeout, and completes the query if it is the first.
            self.expect("queries that did not time out", get, replies == [b"Timeout"])
            task = asyncio.ensure_future(self._wait())
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            get = self.session.get("anchor/never", timeout=QUERY_TIMEOUT)
            await asyncio.sleep(0.02)
            get.cancel()
            await get
            self.expect("queries that were not cancelled", get, get.end == "cancelled")
            self.post.counts["given up"] += 3

    def expect(self, fault, get, holds):
        if not holds:
            self.post.faults[fault] += 1
            print(f"{fault}: {get.end}", file=sys.stderr, flush=True)

    async def _wait(self):
        return await self.session.get("anchor/never", timeout=QUERY_TIMEOUT)

    async def run(self, subscriber):
        calls = (self.publish(), self.receive(subscriber), self.query(), self.give_up())
        tasks = [asyncio.ensure_future(call) for call in calls]
        try:
            while not self.post.stop.is_set():
                done, _ = await asyncio.wait(tasks, timeout=0.2, return_when=asyncio.FIRST_EXCEPTION)
                for task in done:
                    task.result()
                self.post.pulse()
        finally:
            # Tasks end by themselves: `wait_for` of Python 3.11 may swallow a cancellation.
            self.post.stop.set()
            await asyncio.gather(*tasks)


def looped(post):
    """A program on an event loop."""

    async def main():
        config = {**QUIET, "mode": "client", "connect/endpoints": [post.settings["router"]]}
        async with aio.open(config) as session:
            subscriber = session.declare_subscriber("soak/**")
            await subscriber.wait_ready(PATIENCE)
            post.say("ready")
            await Loop(post, session).run(subscriber)

    asyncio.run(main())


# ---- Spool and Spark ----


def spooler(post):
    """A spool of ``soak/**`` with bounds, and its range server."""
    bounds = spool.Retention(seconds=60.0, bytes=64 << 20)
    small = {"segment_bytes": 1 << 20, "segment_seconds": 30.0}
    with (
        post.opened() as session,
        spool.Spooler(
            post.settings["folder"],
            "soak/**",
            session=session,
            shards=2,
            serve=True,
            retention=bounds,
            **small,
        ) as kept,
    ):
        kept.ready(PATIENCE)
        post.say("ready")
        for _ in beats(post, 1.0):
            stats = kept.stats()
            post.counts["rows"] = stats["rows"]
            for name in ("dropped", "refused"):
                post.faults[name] = stats[name]
            post.faults["problems"] = stats["problem"] is not None


def rows_of(view, shard, start, stop):
    import pyarrow as pa

    batches = view.read(shard, start, stop, columns=["key", "payload", "offset"])
    return sum(pa.record_batch(batch).num_rows for batch in batches)


def reader(post):
    """A reader that follows the end of the spool and commits, and one that reads through the range server."""
    view = spool.open(post.settings["folder"])
    secret = spool.secret(post.settings["folder"], "remote")
    at = view.end()
    with post.opened() as session:
        post.say("ready")
        for number in beats(post, 0.5):
            end = view.end()
            for shard in view.shards:
                rows = rows_of(view, shard, at[shard], end[shard])
                post.counts["rows"] += rows
                post.faults["rows missing"] += abs(end[shard] - at[shard] - rows)
            at = end
            view.commit("local", at)
            if number % 20 == 19:
                remote_rows(post, session, secret)


def remote_rows(post, session, secret):
    """Read the newest rows through the range server; while that restarts, requests are repeated."""
    with spool.connect(session=session, secret=secret, timeout=60) as remote:
        end = remote.end()
        for shard in remote.shards:
            start = max(remote.earliest()[shard], end[shard] - 500)
            rows = rows_of(remote, shard, start, end[shard])
            post.counts["rows of the range server"] += rows
            post.faults["rows missing"] += abs(end[shard] - start - rows)
        remote.commit("remote", end)


def spark(post):
    """A structured stream that counts the rows of the spool by key, and has bounded memory."""
    os.environ.pop("SPARK_HOME", None)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.local.dir": f"{folder}/local",
            "spark.python.unix.domain.socket.enabled": "true",
        }
        session = (
            SparkSession.builder.master("local[1]").appName("zwire soak").config(map=settings).getOrCreate()
        )
        try:
            stream = session.readStream.format("zwire").option("spool", post.settings["folder"]).load()
            counted = stream.groupBy("key").count().writeStream.outputMode("complete").format("memory")
            query = (
                counted.queryName("counts")
                .trigger(processingTime=f"{post.settings['window']} seconds")
                .option("checkpointLocation", f"{folder}/checkpoint")
                .start()
            )
            follow(post, query)
            query.stop()
            found = session.sql("select sum(count) as rows from counts").first()
            post.counts["rows"] = found.rows or 0
        finally:
            session.stop()


def follow(post, query):
    """Wait for the first batch, then report progress; an exception of the query fails the worker."""
    end = time.monotonic() + 120
    while query.lastProgress is None or query.lastProgress["batchId"] < 1:
        if time.monotonic() > end or not query.isActive:
            raise AssertionError(f"no batch of the stream: {query.status}, {query.exception()}")
        if post.stop.wait(0.5):
            return
    post.say("ready")
    for _ in beats(post, 1.0):
        if (failure := query.exception()) is not None:
            raise failure
        if not query.isActive:
            raise AssertionError("the stream has ended")
        post.counts["batches"] = query.lastProgress["batchId"]


# ---- ZRE ----


class Gossiper:
    """The check of a ZRE node: numbered shouts and whispers of each peer, without holes."""

    def __init__(self, post):
        self.post = post
        self.checked = Numbered(post.faults)

    def take(self, event):
        match event:
            case zre.Shout() | zre.Whisper():
                number, run = NUMBER.unpack(bytes(event.content[0]))
                self.checked.take(f"{event.peer} {event.type}", run, number)
                self.post.counts[event.type.lower()] += 1
            case zre.MessagesLost():
                self.post.faults["lost of a peer"] += 1


def loopback(post):
    return {"interfaces": "lo", "interval": 0.5, "beacon_port": post.settings["beacon"]}


def node(post):
    """A ZRE node that shouts and whispers twenty times a second."""
    gossiper = Gossiper(post)
    whispers = {}
    run = random.getrandbits(48)
    with zre.Node(post.settings["name"], loopback(post), callback=gossiper.take) as one:
        one.join("SOAK")
        post.say("ready")
        for number in beats(post, 0.05):
            shouted = one.shout("SOAK", NUMBER.pack(number, run))
            post.faults["queue full"] += shouted.full
            peers = one.peers()
            whispers = {uuid: whispers.get(uuid) or [0, random.getrandbits(48)] for uuid in peers}
            for uuid in peers:
                whisper(post, one, uuid, whispers[uuid])
            stats = one.stats()
            post.faults["events dropped"] = stats["events_dropped"]
            post.faults["gaps"] = stats["gaps"]


def whisper(post, one, uuid, last):
    """Whisper the next number of a peer; ``last`` has the number before, and the run."""
    try:
        told = one.whisper(uuid, NUMBER.pack(last[0] + 1, last[1]))
    except errors.UnknownPeer:
        # It has left since it was listed.
        return
    last[0] += told == zre.Delivery.QUEUED
    post.faults["queue full"] += told == zre.Delivery.FULL
    post.counts["not responding"] += told == zre.Delivery.NOT_RESPONDING


def wanderer(post):
    """A ZRE node that leaves and returns as another one every few seconds."""
    post.say("ready")
    while not post.stop.is_set():
        # Each node has a check of its own: others go on counting while there is none.
        with zre.Node("wanderer", loopback(post), callback=Gossiper(post).take) as one:
            one.join("SOAK")
            one.wait_for_peers(1, PATIENCE)
            end = time.monotonic() + 8
            run = random.getrandbits(48)
            for number in beats(post, 0.05):
                one.shout("SOAK", NUMBER.pack(number, run))
                if time.monotonic() > end:
                    break
        post.counts["returned"] += 1
        post.stop.wait(2)


# ---- Churn ----


def churn(post):
    """Sessions, declarations and a deaf subscriber that come and go, each in a thread."""

    def sessions():
        for number in beats(post, 0.5):
            cycles.cycle(post.settings["router"], number)
            post.counts["sessions"] += 1

    def deaf():
        address = raw.address_of(post.settings["router"])
        while not post.stop.wait(10):
            with contextlib.closing(raw.introduce(address, lease=30)) as stream:
                raw.Sender(stream).declare(raw.SUBSCRIBER, ["deaf/**"])
                flood = publisher_of_deaf
                for _ in range(500):
                    # Droppable: the router has to drop for a neighbour that does not read.
                    flood.put(bytes(30_000))
                    if post.stop.wait(0.01):
                        break
            post.counts["deaf subscribers"] += 1

    with post.opened() as session:
        publisher_of_deaf = session.declare_publisher(
            "deaf/x", congestion_control=zenoh.CongestionControl.DROP
        )
        threads = [threading.Thread(target=call) for call in (sessions, deaf)]
        for thread in threads:
            thread.start()
        post.say("ready")
        declarations(post, session)
        for thread in threads:
            thread.join(2 * cycles.PATIENCE)


def declarations(post, session):
    """Fifty declarations a second, each undeclared a second later."""
    kept = collections.deque()
    for number in beats(post, 0.02):
        key = f"churn/{number % 1000}"
        match number % 4:
            case 0:
                kept.append(session.declare_subscriber(key, lambda sample: None))
            case 1:
                kept.append(session.declare_queryable(key, lambda query: None))
            case 2:
                kept.append(session.declare_publisher(key))
            case 3:
                kept.append(session.liveliness().declare_token(key))
        if len(kept) > 50:
            kept.popleft().undeclare()
        post.counts["declarations"] += 1


ROLES = {
    each.__name__: each
    for each in (
        hub,
        calm_publisher,
        calm_subscriber,
        peer,
        second_router,
        anchor,
        looped,
        spooler,
        reader,
        spark,
        node,
        wanderer,
        churn,
    )
}


def main():
    role, settings = sys.argv[1:]
    post = Post(json.loads(settings))
    ROLES[role](post)
    # Sessions are closed now, so their last figures are those of the last report.
    post.sessions.clear()
    post.report("end")


if __name__ == "__main__":
    main()
