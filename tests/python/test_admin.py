"""The admin space of a node."""

import json

import pytest

from nodes import LOCAL, opened

PATIENCE = 10.0


def asked(session, selector):
    replies = [reply.ok for reply in session.get(selector, timeout=PATIENCE)]
    return {str(reply.key_expr): reply for reply in replies}


@pytest.mark.parametrize(
    "settings", [{}, {"adminspace__enabled": True, "adminspace__permissions__read": False}]
)
def test_a_library_says_nothing_unless_it_is_told_to(settings):
    with opened("router", **settings) as hub:
        assert asked(hub, "@/**") == {}


def test_a_session_asks_its_own_node():
    with opened("router", adminspace__enabled=True, metadata={"place": "attic"}) as hub:
        hub.put("nobody/wants/it", "x")
        (root,) = asked(hub, f"@/{hub.zid()}/router?_stats").values()
        value = json.loads(root.payload.to_bytes())
        assert (value["zid"], value["metadata"], value["sessions"]) == (
            str(hub.zid()),
            {"place": "attic"},
            [],
        )
        assert value["stats"]["node.pushes_in"] >= 0
        assert "stats" not in json.loads(asked(hub, "@/*/router").popitem()[1].payload.to_bytes())


def test_many_questions_at_once_all_end():
    with opened("router", listen__endpoints=LOCAL, adminspace__enabled=True) as hub:
        keep = [hub.declare_subscriber(f"many/{n}") for n in range(300)]
        with opened("client", connect__endpoints=hub.listening()) as client:
            gets = [client.get("@/*/router/subscriber/**", timeout=PATIENCE) for _ in range(200)]
            counts = [len(list(get)) for get in gets]
            # More wait than may: those get nothing, at once.
            assert set(counts) <= {0, len(keep)}
            assert counts.count(len(keep)) >= 64
            assert all(get.end == "completed" for get in gets)


def test_the_command_line_hub_can_be_asked(router):
    with opened("client", connect__endpoints=[router.endpoint]) as client:
        (root,) = asked(client, "@/*/router").values()
        assert json.loads(root.payload.to_bytes())["sessions"][0]["peer"] == str(client.zid())
