"""Prints the own node, its neighbours and links, and what neighbours tell about themselves.

Version, locators and neighbours of another node come from its admin space, which is on for `zwire router`
and `zenohd`, and off for most others. The exit code is 3 without a neighbour.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from zwire import __version__
from zwire.cli import _admin, _format, _options

if TYPE_CHECKING:
    import argparse

    from zwire.zenoh import Session

EPILOG = """\
examples:
  zwire info
  zwire info -e tcp/192.168.1.5:7447 --timeout 5
  zwire info --format jsonl | jq '.neighbours[].version'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _options.add_seconds(
        parser, "--timeout", default=2.0, help="wait for neighbours and answers (default: 2)"
    )
    _options.add_format(parser, _format.HELP)
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Print what is known."""
    with _options.stop_signals(), _options.open_session(args) as session:
        session.ready(timeout=args.timeout)
        report = described(session, args.timeout)
    _options.show(*([json.dumps(report)] if args.format == "jsonl" else _text(report)))
    return 0 if report["neighbours"] else 3


def described(session: Session, timeout: float) -> dict[str, Any]:
    """Return what a session knows of itself and of its neighbours."""
    stats = session.stats()
    traffic = {(link["src"], link["dst"]): link for link in stats["per_link"]}
    links: dict[str, list[dict[str, Any]]] = {}
    for link in session.info.links():
        numbers = traffic.get((link.src, link.dst))
        links.setdefault(str(link.zid), []).append(
            {
                "src": link.src,
                "dst": link.dst,
                "group": link.group,
                "mtu": link.mtu,
                "reliability": link.reliability.name.lower(),
                "interfaces": link.interfaces,
                "authenticated": link.auth_identifier,
                "seconds": None if numbers is None else round(numbers["seconds"], 1),
                "lending": None if numbers is None else numbers["lending"],
            }
        )
    told = _admin.roots(session, timeout)
    neighbours = []
    for transport in session.info.transports():
        zid = str(transport.zid)
        root = told.get(zid, {})
        neighbours.append(
            {
                "zid": zid,
                "role": transport.whatami.name.lower(),
                "multicast": transport.is_multicast,
                "priorities": transport.is_qos,
                "shared_memory": transport.is_shm,
                "links": links.get(zid, []),
                "version": root.get("version"),
                "metadata": root.get("metadata"),
                "locators": root.get("locators"),
                "neighbours": None
                if "sessions" not in root
                else [{"zid": other.get("peer"), "role": other.get("whatami")} for other in root["sessions"]],
            }
        )
    return {
        "zid": str(session.zid()),
        "version": __version__,
        "listening": session.listening(),
        "neighbours": neighbours,
    }


def _text(report: dict[str, Any]) -> list[str]:
    lines = [f"this node: {report['zid']}, zwire {report['version']}"]
    lines += [f"  listens on {endpoint}" for endpoint in report["listening"]]
    for neighbour in report["neighbours"]:
        yes = [name for name in ("multicast", "priorities", "shared_memory") if neighbour[name]]
        lines.append(f"{neighbour['role']} {neighbour['zid']}{''.join(f', {name}' for name in yes)}")
        for link in neighbour["links"]:
            more = [link["reliability"], f"messages of at most {link['mtu']} bytes"]
            more += [f"as {link['authenticated']}"] if link["authenticated"] else []
            more += [f"since {link['seconds']:g} s"] if link["seconds"] is not None else []
            lines.append(f"  link {link['src']} - {link['dst']}: {', '.join(more)}")
        if neighbour["version"] is None:
            lines.append("  tells nothing about itself: its admin space is off, or access control hides it")
            continue
        lines.append(f"  version {neighbour['version']}")
        lines += [f"  metadata {json.dumps(neighbour['metadata'])}"] if neighbour["metadata"] else []
        lines += [f"  listens on {locator}" for locator in neighbour["locators"] or ()]
        lines += [f"  connected to {o['role']} {o['zid']}" for o in neighbour["neighbours"] or ()]
    return lines if report["neighbours"] else [*lines, "no neighbour"]
