"""Questions and answers, liveliness."""

from typing import assert_type

import zwire.zenoh as zenoh
from zwire.zenoh import Handler


def answer(query: zenoh.Query) -> None:
    assert_type(query.parameters, zenoh.Parameters)
    assert_type(query.payload, zenoh.ZBytes | None)
    query.reply(query.key_expr, "x", timestamp=None)
    query.reply_err("no", encoding=zenoh.Encoding.TEXT_PLAIN)
    query.reply_del("a")
    query.payload.to_string()  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    query.reply("x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def answering(session: zenoh.Session) -> None:
    assert_type(session.declare_queryable("a", answer, complete=True), zenoh.Queryable[None])
    waiting = session.declare_queryable("a")
    assert_type(waiting, zenoh.Queryable[Handler[zenoh.Query]])
    with waiting.recv(timeout=1) as query:
        assert_type(query, zenoh.Query)
    session.declare_queryable("a", answer, complete="yes")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


def asking(session: zenoh.Session) -> None:
    token = zenoh.CancellationToken()
    replies = session.get(
        zenoh.Selector("a", {"n": "1"}),
        target=zenoh.QueryTarget.ALL,
        consolidation=zenoh.ConsolidationMode.NONE,
        timeout=2.5,
        payload=b"x",
        cancellation_token=token,
    )
    for reply in replies:
        assert_type(reply, zenoh.Reply)
        assert_type(reply.result, zenoh.Sample | zenoh.ReplyError)
        if reply.ok is not None:
            assert_type(reply.ok.payload, zenoh.ZBytes)
        elif reply.err is not None:
            assert_type(reply.err.encoding, zenoh.Encoding)
        reply.ok.payload  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    session.get("a", timeout="2")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    session.get("a", target=zenoh.Priority.DATA)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    with session.declare_querier("a", timeout=1) as querier:
        assert_type(querier.get(parameters={"n": "1"}), Handler[zenoh.Reply])


def living(session: zenoh.Session) -> None:
    liveliness = session.liveliness()
    assert_type(liveliness.declare_token("a"), zenoh.LivelinessToken)
    assert_type(liveliness.get("a/*", timeout=1), Handler[zenoh.Reply])
