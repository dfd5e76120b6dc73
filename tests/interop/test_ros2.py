"""`zwire.ros2` beside zenoh-ros2-sdk and pamoja-ros2, over eclipse-zenoh."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import nodes
from nodes import eventually
from zwire.ros2 import EntityKind, Node, QoSProfile, qos_profile_latched

pytest.importorskip("zenoh_ros2_sdk", reason="zenoh-ros2-sdk is not installed")

TEXT = "std_msgs/msg/String"
ADD = "example_interfaces/srv/AddTwoInts"
PATIENCE = 10.0


class Sdk:
    """The program of the other side."""

    def __init__(self, port):
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("ZENOH_", "ROS_"))
        }
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("ros2_peer.py"), str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __getattr__(self, what):
        def ask(*words):
            self._process.stdin.write(json.dumps([what, words]) + "\n")
            self._process.stdin.flush()
            kind, answer = json.loads(self._process.stdout.readline())
            assert kind == "ok", answer
            return answer

        return ask

    def end(self):
        # A session of eclipse-zenoh may take seconds to close.
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def hub():
    with nodes.router(timestamping__enabled=True) as session:
        yield session


@pytest.fixture(scope="module")
def sdk(hub):
    other = Sdk(hub.listening()[0].rpartition(":")[2])
    yield other
    other.end()


@pytest.fixture
def node(hub, request):
    domain = TESTS.index(request.node.originalname)
    config = nodes.settings("client", connect=hub.listening(), timestamping__enabled=True)
    with Node("ours", namespace="/robot1", config=config, domain_id=domain) as made:
        yield made


# The number of a test is that of its domain; pamoja-ros2 has the first.
TESTS = [
    "test_keys_and_payloads_of_pamoja_pass_both_ways",
    "test_topics_pass_both_ways",
    "test_services_answer_both_ways",
    "test_graphs_show_each_other",
    "test_transient_local_passes_both_ways",
]


def test_topics_pass_both_ways(sdk, node):
    domain = node.context.domain
    publisher = node.create_publisher(TEXT, "/to_them")
    subscription = node.create_subscription(TEXT, "/to_us")
    sdk.subscribe("/to_them", domain)
    sdk.advertise("/to_us", domain)
    publisher.wait_for_subscription(PATIENCE)
    node.graph.wait_for(lambda graph: node.count_publishers("/to_us") == 1, PATIENCE)
    assert (publisher.matched, subscription.matched) == (1, 1)
    texts = ["hello", "", "ü" * 1000]
    for data in texts:
        publisher.publish(publisher.type.cls(data=data))
        sdk.publish("/to_us", data)
    assert sdk.received(3) == texts
    received = [subscription.recv_with_info(PATIENCE) for _ in range(3)]
    assert [message.data for message, _ in received] == texts
    # The SDK counts from 0, rmw_zenoh from 1.
    assert [info.publication_sequence_number for _, info in received] == [0, 1, 2]
    assert subscription.dropped() == {}


def test_transient_local_passes_both_ways(sdk, node):
    domain = node.context.domain
    publisher = node.create_publisher(TEXT, "/map", qos_profile_latched)
    publisher.publish(publisher.type.cls(data="ours"))
    before = len(sdk.received(0))
    sdk.late("/map", domain)
    assert sdk.received(before + 1)[-1] == "ours"
    early = node.create_subscription(TEXT, "/plan", None, qos_profile_latched)
    sdk.latch("/plan", domain, "theirs")
    late = node.create_subscription(TEXT, "/plan", None, qos_profile_latched)
    assert [each.recv(PATIENCE).data for each in (early, late)] == ["theirs", "theirs"]


def test_services_answer_both_ways(sdk, node):
    domain = node.context.domain
    service = node.create_service(
        ADD, "/ours", lambda request, response: type(response)(sum=request.a + request.b)
    )
    assert sdk.call("/ours", domain, 1, 2) == 3
    assert service.dropped() == {}
    assert sdk.serve("/theirs", domain) == service.type.hash
    client = node.create_client(ADD, "/theirs")
    assert client.wait_for_service(PATIENCE)
    assert client.call(client.type.request.cls(a=-5, b=2), PATIENCE).sum == -3
    assert client.dropped() == {}


def test_graphs_show_each_other(sdk, node):
    domain = node.context.domain
    node.create_publisher(TEXT, "camera/status", QoSProfile(depth=7))
    node.create_service(ADD, "add", lambda request: None)
    sdk.advertise("/theirs", domain, "2:1:,5:,:,:,,")
    node.graph.wait_for(lambda graph: "/theirs" in graph.topics(), PATIENCE)
    (theirs,) = node.graph.endpoints("/theirs", EntityKind.PUBLISHER)
    assert (theirs.node_name, theirs.type) == ("/sdk_talker", TEXT)
    assert theirs.qos.text() == "2:1:,5:,:,:,,"
    assert "/sdk_talker" in node.graph.nodes()
    eventually(lambda: sdk.topics(domain).get("/robot1/camera/status") == [TEXT])
    assert sdk.services(domain)["/robot1/add"] == [ADD]
    info = sdk.info("/robot1/camera/status", domain)
    assert "ours" in info
    assert "::,7:,:,:,," in info


def test_keys_and_payloads_of_pamoja_pass_both_ways(sdk, node):
    pytest.importorskip("pamoja.ros2", reason="pamoja-ros2 is not installed")
    publisher = node.create_publisher("geometry_msgs/msg/Twist", "/to_them")
    subscription = node.create_subscription("geometry_msgs/msg/Twist", "/cmd_vel")
    subscription.wait_ready(PATIENCE)
    assert sdk.pamoja("/cmd_vel", (1, 2, 3), (4, 5, -6), subscription.type.hash) == subscription.key
    twist = subscription.recv(PATIENCE)
    assert (twist.linear.x, twist.linear.z, twist.angular.z) == (1.0, 3.0, -6.0)
    before = len(sdk.received(0))
    sdk.twist("/to_them", subscription.type.hash)
    publisher.wait_for_subscription(PATIENCE)
    publisher.publish(twist)
    assert sdk.received(before + 1)[-1] == [[1.0, 2.0, 3.0], [4.0, 5.0, -6.0]]
