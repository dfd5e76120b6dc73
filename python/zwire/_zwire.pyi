"""The compiled module. What programs import is in ``zwire.zenoh``."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from types import GenericAlias
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    Self,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    final,
    overload,
    type_check_only,
)
from uuid import UUID

from typing_extensions import Buffer, disjoint_base

from zwire.stats import NodeStats, SessionStats, SocketStats
from zwire.zenoh._enums import (
    CongestionControl,
    ConsolidationMode,
    InterceptionPoint,
    Locality,
    Priority,
    QueryTarget,
    Reliability,
    ReplyKeyExpr,
    SampleKind,
    SetIntersectionLevel,
    WhatAmI,
)
from zwire.zenoh.shm import ZShm
from zwire.zre._delivery import Delivery

__all__ = [
    "NTP64",
    "AdvancedPublisher",
    "AdvancedSubscriber",
    "ArrowBatch",
    "BatchCallback",
    "CacheConfig",
    "Callback",
    "CancellationToken",
    "Channel",
    "Config",
    "Decoder",
    "DefaultHandler",
    "Encoding",
    "Enter",
    "EntityGlobalId",
    "Evasive",
    "Event",
    "Exit",
    "FifoChannel",
    "FrameDecoder",
    "Handler",
    "Hello",
    "HistoryConfig",
    "Inbox",
    "Join",
    "KeyExpr",
    "LatestChannel",
    "Leader",
    "Leave",
    "Link",
    "LinkEvent",
    "LinkEventsListener",
    "Liveliness",
    "LivelinessToken",
    "LogCollector",
    "LogRecord",
    "LogSender",
    "MatchingListener",
    "MatchingStatus",
    "MessagesLost",
    "Miss",
    "MissDetectionConfig",
    "Parameters",
    "Pending",
    "Publisher",
    "PutSummary",
    "Querier",
    "Query",
    "QueryConsolidation",
    "Queryable",
    "RecoveryConfig",
    "RepliesConfig",
    "Reply",
    "ReplyError",
    "RingChannel",
    "Sample",
    "SampleMissListener",
    "Scout",
    "Selector",
    "Session",
    "SessionInfo",
    "Shout",
    "Shouted",
    "Silent",
    "SourceInfo",
    "SpoolAnswer",
    "SpoolAppender",
    "SpoolReceiver",
    "SpoolRows",
    "SpoolServer",
    "SpoolView",
    "SpoolWriter",
    "Stop",
    "Stopper",
    "Subscriber",
    "Timestamp",
    "TimestampContext",
    "TimestampId",
    "TimestampInstrumentation",
    "TimestampInstrumentationBuilder",
    "TimestampStack",
    "TimestampStackRecord",
    "Transport",
    "TransportEvent",
    "TransportEventsListener",
    "WakeThread",
    "Wakeups",
    "WhatAmIMatcher",
    "Whisper",
    "ZBytes",
    "ZenohId",
    "ZmtpEvent",
    "ZmtpSocket",
    "ZreNode",
    "__version__",
    "close_all",
    "config_defaults",
    "declare_advanced_publisher",
    "declare_advanced_subscriber",
    "end_query",
    "init_log_from_env_or",
    "log_close",
    "log_flush",
    "log_has_lines",
    "log_levels",
    "log_limit",
    "log_names",
    "log_reader",
    "log_take",
    "open",
    "put_batch",
    "scout",
    "try_init_log_from_env",
    "without_waiting",
    "zmtp_keypair",
    "zre_keypair",
    "zre_log_hash",
]

__version__: str

def config_defaults() -> str:
    """Give every key with its default for each mode, as a JSON object by path."""

_T = TypeVar("_T")
_H = TypeVar("_H")

_IntoWhatAmIMatcher: TypeAlias = WhatAmIMatcher | WhatAmI | str
_RustHandler: TypeAlias = (
    DefaultHandler[_T] | FifoChannel[_T] | RingChannel[_T] | Channel[_T] | LatestChannel[_T]
)
_PythonCallback: TypeAlias = Callable[[_T], Any] | BatchCallback[_T]
_PythonHandler: TypeAlias = tuple[_PythonCallback[_T], _H]

@type_check_only
class _Tree(Protocol):
    def to_json(self) -> Mapping[str, Any]: ...

_IntoConfig: TypeAlias = Config | Mapping[str, Any] | _Tree
_IntoKeyExpr: TypeAlias = KeyExpr | str
_IntoEncoding: TypeAlias = Encoding | str
_IntoParameters: TypeAlias = Parameters | dict[str, str] | str
_IntoTimestampId: TypeAlias = Buffer | TimestampId
_IntoZBytes: TypeAlias = Buffer | str

_Change: TypeAlias = Literal["connected", "reconnected", "disconnected"]
_EndReason: TypeAlias = Literal[
    "closed", "closed-by-peer", "lost", "io", "silent", "protocol", "unresponsive"
]

@final
class Config:
    """The configuration of a session: a tree of keys with checked values."""

    DEFAULT_CONFIG_PATH_ENV: ClassVar[str]
    def __hash__(self) -> int: ...
    def __new__(cls, tree: _IntoConfig | None = None) -> Self: ...
    @classmethod
    def from_env(cls) -> Self: ...
    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> Self:
        """Make one of a file: JSON5 (``.json5``, ``.json``) or YAML (``.yaml``, ``.yml``).

        YAML is read as eclipse-zenoh does: one document, the core schema of YAML 1.2 and binary numbers,
        aliases but no merge keys. A key that is a text takes what looks like a number as it is written.

        Raises:
            ConfigError: It cannot be read, or something in it is wrong; the message has line and column, or
                the path of the key.
        """
    @classmethod
    def from_json5(cls, json: str) -> Self: ...
    @classmethod
    def from_dict(cls, tree: dict[str, Any]) -> Self: ...
    def get_json(self, key: str) -> str: ...
    def insert_json5(self, key: str, value: Any) -> None: ...
    def ignored(self) -> list[str]: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Encoding:
    """What a payload holds: a name like a MIME type, and optionally a schema after a ``;``."""

    ZENOH_BYTES: ClassVar[Encoding]
    ZENOH_STRING: ClassVar[Encoding]
    ZENOH_SERIALIZED: ClassVar[Encoding]
    APPLICATION_OCTET_STREAM: ClassVar[Encoding]
    TEXT_PLAIN: ClassVar[Encoding]
    APPLICATION_JSON: ClassVar[Encoding]
    TEXT_JSON: ClassVar[Encoding]
    APPLICATION_CDR: ClassVar[Encoding]
    APPLICATION_CBOR: ClassVar[Encoding]
    APPLICATION_YAML: ClassVar[Encoding]
    TEXT_YAML: ClassVar[Encoding]
    TEXT_JSON5: ClassVar[Encoding]
    APPLICATION_PYTHON_SERIALIZED_OBJECT: ClassVar[Encoding]
    APPLICATION_PROTOBUF: ClassVar[Encoding]
    APPLICATION_JAVA_SERIALIZED_OBJECT: ClassVar[Encoding]
    APPLICATION_OPENMETRICS_TEXT: ClassVar[Encoding]
    IMAGE_PNG: ClassVar[Encoding]
    IMAGE_JPEG: ClassVar[Encoding]
    IMAGE_GIF: ClassVar[Encoding]
    IMAGE_BMP: ClassVar[Encoding]
    IMAGE_WEBP: ClassVar[Encoding]
    APPLICATION_XML: ClassVar[Encoding]
    APPLICATION_X_WWW_FORM_URLENCODED: ClassVar[Encoding]
    TEXT_HTML: ClassVar[Encoding]
    TEXT_XML: ClassVar[Encoding]
    TEXT_CSS: ClassVar[Encoding]
    TEXT_JAVASCRIPT: ClassVar[Encoding]
    TEXT_MARKDOWN: ClassVar[Encoding]
    TEXT_CSV: ClassVar[Encoding]
    APPLICATION_SQL: ClassVar[Encoding]
    APPLICATION_COAP_PAYLOAD: ClassVar[Encoding]
    APPLICATION_JSON_PATCH_JSON: ClassVar[Encoding]
    APPLICATION_JSON_SEQ: ClassVar[Encoding]
    APPLICATION_JSONPATH: ClassVar[Encoding]
    APPLICATION_JWT: ClassVar[Encoding]
    APPLICATION_MP4: ClassVar[Encoding]
    APPLICATION_SOAP_XML: ClassVar[Encoding]
    APPLICATION_YANG: ClassVar[Encoding]
    AUDIO_AAC: ClassVar[Encoding]
    AUDIO_FLAC: ClassVar[Encoding]
    AUDIO_MP4: ClassVar[Encoding]
    AUDIO_OGG: ClassVar[Encoding]
    AUDIO_VORBIS: ClassVar[Encoding]
    VIDEO_H261: ClassVar[Encoding]
    VIDEO_H263: ClassVar[Encoding]
    VIDEO_H264: ClassVar[Encoding]
    VIDEO_H265: ClassVar[Encoding]
    VIDEO_H266: ClassVar[Encoding]
    VIDEO_MP4: ClassVar[Encoding]
    VIDEO_OGG: ClassVar[Encoding]
    VIDEO_RAW: ClassVar[Encoding]
    VIDEO_VP8: ClassVar[Encoding]
    VIDEO_VP9: ClassVar[Encoding]

    def __new__(cls, encoding: _IntoEncoding | None = None) -> Self: ...
    def with_schema(self, schema: str) -> Encoding: ...
    @staticmethod
    def from_id(id: int, schema: Buffer | str | None = None) -> Encoding: ...
    @property
    def id(self) -> int: ...
    @property
    def schema(self) -> bytes | None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class EntityGlobalId:
    """The id of a session, publisher, subscriber, queryable or querier."""

    def __new__(cls, zid: ZenohId, eid: int) -> Self: ...
    @property
    def zid(self) -> ZenohId: ...
    @property
    def eid(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class KeyExpr:
    """A key expression: a set of keys, written as chunks between slashes, some of them wild."""

    def __new__(cls, key_expr: _IntoKeyExpr) -> Self: ...
    @classmethod
    def autocanonize(cls, key_expr: str) -> Self: ...
    def intersects(self, other: _IntoKeyExpr) -> bool: ...
    def includes(self, other: _IntoKeyExpr) -> bool: ...
    def relation_to(self, other: _IntoKeyExpr) -> SetIntersectionLevel: ...
    def join(self, other: _IntoKeyExpr) -> KeyExpr: ...
    def concat(self, other: _IntoKeyExpr) -> KeyExpr: ...
    def __truediv__(self, other: _IntoKeyExpr, /) -> KeyExpr: ...
    def __rtruediv__(self, other: str, /) -> KeyExpr: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __lt__(self, other: _IntoKeyExpr, /) -> bool: ...
    def __le__(self, other: _IntoKeyExpr, /) -> bool: ...
    def __gt__(self, other: _IntoKeyExpr, /) -> bool: ...
    def __ge__(self, other: _IntoKeyExpr, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class NTP64:
    """A time since 1970 in units of 2^-32 seconds, until February 2106."""

    def __new__(cls, seconds: int, nanos: int) -> Self: ...
    @staticmethod
    def from_int(value: int) -> NTP64: ...
    @classmethod
    def parse_rfc3339(cls, s: str) -> Self: ...
    def as_secs_f64(self) -> float: ...
    def as_secs(self) -> int: ...
    def as_nanos(self) -> int: ...
    def subsec_nanos(self) -> int: ...
    def to_datetime(self) -> datetime: ...
    def to_string_rfc3339_lossy(self) -> str: ...
    def __int__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __lt__(self, other: NTP64, /) -> bool: ...
    def __le__(self, other: NTP64, /) -> bool: ...
    def __gt__(self, other: NTP64, /) -> bool: ...
    def __ge__(self, other: NTP64, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Parameters:
    """Parameters of a query: ``name=value;name=value|value``."""

    def __hash__(self) -> int: ...
    def __new__(cls, parameters: _IntoParameters | None = None) -> Self: ...
    def is_empty(self) -> bool: ...
    @overload
    def get(self, key: str, default: str) -> str: ...
    @overload
    def get(self, key: str, default: str | None = None) -> str | None: ...
    def values(self, key: str) -> list[str]: ...
    def insert(self, key: str, value: str) -> str | None: ...
    def remove(self, key: str) -> str | None: ...
    def extend(self, parameters: _IntoParameters) -> None: ...
    def is_ordered(self) -> bool: ...
    def __bool__(self) -> bool: ...
    def __contains__(self, item: str, /) -> bool: ...
    def __getitem__(self, item: str, /) -> str | None: ...
    def __iter__(self) -> Iterator[tuple[str, str]]: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class QueryConsolidation:
    """How replies to a get are thinned out: a ``ConsolidationMode`` as an object."""

    AUTO: ClassVar[QueryConsolidation]
    DEFAULT: ClassVar[QueryConsolidation]

    def __new__(cls, mode: ConsolidationMode) -> Self: ...
    @property
    def mode(self) -> ConsolidationMode: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Sample:
    """A value of a key, or its deletion: what subscribers and gets receive."""

    @property
    def key_expr(self) -> KeyExpr: ...
    @property
    def payload(self) -> ZBytes: ...
    @property
    def kind(self) -> SampleKind: ...
    @property
    def encoding(self) -> Encoding: ...
    @property
    def timestamp(self) -> Timestamp | None: ...
    @property
    def congestion_control(self) -> CongestionControl: ...
    @property
    def priority(self) -> Priority: ...
    @property
    def express(self) -> bool: ...
    @property
    def reliability(self) -> Reliability: ...
    @property
    def attachment(self) -> ZBytes | None: ...
    @property
    def source_info(self) -> SourceInfo | None: ...
    @property
    def timestamp_stack(self) -> TimestampStack | None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Selector:
    """What a query asks: a key expression and parameters, written ``key?name=value;name=value``."""

    def __hash__(self) -> int: ...
    def __new__(cls, arg: Selector | _IntoKeyExpr, /, parameters: _IntoParameters | None = None) -> Self: ...
    @property
    def key_expr(self) -> KeyExpr: ...
    @key_expr.setter
    def key_expr(self, key_expr: _IntoKeyExpr) -> None: ...
    @property
    def parameters(self) -> Parameters: ...
    @parameters.setter
    def parameters(self, parameters: _IntoParameters) -> None: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class SourceInfo:
    """Who made a sample, and its own number there."""

    def __new__(cls, source_id: EntityGlobalId, source_sn: int) -> Self: ...
    @property
    def source_id(self) -> EntityGlobalId: ...
    @property
    def source_sn(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Timestamp:
    """A time and whose clock it is of. Ordered by time, then by id."""

    def __new__(cls, time: datetime | NTP64, id: _IntoTimestampId) -> Self: ...
    def get_time(self) -> datetime: ...
    def get_time_as_ntp64(self) -> NTP64: ...
    def get_id(self) -> TimestampId: ...
    def get_diff_duration(self, other: Timestamp) -> timedelta: ...
    def to_string_rfc3339_lossy(self) -> str: ...
    @classmethod
    def parse_rfc3339(cls, s: str) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __lt__(self, other: Timestamp, /) -> bool: ...
    def __le__(self, other: Timestamp, /) -> bool: ...
    def __gt__(self, other: Timestamp, /) -> bool: ...
    def __ge__(self, other: Timestamp, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class TimestampId:
    """Whose clock a timestamp is of: 1 to 16 bytes, not all zero."""

    def __new__(cls, bytes: _IntoTimestampId) -> Self: ...
    def __bytes__(self) -> bytes: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __lt__(self, other: TimestampId, /) -> bool: ...
    def __le__(self, other: TimestampId, /) -> bool: ...
    def __gt__(self, other: TimestampId, /) -> bool: ...
    def __ge__(self, other: TimestampId, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class TimestampContext:
    """The node that a timestamp callback is called in."""

    @property
    def zid(self) -> ZenohId: ...
    @property
    def whatami(self) -> WhatAmI: ...

@final
class TimestampInstrumentation:
    """Where a message is stamped; made by a :class:`TimestampInstrumentationBuilder`."""

    def is_instrumented(self, point: InterceptionPoint) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class TimestampInstrumentationBuilder:
    """Says where messages are stamped; each method gives a builder with that point changed."""

    def __new__(cls) -> Self: ...
    def set_send(self, enabled: bool) -> Self: ...
    def set_route(self, enabled: bool) -> Self: ...
    def set_receive(self, enabled: bool) -> Self: ...
    def build(self) -> TimestampInstrumentation:
        """The instrumentation.

        Raises:
            InvalidValue: No point is enabled.
        """

@final
class TimestampStackRecord:
    """One stamp of a message."""

    @property
    def point(self) -> InterceptionPoint: ...
    @property
    def is_custom(self) -> bool: ...
    def timestamp(self) -> Timestamp | bytes: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class TimestampStack:
    """When a message passed where, in the order in which it did.

    That of an answer goes on from that of its query.
    """

    @property
    def instrumentation(self) -> TimestampInstrumentation: ...
    @property
    def records(self) -> list[TimestampStackRecord]: ...

@final
class WhatAmIMatcher:
    """A set of node roles, written ``"router|peer"``."""

    def __new__(cls, matcher: str | None = None) -> Self: ...
    @classmethod
    def empty(cls) -> Self: ...
    def router(self) -> WhatAmIMatcher: ...
    def peer(self) -> WhatAmIMatcher: ...
    def client(self) -> WhatAmIMatcher: ...
    def is_empty(self) -> bool: ...
    def matches(self, whatami: WhatAmI | str) -> bool: ...
    def __contains__(self, whatami: WhatAmI | str, /) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class ZBytes:
    """Bytes: a payload or an attachment; a read-only buffer."""

    def __new__(cls, bytes: _IntoZBytes | None = None) -> Self: ...
    def to_bytes(self) -> bytes: ...
    def to_string(self) -> str: ...
    def as_shm(self) -> ZShm | None: ...
    def __bytes__(self) -> bytes: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> ZBytes: ...
    def __iter__(self) -> Iterator[int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class ZenohId:
    """The id of a node: up to 128 bits, in lower-case hexadecimal without leading zeros."""

    def __new__(cls, text: str) -> Self: ...
    def __bytes__(self) -> bytes: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __lt__(self, other: ZenohId, /) -> bool: ...
    def __le__(self, other: ZenohId, /) -> bool: ...
    def __gt__(self, other: ZenohId, /) -> bool: ...
    def __ge__(self, other: ZenohId, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class DefaultHandler(Generic[_T]):
    """A channel with the configured capacity."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(cls) -> Self: ...

