"""Nodes of ROS 2."""

from concurrent.futures import Future
from typing import Any, assert_type

from zwire import ros2
from zwire.aio import ros2 as aio_ros2


def node() -> None:
    with ros2.Node("a", namespace="/b", domain_id=1) as it:
        assert_type(it, ros2.Node)
        publisher = it.create_publisher("std_msgs/msg/String", "c", 5)
        assert_type(publisher, ros2.Publisher)
        assert_type(publisher.gid, bytes)
        assert_type(publisher.dropped(), dict[str, int])
        subscription = it.create_subscription("std_msgs/msg/String", "c", None, ros2.QoSProfile(depth=3))
        assert_type(subscription.recv_with_info(1.0), tuple[Any, ros2.MessageInfo])
        client = it.create_client("std_srvs/srv/Trigger", "d")
        assert_type(client.call_async(client.type.request.cls()), Future[Any])
        assert_type(client.wait_for_service(1.0), bool)
        assert_type(it.get_clock().now(), ros2.Time)
        assert_type(it.graph.entities(ros2.EntityKind.NODE), list[ros2.Entity])
        assert_type(it.graph.topics(), dict[str, list[str]])
        assert_type(it.get_parameter("e"), ros2.Parameter)
        assert_type(it.create_timer(1.0, print), ros2.Timer)
        it.create_timer("1", print)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ros2.Node(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def goals(it: ros2.Node) -> None:
    def run(goal: ros2.ServerGoalHandle) -> object:
        assert_type(goal.is_cancel_requested, bool)
        goal.succeed()
        return None

    assert_type(it.create_action_server("a/action/B", "b", run), ros2.ActionServer)
    client = it.create_action_client("a/action/B", "b")
    assert_type(client.send_goal_async(None), Future[ros2.ClientGoalHandle])


def profiles() -> None:
    profile = ros2.QoSProfile(depth=1, durability=ros2.DurabilityPolicy.TRANSIENT_LOCAL, deadline=0.5)
    assert_type(ros2.incompatible(profile, ros2.qos_profile_sensor_data), list[str])


async def asynchronously() -> None:
    async with aio_ros2.Node("a") as it:
        subscription = it.create_subscription("std_msgs/msg/String", "c")
        async for message in subscription:
            assert_type(message, Any)
        assert_type(await it.create_client("std_srvs/srv/Trigger", "d").wait_for_service(), bool)
