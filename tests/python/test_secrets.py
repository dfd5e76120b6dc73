"""Passwords and private keys are in no text: of configurations, exceptions, logs, commands, admin space."""

import gzip
import json
import logging
import pickle
import re
import traceback
from pathlib import Path

import pytest

import nodes
import zwire.config
from zwire import errors, spool, zenoh, zmtp, zre
from zwire.cli import main

SECRET = "MIGHAgEAopensesame"

USRPWD = "transport/auth/usrpwd"
KEYS = (
    f"{USRPWD}/password",
    "transport/auth/pubkey/private_key_pem",
    "transport/link/tls/connect_private_key_base64",
    "transport/link/tls/listen_private_key_base64",
)

ENDPOINTS = [
    f"tls/127.0.0.1:1#{side}_private_key_{form}={SECRET}"
    for side in ("connect", "listen")
    for form in ("base64", "raw")
]


def texts_of(error):
    """What an exception says, with its attributes and the traceback."""
    return [str(error), repr(error), repr(vars(error)), *traceback.format_exception(error)]


def assert_hidden(*texts):
    for text in texts:
        assert "opensesame" not in text.replace("tests/python/test_secrets.py", "")


def refused(call, *, kind=Exception):
    with pytest.raises(kind) as caught:
        call()
    # Lines of the program itself are in tracebacks, and none of them has the secret.
    assert_hidden(*texts_of(caught.value))
    return caught.value


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_the_texts_of_a_configuration(endpoint):
    tree = dict.fromkeys(KEYS, SECRET) | {"connect/endpoints": [endpoint], "listen/endpoints": [endpoint]}
    config = zenoh.Config(tree)
    assert_hidden(str(config), repr(config), f"{config}")
    assert "127.0.0.1:1" in repr(config)
    assert json.loads(str(config))["connect"]["endpoints"] == [endpoint.replace(SECRET, "***")]
    assert json.loads(config.get_json(KEYS[0])) == SECRET
    assert json.loads(config.get_json("connect/endpoints")) == [endpoint]
    again = pickle.loads(pickle.dumps(config))
    assert again == config
    assert again.get_json("") == config.get_json("")
    assert zenoh.Config.from_json5(config.get_json("")) == config


def test_the_text_of_a_dataclass():
    credentials = zwire.config.Credentials(user="ann", password=SECRET)
    made = zwire.config.SessionConfig(connect=ENDPOINTS, listen=ENDPOINTS[0], credentials=credentials)
    assert_hidden(repr(made), str(made))
    assert "user='ann'" in repr(made)
    assert "connect_private_key_raw=***" in repr(made)
    assert repr(zwire.config.SessionConfig(connect=["tcp/a:1#so_sndbuf=9"])).count("so_sndbuf=9") == 1
    assert zenoh.Config(made).get_json(KEYS[0]) == json.dumps(SECRET)


@pytest.mark.parametrize(
    "tree",
    [
        *({key: [SECRET]} for key in KEYS),
        *({key.rpartition("/")[0]: SECRET} for key in KEYS),
        {"connect/endpoints": ENDPOINTS[0]},
        {"connect/endpoints": [{"locators": ENDPOINTS}]},
        *({"connect/endpoints": [f"tls{endpoint[3:]}?rel=1"]} for endpoint in ENDPOINTS),
        {"listen/endpoints": [f"tls#private_key={SECRET}"]},
        {"listen/endpoints": [f"tls/a#listen_private_key_raw=-----BEGIN\n{SECRET}\n-----END"]},
    ],
    ids=str,
)
def test_a_wrong_configuration(tree):
    refused(lambda: zenoh.Config(tree), kind=errors.ConfigError)
    refused(lambda: zenoh.Config.from_json5(json.dumps(tree)[:-1]), kind=errors.ConfigError)


