"""Zenoh sessions, with the names and signatures of the ``eclipse-zenoh`` package."""

from __future__ import annotations

import atexit

from zwire._zwire import (
    NTP64,
    CancellationToken,
    Config,
    Encoding,
    EntityGlobalId,
    Hello,
    KeyExpr,
    Link,
    LinkEvent,
    LinkEventsListener,
    Liveliness,
    LivelinessToken,
    MatchingListener,
    MatchingStatus,
    Parameters,
    Publisher,
    Querier,
    Query,
    Queryable,
    QueryConsolidation,
    Reply,
    ReplyError,
    Sample,
    Scout,
    Selector,
    Session,
    SessionInfo,
    SourceInfo,
    Subscriber,
    Timestamp,
    TimestampContext,
    TimestampId,
    TimestampInstrumentation,
    TimestampInstrumentationBuilder,
    TimestampStack,
    TimestampStackRecord,
    Transport,
    TransportEvent,
    TransportEventsListener,
    WhatAmIMatcher,
    ZBytes,
    ZenohId,
    close_all,
    init_log_from_env_or,
    open,
    scout,
    try_init_log_from_env,
)
from zwire.errors import ZwireError as ZError
from zwire.zenoh import handlers
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
from zwire.zenoh.handlers import Handler

# Type checkers go by this name; importing it from typing would take half the time of our import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from zwire.zenoh import ext as ext
    from zwire.zenoh import shm as shm

__all__ = [
    "NTP64",
    "CancellationToken",
    "Config",
    "CongestionControl",
    "ConsolidationMode",
    "Encoding",
    "EntityGlobalId",
    "Handler",
    "Hello",
    "InterceptionPoint",
    "KeyExpr",
    "Link",
    "LinkEvent",
    "LinkEventsListener",
    "Liveliness",
    "LivelinessToken",
    "Locality",
    "MatchingListener",
    "MatchingStatus",
    "Parameters",
    "Priority",
    "Publisher",
    "Querier",
    "Query",
    "QueryConsolidation",
    "QueryTarget",
    "Queryable",
    "Reliability",
    "Reply",
    "ReplyError",
    "ReplyKeyExpr",
    "Sample",
    "SampleKind",
    "Scout",
    "Selector",
    "Session",
    "SessionInfo",
    "SetIntersectionLevel",
    "SourceInfo",
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
    "WhatAmI",
    "WhatAmIMatcher",
    "ZBytes",
    "ZError",
    "ZenohId",
    "handlers",
    "init_log_from_env_or",
    "open",
    "scout",
    "try_init_log_from_env",
]


def __getattr__(name: str) -> ModuleType:
    """Import ``ext`` and ``shm`` on first use."""
    if name in ("ext", "shm"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Objects left open are closed when the interpreter ends, each session within its own time limit.
atexit.register(close_all)
