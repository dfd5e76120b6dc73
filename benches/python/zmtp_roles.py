"""Commands of the processes in the ZMTP rows: the same program for zwire and for pyzmq, batches apart."""

from __future__ import annotations

import time
from typing import Any

from python.roles import BATCH_BYTES, BATCH_ROWS, END, RECEIVE_SECONDS, STRIDE, clock

# No side may lose messages, not even a publisher that never waits: the trial bounds the length of its queue.
MANY = 1 << 30
HELLO = b"hello"


class Socket:
    """A socket of either implementation."""

    def __init__(self, module: str, kind: str) -> None:
        self.kind, self.ours = kind, module == "zwire"
        publishes = kind in {"PUB", "SUB"}
        if self.ours:
            import pyarrow as pa

            from zwire import zmtp

            self.arrow: Any = pa
            cls = {"DEALER": zmtp.Dealer, "ROUTER": zmtp.Router, "PUB": zmtp.Pub, "SUB": zmtp.Sub}[kind]
            marks = {"high_water_bytes": 8 << 30, "high_water_mark": MANY} if publishes else {}
            self.socket: Any = cls([b""], **marks) if kind == "SUB" else cls(**marks)
            self.recv: Any = self.socket.recv
        else:
            import zmq

            self.context = zmq.Context()
            self.socket = self.context.socket(getattr(zmq, kind))
            self.socket.linger = 0
            self.socket.rcvtimeo = int(RECEIVE_SECONDS * 1000)
            if publishes:
                self.socket.sndhwm = self.socket.rcvhwm = 0
            if kind == "SUB":
                self.socket.subscribe(b"")
            self.recv = self.socket.recv_multipart

    def close(self) -> None:
        if self.ours:
            self.socket.close(0)
        else:
            self.socket.close(0)
            self.context.term()

    def bind(self) -> int:
        if self.ours:
            return int(self.socket.bind("tcp://127.0.0.1:*").rpartition(":")[2])
        return int(self.socket.bind_to_random_port("tcp://127.0.0.1"))

    def connect(self, port: int) -> None:
        self.socket.connect(f"tcp://127.0.0.1:{port}")

    def greet(self) -> None:
        """Send until told otherwise: a publisher reaches no one before the subscription has arrived."""
        for _ in range(20):
            self.socket.send(HELLO)
            time.sleep(0.02)
        self.socket.send(END)

    def greeted(self) -> None:
        while self.recv()[-1] != END:
            pass

    def publish(self, way: str, size: int, seconds: float) -> dict[str, float]:
        """Send for that long, then the end mark."""
        payload = bytes([1]) * size
        sent = self._publish_batch(payload, seconds) if way == "batch" else self._publish(payload, seconds)
        self.socket.send(END)
        return {"sent": sent}

    def _publish(self, payload: bytes, seconds: float) -> int:
        send, sent, end = self.socket.send, 0, clock() + seconds
        while clock() < end:
            for _ in range(STRIDE):
                send(payload)
            sent += STRIDE
        return sent

    def _publish_batch(self, payload: bytes, seconds: float) -> int:
        rows = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, len(payload))))
        batch = self.arrow.array([payload] * rows, self.arrow.binary())
        sent, end = 0, clock() + seconds
        while clock() < end:
            sent += self.socket.send_many(batch)
        return sent

    def collect(self, way: str) -> dict[str, float]:
        """Count until the end mark; the time is from the first message to the mark."""
        received, seconds = self._collect_batch() if way == "batch" else self._collect()
        return {"received": received, "seconds": seconds}

    def _collect(self) -> tuple[int, float]:
        recv, count = self.recv, 0
        frames = recv(RECEIVE_SECONDS) if self.ours else recv()
        first = clock()
        while frames[-1] != END:
            count += 1
            frames = recv()
        return count, clock() - first

    def _collect_batch(self) -> tuple[int, float]:
        count, first = 0, 0.0
        while True:
            batch = self.arrow.record_batch(self.socket.recv_batch(timeout=RECEIVE_SECONDS))
            first = first or clock()
            if not batch.num_rows:
                raise TimeoutError(f"no end mark after {count} messages")
            # Without `flatten` and without a scalar, which copy what is large.
            frames = batch.column(batch.num_columns - 1).values
            ends = memoryview(frames.buffers()[1]).cast("i")
            count += batch.num_rows
            if (
                ends[len(frames)] - ends[len(frames) - 1] == len(END)
                and frames[len(frames) - 1].as_py() == END
            ):
                return count - 1, clock() - first

    def echo(self) -> None:
        """Echo until the end mark, which is echoed as well."""
        recv, answer = self.recv, self.socket.send if self.ours else self.socket.send_multipart
        while True:
            frames = recv()
            answer(frames)
            if frames[-1] == END:
                return

    def ping(self, size: int, seconds: float) -> list[float]:
        """Seconds of each round trip, without the first tenth."""
        payload, times, send, recv = bytes(size), [], self.socket.send, self.recv
        end = clock() + seconds
        while (start := clock()) < end:
            send(payload)
            recv()
            times.append(clock() - start)
        send(END)
        recv()
        return times[len(times) // 10 :]
