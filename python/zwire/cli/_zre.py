"""Parts shared by the subcommands of ``zwire zre``: options, the node they describe, printing of events."""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

from zwire import zre
from zwire.cli import _format, _options
from zwire.cli._doctor.findings import Finding
from zwire.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

GENERATIONS = ("20", "zyre1", "36", "43")


def add_node(parser: argparse.ArgumentParser) -> None:
    """Add the options of a node."""
    group = parser.add_argument_group("node")
    group.add_argument("--name", help="name announced to peers (default: six digits of the UUID)")
    _options.add_several(group, "--header", metavar="NAME=VALUE", help="tell peers this; may be repeated")
    _options.add_several(
        group,
        "-i",
        "--interface",
        metavar="NAME",
        help="use only these: name, address, CIDR, or a pattern such as 'en*' (default: every suitable one)",
    )
    group.add_argument("--port", type=_options.port, help="UDP port of beacons (default: 5670)")
    _options.add_seconds(group, "--interval", help="between beacons (default: 1)")
    group.add_argument("--no-beacons", action="store_true", help="neither send beacons nor listen for them")
    _options.add_several(
        group,
        "-e",
        "--connect",
        metavar="ENDPOINT",
        help="a peer that no beacon announces, such as tcp://192.168.1.5:49152",
    )
    group.add_argument("--gossip-bind", metavar="ENDPOINT", help="be a gossip hub at this endpoint")
    _options.add_several(
        group, "--gossip-connect", metavar="ENDPOINT", help="use the gossip hub at this endpoint"
    )
    group.add_argument(
        "--advertise", metavar="ENDPOINT", help="tell peers this endpoint instead of the own one"
    )
    group.add_argument(
        "--mailbox", type=_options.port, metavar="PORT", help="TCP port of the mailbox (default: from 49152)"
    )
    _options.add_several(
        group,
        "-g",
        "--generation",
        choices=GENERATIONS,
        help="speak this one; several are served together (default: 36)",
    )


