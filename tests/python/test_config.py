"""The Python configuration against the table of the compiled module."""

import ast
import dataclasses
import inspect
import json
import pickle
import re
import typing

import pytest

from zwire import _zwire, config
from zwire.config import (
    Attempts,
    Credentials,
    Handler,
    Link,
    PublicationQos,
    QueueSizes,
    Retry,
    SessionConfig,
    Timeouts,
)
from zwire.errors import ConfigError

TABLE = json.loads(_zwire.config_defaults())
CLASSES = [getattr(config, name) for name in config.__all__]


def fields(cls=SessionConfig, path=""):
    """Path and field of every key, through all nested dataclasses."""
    for f in dataclasses.fields(cls):
        here = "/".join(part for part in (path, f.metadata["path"]) if part)
        if dataclasses.is_dataclass(f.default):
            yield from fields(type(f.default), here)
        else:
            yield here, f


FIELDS = list(fields())


def documentation(cls):
    """The text under each field of a class."""
    [node] = ast.parse(inspect.getsource(cls)).body
    texts = {}
    for item, below in zip(node.body, node.body[1:], strict=False):
        if isinstance(item, ast.AnnAssign) and isinstance(below, ast.Expr):
            texts[item.target.id] = " ".join(ast.literal_eval(below.value).split())
    return texts


def test_the_table_is_there():
    assert len(TABLE) > 100
    assert len(FIELDS) > 40


def test_no_two_fields_have_one_path():
    paths = [path for path, _ in FIELDS]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize(("path", "field"), FIELDS, ids=[path for path, _ in FIELDS])
def test_a_field_has_the_default_of_its_key(path, field):
    defaults = list(TABLE[path]["default"].values())
    if field.default is None:
        # Left to the table, because the default depends on the mode, on the section, or is not set.
        assert TABLE[path]["per_mode"] or defaults == [None] * 3
    else:
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        assert defaults == [default] * 3
        assert type(default) is type(defaults[0])


def test_every_key_that_does_something_has_a_field():
    acted_on = {path for path, key in TABLE.items() if key["acted_on"]}
    assert acted_on
    assert acted_on - {path for path, _ in FIELDS} == set()


def test_no_field_is_without_effect():
    assert [path for path, _ in FIELDS if not TABLE[path]["acted_on"]] == []


@pytest.mark.parametrize("cls", CLASSES)
def test_every_field_is_documented_under_itself(cls):
    texts = documentation(cls)
    for f in dataclasses.fields(cls):
        assert texts.get(f.name, "").endswith("."), f.name


@pytest.mark.parametrize(("path", "field"), FIELDS, ids=[path for path, _ in FIELDS])
def test_the_documentation_names_default_unit_and_range(path, field):
    [text] = {
        documentation(cls)[field.name] for cls in CLASSES if any(f is field for f in dataclasses.fields(cls))
    }
    assert "default" in text.lower()
    if isinstance(field.default, int | float) and not isinstance(field.default, bool):
        assert re.search(rf"\b{field.default}\b", text), text
    if match := re.fullmatch(r"an? (?:integer|number) (\S+) to (\S+)", TABLE[path]["expected"]):
        assert f"{match[1]} to {match[2]}" in text
    unit = {"ms": "Milliseconds", "us": "Microseconds", "bytes": "Bytes"}.get(TABLE[path]["unit"])
    if unit:
        assert unit in text
        if unit != "Bytes":
            assert field.name.endswith("_" + TABLE[path]["unit"])


def test_the_types_of_fields_are_there_at_run_time():
    for cls in CLASSES:
        assert typing.get_type_hints(cls).keys() == {f.name for f in dataclasses.fields(cls)}


def test_all_is_frozen_and_keyword_only():
    for cls in CLASSES:
        assert cls.__dataclass_params__.frozen
        assert all(f.kw_only for f in dataclasses.fields(cls))
    with pytest.raises(TypeError):
        SessionConfig("client")
    with pytest.raises(dataclasses.FrozenInstanceError):
        SessionConfig().mode = "client"


def test_defaults_make_an_empty_tree():
    assert SessionConfig().to_json() == {}


def test_a_tree_holds_what_was_set():
    made = SessionConfig(
        mode="client",
        connect="tcp/127.0.0.1:7447",
        listen=[],
        connecting=Attempts(timeout_ms=-1, exit_on_failure=False, retry=Retry(period_max_ms=1000)),
        timeouts=Timeouts(lease_ms=2000, query_ms=5),
        handler=Handler(block_deadline_ms=0),
        link=Link(protocols=["tcp"], queue_sizes=QueueSizes(data=4)),
        credentials=Credentials(user="ann", password="x"),
        publication_qos=[PublicationQos(key_exprs=["a/**"], priority="data_high", express=False)],
        tap="out.pcap",
    )
    assert made.to_json() == {
        "mode": "client",
        "connect": {
            "endpoints": ["tcp/127.0.0.1:7447"],
            "timeout_ms": -1,
            "exit_on_failure": False,
            "retry": {"period_max_ms": 1000},
        },
        "listen": {"endpoints": []},
        "queries_default_timeout": 5,
        "transport": {
            "link": {"protocols": ["tcp"], "tx": {"lease": 2000, "queue": {"size": {"data": 4}}}},
            "auth": {"usrpwd": {"user": "ann", "password": "x"}},
        },
        "qos": {
            "publication": [{"key_exprs": ["a/**"], "config": {"priority": "data_high", "express": False}}]
        },
        "zwire": {"handler": {"block_deadline_ms": 0}, "tap": "out.pcap"},
    }
    json.dumps(made.to_json())


def test_a_configuration_pickles_and_is_a_dictionary_key():
    made = SessionConfig(connect=["tcp/a:1"], publication_qos=[PublicationQos(key_exprs=["a"])])
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert {made: 1}[again] == 1
    assert again.connect == ("tcp/a:1",)


def test_a_password_is_not_shown():
    assert "hunter2" not in repr(SessionConfig(credentials=Credentials(user="ann", password="hunter2")))


@pytest.mark.parametrize(
    "make",
    [
        lambda options, _: _zwire.ZreNode(options),
        lambda options, _: _zwire.ZmtpSocket("DEALER", options),
        lambda options, folder: _zwire.SpoolAppender(folder, options),
        lambda options, folder: _zwire.SpoolWriter(folder, options),
    ],
    ids=["zre", "zmtp", "appender", "spooler"],
)
def test_the_compiled_module_refuses_options_that_it_does_not_read(make, tmp_path):
    make({}, tmp_path / "defaults")
    with pytest.raises(ConfigError, match="no option has this name") as caught:
        make({"lingerr": 1.0}, tmp_path / "other")
    assert caught.value.path == "lingerr"


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"linger": -1.0}, "linger"),
        ({"segment_seconds": "soon"}, "segment_seconds"),
        ({"segment_bytes": -1}, "segment_bytes"),
        ({"shards": 0}, "shards"),
        ({"retention.seconds": float("nan")}, "retention.seconds"),
        ({"columns": [1]}, "columns"),
    ],
)
def test_options_of_a_spooler_have_a_type(options, path, tmp_path):
    with pytest.raises(ConfigError) as caught:
        _zwire.SpoolWriter(tmp_path, options)
    assert caught.value.path == path
