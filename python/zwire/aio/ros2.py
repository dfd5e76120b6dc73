"""Nodes of ROS 2 for asyncio; names and parameters are those of :mod:`zwire.ros2`.

Callbacks run in the event loop and may be coroutine functions. Graph, parameters and clock are those of the
node inside: :attr:`Node.node`.
"""

from __future__ import annotations

import asyncio
import collections
import functools
import inspect
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from zwire import ros2
from zwire.aio import _threads
from zwire.errors import SessionClosed
from zwire.ros2._pubsub import KEPT_ALL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from concurrent.futures import Future

    from zwire.ros2 import ActionType, ClientGoalHandle, MessageInfo, MessageType, QoSProfile, ServiceType

__all__ = ["ActionClient", "Client", "Node", "Subscription"]

_T = TypeVar("_T")


class Subscription(Generic[_T]):
    """A subscription: an asynchronous iterator over messages."""

    def __init__(self, depth: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: collections.deque[tuple[_T, MessageInfo]] = collections.deque(maxlen=depth)
        self._some = asyncio.Event()
        self._closed = False
        self.inner: ros2.Subscription
        """The subscription, for its counters."""

    def put(self, message: _T, info: MessageInfo) -> None:
        """Take a message, on any thread; the oldest one makes room."""
        self._queue.append((message, info))
        if not self._some.is_set() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._some.set)

    async def recv(self) -> _T:
        """Wait for the next message.

        Raises:
            SessionClosed: The node is destroyed.
        """
        return (await self.recv_with_info())[0]

    async def recv_with_info(self) -> tuple[_T, MessageInfo]:
        """Wait for the next message, and return it with its origin."""
        while not self._queue:
            if self._closed:
                raise SessionClosed("the node is destroyed")
            self._some.clear()
            # A message may have come between the two lines above.
            if not self._queue:
                await self._some.wait()
        return self._queue.popleft()

    async def __aiter__(self) -> AsyncIterator[_T]:
        while True:
            try:
                message = await self.recv()
            except SessionClosed:
                return
            yield message

    def close(self) -> None:
        """End the iterator, in the event loop."""
        self._closed = True
        self._some.set()


class Client:
    """A client of a service."""

    def __init__(self, inner: ros2.Client) -> None:
        self.inner = inner
        """The client, for its type and counters."""

    async def wait_for_service(self, timeout: float | None = None) -> bool:
        """Wait for a service of this name, type and hash; return whether one is there."""
        return await _threads.wait(self.inner.wait_for_service, timeout)

    async def call(self, request: Any, timeout: float | None = None) -> Any:  # noqa: ANN401 - messages
        """Call the service and wait for its response; errors are those of :meth:`zwire.ros2.Client.call`."""
        return await asyncio.wrap_future(self.inner.call_async(request, timeout))


class ActionClient:
    """A client of an action."""

    def __init__(self, inner: ros2.ActionClient) -> None:
        self.inner = inner
        """The client, for its type."""

    async def wait_for_server(self, timeout: float | None = None) -> bool:
        """Wait for a server of this name and type; return whether one is there."""
        return await _threads.wait(self.inner.wait_for_server, timeout)

    async def send_goal(
        self,
        goal: Any,  # noqa: ANN401 - a message of the type
        feedback_callback: Callable[[Any], object] | None = None,
        timeout: float | None = None,
    ) -> ClientGoalHandle:
        """Send a goal; return its handle, whose futures ``asyncio.wrap_future`` awaits."""
        feedback = None if feedback_callback is None else _in_loop(feedback_callback)
        return await asyncio.wrap_future(self.inner.send_goal_async(goal, feedback, timeout))

    async def get_result(self, handle: ClientGoalHandle, timeout: float | None = None) -> Any:  # noqa: ANN401
        """Wait for ``status`` and ``result`` of a goal."""
        return await asyncio.wrap_future(handle.get_result_async(timeout))


