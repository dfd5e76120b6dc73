"""Messages pass between Zenoh and a network of another protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire bridge zre --network zre --groups chat,robot-*
  zwire bridge mqtt mqtt://127.0.0.1:1883 'robots/#' --spool /var/spool/mqtt
"""

SUBCOMMANDS = {
    "mqtt": "pass messages between Zenoh and a broker of MQTT 3.1.1 or 5",
    "zre": "join a ZRE network: peers as tokens, groups as keys",
}
"""Name of each subcommand, which is also that of its module, and its purpose."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the subcommands share no options."""
