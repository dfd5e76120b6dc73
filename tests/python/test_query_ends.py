"""When the querier hears that no more replies come, though the query is kept."""

import gc
import threading

import pytest

from nodes import eventually, opened
from zwire import typed, zenoh
from zwire.errors import UsageError
from zwire.zenoh.handlers import BatchCallback, Callback

PATIENCE = 10.0
ALL = zenoh.ConsolidationMode.NONE


@pytest.fixture
def session():
    with opened("peer") as session:
        yield session


def ask(session, key="q"):
    """The replies, as texts, to a querier that must not be made to wait."""
    replies = session.get(key, timeout=PATIENCE, consolidation=ALL)
    got = [text(reply) for reply in replies]
    assert replies.end == "completed"
    return got


def text(reply):
    if reply.err:
        return f"error {reply.err.payload.to_string()}"
    deleted = reply.ok.kind == zenoh.SampleKind.DELETE
    return "DELETE" if deleted else reply.ok.payload.to_string()


def asking(session, key="q"):
    """The answers, and an event that says that there are no more."""
    got, over = [], threading.Event()
    take = Callback(lambda reply: got.append(reply.ok.payload.to_string()), over.set)
    session.get(key, take, timeout=2 * PATIENCE, consolidation=ALL)
    return got, over


def say(query, text="yes"):
    query.reply("q", text)


def each(answer):
    return lambda queries: [answer(query) for query in queries]


