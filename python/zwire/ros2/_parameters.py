"""Parameters of nodes: values, the six services by which others use them, and ``/parameter_events``."""

from __future__ import annotations

import copy
import enum
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zwire.errors import InvalidValue, UsageError
from zwire.ros2._qos import QoSProfile, qos_profile_parameter_events, qos_profile_parameters

if TYPE_CHECKING:
    from zwire.ros2._calls import Client, Service
    from zwire.ros2._clock import Clock
    from zwire.ros2._node import Node
    from zwire.ros2._pubsub import Publisher
    from zwire.ros2._store import TypeStore

MOST_VALUES: Final = 1 << 20
"""Items of an array that is a value."""

MOST_NAMES: Final = 10_000
"""Parameters or prefixes of a request: a name takes four octets, and its answer a thousand in memory."""


class ParameterType(enum.IntEnum):
    """Types of parameters; numbers are those of ``rcl_interfaces/msg/ParameterType``.

    ::

        print(ros2.Parameter("rate", 2.5).type_.name)  # DOUBLE
    """

    NOT_SET = 0
    BOOL = 1
    INTEGER = 2
    DOUBLE = 3
    STRING = 4
    BYTE_ARRAY = 5
    BOOL_ARRAY = 6
    INTEGER_ARRAY = 7
    DOUBLE_ARRAY = 8
    STRING_ARRAY = 9


_FIELDS = {kind: f"{kind.name.lower()}_value" for kind in ParameterType if kind}
_ONE = {
    bool: ParameterType.BOOL,
    int: ParameterType.INTEGER,
    float: ParameterType.DOUBLE,
    str: ParameterType.STRING,
}
_MANY = {
    bool: ParameterType.BOOL_ARRAY,
    int: ParameterType.INTEGER_ARRAY,
    float: ParameterType.DOUBLE_ARRAY,
    str: ParameterType.STRING_ARRAY,
}


@dataclass(frozen=True)
class Parameter:
    """A parameter: a name and a value.

    Raises:
        InvalidValue: The value is none of a parameter.
    """

    name: str
    value: Any = None
    """None, bool, int, float, str, bytes, or a list of items of one of the first four types."""

    def __post_init__(self) -> None:
        """Check the value."""
        _ = self.type_

    @property
    def type_(self) -> ParameterType:
        """Type of the value."""
        value = self.value
        if value is None:
            return ParameterType.NOT_SET
        if isinstance(value, bytes | bytearray):
            return ParameterType.BYTE_ARRAY
        if type(value) in _ONE:
            return _in_range(self.name, _ONE[type(value)], [value])
        kinds = {type(item) for item in value} if isinstance(value, list | tuple) else set()
        if kinds == {int, float}:
            kinds = {float}
        if len(kinds) == 1 and (kind := next(iter(kinds))) in _MANY:
            return _in_range(self.name, _MANY[kind], value)
        if value in ([], ()):
            return ParameterType.STRING_ARRAY
        raise InvalidValue(f"parameter {self.name}: {type(value).__name__} is no type of a parameter")

    def to_message(self, store: TypeStore) -> Any:  # noqa: ANN401 - rcl_interfaces/msg/Parameter
        """Return the ``rcl_interfaces/msg/Parameter``."""
        value = to_value(store, self)
        return store.message("rcl_interfaces/msg/Parameter").cls(name=self.name, value=value)

    @classmethod
    def from_message(cls, message: Any) -> Parameter:  # noqa: ANN401 - rcl_interfaces/msg/Parameter
        """Return the parameter of a ``rcl_interfaces/msg/Parameter``.

        Raises:
            InvalidValue: The type in it is unknown.
        """
        return cls(message.name, from_value(message.value))


