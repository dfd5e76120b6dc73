"""A bridge of zwire: ``bridge_peer.py SETTINGS`` with those of a session, and ``options`` of the bridge."""

import json
import os
import sys

import lines

from zwire import zenoh
from zwire.bridge import zre as bridge


class Program:
    def __init__(self, settings):
        options = settings.pop("options")
        rules = [bridge.Rule(**rule) if isinstance(rule, dict) else rule for rule in options.pop("groups")]
        self.session = zenoh.open(settings)
        self.bridge = bridge.Bridge(self.session, rules, **options)
        lines.tell("STARTED", peer=self.bridge.uuid, endpoint=str(self.session.zid()))

    def stats(self):
        return self.bridge.stats()

    def stop(self):
        self.bridge.close()

    def memory(self):
        """Resident octets of this process."""
        with open("/proc/self/statm") as f:  # noqa: PTH123 - of the kernel
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main():
    program = Program(json.loads(sys.argv[1]))
    for line in sys.stdin:
        if not lines.obey(line, program):
            break
    os._exit(0)


main()
