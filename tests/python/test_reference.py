"""The reference of the documentation: each public name is in it once, with its types, words and examples."""

import ast
import asyncio
import contextlib
import importlib
import inspect
import re
import sys
import types

import pytest

import nodes
import snippets
from zwire import _zwire, aio, zenoh, zre

sys.path.insert(0, str(snippets.ROOT / "docs" / "_ext"))

api = importlib.import_module("zwire_api")


def test_the_modules_are_found():
    assert {"zwire.zenoh", "zwire.zenoh.handlers", "zwire.errors", "zwire.zre", "zwire.spark"} <= set(
        api.public()
    )
    assert not [module for module in api.public() if "._" in module or "cli" in module]


@pytest.mark.parametrize("module", api.public())
def test_every_public_name_is_documented(module):
    writer = api.Writer(module)
    assert writer.page()
    for name in writer.classes():
        assert writer.class_page(name)
    assert writer.undocumented == []


def test_what_is_compiled_says_what_it_is():
    silent = []
    for name in _zwire.__all__:
        obj = getattr(_zwire, name)
        members = vars(obj).items() if isinstance(obj, type) else ()
        silent += [name] if callable(obj) and not obj.__doc__ else []
        silent += [
            f"{name}.{member}"
            for member, value in members
            if not member.startswith("_")
            and (callable(value) or inspect.isgetsetdescriptor(value))
            and not value.__doc__
        ]
    assert silent == []


def test_every_name_is_documented_in_one_place():
    places = list(api.documented().values())
    assert len(places) > 150, "the guard has not found the names"
    assert len(places) == len(set(places))
    assert {f"zwire.zenoh.{name}" for name in zenoh.__all__ if name[0].isupper()} - set(places) == {
        "zwire.zenoh.Handler",  # zwire.zenoh.handlers has it
        "zwire.zenoh.ZError",  # zwire.errors
    }
    assert {f"zwire.zre.{name}" for name in zre.__all__} <= set(places)


def test_overloads_are_one_signature_with_types_that_readers_know():
    page = "\n".join(api.Writer("zwire.zenoh").class_page("Session"))
    page = page.replace("~zwire.zenoh.", "").replace("~builtins.", "")
    start = page.index(".. py:class:: Session")
    lines = page[start:].splitlines()
    (get,) = (line.strip() for line in lines if line.strip().startswith(".. py:method:: get("))
    assert get.startswith(".. py:method:: get(selector: Selector | KeyExpr | str, handler: ")
    assert "| tuple[Callable[[Reply], Any] | " in get
    assert "| Callable[[Reply], Any] | " in get
    assert "| None = None, *, target: QueryTarget | None = None, " in get
    assert "timeout: float | None = None" in get
    assert get.endswith("-> handlers.Handler[Reply] | H | None")
    assert "_Into" not in page


def class_of(module, name):
    """The lines about one class."""
    writer = api.Writer(module)
    page = "\n".join(
        writer.class_page(name.rstrip("\n(")) if name.rstrip("\n(") in writer.classes() else writer.page()
    )
    return page.split(f".. py:class:: {name}", 1)[1].partition("\n.. py:")[0]


def test_members_of_generic_bases_are_those_of_a_class():
    query = class_of("zwire.typed", "Query\n")
    assert ".. py:property:: value\n      :type: Q\n" in query
    node = class_of("zwire.aio.zre", "Node(")
    assert ".. py:method:: recv(timeout: ~builtins.float | None = None) -> ~zwire.zre.Event\n" in node


def test_members_of_the_bases_of_private_bases_are_there():
    subscriber = class_of("zwire.aio", "Subscriber\n")
    assert "recv(timeout: ~builtins.float | None = None) -> ~zwire.zenoh.Sample\n" in subscriber
    assert "undeclare() -> None\n" in subscriber
    assert "Goes with ``async with``, ``await``, ``async for``." in subscriber


