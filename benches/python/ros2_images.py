"""Images of a camera over rmw_zenoh: processor time of a node that reads them, against zenoh-ros2-sdk.

Camera, viewer and router are processes; the router is the same for both sides. The camera publishes 1080p
images (6.2 MB) at 30 Hz, the viewer reads the first octet of each. Both sides have a profile that keeps all,
so that no image is dropped for want of room.
"""

from __future__ import annotations

import importlib
import os
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from python.children import Child, children, free_port
from python.plan import progress
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from python.plan import Plan

AREA = "ros2_images"
HERTZ = 30
WIDTH, HEIGHT = 1920, 1080
TOPIC = "/camera/image"
IMAGE = "sensor_msgs/msg/Image"


class Hub:
    """The router."""

    def __init__(self, port: int) -> None:
        zenoh: Any = importlib.import_module("zwire.zenoh")
        endpoints = [f"tcp/127.0.0.1:{port}"]
        config = {"mode": "router", "listen/endpoints": endpoints, "scouting/multicast/enabled": False}
        self.session = zenoh.open(config)

    def close(self) -> None:
        self.session.close()


class Ours:
    """A node of zwire."""

    def __init__(self, port: int) -> None:
        self.seen = 0
        self.ros2: Any = importlib.import_module("zwire.ros2")
        config = {"mode": "client", "connect/endpoints": [f"tcp/127.0.0.1:{port}"]}
        self.node = self.ros2.Node(f"bench_{os.getpid()}", config=config, start_parameter_services=False)
        self.type = self.node.store.message(IMAGE)
        self.profile = self.ros2.QoSProfile(history=self.ros2.HistoryPolicy.KEEP_ALL)
        self.publisher: Any = None

    def close(self) -> None:
        self.node.destroy_node()

    def view(self) -> None:
        self.node.create_subscription(IMAGE, TOPIC, self.see, self.profile)

    def see(self, message: Any) -> None:
        self.seen += message.data[0] == 0

    def count(self) -> int:
        return self.seen

    def film(self) -> None:
        self.publisher = self.node.create_publisher(IMAGE, TOPIC, self.profile)
        self.publisher.wait_for_subscription(20)

    def send(self, data: Any) -> None:
        image = self.type.cls(height=HEIGHT, width=WIDTH, encoding="rgb8", step=3 * WIDTH, data=data)
        self.publisher.publish(image)

    def run(self, images: int) -> None:
        """Publish so many images."""
        data = importlib.import_module("numpy").zeros(3 * WIDTH * HEIGHT, "u1")
        begun = time.perf_counter()
        for number in range(images):
            self.send(data)
            time.sleep(max(0.0, begun + (number + 1) / HERTZ - time.perf_counter()))


class Theirs(Ours):
    """A node of zenoh-ros2-sdk."""

    def __init__(self, port: int) -> None:
        self.seen = 0
        sdk: Any = importlib.import_module("zenoh_ros2_sdk")
        store = importlib.import_module("zwire.ros2").default_store()
        plain: Any = importlib.import_module("zwire.ros2._plain")
        type_ = store.message(IMAGE)
        self.sdk = sdk
        # It would clone the repositories of ROS to find them.
        self.known = {
            "msg_definition": plain.definition(type_._record),
            "type_hash": type_.hash,
            "router_port": port,
            "qos": "::2,:,:,:,,",
        }
        self.kept: Any = None

    def close(self) -> None:
        self.kept.close()

    def view(self) -> None:
        self.kept = self.sdk.ROS2Subscriber(TOPIC, IMAGE, self.see, **self.known)

    def film(self) -> None:
        self.kept = self.sdk.ROS2Publisher(TOPIC, IMAGE, **self.known)
        # It has no call that waits for a subscription.
        time.sleep(1.0)

    def send(self, data: Any) -> None:
        types = self.kept.session_mgr.store.types
        stamp = types["builtin_interfaces/msg/Time"](sec=0, nanosec=0)
        header = types["std_msgs/msg/Header"](stamp=stamp, frame_id="")
        self.kept.publish(
            header=header,
            height=HEIGHT,
            width=WIDTH,
            encoding="rgb8",
            is_bigendian=0,
            step=3 * WIDTH,
            data=data,
        )


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    read = Row(AREA, "read 1080p images, 30 Hz", "ms", "zenoh-ros2-sdk", target=0.5, less_is_better=True)
    write = Row(AREA, "publish 1080p images, 30 Hz", "ms", "zenoh-ros2-sdk", less_is_better=True)
    rows = plan.chosen([read, write])
    if not rows:
        return
    progress(AREA)
    for _ in range(plan.rounds):
        for kind in (Ours, Theirs):
            viewer, camera = _images(kind, max(3, round(plan.seconds * HERTZ)))
            side = "ours" if kind is Ours else "theirs"
            getattr(read, side).append(viewer)
            getattr(write, side).append(camera)
    yield from rows


def _images(kind: type[Ours], images: int) -> tuple[Trial, Trial]:
    """Processor seconds per image of the viewer and of the camera."""
    port = free_port()
    with ExitStack() as stack:
        stack.enter_context(children(Child("hub", Hub, port)))
        viewer, camera = stack.enter_context(
            children(Child("viewer", kind, port), Child("camera", kind, port))
        )
        viewer.call("view")
        camera.call("film")
        camera.call("run", 2)
        seen, used = viewer.call("count"), (viewer.cpu(), camera.cpu())
        camera.call("run", images)
        end = time.monotonic() + 5.0
        while (came := viewer.call("count") - seen) < images and time.monotonic() < end:
            time.sleep(0.05)
        spent = (viewer.cpu() - used[0], camera.cpu() - used[1])
    return Trial(spent[0] / max(came, 1)), Trial(spent[1] / images)
