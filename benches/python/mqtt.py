"""Bridge to MQTT with QoS 1, both ways: mosquitto, router, bridge and client share the processors.

Into Zenoh the messages wait in the session of the bridge at the broker; the time is from its start until the
router has all of them. To the broker a client publishes in batches; the time ends when the broker has
acknowledged all of them.
"""

from __future__ import annotations

import importlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from python.children import Child, ChildError, children, free_port
from python.plan import progress
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from python.plan import Plan

AREA = "mqtt"
SIZE = 64
MESSAGES = 100_000
BATCH = 1024
# Time limit of a trial.
PATIENCE = 60.0
QUIET = {"scouting/multicast/enabled": False}


class Router:
    """The router, which counts what comes into it."""

    def __init__(self, endpoint: str) -> None:
        zenoh: Any = importlib.import_module("zwire.zenoh")
        settings = {
            "mode": "router",
            "listen/endpoints": [endpoint],
            "zwire/handler/block_deadline_ms": 60_000,
        }
        self.session = zenoh.open({**QUIET, **settings})
        self.count = 0
        self.kept = self.session.declare_subscriber("in/**", self._count)

    def _count(self, _sample: object) -> None:
        self.count += 1

    def close(self) -> None:
        self.session.close()

    def begin(self) -> None:
        self.count = 0

    def wait(self, count: int) -> None:
        """Wait until so many messages came."""
        end = time.monotonic() + PATIENCE
        while self.count < count:
            if time.monotonic() > end:
                raise ChildError(f"{self.count} of {count} messages came")
            time.sleep(0.001)


class Bridge:
    """The bridge, with a session of its own."""

    def __init__(self, endpoint: str, port: int, folder: str) -> None:
        self.zenoh: Any = importlib.import_module("zwire.zenoh")
        self.mqtt: Any = importlib.import_module("zwire.bridge.mqtt")
        self.endpoint, self.port, self.folder = endpoint, port, folder
        self.session: Any = None
        self.bridge: Any = None

    def open(self) -> None:
        """Connect with both sides."""
        self.session = self.zenoh.open({**QUIET, "mode": "client", "connect/endpoints": [self.endpoint]})
        rules = [
            self.mqtt.Rule("in/#", direction="in", qos=1),
            self.mqtt.Rule("out/#", direction="out", qos=1),
        ]
        self.bridge = self.mqtt.MqttBridge(
            self.session, f"mqtt://127.0.0.1:{self.port}", rules, client_id="bench", spool=self.folder
        )
        self.bridge.wait_connected(PATIENCE)

    def wait(self, count: int) -> float:
        """Wait until the broker has acknowledged so many messages; return the processor time."""
        end = time.monotonic() + PATIENCE
        while self.bridge.stats()["out_acked"] < count:
            if time.monotonic() > end:
                raise ChildError(f"the broker has not all of them: {self.bridge.stats()}")
            time.sleep(0.001)
        return time.process_time()

    def used(self) -> float:
        """Processor time of the process."""
        return time.process_time()

    def end(self) -> None:
        """Disconnect from both sides."""
        if self.bridge is not None:
            self.bridge.close()
            self.session.close()
            self.bridge = None

    def close(self) -> None:
        self.end()


class Client:
    """Publishes in batches."""

    def __init__(self, endpoint: str) -> None:
        self.arrow: Any = importlib.import_module("pyarrow")
        zenoh: Any = importlib.import_module("zwire.zenoh")
        self.session = zenoh.open({**QUIET, "mode": "client", "connect/endpoints": [endpoint]})

    def close(self) -> None:
        self.session.close()

    def put(self, count: int) -> None:
        """Publish so many messages."""
        payload = os.urandom(SIZE)
        for first in range(0, count, BATCH):
            rows = min(BATCH, count - first)
            columns = {
                "key": ["out/bench"] * rows,
                "payload": [payload] * rows,
                "congestion": ["block"] * rows,
            }
            self.session.put_batch(self.arrow.record_batch(columns))


def _broker(folder: Path, port: int) -> subprocess.Popen[bytes]:
    program = Path(os.environ["ZWIRE_BROKER"]) / "mosquitto"
    user = "user root\n" if os.getuid() == 0 else ""
    config = folder / "mosquitto.conf"
    config.write_text(
        f"{user}listener {port} 127.0.0.1\nallow_anonymous true\n"
        "max_queued_messages 0\nmax_inflight_messages 1000\n"
    )
    command = [str(program), "-c", str(config)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + PATIENCE
    while not _listens(port):
        if time.monotonic() > end:
            process.kill()
            raise ChildError("mosquitto does not listen")
        time.sleep(0.01)
    return process


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    into = Row(AREA, f"into Zenoh, QoS 1, {SIZE} B", "msg/s", "-", floor=20_000)
    out = Row(AREA, f"to the broker, QoS 1, {SIZE} B", "msg/s", "-", floor=20_000)
    rows = [into, out]
    if not plan.wants(*rows):
        return
    if not (Path(os.environ.get("ZWIRE_BROKER", "")) / "mosquitto").is_file():
        into.skipped = out.skipped = "ZWIRE_BROKER names no folder with mosquitto"
        yield from plan.chosen(rows)
        return
    count = MESSAGES // 20 if plan.smoke else MESSAGES
    folder = Path(tempfile.mkdtemp(prefix="zwire-bench-"))
    endpoint, port = f"tcp/127.0.0.1:{free_port()}", free_port()
    broker = _broker(folder, port)
    try:
        router = Child("router", Router, endpoint)
        bridge = Child("bridge", Bridge, endpoint, port, str(folder / "spool"))
        with children(router, bridge), children(Child("client", Client, endpoint)) as (client,):
            progress(AREA)
            for _ in range(plan.rounds):
                bridge.call("open")
                bridge.call("end")
                _fill(port, count)
                router.call("begin")
                used, begin = bridge.call("used"), time.perf_counter()
                bridge.call("open")
                router.call("wait", count)
                seconds = time.perf_counter() - begin
                into.ours.append(Trial(count / seconds, (bridge.call("used") - used) / count))
                used, begin = bridge.call("used"), time.perf_counter()
                client.send("put", count)
                used = bridge.call("wait", count) - used
                out.ours.append(Trial(count / (time.perf_counter() - begin), used / count))
                client.result()
                bridge.call("end")
    finally:
        broker.kill()
        broker.wait()
        shutil.rmtree(folder)
    yield from plan.chosen(rows)


def _fill(port: int, count: int) -> None:
    """Publish messages, which wait at the broker for the session of the bridge."""
    program = str(Path(os.environ["ZWIRE_BROKER"]) / "mosquitto_pub")
    command = [program, "-p", str(port), "-t", "in/bench", "-q", "1", "-l"]
    # It ends when the identifier of its last message is acknowledged, and there are 65,535 of them.
    for first in range(0, count, 50_000):
        lines = ("x" * SIZE + "\n") * min(50_000, count - first)
        subprocess.run(command, input=lines.encode(), check=True, timeout=PATIENCE)
