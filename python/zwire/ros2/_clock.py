"""Time of nodes: that of the system, or that of a simulation; timers."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zwire.errors import InvalidValue
from zwire.ros2._refused import LOG

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

_BILLION: Final = 10**9


@dataclass(frozen=True, order=True, slots=True)
class Time:
    """A point in time."""

    nanoseconds: int
    """Nanoseconds since 1970, or since the beginning of a simulation."""

    def seconds_nanoseconds(self) -> tuple[int, int]:
        """Return whole seconds and the nanoseconds of the rest, as messages have them."""
        return divmod(self.nanoseconds, _BILLION)


class Clock:
    """The clock of a node.

    ::

        with ros2.Node("watch", session=session) as node:
            clock = node.get_clock()
            print(clock.simulated)  # False
            print(clock.now().nanoseconds > 0)  # True
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._simulated: int | None = None
        self.jumps: tuple[int, int] = (0, 0)
        """Number of times that the time was set back or replaced, and the time at the last one."""

    def __repr__(self) -> str:
        return f"<Clock of {'a simulation' if self.simulated else 'the system'}>"

    @property
    def simulated(self) -> bool:
        """Whether the time is that of ``/clock``; it is 0 until the first message."""
        return self._simulated is not None

    def now(self) -> Time:
        """Return the time."""
        simulated = self._simulated
        return Time(time.time_ns() if simulated is None else simulated)

    def set(self, nanoseconds: int | None) -> None:
        """Set the time of a simulation; None returns to that of the system."""
        with self._changed:
            before, self._simulated = self._simulated, nanoseconds
            if before is None or nanoseconds is None or nanoseconds < before:
                self.jumps = (self.jumps[0] + 1, self.now().nanoseconds)
            self._changed.notify_all()

    def wake(self) -> None:
        """Have all that wait look again."""
        with self._changed:
            self._changed.notify_all()

    def wait_until(self, at: int, stopped: Callable[[], bool]) -> bool:
        """Wait for a time, in nanoseconds; return False if ``stopped`` says so first."""
        with self._changed:
            while not stopped():
                left = at - self.now().nanoseconds
                if left <= 0:
                    return True
                self._changed.wait(None if self.simulated else min(left / _BILLION, threading.TIMEOUT_MAX))
        return False

    def sleep_for(self, seconds: float) -> None:
        """Wait for some seconds of this clock; its time being set back or replaced ends the wait early."""
        jumps = self.jumps
        self.wait_until(self.now().nanoseconds + int(seconds * _BILLION), lambda: self.jumps != jumps)


class Timer:
    """A function that is called again and again, on a thread of its own.

    A call that takes longer than the period delays the next one; calls do not pile up.

    ::

        import queue

        ticks = queue.SimpleQueue()
        with ros2.Node("clockwork", session=session) as node:
            timer = node.create_timer(0.01, lambda: ticks.put("tick"))
            print(ticks.get(timeout=5))  # tick
            timer.cancel()
    """

    def __init__(
        self,
        clock: Clock,
        period: float,
        callback: Callable[[], object],
        turn: AbstractContextManager[object],
    ) -> None:
        if not 1e-6 <= period <= 1e9:
            raise InvalidValue(f"timer: a period of {period} s is not between a microsecond and a billion s")
        self._clock = clock
        self._period = int(period * _BILLION)
        self._callback = callback
        self._turn = turn
        self._cancelled = False
        self._thread = threading.Thread(target=self._run, name="zwire-ros2-timer", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Timer of {self._period / _BILLION:g} s{', cancelled' if self._cancelled else ''}>"

    def cancel(self) -> None:
        """End the timer; a call that has begun goes on."""
        self._cancelled = True
        self._clock.wake()

    def is_canceled(self) -> bool:
        """Return whether the timer has ended."""
        return self._cancelled

    def _run(self) -> None:
        clock, jumps = self._clock, self._clock.jumps
        next_ = clock.now().nanoseconds + self._period
        while not self._cancelled:
            if not clock.wait_until(next_, lambda: self._cancelled or clock.jumps != jumps):  # noqa: B023
                # A simulation has begun anew, or ended: the period counts from there.
                jumps = clock.jumps
                next_ = jumps[1] + self._period
                continue
            self._call()
            # Calls that are behind do not pile up.
            next_ = max(next_ + self._period, clock.now().nanoseconds)

    def _call(self) -> None:
        try:
            with self._turn:
                # The node may have ended while the thread waited for its turn.
                if not self._cancelled:
                    self._callback()
        except Exception:  # noqa: BLE001 - no error of the program ends its timer
            LOG.exception("timer: the callback raised; it is called again")
