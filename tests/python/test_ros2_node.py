"""Nodes of `zwire.ros2` with a router between them, and with sessions that send what they want."""

import asyncio
import logging
import threading
import time
from types import SimpleNamespace

import pytest

import nodes
from nodes import eventually
from zwire import ros2, zenoh
from zwire.aio import ros2 as aio_ros2
from zwire.errors import (
    ConfigError,
    InvalidValue,
    PayloadError,
    QueryError,
    RemoteError,
    TimedOut,
    UsageError,
)
from zwire.ros2 import DurabilityPolicy, Node, Parameter, QoSProfile, ReliabilityPolicy, _actions
from zwire.ros2._graph import Graph
from zwire.ros2._keys import Attachment, gid
from zwire.ros2._rosout import PROFILE

TEXT = "std_msgs/msg/String"
ADD = "example_interfaces/srv/AddTwoInts"
FIBONACCI = "example_interfaces/action/Fibonacci"
PATIENCE = 10.0


@pytest.fixture(scope="module")
def hub():
    with nodes.router(timestamping__enabled=True) as session:
        yield session


@pytest.fixture
def made(hub):
    """A function that makes nodes with sessions of their own, all in one domain of this test."""
    domain = next(DOMAINS)
    opened = []

    def make(name, **more):
        config = nodes.settings("client", connect=hub.listening(), timestamping__enabled=True)
        opened.append(Node(name, config=config, domain_id=domain, **more))
        return opened[-1]

    make.domain = domain
    yield make
    for node in reversed(opened):
        node.destroy_node()


DOMAINS = iter(range(1, 200))


def text(node, data):
    return node.store.message(TEXT).cls(data=data)


def quiet(made, name, **more):
    return made(name, start_parameter_services=False, **more)


def test_messages_arrive_in_order_with_their_origin(made):
    talker, listener = made("talker", namespace="/robot1"), made("listener")
    publisher = talker.create_publisher(TEXT, "chatter")
    seen = threading.Event()
    called = []

    def callback(message, info):
        called.append((message.data, info.publication_sequence_number))
        if len(called) == 3:
            seen.set()

    subscription = listener.create_subscription(TEXT, "/robot1/chatter")
    listener.create_subscription(TEXT, "/robot1/chatter", callback)
    octets = []
    listener.create_subscription(TEXT, "/robot1/chatter", octets.append, raw=True)
    publisher.wait_for_subscription(PATIENCE)
    eventually(lambda: publisher.get_subscription_count() == 3)
    before = time.time_ns()
    for data in ("a", "b", "c"):
        publisher.publish(text(talker, data))
    message, info = subscription.recv_with_info(PATIENCE)
    assert message == text(talker, "a")
    assert (info.publication_sequence_number, info.publisher_gid) == (1, publisher.gid)
    assert before <= info.source_timestamp <= info.received_timestamp
    assert subscription.recv(PATIENCE).data == "b"
    assert next(iter(subscription)).data == "c"
    assert subscription.try_recv() is None
    assert seen.wait(PATIENCE)
    assert called == [("a", 1), ("b", 2), ("c", 3)]
    eventually(lambda: len(octets) == 3)
    assert octets[0] == publisher.type.encode(text(talker, "a"))
    with pytest.raises(TimedOut, match="no message came"):
        subscription.recv(0.0)
    assert subscription.lost == 0
    assert subscription.dropped() == {}


def test_the_graph_follows_nodes_and_endpoints(made):
    watcher = quiet(made, "watcher")
    events = []
    stop = watcher.graph.listen(events.append)
    other = quiet(made, "other", namespace="/ns")
    publisher = other.create_publisher(TEXT, "~/out")
    client = other.create_client(ADD, "add")
    service = other.create_service(ADD, "add", lambda request: None)
    watcher.graph.wait_for(lambda graph: "/ns/add" in graph.services(), PATIENCE)
    assert watcher.graph.nodes() == ["/ns/other", "/watcher"]
    assert watcher.get_topic_names_and_types() == [("/ns/other/out", [TEXT])]
    assert watcher.get_service_names_and_types() == [("/ns/add", [ADD])]
    assert watcher.count_publishers("/ns/other/out") == 1
    assert watcher.count_subscribers("/ns/other/out") == 0
    assert watcher.graph.endpoints("/ns/add", ros2.EntityKind.CLIENT) == [client.entity]
    assert {e.kind for e in watcher.graph.of_node("/ns/other")} == {
        ros2.EntityKind.PUBLISHER,
        ros2.EntityKind.CLIENT,
        ros2.EntityKind.SERVICE,
    }
    publisher.destroy()
    publisher.destroy()
    service.destroy()
    watcher.graph.wait_for(lambda graph: not graph.topics() and not graph.services(), PATIENCE)
    assert [e.appeared for e in events if e.entity == publisher.entity] == [True, False]
    stop()
    with pytest.raises(UsageError):
        publisher.publish(b"")
    with pytest.raises(TimedOut, match="graph"):
        watcher.graph.wait_for(lambda graph: False, 0.01)


