"""Queries to answer, for event loops."""

from __future__ import annotations

from zwire._zwire import end_query, failure_of, without_waiting
from zwire.aio._loops import current
from zwire.aio._query_calls import QueryCalls
from zwire.errors import ZwireError

TYPE_CHECKING = False  # as in zwire.errors
if TYPE_CHECKING:
    from typing import Literal, Self

    from zwire import _zwire


class Query(QueryCalls):
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

    def __exit__(
        self, _kind: object = None, error: BaseException | None = None, _traceback: object = None
    ) -> None:
        failure = None if error is None else failure_of(self._inner, error)
        if failure is not None:
            # Queued also where the queue is full: there is no waiting here.
            without_waiting(self._inner.reply_err, failure[0], encoding=failure[1])
        self.drop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: object = None, error: BaseException | None = None, _traceback: object = None
    ) -> None:
        if error is not None:
            await fail(self, error)
        self.drop()

    def __str__(self) -> str:
        return str(self._inner)

    def __repr__(self) -> str:
        return repr(self._inner)

    def _sent(self) -> None:
        if self._holder is not None and self._holder is current().task():
            self._answered = True


def hand(query: Query | None) -> None:
    """Note that this task hands a query to the program."""
    if query is not None:
        query._holder = current().task()  # noqa: SLF001 - a part of the class that programs do not see


async def fail(query: Query | None, error: BaseException) -> None:
    """Reply with an exception of the program, which the caller reports, unless the query is finished."""
    failure = None if query is None else failure_of(query._inner, error)  # noqa: SLF001
    if query is not None and failure is not None:
        try:
            await query.reply_err(failure[0], encoding=failure[1])
        except ZwireError as problem:
            current().report(f"no error reply to the query {query}", problem)


def back(query: Query | None, how: Literal["returned", "raised", "went-on"]) -> None:
    """End a query still referenced, if this task's handler has answered it and finished, or has failed."""
    if query is None or query._holder is None:  # noqa: SLF001
        return
    holder, query._holder = query._holder, None  # noqa: SLF001
    if (query._answered or how == "raised") and holder is current().task():  # noqa: SLF001
        end_query(query._inner, how)  # noqa: SLF001
