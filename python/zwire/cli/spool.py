"""A spool is a folder that keeps messages, so that readers such as Spark can read a range of them twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire spool keep --dir /var/spool/robots 'robot/**' --keep 7d
  zwire spool stat /var/spool/robots
  zwire spool cat /var/spool/robots --format jsonl -n 10
"""

SUBCOMMANDS = {
    "keep": "keep publications, events of a ZRE network, or records of ZRE/LOG in a folder",
    "serve": "serve a spool over the network, also one written by another process",
    "kafka": "serve spools to clients of Kafka, as topics",
    "secret": "print the secret with which readers on the network, or one of them, may commit",
    "stat": "print the contents: shards, offsets, gaps, consumers",
    "verify": "read all of it, and print what cannot be read",
    "compact": "merge small segments of a tier into larger ones",
    "reshard": "spread the keys of a spool with several spoolers over another number of shards",
    "cat": "print rows",
    "export": "write rows as Parquet, as a file of Arrow, or as MCAP",
}
"""Name of each subcommand, which is also that of its module, and its purpose."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the subcommands share no options."""
