"""A node of zyre, by ctypes: ``zyre_peer.py SETTINGS``.

``libraries``: the folder that ``.ci/zre-peers`` fills; ``version``: "2.0.1", "1.0.0" or "20" (of March 2014).
Optional ``name``, ``headers``, ``groups``, ``address`` and ``broadcast``; for 2.0.1 also ``endpoint``,
``gossip_bind``, ``gossip_connect``, ``evasive``, ``expired`` (seconds), ``contest`` (groups), ``keys``
(public and secret, Z85).
"""

import ctypes
import json
import os
import queue
import socket
import struct
import sys
import threading
from ctypes import byref, c_char_p, c_int, c_long, c_size_t, c_void_p
from pathlib import Path

import lines

ZMQ_POLLIN = 1


class Item(ctypes.Structure):
    """``zmq_pollitem_t``."""

    _fields_ = (
        ("socket", c_void_p),
        ("fd", c_int),
        ("events", ctypes.c_short),
        ("revents", ctypes.c_short),
    )


def library(path, **results):
    found = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    for name, kind in results.items():
        getattr(found, name).restype = kind
    return found


def load(folder, version):
    folder = Path(folder)
    zmq = library(folder / "lib" / "libzmq.so.5")
    czmq = folder / "lib" / "libczmq.so.4" if version == "2.0.1" else folder / f"libzyre-{version}.so"
    czmq = library(czmq, zmsg_new=c_void_p, zmsg_pop=c_void_p, zframe_data=c_void_p, zframe_size=c_size_t)
    zyre = library(
        folder / f"libzyre-{version}.so", zyre_new=c_void_p, zyre_recv=c_void_p, zyre_socket=c_void_p
    )
    return zmq, czmq, zyre


def dictionary(octets):
    """The format in which zyre packs the headers of ENTER."""
    entries = {}
    at = 4
    for _ in range(struct.unpack(">I", octets[:4])[0]):
        size = octets[at]
        name = octets[at + 1 : at + 1 + size].decode(errors="replace")
        at += 1 + size
        (size,) = struct.unpack(">I", octets[at : at + 4])
        entries[name] = octets[at + 4 : at + 4 + size].decode(errors="replace")
        at += 4 + size
    return entries