def _in_range(name: str, kind: ParameterType, values: Sequence[Any]) -> ParameterType:
    if kind in {ParameterType.INTEGER, ParameterType.INTEGER_ARRAY}:
        for value in values:
            if not -(1 << 63) <= value < 1 << 63:
                raise InvalidValue(f"parameter {name}: {value} does not fit into 64 bits")
    if len(values) > MOST_VALUES:
        raise InvalidValue(f"parameter {name}: more than {MOST_VALUES} items")
    return kind


def to_value(store: TypeStore, parameter: Parameter) -> Any:  # noqa: ANN401 - rcl_interfaces/msg/ParameterValue
    """Return the ``rcl_interfaces/msg/ParameterValue`` of a parameter."""
    message = store.message("rcl_interfaces/msg/ParameterValue").cls(type=int(parameter.type_))
    if parameter.type_:
        value = parameter.value
        if parameter.type_ is ParameterType.DOUBLE_ARRAY:
            value = [float(item) for item in value]
        elif isinstance(value, tuple | bytearray):
            value = list(value)
        setattr(message, _FIELDS[parameter.type_], value)
    return message


def from_value(message: Any) -> Any:  # noqa: ANN401 - rcl_interfaces/msg/ParameterValue, and any value
    """Return the value of a ``rcl_interfaces/msg/ParameterValue``.

    Raises:
        InvalidValue: The type in it is unknown.
    """
    try:
        kind = ParameterType(message.type)
    except ValueError:
        raise InvalidValue(f"parameter: type {message.type} is unknown") from None
    if not kind:
        return None
    value = getattr(message, _FIELDS[kind])
    if kind is ParameterType.BYTE_ARRAY:
        return bytes(bytearray(value))
    return value.tolist() if hasattr(value, "tolist") else value


_Check = Callable[[list[Parameter]], Any]


