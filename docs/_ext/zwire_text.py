"""Static analysis of a module's source: names, their definitions, and types."""

from __future__ import annotations

import ast
import builtins
import functools
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "python"

# Order of the reference. If two modules have a name, the first one documents it; unlisted modules come last.
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
    "zwire.spool",
    "zwire.storage",
    "zwire.recording",
    "zwire.ros2",
    "zwire.columns",
    "zwire.spark",
    "zwire.spark.schema",
)

# Programs, not modules to import.
PROGRAMS = ("zwire.cli", "zwire.demo", "zwire.__main__")

# Private names, with the public names that replace them.
_SHOWN = {"_Tree": "~zwire.config.SessionConfig"}

# A type variable of zwire.
_VARIABLE = re.compile(r"\b_?[A-Z]\b")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Source:
    """Source of a module: definitions, imports, and docstrings of attributes.

    For the module of a generic base, ``given`` has the arguments of its type variables.
    """

    name: str
    path: Path
    text: str | None
    defined: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    given: dict[str, ast.expr] = field(default_factory=dict)

    def collect(self, body: list[ast.stmt]) -> None:
        """Collect the definitions of a body, including those below ``if TYPE_CHECKING``."""
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
    """Read a module of zwire; ``None`` for other modules."""
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
        if (module, name) == before:  # undefined, or a submodule
            return None
        here = source(module)
    return (here, name) if here else None


@functools.cache
def public() -> list[str]:
    """Modules with documented names, in the order of the reference."""
    found: list[str] = []
    for path in sorted(SOURCES.glob("zwire/**/*.py")):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        hidden = any(part.startswith("_") for part in module.split("."))
        if not hidden and not module.startswith(PROGRAMS) and (here := source(module)) and here.names:
            found.append(module)
    known = {module: place for place, module in enumerate(_ORDER)}
    return sorted(found, key=lambda module: (known.get(module, len(known)), module))


@functools.cache
def documented() -> dict[tuple[str, str], str]:
    """Map of each definition (module, name) to its documented public path."""
    found = [
        (place, module, name)
        for module in public()
        for name in getattr(source(module), "names", [])
        if (place := resolve(module, name))
    ]
    # Among listed modules, the defining module takes precedence over those that re-export a name.
    found.sort(key=lambda each: (each[1] not in _ORDER, each[0][0].name != each[1]))
    places: dict[tuple[str, str], str] = {}
    for (home, original), module, name in found:
        places.setdefault((home.name, original), f"{module}.{name}")
    return places


class _Types(ast.NodeTransformer):
    """Transformer that makes an annotation readable outside its module: expands aliases, qualifies names."""

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
            return ast.Name(f"~builtins.{node.id}")  # `bytes` alone might be a property of zwire
        if shown := _SHOWN.get(node.id):
            return ast.Name(shown)
        shown = node.id.lstrip("_")
        if found and isinstance(found[0].defined[found[1]][0], ast.ClassDef):
            # A path without a target: the name alone could match a class of another module.
            return ast.Name(f"~private.{shown}")
        return ast.Name(shown)

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


def type_of(module: Source, annotation: ast.expr | None) -> list[str]:
    """Alternatives of an annotation, ``None`` last."""
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


def union(parts: list[str]) -> str:
    """Join alternatives into one type."""
    unique = list(dict.fromkeys(parts))
    if "None" in unique:
        unique.remove("None")
        unique.append("None")
    return " | ".join(unique)


def signature(module: Source, overloads: list[Function], *, method: bool) -> str:
    """Merge all overloads into one signature."""
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
            if kind == "**":
                types[each.arg] = []  # those of an overload contain what the definition names one by one
            types.setdefault(each.arg, []).extend(type_of(module, each.annotation))
            if value is not None:
                defaults[each.arg] = ast.unparse(value)
        returned += type_of(module, function.returns)
    shown: list[str] = []
    for kind, name in sorted(order, key=lambda each: each[0] == "**"):
        if kind == "k" and not any(other.startswith("*") for other in shown):
            shown.append("*")
        text = (kind if kind != "k" else "") + name
        text += f": {union(types[name])}" if types[name] else ""
        text += f" = {defaults[name]}" if name in defaults else ""
        shown.append(text)
    result = union(returned)
    return f"({', '.join(shown)})" + (f" -> {result}" if result and result != "Self" else "")


def fields(module: Source, node: ast.ClassDef) -> str:
    """Signature of the constructor of a dataclass or named tuple."""
    fields: list[str] = []
    for each in node.body:
        match each:
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                text = f"{name}: {union(type_of(module, each.annotation))}"
                fields.append(text if each.value is None else f"{text} = {_default(each.value)}")
    decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
    return f"({', '.join((['*'] if 'kw_only=True' in decorators else []) + fields)})"


def _default(value: ast.expr) -> str:
    """Readable text of a default: helpers of zwire wrap it as their last argument."""
    match value:
        case ast.Call(func=ast.Name(id="key"), args=[*_, last]):
            return ast.unparse(last)
        case ast.Call(func=ast.Name(id="field")):
            return "..."
    return ast.unparse(value)


def _variables(home: Source, name: str) -> list[str]:
    """Type variables of a class, in order."""
    node = home.defined[name][0]
    assert isinstance(node, ast.ClassDef)
    bases = [base for base in node.bases if isinstance(base, ast.Subscript)]
    bases.sort(key=lambda base: ast.unparse(base.value) != "Generic")
    return list(dict.fromkeys(name for base in bases for name in _VARIABLE.findall(ast.unparse(base.slice))))


def bases(home: Source, name: str) -> list[tuple[Source, str]]:
    """Bases of a class that zwire defines, with their type arguments."""
    node = home.defined[name][0]
    if not isinstance(node, ast.ClassDef):
        return []
    found: list[tuple[Source, str]] = []
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
        place = resolve(home.name, named)
        if place and isinstance(place[0].defined[place[1]][0], ast.ClassDef):
            types = _Types(home, home.given)
            shown = [types.visit(ast.parse(ast.unparse(each), mode="eval").body) for each in given]
            where = replace(place[0], given=dict(zip(_variables(*place), shown, strict=False)))
            found.append((where, place[1]))
    return found
