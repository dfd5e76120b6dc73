"""Book of the rules of ZRE, to which each module of rules adds its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.conformance._rules import Level, RuleBook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zwire.conformance.zre._target import Target

    Check = Callable[[Target], None]

__all__ = ["BOOK", "MODERN", "MUST", "OBSERVED", "OLD", "SHOULD", "ZYRE", "alone"]

BOOK = RuleBook("zre")
MUST, SHOULD, OBSERVED = Level.MUST, Level.SHOULD, Level.OBSERVED
ZYRE = "zyre 2.0.1"
MODERN = ("36", "43")
"""Generations with a version octet, a name and endpoints."""
OLD = ("20", "zyre1")
"""Generations without a version octet."""


def alone(
    id: str, level: Level, sentence: str, *, seen: str | None = None, roles: Iterable[str] = ()
) -> Callable[[Check], Check]:
    """Add a rule with a check that changes the node, or is known to end nodes; no other check runs beside it.

    Before the check, a node that has ended is started again, where the target knows a way.
    """

    def add(check: Check) -> Check:
        def run(target: Target) -> None:
            target.revive()
            check(target)

        BOOK.rule(id, level, sentence, seen=seen, roles=roles, alone=True)(run)
        return check

    return add
