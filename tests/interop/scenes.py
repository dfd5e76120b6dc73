"""Scenes of session use: each runs on one module and notes what a program sees."""

import json
import threading
import time

from interop.harness import free_port

SECONDS = 5


def config(zenoh, **keys):
    made = zenoh.Config()
    made.insert_json5("scouting/multicast/enabled", "false")
    made.insert_json5("listen/endpoints", "[]")
    for key, endpoint in keys.items():
        made.insert_json5(f"{key}/endpoints", json.dumps([endpoint]))
    return made


def until(condition):
    end = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


def shown(sample):
    """All that a sample says but times."""
    return (
        str(sample.key_expr),
        sample.payload.to_bytes(),
        str(sample.kind),
        str(sample.encoding),
        str(sample.priority),
        str(sample.congestion_control),
        sample.express,
        None if sample.attachment is None else sample.attachment.to_bytes(),
        sample.timestamp is not None,
        sample.source_info and sample.source_info.source_sn,
        sample.timestamp_stack,
    )


def publications(zenoh, note):
    with zenoh.open(config(zenoh)) as session:
        subscriber = session.declare_subscriber("a/*")

        def put(*arguments, **options):
            session.put(*arguments, **options)
            return shown(subscriber.recv())

        for payload in ("x", b"x", bytearray(b"x"), b"", zenoh.ZBytes("x"), None, 1, 1.5, True, [1], {}):
            note(f"put {type(payload).__name__} {bool(payload)}", lambda payload=payload: put("a/b", payload))
        for key in (zenoh.KeyExpr("a/b"), "a/*", "a//b", "a/**/**", None, b"a/b", 1, zenoh.Selector("a/b")):
            note(f"put to {key!r}", lambda key=key: put(key, "x"))
        for name, values in {
            "encoding": [
                "text/plain",
                zenoh.Encoding.APPLICATION_JSON,
                "text/plain;utf-8",
                "my/own",
                None,
                1,
            ],
            "priority": [zenoh.Priority.REAL_TIME, 1, "DATA", None],
            "congestion_control": [*(getattr(zenoh.CongestionControl, n) for n in ("DROP", "BLOCK")), 0],
            "express": [True, False, None, 1],
            "attachment": ["y", b"", zenoh.ZBytes("y"), None, 1],
            "timestamp": [session.new_timestamp(), None, 1, "x"],
            "source_info": [zenoh.SourceInfo(session.id, 7), None, 7],
            "allowed_destination": [zenoh.Locality.SESSION_LOCAL, zenoh.Locality.ANY, 1],
        }.items():
            for number, value in enumerate(values):
                note(f"{name} {number}", lambda name=name, value=value: put("a/b", "x", **{name: value}))
        note("no payload", lambda: session.put("a/b"))
        note("unknown option", lambda: session.put("a/b", "x", colour=1))
        note("delete", lambda: (session.delete("a/b", attachment="z"), shown(subscriber.recv()))[1])


def publishers(zenoh, note):
    with zenoh.open(config(zenoh)) as session:
        subscriber = session.declare_subscriber("a/*")
        options = {"encoding": "text/plain", "priority": zenoh.Priority.DATA_HIGH, "express": True}
        options["congestion_control"] = zenoh.CongestionControl.BLOCK
        for number, chosen in enumerate(({}, options)):
            publisher = session.declare_publisher("a/b", **chosen)
            for name in ("key_expr", "encoding", "priority", "congestion_control", "reliability"):
                note(f"{name} {number}", lambda p=publisher, name=name: str(getattr(p, name)))
            for encoding in (None, "zenoh/bytes", "text/json"):
                publisher.put("x", encoding=encoding)
                note(f"put {number} {encoding}", lambda: shown(subscriber.recv()))
            publisher.delete(attachment="y")
            note(f"delete {number}", lambda: shown(subscriber.recv()))
            note(f"matching {number}", lambda p=publisher: p.matching_status.matching)
            note(f"undeclare {number}", publisher.undeclare)
            note(f"undeclare {number} again", publisher.undeclare)
            note(f"put {number} after it", lambda p=publisher: p.put("x"))
        with session.declare_publisher("a/c") as publisher:
            publisher.put("x")
        note("put after with", lambda: publisher.put("x"))
        note("bad key", lambda: session.declare_publisher("a//c"))
        note("bad priority", lambda: session.declare_publisher("a/c", priority=1))
        note("the truth of a matching status", lambda: bool(session.declare_publisher("n").matching_status))
        note("the key of an undeclared one", lambda: publisher.key_expr)


