"""The names, methods and parameters of eclipse-zenoh, read from its type stubs, against what is here."""

import ast
import enum
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import zenoh as theirs

MODULES = ["", "handlers", "ext", "shm"]


# What the stubs have and this package does not, each with the reason.
ABSENT = {
    "EntityId": "names a type in the stubs, not in the module",
    "SourceSn": "names a type in the stubs, not in the module",
}


def stub(module):
    name = (module or "__init__") + ".pyi"
    return ast.parse((Path(theirs.__file__).parent / name).read_text())


def is_property(function):
    """Also what sets one."""
    return any(
        (isinstance(d, ast.Name) and d.id == "property")
        or (isinstance(d, ast.Attribute) and d.attr == "setter")
        for d in function.decorator_list
    )


def public(name):
    """Or special."""
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def surface():
    """Dotted name in the package, and its definitions in the stub: several where it is overloaded."""
    found = {}
    for module in MODULES:
        prefix = f"{module}." if module else ""
        for node in stub(module).body:
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module is None:
                for alias in node.names:
                    found.setdefault(alias.name, []).append(node)
            elif isinstance(node, ast.FunctionDef) and public(node.name):
                found.setdefault(prefix + node.name, []).append(node)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name) and public(target.id):
                        found.setdefault(prefix + target.id, []).append(node)
            elif isinstance(node, ast.ClassDef) and public(node.name):
                found.setdefault(prefix + node.name, []).append(node)
                for name, member in members(node):
                    found.setdefault(f"{prefix}{node.name}.{name}", []).append(member)
    return found


def members(cls):
    for node in cls.body:
        if isinstance(node, ast.FunctionDef) and public(node.name):
            yield node.name, node
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id, node
        elif isinstance(node, ast.Assign):
            yield from ((target.id, node) for target in node.targets)


SURFACE = surface()


def excuse(name):
    """Why it is absent: for a reason of its own, or because what it belongs to is."""
    parts = name.split(".")
    return next((ABSENT[n] for i in range(len(parts), 0, -1) if (n := ".".join(parts[:i])) in ABSENT), None)


PRESENT = sorted(name for name in SURFACE if excuse(name) is None)


def ours(name):
    """The object, or None."""
    found = importlib.import_module("zwire.zenoh")
    for part in name.split("."):
        if inspect.ismodule(found) and not hasattr(found, part):
            try:
                importlib.import_module(f"{found.__name__}.{part}")
            except ModuleNotFoundError:
                return None
        found = getattr(found, part, None)
    return found


