"""Actions: goals with feedback and a result, out of three services and two topics (`zenoh-services` 6.5)."""

from __future__ import annotations

import collections
import contextlib
import enum
import itertools
import os
import threading
import time
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any, Final

from zwire.errors import UsageError
from zwire.ros2._qos import qos_profile_latched
from zwire.ros2._refused import LOG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zwire.ros2._calls import Client
    from zwire.ros2._node import Node
    from zwire.ros2._store import ActionType

MOST_GOALS: Final = 1000
"""Goals of a server, with those whose results are kept; each that runs has a thread. A further one takes
the place of the first that has ended, and is rejected if none has."""

MOST_WAITING: Final = 1000
"""Requests for the result of one goal that wait for its end."""

LATE_FEEDBACK: Final = 16
"""Goals with a result whose feedback still goes to its callback: it may be behind on another thread."""

RESULT_TIMEOUT: Final = 900.0
"""Seconds that the result of a goal is kept."""

_CANCEL: Final = "action_msgs/srv/CancelGoal"
_STATUS: Final = "action_msgs/msg/GoalStatusArray"


class GoalStatus(enum.IntEnum):
    """States of goals; numbers are those of ``action_msgs/msg/GoalStatus``."""

    UNKNOWN = 0
    ACCEPTED = 1
    EXECUTING = 2
    CANCELING = 3
    SUCCEEDED = 4
    CANCELED = 5
    ABORTED = 6


_ENDED = frozenset({GoalStatus.SUCCEEDED, GoalStatus.CANCELED, GoalStatus.ABORTED})


class CancelCode(enum.IntEnum):
    """Answers to a request to cancel; numbers are those of ``action_msgs/srv/CancelGoal``."""

    NONE = 0
    REJECTED = 1
    UNKNOWN_GOAL = 2
    GOAL_TERMINATED = 3


class ServerGoalHandle:
    """A goal at its server."""

    def __init__(self, server: ActionServer, goal_id: bytes, request: Any, stamp: int) -> None:  # noqa: ANN401
        self.goal_id: Final = goal_id
        """Id of the goal, 16 octets."""
        self.request: Final = request
        """The goal, as the client sent it."""
        self.stamp: Final = stamp
        """Nanoseconds at which it was accepted."""
        self.result: Final[Future[Any]] = Future()
        self.waiting: int = 0
        """Number of requests that came for the result before the end."""
        self.ended_at: float = 0.0
        """Time at which it ended, by the monotonic clock; 0 before."""
        self._server = server
        self._status = GoalStatus.ACCEPTED

    def __repr__(self) -> str:
        return f"<ServerGoalHandle {self.goal_id.hex()} {self._status.name.lower()}>"

    @property
    def status(self) -> GoalStatus:
        """State of the goal."""
        return self._status

    @property
    def is_active(self) -> bool:
        """Whether the goal has not ended."""
        return self._status not in _ENDED

    @property
    def is_cancel_requested(self) -> bool:
        """Whether the goal shall end early: the callback then calls :meth:`canceled` and returns."""
        return self._status is GoalStatus.CANCELING

    def publish_feedback(self, feedback: Any) -> None:  # noqa: ANN401 - a message of the type
        """Publish a feedback message of the type."""
        self._server._publish_feedback(self.goal_id, feedback)  # noqa: SLF001 - a part of the server

    def succeed(self) -> None:
        """End the goal as reached; the callback returns the result."""
        self.become(GoalStatus.SUCCEEDED)

    def abort(self) -> None:
        """End the goal as failed."""
        self.become(GoalStatus.ABORTED)

    def canceled(self) -> None:
        """End the goal as cancelled."""
        self.become(GoalStatus.CANCELED)

    def become(self, status: GoalStatus) -> None:
        """Set the state.

        Raises:
            UsageError: The goal has ended already.
        """
        if not self._become(status):
            raise UsageError(f"goal {self.goal_id.hex()} has ended already: {self._status.name.lower()}")

    def _become(self, status: GoalStatus) -> bool:
        """Set the state unless the goal has ended; return whether it had not."""
        server = self._server
        with server._lock:  # noqa: SLF001 - a part of the server
            if not self.is_active:
                return False
            self._status = status
            server._publish_status()  # noqa: SLF001
        return True


