"""Nodes, with the names of rclpy."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from zwire.errors import UsageError
from zwire.ros2._actions import RESULT_TIMEOUT, ActionClient, ActionServer, ServerGoalHandle
from zwire.ros2._calls import Client, Service
from zwire.ros2._clock import Clock, Timer
from zwire.ros2._context import Context
from zwire.ros2._endpoint import Endpoint, EndpointEvent, Owner
from zwire.ros2._keys import Entity, EntityKind, full_name, node_name
from zwire.ros2._parameters import Parameters
from zwire.ros2._pubsub import Publisher, Subscription
from zwire.ros2._qos import QoSProfile, ReliabilityPolicy, qos_profile_services_default
from zwire.ros2._rosout import PROFILE, RosoutHandler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zwire import zenoh
    from zwire.ros2._graph import Graph
    from zwire.ros2._store import ActionType, MessageType, ServiceType, TypeStore

_E = TypeVar("_E", bound=Endpoint)

_CLOCK: Final = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Profile of ``/clock``."""


class Node(Parameters):
    """A node of ROS 2 that needs no ROS: ``ros2 node list`` shows it where rmw_zenoh runs.

    Callbacks of one node are called one at a time, on threads of the pool for callbacks; ``concurrent`` lets
    them overlap. A callback may call services of other nodes, and waits for the response.

    Args:
        name: Its name: letters, digits, underscores.
        namespace: Namespace of the node and of its relative names.
        context: Session and graph to share with other nodes; an own one if left out, closed with the node.
        config: Configuration of the own session; that of the environment if left out.
        session: An open session to use instead; it stays open.
        domain_id: Number of the domain; that of ``ROS_DOMAIN_ID``, or 0, if left out.
        store: Types of messages; the common ones if left out.
        enclave: Enclave that tokens name.
        concurrent: Whether callbacks may overlap.
        parameter_overrides: Values of parameters by name, instead of those in ``declare_parameter``;
            ``use_sim_time`` is one of them.
        start_parameter_services: Whether others can read and set the parameters.

    Raises:
        InvalidValue: A name is not legal.
        ConfigError: The configuration or the number of the domain cannot be used.
        UsageError: A context is given together with settings of an own one.
    """

    def __init__(
        self,
        name: str,
        *,
        namespace: str = "/",
        context: Context | None = None,
        config: zenoh.Config | dict[str, Any] | None = None,
        session: zenoh.Session | None = None,
        domain_id: int | None = None,
        store: TypeStore | None = None,
        enclave: str = "",
        concurrent: bool = False,
        parameter_overrides: Mapping[str, Any] | None = None,
        start_parameter_services: bool = True,
    ) -> None:
        node_name(name)
        namespace = "/" if namespace in {"", "/"} else full_name(f"/{namespace.strip('/')}")
        if context is not None and (config, session, domain_id, store) != (None, None, None, None):
            raise UsageError("a node with a context has its session, domain and types from there")
        self._owns_context = context is None
        self.context: Final = context or Context(config, session=session, domain_id=domain_id, store=store)
        self._types = self.context.store
        number = self.context.number()
        self.entity: Final = Entity(
            domain=self.context.domain,
            zid=self.context.zid,
            nid=number,
            id=number,
            kind=EntityKind.NODE,
            enclave=enclave,
            namespace=namespace,
            node=name,
        )
        turn = contextlib.nullcontext() if concurrent else threading.RLock()
        self._owner = Owner(self.context, self.entity, turn)
        self._clock = Clock()
        self._time_source: Subscription | None = None
        self._timers: list[Timer] = []
        self._closed = threading.Event()
        self._rosout: RosoutHandler | None = None
        self._token = self.graph.declare(self.entity.token())
        try:
            super().__init__(parameter_overrides or {}, services=start_parameter_services)
        except BaseException:
            self.destroy_node()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy_node()

    def __repr__(self) -> str:
        return f"<Node {self.get_fully_qualified_name()}>"

    @property
    def graph(self) -> Graph:
        """The nodes and endpoints of the domain."""
        return self.context.graph

    @property
    def store(self) -> TypeStore:
        """The types of messages."""
        return self.context.store

    def get_name(self) -> str:
        """Return the name without the namespace."""
        return self.entity.node

    def get_namespace(self) -> str:
        """Return the namespace."""
        return self.entity.namespace

    def get_fully_qualified_name(self) -> str:
        """Return the name with its namespace."""
        return self.entity.node_name

    def get_clock(self) -> Clock:
        """Return the clock: that of the system, or of ``/clock`` if ``use_sim_time`` is set."""
        return self._clock

    def get_logger(self) -> logging.Logger:
        """Return the logger of the node; its records go to ``/rosout`` as well, from the first call on."""
        logger = logging.getLogger("zwire.ros2" + self.get_fully_qualified_name().replace("/", "."))
        if self._rosout is None and not self._closed.is_set():
            publisher = self.create_publisher("rcl_interfaces/msg/Log", "/rosout", PROFILE)
            self._rosout = RosoutHandler(publisher, logger.name.removeprefix("zwire.ros2."))
            logger.addHandler(self._rosout)
        return logger

    def resolve_topic_name(self, topic: str) -> str:
        """Return the full name of a topic or service.

        Raises:
            InvalidValue: The name is not legal.
        """
        return full_name(topic, self.entity.namespace, self.entity.node)

    def create_publisher(
        self,
        msg_type: str | MessageType[Any] | type,
        topic: str,
        qos_profile: QoSProfile | int = 10,
        *,
        on_event: Callable[[EndpointEvent], object] | None = None,
    ) -> Publisher:
        """Create a publisher.

        Args:
            msg_type: A name such as ``std_msgs/msg/String``, a type of the store, or a class of messages.
            topic: Name of the topic.
            qos_profile: Quality of service, or its depth alone.
            on_event: Gets subscriptions that match or cannot, with the reason.

        Raises:
            InvalidValue: The name is not legal.
            DefinitionError: The store has no such type.
        """
        type_ = self._message(msg_type)
        return self._kept(
            Publisher(self._owner, type_, self.resolve_topic_name(topic), _profile(qos_profile), on_event)
        )

    def create_subscription(
        self,
        msg_type: str | MessageType[Any] | type,
        topic: str,
        callback: Callable[..., object] | None = None,
        qos_profile: QoSProfile | int = 10,
        *,
        raw: bool = False,
        on_event: Callable[[EndpointEvent], object] | None = None,
    ) -> Subscription:
        """Create a subscription.

        Args:
            msg_type: As for :meth:`create_publisher`.
            topic: Name of the topic.
            callback: Gets each message, and its :class:`MessageInfo` if it takes two arguments. Without one
                the subscription is an iterator.
            qos_profile: Quality of service, or its depth alone.
            raw: Whether messages stay CDR, as bytes.
            on_event: Gets publishers that match or cannot, lost messages, and clocks that are apart.

        Raises:
            InvalidValue: The name is not legal.
            DefinitionError: The store has no such type.
        """
        type_, name, qos = self._message(msg_type), self.resolve_topic_name(topic), _profile(qos_profile)
        return self._kept(Subscription(self._owner, type_, name, qos, callback, raw, on_event))

    def create_service(
        self,
        srv_type: str | ServiceType,
        srv_name: str,
        callback: Callable[..., Any],
        qos_profile: QoSProfile = qos_profile_services_default,
        *,
        on_event: Callable[[EndpointEvent], object] | None = None,
    ) -> Service:
        """Create a service.

        Args:
            srv_type: A name such as ``std_srvs/srv/Trigger``, or a type of the store.
            srv_name: Name of the service.
            callback: Gets the request, and a response to fill if it takes two arguments; returns the
                response, or a ``concurrent.futures.Future`` of it.
            qos_profile: Quality of service, for tokens.
            on_event: Gets clients that match or cannot.

        Raises:
            InvalidValue: The name is not legal.
            DefinitionError: The store has no such type.
        """
        type_, name = self._service(srv_type), self.resolve_topic_name(srv_name)
        return self._kept(Service(self._owner, type_, name, qos_profile, callback, on_event))

    def create_client(
        self,
        srv_type: str | ServiceType,
        srv_name: str,
        qos_profile: QoSProfile = qos_profile_services_default,
        *,
        on_event: Callable[[EndpointEvent], object] | None = None,
    ) -> Client:
        """Create a client of a service; arguments are those of :meth:`create_service`."""
        type_, name = self._service(srv_type), self.resolve_topic_name(srv_name)
        return self._kept(Client(self._owner, type_, name, qos_profile, on_event))

    def create_action_server(
        self,
        action_type: str | ActionType,
        action_name: str,
        execute_callback: Callable[[ServerGoalHandle], Any],
        *,
        goal_callback: Callable[[Any], Any] | None = None,
        cancel_callback: Callable[[ServerGoalHandle], Any] | None = None,
        result_timeout: float = RESULT_TIMEOUT,
    ) -> ActionServer:
        """Create the server of an action; arguments are those of :class:`ActionServer`."""
        server = ActionServer(
            self,
            action_type,
            action_name,
            execute_callback,
            goal_callback=goal_callback,
            cancel_callback=cancel_callback,
            result_timeout=result_timeout,
        )
        self._owner.endpoints[server] = None
        return server

    def create_action_client(self, action_type: str | ActionType, action_name: str) -> ActionClient:
        """Create a client of an action."""
        client = ActionClient(self, action_type, action_name)
        self._owner.endpoints[client] = None
        return client

    def create_timer(self, timer_period_sec: float, callback: Callable[[], object]) -> Timer:
        """Have a function called every so many seconds of the clock of the node.

        Raises:
            InvalidValue: The period is not between a microsecond and a billion seconds.
            UsageError: The node is destroyed.
        """
        if self._closed.is_set():
            raise UsageError(f"node {self.get_fully_qualified_name()} is destroyed: it makes no timer")
        self._timers = [each for each in self._timers if not each.is_canceled()]
        timer = Timer(self._clock, timer_period_sec, callback, self._owner.turn)
        self._timers.append(timer)
        return timer

    def get_node_names(self) -> list[str]:
        """Return the full names of all nodes of the domain."""
        return self.graph.nodes()

    def get_topic_names_and_types(self) -> list[tuple[str, list[str]]]:
        """Return all topics with their types."""
        return list(self.graph.topics().items())

    def get_service_names_and_types(self) -> list[tuple[str, list[str]]]:
        """Return all services with their types."""
        return list(self.graph.services().items())

    def get_publishers_info_by_topic(self, topic: str) -> list[Entity]:
        """Return the publishers of a topic."""
        return self.graph.endpoints(self.resolve_topic_name(topic), EntityKind.PUBLISHER)

    def get_subscriptions_info_by_topic(self, topic: str) -> list[Entity]:
        """Return the subscriptions of a topic."""
        return self.graph.endpoints(self.resolve_topic_name(topic), EntityKind.SUBSCRIPTION)

    def count_publishers(self, topic: str) -> int:
        """Return the number of publishers of a topic."""
        return len(self.get_publishers_info_by_topic(topic))

    def count_subscribers(self, topic: str) -> int:
        """Return the number of subscriptions of a topic."""
        return len(self.get_subscriptions_info_by_topic(topic))

    def spin(self, timeout: float | None = None) -> None:
        """Wait until the node is destroyed, or some seconds are over; callbacks need no call of it."""
        self._closed.wait(timeout)

    def destroy_node(self) -> None:
        """End the node and all its endpoints; a second call has no effect."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._rosout is not None:
            self.get_logger().removeHandler(self._rosout)
        for timer in self._timers:
            timer.cancel()
        if self._clock.simulated:
            # Callers that wait for a simulated time would wait for ever.
            self._clock.set(None)
        for endpoint in reversed(list(self._owner.endpoints)):
            endpoint.destroy()
        if not self.context.session.is_closed():
            self.graph.undeclare(self.entity.token(), self._token)
        if self._owns_context:
            self.context.close()

    def _use_sim_time(self, wanted: bool) -> None:
        if wanted and self._time_source is None:
            self._clock.set(0)
            self._time_source = self.create_subscription(
                "rosgraph_msgs/msg/Clock", "/clock", self._on_clock, _CLOCK
            )
        elif not wanted and self._time_source is not None:
            self._time_source.destroy()
            self._time_source = None
            self._clock.set(None)

    def _on_clock(self, message: Any) -> None:  # noqa: ANN401 - rosgraph_msgs/msg/Clock
        if self._clock.simulated:
            self._clock.set(message.clock.sec * 10**9 + message.clock.nanosec)

    def _kept(self, endpoint: _E) -> _E:
        self._owner.endpoints[endpoint] = None
        return endpoint

    def _message(self, given: str | MessageType[Any] | type) -> MessageType[Any]:
        name = getattr(given, "__msgtype__", given)
        return self.store.message(name) if isinstance(name, str) else name  # type: ignore[return-value]  # a type

    def _service(self, given: str | ServiceType) -> ServiceType:
        return self.store.service(given) if isinstance(given, str) else given


def _profile(given: QoSProfile | int) -> QoSProfile:
    return QoSProfile(depth=given) if isinstance(given, int) else given
