"""Change of the number of shards of a spool that several spoolers share by them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zwire._zwire import SpoolResharding
from zwire.errors import TimedOut

if TYPE_CHECKING:
    import os

_LOOK = 0.2
"""Seconds between two looks, of which each is a request or two."""


def reshard(place: str | os.PathLike[str], shards: int, *, timeout: float = 60.0) -> None:
    """Spread the keys of a spool over another number of shards, while spoolers write it and readers read it.

    The spool is one of spoolers with ``spread=True``, and keeps its id, its rows and their offsets. Its
    spoolers store the rows of all shards, end the shards at offsets that :meth:`Spool.changes` names, and go
    on with the new number; meanwhile they keep in memory what they receive. A key keeps the order of its
    rows, but may have another shard from the change on. Without a spooler, the change is made at once.

    Args:
        place: Address of the tier, or the folder of one of the spoolers.
        shards: The new number, up to 64, or up to that with which the spool has begun. With fewer shards than
            before, the others keep their rows and get no more.
        timeout: Seconds to wait for the change. One that was asked for is made later as well.

    Raises:
        TimedOut: The change was not made in time: the text says whether it was asked for.
        SpoolMismatch: One spooler at a time writes the spool.
        SpoolError: The number is not possible, key expressions choose the shards, there is no tier, or
            another program has asked for another number before the change was made.
        SpoolUnreachable: The tier does not answer.
    """
    resharding = SpoolResharding(place, shards)
    end = time.monotonic() + timeout
    while not resharding.step():
        if time.monotonic() >= end:
            state = (
                "was asked for, and is made as soon as the spoolers have given all shards back"
                if resharding.asked
                else "was not asked for, since a shard is on its way from one spooler to another; try again"
            )
            raise TimedOut(f"the change to {shards} shards {state}")
        time.sleep(_LOOK)
