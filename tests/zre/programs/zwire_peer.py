"""A node of zwire: ``zwire_peer.py SETTINGS`` with those of ``zwire.zre.Config``, ``name`` and ``groups``."""

import json
import os
import sys

import lines

from zwire import zre
from zwire.errors import TimedOut


class Node:
    def __init__(self, settings):
        groups = settings.pop("groups", [])
        if isinstance(settings.get("mailbox"), list):
            # JSON has no tuples.
            settings["mailbox"] = tuple(settings["mailbox"])
        self.log = None
        if settings.pop("collect", False):
            self.log = zre.LogCollector(bind=settings.pop("collect_at", "tcp://*:*"))
            settings["collector"] = self.log.endpoint
        self.settings = settings
        self.node = zre.Node(**settings, callback=self.event)
        for group in groups:
            self.node.join(group)
        self.node.start()
        lines.tell("STARTED", peer=self.node.uuid, endpoint=self.node.endpoint)

    def event(self, event):
        fields = {"peer": event.peer, "name": event.name, "address": event.address}
        for name in ("group", "lost"):
            if hasattr(event, name):
                fields[name] = getattr(event, name)
        if event.type == "ENTER":
            fields["headers"] = dict(event.headers)
        if event.type in ("WHISPER", "SHOUT"):
            fields["content"] = lines.content(event.content)
        lines.tell(event.type, **fields)

    def join(self, group):
        return self.node.join(group)

    def leave(self, group):
        return self.node.leave(group)

    def whisper(self, peer, content):
        return str(self.node.whisper(peer, lines.frames(content)).value)

    def shout(self, group, content):
        sent = self.node.shout(group, lines.frames(content))
        return {"queued": sent.queued, "not_responding": sent.not_responding, "refused": sent.refused}

    def many(self, peer, count):
        """Whispers the numbers from 0 on, as fast as the queue takes them."""
        for number in range(count):
            became = self.node.whisper(peer, str(number))
            if became != zre.Delivery.QUEUED:
                raise RuntimeError(f"message {number}: {became}")

    def call(self, method, *, arguments=()):
        return getattr(self.node, method)(*arguments)

    def get(self, attribute):
        return getattr(self.node, attribute)

    def state(self):
        node = self.node
        peers = node.peers()
        return {
            "peers": peers,
            "own_groups": node.own_groups(),
            "peer_groups": node.peer_groups(),
            "groups": {
                p: sorted(g for g in node.peer_groups() if p in node.peers_by_group(g)) for p in peers
            },
            "headers": {p: dict(node.peer_headers(p)) for p in peers},
            "generation": {p: node.peer_generation(p) for p in peers},
        }

    def cycle(self, times, peers):
        """Starts and stops further nodes, each until it has met that many peers."""
        for _ in range(times):
            with zre.Node(**self.settings) as node:
                node.wait_for_peers(peers, timeout=10)

    def first_messages(self, times, group):
        """Fresh nodes that shout once, as soon as the group has a member; how many had none."""
        lost = 0
        for number in range(times):
            with zre.Node(**self.settings) as node:
                node.wait_for_peers(1, timeout=10, group=group)
                lost += node.shout(group, str(number)).queued != 1
        return lost

    def drain(self, seconds):
        """The records of the collector, until none came for so long."""
        names = ("level", "event", "node", "peer", "time", "data", "sender")
        found = []
        while True:
            try:
                record = self.log.recv(seconds)
            except TimedOut:
                return found
            found.append({name: getattr(record, name) for name in names})

    def memory(self):
        """Resident octets of this process."""
        with open("/proc/self/statm") as f:  # noqa: PTH123 - of the kernel
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def threads(self):
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - of the kernel

    def descriptors(self):
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - of the kernel

    def stop(self):
        self.node.stop()


def main():
    node = Node(json.loads(sys.argv[1]))
    for line in sys.stdin:
        if not lines.obey(line, node):
            break
    # An end without a goodbye; a goodbye is the command "stop".
    os._exit(0)


main()
