"""Optional packages, imported when one of their names is first used.

Importing zwire does not load pyarrow; without it, the first use raises ``ImportError``.
"""

from __future__ import annotations

from importlib import import_module

__all__ = ["Lazy", "library", "pa", "pc", "pq"]


class Lazy:
    """A module that is not imported yet."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)  # tools that look at every name of a module must not import these
        found: object = getattr(import_module(self.__name__), name)
        setattr(self, name, found)
        return found


def library(name: str, extra: str) -> ModuleType:
    """Import a library on use; without it the error names the extra."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"{name} is not installed: pip install 'zwire[{extra}]'", name=name) from error


TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pa, pc, pq = Lazy("pyarrow"), Lazy("pyarrow.compute"), Lazy("pyarrow.parquet")
