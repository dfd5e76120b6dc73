"""Printing of samples and replies: as readable text, or as JSON Lines."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

from zwire._failure import restore
from zwire._text import excerpt, printable, strict_json
from zwire.errors import RemoteError
from zwire.zenoh import SampleKind

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from zwire.zenoh import Reply, Sample, ZBytes

_SHOWN_BYTES = 256
"""Bytes of payload that a line of text shows; of longer payloads it shows the length, too."""


HELP = "text for people, or one JSON object per line (default: text)"
"""Help of the option that chooses the format."""

_TEXTS = re.compile(r"text/|zenoh/string|application/(json|xml|yaml|sql|javascript)|[^;]*\+(json|xml)")
"""Encodings of texts."""

_JSON = re.compile(r"(application|text)/(json|[^;]*\+json)(;|$)")
"""Encodings of JSON."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Characters that texts without an encoding of their own do not have."""


def add_payload(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses the form of payloads in JSON Lines."""
    parser.add_argument(
        "--payload",
        choices=["auto", "base64", "hex"],
        default="auto",
        help="form of payloads and attachments in JSON Lines: JSON and text as such, others in base64 (auto, "
        "the default); or all in base64 or hex",
    )


def payload_fields(payload: bytes | None, encoding: str, form: str, name: str = "payload") -> dict[str, Any]:
    """Return the fields for bytes: the value, and ``payload_as``, which says what it is."""
    value, kind = (None, None) if payload is None else _shaped(payload, encoding, form)
    return {name: value, f"{name}_as": kind}


def attachment_fields(attachment: ZBytes | bytes | None, form: str) -> dict[str, Any]:
    """Return the fields for an attachment, which has no encoding."""
    return payload_fields(None if attachment is None else bytes(attachment), "", form, "attachment")


def _shaped(payload: bytes, encoding: str, form: str) -> tuple[Any, str]:
    if form == "auto":
        if _JSON.match(encoding):
            try:
                value = strict_json(payload)
                json.dumps(value, allow_nan=False)
            except (ValueError, RecursionError):
                pass
            else:
                return value, "json"
        try:
            text = payload.decode()
        except UnicodeDecodeError:
            form = "base64"
        else:
            if _TEXTS.match(encoding) or not _CONTROLS.search(text):
                return text, "text"
            form = "base64"
    return payload.hex() if form == "hex" else base64.b64encode(payload).decode(), form


_DECODED = (
    # The members of a record of `decode` that are base64, with the member before or behind: a header of ZRE
    # may have the name of such a member, and text in quotes has no quote without a backslash.
    ("payload", re.compile(rb'"payload":(null|"[^"]*")(?=,"encoding":(null|"(?:[^"\\\\]|\\\\.)*"))')),
    ("attachment", re.compile(rb'"attachment":(null|"[^"]*")(?=,"priority":)()')),
    ("content", re.compile(rb'"content":(null|\[[^\]]*\])(?=,"error":)()')),
)


def decoded_line(line: bytes, form: str) -> bytes:
    """Return a line of ``Decoder.jsonl`` with its bytes in another form than base64.

    The rest of the line stays as it is, also numbers with more digits than a float has.
    """
    for name, pattern in _DECODED:

        def written(found: re.Match[bytes], name: str = name) -> bytes:
            value, encoding = json.loads(found[1]), json.loads(found[2] or b"null") or ""
            if isinstance(value, list):
                frames = [_shaped(base64.b64decode(frame), "", form) for frame in value]
                fields: dict[str, Any] = {
                    name: [frame for frame, _ in frames],
                    f"{name}_as": [kind for _, kind in frames],
                }
            else:
                fields = payload_fields(
                    None if value is None else base64.b64decode(value), encoding, form, name
                )
            return json.dumps(fields, separators=(",", ":"))[1:-1].encode()

        line = pattern.sub(written, line, count=1)
    return line


def sample_formatter(name: str, form: str) -> Callable[[Sample], str]:
    """Return a function that turns a sample into a line; ``form`` is that of payloads in JSON Lines."""
    return _sample_text if name == "text" else lambda sample: json.dumps(_sample_fields(sample, form))


def reply_formatter(name: str, form: str) -> Callable[[Reply], str]:
    """Return a function that turns a reply into a line; ``form`` is that of payloads in JSON Lines."""
    return _reply_text if name == "text" else lambda reply: _reply_json(reply, form)


def _sample_text(sample: Sample) -> str:
    if sample.kind == SampleKind.DELETE:
        return f"{sample.key_expr} deleted"
    return f"{sample.key_expr} {sample.encoding} {shown(sample.payload)}"


def shown(payload: ZBytes | bytes) -> str:
    """Show a payload: as text if it is text, else as hexadecimal digits, cut if it is long."""
    text, rest = excerpt(payload, _SHOWN_BYTES)
    if text is None:
        return rest
    # Quotes tell escapes from backslashes of the payload.
    return (text if text.isprintable() else printable(json.dumps(text, ensure_ascii=False))) + rest


def _sample_fields(sample: Sample, form: str) -> dict[str, Any]:
    deleted = sample.kind == SampleKind.DELETE
    payload = None if deleted else bytes(sample.payload)
    return {
        "key": str(sample.key_expr),
        "kind": "del" if deleted else "put",
        **payload_fields(payload, str(sample.encoding), form),
        "encoding": None if deleted else str(sample.encoding),
        "timestamp": None if sample.timestamp is None else sample.timestamp.to_string_rfc3339_lossy(),
        **attachment_fields(sample.attachment, form),
        "priority": int(sample.priority),
        "congestion": sample.congestion_control.name.lower(),
        "express": sample.express,
    }


def _reply_text(reply: Reply) -> str:
    if reply.ok is not None:
        return _sample_text(reply.ok)
    assert reply.err is not None  # noqa: S101 - a reply is one or the other
    error = restore(bytes(reply.err.payload), str(reply.err.encoding))
    if isinstance(error, RemoteError):
        return f"error {error}" if error.traceback is None else f"error {error}, {error.traceback}"
    return f"error {reply.err.encoding} {shown(reply.err.payload)}"


def _reply_json(reply: Reply, form: str) -> str:
    replier = None if reply.replier_id is None else str(reply.replier_id.zid)
    if reply.ok is not None:
        return json.dumps({**_sample_fields(reply.ok, form), "replier": replier})
    assert reply.err is not None  # noqa: S101 - the same
    fields = dict.fromkeys(
        ("key", "timestamp", "attachment", "attachment_as", "priority", "congestion", "express")
    )
    encoding = str(reply.err.encoding)
    known = payload_fields(bytes(reply.err.payload), encoding, form)
    return json.dumps({**fields, "kind": "err", **known, "encoding": encoding, "replier": replier})