def channels(zenoh, note):
    made = zenoh.handlers
    with zenoh.open(config(zenoh)) as session:
        for handler in (None, made.DefaultHandler(), made.FifoChannel(3), made.RingChannel(3)):
            name = type(handler).__name__
            subscriber = (
                session.declare_subscriber("a", handler) if handler else session.declare_subscriber("a")
            )
            note(f"{name}: empty", subscriber.try_recv)
            for number in range(3):
                session.put("a", str(number))
            channel = subscriber.handler
            note(f"{name}: recv", lambda s=subscriber: s.recv().payload.to_string())
            note(f"{name}: try_recv", lambda c=channel: c.try_recv().payload.to_string())
            note(f"{name}: next", lambda s=subscriber: next(iter(s)).payload.to_string())
            session.put("a", "last")
            note(f"{name}: undeclare", subscriber.undeclare)
            note(f"{name}: again", subscriber.undeclare)
            note(f"{name}: rest", lambda c=channel: [sample.payload.to_string() for sample in c])
            note(f"{name}: over", channel.recv)
        events = []
        handler = made.Callback(lambda _: events.append("sample"), lambda: events.append("drop"))
        subscriber = session.declare_subscriber("a", handler)
        note("callback: handler", lambda: subscriber.handler)
        session.put("a", "x")
        until(lambda: events)
        subscriber.undeclare()
        until(lambda: len(events) > 1)
        note("callback: events", lambda: list(events))
        items = []
        subscriber = session.declare_subscriber("a", (items.append, items))
        session.put("a", "x")
        note("pair: handler", lambda: subscriber.handler is items and bool(until(lambda: items)))
        for wrong in (5, "x", (print,), (print, 1, 2)):
            note(f"handler {type(wrong)}", lambda wrong=wrong: session.declare_subscriber("a", wrong) and 1)
        note("bad key", lambda: session.declare_subscriber("a//b"))
        note("place of allowed_origin", lambda: session.declare_subscriber("a", print, zenoh.Locality.ANY))

        def twice():
            with session.declare_subscriber("a") as inner:
                inner.undeclare()

        note("undeclare within with", twice)


def queries(zenoh, note):
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    answering = zenoh.open(config(zenoh, listen=endpoint))
    asking = zenoh.open(config(zenoh, connect=endpoint))

    def answer(query):
        with query:
            what = str(query.parameters)
            if what == "two":
                query.reply("q/1", "1")
                query.reply("q/2", "2")
            elif what == "same":
                query.reply("q/1", "1")
                query.reply("q/1", "2")
            elif what == "del":
                query.reply_del("q/1", attachment="y")
            elif what == "err":
                query.reply_err("bad", encoding="text/plain")
            elif what == "wrong":
                note("reply to another key", lambda: query.reply("x", "1"))
            elif what.startswith("any"):
                note("reply to any key", lambda: query.reply("x", "1"))
            elif what == "express":
                query.reply("q/1", "1", express=True)
            else:
                body = [None if part is None else bytes(part) for part in (query.payload, query.attachment)]
                kind = query.encoding and str(query.encoding)
                query.reply("q/1", f"{query.selector} {query.accepts_replies()} {body} {kind}")

    answering.declare_queryable("q/*", answer, complete=True)
    querier = asking.declare_querier("q/*", accept_replies=zenoh.ReplyKeyExpr.ANY)
    until(lambda: querier.matching_status.matching)

    def told(replies):
        # Replies that were held back come in no order.
        rows = [shown(r.ok) if r.ok else (bytes(r.err.payload), str(r.err.encoding)) for r in replies]
        return sorted(rows, key=repr)

    for what in ("", "plain", "two", "same", "del", "err", "wrong", "none", "express"):
        note(f"get {what}", lambda what=what: told(asking.get(f"q/*?{what}")))
    for name in ("NONE", "MONOTONIC", "LATEST", "AUTO"):
        mode = getattr(zenoh.ConsolidationMode, name)
        note(f"consolidation {name}", lambda mode=mode: told(asking.get("q/*?same", consolidation=mode)))
    for name in ("BEST_MATCHING", "ALL", "ALL_COMPLETE"):
        target = getattr(zenoh.QueryTarget, name)
        note(f"target {name}", lambda target=target: told(asking.get("q/1", target=target)))
    for timeout in (2, 2.5, None, -1, "1", float("nan")):
        note(f"timeout {timeout}", lambda timeout=timeout: told(asking.get("q/1", timeout=timeout)))
    for number, options in enumerate(
        (
            {"payload": "p", "encoding": "text/plain", "attachment": "a"},
            {"payload": b""},
            {"encoding": "text/plain"},
            {"payload": None},
            {"payload": 5},
            {"priority": zenoh.Priority.REAL_TIME, "express": True},
            {"allowed_destination": zenoh.Locality.REMOTE},
            {"allowed_destination": zenoh.Locality.SESSION_LOCAL},
            {"target": 1},
            {"consolidation": 1},
        )
    ):
        note(f"get with {number}", lambda options=options: told(asking.get("q/1", **options)))
    note("any key", lambda: told(asking.get("q/1?any", accept_replies=zenoh.ReplyKeyExpr.ANY)))
    for selector in ("q//", 1, None, zenoh.Selector("q/1", "plain"), zenoh.KeyExpr("q/1"), "nobody/here"):
        note(f"get of {selector!r}", lambda selector=selector: told(asking.get(selector)))
    note("querier", lambda: told(querier.get(parameters="two")))
    note("querier with a dict", lambda: told(querier.get(parameters={"x": "1"})))
    note("querier with a number", lambda: told(querier.get(parameters=1)))
    held = []
    answering.declare_queryable("held", held.append)
    until(lambda: told(asking.get("held", timeout=0.2)) or held)
    note("text of a query", lambda: str(held[0]))
    # eclipse-zenoh sometimes reports a timeout twice, and its encoding depends on which timer fired first.
    note("timeout 0", lambda: sorted({row[0] for row in told(asking.get("held", timeout=0))}))
    held[0].drop()
    note("drop twice", held[0].drop)
    note("reply after drop", lambda: held[0].reply("held", "x"))
    note("key after drop", lambda: held[0].key_expr)

    def keep(query):
        held.append(query)
        query.reply("kept", "1")

    def loop():
        for query in asked:
            query.reply("asked", "1")

    asked = answering.declare_queryable("asked")
    threading.Thread(target=loop, daemon=True).start()
    answering.declare_queryable("kept", keep)
    for key, label in (("kept", "kept after its answer"), ("asked", "answered in a loop")):
        waiting = asking.declare_querier(key)
        until(lambda waiting=waiting: waiting.matching_status.matching)
        # There the timeout is now and then told of twice.
        note(label, lambda key=key: sorted({repr(row) for row in told(asking.get(key, timeout=0.3))}))
    asked.undeclare()
    token = zenoh.CancellationToken()
    token.cancel()
    note("cancelled", lambda: (token.is_cancelled, asking.get("q/1", cancellation_token=token))[0])
    answering.close()
    asking.close()


