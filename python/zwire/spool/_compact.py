"""Compaction of the tier of a spool that no spooler writes."""

from __future__ import annotations

import os
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

from zwire._zwire import SpoolCompactor
from zwire.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK = 0.5
"""Seconds of a sleep, which Ctrl-C ends."""


class Compaction(NamedTuple):
    """The result of :func:`compact`."""

    segments: int
    """Segments that were replaced by larger ones."""
    into: int
    """The number of those."""
    bytes: int
    """Their size."""
    orphans: int
    """Objects of interrupted uploads and merges that were deleted."""
    orphan_bytes: int
    """Their size."""


def compact(
    place: str | os.PathLike[str],
    *,
    segment_bytes: int = 64 << 20,
    orphan_seconds: float = 86400.0,
    grace_seconds: float = 60.0,
    progress: Callable[[int, int], object] | None = None,
) -> Compaction:
    """Merge neighbouring small segments in the tier of a spool into larger ones; rows and offsets stay.

    A spooler with a tier does so by itself (:class:`Retention`); this is for a spool that none writes at the
    moment, and may also run beside one. Readers go on meanwhile.

    Args:
        place: Address of the tier, or the folder of the spool.
        segment_bytes: Largest size of a merged segment in bytes. A temporary file takes as much.
        orphan_seconds: Age at which objects are deleted that belong to no segment: those of an upload or a
            merge that was interrupted. An upload in progress has to be younger.
        grace_seconds: Time for which replaced segments stay, at least a second, which the call waits for.
            Readers of earlier versions do not look for the new ones in the middle of a segment.
        progress: Called after each merge, with the numbers of segments replaced and of new ones so far.

    Raises:
        ConfigError: An option is wrong.
        SpoolError: The spool has no tier, or there is none.
        SpoolUnreachable: The tier does not answer.
    """
    if segment_bytes <= 0:
        problem = f"segment_bytes: {segment_bytes} is not a positive size"
        raise ConfigError(problem, path="segment_bytes")
    compactor = SpoolCompactor(place, grace_seconds)
    segments = into = size = 0
    with tempfile.TemporaryDirectory(prefix="zwire-compact-") as folder:
        scratch = os.path.join(folder, "merging")  # noqa: PTH118 - pathlib would be a third of the import.
        while (merged := compactor.step(segment_bytes, scratch)) is not None:
            if merged[0]:
                segments, into, size = segments + merged[0], into + 1, size + merged[1]
            if progress is not None:
                progress(segments, into)
    while (left := compactor.retires_in) is not None:
        time.sleep(min(left, _LOOK))
        compactor.retire()
    orphans, orphan_bytes = compactor.sweep(orphan_seconds)
    return Compaction(segments, into, size, orphans, orphan_bytes)
