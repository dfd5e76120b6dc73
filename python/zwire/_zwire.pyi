"""The compiled module. Programs import its names from ``zwire.zenoh`` and its sibling modules."""

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
    "column_tables",
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
    """Return every key with its default for each mode, as a JSON object by path."""

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
_IntoZBytes: TypeAlias = Buffer | str | Sequence[Buffer]

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
        """Read a configuration from a file: JSON5 (``.json5``, ``.json``) or YAML (``.yaml``, ``.yml``).

        YAML is read as eclipse-zenoh reads it: one document, the core schema of YAML 1.2 and binary numbers,
        aliases but no merge keys. A key of type text accepts an unquoted number as text.

        Raises:
            ConfigError: The file cannot be read or a value in it is wrong; the message has line and column,
                or the path of the key.
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
    """The format of a payload: a name like a MIME type, and optionally a schema after a ``;``."""

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
    """The consolidation of replies to a get: a ``ConsolidationMode`` as an object."""

    AUTO: ClassVar[QueryConsolidation]
    DEFAULT: ClassVar[QueryConsolidation]

    def __new__(cls, mode: ConsolidationMode) -> Self: ...
    @property
    def mode(self) -> ConsolidationMode: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Sample:
    """A value of a key, or its deletion, as subscribers and gets receive it."""

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
    """The target of a query: a key expression and parameters, written ``key?name=value;name=value``."""

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
    """The source of a sample: the entity that published it, and the sequence number assigned there."""

    def __new__(cls, source_id: EntityGlobalId, source_sn: int) -> Self: ...
    @property
    def source_id(self) -> EntityGlobalId: ...
    @property
    def source_sn(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Timestamp:
    """A time and the id of the clock that gave it. Ordered by time, then by id."""

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
    """The id of the clock behind a timestamp: 1 to 16 bytes, not all zero."""

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
    """The node in which a timestamp callback runs."""

    @property
    def zid(self) -> ZenohId: ...
    @property
    def whatami(self) -> WhatAmI: ...

@final
class TimestampInstrumentation:
    """The points at which a message is stamped; made by a :class:`TimestampInstrumentationBuilder`."""

    def is_instrumented(self, point: InterceptionPoint) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class TimestampInstrumentationBuilder:
    """Builder of the points at which messages are stamped; each method returns a changed builder."""

    def __new__(cls) -> Self: ...
    def set_send(self, enabled: bool) -> Self: ...
    def set_route(self, enabled: bool) -> Self: ...
    def set_receive(self, enabled: bool) -> Self: ...
    def build(self) -> TimestampInstrumentation:
        """Return the instrumentation.

        Raises:
            InvalidValue: No point is enabled.
        """

@final
class TimestampStackRecord:
    """A stamp of a message."""

    @property
    def point(self) -> InterceptionPoint: ...
    @property
    def is_custom(self) -> bool: ...
    def timestamp(self) -> Timestamp | bytes: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class TimestampStack:
    """The points that a message passed, with their times, in order.

    The stack of a reply continues the stack of its query.
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
    """A channel of ``capacity`` items; when it is full, the sender is slowed down."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(cls, capacity: int) -> Self: ...

@final
class RingChannel(Generic[_T]):
    """A channel that keeps the newest ``capacity`` items; it never slows the sender down."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(cls, capacity: int) -> Self: ...

