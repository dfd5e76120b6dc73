"""zgossip of czmq by ctypes, hub or leaf: ``gossip.py SETTINGS`` with ``libraries``, ``bind``, ``connect``.

Each tuple that it hears of is an event DELIVER with ``key`` and ``value``.
"""

import ctypes
import json
import os
import queue
import sys
import threading
from ctypes import byref, c_char_p, c_int, c_void_p
from pathlib import Path

import lines


class Gossip:
    def __init__(self, settings):
        folder = Path(settings["libraries"]) / "lib"
        ctypes.CDLL(str(folder / "libzmq.so.5"), mode=ctypes.RTLD_GLOBAL)
        self.czmq = czmq = ctypes.CDLL(str(folder / "libczmq.so.4"))
        for name in ("zactor_new", "zpoller_new", "zpoller_wait", "zmsg_recv"):
            getattr(czmq, name).restype = c_void_p
        self.actor = c_void_p(czmq.zactor_new(czmq.zgossip, c_char_p(b"gossip")))
        self.poller = c_void_p(czmq.zpoller_new(self.actor, None))
        endpoint = settings.get("bind")
        if endpoint:
            self.tell("BIND", endpoint)
        for where in settings.get("connect", []):
            self.tell("CONNECT", where)
        lines.tell("STARTED", endpoint=endpoint)

    def tell(self, *texts):
        self.czmq.zstr_sendx(self.actor, *(t.encode() for t in texts), None)

    def publish(self, key, value):
        self.tell("PUBLISH", key, value)

    def poll(self):
        if not self.czmq.zpoller_wait(self.poller, c_int(20)):
            return
        parts = [c_char_p() for _ in range(3)]
        self.czmq.zstr_recvx(self.actor, *map(byref, parts), None)
        kind, key, value = (p.value.decode() for p in parts)
        lines.tell(kind, key=key, value=value)


def main():
    gossip = Gossip(json.loads(sys.argv[1]))
    commands = queue.Queue()

    def read():
        for line in sys.stdin:
            commands.put(line)
        commands.put('{"op": "quit"}')

    threading.Thread(target=read, daemon=True).start()
    while commands.empty() or lines.obey(commands.get(), gossip):
        gossip.poll()
    os._exit(0)


main()
