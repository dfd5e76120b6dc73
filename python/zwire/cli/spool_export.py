"""The format goes by the name of the output. Needs zwire[arrow], and MCAP needs zwire[record]."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zwire._lazy import pa, pq
from zwire.cli import _options, _spool
from zwire.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

EPILOG = """\
examples:
  zwire spool export /var/spool/robots -o robots.parquet --columns key,payload,recv_ts
  zwire spool export /var/spool/robots -o robots.mcap
"""

_KINDS = ("parquet", "arrow", "mcap")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _spool.add_folder(parser)
    _spool.add_rows(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", required=True, help="file to write")
    parser.add_argument("--format", choices=_KINDS, help="default: by the name of the output")


def run(args: argparse.Namespace) -> int:
    """Write rows to a file."""
    _spool.need_pyarrow("export")
    kind = args.format or _options.kind_of(args.output)
    if kind not in _KINDS:
        raise ConfigError(f"{args.output}: export writes {', '.join(_KINDS)}: give --format", path="--format")
    if kind == "mcap" and importlib.util.find_spec("mcap") is None:
        raise ConfigError("mcap needs its own library: pip install 'zwire[record]'", path="--format")
    draft = args.output.with_name(args.output.name + ".part")
    try:
        with _spool.shown() as step:
            rows = _write(kind, _spool.batches(args, step), draft)
        if rows == 0:
            _options.say(f"zwire spool export: no rows in {args.folder}, nothing written")
            return 0
        draft.replace(args.output)
    finally:
        draft.unlink(missing_ok=True)
    _options.say(f"{rows} rows in {args.output}")
    return 0


def _write(kind: str, batches: Iterator[pa.RecordBatch], path: Path) -> int:
    """Write batches; return the number of rows."""
    if kind == "mcap":
        from zwire import recording

        return recording.write(batches, path, "mcap").rows
    make: Any = pq.ParquetWriter if kind == "parquet" else pa.ipc.new_file
    rows, writer = 0, None
    try:
        for batch in batches:
            writer = writer or make(str(path), batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    return rows
