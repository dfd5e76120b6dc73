"""Printing of samples and replies: as readable text, or as JSON Lines."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from zwire._text import printable
from zwire.zenoh import SampleKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from zwire.zenoh import Reply, Sample, ZBytes

_SHOWN_BYTES = 256
"""Bytes of payload that a line of text shows; of longer payloads it shows the length, too."""


HELP = "text for people, or one JSON object per line with the payload in base64 (default: text)"
"""Help of the option that chooses the format."""


def sample_formatter(name: str) -> Callable[[Sample], str]:
    """Return a function that turns a sample into a line."""
    return _sample_text if name == "text" else lambda sample: json.dumps(_sample_fields(sample))


def reply_formatter(name: str) -> Callable[[Reply], str]:
    """Return a function that turns a reply into a line."""
    return _reply_text if name == "text" else _reply_json


def _sample_text(sample: Sample) -> str:
    if sample.kind == SampleKind.DELETE:
        return f"{sample.key_expr} deleted"
    return f"{sample.key_expr} {sample.encoding} {shown(sample.payload)}"


def shown(payload: ZBytes | bytes) -> str:
    """Show a payload: as text if it is text, else as hexadecimal digits, cut if it is long."""
    head = bytes(payload[:_SHOWN_BYTES])
    rest = f" ... {len(payload)} bytes" if len(payload) > _SHOWN_BYTES else ""
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        # A character cut in the middle is not an invalid one.
        if not (rest and error.end == len(head) and len(head) - error.start < 4):
            return f"0x{head.hex()}{rest}"
        text = head[: error.start].decode()
    # Quotes tell escapes from backslashes of the payload.
    return (text if text.isprintable() else printable(json.dumps(text, ensure_ascii=False))) + rest


def _base64(data: ZBytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _sample_fields(sample: Sample) -> dict[str, Any]:
    deleted = sample.kind == SampleKind.DELETE
    return {
        "key": str(sample.key_expr),
        "kind": "del" if deleted else "put",
        "payload": None if deleted else _base64(sample.payload),
        "encoding": None if deleted else str(sample.encoding),
        "timestamp": None if sample.timestamp is None else sample.timestamp.to_string_rfc3339_lossy(),
        "attachment": _base64(sample.attachment),
        "priority": int(sample.priority),
        "congestion": sample.congestion_control.name.lower(),
        "express": sample.express,
    }


def _reply_text(reply: Reply) -> str:
    if reply.ok is not None:
        return _sample_text(reply.ok)
    assert reply.err is not None  # noqa: S101 - a reply is one or the other
    return f"error {reply.err.encoding} {shown(reply.err.payload)}"


def _reply_json(reply: Reply) -> str:
    replier = None if reply.replier_id is None else str(reply.replier_id.zid)
    if reply.ok is not None:
        return json.dumps({**_sample_fields(reply.ok), "replier": replier})
    assert reply.err is not None  # noqa: S101 - the same
    fields = dict.fromkeys(("key", "timestamp", "attachment", "priority", "congestion", "express"))
    known = {"kind": "err", "payload": _base64(reply.err.payload), "encoding": str(reply.err.encoding)}
    return json.dumps({**fields, **known, "replier": replier})
