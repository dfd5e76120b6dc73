"""Policies of a router: access control, downsampling, limits of size, other QoS.

Either router gets the same configuration and has to have the same effect on clients of either.
"""

import pytest

from interop.harness import ECLIPSE, ZWIRE, eventually, reached, shown

NODES = [
    (ZWIRE, ZWIRE, ZWIRE),
    (ZWIRE, ECLIPSE, ECLIPSE),
    (ZWIRE, ZWIRE, ECLIPSE),
    (ECLIPSE, ZWIRE, ZWIRE),
]
ROBOT, DESK = "a1", "b2"
BLOCK = {"congestion_control": "BLOCK"}

DATA = ["put", "delete", "declare_subscriber"]
QUERIES = ["query", "reply", "declare_queryable"]
TOKENS = ["liveliness_token", "liveliness_query", "declare_liveliness_subscriber"]

ACCESS = {
    "enabled": True,
    "default_permission": "deny",
    "rules": [
        {
            "id": "open",
            "permission": "allow",
            "messages": [*DATA, *QUERIES, *TOKENS],
            "key_exprs": ["open/**"],
        },
        {"id": "asked", "permission": "allow", "messages": QUERIES, "key_exprs": ["desk/**"]},
        {"id": "quiet", "permission": "deny", "messages": ["put"], "key_exprs": ["open/quiet/**"]},
        {
            "id": "only in",
            "permission": "allow",
            "flows": ["ingress"],
            "messages": DATA,
            "key_exprs": ["in/**"],
        },
        {"id": "robot", "permission": "allow", "messages": DATA, "key_exprs": ["robot/**"]},
    ],
    "subjects": [
        {"id": "all"},
        {"id": "the robot", "zids": [ROBOT], "link_protocols": ["tcp"]},
        {"id": "nobody", "usernames": ["ann"]},
    ],
    "policies": [
        {"rules": ["open", "asked", "quiet", "only in"], "subjects": ["all"]},
        {"rules": ["robot"], "subjects": ["the robot"]},
        {"rules": ["robot"], "subjects": ["nobody"]},
    ],
}


def line(net, nodes, **settings):
    """Robot, hub with the settings, desk."""
    hub, robot, desk = nodes
    hub = net.hub(hub, **settings)
    return net.client(robot, hub, id=ROBOT), net.client(desk, hub, id=DESK)


def texts(samples):
    return [(s["key"], s["kind"], s["payload"]) for s in samples]


@pytest.mark.parametrize("nodes", NODES, ids="-".join)
def test_access_control_of_data(net, nodes):
    robot, desk = line(net, nodes, access_control=ACCESS)
    for name in ("open", "closed", "in", "robot"):
        desk.subscribe(name=name, key=f"{name}/**")
    reached(robot, desk, "open", "open/ready")
    for key in ("closed/a", "open/quiet/a", "in/a", "robot/a", "open/a"):
        robot.put(key=key, payload=key, **BLOCK)
    robot.delete(key="open/a", **BLOCK)
    robot.put(key="open/end", payload="end", **BLOCK)
    got = texts(desk.received(name="open", count=3, seconds=5))
    assert got == [
        ("open/a", "PUT", shown(b"open/a")),
        ("open/a", "DELETE", ""),
        ("open/end", "PUT", shown(b"end")),
    ]
    # The desk may not be told what the robot may say.
    for name in ("closed", "in", "robot"):
        assert desk.received(name=name, count=0, seconds=0) == [], name


@pytest.mark.parametrize("nodes", NODES, ids="-".join)
def test_access_control_is_for_a_subject(net, nodes):
    robot, desk = line(net, nodes, access_control=ACCESS)
    robot.subscribe(name="robot", key="robot/**")
    robot.subscribe(name="open", key="open/**")
    reached(desk, robot, "open", "open/ready")
    desk.put(key="robot/a", payload="of the desk", **BLOCK)
    desk.put(key="open/end", payload="", **BLOCK)
    robot.received(name="open", count=1, seconds=5)
    assert robot.received(name="robot", count=0, seconds=0) == []


@pytest.mark.parametrize("nodes", NODES, ids="-".join)
def test_access_control_of_queries(net, nodes):
    robot, desk = line(net, nodes, access_control=ACCESS)
    for name in ("desk", "open", "closed"):
        script = [{"do": "reply", "payload": name}]
        desk.queryable(name=name, key=f"{name}/*", script=script)
    eventually("the desk answers", lambda: robot.get(selector="desk/a")["replies"])
    assert [r["payload"] for r in robot.get(selector="open/a")["replies"]] == [shown(b"open")]
    # A refused query ends at once, without waiting for the timeout.
    for key in ("closed/a", "elsewhere/a", "**"):
        answer = robot.get(selector=key)
        assert answer["replies"] == [], key
        assert answer["seconds"] < 2, key


@pytest.mark.parametrize("nodes", NODES, ids="-".join)
def test_access_control_of_tokens(net, nodes):
    robot, desk = line(net, nodes, access_control=ACCESS)
    robot.token(name="open token", key="open/robot")
    robot.token(name="closed token", key="closed/robot")
    desk.liveliness_subscribe(name="open", key="open/*", history=True)
    desk.liveliness_subscribe(name="closed", key="closed/*", history=True)
    eventually("the token is known", lambda: desk.liveliness_get(key="open/*")["replies"])
    answer = desk.liveliness_get(key="closed/*")
    assert answer["replies"] == []
    assert answer["seconds"] < 2
    assert ("open/robot", "PUT", "") in texts(desk.received(name="open", count=1, seconds=5))
    robot.undeclare(name="closed token")
    robot.undeclare(name="open token")
    # eclipse-zenoh now and then takes the token of the answer for news, so that PUT comes twice.
    gone = ("open/robot", "DELETE", "")
    eventually("its end is told", lambda: gone in texts(desk.received(name="open", count=0, seconds=0)))
    assert texts(desk.received(name="open", count=0, seconds=0))[-1] == gone
    assert desk.received(name="closed", count=0, seconds=0) == []


