"""Selection of the files of a source, and their distribution over partitions."""

from __future__ import annotations

import fnmatch
import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zwire.spark._read import local_path
from zwire.spark.sources._options import named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zwire.spark.sources._options import Options

FILES = named("path paths pathGlobFilter recursiveFileLookup maxPartitionBytes minPartitions")
"""Options of sources that read files, with the names that Spark has for them."""

_OPEN_COST = 4 << 20
"""Cost of opening a file, in bytes that could be read meanwhile (as in Spark): packs small files together."""

_GLOB = frozenset("*?[")


class File(NamedTuple):
    """An existing file."""

    path: str
    size: int


def listed(options: Options) -> list[File]:
    """Find the files, in the order of their names. A folder stands for its files without hidden ones."""
    single = options.text("path")
    given = [*([] if single is None else [single]), *options.listed("paths")]
    if not given:
        raise options.error("path", "is missing: give a file, a folder or a glob to load()")
    wanted = options.text("pathGlobFilter")
    deep = options.flag("recursiveFileLookup", default=False)
    found: dict[str, int] = {}
    for name in given:
        try:
            local = os.path.abspath(local_path(name))  # noqa: PTH100 - it has to stay a text
        except OSError as error:
            raise options.error("path", f"{name!r}: {error}") from None
        matches = sorted(glob.glob(local, recursive=True)) if _GLOB & set(local) else []  # noqa: PTH207 - the same
        for match in matches or [local]:
            if not os.path.lexists(match):
                raise options.error("path", f"{name!r}: there is no such file or folder")
            for path in _below(Path(match), deep=deep):
                if wanted is None or fnmatch.fnmatchcase(path.name, wanted):
                    found[str(path)] = path.stat().st_size
    return [File(path, size) for path, size in sorted(found.items())]


def _below(path: Path, *, deep: bool) -> Iterator[Path]:
    """Yield the files of a path; those of nested folders only with ``deep``."""
    if not path.is_dir():
        yield path
        return
    for entry in sorted(path.iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            if deep:
                yield from _below(entry, deep=True)
        elif entry.is_file():
            yield entry


def packed(files: list[File], options: Options) -> list[list[str]]:
    """Spread files over partitions as Spark does: enough for all cores, small ones together, none split."""
    most = options.size("maxPartitionBytes", 128 << 20)
    # The planning driver does not know the executors; its own machine is a guess that suits local sessions.
    least = options.integer("minPartitions", 2 * (os.cpu_count() or 1), least=1)
    total = sum(file.size + _OPEN_COST for file in files)
    bound = min(most, max(_OPEN_COST, total // least))
    parts: list[list[str]] = []
    room = 0
    for file in sorted(files, key=lambda file: (-file.size, file.path)):
        cost = file.size + _OPEN_COST
        if not parts or cost > room:
            parts.append([])
            room = bound
        parts[-1].append(file.path)
        room -= cost
    return parts
