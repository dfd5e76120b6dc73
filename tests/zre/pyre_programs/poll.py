"""A program for pyre that polls its socket with ZeroMQ: ``poll.py MODULE ROLE``."""

import importlib
import sys

import zmq

module = importlib.import_module(sys.argv[1])
role = sys.argv[2]

node = module.Pyre(role)
node.start()
node.join("CHAT")
poller = zmq.Poller()
poller.register(node.socket(), zmq.POLLIN)
idle = 0
over = False
while not over:
    items = dict(poller.poll(100))
    if node.socket() not in items:
        idle += 1
        assert idle < 200
        continue
    assert items[node.socket()] == zmq.POLLIN
    for event in node.recent_events():
        print(event.type, event.peer_name, event.group, event.msg, flush=True)
        if event.type == "JOIN":
            node.shouts("CHAT", "hello")
        if event.type == "SHOUT" and role == "first":
            node.shouts("CHAT", "goodbye")
        # A node of pyre that stops drops what it has not sent yet: the answer says that all has arrived.
        if event.type == "SHOUT" and event.msg == [b"goodbye"]:
            node.stop()
        if event.type == "EXIT":
            node.stop()
        over = event.type == "STOP"