def parameters(function):
    """Of a definition in a stub: name, kind, default (``...`` for any) of each after the first."""
    a = function.args
    positional = [(p.arg, inspect.Parameter.POSITIONAL_ONLY) for p in a.posonlyargs]
    positional += [(p.arg, inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in a.args]
    without = len(positional) - len(a.defaults)
    made = [
        (name, kind, a.defaults[i - without] if i >= without else inspect.Parameter.empty)
        for i, (name, kind) in enumerate(positional)
    ]
    made += [
        (p.arg, inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty if default is None else default)
        for p, default in zip(a.kwonlyargs, a.kw_defaults, strict=True)
    ]
    return made


def test_the_stubs_are_read():
    assert len(SURFACE) > 400
    assert {"open", "Session.put", "Sample.payload", "handlers.Callback.drop", "ext.z_serialize"} <= set(
        PRESENT
    )


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_what_counts_as_absent_is(name):
    assert name in SURFACE, "the stubs do not have it any more"
    assert ours(name) is None, "it exists: the list is too long"


@pytest.mark.parametrize("name", PRESENT)
def test_it_is_here(name):
    made = ours(name)
    assert made is not None
    for node in SURFACE[name]:
        if isinstance(node, ast.ClassDef):
            assert inspect.isclass(made)
            if any(isinstance(base, ast.Name) and base.id == "Enum" for base in node.bases):
                assert issubclass(made, enum.Enum)
        elif isinstance(node, ast.FunctionDef) and is_property(node):
            assert inspect.isdatadescriptor(made)
        elif isinstance(node, ast.FunctionDef):
            assert callable(made)


SPECIAL = {"__eq__", "__ge__", "__hash__", "__str__", "__repr__", "__bool__", "__len__", "__bytes__"} | {
    "__contains__",
    "__getitem__",
    "__setitem__",
    "__iter__",
    "__next__",
    "__enter__",
    "__exit__",
    "__call__",
}
CALLED = sorted(
    name
    for name in PRESENT
    if name.rpartition(".")[2] not in SPECIAL
    and any(isinstance(node, ast.FunctionDef) and not is_property(node) for node in SURFACE[name])
)


@pytest.mark.parametrize("name", CALLED)
def test_it_takes_the_same_arguments(name):
    holder, _, method = name.rpartition(".")
    # A constructor shows in the signature of its class.
    made = ours(holder) if method == "__new__" else ours(name)
    here = dict(inspect.signature(made).parameters)
    for node in SURFACE[name]:
        wanted = parameters(node)
        decorators = {d.id for d in node.decorator_list if isinstance(d, ast.Name)}
        if inspect.isclass(ours(holder)) and holder and not decorators & {"staticmethod"}:
            # `self` or `cls`, which a bound class method and a class do not show.
            wanted = wanted[1:]
            if method != "__new__" and "classmethod" not in decorators:
                here.pop("self", None)
        order = [n for n, p in here.items() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        places = [n for n, kind, _ in wanted if kind is not inspect.Parameter.KEYWORD_ONLY]
        assert order[: len(places)] == places
        for parameter, kind, default in wanted:
            assert parameter in here, f"no parameter {parameter}"
            p = here[parameter]
            assert p.kind is kind or (kind, p.kind) == (
                inspect.Parameter.POSITIONAL_ONLY,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
            ), parameter
            if default is inspect.Parameter.empty:
                # An overload asks for what another may leave out; nothing that was optional may be asked for.
                continue
            # As text: some are calls.
            assert ast.unparse(ast.parse(repr(p.default))) == ast.unparse(default), parameter
        # What comes on top must not be asked for.
        known = {n for n, _, _ in wanted}
        assert all(p.default is not inspect.Parameter.empty for n, p in here.items() if n not in known)


ENUMERATIONS = sorted(
    name
    for name in PRESENT
    if any(
        isinstance(n, ast.ClassDef) and any(ast.unparse(b) == "Enum" for b in n.bases) for n in SURFACE[name]
    )
)


@pytest.mark.parametrize("name", ENUMERATIONS)
def test_members_have_the_same_numbers(name):
    there, here = getattr(theirs, name), ours(name)
    members = [n for n in vars(there) if n.isupper()]
    assert len(members) > 1
    assert {n: int(getattr(here, n)) for n in members} == {n: int(getattr(there, n)) for n in members}


def test_modules_are_there_without_a_further_import():
    code = "import zwire.zenoh as zenoh; zenoh.ext.Int8(1), zenoh.shm.JustAlloc(), zenoh.handlers.Handler"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)


@pytest.mark.parametrize("shm", [theirs.shm, ours("shm")], ids=["theirs", "ours"])
def test_buffers_of_shared_memory_behave_the_same(shm):
    error = (theirs.ZError, ours("ZError"))
    layout = shm.MemoryLayout((64, shm.AllocAlignment.ALIGN_1_BYTE))
    assert (layout.size, layout.alignment.get_alignment_value()) == (64, 1)
    assert shm.AllocAlignment(3).align_size(9) == 16
    provider = shm.ShmProvider.default_backend(65_536)
    policy = shm.GarbageCollect(shm.Defragment(), shm.Deallocate(5, shm.JustAlloc()), safe=False)
    kept = []
    for asked in (64, layout):
        buffer = provider.alloc(asked, shm.BlockOn(policy))
        kept.append(buffer)
        buffer[:] = b"a" * 64
        buffer[1] = ord("b")
        buffer[2:4] = b"cd"
        assert bytes(buffer) == b"abcd" + b"a" * 60
        assert str(buffer) == "abcd" + "a" * 60
        with pytest.raises(ValueError, match="different structures"):
            buffer[0:2] = b"too long"
    assert provider.available <= 65_536 - 128
    assert isinstance(provider.garbage_collect(), int)
    for cls in (shm.ZShm, shm.ZShmMut, shm.ShmProvider):
        with pytest.raises(TypeError):
            cls()
    for wrong in (
        lambda: shm.AllocAlignment(64),
        lambda: provider.alloc(0),
        lambda: provider.alloc(1 << 20),
    ):
        with pytest.raises(error):
            wrong()
    with pytest.raises(TypeError):
        shm.BlockOn(1)
    payload = (theirs if shm is theirs.shm else importlib.import_module("zwire.zenoh")).ZBytes(buffer)
    assert payload.as_shm().is_valid()
    assert bytes(payload.as_shm()) == bytes(payload)
    # Consumed there, read-only here.
    with pytest.raises((*error, TypeError)):
        buffer[0] = 1


def test_a_subclass_of_the_error_is_no_surprise():
    assert issubclass(ours("ZError"), Exception)
    assert issubclass(ours("ext.ZDeserializeError"), Exception)
