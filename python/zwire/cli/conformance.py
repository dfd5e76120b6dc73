"""Connects to the node with raw bytes and judges it by each rule of its protocol, in a minute or less.

A line for each rule that the node breaks, and counts at the end. The exit code is 1 if the node breaks a rule
with the level MUST. Judge a node of its own, not one in use: some rules send what no node should send.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING

from zwire import conformance
from zwire.cli import _options

if TYPE_CHECKING:
    import argparse

    from zwire.conformance import Rule, Verdict

EPILOG = """\
examples:
  zwire conformance tcp/127.0.0.1:7447
      a router or peer of Zenoh
  zwire conformance tcp/127.0.0.1:7447 --only 'fragment|3\\.11'
      some rules, by their ids
  zwire conformance tcp/127.0.0.1:5555 --protocol zmtp --set username=admin --set password=secret
      a socket of ZeroMQ, with what its mechanism asks for
  zwire conformance tcp/127.0.0.1:49152 --protocol zre --set generation=36
      a node of ZRE, at its mailbox
  zwire conformance --list --format jsonl
      all rules, without a node
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("endpoint", nargs="?", metavar="ENDPOINT", help="tcp/HOST:PORT")
    parser.add_argument("--protocol", choices=conformance.PROTOCOLS, default="zenoh", help="default: zenoh")
    parser.add_argument(
        "--only", metavar="PATTERN", help="rules with an id that matches this regular expression"
    )
    _options.add_several(
        parser,
        "--set",
        metavar="NAME=VALUE",
        help="one option of the target, such as generation=43; the value is JSON, or a text",
    )
    parser.add_argument("--list", action="store_true", help="print the rules and judge nothing")
    _options.add_format(parser, help="broken rules and counts, or a JSON object per rule")


def run(args: argparse.Namespace) -> int:
    """Judge the node, or list the rules."""
    if args.list:
        for rule in conformance.rules(args.protocol):
            _options.show(_rule(rule, args.format))
        return 0
    if args.endpoint is None:
        return _options.refuse("conformance", "give the endpoint of a node, such as tcp/127.0.0.1:7447", 2)
    try:
        with _options.stop_signals():
            report = conformance.run(
                args.endpoint,
                protocol=args.protocol,
                only=args.only,
                heard=functools.partial(_tell, form=args.format),
                **_options.settings("--set", args.set),
            )
    except (ValueError, TypeError) as error:
        return _options.refuse("conformance", str(error), 2)
    if args.format == "text":
        _options.show(report.summary())
    return 0 if report.conforms else 1


def _rule(rule: Rule, form: str) -> str:
    if form == "jsonl":
        return json.dumps(rule.as_dict())
    note = f"  [{rule.unreachable}]" if rule.unreachable else ""
    return f"{rule.id}  {rule.level.value}: {rule.sentence}{note}"


def _tell(verdict: Verdict, *, form: str) -> None:
    """Print a verdict: as text only if the node breaks the rule, or the check failed."""
    if form == "jsonl":
        _options.show(json.dumps(verdict.as_dict()))
    elif verdict.outcome in {"deviates", "failed"}:
        _options.show(
            f"{verdict.outcome.upper()}  {_rule(verdict.rule, form)}",
            f"    {verdict.detail}",
        )
