"""A node of zeromq-pyre: ``pyre_peer.py SETTINGS`` with ``name``, ``headers``, ``groups``.

``evasive`` and ``expired`` (seconds) replace constants of pyre, which has no way to set them."""

import json
import queue
import sys
import threading
import uuid

import lines
import pyre
import zmq


class Node:
    def __init__(self, settings):
        for name in ("evasive", "expired"):
            if name in settings:
                setattr(pyre.pyre_peer.PyrePeer, f"PEER_{name.upper()}", settings[name])
        self.node = pyre.Pyre(settings.get("name"))
        for name, value in settings.get("headers", {}).items():
            self.node.set_header(name, value)
        for group in settings.get("groups", []):
            self.node.join(group)
        self.node.start()
        self.running = True
        lines.tell("STARTED", peer=self.node.uuid().hex.upper(), endpoint=self.node.endpoint())

    def event(self):
        event = pyre.PyreEvent(self.node)
        fields = {"peer": event.peer_uuid.hex.upper(), "name": event.peer_name}
        if event.type == "ENTER":
            fields |= {"headers": event.headers, "address": event.peer_addr}
        if event.group is not None:
            fields["group"] = event.group
        if event.msg is not None:
            fields["content"] = lines.content(event.msg)
        lines.tell(event.type, **fields)

    def join(self, group):
        self.node.join(group)

    def leave(self, group):
        self.node.leave(group)

    def whisper(self, peer, content):
        self.node.whisper(uuid.UUID(peer), lines.frames(content))

    def shout(self, group, content):
        self.node.shout(group, lines.frames(content))

    def state(self):
        peers = self.node.peers()
        return {
            "peers": [p.hex.upper() for p in peers],
            "own_groups": self.node.own_groups(),
            "peer_groups": self.node.peer_groups(),
            "headers": {p.hex.upper(): self.node.peer_headers(p) for p in peers},
        }

    def stop(self):
        self.node.stop()
        self.running = False


def main():
    node = Node(json.loads(sys.argv[1]))
    # Commands wait in a queue, and a byte in a socket wakes the poller.
    commands = queue.Queue()
    context = zmq.Context.instance()
    bell, hand = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    bell.bind("inproc://commands")
    hand.connect("inproc://commands")

    def read():
        for line in sys.stdin:
            commands.put(line)
            hand.send(b"")
        commands.put('{"op": "quit"}')
        hand.send(b"")

    threading.Thread(target=read, daemon=True).start()
    poller = zmq.Poller()
    poller.register(bell, zmq.POLLIN)
    poller.register(node.node.socket(), zmq.POLLIN)
    while True:
        ready = dict(poller.poll())
        if node.running and node.node.socket() in ready:
            node.event()
        if bell in ready:
            bell.recv()
            if not lines.obey(commands.get(), node):
                break
            if not node.running and node.node.socket() in dict(poller.sockets):
                poller.unregister(node.node.socket())


main()
# Pyre's threads may outlive a stop; the process does not wait for them.
__import__("os")._exit(0)
