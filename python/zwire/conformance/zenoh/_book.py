"""Book of the rules of Zenoh."""

from zwire.conformance._rules import RuleBook

BOOK = RuleBook("zenoh")