class ActionServer:
    """The server of an action; :meth:`zwire.ros2.Node.create_action_server` makes one.

    Args:
        node: The node.
        action_type: A name such as ``example_interfaces/action/Fibonacci``, or a type of the store.
        action_name: Name of the action.
        execute_callback: Gets a :class:`ServerGoalHandle`, on a thread of its own; sets its state and returns
            the result. A goal without a state is aborted, as one whose callback raises.
        goal_callback: Gets a goal; returns whether it is accepted. All are if left out.
        cancel_callback: Gets a :class:`ServerGoalHandle`; returns whether it may be cancelled. None may if
            left out.
        result_timeout: Seconds that a result is kept.
    """

    def __init__(
        self,
        node: Node,
        action_type: str | ActionType,
        action_name: str,
        execute_callback: Callable[[ServerGoalHandle], Any],
        *,
        goal_callback: Callable[[Any], Any] | None = None,
        cancel_callback: Callable[[ServerGoalHandle], Any] | None = None,
        result_timeout: float = RESULT_TIMEOUT,
    ) -> None:
        self.type: Final = node.store.action(action_type) if isinstance(action_type, str) else action_type
        self.name: Final = node.resolve_topic_name(action_name)
        self._node = node
        self._execute = execute_callback
        self._accepts = goal_callback
        self._cancels = cancel_callback
        self._result_timeout = result_timeout
        self._goals: dict[bytes, ServerGoalHandle] = {}
        self._lock = threading.RLock()
        self._destroyed = False
        base = f"{self.name}/_action"
        self._feedback = node.create_publisher(self.type.feedback_message, f"{base}/feedback")
        self._status = node.create_publisher(_STATUS, f"{base}/status", qos_profile_latched)
        self._services = [
            node.create_service(self.type.send_goal, f"{base}/send_goal", self._on_goal),
            node.create_service(self.type.get_result, f"{base}/get_result", self._on_result),
            node.create_service(_CANCEL, f"{base}/cancel_goal", self._on_cancel),
        ]

    def __repr__(self) -> str:
        return f"<ActionServer {self.name} {self.type.name}>"

    def destroy(self) -> None:
        """End the server. Goals under way go on unheard; their clients get an error instead of a result."""
        self._destroyed = True
        self._node._owner.endpoints.pop(self, None)  # noqa: SLF001 - a part of the node
        for service in self._services:
            service.destroy()
        with self._lock:
            goals = list(self._goals.values())
        for goal in goals:
            goal.result.cancel()
        self._feedback.destroy()
        self._status.destroy()

    def _on_goal(self, request: Any, response: Any) -> Any:  # noqa: ANN401 - messages
        goal_id = _octets(request.goal_id)
        now = self._node.get_clock().now()
        with self._lock:
            self._forget_old()
            taken = goal_id in self._goals or len(self._goals) >= MOST_GOALS
        if taken or (self._accepts is not None and not self._accepts(request.goal)):
            return response
        goal = ServerGoalHandle(self, goal_id, request.goal, now.nanoseconds)
        with self._lock:
            if goal_id in self._goals:
                return response
            self._goals[goal_id] = goal
        self._publish_status()
        threading.Thread(target=self._run, args=(goal,), name="zwire-ros2-goal", daemon=True).start()
        response.accepted = True
        response.stamp.sec, response.stamp.nanosec = now.seconds_nanoseconds()
        return response

    def _run(self, goal: ServerGoalHandle) -> None:
        result = None
        try:
            with self._lock:
                # A request to cancel may have come first.
                if goal.status is GoalStatus.ACCEPTED:
                    goal.become(GoalStatus.EXECUTING)
            result = self._execute(goal)
        except Exception:  # noqa: BLE001 - any error of the program aborts the goal
            LOG.exception("%s: goal %s raised, it is aborted", self.name, goal.goal_id.hex())
        goal._become(GoalStatus.ABORTED)  # noqa: SLF001 - a part of the server
        goal.ended_at = time.monotonic()
        cls = self.type.get_result.response.cls
        fields = {} if result is None else {"result": result}
        # The server may be destroyed meanwhile, which cancels the future.
        with contextlib.suppress(InvalidStateError):
            goal.result.set_result(cls(status=int(goal.status), **fields))

    def _on_result(self, request: Any, response: Any) -> Any:  # noqa: ANN401 - messages
        with self._lock:
            goal = self._goals.get(_octets(request.goal_id))
            if goal is None:
                return response
            goal.waiting += not goal.result.done()
            if goal.waiting > MOST_WAITING and not goal.result.done():
                raise UsageError(f"{self.name}: {MOST_WAITING} requests wait for the result already")
        return goal.result

    def _on_cancel(self, request: Any, response: Any) -> Any:  # noqa: ANN401 - messages
        info = request.goal_info
        goal_id, before = _octets(info.goal_id), info.stamp.sec * 10**9 + info.stamp.nanosec
        with self._lock:
            asked = list(_asked(self._goals.values(), goal_id, before))
        for goal in asked:
            allowed = goal.is_active and self._cancels is not None and self._cancels(goal)
            # The goal may end while the callback looks at it.
            if allowed and goal._become(GoalStatus.CANCELING):  # noqa: SLF001 - a part of the server
                response.goals_canceling.append(self._info(goal))
        if any(goal_id) and goal_id not in {goal.goal_id for goal in asked}:
            response.return_code = CancelCode.UNKNOWN_GOAL
        elif not response.goals_canceling:
            ended = len(asked) == 1 and not asked[0].is_active
            response.return_code = CancelCode.GOAL_TERMINATED if ended else CancelCode.REJECTED
        return response

    def _info(self, goal: ServerGoalHandle) -> Any:  # noqa: ANN401 - a message
        info = self._node.store.message("action_msgs/msg/GoalInfo").cls()
        info.goal_id.uuid = goal.goal_id
        info.stamp.sec, info.stamp.nanosec = divmod(goal.stamp, 10**9)
        return info

    def _publish_status(self) -> None:
        if self._destroyed:
            return
        store = self._node.store
        one = store.message("action_msgs/msg/GoalStatus").cls
        with self._lock:
            goals = list(self._goals.values())
            listed = [one(goal_info=self._info(goal), status=int(goal.status)) for goal in goals]
            self._status.publish(self._status.type.cls(status_list=listed))

    def _publish_feedback(self, goal_id: bytes, feedback: Any) -> None:  # noqa: ANN401 - a message
        if self._destroyed:
            return
        message = self._feedback.type.cls(feedback=feedback)
        message.goal_id.uuid = goal_id
        self._feedback.publish(message)

    def _forget_old(self) -> None:
        now = time.monotonic()
        old = [
            id_
            for id_, goal in self._goals.items()
            if goal.ended_at and now - goal.ended_at > self._result_timeout
        ]
        if len(self._goals) - len(old) >= MOST_GOALS:
            old += itertools.islice((id_ for id_, goal in self._goals.items() if goal.ended_at), 1)
        for goal_id in old:
            del self._goals[goal_id]


