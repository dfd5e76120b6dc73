"""A ZRE node and a session of the hub, which talk through a bridge."""

from __future__ import annotations

import dataclasses
import time

from zwire import zre
from zwire.bridge import zre as bridge
from zwire.demo.hub import client
from zwire.errors import TimedOut

_GROUP = "demo"
_LOCAL = zre.Config(beacons=False, bind="127.0.0.1")


def talk(endpoint: str, seconds: float) -> tuple[str, str]:
    """Send a message each way, and return what came to Zenoh, and to ZRE.

    Args:
        endpoint: The hub.
        seconds: Time limit of each wait.

    Raises:
        TimedOut: A message has not come.
    """
    with zre.Node("robot", config=_LOCAL) as robot, client(endpoint) as session:
        robot.join(_GROUP)
        node = dataclasses.replace(_LOCAL, peers=robot.endpoint or ())
        with (
            session.declare_subscriber(f"zre/group/{_GROUP}/*") as subscriber,
            bridge.Bridge(session, [_GROUP], node=node),
        ):
            robot.wait_for_peers(1, seconds, group=_GROUP)
            robot.shout(_GROUP, "hello from ZRE")
            to_zenoh = subscriber.recv(timeout=seconds).payload.to_string()
            session.put(f"zre/group/{_GROUP}/hub", "hello from Zenoh")
            end = time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0:
                event = robot.recv(timeout=left)
                if isinstance(event, zre.Shout):
                    return to_zenoh, event.content[0].decode()
    raise TimedOut(f"no message of Zenoh came to ZRE within {seconds} s", seconds=seconds)
