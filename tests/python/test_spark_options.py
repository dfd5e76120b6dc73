"""Options of data sources: typed, checked, with the nearest name, and never with a secret."""

import dataclasses
import json
import pickle
import re
import sys
from pathlib import Path

import pytest

from zwire import config
from zwire.errors import ConfigError
from zwire.spark import _settings, schema
from zwire.spark.sources._options import SESSION, Options, named

KNOWN = (
    *named("maxRowsPerTrigger|maxOffsetsPerTrigger maxBytesPerTrigger timeout errors pushdown columns"),
    *named("selectors keys"),
    *SESSION,
)


def options(**given):
    return Options("test", given, KNOWN)


def test_pyarrow_that_is_missing_is_named_with_its_extra(monkeypatch):
    """Spark's own worker would die of it without a word."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"test: pyarrow is not installed .*: pip install 'zwire\[spark\]'"):
        options()


def test_values_are_typed_and_case_means_nothing():
    empty = options()
    made = options(MAXROWSPERTRIGGER="10", timeout="500ms", errors="Rows", pushdown="TRUE")
    assert made.integer("maxRowsPerTrigger") == 10
    assert options(maxoffsetspertrigger="11").integer("maxRowsPerTrigger") == 11
    assert made.seconds("timeout", 9.0) == 0.5
    assert made.choice("errors", ("raise", "rows"), "raise") == "rows"
    assert made.flag("pushdown", default=False)
    assert "timeout" in made
    assert empty.integer("maxRowsPerTrigger") is None
    assert empty.integer("maxRowsPerTrigger", 7) == 7
    assert empty.seconds("timeout", 9.0) == 9.0
    assert empty.choice("errors", ("raise", "rows"), "raise") == "raise"
    assert not empty.flag("pushdown", default=False)
    assert options(maxBytesPerTrigger="64m").size("maxBytesPerTrigger") == 64 << 20
    assert options(maxBytesPerTrigger="1.5 KB").size("maxBytesPerTrigger") == 1536
    assert [options(timeout=text).seconds("timeout") for text in ("10", "2m", "1.5s", "1h")] == [
        10,
        120,
        1.5,
        3600,
    ]
    for text in (
        "1735689600500",
        "2025-01-01T00:00:00.5Z",
        "2025-01-01T01:00:00.5+01:00",
        "2025-01-01 00:00:00.5+00:00",
    ):
        assert options(timeout=text).instant("timeout") == 1_735_689_600_500_000
    assert empty.instant("timeout") is None
    assert options(selectors="a/*, b/**").listed("selectors") == ["a/*", "b/**"]
    assert options(selectors='["a/*?x=1,2"]').listed("selectors") == ["a/*?x=1,2"]
    assert options(selectors=" ").listed("selectors") == []
    assert options(columns="key,payload").columns(schema.REPLY).names == ("key", "payload")
    assert options(columns="all").columns(schema.REPLY, default=["key"]) == schema.REPLY
    assert options().columns(schema.REPLY, default=["key"]).names == ("key",)
    with pytest.raises(KeyError, match="'colour' is not among the options of test"):
        empty.text("colour")


@pytest.mark.parametrize(
    ("given", "read", "problem"),
    [
        ({"timout": "1"}, None, "unknown option 'timout', did you mean 'timeout'"),
        ({"maxrowspertriger": "1"}, None, "did you mean 'maxRowsPerTrigger'"),
        ({"xyz": "1"}, None, "unknown option 'xyz'; there are columns, config, endpoints, errors"),
        ({"maxOffsetsPerTrigger": "1", "maxRowsPerTrigger": "2"}, None, "under two names"),
        (
            {"maxRowsPerTrigger": "many"},
            lambda o: o.integer("maxRowsPerTrigger"),
            "a whole number, not 'many'",
        ),
        ({"maxRowsPerTrigger": "0"}, lambda o: o.integer("maxRowsPerTrigger", least=1), "at least 1, not 0"),
        ({"maxRowsPerTrigger": "9"}, lambda o: o.integer("maxRowsPerTrigger", most=8), "at most 8, not 9"),
        (
            {"maxBytesPerTrigger": "64x"},
            lambda o: o.size("maxBytesPerTrigger"),
            "a size such as 64m, not '64x'",
        ),
        ({"minBytesPerTrigger": "1"}, None, "unknown option 'minBytesPerTrigger'; there are columns, config"),
        ({"timeout": "0"}, lambda o: o.seconds("timeout"), "above zero"),
        ({"timeout": "2025-01-01"}, lambda o: o.instant("timeout"), "has no zone: give 2025-01-01T00:00:00Z"),
        (
            {"timeout": "2025-01-01 12:30:00.5"},
            lambda o: o.instant("timeout"),
            "has no zone: give 2025-01-01T12:30:00.500000Z or an offset",
        ),
        ({"timeout": "soon"}, lambda o: o.seconds("timeout"), "a time such as 10, 500ms or 2m, not 'soon'"),
        (
            {"errors": "x"},
            lambda o: o.choice("errors", ("raise", "rows"), "raise"),
            "one of raise, rows, not 'x'",
        ),
        ({"pushdown": "maybe"}, lambda o: o.flag("pushdown", default=True), "true or false, not 'maybe'"),
        ({"selectors": "[1]"}, lambda o: o.listed("selectors"), "a list of texts"),
        ({"selectors": '["a"'}, lambda o: o.listed("selectors"), "no JSON list"),
        ({"columns": "key,colour"}, lambda o: o.columns(schema.REPLY), "'columns' is wrong: column 'colour'"),
        ({"config": "{mode:}"}, lambda o: o.session(), "line 1"),
        ({"zenoh.mode": "boss"}, lambda o: o.session(), "zenoh.mode"),
        ({"zenoh.connect.endpoint": "tcp/x:1"}, lambda o: o.session(), "did you mean `connect/endpoints`"),
    ],
)
def test_what_is_wrong_is_said(given, read, problem):
    with pytest.raises(ConfigError, match=r"test: |line 1") as caught:
        read(options(**given)) if read else options(**given)
    assert problem in str(caught.value)


def test_sources_without_sessions_take_none_of_their_options():
    with pytest.raises(ConfigError, match=r"unknown option 'zenoh\.mode'"):
        Options("test", {"zenoh.mode": "client"}, named("path"))


def test_what_spark_passes_on_is_no_option_of_ours():
    assert options(checkpointlocation="/tmp/x", queryName="q").names == sorted(name for name, *_ in KNOWN)


def test_keys_of_the_session_come_from_three_places():
    given = {
        "config": "{queries_default_timeout: 5000, metadata: 'a'}",
        "endpoints": "tcp/127.0.0.1:7447, tcp/127.0.0.1:7448",
        "zenoh.metadata": "b",
        "zenoh.transport/unicast/max_links": "2",
        "zenoh.transport.link.tx.lease": "3000",
    }
    tree = json.loads(Options("test", given, KNOWN).session())
    assert tree["connect"]["endpoints"] == ["tcp/127.0.0.1:7447", "tcp/127.0.0.1:7448"]
    assert (tree["mode"], tree["metadata"], tree["queries_default_timeout"]) == ("client", "b", 5000)
    assert tree["transport"]["unicast"]["max_links"] == 2
    assert tree["transport"]["link"]["tx"]["lease"] == 3000


PASSWORD = "transport/auth/usrpwd/password"


@pytest.mark.parametrize(
    "given",
    [
        {f"zenoh.{PASSWORD}": "geheim"},
        {"zenoh.transport.auth.usrpwd.password": "geheim"},
        {"config": "{transport: {auth: {usrpwd: {password: 'geheim'}}}}"},
        {"zenoh.transport/link/tls/connect_private_key_base64": "geheim"},
        {"endpoints": "tls/host:7447#connect_private_key_base64=geheim"},
    ],
)
def test_a_secret_itself_is_refused_and_not_repeated(given):
    made = options(**given)
    assert "geheim" not in repr(made)
    with pytest.raises(ConfigError, match="give env:NAME or file:/path") as caught:
        made.session()
    assert "geheim" not in repr(caught.value)
    with pytest.raises(ConfigError, match="test: keys: a secret would be in plans"):
        options(keys="geheim").secret("keys")


def test_a_named_secret_is_read_where_the_session_is_opened(tmp_path, monkeypatch):
    file = tmp_path / "password"
    file.write_text("geheim\n")
    by_file = options(**{f"zenoh.{PASSWORD}": f"file:{file}"}).session()
    by_name = options(**{f"zenoh.{PASSWORD}": "env:ZWIRE_TEST_PASSWORD"}).session()
    for text in (by_file, by_name):
        assert b"geheim" not in pickle.dumps(text)
    monkeypatch.setenv("ZWIRE_TEST_PASSWORD", "geheim")
    for text in (by_file, by_name):
        tree = json.loads(_settings.resolved(text))
        assert tree["transport"]["auth"]["usrpwd"]["password"] == "geheim"
    monkeypatch.delenv("ZWIRE_TEST_PASSWORD")
    with pytest.raises(ConfigError, match=r"spark\.executorEnv\.ZWIRE_TEST_PASSWORD"):
        _settings.resolved(by_name)
    file.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        _settings.resolved(by_file)
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="it is no text"):
        _settings.resolved(by_file)
    plain = options().session()
    assert _settings.resolved(plain) is plain


def hidden(cls, path=()):
    """Paths of the fields that a configuration does not show."""
    for field in dataclasses.fields(cls):
        here = "/".join(part for part in (*path, field.metadata["path"]) if part)
        if dataclasses.is_dataclass(field.default):
            yield from hidden(type(field.default), (here,))
        elif not field.repr:
            yield here


def test_all_secrets_of_a_configuration_are_known():
    fields = set(hidden(config.SessionConfig))
    assert len(fields) == 3
    assert fields < set(_settings.SECRETS)
    keys = (Path(__file__).parents[2] / "rust/zwire-engine/src/config/keys.rs").read_text()
    listed = set(re.findall(r'\("([a-z_/]*(?:password|private_key_base64|private_key_pem))"', keys))
    assert listed == set(_settings.SECRETS)
