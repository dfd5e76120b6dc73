"""Zenoh sessions, with the names and signatures of the ``eclipse-zenoh`` package."""

from __future__ import annotations

import atexit
import os

from zwire._zwire import (
    NTP64,
    AccessRequest,
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
from zwire.zenoh.handlers import Handler

# Type checkers go by this name; importing it from typing would take half the time of our import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from zwire.zenoh import ext as ext
    from zwire.zenoh import shm as shm
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

__all__ = [
    "NTP64",
    "AccessRequest",
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


def __getattr__(name: str) -> ModuleType | type:
    """Import ``ext``, ``shm`` and the enumerations on first use; the module ``enum`` is half of an import."""
    from importlib import import_module

    if name in ("ext", "shm"):
        return import_module(f"{__name__}.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: type = getattr(import_module(f"{__name__}._enums"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """List the public names."""
    return [*globals(), *(name for name in __all__ if name not in globals())]


def _in_notebooks() -> None:
    """Let notebooks show sessions, samples and replies as tables; the module for that is loaded then."""

    def shown(name: str) -> Callable[[object], str]:
        def _repr_html_(self: object) -> str:
            from importlib import import_module

            text: str = getattr(import_module("zwire._html"), name)(self)
            return text

        return _repr_html_

    for cls in (Session, Sample, Reply):
        setattr(cls, "_repr_html_", shown(cls.__name__.lower()))  # noqa: B010 - the stub has no such name


_in_notebooks()


def _before_fork() -> None:
    """Import the enumerations: if another thread has begun that, a child would wait for its end for ever."""
    __getattr__("SampleKind")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork)

# Objects left open are closed when the interpreter ends, each session within its own time limit.
atexit.register(close_all)
