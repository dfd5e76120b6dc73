"""The command ``zwire``.

One module per command, imported when it is asked for. Each has ``EPILOG`` with examples,
``configure(parser)`` and ``run(args) -> int``. A command with subcommands lists them in ``SUBCOMMANDS``;
each has a module of its own, and ``configure`` of the command adds the options that they share.

Exit codes: 0 done; 1 failed, with one line on the standard error that says why; 2 the command line or the
configuration is wrong; 3 nothing was found, or too little came in time; 130 interrupted by Ctrl-C, or by
SIGTERM before the work was done; 141 the reader of the output closed it.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from zwire import __version__
from zwire.errors import ConfigError, ConnectError, KeyExprError, ZwireError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "router": "run a hub that any number of clients connect to",
    "put": "publish a value",
    "delete": "publish a deletion",
    "get": "ask queryables and print what they answer",
    "sub": "print publications",
    "queryable": "answer queries",
    "scout": "print the nodes found by multicast",
    "ping": "measure round trips to a node or to a queryable",
    "bench": "measure how fast a node takes, delivers and answers",
    "tree": "print keys as a tree, with types and last values",
    "info": "print this node, its neighbours and links",
    "liveliness": "print, watch or hold liveliness tokens",
    "doctor": "find out why two nodes do not talk",
    "top": "show keys, publishers, links and drops, live",
    "ui": "serve a page that shows keys, nodes, links and drops, live",
    "trace": "decode the messages of a session, follow a publication",
    "foxglove": "serve live keys to the Foxglove app",
    "record": "write publications into files: MCAP, Parquet, Arrow",
    "play": "publish recordings again, after a look for damage",
    "replay": "publish recordings again: Parquet, Arrow, MCAP, captures",
    "zre": "find peers of ZRE, talk to them, and diagnose missing ones",
    "ros2": "use topics, services, actions, parameters and bags of ROS 2, without ROS",
    "decode": "print the Zenoh, ZMTP and ZRE messages of captures",
    "conformance": "judge a node of Zenoh, ZMTP or ZRE by the rules of its protocol",
    "config": "check configuration files",
    "acl": "explain decisions of access control",
    "keygen": "make certificates, passwords and keys",
    "bridge": "join Zenoh to other protocols: ZRE, MQTT",
    "spool": "keep publications in a folder, and inspect such folders",
    "sink": "append the rows of a spool to tables of Delta Lake, Iceberg and Parquet, each once",
    "completion": "print a script by which a shell completes commands and options",
    "demo": "show the whole road once, from a simulated fleet to a Spark job and back",
}
"""Name of each command, which is also that of its module, and its purpose."""

_DESCRIPTION = """\
Zenoh from the command line.

  zwire router --listen tcp/127.0.0.1:7447      in one terminal
  zwire sub 'demo/**'                           in another
  zwire put demo/hello world                    in a third

commands:
{}
"""

_EPILOG = "zwire COMMAND --help explains a command, with examples."


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _prepare_output()
    if not arguments or arguments[0] in {"-h", "--help", "--version"}:
        return _about(arguments[:1] or ["--help"])
    name, key = arguments[0], ""
    try:
        args = importlib.import_module("zwire.cli._parser").parse(arguments)
        name, key = args.command, getattr(args, "key", key)
        with importlib.import_module("zwire.cli._log").heard(args):
            code = args.run(args)
        sys.stdout.flush()
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else 2
    except BrokenPipeError:
        return _closed()
    except KeyboardInterrupt:
        return 130
    except KeyExprError as error:
        return _failed(name, f"{key}: {error}" if key else error, 2)
    except ConfigError as error:
        return _failed(name, error, 2)
    except ConnectError as error:
        return _failed(name, f"{error}{importlib.import_module('zwire.cli._options').advice(error)}", 1)
    except ZwireError as error:
        return _failed(name, error, 1)
    except OSError as error:
        named = error.filename is not None and error.strerror
        return _failed(name, f"{error.filename}: {error.strerror}" if named else error, 1)
    return int(code)


def _about(option: Sequence[str]) -> int:
    """Print help or version; no command is imported."""
    parser = argparse.ArgumentParser(
        prog="zwire",
        usage="zwire [-h] [--version] COMMAND ...",
        description=_DESCRIPTION.format("\n".join(f"    {n:<14} {text}" for n, text in COMMANDS.items())),
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"zwire {__version__}")
    try:
        parser.parse_args(option)
        sys.stdout.flush()
    except SystemExit:
        return 0
    except BrokenPipeError:
        return _closed()
    return 0


def _closed() -> int:
    """Return the exit code for an output that its reader has closed."""
    # The buffered rest cannot be written; without this the interpreter would report it at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def _prepare_output() -> None:
    """Redirect output that a parent has closed (``>&-``), and let no character of others end a command."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            # The encoding of the terminal may not have each character of a key.
            stream.reconfigure(errors="backslashreplace")
        elif stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end


def _failed(command: str, error: Exception | str, code: int) -> int:
    return int(importlib.import_module("zwire.cli._options").refuse(command, str(error), code))
