"""Definitions of messages: the text of ``.msg``, ``.srv`` and ``.action`` files, parsed into kinds of fields.

A definition is the text of a ``.msg`` file, followed by those of the types in it, each behind a line of ``=``
and one that says ``MSG: package/Type``: what ``ros2 interface show`` and recordings have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from zwire.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CODES = {
    "bool": "?",
    "byte": "B",
    "char": "B",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}
"""Names of the numbers, and their codes in the module struct. A char of ROS 2 is an octet."""


@dataclass(frozen=True)
class Primitive:
    """A number or a boolean; ``name`` is ``byte`` for the octet that is no ``uint8`` in the hash."""

    code: str
    name: str = ""

    @classmethod
    def of(cls, name: str) -> Primitive:
        """Return the type of a name in definitions."""
        return cls(CODES[name], name if name == "byte" else "")


@dataclass(frozen=True)
class Text:
    """A text in UTF-8, of at most ``bound`` octets."""

    bound: int = 0


@dataclass(frozen=True)
class Several:
    """Items of one type: a fixed number ``length``, or a number given in the payload, at most ``bound``."""

    item: Kind
    length: int | None
    bound: int = 0


@dataclass(frozen=True)
class Record:
    """Fields in order, with the constants of the type and the defaults of fields."""

    name: str
    fields: tuple[tuple[str, Kind], ...]
    constants: tuple[tuple[str, Any], ...] = ()
    defaults: tuple[tuple[str, Any], ...] = ()
    size: int = field(default=0, init=False, compare=False)
    """Values in it, each item of a fixed array counted."""

    def __post_init__(self) -> None:
        size = sum(_size(kind) for _, kind in self.fields)
        if size > _MOST_VALUES:
            problem = f"{short(self.name)} has {size} values; {_MOST_VALUES} are read"
            raise DefinitionError(problem, type=self.name)
        object.__setattr__(self, "size", size)


Kind: TypeAlias = Primitive | Text | Several | Record

# Types of nearly every message, service and action, so that definitions may leave them out.
_KNOWN = {
    "builtin_interfaces/msg/Time": "int32 sec\nuint32 nanosec",
    "builtin_interfaces/msg/Duration": "int32 sec\nuint32 nanosec",
    "std_msgs/msg/Header": "builtin_interfaces/Time stamp\nstring frame_id",
    "unique_identifier_msgs/msg/UUID": "uint8[16] uuid",
    "service_msgs/msg/ServiceEventInfo": (
        "uint8 event_type\nbuiltin_interfaces/Time stamp\nchar[16] client_gid\nint64 sequence_number"
    ),
}
_ID = "unique_identifier_msgs/UUID goal_id"

_BETWEEN = re.compile(r"^=+[ \t\r]*$", re.MULTILINE)
_DASHES = re.compile(r"^---[ \t\r]*$", re.MULTILINE)

_FIELD = re.compile(
    r"(?P<type>[A-Za-z][\w/]*)(?:<=(?P<most>\d{1,10}))?(?P<array>\[(?P<bound><=)?(?P<length>\d{0,10})\])?"
    r"\s+(?P<name>[A-Za-z]\w*)(?P<rest>.*)",
    re.ASCII,
)
_QUOTED = re.compile(r"""\s*=?\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")

NOTHING = ("structure_needs_at_least_one_member", Primitive("B"))
"""The field of a type without fields: an empty structure of C has one member, and it is sent."""

_MOST_LENGTH = 1 << 20
"""Most items of an array with a fixed length; longer ones are a mistake, or an attack on memory."""

_MOST_DEPTH = 64
"""Most types within each other; the readers of payloads nest as deep."""


_MOST_VALUES = 1 << 20
"""Most values of a type, with those of types in it: a few types, each of two others, make millions."""


def _size(kind: Kind) -> int:
    match kind:
        case Record(size=size):
            return size
        case Several(item=item, length=length):
            return _size(item) * (1 if length is None else length)
        case _:
            return 1


def short(name: str) -> str:
    """Shorten the name of a type: ``package/msg/Type`` is ``package/Type``."""
    parts = name.split("/")
    return f"{parts[0]}/{parts[-1]}" if len(parts) > 1 else name


def full(name: str) -> str:
    """Complete the name of a type: ``package/Type`` is ``package/msg/Type``."""
    parts = name.split("/")
    return f"{parts[0]}/msg/{parts[1]}" if len(parts) == 2 else name


class Section(NamedTuple):
    """The text of a type, and the number of its first line in the text that was given."""

    line: int
    text: str


