"""Configuration files of routers and sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire config check /etc/zenohd/zenohd.json5
"""

SUBCOMMANDS = {
    "check": "print each key of a file that is wrong or has no effect, with its line",
}
"""Name of each subcommand, which is also that of its module, and its purpose."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the subcommands share no options."""
