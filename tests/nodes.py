"""Sessions and ZRE nodes for tests, on the loopback, with explicit endpoints; and unused ports."""

import contextlib
import itertools
import os
import socket
import threading
import time
from pathlib import Path

from zwire import zenoh, zre

LOCAL = ["tcp/127.0.0.1:0"]


def settings(mode, *, listen=(), connect=(), **more):
    """A configuration; in the names of further keys ``__`` stands for ``/``."""
    return {
        "mode": mode,
        "listen/endpoints": list(listen),
        "connect/endpoints": list(connect),
        "scouting/multicast/enabled": False,
        **{key.replace("__", "/"): value for key, value in more.items()},
    }


def opened(mode, **more):
    """A session; parameters are those of `settings`."""
    return zenoh.open(settings(mode, **more))


def router(**more):
    return opened("router", listen=LOCAL, **more)


def client(hub, **more):
    """A client of a session that listens."""
    return opened("client", connect=hub.listening(), **more)


def threads():
    """The names of the threads that this process has."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        # It may end while it is looked at.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names.append((task / "comm").read_text().strip())
    return names


def eventually(condition, what="it", *, within=10.0):
    """Wait for a condition; ``what`` names it in the error, or is a function that does."""
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, f"{what() if callable(what) else what}: not within {within} s"
        time.sleep(0.005)


def all_counted(session, hub):
    """Wait until the only link of a session has counted what it has sent.

    Writes and octets are counted when the write has returned, and the hub may answer before that.
    """

    def counted():
        (here,), (there,) = session.stats()["per_link"], hub.stats()["per_link"]
        return here["tx_bytes"] == there["rx_bytes"]

    eventually(counted, "octets are counted")


def _ports():
    """Ports, repeating without end.

    They are below those that Linux gives to connections (32768 to 60999): no connection is given one of them
    between the question and the listener. Processes that run tests side by side have shares of their own;
    each run begins at another port, so that leftovers of the last one do not matter.
    """
    shares = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    share = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    every = range(20_000 + share, 32_000, shares)
    return itertools.islice(itertools.cycle(every), os.getpid() * 61 % len(every), None)


PORTS = _ports()


def free_port(kind=socket.SOCK_STREAM):
    """An unused port of loopback."""
    for port in itertools.islice(PORTS, 1000):
        with socket.socket(type=kind) as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("a thousand ports of loopback are in use")


def zre_node(name, port, **settings):
    """A ZRE node on the loopback, with a port of discovery that no other test has."""
    return zre.Node(name, interfaces="lo", interval=0.1, beacon_port=port, **settings)


def event_of(node, kind, seconds=10):
    """Take events of a ZRE node until one of a kind comes."""
    while not isinstance(event := node.recv(seconds), kind):
        pass
    return event


@contextlib.contextmanager
def publishing(session, key, payload="x", **options):
    """Publish again and again; a payload may be a function of the number."""
    ended = threading.Event()

    def publish():
        number = 0
        while not ended.wait(0.01):
            session.put(key, payload(number) if callable(payload) else payload, **options)
            number += 1

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
