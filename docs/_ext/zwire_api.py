"""The directive ``zwire-api``: the public names of a module, from its source and from the imported object.

Autodoc asks the interpreter, which does not know the types of compiled objects. This directive parses the
stub or the source instead: names are those of ``__all__``, followed to their definition; signatures and
types are those of the definition, the overloads of a call as one. A docstring is that of the source or of
the object, whichever is longer.

A name that another public module defines becomes a reference to that module. Each class has a page of its
own. A class without a program in its docstring shows the shortest block of the documentation that names it,
or calls what returns it. Exceptions stay on the page of their module.

Each name links to its source, on pages of this site.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util.docutils import SphinxDirective
from zwire_text import (
    PROGRAMS,
    SOURCES,
    Function,
    Source,
    bases,
    documented,
    fields,
    public,
    resolve,
    signature,
    source,
    type_of,
    union,
)

from zwire.columns import RowSchema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docutils import nodes
    from sphinx.application import Sphinx

# Operations that special methods of a class enable.
_ABILITIES = {
    "__enter__": "``with``",
    "__aenter__": "``async with``",
    "__await__": "``await``",
    "__iter__": "``for``",
    "__aiter__": "``async for``",
    "__len__": "``len``",
    "__bool__": "``bool``",
    "__int__": "``int``",
    "__bytes__": "``bytes``",
    "__buffer__": "``memoryview`` and other users of buffers",
    "__contains__": "``in``",
    "__getitem__": "``[]``",
    "__call__": "calls",
    "__truediv__": "``/``",
    "__lt__": "order",
    "__hash__": "hashing",
    "__arrow_c_array__": "Arrow, as an array",
    "__arrow_c_stream__": "Arrow, as a stream",
}

_NAPOLEON = Config(napoleon_use_rtype=False)

_INTRODUCTION = """\
All public names, with types from the stubs. Times are seconds unless a name ends in ``_ms`` or the text says
otherwise; sizes are bytes.

Each class has an example, which a test runs. ``session`` in it is an open session, one of
:py:mod:`zwire.aio` where the example awaits, and names such as ``zenoh`` and ``ext`` are modules of zwire.

.. toctree::
   :maxdepth: 1
