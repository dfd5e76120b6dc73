"""Sessions for tests: on the loopback, with explicit endpoints instead of scouting."""

import contextlib
import time
from pathlib import Path

from zwire import zenoh

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
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {within} s"
        time.sleep(0.005)
