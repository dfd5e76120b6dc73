"""Conformance suite: judges nodes of Zenoh, ZMTP and ZRE from outside, by raw bytes.

Each rule is a sentence of ``docs/protocol``, with an id, a level (MUST, SHOULD, or observed in a release) and
a check. The suite has encoders and decoders of its own and uses nothing of the engine, so that an error of
the engine cannot hide itself.

>>> from zwire import conformance
>>> report = conformance.run("tcp/127.0.0.1:7447")      # doctest: +SKIP
>>> print(report.summary())                             # doctest: +SKIP

``zwire conformance tcp/127.0.0.1:7447`` prints the same.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING

from zwire.conformance._rules import Deviation, Level, NotApplicable, Rule
from zwire.conformance._run import Report, Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

__all__ = ["PROTOCOLS", "Deviation", "Level", "NotApplicable", "Report", "Rule", "Verdict", "rules", "run"]

PROTOCOLS = ("zenoh", "zmtp", "zre")


def rules(protocol: str = "zenoh") -> list[Rule]:
    """All rules of a protocol, in the order of its document."""
    return list(_part(protocol).BOOK.rules.values())


def run(
    endpoint: str,
    *,
    protocol: str = "zenoh",
    only: str | None = None,
    heard: Callable[[Verdict], None] | None = None,
    **options: object,
) -> Report:
    """Judge the node at an endpoint, such as ``tcp/127.0.0.1:7447``.

    ``only`` is a regular expression for ids of rules; ``heard`` gets each verdict when it is reached.
    ``options`` are those of the protocol's target: ``zwire.conformance.zre.Target`` takes the interface of
    beacons, for example. Raises ``OSError`` if the node cannot be reached, and ``ValueError`` for an endpoint
    or a protocol that is none.
    """
    part = _part(protocol)
    opening = part.Target(endpoint, **options)
    with contextlib.ExitStack() as held:
        try:
            target = held.enter_context(opening)
        except OSError as error:
            raise ConnectionError(f"{endpoint}: {error.strerror or error}") from error
        return judge(part.BOOK, target, only=only, heard=heard)


def _part(protocol: str) -> ModuleType:
    """Package of a protocol, with its BOOK and its Target."""
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol {protocol!r}: expected one of {', '.join(PROTOCOLS)}")
    return importlib.import_module(f"zwire.conformance.{protocol}")
