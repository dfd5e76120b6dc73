"""Keys that a command sees: counts, rates, latency and last value of each."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zwire.zenoh import SampleKind

if TYPE_CHECKING:
    from zwire.zenoh import Sample

_PUBLISHERS = 16
"""Publishers that are named for a key; more are counted as further ones."""

_TYPED = 64 * 1024
"""Bytes of a payload that are parsed to find its type; a longer one is told by its encoding alone."""


@dataclass
class Key:
    """A key with its last sample."""

    key: str
    last: Sample
    samples: int = 0
    bytes: int = 0
    deletions: int = 0
    publishers: set[str] = field(default_factory=set)
    """Where it came from: the entity in its source info, else the node of its time stamp."""
    latency: float | None = None
    """Seconds from the time stamp of the last sample to its arrival; with the difference of the clocks."""
    worst: float | None = None
    arrived: float = 0.0

    def add(self, sample: Sample, now: float) -> None:
        """Count a sample."""
        self.last, self.arrived = sample, now
        self.samples += 1
        self.bytes += len(sample.payload)
        self.deletions += sample.kind == SampleKind.DELETE
        if sample.timestamp is not None:
            self.latency = now - sample.timestamp.get_time_as_ntp64().as_secs_f64()
            self.worst = self.latency if self.worst is None else max(self.worst, self.latency)
        if (source := source_of(sample)) is not None and len(self.publishers) < _PUBLISHERS:
            self.publishers.add(source)


class Keys:
    """The keys of samples, at most a number of them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.keys: dict[str, Key] = {}
        self.refused = 0
        """Samples of keys beyond that number."""

    def add(self, sample: Sample) -> None:
        """Count a sample."""
        name = str(sample.key_expr)
        key = self.keys.get(name)
        if key is None:
            if len(self.keys) >= self.most:
                self.refused += 1
                return
            key = self.keys[name] = Key(name, sample)
        key.add(sample, time.time())


def source_of(sample: Sample) -> str | None:
    """Return the publisher of a sample, as far as it says: an entity, else the clock that stamped it."""
    if sample.source_info is not None:
        source = sample.source_info.source_id
        return f"{source.zid}/{source.eid}"
    return None if sample.timestamp is None else str(sample.timestamp.get_id())


def type_of(sample: Sample) -> str:
    """Return the type of a value in a word: of JSON that of the value, else the encoding."""
    encoding = str(sample.encoding)
    name = encoding.partition(";")[0]
    if len(sample.payload) > _TYPED:
        return name
    data = bytes(sample.payload)
    if name == "zenoh/bytes":
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return "bytes"
        return _json_type(text, words=False) or ("text" if text.isprintable() else "bytes")
    if name.endswith(("/json", "+json")):
        return f"json {_json_type(data.decode(errors='replace'), words=True) or 'unreadable'}"
    return "text" if name in {"text/plain", "zenoh/string"} else name


def _json_type(text: str, *, words: bool) -> str | None:
    """Return the type of a JSON value; None if it is none, or without ``words`` a bare word or text."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    kinds = {dict: "object", list: "array", int: "integer", float: "number"}
    if words:
        kinds |= {str: "text", bool: "boolean", type(None): "null"}
    return kinds.get(type(value))