class Node:
    def __init__(self, settings):
        self.modern = settings["version"] == "2.0.1"
        self.zmq, self.czmq, self.zyre = load(settings["libraries"], settings["version"])
        if self.modern:
            name = settings.get("name")
            self.node = c_void_p(self.zyre.zyre_new(name and name.encode()))
        else:
            self.czmq.zctx_new.restype = c_void_p
            self.node = c_void_p(self.zyre.zyre_new(c_void_p(self.czmq.zctx_new())))
        for name, value in settings.get("headers", {}).items():
            self.zyre.zyre_set_header(self.node, name.encode(), b"%s", value.encode())
        if self.modern:
            self.set_up(settings)
        uuid, endpoint = self.start(settings)
        for group in settings.get("groups", []):
            self.join(group)
        inbox = self.zyre.zyre_socket(self.node)
        if self.modern:
            self.czmq.zsock_resolve.restype = c_void_p
            inbox = self.czmq.zsock_resolve(c_void_p(inbox))
        self.item = Item(inbox, 0, ZMQ_POLLIN, 0)
        self.running = True
        lines.tell("STARTED", peer=uuid, endpoint=endpoint)

    def set_up(self, settings):
        for name in ("evasive", "expired"):
            if name in settings:
                call = getattr(self.zyre, f"zyre_set_{name}_timeout")
                call(self.node, c_int(int(settings[name] * 1000)))
        for group in settings.get("contest", []):
            self.zyre.zyre_set_contest_in_group(self.node, group.encode())
        if "keys" in settings:
            raw = [ctypes.create_string_buffer(32) for _ in range(2)]
            for buffer, text in zip(raw, settings["keys"], strict=True):
                self.zmq.zmq_z85_decode(buffer, text.encode())
            self.czmq.zcert_new_from.restype = c_void_p
            self.zyre.zyre_set_zcert(self.node, c_void_p(self.czmq.zcert_new_from(*raw)))
        if "endpoint" in settings and self.zyre.zyre_set_endpoint(
            self.node, b"%s", settings["endpoint"].encode()
        ):
            raise OSError(f"zyre cannot bind {settings['endpoint']}")
        if "gossip_bind" in settings:
            self.zyre.zyre_gossip_bind(self.node, b"%s", settings["gossip_bind"].encode())
        if "gossip_connect" in settings:
            self.zyre.zyre_gossip_connect(self.node, b"%s", settings["gossip_connect"].encode())

    def start(self, settings):
        """The oldest zyre does not tell its UUID, and none its mailbox: its beacon tells both."""
        if "endpoint" in settings:
            self.zyre.zyre_start(self.node)
            self.zyre.zyre_uuid.restype = c_char_p
            return self.zyre.zyre_uuid(self.node).decode(), settings["endpoint"]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            s.bind((settings["broadcast"], 5670))
            s.settimeout(10)
            self.zyre.zyre_start(self.node)
            while True:
                datagram, (address, _) = s.recvfrom(64)
                if address == settings["address"]:
                    port = int.from_bytes(datagram[20:22], "big")
                    return datagram[4:20].hex().upper(), f"tcp://{address}:{port}"

    def ready(self):
        self.item.revents = 0
        self.zmq.zmq_poll(byref(self.item), c_int(1), c_long(20))
        return bool(self.item.revents & ZMQ_POLLIN)

    def event(self):
        message = c_void_p(self.zyre.zyre_recv(self.node))
        frames = []
        while frame := self.czmq.zmsg_pop(message):
            frame = c_void_p(frame)
            frames.append(ctypes.string_at(self.czmq.zframe_data(frame), self.czmq.zframe_size(frame)))
            self.czmq.zframe_destroy(byref(frame))
        self.czmq.zmsg_destroy(byref(message))
        kind, peer = frames[0].decode(errors="replace"), frames[1].decode(errors="replace")
        rest = frames[2:]
        fields = {"peer": peer}
        if self.modern:
            fields["name"] = rest.pop(0).decode(errors="replace")
        if kind == "ENTER":
            # A HELLO that was cut short has no headers.
            headers = dictionary(rest.pop(0)) if len(rest) > 1 else {}
            fields |= {"headers": headers, "address": rest[0].decode(errors="replace")}
        elif kind in ("JOIN", "LEAVE", "SHOUT", "LEADER"):
            fields["group"] = rest.pop(0).decode(errors="replace")
        if kind in ("WHISPER", "SHOUT"):
            fields["content"] = lines.content(rest)
        lines.tell(kind, **fields)

    def message(self, content):
        message = c_void_p(self.czmq.zmsg_new())
        for frame in lines.frames(content):
            self.czmq.zmsg_addmem(message, frame, c_size_t(len(frame)))
        return byref(message)

    def join(self, group):
        self.zyre.zyre_join(self.node, group.encode())

    def leave(self, group):
        self.zyre.zyre_leave(self.node, group.encode())

    def whisper(self, peer, content):
        self.zyre.zyre_whisper(self.node, peer.encode(), self.message(content))

    def shout(self, group, content):
        self.zyre.zyre_shout(self.node, group.encode(), self.message(content))

    def stop(self):
        self.zyre.zyre_stop(self.node)
        self.running = False


def main():
    node = Node(json.loads(sys.argv[1]))
    commands = queue.Queue()

    def read():
        for line in sys.stdin:
            commands.put(line)
        commands.put('{"op": "quit"}')

    threading.Thread(target=read, daemon=True).start()
    while True:
        if not node.running:
            more = lines.obey(commands.get(), node)
        else:
            if node.ready():
                node.event()
            more = commands.empty() or lines.obey(commands.get(), node)
        if not more:
            break
    # czmq would wait for its threads at exit; the test wants an end without a goodbye.
    os._exit(0)


main()
