"""Write `docs/compatibility.md` from the lists that the tests check, and from the stubs."""

import ast
import inspect
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from interop import differences
from interop.test_surface import ABSENT, PRESENT, SURFACE, is_property, ours, parameters

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"

HEAD = """\
# Compatibility with eclipse-zenoh

`zwire.zenoh` has every name, parameter, default, property and method of the type stubs of eclipse-zenoh
1.10, with its `handlers`, `ext` and `shm`; a test compares them one by one. Another one runs some 600
expressions and the scenes of `tests/interop/scenes.py` on both modules and compares the results: values,
texts, exceptions. This page is generated from the differences that these tests allow; they fail if the
page is wrong.

[Moving from eclipse-zenoh](from/eclipse-zenoh.md) explains how to change a program, [Features](features.md)
lists the implemented parts of Zenoh.
"""


def table(*rows):
    """Rows of a Markdown table; the first is its head."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]) + "\n"


def code(text):
    """Text as a code span."""
    ticks = "``" if "`" in text else "`"
    return f"{ticks} {text} {ticks}" if "`" in text else f"`{text}`"


def shown(outcome):
    """An outcome as a table cell."""
    return f"raises `{outcome.removeprefix('raises ')}`" if outcome.startswith("raises ") else code(outcome)


def besides(name):
    """Names of a class or function that its stub lacks."""
    made = ours(name)
    if inspect.isclass(made):
        known = {member.rpartition(".")[2] for member in SURFACE if member.rpartition(".")[0] == name}
        classes = [cls for cls in made.__mro__ if cls.__module__.startswith("zwire")]
        own = {member for cls in classes for member in vars(cls) if not member.startswith("_")}
        return sorted(own - known)
    known = {parameter for node in SURFACE[name] for parameter, *_ in parameters(node)} | {"self"}
    here = inspect.signature(made).parameters.values()
    return [
        f"{p.name}=" for p in here if p.name not in known and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def more():
    """Names and parameters missing in the stubs, by class and function."""
    for name in PRESENT:
        nodes = SURFACE[name]
        function = any(isinstance(node, ast.FunctionDef) and not is_property(node) for node in nodes)
        special = name.rpartition(".")[2].startswith("__")
        if name != "ZError" and not special and (function or inspect.isclass(ours(name))):
            extra = besides(name)
            if extra:
                yield name, extra


def page():
    """The whole page."""
    parts = [HEAD]
    parts.append("\n## Missing names\n")
    parts.append(table(("Name", "Reason"), *((code(name), why) for name, why in sorted(ABSENT.items()))))
    parts.append("\n## Intended improvements\n")
    parts.append("The signatures are the same; each difference has its own tests.\n")
    parts.append(table(("Subject", "eclipse-zenoh", "zwire"), *differences.ON_PURPOSE))
    parts.append("\n## Differences of sessions\n")
    rows = [
        (s.what, shown(s.theirs) if s.theirs.startswith("raises") else s.theirs, s.ours, s.reason)
        for s in differences.SCENES.values()
    ]
    parts.append(table(("Subject", "eclipse-zenoh", "zwire", "Reason"), *rows))
    parts.append("\n## Differences of values\n")
    for what, value in differences.VALUES.items():
        parts.append(f"### {what}\n\n{value.reason[0].upper()}{value.reason[1:]}.\n")
        rows = [(code(text), shown(there), shown(here)) for text, there, here in value.outcomes]
        parts.append(table(("Expression", "eclipse-zenoh", "zwire"), *rows))
    parts.append("\n## Additional names\n")
    parts.append("Names and parameters that the stubs of eclipse-zenoh do not have.\n")
    rows = [(code(name), ", ".join(map(code, extra))) for name, extra in more()]
    parts.append(table(("Class or function", "Additional names"), *rows))
    return "\n".join(part.rstrip("\n") + "\n" for part in parts).replace("\n\n\n", "\n\n")


if __name__ == "__main__":
    PAGE.write_text(page())
