"""What the system knows of its own network: interfaces, routes, neighbours on the wire."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import struct
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from zwire.cli._doctor.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

# linux/sockios.h and linux/if.h
_SIOCGIFFLAGS, _SIOCGIFADDR, _SIOCGIFNETMASK = 0x8913, 0x8915, 0x891B
_UP, _LOOPBACK, _RUNNING, _MULTICAST = 0x1, 0x8, 0x40, 0x1000


@dataclass(frozen=True)
class Interface:
    """An interface of this host."""

    name: str
    up: bool
    carrier: bool
    multicast: bool
    loopback: bool
    address: str | None
    network: ipaddress.IPv4Network | None

    def shown(self) -> str:
        """Return the interface in a few words."""
        words = [
            self.name,
            "no address" if self.network is None else f"{self.address}/{self.network.prefixlen}",
        ]
        words.append("up" if self.up else "down")
        words += [] if self.carrier or not self.up else ["no carrier"]
        words += [] if self.multicast else ["no multicast"]
        return " ".join(words)


def interfaces() -> list[Interface] | None:
    """Return the interfaces with their first IPv4 address; None on systems other than Linux."""
    if not sys.platform.startswith("linux"):
        return None
    import fcntl

    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_:

        def ask(request: int, name: str) -> bytes:
            return fcntl.ioctl(any_, request, struct.pack("16s24x", name.encode()[:15]))[16:]

        for _, name in socket.if_nameindex():
            try:
                (flags,) = struct.unpack_from("H", ask(_SIOCGIFFLAGS, name))
            except OSError:  # it has gone meanwhile
                continue
            address = network = None
            with contextlib.suppress(OSError):  # it has no address
                address = socket.inet_ntoa(ask(_SIOCGIFADDR, name)[4:8])
                mask = socket.inet_ntoa(ask(_SIOCGIFNETMASK, name)[4:8])
                network = ipaddress.IPv4Network(f"{address}/{mask}", strict=False)
            found.append(
                Interface(
                    name,
                    up=bool(flags & _UP),
                    carrier=bool(flags & _RUNNING),
                    multicast=bool(flags & _MULTICAST),
                    loopback=bool(flags & _LOOPBACK),
                    address=address,
                    network=network,
                )
            )
    return found


def usable(known: list[Interface]) -> list[Interface]:
    """Return the interfaces on which other hosts can be reached."""
    return [each for each in known if each.up and each.carrier and each.address and not each.loopback]


def check_interfaces(known: list[Interface] | None, *, needed: bool) -> Iterator[Finding]:
    """Look for an interface on which other hosts can be reached; a fault if one is needed."""
    for finding in _check(known):
        yield finding if needed else replace(finding, level="ok" if finding.level == "ok" else "note")


def _check(known: list[Interface] | None) -> Iterator[Finding]:
    if known is None:
        yield Finding("interfaces", "note", "the interfaces of this system are not read", "Linux only")
        return
    outer = [each for each in known if not each.loopback]
    saw = "; ".join(each.shown() for each in known) or "no interface at all"
    if usable(known):
        yield Finding("interfaces", "ok", saw)
    elif any(each.up and each.address for each in outer):
        means = "no interface has a carrier: a cable is unplugged, or the other end is off"
        yield Finding("no-carrier", "fault", saw, means, "plug the cable in, or connect to the Wi-Fi again")
    elif any(each.up for each in outer):
        means = "no interface that is up has an IPv4 address"
        yield Finding(
            "no-address", "fault", saw, means, "wait for DHCP, or `ip address add A.B.C.D/24 dev NAME`"
        )
    elif outer:
        means = "each interface beside the loopback is down: only programs of this host can be reached"
        yield Finding("interface-down", "fault", saw, means, "`ip link set NAME up`")
    else:
        means = "only programs of this host, or of this container, can be reached"
        yield Finding(
            "no-interface", "warning", saw, means, "start the container with a network if it is to have one"
        )


def route_to(address: str, port: int) -> Finding | None:
    """Ask the kernel how it would send to an address; None if there is a route."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # This sends nothing: the kernel only chooses a route.
            probe.connect((address, port))
        except OSError as error:
            return no_route(address, error)
    return None


def no_route(address: str, error: OSError) -> Finding:
    """Return the finding for an address to which the kernel does not send."""
    if error.errno in {errno.EACCES, errno.EPERM}:
        return Finding(
            "forbidden-here",
            "fault",
            f"{address}: {os.strerror(error.errno)}",
            "this host itself refuses to send there: a route `prohibit`, a rule of its firewall, or a policy",
            "`ip route get` and `nft list ruleset` on this host name the rule",
        )
    return Finding(
        "no-route",
        "fault",
        f"{address}: {error.strerror}",
        "no route of this host leads there: another subnet without a gateway, or an interface that is down",
        "`ip route` shows the routes; give an address of a network that this host is in, or add a gateway",
    )


def is_absent(address: str) -> bool:
    """Whether the kernel has asked for the hardware address of a neighbour and got no answer."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/net/arp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[0] == address:
                # Flag 2: the entry is complete.
                return not int(fields[2], 16) & 2
    return False
