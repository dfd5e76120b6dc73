"""Rows come in the order of their offsets, shard after shard. Needs zwire[arrow]."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from zwire.cli import _format, _options, _spool

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire spool cat /var/spool/robots -n 10
  zwire spool cat /var/spool/robots --format jsonl --since 2026-11-22T08:00:00+00:00
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _spool.add_folder(parser)
    _spool.add_rows(parser)
    _options.add_count(parser, "-n", "--count", help="no more rows than these")
    _options.add_format(parser, _format.HELP)
    _format.add_payload(parser)


def run(args: argparse.Namespace) -> int:
    """Print rows."""
    _spool.need_pyarrow("cat")
    left = args.count
    for batch in _spool.batches(args):
        rows = batch.to_pylist() if left is None else batch.slice(0, left).to_pylist()
        _options.show(*(_json(row, args.payload) if args.format == "jsonl" else _text(row) for row in rows))
        if left is not None:
            left -= len(rows)
            if left == 0:
                break
    return 0


def _text(row: dict[str, Any]) -> str:
    parts = []
    for name, value in row.items():
        if isinstance(value, bytes):
            parts.append(f"{name}={_format.shown(value)}")
        elif value is not None:
            parts.append(f"{name}={value.isoformat() if isinstance(value, datetime) else value}")
    return " ".join(parts)


def _json(row: dict[str, Any], form: str) -> str:
    fields = {name: _plain(value) for name, value in row.items()}
    if "payload" in row:
        fields |= _format.payload_fields(row["payload"], row.get("encoding") or "", form)
    if "attachment" in row:
        fields |= _format.attachment_fields(row["attachment"], form)
    return json.dumps(fields)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        pairs = value and isinstance(value[0], tuple)
        return dict(value) if pairs else [_plain(item) for item in value]
    return value