class Node:
    """A node of ROS 2 for an event loop: an asynchronous context manager.

    Args:
        name: Its name.
        settings: Those of :class:`zwire.ros2.Node`.

    ::

        alone = {"mode": "peer", "listen/endpoints": [], "scouting/multicast/enabled": False}
        async with aio.ros2.Node("echo", config=alone) as node:
            messages = node.create_subscription("std_msgs/msg/String", "/chatter")
            publisher = node.create_publisher("std_msgs/msg/String", "/chatter")
            publisher.publish(publisher.type.cls(data="hello"))
            print((await messages.recv()).data)  # hello
    """

    def __init__(self, name: str, **settings: Any) -> None:  # noqa: ANN401 - each is checked where it is used
        self._open = functools.partial(ros2.Node, name, **{"concurrent": True, **settings})
        self._subscriptions: list[Subscription[Any]] = []
        self.node: ros2.Node
        """The node, for graph, parameters, clock and publishers."""

    async def __aenter__(self) -> Self:
        self.node = await _threads.make(ros2.Node.destroy_node, self._open)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await _threads.wait(self.node.destroy_node)
        finally:
            for subscription in self._subscriptions:
                subscription.close()

    def create_publisher(
        self, msg_type: str | MessageType[Any] | type, topic: str, qos_profile: QoSProfile | int = 10
    ) -> ros2.Publisher:
        """Create a publisher; it does not wait, so it is that of :mod:`zwire.ros2`."""
        return self.node.create_publisher(msg_type, topic, qos_profile)

    def create_subscription(
        self,
        msg_type: str | MessageType[Any] | type,
        topic: str,
        qos_profile: QoSProfile | int = 10,
        *,
        raw: bool = False,
    ) -> Subscription[Any]:
        """Create a subscription: an asynchronous iterator over messages, or over their CDR if ``raw``."""
        qos = ros2.QoSProfile(depth=qos_profile) if isinstance(qos_profile, int) else qos_profile
        keeps_all = qos.history is ros2.HistoryPolicy.KEEP_ALL
        found: Subscription[Any] = Subscription(KEPT_ALL if keeps_all else qos.kept)
        found.inner = self.node.create_subscription(msg_type, topic, found.put, qos_profile, raw=raw)
        self._subscriptions.append(found)
        return found

    def create_client(self, srv_type: str | ServiceType, srv_name: str) -> Client:
        """Create a client of a service."""
        return Client(self.node.create_client(srv_type, srv_name))

    def create_service(
        self, srv_type: str | ServiceType, srv_name: str, callback: Callable[[Any], Any]
    ) -> ros2.Service:
        """Create a service; its callback gets the request and returns the response, in the event loop."""
        return self.node.create_service(srv_type, srv_name, _in_loop(callback))

    def create_action_client(self, action_type: str | ActionType, action_name: str) -> ActionClient:
        """Create a client of an action."""
        return ActionClient(self.node.create_action_client(action_type, action_name))

    def create_action_server(
        self,
        action_type: str | ActionType,
        action_name: str,
        execute_callback: Callable[[ros2.ServerGoalHandle], Any],
        **more: Any,  # noqa: ANN401 - those of zwire.ros2.ActionServer
    ) -> ros2.ActionServer:
        """Create the server of an action; goals run in the event loop."""
        run = _in_loop(execute_callback)
        return self.node.create_action_server(
            action_type, action_name, lambda goal: run(goal).result(), **more
        )


def _in_loop(callback: Callable[[Any], Any]) -> Callable[[Any], Future[Any]]:
    """Return a function that calls a callback in the running event loop, from another thread."""
    loop = asyncio.get_running_loop()

    async def called(argument: Any) -> Any:  # noqa: ANN401
        result = callback(argument)
        return await result if inspect.isawaitable(result) else result

    def call(argument: Any) -> Future[Any]:  # noqa: ANN401
        return asyncio.run_coroutine_threadsafe(called(argument), loop)

    return call
