"""A program that ends without closing anything ends at once, whatever it was about."""

import pytest

pytestmark = pytest.mark.slow

# Programs that end in the middle of something, and the exit code of each.
LEFT_OPEN = {
    "a session": ("session = client()", 0),
    "a session that nothing refers to": ("client(); gc.collect()", 0),
    "a session in a cycle": ("loop = [client()]; loop.append(loop)", 0),
    "a router and a peer": (
        (
            "hub = opened('router', listen__endpoints=['tcp/127.0.0.1:0'])\n"
            "peer = opened('peer', connect__endpoints=hub.listening())"
        ),
        0,
    ),
    "everything declared": (
        (
            "s = client()\n"
            "kept = [s.declare_subscriber('a'), s.declare_publisher('a'), s.declare_queryable('a'),"
            " s.declare_querier('a'), s.liveliness().declare_token('a'), s.declare_keyexpr('a'),"
            " s.liveliness().declare_subscriber('**', print), s.get('a', timeout=60)]"
        ),
        0,
    ),
    "an unanswered query": (
        "s = client(); inbox = s.declare_queryable('a'); replies = s.get('a', timeout=60); q = inbox.recv()",
        0,
    ),
    "callbacks that run": (
        (
            "s, t = client(), client()\n"
            "s.declare_subscriber('**', lambda sample: None)\n"
            "def publish():\n"
            "    while True: t.put('a', 'x')\n"
            "thread(publish)\n"
            "time.sleep(0.2)"
        ),
        0,
    ),
    "a callback that sleeps": (
        (
            "s = client(); busy = threading.Event()\n"
            "s.declare_subscriber('a', lambda sample: (busy.set(), time.sleep(600)))\n"
            "s.put('a', 'x'); busy.wait(5)"
        ),
        0,
    ),
    "a callback that waits for a lock": (
        (
            "s = client(); lock = threading.Lock(); lock.acquire(); busy = threading.Event()\n"
            "s.declare_subscriber('a', lambda sample: (busy.set(), lock.acquire()))\n"
            "s.put('a', 'x'); busy.wait(5)"
        ),
        0,
    ),
    "a queryable's callback that sleeps": (
        (
            "s = client(); busy = threading.Event()\n"
            "s.declare_queryable('a', lambda query: (busy.set(), time.sleep(600)))\n"
            "replies = s.get('a', timeout=600); busy.wait(5)"
        ),
        0,
    ),
    "a drop callback": (
        "s = client(); s.declare_subscriber('a', zenoh.handlers.Callback(print, lambda: time.sleep(600)))",
        0,
    ),
    "a daemon thread in recv": (
        ("s = client(); sub = s.declare_subscriber('a')\nthread(sub.recv); time.sleep(0.1)"),
        0,
    ),
    "a daemon thread in a get": (
        (
            "s = client(); held = []; s.declare_queryable('a', held.append)\n"
            "thread(lambda: list(s.get('a', timeout=600))); time.sleep(0.1)"
        ),
        0,
    ),
    "a daemon thread in open": (
        (
            "import socket; mute = socket.create_server(('127.0.0.1', 0))\n"
            "thread(lambda: opened('client', connect__timeout_ms=-1,"
            " connect__endpoints=['tcp/127.0.0.1:%d' % mute.getsockname()[1]]))\n"
            "time.sleep(0.1)"
        ),
        0,
    ),
    # The first one imports modules: a thread that is ended there has frames of Rust below those of Python.
    "a daemon thread in the imports of open": (
        (
            "begun = threading.Event()\n"
            "class Endless:\n"
            "    def find_spec(self, name, *_):\n"
            "        while name == 'zwire.log':\n"
            "            begun.set(); time.sleep(0.001)\n"
            "sys.meta_path.insert(0, Endless())\n"
            "thread(client); begun.wait(5)"
        ),
        0,
    ),
    "a daemon thread in json for a configuration": (
        (
            "import json; begun = threading.Event()\n"
            "def endless(*_, **__):\n"
            "    while True: begun.set(); time.sleep(0.001)\n"
            "json.dumps = endless\n"
            "thread(lambda: zenoh.Config().insert_json5('metadata', {})); begun.wait(5)"
        ),
        0,
    ),
    "a daemon thread in open, at an end that takes long": (
        (
            "import ctypes, socket; mute = socket.create_server(('127.0.0.1', 0))\n"
            "thread(lambda: opened('client', connect__timeout_ms=-1,"
            " connect__endpoints=['tcp/127.0.0.1:%d' % mute.getsockname()[1]]))\n"
            "time.sleep(0.1)\n"
            # It sleeps for as many seconds as the exit code says, when the interpreter is gone already.
            "libc = ctypes.CDLL(None); libc.on_exit(libc.sleep, None)\n"
            "sys.exit(1)"
        ),
        1,
    ),
    "an authenticator of PLAIN, at an end that takes long": (
        (
            "import ctypes; from zwire import zmtp; busy = threading.Event()\n"
            "server = zmtp.Router(plain=True, authenticator=lambda *_: (busy.set(), time.sleep(0.5)))\n"
            "guest = zmtp.Dealer(plain=('user', 'password'))\n"
            "guest.connect(server.bind('tcp://127.0.0.1:*')); assert busy.wait(5)\n"
            "libc = ctypes.CDLL(None); libc.on_exit(libc.sleep, None)\n"
            "sys.exit(1)"
        ),
        1,
    ),
    "a filter of keys, at an end that takes long": (
        (
            "import ctypes; from zwire import zre; busy = threading.Event()\n"
            "calm = dict(beacons=False, interfaces=['127.0.0.1'], bind='127.0.0.1', mailbox=0)\n"
            "keys = [dict(zip(('public_key', 'secret_key'), zre.keypair())) for _ in range(2)]\n"
            "one = zre.Node('one', allow=lambda _: (busy.set(), time.sleep(0.5)), **keys[0], **calm)\n"
            "one.start(); two = zre.Node('two', **keys[1], **calm); two.start()\n"
            "two.require_peer(one.endpoint + '|' + keys[0]['public_key']); assert busy.wait(5)\n"
            "libc = ctypes.CDLL(None); libc.on_exit(libc.sleep, None)\n"
            "sys.exit(1)"
        ),
        1,
    ),
    "sessions of threads": (
        (
            "made = []\n"
            "threads = [threading.Thread(target=lambda: made.append(client())) for _ in range(8)]\n"
            "[t.start() for t in threads]; [t.join() for t in threads]"
        ),
        0,
    ),
    "an exception": ("s = client(); s.declare_subscriber('a', print); raise SystemExit(7)", 7),
    "sys.exit within with": (
        "with client() as s, s.declare_subscriber('a') as sub:\n    sys.exit(3)",
        3,
    ),
    "os._exit": ("s = client(); s.declare_subscriber('a', print); os._exit(5)", 5),
    "a link that is stuck": (
        (
            "import signal\n"
            "s = client(zwire__queue__bytes_per_priority=65_536); t = client()\n"
            "t.declare_subscriber('b', id)\n"
            "p = s.declare_publisher('b')\n"
            "while not p.matching_status.matching: time.sleep(0.01)\n"
            "os.kill(int(sys.argv[2]), signal.SIGSTOP)\n"
            "for _ in range(300): p.put(bytes(60_000))"
        ),
        0,
    ),
    "a hub that went away": (
        (
            "hub = opened('router', listen__endpoints=['tcp/127.0.0.1:0'])\n"
            "s = opened('client', connect__endpoints=hub.listening()); hub.close(); time.sleep(0.2)"
        ),
        0,
    ),
}


# What goes wrong in some of them is said, each in one line.
WARNINGS = {
    "a link that is stuck": ["the queue of a link is full"],
    "a hub that went away": ["connection lost; publications are dropped until it is re-established"],
}


@pytest.mark.parametrize("name", LEFT_OPEN)
def test_a_program_ends_without_close(name, program):
    body, code = LEFT_OPEN[name]
    process = program(body + "\n")
    _, err = process.rest(within=5)
    assert process.returncode == code
    said, wanted = err.splitlines(), WARNINGS.get(name, [])
    assert len(said) == len(wanted), err
    assert all(line.startswith(start) for line, start in zip(said, wanted, strict=True)), err
