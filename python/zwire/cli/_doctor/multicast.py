"""Scouting: whether nodes can be found by multicast, and why not."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from typing import TYPE_CHECKING

from zwire import zenoh
from zwire.cli._doctor import host
from zwire.cli._doctor.findings import Finding
from zwire.errors import TimedOut, ZwireError

if TYPE_CHECKING:
    from collections.abc import Iterator

_GROUP = "224.0.0.224:7446"
_VARIABLE = "ZWIRE_SCOUTING_INTERFACE"

_SCOUT = b"\x01\x09\x07"
"""A SCOUT for nodes of any role, without an id (`zenoh-wire` 2.1): nodes answer the socket that sent it."""


def value(config: zenoh.Config, key: str) -> object:
    """Return a value of a configuration."""
    return json.loads(config.get_json(key))


def check(
    config: zenoh.Config, known: list[host.Interface] | None, wait: float, *, needed: bool
) -> Iterator[Finding]:
    """Search for nodes as a session with this configuration does.

    ``needed`` tells that no endpoint is configured: then nodes that are not found are a fault.
    """
    if value(config, "scouting/multicast/enabled") is False:
        yield Finding(
            "scouting-off",
            "fault" if needed else "note",
            "scouting/multicast/enabled is false",
            "this configuration neither looks for nodes nor answers them",
            "configure an endpoint in connect/endpoints" if needed else "",
        )
        return
    if limited := os.environ.get(_VARIABLE):
        yield Finding(
            "scouting-variable",
            "warning" if needed else "note",
            f"{_VARIABLE}={limited} in the environment",
            "nodes are looked for there alone" if limited != "none" else "multicast is off in this process",
            f"unset {_VARIABLE}",
        )
    group = str(value(config, "scouting/multicast/address") or _GROUP)
    if (problem := _local(known, group)) is not None:
        yield problem
    found = _found(config, wait)
    if found:
        saw = "; ".join(
            f"{hello.whatami.name.lower()} {hello.zid} at {_places(hello)}" for hello in found[:8]
        )
        yield Finding("scouting", "ok", f"found on {group}: {saw}{' ...' if len(found) > 8 else ''}")
    elif group != _GROUP and (others := _found(_with(config, _GROUP), wait)):
        yield Finding(
            "other-group",
            "fault" if needed else "warning",
            f"no node answers on {group}, and {len(others)} on {_GROUP}",
            "the nodes use the default group, and this configuration another one",
            "remove scouting/multicast/address here, or set the same on each node",
        )
    elif problem is None:
        yield Finding(
            "scouting-silent",
            "fault" if needed else "note",
            f"no node answers on {group} within {wait:g} s",
            "no node runs, a firewall drops UDP on this port, the nodes have another group, or the network "
            "carries no multicast, as many Wi-Fi and cloud networks",
            f"allow UDP port {group.rpartition(':')[2]} on both hosts, or configure connect/endpoints",
        )


def _places(hello: zenoh.Hello) -> str:
    return ", ".join(hello.locators) or hello.source


def _with(config: zenoh.Config, group: str) -> zenoh.Config:
    other = zenoh.Config(config)
    other.insert_json5("scouting/multicast/address", json.dumps(group))
    return other


def _found(config: zenoh.Config, wait: float) -> list[zenoh.Hello]:
    found: dict[str, zenoh.Hello] = {}
    end = time.monotonic() + wait
    with contextlib.suppress(ZwireError), zenoh.scout(what="router|peer", config=config) as scout:
        while (left := end - time.monotonic()) > 0:
            try:
                hello = scout.recv(timeout=left)
            except TimedOut:
                break
            found.setdefault(str(hello.zid), hello)
    return list(found.values())


def _local(known: list[host.Interface] | None, group: str) -> Finding | None:
    """Send a SCOUT on each interface and look whether this host receives it itself."""
    outer = host.usable(known or [])
    if not outer:
        return None
    if not any(each.multicast for each in outer):
        return Finding(
            "no-multicast",
            "fault",
            "; ".join(each.shown() for each in outer),
            "no interface has multicast: no node can be found by it",
            "`ip link set NAME multicast on`, or configure connect/endpoints",
        )
    address, _, port = group.rpartition(":")
    deaf = [
        each.name for each in outer if each.multicast and not _heard(address, int(port), str(each.address))
    ]
    if not deaf:
        return None
    return Finding(
        "multicast-blocked",
        "fault",
        f"{', '.join(deaf)}: this host does not receive what it sends to {group} itself",
        f"a firewall of this host drops UDP on port {port}, or its routes keep multicast away",
        f"allow UDP port {port}; `nft list ruleset` and `ip route get {address}` name the rule",
    )


def _heard(group: str, port: int, own: str) -> bool:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        receiver.settimeout(0.3)
        try:
            receiver.bind((group, port))
            member = socket.inet_aton(group) + socket.inet_aton(own)
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
            sender.bind((own, 0))
            sender.sendto(_SCOUT, (group, port))
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                _, source = receiver.recvfrom(2048)
                if source == sender.getsockname():
                    return True
        except OSError:
            pass
    return False
