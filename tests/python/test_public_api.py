"""The public interface keeps the names and signatures of `public_api.txt`.

Only the source is read. A public name is one of a public module: defined there, or imported from a private
module of zwire. A class has the methods of its bases in zwire as well. Signatures may gain parameters with
a default; everything else is a line of `CHANGED`, with its reason. ``python tests/python/test_public_api.py
FOLDER`` prints the list for the source in a folder.
"""

from __future__ import annotations

import ast
import functools
import sys
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "zwire"
LISTED = Path(__file__).with_name("public_api.txt")

# Names that are gone or differ, with the reason.
_PART = "a part of the command; the command has subcommands in modules of their own"
CHANGED: dict[str, str] = {
    "zwire.cli.replay.RecordingError": "an import for its own use",
    "zwire.cli.replay.TimedOut": "an import for its own use",
    "zwire.cli.spool.ConfigError": "an import for its own use",
    "zwire.cli.spool.duration": _PART,
    "zwire.cli.spool.run": _PART,
    "zwire.cli.spool.size": _PART,
    "zwire.cli.spool.when": _PART,
    "zwire.cli.zre.add_log": "an import for its own use",
    "zwire.cli.zre.run": _PART,
    "zwire.cli.zre_doctor.ConfigError": "an import for its own use",
    "zwire.zenoh.shm.NotSupported": "an import for its own use; programs take it from zwire.errors",
    "zwire.zmtp.ConfigError": "an import for its own use, in no __all__; programs take it from zwire.errors",
}


