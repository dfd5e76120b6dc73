"""Prints the address of the page, and serves it until SIGINT or SIGTERM.

The page is that of a client of ENDPOINT. It subscribes to `**`, so that all publications travel to it; the
page has a field for another key. Nodes, links and drops are those of nodes with an admin space, which is on
for `zwire router` and `zenohd`. `zwire router --ui` serves the same page without a second process.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from zwire import http, zenoh
from zwire.cli import _options

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire ui
      the page of the router of this machine, at http://127.0.0.1:8000/
  zwire ui tcp/192.168.1.5:7447 --port 8080
  zwire ui --port 0.0.0.0:8080 --token-file token.txt
      for other machines, and clients with the token alone
"""

_LOOK_SECONDS = 0.2
"""A signal that reaches another thread is seen when this wait ends."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "endpoint",
        nargs="?",
        metavar="ENDPOINT",
        help=f"endpoint to connect to, the same as --connect (default: {_options.DEFAULT_ENDPOINT})",
    )
    parser.add_argument(
        "--port",
        metavar="[HOST:]PORT",
        type=address,
        default=http.LISTEN,
        help=f"where the page is served; a port alone is that of 127.0.0.1 (default: {http.LISTEN})",
    )
    parser.add_argument("--write", action="store_true", help="let the page also publish")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help="serve only clients with the token in the first line of this file",
    )
    _options.add_network(parser)


def address(text: str) -> str:
    """Read an address to listen on."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) >= 1 << 16:
        raise _options.expected("[HOST:]PORT", text)
    return f"{host or '127.0.0.1'}:{port}"


def run(args: argparse.Namespace) -> int:
    """Serve the page until it is interrupted."""
    if args.endpoint is not None:
        args.connect = [args.endpoint, *args.connect]
    config = _options.session_config(args)
    if not _options.given(config, "adminspace/enabled"):
        # The page shows drops and log of its own node as those of others.
        config.insert_json5("adminspace/enabled", "true")
    tokens = [] if args.token_file is None else [_token(args.token_file)]
    with (
        _options.running(endless=True),
        zenoh.open(config) as session,
        http.serve(
            session,
            args.port,
            rest=False,
            ui="write" if args.write else True,
            read_only=not args.write,
            origins=[],
            tokens=tokens,
        ) as server,
    ):
        _options.show(f"{server.url}/")
        if not tokens and not args.port.startswith(("127.", "localhost:", "[::1]:")):
            _options.say("note: clients of this port see all keys; --token-file FILE asks them for a token")
        while True:
            # No wait for an Event: a signal within its Python code can raise RuntimeError for its lock.
            time.sleep(_LOOK_SECONDS)
    return 0


def _token(path: Path) -> http.Token:
    lines = path.read_text(encoding="utf-8").splitlines()
    return http.Token(lines[0].strip() if lines else "", user="ui")