def _asked(goals: Iterable[ServerGoalHandle], goal_id: bytes, before: int) -> Iterable[ServerGoalHandle]:
    """Yield the goals that a request to cancel is about: one, those before a time, or all."""
    everything = not any(goal_id) and before == 0
    for goal in goals:
        if everything or goal.goal_id == goal_id or (before and goal.stamp <= before):
            yield goal


def _octets(goal_id: Any) -> bytes:  # noqa: ANN401 - unique_identifier_msgs/msg/UUID
    return bytes(bytearray(goal_id.uuid))


class ClientGoalHandle:
    """A goal at its client."""

    def __init__(self, client: ActionClient, goal_id: bytes, response: Any) -> None:  # noqa: ANN401
        self.goal_id: Final = goal_id
        """Id of the goal, 16 octets."""
        self.accepted: Final[bool] = bool(response.accepted)
        """Whether the server has accepted the goal."""
        self.stamp: Final = response.stamp
        """Time at which the server accepted it, a ``builtin_interfaces/msg/Time``."""
        self._client = client

    def __repr__(self) -> str:
        return f"<ClientGoalHandle {self.goal_id.hex()} {'accepted' if self.accepted else 'rejected'}>"

    @property
    def status(self) -> GoalStatus:
        """State of the goal, as the server last published it."""
        return self._client._states.get(self.goal_id, GoalStatus.UNKNOWN)  # noqa: SLF001 - a part of the client

    def get_result_async(self, timeout: float | None = None) -> Future[Any]:
        """Return a future of ``status`` and ``result``; its errors are those of ``Client.call``."""
        client = self._client
        request = client.type.get_result.request.cls()
        request.goal_id.uuid = self.goal_id
        future = client._get_result.call_async(request, timeout)  # noqa: SLF001 - a part of the client
        future.add_done_callback(lambda _: client._end(self.goal_id))  # noqa: SLF001
        return future

    def get_result(self, timeout: float | None = None) -> Any:  # noqa: ANN401 - a message
        """Wait for ``status`` and ``result``."""
        return self.get_result_async(timeout).result()

    def cancel_goal_async(self, timeout: float | None = None) -> Future[Any]:
        """Ask the server to cancel the goal; return a future of the response of CancelGoal."""
        client = self._client
        request = client._cancel_goal.type.request.cls()  # noqa: SLF001 - a part of the client
        request.goal_info.goal_id.uuid = self.goal_id
        return client._cancel_goal.call_async(request, timeout)  # noqa: SLF001

    def cancel_goal(self, timeout: float | None = None) -> Any:  # noqa: ANN401 - a message
        """Ask the server to cancel the goal, and wait for its response."""
        return self.cancel_goal_async(timeout).result()


