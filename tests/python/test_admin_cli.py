"""`zwire config check`, `zwire acl explain` and `zwire keygen`."""

import json
import stat

import pytest

from nodes import LOCAL, client, eventually, free_port, router
from zwire import zenoh, zmtp
from zwire.cli import main
from zwire.errors import AuthenticationError

RULES = {
    "enabled": True,
    "default_permission": "deny",
    "rules": [
        {"id": "fleet", "permission": "allow", "messages": ["put"], "key_exprs": ["fleet/**"]},
        {"id": "secret", "permission": "deny", "messages": ["put"], "key_exprs": ["fleet/secret"]},
    ],
    "subjects": [{"id": "robots", "usernames": ["ann"]}, {"id": "hosts", "cert_common_names": ["host-1"]}],
    "policies": [{"rules": ["fleet", "secret"], "subjects": ["robots", "hosts"]}],
}


def lines(capsys):
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "router.json5"
    path.write_text(json.dumps({"mode": "router", "access_control": RULES}))
    return str(path)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--user", "ann", "--put", "fleet/7"], 0, "allowed: rule fleet allows put of fleet/7"),
        (["--certificate", "host-1", "--put", "fleet/secret"], 1, "denied: rule secret denies"),
        (["--user", "bob", "--put", "fleet/7"], 1, "default_permission is deny"),
        (["--user", "ann", "--declare-subscriber", "fleet/**"], 1, "no rule for this link applies"),
        (["--user", "ann", "--put", "fleet/7", "--flow", "egress"], 0, "policies/0, for the subject robots"),
    ],
)
def test_the_rule_that_decides_is_printed(capsys, file, options, code, words):
    assert main(["acl", "explain", "-c", file, *options]) == code
    assert words in "\n".join(lines(capsys))


def test_a_running_router_explains_the_rules_it_has_now(capsys):
    with router(adminspace__enabled=True) as hub:
        ask = ["acl", "explain", "-e", hub.listening()[0], "--user", "ann", "--put", "fleet/7"]
        assert main([*ask, "--format", "jsonl"]) == 0
        config = hub.config()
        users = {**RULES, "default_permission": "allow"}
        config.insert_json5("access_control", users)
        hub.reconfigure(config)
        assert main([*ask[:-1], "fleet/secret", "--format", "jsonl"]) == 1
    before, after = (json.loads(line) for line in lines(capsys))
    assert (before["rule"], after["rule"], after["subject"]) == (None, "secret", "robots")
    with router() as hub:
        ask = ["acl", "explain", "-e", hub.listening()[0], "--put", "a"]
        assert main(ask) == 3
        assert main([*ask, "--user", "ann;zid=1"]) == 2
        assert main([*ask, "--zid", "XYZ"]) == 2
    assert main(["acl", "explain", "-e", f"tcp/127.0.0.1:{free_port()}", "--put", "a"]) == 3


def test_each_wrong_key_of_a_file_has_its_line(capsys, tmp_path):
    wrong = tmp_path / "wrong.json5"
    wrong.write_text("{\n  mode: 'rooter', // no\n  conect: {},\n  plugins: { dds: {} },\n}\n")
    assert main(["config", "check", str(wrong)]) == 2
    found = lines(capsys)
    assert [line.removeprefix(f"{wrong}:").split(": ", 2)[:2] for line in found] == [
        ["2:3", "error"],
        ["3:3", "error"],
        ["4:14", "note"],
    ]
    assert "did you mean `connect`" in found[1]
    yaml = tmp_path / "right.yaml"
    yaml.write_text("mode: router\nplugins:\n  dds: {}\n")
    assert main(["config", "check", str(yaml)]) == 0
    assert main(["config", "check", str(yaml), "--strict", "--format", "jsonl"]) == 2
    note = json.loads(lines(capsys)[-1])
    assert (note["line"], note["path"], note["level"]) == (3, "plugins/dds", "note")
    assert main(["config", "check", str(tmp_path / "none.ini")]) != 0


def test_certificates_make_a_link_with_names(capsys, tmp_path):
    assert main(["keygen", "tls", "hub", "robot-7", "--dir", str(tmp_path), "--host", "127.0.0.1"]) == 0
    assert lines(capsys)[:2] == [str(tmp_path / "authority.pem"), str(tmp_path / "authority.key")]
    # A later certificate of the same authority.
    assert main(["keygen", "tls", "robot-8", "--dir", str(tmp_path)]) == 0
    assert len(lines(capsys)) == 2
    assert stat.S_IMODE((tmp_path / "robot-8.key").stat().st_mode) == 0o600
    assert main(["keygen", "tls", "robot-8", "--dir", str(tmp_path)]) == 1
    assert "robot-8.key" in capsys.readouterr().err
    assert main(["keygen", "tls", "robot-9", "--dir", str(tmp_path), "--days", "2000000"]) == 2
    assert main(["keygen", "tls", "robot-9", "--dir", str(tmp_path / "long"), "--days", "36500"]) == 0
    capsys.readouterr()

    def tls(name, side):
        return {
            "transport/link/tls": {
                "root_ca_certificate": str(tmp_path / "authority.pem"),
                f"{side}_certificate": str(tmp_path / f"{name}.pem"),
                f"{side}_private_key": str(tmp_path / f"{name}.key"),
                "enable_mtls": True,
            }
        }

    settings = {"mode": "router", "listen/endpoints": ["tls/127.0.0.1:0"], **tls("hub", "listen")}
    with zenoh.open(settings) as hub:
        for name in ("robot-7", "robot-8"):
            with client(hub, **tls(name, "connect")):
                # The hub may open the link a moment later than the client, and close the one before as well.
                eventually(lambda: [link.auth_identifier for link in hub.info.links()] == [name])  # noqa: B023


def test_users_get_passwords_that_let_them_in(capsys, tmp_path):
    users = tmp_path / "users.txt"
    assert main(["keygen", "usrpwd", "ann", "--file", str(users)]) == 0
    assert main(["keygen", "usrpwd", "bob", "--file", str(users)]) == 0
    password, _ = lines(capsys)
    assert stat.S_IMODE(users.stat().st_mode) == 0o600
    assert main(["keygen", "usrpwd", "ann", "--file", str(users)]) == 1
    assert main(["keygen", "usrpwd", "a:b", "--file", str(users)]) == 2
    section = "transport/auth/usrpwd"
    own = {f"{section}/user": "hub", f"{section}/password": "x", f"{section}/dictionary_file": str(users)}
    ann = {f"{section}/user": "ann", f"{section}/password": password}
    with zenoh.open({"mode": "router", "listen/endpoints": LOCAL, **own}) as hub, client(hub, **ann):
        eventually(hub.info.links)
        assert [link.auth_identifier for link in hub.info.links()] == ["ann"]
        # A user that is added later can log in once the file was read again.
        assert main(["keygen", "usrpwd", "eve", "--file", str(users)]) == 0
        eve = {f"{section}/user": "eve", f"{section}/password": lines(capsys)[0]}
        with pytest.raises(AuthenticationError):
            client(hub, **eve)
        assert hub.reconfigure(hub.config()) == []
        with client(hub, **eve):
            pass


def test_curve_keys_are_a_pair(capsys):
    assert main(["keygen", "curve"]) == 0
    public, secret = lines(capsys)
    with zmtp.Router(public_key=public, secret_key=secret) as server:
        assert server.bind("tcp://127.0.0.1:*")
