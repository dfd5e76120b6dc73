"""Channels and callbacks: how samples, queries and replies reach the program."""

from zwire._zwire import Callback, DefaultHandler, FifoChannel, Handler, RingChannel

__all__ = ["Callback", "DefaultHandler", "FifoChannel", "Handler", "RingChannel"]
