"""Confirmation of sent rows, by the next hop or by receivers.

===========  =============================================================================================
``ack``      ends when
===========  =============================================================================================
``none``     the queue of the session has taken the rows
``link``     the next hop has handled them: it has answered a query that was sent behind them
``barrier``  the same, and the counters of the next hop show that it has lost nothing meanwhile; or, with
             ``receipts``, receivers confirm each of the rows
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from zwire.errors import ConfigError, Undelivered
from zwire.idempotence import receipt_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zwire.spark.sources._columns import Marks
    from zwire.zenoh import Session

LOSSES = (
    "link.tx_dropped",
    "session.dropped.out_link_lost",
    "session.dropped.put_no_link",
    "links.ended.unresponsive",
    "handler.dropped",
    "node.invalid_keys",
    "node.future_dropped",
    "node.ignored",
)
"""Counters of a hop that rise where a row is lost in it: a dropped row, or rows queued for a subscriber that
the hop has given up."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.25
"""Seconds between two queries: rows arrive within milliseconds unless a hop or a receiver is slow."""


class Hop:
    """The nodes that the session is linked to, and their counters at the beginning of the task."""

    def __init__(self, session: Session, timeout: float) -> None:
        self.session = session
        self.timeout = timeout
        self.before = self._counters()

    def check(self, rows: int, dropped: int = 0) -> None:
        """Fail if a hop has lost something since the beginning; after all rows were handled.

        ``dropped`` of the rows did not get into the queue of the link. The counters do not tell the publisher
        of lost messages, so losses of other publishers fail the task as well.
        """
        after = self._counters()
        for zid, before in self.before.items():
            now = after.get(zid)
            if now is None:
                problem = f"the link to {zid}, which had to count {rows} rows, is lost"
                raise Undelivered(problem, rows=rows, missing=None)
            risen = {name: now[name] - before[name] for name in LOSSES if now[name] > before[name]}
            if risen:
                said = ", ".join(f"{name} by {by}" for name, by in risen.items())
                problem = f"{zid} has lost messages while {rows} rows were sent: {said}"
                raise Undelivered(problem, rows=rows, missing=sum(risen.values()))
            seen = now["node.pushes_in"] - before["node.pushes_in"]
            # Each of several neighbours sends what it subscribed to.
            if len(self.before) == 1 and seen < rows:
                problem = f"{zid} has taken {seen} publications while {rows} rows were sent"
                why = f"its link has dropped {dropped}" if dropped else "its policies forbid some"
                raise Undelivered(f"{problem}: {why}", rows=rows, missing=rows - seen)

    def _counters(self) -> dict[str, dict[str, int]]:
        found = {}
        info = self.session.info
        for zid in sorted(map(str, (*info.routers_zid(), *info.peers_zid()))):
            told = next(_ask(self.session, f"@/{zid}/*?_stats", self.timeout), None)
            counters = told.get("stats") if isinstance(told, dict) else None
            if not isinstance(counters, dict) or not counters.keys() >= {*LOSSES, "node.pushes_in"}:
                problem = f"ack=barrier: the next hop, {zid}, tells no counters"
                advice = "(a zwire router does, with adminspace/enabled): give receipts, or ack=link"
                raise ConfigError(f"{problem} {advice}", path="ack")
            found[zid] = counters
        return found


def check_receipts(
    session: Session, prefix: str, receivers: int, marks: Marks, rows: int, timeout: float
) -> None:
    """Wait until receivers confirm each row of this task, for ``timeout`` seconds."""
    query, batch, partition, _ = marks.identity
    asked = f"query={query.hex};batch={batch};partition={partition};rows={marks.rows}"
    selector = f"{receipt_key(prefix)}?{asked}"
    end = time.monotonic() + timeout
    pause = _FIRST_PAUSE
    counts: list[int] = []
    while True:
        left = max(_FIRST_PAUSE, end - time.monotonic())
        answers = [int(reply["rows"]) for reply in _ask(session, selector, left)]
        if len(answers) >= receivers and min(answers) >= rows:
            return
        # Receivers may be too slow for the last query, which gets the rest of the time only.
        if len(answers) >= len(counts):
            counts = answers
        if time.monotonic() + pause > end:
            break
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    if len(counts) < receivers:
        problem = f"{len(counts)} of {receivers} receivers answer on {receipt_key(prefix)}"
        raise Undelivered(f"{problem} within {timeout} s", rows=rows, missing=None)
    missing = rows - min(counts)
    problem = f"a receiver has got {min(counts)} of the {rows} rows of partition {partition}"
    raise Undelivered(f"{problem} within {timeout} s", rows=rows, missing=missing)


def _ask(session: Session, selector: str, timeout: float) -> Iterator[Any]:
    """Yield each answer, parsed as JSON; the query is sent behind all publications."""
    from zwire import zenoh

    replies = session.get(
        selector,
        target=zenoh.QueryTarget.ALL,
        consolidation=zenoh.ConsolidationMode.NONE,
        priority=zenoh.Priority.BACKGROUND,
        congestion_control=zenoh.CongestionControl.BLOCK,
        timeout=timeout,
    )
    for reply in replies:
        if reply.ok is not None:
            yield json.loads(reply.ok.payload.to_bytes())