def sections(definition: str, name: str = "") -> dict[str, Section]:
    """Split a definition into the texts of its types, by their full names; that of ``name`` is the first.

    Raises:
        DefinitionError: A line of ``=`` is not followed by the name of a type.
    """
    first, *others = _at_lines(definition, _BETWEEN)
    found = {full(name): first}
    for start, other in others:
        text = other.lstrip()
        line = start + other[: len(other) - len(text)].count("\n")
        head, _, rest = text.partition("\n")
        if not head.startswith("MSG:"):
            raise DefinitionError(f"behind a line of = comes MSG: and a type, not {head[:80]!r}", line=line)
        found.setdefault(full(head.removeprefix("MSG:").strip()), Section(line + 1, rest))
    return found


def split(text: str, name: str) -> dict[str, Section]:
    """Return the messages of the text of a service or an action, by their full names.

    Raises:
        DefinitionError: The text has another number of parts at lines of ``---``.
    """
    action = "/action/" in name
    ends = ("Goal", "Result", "Feedback") if action else ("Request", "Response")
    parts = _at_lines(text, _DASHES)
    if len(parts) != len(ends):
        problem = f"{name}: {len(parts)} parts at lines of ---, not {len(ends)}"
        raise DefinitionError(problem, type=name)
    found = {f"{name}_{end}": part for end, part in zip(ends, parts, strict=True)}
    services = [name]
    if action:
        services = [f"{name}_SendGoal", f"{name}_GetResult"]
        made = {
            "SendGoal_Request": f"{_ID}\n{name}_Goal goal",
            "SendGoal_Response": "bool accepted\nbuiltin_interfaces/Time stamp",
            "GetResult_Request": _ID,
            "GetResult_Response": f"int8 status\n{name}_Result result",
            "FeedbackMessage": f"{_ID}\n{name}_Feedback feedback",
        }
        found |= {f"{name}_{end}": Section(1, part) for end, part in made.items()}
    for each in services:
        info = "service_msgs/ServiceEventInfo info"
        found[f"{each}_Event"] = Section(
            1, f"{info}\n{each}_Request[<=1] request\n{each}_Response[<=1] response"
        )
    return found


def _at_lines(text: str, between: re.Pattern[str]) -> list[Section]:
    found = []
    line = 1
    for part in between.split(text):
        found.append(Section(line, part))
        line += part.count("\n")  # the line between ends with the first newline of the next part
    return found


def parse(definition: str, name: str = "") -> Record:
    """Parse a definition; ``name`` is that of its first message, ``package/msg/Type``.

    Types of the same package need no package in front.

    Raises:
        DefinitionError: The text is no definition; names the type, its field and line.
    """
    return Parser(sections(definition, name), loose=True).find(full(name))


