"""A spool over the network: a range server against a copy of the same octets, and Kafka clients against it.

All sides are in the same process, over TCP of loopback, and readers are processes of their own, each with its
share of the spool. Ours ends with verified batches of Arrow with all columns; a copy reads the files piece by
piece, sends them, and discards them; a Kafka client, confluent-kafka, ends with an object for each row.
"""

from __future__ import annotations

import importlib
import shutil
import socket
import tempfile
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from python.children import Child, ChildError, children, free_port
from python.plan import KIB, interleaved, progress
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from python.plan import Plan

AREA = "spool_range"
ROWS = 300_000
SIZE = KIB
PIECE = 1 << 20
PATIENCE = 30.0


class Holder:
    """Holder of the files."""

    def __init__(self, endpoint: str, rows: int) -> None:
        arrow: Any = importlib.import_module("pyarrow")
        spool: Any = importlib.import_module("zwire.spool")
        self.folder = tempfile.mkdtemp(prefix="zwire-bench-")
        with spool.Appender(self.folder) as appender:
            batch = arrow.record_batch({"key": ["bench/spool"] * 4096, "payload": [bytes(SIZE)] * 4096})
            while rows > 0:
                rows -= appender.append_batch(batch.slice(0, min(rows, 4096)))
        config = {"mode": "router", "listen/endpoints": [endpoint], "scouting/multicast/enabled": False}
        self.server = spool.serve(self.folder, config=config)
        self.kafka = spool.KafkaServer({"bench": self.folder}, listen="127.0.0.1:0")
        self.files = sorted(Path(self.folder, "0").glob("*.arrow"))
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.listener.close()
        self.kafka.close()
        self.server.close()
        shutil.rmtree(self.folder)

    def about(self) -> tuple[str, int, str, int]:
        """The id of the spool, the port for copies, the address for Kafka clients, the number of octets."""
        octets = sum(file.stat().st_size for file in self.files)
        return self.server.id, self.listener.getsockname()[1], self.kafka.address, octets

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._send, args=(connection,), daemon=True).start()

    def _send(self, connection: socket.socket) -> None:
        """Send the requested share: its number, and the number of shares."""
        with connection:
            number, shares = connection.recv(2)
            piece = memoryview(bytearray(PIECE))
            for file in self.files:
                size = file.stat().st_size
                at, end = size * number // shares, size * (number + 1) // shares
                with file.open("rb", buffering=0) as octets:
                    octets.seek(at)
                    while at < end:
                        read = octets.readinto(piece[: min(PIECE, end - at)])
                        connection.sendall(piece[:read])
                        at += read


class Reader:
    """Reader of one share."""

    def __init__(self, endpoint: str, spool: str, port: int, kafka: str, number: int, shares: int) -> None:
        self.arrow: Any = importlib.import_module("pyarrow")
        config = {"mode": "client", "connect/endpoints": [endpoint], "scouting/multicast/enabled": False}
        self.view: Any = importlib.import_module("zwire.spool").connect(spool, config=config)
        self.port, self.number, self.shares = port, number, shares
        self.kafka_module: Any = importlib.import_module("confluent_kafka")
        settings = {"bootstrap.servers": kafka, "group.id": "bench", "check.crcs": True}
        self.consumer = self.kafka_module.Consumer({**settings, "fetch.message.max.bytes": PIECE})
        # The first request waits for connections.
        self.consumer.list_topics(timeout=PATIENCE)
        end = self.view.end()
        self.range = self.view.split({0: 0}, end, shares)[number]

    def close(self) -> None:
        self.consumer.close()
        self.view.close()

    def fetch(self) -> int:
        """Read over zwire, into Arrow."""
        shard, start, stop, _ = self.range
        rows = sum(self.arrow.record_batch(batch).num_rows for batch in self.view.read(shard, start, stop))
        if rows != stop - start:
            raise ChildError(f"{rows} rows of {stop - start}")
        return int(rows)

    def kafka(self) -> int:
        """Read as a Kafka client, row by row; its checksums are not verified by default, and are here."""
        shard, start, stop, _ = self.range
        self.consumer.assign([self.kafka_module.TopicPartition("bench", shard, start)])
        rows, end = 0, time.monotonic() + PATIENCE
        while rows < stop - start and time.monotonic() < end:
            messages = self.consumer.consume(min(10_000, stop - start - rows), 0.5)
            rows += sum(message.error() is None for message in messages)
        self.consumer.unassign()
        if rows != stop - start:
            raise ChildError(f"{rows} rows of {stop - start}")
        return rows

    def copy(self) -> int:
        """Read over TCP, and discard."""
        got, piece = 0, memoryview(bytearray(PIECE))
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(bytes([self.number, self.shares]))
            while read := connection.recv_into(piece):
                got += read
        return got


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    for shares in (1, 4):
        readers = "one reader" if shares == 1 else f"{shares} readers"
        row = Row(AREA, f"range server, {readers}, 1 KiB", "MB/s", "a copy over TCP", target=0.5)
        client = Row(AREA, f"Kafka clients, {readers}, 1 KiB", "MB/s", "our range server")
        rows = plan.chosen([row, client])
        if not rows:
            continue
        progress(f"{AREA} {readers}")
        endpoint = f"tcp/127.0.0.1:{free_port()}"
        count = ROWS // 20 if plan.smoke else ROWS
        with ExitStack() as stack:
            (holder,) = stack.enter_context(children(Child("holder", Holder, endpoint, count)))
            name, port, kafka, octets = holder.call("about")
            wanted = [
                Child(f"reader {number}", Reader, endpoint, name, port, kafka, number, shares)
                for number in range(shares)
            ]
            fetching = stack.enter_context(children(*wanted))
            for chosen in rows:
                names = ("fetch", "copy") if chosen is row else ("kafka", "fetch")
                sides = [partial(_trial, holder, fetching, octets, what) for what in names]
                for ours, theirs in interleaved(plan.rounds, sides):
                    chosen.ours.append(ours)
                    chosen.theirs.append(theirs)
        yield from rows


def _trial(holder: Child, readers: tuple[Child, ...], octets: int, what: str) -> Trial:
    """Octets per second of all readers together."""
    used = holder.cpu() + sum(reader.cpu() for reader in readers)
    begin = time.perf_counter()
    for reader in readers:
        reader.send(what)
    for reader in readers:
        reader.result(PATIENCE)
    seconds = time.perf_counter() - begin
    cpu = holder.cpu() + sum(reader.cpu() for reader in readers) - used
    return Trial(octets / seconds, cpu / octets)
