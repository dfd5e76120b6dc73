"""`zwire doctor` on networks with a known fault each: a table of them and of the finding that names it."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from typing import NamedTuple

import pytest

from interop.certificates import DAY, Authority
from network.namespaces import Network, missing

PORT = 7447
PATIENCE = 20.0

# What a program on the far host begins with; it ends with its standard input.
PRELUDE = """
import json, socket, sys, threading
from zwire import zenoh
SETTINGS = {"scouting/multicast/enabled": False, "adminspace/enabled": True}
def ready():
    print("ready", flush=True)
    sys.stdin.read()
"""

# Answers the first message of each caller as a node does that reads another version of it.
OLD_NODE = """
with socket.create_server(("0.0.0.0", 7447)) as server:
    def serve():
        while True:
            stream, _ = server.accept()
            with stream:
                stream.recv(100)
                stream.sendall(bytes((2, 0, 3, 2)))
    threading.Thread(target=serve, daemon=True).start()
    ready()
"""

HTTP = """
import http.server
server = http.server.ThreadingHTTPServer(("0.0.0.0", 7447), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
ready()
"""

SILENT = """
with socket.create_server(("0.0.0.0", 7447)):
    ready()
"""

ROUTER = """
hub = zenoh.open({"mode": "router", "listen/endpoints": ["tcp/0.0.0.0:7447"], **SETTINGS})
"""

KEYS = f"""{ROUTER}
publisher = hub.declare_publisher("fleet/7/battery")
subscriber = hub.declare_subscriber("robots/fleet/*/battery")
ready()
"""

DROPS = f"""{ROUTER}
subscriber = hub.declare_subscriber("a", zenoh.handlers.Channel(1, full="drop_newest"))
for number in range(10):
    hub.put("a", str(number))
ready()
"""

FUTURE = f"""{ROUTER}
import datetime
subscriber = hub.declare_subscriber("a")
late = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
with zenoh.open({{"mode": "client", "connect/endpoints": ["tcp/127.0.0.1:7447"], **SETTINGS}}) as client:
    client.put("a", "x", timestamp=zenoh.Timestamp(late, b"\\x07"))
    subscriber.recv(timeout=10)
ready()
"""

PEER = """
peer = zenoh.open({"mode": "peer", "listen/endpoints": ["tcp/0.0.0.0:7447"], **SETTINGS})
ready()
"""

# A node of ZRE with a key, which nodes without one ignore.
SECURE = """
from zwire import zre
node = zre.Node("secure", secret_key=zre.keypair()[1], interval=0.1)
node.start()
ready()
"""

# Moves the clock that programs read; the kernel has one for all namespaces.
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += 3600;
    return result;
}
"""


class Scene:
    """Two hosts: the doctor runs on the near one."""

    def __init__(self, folder):
        self.network = Network()
        self.near, self.far = self.network.host(), self.network.host()
        self.folder = folder
        self.far_endpoint = f"tcp/{self.far.address}:{PORT}"

    def program(self, code, name="program.py"):
        """Run a program on the far host; it is ready when this returns."""
        path = self.folder / name
        path.write_text(PRELUDE + textwrap.dedent(code))
        process = self.far.python(path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout.readline() == "ready\n"

    def router(self, *options, protocol="tcp", **environment):
        """Run a router on the far host."""
        command = [
            sys.executable,
            "-m",
            "zwire",
            "router",
            "--listen",
            f"{protocol}/0.0.0.0:{PORT}",
            *options,
        ]
        process = subprocess.Popen(
            self.far.command(*command), stdout=subprocess.PIPE, text=True, env=environment or None
        )
        self.far.processes.append(process)
        assert process.stdout.readline().startswith(protocol)

    def tls(self, **how):
        """Run a router with TLS; the authority of its certificate."""
        authority = Authority(self.folder)
        early = how.pop("early", False)
        if early:
            authority.now += 30 * DAY
        certificate, key = authority.issue("node", hosts=how.pop("hosts", (self.far.address,)), **how)
        self.router(
            "--cfg", f'transport/link/tls/listen_certificate:"{certificate}"',
            "--cfg", f'transport/link/tls/listen_private_key:"{key}"',
            protocol="tls",
        )  # fmt: skip
        return ["--cfg", f'transport/link/tls/root_ca_certificate:"{authority.file}"']

    def other_authority(self):
        """The option that trusts an authority that has signed nothing."""
        (self.folder / "other").mkdir()
        return [
            "--cfg",
            f'transport/link/tls/root_ca_certificate:"{Authority(self.folder / "other", "stranger").file}"',
        ]

    def diagnose(self, *arguments):
        """Run the doctor on the near host; its exit code and findings."""
        command = [sys.executable, "-m", "zwire", "doctor", *arguments, "--json", "--wait", "1"]
        done = subprocess.run(
            self.near.command(*command), capture_output=True, text=True, timeout=PATIENCE * 2, check=False
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)


def acl(*rules, key="fleet/**"):
    """Options of a node whose access control denies messages on a key."""
    settings = {
        "enabled": True,
        "default_permission": "allow",
        "rules": [{"id": "r", "permission": "deny", "messages": list(rules), "key_exprs": [key]}],
        "subjects": [{"id": "all"}],
        "policies": [{"rules": ["r"], "subjects": ["all"]}],
    }
    return ["--cfg", f"access_control:{json.dumps(settings)}"]


USERS = ["--cfg", 'transport/auth/usrpwd/user:"hub"', "--cfg", 'transport/auth/usrpwd/password:"x"']


class Fault(NamedTuple):
    """A network: how it is made, how the doctor is called, and the finding that is right."""

    finding: str
    make: object
    arguments: object = ("{far}",)
    code: int = 1
    long: bool = True


def shifted_router(scene):
    source, library = scene.folder / "clock.c", scene.folder / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, timeout=PATIENCE)
    scene.router(**os.environ, LD_PRELOAD=str(library))


def unplugged(scene):
    scene.near.unplug()
    scene.near.wait_for_carrier(present=False)


def with_users(scene):
    users = scene.folder / "users"
    users.write_text("robot:secret\n")
    scene.router(*USERS, "--cfg", f'transport/auth/usrpwd/dictionary_file:"{users}"')


FAULTS = {
    "nothing is wrong": Fault("forwarding", Scene.router, code=0, long=False),
    "no program listens": Fault("refused", lambda scene: None, long=False),
    "listens on the loopback": Fault(
        "refused", lambda scene: scene.program(ROUTER.replace("0.0.0.0", "127.0.0.1") + "ready()")
    ),
    "no such host": Fault("absent", lambda scene: None, ["tcp/10.99.0.77:7447"], long=False),
    "no such name": Fault("name", lambda scene: None, ["tcp/host.invalid:7447"]),
    "firewall drops": Fault(
        "filtered",
        lambda scene: (scene.router(), scene.far.namespace.ip("rule add ipproto tcp sport 7447 blackhole")),
        long=False,
    ),
    "host refuses to send": Fault(
        "forbidden-here", lambda scene: scene.near.namespace.ip(f"route add prohibit {scene.far.address}/32")
    ),
    "another subnet": Fault("no-route", lambda scene: None, ["tcp/10.50.0.1:7447"]),
    "interface is down": Fault("interface-down", lambda scene: scene.near.down(), long=False),
    "cable is unplugged": Fault("no-carrier", unplugged),
    "no address": Fault("no-address", lambda scene: scene.near.namespace.ip("address flush dev eth0")),
    "no multicast": Fault(
        "no-multicast", lambda scene: scene.near.namespace.ip("link set eth0 multicast off"), [], long=False
    ),
    "no node found": Fault("scouting-silent", lambda scene: None, []),
    "another group": Fault(
        "other-group", Scene.router, ["--cfg", 'scouting/multicast/address:"224.0.0.224:7999"']
    ),
    "scouting is off": Fault("scouting-off", Scene.router, ["--cfg", "scouting/multicast/enabled:false"]),
    "HTTP": Fault("other-protocol", lambda scene: scene.program(HTTP)),
    "a silent program": Fault("silent", lambda scene: scene.program(SILENT)),
    "TLS and not TCP": Fault("other-protocol", Scene.tls),
    "TCP and not TLS": Fault(
        "other-protocol",
        lambda scene: (scene.router(), scene.other_authority())[1],
        ["tls/{address}:7447"],
    ),
    "TLS without an authority": Fault("config", Scene.router, ["tls/{address}:7447"]),
    "an expired certificate": Fault(
        "certificate-expired", lambda scene: scene.tls(expired=True), ["tls/{address}:7447"]
    ),
    "a certificate of tomorrow": Fault(
        "certificate-early", lambda scene: scene.tls(early=True), ["tls/{address}:7447"]
    ),
    "another authority": Fault(
        "certificate-authority",
        lambda scene: (scene.tls(), scene.other_authority())[1],
        ["tls/{address}:7447"],
    ),
    "a certificate of another host": Fault(
        "certificate-name", lambda scene: scene.tls(hosts=("hub.example",)), ["tls/{address}:7447"]
    ),
    "a user is demanded": Fault("user-demanded", with_users),
    "a wrong password": Fault(
        "user",
        with_users,
        [
            "{far}",
            "--cfg",
            'transport/auth/usrpwd/user:"robot"',
            "--cfg",
            'transport/auth/usrpwd/password:"no"',
        ],
    ),
    "an old version": Fault("version", lambda scene: scene.program(OLD_NODE), long=False),
    "the same id": Fault(
        "same-id",
        lambda scene: scene.router("--cfg", 'id:"abcd"'),
        ["{far}", "--cfg", 'id:"abcd"'],
    ),
    "the router denies a subscription": Fault(
        "access",
        lambda scene: scene.router(*acl("declare_subscriber")),
        ["{far}", "--key", "fleet/7/pose"],
        long=False,
    ),
    "the router denies a publication": Fault(
        "access", lambda scene: scene.router(*acl("put")), ["{far}", "--key", "fleet/7/pose", "--write"]
    ),
    "the own rules deny": Fault(
        "access-here",
        Scene.router,
        ["{far}", "--key", "fleet/7/pose", "--write", *acl("put")],
    ),
    "keys that do not intersect": Fault("keys", lambda scene: scene.program(KEYS), code=3, long=False),
    "a slow subscriber": Fault("drops", lambda scene: scene.program(DROPS), code=3),
    "a publisher ahead of time": Fault("clock-of-publisher", lambda scene: scene.program(FUTURE), code=3),
    "a clock ahead": Fault("clock", shifted_router),
    "a peer in the middle": Fault(
        "peers-do-not-forward", lambda scene: scene.program(PEER), ["{far}", "-m", "peer"], code=0
    ),
    "no peer of ZRE": Fault("zre-alone", Scene.router, ["{far}", "--zre"], code=0),
    "a peer of ZRE with a key": Fault(
        "zre-ignored",
        lambda scene: (scene.router(), scene.program(SECURE, name="secure.py")),
        ["{far}", "--zre"],
        code=3,
    ),
    "listens for itself alone": Fault(
        "listen-local", Scene.router, ["{far}", "--listen", "tcp/127.0.0.1:0#secret=hidden"], code=3
    ),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if fault.long else []) for name, fault in FAULTS.items()],
)
def test_the_doctor_names_the_fault(name, tmp_path, monkeypatch):
    if reason := missing():
        pytest.skip(reason)
    if name == "a clock ahead" and not shutil.which("cc"):
        pytest.skip("a clock that is ahead needs a C compiler (cc)")
    monkeypatch.delenv("ZWIRE_SCOUTING_INTERFACE", raising=False)
    fault = FAULTS[name]
    scene = Scene(tmp_path)
    try:
        more = fault.make(scene)
        more = more if isinstance(more, list) else []
        names = {"far": scene.far_endpoint, "address": scene.far.address}
        arguments = [
            argument.replace("{far}", names["far"]).replace("{address}", names["address"])
            for argument in fault.arguments
        ]
        code, report = scene.diagnose(*arguments, *more)
    finally:
        scene.network.end()
    assert "hidden" not in json.dumps(report)
    found = {finding["name"]: finding for finding in report["findings"]}
    assert fault.finding in found, report
    assert code == fault.code, report
    if not fault.code:
        return
    worst = {finding["name"] for finding in report["findings"] if finding["level"] == report["worst"]}
    assert fault.finding in worst, report
    for finding in report["findings"]:
        if finding["level"] in {"warning", "fault"}:
            assert finding["saw"]
            assert finding["means"]
            assert finding["do"]


def test_there_are_enough_networks():
    assert len({fault.finding for fault in FAULTS.values() if fault.code}) >= 20
