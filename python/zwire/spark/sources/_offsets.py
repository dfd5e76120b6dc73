"""Positions in spools: as Spark keeps them in checkpoints, and as users write them into options.

One spool is ``{"v": 1, "spool": "<id>", "s": {"0": 12, "1": 9}}``, several are
``{"v": 1, "spools": {"<id>": {"0": 12}, "<id>": {"0": 3}}}``. Spark compares them as text, so spools and
shards are always in order. Offsets are those of the next row. ``consumer`` is the name under which a query
commits its position to the spools; it stays the same as long as its checkpoint does.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zwire.errors import SpoolMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zwire.spark.sources._options import Options

    Offsets = dict[int, int]
    """Offsets of the next row, by shard."""

    Places = dict[str, Offsets]
    """Offsets of several spools, by their ids."""

    Marks = Mapping[str, Mapping[int, Mapping[str, int]]]
    """Marks of shards, by the ids of their spools."""

VERSION = 1

GAPS = -1
"""Shard number that stands for the log of gaps."""

_GAPS = "gaps"

LATEST, EARLIEST = -1, -2
"""Special offsets, as in the options of Kafka's source."""

_MOST = (1 << 63) - 1


@dataclass(frozen=True)
class Position:
    """The position of a query in its spools."""

    places: Places
    consumer: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that Spark keeps."""
        spools = {
            name: {_name(shard): self.places[name][shard] for shard in sorted(self.places[name])}
            for name in sorted(self.places)
        }
        found: dict[str, Any] = {"v": VERSION}
        if len(spools) == 1:
            ((found["spool"], found["s"]),) = spools.items()
        else:
            found["spools"] = spools
        if self.consumer is not None:
            found["consumer"] = self.consumer
        return found

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Position:
        """Read the JSON that Spark has kept; refuse that of another source, or of a later version."""
        try:
            consumer = found.get("consumer")
            return cls(_places(found, _offset(0)), None if consumer is None else _text(consumer))
        except _WrongError as error:
            raise SpoolMismatch(f"these are no offsets of spools: {error}: {found!r}") from None


def _name(shard: int) -> str:
    return _GAPS if shard == GAPS else str(shard)


class _WrongError(Exception):
    """The reason why a value is no offsets."""


def _places(found: Mapping[str, Any], value: Callable[[object], int]) -> Places:
    if found.get("v") != VERSION:
        raise _WrongError(f"version {found.get('v')!r} is unknown, this is {VERSION}")
    spools = {found["spool"]: found.get("s")} if "spool" in found else found.get("spools")
    if not isinstance(spools, dict):
        raise _WrongError("there is neither 'spool' nor 'spools'")
    return {_text(name): _offsets(each, value) for name, each in spools.items()}


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise _WrongError(f"{found!r} is no text")
    return found


def _offsets(found: object, value: Callable[[object], int]) -> Offsets:
    if not isinstance(found, dict):
        raise _WrongError(f"{found!r} is no object with offsets by shard")
    offsets: Offsets = {}
    for name, each in found.items():
        if name != _GAPS and not re.fullmatch(r"[0-9]{1,9}", name):
            raise _WrongError(f"{name!r} is no shard")
        offsets[GAPS if name == _GAPS else int(name)] = value(each)
    return offsets


def _offset(least: int) -> Callable[[object], int]:
    """Return the reader of offsets that are ``least`` or more."""

    def read(found: object) -> int:
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= _MOST:
            raise _WrongError(f"{found!r} is no offset")
        return found

    return read


def asked(options: Options, which: str, marks: Marks) -> str | Places | None:
    """Return the value of ``<which>Offsets``: ``earliest``, ``latest``, or offsets of the spools.

    An offset of -2 is the earliest and -1 the latest, as with Kafka. Of a single spool ``{"0": 12, "1": 9}``
    is enough.
    """
    name = f"{which}Offsets"
    text = options.text(name)
    if text is None:
        return None
    edge = text.strip().lower() if text.strip().lower() in ("earliest", "latest") else None
    try:
        found: Any = None if edge else json.loads(text)
    except ValueError:
        found = None
    if edge is None and not isinstance(found, dict):
        raise options.error(name, f"must be earliest, latest or JSON with offsets, not {text!r}")
    for other in (f"{which}Timestamp", f"{which}OffsetsByTimestamp"):
        if other in options:
            raise options.error(name, f"and {other} exclude each other")
    return edge if edge is not None else _by_shard(options, name, found, marks, _offset(EARLIEST))


def times(options: Options, which: str, marks: Marks) -> Places | None:
    """Return ``<which>Timestamp`` or ``<which>OffsetsByTimestamp``: microseconds since 1970 of each shard."""
    name = f"{which}OffsetsByTimestamp"
    one = options.instant(f"{which}Timestamp")
    text = options.text(name)
    if text is None:
        return None if one is None else {spool: dict.fromkeys(shards, one) for spool, shards in marks.items()}
    try:
        found: Any = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise options.error(name, f"must be JSON with times by shard, not {text!r}")
    if one is not None:
        raise options.error(name, f"and {which}Timestamp exclude each other")
    return _by_shard(options, name, found, marks, lambda each: options.moment(name, str(each)))


def _by_shard(
    options: Options, name: str, found: dict[str, Any], marks: Marks, value: Callable[[object], int]
) -> Places:
    """Return the values of an option for all shards of the spools that are read, and for no others."""
    try:
        if not found.keys().isdisjoint(("v", "spool", "spools")):
            given = _places({"v": VERSION, **found}, value)
        elif len(marks) == 1:
            given = dict.fromkeys(marks, _offsets(found, value))
        else:
            what = 'has no spools, and there are several: {"spools": {"<id>": {"0": 12}}}'
            raise options.error(name, what)
    except _WrongError as error:
        raise options.error(name, f"is wrong: {error}") from None
    if set(given) != set(marks):
        here, there = (" and ".join(f"spool {spool}" for spool in sorted(ids)) for ids in (given, marks))
        raise options.error(name, f"is about {here}, and what is read is {there}")
    for spool, shards in marks.items():
        if set(given[spool]) != set(shards):
            problem = f"has shards {sorted(given[spool])} of spool {spool}, which has {sorted(shards)}"
            raise options.error(name, problem)
    return given
