"""Exceptions of a queryable as error replies, and error replies as exceptions."""

from __future__ import annotations

import json
import traceback as tracebacks

from zwire.errors import QueryError, RemoteError

ENCODING = "application/json;zwire.RemoteError"
"""Encoding of an error reply: an object with the texts ``type``, ``message`` and perhaps ``traceback``."""

MAX_MESSAGE = 4096
"""Most characters of a message."""

MAX_TRACEBACK = 32_768
"""Most characters of a traceback; those at its end, next to the error, are kept."""

MAX_PAYLOAD = 12 * (2 * MAX_MESSAGE + MAX_TRACEBACK) + 1024
"""Most bytes of a payload that are read: JSON escapes a character by six of them, or by twice six."""

MAX_TEXT = 300
"""Most bytes of another error reply that are shown in the text of its exception."""


def describe(error: BaseException, traceback: bool) -> tuple[bytes, str]:
    """Return payload and encoding of the error reply for an exception."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(error)
    except Exception as worse:  # noqa: BLE001 - an exception without a text still is one
        message = f"no text: str() of it raised {type(worse).__name__}"
    told = {"type": name[:MAX_MESSAGE], "message": message[:MAX_MESSAGE]}
    if traceback:
        told["traceback"] = "".join(tracebacks.format_exception(error))[-MAX_TRACEBACK:]
    return json.dumps(told).encode(), ENCODING


def restore(payload: bytes, encoding: str) -> QueryError:
    """Return the exception for an error reply: a ``RemoteError`` if it is one of an exception."""
    if encoding == ENCODING and len(payload) <= MAX_PAYLOAD:
        try:
            told = json.loads(payload)
        except (ValueError, RecursionError):
            told = None
        if isinstance(told, dict):
            name, message, traceback = (told.get(key) for key in ("type", "message", "traceback"))
            if isinstance(name, str) and isinstance(message, str) and isinstance(traceback, str | None):
                return RemoteError(
                    f"{name}: {message}" if message else name,
                    payload=payload,
                    encoding=encoding,
                    type=name,
                    message=message,
                    traceback=traceback,
                )
    return QueryError(payload[:MAX_TEXT].decode(errors="replace"), payload=payload, encoding=encoding)
