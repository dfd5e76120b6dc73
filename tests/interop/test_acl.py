"""The admin space written by a client of either implementation, and rules that change under open links.

The scenarios are those of the tests of access control and of the admin space of eclipse-zenoh: who may
put, get, subscribe, declare and see tokens, by default permission and rule. There each rule has a router;
here one router gets them one after the other, by writes to its admin space.
"""

import base64
import contextlib
import json

import pytest

from interop.harness import ECLIPSE, ZWIRE, eventually, reached, shown
from zwire import zenoh

BLOCK = {"congestion_control": "BLOCK"}
ROUTER, ROBOT, DESK = "f00d", "a1", "b2"
BASE = f"@/{ROUTER}/router"
KINDS = [
    "put",
    "delete",
    "declare_subscriber",
    "query",
    "reply",
    "declare_queryable",
    "liveliness_token",
    "liveliness_query",
    "declare_liveliness_subscriber",
]

MIXES = [(ECLIPSE, ECLIPSE), (ZWIRE, ECLIPSE), (ECLIPSE, ZWIRE)]


def rules(
    default, permission=None, messages=(), flows=("ingress", "egress"), zids=(ROBOT, DESK), keys=("test/**",)
):
    """Access control as a write: the admin space always stays open for the desk."""
    open_ = {"id": "admin", "permission": "allow", "messages": KINDS, "key_exprs": [f"{BASE}/**"]}
    value = {
        "enabled": True,
        "default_permission": default,
        "rules": [open_],
        "subjects": [{"id": "all"}, {"id": "some", "zids": list(zids)}],
        "policies": [{"rules": ["admin"], "subjects": ["all"]}],
    }
    if permission is not None:
        rule = {
            "id": "rule",
            "permission": permission,
            "messages": list(messages),
            "flows": list(flows),
            "key_exprs": list(keys),
        }
        value["rules"].append(rule)
        value["policies"].append({"rules": ["rule"], "subjects": ["some"]})
    return value


def asked(session, key):
    """The JSON at a key, as a client of ours gets it."""
    (reply,) = session.get(key, timeout=10)
    return json.loads(reply.ok.payload.to_bytes())


def client(hub):
    return zenoh.open(
        {"mode": "client", "connect/endpoints": [hub.endpoint], "scouting/multicast/enabled": False}
    )


class Line:
    """A router of ours, a robot, a desk that administers, and a client that reads what the router tells."""

    def __init__(self, net, mix, asker):
        admin = {"adminspace/enabled": True, "adminspace/permissions/write": True}
        self.hub = net.hub(ZWIRE, id=ROUTER, **admin)
        self.robot = net.client(mix[0], self.hub, id=ROBOT)
        self.desk = net.client(mix[1], self.hub, id=DESK)
        self.asker = asker(self.hub)

    def changes(self):
        return asked(self.asker, f"{BASE}/status/config")["changes"]

    def write(self, path, value):
        before = len(self.changes())
        self.desk.put(key=f"{BASE}/config/{path}", payload=json.dumps(value), **BLOCK)
        eventually("it is handled", lambda: len(self.changes()) > before)
        return self.changes()[-1]

    def root(self):
        """The root document, as the desk gets it."""
        (reply,) = self.desk.get(selector=BASE)["replies"]
        return json.loads(base64.b64decode(reply["payload"]))


@pytest.fixture
def asker():
    """Opens clients of ours."""
    with contextlib.ExitStack() as stack:
        yield lambda hub: stack.enter_context(client(hub))


@pytest.fixture(params=MIXES, ids="-".join)
def line(net, request, asker):
    return Line(net, request.param, asker)


def texts(samples):
    return [s["payload"] for s in samples]


def test_a_foreign_client_writes_and_reads_the_admin_space(line):
    told = line.write("metadata", {"site": "attic"})
    assert told["after"] == '{"site":"attic"}'
    assert DESK in told["sender"]
    assert line.root()["metadata"] == {"site": "attic"}
    assert "restart" in line.write("mode", "peer")["refused"]["reason"]
    line.desk.delete(key=f"{BASE}/config/metadata", **BLOCK)
    eventually("it is removed", lambda: line.root()["metadata"] is None)


