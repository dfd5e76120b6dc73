"""Writes NAME.pem and NAME.key for each name, and authority.pem and authority.key if the folder has none.

Give the authority's certificate to every node (`transport/link/tls/root_ca_certificate`), and keep its key
where certificates are made. A certificate serves both ends of a link; its name is what rules know as
`cert_common_names`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zwire._zwire import tls_authority, tls_certificate
from zwire.cli import _keygen, _options

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire keygen tls hub --host hub.example --host 10.0.0.5 --dir certs
  zwire keygen tls robot-1 robot-2 --dir certs
"""

_AUTHORITY = "authority"

_MOST_DAYS = 36_500
"""Longest time that a certificate is valid: years of more than four digits cannot stand in one."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "names", metavar="NAME", nargs="+", help="common name of a certificate, and name of its files"
    )
    _options.add_several(
        parser,
        "--host",
        metavar="HOST",
        help="name or address that others connect to (default: localhost and 127.0.0.1)",
    )
    parser.add_argument(
        "--dir", metavar="DIR", type=Path, default=Path(), help="folder of the files (default: this one)"
    )
    _options.add_count(
        parser, "--days", default=825, help="days that the certificates are valid (default: 825)"
    )


def run(args: argparse.Namespace) -> int:
    """Make the files, and print their names."""
    folder: Path = args.dir
    if args.days > _MOST_DAYS:
        return _options.refuse("keygen tls", f"--days: at most {_MOST_DAYS:,}", 2)
    known = [folder / f"{_AUTHORITY}.pem", folder / f"{_AUTHORITY}.key"]
    if _AUTHORITY in args.names:
        return _options.refuse("keygen tls", f"{_AUTHORITY} is the name of the authority", 2)
    folder.mkdir(parents=True, exist_ok=True)
    if known[0].exists():
        certificate, key = (path.read_text(encoding="ascii") for path in known)
    else:
        # Ten years: it signs for longer than what it signs is valid.
        certificate, key = tls_authority("zwire authority", max(3650, 2 * args.days))
        _write(folder, _AUTHORITY, certificate, key)
    for name in args.names:
        hosts = args.host or ["localhost", "127.0.0.1"]
        try:
            made = tls_certificate((certificate, key), name, hosts, args.days)
        except ValueError as error:
            return _options.refuse("keygen tls", f"{name}: {error}", 2)
        _write(folder, name, *made)
    return 0


def _write(folder: Path, name: str, certificate: str, key: str) -> None:
    _keygen.write_new(folder / f"{name}.key", key, _keygen.PRIVATE)
    _keygen.write_new(folder / f"{name}.pem", certificate)
    _options.show(str(folder / f"{name}.pem"), str(folder / f"{name}.key"))
