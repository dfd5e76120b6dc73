"""Foreign text on one line, without the characters that steer a terminal."""

from __future__ import annotations

import json
import re

# The same characters as those of `printable` in rust/zwire-proto, and surrogates, which no UTF-8 has.
_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Escape the characters that a terminal acts on instead of showing.

    These are controls (C0, DEL, C1), ends of lines and paragraphs, and marks that change the direction of
    text. The escapes are those of JSON, ``\u001b`` and ``\n``, so that a line of JSON stays one; a backslash
    of the text stays as it is.
    """
    return _ACTING.sub(lambda found: json.dumps(found[0])[1:-1], text)
