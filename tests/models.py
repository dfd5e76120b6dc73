"""Models of each library that zwire.typed knows, and values of them."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pydantic
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from zwire import typed
from zwire.zenoh import ext

ID = UUID("3db014d2-a569-439c-b71f-2dbe4accdd4e")
NOON = datetime(2026, 11, 22, 12, 0, 0, 250_000, tzinfo=UTC)


class Gear(Enum):
    DRIVE = "d"
    REVERSE = "r"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Pose(NamedTuple):
    x: float
    y: float


class Formless:
    """Nothing has a form for it. The same text in every process, so that workers name their tests alike."""

    def __repr__(self):
        return "formless"


FORMLESS = Formless()


class Extra(TypedDict):
    note: str
    weight: NotRequired[float]


Metres = NewType("Metres", float)


@dataclass
class Circle:
    shape: Literal["circle"]
    radius: float


@dataclass
class Group:
    shape: Literal["group"]
    parts: "list[Circle | Group]" = field(default_factory=list)


@dataclass
class Everything:
    flag: bool
    count: int
    ratio: float
    text: str
    raw: bytes
    at: datetime
    day: date
    hour: time
    lasted: timedelta
    price: Decimal
    id: UUID
    gear: Gear
    level: Level
    pose: Pose
    extra: Extra
    numbers: list[int]
    names: set[str]
    pair: tuple[int, str]
    many: tuple[float, ...]
    by_name: dict[str, Level]
    by_number: dict[int, list[str]]
    maybe: int | None
    either: int | str
    figure: Circle | Group
    distance: Metres
    noted: Annotated[int, "something"]
    anything: Any
    defaulted: float = 0.5


EVERYTHING = Everything(
    flag=True,
    count=-(2**63),
    ratio=0.1,
    text="aé\N{ROBOT FACE}\0",
    raw=bytes(range(256)),
    at=NOON,
    day=date(2026, 11, 22),
    hour=time(12, 30),
    lasted=timedelta(seconds=1.5),
    price=Decimal("10.50"),
    id=ID,
    gear=Gear.REVERSE,
    level=Level.HIGH,
    pose=Pose(1.0, 2.0),
    extra={"note": "n"},
    numbers=[1, 2],
    names={"a", "b"},
    pair=(1, "a"),
    many=(1.0, 2.0),
    by_name={"a": Level.LOW},
    by_number={7: ["x"], -1: []},
    maybe=None,
    either="e",
    figure=Group("group", [Circle("circle", 1.0), Group("group")]),
    distance=Metres(3.5),
    noted=4,
    anything={"k": [1, 2.5, None, "t", {"deep": True}]},
)


class Struct(msgspec.Struct):
    x: float
    at: datetime
    tags: list[str] = []


class Model(pydantic.BaseModel):
    x: float
    at: datetime
    gear: Gear = Gear.DRIVE


@dataclass
class Both:
    struct: Struct
    models: list[Model]


@dataclass
class Inner:
    label: str
    value: float


@dataclass
class Fields:
    number: int
    wide: ext.UInt64
    names: list[str]
    inner: Inner


@dataclass
class Ambiguous:
    one: Pose | list[int]


@dataclass
class Untold:
    one: Everything | Circle


def message_class():
    """A message of protobuf, from a descriptor that is made here."""
    file = descriptor_pb2.FileDescriptorProto(name="zwire_test.proto", package="fleet", syntax="proto3")
    message = file.message_type.add(name="Position")
    for number, (name, kind) in enumerate([("x", 1), ("name", 9), ("inner", 11)], 1):
        message.field.add(
            name=name, number=number, type=kind, label=1, type_name=".fleet.Position" if kind == 11 else None
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("fleet.Position"))


def there_and_back(value, model=None, **options):
    payload, encoding = typed.encode(value, model, **options)
    return typed.decode(payload, encoding, model or type(value))
