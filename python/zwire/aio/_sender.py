"""Sending: without blocking if there is room, else with a wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire._zwire import Pending, without_waiting
from zwire.aio import _threads
from zwire.aio._loops import TURNS, current, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal


async def finish(
    room: Pending | Literal[False], send: Callable[..., object], *args: object, **kwargs: object
) -> None:
    """Wait for room after a message was queued, or send it in a thread that may block."""
    if isinstance(room, Pending):
        await until(room)
    else:
        await _threads.run(send, *args, **kwargs)


class Sender:
    """Base of entities that publish: without blocking where possible, else in a thread."""

    _turns = TURNS

    async def _send(self, send: Callable[..., object], *args: object, **kwargs: object) -> None:
        """Send; then wait for room, if the queue is full now. Cancelled meanwhile, it is sent anyway."""
        self._turns -= 1
        if self._turns <= 0:
            # A task that sends in an endless loop must let other tasks run.
            self._turns = TURNS
            await current().turn()
        _, room = without_waiting(send, *args, **kwargs)
        if room is not None:
            await finish(room, send, *args, **kwargs)
