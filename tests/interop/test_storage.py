"""Storages with clients: ours with clients of both implementations, and ours as a client of the reference's.

The package of eclipse-zenoh has no storages: cargo builds a router of theirs, for the long tests.
"""

import base64
import json
import sys
import time
from types import SimpleNamespace

import pytest

import snippets
from interop.harness import ECLIPSE, ZWIRE, free_port, shown

sys.path.insert(0, str(snippets.ROOT / "benches"))

from python import zenohd

# Cargo builds some four hundred crates.
BUILD_SECONDS = 1800


@pytest.fixture(params=["memory", "disk"])
def volume(request, tmp_path):
    return request.param if request.param == "memory" else {"id": "disk", "dir": str(tmp_path / "storage")}


@pytest.fixture(scope="session")
def program():
    """The router of the reference with its storage manager."""
    built = zenohd.program(smoke=False)
    assert built, "cargo cannot build benches/rust/zenohd"
    return built


THEIRS = "zenohd"

# What the storage manager of the reference, 1.10.2, does in another way, by test or by one of its parameters.
DIFFERENT = {
    "delete-before-late-put": "an older put behind a wildcard delete is stored as an empty put",
    "late-put-after-delete": "an older put behind a delete is stored",
    "older-wildcard": "an older wildcard update takes the place of a newer one",
    "delete-between": "a wildcard delete that comes behind a newer wildcard put deletes nothing",
    "test_encodings_attachments_and_stamps_are_kept": "attachments are not kept",
    "test_times_choose_values": "queries with _time get every value",
    "test_the_admin_space_shows_the_storage": "plugins that are linked in are not shown",
}