"""

# Existing code spans, roles, and code between single backticks.
_CODE = re.compile(r"``.+?``|:[\w:]+:`[^`]+`|`([^`\n]+)`(?!_)", re.DOTALL)

# A class with more constants than this gets one list of their names.
_MANY = 20


# Example of a docstring: indented lines below ``::``.
_EXAMPLE = re.compile(r"^::\n\n((?:(?: {4}.*)?\n)+)", re.MULTILINE)
_SECTIONS = re.compile(r"^(?=(?:Args|Raises|Returns):\n)", re.MULTILINE)


def text_of(stub: str | None, obj: object) -> str | None:
    """Docstring of an object, from the source or at run time: the longer one, with the example of either."""
    texts = sorted((inspect.cleandoc(stub or ""), inspect.getdoc(obj) or ""), key=len)
    shorter, text = (f"{each}\n" if each else "" for each in texts)
    found = _EXAMPLE.search(shorter)
    if found and not _EXAMPLE.search(text):
        head, *sections = _SECTIONS.split(text, maxsplit=1)
        text = f"{head.rstrip()}\n\n{found[0].rstrip()}\n\n{''.join(sections)}"
    return text.rstrip()


def program_of(text: str | None) -> str | None:
    """Return the example of a docstring."""
    found = _EXAMPLE.search(f"{text or ''}\n")
    return textwrap.dedent(found[1]).rstrip() + "\n" if found else None


def render(text: str | None) -> Iterator[str]:
    """Convert a docstring to reStructuredText; those of the compiled module have code in single backticks."""
    if not text:
        return
    text = _CODE.sub(lambda found: f"``{found[1]}``" if found[1] else found[0], inspect.cleandoc(text))
    # Napoleon leaves line ends in the lines of exceptions.
    for line in "\n".join(GoogleDocstring(text, _NAPOLEON).lines()).split("\n"):
        found = re.match(r":raises (\w+):", line)
        if found and ("zwire.errors", found[1]) in documented():
            yield line.replace(found[1], f"~zwire.errors.{found[1]}", 1)
        else:
            yield line
    yield ""


def _given(base: Source) -> str:
    """Text for the type arguments that a class gives its base."""
    said = [(name, ast.unparse(value)) for name, value in base.given.items()]
    shown = [f"``{name}`` is ``{value.rpartition('.')[2]}``" for name, value in said if name != value]
    return f" ({', '.join(shown)})" if shown else ""


def _named(decorators: list[ast.expr], *names: str) -> bool:
    return any(ast.unparse(each) in names for each in decorators)


class Writer:
    """Writer of the lines of a page."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.source = source(module)
        if self.source is None or not self.source.names:
            raise ValueError(f"{module} has no list of public names")
        self.runtime = importlib.import_module(module)
        self.lines: list[str] = []
        self.undocumented: list[str] = []
        self.shared: set[tuple[str, str]] = set()

    def say(self, depth: int, name: str, text: str | None) -> None:
        """Add a docstring, or record its absence."""
        self.add(depth, *render(text))
        if not text:
            self.undocumented.append(f"{self.module}.{name}")

    def add(self, depth: int, *lines: str) -> None:
        self.lines += [f"{'   ' * depth}{line}".rstrip() for line in lines]

    def page(self) -> list[str]:
        assert self.source is not None
        self.add(0, f".. py:module:: {self.module}", "", *render(self.source.text))
        elsewhere: list[str] = []
        counts: dict[tuple[str, str], int] = {}
        found: list[tuple[str, Source, str]] = []
        for name in self.source.names:
            place = resolve(self.module, name)
            if place is None:
                submodule = f"{self.module}.{name}"
                if source(submodule):
                    elsewhere.append(f":py:mod:`{submodule}`")
                continue
            qualified = documented()[place[0].name, place[1]]
            if qualified != f"{self.module}.{name}":
                elsewhere.append(f"``{name}`` is :py:obj:`{qualified}`")
                continue
            found.append((name, *place))
            for base in bases(*place):
                if (base[0].name, base[1]) not in documented():
                    counts[base[0].name, base[1]] = counts.get((base[0].name, base[1]), 0) + 1
        self.shared = set()
        self.shared = {key for key, count in counts.items() if count > 1 and self._says(*key)}
        if elsewhere:
            self.add(0, f"Also here: {', '.join(elsewhere)}.", "")
        order = {ast.ClassDef: 1, ast.FunctionDef: 0, ast.AsyncFunctionDef: 0}
        found.sort(key=lambda item: (order.get(type(item[1].defined[item[2]][0]), 2), item[0].lower()))
        for where, name in sorted(self.shared):
            home = source(where)
            assert home is not None
            self.cls(name, home, name, getattr(importlib.import_module(where), name))
        classes = [name for name, home, original in found if self._apart(name, home, original)]
        for name, home, original in found:
            if name not in classes:
                self.entry(name, home, original)
        if classes:
            self.add(0, ".. rubric:: Classes", "", ".. list-table::", "")
            for name in classes:
                said = next(line for line in render(self._text(name)) if line or not self._text(name))
                self.add(1, f"* - :py:class:`{name}`", f"  - {said}")
            self.add(0, "")
        return self.lines

    def classes(self) -> list[str]:
        """Names of the classes with pages of their own."""
        assert self.source is not None
        found = []
        for name in self.source.names:
            place = resolve(self.module, name)
            if place and documented()[place[0].name, place[1]] == f"{self.module}.{name}":
                found += [name] if self._apart(name, *place) else []
        return found

    def class_page(self, name: str) -> list[str]:
        """Lines of the page of one class."""
        self.page()  # finds the bases that the page of the module describes
        self.lines = []
        place = resolve(self.module, name)
        assert place is not None
        self.add(0, f".. py:currentmodule:: {self.module}", "")
        self.add(0, f"A class of :py:mod:`{self.module}`.", "")
        self.entry(name, *place)
        if program_of(self._text(name)) is None and (found := example(self.module, name)):
            page, code = found
            self.add(0, ".. rubric:: Example", "", f"A part of :doc:`/{page}`, which runs as it stands:", "")
            self.add(0, ".. code-block:: python", "")
            self.add(1, *code.rstrip().split("\n"))
            self.add(0, "")
        return self.lines

    def _apart(self, name: str, home: Source, original: str) -> bool:
        """Whether a name is a class with a page of its own."""
        obj = getattr(self.runtime, name)
        error = isinstance(obj, type) and issubclass(obj, Exception)
        return isinstance(home.defined[original][0], ast.ClassDef) and not error

    def _text(self, name: str) -> str | None:
        place = resolve(self.module, name)
        assert place is not None
        node = place[0].defined[place[1]][0]
        assert isinstance(node, ast.ClassDef)
        return text_of(ast.get_docstring(node), getattr(self.runtime, name))

    def entry(self, name: str, home: Source, original: str) -> None:
        definitions = home.defined[original]
        obj = getattr(self.runtime, name)
        if isinstance(definitions[0], ast.ClassDef):
            self.cls(name, home, original, obj)
        elif isinstance(definitions[0], Function):
            self.function("py:function", 0, name, home, definitions, obj)
        else:
            self.add(0, f".. py:data:: {name}")
            annotation = getattr(definitions[0], "annotation", None)
            if annotation is not None and "TypeAlias" not in ast.unparse(annotation):
                self.add(1, f":type: {union(type_of(home, annotation))}")
            self.add(0, "")
            self.columns(obj)

    def columns(self, obj: object) -> None:
        """Show the columns of a schema of rows."""
        if not isinstance(obj, RowSchema):
            return
        self.add(
            1, ".. list-table::", "   :header-rows: 1", "", "   * - Column", "     - Type", "     - Holds"
        )
        for name, kind in obj.columns:
            meaning = _CODE.sub(
                lambda found: f"``{found[1]}``" if found[1] else found[0], obj.meanings.get(name, "")
            )
            self.add(1, f"   * - ``{name}``", f"     - ``{kind}``", f"     - {meaning}")
        self.add(0, "")

    def function(
        self, kind: str, depth: int, path: str, home: Source, overloads: list[Function], obj: object
    ) -> None:
        name = path.rpartition(".")[2]
        first = overloads[0]
        static = _named(first.decorator_list, "staticmethod")
        shown = signature(home, overloads, method=kind == "py:method" and not static)
        self.add(depth, f".. {kind}:: {name}{shown}")
        for decorator in ("classmethod", "staticmethod", "abstractmethod"):
            if _named(first.decorator_list, decorator):
                self.add(depth + 1, f":{decorator}:")
        if isinstance(first, ast.AsyncFunctionDef):
            self.add(depth + 1, ":async:")
        self.add(depth, "")
        stub = next((text for each in overloads if (text := ast.get_docstring(each))), None)
        self.say(depth + 1, path, text_of(stub, obj))

    def cls(self, name: str, home: Source, original: str, obj: object) -> None:
        node = home.defined[original][0]
        assert isinstance(node, ast.ClassDef)
        members = self._members(home, original)
        # The constructor of a private base is internal.
        constructors = [
            each for each in node.body if isinstance(each, Function) and each.name in ("__new__", "__init__")
        ]
        shown = ""
        if constructors:
            shown = signature(home, constructors, method=True).split(" -> ")[0]
        elif _named(
            [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list], "dataclass"
        ) or any(ast.unparse(base) == "NamedTuple" for base in node.bases):
            shown = fields(home, node)
        error = isinstance(obj, type) and issubclass(obj, Exception)
        self.add(0, f".. py:{'exception' if error else 'class'}:: {name}{'' if error else shown}")
        if _named(node.decorator_list, "final"):
            self.add(1, ":final:")
        self.add(0, "")
        public = [
            f":py:class:`~{documented()[base[0].name, base[1]]}`"
            for base in bases(home, original)
            if (base[0].name, base[1]) in documented()
        ]
        if isinstance(obj, type) and issubclass(obj, Exception):
            public += [f"``{base.__name__}``" for base in obj.__bases__ if base.__module__ == "builtins"]
        public += [
            f":py:class:`{base[1]}`{_given(base[0])}"
            for base in bases(home, original)
            if (base[0].name, base[1]) in self.shared
        ]
        if public:
            self.add(1, f"Base: {', '.join(public)}.", "")
        self.say(1, name, text_of(ast.get_docstring(node), obj))
        able = [
            text
            for special, text in _ABILITIES.items()
            if special in members and self._able(members, special)
        ]
        if able:
            self.add(1, f"Goes with {', '.join(able)}.", "")
        constants = [key for key, (_, definitions) in members.items() if self._constant(definitions)]
        if len(constants) > _MANY:
            self.add(1, f"Constants: {', '.join(f'``{each}``' for each in constants)}.", "")
        for key, (where, definitions) in members.items():
            if not key.startswith("_") and not (len(constants) > _MANY and key in constants):
                self.member(f"{name}.{key}", where, definitions, obj)

    def _says(self, module: str, name: str) -> bool:
        """Whether a base has public members."""
        home = source(module)
        assert home is not None
        return any(not key.startswith("_") for key in self._members(home, name))

    @staticmethod
    def _able(members: dict[str, tuple[Source, list[ast.stmt]]], special: str) -> bool:
        return isinstance(members[special][1][0], Function)

    @staticmethod
    def _constant(definitions: list[ast.stmt]) -> bool:
        first = definitions[0]
        return isinstance(first, ast.AnnAssign) and ast.unparse(first.annotation).startswith("ClassVar")

    def _members(
        self, home: Source, name: str, *, below: bool = False
    ) -> dict[str, tuple[Source, list[ast.stmt]]]:
        """Members in order, including those of private bases, unless the page names the base."""
        members: dict[str, tuple[Source, list[ast.stmt]]] = {}
        elsewhere: set[str] = set()
        for where, base in bases(home, name):
            inherited = self._members(where, base, below=True)
            if (where.name, base) in documented() or ((where.name, base) in self.shared and not below):
                elsewhere |= inherited.keys()
            else:
                members |= inherited
        # Two bases may share a member.
        members = {key: found for key, found in members.items() if key not in elsewhere}
        node = home.defined[name][0]
        assert isinstance(node, ast.ClassDef)
        own: dict[str, tuple[Source, list[ast.stmt]]] = {}
        last: ast.stmt | None = None
        for each in node.body:
            match each:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    own.setdefault(each.name, (home, []))[1].append(each)
                case ast.AnnAssign(target=ast.Name(id=key)) | ast.Assign(targets=[ast.Name(id=key)]):
                    own[key] = (home, [each])
                case ast.Expr(value=ast.Constant(value=str())) if isinstance(
                    last, ast.AnnAssign | ast.Assign
                ):
                    # A string below an attribute is its docstring.
                    own[next(reversed(own))][1].append(each)
            last = each
        return members | own

    def member(self, path: str, home: Source, definitions: list[ast.stmt], obj: object) -> None:
        name = path.rpartition(".")[2]
        first = definitions[0]
        try:
            runtime = inspect.getattr_static(obj, name)
        except AttributeError:
            runtime = None
        if isinstance(runtime, staticmethod | classmethod):
            runtime = getattr(obj, name)  # the wrapper's docstring describes static methods in general
        if isinstance(first, Function) and _named(first.decorator_list, "property", "cached_property"):
            self.add(1, f".. py:property:: {name}")
            if kind := union(type_of(home, first.returns)):
                self.add(2, f":type: {kind}")
            self.add(0, "")
            self.say(2, path, text_of(ast.get_docstring(first), runtime))
        elif isinstance(first, Function):
            overloads = [each for each in definitions if isinstance(each, Function)]
            self.function("py:method", 1, path, home, overloads, runtime)
        elif isinstance(first, ast.AnnAssign | ast.Assign):
            self.add(1, f".. py:attribute:: {name}")
            if isinstance(first, ast.AnnAssign):
                self.add(2, f":type: {union(type_of(home, first.annotation))}")
            elif isinstance(first.value, ast.Constant):
                self.add(2, f":value: {first.value.value!r}")
            self.add(0, "")
            for each in definitions[1:]:
                if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                    self.add(2, *render(str(each.value.value)))


