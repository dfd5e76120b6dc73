"""Config: text, files, dicts, dataclasses and the environment."""

import json
import pickle

import pytest

from zwire import errors
from zwire.config import Credentials, SessionConfig, Timeouts
from zwire.zenoh import Config, ZError

TREE = {"mode": "client", "connect": {"endpoints": ["tcp/127.0.0.1:7447"]}}


def test_all_roads_lead_to_one_configuration(tmp_path):
    made = Config(TREE)
    file = tmp_path / "some.json5"
    file.write_text("{mode: 'client', /* here */ connect: {endpoints: ['tcp/127.0.0.1:7447']}}")
    by_hand = Config()
    by_hand.insert_json5("mode", '"client"')
    by_hand.insert_json5("connect/endpoints", ["tcp/127.0.0.1:7447"])
    for other in (
        Config.from_dict(TREE),
        Config(made),
        Config({"mode": "client", "connect/endpoints": ["tcp/127.0.0.1:7447"]}),
        Config(SessionConfig(mode="client", connect="tcp/127.0.0.1:7447")),
        Config.from_json5(json.dumps(TREE)),
        Config.from_file(file),
        Config.from_file(str(file)),
        by_hand,
    ):
        assert other == made
    assert made != Config()
    assert Config() == Config(None) == Config({}) == Config(SessionConfig())


def test_the_environment_names_files(tmp_path, monkeypatch):
    for name in ("ZENOH_CONFIG", "ZWIRE_CONFIG", "ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(errors.ConfigError, match="ZENOH_CONFIG"):
        Config.from_env()
    assert Config.DEFAULT_CONFIG_PATH_ENV == "ZENOH_CONFIG"
    (tmp_path / "a.json5").write_text("{mode: 'client', queries_default_timeout: 5}")
    (tmp_path / "b.json5").write_text("{mode: 'router'}")
    monkeypatch.setenv("ZENOH_CONFIG", str(tmp_path / "a.json5"))
    assert Config.from_env().get_json("mode") == '"client"'
    monkeypatch.setenv("ZWIRE_CONFIG", str(tmp_path / "b.json5"))
    assert Config.from_env().get_json("mode") == '"router"'
    assert Config.from_env().get_json("queries_default_timeout") == "5"
    monkeypatch.setenv("ZENOH_CONFIG_OVERRIDE", "queries_default_timeout=6;mode='peer'")
    assert Config.from_env().get_json("mode") == '"peer"'
    assert Config.from_env().get_json("queries_default_timeout") == "6"
    monkeypatch.setenv("ZENOH_CONFIG_OVERRIDE", "mode")
    with pytest.raises(errors.ConfigError, match=r"ZENOH_CONFIG_OVERRIDE: .*KEY=VALUE"):
        Config.from_env()
    monkeypatch.delenv("ZENOH_CONFIG")
    monkeypatch.delenv("ZENOH_CONFIG_OVERRIDE")
    monkeypatch.delenv("ZWIRE_CONFIG")
    monkeypatch.setenv("ZENOH_SESSION_CONFIG_URI", str(tmp_path / "b.json5"))
    assert Config.from_env().get_json("mode") == '"router"'


def test_reading_keys():
    config = Config()
    assert config.get_json("mode") == "null"
    assert config.get_json("connect/endpoints") == "[]"
    assert json.loads(config.get_json("timestamping")) == {"enabled": None, "drop_future_timestamp": None}
    assert json.loads(str(config)) == json.loads(config.get_json(""))


def test_an_unknown_key_names_path_and_nearest():
    for make in (
        lambda: Config({"connect": {"endpoint": []}}),
        lambda: Config.from_json5("{connect: {endpoint: []}}"),
        lambda: Config().insert_json5("connect/endpoint", "[]"),
        lambda: Config().get_json("connect/endpoint"),
    ):
        with pytest.raises(errors.ConfigError, match="did you mean `connect/endpoints`") as caught:
            make()
        assert (caught.value.path, caught.value.nearest) == ("connect/endpoint", "connect/endpoints")
        assert isinstance(caught.value, ZError)
        assert isinstance(caught.value, ValueError)


def test_an_unknown_key_in_a_file_names_all_three(tmp_path):
    file = tmp_path / "some.json5"
    file.write_text("{mod: 'client'}")
    with pytest.raises(errors.ConfigError, match=r"some\.json5.*`mod`") as caught:
        Config.from_file(file)
    assert (caught.value.path, caught.value.nearest) == ("mod", "mode")


def test_a_wrong_value_names_its_path():
    with pytest.raises(errors.ConfigError, match='one of "router", "peer", "client"') as caught:
        Config({"mode": "hub"})
    assert (caught.value.path, caught.value.nearest) == ("mode", None)
    with pytest.raises(errors.ConfigError) as caught:
        Config(SessionConfig(timeouts=Timeouts(lease_ms=1)))
    assert caught.value.path == "transport/link/tx/lease"
    with pytest.raises(errors.ConfigError, match="line 2"):
        Config.from_json5("{\n mode: client}")
    with pytest.raises(errors.ConfigError, match="No such file"):
        Config.from_file("nowhere.json5")


def test_what_json_cannot_say():
    for wrong in ({"mode": object()}, 1, "mode", ["mode"]):
        with pytest.raises(TypeError):
            Config(wrong)
    with pytest.raises(ValueError, match="JSON"):
        Config({"metadata": float("nan")})
    deep = tree = {}
    for _ in range(10_000):
        tree["metadata"] = tree = {}
    with pytest.raises((RecursionError, errors.ConfigError)):
        Config(deep)


def test_a_failed_change_changes_nothing():
    config = Config(TREE)
    with pytest.raises(errors.ConfigError):
        config.insert_json5("connect", "{timeout_ms: 5, endpoints: 7}")
    assert config == Config(TREE)


def test_a_configuration_pickles_and_stays_a_dictionary_key():
    config = Config(TREE)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(config, protocol)) == config
    known = {config: 1}
    config.insert_json5("mode", '"client"')
    assert known[config] == 1


def test_a_password_is_not_shown():
    config = Config(SessionConfig(credentials=Credentials(user="ann", password="hunter2")))
    assert "hunter2" not in repr(config)
    assert "mode=peer" in repr(config)
    assert pickle.loads(pickle.dumps(config)) == config


def test_keys_without_effect_are_listed():
    assert Config().ignored() == []
    assert Config({"adminspace": {"permissions": {"write": True}}}).ignored() == []
    assert Config({"region_name": "north"}).ignored() == ["region_name"]