def test_two_nodes_share_a_session(made):
    first = quiet(made, "first")
    with Node("second", context=first.context) as second:
        assert second.entity.nid != first.entity.nid
        assert first.get_node_names() == ["/first", "/second"]
        with pytest.raises(UsageError, match="context"):
            Node("third", context=first.context, domain_id=1)
    assert not first.context.session.is_closed()


def test_own_nodes_and_endpoints_are_in_the_graph_at_once(made, monkeypatch):
    """Their tokens come back from the session later, and listeners are told then, once.

    A router tells a client of its own tokens, maybe after their end.
    """
    gate = threading.Event()
    come_back = Graph._on_token

    def late(graph, sample):
        assert gate.wait(PATIENCE)
        come_back(graph, sample)
        if sample.kind == zenoh.SampleKind.DELETE:
            come_back(graph, SimpleNamespace(key_expr=sample.key_expr, kind=zenoh.SampleKind.PUT))

    monkeypatch.setattr(Graph, "_on_token", late)
    node, events = quiet(made, "node"), []
    node.graph.listen(events.append)
    publisher = node.create_publisher(TEXT, "out")
    assert node.get_node_names() == ["/node"]
    assert node.count_publishers("/out") == 1
    assert not events
    gate.set()
    publisher.destroy()
    node.graph.wait_for(lambda graph: not graph.topics(), PATIENCE)
    assert [event.appeared for event in events if event.entity == publisher.entity] == [True, False]
    assert [event.entity.kind for event in events if event.appeared] == [
        ros2.EntityKind.NODE,
        ros2.EntityKind.PUBLISHER,
    ]


