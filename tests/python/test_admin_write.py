"""Writes to the admin space: what they change, which senders are refused, and what is told of them."""

import json
import logging
import random
import socket

import pytest

from nodes import LOCAL, client, eventually, free_port, opened, router
from zwire.errors import ConfigError, TimedOut

PATIENCE = 10.0
WRITABLE = {"adminspace__enabled": True, "adminspace__permissions__write": True}
DENY = {"id": "deny", "permission": "deny", "messages": ["put"], "key_exprs": ["a/**"]}


def config_key(hub, path):
    return f"@/{hub.zid()}/router/config/{path}"


def status(session, hub):
    (reply,) = session.get(f"@/{hub.zid()}/router/status/config", timeout=PATIENCE)
    return json.loads(reply.ok.payload.to_bytes())


def write(session, hub, path, value=None, **more):
    """Write, and return what the node tells of it."""
    before = len(status(session, hub)["changes"])
    key = config_key(hub, path)
    if value is None:
        session.delete(key, **more)
    else:
        session.put(key, value if isinstance(value, str) else json.dumps(value), **more)
    eventually(lambda: len(status(session, hub)["changes"]) > before, "the write is handled")
    return status(session, hub)["changes"][-1]


@pytest.fixture
def pair():
    with router(**WRITABLE) as hub, client(hub) as session:
        yield hub, session


def test_a_write_is_applied_and_told(pair, caplog):
    hub, session = pair
    caplog.set_level(logging.INFO, "zwire")
    told = write(session, hub, "metadata", {"site": "attic"})
    assert (told["path"], told["before"], told["after"]) == ("metadata", "null", '{"site":"attic"}')
    assert told["sender"].startswith(f"client {session.zid()} at tcp/127.0.0.1:")
    (root,) = session.get(f"@/{hub.zid()}/router", timeout=PATIENCE)
    assert json.loads(root.ok.payload.to_bytes())["metadata"] == {"site": "attic"}
    assert write(session, hub, "metadata/site", "'cellar'")["after"] == '{"site":"cellar"}'
    assert write(session, hub, "metadata")["after"] == "null"
    eventually(lambda: "the configuration was changed" in caplog.text, "the log")


def test_wild_keys_mean_this_node(pair):
    hub, session = pair
    session.put("@/*/*/config/metadata", "7")
    eventually(lambda: hub.config().get_json("metadata") == "7", "the write is applied")


@pytest.mark.parametrize(
    ("path", "value", "at", "words"),
    [
        ("metadat", 1, "metadat", "did you mean"),
        ("metadata", "{", "metadata", "line 1"),
        ("transport/link/tx/lease", 5000, "transport/link/tx/lease", "restart"),
        ("mode", "'peer'", "mode", "restart"),
        ("access_control/rules", [{**DENY, "permission": "no"}], "access_control/rules/0/permission", "deny"),
        ("access_control/policies", [{"rules": ["x"], "subjects": ["y"]}], "access_control", "an id of"),
        ("access_control/rules/id=x/permission", "'deny'", "access_control/rules/id=x", "id=x"),
        ("plugins/rest", {"http_port": 1}, "plugins/rest", "changes by SIGHUP of zwire router"),
        ("/".join(["metadata", *"a" * 32_000]), 1, "metadata/a/a", "at most 32 parts"),
        ("transport/auth/usrpwd/password/x", 1, "transport/auth/usrpwd/password", "an object"),
        ("plugins/dds", {"x": 1}, "plugins/dds", "nothing here does the work of plugin dds"),
        ("connect/endpoints", ["tpc/127.0.0.1:1"], "connect/endpoints", "tpc"),
        ("zwire/links/abc", None, "zwire/links/abc", "no link"),
        ("zwire/links/XYZ", None, "zwire/links/XYZ", "no id"),
    ],
)
def test_a_wrong_write_is_refused_with_path_and_reason(pair, path, value, at, words):
    hub, session = pair
    rules = {"enabled": True, "default_permission": "allow", "rules": [], "subjects": [], "policies": []}
    assert "after" in write(session, hub, "access_control", rules)
    before = str(hub.config())
    told = write(session, hub, path, value)
    assert "after" not in told
    assert told["refused"]["path"].startswith(at), told
    assert words in told["refused"]["reason"], told
    assert str(hub.config()) == before