@final
class Channel(Generic[_T]):
    """A channel of ``capacity`` items with a named policy for when it is full."""

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
    """A channel of the newest item of each key, for at most ``capacity`` keys."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __new__(cls, capacity: int) -> Self: ...
    @property
    def capacity(self) -> int: ...

@final
class Callback(Generic[_T]):
    """A callback, optionally with a function for the end of the items and one for its exceptions."""

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
        """The function called with each item."""

    @property
    def drop(self) -> Callable[[], Any] | None:
        """The function called when no more items come; ``None`` for none."""

    @property
    def indirect(self) -> bool:
        """The value passed in, without effect: a callback never runs in a thread of the network."""

    @property
    def on_error(self) -> Callable[[BaseException], Any] | None:
        """The function called with an exception of the callback; ``None``: ``sys.unraisablehook``."""

@final
class BatchCallback(Generic[_T]):
    """A callback that gets a list of up to ``max_items`` queued items; no wait to fill the list."""

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
        """The function called with each list of items."""

    @property
    def drop(self) -> Callable[[], Any] | None:
        """The function called when no more items come; ``None`` for none."""

    @property
    def max_items(self) -> int:
        """Largest number of items in a list."""

    @property
    def on_error(self) -> Callable[[BaseException], Any] | None:
        """The function called with an exception of the callback; ``None``: ``sys.unraisablehook``."""

@final
class Handler(Generic[_T]):
    """The receiving end of a channel."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def try_recv(self) -> _T | None:
        """Take the next item without waiting.

        Returns:
            The item, or ``None`` if the channel is empty.
        """

    def recv(self, timeout: float | None = None) -> _T:
        """Wait for the next item. Ctrl-C ends the wait.

        Args:
            timeout: Seconds; without a limit if left out.

        Raises:
            TimedOut: No item came in time.
            SessionClosed: The session is closed, and all items received before were taken.
        """

    def recv_many(self, max_items: int, timeout: float | None = None) -> list[_T]:
        """Take the queued items in one call; wait for the first item only.

        Args:
            max_items: Largest number of items to take.
            timeout: Seconds to wait for the first item; without a limit if left out.

        Returns:
            The items in their order; an empty list when the time is over.
        """

    @property
    def end(self) -> str | None:
        """Outcome of the get that feeds this handler: ``completed``, ``no_queryable``, ``budget_spent``,
        ``timed_out``, ``link_lost`` or ``cancelled``. ``None`` while the get runs, and for other handlers.
        """

    @property
    def dropped(self) -> int:
        """Number of items dropped because the channel was full."""

    @property
    def replaced(self) -> int:
        """Number of items replaced by newer items of the same key, in a ``LatestChannel``."""

    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> _T: ...

@final
class WakeThread:
    """The thread that wakes event loops."""

    def __new__(cls) -> Self: ...
    def stop(self) -> None: ...

@final
class Wakeups:
    """The wake-up state of one event loop."""

    def __new__(cls, thread: WakeThread, wake: Callable[[], object]) -> Self: ...
    def take(self) -> list[int]: ...

@final
class Inbox(Generic[_T]):
    """The receiving end of a channel for an event loop: no call of it blocks."""

    def __new__(cls, handler: Handler[_T]) -> Self: ...
    def take(self) -> _T | None: ...
    def count_error(self) -> None: ...
    def bind(self, wakeups: Wakeups, token: int) -> None: ...
    def arm(self) -> bool: ...
    def disarm(self) -> None: ...

