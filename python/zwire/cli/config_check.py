"""Reads JSON5 (.json5, .json) and YAML (.yaml, .yml), those of zenohd included.

Exit code 2: a key or a value is wrong, so that no session can use the file. Keys without effect here do not
change the exit code, unless `--strict` is given.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from zwire._zwire import config_check
from zwire.cli import _options

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire config check router.json5
  zwire config check router.yaml --strict --format jsonl
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    parser.add_argument("--strict", action="store_true", help="keys without effect are errors, too")
    _options.add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings, one per line."""
    wrong = False
    for file in args.files:
        for is_error, line, column, path, problem in config_check(file, file.read_text(encoding="utf-8")):
            wrong |= is_error or args.strict
            level = "error" if is_error else "note"
            if args.format == "jsonl":
                place = {"file": str(file), "line": line, "column": column}
                _options.show(json.dumps({**place, "level": level, "path": path, "problem": problem}))
            else:
                _options.show(f"{file}:{line}:{column}: {level}: {problem}")
    return 2 if wrong else 0