def test_a_refused_configuration_is_an_error_and_changes_nothing(pair):
    hub, _ = pair
    before, config = str(hub.config()), hub.config()
    config.insert_json5("metadata", {"a": 1})
    storage = {"key_expr": "a//b", "volume": "memory"}
    config.insert_json5("plugins/storage_manager", {"storages": {"bad": storage}})
    with pytest.raises(ConfigError) as caught:
        hub.reconfigure(config)
    assert caught.value.path == "plugins/storage_manager"
    config = hub.config()
    config.insert_json5("connect/endpoints", ["udp/224.0.0.224:17447"])
    with pytest.raises(ConfigError, match="multicast") as caught:
        hub.reconfigure(config)
    assert caught.value.path == "connect/endpoints"
    assert str(hub.config()) == before


def test_a_write_without_permission_is_refused_and_logged(caplog):
    with router(adminspace__enabled=True) as hub, client(hub) as session:
        told = write(session, hub, "metadata", 1)
        assert told["refused"]["reason"] == "adminspace/permissions/write is false"
        assert hub.config().get_json("metadata") == "null"
        eventually(lambda: "refusing a change" in caplog.text, "the log")


def test_rules_are_written_one_by_one(pair):
    hub, session = pair
    with client(hub) as desk:
        subscriber = desk.declare_subscriber("a/b")
        desk.ready(timeout=PATIENCE)
        rules = {
            "enabled": True,
            "default_permission": "allow",
            "rules": [DENY],
            "subjects": [{"id": "all"}],
            "policies": [{"rules": ["deny"], "subjects": ["all"]}],
        }
        assert "after" in write(session, hub, "access_control", rules)
        session.put("a/b", "refused")
        with pytest.raises(TimedOut):
            subscriber.recv(timeout=0.3)
        assert "after" in write(session, hub, "access_control/rules/id=deny/key_exprs/0", "'other'")
        session.put("a/b", "passes")
        assert subscriber.recv(timeout=PATIENCE).payload.to_string() == "passes"


def test_a_change_that_locks_out_its_sender_needs_force(pair):
    hub, session = pair
    closed = {"enabled": True, "default_permission": "deny", "rules": [], "subjects": [], "policies": []}
    filtered = {"messages": ["put"], "flows": ["ingress"]}
    for path, value in (
        ("access_control", closed),
        ("adminspace/permissions/write", False),
        ("downsampling", [{**filtered, "rules": [{"key_expr": "@/**", "freq": 0}]}]),
        ("low_pass_filter", [{**filtered, "key_exprs": ["@/**"], "size_limit": 0}]),
    ):
        told = write(session, hub, path, value)
        assert "would lock out its sender" in told["refused"]["reason"], told
        assert "force" in told["refused"]["reason"]
    # This node itself is never locked out of its own configuration.
    assert "after" in write(hub, hub, "adminspace/permissions/write", False)
    assert "refused" in write(hub, hub, "metadata", 1)


def test_a_member_of_a_group_is_not_locked_out_either():
    group = f"udp/224.0.0.{random.randrange(100, 200)}:{free_port(socket.SOCK_DGRAM)}#iface=lo"
    with (
        opened("router", listen=[*LOCAL, group], **WRITABLE) as hub,
        opened("peer", listen=[group]) as member,
    ):
        eventually(
            lambda: str(hub.zid()) in map(str, member.info.routers_zid()), "the member knows the router"
        )
        (root,) = hub.get(f"@/{hub.zid()}/router")
        (known,) = json.loads(root.ok.payload.to_bytes())["sessions"]
        assert known.keys() == {"peer", "whatami", "links", "group"}
        assert (known["peer"], known["group"]) == (str(member.zid()), group.partition("#")[0])
        deny = {"id": "deny", "permission": "deny", "messages": ["put"], "key_exprs": ["@/**"]}
        rules = {
            "enabled": True,
            "default_permission": "allow",
            "rules": [deny],
            "subjects": [{"id": "member", "zids": [str(member.zid())]}],
            "policies": [{"rules": ["deny"], "subjects": ["member"]}],
        }

        def told(number):
            """Write as a member, and return what the router tells of it."""
            eventually(lambda: len(status(hub, hub)["changes"]) == number, "the write is handled")
            return status(hub, hub)["changes"][-1]

        member.put(config_key(hub, "access_control"), json.dumps(rules))
        refused = told(1)
        assert "would lock out its sender" in refused["refused"]["reason"], refused
        assert str(member.zid()) in refused["sender"]
        rules["subjects"] = [{"id": "member", "zids": ["abc"]}]
        member.put(config_key(hub, "access_control"), json.dumps(rules))
        assert "after" in told(2)


