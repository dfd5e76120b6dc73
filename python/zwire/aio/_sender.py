"""Sending: at once where there is room, and waiting where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire._zwire import Pending, without_waiting
from zwire.aio import _threads
from zwire.aio._loops import TURNS, current, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

__all__ = ["Sender", "finish"]


async def finish(
    room: Pending | Literal[False], send: Callable[..., object], *args: object, **kwargs: object
) -> None:
    """Wait for room after what was sent, or send it in a thread that may wait."""
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
            # A task that sends for ever must not keep the others from their turn.
            self._turns = TURNS
            await current().turn()
        _, room = without_waiting(send, *args, **kwargs)
        if room is not None:
            await finish(room, send, *args, **kwargs)
