"""Rules of links that are replaced while the links are open."""

import threading
import time

import pytest

from nodes import client, eventually, router
from zwire import zenoh
from zwire.errors import ConfigError, TimedOut


def rules(*denied, messages=("put",), flows=("ingress", "egress"), user=None):
    rule = {
        "id": "r",
        "permission": "deny",
        "messages": list(messages),
        "flows": list(flows),
        "key_exprs": list(denied) or ["nothing"],
    }
    subject = {"id": "s"} if user is None else {"id": "s", "usernames": [user]}
    return {
        "enabled": True,
        "default_permission": "allow",
        "rules": [rule],
        "subjects": [subject],
        "policies": [{"rules": ["r"], "subjects": ["s"]}],
    }


def change(hub, **settings):
    """Replace keys of a hub; all of them can change at once."""
    config = hub.config()
    for key, value in settings.items():
        config.insert_json5(key.replace("__", "/"), value)
    assert hub.reconfigure(config) == []


def silent(subscriber, seconds=0.3):
    with pytest.raises(TimedOut):
        subscriber.recv(timeout=seconds)


@pytest.fixture
def line():
    with router() as hub, client(hub) as robot, client(hub) as desk:
        yield hub, robot, desk
        # No link was closed on the way.
        assert len(hub.info.links()) == 2


def got(robot, subscriber, key, text):
    """A put passes, and it is the next sample."""
    robot.put(key, text)
    assert subscriber.recv(timeout=10).payload.to_string() == text


def test_a_put_is_refused_from_then_on_and_passes_again(line):
    hub, robot, desk = line
    subscriber = desk.declare_subscriber("a/**")
    desk.ready(timeout=10)
    # By number, so that rules that come later have to know it.
    key = robot.declare_keyexpr("a/b")
    got(robot, subscriber, key, "1")
    change(hub, access_control=rules("a/b"))
    robot.put(key, "refused")
    got(robot, subscriber, "a/c", "2")
    change(hub, access_control={"enabled": False})
    got(robot, subscriber, key, "3")


def test_a_denied_subscriber_gets_nothing_and_an_allowed_one_gets_again(line):
    hub, robot, desk = line
    subscriber = desk.declare_subscriber("a/b")
    publisher = robot.declare_publisher("a/b")
    publisher.wait_matching(timeout=10)
    got(robot, subscriber, "a/b", "1")
    change(hub, access_control=rules("a/**", messages=["declare_subscriber"], flows=["ingress"]))
    eventually(lambda: not publisher.matching_status.matching, "the publisher hears of it")
    robot.put("a/b", "refused")
    silent(subscriber)
    # Declared while it is denied.
    late = desk.declare_subscriber("a/c")
    desk.ready(timeout=10)
    change(hub, access_control=rules())
    publisher.wait_matching(timeout=10)
    got(robot, subscriber, "a/b", "2")
    got(robot, late, "a/c", "3")


def test_queryables_and_tokens_follow_the_rules(line):
    hub, robot, desk = line
    desk.declare_queryable("a/q", lambda query: query.reply("a/q", "answer"))
    token = desk.liveliness().declare_token("a/t")
    alive = robot.liveliness().declare_subscriber("a/*", history=True)
    assert alive.recv(timeout=10).kind == zenoh.SampleKind.PUT
    eventually(lambda: list(robot.get("a/q", timeout=5)), "the queryable is known")
    kinds = ["declare_queryable", "liveliness_token"]
    change(hub, access_control=rules("a/**", messages=kinds, flows=["ingress"]))
    assert alive.recv(timeout=10).kind == zenoh.SampleKind.DELETE
    assert list(robot.get("a/q", timeout=5)) == []
    change(hub, access_control=rules())
    assert alive.recv(timeout=10).kind == zenoh.SampleKind.PUT
    eventually(lambda: list(robot.get("a/q", timeout=5)), "the queryable is known again")
    token.undeclare()
    assert alive.recv(timeout=10).kind == zenoh.SampleKind.DELETE


def test_a_denied_liveliness_subscriber_hears_nothing_and_an_allowed_one_hears_again(line):
    hub, robot, desk = line
    alive = robot.liveliness().declare_subscriber("a/*")
    robot.ready(timeout=10)
    with desk.liveliness().declare_token("a/1"):
        assert str(alive.recv(timeout=10).key_expr) == "a/1"
        change(hub, access_control=rules("a/**", messages=["declare_liveliness_subscriber"]))
    with desk.liveliness().declare_token("a/2"):
        silent(alive)
        change(hub, access_control=rules())
        sample = alive.recv(timeout=10)
        assert (str(sample.key_expr), sample.kind) == ("a/2", zenoh.SampleKind.PUT)


