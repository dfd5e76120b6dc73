"""A program for pyre, by its events: ``events.py MODULE ROLE``."""

import importlib
import sys
import time

Pyre = importlib.import_module(sys.argv[1]).Pyre
role = sys.argv[2]

node = Pyre(role)
node.set_header("X-ROLE", role)
node.start()
node.join("CHAT")
for event in node.events():
    print(
        event.type, event.peer_name, event.headers, event.group, event.msg, event.header("X-ROLE"), flush=True
    )
    if event.type == "ENTER":
        assert event.peer_addr == node.peer_address(event.peer_uuid)
    if event.type == "JOIN" and role == "first":
        node.shout("CHAT", b"to all")
    if event.type == "SHOUT" and role == "second":
        node.shout("CHAT", [b"back", b"again"])
        node.whispers(event.peer_uuid, "psst")
    if event.type == "WHISPER":
        node.leave("CHAT")
        # A goodbye is a datagram and may overtake it.
        time.sleep(0.5)
        node.stop()
    if event.type == "EXIT":
        node.stop()
    if event.type == "STOP":
        break
