"""Shared memory between processes of one host: both sides with their defaults, so that both use theirs."""

from __future__ import annotations

import contextlib
import functools
import itertools
import struct
import threading
import time
from typing import TYPE_CHECKING, Any

from python.children import Child, children, free_port
from python.fan import Star
from python.plan import KIB, MIB, NAMES, OURS, THEIRS, Plan, interleaved, progress
from python.pubsub import LostError
from python.roles import END, RECEIVE_SECONDS, Counter, Node, clock
from python.roundtrip import trial as round_trips
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AREA = "shm"
PEER = "eclipse-zenoh, defaults"
ON = {"transport/shared_memory/enabled": True}
SIZES = {64 * KIB: "64 KiB", MIB: "1 MiB", 8 * MIB: "8 MiB"}
# Memory of an explicit provider, and of the ring that the limit writes to.
POOL = 64 * MIB
# A camera: bytes of a frame and of a line of it, frames a second, and processes that take them.
FRAME, LINE, RATE, VIEWERS = 1920 * 1080 * 3, 1920 * 3, 60.0, 4
# Messages before a trial, in which both sides map each other's memory.
WARM = 200
_keys = itertools.count()


class LookedAt(Counter):
    """A callback that reads one octet of each payload in place, where that is possible."""

    def __init__(self, marks: int, in_place: bool) -> None:
        super().__init__(marks)
        self.in_place = in_place

    def __call__(self, sample: Any) -> None:
        payload = sample.payload
        if self.count == 0:
            self.first = clock()
        if len(payload) == len(END):
            self.last = clock()
            self.ended.set()
            return
        self.count += 1
        if self.in_place:
            memoryview(payload)[-1]


