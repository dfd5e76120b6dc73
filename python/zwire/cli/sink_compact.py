"""Sinks and readers may go on meanwhile. Engines such as Spark and Trino compact tables of Iceberg."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire import sink
from zwire.cli import _options, _sink, _spool

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire sink compact delta --to /lake/robots
  zwire sink compact parquet --to s3://lake/robots --delete 7d
      files that nothing refers to go a week after they were written
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("format", metavar="FORMAT", choices=["delta", "parquet"], help="delta or parquet")
    parser.add_argument("--to", metavar="TABLE", required=True, help="folder or address of the table")
    _options.add_several(parser, "--option", metavar="NAME=VALUE", help="an option of the store of the table")
    parser.add_argument(
        "--size", type=_spool.size, default=128 << 20, metavar="BYTES", help="of files (default: 128M)"
    )
    parser.add_argument(
        "--delete",
        type=_spool.duration,
        metavar="TIME",
        help="also delete files that the table needs no longer, when they are so old (default: keep them)",
    )


def run(args: argparse.Namespace) -> int:
    """Compact a table."""
    if args.format == "delta":
        _sink.need("delta", "deltalake")
        table: sink.Table = sink.delta(args.to, options=_sink.given(args))
    else:
        _sink.need("parquet", "pyarrow", *(["obstore"] if "://" in args.to else []))
        table = sink.parquet(args.to, options=_sink.given(args))
    done = table.compact(args.size)
    _options.say(f"{table.address}: {done.removed} files replaced by {done.added}")
    if args.delete is not None:
        _options.say(f"{table.address}: {table.vacuum(args.delete)} files deleted")
    return 0