class Parser:
    """Parses the types of some texts, each once.

    Args:
        texts: The texts by the full names of types.
        known: Returns types that are not among the texts, or ``None``.
        loose: Whether a name without a package may be that of any package, as in some recordings.
    """

    def __init__(
        self,
        texts: dict[str, Section],
        known: Callable[[str], Record | None] = lambda _: None,
        *,
        loose: bool = False,
    ) -> None:
        self.texts = texts
        self.known = known
        self.loose = loose
        self.made: dict[str, Record] = {}

    def find(self, name: str, above: tuple[str, ...] = ()) -> Record:
        """Return the type of a full name.

        Raises:
            DefinitionError: There is no such type, or its text is no definition.
        """
        if name in self.made:
            return self.made[name]
        if name in above:
            raise DefinitionError(f"{short(name)} contains itself", type=name)
        if len(above) > _MOST_DEPTH:
            problem = f"{short(name)} is within {len(above)} types; {_MOST_DEPTH} are read"
            raise DefinitionError(problem, type=name)
        section = self.texts.get(name)
        found = self.known(name) if section is None else None
        if found is None:
            if section is None:
                if name not in _KNOWN:
                    raise DefinitionError(f"there is no definition of {short(name)}", type=name)
                section = Section(1, _KNOWN[name])
            found = self._record(name, section, (*above, name))
        self.made[name] = found
        return found

    def _record(self, name: str, section: Section, above: tuple[str, ...]) -> Record:
        fields: dict[str, Kind] = {}
        constants: dict[str, Any] = {}
        defaults: dict[str, Any] = {}

        def read(line: str, raw: str) -> None:
            match = _FIELD.fullmatch(line)
            if match is None:
                raise DefinitionError(f"{line[:80]!r} is no field")
            field, rest = match["name"], match["rest"].strip()
            kind = self._kind(match, name, above)
            if field in fields or field in constants:
                raise DefinitionError(f"{field} is there twice")
            behind = raw[raw.index(line) + match.end("name") :]
            if rest.startswith("="):
                constants[field] = _value(kind, rest[1:], behind)
                return  # a constant is not sent
            if rest:
                defaults[field] = _value(kind, rest, behind)
            fields[field] = kind

        for number, raw in enumerate(section.text.splitlines(), section.line):
            line = raw.partition("#")[0].strip()
            if not line or line.startswith("@"):
                continue  # the second form is an annotation of IDL, as some recordings have it
            try:
                read(line, raw)
            except DefinitionError as error:
                if error.type is not None:
                    raise
                found = _FIELD.fullmatch(line)
                reason = f"{short(name) or 'message'}: {error}"
                field = None if found is None else found["name"]
                raise DefinitionError(reason, type=name, line=number, field=field) from None
        members, *others = (tuple(part.items()) for part in (fields, constants, defaults))
        return Record(name, members or (NOTHING,), *others)

    def _kind(self, match: re.Match[str], record: str, above: tuple[str, ...]) -> Kind:
        kind = self._item(match["type"], int(match["most"] or 0), record, above)
        if not match["array"]:
            return kind
        number = int(match["length"] or 0)
        if match["bound"] is not None or not match["length"]:
            return Several(kind, None, number)
        if not 0 < number <= _MOST_LENGTH:
            raise DefinitionError(f"an array of {number} items is too {'long' if number else 'short'}")
        return Several(kind, number)

    def _item(self, name: str, most: int, record: str, above: tuple[str, ...]) -> Kind:
        if name in CODES:
            return Primitive.of(name)
        if name == "string":
            return Text(most)
        if name == "wstring":
            raise DefinitionError("wstring has another form with each vendor, and is not read")
        wanted = full(name)
        if "/" not in wanted:
            package = record.partition("/")[0] if "/" in record else ""
            near = [f"{package}/msg/{name}"] if package else []
            if name == "Header":
                near.append("std_msgs/msg/Header")
            if self.loose:
                near += [name, *(text for text in self.texts if text.endswith(f"/{name}"))]
            wanted = next(filter(self._has, near), name)
        if not self._has(wanted):
            raise DefinitionError(f"there is no definition of {name}")
        return self.find(wanted, above)

    def _has(self, name: str) -> bool:
        return any(name in texts for texts in (self.made, self.texts, _KNOWN)) or self.known(name) is not None


def _value(kind: Kind, text: str, raw: str) -> Any:  # noqa: ANN401 - a value of the kind
    """Read the value of a constant or a default. ``raw`` is the same with its comment."""
    text = text.strip()
    match kind:
        case Primitive(code="?"):
            if text.lower() in ("true", "false", "1", "0"):
                return text.lower() in ("true", "1")
        case Primitive(code=code):
            try:
                number = float(text) if code in "fd" else int(text, 10 if text.strip("+-").isdigit() else 0)
            except ValueError:
                raise DefinitionError(f"{text[:40]!r} is no number") from None
            if code not in "fd":
                bits = {"b": 8, "h": 16, "i": 32, "q": 64}[code.lower()]
                low = 0 if code.isupper() else -(1 << (bits - 1))
                if not low <= number < low + (1 << bits):
                    raise DefinitionError(f"{text[:40]} is beyond the type")
            return number
        case Text():
            if (quoted := _QUOTED.match(raw)) is not None:
                return re.sub(r"\\(.)", r"\1", quoted[1][1:-1])
            return text
        case Several(item=Primitive() | Text() as item, length=length, bound=bound):
            if text.startswith("[") and text.endswith("]"):
                parts = _parts(text[1:-1])
                values = [_value(item, part, part) for part in parts]
                if len(values) > (length or bound or len(values)) or (length and len(values) != length):
                    raise DefinitionError(f"{len(values)} values are not as many as the type has")
                return tuple(values)
    raise DefinitionError(f"{text[:40]!r} is no value of the type")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in re.findall(r"""\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^,]+)""", text)]


def nested(records: Iterable[Record]) -> dict[str, Record]:
    """Return the types and all types within them, by name."""
    found: dict[str, Record] = {}
    waiting: list[Kind] = list(records)
    while waiting:
        match waiting.pop():
            case Record(name=name, fields=fields) as record:
                if name not in found:
                    found[name] = record
                    waiting.extend(kind for _, kind in fields)
            case Several(item=item):
                waiting.append(item)
    return found
