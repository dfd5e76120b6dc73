"""Runs a node for `--wait` seconds and prints its findings: use it first if a peer is missing.

The exit code is 1 if there is a fault, such as no address that a node can have, 3 for a warning, such as an
ignored peer, else 0.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from zwire.cli import _options, _zre
from zwire.cli._doctor.findings import exit_code, show

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire zre doctor
  zwire zre doctor --interface 'en*' --wait 10 --format json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _options.add_seconds(parser, "--wait", default=3.0, help="default: 3")
    _options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings, and the node's view of the network."""
    with _options.stop_signals():
        report = _zre.report(args)
        findings = _zre.findings(report)
        if args.format == "json":
            listed = {**report, "findings": [finding.fields() for finding in findings]}
            _options.show(*json.dumps(listed, ensure_ascii=False, indent=2).split("\n"))
        else:
            for finding in findings:
                show(finding)
            _options.show("", *_text(report))
    return exit_code(findings)


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
