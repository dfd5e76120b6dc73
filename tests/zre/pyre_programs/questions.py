"""A program for pyre that asks a node what it knows: ``questions.py MODULE ROLE``."""

import importlib
import sys
import time
import uuid

module = importlib.import_module(sys.argv[1])
role = sys.argv[2]

node = module.Pyre(role)
print(
    bool(node), node.name(), type(node.uuid()).__name__, node.peers(), node.own_groups(), node.peer_groups()
)
node.set_header("X-ROLE", role)
node.set_header("X-EMPTY", "")
node.start()
assert node.endpoint().startswith("tcp://")
node.join("CHAT")
node.join("CHAT")
node.join(role)
peer = None
joined = set()
while len(joined) < 2:
    event = module.PyreEvent(node)
    if event.type == "JOIN":
        peer = event.peer_uuid
        joined.add(event.group)
print(node.peers() == [peer], node.peers_by_group("CHAT") == [peer], node.peers_by_group("NONE"))
print(sorted(node.own_groups()), sorted(g for g in node.peer_groups() if g != "NONE"))
print(node.get_peer_name(peer), node.peer_headers(peer))
print(repr(node.peer_header_value(peer, "X-ROLE")), repr(node.peer_header_value(peer, "X-NONE")))
nobody = uuid.UUID(int=1)
print(
    repr(node.peer_address(nobody)),
    repr(node.peer_header_value(nobody, "X")),
    repr(node.get_peer_name(nobody)),
)
node.whisper(nobody, b"into the blue")
# The other one asks, too.
time.sleep(1.0)
node.leave("CHAT")
node.leave("CHAT")
node.shout("NOBODY", b"into the blue")
print(node.own_groups(), node.version() == (0, 3, 4))
print("SHOUT")
time.sleep(1.0)
node.stop()
