"""Runs a node for `--wait` seconds and prints its view of the network: use it first if a peer is missing.

Exit code 1: no node can run here; the reason and the interfaces of the host are printed.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from zwire.cli import _options, _zre
from zwire.errors import ConfigError

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire zre doctor
  zwire zre doctor --interface 'en*' --wait 10 --format json
"""

_NOWHERE = "tcp://127.0.0.1:9"
"""Endpoint announced by a node without an address; no peer can reach it."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _options.add_seconds(parser, "--wait", default=3.0, help="default: 3")
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(args: argparse.Namespace) -> int:
    """Print the node's view of the network."""
    with _options.stop_signals():
        node = _zre.node(args)
        problem = None
        try:
            node.start()
        except ConfigError as error:
            # A node without an address of its own still reports what it hears.
            problem = str(error)
            node = _zre.node(args, advertise=_NOWHERE)
            node.start()
        try:
            time.sleep(0 if problem else args.wait)
            report = {
                "node": {"uuid": node.uuid, "name": node.name, "endpoint": node.endpoint, "problem": problem},
                **node.doctor(),
                "peers": [_zre.row(node, peer) for peer in node.peers()],
            }
        finally:
            node.stop()
        lines = json.dumps(report, ensure_ascii=False, indent=2).split("\n")
        _options.show(*(lines if args.format == "json" else _text(report)))
    return 1 if problem else 0


def _text(report: dict[str, Any]) -> list[str]:
    lines = []
    for name, value in report.items():
        lines.append(f"{name}:")
        if isinstance(value, list):
            lines += [f"  {_fields(entry)}" for entry in value] or ["  none"]
        else:
            lines.append(f"  {_fields(value)}")
    return lines


def _fields(entry: Any) -> str:  # noqa: ANN401 - whatever the report holds
    if not isinstance(entry, dict):
        return str(entry)
    return ", ".join(f"{name} {value}" for name, value in entry.items() if value not in (None, "", {}, []))
