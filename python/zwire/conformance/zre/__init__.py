"""Rules of ``docs/protocol/zre.md``, for one node of 20/ZRE, zyre 1.0.0, 36/ZRE or 43/ZRE.

The node is found by its beacon, or by the endpoint of its mailbox. So that more than its HELLO can be judged,
it

- joins the group ``conformance`` and announces the header ``X-CONFORMANCE`` with the value ``1``,
- answers each WHISPER by a WHISPER with the same content to its sender,
- answers each SHOUT by a SHOUT with the same content to the same group, also to a group that it has not
  joined, where it delivers those.

Rules of beacons need a node that beacons on the interface. Rules of its own JOIN, LEAVE and goodbye need the
``join``, ``leave`` and ``stop`` of the target. Some checks are known to end nodes: those run last, one by
one, and the target's ``restart`` starts the node again.
"""

import importlib

from zwire.conformance.zre._book import BOOK
from zwire.conformance.zre._target import Target

__all__ = ["BOOK", "Target"]

for _topic in (
    "beacons",
    "discovery",
    "faults",
    "gossip",
    "groups",
    "hello",
    "liveness",
    "log",
    "messages",
    "sequence",
    "sessions",
    "stopping",
):
    importlib.import_module(f"{__name__}._{_topic}")
