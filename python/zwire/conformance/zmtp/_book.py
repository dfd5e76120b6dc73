"""Book of the rules of ZMTP, to which each module of rules adds its own."""

from zwire.conformance._rules import Level, RuleBook

__all__ = ["BOOK", "LIBZMQ", "MUST", "OBSERVED", "SHOULD"]

BOOK = RuleBook("zmtp")
MUST, SHOULD, OBSERVED = Level.MUST, Level.SHOULD, Level.OBSERVED
LIBZMQ = "libzmq 4.3.5"