def liveliness(zenoh, note):
    with zenoh.open(config(zenoh)) as session:
        token = session.liveliness().declare_token("t/1")
        for options in ({}, {"timeout": 1}, {"timeout": 0.5}, {"timeout": "1"}):
            get = lambda options=options: session.liveliness().get("t/**", **options)  # noqa: E731
            note(f"get {options}", lambda get=get: [shown(reply.ok) for reply in get()])
        subscriber = session.liveliness().declare_subscriber("t/**", history=True)
        note("history", lambda: shown(subscriber.recv()))
        note("undeclare", token.undeclare)
        note("again", token.undeclare)
        note("gone", lambda: shown(subscriber.recv()))
        with session.liveliness().declare_token("t/2"):
            note("within", lambda: str(subscriber.recv().key_expr))
        note("after", lambda: str(subscriber.recv().kind))
        note("bad key", lambda: session.liveliness().declare_token("t//"))


def ends(zenoh, note):
    session = zenoh.open(config(zenoh))
    declared = {
        "subscriber": session.declare_subscriber("z"),
        "publisher": session.declare_publisher("z"),
        "queryable": session.declare_queryable("z"),
        "querier": session.declare_querier("z"),
        "token": session.liveliness().declare_token("z"),
    }
    key = session.declare_keyexpr("k")
    note("undeclare a text", lambda: session.undeclare("k"))
    note("undeclare nothing", lambda: session.undeclare(None))
    note("undeclare a number", lambda: session.undeclare(1))
    note("undeclare a publisher", lambda: session.undeclare(session.declare_publisher("y")))
    note("close", session.close)
    note("close again", session.close)
    note("is_closed", session.is_closed)
    for name in ("put", "declare_subscriber", "declare_publisher", "declare_queryable", "get"):
        arguments = ("a", "x") if name == "put" else ("a",)
        note(name, lambda name=name, arguments=arguments: getattr(session, name)(*arguments))
    note("token", lambda: session.liveliness().declare_token("a"))
    note("ids", lambda: (session.info.zid() == session.zid(), session.info.peers_zid(), session.info.links()))
    note("time", lambda: type(session.new_timestamp()).__name__)
    note("matching", lambda: declared["publisher"].matching_status.matching)
    note("publish", lambda: declared["publisher"].put("x"))
    note("try_recv", declared["subscriber"].try_recv)
    note("recv", declared["subscriber"].recv)
    note("iterate", lambda: list(declared["subscriber"]))
    for name, entity in declared.items():
        note(f"undeclare {name}", entity.undeclare)
    note("undeclare a key expression", lambda: session.undeclare(key))


SCENES = [publications, publishers, channels, queries, liveliness, ends]
