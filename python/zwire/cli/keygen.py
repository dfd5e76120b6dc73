"""Keys and certificates for links: existing files are never replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire keygen tls hub robot-7 --host hub.example --dir certs
  zwire keygen usrpwd ann --file users.txt
  zwire keygen curve
"""

SUBCOMMANDS = {
    "tls": "make certificates for TLS and QUIC, and the authority that signs them",
    "usrpwd": "add a user with a random password to a file of users",
    "curve": "print a pair of CURVE keys, for ZeroMQ sockets and ZRE nodes",
}
"""Name of each subcommand, which is also that of its module, and its purpose."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the subcommands share no options."""
