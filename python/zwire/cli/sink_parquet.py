"""A batch and the position in the spool are one entry of a log. Needs zwire[arrow], stores zwire[parquet]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire import sink
from zwire.cli import _sink

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire sink parquet --from /var/spool/robots --to /lake/robots --partition date,key
  zwire sink parquet --from /var/spool/robots --to s3://lake/robots --every 1m
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _sink.add_table(parser, "folder of the files, or an address such as s3://BUCKET/PREFIX")
    _sink.add_rows(parser)


def run(args: argparse.Namespace) -> int:
    """Append rows."""
    _sink.need("parquet", "pyarrow", *(["obstore"] if "://" in args.to else []))
    table = sink.parquet(args.to, partition_by=args.partition, options=_sink.given(args))
    return _sink.run(args, table)
