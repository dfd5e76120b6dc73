"""Questions to the admin space of other nodes, of zwire and of eclipse-zenoh."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zwire.zenoh import Session

_MOST = 10_000
"""Replies to one question that are read: of more declarations the first ones describe a router."""


class Declared(NamedTuple):
    """A declaration that a node knows of."""

    kind: str
    key: str
    nodes: tuple[str, ...]


def asked(session: Session, selector: str, timeout: float) -> Iterator[tuple[str, bytes]]:
    """Iterate over the keys and payloads of the answers to a question, without errors."""
    for reply in session.get(selector, timeout=timeout, budget=_MOST):
        if reply.ok is not None:
            yield str(reply.ok.key_expr), bytes(reply.ok.payload)


def roots(session: Session, timeout: float, *, stats: bool = False) -> dict[str, dict[str, Any]]:
    """Return what nodes tell about themselves, by id; nodes without an admin space are missing."""
    found = {}
    for key, payload in asked(session, "@/*/*" + ("?_stats" if stats else ""), timeout):
        try:
            root = json.loads(payload)
        except (ValueError, RecursionError):
            continue
        parts = key.split("/")
        if isinstance(root, dict) and len(parts) == 3:
            found[parts[1]] = {"role": parts[2], **_shaped(root)}
    return found


def _shaped(root: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of an answer that commands read, each of the expected type whatever the node sent."""
    stats = root.get("stats")
    return {
        "version": str(root.get("version") or "unknown"),
        "metadata": root.get("metadata"),
        "locators": [str(each) for each in _list(root.get("locators"))],
        "sessions": [
            {
                "peer": str(each.get("peer")),
                "whatami": str(each.get("whatami")),
                "links": [_link(link) for link in _list(each.get("links"))],
            }
            for each in _list(root.get("sessions"))
            if isinstance(each, dict)
        ],
        "stats": {name: number for name, number in stats.items() if _is_count(number)}
        if isinstance(stats, dict)
        else {},
    }


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 64


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _link(link: object) -> str:
    """Return a link as text; eclipse-zenoh 1.0 tells the end of the neighbour alone."""
    return f"{link.get('src')} - {link.get('dst')}" if isinstance(link, dict) else str(link)


def declared(session: Session, timeout: float, zid: str = "*") -> list[Declared]:
    """Return the declarations that a node knows of, those of this process included."""
    found = []
    for kind in ("subscriber", "publisher", "queryable", "querier", "token"):
        for key, payload in asked(session, f"@/{zid}/*/{kind}/**", timeout):
            try:
                nodes = json.loads(payload)
            except (ValueError, RecursionError):
                continue
            lists = nodes.values() if isinstance(nodes, dict) else ()
            ids = {str(each) for listed in lists for each in _list(listed)}
            parts = key.split("/", 4)
            if len(parts) == 5:
                found.append(Declared(kind, parts[4], tuple(sorted(ids))))
    return found
