"""The directive ``zwire-api``: the public names of a module, from its source and from the imported object.

Autodoc asks the interpreter, which does not know the types of compiled objects. This directive parses the
stub or the source instead: names are those of ``__all__``, followed to their definition; signatures and
types are those of the definition, the overloads of a call as one. A docstring is that of the source or of
the object, whichever is longer.

A name that another public module defines becomes a reference to that module.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util.docutils import SphinxDirective
from zwire_text import (
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

.. toctree::
   :maxdepth: 1
"""

# Existing code spans, roles, and code between single backticks.
_CODE = re.compile(r"``.+?``|:[\w:]+:`[^`]+`|`([^`\n]+)`(?!_)", re.DOTALL)

# A class with more constants than this gets one list of their names.
_MANY = 20


def text_of(stub: str | None, obj: object) -> str | None:
    """Docstring of an object, from the source or at run time: the longer one."""
    return max(stub or "", inspect.getdoc(obj) or "", key=len)


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
        for name, home, original in found:
            self.entry(name, home, original)
        return self.lines

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


class ApiDirective(SphinxDirective):
    """Directive ``.. zwire-api:: zwire.zenoh``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module = self.arguments[0]
        if module not in public():
            raise self.error(f"{module} is no public module")
        for each in {place for place, _ in documented()} | {module}:
            if here := source(each):
                self.env.note_dependency(str(here.path))
        for name in ("zwire_api.py", "zwire_text.py"):
            self.env.note_dependency(str(Path(__file__).with_name(name)))
        lines = Writer(module).page()
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
    return {"parallel_read_safe": True}