def test_puts_and_subscribers(line):
    line.desk.subscribe(name="s", key="test/**")
    reached(line.robot, line.desk, "s", "test/ready")
    expected = []

    def put(text, *, passes):
        line.robot.put(key="test/a", payload=text, **BLOCK)
        if passes:
            expected.append(shown(text.encode()))

    put("all", passes=True)
    line.write("access_control", rules("deny"))
    put("denied by default", passes=False)
    line.write("access_control", rules("deny", "allow", ["put", "declare_subscriber"]))
    put("allowed", passes=True)
    line.write("access_control", rules("allow", "deny", ["put"]))
    put("denied", passes=False)
    line.write("access_control", rules("allow", "deny", ["put"], ["egress"], [DESK]))
    put("denied at the way out", passes=False)
    line.write("access_control", rules("allow", "deny", ["put"], ["ingress"], [DESK]))
    put("of the other one", passes=True)
    line.write("access_control", rules("allow", "deny", ["declare_subscriber"], ["ingress"]))
    put("without a subscriber", passes=False)
    line.write("access_control", rules("allow"))
    # The robot has heard of the subscriber again when it hears of one that is declared later.
    line.desk.subscribe(name="later", key="ready/**")
    reached(line.robot, line.desk, "later", "ready/now")
    put("end", passes=True)
    got = texts(line.desk.received(name="s", count=len(expected), seconds=10))
    assert [text for text in got if text in expected] == expected
    assert set(got) == set(expected)


def test_queries_and_queryables(line):
    line.desk.queryable(name="q", key="test/q", script=[{"do": "reply", "payload": "yes"}])

    def answered():
        answer = line.robot.get(selector="test/q")
        assert answer["seconds"] < 5
        return bool(answer["replies"])

    eventually("it answers", answered)
    for value, expected in (
        (rules("deny"), False),
        (rules("deny", "allow", ["query", "reply", "declare_queryable"]), True),
        (rules("allow", "deny", ["query"]), False),
        (rules("allow", "deny", ["reply"]), False),
        (rules("allow", "deny", ["declare_queryable"], ["ingress"]), False),
        (rules("allow"), True),
    ):
        line.write("access_control", value)
        if expected:
            eventually("it answers again", answered)
        else:
            assert not answered(), value


def test_tokens(line):
    line.desk.liveliness_subscribe(name="l", key="test/*", history=True)
    line.robot.token(name="t", key="test/robot")

    def last():
        found = line.desk.received(name="l", count=0, seconds=0)
        return found[-1]["kind"] if found else None

    eventually("it is seen", lambda: last() == "PUT")
    line.write("access_control", rules("allow", "deny", ["liveliness_token"], ["ingress"]))
    eventually("it is gone", lambda: last() == "DELETE")
    line.write("access_control", rules("allow"))
    eventually("it is back", lambda: last() == "PUT")


def test_queries_for_tokens(line):
    line.robot.token(name="t", key="test/robot")

    def seen():
        answer = line.desk.liveliness_get(key="test/*")
        assert answer["seconds"] < 5
        return bool(answer["replies"])

    eventually("it is seen", seen)
    for kinds, flows in ((["liveliness_query"], ["ingress"]), (["liveliness_token"], ["ingress", "egress"])):
        line.write("access_control", rules("allow", "deny", kinds, flows))
        assert not seen(), kinds
        line.write("access_control", rules("allow"))
        eventually("it is seen again", seen)


@pytest.mark.parametrize("implementation", [ECLIPSE, ZWIRE])
def test_permissions_of_the_admin_space(net, implementation, asker):
    closed = {"adminspace/enabled": True, "adminspace/permissions/read": False}
    hub = net.hub(ZWIRE, id=ROUTER, **closed)
    desk = net.client(implementation, hub, id=DESK)
    # A client of eclipse-zenoh answers about itself.
    assert desk.get(selector=f"@/{ROUTER}/**")["replies"] == []
    desk.put(key=f"{BASE}/config/metadata", payload="1", **BLOCK)
    hub = net.hub(ZWIRE, id="beef", **{"adminspace/enabled": True})
    desk = net.client(implementation, hub, id="d00f")
    desk.put(key="@/*/*/config/metadata", payload="1", **BLOCK)
    session = asker(hub)
    key = "@/beef/router/status/config"
    eventually("it is refused", lambda: asked(session, key)["changes"])
    assert "permissions/write" in asked(session, key)["changes"][0]["refused"]["reason"]
