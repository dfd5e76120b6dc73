"""Notebooks of the documentation, run without Jupyter: each code cell in order, in one module.

Cells may ``await``, as in Jupyter. A cell that has an output in the file prints the same, with ``...`` for
what varies. The loop of a notebook lives as long as its cells: tasks of one cell continue in the next.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import json
import types
from typing import TYPE_CHECKING, Any

import snippets

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = snippets.ROOT / "docs" / "tutorials"


def cells(path: Path) -> list[dict[str, Any]]:
    """Code cells of a notebook."""
    book = json.loads(path.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in book["cells"]]
    assert len(ids) == len(set(ids)), "cells have ids of their own"
    return [cell for cell in book["cells"] if cell["cell_type"] == "code"]


def run(path: Path) -> int:
    """Run a notebook; raise where a cell fails or prints something else. Return the number of cells."""
    module = types.ModuleType("__main__")
    found = cells(path)
    with asyncio.Runner() as runner:
        for number, cell in enumerate(found):
            code = compile(
                "".join(cell["source"]),
                f"{path.name}[{number}]",
                "exec",
                flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            )
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                result = eval(code, module.__dict__)
                if isinstance(result, types.CoroutineType):
                    runner.run(result)
            expected = "".join(line for out in cell["outputs"] for line in out["text"])
            got = printed.getvalue()
            assert snippets.same(expected, got), f"{path.name}[{number}] prints:\n{got}\nnot:\n{expected}"
    return len(found)
