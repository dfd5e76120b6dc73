"""A network of our own: hosts in network namespaces, on one private /24 with broadcast.

Nothing of it is seen outside, and nothing has to be cleaned up by hand: a namespace ends with the process
that holds it, that process ends with its standard input, and the links end with their namespace. It needs no
root where the kernel lets users make namespaces.

Loss, duplicates, delay and reordering come from ``switch.py``, an Ethernet switch of our own that draws from
a seed: unlike netem it is in every kernel and gives the same faults in each run.
"""

import contextlib
import functools
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

SWITCH = Path(__file__).with_name("switch.py")

# Commands that set something up take milliseconds.
PATIENCE = 20.0

# Root may still lack the right to make a namespace (a container); a user namespace of its own often helps.
_WAYS = (
    ((), ()),
    (("--user", "--map-root-user"), ("--user", "--preserve-credentials")),
)


class NetworkError(AssertionError):
    """A command that builds the network failed."""


def _run(argv, text=""):
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise NetworkError(f"{' '.join(argv)}\n{text}{done.stderr}")
    return done.stdout


@functools.cache
def _way():
    """Flags for ``unshare`` and ``nsenter`` that work here, and else the reason why there are none."""
    missing = [tool for tool in ("unshare", "nsenter", "ip") if not shutil.which(tool)]
    if missing:
        return None, f"network namespaces need {', '.join(missing)} (apt-get install util-linux iproute2)"
    reason = ""
    for unshare, nsenter in _WAYS:
        try:
            _run(
                ["unshare", *unshare, "--net", "ip", "-batch", "-"],
                "link add name hub type bridge\nlink add name p1 type veth peer name e1\n"
                "link set p1 master hub\n",
            )
        except NetworkError as e:
            reason = str(e).strip().splitlines()[-2]
        else:
            return (unshare, nsenter), None
    return None, f"the kernel gives us no network namespace with a bridge: {reason}"


def missing():
    """Why there can be no network here, or ``None``."""
    return _way()[1]


