"""Search for damage in recordings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zwire.errors import RecordingError, SpoolError
from zwire.recording import _mcap
from zwire.recording._files import expand

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from zwire.recording._files import Source

# Chunks of MCAP are decoded twice: by its reader, and by the search for the place.
_COLUMNS = {"key", "recv_ts", "timestamp", "kind", "payload"}


class Damage(NamedTuple):
    """Damage of a file: its rest cannot be read.

    ::

        from pathlib import Path

        with recording.Recorder(session, ["demo/**"], "run.arrow"):
            session.put("demo/a", "x")
        whole = Path("run.arrow").read_bytes()
        Path("run.arrow").write_bytes(whole[:-40])
        (damage,) = recording.damage("run.arrow")
        print(damage.rows, damage.offset < damage.size)  # 1 True
    """

    file: Path
    offset: int
    """Number of bytes up to which the file is whole; 0 if none of it can be read."""
    size: int
    """Bytes of the file."""
    rows: int
    """Samples before the damage."""
    problem: str
    """Message of the error."""


def damage(
    *sources: str | PathLike[str],
    format: str | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[Damage]:
    """Read recordings to their end, and return the damage of each file that has any.

    Args:
        sources: Files, folders of files, and spools.
        format: As of :func:`read`.
        progress: Called with the bytes read so far.

    Raises:
        RecordingError: A source is no recording.
        OSError: A file cannot be read.
    """
    found, before = [], 0
    for path in sources:
        for stream in expand(Path(path), format):
            for source in stream:
                if (problem := _read(source, before, progress)) is not None:
                    found.append(problem)
                before += source.size
    return found


def _read(source: Source, before: int, progress: Callable[[int], object] | None) -> Damage | None:
    try:
        for _ in source.read(_COLUMNS):
            if progress is not None:
                progress(before + source.position)
    except (RecordingError, SpoolError) as error:
        offset = source.position
        if source.form == "mcap":
            offset = _mcap.whole(source.path)
        elif source.form == "parquet" and not source.rows:
            offset = 0
        problem = (
            str(error)
            .removeprefix(f"{source.path}: ")
            .removeprefix(f"{source.path} after {source.rows} rows: ")
        )
        return Damage(source.path, offset, source.size, source.rows, problem)
    return None
