"""Commands from standard input, answers and events to standard output: one JSON object per line.

A command is ``{"op": name, ...}``; its answer ``{"value": ...}`` or ``{"error": text}``, in the order of the
commands. In between come ``{"event": {...}}`` with ``type``, ``peer`` (32 hex digits), ``time`` (seconds of
the clock that all processes of a machine share) and what the event has. Content is a list of hexadecimal
texts.
"""

import json
import os
import sys
import threading
import time
import traceback

_lock = threading.Lock()

# The libraries that some programs load print on the standard output: that goes to the standard error.
_out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(thing):
    line = json.dumps(thing)
    with _lock:
        print(line, file=_out, flush=True)


def tell(kind, **fields):
    """Reports an event."""
    say({"event": {"type": kind, "time": time.monotonic(), **fields}})


def obey(line, handler):
    """Runs one command; gives ``False`` when it was the last."""
    command = json.loads(line)
    op = command.pop("op")
    if op == "quit":
        say({"value": None})
        return False
    try:
        value = getattr(handler, op)(**command)
    except Exception as e:  # noqa: BLE001 - the test is told
        traceback.print_exc(file=sys.stderr)
        say({"error": f"{type(e).__name__}: {e}"})
    else:
        say({"value": value})
    return True


def content(frames):
    return [bytes(f).hex() for f in frames]


def frames(texts):
    """The other way round."""
    return [bytes.fromhex(t) for t in texts]
