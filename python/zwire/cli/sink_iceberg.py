"""A batch and the position in the spool are one snapshot of the table. Needs zwire[iceberg]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire import sink
from zwire.cli import _sink

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire sink iceberg --from /var/spool/robots --to fleet.robots --catalog lake
      with the catalog of that name in the configuration of PyIceberg
  zwire sink iceberg --from /var/spool/robots --to fleet.robots --option uri=http://catalog:8181
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _sink.add_table(parser, "namespace and name of the table, with a dot between")
    parser.add_argument("--catalog", default="default", help="name of the catalog (default: default)")
    _sink.add_rows(parser)


def run(args: argparse.Namespace) -> int:
    """Append rows."""
    _sink.need("iceberg", "pyiceberg")
    table = sink.iceberg(
        args.to, catalog=args.catalog, partition_by=args.partition, options=_sink.given(args)
    )
    return _sink.run(args, table)
