"""A batch and the position in the spool are one version of the table. Needs zwire[delta]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire import sink
from zwire.cli import _sink

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire sink delta --from /var/spool/robots --to /lake/robots --partition date
      until Ctrl-C or SIGTERM
  zwire sink delta --from s3://robots/spool --to s3://lake/robots --once
      the rows present now, as from cron
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _sink.add_table(parser, "folder of the table, or an address such as s3://BUCKET/PREFIX")
    _sink.add_rows(parser)


def run(args: argparse.Namespace) -> int:
    """Append rows."""
    _sink.need("delta", "deltalake")
    table = sink.delta(args.to, partition_by=args.partition, options=_sink.given(args))
    return _sink.run(args, table)
