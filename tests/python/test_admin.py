"""The admin space of a node."""

import json

import pytest

from nodes import LOCAL, opened
from zwire import zenoh

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


def test_links_have_counters_on_request():
    with (
        opened("router", listen__endpoints=LOCAL, adminspace__enabled=True) as hub,
        opened("client", connect__endpoints=hub.listening()) as client,
    ):
        client.put("some/key", bytes(10_000))
        client.ready(timeout=PATIENCE)

        def links(parameters):
            (root,) = asked(client, f"@/{hub.zid()}/router{parameters}").values()
            (neighbour,) = json.loads(root.payload.to_bytes())["sessions"]
            return neighbour["links"]

        (link,) = links("?_stats")
        assert link["stats"]["rx_bytes"] > 10_000
        assert 0 < link["stats"]["tx_bytes"] < 10_000
        assert link["stats"]["tx_dropped"] == 0
        assert 0 <= link["stats"]["waiting_bytes"] <= link["stats"]["capacity_bytes"]
        assert link["stats"]["seconds"] >= 0
        assert [sorted(each) for each in links("")] == [["dst", "src"]]


def test_links_with_the_same_ends_have_their_own_counters(tmp_path):
    endpoint = f"unixsock-stream/{tmp_path / 'hub'}"
    with (
        opened("router", listen__endpoints=[endpoint], adminspace__enabled=True) as hub,
        opened("client", connect__endpoints=[endpoint]) as quiet,
        opened("client", connect__endpoints=[endpoint]) as loud,
    ):
        loud.put("some/key", bytes(50_000), congestion_control=zenoh.CongestionControl.BLOCK)
        loud.ready(timeout=PATIENCE)
        quiet.ready(timeout=PATIENCE)
        (root,) = asked(quiet, f"@/{hub.zid()}/router?_stats").values()
        found = {
            neighbour["peer"]: neighbour["links"][0]["stats"]["rx_bytes"]
            for neighbour in json.loads(root.payload.to_bytes())["sessions"]
        }
        assert found[str(loud.zid())] > 50_000 > found[str(quiet.zid())] > 0


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


def test_graphs_are_found_by_their_names_before_1_9():
    """Views of networks ask for these; a query for all keys gets the present names alone."""
    with opened("router", adminspace__enabled=True) as hub:
        base = f"@/{hub.zid()}/router/linkstate"
        now = {
            key.removeprefix(f"{base}/"): reply.payload.to_string()
            for key, reply in asked(hub, f"{base}/**").items()
        }
        assert now.keys() == {"north", "south:0:peer"}
        for before, name in (("routers", "north"), ("peers", "south:0:peer")):
            ((key, reply),) = asked(hub, f"@/*/router/linkstate/{before}").items()
            assert (key, reply.payload.to_string()) == (f"{base}/{before}", now[name])