@functools.cache
def programs() -> list[tuple[str, str, str]]:
    """Python blocks of the documentation: the page, all code of the page, and the block."""
    found = []
    for folder in ("howto", "guide", "concepts", "from"):
        for path in sorted((Path(__file__).parents[1] / folder).glob("*.md")):
            text = path.read_text(encoding="utf-8")
            blocks = re.findall(r"(?<!-->\n)^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
            found += [(f"{folder}/{path.stem}", "\n".join(blocks), block) for block in blocks]
    return found


@functools.cache
def makers() -> dict[str, set[str]]:
    """Functions and methods by the public class that they return."""
    found: dict[str, set[str]] = {}
    for module in public():
        here = source(module)
        for name in here.names if here else []:
            place = resolve(module, name)
            if place is None:
                continue
            for node in place[0].defined[place[1]]:
                for each in ast.walk(node):
                    if isinstance(each, Function) and each.returns and not each.name.startswith("_"):
                        for path in re.findall(r"~(zwire[\w.]+)", union(type_of(place[0], each.returns))):
                            found.setdefault(path, set()).add(each.name)
    return found


@functools.cache
def example(module: str, name: str) -> tuple[str, str] | None:
    """Page and code of the shortest program that uses a class; ``None`` if there is none."""
    package, _, last = module.rpartition(".")
    best: tuple[tuple[int, int], str, str] | None = None
    calls = "|".join(sorted(makers().get(f"{module}.{name}", ())))
    for page, code, block in programs():
        # The page imports the module, and the blocking form is not that of an event loop.
        # A page may have blocks of both forms.
        waits = "aio" in code and re.search(r"\bawait\b|\basync\b|\baio\b", block) is not None
        in_loop = "aio" in package + last
        if not re.search(rf"\b{last}\b", code) or (waits and not in_loop) or (in_loop and "aio" not in code):
            continue
        if re.search(rf"\b{name}\b", block):
            rank = 0
        elif calls and re.search(rf"\.(?:{calls})\(", block):
            rank = 1
        else:
            continue
        rank += 2 * (waits != in_loop)
        if best is None or (rank, len(block)) < best[0]:
            best = ((rank, len(block)), page, block)
    return best[1:] if best else None


@functools.cache
def place_of(module: str, path: str) -> tuple[Source, int] | None:
    """Source and line of a public name, or of a member of a class."""
    name, _, member = path.partition(".")
    if (found := resolve(module, name)) is None:
        return None
    node: ast.stmt | None = found[0].defined[found[1]][0]
    if member:
        members = Writer(module)._members(*found)  # noqa: SLF001 - a function of this file
        if member not in members:
            return None
        return members[member][0], members[member][1][0].lineno
    return found[0], node.lineno if node else 1


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """Address of the source of a name, from a page of the reference."""
    if domain != "py" or not info["module"] or source(info["module"]) is None:
        return None
    found = place_of(info["module"], info["fullname"])
    return f"../_modules/{found[0].name}.html#L-{found[1]}" if found else None


def source_pages(_app: Sphinx) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield a page for each source that the reference may link to."""
    files = sorted([*SOURCES.glob("zwire/**/*.py"), *SOURCES.glob("zwire/*.pyi")])
    for file in files:
        parts = file.relative_to(SOURCES).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if not name.startswith(PROGRAMS) and (here := source(name)):
            text = here.path.read_text(encoding="utf-8")
            body = highlight(text, PythonLexer(), HtmlFormatter(linespans="L", cssclass="highlight"))
            title, path = f"Source of {name}", file.relative_to(SOURCES.parent).as_posix()
            body = f"<h1>{title}</h1>\n<p><code>{path}</code></p>\n{body}"
            yield f"_modules/{name}", {"title": title, "body": body}, "page.html"


class ApiDirective(SphinxDirective):
    """Directive ``.. zwire-api:: zwire.zenoh``, or of a class: ``.. zwire-api:: zwire.zenoh Session``."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        module, *names = self.arguments
        if module not in public():
            raise self.error(f"{module} is no public module")
        for each in {place for place, _ in documented()} | {module}:
            if here := source(each):
                self.env.note_dependency(str(here.path))
        for name in ("zwire_api.py", "zwire_text.py"):
            self.env.note_dependency(str(Path(__file__).with_name(name)))
        writer = Writer(module)
        lines = writer.class_page(names[0]) if names else writer.page()
        return self.parse_text_to_nodes("\n".join(lines))


def write_pages(app: Sphinx) -> None:
    """Write a page for each module with its own names, and their table of contents."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    pages = {"index.rst": [_heading("Reference"), _INTRODUCTION]}
    homes = {place.rpartition(".")[0] for place in documented().values()}
    for module in public():
        if module in homes:
            page = f"{module}.rst"
            pages[page] = [_heading(module), f".. zwire-api:: {module}\n"]
            pages["index.rst"].append(f"   {module}")
            for name in Writer(module).classes():
                # No entry of the side bar, which each page repeats.
                title = _heading(name)
                pages[f"{module}.{name}.rst"] = [":orphan:\n", title, f".. zwire-api:: {module} {name}\n"]
    for path in folder.glob("*.rst"):
        if path.name not in pages:
            path.unlink()
    for name, parts in pages.items():
        text = "\n".join(parts) + "\n"
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _heading(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive, and write the pages that use it."""
    app.add_directive("zwire-api", ApiDirective)
    app.connect("builder-inited", write_pages)
    app.connect("html-collect-pages", source_pages)
    return {"parallel_read_safe": True}
