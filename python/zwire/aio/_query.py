"""Queries to answer, for event loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from zwire._zwire import end_query, without_waiting
from zwire.aio._loops import current
from zwire.aio._sender import finish

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from zwire import _zwire
    from zwire._zwire import (
        Encoding,
        KeyExpr,
        Parameters,
        Selector,
        SourceInfo,
        Timestamp,
        TimestampStack,
        ZBytes,
        _IntoEncoding,
        _IntoKeyExpr,
        _IntoZBytes,
    )
    from zwire.zenoh import CongestionControl, Priority, ReplyKeyExpr

__all__ = ["Query", "back", "hand"]


class Query:
    """A query to answer, any number of times.

    The querier is told that no more replies come when the query is dropped, left as a context manager, or
    no longer referenced. A query that is still referenced ends as well when the callback, or the turn of
    the loop, that received it has answered it and finished. Replies sent from other tasks do not count for
    that.
    """

    def __init__(self, inner: _zwire.Query) -> None:
        self._inner = inner
        # The task in which replies count: they end the query when its callback or turn of the loop has
        # finished.
        self._holder: object = None
        self._answered = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.drop()

    def __str__(self) -> str:
        return str(self._inner)

    @property
    def selector(self) -> Selector:
        """The key expression and parameters of the query."""
        return self._inner.selector

    @property
    def key_expr(self) -> KeyExpr:
        """The key expression of the query."""
        return self._inner.key_expr

    @property
    def parameters(self) -> Parameters:
        """The part after the ``?`` of the selector."""
        return self._inner.parameters

    @property
    def payload(self) -> ZBytes | None:
        """The payload of the query."""
        return self._inner.payload

    @property
    def encoding(self) -> Encoding | None:
        """The format of the payload."""
        return self._inner.encoding

    @property
    def attachment(self) -> ZBytes | None:
        """The attachment of the query."""
        return self._inner.attachment

    @property
    def source_info(self) -> SourceInfo | None:
        """The source of the query."""
        return self._inner.source_info

    @property
    def timestamp_stack(self) -> TimestampStack | None:
        """The points and times that the query passed, if its querier asks for them; replies continue it."""
        return self._inner.timestamp_stack

    def accepts_replies(self) -> ReplyKeyExpr:
        """The keys of replies that the querier accepts."""
        return self._inner.accepts_replies()

    async def _send(self, send: Callable[..., None], *args: object, **kwargs: object) -> None:
        _, room = without_waiting(send, *args, **kwargs)
        if room is not None:
            await finish(room, send, *args, **kwargs)
        if self._holder is not None and self._holder is current().task():
            self._answered = True

    async def reply(
        self,
        key_expr: _IntoKeyExpr,
        payload: _IntoZBytes,
        *,
        encoding: _IntoEncoding | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
    ) -> None:
        """Reply with a value."""
        await self._send(
            self._inner.reply,
            key_expr,
            payload,
            encoding=encoding,
            congestion_control=congestion_control,
            priority=priority,
            express=express,
            attachment=attachment,
            timestamp=timestamp,
        )

    async def reply_err(self, payload: _IntoZBytes, *, encoding: _IntoEncoding | None = None) -> None:
        """Reply with an error."""
        await self._send(self._inner.reply_err, payload, encoding=encoding)

    async def reply_del(
        self,
        key_expr: _IntoKeyExpr,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: _IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
    ) -> None:
        """Reply with a deletion."""
        await self._send(
            self._inner.reply_del,
            key_expr,
            congestion_control=congestion_control,
            priority=priority,
            express=express,
            attachment=attachment,
            timestamp=timestamp,
        )

    def drop(self) -> None:
        """Tell the querier that no more replies come. Repeated calls have no effect."""
        self._inner.drop()


def hand(query: Query | None) -> None:
    """Note that this task hands a query to the program."""
    if query is not None:
        query._holder = current().task()  # noqa: SLF001 - a part of the class that programs do not see


def back(query: Query | None, how: Literal["returned", "raised", "went-on"]) -> None:
    """End a query still referenced, if this task's handler has answered it and finished, or has failed."""
    if query is None or query._holder is None:  # noqa: SLF001
        return
    holder, query._holder = query._holder, None  # noqa: SLF001
    if (query._answered or how == "raised") and holder is current().task():  # noqa: SLF001
        end_query(query._inner, how)  # noqa: SLF001
