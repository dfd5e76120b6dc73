"""The values in the storage of the hub, compared with those that the subscribers have received."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zwire.demo.counts import KINDS
from zwire.demo.hub import CONFIRM_TIMEOUT, client
from zwire.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zwire.zenoh import Sample

# The names of the kinds: robots answer queries about `fleet/*/*/status`, which no storage has to keep.
_SELECTORS = (*(f"fleet/*/*/{kind}" for kind in KINDS), "result/*/*")


class Value(NamedTuple):
    """A value of a key."""

    payload: bytes
    attachment: bytes | None

    @classmethod
    def of(cls, sample: Sample) -> Value:
        """Return the value of a sample."""
        attachment = sample.attachment
        return cls(sample.payload.to_bytes(), None if attachment is None else attachment.to_bytes())


def stored(endpoint: str) -> dict[str, Value]:
    """Return the values in the storage of a hub, once everything before is on its disk.

    Raises:
        TransportError: The storage has answered with an error.
    """
    found: dict[str, Value] = {}
    with client(endpoint) as session:
        for selector in _SELECTORS:
            for reply in session.get(f"{selector}?_durable", timeout=CONFIRM_TIMEOUT):
                if (sample := reply.ok) is None:
                    raise TransportError(f"the storage of the hub: {reply.result.payload.to_string()}")
                found[str(sample.key_expr)] = Value.of(sample)
    return found


def missing(expected: Mapping[str, Value], found: Mapping[str, Value]) -> list[str]:
    """Name each key without a value in the storage, or with another value than expected."""
    wrong = []
    for key in sorted({*expected, *found}):
        if key not in found:
            wrong.append(f"the storage has lost {key}")
        elif key not in expected:
            wrong.append(f"the storage has {key}, which was never published")
        elif found[key] != expected[key]:
            wrong.append(f"the storage has another value of {key} than was published last")
    return wrong


def lines(found: Mapping[str, Value]) -> list[str]:
    """Return the content of the storage as text, a line for each kind of value."""
    by_kind: dict[str, list[Value]] = {}
    for key, value in found.items():
        first, *_, last = key.split("/")
        by_kind.setdefault(last if first == "fleet" else first, []).append(value)
    return [
        f"{kind:<10} {len(values):>6,} values {sum(len(value.payload) for value in values):>12,} bytes"
        for kind, values in by_kind.items()
    ]
