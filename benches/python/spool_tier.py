"""A spool in an object store: the memory of its spooler; reading its rows against object_store alone.

The store is eight processes that send ranges of files as S3 does, over TCP of loopback. Ours ends
with verified batches of Arrow with all columns; the other side is object_store with Python on top (obstore),
with as many requests of the same size in progress, and discards the octets.
"""

from __future__ import annotations

import importlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from email.utils import formatdate
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from python.children import Child, ChildError, children, free_port
from python.plan import KIB, interleaved, progress
from python.rows import Row, Trial
from python.spool import KEY, Keeper, Publisher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from python.plan import Plan

AREA = "spool_tier"
ROWS = 400_000
# Messages of 64 KiB: 786 MB.
LOAD = 12_000
SIZE = KIB
# As zwire-tier has them.
PIECE, AHEAD = 4 << 20, 12
PATIENCE = 60.0
BUCKET = "bucket"
# A single process would answer one request at a time, and order would decide.
SERVERS = 8


class Answer(BaseHTTPRequestHandler):
    """Answers a request for a range of a file."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    root = ""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = Path(self.root, self.path.split("?")[0].lstrip("/"))
        if not path.is_file():
            self._start(404, 0)
            return
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            at, end, status = 0, size, 200
            if (asked := self.headers.get("Range")) is not None:
                first, last = asked.removeprefix("bytes=").split("-")
                at, end, status = int(first), min(int(last) + 1, size), 206
            self._start(status, end - at, f"bytes {at}-{end - 1}/{size}")
            while at < end:
                at += os.sendfile(self.connection.fileno(), file.fileno(), at, end - at)

    def _start(self, status: int, length: int, range_of: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.send_header("Last-Modified", formatdate(0, usegmt=True))
        self.send_header("ETag", '"0"')
        if range_of is not None:
            self.send_header("Content-Range", range_of)
        self.end_headers()
        self.wfile.flush()


class Server(ThreadingHTTPServer):
    """One of several processes that listen on the same port."""

    allow_reuse_port = True
    request_queue_size = 64


def serve(root: str, port: int) -> None:
    """Serve the files of a folder, until standard input ends."""
    handler = type("Handler", (Answer,), {"root": root})
    server = Server(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


class Store:
    """Store with a spool: a folder, and the program that serves it."""

    def __init__(self, rows: int) -> None:
        arrow: Any = importlib.import_module("pyarrow")
        spool: Any = importlib.import_module("zwire.spool")
        zenoh: Any = importlib.import_module("zwire.zenoh")
        self.folder = tempfile.mkdtemp(prefix="zwire-bench-")
        with spool.Appender(f"{self.folder}/local") as appender:
            batch = arrow.record_batch({"key": ["bench/spool"] * 4096, "payload": [bytes(SIZE)] * 4096})
            while rows > 0:
                rows -= appender.append_batch(batch.slice(0, min(rows, 4096)))
        alone = {"mode": "peer", "listen/endpoints": [], "scouting/multicast/enabled": False}
        tier = f"{self.folder}/{BUCKET}/spool"
        with (
            zenoh.open(zenoh.Config(alone)) as session,
            spool.Spooler(f"{self.folder}/local", "x", session=session, tier=f"file://{tier}"),
        ):
            pass
        self.files = sorted(Path(tier, "0").glob("*.arrow"))
        self.port = free_port()
        words = [sys.executable, __file__, self.folder, str(self.port)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.servers = [subprocess.Popen(words, stdin=subprocess.PIPE, env=env) for _ in range(SERVERS)]
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except OSError:
                time.sleep(0.1)

    def close(self) -> None:
        for server in self.servers:
            if server.stdin is not None:
                server.stdin.close()
            server.wait(10)
        shutil.rmtree(self.folder)

    def about(self) -> tuple[str, list[tuple[str, int]]]:
        """Endpoint, and name and size of each segment."""
        files = [(f"spool/0/{file.name}", file.stat().st_size) for file in self.files]
        return f"http://127.0.0.1:{self.port}", files


class Reader:
    """Reader of the spool, in one of two ways."""

    def __init__(self, endpoint: str, files: list[tuple[str, int]]) -> None:
        os.environ |= {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }
        self.arrow: Any = importlib.import_module("pyarrow")
        self.view: Any = importlib.import_module("zwire.spool").open(f"s3://{BUCKET}/spool")
        self.end = self.view.end()[0]
        stores: Any = importlib.import_module("obstore.store")
        self.store = stores.S3Store(BUCKET, endpoint=endpoint, client_options={"allow_http": True})
        self.files = files

    def close(self) -> None:
        pass

    def rows(self) -> int:
        """Read the rows, into Arrow."""
        rows = sum(self.arrow.record_batch(batch).num_rows for batch in self.view.read(0, 0, self.end))
        if rows != self.end:
            raise ChildError(f"{rows} rows of {self.end}")
        return int(rows)

    def ranges(self) -> int:
        """Read the octets, and discard them."""
        pieces = [
            (name, at, min(at + PIECE, size)) for name, size in self.files for at in range(0, size, PIECE)
        ]
        with ThreadPoolExecutor(AHEAD) as pool:
            return sum(
                pool.map(
                    lambda piece: len(self.store.get_range(piece[0], start=piece[1], end=piece[2])), pieces
                )
            )


class TierKeeper(Keeper):
    """Takes messages into a spool with a tier, of which the folder keeps as little as it can."""

    def fill(self) -> None:
        """Start."""
        self.folder = tempfile.mkdtemp(prefix="zwire-bench-")
        self.kept = self.spool.Spooler(
            f"{self.folder}/local",
            KEY,
            session=self.session,
            overflow="block",
            segment_bytes=64 << 20,
            retention=self.spool.Retention(local_bytes=0),
            tier=f"file://{self.folder}/tier",
        )

    def most(self, count: int) -> float:
        """Close the spooler, which has to have all rows; return its most memory, in MiB."""
        end = time.monotonic() + 10 * PATIENCE
        while self.kept.stats()["rows"] < count and time.monotonic() < end:
            time.sleep(0.01)
        self.kept.close(PATIENCE)
        stats = self.kept.stats()
        problem = stats["tier"]["problem"]
        shutil.rmtree(self.folder)
        if (stats["rows"], stats["tier"]["behind"], problem) != (count, 0, None):
            raise ChildError(f"{stats['rows']} rows of {count}: {problem}")
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    memory = Row(
        AREA, f"most memory of a spooler with tier, {LOAD:,} of 64 KiB", "MiB", "-", less_is_better=True
    )
    memory.floor = 256.0
    if plan.wants(memory):
        count = LOAD // 20 if plan.smoke else LOAD
        endpoint = f"tcp/127.0.0.1:{free_port()}"
        with (
            children(Child("keeper", TierKeeper, endpoint)) as (keeper,),
            children(Child("publisher", Publisher, endpoint)) as (publisher,),
        ):
            keeper.call("fill")
            publisher.send("publish", count, 64 * KIB)
            publisher.result(10 * PATIENCE)
            keeper.send("most", count)
            memory.ours.append(Trial(keeper.result(3 * PATIENCE)))
        yield from plan.chosen([memory])
    yield from _reading(plan)


def _reading(plan: Plan) -> Iterator[Row]:
    row = Row(AREA, "tier in S3, one reader, 1 KiB", "MB/s", "object_store alone", target=0.6)
    if not plan.wants(row):
        return
    progress(AREA)
    with ExitStack() as stack:
        (store,) = stack.enter_context(children(Child("store", Store, ROWS // 20 if plan.smoke else ROWS)))
        endpoint, files = store.call("about")
        (reader,) = stack.enter_context(children(Child("reader", Reader, endpoint, files)))
        octets = sum(size for _, size in files)
        sides = [partial(_trial, reader, octets, what) for what in ("rows", "ranges")]
        for ours, theirs in interleaved(plan.rounds, sides):
            row.ours.append(ours)
            row.theirs.append(theirs)
    yield from plan.chosen([row])


def _trial(reader: Child, octets: int, what: str) -> Trial:
    """Octets per second, and what the reader takes of the processor."""
    used = reader.cpu()
    begin = time.perf_counter()
    reader.send(what)
    reader.result(PATIENCE)
    seconds = time.perf_counter() - begin
    return Trial(octets / seconds, (reader.cpu() - used) / octets)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
