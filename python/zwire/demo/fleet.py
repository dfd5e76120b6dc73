"""A process of the simulated fleet: ``python -m zwire.demo.fleet SETTINGS``.

It prints ``ready`` when it is connected, publishes when told to ``go``, prints the number ``sent``, and goes
on answering queries until its standard input ends, which happens however the demo ends.
"""

from __future__ import annotations

import json
import math
import os
import random
import struct
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zwire import zenoh
from zwire.demo.hub import CONFIRM_TIMEOUT, client

if TYPE_CHECKING:
    from zwire.zenoh import Publisher, Query, Session

STEPS_PER_SECOND = 100
"""Positions of each robot in a second; each step simulates one second."""

BATTERY_EVERY = 10
IMAGE_EVERY = 50
IMAGE_BYTES = (40_000, 160_000)
"""Range of the size of a compressed camera image, in bytes."""

FIELD = 100.0
"""Half the side of the field, in metres."""

NUMBER = struct.Struct(">Q")
"""The attachment: the message number; each process counts from 0."""

PATIENCE = 300.0
"""Longest wait of a process for its next order, in seconds."""


@dataclass(frozen=True)
class Settings:
    """The settings of a fleet process."""

    endpoint: str
    process: int
    robots: int
    seconds: float
    answers: bool
    """Whether it answers queries."""


class Robot:
    """A robot that moves at random."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        # The cameras take their images in different steps.
        self._shutter = seed % IMAGE_EVERY
        self._random = random.Random(seed)
        self.x: float = self._random.uniform(-FIELD / 2, FIELD / 2)
        self.y: float = self._random.uniform(-FIELD / 2, FIELD / 2)
        self.battery: float = self._random.uniform(0.7, 1.0)
        self._heading = self._random.uniform(-math.pi, math.pi)
        self._speed = self._random.uniform(0.5, 2.0)
        self.sent: Counter[str] = Counter()

    def step(self) -> None:
        """Simulate one second."""
        self._heading += self._random.gauss(0.0, 0.15)
        if abs(self.x) > FIELD or abs(self.y) > FIELD:
            # Turn back to the middle at the edge of the field.
            self._heading = math.atan2(-self.y, -self.x)
        self.x += self._speed * math.cos(self._heading)
        self.y += self._speed * math.sin(self._heading)
        self.battery = max(0.0, self.battery - 2e-4 * self._speed * self._random.uniform(0.5, 1.5))

    def has_image(self, step: int) -> bool:
        """Whether its camera has taken a picture in that step."""
        return step % IMAGE_EVERY == self._shutter

    def position(self) -> bytes:
        """Return the position as a payload, in metres from the middle."""
        return json.dumps({"x": self.x, "y": self.y}).encode()

    def image(self) -> bytes:
        """Return a camera image: noise of the size of a picture."""
        return self._random.randbytes(self._random.randint(*IMAGE_BYTES))

    def status(self) -> bytes:
        """Return the robot's own status as a payload."""
        known = {"x": self.x, "y": self.y, "battery": self.battery, "sent": self.sent.total()}
        return json.dumps(known).encode()


class Process:
    """Robots that share a session."""

    def __init__(self, settings: Settings, session: Session) -> None:
        self.settings = settings
        self.session = session
        self.robots: dict[str, Robot] = {
            f"robot-{number}": Robot(f"robot-{number}", 1013 * settings.process + 7 * number)
            for number in range(settings.robots)
        }
        self.sent: Counter[str] = Counter()
        self.bytes: int = 0
        self._positions: dict[str, Publisher] = {
            name: session.declare_publisher(
                self._key(name, "position"),
                encoding=zenoh.Encoding.APPLICATION_JSON,
                congestion_control=zenoh.CongestionControl.BLOCK,
            )
            for name in self.robots
        }
        if settings.answers:
            session.declare_queryable(f"fleet/{settings.process}/*/status", self._answer)

    def _key(self, robot: str, kind: str) -> str:
        return f"fleet/{self.settings.process}/{robot}/{kind}"

    def publish(self, stop: threading.Event) -> None:
        """Run the robots, and publish."""
        steps = max(1, round(self.settings.seconds * STEPS_PER_SECOND))
        start = time.monotonic()
        for step in range(steps):
            ahead = start + step / STEPS_PER_SECOND - time.monotonic()
            if ahead > 0 and stop.wait(ahead):
                return
            for robot in self.robots.values():
                robot.step()
                self._put(robot, "position", robot.position(), zenoh.Encoding.APPLICATION_JSON)
                if step % BATTERY_EVERY == 0:
                    self._put(robot, "battery", str(robot.battery).encode(), zenoh.Encoding.TEXT_PLAIN)
                if robot.has_image(step):
                    self._put(robot, "image", robot.image(), zenoh.Encoding.IMAGE_JPEG)

    def _put(self, robot: Robot, kind: str, payload: bytes, encoding: zenoh.Encoding) -> None:
        number = NUMBER.pack(self.sent.total())
        if kind == "position":
            self._positions[robot.name].put(payload, attachment=number)
        else:
            self.session.put(
                self._key(robot.name, kind),
                payload,
                encoding=encoding,
                congestion_control=zenoh.CongestionControl.BLOCK,
                attachment=number,
            )
        self.sent[kind] += 1
        robot.sent[kind] += 1
        self.bytes += len(payload)

    def _answer(self, query: Query) -> None:
        robot = self.robots.get(str(query.key_expr).split("/")[2])
        if robot is None:
            query.reply_err(b"there is no such robot", encoding=zenoh.Encoding.TEXT_PLAIN)
        else:
            query.reply(query.key_expr, robot.status(), encoding=zenoh.Encoding.APPLICATION_JSON)


def _orders(go: threading.Event, stop: threading.Event) -> None:
    """Read orders: any line sets ``go``, the end of input sets ``stop``."""
    # Past the buffers of sys.stdin, which would not let the interpreter end while this waits.
    while os.read(0, 64):
        go.set()
    stop.set()
    go.set()


def _say(word: str, **more: Any) -> None:  # noqa: ANN401 - whatever JSON can say
    print(json.dumps({"word": word, **more}), flush=True)


def main(text: str) -> int:
    """Run until the demo ends."""
    settings = Settings(**json.loads(text))
    go, stop = threading.Event(), threading.Event()
    threading.Thread(target=_orders, args=(go, stop), daemon=True).start()
    with client(settings.endpoint) as session:
        process = Process(settings, session)
        session.flush(timeout=CONFIRM_TIMEOUT)
        _say("ready")
        if not go.wait(PATIENCE) or stop.is_set():
            return 1
        process.publish(stop)
        session.flush(timeout=CONFIRM_TIMEOUT)
        _say("sent", counts=process.sent, bytes=process.bytes)
        stop.wait(PATIENCE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
