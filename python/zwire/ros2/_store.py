"""Types by name: those of the common packages, and of definitions that a program adds."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, overload

from zwire._lazy import library
from zwire.errors import DefinitionError
from zwire.ros2._codec import plan_of
from zwire.ros2._definitions import (
    NOTHING,
    Parser,
    Primitive,
    Record,
    Section,
    Several,
    Text,
    full,
    sections,
    short,
    split,
)
from zwire.ros2._hashes import hash_of
from zwire.ros2._messages import class_of
from zwire.ros2._services import COMMON, OWN_PACKAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from os import PathLike

    from zwire._zwire import CdrPlan, ZBytes
    from zwire.ros2._definitions import Kind

M = TypeVar("M")
T = TypeVar("T", bound="MessageType[Any] | ServiceType | ActionType")

Distribution: TypeAlias = Literal["humble", "iron", "jazzy", "kilted", "lyrical"]
DISTRIBUTIONS: tuple[Distribution, ...] = ("humble", "iron", "jazzy", "kilted", "lyrical")

_MOST_TEXT = 1 << 20
"""Largest file of a definition, in bytes; the largest of ROS have 20 kB."""

_MOST_FILES = 10_000
"""Most files of a folder: a wrong folder, such as a home, ends here. A full installation has a thousand."""


_NAME = re.compile(r"[A-Za-z]\w*/(msg|srv|action)/[A-Za-z]\w*", re.ASCII)


class MessageType(Generic[M]):
    """A type of messages: its name, hash, class, and conversion to and from CDR.

    Types come from a :class:`TypeStore`.
    """

    name: str
    """``package/msg/Type``."""
    cls: type[M]
    """The class of its messages: see :class:`Message`."""

    def __init__(self, record: Record) -> None:
        self.name = record.name
        self.cls = class_of(record)  # type: ignore[assignment]  # M is the class of this name
        self._record = record

    def __repr__(self) -> str:
        return f"<MessageType {self.name}>"

    @cached_property
    def hash(self) -> str:
        """The hash of the type, ``RIHS01_`` and 64 digits, as keys and tokens of rmw_zenoh have it."""
        return hash_of(self._record)

    @cached_property
    def _plan(self) -> CdrPlan:
        return plan_of(self._record)

    def encode(self, message: M) -> bytes:
        """Return a message as CDR, little-endian, with its header of four octets.

        Args:
            message: A message of this type, or an object with the same attributes.

        Raises:
            PayloadError: A value is none of its field; names the field.
        """
        return self._plan.encode(message)

    def _payload(self, message: M) -> ZBytes:
        """Return a message as :meth:`encode` does, in memory that a publication takes without a copy."""
        return self._plan.payload(message)

    def decode(self, payload: Any) -> M:  # noqa: ANN401 - any buffer
        """Return the message of a payload.

        Arrays of numbers are read-only views of the payload, without a copy, and keep it alive; ``bytes`` of
        less than 8 KiB and memory that could change are copied once.

        Args:
            payload: CDR in any order of octets: bytes, ``ZBytes`` or another buffer.

        Raises:
            PayloadError: The payload is none of this type; names the field and the octet.
        """
        message: M = self._plan.decode(payload)
        return message


@dataclass(frozen=True)
class ServiceType:
    """A type of services."""

    name: str
    """``package/srv/Type``."""
    hash: str
    """The hash of the type, which covers request, response and event."""
    request: MessageType[Any]
    response: MessageType[Any]


@dataclass(frozen=True)
class ActionType:
    """A type of actions, with the services and the topic that it consists of.

    ::

        fibonacci = ros2.action("example_interfaces/action/Fibonacci")
        print(fibonacci.send_goal.name)  # example_interfaces/action/Fibonacci_SendGoal
    """

    name: str
    """``package/action/Type``."""
    hash: str
    goal: MessageType[Any]
    result: MessageType[Any]
    feedback: MessageType[Any]
    send_goal: ServiceType
    """``package/action/Type_SendGoal``: ``goal_id`` and ``goal``; ``accepted`` and ``stamp``."""
    get_result: ServiceType
    """``package/action/Type_GetResult``: ``goal_id``; ``status`` and ``result``."""
    feedback_message: MessageType[Any]
    """``package/action/Type_FeedbackMessage``: ``goal_id`` and ``feedback``."""


def record_of(type: MessageType[Any]) -> Record:
    """Return the fields of a type."""
    return type._record  # noqa: SLF001 - of this module


class TypeStore:
    """Types of ROS 2 by name, without an installation of it.

    A store has the messages of the common packages (``std_msgs``, ``geometry_msgs``, ``sensor_msgs``, ...) as
    rosbags has them for a distribution, and their services and actions. ``add``, ``add_folder`` and
    ``add_mcap`` add more. Several threads may use it.

    Args:
        distribution: ROS distribution of the common packages; ``None``: an empty store.

    Raises:
        ImportError: rosbags is not installed (``zwire[ros2]``).
        ValueError: There is no such distribution.
    """

    def __init__(self, distribution: Distribution | None = "jazzy") -> None:
        if distribution is not None and distribution not in DISTRIBUTIONS:
            raise ValueError(f"distribution must be one of {', '.join(DISTRIBUTIONS)}, not {distribution!r}")
        # Messages of rosbags, texts of the common services, and types that have been read or added.
        self._given: dict[str, Any] = {}
        self._common: dict[str, Section] = {}
        self._records: dict[str, Record] = {}
        self._names: set[str] = set()
        self._made: dict[str, MessageType[Any] | ServiceType | ActionType] = {}
        self._lock = RLock()
        self._distribution = distribution
        if distribution is not None:
            self._given = dict(library(f"rosbags.typesys.stores.ros2_{distribution}", "ros2").FIELDDEFS)
            for name, described in list(self._given.items()):
                # The package repeats the messages of std_msgs, but for these two.
                if name.startswith("std_msgs/") and not name.endswith(("/Header", "/ColorRGBA")):
                    self._given[name.replace("std_msgs", "example_interfaces", 1)] = described
            self._names |= self._given.keys()
            packages = {*OWN_PACKAGES, *(name.partition("/")[0] for name in self._given)}
            for name, text in COMMON.items():
                if name.partition("/")[0] in packages:
                    self._names.add(name)
                    self._common |= split(text, name)

    def __repr__(self) -> str:
        return f"<TypeStore of {len(self._names)} types, distribution {self._distribution}>"

    def source(self, names: Iterable[str]) -> str:
        """Return the classes of messages as the text of a Python module, with types for mypy and pyright.

        At run time its names are the classes of the default store, so own types have to be added to that one
        before the module is imported.

        Args:
            names: Names of messages; the types in them are added.

        Raises:
            DefinitionError: The store has no definition of a type, or two types have the same last name.
        """
        from zwire.ros2._source import module

        return module([self._read(full(name)) for name in names])

    def names(self) -> list[str]:
        """Return the names of all messages, services and actions."""
        with self._lock:
            return sorted(self._names)

    def add(self, text: str, name: str) -> list[str]:
        """Add a definition.

        Args:
            text: Text of a ``.msg``, ``.srv`` or ``.action`` file; that of a message may be followed by those
                of the types in it, behind lines of ``=``, as recordings have it.
            name: ``package/msg/Type``, ``package/srv/Type`` or ``package/action/Type``.

        Returns:
            The names of the types that are new.

        Raises:
            DefinitionError: The text is no definition, refers to a type without one, or differs from the
                definition that the store has; names the type, its field and line.
        """
        return self._add([_Group.of(full(name), text)])

    def add_folder(self, path: str | PathLike[str]) -> list[str]:
        """Add the ``.msg``, ``.srv`` and ``.action`` files below a folder.

        The name of a type is that of its file, its package the folder above ``msg``, ``srv`` or ``action``:
        ``robot/msg/Wheel.msg`` is ``robot/msg/Wheel``.

        Args:
            path: The folder: a package, or one with packages.

        Returns:
            The names of the types that are new.

        Raises:
            DefinitionError: As for :meth:`add`, with the file; nothing is added.
            OSError: A file cannot be read.
        """
        group = _Group()
        root = Path(path).resolve(strict=True)
        for kind in ("msg", "srv", "action"):
            for file in sorted(root.rglob(f"*.{kind}")):
                if file.parent.name != kind:
                    raise DefinitionError(f"{file}: the file is in no folder {kind!r}", file=str(file))
                if len(group.names) == _MOST_FILES:
                    raise DefinitionError(f"{root}: more than {_MOST_FILES} definitions", file=str(root))
                name = f"{file.parent.parent.name}/{kind}/{file.stem}"
                if name in group.names:
                    raise DefinitionError(f"{file}: {name} is there twice", type=name, file=str(file))
                group.add(name, _text(file), str(file))
        return self._add([group])

    def add_mcap(self, path: str | PathLike[str], *, names: Iterable[str] | None = None) -> list[str]:
        """Add the definitions that an MCAP file has for its messages.

        Args:
            path: The file. Schemas other than ``ros2msg`` are left out.
            names: Names of the types to add, with those in them; by default all.

        Returns:
            The names of the types that are new.

        Raises:
            DefinitionError: As for :meth:`add`, with the file; nothing is added.
            RecordingError: The file is no MCAP.
            ImportError: mcap is not installed (``zwire[record]``).
        """
        from zwire.recording._mcap import schemas

        wanted = None if names is None else {full(name) for name in names}

        return self._add(
            [
                _Group.of(full(name), schema.data.decode(errors="replace"), str(path))
                for name, schema in schemas(Path(path)).items()
                if schema.encoding == "ros2msg" and (wanted is None or full(name) in wanted)
            ]
        )

    def _add(self, groups: list[_Group]) -> list[str]:
        """Add the definitions of all groups, or none of them."""
        with self._lock:
            new: dict[str, Record] = {}
            names: set[str] = set()

            def find(name: str) -> Record | None:
                return new.get(name) or self._find(name)

            for group in groups:
                parser = Parser(group.texts, find, loose=group.loose)
                for name in group.texts:
                    with _placed(group.files.get(name)):
                        record = parser.find(name)
                        have = find(name)
                        if have is not None and hash_of(have) != hash_of(record):
                            problem = f"{short(name)} differs from the definition that the store has"
                            raise DefinitionError(problem, type=name)
                        if have is None:
                            new[name] = record
                names |= (group.names | group.texts.keys() - group.parts) - self._names
            self._records |= new
            self._names |= names
            return sorted(names)

    def _find(self, name: str) -> Record | None:
        found = self._records.get(name)
        if found is None and name in self._given:
            found = self._records[name] = self._converted(name)
        if found is None and name in self._common:
            found = self._records[name] = Parser(self._common, self._find).find(name)
        return found

    def _converted(self, name: str) -> Record:
        constants, fields = self._given[name]
        package = name.partition("/")[0]
        kinds = [(field, self._kind(described, package)) for field, described in fields]
        return Record(name, tuple(kinds) or (NOTHING,), tuple((each, value) for each, _, value in constants))

    def _kind(self, described: tuple[int, Any], package: str) -> Kind:
        """Convert a field of rosbags: a number for its kind, and what belongs to it."""
        which, what = described
        if which == 1:
            base, most = what
            return Text(most) if base == "string" else Primitive.of(base)
        if which == 2:
            if package == "example_interfaces":
                what = what.replace("std_msgs", package, 1)
            return self._read(what)
        item, length = what
        kind = self._kind(item, package)
        return Several(kind, length) if which == 3 else Several(kind, None, length)

    def _read(self, name: str) -> Record:
        """Return a message."""
        with self._lock:
            found = self._find(name)
            if found is None:
                raise DefinitionError(f"there is no definition of {name}", type=name)
            return found

    @overload
    def message(self, name: str) -> MessageType[Any]: ...
    @overload
    def message(self, name: type[M]) -> MessageType[M]: ...
    def message(self, name: str | type[Any]) -> MessageType[Any]:
        """Return a type of messages.

        Args:
            name: ``package/msg/Type``, or ``package/Type``, or a class of messages. Messages of services and
                actions have names such as ``package/srv/Type_Request``.

        Raises:
            DefinitionError: The store has no definition of it.
        """
        wanted = full(name if isinstance(name, str) else name.__msgtype__)
        return self._kept(wanted, MessageType, lambda each: MessageType(self._read(each)))

    def _kept(self, name: str, kind: type[T], make: Callable[[str], T]) -> T:
        """Return a type of this kind, made once."""
        with self._lock:
            made = self._made.get(name)
            if not isinstance(made, kind):
                made = self._made[name] = make(name)
            return made

    def service(self, name: str) -> ServiceType:
        """Return a type of services.

        Args:
            name: ``package/srv/Type``.

        Raises:
            DefinitionError: The store has no definition of it.
        """
        return self._kept(name, ServiceType, self._service)

    def _service(self, name: str) -> ServiceType:
        request, response = (self.message(f"{name}_{end}") for end in ("Request", "Response"))
        return ServiceType(name, hash_of(self._whole_service(name)), request, response)

    def _whole_service(self, name: str) -> Record:
        ends = (("request_message", "Request"), ("response_message", "Response"), ("event_message", "Event"))
        return Record(name, tuple((field, self._read(f"{name}_{end}")) for field, end in ends))

    def action(self, name: str) -> ActionType:
        """Return a type of actions.

        Args:
            name: ``package/action/Type``.

        Raises:
            DefinitionError: The store has no definition of it.
        """
        return self._kept(name, ActionType, self._action)

    def _action(self, name: str) -> ActionType:
        ends = ("Goal", "Result", "Feedback", "FeedbackMessage")
        goal, result, feedback, feedback_message = (self.message(f"{name}_{end}") for end in ends)
        services = [f"{name}_SendGoal", f"{name}_GetResult"]
        fields = (
            *((end.lower(), self._read(f"{name}_{end}")) for end in ends[:3]),
            ("send_goal_service", self._whole_service(services[0])),
            ("get_result_service", self._whole_service(services[1])),
            ("feedback_message", self._read(f"{name}_FeedbackMessage")),
        )
        send_goal, get_result = (self.service(each) for each in services)
        return ActionType(
            name,
            hash_of(Record(name, fields)),
            goal=goal,
            result=result,
            feedback=feedback,
            send_goal=send_goal,
            get_result=get_result,
            feedback_message=feedback_message,
        )


class _Group:
    """Definitions that may refer to each other."""

    def __init__(self, *, loose: bool = False) -> None:
        self.loose = loose
        self.names: set[str] = set()
        self.texts: dict[str, Section] = {}
        # Messages of services and actions, and the files of texts.
        self.parts: set[str] = set()
        self.files: dict[str, str] = {}

    @classmethod
    def of(cls, name: str, text: str, file: str | None = None) -> _Group:
        group = cls(loose=True)
        group.add(name, text, file)
        return group

    def add(self, name: str, text: str, file: str | None = None) -> None:
        with _placed(file):
            if not _NAME.fullmatch(name):
                raise DefinitionError(f"{name[:80]!r} is no name such as package/msg/Type", type=name)
            if "/msg/" in name:
                found = sections(text, name)
            else:
                found = split(text, name)
                self.parts |= found.keys()
        self.names.add(name)
        self.texts |= found
        if file is not None:
            self.files |= dict.fromkeys(found, file)


@contextmanager
def _placed(file: str | None) -> Iterator[None]:
    """Give errors the name of a file."""
    try:
        yield
    except DefinitionError as error:
        if file is None or error.file is not None:
            raise
        line = "" if error.line is None else f":{error.line}"
        text = f"{file}{line}: {error}"
        raise DefinitionError(text, type=error.type, field=error.field, file=file, line=error.line) from None


def _text(file: Path) -> str:
    if file.stat().st_size > _MOST_TEXT:
        raise DefinitionError(f"{file}: larger than {_MOST_TEXT} octets", file=str(file))
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{file}: no UTF-8 at octet {error.start}", file=str(file)) from None
