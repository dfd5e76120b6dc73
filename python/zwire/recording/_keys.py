"""Renaming of keys on replay."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zwire._lazy import pa
from zwire._rows import REMEMBERED, unique

if TYPE_CHECKING:
    from collections.abc import Mapping

_WILD = re.compile(r"\*\*|\$\*|\*")

# A wildcard finds no chunk that begins with @ (zenoh: verbatim chunks).
_CHUNK = r"(?!@)[^/]+"
_CHUNKS = rf"{_CHUNK}(?:/{_CHUNK})*?"


class Remap:
    """Renames keys.

    ::

        rename = recording.Remap({"robot/*/pose": "sim/*/pose", "robot": "real"})
        print(rename("robot/7/pose"))  # sim/7/pose
        print(rename("robot/7/battery"), rename("hub"))  # real/7/battery hub

    Args:
        rules: From old key to new key; the first rule that matches a key renames it, other keys stay. With
            wildcards (``*``, ``**``, ``$*``) the rule is for the keys that the expression includes, and
            what each wildcard stands for is put in the place of the same wildcard of the name: ``**`` of
            several takes as little as it can. Without, it is for a key and all below it: ``robot/1`` to
            ``sim/1`` names ``robot/1/pose`` ``sim/1/pose``. An empty text stands for the root:
            from it, everything gets a prefix; to it, a prefix is taken off.

    Raises:
        ValueError: The wildcards of a name are not those of its rule, in their order.
        KeyExprError: One side is not legal.
    """

    def __init__(self, rules: Mapping[str, str]) -> None:
        self._given = dict(rules)
        self._rules = [_Rule(old, new) for old, new in rules.items()]
        self._known: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Remap({self._given!r})"

    def __call__(self, key: str) -> str:
        """Return the new name of a key."""
        for rule in self._rules:
            if (found := rule.apply(key)) is not None:
                return found
        return key

    def column(self, keys: pa.Array) -> pa.Array:
        """Return the new names of a column of keys."""
        names, indices = unique(keys)
        if len(self._known) > REMEMBERED:
            self._known.clear()
        self._known |= {name: self(name) for name in names if name is not None and name not in self._known}
        found = [None if name is None else self._known[name] for name in names]
        return pa.array(found, pa.string()).take(indices)


def legal(key: str) -> bool:
    """Whether a text is a key expression."""
    from zwire.zenoh import KeyExpr

    try:
        KeyExpr(key)
    except ValueError:
        return False
    return True


class _Rule:
    def __init__(self, old: str, new: str) -> None:
        from zwire.zenoh import KeyExpr

        for text in (old, new):
            if text:
                KeyExpr(text)
        self._old, self._new = old, new
        wild = _WILD.findall(old)
        named = _WILD.findall(new)
        if named != (wild if named else []):
            had = ", ".join(wild) or "none"
            raise ValueError(f"{new!r} must have the wildcards of {old!r} in their order: {had}")
        self._parts = _WILD.split(new) if wild else []
        self._pattern = re.compile(_pattern(old)) if wild else None

    def apply(self, key: str) -> str | None:
        if self._pattern is None:
            return self._moved(key)
        match = self._pattern.fullmatch(key)
        if match is None:
            return None
        if len(self._parts) == 1:
            return self._new
        made = [self._parts[0]]
        for caught, part in zip(match.groups(), self._parts[1:], strict=True):
            made += [caught or "", part]
        # Where ** matched no chunk, a slash is left over.
        return "/".join(chunk for chunk in "".join(made).split("/") if chunk)

    def _moved(self, key: str) -> str | None:
        old, new = self._old, self._new
        if old and key == old:
            return new or None
        if old and not key.startswith(f"{old}/"):
            return None
        rest = key[len(old) + 1 :] if old else key
        return f"{new}/{rest}" if new else rest


def _pattern(expression: str) -> str:
    """Return the regular expression of the keys that an expression includes, a group for each wildcard."""
    made, slash = "", ""
    chunks = expression.split("/")
    for chunk in chunks:
        if chunk == "**" and not slash:
            # The pattern takes the slash behind it along, or else the one in front.
            made += f"(?:({_CHUNKS})/)??" if len(chunks) > 1 else f"({_CHUNKS})"
            continue
        if chunk == "**":
            made += f"(?:/({_CHUNKS}))??"
        elif chunk == "*":
            made += f"{slash}({_CHUNK})"
        else:
            verbatim = "(?!@)" if chunk.startswith("$*") else ""
            made += slash + verbatim + "([^/]*?)".join(re.escape(part) for part in chunk.split("$*"))
        slash = "/"
    return made
