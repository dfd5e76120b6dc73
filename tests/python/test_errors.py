"""The tree of exceptions: its shape, attributes and pickling."""

import inspect
import pickle
from pathlib import Path

import pytest

from zwire import errors, zenoh

CLASSES = [getattr(errors, name) for name in errors.__all__]
BUILTIN = {
    "ConfigError": ValueError,
    "InvalidValue": ValueError,
    "KeyExprError": ValueError,
    "RowError": ValueError,
    "RecordingError": ValueError,
    "DefinitionError": ValueError,
    "ConnectError": ConnectionError,
    "TimedOut": TimeoutError,
    "UnknownPeer": LookupError,
    "OffsetOutOfRange": LookupError,
    "SpoolUnreachable": TimeoutError,
    "StalePayload": BufferError,
    "NotDurable": TimeoutError,
    "NotSupported": NotImplementedError,
    "DecodeError": ValueError,
    "PayloadError": ValueError,
}


def test_the_tree_is_drawn_as_it_is():
    drawn, parents = {}, {}
    for line in errors.__doc__.splitlines():
        indent = len(line) - len(line.lstrip())
        name = line.split()[0] if line.split() else ""
        if indent >= 4 and name in errors.__all__:
            parents[indent] = name
            drawn[name] = parents.get(indent - 2)
    assert drawn.keys() == set(errors.__all__)
    for name, parent in drawn.items():
        bases = [base.__name__ for base in getattr(errors, name).__bases__]
        assert bases[0] == (parent or "Exception"), name
        assert getattr(errors, name).__bases__[1:] == ((BUILTIN[name],) if name in BUILTIN else ())


def test_every_class_is_in_the_catalogue():
    page = (Path(__file__).parents[2] / "docs" / "guide" / "errors.md").read_text()
    assert [name for name in errors.__all__ if f"`{name}`" not in page] == []


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_keeps_message_and_attributes(cls):
    fields = {name: f"some {name}" for name in cls._fields}
    for error in (cls("message", **fields), cls("message"), cls()):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is cls
        assert str(again) == str(error)
        assert again.args == error.args
        for name in fields:
            assert getattr(again, name) == getattr(error, name)
            assert name in inspect.getdoc(cls)
    with pytest.raises(TypeError, match="has no field nonsense"):
        cls("message", nonsense=1)


def test_programs_catch_them_by_the_name_of_the_reference():
    assert zenoh.ZError is errors.ZwireError
    with pytest.raises(zenoh.ZError):
        zenoh.KeyExpr("a//b")


@pytest.mark.parametrize(
    ("cls", "provoke", "attributes"),
    [
        (errors.KeyExprError, lambda: zenoh.KeyExpr("a//b"), {"offset": 2}),
        (errors.InvalidValue, lambda: zenoh.ZenohId("x"), {}),
        (errors.ConfigError, lambda: zenoh.Config({"mod": 1}), {"path": "mod", "nearest": "mode"}),
        (
            errors.ConnectError,
            lambda: zenoh.open(
                {"mode": "client", "connect/endpoints": ["tcp/127.0.0.1:1"], "connect/timeout_ms": 0}
            ),
            {"endpoint": "tcp/127.0.0.1:1"},
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_binding_raises_them(cls, provoke, attributes):
    with pytest.raises(cls) as caught:
        provoke()
    assert type(caught.value) is cls
    again = pickle.loads(pickle.dumps(caught.value))
    for name, value in attributes.items():
        assert getattr(caught.value, name) == getattr(again, name) == value


def test_a_session_raises_them_too():
    config = {"mode": "peer", "listen/endpoints": [], "scouting/multicast/enabled": False}
    with zenoh.open(config) as session, session.declare_subscriber("errors/a") as subscriber:
        with pytest.raises(errors.TimedOut) as caught:
            subscriber.recv(timeout=0.01)
        assert caught.value.seconds == 0.01
        subscriber.undeclare()
        with pytest.raises(errors.UsageError):
            subscriber.undeclare()
    with pytest.raises(errors.UsageError, match="closed"):
        session.put("errors/a", b"")