def test_a_rule_on_the_key_with_the_namespace_locks_out():
    with (
        router(**WRITABLE, namespace="ns") as hub,
        client(hub, namespace="ns") as session,
    ):
        deny = {"id": "deny", "permission": "deny", "messages": ["put"], "key_exprs": ["ns/@/**"]}
        rules = {
            "enabled": True,
            "default_permission": "allow",
            "rules": [deny],
            "subjects": [{"id": "all"}],
            "policies": [{"rules": ["deny"], "subjects": ["all"]}],
        }
        told = write(session, hub, "access_control", rules)
        assert "would lock out its sender" in told["refused"]["reason"], told


def test_refused_writes_do_not_push_out_what_was_changed(pair):
    hub, session = pair
    assert "after" in write(session, hub, "metadata", {"site": "attic"})
    for number in range(70):
        session.put(config_key(hub, "mode"), f'"{number}"')
    eventually(lambda: len(status(session, hub)["changes"]) == 65, "as many as are kept")
    first, *rest = status(session, hub)["changes"]
    assert first["after"] == '{"site":"attic"}'
    assert all("refused" in told for told in rest)


def test_force_locks_out(pair):
    hub, session = pair
    assert "after" in write(session, hub, "adminspace/permissions/write", False, attachment="force")
    assert write(session, hub, "metadata", 1)["refused"]["reason"] == "adminspace/permissions/write is false"


def test_links_are_made_and_closed(pair):
    hub, session = pair
    with router() as other:
        write(session, hub, "connect/endpoints", other.listening())
        eventually(lambda: hub.info.routers_zid() == [other.zid()], "the hub connects")
        write(session, hub, "connect/endpoints", [])
        eventually(lambda: hub.info.routers_zid() == [], "the hub disconnects")
    with client(hub) as guest:
        # The hub may open the link a moment later than the client.
        assert guest.ready(PATIENCE)
        assert "after" in write(session, hub, f"zwire/links/{guest.zid()}")
        told = write(session, hub, f"zwire/links/{session.zid()}")
        assert "its sender" in told["refused"]["reason"]


def test_reading_can_be_closed_at_run_time(pair):
    hub, session = pair
    session.put(config_key(hub, "adminspace/permissions/read"), "false")
    eventually(lambda: list(session.get("@/*/router", timeout=PATIENCE)) == [], "nothing is answered")


def test_storages_come_and_go(pair):
    hub, session = pair
    section = {"key_expr": "kept/**", "volume": "memory"}
    told = write(session, hub, "plugins/storage_manager/storages/demo", section)
    assert "after" in told, told
    session.put("kept/a", "1")
    eventually(lambda: list(session.get("kept/a", timeout=PATIENCE)), "the storage answers")
    told = write(
        session, hub, "plugins/storage_manager/storages/bad", {"key_expr": "a//b", "volume": "memory"}
    )
    assert "refused" in told, told
    assert "after" in write(session, hub, "plugins/storage_manager/storages/demo")
    assert list(session.get("kept/a", timeout=PATIENCE)) == []


def test_secrets_do_not_come_back(pair):
    hub, session = pair
    told = write(session, hub, "metadata", {"password": "hidden", "private": {"a": 1}, "b": 2})
    assert json.loads(told["after"]) == {"b": 2, "password": "***"}


def test_what_may_change_is_listed(pair):
    hub, session = pair
    told = status(session, hub)
    assert "access_control" in told["writable"]
    assert told["plugins"] == ["storage_manager"]
    for number in range(70):
        session.put(config_key(hub, "metadata"), str(number))
    eventually(
        lambda: (
            status(session, hub)["changes"][-1:] and status(session, hub)["changes"][-1].get("after") == "69"
        ),
        "all are in",
    )
    assert len(status(session, hub)["changes"]) == 64
