"""Prints the public key and the secret key, each as Z85 on a line of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire import zmtp
from zwire.cli import _options

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire keygen curve
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add nothing: a pair of keys has no options."""


def run(_args: argparse.Namespace) -> int:
    """Print a pair."""
    _options.show(*zmtp.keypair())
    return 0
