"""A router with a replicated storage of ``r/**``, in a process of its own, that obeys its standard input.

Arguments: a folder for a volume on the disk, or ``-`` for one in memory; the interval of the replication in
seconds; seconds of the lease; where it listens; what it connects to. Each line of the input is a command in
JSON, each line of the output an answer.
"""

import contextlib
import hashlib
import json
import subprocess
import sys
import time


def settings(folder, interval):
    """The section of the storage."""
    volume = "memory" if folder == "-" else {"id": "disk", "dir": folder}
    replication = {
        "interval": interval,
        "sub_intervals": 5,
        "hot": 6,
        "warm": 30,
        "propagation_delay": int(interval * 250),
    }
    storage = {"key_expr": "r/**", "strip_prefix": "r", "volume": volume, "replication": replication}
    return {"storages": {"r": storage}}


def main(folder, interval, lease, listen, *connect):
    from zwire import zenoh

    config = {
        "mode": "router",
        "listen/endpoints": [listen],
        "connect/endpoints": list(connect),
        "connect/retry": {"period_init_ms": 100, "period_max_ms": 500},
        "transport/link/tx/lease": int(float(lease) * 1000),
        "scouting/multicast/enabled": False,
        "adminspace/enabled": True,
        "plugins/storage_manager": settings(folder, float(interval)),
    }
    with zenoh.open(config) as session:
        local = zenoh.Locality.SESSION_LOCAL

        def contents():
            got = session.get("r/**", allowed_destination=local, timeout=60)
            return {
                str(reply.ok.key_expr): (reply.ok.payload.to_string(), str(reply.ok.timestamp))
                for reply in got
                if reply.ok is not None
            }

        def do(command):
            match command:
                case ["put", key, value]:
                    session.put(key, value)
                case ["fill", name, count]:
                    for number in range(count):
                        session.put(f"r/{name}/{number}", f"{name} {number}")
                case ["delete", key]:
                    session.delete(key)
                case ["durable"]:
                    got = session.get("r/**?_durable", allowed_destination=local, timeout=60)
                    return [reply.err.payload.to_string() for reply in got if reply.err is not None]
                case ["contents"]:
                    return contents()
                case ["digest"]:
                    all = contents()
                    return [len(all), hashlib.sha256(json.dumps(all, sort_keys=True).encode()).hexdigest()]
                case ["status"]:
                    (reply,) = session.get(
                        f"@/{session.zid()}/router/status/plugins/storage_manager/storages/r/replication"
                    )
                    return json.loads(reply.result.payload.to_string())
            return None

        print("ready", flush=True)
        for line in sys.stdin:
            print(json.dumps(do(json.loads(line))), flush=True)


class Replica:
    """The process, started and asked by a test."""

    def __init__(self, arguments, *, prefix=(), env=None):
        self.command = [*prefix, sys.executable, __file__, *map(str, arguments)]
        self.env = env
        self.start()

    def start(self):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(self.command, text=True, env=self.env, **pipes)
        line = self.process.stdout.readline()
        assert line == "ready\n", line

    def do(self, *command):
        print(json.dumps(command), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def kill(self):
        self.process.kill()
        self.process.wait(20)
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def agree(replicas, *, within):
    """Waits until all have the same content; returns its number of keys."""
    end = time.monotonic() + within
    while True:
        digests = [replica.do("digest") for replica in replicas]
        if all(digest == digests[0] for digest in digests):
            return digests[0][0]
        if time.monotonic() > end:
            break
        time.sleep(0.1)
    contents = [replica.do("contents") for replica in replicas]
    keys = sorted(set().union(*contents))
    different = [key for key in keys if len({json.dumps(each.get(key)) for each in contents}) > 1]
    states = [replica.do("status") for replica in replicas]
    shown = {key: [each.get(key) for each in contents] for key in different[:5]}
    raise AssertionError(f"{len(different)} of {len(keys)} keys differ after {within} s: {shown} {states}")


if __name__ == "__main__":
    main(*sys.argv[1:])
