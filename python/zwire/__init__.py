"""Zenoh 1.x and ZRE from one Rust core.

``zwire.zenoh`` holds sessions and values, ``zwire.config`` their configuration, ``zwire.errors`` their
errors; ``zwire.capture`` reads captured traffic, ``zwire.spark`` runs in Spark. Importing them starts no
thread and loads neither pyarrow nor pyspark.
"""

try:
    from zwire._zwire import __version__
except ModuleNotFoundError as _error:
    if type(__spec__.loader).__name__ != "zipimporter":
        raise
    _problem = (
        "zwire is compiled, and Python imports nothing compiled from an archive: install it, or ship an"
        f" environment that has it (--archives of Spark, not --py-files): {__file__}"
    )
    raise ImportError(_problem, name=_error.name) from _error

TYPE_CHECKING = False  # as in zwire.errors
if TYPE_CHECKING:
    from zwire import capture as capture
    from zwire.capture import decode

__all__ = ["__version__", "decode"]


def __getattr__(name: str) -> object:
    """Import ``decode`` on first use, because it needs the module ``typing``."""
    if name not in ("capture", "decode"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module("zwire.capture")
    return module if name == "capture" else module.decode