@final
class FifoChannel(Generic[_T]):
    """A channel of that many items; when it is full, the sender is slowed down."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(cls, capacity: int) -> Self: ...

@final
class RingChannel(Generic[_T]):
    """A channel of the newest that many items; it never slows the sender down."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(cls, capacity: int) -> Self: ...

@final
class Channel(Generic[_T]):
    """A channel of that many items with a named policy for when it is full."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(
        cls,
        capacity: int = 256,
        *,
        full: Literal["drop_oldest", "drop_newest", "block"] = "drop_oldest",
        deadline: float | None = None,
    ) -> Self: ...
    @property
    def capacity(self) -> int: ...
    @property
    def full(self) -> Literal["drop_oldest", "drop_newest", "block"]: ...
    @property
    def deadline(self) -> float | None: ...

@final
class LatestChannel(Generic[_T]):
    """A channel of the newest item of each key, for at most that many keys."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(cls, capacity: int) -> Self: ...
    @property
    def capacity(self) -> int: ...

@final
class Callback(Generic[_T]):
    """A callback, and optionally what to call when no more items come, and with what it raises."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(
        cls,
        callback: Callable[[_T], Any],
        drop: Callable[[], Any] | None = None,
        *,
        indirect: bool = True,
        on_error: Callable[[BaseException], Any] | None = None,
    ) -> Self: ...
    def __call__(self, arg: _T) -> Any: ...
    @property
    def callback(self) -> Callable[[_T], Any]:
        """What is called with each item."""

    @property
    def drop(self) -> Callable[[], Any] | None:
        """What is called when no more items come; ``None``: nothing."""

    @property
    def indirect(self) -> bool:
        """As it was given. It changes nothing: a callback never runs in a thread of the network."""

    @property
    def on_error(self) -> Callable[[BaseException], Any] | None:
        """What is called with an exception of the callback; ``None``: ``sys.unraisablehook``."""

@final
class BatchCallback(Generic[_T]):
    """A callback that gets a list of at most ``max_items`` items: what has come, nothing is waited for."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(
        cls,
        callback: Callable[[list[_T]], Any],
        drop: Callable[[], Any] | None = None,
        *,
        max_items: int = 1024,
        on_error: Callable[[BaseException], Any] | None = None,
    ) -> Self: ...
    def __call__(self, arg: list[_T]) -> Any: ...
    @property
    def callback(self) -> Callable[[list[_T]], Any]:
        """What is called with each list of items."""

    @property
    def drop(self) -> Callable[[], Any] | None:
        """What is called when no more items come; ``None``: nothing."""

    @property
    def max_items(self) -> int:
        """Most items of a list."""

    @property
    def on_error(self) -> Callable[[BaseException], Any] | None:
        """What is called with an exception of the callback; ``None``: ``sys.unraisablehook``."""

