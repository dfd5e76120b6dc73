"""The command ``zwire``.

One module per command, imported when it is asked for. Each has ``EPILOG`` with examples,
``configure(parser)`` and ``run(args) -> int``.

Exit codes: 0 done; 1 failed, with one line on the standard error that says why; 2 the command line or the
configuration is wrong; 3 no reply came (``get``) or too little came in time (``sub``); 130 interrupted
before the work was done; 141 the reader of the output closed it.
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
from zwire.errors import ConfigError, KeyExprError, ZwireError

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
    "replay": "publish recordings again: Parquet, Arrow, MCAP, captures",
    "zre": "find peers of ZRE, talk to them, and diagnose missing ones",
    "decode": "print the Zenoh, ZMTP and ZRE messages of captures",
    "conformance": "judge a node of Zenoh, ZMTP or ZRE by the rules of its protocol",
    "spool": "keep publications in a folder, and inspect such folders",
    "demo": "show the whole road once, from a simulated fleet to a Spark job and back",
}
"""Name of each command, which is also that of its module, and its purpose."""

_DESCRIPTION = """\
Zenoh from the command line.

  zwire router --listen tcp/127.0.0.1:7447      in one terminal
  zwire sub 'demo/**'                           in another
  zwire put demo/hello world                    in a third
"""

_EPILOG = "zwire COMMAND --help explains a command, with examples."


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _prepare_output()
    if arguments[:2] == ["spool", "keep"]:
        # --dir means the same, and argparse cannot read positional words on both sides of an option.
        del arguments[1]
    try:
        args = _parser(arguments).parse_args(arguments)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else 2
    try:
        command = importlib.import_module(f"zwire.cli.{args.command}")
        with importlib.import_module("zwire.cli._log").heard(args):
            code = command.run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The buffered rest cannot be written; without this the interpreter would report it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130
    except KeyExprError as error:
        key = getattr(args, "key", None) if hasattr(args, "key") else args.selector
        return _failed(args.command, f"{key or repr(key)}: {error}", 2)
    except ConfigError as error:
        return _failed(args.command, error, 2)
    except ZwireError as error:
        return _failed(args.command, error, 1)
    except OSError as error:
        named = error.filename is not None and error.strerror
        return _failed(args.command, f"{error.filename}: {error.strerror}" if named else error, 1)
    return int(code)


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


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:

    def layout(prog: str) -> argparse.HelpFormatter:
        return argparse.RawDescriptionHelpFormatter(prog, max_help_position=30, width=100)

    parser = argparse.ArgumentParser(
        prog="zwire",
        usage="zwire [-h] [--version] COMMAND ...",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=layout,
    )
    parser.add_argument("--version", action="version", version=f"zwire {__version__}")
    # The arguments make room: argparse forgets the indentation of commands when it measures their names.
    commands = parser.add_subparsers(
        prog="zwire", dest="command", metavar="COMMAND [ARGUMENT ...]", required=True, title="commands"
    )
    # Only the command that is asked for is imported: `zwire --help` is fast, and needs no optional package.
    asked = next((word for word in arguments if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, formatter_class=layout)
        if name == asked:
            module = importlib.import_module(f"zwire.cli.{name}")
            command.description = f"{summary[0].upper()}{summary[1:]}.\n\n{module.__doc__ or ''}".rstrip()
            command.epilog = module.EPILOG
            module.configure(command)
            if name != "zre":
                importlib.import_module("zwire.cli._log").add_log(command)
    return parser
