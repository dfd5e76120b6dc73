"""The reference of the documentation: each public name is in it once, with its types and words."""

import importlib
import inspect
import sys

import pytest

import snippets
from zwire import _zwire, zenoh, zre

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
    page = "\n".join(api.Writer("zwire.zenoh").page()).replace("~zwire.zenoh.", "").replace("~builtins.", "")
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
    page = "\n".join(api.Writer(module).page())
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