def test_late_subscriptions_get_messages_of_transient_local_publishers(made):
    talker, listener = quiet(made, "talker"), quiet(made, "listener")
    publisher = talker.create_publisher(
        TEXT, "/map", QoSProfile(2, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    )
    early = listener.create_subscription(TEXT, "/map")
    publisher.wait_for_subscription(PATIENCE)
    for data in ("a", "b", "c"):
        publisher.publish(text(talker, data))
    # Otherwise they may come to a late subscription as new ones.
    assert [early.recv(PATIENCE).data for _ in range(3)] == ["a", "b", "c"]
    late = listener.create_subscription(TEXT, "/map", qos_profile=ros2.qos_profile_latched)
    assert late.recv(PATIENCE).data == "c"
    both = listener.create_subscription(
        TEXT, "/map", None, QoSProfile(10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    )
    assert [both.recv(PATIENCE).data for _ in range(2)] == ["b", "c"]
    publisher.publish(text(talker, "d"))
    assert both.recv(PATIENCE).data == "d"
    # A publisher that appears later has its history, too.
    with Node("second", context=talker.context, start_parameter_services=False) as second:
        other = second.create_publisher(TEXT, "/map", ros2.qos_profile_latched)
        other.publish(text(talker, "e"))
        assert both.recv(PATIENCE).data == "e"


def test_services_answer_and_report_errors(made):
    server, caller = quiet(made, "server"), quiet(made, "caller")

    def add(request, response):
        if request.a < 0:
            raise ValueError("negative")
        response.sum = request.a + request.b
        return response

    client = caller.create_client(ADD, "/add")
    assert not client.wait_for_service(0.01)
    request = client.type.request.cls
    with pytest.raises(TimedOut, match="no service answered"):
        client.call(request(a=1), timeout=0.3)
    server.create_service(ADD, "/add", add)
    server.create_service(ADD, "/wrong", lambda request: text(server, "x"))
    assert client.wait_for_service(PATIENCE)
    assert client.call(request(a=1, b=2), PATIENCE).sum == 3
    futures = [client.call_async(request(a=n, b=n), PATIENCE) for n in range(50)]
    assert [future.result(PATIENCE).sum for future in futures] == [2 * n for n in range(50)]
    with pytest.raises(RemoteError, match="ValueError: negative"):
        client.call(request(a=-1), PATIENCE)
    wrong = caller.create_client(ADD, "/wrong")
    assert wrong.wait_for_service(PATIENCE)
    with pytest.raises(QueryError):
        wrong.call(request(), PATIENCE)
    with pytest.raises(PayloadError):
        client.call(request(a="x"), PATIENCE)


def test_a_cancelled_call_ends(made):
    server, caller = quiet(made, "server"), quiet(made, "caller")
    held = []

    def hold(request):
        from concurrent.futures import Future

        held.append(Future())
        return held[-1]

    service = server.create_service(ADD, "/add", hold)
    client = caller.create_client(ADD, "/add")
    assert client.wait_for_service(PATIENCE)
    future = client.call_async(client.type.request.cls())
    eventually(lambda: held)
    assert future.cancel()
    later = client.call_async(client.type.request.cls())
    eventually(lambda: len(held) == 2)
    for each in held:
        each.set_result(service.type.response.cls(sum=7))
    assert later.result(PATIENCE).sum == 7
    assert client.dropped() == {}


def fibonacci(server, gate):
    def run(goal):
        sequence = [0, 1]
        for _ in range(goal.request.order):
            sequence.append(sequence[-1] + sequence[-2])
            goal.publish_feedback(server().type.feedback.cls(sequence=sequence))
        if goal.request.order > 10:
            while not goal.is_cancel_requested:
                # A goal goes on when its server is destroyed: this one would for ever, with its thread.
                if goal.result.cancelled():
                    return None
                assert gate.wait(PATIENCE)
                time.sleep(0.001)
            goal.canceled()
        elif goal.request.order == 7:
            raise ValueError("seven")
        elif goal.request.order != 9:
            goal.succeed()
        return server().type.result.cls(sequence=sequence)

    return run


def test_actions_have_feedback_results_and_cancelling(made):
    serving, asking = quiet(made, "serving"), quiet(made, "asking")
    gate, servers = threading.Event(), []
    gate.set()
    servers.append(
        serving.create_action_server(
            FIBONACCI,
            "fib",
            fibonacci(lambda: servers[0], gate),
            goal_callback=lambda goal: goal.order >= 0,
            cancel_callback=lambda goal: goal.request.order > 11,
        )
    )
    client = asking.create_action_client(FIBONACCI, "/fib")
    assert client.wait_for_server(PATIENCE)
    assert asking.graph.actions() == {"/fib": [FIBONACCI]}
    goal, feedback = client.type.goal.cls, []
    response = client.send_goal(goal(order=3), feedback.append, PATIENCE)
    assert (response.status, response.result.sequence.tolist()) == (4, [0, 1, 1, 2, 3])
    eventually(lambda: len(feedback) == 3)
    # One that raises, and one that sets no state.
    assert client.send_goal(goal(order=7), None, PATIENCE).status == 6
    assert client.send_goal(goal(order=9), None, PATIENCE).status == 6
    with pytest.raises(UsageError, match="rejected"):
        client.send_goal(goal(order=-1), None, PATIENCE)

    handle = client.send_goal_async(goal(order=12), timeout=PATIENCE).result(PATIENCE)
    eventually(lambda: handle.status is ros2.GoalStatus.EXECUTING)
    result = handle.get_result_async(PATIENCE)
    assert handle.cancel_goal(PATIENCE).return_code == 0
    assert result.result(PATIENCE).status == 5
    eventually(lambda: handle.status is ros2.GoalStatus.CANCELED)
    assert handle.cancel_goal(PATIENCE).return_code == 3
    stubborn = client.send_goal_async(goal(order=11), timeout=PATIENCE).result(PATIENCE)
    assert stubborn.cancel_goal(PATIENCE).return_code == 1
    stubborn.goal_id = bytes(15) + b"x"
    assert stubborn.cancel_goal(PATIENCE).return_code == 2
    assert stubborn.get_result(PATIENCE).status == 0


def test_parameters_are_read_set_and_announced(made):
    own, other = made("own", parameter_overrides={"speed": 2.5}), made("other")
    events = other.create_subscription("rcl_interfaces/msg/ParameterEvent", "/parameter_events")
    eventually(lambda: events.get_publisher_count() == 2)
    result = own.store.message("rcl_interfaces/msg/SetParametersResult").cls
    own.add_on_set_parameters_callback(
        lambda parameters: result(successful=all(p.value != 13.0 for p in parameters), reason="unlucky")
    )
    assert own.declare_parameter("speed", 1.0).value == 2.5
    own.declare_parameter("wheel.names", ["a", "b"])
    own.declare_parameter("wheel.left.gains", [1.0, 2.0])
    description = own.store.message("rcl_interfaces/msg/ParameterDescriptor").cls(read_only=True)
    own.declare_parameter("serial", b"\x01\x02", description)
    remote = ros2.ParameterClient(other, "/own")
    assert remote.list_parameters() == ["serial", "speed", "use_sim_time", "wheel.left.gains", "wheel.names"]
    assert remote.list_parameters("wheel") == ["wheel.left.gains", "wheel.names"]
    assert [
        p.value for p in remote.get_parameters("speed", "wheel.names", "serial", "wheel.left.gains", "no")
    ] == [
        2.5,
        ["a", "b"],
        b"\x01\x02",
        [1.0, 2.0],
        None,
    ]
    refused = remote.set_parameters(
        Parameter("speed", 3.5),
        Parameter("speed", 13.0),
        Parameter("speed", "fast"),
        Parameter("serial", b"\x03"),
        Parameter("no", 1),
    )
    reasons = [
        "",
        "unlucky",
        "parameter speed is of type double, not string",
        "parameter serial is read only",
    ]
    assert [r.reason for r in refused] == [*reasons, "parameter no is not declared"]
    assert own.get_parameter("speed").value == 3.5
    event = events.recv(PATIENCE)
    while not event.changed_parameters:
        event = events.recv(PATIENCE)
    assert (event.node, event.changed_parameters[0].name) == ("/own", "speed")
    both = own.set_parameters_atomically([Parameter("speed", 1.0), Parameter("no", 1)])
    assert (both.successful, own.get_parameter("speed").value) == (False, 3.5)
    kinds = other.create_client("rcl_interfaces/srv/GetParameterTypes", "/own/get_parameter_types")
    assert kinds.call(kinds.type.request.cls(names=["speed", "serial", "no"]), PATIENCE).types.tolist() == [
        3,
        5,
        0,
    ]
    own.undeclare_parameter("speed")
    assert not own.has_parameter("speed")
    with pytest.raises(LookupError, match="speed"):
        own.get_parameter("speed")
    with pytest.raises(UsageError, match="already"):
        own.declare_parameter("serial", 1)


def test_goals_end_once_and_make_room(made, monkeypatch):
    node, gate = quiet(made, "node"), threading.Event()
    monkeypatch.setattr(_actions, "MOST_GOALS", 2)

    def wait(goal):
        assert gate.wait(PATIENCE)

    def finish(goal):
        goal.succeed()
        return True

    node.create_action_server(FIBONACCI, "fib", wait, cancel_callback=finish)
    client = node.create_action_client(FIBONACCI, "fib")
    assert client.wait_for_server(PATIENCE)
    goal = client.type.goal.cls

    def send():
        return client.send_goal_async(goal(), timeout=PATIENCE).result(PATIENCE)

    first = send()
    # It ends while the callback looks at it.
    assert first.cancel_goal(PATIENCE).return_code == 3
    second = send()
    assert not send().accepted
    gate.set()
    assert [each.get_result(PATIENCE).status for each in (first, second)] == [4, 6]
    assert send().accepted
    assert first.get_result(PATIENCE).status == 0
    with pytest.raises(PayloadError):
        client.send_goal_async(goal(order="x"), print)
    assert client._feedbacks == {}


def test_ended_parts_of_a_node_are_forgotten(made):
    own, other = made("own"), quiet(made, "other")
    remote = ros2.ParameterClient(other, "/own")
    for _ in range(2):
        assert remote.list_parameters() == ["use_sim_time"]
    other.create_action_client(FIBONACCI, "/fib").destroy()
    other.create_action_server(FIBONACCI, "/fib", print).destroy()
    assert other._owner.endpoints == {}
    other.create_timer(60.0, print).cancel()
    last = other.create_timer(60.0, print)
    assert other._timers == [last]
    other.destroy_node()
    with pytest.raises(UsageError, match="node /other is destroyed"):
        other.create_timer(60.0, print)
    client = own.create_client("rcl_interfaces/srv/GetParameters", "/own/get_parameters")
    with pytest.raises(RemoteError, match="10000 are read"):
        client.call(client.type.request.cls(names=[""] * 10_001), PATIENCE)


def test_waits_for_simulated_time_end_with_the_node(made):
    node = quiet(made, "node", parameter_overrides={"use_sim_time": True})
    sleeper = threading.Thread(target=node.get_clock().sleep_for, args=(1.0,), daemon=True)
    sleeper.start()
    node.destroy_node()
    sleeper.join(PATIENCE)
    assert not sleeper.is_alive()


def test_errors_of_callbacks_for_events_cost_no_others(made, caplog):
    talker, listener = quiet(made, "talker"), quiet(made, "listener")
    told = []

    def fail(event):
        raise ValueError("event")

    first = listener.create_subscription(TEXT, "chatter", on_event=fail)
    stop = listener.graph.listen(fail)
    listener.graph.listen(told.append)
    publisher = talker.create_publisher(TEXT, "chatter")
    eventually(lambda: any(event.entity == publisher.entity for event in told))
    stop()
    assert first.matched == 1
    assert "the callback for events raised at matched" in caplog.text
    assert "a listener raised" in caplog.text


@pytest.mark.parametrize("value", [1 << 63, [1, "a"], {}, object()])
def test_other_values_are_no_parameters(value):
    with pytest.raises(InvalidValue, match="parameter p"):
        Parameter("p", value)


def test_simulated_time_moves_clock_and_timers(made):
    node, simulator = made("node", parameter_overrides={"use_sim_time": True}), quiet(made, "simulator")
    ticks = []
    timer = node.create_timer(0.5, lambda: ticks.append(node.get_clock().now().nanoseconds))
    publisher = simulator.create_publisher("rosgraph_msgs/msg/Clock", "/clock")
    publisher.wait_for_subscription(PATIENCE)
    assert node.get_clock().now().nanoseconds == 0

    def at(seconds, nanoseconds=0):
        message = publisher.type.cls()
        message.clock.sec, message.clock.nanosec = seconds, nanoseconds
        publisher.publish(message)
        eventually(lambda: node.get_clock().now().seconds_nanoseconds() == (seconds, nanoseconds))

    at(0, 400_000_000)
    assert ticks == []
    at(0, 600_000_000)
    eventually(lambda: ticks == [600_000_000])
    # The simulation begins anew.
    at(0, 0)
    at(0, 700_000_000)
    eventually(lambda: ticks == [600_000_000, 700_000_000])
    timer.cancel()
    assert timer.is_canceled()
    node.set_parameters([Parameter("use_sim_time", False)])
    assert node.get_clock().now().nanoseconds > 10**18


def test_timers_go_on_after_an_error(made, caplog):
    node = quiet(made, "node")
    called = []

    def tick():
        called.append(None)
        raise ValueError("tick")

    timer = node.create_timer(0.001, tick)
    eventually(lambda: len(called) > 2)
    timer.cancel()
    assert "it is called again" in caplog.text
    with pytest.raises(InvalidValue, match="period"):
        node.create_timer(0.0, tick)


def test_callbacks_of_a_node_do_not_overlap(made):
    node, talker = quiet(made, "node"), quiet(made, "talker")
    inside, most, calls = 0, 0, 0

    def callback(_):
        nonlocal inside, most, calls
        inside += 1
        most = max(most, inside)
        time.sleep(0.001)
        inside -= 1
        calls += 1

    for name in ("a", "b", "c"):
        node.create_subscription(TEXT, name, callback)
    publishers = [talker.create_publisher(TEXT, name) for name in ("a", "b", "c")]
    for publisher in publishers:
        publisher.wait_for_subscription(PATIENCE)
    for number in range(5):
        for publisher in publishers:
            publisher.publish(text(talker, str(number)))
    eventually(lambda: calls == 15)
    assert most == 1


def events_of(kind, seen):
    return [event for event in seen if event.kind == kind]


def test_incompatible_qos_is_told_with_its_reason(made, caplog):
    talker, listener = quiet(made, "talker"), quiet(made, "listener")
    told, offered = [], []
    best = QoSProfile(reliability=ReliabilityPolicy.BEST_EFFORT)
    talker.create_publisher(TEXT, "chatter", best, on_event=offered.append)
    wanted = QoSProfile(durability=DurabilityPolicy.TRANSIENT_LOCAL)
    listener.create_subscription(TEXT, "chatter", None, wanted, on_event=told.append)
    eventually(lambda: len(events_of("incompatible_qos", told)) == 2)
    eventually(lambda: len(events_of("incompatible_qos", offered)) == 2)
    assert events_of("matched", told)[0].entity.node_name == "/talker"
    assert "the publisher is best effort" in events_of("incompatible_qos", told)[0].reason
    assert "the publisher is volatile" in caplog.text
    talker.destroy_node()
    eventually(lambda: events_of("unmatched", told))


OTHER = "RIHS01_" + 64 * "0"


def declared(session, made, kind, name, type_, hash_, qos="::,10:,:,:,,"):
    token = f"@ros2_lv/{made.domain}/{session.zid()}/0/7/{kind}/%/%/stranger/%{name}/{type_}/{hash_}/{qos}"
    return token, session.liveliness().declare_token(token)


def test_another_type_or_hash_is_told(made, session, caplog):
    listener = quiet(made, "listener")
    told = []
    subscription = listener.create_subscription(TEXT, "chatter", on_event=told.append)
    client = listener.create_client(ADD, "add", on_event=told.append)
    tokens = []
    for kind, name, type_, hash_ in (
        ("MP", "chatter", "std_msgs::msg::dds_::String_", OTHER),
        ("MP", "chatter", "std_msgs::msg::dds_::Int32_", OTHER),
        ("SS", "add", "example_interfaces::srv::dds_::AddTwoInts_", "TypeHashNotSupported"),
    ):
        tokens.append(declared(session, made, kind, name, type_, hash_))
    eventually(lambda: len(told) == 3)
    assert {event.kind for event in told} == {"incompatible_type"}
    assert f"/stranger knows {TEXT} as {OTHER}" in caplog.text
    assert "/stranger uses the type std_msgs/msg/Int32 here" in caplog.text
    assert subscription.get_publisher_count() == 0
    assert not client.service_is_ready()
    assert not client.wait_for_service(0.01)


def test_hostile_tokens_are_counted_and_logged_once(made, session, caplog):
    node = quiet(made, "node")
    tokens = []
    # Others may come in any order, if the node asks for them after they are there.
    for count, text in enumerate([*(f"zz/{number}/0/NN/%/%/x" for number in range(5)), "x"], 1):
        tokens.append(session.liveliness().declare_token(f"@ros2_lv/{made.domain}/{text}"))
        eventually(lambda count=count: node.graph.refused() == {"malformed token": count})
    assert node.graph.nodes() == ["/node"]
    records = [r for r in caplog.records if "dropped" in r.getMessage()]
    assert len(records) == 1
    assert "is no id of a session" in records[0].getMessage()
    for token in tokens:
        token.undeclare()


def test_hostile_messages_are_counted_and_logged_once(made, session, caplog):
    listener = quiet(made, "listener")
    subscription = listener.create_subscription(TEXT, "chatter")
    subscription.wait_ready(PATIENCE)
    good = subscription.type.encode(text(listener, "good"))
    attachment = Attachment(1, time.time_ns(), bytes(16)).pack()
    for payload, octets in (
        (good, None),
        (good, b""),
        (good, attachment[:32]),
        (good, bytes(33)),
        (b"", attachment),
        (good[:6], attachment),
        (good[:-3], attachment),
        # A length that lies.
        (good[:4] + b"\xff\xff\xff\x7f" + good[8:], attachment),
        (good[:4] + b"\x05\0\0\0\xff\xfe\xfd\xfc\0", attachment),
        (good, attachment),
    ):
        session.put(subscription.key, payload, attachment=octets)
    assert subscription.recv(PATIENCE).data == "good"
    assert subscription.dropped() == {"attachment": 4, "payload": 5}
    records = [r for r in caplog.records if r.name == "zwire.ros2" and "dropped" in r.getMessage()]
    assert len(records) == 2


def test_hostile_requests_and_replies_are_refused(made, session):
    server, caller = quiet(made, "server"), quiet(made, "caller")
    service = server.create_service(ADD, "/add", lambda request, response: response)
    client = caller.create_client(ADD, "/add")
    assert client.wait_for_service(PATIENCE)
    attachment = Attachment(1, 2, bytes(16)).pack()
    good = service.type.request.encode(service.type.request.cls())
    for payload, octets in ((good, None), (good[:7], attachment), (None, attachment), (good, bytes(5))):
        (reply,) = session.get(service.key, payload=payload, attachment=octets, timeout=PATIENCE)
        assert reply.err is not None
    assert service.dropped() == {"request": 4}
    service.destroy()
    # A call that leaves before its session knows of the next queryable finds no service.
    eventually(lambda: not client._querier.matching_status.matching)

    answer = service.type.response.encode(service.type.response.cls(sum=5))
    answers = [(answer, attachment), (answer, None), (answer[:6], "own"), (answer, "own")]

    def lie(query):
        payload, octets = answers.pop(0)
        own = Attachment.pack(Attachment(*_parts(query)))
        query.reply(service.key, payload, attachment=own if octets == "own" else octets)

    with session.declare_queryable(service.key, lie, complete=True) as queryable:
        queryable.wait_ready(PATIENCE)
        client._querier.wait_matching(timeout=PATIENCE)
        for _ in range(3):
            with pytest.raises((QueryError, PayloadError, ValueError)):
                client.call(client.type.request.cls(), PATIENCE)
        assert client.call(client.type.request.cls(), PATIENCE).sum == 5
    assert client.dropped() == {"response": 3}


def _parts(query):
    from zwire.ros2._keys import read_attachment

    return read_attachment(bytes(query.attachment))


def test_lost_messages_and_clocks_apart_are_told(made, session, caplog):
    listener = quiet(made, "listener")
    told = []
    subscription = listener.create_subscription(TEXT, "chatter", on_event=told.append)
    subscription.wait_ready(PATIENCE)
    good = subscription.type.encode(text(listener, "x"))
    now, hour = time.time_ns(), 3600 * 10**9
    for number, when, source in (
        (1, now, b"a" * 16),
        (5, now, b"a" * 16),
        (4, now, b"a" * 16),
        (1, now + hour, b"b" * 16),
        (2, now + hour, b"b" * 16),
        (1, now - hour, b"c" * 16),
    ):
        session.put(subscription.key, good, attachment=Attachment(number, when, source).pack())
    infos = [subscription.recv_with_info(PATIENCE)[1] for _ in range(6)]
    assert infos[3].source_timestamp == now + hour
    assert subscription.lost == 3
    assert [event.kind for event in told] == ["message_lost", "clocks_apart", "clocks_apart"]
    assert "s ahead of this one" in told[1].reason
    assert "s behind this one" in told[2].reason
    assert subscription.dropped() == {}


def test_unknown_types_and_names_are_refused(made):
    node = quiet(made, "node")
    for call in (
        lambda: node.create_publisher("my_msgs/msg/Unknown", "a"),
        lambda: node.create_subscription("my_msgs/msg/Unknown", "a"),
        lambda: node.create_client("my_msgs/srv/Unknown", "a"),
        lambda: node.create_action_client("my_msgs/action/Unknown", "a"),
    ):
        with pytest.raises(ValueError, match="my_msgs/"):
            call()
    with pytest.raises(InvalidValue, match="name"):
        node.create_publisher(TEXT, "a b")
    with pytest.raises(InvalidValue, match="node name"):
        quiet(made, "a/b")
    assert node.graph.topics() == {}


def test_the_environment_configures_the_session(monkeypatch, tmp_path):
    for name in ("ZENOH_CONFIG", "ZWIRE_CONFIG", "ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    config = ros2.session_config()
    assert config.get_json("connect/endpoints") == '["tcp/localhost:7447"]'
    assert config.get_json("queries_default_timeout") == "600000"
    monkeypatch.setenv("ZENOH_CONFIG_OVERRIDE", """mode="client";connect/endpoints=["tcp/a;b:1"];""")
    config = ros2.session_config()
    assert (config.get_json("mode"), config.get_json("connect/endpoints")) == ('"client"', '["tcp/a;b:1"]')
    assert config.get_json("scouting/multicast/enabled") == "false"
    monkeypatch.setenv("ZENOH_CONFIG_OVERRIDE", "mode")
    with pytest.raises(ConfigError, match="ZENOH_CONFIG_OVERRIDE: mode: expected KEY=VALUE"):
        ros2.session_config()
    (tmp_path / "session.json5").write_text('{mode: "peer", queries_default_timeout: 7}')
    monkeypatch.setenv("ZENOH_SESSION_CONFIG_URI", str(tmp_path / "session.json5"))
    monkeypatch.setenv("ZENOH_CONFIG_OVERRIDE", "mode='client'")
    config = ros2.session_config()
    assert (config.get_json("mode"), config.get_json("queries_default_timeout")) == ('"client"', "7")


def test_the_domain_is_that_of_the_environment(hub, monkeypatch):
    config = nodes.settings("client", connect=hub.listening())
    monkeypatch.setenv("ROS_DOMAIN_ID", "201")
    with Node("a", config=config, start_parameter_services=False) as node:
        assert node.create_publisher(TEXT, "a").key.startswith("201/a/")
    for wrong in ("233", "x", "-1"):
        monkeypatch.setenv("ROS_DOMAIN_ID", wrong)
        with pytest.raises(ConfigError, match="ROS_DOMAIN_ID"):
            Node("a", config=config)


def test_a_missing_router_is_told(caplog, monkeypatch):
    config = nodes.settings("peer", listen=nodes.LOCAL)
    with Node("a", config=config, start_parameter_services=False):
        assert "no router is connected" in caplog.text
    caplog.clear()
    monkeypatch.setenv("ZENOH_ROUTER_CHECK_ATTEMPTS", "-1")
    with Node("a", config=config, start_parameter_services=False):
        assert "no router" not in caplog.text


def test_nodes_of_event_loops(hub):
    config = nodes.settings("client", connect=hub.listening(), timestamping__enabled=True)
    settings = {"config": config, "domain_id": 202, "start_parameter_services": False}

    async def main():
        async with aio_ros2.Node("a", **settings) as a, aio_ros2.Node("b", **settings) as b:
            subscription = b.create_subscription(TEXT, "chatter", 2)
            publisher = a.create_publisher(TEXT, "chatter")
            await asyncio.to_thread(publisher.wait_for_subscription, PATIENCE)
            publisher.publish(text(a.node, "x"))
            assert (await subscription.recv()).data == "x"

            async def add(request):
                await asyncio.sleep(0)
                return service.type.response.cls(sum=request.a + request.b)

            service = a.create_service(ADD, "add", add)
            client = b.create_client(ADD, "add")
            assert await client.wait_for_service(PATIENCE)
            assert (await client.call(client.inner.type.request.cls(a=1, b=2), PATIENCE)).sum == 3

            async def run(goal):
                await asyncio.sleep(0)
                goal.publish_feedback(server.type.feedback.cls(sequence=[1]))
                goal.succeed()
                return server.type.result.cls(sequence=[1, 2])

            server = a.create_action_server(FIBONACCI, "fib", run)
            actions = b.create_action_client(FIBONACCI, "fib")
            assert await actions.wait_for_server(PATIENCE)
            feedback = []
            handle = await actions.send_goal(actions.inner.type.goal.cls(), feedback.append, PATIENCE)
            assert (await actions.get_result(handle, PATIENCE)).status == 4
            publisher.publish(text(a.node, "y"))
            got = []
            async for message in subscription:
                got.append(message.data)
                break
            assert got == ["y"]
            return subscription

    subscription = asyncio.run(main())
    assert subscription._closed


def test_gids_differ_between_endpoints(made):
    node = quiet(made, "node")
    first, second = node.create_publisher(TEXT, "a"), node.create_publisher(TEXT, "a")
    assert first.gid != second.gid
    assert first.gid == gid(first.entity.token())
    assert isinstance(node.context.session, zenoh.Session)


def test_the_log_goes_to_rosout(made, monkeypatch, capsys):
    node, console = quiet(made, "node", namespace="/robot1"), quiet(made, "console")
    logger = node.get_logger()
    assert logger is node.get_logger()
    logger.warning("%d wheels", 3)
    logger.log(logging.CRITICAL + 5, "off")
    # Records from before it came are kept for it.
    late = console.create_subscription("rcl_interfaces/msg/Log", "/rosout", None, PROFILE)
    first, second = late.recv(PATIENCE), late.recv(PATIENCE)
    assert (first.level, first.name, first.msg) == (30, "robot1.node", "3 wheels")
    assert first.function == "test_the_log_goes_to_rosout"
    assert (second.level, second.msg) == (50, "off")
    # A record that cannot be published is told as others of logging, and does not end the program.
    monkeypatch.setattr(logger, "propagate", False)
    logger.warning("%d wheels", "three")
    assert "TypeError" in capsys.readouterr().err
    node.destroy_node()
    assert logger.handlers == []
