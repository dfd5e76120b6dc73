"""What ``zwire top`` shows: rows of keys, publishers, links and drops, and the choice among them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from zwire import zenoh
from zwire.cli import _admin, _format, _watch
from zwire.errors import KeyExprError, ZwireError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zwire.zenoh import Session

MOST = 20_000
"""Keys that are kept. Each takes about a kilobyte, its last value not counted."""

QUEUE = 65_536
"""Samples that wait while rows are made and nodes are asked."""

_AT_ONCE = 4096
"""Samples that are counted before the rows may be read again."""

Row = dict[str, Any]


class Column(NamedTuple):
    """A column of a table: the field of its rows, and whether greater values come first."""

    name: str
    descends: bool = True


VIEWS: dict[str, tuple[Column, ...]] = {
    "keys": (
        Column("key", descends=False),
        Column("rate"),
        Column("bytes_per_second"),
        Column("samples"),
        Column("latency_ms"),
        Column("worst_ms"),
        Column("age"),
        Column("publishers"),
        Column("type", descends=False),
        Column("value", descends=False),
    ),
    "publishers": (
        Column("publisher", descends=False),
        Column("keys"),
        Column("samples"),
        Column("bytes"),
        Column("worst_ms"),
    ),
    "links": (
        Column("node", descends=False),
        Column("peer", descends=False),
        Column("role", descends=False),
        Column("link", descends=False),
        Column("waiting_bytes"),
        Column("capacity_bytes"),
        Column("tx_per_second"),
        Column("rx_per_second"),
        Column("dropped"),
    ),
    "drops": (
        Column("node", descends=False),
        Column("reason", descends=False),
        Column("count"),
        Column("per_second"),
    ),
}
"""Columns of each view; the second is the one by which it is sorted at first."""


class Board:
    """Counts what arrives at a session, and asks nodes for their counters."""

    def __init__(self, session: Session, key: str) -> None:
        self.session = session
        self.key = key
        # A look at the network must not slow it down: what is too much is counted as handler.dropped.
        self.subscriber = session.declare_subscriber(key, zenoh.handlers.Channel(QUEUE, full="drop_newest"))
        self._lock = threading.Lock()
        self._keys = _watch.Keys(MOST)
        self._told: dict[str, dict[str, Any]] = {}
        self._drops: dict[tuple[str, str], float] = {}
        self._marks: dict[str, tuple[int, int]] = {}
        self._links: dict[tuple[str, str], tuple[int, int]] = {}
        self._last = time.monotonic()

    def count(self, timeout: float) -> None:
        """Count the samples that come within that time."""
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            samples = self.subscriber.recv_many(_AT_ONCE, timeout=left)
            with self._lock:
                for sample in samples:
                    self._keys.add(sample)

    def ask(self, timeout: float) -> None:
        """Ask each node for its links and counters; nodes without an admin space are missing."""
        told = _admin.roots(self.session, timeout, stats=True)
        with self._lock:
            self._told = told

    def snapshot(self, end: float | None = None) -> dict[str, Any]:
        """Return the rows of each view; rates are those since the snapshot before, until ``end`` or now."""
        with self._lock:
            now = time.monotonic() if end is None else end
            seconds, self._last = max(now - self._last, 1e-9), now
            keys = [self._key_row(key, seconds) for key in self._keys.keys.values()]
            publishers = self._publisher_rows()
            links = self._link_rows(seconds)
            drops = self._drop_rows(seconds)
            return {
                "node": str(self.session.zid()),
                "key": self.key,
                "seconds": round(seconds, 3),
                "rate": round(sum(row["rate"] for row in keys), 1),
                "bytes_per_second": round(sum(row["bytes_per_second"] for row in keys), 1),
                "samples": sum(key.samples for key in self._keys.keys.values()) + self._keys.refused,
                "left_out": self._keys.refused,
                "keys": keys,
                "publishers": publishers,
                "links": links,
                "drops": drops,
            }

    def _key_row(self, key: _watch.Key, seconds: float) -> Row:
        samples, size = self._marks.get(key.key, (0, 0))
        self._marks[key.key] = key.samples, key.bytes
        deleted = key.last.kind == zenoh.SampleKind.DELETE
        return {
            "key": key.key,
            "rate": round((key.samples - samples) / seconds, 1),
            "bytes_per_second": round((key.bytes - size) / seconds, 1),
            "samples": key.samples,
            "bytes": key.bytes,
            "latency_ms": _milliseconds(key.latency),
            "worst_ms": _milliseconds(key.worst),
            "age": round(max(0.0, time.time() - key.arrived), 1),
            "publishers": sorted(key.publishers),
            "type": "deleted" if deleted else _watch.type_of(key.last),
            "value": "" if deleted else _format.shown(key.last.payload),
        }

    def _publisher_rows(self) -> list[Row]:
        rows: dict[str, Row] = {}
        for key in self._keys.keys.values():
            for publisher in key.publishers:
                row = rows.setdefault(
                    publisher,
                    {"publisher": publisher, "keys": 0, "samples": 0, "bytes": 0, "worst_ms": None},
                )
                row["keys"] += 1
                # Of a key with several publishers, each is shown with the sum of all.
                row["samples"] += key.samples
                row["bytes"] += key.bytes
                worst = [each for each in (row["worst_ms"], _milliseconds(key.worst)) if each is not None]
                row["worst_ms"] = max(worst, default=None)
        return list(rows.values())

    def _link_rows(self, seconds: float) -> list[Row]:
        rows = []
        own = str(self.session.zid())
        for link in self.session.stats()["per_link"]:
            ends = link["src"], link["dst"]
            sent, got = self._links.get(ends, (link["tx_bytes"], link["rx_bytes"]))
            self._links[ends] = link["tx_bytes"], link["rx_bytes"]
            rows.append(
                {
                    "node": own,
                    "peer": link["zid"],
                    "role": link["whatami"],
                    "link": f"{link['src']} - {link['dst']}",
                    "waiting_bytes": sum(lane["waiting_bytes"] for lane in link["lanes"].values()),
                    "capacity_bytes": sum(lane["capacity_bytes"] for lane in link["lanes"].values()),
                    "tx_per_second": round((link["tx_bytes"] - sent) / seconds, 1),
                    "rx_per_second": round((link["rx_bytes"] - got) / seconds, 1),
                    "dropped": link["tx_dropped"],
                }
            )
        unknown = dict.fromkeys(
            ("waiting_bytes", "capacity_bytes", "tx_per_second", "rx_per_second", "dropped")
        )
        rows += [
            {"node": zid, "peer": neighbour["peer"], "role": neighbour["whatami"], "link": link} | unknown
            for zid, root in self._told.items()
            for neighbour in root["sessions"]
            for link in neighbour["links"]
        ]
        return rows

    def _drop_rows(self, seconds: float) -> list[Row]:
        counted: dict[tuple[str, str], float] = {}
        own = str(self.session.zid())
        for zid, stats in [
            (own, dict(self.session.stats())),
            *((z, r["stats"]) for z, r in self._told.items()),
        ]:
            for name, number in stats.items() if isinstance(stats, dict) else ():
                # The sum of others, and the rates, are no reasons.
                if isinstance(number, int) and number and "drop" in name and not name.startswith("drops"):
                    counted[zid, name] = number
        rows = [
            {
                "node": zid,
                "reason": name,
                "count": number,
                "per_second": round((number - self._drops.get((zid, name), number)) / seconds, 1),
            }
            for (zid, name), number in counted.items()
        ]
        self._drops = counted
        return rows


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e3, 3)


class Choice(NamedTuple):
    """What a text asks for: words to find, the column to sort by, and whether the greatest comes first."""

    words: tuple[str, ...]
    column: str
    descends: bool


def choice(text: str, view: str) -> Choice:
    """Read what is typed: words to find; ``>rate`` or ``<rate`` sorts by a column that begins so."""
    columns = VIEWS[view]
    words, column, descends = [], columns[1].name, columns[1].descends
    for word in text.split():
        if word[0] in "<>":
            named = [each for each in columns if each.name.startswith(word[1:].lower())]
            if len(word) > 1 and named:
                column, descends = named[0].name, word[0] == ">"
        else:
            words.append(word.lower())
    return Choice(tuple(words), column, descends)


def chosen(rows: Sequence[Row], text: str, view: str) -> list[Row]:
    """Return the rows that a text asks for, in its order; a word with a * is a key expression."""
    wanted = choice(text, view)
    found = [row for row in rows if all(_has(row, word) for word in wanted.words)]
    # Rows without a value come last in either order.
    known = [row for row in found if row[wanted.column] is not None]
    known.sort(key=lambda row: _order(row[wanted.column]), reverse=wanted.descends)
    return known + [row for row in found if row[wanted.column] is None]


def _order(value: object) -> Any:  # noqa: ANN401 - of one column, of one type
    return len(value) if isinstance(value, list) else value


def _has(row: Row, word: str) -> bool:
    if "*" in word and "key" in row:
        try:
            return zenoh.KeyExpr(word).intersects(str(row["key"]).lower())
        except (KeyExprError, ZwireError):
            return False
    return any(word in str(value).lower() for value in row.values())
