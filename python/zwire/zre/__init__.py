"""Nodes of ZRE networks: 20/ZRE, 36/ZRE and 43/ZRE.

A :class:`Node` finds others by beacons, gossip or their endpoints, and is seen by zyre and pyre as one of
them::

    import zwire.zre as zre

    with zre.Node("edge1", headers={"X-ROLE": "edge"}) as node:
        node.join("CHAT")
        for event in node:
            match event:
                case zre.Enter():
                    node.whisper(event.peer, "hello")
                case zre.Shout(group="CHAT"):
                    print(event.name, event.content)

Protocol: the ZeroMQ RFCs 20/ZRE, 36/ZRE and 43/ZRE.
"""

import atexit

from zwire._zwire import (
    Enter,
    Evasive,
    Event,
    Exit,
    Join,
    Leader,
    Leave,
    LogCollector,
    LogRecord,
    LogSender,
    MessagesLost,
    Shout,
    Shouted,
    Silent,
    Stop,
    Whisper,
    close_all,
)
from zwire._zwire import zre_keypair as keypair
from zwire._zwire import zre_log_hash as log_hash
from zwire.zre._config import Config
from zwire.zre._delivery import Delivery
from zwire.zre._node import Node, Sent

__all__ = [
    "Config",
    "Delivery",
    "Enter",
    "Evasive",
    "Event",
    "Exit",
    "Join",
    "Leader",
    "Leave",
    "LogCollector",
    "LogRecord",
    "LogSender",
    "MessagesLost",
    "Node",
    "Sent",
    "Shout",
    "Shouted",
    "Silent",
    "Stop",
    "Whisper",
    "keypair",
    "log_hash",
]

atexit.register(close_all)
