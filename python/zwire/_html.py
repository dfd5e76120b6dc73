"""Tables that notebooks show of sessions, samples, replies and counters.

Keys and values come from other nodes: each text is escaped, long values are cut.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from zwire._text import excerpt, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zwire.stats import SessionStats
    from zwire.zenoh import Reply, Sample, Session, ZBytes

_SHOWN = 400
"""Characters of a value; a longer one is cut."""


def _text(value: object) -> str:
    text = printable(str(value))
    return html.escape(text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ...")


def _rows(title: str, rows: Iterable[tuple[str, object]]) -> str:
    cells = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{_text(title)}</caption><tbody>{cells}</tbody></table>"


def _table(title: str, names: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_text(value)}</td>' for value in row)}</tr>" for row in rows)
    return (
        f"<table><caption>{_text(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _value(payload: ZBytes) -> str:
    text, rest = excerpt(payload, _SHOWN)
    return f"{text or ''}{rest}"


def session(session: Session) -> str:
    """Return the neighbours and links of a session."""
    if session.is_closed():
        return _rows(f"Session {session.zid()}", [("state", "closed")])
    roles = {str(each.zid): each.whatami.name.lower() for each in session.info.transports()}
    links = [(link.zid, roles.get(str(link.zid), ""), link.src, link.dst) for link in session.info.links()]
    listening = ", ".join(session.listening())
    title = f"Session {session.zid()}{f', listens on {listening}' if listening else ''}, {len(links)} links"
    return _table(title, ("node", "role", "from", "to"), links)


def sample(sample: Sample) -> str:
    """Return the fields of a sample."""
    rows: list[tuple[str, object]] = [("key", sample.key_expr), ("kind", sample.kind.name.lower())]
    if sample.kind.name == "PUT":
        rows += [("encoding", sample.encoding), ("payload", _value(sample.payload))]
    if sample.timestamp is not None:
        rows.append(("timestamp", sample.timestamp.to_string_rfc3339_lossy()))
    if sample.attachment is not None:
        rows.append(("attachment", _value(sample.attachment)))
    rows.append(("priority", sample.priority.name.lower()))
    return _rows("Sample", rows)


def reply(reply: Reply) -> str:
    """Return the sample or the error of a reply."""
    if reply.ok is not None:
        return sample(reply.ok)
    error = reply.err
    rows = [] if error is None else [("encoding", error.encoding), ("error", _value(error.payload))]
    return _rows("Reply: error", rows)


def stats(numbers: SessionStats) -> str:
    """Return the counters of a session that are not zero, and its links."""
    plain: Mapping[str, Any] = {**numbers}
    known = [(name, value) for name, value in plain.items() if isinstance(value, (int, float)) and value]
    links = [
        (
            link["zid"],
            link["dst"],
            link["tx_bytes"],
            link["rx_bytes"],
            link["tx_dropped"],
            sum(lane["waiting_bytes"] for lane in link["lanes"].values()),
        )
        for link in numbers["per_link"]
    ]
    names = ("node", "to", "bytes out", "bytes in", "dropped", "bytes waiting")
    return _rows("Counters", known) + _table("Links", names, links)
