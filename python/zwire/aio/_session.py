"""Sessions, for event loops."""

from __future__ import annotations

import weakref

from zwire import _zwire
from zwire._zwire import Pending
from zwire.aio import _threads
from zwire.aio._context import Beginning, Context
from zwire.aio._loops import deadline, left, until
from zwire.aio._session_calls import Liveliness, SessionCalls, SessionInfo
from zwire.errors import TimedOut

TYPE_CHECKING = False  # as in zwire.errors
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from zwire._zwire import AccessRequest, KeyExpr, TimestampContext, _IntoConfig
    from zwire.aio._channel import Server
    from zwire.aio._entities import Declared

LINGER: Final = 2.0
"""Seconds that `close` waits by default."""


class Session(SessionCalls, Context):
    """An open session, as ``zwire.aio.open`` gives it; an asynchronous context manager.

    Names and parameters are those of ``zwire.zenoh.Session``. Calls that may block are coroutines.
    Declarations do not wait; ``await`` and ``async with`` are allowed on them.

    Args:
        session: A session of ``zwire.zenoh``, which may still be used directly.
    """

    def __init__(self, session: _zwire.Session) -> None:
        self._session = self._inner = session
        self._servers: weakref.WeakSet[Server[Any]] = weakref.WeakSet()

    async def _leave(self) -> None:
        await self.close()

    def __repr__(self) -> str:
        return repr(self._session)

    def _repr_html_(self) -> str:
        from zwire import _html

        return _html.session(self._session)

    @property
    def info(self) -> SessionInfo:
        """Information about links and neighbours."""
        return SessionInfo(self._session.info, self._servers)

    async def close(self, timeout: float | None = None) -> None:
        """Close the session: announce it to neighbours, and end every handler and callback.

        Repeated calls have no effect. Messages queued for the network, and callbacks, get ``timeout`` seconds
        together, two if it is None. Callbacks get the items received before the end; then only ``drop`` is
        called. A close within a callback does not wait for that callback. Calls that wait for the session
        raise ``SessionClosed``.
        """
        end = deadline(LINGER if timeout is None else timeout)
        servers = list(self._servers)
        if not self._session.is_closed():
            await _threads.run(self._session.close, timeout)
        for server in servers:
            if not server.stopped and not await server.wait(left(end)):
                server.stop()

    def share(self) -> Session:
        """Return another handle of the same session."""
        session = Session(self._session.share())
        session._servers = self._servers
        return session

    async def ready(self, timeout: float | None = None) -> bool:
        """Wait until all neighbours know the declarations of this session.

        Returns whether they do: False if ``timeout`` seconds are over first.
        """
        return await until(Pending.declarations(self._session), timeout)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until all neighbours have taken the publications of this session, best effort excepted.

        Raises:
            TimedOut: They have not within ``timeout`` seconds.
            LinkClosed: The link of a client closed before.
        """
        if not await until(Pending.everything(self._session), timeout):
            raise TimedOut(f"the answer of the neighbours took longer than {timeout} s", seconds=timeout)

    async def undeclare(self, obj: KeyExpr | Declared) -> None:
        """Undeclare a key expression, or any other entity."""
        if isinstance(obj, _zwire.KeyExpr):
            self._session.undeclare(obj)
        else:
            await obj.undeclare()

    def liveliness(self) -> Liveliness:
        """Return the interface to liveliness tokens."""
        return Liveliness(self._session.liveliness(), self._servers)


def open(
    config: _IntoConfig | None = None,
    *,
    timestamp_callback: Callable[[TimestampContext], bytes] | None = None,
    authoriser: Callable[[AccessRequest], bool] | None = None,
) -> Beginning[Session]:
    """Open a session; ``await`` it, or enter it with ``async with``, which closes it.

    Raises:
        ConnectError: No endpoint answers.
        ConfigError: Keys of the configuration contradict each other.
    """

    async def begin() -> Session:
        session = await _threads.make(
            _zwire.Session.close,
            _zwire.open,
            config,
            timestamp_callback=timestamp_callback,
            authoriser=authoriser,
        )
        return Session(session)

    return Beginning(begin)
