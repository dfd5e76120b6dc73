"""The directive ``zwire-api``: the public names of a module, from its text and what it says at run time.

Autodoc asks the interpreter, and the interpreter does not know the types of what is compiled. So this reads
the text, which is a stub or a source: names are those of ``__all__``, followed to where they are defined;
signatures and types are those found there, the overloads of a call as one. A docstring is that of the text
or of the object, whichever says more.

A name that another public module defines is a reference to there.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import inspect
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docutils import nodes
    from sphinx.application import Sphinx

SOURCES = Path(__file__).parents[2] / "python"

# The order of the reference. Where two modules have a name, the first one documents it; modules that are not
# here come last.
_ORDER = (
    "zwire.zenoh.handlers",
    "zwire.zenoh",
    "zwire.zenoh.ext",
    "zwire.typed",
    "zwire.config",
    "zwire.errors",
    "zwire.zre",
    "zwire.zre.compat",
    "zwire.zmtp",
    "zwire.capture",
    "zwire.spark",
    "zwire.spark.schema",
)

# Programs, not modules to import.
_PROGRAMS = ("zwire.cli", "zwire.demo", "zwire.__main__")

# What is private and has a better name for readers.
_SHOWN = {"_Tree": "SessionConfig", "_ArrowArray": "ArrowArray", "_Declared": "Declared"}

# What the special methods of a class let one do with its objects.
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
    "__buffer__": "``memoryview`` and whatever takes buffers",
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

# What is code already, what is a role, and else code between single backticks.
_CODE = re.compile(r"``.+?``|:[\w:]+:`[^`]+`|`([^`\n]+)`(?!_)", re.DOTALL)

# A type variable of ours.
_VARIABLE = re.compile(r"\b_?[A-Z]\b")

# So many constants of one class are a list of names.
_MANY = 20


@dataclass
class Source:
    """The text of a module: what it defines, what it imports, and what stands below its attributes.

    As the home of a generic base, with what its type variables are ``given`` as.
    """

    name: str
    path: Path
    text: str | None
    defined: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    given: dict[str, ast.expr] = field(default_factory=dict)

    def collect(self, body: list[ast.stmt]) -> None:
        """Take the definitions of a body, those below ``if TYPE_CHECKING`` too."""
        for node in body:
            match node:
                case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.defined.setdefault(node.name, []).append(node)
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                    if name == "__all__":
                        self.names = ast.literal_eval(node.value)
                    self.defined.setdefault(name, []).append(node)
                case ast.ImportFrom(module=module, level=0) if module:
                    for alias in node.names:
                        self.imported[alias.asname or alias.name] = (module, alias.name)
                case ast.If():
                    self.collect(node.body)


@functools.cache
def source(name: str) -> Source | None:
    """Read a module of ours; ``None`` for those of others."""
    base = SOURCES.joinpath(*name.split("."))
    for path in (base.with_suffix(".pyi"), base.with_suffix(".py"), base / "__init__.py"):
        if name.partition(".")[0] == "zwire" and path.exists():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found = Source(name, path, ast.get_docstring(tree))
            found.collect(tree.body)
            return found
    return None


def resolve(module: str, name: str) -> tuple[Source, str] | None:
    """Follow imports to the module that defines a name."""
    here = source(module)
    while here and name not in here.defined:
        before = (module, name)
        module, name = here.imported.get(name, before)
        if (module, name) == before:  # nowhere, or a submodule
            return None
        here = source(module)
    return (here, name) if here else None


@functools.cache
def public() -> list[str]:
    """All modules whose names are documented, in the order of the reference."""
    found: list[str] = []
    for path in sorted(SOURCES.glob("zwire/**/*.py")):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        hidden = any(part.startswith("_") for part in module.split("."))
        if not hidden and not module.startswith(_PROGRAMS) and (here := source(module)) and here.names:
            found.append(module)
    known = {module: place for place, module in enumerate(_ORDER)}
    return sorted(found, key=lambda module: (known.get(module, len(known)), module))


@functools.cache
def documented() -> dict[tuple[str, str], str]:
    """Where each definition is documented: module and name there to the public path."""
    found = [
        (place, module, name)
        for module in public()
        for name in getattr(source(module), "names", [])
        if (place := resolve(module, name))
    ]
    # Of those in the order, a module that defines a name comes before those that only have it.
    found.sort(key=lambda each: (each[1] not in _ORDER, each[0][0].name != each[1]))
    places: dict[tuple[str, str], str] = {}
    for (home, original), module, name in found:
        places.setdefault((home.name, original), f"{module}.{name}")
    return places


class _Types(ast.NodeTransformer):
    """Makes an annotation readable elsewhere: aliases are what they stand for, names of ours are paths."""

    def __init__(
        self, module: Source, given: dict[str, ast.expr] | None = None, within: tuple[str, ...] = ()
    ) -> None:
        self.module, self.given, self.within = module, given or {}, within

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.given:
            return self.given[node.id]
        if alias := self._alias(node.id, []):
            return alias
        found = resolve(self.module.name, node.id)
        if found and (place := documented().get((found[0].name, found[1]))):
            return ast.Name(f"~{place}")
        if isinstance(getattr(builtins, node.id, None), type):
            return ast.Name(f"~builtins.{node.id}")  # `bytes` alone might be a property of ours
        shown = _SHOWN.get(node.id, node.id.lstrip("_"))
        # A path that leads nowhere: the name alone would be one of that name elsewhere.
        return ast.Name(f"~private.{shown}" if found else shown)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        # `zenoh.Session`, where `zenoh` is an imported module.
        if isinstance(node.value, ast.Name) and node.value.id in self.module.imported:
            module = ".".join(self.module.imported[node.value.id])
            if source(module) and (found := resolve(module, node.attr)):
                return ast.Name(f"~{documented().get((found[0].name, found[1]), node.attr)}")
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if isinstance(node.value, ast.Name):
            if node.value.id == "Literal":
                return node
            given = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if alias := self._alias(node.value.id, [self.visit(each) for each in given]):
                return alias
        self.generic_visit(node)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str):
            return self.visit(ast.parse(node.value, mode="eval").body)
        return node

    def _alias(self, name: str, given: list[ast.expr]) -> ast.expr | None:
        found = resolve(self.module.name, name)
        if not found or name in self.within or (found[0].name, found[1]) in documented():
            return None
        match found[0].defined[found[1]]:
            case [ast.AnnAssign(annotation=ast.Name(id="TypeAlias"), value=ast.expr() as value)]:
                variables = list(dict.fromkeys(_VARIABLE.findall(ast.unparse(value))))
                inner = _Types(found[0], dict(zip(variables, given, strict=False)), (*self.within, name))
                return inner.visit(ast.parse(ast.unparse(value), mode="eval").body)
        return None


def _type(module: Source, annotation: ast.expr | None) -> list[str]:
    """The alternatives of an annotation, ``None`` last."""
    if annotation is None:
        return []
    annotation = _Types(module, module.given).visit(ast.parse(ast.unparse(annotation), mode="eval").body)
    parts: list[str] = []

    def split(node: ast.expr) -> None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            split(node.left)
            split(node.right)
        else:
            parts.append(ast.unparse(node))

    split(annotation)
    return parts


def _union(parts: list[str]) -> str:
    unique = list(dict.fromkeys(parts))
    if "None" in unique:
        unique.remove("None")
        unique.append("None")
    return " | ".join(unique)


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def signature(module: Source, overloads: list[_Function], *, method: bool) -> str:
    """One signature for all overloads."""
    types: dict[str, list[str]] = {}
    defaults: dict[str, str] = {}
    order: list[tuple[str, str]] = []
    returned: list[str] = []
    for function in overloads:
        arguments = function.args
        plain = [*arguments.posonlyargs, *arguments.args]
        values = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
        every = [("", each, value) for each, value in zip(plain, values, strict=True)][method:]
        if arguments.vararg:
            every.append(("*", arguments.vararg, None))
        every += [
            ("k", each, value)
            for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        ]
        if arguments.kwarg:
            every.append(("**", arguments.kwarg, None))
        for kind, each, value in every:
            if each.arg not in types:
                order.append((kind, each.arg))
            types.setdefault(each.arg, []).extend(_type(module, each.annotation))
            if value is not None:
                defaults[each.arg] = ast.unparse(value)
        returned += _type(module, function.returns)
    shown: list[str] = []
    for kind, name in order:
        if kind == "k" and not any(other.startswith("*") for other in shown):
            shown.append("*")
        text = (kind if kind != "k" else "") + name
        text += f": {_union(types[name])}" if types[name] else ""
        text += f" = {defaults[name]}" if name in defaults else ""
        shown.append(text)
    result = _union(returned)
    return f"({', '.join(shown)})" + (f" -> {result}" if result and result != "Self" else "")


def _fields(module: Source, node: ast.ClassDef) -> str:
    """The constructor of a dataclass or named tuple."""
    fields: list[str] = []
    for each in node.body:
        match each:
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                text = f"{name}: {_union(_type(module, each.annotation))}"
                fields.append(text if each.value is None else f"{text} = {_default(each.value)}")
    decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
    return f"({', '.join((['*'] if 'kw_only=True' in decorators else []) + fields)})"


def _default(value: ast.expr) -> str:
    """A default as a reader wants it: what helpers of ours wrap comes last in their call."""
    match value:
        case ast.Call(func=ast.Name(id="key"), args=[*_, last]):
            return ast.unparse(last)
        case ast.Call(func=ast.Name(id="field")):
            return "..."
    return ast.unparse(value)


def text_of(stub: str | None, obj: object) -> str | None:
    """What is said of an object, in the text or at run time: whichever says more."""
    return max(stub or "", inspect.getdoc(obj) or "", key=len)


def render(text: str | None) -> Iterator[str]:
    """A docstring as reStructuredText. Those of the compiled module mark code with single backticks."""
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


def _variables(home: Source, name: str) -> list[str]:
    """The type variables of a class, in their order."""
    node = home.defined[name][0]
    assert isinstance(node, ast.ClassDef)
    bases = [base for base in node.bases if isinstance(base, ast.Subscript)]
    bases.sort(key=lambda base: ast.unparse(base.value) != "Generic")
    return list(dict.fromkeys(name for base in bases for name in _VARIABLE.findall(ast.unparse(base.slice))))


def _given(base: Source) -> str:
    """What the type variables of a base stand for, where a class says so."""
    said = [(name, ast.unparse(value)) for name, value in base.given.items()]
    shown = [f"``{name}`` is ``{value.rpartition('.')[2]}``" for name, value in said if name != value]
    return f" ({', '.join(shown)})" if shown else ""


def _named(decorators: list[ast.expr], *names: str) -> bool:
    return any(ast.unparse(each) in names for each in decorators)


class Writer:
    """The lines of a page."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.source = source(module)
        if self.source is None or not self.source.names:
            raise ValueError(f"{module} has no list of public names")
        self.runtime = importlib.import_module(module)
        self.lines: list[str] = []
        self.undocumented: list[str] = []

    def say(self, depth: int, name: str, text: str | None) -> None:
        """Add a docstring, or remember that there is none."""
        self.add(depth, *render(text))
        if not text:
            self.undocumented.append(f"{self.module}.{name}")

    def add(self, depth: int, *lines: str) -> None:
        self.lines += [f"{'   ' * depth}{line}".rstrip() for line in lines]

    def page(self) -> list[str]:
        assert self.source is not None
        self.add(0, f".. py:module:: {self.module}", "", *render(self.source.text))
        elsewhere: list[str] = []
        bases: dict[tuple[str, str], int] = {}
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
            for base in self._bases(*place):
                if (base[0].name, base[1]) not in documented():
                    bases[base[0].name, base[1]] = bases.get((base[0].name, base[1]), 0) + 1
        self.shared = set()
        self.shared = {key for key, count in bases.items() if count > 1 and self._says(*key)}
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
        elif isinstance(definitions[0], _Function):
            self.function("py:function", 0, name, home, definitions, obj)
        else:
            self.add(0, f".. py:data:: {name}")
            annotation = getattr(definitions[0], "annotation", None)
            if annotation is not None and "TypeAlias" not in ast.unparse(annotation):
                self.add(1, f":type: {_union(_type(home, annotation))}")
            self.add(0, "")

    def function(
        self, kind: str, depth: int, path: str, home: Source, overloads: list[_Function], obj: object
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

    def _bases(self, home: Source, name: str) -> list[tuple[Source, str]]:
        node = home.defined[name][0]
        if not isinstance(node, ast.ClassDef):
            return []
        bases: list[tuple[Source, str]] = []
        for base in node.bases:
            match base:
                case ast.Name(id=named):
                    given: list[ast.expr] = []
                case ast.Subscript(value=ast.Name(id=named), slice=ast.Tuple(elts=given)):
                    pass
                case ast.Subscript(value=ast.Name(id=named), slice=single):
                    given = [single]
                case _:
                    continue
            if found := resolve(home.name, named):
                types = _Types(home, home.given)
                shown = [types.visit(ast.parse(ast.unparse(each), mode="eval").body) for each in given]
                where = replace(found[0], given=dict(zip(_variables(*found), shown, strict=False)))
                bases.append((where, found[1]))
        return bases

    def cls(self, name: str, home: Source, original: str, obj: object) -> None:
        node = home.defined[original][0]
        assert isinstance(node, ast.ClassDef)
        members = self._members(home, original)
        # That of a private base is for us.
        constructors = [
            each for each in node.body if isinstance(each, _Function) and each.name in ("__new__", "__init__")
        ]
        shown = ""
        if constructors:
            shown = signature(home, constructors, method=True).split(" -> ")[0]
        elif _named(
            [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list], "dataclass"
        ) or any(ast.unparse(base) == "NamedTuple" for base in node.bases):
            shown = _fields(home, node)
        error = isinstance(obj, type) and issubclass(obj, Exception)
        self.add(0, f".. py:{'exception' if error else 'class'}:: {name}{'' if error else shown}")
        if _named(node.decorator_list, "final"):
            self.add(1, ":final:")
        self.add(0, "")
        public = [
            f":py:class:`~{documented()[base[0].name, base[1]]}`"
            for base in self._bases(home, original)
            if (base[0].name, base[1]) in documented()
        ]
        if isinstance(obj, type) and issubclass(obj, Exception):
            public += [f"``{base.__name__}``" for base in obj.__bases__ if base.__module__ == "builtins"]
        public += [
            f":py:class:`{base[1]}`{_given(base[0])}"
            for base in self._bases(home, original)
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
        """Whether a base has something to read about."""
        home = source(module)
        assert home is not None
        return any(not key.startswith("_") for key in self._members(home, name))

    @staticmethod
    def _able(members: dict[str, tuple[Source, list[ast.stmt]]], special: str) -> bool:
        return isinstance(members[special][1][0], _Function)

    @staticmethod
    def _constant(definitions: list[ast.stmt]) -> bool:
        first = definitions[0]
        return isinstance(first, ast.AnnAssign) and ast.unparse(first.annotation).startswith("ClassVar")

    def _members(
        self, home: Source, name: str, *, below: bool = False
    ) -> dict[str, tuple[Source, list[ast.stmt]]]:
        """Members in their order, those of private bases too, unless the class is said to have that base."""
        members: dict[str, tuple[Source, list[ast.stmt]]] = {}
        elsewhere: set[str] = set()
        for where, base in self._bases(home, name):
            inherited = self._members(where, base, below=True)
            if (where.name, base) in documented() or ((where.name, base) in self.shared and not below):
                elsewhere |= inherited.keys()
            else:
                members |= inherited
        # Two bases may have one in common.
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
                    # What stands below an attribute is about it.
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
            runtime = getattr(obj, name)  # the wrapper explains what a static method is
        if isinstance(first, _Function) and _named(first.decorator_list, "property", "cached_property"):
            self.add(1, f".. py:property:: {name}")
            if kind := _union(_type(home, first.returns)):
                self.add(2, f":type: {kind}")
            self.add(0, "")
            self.say(2, path, text_of(ast.get_docstring(first), runtime))
        elif isinstance(first, _Function):
            overloads = [each for each in definitions if isinstance(each, _Function)]
            self.function("py:method", 1, path, home, overloads, runtime)
        elif isinstance(first, ast.AnnAssign | ast.Assign):
            self.add(1, f".. py:attribute:: {name}")
            if isinstance(first, ast.AnnAssign):
                self.add(2, f":type: {_union(_type(home, first.annotation))}")
            elif isinstance(first.value, ast.Constant):
                self.add(2, f":value: {first.value.value!r}")
            self.add(0, "")
            for each in definitions[1:]:
                if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                    self.add(2, *render(str(each.value.value)))


class ApiDirective(SphinxDirective):
    """``.. zwire-api:: zwire.zenoh``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module = self.arguments[0]
        if module not in public():
            raise self.error(f"{module} is no public module")
        for each in {place for place, _ in documented()} | {module}:
            if here := source(each):
                self.env.note_dependency(str(here.path))
        self.env.note_dependency(__file__)
        lines = Writer(module).page()
        return self.parse_text_to_nodes("\n".join(lines))


def write_pages(app: Sphinx) -> None:
    """Write a page for each module that has names of its own, and their table of contents."""
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
