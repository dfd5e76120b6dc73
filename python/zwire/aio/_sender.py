"""Sending: without blocking if there is room, else with a wait."""

from __future__ import annotations

from zwire._zwire import Pending, end_turn, spend, without_waiting
from zwire.aio import _threads
from zwire.aio._loops import current, until

TYPE_CHECKING = False  # as in zwire.errors
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


async def finish(room: Pending | bool, send: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Wait for room after a message was queued, let others run, or send it in a thread that may block."""
    if isinstance(room, Pending):
        await until(room)
    elif room:
        await current().turn()
    else:
        await _threads.run(send, *args, **kwargs)


class Sender:
    """Base of objects that send through a blocking one: without blocking where possible, else in a thread."""

    _inner: Any

    def _sent(self) -> None:
        """Note that a message was sent."""

    async def _send(self, send: Callable[..., object], *args: object, **kwargs: object) -> None:
        """Send; then wait for room, if the queue is full. Cancelled meanwhile, the message is sent anyway."""
        if end_turn():
            # A task that sends in an endless loop must let other tasks run.
            await current().turn()
        spend(1)
        _, room = without_waiting(send, *args, **kwargs)
        if room is not None:
            await finish(room, send, *args, **kwargs)
        self._sent()
