"""What a recording lacks, named in its file."""

from __future__ import annotations

import datetime as dt
import io
import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zwire._lazy import library, pa, pq
from zwire.errors import RecordingError
from zwire.recording._files import format_of
from zwire.recording._rows import arrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from os import PathLike

NAME = "zwire.loss"
"""Name of the metadata records of MCAP, one for each loss."""

LIST = b"zwire.losses"
"""Key of the metadata of Parquet and of batches of Arrow: a JSON array of losses."""

_MOST_RECORD = 1 << 20
"""Bytes of a metadata record of MCAP beyond which it is not one of a loss: a key has 64 KiB at most."""


class Loss(NamedTuple):
    """Samples that a recording lacks."""

    reason: str
    """``drop`` (the recorder was slower than its subscription), ``gap`` (a publisher counts, and numbers are
    missing), ``link`` (a link ended: what was published until ``reconnect`` may be missing), ``reconnect``,
    ``channels`` (the file has no channel left for a key), ``error`` (an error ended the recording before
    they were written)."""
    samples: int | None
    """Number of samples; ``None`` if that is unknown."""
    key: str | None
    """Key expression of the subscription; ``None`` for all."""
    source: str | None
    """Publisher, as ``session/entity``, as far as it is known."""
    noticed: dt.datetime
    """Time at which the recorder noticed it."""

    def texts(self) -> dict[str, str]:
        """Return the fields as texts, without those that are ``None``."""
        fields = {"reason": self.reason, "samples": self.samples, "key": self.key, "source": self.source}
        known = {name: str(value) for name, value in fields.items() if value is not None}
        return {**known, "noticed": self.noticed.isoformat()}


def written(losses: list[Loss]) -> bytes:
    """Return losses as a JSON array."""
    return json.dumps([loss.texts() for loss in losses]).encode()


def losses(path: str | PathLike[str]) -> list[Loss]:
    """Return the losses that the recorder has named in a file, in the order in which it noticed them.

    A file whose writer was killed has those of its complete part, a file of another program has none.

    Raises:
        RecordingError: The file is no recording, or the losses in it are damaged.
        ImportError: pyarrow or mcap are missing (``zwire[arrow]``, ``zwire[record]``).
    """
    path = Path(path)
    arrow()
    form = format_of(path)
    try:
        match form:
            case "mcap":
                found = list(_of_mcap(path))
            case "arrow":
                found = [loss for text in _of_arrow(path) for loss in json.loads(text)]
            case "parquet":
                with pq.ParquetFile(path) as file:
                    found = json.loads((file.metadata.metadata or {}).get(LIST, b"[]"))
            case _:
                found = []
        return [_loss(fields) for fields in found]
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
        pa.ArrowException,
    ) as error:
        raise RecordingError(f"{path}: its losses cannot be read: {error}", file=str(path)) from error


def _loss(fields: Mapping[str, Any]) -> Loss:
    count = fields.get("samples")
    return Loss(
        str(fields["reason"]),
        None if count is None else int(count),
        fields.get("key"),
        fields.get("source"),
        dt.datetime.fromisoformat(fields["noticed"]),
    )


def _of_mcap(path: Path) -> Iterator[dict[str, str]]:
    library("mcap", "record")
    from mcap.data_stream import ReadDataStream
    from mcap.exceptions import McapError
    from mcap.opcode import Opcode
    from mcap.records import Metadata

    from zwire.recording._mcap import records

    with path.open("rb") as file:
        for opcode, at, length in records(file):
            if opcode != Opcode.METADATA or length > _MOST_RECORD:
                continue
            file.seek(at)
            try:
                # Of its bytes only: a damaged length would read those of the next record.
                record = Metadata.read(ReadDataStream(io.BytesIO(file.read(length))))
            except (McapError, struct.error) as error:
                raise ValueError(f"the record at byte {at} is damaged: {error!r}") from error
            if record.name == NAME:
                yield record.metadata


def _of_arrow(path: Path) -> Iterator[bytes]:
    with pa.OSFile(str(path)) as file:
        if file.read(8).startswith(b"ARROW1"):
            file.seek(8)
        else:
            file.seek(0)
        # Files are streams between two magics, so that those without a footer are read as others are.
        reader = pa.ipc.open_stream(file)
        while True:
            try:
                _, more = reader.read_next_batch_with_custom_metadata()
            except (StopIteration, pa.ArrowException, OSError):
                return
            if more is not None and LIST in more:
                yield more[LIST]
