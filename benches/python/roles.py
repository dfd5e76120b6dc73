"""Commands of a benchmark's processes: the same program for zwire and for eclipse-zenoh.

`Node("zwire.zenoh", …)` and `Node("zenoh", …)` differ in the module they import and in nothing else, except
for the batch ways, which only zwire has.
"""

from __future__ import annotations

import array
import collections
import functools
import importlib
import json
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

# Sent after the last message on the same key at the same priority: its receipt means that all came before.
END = b"end"
# Rows of one batch, and the limit on bytes of payload in it.
BATCH_ROWS, BATCH_BYTES = 16384, 4 * 1024 * 1024
# Messages between two looks at the clock by a publisher.
STRIDE = 64
# Longest wait of a publisher for the subscriber, and of a receiver for the next message.
MATCH_SECONDS, RECEIVE_SECONDS = 10.0, 20.0
PING, PONG, QUERY = "bench/ping", "bench/pong", "bench/query"

clock = time.perf_counter


class Node:
    """A session of either implementation, and its roles."""

    def __init__(
        self,
        module: str,
        mode: str,
        listen: str | None,
        connect: str | None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        self.zenoh: Any = importlib.import_module(module)
        config = self.zenoh.Config()
        for key, value in {
            "mode": mode,
            "scouting/multicast/enabled": False,
            "scouting/gossip/enabled": False,
            "listen/endpoints": [listen] if listen else [],
            "connect/endpoints": [connect] if connect else [],
            # eclipse-zenoh enables shared memory by default; between processes of one host it bypasses the
            # socket.
            "transport/shared_memory/enabled": False,
            **(extra or {}),
        }.items():
            config.insert_json5(key, json.dumps(value))
        # For batches; imported here, so that no trial pays for it.
        if module.startswith("zwire"):
            self.arrow: Any = importlib.import_module("pyarrow")
            self.compute: Any = importlib.import_module("pyarrow.compute")
            # The first scalar that pyarrow converts imports pandas, which takes a quarter of a second.
            self.compute.equal(self.arrow.array([0]), 0)
        self.session = self.zenoh.open(config)
        self.kept: list[Any] = []
        self.block = {"congestion_control": self.zenoh.CongestionControl.BLOCK}

    def close(self) -> None:
        self.kept.clear()
        self.session.close()

    # -- publish and subscribe

    def subscribe(self, way: str, key: str, marks: int = 1, sign: str | None = None) -> None:
        """Declare a subscriber that receives in that way; `collect` returns its figures.

        It ends after so many end marks, one of each publisher. The key `sign` is subscribed to after `key`:
        a peer that knows of the one knows of the other.
        """
        self.marks = marks
        if way == "callback":
            self.counter = Counter(marks)
            self.subscriber = self.session.declare_subscriber(key, self.counter)
        else:
            self.subscriber = self.session.declare_subscriber(key)
        self.sign = self.session.declare_subscriber(sign) if sign else None

    def collect(self, way: str) -> dict[str, float]:
        """Count until the last end mark; all processes share the clock of `first` and `last`."""
        received, first, last = getattr(self, f"_collect_{way}")()
        self.subscriber.undeclare()
        if self.sign:
            self.sign.undeclare()
        return {"received": received, "first": first, "last": last, "seconds": last - first}

    def _collect_callback(self) -> tuple[int, float, float]:
        if not self.counter.ended.wait(RECEIVE_SECONDS):
            raise TimeoutError(f"no end mark after {self.counter.count} messages")
        return self.counter.count, self.counter.first, self.counter.last

    def _collect_iterate(self) -> tuple[int, float, float]:
        count, first, marks = 0, 0.0, self.marks
        for sample in self.subscriber:
            payload = sample.payload.to_bytes()
            if count == 0:
                first = clock()
            if len(payload) == len(END):
                marks -= 1
                if marks == 0:
                    return count, first, clock()
            else:
                count += 1
        raise EOFError(f"the subscriber ended after {count} messages")

    def _collect_batch(self) -> tuple[int, float, float]:
        count, first, marks = 0, 0.0, self.marks
        while True:
            batch = self.arrow.record_batch(self.subscriber.recv_batch(timeout=RECEIVE_SECONDS))
            if count == 0:
                first = clock()
            count += batch.num_rows
            marks -= self._marks(batch.column("payload"))
            if marks == 0:
                return count - self.marks, first, clock()

    def _marks(self, payload: Any) -> int:
        """Count the end marks: of a single publisher, only the last message can be one."""
        if self.marks == 1:
            # Not as an object: a copy of 1 MiB into fresh memory takes longer than the message.
            payload = payload[-1:]
        lengths = self.compute.binary_length(payload)
        return int(self.compute.sum(self.compute.equal(lengths, len(END))).as_py() or 0)

    def take(self, count: int) -> None:
        """Receive ``count`` samples in batches."""
        while count > 0:
            count -= len(self.subscriber.recv_batch(timeout=RECEIVE_SECONDS))
        self.subscriber.undeclare()
        if count:
            raise ValueError(f"{-count} more samples came than were due")

    def stat(self, name: str) -> int:
        """A counter of the session."""
        return int(self.session.stats()[name])

    def publish(
        self, way: str, key: str, size: int, seconds: float, signs: Sequence[str] = (), ends: int = 1
    ) -> dict[str, float]:
        """Publish for that long, then the end mark; begin when a subscriber and one of each sign are known.

        On a lossy link the mark is sent several times, as long as the subscriber exists.
        """
        publisher = self.session.declare_publisher(key, **self.block)
        send, per_call = self._batches(key, size) if way == "batch" else (publisher.put, 1)
        data = self._batch(size, per_call) if way == "batch" else bytes(size)
        stride = 1 if way == "batch" else max(1, min(STRIDE, BATCH_BYTES // size))
        deadline = clock() + MATCH_SECONDS
        waits = [publisher, *map(self.session.declare_publisher, signs)]
        for waiting in waits:
            while not waiting.matching_status.matching:
                if clock() > deadline:
                    raise TimeoutError("no subscriber was seen")
                time.sleep(0.01)
        for waiting in waits[1:]:
            waiting.undeclare()
        sent, begin = 0, clock()
        while clock() - begin < seconds:
            for _ in range(stride):
                send(data)
            sent += stride * per_call
        taken = clock() - begin
        publisher.put(END)
        for _ in range(ends - 1):
            time.sleep(0.05)
            if not publisher.matching_status.matching:
                break
            publisher.put(END)
        publisher.undeclare()
        return {"sent": sent, "seconds": taken}

    def _batches(self, key: str, size: int) -> tuple[Any, int]:
        """A function that sends a batch, and the number of messages of that size in one."""
        put = getattr(self.session, "put_batch", None) or functools.partial(
            importlib.import_module("zwire._zwire").put_batch, self.session
        )
        return functools.partial(put, key_expr=key, **self.block), max(
            1, min(BATCH_ROWS, BATCH_BYTES // size)
        )

    def _batch(self, size: int, rows: int) -> Any:
        # From buffers: building it of Python objects would import pandas in the first trial.
        offsets = array.array("i", range(0, (rows + 1) * size, size))
        buffers = [None, self.arrow.py_buffer(offsets), self.arrow.py_buffer(bytes(rows * size))]
        payload = self.arrow.Array.from_buffers(self.arrow.binary(), rows, buffers)
        return self.arrow.RecordBatch.from_arrays([payload], ["payload"])

    # -- round trips

    def pong(self) -> None:
        """Echo all messages."""
        publisher = self.session.declare_publisher(PONG, express=True, **self.block)
        subscriber = self.session.declare_subscriber(PING, lambda sample: publisher.put(sample.payload))
        self.kept += [publisher, subscriber]

    def ping(self, size: int, seconds: float) -> list[float]:
        """Seconds of each round trip, without the first tenth."""
        data = bytes(size)
        subscriber = self.session.declare_subscriber(PONG)
        publisher = self.session.declare_publisher(PING, express=True, **self.block)
        deadline = clock() + MATCH_SECONDS
        while not publisher.matching_status.matching and clock() < deadline:
            time.sleep(0.01)
        # The other side learns of our subscriber by a message; there is no notice when it has.
        time.sleep(0.3)
        times = []
        begin = clock()
        while clock() - begin < seconds:
            sent = clock()
            publisher.put(data)
            back = subscriber.recv()
            times.append(clock() - sent)
        assert len(back.payload.to_bytes()) == size, "another payload came back"
        publisher.undeclare()
        subscriber.undeclare()
        return times[len(times) // 10 :]

    def answer(self, size: int) -> None:
        """Answer queries."""
        data = bytes(size)
        self.kept.append(self.session.declare_queryable(QUERY, lambda query: query.reply(QUERY, data)))

    def ask(self, seconds: float) -> list[float]:
        """Seconds of each query, one at a time, until its last reply."""
        deadline = clock() + MATCH_SECONDS
        while not any(reply.ok is not None for reply in self.session.get(QUERY)):
            if clock() > deadline:
                raise TimeoutError("no queryable answered")
            time.sleep(0.01)
        times = []
        begin = clock()
        while clock() - begin < seconds:
            asked = clock()
            answers = [reply.ok is not None for reply in self.session.get(QUERY)]
            times.append(clock() - asked)
            assert answers == [True], f"one answer was due, not {answers}"
        return times

    def ask_many(self, seconds: float, under_way: int) -> list[float]:
        """Seconds of each query, so many under way at once, until its last reply."""
        self.ask(0.0)
        times: list[float] = []
        waiting: collections.deque[tuple[float, Any]] = collections.deque()
        begin = clock()
        while waiting or not times or clock() - begin < seconds:
            while len(waiting) < under_way and clock() - begin < seconds:
                waiting.append((clock(), self.session.get(QUERY)))
            if not waiting:
                break
            asked, replies = waiting.popleft()
            answers = [reply.ok is not None for reply in replies]
            times.append(clock() - asked)
            assert answers == [True], f"one answer was due, not {answers}"
        return [*times, clock() - begin]


class Counter:
    """A subscriber's callback that counts until ``marks`` end marks have come."""

    def __init__(self, marks: int) -> None:
        self.count, self.marks, self.first, self.last = 0, marks, 0.0, 0.0
        self.ended = threading.Event()

    def __call__(self, sample: Any) -> None:
        payload = sample.payload.to_bytes()
        if self.count == 0:
            self.first = clock()
        if len(payload) == len(END):
            self.marks -= 1
            if self.marks == 0:
                self.last = clock()
                self.ended.set()
        else:
            self.count += 1


class Stream:
    """An end of a plain TCP connection: the most that two Python processes can move over loopback."""

    CHUNK = 1024 * 1024

    def __init__(self, port: int, listens: bool) -> None:
        import socket

        if listens:
            with socket.create_server(("127.0.0.1", port)) as server:
                server.settimeout(MATCH_SECONDS)
                self.socket, _ = server.accept()
        else:
            deadline = clock() + MATCH_SECONDS
            while True:
                try:
                    self.socket = socket.create_connection(("127.0.0.1", port), timeout=MATCH_SECONDS)
                    break
                except ConnectionRefusedError:
                    if clock() > deadline:
                        raise
                    time.sleep(0.05)
        self.socket.settimeout(RECEIVE_SECONDS)

    def close(self) -> None:
        self.socket.close()

    def write(self, seconds: float) -> int:
        """Write 1 MiB at a time, then one different octet."""
        data, written, begin = bytes(self.CHUNK), 0, clock()
        while clock() - begin < seconds:
            self.socket.sendall(data)
            written += len(data)
        self.socket.sendall(b"\x01")
        return written

    def read(self) -> dict[str, float]:
        """Read into the same memory repeatedly, until the different octet."""
        memory = memoryview(bytearray(self.CHUNK))
        received, first = 0, 0.0
        while True:
            got = self.socket.recv_into(memory)
            if received == 0:
                first = clock()
            if got == 0:
                raise EOFError("the writer went away")
            received += got
            if memory[got - 1] == 1:
                return {"received": received - 1, "seconds": clock() - first}
