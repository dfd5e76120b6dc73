"""Foreign text on one line, without the characters that steer a terminal."""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from zwire.zenoh import ZBytes

# The same characters as those of `printable` in rust/zwire-proto, and surrogates, which no UTF-8 has.
_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]")


def excerpt(payload: ZBytes | bytes, most: int) -> tuple[str | None, str]:
    """Return the first bytes of a payload as text, and the length of a longer one; None for no text."""
    head = bytes(payload[:most])
    rest = f" ... {len(payload)} bytes" if len(payload) > most else ""
    try:
        return head.decode(), rest
    except UnicodeDecodeError as error:
        # A character cut in the middle is not an invalid one.
        if rest and error.end == len(head) and len(head) - error.start < 4:
            return head[: error.start].decode(), rest
        return None, f"0x{head.hex()}{rest}"


def is_json(name: str) -> bool:
    """Return whether an encoding is JSON; ``name`` is the part before its schema."""
    return name in {"application/json", "text/json"} or name.endswith("+json")


def strict_json(data: bytes | str) -> Any:  # noqa: ANN401 - of the text
    """Return a value of JSON as in RFC 8259, which has no NaN and no Infinity.

    Raises:
        ValueError: It is no JSON.
        RecursionError: It nests too deep.
    """
    return json.loads(data, parse_constant=_no_constant)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def printable(text: str) -> str:
    r"""Escape the characters that a terminal acts on instead of showing.

    These are controls (C0, DEL, C1), ends of lines and paragraphs, and marks that change the direction of
    text. The escapes are those of JSON, ``\u001b`` and ``\n``, so that a line of JSON stays one; a backslash
    of the text stays as it is.
    """
    return _ACTING.sub(lambda found: json.dumps(found[0])[1:-1], text)