@pytest.mark.parametrize("flow", ["ingress", "egress"])
@pytest.mark.parametrize("nodes", NODES, ids="-".join)
def test_downsampling(net, nodes, flow):
    rules = [{"key_expr": "rare/**", "freq": 0.1}, {"key_expr": "never/**", "freq": 0}]
    entry = {"id": "slow", "flows": [flow], "messages": ["put"], "rules": rules}
    robot, desk = line(net, nodes, downsampling=[entry])
    desk.subscribe(name="sub", key="**")
    reached(robot, desk, "sub", "ready")
    for number in range(20):
        for key in ("rare/a", "rare/b", "never/a", "often/a"):
            robot.put(key=key, payload=str(number), **BLOCK)
    robot.delete(key="never/a", **BLOCK)
    got = texts(desk.received(name="sub", count=22, seconds=5))
    assert [key for key, _, _ in got if key.startswith("rare")] == ["rare/a"]
    assert [kind for key, kind, _ in got if key == "never/a"] == ["DELETE"]
    assert len([key for key, _, _ in got if key == "often/a"]) == 20


@pytest.mark.parametrize("nodes", NODES, ids="-".join)
def test_a_limit_of_size(net, nodes):
    entry = {"id": "small", "flows": ["ingress"], "messages": ["put", "reply"], "key_exprs": ["small/**"]}
    robot, desk = line(net, nodes, low_pass_filter=[{**entry, "size_limit": 10}])
    desk.subscribe(name="sub", key="**")
    script = [{"do": "reply", "payload": "x" * 11}]
    desk.queryable(name="queryable", key="small/*", script=script)
    reached(robot, desk, "sub", "ready")
    for size in (9, 10, 11, 1_000_000):
        robot.put(key="small/a", payload="x" * size, **BLOCK)
        robot.put(key="large/a", payload="x" * size, **BLOCK)
    robot.put(key="small/a", payload="x" * 5, attachment="y" * 6, **BLOCK)
    robot.put(key="end", payload="", **BLOCK)
    got = [s["key"] for s in desk.received(name="sub", count=7, seconds=10)]
    assert got.count("small/a") == 2
    assert got.count("large/a") == 4
    assert got[-1] == "end"
    answer = robot.get(selector="small/a", timeout=5.0)
    assert answer["replies"] == []
    assert answer["seconds"] < 2


@pytest.mark.parametrize("nodes", NODES, ids="-".join)
def test_another_qos(net, nodes):
    entry = {
        "id": "bulk",
        "messages": ["put"],
        "key_exprs": ["bulk/**"],
        "payload_size": "100..",
        "overwrite": {"priority": "background", "congestion_control": "block", "express": True},
    }
    robot, desk = line(net, nodes, **{"qos/network": [entry]})
    desk.subscribe(name="sub", key="*/**")
    reached(robot, desk, "sub", "ready")
    robot.put(key="bulk/a", payload="x" * 100, priority="REAL_TIME")
    robot.put(key="bulk/b", payload="x" * 99, priority="REAL_TIME")
    robot.put(key="other", payload="x" * 100)
    got = {s["key"]: s for s in desk.received(name="sub", count=3, seconds=5)}
    qos = {key: (s["priority"], s["congestion"], s["express"]) for key, s in got.items()}
    assert qos == {
        "bulk/a": ("BACKGROUND", "BLOCK", True),
        "bulk/b": ("REAL_TIME", "DROP", False),
        "other": ("DATA", "DROP", False),
    }


@pytest.mark.parametrize("implementation", [ZWIRE, ECLIPSE])
def test_a_client_holds_back_what_it_may_not_ask(net, implementation):
    """A query that may not be sent ends at once, without waiting for replies."""
    hub = net.hub(ZWIRE)
    rule = {"id": "no", "permission": "deny", "flows": ["egress"], "key_exprs": ["closed/**"]}
    messages = ["put", "query", "declare_subscriber", "liveliness_query", "declare_liveliness_subscriber"]
    access = {
        "enabled": True,
        "default_permission": "allow",
        "rules": [{**rule, "messages": messages}],
        "subjects": [{"id": "all"}],
        "policies": [{"rules": ["no"], "subjects": ["all"]}],
    }
    robot = net.client(implementation, hub, access_control=access)
    desk = net.client(ZWIRE, hub)
    desk.token(name="token", key="closed/desk")
    for name in ("open", "closed"):
        desk.queryable(name=name, key=f"{name}/*", script=[{"do": "reply", "payload": name}])
    desk.subscribe(name="sub", key="**")
    robot.subscribe(name="closed sub", key="closed/*")
    reached(robot, desk, "sub", "ready")
    eventually("the desk answers", lambda: robot.get(selector="open/a")["replies"])
    for ask in (lambda: robot.get(selector="closed/a"), lambda: robot.liveliness_get(key="closed/*")):
        answer = ask()
        assert answer["replies"] == []
        assert answer["seconds"] < 2
    robot.put(key="closed/a", payload="", **BLOCK)
    robot.put(key="open/a", payload="", **BLOCK)
    assert [s["key"] for s in desk.received(name="sub", count=1, seconds=5)] == ["open/a"]
