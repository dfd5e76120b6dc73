"""Book of the rules of Zenoh, to which each module of rules adds its own."""

from zwire.conformance._rules import Level, RuleBook

__all__ = ["BOOK", "MUST", "OBSERVED", "RELEASE", "SHOULD"]

BOOK = RuleBook("zenoh")
MUST, SHOULD, OBSERVED = Level.MUST, Level.SHOULD, Level.OBSERVED
RELEASE = "eclipse-zenoh 1.10.2"
"""Release in which observed rules were seen."""
