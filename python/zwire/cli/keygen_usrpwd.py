"""Appends USER:PASSWORD to a file of users, `transport/auth/usrpwd/dictionary_file`, and prints the password.

A router reads the file when it starts, and at SIGHUP.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from zwire.cli import _keygen, _options

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire keygen usrpwd ann --file users.txt
"""

_BYTES = 24
"""Random bytes of a password: more than can be tried."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("user", metavar="USER", help="name of the user")
    parser.add_argument("--file", metavar="FILE", type=Path, required=True, help="file of users")


def run(args: argparse.Namespace) -> int:
    """Add the user."""
    if not args.user or ":" in args.user or not args.user.isprintable() or args.user != args.user.strip():
        return _options.refuse("keygen usrpwd", "a name has no colon, and no space at its ends", 2)
    if not args.file.exists():
        _keygen.write_new(args.file, "", _keygen.PRIVATE)
    text = args.file.read_text(encoding="utf-8")
    if args.user in (line.partition(":")[0] for line in text.splitlines()):
        return _options.refuse("keygen usrpwd", f"{args.file} has a user {args.user} already", 1)
    password = secrets.token_urlsafe(_BYTES)
    begin = "" if not text or text.endswith("\n") else "\n"
    with args.file.open("a", encoding="utf-8") as file:
        file.write(f"{begin}{args.user}:{password}\n")
    _options.show(password)
    return 0
