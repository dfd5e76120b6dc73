"""Decides as a router does, with the rules of a file, or with those that a running router has now.

Exit code 0: the message passes; 1: it is refused; 2: the question is wrong; 3: no router has answered.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zwire import zenoh
from zwire._zwire import config_explain
from zwire.cli import _options
from zwire.errors import ConfigError, ConnectError

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire acl explain --config router.json5 --user ann --put fleet/7/pose
  zwire acl explain --connect tcp/10.0.0.5:7447 --certificate robot-7 --declare-subscriber 'fleet/**'
      of the router there, with the rules that it has now
"""

_KINDS = (
    "put",
    "delete",
    "query",
    "reply",
    "declare_subscriber",
    "declare_queryable",
    "liveliness_token",
    "liveliness_query",
    "declare_liveliness_subscriber",
)
"""Kinds of messages, by their names in rules."""

_TIMEOUT = 5.0
"""Seconds for the answer of a router."""


def _zid(text: str) -> str:
    """Check the id of a node."""
    if re.fullmatch(r"(?!0)[0-9a-f]{1,32}", text) is None:
        raise _options.expected("1 to 32 lower-case hexadecimal digits, the first not 0", text)
    return text


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    rules = parser.add_argument_group("rules").add_mutually_exclusive_group(required=True)
    rules.add_argument("-c", "--config", metavar="FILE", type=Path, help="configuration as JSON5 or YAML")
    rules.add_argument(
        "-e", "--connect", metavar="ENDPOINT", help="endpoint of a router whose admin space may be read"
    )
    link = parser.add_argument_group("link", "What rules know of the peer.")
    link.add_argument("--user", help="user name that it has logged in with")
    link.add_argument("--certificate", metavar="NAME", help="common name of its certificate")
    link.add_argument("--zid", metavar="HEX", type=_zid, help="id of its node")
    link.add_argument("--protocol", default="tcp", help="protocol of the link (default: tcp)")
    link.add_argument("--interface", metavar="NAME", help="interface of the router that it has come by")
    message = parser.add_argument_group("message").add_mutually_exclusive_group(required=True)
    for kind in _KINDS:
        option = f"--{kind.replace('_', '-')}"
        message.add_argument(
            option, metavar="KEY", dest=kind, type=_options.key, help=f"a message of the kind {kind}"
        )
    parser.add_argument(
        "--flow",
        choices=["ingress", "egress"],
        default="ingress",
        help="whether the peer sends the message or would receive it (default: ingress)",
    )
    _options.add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the decision."""
    message = next(kind for kind in _KINDS if getattr(args, kind) is not None)
    key = getattr(args, message)
    try:
        found = _of_router(args, message, key) if args.config is None else _of_file(args, message, key)
    except ConnectError as error:
        return _options.refuse("acl explain", f"{error}{_options.advice(error)}", 3)
    if found is None:
        return _options.refuse(
            "acl explain", f"no router has answered at {args.connect}; may its admin space be read?", 3
        )
    if "error" in found:
        raise ConfigError(found["error"])
    if args.format == "jsonl":
        _options.show(json.dumps(found))
    else:
        _options.show(f"{'allowed' if found['allowed'] else 'denied'}: {found['reason']}")
        if found["rule"] is not None:
            _options.show(
                f"  by access_control/policies/{found['policy']}, for the subject {found['subject']}"
            )
        if found["others"]:
            _options.show(f"  rules about this key that do not decide here: {', '.join(found['others'])}")
    return 0 if found["allowed"] else 1


def _of_file(args: argparse.Namespace, message: str, key: str) -> dict[str, Any]:
    config = zenoh.Config.from_file(args.config)
    answer = config_explain(
        config,
        message,
        args.flow,
        key,
        user=args.user,
        certificate=args.certificate,
        zid=args.zid,
        interfaces=[args.interface] if args.interface else [],
        protocol=args.protocol,
    )
    return dict(json.loads(answer))


def _of_router(args: argparse.Namespace, message: str, key: str) -> dict[str, Any] | None:
    names = ("user", "certificate", "zid", "protocol", "interface")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    words = {"message": message, "flow": args.flow, "key": key, **given}
    for name, value in words.items():
        if ";" in value:
            raise ConfigError(f"{name} {value}: a router cannot be asked about a text with `;`; use --config")
    parameters = ";".join(f"{name}={value}" for name, value in words.items())
    config = {"mode": "client", "connect/endpoints": [args.connect]}
    with _options.stop_signals(), zenoh.open(config) as session:
        routers = session.info.routers_zid()
        for router in routers:
            for reply in session.get(f"@/{router}/router/status/access?{parameters}", timeout=_TIMEOUT):
                if reply.ok is not None:
                    return dict(json.loads(reply.ok.payload.to_bytes()))
    return None