def test_what_several_classes_derive_from_stands_once():
    assert "recv(timeout: ~builtins.float | None = None) -> T\n" in class_of("zwire.aio", "Listener\n")
    assert "Base: :py:class:`Listener` (``T`` is ``LinkEvent``)." in class_of(
        "zwire.aio", "LinkEventsListener\n"
    )
    subscriber = class_of("zwire.typed", "Subscriber\n")
    assert "Base: :py:class:`~zwire.typed.Subscription`." in subscriber
    assert "try_recv" in subscriber
    assert "failed\n" in class_of("zwire.typed", "Subscription\n")
    assert "failed\n" not in subscriber


def test_type_variables_of_aliases_are_what_they_are_given():
    page = "\n".join(api.Writer("zwire.aio").page())
    (signature,) = (line for line in page.splitlines() if "py:function:: scout(" in line)
    assert "Callable[[~zwire.zenoh.Hello], ~builtins.object]" in signature
    assert "[T]" not in signature


def test_each_class_has_a_page_in_the_list_of_its_module():
    writer = api.Writer("zwire.zenoh")
    assert {"Session", "Subscriber", "Sample"} <= set(writer.classes())
    page = "\n".join(writer.page())
    assert [name for name in writer.classes() if f"* - :py:class:`{name}`" not in page] == []
    assert ".. py:class::" not in page


def classes():
    """Module, name and docstring of each public class."""
    for module in api.public():
        writer = api.Writer(module)
        for name in writer.classes():
            yield module, name, writer._text(name)


CLASSES = list(classes())
EXAMPLES = {f"{module} {name}": found for module, name, text in CLASSES if (found := api.program_of(text))}

# Modules that examples use without an import.
NAMES = {
    name.rpartition(".")[2]: name
    for name in api.public()
    if name.count(".") == 1 or name in {"zwire.zenoh.ext", "zwire.zenoh.handlers", "zwire.zenoh.shm"}
}


def test_each_class_has_an_example():
    """In its docstring, or on a page that a test runs."""
    assert len(CLASSES) > 200, "the classes are not found"
    without = [(module, name) for module, name, text in CLASSES if api.program_of(text) is None]
    assert [each for each in without if api.example(*each) is None] == []
    assert len(EXAMPLES) > 150
    page, code = api.example("zwire.zenoh", "Hello")
    assert code in (snippets.ROOT / "docs" / f"{page}.md").read_text()
    assert "aio" not in code


def test_examples_differ():
    assert len(set(EXAMPLES.values())) == len(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_class_runs(name, tmp_path, monkeypatch, capsys):
    """Behind a `print` stands what it prints, if that is the same each time."""
    module, code = name.split()[0], EXAMPLES[name]
    monkeypatch.chdir(tmp_path)
    # An existing module: dataclasses and types look their names up in it.
    program = types.ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", program)
    names = program.__dict__
    names |= {short: importlib.import_module(full) for short, full in NAMES.items()}
    in_loop = module.startswith("zwire.aio")
    if in_loop and module.count(".") == 2:
        names[module.rpartition(".")[2]] = importlib.import_module(module)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if in_loop else 0
    compiled = compile(code, name, "exec", flags)
    config = nodes.settings("peer", listen=nodes.LOCAL)

    async def run_in_loop():
        async with aio.open(config) as session:
            names["session"] = session
            if inspect.isawaitable(running := eval(compiled, names)):
                await running

    if in_loop:
        asyncio.run(run_in_loop())
    else:
        with zenoh.open(config) if "session" in code else contextlib.nullcontext() as session:
            names["session"] = session
            exec(compiled, names)
    printed = capsys.readouterr().out.splitlines()
    told = [re.search(r"  # (.+)$", line) for line in code.splitlines() if re.match(r"\s*print\(", line)]
    if any(told):
        assert len(told) == len(printed)
        assert [found[1] for found in told if found] == [
            line for line, found in zip(printed, told, strict=True) if found
        ]


def test_names_lead_to_the_line_of_their_source():
    where, line = api.place_of("zwire.zenoh", "Session.put")
    text = where.path.read_text().splitlines()
    assert "def put(" in text[line - 1]
    assert api.linkcode_resolve("py", {"module": "zwire.zenoh", "fullname": "Session.put"}) == (
        f"../_modules/{where.name}.html#L-{line}"
    )
    assert api.linkcode_resolve("py", {"module": "zwire.zenoh", "fullname": "Session.nothing"}) is None
