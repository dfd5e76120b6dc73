"""Sphinx settings; `make docs` builds with warnings as errors."""

import json
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

from zwire import _zwire

_manifest = (Path(__file__).parents[1] / "Cargo.toml").read_text(encoding="utf-8")

project = "zwire"
author = "The zwire developers"
project_copyright = "2026, The zwire developers"
release = re.search(r'(?m)^version = "([^"]+)"$', _manifest)[1]

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from zwire_api import linkcode_resolve  # noqa: E402, F401 - sphinx.ext.linkcode calls it

extensions = ["myst_parser", "sphinx.ext.linkcode", "sphinx_copybutton", "zwire_api", "zwire_notebook"]
exclude_patterns = ["_build", "_extra", "_templates"]
myst_enable_extensions = ["colon_fence", "deflist"]
# `[text](page.md#heading)` links to a heading by its slug.
myst_heading_anchors = 3
nitpicky = True
# Types of the standard library and of other packages are not part of this documentation.
nitpick_ignore_regex = [(r"py:.*", r"(?!zwire)[\w.]*")]
python_maximum_signature_line_length = 88
add_module_names = False

html_theme = "furo"
html_title = f"zwire {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
templates_path = ["_templates"]
# 404.html, which a server shows for an unknown address.
html_extra_path = ["_extra"]
html_search_scorer = str(Path(__file__).with_name("_static") / "scorer.js")
# The prompt of a console is not copied, nor is output.
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"

_KEY_TABLE = "<!-- key-table -->"


def _cell(value: object) -> str:
    return f"`{json.dumps(value)}`".replace("|", "\\|")


def _default(key: dict) -> str:
    values = [_cell(key["default"][mode]) for mode in ("router", "peer", "client")]
    if len(set(values)) == 1:
        return values[0]
    return ", ".join(f"{mode} {value}" for mode, value in zip("rpc", values, strict=True))


def _key_table() -> str:
    """Markdown table of all configuration keys, from the table that the code reads."""
    lines = ["| Key | Default | Value | Meaning |", "|---|---|---|---|"]
    for path, key in json.loads(_zwire.config_defaults()).items():
        value = key["expected"] + (f", {key['unit']}" if key["unit"] else "")
        value += ", or one for each mode" if key["per_mode"] else ""
        meaning = key["meaning"] + ("" if key["acted_on"] else " *Not acted on yet.*")
        value, meaning = (text.replace("|", "\\|") for text in (value, meaning))
        lines.append(f"| `{path}` | {_default(key)} | {value} | {meaning} |")
    return "\n".join(lines)


def _insert_key_table(_app: object, page: str, source: list[str]) -> None:
    if page == "guide/configuration":
        if _KEY_TABLE not in source[0]:
            raise ValueError(f"{page} has no line {_KEY_TABLE!r} for the table of keys")
        source[0] = source[0].replace(_KEY_TABLE, _key_table())


def setup(app: Sphinx) -> None:
    """Insert the table of configuration keys when Sphinx reads its page."""
    app.connect("source-read", _insert_key_table)