def node(args: argparse.Namespace, **settings: Any) -> zre.Node:  # noqa: ANN401 - those of zre.Config
    """Return the node that the options describe; it is not started."""
    headers = {}
    for header in args.header:
        name, equals, value = header.partition("=")
        if not equals or not name:
            raise ConfigError(f"--header {header}: expected NAME=VALUE")
        headers[name] = value
    given: dict[str, Any] = {
        "headers": headers,
        "interfaces": args.interface or None,
        "beacon_port": args.port,
        "interval": args.interval,
        "beacons": False if args.no_beacons else None,
        "peers": args.connect or None,
        "gossip_bind": args.gossip_bind,
        "gossip_connect": args.gossip_connect or None,
        "advertise": args.advertise,
        "mailbox": args.mailbox,
        "generations": args.generation or None,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    return zre.Node(args.name, **{**chosen, **settings})


def row(node: zre.Node, peer: str) -> dict[str, Any]:
    """Return a dict that describes a peer."""
    return {
        "peer": peer,
        "name": node.peer_name(peer),
        "address": node.peer_address(peer),
        "generation": node.peer_generation(peer),
        "groups": sorted(g for g in node.peer_groups() if peer in node.peers_by_group(g)),
        "headers": dict(node.peer_headers(peer)),
    }


_NOWHERE = "tcp://127.0.0.1:9"
"""Endpoint announced by a node without an address; no peer can reach it."""


def report(args: argparse.Namespace) -> dict[str, Any]:
    """Run a node for ``args.wait`` seconds, and return its view of the network."""
    observer = node(args)
    problem = None
    try:
        observer.start()
    except ConfigError as error:
        # A node without an address of its own still reports what it hears.
        problem = str(error)
        observer = node(args, advertise=_NOWHERE)
        observer.start()
    try:
        time.sleep(0 if problem else args.wait)
        own = {
            "uuid": observer.uuid,
            "name": observer.name,
            "endpoint": observer.endpoint,
            "problem": problem,
        }
        peers = [row(observer, peer) for peer in observer.peers()]
        return {"node": own, **observer.doctor(), "peers": peers}
    finally:
        observer.stop()


def diagnosed(wait: float) -> Iterator[Finding]:
    """Run a node with the default settings, and give its findings."""
    parser = argparse.ArgumentParser()
    add_node(parser)
    yield from findings(report(argparse.Namespace(**vars(parser.parse_args([])), wait=wait)))


def findings(report: dict[str, Any]) -> list[Finding]:
    """Return what the view of a node means."""
    found = []
    if problem := report["node"]["problem"]:
        means = "no interface of this host has an address that a node of ZRE can announce"
        found.append(
            Finding("zre-no-address", "fault", problem, means, "see the reasons below each interface")
        )
    if unheard := report["beacons_unheard"]:
        means = "this node cannot hear beacons: it finds others only if they connect to it"
        do = "end the program that has the port (`ss -lunp`), or choose another --port for all"
        found.append(Finding("zre-deaf", "fault", str(unheard), means, do))
    used = [each for each in report["interfaces"] if each["used"]]
    for each in used:
        if each.get("error") or each.get("failed"):
            saw = f"{each['name']}: {each.get('failed') or 0} beacons could not be sent: {each.get('error')}"
            means = (
                "others do not hear this node on that interface: a route or a firewall of this host refuses"
            )
            do = "`ip route` and `nft list ruleset`; --interface names those to use"
            found.append(Finding("zre-beacons-fail", "fault", saw, means, do))
    for each in report["ignored"]:
        saw = f"{each['source']}, {each['count']} times: {each['reason']}"
        means = "a node, or a program that sends such datagrams, was heard and is ignored for that reason"
        found.append(
            Finding("zre-ignored", "warning", saw, means, "change what the reason names on one side")
        )
    peers = report["peers"]
    if peers:
        found.append(Finding("zre-peers", "ok", ", ".join(f"{p['name']} at {p['address']}" for p in peers)))
    elif not found:
        saw = f"no peer on {', '.join(each['name'] for each in used) or 'any interface'}"
        means = "no other node runs, it has another port, or beacons (UDP 5670) are dropped on the way"
        do = "run `zwire zre doctor` on the other host too; --connect or a gossip hub needs no broadcast"
        found.append(Finding("zre-alone", "note", saw, means, do))
    return found


def event_line(event: zre.Event, form: str, payload: str) -> str:
    """Return an event as a line; ``payload`` is the form of frames in JSON Lines."""
    if form == "jsonl":
        return json.dumps(_event_fields(event, payload), ensure_ascii=False)
    match event:
        case zre.Enter():
            headers = "".join(f" {k}={v}" for k, v in event.headers.items())
            return f"{event.name} entered from {event.address}{headers}"
        case zre.Join():
            return f"{event.name} joined {event.group}"
        case zre.Leave():
            return f"{event.name} left {event.group}"
        case zre.Shout():
            return f"{event.name} to {event.group}: {_shown(event.content)}"
        case zre.Whisper():
            return f"{event.name}: {_shown(event.content)}"
        case zre.MessagesLost():
            return f"{event.name}: {event.lost} messages lost"
        case zre.Leader():
            return f"{event.name} leads {event.group}"
    return f"{event.name} {_WORDS.get(event.type, event.type.lower())}"


_WORDS = {"EXIT": "is gone", "EVASIVE": "is slow to answer", "SILENT": "is silent", "STOP": "stops"}


def _shown(content: list[bytes]) -> str:
    return " | ".join(_format.shown(frame) for frame in content)


def _event_fields(event: zre.Event, payload: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "type": event.type,
        "time": event.time,
        "peer": event.peer,
        "name": event.name,
        "address": event.address,
    }
    for name in ("group", "lost"):
        if hasattr(event, name):
            fields[name] = getattr(event, name)
    if isinstance(event, zre.Enter):
        fields["headers"] = dict(event.headers)
    if isinstance(event, (zre.Whisper, zre.Shout)):
        frames = [_format.payload_fields(frame, "", payload) for frame in event.content]
        fields["content"] = [frame["payload"] for frame in frames]
        fields["content_as"] = [frame["payload_as"] for frame in frames]
    return fields