class Parameters:
    """The parameters of a node."""

    if TYPE_CHECKING:
        _types: TypeStore
        create_publisher: Callable[..., Publisher]
        create_service: Callable[..., Service]
        get_clock: Callable[[], Clock]
        get_fully_qualified_name: Callable[[], str]
        _use_sim_time: Callable[[bool], None]

    def __init__(self, overrides: Mapping[str, Any], *, services: bool) -> None:
        self._overrides = dict(overrides)
        self._values: dict[str, Parameter] = {}
        self._descriptions: dict[str, Any] = {}
        self._checks: list[_Check] = []
        self._setting = threading.RLock()
        self._events: Publisher | None = None
        if services:
            self._events = self.create_publisher(
                "rcl_interfaces/msg/ParameterEvent", "/parameter_events", qos_profile_parameter_events
            )
            self._serve()
        self.declare_parameter("use_sim_time", False)

    def _serve(self) -> None:
        for name, callback in {
            "DescribeParameters": self._on_describe,
            "GetParameters": self._on_get,
            "GetParameterTypes": self._on_types,
            "ListParameters": self._on_list,
            "SetParameters": self._on_set,
            "SetParametersAtomically": self._on_set_atomically,
        }.items():
            self.create_service(
                f"rcl_interfaces/srv/{name}", f"~/{_snake(name)}", callback, qos_profile_parameters
            )

    def declare_parameter(self, name: str, value: Any = None, descriptor: Any = None) -> Parameter:  # noqa: ANN401
        """Declare a parameter with its value, unless an override has another.

        Args:
            name: Its name.
            value: A value of :class:`Parameter`.
            descriptor: A ``rcl_interfaces/msg/ParameterDescriptor``.

        Raises:
            UsageError: It is declared already.
            InvalidValue: The value is none of a parameter, or a callback refused it.
        """
        parameter = Parameter(name, self._overrides.get(name, value))
        with self._setting:
            if name in self._values:
                raise UsageError(f"parameter {name} is declared already")
            self._descriptions[name] = descriptor
            refusal = self._apply([parameter], new=True)
            if refusal:
                del self._descriptions[name]
                raise InvalidValue(f"parameter {name}: {refusal}")
        return parameter

    def undeclare_parameter(self, name: str) -> None:
        """Forget a parameter.

        Raises:
            LookupError: It is not declared.
        """
        with self._setting:
            gone = self._known(name)
            del self._values[name]
            self._descriptions.pop(name, None)
        self._publish_event("deleted_parameters", [gone])

    def has_parameter(self, name: str) -> bool:
        """Return whether a parameter is declared."""
        return name in self._values

    def get_parameter(self, name: str) -> Parameter:
        """Return a parameter.

        Raises:
            LookupError: It is not declared.
        """
        return self._known(name)

    def get_parameters(self, names: Iterable[str]) -> list[Parameter]:
        """Return parameters, with the error of :meth:`get_parameter`."""
        return [self._known(name) for name in names]

    def set_parameters(self, parameters: Iterable[Parameter]) -> list[Any]:
        """Set parameters one by one; return a ``rcl_interfaces/msg/SetParametersResult`` for each."""
        return [self._result(self._set([parameter])) for parameter in parameters]

    def set_parameters_atomically(self, parameters: Iterable[Parameter]) -> Any:  # noqa: ANN401 - the message
        """Set all parameters, or none; return one ``rcl_interfaces/msg/SetParametersResult``."""
        return self._result(self._set(list(parameters)))

    def add_on_set_parameters_callback(self, callback: _Check) -> None:
        """Have a function look at parameters before they are set.

        Args:
            callback: Gets a list of :class:`Parameter`; returns an object with ``successful`` and ``reason``,
                such as a ``rcl_interfaces/msg/SetParametersResult``.
        """
        self._checks.append(callback)

    def _known(self, name: str) -> Parameter:
        try:
            return self._values[name]
        except KeyError:
            raise LookupError(f"parameter {name} is not declared") from None

    def _set(self, parameters: list[Parameter]) -> str:
        """Set parameters, or return why not."""
        with self._setting:
            for parameter in parameters:
                old = self._values.get(parameter.name)
                if old is None:
                    return f"parameter {parameter.name} is not declared"
                if getattr(self._descriptions.get(parameter.name), "read_only", False):
                    return f"parameter {parameter.name} is read only"
                if old.type_ not in {parameter.type_, ParameterType.NOT_SET}:
                    kinds = f"{old.type_.name.lower()}, not {parameter.type_.name.lower()}"
                    return f"parameter {parameter.name} is of type {kinds}"
            return self._apply(parameters, new=False)

    def _apply(self, parameters: list[Parameter], *, new: bool) -> str:
        for check in self._checks:
            result = check(parameters)
            if not result.successful:
                return result.reason or "a callback refused it"
        for parameter in parameters:
            if parameter.name == "use_sim_time":
                if parameter.type_ is not ParameterType.BOOL:
                    return "use_sim_time is a bool"
                self._use_sim_time(parameter.value)
            self._values[parameter.name] = parameter
        self._publish_event("new_parameters" if new else "changed_parameters", parameters)
        return ""

    def _result(self, refusal: str) -> Any:  # noqa: ANN401 - a message
        cls = self._types.message("rcl_interfaces/msg/SetParametersResult").cls
        return cls(successful=not refusal, reason=refusal)

    def _publish_event(self, field: str, parameters: list[Parameter]) -> None:
        if self._events is None:
            return
        event = self._events.type.cls(node=self.get_fully_qualified_name())
        event.stamp.sec, event.stamp.nanosec = self.get_clock().now().seconds_nanoseconds()
        setattr(event, field, [parameter.to_message(self._types) for parameter in parameters])
        self._events.publish(event)

    def _on_get(self, request: Any, response: Any) -> Any:  # noqa: ANN401 - messages
        unset = Parameter("")
        names = _few(request.names)
        response.values = [to_value(self._types, self._values.get(name, unset)) for name in names]
        return response

    def _on_types(self, request: Any, response: Any) -> Any:  # noqa: ANN401 - messages
        unset = Parameter("")
        response.types = [int(self._values.get(name, unset).type_) for name in _few(request.names)]
        return response

    def _on_describe(self, request: Any, response: Any) -> Any:  # noqa: ANN401 - messages
        cls = self._types.message("rcl_interfaces/msg/ParameterDescriptor").cls
        for name in _few(request.names):
            found = copy.copy(self._descriptions.get(name) or cls())
            found.name = name
            found.type = int(self._values[name].type_) if name in self._values else 0
            response.descriptors.append(found)
        return response

    def _on_list(self, request: Any, response: Any) -> Any:  # noqa: ANN401 - messages
        prefixes: set[str] = set()
        names = []
        wanted, depth = list(_few(request.prefixes)), int(request.depth)
        for name in sorted(self._values):
            if _is_listed(name, wanted, depth):
                names.append(name)
                if "." in name:
                    prefixes.add(name.rpartition(".")[0])
        response.result.names, response.result.prefixes = names, sorted(prefixes)
        return response

    def _on_set(self, request: Any, response: Any) -> Any:  # noqa: ANN401 - messages
        response.results = [self._result(self._set_messages([each])) for each in _few(request.parameters)]
        return response

    def _on_set_atomically(self, request: Any, response: Any) -> Any:  # noqa: ANN401 - messages
        response.result = self._result(self._set_messages(_few(request.parameters)))
        return response

    def _set_messages(self, messages: Sequence[Any]) -> str:
        try:
            parameters = [Parameter.from_message(message) for message in messages]
        except InvalidValue as error:
            return str(error)
        return self._set(parameters)


