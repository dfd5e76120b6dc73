"""Notebooks as pages: ``.ipynb`` is read as Markdown, with its cells and their outputs as blocks.

Tests run the notebooks (``tests/notebooks.py``); this reads what is in their files and runs nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from myst_parser.parsers.sphinx_ import MystParser

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx


def _block(kind: str, text: str) -> str:
    return f"```{kind}\n{text.rstrip()}\n```"


def markdown(book: dict[str, Any]) -> str:
    """Return the cells of a notebook as Markdown, and a line below its title."""
    parts: list[str] = []
    for cell in book["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(_block("python", text))
        parts += [_block("text", "".join(out["text"])) for out in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


class NotebookParser(MystParser):
    """Parser of notebooks."""

    supported = ("zwire-notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse a notebook as its Markdown."""
        super().parse(markdown(json.loads(inputstring)), document)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the suffix of notebooks."""
    app.add_source_suffix(".ipynb", "zwire-notebook")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True}