@final
class Handler(Generic[_T]):
    """The receiving end of a channel."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def try_recv(self) -> _T | None:
        """Take the next item without waiting.

        Returns:
            The item, or ``None`` if there is none right now.
        """

    def recv(self, timeout: float | None = None) -> _T:
        """Wait for the next item. Ctrl-C ends the wait.

        Args:
            timeout: Seconds; for ever if left out.

        Raises:
            TimedOut: Nothing came in time.
            SessionClosed: The session is closed, and what had come before is taken.
        """

    def recv_many(self, max_items: int, timeout: float | None = None) -> list[_T]:
        """Take what is there in one go; wait for the first item only.

        Args:
            max_items: Most items.
            timeout: Seconds to wait for the first one; for ever if left out.

        Returns:
            The items in their order, none when the time is over.
        """

    @property
    def end(self) -> str | None:
        """How the get ended whose replies come here: ``completed``, ``no_queryable``, ``budget_spent``,
        ``timed_out``,
        ``link_lost`` or ``cancelled``. ``None`` while it goes on, and for anything else.
        """

    @property
    def dropped(self) -> int:
        """How many items were dropped because the channel was full."""

    @property
    def replaced(self) -> int:
        """How many items gave their place to newer ones of their key, in a ``LatestChannel``."""

    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> _T: ...

@final
class WakeThread:
    """The thread that tells event loops."""

    def __new__(cls) -> Self: ...
    def stop(self) -> None: ...

@final
class Wakeups:
    """One event loop, as the compiled module sees it."""

    def __new__(cls, thread: WakeThread, wake: Callable[[], object]) -> Self: ...
    def take(self) -> list[int]: ...

@final
class Inbox(Generic[_T]):
    """A channel as an event loop reads it: nothing in it waits."""

    def __new__(cls, handler: Handler[_T]) -> Self: ...
    def take(self) -> _T | None: ...
    def count_error(self) -> None: ...
    def bind(self, wakeups: Wakeups, token: int) -> None: ...
    def arm(self) -> bool: ...
    def disarm(self) -> None: ...

@final
class Pending:
    """What an event loop waits for that is no item of a channel."""

    @staticmethod
    def declarations(
        of: Session | Subscriber[Any] | AdvancedSubscriber[Any] | Queryable[Any] | LivelinessToken,
    ) -> Pending: ...
    @staticmethod
    def everything(of: Session) -> Pending: ...
    @staticmethod
    def matching(of: Publisher | AdvancedPublisher | Querier, n: int) -> Pending: ...
    def look(self) -> bool: ...
    def bind(self, wakeups: Wakeups, token: int) -> None: ...
    def arm(self) -> bool: ...
    def disarm(self) -> None: ...

@final
class Stopper:
    """Ends a call early that waits in another thread."""

    def __new__(cls) -> Self: ...
    def run(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T: ...
    def stop(self) -> None: ...

def end_query(query: Query, how: Literal["returned", "raised", "went-on"]) -> None:
    """End a query whose callback, or turn of a loop, has come back in an event loop."""

def without_waiting(
    function: Callable[..., _T], *args: Any, **kwargs: Any
) -> tuple[_T, Pending | Literal[False] | None]:
    """Call something; what commands of a session in it would wait for is not waited for."""

def open(
    config: _IntoConfig | None = None,
    *,
    timestamp_callback: Callable[[TimestampContext], bytes] | None = None,
) -> Session:
    """Open a session.

    Args:
        config: A :class:`Config`, a dict of keys, or a :class:`zwire.config.SessionConfig`; the defaults of a
            peer if
            left out. Its ``connect/timeout_ms`` and ``scouting/delay`` bound how long this takes.
        timestamp_callback: Makes the stamps of messages that want some (``timestamp_instrumentation``)
            instead of the clock: where one is sent, in the thread that sends it, and where one is received,
            in the thread that takes it. Where it fails there is no stamp; ``sys.unraisablehook`` hears why.

    Returns:
        An open session, whose context closes it. Opening takes place before this returns: a client has its
        link.

    Raises:
        ConfigError: Keys do not hold together, or a certificate cannot be used.
        ConnectError: No endpoint answers, or one cannot be listened on.
        AuthenticationError: The other side does not let us in, or we not it.

    Source: zenoh-behaviour 1.4.
    """

@overload
def scout(
    handler: _RustHandler[Hello] | None = None,
    what: _IntoWhatAmIMatcher | None = None,
    config: _IntoConfig | None = None,
) -> Scout[Handler[Hello]]:
    """Ask who is there, by multicast, and go on listening until the search is stopped.

    Args:
        handler: A channel or a callback for the answers; the default channel if left out.
        what: The roles that are asked for, such as ``"router|peer"``; routers and peers if left out.
        config: Group, interfaces and time to live, below ``scouting/multicast``.

    Returns:
        The search. A node answers each question on each interface, so it comes more than once.

    Raises:
        ConfigError: The configuration is wrong.

    Source: zenoh-behaviour 1.6.
    """

@overload
def scout(
    handler: _PythonHandler[Hello, _H],
    what: _IntoWhatAmIMatcher | None = None,
    config: _IntoConfig | None = None,
) -> Scout[_H]: ...
@overload
def scout(
    handler: _PythonCallback[Hello],
    what: _IntoWhatAmIMatcher | None = None,
    config: _IntoConfig | None = None,
) -> Scout[None]: ...
def close_all() -> None:
    """Close what the program has left open."""

def try_init_log_from_env() -> None:
    """Write the log to standard error as ``RUST_LOG`` asks, such as ``zenoh::net=debug,info``."""

def init_log_from_env_or(level: str) -> None:
    """Write the log to standard error as ``RUST_LOG`` asks, or else as ``level`` does."""

def log_reader(reader: Callable[[], None], end: Callable[[], None]) -> None: ...
def log_names() -> list[str]: ...
def log_levels(levels: Sequence[int]) -> None: ...
def log_limit(burst: int | None, seconds: float) -> None: ...
def log_take() -> list[tuple[int, int, float, str, str, int, str, dict[str, int | float | str]]] | None: ...
def log_flush(seconds: float) -> bool: ...
def log_close(seconds: float) -> bool: ...
def log_has_lines() -> bool: ...
def put_batch(
    session: Session,
    batch: _ArrowArray,
    *,
    key_expr: _IntoKeyExpr | None = None,
    congestion_control: CongestionControl | None = None,
    priority: Priority | None = None,
    express: bool | None = None,
) -> PutSummary:
    """Publish every row of a record batch."""

def column_tables() -> dict[str, tuple[list[tuple[str, str, str]], dict[str, str]]]:
    """Give name, SQL type and meaning of the columns of each table, and their former names."""

@type_check_only
class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@final
class ArrowBatch:
    """A record batch that others read by the Arrow C interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...
    @property
    def column_names(self) -> list[str]: ...
    @property
    def num_rows(self) -> int: ...
    def __len__(self) -> int: ...

