"""Prints its endpoints, one per line, as soon as clients can connect, and runs until SIGINT or SIGTERM."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

from zwire import zenoh
from zwire.cli import _options
from zwire.errors import ConfigError

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire router
      a hub for this machine, on tcp/127.0.0.1:7447
  zwire router --listen tcp/0.0.0.0:7447
      a hub for the network
  zwire router --listen tcp/127.0.0.1:0 --tap hub.pcap
      a hub on a free port that writes all its traffic to a capture
"""

# A signal that reaches another thread, or this one just before it waits, is seen when the wait ends.
_LOOK_SECONDS = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    _options.add_network(parser, mode="router")


def run(args: argparse.Namespace) -> int:
    """Run the hub until it is interrupted."""
    config = _options.session_config(args)
    if (mode := json.loads(config.get_json("mode"))) != "router":
        raise ConfigError(f'a hub has mode "router", not "{mode}"')
    with _options.running(endless=True), zenoh.open(config) as session:
        _options.show(*session.listening())
        _options.say(f"hub {session.zid()} is ready, Ctrl-C ends it")
        never = threading.Event()
        while not never.wait(_LOOK_SECONDS):
            pass
    return 0
