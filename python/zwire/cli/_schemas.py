"""Definitions of schemas in files, as an option of commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zwire.cli import _options
from zwire.errors import ConfigError
from zwire.recording import McapSchema

if TYPE_CHECKING:
    import argparse

ENCODINGS = {
    ".desc": "protobuf",
    ".fds": "protobuf",
    ".json": "jsonschema",
    ".msg": "ros2msg",
    ".idl": "ros2idl",
    ".bfbs": "flatbuffer",
}
"""Encodings of schemas by the end of the names of their files."""

_MOST = 16 << 20
"""Bytes of a schema that are read."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    _options.add_several(
        parser,
        "--schema",
        metavar="NAME=FILE",
        type=_named,
        help="definition of a schema that encodings name: a FileDescriptorSet of protobuf (.desc), a JSON "
        "schema (.json), or a type of ROS 2 (.msg, .idl)",
    )


def read(args: argparse.Namespace) -> dict[str, McapSchema]:
    """Return the definitions by name.

    Raises:
        ConfigError: A file cannot be read.
    """
    return {name: _content(path) for name, path in args.schema}


def _named(text: str) -> tuple[str, Path]:
    name, equals, file = text.partition("=")
    if not name or not equals or Path(file).suffix.lower() not in ENCODINGS:
        raise _options.expected(f"NAME=FILE, with a file of {', '.join(ENCODINGS)}", text)
    return name, Path(file)


def _content(path: Path) -> McapSchema:
    try:
        if path.stat().st_size > _MOST:
            raise ConfigError(f"--schema {path}: a schema has at most {_MOST >> 20} MiB", path="--schema")
        return McapSchema(ENCODINGS[path.suffix.lower()], path.read_bytes())
    except OSError as error:
        raise ConfigError(f"--schema {path}: {error.strerror}", path="--schema") from None