class SharedNode(Node):
    """A node with shared memory, and ways to publish with memory of its own."""

    def __init__(self, module: str, mode: str, listen: str | None, connect: str | None) -> None:
        super().__init__(module, mode, listen, connect, ON)
        self.ours = module.startswith("zwire")
        self.provider: Any = None
        self.warm: Any = None

    def subscribe(self, way: str, key: str, marks: int = 1, sign: str | None = None) -> None:
        """Declare a subscriber with a callback that looks at payloads in place."""
        if self.warm:
            self.warm.undeclare()
        self.marks = marks
        self.counter = LookedAt(marks, self.ours)
        self.subscriber = self.session.declare_subscriber(key, self.counter)
        self.sign = None
        self.warm = self.session.declare_subscriber(f"{key}/warm", lambda _: None)

    def publish_shared(self, way: str, key: str, size: int, seconds: float) -> dict[str, float]:
        """Publish for that long; ``way``: ``put``, or a buffer that is ``filled`` or ``empty``."""
        publisher = self.session.declare_publisher(key, **self.block)
        warm = self.session.declare_publisher(f"{key}/warm", **self.block)
        self._await(publisher, warm)
        data = bytes(size)
        for _ in range(WARM):
            warm.put(data)
            time.sleep(0.0005)
        send = {"put": lambda: publisher.put(data)}.get(way) or self._buffers(publisher, size, data, way)
        sent, begin, cpu = 0, clock(), time.process_time()
        while clock() - begin < seconds:
            for _ in range(8):
                send()
            sent += 8
        taken, cpu = clock() - begin, time.process_time() - cpu
        publisher.put(END)
        publisher.undeclare()
        warm.undeclare()
        return {"sent": sent, "seconds": taken, "cpu": cpu / sent}

    def _await(self, *publishers: Any) -> None:
        deadline = clock() + 10
        while not all(publisher.matching_status.matching for publisher in publishers):
            if clock() > deadline:
                raise TimeoutError("no subscriber was seen")
            time.sleep(0.01)

    def _buffers(self, publisher: Any, size: int, data: bytes, way: str) -> Callable[[], None]:
        if self.ours:

            def take() -> Any:
                return publisher.loan(size)

        else:
            shm = self.zenoh.shm
            self.provider = self.provider or shm.ShmProvider.default_backend(POOL)
            policy = shm.BlockOn(shm.GarbageCollect())

            def take() -> Any:
                return self.provider.alloc(size, policy)

        part = slice(0, size) if way == "filled" else slice(0, 8)
        content = data if way == "filled" else data[:8]

        def send() -> None:
            buffer = take()
            buffer[part] = content
            publisher.put(buffer)

        return send

    def publish_frames(self, key: str, rate: float, seconds: float) -> int:
        """Publish frames with the time in them, so many a second."""
        publisher = self.session.declare_publisher(key, **self.block)
        self._await(publisher)
        rest = bytes(FRAME - 8)
        begin, sent = clock(), 0
        while clock() - begin < seconds:
            time.sleep(max(0.0, begin + sent / rate - clock()))
            publisher.put(struct.pack("d", time.monotonic()) + rest)
            sent += 1
        publisher.put(END)
        publisher.undeclare()
        return sent

    def watch_frames(self, key: str) -> None:
        """Declare a subscriber that notes how old each frame is when a callback has read a line of it."""
        self.ages: list[float] = []
        self.frames_ended = threading.Event()

        def look(sample: Any) -> None:
            payload = sample.payload
            if len(payload) == len(END):
                self.frames_ended.set()
                return
            head = bytes(memoryview(payload)[:LINE]) if self.ours else payload.to_bytes()
            self.ages.append(time.monotonic() - struct.unpack_from("d", head)[0])

        self.frames = self.session.declare_subscriber(key, look)

    def frame_ages(self) -> list[float]:
        """The ages of all frames, once the last one has come."""
        if not self.frames_ended.wait(RECEIVE_SECONDS):
            raise TimeoutError(f"no end mark after {len(self.ages)} frames")
        self.frames.undeclare()
        return self.ages

    def write_passes(self, size: int, seconds: float) -> float:
        """Bytes per second of writing payloads of that size into memory, one after the other."""
        memory, data = memoryview(bytearray(POOL)), bytes(size)
        places = [memory[at : at + size] for at in range(0, POOL - size + 1, size)][
            : max(2, 16 * MIB // size)
        ]
        for place in places:
            place[:] = data
        written, begin = 0, clock()
        while clock() - begin < seconds:
            for place in places:
                place[:] = data
            written += size * len(places)
        return written / (clock() - begin)


def pair(module: str) -> tuple[Child, Child]:
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    subscriber = Child(f"{module} subscriber", SharedNode, module, "peer", endpoint, None)
    return subscriber, Child(f"{module} publisher", SharedNode, module, "peer", None, endpoint)


def trial(
    subscribers: list[Child], publisher: Child, way: str, size: int, seconds: float
) -> tuple[Trial, float]:
    """Bytes per second at the slowest subscriber, and processor seconds of the publisher for a message."""
    key = f"bench/shm/{next(_keys)}"
    took_part = [*subscribers, publisher]
    before = sum(child.cpu() for child in took_part)
    for subscriber in subscribers:
        subscriber.call("subscribe", "callback", key)
        subscriber.send("collect", "callback")
    publisher.send("publish_shared", way, key, size, seconds)
    sent = publisher.result()
    got = [subscriber.result() for subscriber in subscribers]
    cpu = sum(child.cpu() for child in took_part) - before
    if any(each["received"] != sent["sent"] for each in got):
        raise LostError(f"{sent['sent']} of {size} B were sent, {[each['received'] for each in got]} came")
    rate = min(each["received"] / each["seconds"] for each in got) * size
    return Trial(rate, cpu / sent["sent"]), sent["cpu"]


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    yield from _pairs(plan)
    yield from _many(plan)
    yield from _frames(plan)


def _pairs(plan: Plan) -> Iterator[Row]:
    goals = {64 * KIB: 2.0, MIB: 2.0, 8 * MIB: 10.0}
    puts = {
        size: Row(AREA, f"{name} callback", "MB/s", PEER, target=goals[size]) for size, name in SIZES.items()
    }
    limits = {
        size: Row(
            AREA, f"{SIZES[size]} callback, share of a write pass", "MB/s", "one write pass", target=0.8
        )
        for size in (MIB, 8 * MIB)
    }
    filled = {
        size: Row(AREA, f"{NAMES[size]} loan, filled", "MB/s", "one write pass", target=0.8)
        for size in (64 * KIB, MIB)
    }
    empty = {
        size: Row(AREA, f"{NAMES[size]} loan, not filled", "MB/s", f"{PEER}, provider", target=5.0)
        for size in (64 * KIB, MIB)
    }
    trips = Row(AREA, "round trip 1 MiB, p50", "µs", PEER, target=0.7, less_is_better=True)
    all_rows = [*puts.values(), *limits.values(), *filled.values(), *empty.values(), trips]
    if not plan.wants(*all_rows):
        return
    ours, theirs = pair(OURS), pair(THEIRS)
    with children(*ours, *theirs):
        for size, row in puts.items():
            limit = limits.get(size)
            rows = [each for each in (row, limit) if each]
            if not plan.wants(*rows):
                continue
            progress(f"{AREA} {SIZES[size]}")
            for call, our_call, write in interleaved(plan.rounds, _sides(theirs, ours, "put", size, plan)):
                row.theirs.append(call)
                row.ours.append(our_call)
                if limit:
                    limit.ours.append(our_call)
                    limit.theirs.append(write)
            yield from plan.chosen(rows)
        for size, row in filled.items():
            if plan.wants(row):
                progress(f"{AREA} {row.name}")
                for call, our_call, write in interleaved(
                    plan.rounds, _sides(theirs, ours, "filled", size, plan)
                ):
                    row.ours.append(our_call)
                    row.theirs.append(write)
                    row.note = f"eclipse-zenoh with a provider of 64 MiB: {call.value / 1e6:,.0f} MB/s"
                yield row
        for size, row in empty.items():
            if plan.wants(row):
                progress(f"{AREA} {row.name}")
                for call, our_call, _ in interleaved(plan.rounds, _sides(theirs, ours, "empty", size, plan)):
                    row.ours.append(our_call)
                    row.theirs.append(call)
                yield row
        if plan.wants(trips):
            progress(f"{AREA} round trip")
            for listens, _ in (ours, theirs):
                listens.call("pong")
            sides = [
                lambda: round_trips(*theirs, "ping", MIB, 2 * plan.seconds),
                lambda: round_trips(*ours, "ping", MIB, 2 * plan.seconds),
            ]
            for (their_times, their_cpu), (our_times, our_cpu) in interleaved(plan.rounds, sides):
                trips.ours.append(Trial(our_times[len(our_times) // 2], our_cpu))
                trips.theirs.append(Trial(their_times[len(their_times) // 2], their_cpu))
            yield trips


def _sides(
    theirs: tuple[Child, Child], ours: tuple[Child, Child], way: str, size: int, plan: Plan
) -> list[Callable[[], Trial]]:
    return [
        lambda: trial([theirs[0]], theirs[1], way, size, plan.seconds)[0],
        lambda: trial([ours[0]], ours[1], way, size, plan.seconds)[0],
        lambda: Trial(ours[1].call("write_passes", size, plan.seconds / 2)),
    ]


def _many(plan: Plan) -> Iterator[Row]:
    """What a publisher pays for further subscribers on its host."""
    rows = {
        many: Row(
            AREA,
            f"1 MiB to {many}, processor time of the publisher",
            "µs",
            "the same to one",
            target=1.2,
            less_is_better=True,
        )
        for many in (4, 8)
    }
    if plan.smoke or not plan.wants(*rows.values()):
        return
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    centre = Child("publisher", SharedNode, OURS, "peer", endpoint, None)
    with children(centre):
        others = [Child(f"subscriber {at + 1}", SharedNode, OURS, "peer", None, endpoint) for at in range(8)]
        with children(*others):
            peers = Star(centre, others)
            for many, row in rows.items():
                if not plan.wants(row):
                    continue
                progress(f"{AREA} {row.name}")
                sides = [
                    lambda count=count: trial(peers.others[:count], peers.centre, "put", MIB, plan.seconds)[1]
                    for count in (1, many)
                ]
                for one, several in interleaved(plan.rounds, sides):
                    row.theirs.append(Trial(one))
                    row.ours.append(Trial(several))
                yield row


def _frames(plan: Plan) -> Iterator[Row]:
    """What frames of a camera cost, and how old they are when a viewer has them."""
    name = f"1080p at {RATE:.0f} Hz to {VIEWERS}"
    cost = Row(AREA, f"{name}, processor time of a frame", "µs", PEER, target=0.5, less_is_better=True)
    ages = Row(AREA, f"{name}, latency p99.9", "ms", PEER, less_is_better=True, floor=0.005)
    if plan.smoke or not plan.wants(cost, ages):
        return

    def viewed(peers: Star) -> tuple[Trial, Trial]:
        key = f"bench/shm/{next(_keys)}"
        for viewer in peers.others:
            viewer.call("watch_frames", key)
        before = sum(child.cpu() for child in peers.all())
        seconds = 4 * plan.seconds
        peers.centre.send("publish_frames", key, RATE, seconds)
        sent = peers.centre.result(seconds + RECEIVE_SECONDS)
        seen = [viewer.call("frame_ages") for viewer in peers.others]
        cpu = sum(child.cpu() for child in peers.all()) - before
        if any(len(each) != sent for each in seen):
            raise LostError(f"{sent} frames were sent, {[len(each) for each in seen]} came")
        # Without the first quarter of a second, in which memory is made and mapped.
        late = sorted(age for each in seen for age in each[int(RATE / 4) :])
        return Trial(cpu / sent), Trial(late[int(len(late) * 0.999)])

    with contextlib.ExitStack() as stack:
        sides = []
        for module in (THEIRS, OURS):
            endpoint = f"tcp/127.0.0.1:{free_port()}"
            camera = Child(f"{module} camera", SharedNode, module, "peer", endpoint, None)
            stack.enter_context(children(camera))
            viewers = [
                Child(f"{module} viewer {at + 1}", SharedNode, module, "peer", None, endpoint)
                for at in range(VIEWERS)
            ]
            stack.enter_context(children(*viewers))
            sides.append(functools.partial(viewed, Star(camera, viewers)))
        progress(f"{AREA} {name}")
        for (their_cost, their_age), (our_cost, our_age) in interleaved(plan.rounds, sides):
            cost.theirs.append(their_cost)
            cost.ours.append(our_cost)
            ages.theirs.append(their_age)
            ages.ours.append(our_age)
        yield from plan.chosen([cost, ages])