def test_changes_lose_nothing_that_is_allowed(line):
    hub, robot, desk = line
    subscriber = desk.declare_subscriber("a/b")
    publisher = robot.declare_publisher("a/b", congestion_control=zenoh.CongestionControl.BLOCK)
    publisher.wait_matching(timeout=10)
    done, changes = threading.Event(), []

    def toggle():
        while not done.is_set():
            # Other keys, so that each message passes under both; in between, links are without rules.
            change(hub, access_control=rules("a/c"))
            change(hub, access_control={"enabled": False})
            changes.append(1)

    thread = threading.Thread(target=toggle)
    thread.start()
    got, end = [], time.monotonic() + 60
    try:
        while thread.is_alive() and (len(got) < 3000 or len(changes) < 50):
            assert time.monotonic() < end
            for number in range(len(got), len(got) + 100):
                publisher.put(str(number))
            got += [int(subscriber.recv(timeout=10).payload.to_string()) for _ in range(100)]
    finally:
        done.set()
        thread.join()
    assert got == list(range(len(got)))


def test_many_declarations_are_judged_at_once(line):
    hub, robot, desk = line
    keep = [desk.declare_subscriber(f"a/{number}") for number in range(2000)]
    desk.ready(timeout=30)
    publisher = robot.declare_publisher("a/1999")
    publisher.wait_matching(timeout=10)
    change(hub, access_control=rules("a/*", messages=["declare_subscriber"], flows=["ingress"]))
    eventually(lambda: not publisher.matching_status.matching, "the publisher hears of it")
    change(hub, access_control=rules())
    # As many as are kept: the first of them by their ids.
    first = robot.declare_publisher("a/0")
    first.wait_matching(timeout=10)
    assert len(keep) == 2000


def test_limits_of_rate_and_size_change(line):
    hub, robot, desk = line
    subscriber = desk.declare_subscriber("a/b")
    desk.ready(timeout=10)
    limit = {"messages": ["put"], "key_exprs": ["a/**"], "size_limit": 4, "flows": ["ingress"]}
    change(hub, low_pass_filter=[limit])
    robot.put("a/b", "too long")
    got(robot, subscriber, "a/b", "ok")
    rate = {"messages": ["put"], "flows": ["ingress"], "rules": [{"key_expr": "a/**", "freq": 0}]}
    change(hub, low_pass_filter=[], downsampling=[rate])
    robot.put("a/b", "none passes")
    robot.flush(timeout=10)
    change(hub, downsampling=[])
    got(robot, subscriber, "a/b", "much longer than before")


def test_rules_are_for_their_subject():
    users = {"transport/auth/usrpwd/user": "hub", "transport/auth/usrpwd/password": "x"}
    with router(**users) as hub, client(hub) as desk:
        subscriber = desk.declare_subscriber("a/b")
        desk.ready(timeout=10)
        change(hub, access_control=rules("a/**", user="ann"))
        got(hub, subscriber, "a/b", "nobody here is ann")


def test_what_needs_a_restart_is_named_and_the_rest_applied(line):
    hub, _, _ = line
    config = hub.config()
    config.insert_json5("metadata", {"a": 1})
    config.insert_json5("zwire/threads", 7)
    assert hub.reconfigure(config) == ["zwire/threads (it needs a restart)"]
    assert hub.config().get_json("metadata") == '{"a":1}'
    assert hub.config().get_json("zwire/threads") == "2"
    config.insert_json5("transport/unicast/lowlatency", "true")
    with pytest.raises(ConfigError):
        hub.reconfigure(config)


def test_a_client_names_its_rules_as_fixed(line):
    _hub, robot, _ = line
    config = robot.config()
    config.insert_json5("access_control", rules("a"))
    fixed = robot.reconfigure(config)
    assert fixed
    assert all("a client needs a restart" in reason for reason in fixed)


def test_endpoints_to_connect_to_change():
    with router() as other, router() as hub:
        change(hub, connect__endpoints=other.listening())
        eventually(lambda: hub.info.routers_zid() == [other.zid()], "the hub connects")
        change(hub, connect__endpoints=[])
        eventually(lambda: hub.info.routers_zid() == [], "the link is closed")
        change(hub, connect__endpoints=other.listening())
        eventually(lambda: hub.info.routers_zid() == [other.zid()], "it connects again")
        assert hub.config().get_json("connect/endpoints") != "[]"