class Late:
    """A client whose gets come later: the storage of the reference takes puts in tasks of its own."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        return getattr(self.client, name)

    def get(self, **arguments):
        time.sleep(0.3)
        return self.client.get(**arguments)


@pytest.fixture(
    params=[
        (ECLIPSE, ZWIRE),
        (ZWIRE, ZWIRE),
        pytest.param((ZWIRE, THEIRS), marks=[pytest.mark.long, pytest.mark.timeout(BUILD_SECONDS)]),
    ],
    ids="-".join,
)
def client(request, net, volume):
    """A client of a router with a storage of ``s/**``."""
    asker, keeper = request.param
    storages = {"s": {"key_expr": "s/**", "strip_prefix": "s", "complete": True, "volume": volume}}
    if keeper == ZWIRE:
        hub = net.hub(
            ZWIRE, **{"plugins/storage_manager": {"storages": storages}, "adminspace/enabled": True}
        )
        yield net.client(asker, hub)
        return
    if volume != "memory":
        pytest.skip("the router of the reference is built with its volume in memory alone")
    hub = SimpleNamespace(endpoint=f"tcp/127.0.0.1:{free_port()}")
    plugins = {"storage_manager": {"storages": storages}}
    settings = {"listen": {"endpoints": [hub.endpoint]}, "plugins": plugins, "adminspace": {"enabled": True}}
    name = request.node.callspec.params.get("name", request.node.originalname)
    if name in DIFFERENT:
        request.applymarker(pytest.mark.xfail(reason=DIFFERENT[name]))
    with zenohd.running(request.getfixturevalue("program"), **settings):
        yield Late(net.client(asker, hub))


def values(client, selector="s/**"):
    """Keys with payloads as texts; the query comes after what the client has put, on the same link."""
    answer = client.get(selector=selector)
    assert all(reply["ok"] for reply in answer["replies"]), answer
    keys = [reply["key"] for reply in answer["replies"]]
    assert len(set(keys)) == len(keys), "a key came twice"
    return {reply["key"]: reply["payload"] for reply in answer["replies"]}


def texts(**expected):
    return {f"s/{key}": shown(text.encode()) for key, text in expected.items()}


def test_puts_and_deletes(client):
    client.put(key="s/a", payload="1")
    client.put(key="s/b", payload="2")
    assert values(client) == texts(a="1", b="2")
    assert values(client, "s/a") == texts(a="1")
    client.delete(key="s/a")
    assert values(client, "s/a") == {}
    assert values(client) == texts(b="2")


def test_wildcards_change_keys_and_create_none(client):
    client.put(key="s/*", payload="1")
    assert values(client) == {}
    client.put(key="s/a", payload="2")
    client.put(key="s/b", payload="3")
    client.put(key="s/*", payload="4")
    assert values(client) == texts(a="4", b="4")
    client.put(key="s/c/d", payload="5")
    client.delete(key="s/*")
    assert values(client) == {"s/c/d": shown(b"5")}


# Updates in the order in which they come: kind, key, value, place of the stamp; and the state afterwards.
WORKED = {
    "older-put": ([("put", "a", "1", 2), ("put", "a", "0", 1)], {"a": "1"}),
    "same-stamp": ([("put", "a", "1", 2), ("put", "a", "9", 2)], {"a": "9"}),
    "put-before-late-put": ([("put", "**", "5", 2), ("put", "a", "1", 1)], {"a": "5"}),
    "delete-before-late-put": ([("delete", "**", None, 2), ("put", "a", "1", 1)], {}),
    "late-put-after-delete": (
        [("put", "a", "1", 1), ("delete", "a", None, 3), ("put", "a", "2", 2)],
        {},
    ),
    "delete-between": ([("put", "a", "1", 1), ("put", "**", "5", 3), ("delete", "**", None, 2)], {}),
    "older-wildcard": (
        [("put", "**", "5", 3), ("put", "**", "4", 2), ("put", "a", "1", 1)],
        {"a": "5"},
    ),
}


@pytest.mark.parametrize("name", WORKED)
def test_stamps_decide(client, name):
    updates, expected = WORKED[name]
    for place in (1, 2, 3):
        client.new_timestamp(name=f"t{place}")
    for kind, key, value, place in updates:
        stamp = {"timestamp": f"t{place}"}
        if kind == "put":
            client.put(key=f"s/{key}", payload=value, **stamp)
        else:
            client.delete(key=f"s/{key}", **stamp)
    assert values(client) == texts(**expected)


def test_encodings_attachments_and_stamps_are_kept(client):
    stamp = client.new_timestamp(name="t")
    client.put(key="s/all", payload="{}", encoding="application/json;v=1", attachment=[0, 255], timestamp="t")
    client.put(key="s/custom", payload="x", encoding="my/own;schema")
    client.put(key="s", payload="the prefix itself")
    replies = {reply["key"]: reply for reply in client.get(selector="s/**")["replies"]}
    assert replies.keys() == {"s", "s/all", "s/custom"}
    assert replies["s/all"]["encoding"] == "application/json;v=1"
    assert replies["s/all"]["attachment"] == shown(bytes([0, 255]))
    assert replies["s/all"]["timestamp"] == stamp
    assert replies["s/custom"]["encoding"] == "my/own;schema"
    assert replies["s"]["timestamp"] is not None


def test_times_choose_values(client):
    client.put(key="s/a", payload="1")
    assert values(client, "s/a?_time=[now(-1h)..]") == texts(a="1")
    assert values(client, "s/a?_time=[..now(-1h)]") == {}
    (reply,) = client.get(selector="s/a?_time=yesterday")["replies"]
    assert not reply["ok"]


def test_the_admin_space_shows_the_storage(client, volume):
    hub = client.get(selector="@/*/router/status/plugins/storage_manager/**")["replies"]
    found = {
        reply["key"].partition("/storage_manager/")[2]: base64.b64decode(reply["payload"]) for reply in hub
    }
    assert {"version", "__path__", "volumes/memory", "volumes/memory/__path__", "storages/s"} <= found.keys()
    assert found["volumes/memory/__path__"] == b"__static_lib__"
    assert json.loads(found["storages/s"]) == {"key_expr": "s/**", "strip_prefix": "s", "volume": volume}


def test_a_query_for_durable_puts_is_answered(client):
    if isinstance(client, Late):
        pytest.skip("the storages of the reference do not tell when a put is stored")
    for number in range(100):
        client.put(key=f"s/{number}", payload=str(number))
    assert values(client, "s/99?_durable") == texts(**{"99": "99"})
    assert len(values(client)) == 100
