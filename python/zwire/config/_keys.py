"""Fields of dataclasses as keys of a configuration."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_SECRET = re.compile(
    r"""([#;?][^#;?='"]*(?:key|password|secret)[^#;?='"]*(?<!_file)=)[^#;?'"]*""", re.IGNORECASE
)
"""Parameter of an endpoint with a secret, in a text with quotes; the rule of ``zwire.zenoh.Config``."""

_PATH = "path"
"""Metadata of a field: its path below that of the dataclass it is in; "" adds nothing."""


def key(path: str, default: Any, *, shown: bool = True) -> Any:  # noqa: ANN401 - the type is that of the field
    """Make a field of a key. A secret is not ``shown`` in the text of the dataclass."""
    return field(default=default, repr=shown, metadata={_PATH: path})


def freeze(config: object, name: str) -> None:
    """Replace a sequence by a tuple, so that the configuration is immutable and hashable."""
    value = getattr(config, name)
    if isinstance(value, str):
        value = (value,)
    if value is not None:
        object.__setattr__(config, name, tuple(value))


def shown(config: object) -> str:
    """Return the text of a dataclass: fields that are shown, and ``***`` for the secrets in endpoints."""
    fields = (f for f in dataclasses.fields(config) if f.repr)  # type: ignore[arg-type]  # every caller passes a dataclass
    text = ", ".join(f"{f.name}={getattr(config, f.name)!r}" for f in fields)
    hidden = _SECRET.sub(r"\1***", text)
    return f"{type(config).__qualname__}({hidden})"


class Entry:
    """Base of the entries of a list in the configuration."""

    __slots__ = ()

    def to_json(self) -> dict[str, Json]:
        """Return the entry as JSON for its key; fields that are ``None`` are left out."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]  # each is a dataclass
        return {name: _plain(value) for name, value in values.items() if value is not None}

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):  # type: ignore[arg-type]  # each is a dataclass
            if "Sequence" in str(f.type):
                freeze(self, f.name)


def tree(config: object) -> dict[str, Json]:
    """Return the tree of the keys of a dataclass; values equal to their default are left out."""
    root: dict[str, Json] = {}
    for path, value, default in _walk(config, ""):
        if value is not None and value != default:
            *branches, last = path.split("/")
            here = root
            for name in branches:
                below = here.setdefault(name, {})
                assert isinstance(below, dict), path  # noqa: S101 - two fields would have one path
                here = below
            here[last] = _plain(value)
    return root


def _walk(config: object, path: str) -> list[tuple[str, Any, Any]]:
    """List path, value and default of every key below a dataclass, in order."""
    found = []
    for f in dataclasses.fields(config):  # type: ignore[arg-type]  # every caller passes a dataclass
        value = getattr(config, f.name)
        here = "/".join(part for part in (path, f.metadata[_PATH]) if part)
        if dataclasses.is_dataclass(f.default):
            found += _walk(value, here)
        else:
            found.append((here, value, f.default))
    return found


def _plain(value: Any) -> Json:  # noqa: ANN401 - whatever a field holds
    """Convert a value into the types of JSON."""
    if isinstance(value, Entry):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    plain: Json = value
    return plain
