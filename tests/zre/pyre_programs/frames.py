"""A program for pyre, by its frames: ``frames.py MODULE ROLE``."""

import importlib
import json
import sys
import time

Pyre = importlib.import_module(sys.argv[1]).Pyre
role = sys.argv[2]
other = "second" if role == "first" else "first"

node = Pyre(role)
node.set_header("X-ROLE", role)
node.join("CHAT")
node.start()
seen = []
while True:
    frames = node.recv()
    kind, uuid, name, *rest = frames
    kind = kind.decode()
    assert len(uuid) == 16
    if kind == "ENTER":
        rest = [json.loads(rest[0]), rest[1].decode()]
    print(kind, name.decode(), rest, flush=True)
    if kind == "JOIN":
        node.shouts("CHAT", f"hello from {role}")
    if kind == "SHOUT" and role == "first":
        import uuid as uuids

        node.whisper(uuids.UUID(bytes=uuid), [b"one", b"", b"two"])
    if kind == "WHISPER" and role == "second":
        node.leave("CHAT")
        # A goodbye is a datagram and may overtake it.
        time.sleep(0.5)
        node.stop()
    if kind == "EXIT":
        node.stop()
    if kind == "STOP":
        break
