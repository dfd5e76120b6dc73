"""Channels and callbacks: how samples, queries and replies reach the program."""

from zwire._zwire import (
    BatchCallback,
    Callback,
    Channel,
    DefaultHandler,
    FifoChannel,
    Handler,
    LatestChannel,
    RingChannel,
)

__all__ = [
    "BatchCallback",
    "Callback",
    "Channel",
    "DefaultHandler",
    "FifoChannel",
    "Handler",
    "LatestChannel",
    "RingChannel",
]
