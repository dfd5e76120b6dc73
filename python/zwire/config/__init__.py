"""Configuration as frozen Python values.

:class:`SessionConfig` describes a session in terms of Python; :meth:`SessionConfig.to_json`
turns it into the tree of keys that ``zwire.zenoh.Config`` takes. Values are checked there, once, by the
compiled module, which also holds the only table of keys and defaults; a test compares the defaults below with
it.

Configurations are what gets pickled and compared: a session is rebuilt from one, never sent.

A field that is ``None`` leaves its key alone, so that the default of the mode applies.
"""

from zwire.config._entries import (
    AccessPolicy,
    AccessRule,
    AccessSubject,
    AuthBinding,
    Downsampling,
    LinkWeight,
    LowPass,
    NetworkQos,
    PublicationQos,
    Qos,
    Rate,
)
from zwire.config._link import Batching, Congestion, Link, Multicast, QueueSizes, SharedMemory, Tls
from zwire.config._session import (
    AccessControl,
    AdminSpace,
    Attempts,
    Credentials,
    Handler,
    Limits,
    Opening,
    Retry,
    Scouting,
    SessionConfig,
    Timeouts,
    Timestamping,
)

__all__ = [
    "AccessControl",
    "AccessPolicy",
    "AccessRule",
    "AccessSubject",
    "AdminSpace",
    "Attempts",
    "AuthBinding",
    "Batching",
    "Congestion",
    "Credentials",
    "Downsampling",
    "Handler",
    "Limits",
    "Link",
    "LinkWeight",
    "LowPass",
    "Multicast",
    "NetworkQos",
    "Opening",
    "PublicationQos",
    "Qos",
    "QueueSizes",
    "Rate",
    "Retry",
    "Scouting",
    "SessionConfig",
    "SharedMemory",
    "Timeouts",
    "Timestamping",
    "Tls",
]
