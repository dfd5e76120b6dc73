"""Sends the queries of one partition, several at a time, and yields their replies in order."""

# ruff: noqa: RUF009 - a bound only adds metadata to its field.

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypedDict, Unpack, get_args

from zwire.errors import KeyExprError, QueryError, TransportError
from zwire.spark._checked import Checked, above_zero, choice, whole
from zwire.spark._sessions import session
from zwire.spark._settings import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from zwire.spark._settings import IntoConfig
    from zwire.zenoh import Handler, Reply
    from zwire.zenoh.handlers import DefaultHandler, FifoChannel

OnErrorReply: TypeAlias = Literal["rows", "raise"]
Target: TypeAlias = Literal["best_matching", "all", "all_complete"]
Consolidation: TypeAlias = Literal["auto", "none", "monotonic", "latest"]

TARGETS: tuple[Target, ...] = get_args(Target)
CONSOLIDATIONS: tuple[Consolidation, ...] = get_args(Consolidation)


class ReplyRow(NamedTuple):
    """A reply: a row of ``schema.REPLY``.

    ::

        queryable = session.declare_queryable("square/*", lambda query: query.reply(query.key_expr, "9"))
        (reply,) = spark.get_partition(session.listening()[0])(iter(["square/3"]))
        print(reply.key, reply.payload, reply.error)  # square/3 b'9' None
    """

    key: str | None
    """Key of the sample."""
    payload: bytes | None
    """Payload of the sample, or the bytes of an error reply."""
    encoding: str | None
    """The format of the payload."""
    timestamp: datetime | None
    """Time of the sample, in UTC."""
    replier: str | None
    """Id of the node that answered, if the reply has it."""
    error: str | None
    """An error reply as text, or why there is no reply."""


class Question(NamedTuple):
    """A selector, with the payload of its query."""

    selector: str | None
    payload: bytes | str | None = None


class GetKeywords(TypedDict, total=False):
    """Options of a get by keyword."""

    timeout: float
    target: Target
    consolidation: Consolidation
    in_flight: int
    errors: OnErrorReply
    budget: int | None


@dataclass(frozen=True, kw_only=True)
class GetOptions(Checked):
    """Options of queries."""

    config: str
    timeout: float = above_zero(10.0)
    target: Target = choice("best_matching", *TARGETS)
    consolidation: Consolidation = choice("auto", *CONSOLIDATIONS)
    in_flight: int = whole(32, 1)
    errors: OnErrorReply = choice("rows", "rows", "raise")
    budget: int | None = whole(None, 1, (1 << 32) - 1)


def get_options(config: IntoConfig, **options: Unpack[GetKeywords]) -> GetOptions:
    """Check the options of a get before the job starts, not in the first task."""
    return GetOptions(config=settings(config), **options)


def ask(options: GetOptions, questions: Iterable[Question]) -> Iterator[list[ReplyRow]]:
    """Yield the replies to each query, in the order of the queries."""
    from zwire.zenoh.handlers import DefaultHandler

    get = _getter(options)
    waiting: deque[tuple[Question, Handler[Reply] | str]] = deque()

    def start(question: Question) -> None:
        waiting.append((question, _start(get, question, DefaultHandler())))

    coming = iter(questions)
    for question in islice(coming, options.in_flight):
        start(question)
    while waiting:
        question, answers = waiting.popleft()
        rows = list(_rows(options, question, answers))
        # One query is finished, so the next one may start.
        for following in islice(coming, 1):
            start(following)
        yield rows


_AT_ONCE = 1024
"""Most queued replies of one streamed query; beyond that its senders wait."""


def stream(options: GetOptions, question: Question) -> Iterator[ReplyRow]:
    """Yield the replies to one query as they come, in bounded memory."""
    from zwire.zenoh.handlers import FifoChannel

    answers = _start(_getter(options), question, FifoChannel(_AT_ONCE))
    yield from _rows(options, question, answers)


def _getter(options: GetOptions) -> Callable[..., Handler[Reply]]:
    """The ``get`` of the session with these options."""
    from zwire import zenoh

    return partial(
        session(options.config).get,
        target=zenoh.QueryTarget[options.target.upper()],
        consolidation=zenoh.ConsolidationMode[options.consolidation.upper()],
        timeout=options.timeout,
        budget=options.budget,
    )


def _start(
    get: Callable[..., Handler[Reply]],
    question: Question,
    handler: DefaultHandler[Reply] | FifoChannel[Reply],
) -> Handler[Reply] | str:
    """Start the query, or return the reason why it cannot be sent."""
    if question.selector is None:
        return "the selector is null"
    try:
        return get(question.selector, handler=handler, payload=question.payload)
    except KeyExprError as error:
        return str(error)


def _rows(options: GetOptions, question: Question, answers: Handler[Reply] | str) -> Iterator[ReplyRow]:
    rows = _all_rows(answers, options.timeout)
    return rows if options.errors == "rows" else _checked(question, rows)


def _checked(question: Question, rows: Iterable[ReplyRow]) -> Iterator[ReplyRow]:
    """Raise the first error."""
    for row in rows:
        if row.error is not None:
            message = f"{question.selector}: {row.error}"
            if row.encoding is None:
                raise TransportError(message)
            raise QueryError(message, payload=row.payload, encoding=row.encoding)
        yield row


def _all_rows(answers: Handler[Reply] | str, timeout: float) -> Iterator[ReplyRow]:
    if isinstance(answers, str):
        yield _failed(answers)
        return
    for reply in answers:
        late = _is_timeout(reply)
        yield _failed(f"no complete answer within {timeout} s") if late else _row(reply)
    if answers.end == "link_lost":
        yield _failed("the link was lost before all answers had come")
    if answers.dropped:
        yield _failed(f"{answers.dropped} replies were dropped: too many at once, lower in_flight")


def _is_timeout(reply: Reply) -> bool:
    """Whether the reply stands for the replies that did not come in time.

    Session and hub both wait for replies; the first to time out sends one error in their place. A queryable
    that uses the same text has an entity number of its own, which nodes have not.
    """
    error = reply.err
    if error is None or bytes(error.payload) != b"Timeout":
        return False
    replier = reply.replier_id
    return replier is None or replier.eid == 0


def _row(reply: Reply) -> ReplyRow:
    replier = None if reply.replier_id is None else str(reply.replier_id.zid)
    sample = reply.ok
    if sample is None:
        error = reply.err
        assert error is not None  # noqa: S101 - a reply is one or the other
        payload = error.payload.to_bytes()
        text = payload.decode(errors="replace")
        return ReplyRow(None, payload, str(error.encoding), None, replier, text)
    time = None if sample.timestamp is None else sample.timestamp.get_time()
    key = str(sample.key_expr)
    if sample.kind.name == "DELETE":
        return ReplyRow(key, None, None, time, replier, None)
    return ReplyRow(key, sample.payload.to_bytes(), str(sample.encoding), time, replier, None)


def _failed(reason: str) -> ReplyRow:
    return ReplyRow(None, None, None, None, None, reason)