def _few(items: Any) -> Any:  # noqa: ANN401 - a list of a request
    if len(items) > MOST_NAMES:
        raise UsageError(f"the request has {len(items)} parameters or prefixes; {MOST_NAMES} are read")
    return items


def _is_listed(name: str, prefixes: list[str], depth: int) -> bool:
    """Return whether a parameter is below one of the prefixes, by at most ``depth`` levels; 0 is any."""
    for prefix in prefixes or [""]:
        inner = name[len(prefix) + 1 :] if prefix else name
        below = not prefix or name == prefix or name.startswith(f"{prefix}.")
        if below and (depth == 0 or inner.count(".") < depth):
            return True
    return False


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


class ParameterClient:
    """The parameters of another node.

    Args:
        node: A node of this program.
        remote: Full name of the other node.
        timeout: Seconds for each call.
    """

    def __init__(self, node: Node, remote: str, timeout: float = 5.0) -> None:
        self._node = node
        self._remote = remote
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"<ParameterClient {self._remote}>"

    def list_parameters(self, *prefixes: str) -> list[str]:
        """Return the names of the parameters below some prefixes, or of all.

        Raises:
            TimedOut: The node does not answer.
        """
        return list(self._call("ListParameters", prefixes=list(prefixes)).result.names)

    def get_parameters(self, *names: str) -> list[Parameter]:
        """Return parameters; one that is not declared has the value None."""
        values = self._call("GetParameters", names=list(names)).values
        return [Parameter(name, from_value(value)) for name, value in zip(names, values, strict=False)]

    def set_parameters(self, *parameters: Parameter) -> list[Any]:
        """Set parameters; return a ``rcl_interfaces/msg/SetParametersResult`` for each."""
        messages = [parameter.to_message(self._node.store) for parameter in parameters]
        return list(self._call("SetParameters", parameters=messages).results)

    def _call(self, name: str, **fields: Any) -> Any:  # noqa: ANN401 - messages
        client: Client = self._node.create_client(
            f"rcl_interfaces/srv/{name}",
            f"{self._remote}/{_snake(name)}",
            QoSProfile(depth=qos_profile_parameters.depth),
        )
        with client:
            client.wait_for_service(self._timeout)
            return client.call(client.type.request.cls(**fields), self._timeout)
