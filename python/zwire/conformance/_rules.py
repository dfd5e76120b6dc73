"""Rules of the protocol documents, each with the check that judges a node by it."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Deviation", "Level", "NotApplicable", "Rule", "RuleBook", "expect"]

_ID = re.compile(r"(zenoh-wire|zenoh-behaviour|zmtp|zre)-[0-9A-C][0-9.]*/[a-z0-9]+(-[a-z0-9]+)*")


class Level(enum.Enum):
    """Weight of a rule, in the words of RFC 2119.

    ::

        musts = [rule for rule in conformance.rules("zenoh") if rule.level is conformance.Level.MUST]
        print(len(musts) > 50)  # True
    """

    MUST = "MUST"
    """Nodes that deviate do not interoperate, or lose messages."""
    SHOULD = "SHOULD"
    """Nodes that deviate interoperate, with a cost."""
    OBSERVED = "observed"
    """Behaviour of the reference that no text asks for; :attr:`Rule.seen` names the release."""


class Deviation(Exception):  # noqa: N818 - a finding about the node, not an error of this program
    """Behaviour of the node that the rule does not allow; the text says what was seen."""


class NotApplicable(Exception):  # noqa: N818 - an outcome, not an error
    """Reason why a rule does not apply to the node, for example a feature that it does not offer."""


def expect(condition: object, seen: str) -> None:
    """Raise :exc:`Deviation` with the text of what was seen, unless the condition holds."""
    if not condition:
        raise Deviation(seen)


@dataclass(frozen=True)
class Rule:
    """Sentence of a protocol document, and the check of it.

    ::

        rule = conformance.rules("zmtp")[0]
        print(rule.section, rule.level.value, rule.sentence)
    """

    id: str
    """Section of the document and a name within it, such as ``zenoh-wire-3.3/version-8``."""
    level: Level
    sentence: str
    check: Callable[[Any], None] | None
    """Judges a target: returns, or raises :exc:`Deviation` or :exc:`NotApplicable`. ``None``: no test from
    outside can reach the rule."""
    seen: str | None = None
    """Release of the implementation in which an observed rule was seen first."""
    roles: frozenset[str] = frozenset()
    """Roles of nodes to which the rule applies; empty: all. Zenoh: router, peer, client. ZMTP: socket types.
    ZRE: generations."""
    unreachable: str | None = None
    """Reason why no test reaches the rule."""
    alone: bool = False
    """Whether the check changes the node for other checks, so that none may run beside it."""

    @property
    def section(self) -> str:
        """Section of the document, which is also its anchor in the documentation."""
        return self.id.partition("/")[0]

    def as_dict(self) -> dict[str, Any]:
        """Fields for JSON."""
        return {
            "id": self.id,
            "level": self.level.value,
            "sentence": self.sentence,
            "seen": self.seen,
            "roles": sorted(self.roles),
            "unreachable": self.unreachable,
        }


class RuleBook:
    """Rules of one protocol, in the order of their definition."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.rules: dict[str, Rule] = {}

    def rule(
        self,
        id: str,
        level: Level,
        sentence: str,
        *,
        seen: str | None = None,
        roles: Iterable[str] = (),
        alone: bool = False,
    ) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
        """Add a rule; the decorated function is its check."""

        def add(check: Callable[[Any], None]) -> Callable[[Any], None]:
            self._add(Rule(id, level, sentence, check, seen, frozenset(roles), None, alone))
            return check

        return add

    def unreachable(self, id: str, level: Level, sentence: str, reason: str) -> None:
        """Add a rule that no test from outside reaches."""
        self._add(Rule(id, level, sentence, None, unreachable=reason))

    def _add(self, rule: Rule) -> None:
        if not _ID.fullmatch(rule.id):
            raise ValueError(f"rule id {rule.id!r}: expected a section and a name, as in zmtp-3.1/long-frame")
        if rule.id in self.rules:
            raise ValueError(f"rule id {rule.id!r} is defined twice")
        if (rule.level is Level.OBSERVED) != (rule.seen is not None) and rule.check is not None:
            raise ValueError(f"rule {rule.id}: `seen` names the release of an observed rule, and of no other")
        self.rules[rule.id] = rule
