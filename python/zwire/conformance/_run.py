"""Judging of a node by the rules of its protocol."""

from __future__ import annotations

import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from zwire.conformance._rules import Deviation, Level, NotApplicable, Rule, RuleBook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Report", "Verdict", "judge"]

CONFORMS, DEVIATES, NOT_APPLICABLE, UNREACHABLE, FAILED = (
    "conforms",
    "deviates",
    "not applicable",
    "unreachable",
    "failed",
)
SIDE_BY_SIDE = 8
"""Checks at once: most of their time they wait, and a node takes at least a hundred handshakes at once."""


class Judged(Protocol):
    """Node that checks of a protocol talk to."""

    name: str
    roles: frozenset[str]


@dataclass(frozen=True)
class Verdict:
    """Outcome of one rule for one node.

    ::

        def show(verdict: conformance.Verdict) -> None:
            print(verdict.rule.id, verdict.outcome)  # zenoh-wire-3.3/version-8 conforms

        report = conformance.run(session.listening()[0], only="version-8", heard=show)
    """

    rule: Rule
    outcome: str
    """``conforms``, ``deviates``, ``not applicable``, ``unreachable``, or ``failed``: the check broke off."""
    detail: str = ""
    """What was seen, or why the rule does not apply."""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Fields for JSON."""
        return {
            **self.rule.as_dict(),
            "outcome": self.outcome,
            "detail": self.detail,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class Report:
    """Verdicts of all rules for one node.

    ::

        report = conformance.run(session.listening()[0], only="version-8")
        print(report.conforms, len(report.of("conforms")))  # True 1
    """

    protocol: str
    node: str
    """Endpoint of the node, and what is known of it, such as its role."""
    verdicts: list[Verdict] = field(default_factory=list)

    def of(self, *outcomes: str, level: Level | None = None) -> list[Verdict]:
        """Verdicts with one of the outcomes, and of the level if one is given."""
        return [v for v in self.verdicts if v.outcome in outcomes and level in (None, v.rule.level)]

    @property
    def conforms(self) -> bool:
        """Whether the node keeps each MUST and each check ran."""
        return not self.of(DEVIATES, level=Level.MUST) and not self.of(FAILED)

    def summary(self) -> str:
        """Counts in one line."""
        kept, broken = len(self.of(CONFORMS)), self.of(DEVIATES)
        levels = ", ".join(f"{sum(v.rule.level is level for v in broken)} {level.value}" for level in Level)
        others = f"{len(self.of(NOT_APPLICABLE))} not applicable, {len(self.of(UNREACHABLE))} unreachable"
        failed = f", {len(self.of(FAILED))} checks failed" if self.of(FAILED) else ""
        return f"{self.node}: {kept} rules kept, {len(broken)} not ({levels}), {others}{failed}"

    def to_json(self) -> str:
        """The whole report as a JSON object."""
        verdicts = [verdict.as_dict() for verdict in self.verdicts]
        return json.dumps({"protocol": self.protocol, "node": self.node, "verdicts": verdicts}, indent=1)


def judge(
    book: RuleBook,
    target: Judged,
    *,
    only: str | None = None,
    heard: Callable[[Verdict], None] | None = None,
) -> Report:
    """Judge a target by the rules of a book.

    ``target`` has ``name`` and ``roles``, and is handed to each check. ``only`` is a regular expression that
    ids of rules have to match somewhere. ``heard`` gets each verdict when it is reached. Checks run side by
    side; those that disturb others run afterwards, one by one.
    """
    chosen = [rule for rule in book.rules.values() if only is None or re.search(only, rule.id)]
    lock = threading.Lock()

    def reach(rule: Rule) -> Verdict:
        verdict = _verdict(rule, target)
        if heard is not None:
            with lock:
                heard(verdict)
        return verdict

    def reach_all(rules: Iterable[Rule], workers: int) -> dict[str, Verdict]:
        with ThreadPoolExecutor(workers) as pool:
            return {verdict.rule.id: verdict for verdict in pool.map(reach, rules)}

    reached = reach_all((rule for rule in chosen if not rule.alone), SIDE_BY_SIDE)
    reached |= reach_all((rule for rule in chosen if rule.alone), 1)
    return Report(book.protocol, target.name, [reached[rule.id] for rule in chosen])


def _verdict(rule: Rule, target: Judged) -> Verdict:
    if rule.check is None:
        return Verdict(rule, UNREACHABLE, rule.unreachable or "")
    if rule.roles and not rule.roles & target.roles:
        return Verdict(rule, NOT_APPLICABLE, f"only for {', '.join(sorted(rule.roles))}")
    started = time.monotonic()
    outcome, detail = CONFORMS, ""
    try:
        rule.check(target)
    except Deviation as deviation:
        outcome, detail = DEVIATES, str(deviation)
    except NotApplicable as reason:
        outcome, detail = NOT_APPLICABLE, str(reason)
    except Exception as error:  # noqa: BLE001 - one check that fails must not end the others
        outcome, detail = FAILED, f"{type(error).__name__}: {error}"
    return Verdict(rule, outcome, detail, time.monotonic() - started)
