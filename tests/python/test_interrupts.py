"""Ctrl-C ends every call that waits."""

import signal
import threading
import time

import pytest

from zwire._zwire import Stopper
from zwire.errors import TimedOut

pytestmark = pytest.mark.slow

PATIENCE = 15.0

# Lines before dashes are no part of the call: after Ctrl-C during an import of pyarrow, a program ends by
# that signal.
BLOCKED = {
    "recv": "sub.recv()",
    "recv with a timeout": "sub.recv(timeout=60)",
    "iteration": "for sample in sub: pass",
    "recv of a handler": "sub.handler.recv()",
    "next of a handler": "next(iter(sub.handler))",
    "recv_many": "sub.recv_many(10, timeout=60)",
    "recv_many without a timeout": "sub.recv_many(10)",
    "recv_batch": "sub.recv_batch(10, timeout=60)",
    "recv_batch without a timeout": "sub.recv_batch(10)",
    "recv of a ring": "session.declare_subscriber('ring', zenoh.handlers.RingChannel(2)).recv()",
    "recv of a queryable": "session.declare_queryable('q').recv()",
    "iteration of a queryable": "queryable = session.declare_queryable('q')\nfor query in queryable: pass",
    "recv of a get": "replies = session.get('hold', timeout=60); replies.recv()",
    "iteration of a get": "for reply in session.get('hold', timeout=60): pass",
    "list of a get": "list(session.get('hold', timeout=60))",
    "iteration of a querier": "list(session.declare_querier('hold', timeout=60).get())",
    "recv of a matching listener": "p = session.declare_publisher('p'); p.declare_matching_listener().recv()",
    "recv of a liveliness subscriber": "session.liveliness().declare_subscriber('t').recv()",
    "a wait for a hub that knows": "stop()\nsub.wait_ready()",
    "a wait for the session": "stop()\nsession.ready(60)",
    "a wait for what was published": "stop()\nsession.flush()",
    "a wait for a subscriber": "session.declare_publisher('nobody').wait_matching()",
    "a wait for a queryable": "session.declare_querier('nobody').wait_matching(timeout=60)",
    "a queue of a callback": (
        "import queue; q = queue.Queue(); session.declare_subscriber('q', (q.put, q)).handler.get()"
    ),
    "an event while callbacks run": (
        "session.declare_subscriber('busy', lambda sample: None)\n"
        "def publish():\n"
        "    while not session.is_closed():\n"
        "        session.put('busy', 'x')\n"
        "thread(publish)\n"
        "threading.Event().wait()"
    ),
    "put under block": (
        "stop()\nwhile True: session.put('hold', bytes(60_000),"
        " congestion_control=zenoh.CongestionControl.BLOCK)"
    ),
    "put of a publisher under block": (
        "p = session.declare_publisher('hold', congestion_control=zenoh.CongestionControl.BLOCK)\n"
        "stop()\nwhile True: p.put(bytes(60_000))"
    ),
    "put_batch under block": (
        "import pyarrow as pa\n"
        "batch = pa.record_batch({'key': ['hold'] * 1000, 'payload': [bytes(60_000)] * 1000})\n"
        "---\n"
        "stop()\nwhile True: session.put_batch(batch, congestion_control=zenoh.CongestionControl.BLOCK)"
    ),
    "get under block": "stop()\nwhile True: session.get('hold', payload=bytes(60_000), timeout=60)",
    "open": (
        "import socket; mute = socket.create_server(('127.0.0.1', 0))\n"
        "opened('client', connect__timeout_ms=-1,"
        " connect__endpoints=['tcp/127.0.0.1:%d' % mute.getsockname()[1]])"
    ),
    "open with nobody there": (
        "opened('client', connect__timeout_ms=-1, connect__endpoints=['tcp/127.0.0.1:1'])"
    ),
}

INTERRUPTED = """
import signal
hub_pid = int(sys.argv[2])
def stop():
    os.kill(hub_pid, signal.SIGSTOP)
    # It is not our child, so there is no notice when its last thread stands still.
    time.sleep(0.1)
# Nothing but Ctrl-C may end a wait here.
session = client(
    transport__link__tx__queue__congestion_control__block__wait_before_close=60_000_000,
    zwire__queue__bytes_per_priority=65_536,
)
sub = session.declare_subscriber("nothing/comes")
other = client()
held = []
other.declare_queryable("hold", held.append)
other.declare_subscriber("hold", lambda sample: None)
querier = session.declare_querier("hold")
while not querier.matching_status.matching:
    time.sleep(0.01)
{before}
try:
    ready()
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
else:
    print("came back", flush=True)
os.kill(hub_pid, signal.SIGCONT)
# The session goes on. The queue of its link may still be full, and it would say that it drops something.
own = session.declare_subscriber("after")
session.put("after", "x", congestion_control=zenoh.CongestionControl.BLOCK)
print(own.recv(timeout=10).payload.to_string(), flush=True)
"""


@pytest.mark.parametrize("call", BLOCKED.values(), ids=BLOCKED)
def test_ctrl_c_ends_it(call, program):
    before, _, call = call.rpartition("---\n")
    text = INTERRUPTED.replace("{before}", before).replace("{call}", call.replace("\n", "\n    "))
    process = program(text)
    line = process.stdout.readline()
    assert line == "ready\n", line + "".join(process.rest(PATIENCE))
    # Long enough to be in the call, and for those under block to have filled everything.
    time.sleep(0.6 if "stop()" in call else 0.2)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    line = process.stdout.readline()
    took = time.monotonic() - start
    assert line == "interrupted\n", line + "".join(process.rest(PATIENCE))
    assert took < 1
    out, err = process.rest(PATIENCE)
    assert (process.returncode, out, err) == (0, "x\n", "")


def test_a_thread_is_interrupted_alone(session):
    stopper, publisher = Stopper(), session.declare_publisher("nobody")
    ended = {}

    def wait(name, call):
        try:
            call()
        except (InterruptedError, TimedOut) as error:
            ended[name] = type(error)

    calls = {
        "interrupted": lambda: stopper.run(publisher.wait_matching, timeout=60),
        "left alone": lambda: publisher.wait_matching(timeout=0.5),
        "with a flag of its own": lambda: Stopper().run(publisher.wait_matching, timeout=0.5),
    }
    threads = [threading.Thread(target=wait, args=call) for call in calls.items()]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    stopper.stop()
    for thread in threads:
        thread.join(PATIENCE)
    assert ended == {
        "interrupted": InterruptedError,
        "left alone": TimedOut,
        "with a flag of its own": TimedOut,
    }


def test_a_thread_that_was_interrupted_can_wait_again(session):
    stopper, publisher = Stopper(), session.declare_publisher("nobody")
    stopper.stop()
    with pytest.raises(InterruptedError):
        stopper.run(publisher.wait_matching, timeout=60)
    with pytest.raises(TimedOut):
        publisher.wait_matching(timeout=0.2)