@pytest.mark.parametrize("variable", ["ZENOH_CONFIG_OVERRIDE", "ZENOH_CONFIG"])
def test_a_wrong_environment(monkeypatch, tmp_path, variable):
    for name in ("ZENOH_CONFIG", "ZWIRE_CONFIG", "ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    for wrong in (f"{USRPWD}/password:{SECRET}", f"{USRPWD}/password={SECRET}"):
        if variable == "ZENOH_CONFIG":
            file = tmp_path / "x.yaml"
            file.write_text(f"transport: {{auth: {{usrpwd: {SECRET} }}}}")
            monkeypatch.setenv(variable, str(file))
        else:
            monkeypatch.setenv(variable, wrong)
        refused(zenoh.Config.from_env, kind=errors.ConfigError)


@pytest.fixture
def told(caplog):
    """All records of the log, with their fields."""
    with caplog.at_level(logging.DEBUG, logger="zwire"):
        yield (
            lambda: (
                zwire.log.flush() and [f"{record.getMessage()} {vars(record)}" for record in caplog.records]
            )
        )


@pytest.mark.parametrize("mode", ["client", "peer"])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_an_endpoint_that_cannot_be_used(endpoint, mode, told):
    for settings in (nodes.settings(mode, connect=[endpoint]), nodes.settings(mode, listen=[endpoint])):
        error = refused(lambda settings=settings: zenoh.open(settings))
        assert isinstance(error, zenoh.ZError)
    typo = endpoint.replace("_private_key_", "_private_kye_")
    refused(lambda: zenoh.open(nodes.settings(mode, connect=[typo])))
    assert_hidden(*told())


def test_a_peer_that_goes_on_without_its_endpoint(told):
    """Its log names the endpoint at each attempt."""
    endpoint = f"tcp/127.0.0.1:{nodes.free_port()}#iface=lo"
    with nodes.opened("peer", connect=[endpoint], connect__timeout_ms=0, connect__exit_on_failure=False):
        nodes.eventually(lambda: any(endpoint in text for text in told()))
    assert_hidden(*told())


def test_passwords_that_are_right_and_wrong(tmp_path, told):
    users = tmp_path / "users"
    users.write_text(f"ann:{SECRET}\n")
    users.chmod(0o600)
    dictionary = {"transport__auth__usrpwd__dictionary_file": str(users)}
    named = {"transport__auth__usrpwd__user": "ann"}
    own = {**named, "transport__auth__usrpwd__password": SECRET}
    with (
        nodes.router(adminspace__enabled=True, **dictionary, **own) as hub,
        nodes.client(hub, adminspace__enabled=True, **own) as session,
    ):
        answers = [reply.ok.payload.to_bytes() for reply in session.get("@/**", timeout=5)]
        assert answers
        # Counters are compressed.
        plain = [gzip.decompress(octets) if octets[:2] == b"\x1f\x8b" else octets for octets in answers]
        assert_hidden(*(octets.decode() for octets in plain))
        assert_hidden(repr(session), repr(session.info), json.dumps(session.stats(), default=str))
        refused(lambda: nodes.client(hub, **{**own, "transport__auth__usrpwd__password": SECRET + "x"}))
    assert_hidden(*told())
    users.write_text(SECRET)
    refused(lambda: nodes.router(**dictionary), kind=errors.ConfigError)


def test_commands(capsys):
    for arguments in (
        *(["-e", endpoint] for endpoint in ENDPOINTS),
        *(["-e", f"{endpoint}?x=1"] for endpoint in ENDPOINTS),
        *(["-l", endpoint, "-m", "peer"] for endpoint in ENDPOINTS),
        ["--cfg", f"{USRPWD}/password:{SECRET}"],
        ["--cfg", f"{USRPWD}/password={SECRET}"],
        ["--cfg", f"{USRPWD}:'{SECRET}'"],
        ["--cfg", f"{USRPWD}/passwort:'{SECRET}'"],
    ):
        assert main(["put", "k", "v", "-vv", "--cfg", "scouting/multicast/enabled:false", *arguments]) in (
            1,
            2,
        )
        out, err = capsys.readouterr()
        assert err
        assert_hidden(out, err)


@pytest.mark.parametrize(
    "arguments",
    [
        ["conformance", "tcp/127.0.0.1:1", "--protocol", "zmtp", "--set", f"password:{SECRET}"],
        ["conformance", "tcp/127.0.0.1:1", "--protocol", "zmtp", "--set", f"passwort={SECRET}"],
        ["spool", "keep", "--dir", "nowhere", "--zre-group", "G", "--zre", f"secret_key:{SECRET}"],
        ["spool", "keep", "--dir", "nowhere", "--zre-group", "G", "--zre", f"secret_key={SECRET}"],
        ["spool", "keep", "--dir", "nowhere", "--zre-group", "G", "--zre", f"secretkey={SECRET}"],
        ["decode", "nowhere.pcap", "--curve-key", SECRET],
    ],
    ids=" ".join,
)
def test_commands_with_settings(capsys, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert err
    assert_hidden(out, err)


def test_keys_of_zre_and_zmtp():
    public, secret = zre.keypair()
    config = zre.Config(name="a", secret_key=secret)
    assert secret not in f"{config!r} {config}"
    node = zre.Node("a", secret_key=secret, interfaces="lo")
    assert secret not in f"{node!r} {node}"
    dealer = zmtp.Dealer(secret_key=secret, server_key=public)
    assert secret not in f"{dealer!r} {dealer}"
    dealer.close()
    for wrong in (SECRET, SECRET.encode() * 2, [SECRET], 5):
        refused(lambda wrong=wrong: zre.Node("a", secret_key=wrong, interfaces="lo"))
        refused(lambda wrong=wrong: zmtp.Dealer(secret_key=wrong))
        refused(lambda wrong=wrong: zmtp.Dealer(plain=("ann", SECRET, wrong)))
        refused(lambda wrong=wrong: zmtp.Dealer(plain=("ann", SECRET), secret_key=wrong))
    refused(lambda: zmtp.Dealer(plain=("ann", SECRET * 100)))
    refused(lambda: zmtp.Dealer(plain=SECRET))


def test_secrets_of_consumers(tmp_path, hub, session, told):
    folder = tmp_path / "spool"
    with spool.Appender(folder) as appender:
        appender.append(key="k", payload="v", recv_ts=1)
    secret = spool.secret(folder, "nightly")
    key = secret.rpartition(":")[2]
    with (
        spool.serve(folder, session=hub),
        spool.connect(session=session, timeout=10, secret=secret) as remote,
    ):
        texts = [repr(remote), str(remote), repr(remote._remote.credential)]
        with pytest.raises(errors.SpoolDenied) as caught:
            remote.commit("other", remote.end())
        texts += texts_of(caught.value)
        remote.commit("nightly", remote.end())
        wrong = secret[:-4] + ("0000" if key[-4:] != "0000" else "1111")
        forged = spool.connect(session=session, timeout=10, secret=wrong)
        with pytest.raises(errors.SpoolDenied) as caught:
            forged.commit("nightly", remote.end())
        texts += texts_of(caught.value)
    for wrong in (secret[:-1], f"x:{secret}"):
        with pytest.raises(errors.ConfigError) as caught:
            spool.connect(session=session, secret=wrong)
        texts += texts_of(caught.value)
    texts += told()
    assert not [text for text in texts if key[:60] in text]


def test_this_file_covers_each_secret_of_the_table():
    """The keys with secret values, as the table of keys says."""
    table = Path(__file__).parents[2] / "rust" / "zwire-engine" / "src" / "config" / "keys.rs"
    assert set(re.findall(r'set\("([a-z_/0-9]+)", Secret,', table.read_text())) == set(KEYS)