class _Namespace:
    """A network namespace, held by a process that ends with its standard input."""

    def __init__(self, unshare, nsenter, *, within=()):
        self.holder = subprocess.Popen(
            [*within, "unshare", *unshare, "--net", "sh", "-c", "echo held; read _"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self.holder.stdout.readline() != "held\n":
            raise NetworkError(f"no namespace: {self.holder.wait(PATIENCE)}")
        self.prefix = ["nsenter", "--target", str(self.holder.pid), *nsenter, "--net"]

    def ip(self, *lines):
        """Runs lines of ``ip``, all in one process."""
        _run([*self.prefix, "ip", "-batch", "-"], "".join(f"{line}\n" for line in lines))

    def end(self):
        self.holder.stdin.close()
        self.holder.wait(PATIENCE)
        self.holder.stdout.close()


class Host:
    """A machine of the network, with an address on its interface ``eth0``."""

    def __init__(self, network, number):
        self.network = network
        self.number = number
        self.address = f"{network.prefix}.{number}"
        self.port = f"p{number}"
        self.processes = []
        self.namespace = _Namespace((), network.way[1], within=network.hub.prefix)

    def command(self, *argv):
        """The command line that runs ``argv`` on this host."""
        return [*self.namespace.prefix, *argv]

    def run(self, *argv):
        """Runs a short command on this host and gives its output."""
        return _run(self.command(*argv))

    def python(self, program, *arguments, **kwargs):
        """Starts a program, given by its path, on this host."""
        argv = self.command(sys.executable, str(program), *map(str, arguments))
        process = subprocess.Popen(argv, text=True, **kwargs)
        self.processes.append(process)
        return process

    def popen(self, *arguments, **kwargs):
        """Starts the Python interpreter on this host."""
        process = subprocess.Popen(self.command(sys.executable, *arguments), **kwargs)
        self.processes.append(process)
        return process

    def unplug(self):
        """As if the cable were pulled: the interface stays up and has no carrier."""
        self.network.hub.ip(f"link set {self.port} down")

    def wait_for_carrier(self, *, present=True):
        """Waits until the kernel reports it, which may take a second: nodes skip interfaces without one."""
        deadline = time.monotonic() + PATIENCE
        while ("state UP" in self.run("ip", "-oneline", "link", "show", "eth0")) != present:
            if time.monotonic() > deadline:
                raise NetworkError(f"{self.address}: carrier not {present} within {PATIENCE} s")
            time.sleep(0.01)

    def plug(self):
        self.network.hub.ip(f"link set {self.port} up")

    def swallow(self):
        """Drop frames to and from this host unnoticed: all interfaces keep their carrier."""
        self.network.hub.ip(f"link set {self.port} nomaster")

    def carry(self):
        """Ends what :meth:`swallow` began."""
        self.network.hub.ip(f"link set {self.port} master hub")

    def down(self):
        """Takes the interface down: its routes are gone, sending fails at once."""
        self.namespace.ip("link set eth0 down")

    def up(self):
        self.namespace.ip("link set eth0 up")

    def move(self, number):
        """Replace the address of the interface, as a DHCP server might."""
        old, self.address = self.address, f"{self.network.prefix}.{number}"
        self.namespace.ip(
            f"address del {old}/24 dev eth0",
            f"address add {self.address}/24 broadcast + dev eth0",
        )
        return self.address


class Network:
    """Hosts at one bridge, or at a switch that spoils some of the frames.

    Args:
        spoil: what the switch does to the frames, see ``switch.py``; ``None`` is a plain bridge.
        prefix: the first three octets of the addresses.
    """

    def __init__(self, spoil=None, prefix="10.99.0"):
        self.way, reason = _way()
        if reason:
            raise NetworkError(reason)
        self.prefix = prefix
        self.broadcast = f"{prefix}.255"
        self.hosts = []
        self.switch = None
        self.closing = contextlib.ExitStack()
        self.hub = _Namespace(*self.way)
        self.closing.callback(self.hub.end)
        self.spoil = spoil
        if spoil is None:
            self.hub.ip(
                "link add name hub type bridge forward_delay 0 mcast_snooping 0",
                "link set hub addrgenmode none",
                "link set hub up",
            )

    def host(self):
        """Add a host."""
        host = Host(self, len(self.hosts) + 1)
        self.hosts.append(host)
        self.closing.callback(host.namespace.end)
        pid = host.namespace.holder.pid
        self.hub.ip(
            f"link add name {host.port} type veth peer name e{host.number}",
            f"link set {host.port} addrgenmode none",
            f"link set e{host.number} addrgenmode none",
        )
        if self.spoil is None:
            self.hub.ip(f"link set {host.port} master hub")
        else:
            # The switch passes on what it sees: that has to have its checksum and its final size.
            for name in (host.port, f"e{host.number}"):
                _run([*self.hub.prefix, sys.executable, str(SWITCH), "--plain", name])
        self.hub.ip(f"link set e{host.number} netns {pid} name eth0", f"link set {host.port} up")
        host.namespace.ip(
            "link set lo up",
            "link set eth0 addrgenmode none",
            f"address add {host.address}/24 broadcast + dev eth0",
            "link set eth0 up",
        )
        host.wait_for_carrier()
        return host

    def connect(self):
        """Starts the switch; call it when all hosts are there (a plain network needs no call)."""
        if self.spoil is None:
            return
        self.switch = subprocess.Popen(
            [*self.hub.prefix, sys.executable, str(SWITCH), *(h.port for h in self.hosts)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.closing.callback(self._stop_switch)
        self.respoil(**self.spoil)

    def respoil(self, **spoil):
        """Changes what happens to the frames from now on, and gives the counts up to now."""
        print(json.dumps(spoil), file=self.switch.stdin, flush=True)
        return json.loads(self.switch.stdout.readline())

    def _stop_switch(self):
        self.switch.stdin.close()
        self.switch.wait(PATIENCE)
        self.switch.stdout.close()

    def end(self):
        """Ends what still runs on the hosts, then the network."""
        for host in self.hosts:
            for process in host.processes:
                if process.poll() is None:
                    process.kill()
                    process.wait(PATIENCE)
                for stream in (process.stdin, process.stdout, process.stderr):
                    if stream:
                        with contextlib.suppress(BrokenPipeError):
                            stream.close()
        self.closing.close()
