"""Access control: which peer may send and receive what."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire acl explain --config router.json5 --user ann --put fleet/7/pose
"""

SUBCOMMANDS = {
    "explain": "print the decision about a message, and the rule that makes it",
}
"""Name of each subcommand, which is also that of its module, and its purpose."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the subcommands share no options."""
