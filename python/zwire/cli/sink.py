"""A sink appends the rows of a spool to a table, each once, also if it is killed at any moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire sink delta --from /var/spool/robots --to /lake/robots --partition date
  zwire sink parquet --from s3://robots/spool --to s3://lake/robots --once
  zwire sink iceberg --from /var/spool/robots --to fleet.robots --catalog lake
"""

SUBCOMMANDS = {
    "delta": "append the rows of a spool to a table of Delta Lake",
    "iceberg": "append the rows of a spool to a table of Apache Iceberg",
    "parquet": "append the rows of a spool to a folder of Parquet with a log of commits",
    "compact": "replace small files of a table, and delete files that it needs no longer",
}
"""Name of each subcommand, which is also that of its module, and its purpose."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the subcommands that write share their options in ``_sink``."""
