"""Readers on the network read it with ``zwire.spool.connect``. Runs until Ctrl-C or SIGTERM."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zwire import spool
from zwire.cli import _options, _spool

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire spool serve /var/spool/robots
      as a client of the hub on this machine
  zwire spool serve /var/spool/robots -l tcp/0.0.0.0:7447
      to clients that connect to it
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _spool.add_folder(parser)
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until the command is interrupted."""
    config = _options.session_config(args)
    with _options.running(endless=True), spool.serve(args.folder, config=config) as server:
        _options.settle(server.session)
        where = "".join(f", on {endpoint}" for endpoint in server.session.listening())
        _options.say(f"serving {args.folder}, spool {server.id}{where}")
        while True:
            time.sleep(_spool.LOOK)
    return 0
