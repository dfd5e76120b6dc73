"""Writing of files that hold secrets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PRIVATE = 0o600
"""Mode of files that only their owner reads."""


def write_new(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file that does not exist; fail if it does."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