class ActionClient:
    """A client of an action; :meth:`zwire.ros2.Node.create_action_client` makes one."""

    def __init__(self, node: Node, action_type: str | ActionType, action_name: str) -> None:
        self.type: Final = node.store.action(action_type) if isinstance(action_type, str) else action_type
        self.name: Final = node.resolve_topic_name(action_name)
        self._node = node
        self._feedbacks: dict[bytes, Callable[[Any], object]] = {}
        self._ended: collections.deque[bytes] = collections.deque()
        self._states: dict[bytes, GoalStatus] = {}
        base = f"{self.name}/_action"
        self._send_goal = node.create_client(self.type.send_goal, f"{base}/send_goal")
        self._get_result = node.create_client(self.type.get_result, f"{base}/get_result")
        self._cancel_goal = node.create_client(_CANCEL, f"{base}/cancel_goal")
        self._topics = [
            node.create_subscription(self.type.feedback_message, f"{base}/feedback", self._on_feedback),
            node.create_subscription(_STATUS, f"{base}/status", self._on_status, qos_profile_latched),
        ]

    def __repr__(self) -> str:
        return f"<ActionClient {self.name} {self.type.name}>"

    @property
    def _clients(self) -> list[Client]:
        return [self._send_goal, self._get_result, self._cancel_goal]

    def destroy(self) -> None:
        """End the client."""
        self._node._owner.endpoints.pop(self, None)  # noqa: SLF001 - a part of the node
        for each in (*self._clients, *self._topics):
            each.destroy()

    def server_is_ready(self) -> bool:
        """Return whether a server of this name and type is there."""
        return all(client.service_is_ready() for client in self._clients)

    def wait_for_server(self, timeout: float | None = None) -> bool:
        """Wait for a server of this name and type.

        Args:
            timeout: Seconds; without a limit if left out.

        Returns:
            Whether one is there.
        """
        end = None if timeout is None else time.monotonic() + timeout
        return all(
            client.wait_for_service(None if end is None else max(0.0, end - time.monotonic()))
            for client in self._clients
        )

    def send_goal_async(
        self,
        goal: Any,  # noqa: ANN401 - a message of the type
        feedback_callback: Callable[[Any], object] | None = None,
        timeout: float | None = None,
    ) -> Future[ClientGoalHandle]:
        """Send a goal; return a future of its handle, which says whether it was accepted.

        Args:
            goal: A goal of the type.
            feedback_callback: Gets each feedback message until the result is there.
            timeout: Seconds for the acceptance.
        """
        goal_id = os.urandom(16)
        request = self.type.send_goal.request.cls(goal=goal)
        request.goal_id.uuid = goal_id
        if feedback_callback is not None:
            if len(self._feedbacks) >= MOST_GOALS + LATE_FEEDBACK:
                raise UsageError(f"{self.name}: {MOST_GOALS} goals with feedback wait for their results")
            self._feedbacks[goal_id] = feedback_callback
        found: Future[ClientGoalHandle] = Future()
        try:
            answer = self._send_goal.call_async(request, timeout)
        except BaseException:
            self._feedbacks.pop(goal_id, None)
            raise
        answer.add_done_callback(lambda done: self._answered(goal_id, done, found))
        return found

    def send_goal(
        self,
        goal: Any,  # noqa: ANN401 - messages
        feedback_callback: Callable[[Any], object] | None = None,
        timeout: float | None = None,
    ) -> Any:  # noqa: ANN401
        """Send a goal and wait for its end; return ``status`` and ``result``.

        Args:
            goal: A goal of the type.
            feedback_callback: Gets each feedback message.
            timeout: Seconds for the acceptance, and again for the result.

        Raises:
            TimedOut: There is no server, or no result in time.
            UsageError: The server rejected the goal.
        """
        handle = self.send_goal_async(goal, feedback_callback, timeout).result()
        if not handle.accepted:
            raise UsageError(f"{self.name}: the server rejected the goal")
        return handle.get_result(timeout)

    def _answered(self, goal_id: bytes, done: Future[Any], found: Future[ClientGoalHandle]) -> None:
        error = done.exception()
        handle = None if error is not None else ClientGoalHandle(self, goal_id, done.result())
        if handle is None or not handle.accepted:
            self._feedbacks.pop(goal_id, None)
        if not found.set_running_or_notify_cancel():
            self._feedbacks.pop(goal_id, None)
            return
        if handle is None:
            found.set_exception(error)
        else:
            found.set_result(handle)

    def _end(self, goal_id: bytes) -> None:
        """Let go of the callback for feedback, that of an earlier goal first."""
        self._ended.append(goal_id)
        while len(self._ended) > LATE_FEEDBACK:
            self._feedbacks.pop(self._ended.popleft(), None)

    def _on_feedback(self, message: Any) -> None:  # noqa: ANN401 - a message
        callback = self._feedbacks.get(_octets(message.goal_id))
        if callback is not None:
            callback(message.feedback)

    def _on_status(self, message: Any) -> None:  # noqa: ANN401 - a message
        known = {each.value: each for each in GoalStatus}
        self._states = {
            _octets(each.goal_info.goal_id): known.get(int(each.status), GoalStatus.UNKNOWN)
            for each in message.status_list
        }