@final
class Decoder:
    """Reads captures and gives what is Zenoh, ZMTP and ZRE in them."""

    def __new__(
        cls,
        sources: Sequence[str | PathLike[str] | Buffer],
        *,
        ports: Sequence[int] = ...,
        keys: Sequence[bytes] = ...,
        max_rows: int = 32_768,
        max_bytes: int = ...,
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> ArrowBatch: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    @staticmethod
    def schema() -> object:
        """Give the columns as a capsule of the Arrow C interface."""

    def jsonl(self) -> bytes:
        """Give about a megabyte of JSON Lines, nothing at the end."""

    def text(self) -> bytes:
        """Give about a megabyte of lines for people, nothing at the end."""

    @property
    def position(self) -> int:
        """Bytes of the sources that were read so far."""

    @property
    def size(self) -> int | None:
        """Bytes of the sources; ``None`` if one of them is a pipe."""

@final
class FrameDecoder:
    """Decodes bytes of Zenoh that are in no capture."""

    def __new__(
        cls,
        frames: Iterable[Buffer | tuple[Any, ...]],
        *,
        stream: bool = True,
        max_rows: int = 32_768,
        max_bytes: int = ...,
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> ArrowBatch: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    @staticmethod
    def schema() -> object:
        """Give the columns as a capsule of the Arrow C interface."""

@final
class SpoolView:
    """A spool in a folder, read without a lock."""

    def __new__(cls, dir: str | PathLike[str]) -> Self: ...
    @property
    def id(self) -> str: ...
    @property
    def table(self) -> str: ...
    @property
    def shard_count(self) -> int: ...
    @property
    def shard_keys(self) -> list[str] | None: ...
    @property
    def created(self) -> int: ...
    @property
    def columns(self) -> list[str]: ...
    def bounds(self) -> list[tuple[int, int]]: ...
    def marks(self) -> list[dict[str, int]]: ...
    def at(self, time: int) -> dict[int, int]: ...
    def received(self, shard: int, offset: int) -> int | None: ...
    def walk(
        self,
        start: dict[int, int],
        end: dict[int, int],
        max_rows: int | None,
        max_bytes: int | None,
    ) -> dict[int, int]: ...
    def split(
        self, start: dict[int, int], end: dict[int, int], parts: int
    ) -> list[tuple[int, int, int, int]]: ...
    def read(
        self,
        shard: int | None,
        start: int,
        stop: int,
        columns: list[str] | None,
        limits: tuple[int, int],
    ) -> SpoolRows: ...
    def commit(self, consumer: str, offsets: dict[int, int], now: int) -> None: ...
    def consumers(self) -> dict[str, tuple[dict[int, int], int]]: ...

@final
class SpoolRows:
    """The rows of a range of a spool, batch by batch; what it raises is a ``SpoolError``."""

    @staticmethod
    def over(receiver: SpoolReceiver, batches: Iterator[ArrowBatch]) -> SpoolRows: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> ArrowBatch: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class SpoolServer:
    """Answers ranges of a spool with its blocks."""

    def __new__(cls, dir: str | PathLike[str]) -> Self: ...
    def answer(self, shard: int | None, start: int, stop: int, max_bytes: int) -> SpoolAnswer: ...
    def rest(self) -> None: ...

@final
class SpoolAnswer:
    """The labels and blocks of an answer."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[ZBytes, ZBytes]: ...

@final
class SpoolReceiver:
    """Makes batches of labels and blocks."""

    def __new__(
        cls,
        origin: str,
        table: str,
        kept: list[str],
        shard: int | None,
        range: tuple[int, int],
        columns: list[str] | None,
        limits: tuple[int, int],
    ) -> Self: ...
    @property
    def next(self) -> int: ...
    @staticmethod
    def until(label: ZBytes) -> int | None: ...
    def take(self, label: ZBytes, block: ZBytes) -> None: ...
    def next_batch(self) -> ArrowBatch | None: ...
    def finish(self) -> None: ...

@final
class SpoolAppender:
    """Writes rows and batches into a spool."""

    def __new__(cls, dir: str | PathLike[str], settings: Mapping[str, object]) -> Self: ...
    def append(self, shard: int | None, row: Mapping[str, object]) -> None: ...
    def append_batch(self, shard: int | None, batch: _ArrowArray) -> int: ...
    def append_gap(self, shard: int, kind: str, count: int | None, detail: str) -> None: ...
    def flush(self) -> None: ...
    def seal(self) -> None: ...
    def close(self) -> None: ...

@final
class SpoolWriter:
    """Writes what comes from a network into a spool."""

    def __new__(
        cls,
        dir: str | PathLike[str],
        settings: Mapping[str, object],
        linger: float,
        keep_seconds: float | None,
        keep_bytes: int | None,
        consumer_seconds: float | None,
    ) -> Self: ...
    @property
    def id(self) -> str: ...
    def stats(self) -> dict[str, Any]: ...
    def flush(self, timeout: float) -> bool: ...
    @property
    def last(self) -> int | None: ...
    def feed(self, feed: Subscriber[Any] | ZreNode | LogCollector) -> None: ...
    def subscriber(
        self,
        session: Session,
        key_expr: _IntoKeyExpr,
        handler: object,
        *,
        history: bool,
        max_age: float | None = None,
    ) -> Subscriber[Any]: ...
    def gap(self, kind: str, detail: str) -> None: ...
    def begin_close(self) -> None: ...
    def close(self, timeout: float) -> None: ...

@final
class PutSummary:
    """What ``put_batch`` has done."""

    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def unmatched(self) -> int: ...
    @property
    def first_unmatched(self) -> int | None: ...

@final
class CancellationToken:
    """Ends gets early: given to any number of them, cancelled once."""

    def __new__(cls) -> Self: ...
    def cancel(self) -> None:
        """End every get that was started with this token and is not over.

        Returns when their callbacks have come back, for the last time; within such a callback, at once.
        """

    @property
    def is_cancelled(self) -> bool:
        """Whether ``cancel`` was called."""

@final
class Link:
    """An established link."""

    @property
    def zid(self) -> ZenohId: ...
    @property
    def src(self) -> str: ...
    @property
    def dst(self) -> str: ...
    @property
    def group(self) -> str | None: ...
    @property
    def mtu(self) -> int: ...
    @property
    def is_streamed(self) -> bool: ...
    @property
    def interfaces(self) -> list[str]: ...
    @property
    def auth_identifier(self) -> str | None: ...
    @property
    def priorities(self) -> tuple[int, int] | None: ...
    @property
    def reliability(self) -> Reliability: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]  # for want of need

@final
class LinkEvent:
    """A link is there, or gone."""

    @property
    def kind(self) -> SampleKind: ...
    @property
    def link(self) -> Link: ...
    @property
    def change(self) -> _Change: ...
    @property
    def reason(self) -> _EndReason | None: ...
    @property
    def detail(self) -> str | None: ...

@final
class LinkEventsListener(Generic[_H]):
    """A listener to links that come and go."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    @property
    def handler(self) -> _H: ...
    def undeclare(self) -> None:
        """End it.

        Raises:
            UsageError: It is undeclared already.
        """

    def try_recv(self: LinkEventsListener[Handler[LinkEvent]]) -> LinkEvent | None:
        """Take the next event without waiting.

        Returns:
            The event, or ``None`` if there is none right now.
        """

    def recv(self: LinkEventsListener[Handler[LinkEvent]], timeout: float | None = None) -> LinkEvent:
        """Wait for the next event. Ctrl-C ends the wait.

        Args:
            timeout: Seconds; for ever if left out.

        Raises:
            TimedOut: Nothing came in time.
            SessionClosed: The session is closed, and what had come before is taken.
        """

    def __iter__(self: LinkEventsListener[Handler[LinkEvent]]) -> Handler[LinkEvent]: ...

@final
class Liveliness:
    """Tokens of this session and of others."""

    def declare_token(self, key_expr: _IntoKeyExpr) -> LivelinessToken:
        """Declare that a key is alive as long as the token and the session are.

        Args:
            key_expr: The key.

        Returns:
            The token.

        Raises:
            KeyExprError: The key expression is not legal.
            SessionClosed: The session is closed.
            UsageError: The session was inherited over a fork.

        Source: zenoh-behaviour 3.10.
        """

    @overload
    def get(
        self,
        key_expr: _IntoKeyExpr,
        handler: _RustHandler[Reply] | None = None,
        *,
        timeout: float | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> Handler[Reply]:
        """Ask which tokens are alive.

        Args:
            key_expr: The keys of interest.
            handler: A channel or a callback; the default channel if left out.
            timeout: Seconds; ``queries_default_timeout`` of the configuration if left out.
            cancellation_token: Ends the query when it is cancelled.

        Returns:
            The handler; each token is the key of the sample of a reply.

        Raises:
            KeyExprError: The key expression is not legal.
            SessionClosed: The session is closed.
            UsageError: The session was inherited over a fork.

        Source: zenoh-behaviour 3.10.
        """

    @overload
    def get(
        self,
        key_expr: _IntoKeyExpr,
        handler: _PythonHandler[Reply, _H],
        *,
        timeout: float | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> _H: ...
    @overload
    def get(
        self,
        key_expr: _IntoKeyExpr,
        handler: _PythonCallback[Reply],
        *,
        timeout: float | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> None: ...
    @overload
    def declare_subscriber(
        self,
        key_expr: _IntoKeyExpr,
        handler: _RustHandler[Sample] | None = None,
        *,
        history: bool | None = None,
    ) -> Subscriber[Handler[Sample]]:
        """Subscribe to tokens: a sample of kind ``PUT`` when a key comes to life, ``DELETE`` when its last
        token is gone.

        Args:
            key_expr: The keys of interest.
            handler: A channel, a callback, or a pair; the default channel if left out.
            history: Whether those that are alive already come first.

        Returns:
            The subscriber.

        Raises:
            KeyExprError: The key expression is not legal.
            SessionClosed: The session is closed.
            UsageError: The session was inherited over a fork.

        Source: zenoh-behaviour 3.10.
        """

    @overload
    def declare_subscriber(
        self,
        key_expr: _IntoKeyExpr,
        handler: _PythonHandler[Sample, _H],
        *,
        history: bool | None = None,
    ) -> Subscriber[_H]: ...
    @overload
    def declare_subscriber(
        self,
        key_expr: _IntoKeyExpr,
        handler: _PythonCallback[Sample],
        *,
        history: bool | None = None,
    ) -> Subscriber[None]: ...

@final
class LivelinessToken:
    """A declared token."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until all neighbours know of it: what they send from then on can arrive.

        Args:
            timeout: Seconds; for ever if left out.

        Raises:
            TimedOut: The time is over.
        """

    def undeclare(self) -> None:
        """End it.

        Raises:
            UsageError: It is undeclared already.
        """

@final
class MatchingListener(Generic[_H]):
    """A listener to changes of the matching status."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    @property
    def handler(self) -> _H:
        """The channel, or what was given with the callback."""

    def undeclare(self) -> None:
        """End it. What had come before can still be taken.

        Raises:
            UsageError: It is undeclared already.
        """

    def try_recv(self: MatchingListener[Handler[MatchingStatus]]) -> MatchingStatus | None:
        """Take the next change without waiting.

        Returns:
            The change, or ``None`` if there is none right now.
        """

    def recv(self: MatchingListener[Handler[MatchingStatus]], timeout: float | None = None) -> MatchingStatus:
        """Wait for the next change. Ctrl-C ends the wait.

        Args:
            timeout: Seconds; for ever if left out.

        Raises:
            TimedOut: Nothing came in time.
            SessionClosed: The session is closed, and what had come before is taken.
        """

    def __iter__(self: MatchingListener[Handler[MatchingStatus]]) -> Handler[MatchingStatus]: ...

@final
class MatchingStatus:
    """Whether somebody is at the other end."""

    @property
    def matching(self) -> bool: ...
    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Publisher:
    """A declared publisher."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    @property
    def id(self) -> EntityGlobalId: ...
    @property
    def key_expr(self) -> KeyExpr: ...
    @property
    def encoding(self) -> Encoding: ...
    @property
    def congestion_control(self) -> CongestionControl: ...
    @property
    def priority(self) -> Priority: ...
    @property
    def reliability(self) -> Reliability: ...
    @property
    def matching_status(self) -> MatchingStatus:
        """Whether there are subscribers, as far as neighbours have told."""

    def put(
        self,
        payload: _IntoZBytes,
        *,
        encoding: _IntoEncoding | None = None,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Publish a value with the key, priority and congestion control of the publisher.

        Args:
            payload: Bytes, any buffer, or text as UTF-8. It is not copied before it is sent, and read until
                then.
            encoding: What it holds, for whoever reads it; nothing is converted. ``zenoh/bytes`` if left out.
            attachment: Bytes beside the payload, up to what a message may hold.
            timestamp: When it was made; made up by this session with ``timestamping/enabled``, else by the
                first router.
            source_info: Who made it, and its number there.

        Raises:
            UsageError: The publisher is undeclared, or was inherited over a fork.
            SessionClosed: The session is closed.
        """

    def delete(
        self,
        *,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Publish that the key has no value any more.

        Args:
            attachment: Bytes beside the payload, up to what a message may hold.
            timestamp: When it was made; made up by this session with ``timestamping/enabled``, else by the
                first router.
            source_info: Who made it, and its number there.

        Raises:
            UsageError: The publisher is undeclared, or was inherited over a fork.
            SessionClosed: The session is closed.
        """

    def wait_matching(self, n: int = 1, timeout: float | None = None) -> None:
        """Wait until there are subscribers.

        Args:
            n: How many. Those of this session count one by one, those of others as far as neighbours tell: a
                router tells of
                each key expression once, however many are behind it.
            timeout: Seconds; for ever if left out.

        Raises:
            TimedOut: The time is over.

        Source: zenoh-behaviour 3.11.
        """

    def undeclare(self) -> None:
        """End it.

        Raises:
            UsageError: It is undeclared already.
        """

    @overload
    def declare_matching_listener(
        self,
        handler: _RustHandler[MatchingStatus] | None = None,
    ) -> MatchingListener[Handler[MatchingStatus]]:
        """Listen to changes of whether there are subscribers.

        Args:
            handler: A channel, a callback, or a pair; the default channel if left out.

        Returns:
            The listener. Its first item is the first change, not how things are now: see ``matching_status``.
        """

    @overload
    def declare_matching_listener(
        self,
        handler: _PythonHandler[MatchingStatus, _H],
    ) -> MatchingListener[_H]: ...
    @overload
    def declare_matching_listener(
        self,
        handler: _PythonCallback[MatchingStatus],
    ) -> MatchingListener[None]: ...

@final
class Querier:
    """A declared querier."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    @property
    def id(self) -> EntityGlobalId: ...
    @property
    def key_expr(self) -> KeyExpr: ...
    @property
    def accept_replies(self) -> ReplyKeyExpr: ...
    @property
    def matching_status(self) -> MatchingStatus:
        """Whether there are queryables that it would ask, as far as neighbours have told."""

    @overload
    def get(
        self,
        handler: _RustHandler[Reply] | None = None,
        *,
        parameters: _IntoParameters | None = None,
        payload: _IntoZBytes | None = None,
        encoding: _IntoEncoding | None = None,
        attachment: _IntoZBytes | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: CancellationToken | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> Handler[Reply]:
        """Ask, with the key, target, consolidation and timeout of the querier.

        Args:
            handler: A channel or a callback; the default channel if left out.
            parameters: What stands behind the ``?`` of a selector.
            payload: A value for those who answer.
            encoding: What it holds.
            attachment: Bytes beside it.
            source_info: Who asks.
            cancellation_token: Ends the query when it is cancelled.

        Returns:
            The handler: an iterator over replies that ends with the query.

        Raises:
            UsageError: The querier is undeclared, or was inherited over a fork.
            SessionClosed: The session is closed.
        """

    @overload
    def get(
        self,
        handler: _PythonHandler[Reply, _H],
        *,
        parameters: _IntoParameters | None = None,
        payload: _IntoZBytes | None = None,
        encoding: _IntoEncoding | None = None,
        attachment: _IntoZBytes | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: CancellationToken | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> _H: ...
    @overload
    def get(
        self,
        handler: _PythonCallback[Reply],
        *,
        parameters: _IntoParameters | None = None,
        payload: _IntoZBytes | None = None,
        encoding: _IntoEncoding | None = None,
        attachment: _IntoZBytes | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: CancellationToken | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> None: ...
    def wait_matching(self, n: int = 1, timeout: float | None = None) -> None:
        """Wait until there are queryables that it would ask.

        Args:
            n: How many. Those of this session count one by one, those of others as far as neighbours tell: a
                router tells of
                each key expression once, however many are behind it.
            timeout: Seconds; for ever if left out.

        Raises:
            TimedOut: The time is over.

        Source: zenoh-behaviour 3.11.
        """

    def undeclare(self) -> None:
        """End it.

        Raises:
            UsageError: It is undeclared already.
        """

    @overload
    def declare_matching_listener(
        self,
        handler: _RustHandler[MatchingStatus] | None = None,
    ) -> MatchingListener[Handler[MatchingStatus]]:
        """Listen to changes of whether there are queryables that it would ask.

        Args:
            handler: A channel, a callback, or a pair; the default channel if left out.

        Returns:
            The listener. Its first item is the first change, not how things are now: see ``matching_status``.
        """

    @overload
    def declare_matching_listener(
        self,
        handler: _PythonHandler[MatchingStatus, _H],
    ) -> MatchingListener[_H]: ...
    @overload
    def declare_matching_listener(
        self,
        handler: _PythonCallback[MatchingStatus],
    ) -> MatchingListener[None]: ...

@final
class Query:
    """A question to answer, any number of times.

    The asker is told that no more answers come when the query is dropped, left as a context manager, or
    nothing refers to it; also when the callback or the turn of a loop that got it has answered it and is
    over, or the callback has raised, whoever keeps it. Answers of other threads do not count for that.
    """

    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    @property
    def selector(self) -> Selector: ...
    @property
    def key_expr(self) -> KeyExpr: ...
    @property
    def parameters(self) -> Parameters: ...
    @property
    def payload(self) -> ZBytes | None: ...
    @property
    def encoding(self) -> Encoding | None: ...
    @property
    def attachment(self) -> ZBytes | None: ...
    @property
    def source_info(self) -> SourceInfo | None: ...
    @property
    def timestamp_stack(self) -> TimestampStack | None: ...
    def accepts_replies(self) -> ReplyKeyExpr:
        """Give which keys the asker accepts."""

    def reply(
        self,
        key_expr: _IntoKeyExpr,
        payload: _IntoZBytes,
        *,
        encoding: _IntoEncoding | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
    ) -> None:
        """Answer with a value, any number of times.

        Args:
            key_expr: Its key, which has to be one that was asked for unless the asker accepts any.
            payload: Bytes, any buffer, or text as UTF-8.
            encoding: What it holds.
            congestion_control: No effect, as in eclipse-zenoh: that of the query counts.
            priority: No effect either.
            express: Past the batches.
            attachment: Bytes beside it.
            timestamp: When it was made. Replies are not stamped by themselves, and consolidation goes by
                this.

        Raises:
            KeyExprError: The key expression is not legal.
            UsageError: The key is not what was asked for, or the query is finished.

        Source: zenoh-behaviour 3.8.
        """

    def reply_err(self, payload: _IntoZBytes, *, encoding: _IntoEncoding | None = None) -> None:
        """Answer with an error.

        Args:
            payload: What went wrong: bytes, any buffer, or text as UTF-8.
            encoding: What it holds.

        Raises:
            UsageError: The query is finished.
        """

    def reply_del(
        self,
        key_expr: _IntoKeyExpr,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
    ) -> None:
        """Answer that a key has no value any more. Arguments are those of :meth:`reply`.

        Raises:
            KeyExprError: The key expression is not legal.
            UsageError: The key is not what was asked for, or the query is finished.
        """

    def drop(self) -> None:
        """Tell the asker that no more answers come. The second time it does nothing."""

@final
class Queryable(Generic[_H]):
    """A declared queryable."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    @property
    def id(self) -> EntityGlobalId: ...
    @property
    def key_expr(self) -> KeyExpr: ...
    @property
    def handler(self) -> _H:
        """The channel, or what was given with the callback."""

    @property
    def dropped(self) -> int: ...
    @property
    def errors(self) -> int: ...
    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until all neighbours know of it: what they send from then on can arrive.

        Args:
            timeout: Seconds; for ever if left out.

        Raises:
            TimedOut: The time is over.
        """

    def undeclare(self) -> None:
        """End it. What had come before can still be taken.

        Raises:
            UsageError: It is undeclared already.
        """

    def try_recv(self: Queryable[Handler[Query]]) -> Query | None:
        """Take the next query without waiting.

        Returns:
            The query, or ``None`` if there is none right now.
        """

    def recv(self: Queryable[Handler[Query]], timeout: float | None = None) -> Query:
        """Wait for the next query. Ctrl-C ends the wait.

        Args:
            timeout: Seconds; for ever if left out.

        Raises:
            TimedOut: Nothing came in time.
            SessionClosed: The session is closed, and what had come before is taken.
        """

    def __iter__(self: Queryable[Handler[Query]]) -> Handler[Query]:
        """Take one query after the other, until it is undeclared or its session closes.

        Each loop is one by itself. The query that it gave last is finished when it asks for the next, or is
        left, if it was answered by then, in that thread.
        """

@final
class Reply:
    """An answer to a get: a sample or an error."""

    @property
    def result(self) -> Sample | ReplyError:
        """The sample or the error."""

    @property
    def ok(self) -> Sample | None:
        """The sample, or ``None`` if it is an error."""

    @property
    def err(self) -> ReplyError | None:
        """The error, or ``None`` if it is a sample."""

    @property
    def replier_id(self) -> EntityGlobalId | None:
        """Who answered, where it said so."""

@final
class ReplyError:
    """An error that a queryable answered."""

    @property
    def payload(self) -> ZBytes: ...
    @property
    def encoding(self) -> Encoding: ...
    @property
    def timestamp_stack(self) -> TimestampStack | None: ...

@final
class Session:
    """An open session. A context manager; it closes when it is dropped."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    def zid(self) -> ZenohId:
        """Give the id of this node."""

    @property
    def id(self) -> EntityGlobalId:
        """The id of this session as an entity: node and number."""

    @property
    def info(self) -> SessionInfo:
        """What there is to know about links and neighbours."""

    def close(self, timeout: float | None = None) -> None:
        """Say goodbye, and end every handler and callback. Again, or from any thread, it does no harm.

        Args:
            timeout: Seconds for what is queued towards the network and for callbacks that are at work,
                together; two if left
                out. A callback that still runs at its end is named in a warning of the log.

        When this has returned no callback is called any more. Whoever waits for the session gets
        ``SessionClosed``; what has
        come before can still be taken.
        """

    def is_closed(self) -> bool:
        """Say whether the session is closed."""

    def share(self) -> Session:
        """Give another handle of the same session, as ``zwire.spark.session`` lends them."""

    def ready(self, timeout: float | None = None) -> bool:
        """Wait until all neighbours know what this session has declared.

        Args:
            timeout: Seconds; for ever if left out.

        Returns:
            Whether they do: ``False`` when the time is over first. A client waits for its link, too.
        """

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all neighbours have taken what this session has published, best effort excepted.

        Args:
            timeout: Seconds; for ever if left out.

        Raises:
            TimedOut: The time is over.
            LinkClosed: The link of a client went before; publications may be lost.
        """

    def new_timestamp(self) -> Timestamp:
        """Give a time stamp that is later than all before it, of this node's clock.

        Source: zenoh-behaviour 3.3.
        """

    def stats(self) -> SessionStats:
        """Give counters since the session was opened: messages, bytes, and drops by reason.

        Returns:
            Counts by name, such as ``session.dropped.put_no_subscriber`` or ``handler.dropped``.
        """

    def listening(self) -> list[str]:
        """Give the endpoints on which this node listens, as ``tcp/address:port``, with the ports that were
        chosen.
        """

    def declare_keyexpr(self, key_expr: _IntoKeyExpr) -> KeyExpr:
        """Give a key expression a number on the links of this session, so that messages that use the result
        are shorter.

        Returns:
            The same key expression, for ``put``, ``get`` and the declarations of this session.

        Raises:
            KeyExprError: The key expression is not legal.
            SessionClosed: The session is closed.
            UsageError: The session was inherited over a fork.

        Source: zenoh-behaviour 4.1.
        """

    def undeclare(self, obj: KeyExpr | _Declared) -> None:
        """Take back a key expression of :meth:`declare_keyexpr`, or any other declaration of this session.

        Raises:
            UsageError: It is undeclared already, or of another session.
        """

    def put(
        self,
        key_expr: _IntoKeyExpr,
        payload: _IntoZBytes,
        *,
        encoding: _IntoEncoding | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Publish a value on a key.

        Returns when it has its place in the queues towards those who want it. Without a subscriber it is
        gone.

        Args:
            key_expr: The key, or a key expression: then all who want one of its keys get it.
            payload: Bytes, any buffer, or text as UTF-8. It is not copied before it is sent, and read until
                then.
            encoding: What it holds, for whoever reads it; nothing is converted. ``zenoh/bytes`` if left out.
            congestion_control: What happens where a queue is full; ``DROP`` if left out.
            priority: What goes first; ``DATA`` if left out.
            express: Past the batches: lower latency, more packets.
            attachment: Bytes beside the payload, up to what a message may hold.
            timestamp: When it was made; made up by this session with ``timestamping/enabled``, else by the
                first router.
            allowed_destination: Whether this session, others, or both may get it.
            source_info: Who made it, and its number there.

        Raises:
            KeyExprError: The key expression is not legal.
            SessionClosed: The session is closed.
            UsageError: The session was inherited over a fork.

        Source: zenoh-behaviour 3.2 and 2.8.
        """

    def put_batch(
        self,
        batch: _ArrowArray,
        *,
        key_expr: _IntoKeyExpr | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
    ) -> PutSummary:
        """Publish every row of an Arrow record batch, without a Python object per row.

        Args:
            batch: What has the Arrow C interface. Columns by name: ``key`` (texts; not needed when
                ``key_expr`` is given),
                ``payload`` (binary or texts), and optionally ``encoding``, ``attachment``, ``kind`` (``put``
                or ``del``),
                ``priority`` (1 to 7), ``congestion`` (``drop``, ``block``, ``block_first``), ``express``. The
                time stamp is ``timestamp``, as ``recv_batch`` has it (instants with a time zone), or ``hlc``,
                all 64 bits of it, which goes first; ``hlc_id`` is whose clock it is of, that of this session
                where a row says nothing. ``ts``, the former name of ``timestamp``, is accepted for one
                release. Others are an error.
            key_expr: The key of all rows.
            congestion_control: For rows that say nothing; ``BLOCK`` if left out, since a batch fills queues
                at once.
            priority: For rows that say nothing.
            express: For rows that say nothing.

        Returns:
            How many rows and bytes went.

        Raises:
            RowError: A row is wrong; ``row``, ``key`` and ``reason`` say which and why. Those before it are
                published.
            SessionClosed: The session is closed.
        """

    def delete(
        self,
        key_expr: _IntoKeyExpr,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Publish that a key has no value any more. Subscribers get a sample of kind ``DELETE`` with an empty
        payload.

        Args:
            key_expr: The key, or a key expression.
            congestion_control: What happens where a queue is full; ``DROP`` if left out.
            priority: What goes first; ``DATA`` if left out.
            express: Past the batches: lower latency, more packets.
            attachment: Bytes beside the payload, up to what a message may hold.
            timestamp: When it was made; made up by this session with ``timestamping/enabled``, else by the
                first router.
            allowed_destination: Whether this session, others, or both may get it.
            source_info: Who made it, and its number there.

        Raises:
            KeyExprError: The key expression is not legal.
            SessionClosed: The session is closed.
            UsageError: The session was inherited over a fork.

        Source: zenoh-behaviour 3.2.
        """

    @overload
    def get(
        self,
        selector: Selector | _IntoKeyExpr,
        handler: _RustHandler[Reply] | None = None,
        *,
        target: QueryTarget | None = None,
        consolidation: ConsolidationMode | QueryConsolidation | None = None,
        accept_replies: ReplyKeyExpr | None = None,
        timeout: float | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        payload: _IntoZBytes | None = None,
        encoding: _IntoEncoding | None = None,
        attachment: _IntoZBytes | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: CancellationToken | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> Handler[Reply]:
        """Ask queryables. Replies come through the handler and end when all who were asked have finished.

        Args:
            selector: What is asked for: a key expression, perhaps with parameters behind a ``?``.
            handler: A channel or a callback; the default channel if left out.
            target: Which of the matching queryables are asked; the nearest complete one, or all, if left out.
            consolidation: How several replies with one key are thinned out; the newest of each key if left
                out.
            accept_replies: Whether replies may have keys outside of what is asked.
            timeout: Seconds, at least one millisecond; ``queries_default_timeout`` of the configuration,
                10 s, if left out.
            congestion_control: What happens where a queue is full; ``BLOCK`` if left out.
            priority: What goes first.
            express: Past the batches.
            payload: A value for those who answer.
            encoding: What it holds.
            attachment: Bytes beside it.
            source_info: Who asks.
            cancellation_token: Ends the query when it is cancelled.
            allowed_destination: Whether this session, others, or both are asked.

        Returns:
            The handler: an iterator over replies that ends with the query. ``handler.end`` says how it ended.
            Over time, the
            last reply is an error whose payload is ``Timeout``. With nobody to ask it ends at once, without a
            reply.

        Raises:
            KeyExprError: The key expression is not legal.
            SessionClosed: The session is closed.
            UsageError: The session was inherited over a fork.

        Source: zenoh-behaviour 3.6 to 3.9.
        """

    @overload
    def get(
        self,
        selector: Selector | _IntoKeyExpr,
        handler: _PythonHandler[Reply, _H],
        *,
        target: QueryTarget | None = None,
        consolidation: ConsolidationMode | QueryConsolidation | None = None,
        accept_replies: ReplyKeyExpr | None = None,
        timeout: float | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        payload: _IntoZBytes | None = None,
        encoding: _IntoEncoding | None = None,
        attachment: _IntoZBytes | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: CancellationToken | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> _H: ...
    @overload
    def get(
        self,
        selector: Selector | _IntoKeyExpr,
        handler: _PythonCallback[Reply],
        *,
        target: QueryTarget | None = None,
        consolidation: ConsolidationMode | QueryConsolidation | None = None,
        accept_replies: ReplyKeyExpr | None = None,
        timeout: float | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        payload: _IntoZBytes | None = None,
        encoding: _IntoEncoding | None = None,
        attachment: _IntoZBytes | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: CancellationToken | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> None: ...
    @overload
    def declare_subscriber(
        self,
        key_expr: _IntoKeyExpr,
        handler: _RustHandler[Sample] | None = None,
        *,
        allowed_origin: Locality | None = None,
    ) -> Subscriber[Handler[Sample]]:
        """Subscribe to a key expression.

        Args:
            key_expr: The keys that are wanted.
            handler: A channel, a callback, or a pair of a callback and what ``handler`` of the subscriber
                shall be; the
                default channel if left out.
            allowed_origin: Whether samples of this session, of others, or of both are wanted.

        Returns:
            The subscriber. Others know of it a moment later: see :meth:`Subscriber.wait_ready`.

        Raises:
            KeyExprError: The key expression is not legal.
            SessionClosed: The session is closed.
            UsageError: The session was inherited over a fork.
            ValueError: The handler is none.

        Source: zenoh-behaviour 3.4.
        """

    @overload
    def declare_subscriber(
        self,
        key_expr: _IntoKeyExpr,
        handler: _PythonHandler[Sample, _H],
        *,
        allowed_origin: Locality | None = None,
    ) -> Subscriber[_H]: ...
    @overload
    def declare_subscriber(
        self,
        key_expr: _IntoKeyExpr,
        handler: _PythonCallback[Sample],
        *,
        allowed_origin: Locality | None = None,
    ) -> Subscriber[None]: ...
    @overload
    def declare_queryable(
        self,
        key_expr: _IntoKeyExpr,
        handler: _RustHandler[Query] | None = None,
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable[Handler[Query]]:
        """Answer queries on a key expression.

        Args:
            key_expr: The keys that it answers for.
            handler: A channel, a callback, or a pair. A query is finished when the callback that has answered
                it returns, when the loop over the channel that has answered it goes on, or when nothing
                refers to it.
            complete: Whether it knows all there is of its keys, so that nobody else needs to be asked.
            allowed_origin: Whether queries of this session, of others, or of both are answered.

        Returns:
            The queryable.

        Raises:
            KeyExprError: The key expression is not legal.
            SessionClosed: The session is closed.
            UsageError: The session was inherited over a fork.
            ValueError: The handler is none.

        Source: zenoh-behaviour 3.8.
        """

    @overload
    def declare_queryable(
        self,
        key_expr: _IntoKeyExpr,
        handler: _PythonHandler[Query, _H],
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable[_H]: ...
    @overload
    def declare_queryable(
        self,
        key_expr: _IntoKeyExpr,
        handler: _PythonCallback[Query],
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable[None]: ...
    def declare_publisher(
        self,
        key_expr: _IntoKeyExpr,
        *,
        encoding: _IntoEncoding | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        reliability: Reliability | None = None,
        allowed_destination: Locality | None = None,
    ) -> Publisher:
        """Prepare for publications on a key: they carry a number instead of it, and go nowhere while nobody
        subscribes.

        Args:
            key_expr: The key, or a key expression.
            encoding: Of values that name none.
            congestion_control: What happens where a queue is full; ``DROP`` if left out.
            priority: What goes first; ``DATA`` if left out.
            express: Past the batches: lower latency, more packets.
            reliability: The channel that they take; ``RELIABLE`` if left out.
            allowed_destination: Whether this session, others, or both may get them.

        Returns:
            The publisher.

        Raises:
            KeyExprError: The key expression is not legal.
            SessionClosed: The session is closed.
            UsageError: The session was inherited over a fork.

        Source: zenoh-behaviour 3.2 and 4.5.
        """

    def declare_querier(
        self,
        key_expr: _IntoKeyExpr,
        *,
        target: QueryTarget | None = None,
        consolidation: ConsolidationMode | QueryConsolidation | None = None,
        accept_replies: ReplyKeyExpr | None = None,
        timeout: float | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        allowed_destination: Locality | None = None,
    ) -> Querier:
        """Prepare for queries on a key expression.

        Args:
            key_expr: What is asked for.
            target: Which of the matching queryables are asked; the nearest complete one, or all, if left out.
            consolidation: How several replies with one key are thinned out; the newest of each key if left
                out.
            accept_replies: Whether replies may have keys outside of what is asked.
            timeout: Seconds, at least one millisecond; ``queries_default_timeout`` of the configuration,
                10 s, if left out.
            congestion_control: What happens where a queue is full; ``BLOCK`` if left out.
            priority: What goes first; ``DATA`` if left out.
            express: Past the batches: lower latency, more packets.
            allowed_destination: Whether this session, others, or both are asked.

        Returns:
            The querier.

        Raises:
            KeyExprError: The key expression is not legal.
            SessionClosed: The session is closed.
            UsageError: The session was inherited over a fork.

        Source: zenoh-behaviour 3.6.
        """

    def liveliness(self) -> Liveliness:
        """Give access to tokens: what is alive."""

@type_check_only
class _Declared(Protocol):
    def undeclare(self) -> None: ...

@final
class SessionInfo:
    """What there is to know about links and neighbours."""

    def zid(self) -> ZenohId: ...
    def routers_zid(self) -> list[ZenohId]: ...
    def peers_zid(self) -> list[ZenohId]: ...
    def transports(self) -> list[Transport]: ...
    def links(self) -> list[Link]: ...
    @overload
    def declare_transport_events_listener(
        self, handler: _RustHandler[TransportEvent] | None = None, *, history: bool | None = None
    ) -> TransportEventsListener[Handler[TransportEvent]]: ...
    @overload
    def declare_transport_events_listener(
        self, handler: _PythonHandler[TransportEvent, _H], *, history: bool | None = None
    ) -> TransportEventsListener[_H]: ...
    @overload
    def declare_transport_events_listener(
        self, handler: _PythonCallback[TransportEvent], *, history: bool | None = None
    ) -> TransportEventsListener[None]: ...
    @overload
    def declare_link_events_listener(
        self, handler: _RustHandler[LinkEvent] | None = None, *, history: bool | None = None
    ) -> LinkEventsListener[Handler[LinkEvent]]: ...
    @overload
    def declare_link_events_listener(
        self, handler: _PythonHandler[LinkEvent, _H], *, history: bool | None = None
    ) -> LinkEventsListener[_H]: ...
    @overload
    def declare_link_events_listener(
        self, handler: _PythonCallback[LinkEvent], *, history: bool | None = None
    ) -> LinkEventsListener[None]: ...

@final
class Hello:
    """A node that has answered."""

    @property
    def whatami(self) -> WhatAmI: ...
    @property
    def zid(self) -> ZenohId: ...
    @property
    def locators(self) -> list[str]: ...
    @property
    def source(self) -> str: ...

@final
class Scout(Generic[_H]):
    """A search for nodes."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    @property
    def handler(self) -> _H:
        """The channel, or what was given with the callback."""

    @property
    def dropped(self) -> int:
        """How many answers were dropped because the handler was full."""

    def stop(self) -> None:
        """End the search. A second time it does nothing."""

    def try_recv(self: Scout[Handler[Hello]]) -> Hello | None:
        """Take the next answer without waiting.

        Returns:
            The answer, or ``None`` if there is none right now.
        """

    def recv(self: Scout[Handler[Hello]], timeout: float | None = None) -> Hello:
        """Wait for the next answer. Ctrl-C ends the wait.

        Args:
            timeout: Seconds; for ever if left out.

        Raises:
            TimedOut: Nothing came in time.
            SessionClosed: The session is closed, and what had come before is taken.
        """

    def __iter__(self: Scout[Handler[Hello]]) -> Handler[Hello]: ...

@final
class Subscriber(Generic[_H]):
    """A declared subscriber."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    @property
    def id(self) -> EntityGlobalId: ...
    @property
    def key_expr(self) -> KeyExpr: ...
    @property
    def handler(self) -> _H:
        """The channel, or what was given with the callback."""

    @property
    def dropped(self) -> int:
        """How many samples were dropped because the handler was full."""

    @property
    def replaced(self) -> int: ...
    @property
    def errors(self) -> int: ...
    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until all neighbours know of it: what they send from then on can arrive.

        Args:
            timeout: Seconds; for ever if left out.

        Raises:
            TimedOut: The time is over.
        """

    def undeclare(self) -> None:
        """End it. What had come before can still be taken.

        Raises:
            UsageError: It is undeclared already.
        """

    def try_recv(self: Subscriber[Handler[Sample]]) -> Sample | None:
        """Take the next sample without waiting.

        Returns:
            The sample, or ``None`` if there is none right now.
        """

    def recv(self: Subscriber[Handler[Sample]], timeout: float | None = None) -> Sample:
        """Wait for the next sample. Ctrl-C ends the wait.

        Args:
            timeout: Seconds; for ever if left out.

        Raises:
            TimedOut: Nothing came in time.
            SessionClosed: The session is closed, and what had come before is taken.
        """

    def __iter__(self: Subscriber[Handler[Sample]]) -> Handler[Sample]: ...
    def recv_many(
        self: Subscriber[Handler[Sample]], max_items: int, timeout: float | None = None
    ) -> list[Sample]:
        """Take what is there in one go; wait for the first sample only.

        Args:
            max_items: Most samples.
            timeout: Seconds to wait for the first one; for ever if left out.

        Returns:
            The samples in their order, none when the time is over.
        """

    def recv_batch(
        self: Subscriber[Handler[Sample]], max_rows: int = 65536, timeout: float | None = None
    ) -> ArrowBatch:
        """Take what is there as an Arrow record batch, without a Python object per sample; wait for the first
        sample only.

        Args:
            max_rows: Most rows. A batch holds about 8 MiB at most, and a sample of 256 KiB or more alone,
                without a copy.
            timeout: Seconds to wait for the first sample; for ever if left out.

        Returns:
            A batch for ``pyarrow.record_batch(...)`` and whatever else reads Arrow, without rows when the
            time is over. Columns are those of ``zwire.columns.RECEIVED``:
            ``key``, ``payload``, ``kind``, ``encoding``, ``timestamp``, ``attachment``, ``priority``,
            ``congestion``, ``express``.

        Raises:
            SessionClosed: The session is closed, and what had come before is taken.
        """

@final
class Transport:
    """An open session with another node."""

    @property
    def zid(self) -> ZenohId: ...
    @property
    def whatami(self) -> WhatAmI: ...
    @property
    def is_qos(self) -> bool: ...
    @property
    def is_multicast(self) -> bool: ...
    @property
    def is_shm(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]  # for want of need

@disjoint_base
class Event:
    """Something that happened on the network of a node of ZRE."""

    @property
    def type(self) -> str: ...
    @property
    def peer(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def time(self) -> float: ...

@final
class TransportEvent:
    """A node is connected, or not any more."""

    @property
    def kind(self) -> SampleKind: ...
    @property
    def transport(self) -> Transport: ...
    @property
    def change(self) -> _Change: ...
    @property
    def reason(self) -> _EndReason | None: ...
    @property
    def detail(self) -> str | None: ...

@final
class TransportEventsListener(Generic[_H]):
    """A listener to nodes that connect and disconnect."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    @property
    def handler(self) -> _H: ...
    def undeclare(self) -> None:
        """End it.

        Raises:
            UsageError: It is undeclared already.
        """

    def try_recv(self: TransportEventsListener[Handler[TransportEvent]]) -> TransportEvent | None:
        """Take the next event without waiting.

        Returns:
            The event, or ``None`` if there is none right now.
        """

    def recv(
        self: TransportEventsListener[Handler[TransportEvent]], timeout: float | None = None
    ) -> TransportEvent:
        """Wait for the next event. Ctrl-C ends the wait.

        Args:
            timeout: Seconds; for ever if left out.

        Raises:
            TimedOut: Nothing came in time.
            SessionClosed: The session is closed, and what had come before is taken.
        """

    def __iter__(self: TransportEventsListener[Handler[TransportEvent]]) -> Handler[TransportEvent]: ...

@final
class Enter(Event):
    """A peer is there."""

    @property
    def headers(self) -> dict[str, str]: ...
    def header(self, name: str, default: str | None = None) -> str | None: ...

@final
class Exit(Event):
    """A peer is gone."""

@final
class Evasive(Event):
    """A peer gives no sign of life and is asked for one."""

@final
class Silent(Event):
    """A peer does not answer."""

@final
class Join(Event):
    """A peer is in a group now."""

    @property
    def group(self) -> str: ...

@final
class Leave(Event):
    """A peer is not in a group any more."""

    @property
    def group(self) -> str: ...

@final
class Whisper(Event):
    """A message of a peer for this node."""

    @property
    def content(self) -> list[bytes]: ...

@final
class Shout(Event):
    """A message of a peer for a group."""

    @property
    def group(self) -> str: ...
    @property
    def content(self) -> list[bytes]: ...

@final
class MessagesLost(Event):
    """Messages of a peer did not arrive."""

    @property
    def lost(self) -> int: ...

@final
class Leader(Event):
    """Somebody leads a group."""

    @property
    def group(self) -> str: ...

@final
class Stop(Event):
    """The node has stopped."""

@final
class Shouted:
    """What became of a message for a group."""

    @property
    def peers(self) -> dict[str, Delivery]: ...
    @property
    def queued(self) -> int: ...
    @property
    def full(self) -> int: ...
    @property
    def not_responding(self) -> int: ...
    @property
    def refused(self) -> int: ...

_Frames: TypeAlias = str | Buffer | Iterable[str | Buffer]
_Uuid: TypeAlias = str | UUID

@disjoint_base
class ZreNode:
    """What ``zwire.zre.Node`` is made of."""

    def __new__(cls, settings: dict[str, Any], callback: Callable[[Event], object] | None = None) -> Self: ...
    def start(self) -> None: ...
    def stop(self, linger: float = 1.0) -> None: ...
    @property
    def uuid(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def endpoint(self) -> str | None: ...
    @property
    def running(self) -> bool: ...
    def set_header(self, name: str, value: str) -> None: ...
    def join(self, group: str) -> bool: ...
    def leave(self, group: str) -> bool: ...
    def whisper(self, peer: _Uuid, content: _Frames, *, patience: float = 0.0) -> Delivery: ...
    def shout(self, group: str, content: _Frames, *, patience: float = 0.0) -> Shouted: ...
    def _send_many(
        self,
        peer: _Uuid | None,
        group: str | None,
        contents: Iterable[_Frames] | _ArrowArray,
        patience: float,
    ) -> list[int]: ...
    def peers(self) -> list[str]: ...
    def peers_by_group(self, group: str) -> list[str]: ...
    def own_groups(self) -> list[str]: ...
    def peer_groups(self) -> list[str]: ...
    def peer_address(self, peer: _Uuid) -> str | None: ...
    def peer_name(self, peer: _Uuid) -> str | None: ...
    def peer_headers(self, peer: _Uuid) -> dict[str, str]: ...
    def peer_header(self, peer: _Uuid, name: str) -> str | None: ...
    def peer_generation(self, peer: _Uuid) -> str | None: ...
    def wait_for_peers(
        self, count: int, timeout: float | None = None, *, group: str | None = None
    ) -> list[str]: ...
    def require_peer(self, endpoint: str) -> None: ...
    def contest(self, group: str) -> None: ...
    def leader(self, group: str) -> str | None: ...
    def gossip_bind(self, endpoint: str) -> str: ...
    def gossip_connect(self, endpoint: str) -> None: ...
    def try_recv(self) -> Event | None: ...
    def recv(self, timeout: float | None = None) -> Event: ...
    def recv_many(self, max_items: int, timeout: float | None = None) -> list[Event]: ...
    def recv_batch(self, max_rows: int = 65536, timeout: float | None = None) -> ArrowBatch: ...
    def __iter__(self) -> Handler[Event]: ...
    def stats(self) -> NodeStats: ...
    def doctor(self) -> dict[str, Any]: ...

@final
class LogRecord:
    """A line of ZRE/LOG."""

    @property
    def level(self) -> str: ...
    @property
    def event(self) -> str: ...
    @property
    def node(self) -> int: ...
    @property
    def peer(self) -> int: ...
    @property
    def time(self) -> float: ...
    @property
    def data(self) -> str: ...
    @property
    def sender(self) -> str: ...

@final
class LogCollector:
    """Collects what nodes log."""

    def __new__(
        cls,
        bind: str = "tcp://*:*",
        advertise: str | None = None,
        *,
        queue: int = 65536,
        queue_bytes: int = 33_554_432,
        on_overflow: str = "drop_oldest",
    ) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    def close(self) -> None: ...
    @property
    def endpoint(self) -> str: ...
    @property
    def dropped(self) -> int: ...
    @property
    def malformed(self) -> int: ...
    def try_recv(self) -> LogRecord | None: ...
    def recv(self, timeout: float | None = None) -> LogRecord: ...
    def recv_many(self, max_items: int, timeout: float | None = None) -> list[LogRecord]: ...
    def __iter__(self) -> Handler[LogRecord]: ...

@final
class LogSender:
    """Logs in the name of a node."""

    def __new__(cls, node: str) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    def connect(self, endpoint: str) -> None: ...
    def log(
        self,
        level: str,
        event: str = "",
        data: str = "",
        *,
        peer: str | int | None = None,
        time: float | None = None,
    ) -> None: ...
    def close(self, linger: float = 1.0) -> None: ...

def zre_keypair() -> tuple[str, str]:
    """Make a pair of CURVE keys, public and secret, in Z85."""

def zre_log_hash(text: str) -> int:
    """Give the hash that ZRE/LOG has for nodes and peers."""

@final
class ZmtpEvent:
    """Something that has happened to the connections of a socket of ZeroMQ."""

    @property
    def type(self) -> str: ...
    @property
    def endpoint(self) -> str: ...
    @property
    def remote(self) -> str | None: ...
    @property
    def identity(self) -> bytes: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def error(self) -> Exception | None: ...

_Frame: TypeAlias = str | Buffer
# Lists and tuples; of `list[str | Buffer]` in a union mypy would refuse lists that mix texts and bytes.
_Message: TypeAlias = _Frame | Sequence[_Frame]

@disjoint_base
class ZmtpSocket:
    """What the sockets of ``zwire.zmtp`` are made of."""

    def __new__(cls, socket_type: str, options: dict[str, Any]) -> Self: ...
    def bind(self, endpoint: str) -> str: ...
    def connect(self, endpoint: str, *, wait: float | None = None) -> str: ...
    def unbind(self, endpoint: str) -> None: ...
    def disconnect(self, endpoint: str) -> None: ...
    def send(self, frames: _Message, timeout: float | None = None) -> None: ...
    def send_many(
        self,
        messages: Iterable[_Message] | _ArrowArray,
        timeout: float | None = None,
        *,
        head: _Message | None = None,
    ) -> int: ...
    @overload
    def recv(self, timeout: float | None = None, *, copy: Literal[True] = True) -> list[bytes]: ...
    @overload
    def recv(self, timeout: float | None = None, *, copy: Literal[False]) -> list[ZBytes]: ...
    @overload
    def recv_many(
        self, max_items: int, timeout: float | None = None, *, copy: Literal[True] = True
    ) -> list[list[bytes]]: ...
    @overload
    def recv_many(
        self, max_items: int, timeout: float | None = None, *, copy: Literal[False]
    ) -> list[list[ZBytes]]: ...
    def recv_batch(self, max_rows: int = 65536, timeout: float | None = None) -> ArrowBatch: ...
    def subscribe(self, prefix: _Frame) -> None: ...
    def unsubscribe(self, prefix: _Frame) -> bool: ...
    def events(self, timeout: float | None = None) -> list[ZmtpEvent]: ...
    def stats(self) -> SocketStats: ...
    @property
    def connected(self) -> int: ...
    @property
    def endpoints(self) -> list[str]: ...
    def identities(self) -> list[bytes]: ...
    def close(self, linger: float | None = None) -> None: ...
    @property
    def closed(self) -> bool: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> list[bytes]: ...

def zmtp_keypair() -> tuple[str, str]:
    """Make a pair of CURVE keys, public and secret, as Z85 of 40 characters."""

@final
class RepliesConfig:
    """How a cache answers. Of this only ``express`` has an effect, in eclipse-zenoh nothing has."""

    def __new__(
        cls,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
    ) -> Self: ...

@final
class CacheConfig:
    """What an advanced publisher keeps: its newest ``max_samples`` publications, one if that is None."""

    def __new__(
        cls, max_samples: int | None = None, *, replies_config: RepliesConfig | None = None
    ) -> Self: ...

@final
class MissDetectionConfig:
    """How subscribers of an advanced publisher see what they miss; times are in seconds."""

    def __new__(
        cls,
        *,
        heartbeat: float | timedelta | None = None,
        sporadic_heartbeat: float | timedelta | None = None,
    ) -> Self: ...

@final
class HistoryConfig:
    """What an advanced subscriber gets of the past; ``max_age`` is in seconds."""

    def __new__(
        cls,
        *,
        detect_late_publishers: bool | None = None,
        max_samples: int | None = None,
        max_age: float | timedelta | None = None,
    ) -> Self: ...

@final
class RecoveryConfig:
    """How an advanced subscriber gets what it misses; ``periodic_queries`` is in seconds."""

    def __new__(
        cls, *, periodic_queries: float | timedelta | None = None, heartbeat: bool | None = None
    ) -> Self: ...

@final
class Miss:
    """Publications that an advanced subscriber has missed, one after the other."""

    @property
    def source(self) -> EntityGlobalId: ...
    @property
    def nb(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]  # for want of need

@final
class AdvancedPublisher:
    """A publisher that numbers and keeps what it publishes."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    @property
    def id(self) -> EntityGlobalId: ...
    @property
    def key_expr(self) -> KeyExpr: ...
    @property
    def encoding(self) -> Encoding: ...
    @property
    def congestion_control(self) -> CongestionControl: ...
    @property
    def priority(self) -> Priority: ...
    def put(
        self,
        payload: _IntoZBytes,
        *,
        encoding: _IntoEncoding | None = None,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> None: ...
    def delete(
        self,
        *,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> None: ...
    def wait_matching(self, n: int = 1, timeout: float | None = None) -> None: ...
    def undeclare(self) -> None: ...

@final
class AdvancedSubscriber(Generic[_H]):
    """A subscriber that orders what it gets, asks for what is missing, and says what is lost."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    @property
    def id(self) -> EntityGlobalId: ...
    @property
    def key_expr(self) -> KeyExpr: ...
    @property
    def handler(self) -> _H: ...
    @property
    def dropped(self) -> int: ...
    @overload
    def sample_miss_listener(
        self, handler: _RustHandler[Miss] | None = None
    ) -> SampleMissListener[Handler[Miss]]: ...
    @overload
    def sample_miss_listener(self, handler: _PythonHandler[Miss, _T]) -> SampleMissListener[_T]: ...
    @overload
    def sample_miss_listener(self, handler: _PythonCallback[Miss]) -> SampleMissListener[None]: ...
    @overload
    def detect_publishers(
        self, handler: _RustHandler[Sample] | None = None, *, history: bool | None = None
    ) -> Subscriber[Handler[Sample]]: ...
    @overload
    def detect_publishers(
        self, handler: _PythonHandler[Sample, _T], *, history: bool | None = None
    ) -> Subscriber[_T]: ...
    @overload
    def detect_publishers(
        self, handler: _PythonCallback[Sample], *, history: bool | None = None
    ) -> Subscriber[None]: ...
    def wait_ready(self, timeout: float | None = None) -> None: ...
    def undeclare(self) -> None: ...
    def try_recv(self: AdvancedSubscriber[Handler[Sample]]) -> Sample | None: ...
    def recv(self: AdvancedSubscriber[Handler[Sample]], timeout: float | None = None) -> Sample: ...
    def __iter__(self: AdvancedSubscriber[Handler[Sample]]) -> Handler[Sample]: ...
    def recv_many(
        self: AdvancedSubscriber[Handler[Sample]], max_items: int, timeout: float | None = None
    ) -> list[Sample]: ...
    def recv_batch(
        self: AdvancedSubscriber[Handler[Sample]], max_rows: int = 65536, timeout: float | None = None
    ) -> ArrowBatch: ...

@final
class SampleMissListener(Generic[_H]):
    """A listener to what an advanced subscriber misses."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    @property
    def handler(self) -> _H: ...
    def undeclare(self) -> None: ...
    def try_recv(self: SampleMissListener[Handler[Miss]]) -> Miss | None: ...
    def recv(self: SampleMissListener[Handler[Miss]], timeout: float | None = None) -> Miss: ...
    def __iter__(self: SampleMissListener[Handler[Miss]]) -> Handler[Miss]: ...

def declare_advanced_publisher(
    session: Session,
    key_expr: _IntoKeyExpr,
    *,
    encoding: _IntoEncoding | None = None,
    congestion_control: CongestionControl | None = None,
    priority: Priority | None = None,
    express: bool | None = None,
    reliability: Reliability | None = None,
    allowed_destination: Locality | None = None,
    cache: CacheConfig | None = None,
    sample_miss_detection: MissDetectionConfig | None = None,
    publisher_detection: bool | None = None,
) -> AdvancedPublisher:
    """Declares an advanced publisher."""

@overload
def declare_advanced_subscriber(
    session: Session,
    key_expr: _IntoKeyExpr,
    handler: _RustHandler[Sample] | None = None,
    *,
    allowed_origin: Locality | None = None,
    history: HistoryConfig | None = None,
    recovery: RecoveryConfig | None = None,
    subscriber_detection: bool | None = None,
) -> AdvancedSubscriber[Handler[Sample]]:
    """Declares an advanced subscriber."""

@overload
def declare_advanced_subscriber(
    session: Session,
    key_expr: _IntoKeyExpr,
    handler: _PythonHandler[Sample, _H],
    *,
    allowed_origin: Locality | None = None,
    history: HistoryConfig | None = None,
    recovery: RecoveryConfig | None = None,
    subscriber_detection: bool | None = None,
) -> AdvancedSubscriber[_H]: ...
@overload
def declare_advanced_subscriber(
    session: Session,
    key_expr: _IntoKeyExpr,
    handler: _PythonCallback[Sample],
    *,
    allowed_origin: Locality | None = None,
    history: HistoryConfig | None = None,
    recovery: RecoveryConfig | None = None,
    subscriber_detection: bool | None = None,
) -> AdvancedSubscriber[None]: ...