class Source:
    """Modules of a source tree, by their names."""

    def __init__(self, package: Path) -> None:
        self.package = package

    @functools.cached_property
    def modules(self) -> dict[str, Path]:
        found = {}
        for path in sorted([*self.package.rglob("*.py"), *self.package.rglob("*.pyi")]):
            parts = path.relative_to(self.package.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        return found

    @functools.cache  # noqa: B019  (one object for each run)
    def tree(self, module: str) -> ast.Module:
        return ast.parse(self.modules[module].read_text())

    def statements(self, module: str) -> list[ast.stmt]:
        """Statements, also those of branches; with imports for type checkers that `__getattr__` does."""
        body = self.tree(module).body
        return flat(body, lazy=any(getattr(node, "name", None) == "__getattr__" for node in body))

    def public(self) -> list[str]:
        return [name for name in self.modules if not any(part.startswith("_") for part in name.split("."))]

    def absolute(self, module: str, node: ast.ImportFrom) -> str:
        """The module that an import names."""
        if not node.level:
            return node.module or ""
        base = module.split(".")
        if self.modules[module].stem != "__init__":
            base = base[:-1]
        base = base[: len(base) - node.level + 1]
        return ".".join([*base, *([node.module] if node.module else [])])

    def find(self, module: str, name: str) -> tuple[str, ast.stmt] | None:
        """The definition of a name and its module, through imports of it."""
        if module not in self.modules:
            return None
        for node in self.statements(module):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                return module, node
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    origin = self.absolute(module, node)
                    # A submodule is no name of its own, and has its own lines where it is public.
                    if (alias.asname or alias.name) == name and f"{origin}.{alias.name}" not in self.modules:
                        return self.find(origin, alias.name)
        return None

    def methods(self, module: str, node: ast.ClassDef) -> dict[str, list[list[str]]]:
        """The signatures of the public methods of a class, inherited ones included."""
        found: dict[str, list[list[str]]] = {}
        for base in reversed(node.bases):
            named = base.value if isinstance(base, ast.Subscript) else base
            place = self.find(module, named.id) if isinstance(named, ast.Name) else None
            if place is not None and isinstance(place[1], ast.ClassDef):
                found |= self.methods(place[0], place[1])
        own: dict[str, list[list[str]]] = {}
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and (
                inner.name == "__init__" or not inner.name.startswith("_")
            ):
                own.setdefault(inner.name, []).append(parameters(inner))
        return found | own

    def names(self, module: str) -> list[str]:
        """The public names of a module that are classes or functions of zwire."""
        names = []
        for node in self.statements(module):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names.append(node.name)
            elif isinstance(node, ast.ImportFrom) and self.absolute(module, node).startswith("zwire"):
                names += [alias.asname or alias.name for alias in node.names]
        return sorted({name for name in names if not name.startswith("_")})


def flat(body: list[ast.stmt], *, lazy: bool = False) -> list[ast.stmt]:
    """Statements, with those of ``if`` and ``try``; with those for type checkers if ``lazy``."""
    found = []
    for node in body:
        found.append(node)
        if isinstance(node, ast.If):
            checking = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" and not lazy
            found += flat(node.orelse if checking else [*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            found += flat(node.body)
    return found


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Parameters: ``*`` before those by keyword, ``=`` behind those with a default, ``...`` behind others."""
    args = node.args
    plain = [*args.posonlyargs, *args.args]
    first = len(plain) - len(args.defaults)
    found = [arg.arg + ("=" if at >= first else "") for at, arg in enumerate(plain)]
    found = [name for name in found if name not in {"self", "cls"}]
    if args.vararg:
        found.append(args.vararg.arg + "...")
    pairs = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    found += ["*" + arg.arg + ("=" if default else "") for arg, default in pairs]
    if args.kwarg:
        found.append("**" + args.kwarg.arg)
    return found


def lines(package: Path) -> dict[str, list[list[str]]]:
    """The signatures of each public function and method; several where a stub has overloads."""
    source, found = Source(package), {}
    for module in source.public():
        for name in source.names(module):
            where, node = source.find(module, name) or (module, None)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.setdefault(f"{module}.{name}", []).append(parameters(node))
            elif isinstance(node, ast.ClassDef):
                found[f"{module}.{name}"] = [[]]
                for method, signatures in source.methods(where, node).items():
                    found[f"{module}.{name}.{method}"] = signatures
    return found


def text(found: dict[str, list[list[str]]]) -> str:
    return "".join(f"{name}({', '.join(one)})\n" for name in sorted(found) for one in found[name])


@dataclass
class Signature:
    """Parameters by kind; True for those with a default."""

    plain: dict[str, bool]
    keywords: dict[str, bool]
    takes_any: bool

    @classmethod
    def of(cls, names: list[str]) -> Signature:
        single = [name for name in names if not name.startswith("**") and not name.endswith("...")]
        plain = {name.rstrip("="): name.endswith("=") for name in single if not name.startswith("*")}
        keywords = {name.strip("*="): name.endswith("=") for name in single if name.startswith("*")}
        return cls(plain, keywords, any(name.startswith("**") for name in names))


def fits(before: list[str], now: list[str]) -> bool:
    """Whether each call by the signature of before is one by that of now."""
    old, new = Signature.of(before), Signature.of(now)
    if list(new.plain)[: len(old.plain)] != list(old.plain):
        return False
    if not new.takes_any and any(name not in {**new.plain, **new.keywords} for name in old.keywords):
        return False
    had = {**old.plain, **old.keywords}
    # A parameter that a call must give now must have been one that each call gave.
    needed = [name for name, optional in {**new.plain, **new.keywords}.items() if not optional]
    return all(had.get(name) is False for name in needed)


def test_names_and_signatures_are_kept():
    now = lines(PACKAGE)
    listed = LISTED.read_text().splitlines()
    assert len(listed) > 1000, "the list is not there"
    wrong = []
    for line in listed:
        name, _, given = line.removesuffix(")").partition("(")
        before = given.split(", ") if given else []
        if name in CHANGED:
            continue
        if name not in now:
            wrong.append(f"gone: {line}")
        elif not any(fits(before, one) for one in now[name]):
            wrong.append(f"changed: {line} is {now[name]}")
    assert wrong == []


def test_the_reader_sees_changes(tmp_path):
    (tmp_path / "zwire").mkdir()
    (tmp_path / "zwire" / "__init__.py").write_text("from ._a import f, C\n")
    (tmp_path / "zwire" / "_a.py").write_text(
        "def f(a, b=1, *, c=None): ...\nclass C:\n    def __init__(self, x): ...\n    def g(self): ...\n"
    )
    found = lines(tmp_path / "zwire")
    assert text(found) == "zwire.C()\nzwire.C.__init__(x)\nzwire.C.g()\nzwire.f(a, b=, *c=)\n"
    (tmp_path / "zwire" / "_b.py").write_text(
        "from ._a import C\nclass D(C):\n    def g(self, y): ...\n    def h(self): ...\n"
    )
    (tmp_path / "zwire" / "c.py").write_text("from zwire._b import D\n")
    inherited = lines(tmp_path / "zwire")
    assert {name: one for name, one in inherited.items() if name.startswith("zwire.c.")} == {
        "zwire.c.D": [[]],
        "zwire.c.D.__init__": [["x"]],
        "zwire.c.D.g": [["y"]],
        "zwire.c.D.h": [[]],
    }
    (before,) = found["zwire.f"]
    assert fits(before, before)
    assert fits(before, [*before, "*d="])
    assert not fits(before, [*before, "*d"])
    assert not fits(before, ["a", "*c="])
    assert not fits(before, ["b=", "a=", "*c="])
    assert not fits(before, ["a", "b=", "*e="])


if __name__ == "__main__":
    sys.stdout.write(text(lines(Path(sys.argv[1]))))
