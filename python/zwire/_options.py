"""Errors of unknown options."""

from __future__ import annotations

from zwire.errors import ConfigError

# Type checkers go by this name; importing typing would take half the time of `import zwire.zmtp`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def unknown_option(name: str, known: Iterable[str]) -> ConfigError:
    """Return the error of an unknown option, with the known name that it resembles."""
    from difflib import get_close_matches  # only errors need it

    nearest = next(iter(get_close_matches(name, list(known), n=1)), None)
    hint = f", did you mean {nearest}?" if nearest else ""
    return ConfigError(f"unknown option {name!r}{hint}", path=name, nearest=nearest)