@final
class Pending:
    """A condition other than an item of a channel for which an event loop waits."""

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
    """Ends early a call that blocks in another thread."""

    def __new__(cls) -> Self: ...
    def run(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T: ...
    def stop(self) -> None: ...

def end_query(query: Query, how: Literal["returned", "raised", "went-on"]) -> None:
    """End a query for which the callback, or the turn of the loop, has finished."""

def without_waiting(
    function: Callable[..., _T], *args: Any, **kwargs: Any
) -> tuple[_T, Pending | Literal[False] | None]:
    """Call a function without blocking on the session's commands; return the pending wait, if any."""

def open(
    config: _IntoConfig | None = None,
    *,
    timestamp_callback: Callable[[TimestampContext], bytes] | None = None,
) -> Session:
    """Open a session.

    Args:
        config: A :class:`Config`, a dict of keys, or a :class:`zwire.config.SessionConfig`; the defaults of a
            peer if left out. Its ``connect/timeout_ms`` and ``scouting/delay`` bound the time to open.
        timestamp_callback: Makes the stamps of messages with a ``timestamp_instrumentation``, instead of the
            clock. It runs in the sending thread for a message sent, and in the thread that takes a message
            received. If it fails, no stamp is made and ``sys.unraisablehook`` gets the exception.

    Returns:
        An open session, usable as a context manager. A client has its link when this returns.

    Raises:
        ConfigError: Keys contradict each other, or a certificate cannot be used.
        ConnectError: No endpoint answers, or the session cannot listen on an endpoint.
        AuthenticationError: The other side rejects this node, or this node rejects the other side.

    Source: zenoh-behaviour 1.4.
    """

@overload
def scout(
    handler: _RustHandler[Hello] | None = None,
    what: _IntoWhatAmIMatcher | None = None,
    config: _IntoConfig | None = None,
) -> Scout[Handler[Hello]]:
    """Search for nodes by multicast until the search is stopped.

    Args:
        handler: A channel or a callback for the answers; the default channel if left out.
        what: The roles to search for, such as ``"router|peer"``; routers and peers if left out.
        config: Group, interfaces and time to live, below ``scouting/multicast``.

    Returns:
        The search. A node answers each query on each interface, so it can appear more than once.

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
    """Close every session, node and socket that is still open."""

def try_init_log_from_env() -> None:
    """Write the log to standard error, filtered by ``RUST_LOG``, such as ``zenoh::net=debug,info``."""

def init_log_from_env_or(level: str) -> None:
    """Write the log to standard error, filtered by ``RUST_LOG`` or, if unset, by ``level``."""

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
    """A record batch, exported through the Arrow C interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...
    @property
    def column_names(self) -> list[str]: ...
    @property
    def num_rows(self) -> int: ...
    def __len__(self) -> int: ...

@final
class Decoder:
    """Decoder of captures: the Zenoh, ZMTP and ZRE messages in them, as record batches."""

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
        """Return the schema of the batches as a capsule of the Arrow C interface."""

    def jsonl(self) -> bytes:
        """Return the next megabyte or so of JSON Lines; empty at the end."""

    def text(self) -> bytes:
        """Return the next megabyte or so of readable lines; empty at the end."""

    @property
    def position(self) -> int:
        """Bytes of the sources read so far."""

    @property
    def size(self) -> int | None:
        """Total bytes of the sources; ``None`` if one of them is a pipe."""

@final
class FrameDecoder:
    """Decoder of Zenoh frames that were not read from a capture file."""

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
        """Return the schema of the batches as a capsule of the Arrow C interface."""

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
    """The rows of a range of a spool, batch by batch; its errors are of type ``SpoolError``."""

    @staticmethod
    def over(receiver: SpoolReceiver, batches: Iterator[ArrowBatch]) -> SpoolRows: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> ArrowBatch: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class SpoolServer:
    """Server of ranges of a spool: answers with the stored blocks."""

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
    """Builds record batches from received labels and blocks."""

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
    """Writes messages received from a network into a spool."""

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
    """The result of ``put_batch``."""

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
    """Cancels gets: one token may be given to any number of gets."""

    def __new__(cls) -> Self: ...
    def cancel(self) -> None:
        """End every running get that was started with this token.

        Returns when the callbacks of those gets have returned for the last time; at once if called within
        such a callback.
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
    """A link that was opened or closed."""

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
    """A listener to links that open and close."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    @property
    def handler(self) -> _H: ...
    def undeclare(self) -> None:
        """Undeclare the listener.

        Raises:
            UsageError: The listener is undeclared already.
        """

    def try_recv(self: LinkEventsListener[Handler[LinkEvent]]) -> LinkEvent | None:
        """Take the next event without waiting.

        Returns:
            The event, or ``None`` if none is queued.
        """

    def recv(self: LinkEventsListener[Handler[LinkEvent]], timeout: float | None = None) -> LinkEvent:
        """Wait for the next event. Ctrl-C ends the wait.

        Args:
            timeout: Seconds; without a limit if left out.

        Raises:
            TimedOut: No event came in time.
            SessionClosed: The session is closed, and all events received before were taken.
        """

    def __iter__(self: LinkEventsListener[Handler[LinkEvent]]) -> Handler[LinkEvent]: ...

@final
class Liveliness:
    """The liveliness tokens of this session and of others."""

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
            history: Whether tokens that are alive already are delivered first.

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
        """Wait until all neighbours know of the token: whatever depends on it works from then on.

        Args:
            timeout: Seconds; for ever if left out.

        Raises:
            TimedOut: The time is over.
        """

    def undeclare(self) -> None:
        """Undeclare the token.

        Raises:
            UsageError: The token is undeclared already.
        """

@final
class MatchingListener(Generic[_H]):
    """A listener to changes of the matching status."""

    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    @property
    def handler(self) -> _H:
        """The channel, or the object given with the callback."""

    def undeclare(self) -> None:
        """Undeclare the listener. Items received before can still be taken.

        Raises:
            UsageError: The listener is undeclared already.
        """

    def try_recv(self: MatchingListener[Handler[MatchingStatus]]) -> MatchingStatus | None:
        """Take the next change without waiting.

        Returns:
            The change, or ``None`` if none is queued.
        """

    def recv(self: MatchingListener[Handler[MatchingStatus]], timeout: float | None = None) -> MatchingStatus:
        """Wait for the next change. Ctrl-C ends the wait.

        Args:
            timeout: Seconds; for ever if left out.

        Raises:
            TimedOut: No change came in time.
            SessionClosed: The session is closed, and all changes received before were taken.
        """

    def __iter__(self: MatchingListener[Handler[MatchingStatus]]) -> Handler[MatchingStatus]: ...

@final
class MatchingStatus:
    """Whether a matching subscriber or queryable exists."""

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
        """Whether subscribers exist, as far as neighbours have reported."""

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
            payload: Bytes, any buffer, text as UTF-8, or a list or tuple of buffers, sent as one payload
                without being joined. Immutable bytes of 8 KiB or more are kept until they are sent; the
                call copies all others, so they may be changed afterwards.
            encoding: The format of the payload, for readers; no conversion takes place. ``zenoh/bytes`` if
                left out.
            attachment: Bytes beside the payload, up to the size limit of a message.
            timestamp: The time of the value; set by this session with ``timestamping/enabled``, else by the
                first router.
            source_info: The source of the value, and its sequence number there.

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
        """Publish the deletion of the key.

        Args:
            attachment: Bytes beside the payload, up to the size limit of a message.
            timestamp: The time of the deletion; set by this session with ``timestamping/enabled``, else by
                the first router.
            source_info: The source of the deletion, and its sequence number there.

        Raises:
            UsageError: The publisher is undeclared, or was inherited over a fork.
            SessionClosed: The session is closed.
        """

    def wait_matching(self, n: int = 1, timeout: float | None = None) -> None:
        """Wait until subscribers exist.

        Args:
            n: How many. Subscribers of this session count one by one, remote ones as neighbours report them:
                a router reports each key expression once, regardless of how many subscribers are behind it.
            timeout: Seconds; without a limit if left out.

        Raises:
            TimedOut: The time is over.

        Source: zenoh-behaviour 3.11.
        """

    def undeclare(self) -> None:
        """Undeclare the publisher.

        Raises:
            UsageError: The publisher is undeclared already.
        """

    @overload
    def declare_matching_listener(
        self,
        handler: _RustHandler[MatchingStatus] | None = None,
    ) -> MatchingListener[Handler[MatchingStatus]]:
        """Listen to changes of the matching status.

        Args:
            handler: A channel, a callback, or a pair; the default channel if left out.

        Returns:
            The listener. Its first item is the first change, not the present state: see ``matching_status``.
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
        """Whether queryables for its target exist, as far as neighbours have reported."""

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
        """Send a query with the key, target, consolidation and timeout of the querier.

        Args:
            handler: A channel or a callback; the default channel if left out.
            parameters: The part after the ``?`` of a selector.
            payload: A value for the queryables.
            encoding: The format of the payload.
            attachment: Bytes beside the payload.
            source_info: The source of the query.
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
        """Wait until queryables for its target exist.

        Args:
            n: How many. Queryables of this session count one by one, remote ones as neighbours report them: a
                router reports each key expression once, regardless of how many queryables are behind it.
            timeout: Seconds; without a limit if left out.

        Raises:
            TimedOut: The time is over.

        Source: zenoh-behaviour 3.11.
        """

    def undeclare(self) -> None:
        """Undeclare the querier.

        Raises:
            UsageError: The querier is undeclared already.
        """

    @overload
    def declare_matching_listener(
        self,
        handler: _RustHandler[MatchingStatus] | None = None,
    ) -> MatchingListener[Handler[MatchingStatus]]:
        """Listen to changes of the matching status.

        Args:
            handler: A channel, a callback, or a pair; the default channel if left out.

        Returns:
            The listener. Its first item is the first change, not the present state: see ``matching_status``.
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
    """A query to answer, any number of times.

    The querier is told that no more replies come when the query is dropped, left as a context manager, or
    no longer referenced. A query that is still referenced ends as well when the callback, or the turn of
    the loop, that received it has answered it and finished, or when the callback raised. Replies sent from
    other threads do not count for that.
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
        """Return which keys the querier accepts in replies."""

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
        """Reply with a value; may be called any number of times.

        Args:
            key_expr: The key of the reply. It must match the query unless the querier accepts any key.
            payload: Bytes, any buffer, text as UTF-8, or a list or tuple of buffers.
            encoding: The format of the payload.
            congestion_control: No effect, as in eclipse-zenoh: the setting of the query counts.
            priority: No effect either.
            express: Send without batching.
            attachment: Bytes beside the payload.
            timestamp: The time of the value. Replies get no time stamp by themselves, and consolidation
                compares this one.

        Raises:
            KeyExprError: The key expression is not legal.
            UsageError: The key does not match the query, or the query is finished.

        Source: zenoh-behaviour 3.8.
        """

    def reply_err(self, payload: _IntoZBytes, *, encoding: _IntoEncoding | None = None) -> None:
        """Reply with an error.

        Args:
            payload: The error: bytes, any buffer, text as UTF-8, or a list or tuple of buffers.
            encoding: The format of the payload.

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
        """Reply with the deletion of a key. Arguments are those of :meth:`reply`.

        Raises:
            KeyExprError: The key expression is not legal.
            UsageError: The key does not match the query, or the query is finished.
        """

    def drop(self) -> None:
        """Tell the querier that no more replies come. Repeated calls have no effect."""

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
        """The channel, or the object given with the callback."""

    @property
    def dropped(self) -> int: ...
    @property
    def errors(self) -> int: ...
    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until all neighbours know of the queryable: queries they send from then on can arrive.

        Args:
            timeout: Seconds; without a limit if left out.

        Raises:
            TimedOut: The time is over.
        """

    def undeclare(self) -> None:
        """Undeclare the queryable. Queries received before can still be taken.

        Raises:
            UsageError: The queryable is undeclared already.
        """

    def try_recv(self: Queryable[Handler[Query]]) -> Query | None:
        """Take the next query without waiting.

        Returns:
            The query, or ``None`` if none is queued.
        """

    def recv(self: Queryable[Handler[Query]], timeout: float | None = None) -> Query:
        """Wait for the next query. Ctrl-C ends the wait.

        Args:
            timeout: Seconds; without a limit if left out.

        Raises:
            TimedOut: No query came in time.
            SessionClosed: The session is closed, and all queries received before were taken.
        """

    def __iter__(self: Queryable[Handler[Query]]) -> Handler[Query]:
        """Iterate over queries until the queryable is undeclared or its session closes.

        Each loop is independent. The query returned last is finished when the loop asks for the next one or
        ends, if it was answered by then, in that thread.
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
        """The replying entity, if the reply names it."""

@final
class ReplyError:
    """An error reply of a queryable."""

    @property
    def payload(self) -> ZBytes: ...
    @property
    def encoding(self) -> Encoding: ...
    @property
    def timestamp_stack(self) -> TimestampStack | None: ...

@final
class Session:
    """An open session. A context manager; it closes when no reference is left."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object, **_kwargs: object) -> None: ...
    def zid(self) -> ZenohId:
        """Return the id of this node."""

    @property
    def id(self) -> EntityGlobalId:
        """The id of this session as an entity: node and number."""

    @property
    def info(self) -> SessionInfo:
        """Information about links and neighbours."""

    def close(self, timeout: float | None = None) -> None:
        """Close the session: announce it to neighbours, and end every handler and callback.

        Repeated calls, from any thread, have no effect.

        Args:
            timeout: Seconds for messages queued for the network and for running callbacks, together; two if
                left out. A callback that still runs after that is named in a warning of the log.

        No callback is called after this has returned. Calls that wait for the session raise
        ``SessionClosed``; items received before can still be taken.
        """

    def is_closed(self) -> bool:
        """Return whether the session is closed."""

    def share(self) -> Session:
        """Return another handle of the same session, as ``zwire.spark.session`` lends them."""

    def ready(self, timeout: float | None = None) -> bool:
        """Wait until all neighbours know the declarations of this session.

        Args:
            timeout: Seconds; without a limit if left out.

        Returns:
            Whether they do: ``False`` when the time is over first. A client waits for its link, too.
        """

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all neighbours have taken the publications of this session, best effort excepted.

        Args:
            timeout: Seconds; without a limit if left out.

        Raises:
            TimedOut: The time is over.
            LinkClosed: The link of a client closed before; publications may be lost.
        """

    def new_timestamp(self) -> Timestamp:
        """Return a time stamp of this node's clock, later than all before it.

        Source: zenoh-behaviour 3.3.
        """

    def stats(self) -> SessionStats:
        """Return counters since the session was opened: messages, bytes, and drops by reason.

        Returns:
            Counts by name, such as ``session.dropped.put_no_subscriber`` or ``handler.dropped``.
        """

    def listening(self) -> list[str]:
        """Return the endpoints on which this node listens, as ``tcp/address:port``, with the chosen ports."""

    def declare_keyexpr(self, key_expr: _IntoKeyExpr) -> KeyExpr:
        """Assign a key expression a number on the links of this session.

        Messages that use the result are shorter.

        Returns:
            The same key expression, for ``put``, ``get`` and the declarations of this session.

        Raises:
            KeyExprError: The key expression is not legal.
            SessionClosed: The session is closed.
            UsageError: The session was inherited over a fork.

        Source: zenoh-behaviour 4.1.
        """

    def undeclare(self, obj: KeyExpr | _Declared) -> None:
        """Undo :meth:`declare_keyexpr` for a key expression, or undeclare any other entity of this session.

        Raises:
            UsageError: The object is undeclared already, or belongs to another session.
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

        Returns when the message is in the queues of all interested neighbours. Without a subscriber it is
        dropped.

        Args:
            key_expr: The key, or a key expression: then subscribers of any of its keys get the message.
            payload: Bytes, any buffer, text as UTF-8, or a list or tuple of buffers, sent as one payload
                without being joined. Immutable bytes of 8 KiB or more are kept until they are sent; the
                call copies all others, so they may be changed afterwards.
            encoding: The format of the payload, for readers; no conversion takes place. ``zenoh/bytes`` if
                left out.
            congestion_control: The behaviour when a queue is full; ``DROP`` if left out.
            priority: The priority in queues; ``DATA`` if left out.
            express: Send without batching: lower latency, more packets.
            attachment: Bytes beside the payload, up to the size limit of a message.
            timestamp: The time of the value; set by this session with ``timestamping/enabled``, else by the
                first router.
            allowed_destination: Whether this session, others, or both may get it.
            source_info: The source of the value, and its sequence number there.

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
            batch: An object with the Arrow C interface. Columns by name: ``key`` (texts; not needed when
                ``key_expr`` is given), ``payload`` (binary or texts), and optionally ``encoding``,
                ``attachment``, ``kind`` (``put`` or ``del``), ``priority`` (1 to 7), ``congestion``
                (``drop``, ``block``, ``block_first``), ``express``. The time stamp is ``timestamp``, as in
                ``recv_batch`` (instants with a time zone), or ``hlc``, all 64 bits, which takes precedence;
                ``hlc_id`` is the id of its clock, that of this session where it is null. ``ts``, the former
                name of ``timestamp``, is accepted for one release. Other columns are an error.
            key_expr: The key of all rows.
            congestion_control: Default for rows; ``BLOCK`` if left out, since a batch fills queues at once.
            priority: Default for rows.
            express: Default for rows.

        Returns:
            The numbers of rows and bytes published.

        Raises:
            RowError: A row is wrong; ``row``, ``key`` and ``reason`` say which and why. Rows before it are
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
        """Publish the deletion of a key. Subscribers get a sample of kind ``DELETE`` with an empty payload.

        Args:
            key_expr: The key, or a key expression.
            congestion_control: The behaviour when a queue is full; ``DROP`` if left out.
            priority: The priority in queues; ``DATA`` if left out.
            express: Send without batching: lower latency, more packets.
            attachment: Bytes beside the payload, up to the size limit of a message.
            timestamp: The time of the deletion; set by this session with ``timestamping/enabled``, else by
                the first router.
            allowed_destination: Whether this session, others, or both may get it.
            source_info: The source of the deletion, and its sequence number there.

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
        budget: int | None = None,
    ) -> Handler[Reply]:
        """Query queryables. Replies come through the handler and end when all of them have finished.

        Args:
            selector: A key expression, optionally with parameters after a ``?``.
            handler: A channel or a callback; the default channel if left out.
            target: Which of the matching queryables are asked; the nearest complete one, or all, if left out.
            consolidation: Which of several replies with one key are delivered; the newest of each key if left
                out.
            accept_replies: Whether replies may have keys outside of the key expression of the query.
            timeout: Seconds, at least one millisecond; ``queries_default_timeout`` of the configuration,
                10 s, if left out.
            congestion_control: The behaviour when a queue is full; ``BLOCK`` if left out.
            priority: The priority in queues.
            express: Send without batching.
            payload: A value for the queryables.
            encoding: The format of the payload.
            attachment: Bytes beside the payload.
            source_info: The source of the query.
            cancellation_token: Ends the query when it is cancelled.
            allowed_destination: Whether this session, others, or both are asked.
            budget: Most replies, errors included, before consolidation; the query ends with the last of them.
                No limit if left out.

        Returns:
            The handler: an iterator over replies that ends with the query. ``handler.end`` is the outcome. On
            a timeout, the last reply is an error with the payload ``Timeout``. Without a matching queryable
            the query ends at once, without a reply.

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
        budget: int | None = None,
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
        budget: int | None = None,
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
            key_expr: The keys to receive.
            handler: A channel, a callback, or a pair of a callback and the object to return as ``handler`` of
                the subscriber; the default channel if left out.
            allowed_origin: Whether to receive samples of this session, of others, or of both.

        Returns:
            The subscriber. Other nodes know of it a moment later: see :meth:`Subscriber.wait_ready`.

        Raises:
            KeyExprError: The key expression is not legal.
            SessionClosed: The session is closed.
            UsageError: The session was inherited over a fork.
            ValueError: The handler is of no supported kind.

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
                it returns, when the loop over the channel that has answered it goes on, or when no reference
                to it is left.
            complete: Whether it holds all values of its keys, so that no other queryable needs to be asked.
            allowed_origin: Whether queries of this session, of others, or of both are answered.

        Returns:
            The queryable.

        Raises:
            KeyExprError: The key expression is not legal.
            SessionClosed: The session is closed.
            UsageError: The session was inherited over a fork.
            ValueError: The handler is of no supported kind.

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
        """Prepare publications on a key: messages carry a number instead of the key.

        Publications are not sent while no subscriber matches.

        Args:
            key_expr: The key, or a key expression.
            encoding: Default encoding of values.
            congestion_control: The behaviour when a queue is full; ``DROP`` if left out.
            priority: The priority in queues; ``DATA`` if left out.
            express: Send without batching: lower latency, more packets.
            reliability: The channel of the messages; ``RELIABLE`` if left out.
            allowed_destination: Whether this session, others, or both may get the messages.

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
        budget: int | None = None,
    ) -> Querier:
        """Prepare for queries on a key expression.

        Args:
            key_expr: The key expression of the queries.
            target: Which of the matching queryables are asked; the nearest complete one, or all, if left out.
            consolidation: Which of several replies with one key are delivered; the newest of each key if left
                out.
            accept_replies: Whether replies may have keys outside of the key expression of the query.
            timeout: Seconds, at least one millisecond; ``queries_default_timeout`` of the configuration,
                10 s, if left out.
            congestion_control: The behaviour when a queue is full; ``BLOCK`` if left out.
            priority: The priority in queues; ``DATA`` if left out.
            express: Send without batching: lower latency, more packets.
            allowed_destination: Whether this session, others, or both are asked.
            budget: Most replies of each query, errors included, before consolidation; a query ends with the
                last of them. No limit if left out.

        Returns:
            The querier.

        Raises:
            KeyExprError: The key expression is not legal.
            SessionClosed: The session is closed.
            UsageError: The session was inherited over a fork.

        Source: zenoh-behaviour 3.6.
        """

    def liveliness(self) -> Liveliness:
        """Return the interface to liveliness tokens."""

@type_check_only
class _Declared(Protocol):
    def undeclare(self) -> None: ...

@final
class SessionInfo:
    """Information about links and neighbours."""

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
    """An answer of a node to a search."""

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
        """The channel, or the object given with the callback."""

    @property
    def dropped(self) -> int:
        """Number of answers dropped because the handler was full."""

    def stop(self) -> None:
        """End the search. Repeated calls have no effect."""

    def try_recv(self: Scout[Handler[Hello]]) -> Hello | None:
        """Take the next answer without waiting.

        Returns:
            The answer, or ``None`` if none is queued.
        """

    def recv(self: Scout[Handler[Hello]], timeout: float | None = None) -> Hello:
        """Wait for the next answer. Ctrl-C ends the wait.

        Args:
            timeout: Seconds; without a limit if left out.

        Raises:
            TimedOut: No answer came in time.
            SessionClosed: The session is closed, and all answers received before were taken.
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
        """The channel, or the object given with the callback."""

    @property
    def dropped(self) -> int:
        """Number of samples dropped because the handler was full."""

    @property
    def replaced(self) -> int: ...
    @property
    def errors(self) -> int: ...
    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until all neighbours know of the subscriber: samples they send from then on can arrive.

        Args:
            timeout: Seconds; without a limit if left out.

        Raises:
            TimedOut: The time is over.
        """

    def undeclare(self) -> None:
        """Undeclare the subscriber. Samples received before can still be taken.

        Raises:
            UsageError: The subscriber is undeclared already.
        """

    def try_recv(self: Subscriber[Handler[Sample]]) -> Sample | None:
        """Take the next sample without waiting.

        Returns:
            The sample, or ``None`` if none is queued.
        """

    def recv(self: Subscriber[Handler[Sample]], timeout: float | None = None) -> Sample:
        """Wait for the next sample. Ctrl-C ends the wait.

        Args:
            timeout: Seconds; without a limit if left out.

        Raises:
            TimedOut: No sample came in time.
            SessionClosed: The session is closed, and all samples received before were taken.
        """

    def __iter__(self: Subscriber[Handler[Sample]]) -> Handler[Sample]: ...
    def recv_many(
        self: Subscriber[Handler[Sample]], max_items: int, timeout: float | None = None
    ) -> list[Sample]:
        """Take the queued samples in one call; wait for the first sample only.

        Args:
            max_items: Largest number of samples to take.
            timeout: Seconds to wait for the first sample; without a limit if left out.

        Returns:
            The samples in their order; an empty list when the time is over.
        """

    def recv_batch(
        self: Subscriber[Handler[Sample]], max_rows: int = 65536, timeout: float | None = None
    ) -> ArrowBatch:
        """Take the queued samples as an Arrow record batch, without a Python object per sample.

        The call waits for the first sample only.

        Args:
            max_rows: Largest number of rows. A batch holds about 8 MiB at most, and a sample of 256 KiB or
                more alone, without a copy.
            timeout: Seconds to wait for the first sample; without a limit if left out.

        Returns:
            A batch for ``pyarrow.record_batch(...)`` and other readers of Arrow; without rows when the time
            is over. Columns: ``key``, ``payload``, ``kind``, ``encoding``, ``timestamp``, ``attachment``,
            ``priority``, ``congestion``, ``express``.

        Raises:
            SessionClosed: The session is closed, and all samples received before were taken.
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
    """An event on the network of a ZRE node."""

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
    """A node that connected or disconnected."""

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
        """Undeclare the listener.

        Raises:
            UsageError: The listener is undeclared already.
        """

    def try_recv(self: TransportEventsListener[Handler[TransportEvent]]) -> TransportEvent | None:
        """Take the next event without waiting.

        Returns:
            The event, or ``None`` if none is queued.
        """

    def recv(
        self: TransportEventsListener[Handler[TransportEvent]], timeout: float | None = None
    ) -> TransportEvent:
        """Wait for the next event. Ctrl-C ends the wait.

        Args:
            timeout: Seconds; without a limit if left out.

        Raises:
            TimedOut: No event came in time.
            SessionClosed: The session is closed, and all events received before were taken.
        """

    def __iter__(self: TransportEventsListener[Handler[TransportEvent]]) -> Handler[TransportEvent]: ...

@final
class Enter(Event):
    """A peer has entered the network."""

    @property
    def headers(self) -> dict[str, str]: ...
    def header(self, name: str, default: str | None = None) -> str | None: ...

@final
class Exit(Event):
    """A peer has left the network."""

@final
class Evasive(Event):
    """A peer has been silent for a while; it is pinged."""

@final
class Silent(Event):
    """A peer does not answer pings."""

@final
class Join(Event):
    """A peer has joined a group."""

    @property
    def group(self) -> str: ...

@final
class Leave(Event):
    """A peer has left a group."""

    @property
    def group(self) -> str: ...

@final
class Whisper(Event):
    """A message from a peer to this node."""

    @property
    def content(self) -> list[bytes]: ...

@final
class Shout(Event):
    """A message from a peer to a group."""

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
    """A peer, or this node, was elected leader of a group."""

    @property
    def group(self) -> str: ...

@final
class Stop(Event):
    """The node has stopped."""

@final
class Shouted:
    """The outcome of a message to a group, per peer."""

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
    """The base class of ``zwire.zre.Node``."""

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
    """A line of a ZRE/LOG."""

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
    """Collector of ZRE/LOG lines from nodes."""

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
    """Sender of log lines on behalf of a node."""

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
    """Return the hash by which ZRE/LOG names nodes and peers."""

@final
class ZmtpEvent:
    """An event on the connections of a ZMTP socket."""

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
# Lists and tuples: with `list[str | Buffer]` in the union, mypy rejects lists that mix texts and bytes.
_Message: TypeAlias = _Frame | Sequence[_Frame]

@disjoint_base
class ZmtpSocket:
    """The base class of the sockets in ``zwire.zmtp``."""

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
    """The settings of a cache's replies. Only ``express`` has an effect; in eclipse-zenoh none has."""

    def __new__(
        cls,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
    ) -> Self: ...

@final
class CacheConfig:
    """The cache of an advanced publisher: its newest ``max_samples`` publications, one if that is None."""

    def __new__(
        cls, max_samples: int | None = None, *, replies_config: RepliesConfig | None = None
    ) -> Self: ...

@final
class MissDetectionConfig:
    """How subscribers of an advanced publisher detect missed samples; times are in seconds."""

    def __new__(
        cls,
        *,
        heartbeat: float | timedelta | None = None,
        sporadic_heartbeat: float | timedelta | None = None,
    ) -> Self: ...

@final
class HistoryConfig:
    """The past samples that an advanced subscriber asks for; ``max_age`` is in seconds."""

    def __new__(
        cls,
        *,
        detect_late_publishers: bool | None = None,
        max_samples: int | None = None,
        max_age: float | timedelta | None = None,
    ) -> Self: ...

@final
class RecoveryConfig:
    """How an advanced subscriber recovers missed samples; ``periodic_queries`` is in seconds."""

    def __new__(
        cls, *, periodic_queries: float | timedelta | None = None, heartbeat: bool | None = None
    ) -> Self: ...

@final
class Miss:
    """Consecutive publications that an advanced subscriber has missed."""

    @property
    def source(self) -> EntityGlobalId: ...
    @property
    def nb(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]  # for want of need

@final
class AdvancedPublisher:
    """A publisher that numbers its publications and keeps the newest."""

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
    """A subscriber that orders samples, asks for missing ones, and reports lost ones."""

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
    """A listener to samples that an advanced subscriber missed."""

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
    """Declare an advanced publisher."""

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
    """Declare an advanced subscriber."""

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
