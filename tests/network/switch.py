"""An Ethernet switch that loses, doubles, delays and reorders frames, with chances drawn from a seed.

``switch.py PORT...`` joins those interfaces. Each line on its standard input is a JSON object that says what
happens from then on; the answer is one line with the counts so far. It ends with its standard input.

    seed       where the chances start
    loss       chance that a frame is lost
    duplicate  chance that it comes twice
    reorder    chance that it waits behind the next ones (for ``hold`` seconds)
    delay      seconds that every frame waits
    only       "udp" or "tcp": other frames pass untouched

ARP always passes: to lose it would only add seconds in which nothing is tried.

``switch.py --plain PORT`` turns off what makes a virtual interface leave checksums and segments to hardware.
"""

import array
import contextlib
import ctypes
import fcntl
import heapq
import json
import random
import selectors
import socket
import sys
import time

ETH_P_ALL = 3
IPV4 = b"\x08\x00"
PROTOCOLS = {"tcp": 6, "udp": 17}
FRAME = 65536

# linux/sockios.h, linux/ethtool.h: each takes 0 for "off".
SIOCETHTOOL = 0x8946
OFFLOADS = {"rx": 0x15, "tx": 0x17, "sg": 0x19, "tso": 0x1F, "gso": 0x24, "gro": 0x2C}


def plain(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for command in OFFLOADS.values():
            value = array.array("I", [command, 0])
            request = port.encode().ljust(16, b"\0") + bytes(ctypes.c_uint64(value.buffer_info()[0]))
            # A kernel that does not know the switch has nothing to turn off.
            with contextlib.suppress(OSError):
                fcntl.ioctl(s, SIOCETHTOOL, request.ljust(40, b"\0"))


class Switch:
    def __init__(self, ports):
        self.sockets = {}
        self.selector = selectors.DefaultSelector()
        for port in ports:
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            s.bind((port, ETH_P_ALL))
            s.setblocking(False)
            self.sockets[port] = s
            self.selector.register(s, selectors.EVENT_READ, port)
        self.selector.register(sys.stdin, selectors.EVENT_READ, None)
        self.places = {}
        self.waiting = []
        self.order = 0
        self.counts = dict.fromkeys(("seen", "lost", "doubled", "held"), 0)
        self.rules({})

    def rules(self, given):
        self.chance = random.Random(given.get("seed", 1))
        self.loss = given.get("loss", 0.0)
        self.duplicate = given.get("duplicate", 0.0)
        self.reorder = given.get("reorder", 0.0)
        self.hold = given.get("hold", 0.03)
        self.delay = given.get("delay", 0.0)
        self.only = PROTOCOLS.get(given.get("only"))

    def spoils(self, frame):
        if frame[12:14] != IPV4:
            return False
        return self.only is None or frame[23] == self.only

    def take(self, port, frame):
        self.places[frame[6:12]] = port
        wait = 0.0
        copies = 1
        if self.spoils(frame):
            self.counts["seen"] += 1
            wait = self.delay
            if self.chance.random() < self.loss:
                self.counts["lost"] += 1
                return
            if self.chance.random() < self.duplicate:
                self.counts["doubled"] += 1
                copies = 2
            if self.chance.random() < self.reorder:
                self.counts["held"] += 1
                wait += self.hold
        for _ in range(copies):
            if wait:
                self.order += 1
                heapq.heappush(self.waiting, (time.monotonic() + wait, self.order, port, frame))
            else:
                self.give(port, frame)

    def give(self, port, frame):
        place = self.places.get(frame[:6])
        for name in [place] if place else self.sockets:
            if name != port:
                # A port that is down or full loses the frame, as hardware does.
                with contextlib.suppress(OSError):
                    self.sockets[name].send(frame)

    def drain(self, port):
        s = self.sockets[port]
        with contextlib.suppress(OSError):
            while True:
                frame, (_, _, kind, *_) = s.recvfrom(FRAME)
                if kind != socket.PACKET_OUTGOING:
                    self.take(port, frame)

    def run(self):
        while True:
            now = time.monotonic()
            while self.waiting and self.waiting[0][0] <= now:
                _, _, port, frame = heapq.heappop(self.waiting)
                self.give(port, frame)
            wait = self.waiting[0][0] - now if self.waiting else None
            for key, _ in self.selector.select(wait):
                if key.data is not None:
                    self.drain(key.data)
                    continue
                line = sys.stdin.readline()
                if not line:
                    return
                self.rules(json.loads(line))
                print(json.dumps(self.counts), flush=True)


if sys.argv[1] == "--plain":
    for name in sys.argv[2:]:
        plain(name)
else:
    Switch(sys.argv[1:]).run()
