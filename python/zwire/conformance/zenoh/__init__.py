"""Rules of Zenoh 1.x for a node that listens on TCP (``zenoh-wire`` and ``zenoh-behaviour``)."""

import importlib

from zwire.conformance.zenoh._book import BOOK
from zwire.conformance.zenoh._link import Target

__all__ = ["BOOK", "Target"]

_RULES = (
    "opening",
    "transport",
    "agreements",
    "numbers",
    "fragments",
    "extensions",
    "compression",
    "scouting",
    "names",
    "declarations",
    "interests",
    "aggregates",
    "liveliness",
    "routing",
    "delivery",
    "queries",
    "replies",
    "targets",
    "messages",
    "data",
    "scopes",
    "keys",
    "adminspace",
    "peers",
    "linkstate",
    "malformed",
)
"""Modules with rules, in the order in which they are judged: those that wait for a lease begin, and those
after which a router of eclipse-zenoh serves no link any more end."""

for _name in _RULES:
    importlib.import_module(f"{__name__}._{_name}")
