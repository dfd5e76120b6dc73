"""Asks and answers, with everything that a question and an answer can carry."""

import threading

import zenoh

heard = []


def answer(query):
    heard.append(
        ("asked", str(query.selector), str(query.key_expr), dict(query.parameters), query.accepts_replies())
    )
    body = None if query.payload is None else query.payload.to_string()
    note = None if query.attachment is None else query.attachment.to_string()
    heard.append(("with", body, str(query.encoding), note))
    if "fail" in query.parameters:
        query.reply_err("no such thing", encoding=zenoh.Encoding.TEXT_PLAIN)
        return
    query.reply("shelf/1", "book", encoding="text/plain", attachment="new")
    query.reply("shelf/2", b"")
    query.reply_del("shelf/3", attachment=b"sold")
    try:
        query.reply("elsewhere", "x")
    except zenoh.ZError:
        heard.append("refused")


def show(replies):
    lines = []
    for reply in replies:
        if reply.ok:
            s = reply.ok
            note = None if s.attachment is None else s.attachment.to_string()
            qos = (s.priority, s.congestion_control, s.express)
            lines.append(f"{s.key_expr} {s.kind} {s.payload.to_string()!r} {s.encoding} {note} {qos}")
        else:
            lines.append(f"error {reply.err.payload.to_string()!r} {reply.err.encoding}")
        assert (reply.ok is None) != (reply.err is None)
        assert reply.result is not None
    print(*sorted(lines), sep="\n")
    print(*heard, sep="\n")
    heard.clear()


with zenoh.open(zenoh.Config.from_env()) as asker, zenoh.open(zenoh.Config.from_env()) as other:
    queryable = other.declare_queryable("shelf/**", answer, complete=True)
    print(queryable.key_expr)
    querier = asker.declare_querier("shelf/*")
    while not querier.matching_status.matching:
        threading.Event().wait(0.01)

    show(asker.get("shelf/*"))
    show(asker.get("shelf/*?max=3;sort=up"))
    show(
        asker.get(zenoh.Selector("shelf/*", {"a": "b"}), payload="body", encoding="text/json", attachment="n")
    )
    show(asker.get("shelf/**?fail", timeout=2.0, target=zenoh.QueryTarget.ALL))
    show(asker.get("shelf/**?fail", consolidation=zenoh.ConsolidationMode.NONE, timeout=2))
    show(asker.get("nothing/*"))
    show(querier.get(parameters="x=1", payload=b"p"))
    show(querier.get(parameters={"y": "2"}, encoding=zenoh.Encoding.APPLICATION_JSON))

    # The same through a callback; the end is told by `drop`.
    got, over = [], threading.Event()
    asker.get("shelf/*", zenoh.handlers.Callback(got.append, over.set))
    print("over", over.wait(5))
    show(got)

    # A queryable that is read like a channel, and finishes each query itself.
    queryable.undeclare()
    inbox = other.declare_queryable("desk", zenoh.handlers.FifoChannel(4))
    asking = asker.declare_querier("desk", timeout=5.0)
    while not asking.matching_status.matching:
        threading.Event().wait(0.01)
    replies = asking.get()
    with inbox.recv() as query:
        query.reply(query.key_expr, "pen")
    show(replies)
    replies = asking.get()
    query = inbox.recv()
    query.reply(query.key_expr, "ink")
    query.drop()
    show(replies)
    silent = asker.get("desk", timeout=0.2)
    query = inbox.recv()
    # The reference now and then tells of a timeout twice.
    print({reply.err.payload.to_string() for reply in silent})
    query.drop()