KINDS = {
    "function": lambda answer: answer,
    "callback": Callback,
    "pair": lambda answer: (answer, None),
    "batch": lambda answer: BatchCallback(each(answer)),
}
ANSWERS = {
    "yes": say,
    "error no": lambda query: query.reply_err("no"),
    "DELETE": lambda query: query.reply_del("q"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_query_that_a_callback_has_answered_ends_with_it(session, kind, answer):
    kept = []

    def hear(query):
        kept.append(query)
        ANSWERS[answer](query)

    session.declare_queryable("q", KINDS[kind](hear))
    for number in range(2):
        assert ask(session) == [answer]
        with pytest.raises(UsageError, match="callback that has answered it has returned"):
            say(kept[number])
        assert str(kept[number].key_expr) == "q"
        kept[number].drop()


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_that_it_keeps_without_an_answer_stays_open(session, kind):
    kept, there = [], threading.Event()

    def hear(query):
        kept.append(query)
        with pytest.raises(zenoh.ZError):
            query.reply("elsewhere", "an answer that was not sent")
        there.set()

    queryable = session.declare_queryable("q", KINDS[kind](hear))
    got, over = asking(session)
    assert there.wait(PATIENCE)
    # It has come back when the next one is there.
    there.clear()
    _, second = asking(session)
    assert there.wait(PATIENCE)
    say(kept[0], "one")
    say(kept[0], "two")
    assert not over.is_set()
    kept[0].drop()
    assert over.wait(PATIENCE)
    assert got == ["one", "two"]
    del kept[:]
    assert second.wait(PATIENCE)
    assert queryable.errors == 0


def test_answers_of_other_threads_do_not_end_it(session):
    """A thread that got the query from the callback may take its time, and may also be the faster one."""
    threads = []

    def serve(query, first, rest):
        with query:
            say(query, "one")
            first.set()
            assert rest.wait(PATIENCE)
            say(query, "two")

    def hear(query):
        first, rest = threading.Event(), threading.Event()
        thread = threading.Thread(target=serve, args=(query, first, rest))
        thread.start()
        threads.append((thread, rest))
        assert first.wait(PATIENCE)

    session.declare_queryable("q", hear)
    got, over = asking(session)
    # The callback has come back from the first when it is called with the second.
    asking(session)
    eventually(lambda: len(threads) == 2)
    assert not over.is_set()
    for thread, rest in threads:
        rest.set()
        thread.join()
    assert over.wait(PATIENCE)
    assert got == ["one", "two"]


@pytest.mark.parametrize("kind", [Callback, lambda call, **more: BatchCallback(each(call), **more)])
@pytest.mark.parametrize("answer", [False, True])
def test_a_callback_that_raises_ends_it_whoever_keeps_it(session, kind, answer):
    kept, errors = [], []

    def hear(query):
        kept.append(query)
        if answer:
            say(query)
        raise LookupError("on purpose")

    # The error keeps the traceback, and that the query.
    session.declare_queryable("q", kind(hear, on_error=errors.append))
    failure = 'error {"type": "LookupError", "message": "on purpose"}'
    assert ask(session) == [*["yes"] * answer, failure]
    with pytest.raises(UsageError, match="the callback that got it has raised"):
        say(kept[0])
    assert [error.args[0] for error in errors] == ["on purpose"]


def serving(loop):
    """Runs a loop in a thread of its own."""
    thread = threading.Thread(target=loop)
    thread.start()
    return thread


@pytest.mark.parametrize("over", ["queryable", "handler", "iterator", "iterator of the handler"])
def test_a_loop_ends_what_it_has_answered_when_it_goes_on(session, over):
    queryable = session.declare_queryable("q")
    source = {
        "queryable": lambda: queryable,
        "handler": lambda: queryable.handler,
        "iterator": lambda: iter(queryable),
        "iterator of the handler": lambda: iter(queryable.handler),
    }[over]()
    kept = []

    def loop():
        for query in source:
            kept.append(query)
            say(query)

    thread = serving(loop)
    # Here nothing comes that would replace the loop variable.
    assert ask(session) == ["yes"]
    assert ask(session) == ["yes"]
    with pytest.raises(UsageError, match="the loop that has answered it has gone on"):
        say(kept[0])
    queryable.undeclare()
    thread.join(PATIENCE)


def test_a_loop_that_is_left_ends_what_it_has_answered(session):
    queryable = session.declare_queryable("q")
    got, over = asking(session)
    for query in queryable:
        say(query)
        break
    assert over.wait(PATIENCE)
    assert got == ["yes"]
    with pytest.raises(UsageError):
        say(query)
    # A query taken out of an iterator with next() belongs to no turn of a loop.
    got, over = asking(session)
    query = next(iter(queryable))
    say(query, "one")
    say(query, "two")
    assert not over.is_set()
    query.drop()
    assert over.wait(PATIENCE)
    assert got == ["one", "two"]


def test_a_loop_keeps_nothing_and_ends_nothing_that_it_has_not_answered(session):
    queryable = session.declare_queryable("q")
    kept, there = [], threading.Event()

    def loop():
        for query in queryable:
            if len(kept) < 2:
                kept.append(query)
            del query
            there.set()

    thread = serving(loop)
    first, second = asking(session), asking(session)
    while len(kept) < 2:
        assert there.wait(PATIENCE)
        there.clear()
    assert ask(session) == []
    for number in (1, 0):
        say(kept[number], "one")
        say(kept[number], "two")
    assert not first[1].is_set()
    del kept[0]
    assert first[1].wait(PATIENCE)
    kept[0].drop()
    assert second[1].wait(PATIENCE)
    assert first[0] == second[0] == ["one", "two"]
    queryable.undeclare()
    thread.join(PATIENCE)


def test_each_loop_has_its_own_turn(session):
    """Several threads serve one queryable; one waits for the next while another still answers."""
    queryable = session.declare_queryable("q")
    go_on, begun, kept = threading.Event(), threading.Event(), []

    def loop():
        for query in queryable:
            kept.append(query)
            say(query, "one")
            if str(query.parameters) == "slow":
                begun.set()
                assert go_on.wait(PATIENCE)
            say(query, "two")

    threads = [serving(loop) for _ in range(3)]
    slow, over = asking(session, "q?slow")
    assert begun.wait(PATIENCE)
    for _ in range(6):
        assert ask(session) == ["one", "two"]
    assert not over.is_set()
    go_on.set()
    assert over.wait(PATIENCE)
    assert slow == ["one", "two"]
    queryable.undeclare()
    for thread in threads:
        thread.join(PATIENCE)


def test_an_iterator_that_threads_share_ends_only_what_its_thread_has_answered(session):
    queryable = session.declare_queryable("q")
    shared = iter(queryable)
    got, over = asking(session)
    query = next(shared)
    say(query, "one")
    other = serving(lambda: next(shared).drop())
    assert ask(session) == []
    other.join(PATIENCE)
    say(query, "two")
    assert not over.is_set()
    query.drop()
    assert over.wait(PATIENCE)
    assert got == ["one", "two"]


def test_what_recv_gives_is_ended_by_who_took_it(session):
    queryable = session.declare_queryable("q")
    replies = [asking(session) for _ in range(3)]
    taken = [queryable.recv(PATIENCE), queryable.try_recv(), *queryable.handler.recv_many(1, PATIENCE)]
    for text in ("one", "two"):
        for query in taken:
            say(query, text)
    assert not any(over.is_set() for _, over in replies)
    taken.pop().drop()
    with taken.pop():
        pass
    del query, taken[:]
    gc.collect()
    for got, over in replies:
        assert over.wait(PATIENCE)
        assert got == ["one", "two"]


def test_a_query_that_was_dropped_says_so(session):
    queryable = session.declare_queryable("q")
    asking(session)
    with queryable.recv(PATIENCE) as query:
        say(query)
    with pytest.raises(UsageError, match="it was dropped, or its `with` block has ended"):
        say(query)


def test_values_are_asked_and_answered_in_the_same_way(session):
    kept = []

    def hear(query):
        kept.append(query)
        query.reply("yes")

    with typed.queryable(session, "q", str, hear):
        assert list(map(str.split, ask(session))) == [["yes"]]
    queryable = typed.queryable(session, "q", str)

    def loop():
        for query in queryable:
            if not query.parameters:
                kept.append(query)
                query.reply("yes")
            del query

    thread = serving(loop)
    assert ask(session) == ["yes"]
    # Nor does the iterator keep one.
    assert ask(session, "q?silent") == []
    for query in kept:
        with pytest.raises(UsageError, match="Send all answers before that"):
            query.reply("more")
    queryable.undeclare()
    thread.join(PATIENCE)
