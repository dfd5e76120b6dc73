"""Commits the batches of streams as soon as Spark has committed them: the listener of ``register``.

Without it the process that plans a query commits a batch when Spark asks for the next one, which may be an
hour later. A report of that process (``reportLatestOffset``) names consumer and folders, since a listener has
no options of the query.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from zwire import spool
from zwire.errors import SpoolError
from zwire.spark.sources._offsets import Position

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_log = logging.getLogger("zwire.spark")


class Committer(StreamingQueryListener):
    """Commits what the progress of queries tells. The names of its methods are Spark's."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Commit the end of a batch, which Spark has committed before."""
        for source in event.progress.sources:
            commit(source.endOffset, source.latestOffset)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing: the progress of the last batch has come before."""


def commit(end: str | None, report: str | None) -> None:
    """Commit an offset to the folders that a report names. Of other sources both may be anything."""
    said = _object(report)
    name, folders = said.get("consumer"), said.get("folders")
    if not isinstance(name, str) or not isinstance(folders, dict):
        return
    try:
        places = Position.from_json(_object(end)).places
        for identity, offsets in places.items():
            folder = folders.get(identity)
            view = spool.open(folder) if isinstance(folder, str) else None
            if view is None or view.id != identity:
                continue
            # An event may be late: the query itself may have committed more, or have begun again at less.
            known = view.consumers().get(name)
            if (
                known is not None
                and offsets != known
                and all(offsets.get(at, -1) >= known[at] for at in known)
            ):
                view.commit(name, offsets)
    except SpoolError as error:
        # The query commits the same position with its next batch, and logs what is wrong with it.
        _log.debug("the progress of a query is not committed: %s", error)


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
