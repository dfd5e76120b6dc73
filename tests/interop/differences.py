"""Differences from eclipse-zenoh with reasons, checked by tests; the source of `docs/compatibility.md`."""

from typing import NamedTuple


class Value(NamedTuple):
    """Expressions with one reason: their result in both modules; an ellipsis stands for more text."""

    reason: str
    outcomes: list[tuple[str, str, str]]


class Scene(NamedTuple):
    """A difference in the behaviour of sessions."""

    what: str
    theirs: str
    ours: str
    reason: str


TYPE = "raises TypeError"
ATTRIBUTE = "raises AttributeError"
ERROR = "raises ZError"

VALUES = {
    "Names and defaults of the stubs": Value(
        "the module of eclipse-zenoh does not follow its own stubs; zwire does",
        [
            ('KeyExpr(key_expr="a")', TYPE, "ke`a`"),
            ('KeyExpr(s="a")', "ke`a`", TYPE),
            ('str(Encoding(encoding="a"))', TYPE, "'a'"),
            ("str(Encoding())", TYPE, "'zenoh/bytes'"),
            ("str(Parameters())", TYPE, "''"),
            ('str(Parameters(parameters="a=1"))', TYPE, "'a=1'"),
            ("ZBytes().to_bytes()", TYPE, "b''"),
            ('ZBytes(bytes=b"x").to_bytes()', TYPE, "b'x'"),
            ('ZBytes(obj=b"x").to_bytes()', "b'x'", TYPE),
            ('str(WhatAmIMatcher(matcher="peer"))', TYPE, "'peer'"),
            ("WhatAmIMatcher().is_empty()", TYPE, "True"),
            ('zenoh.WhatAmI(s="router")', "Router", TYPE),
            ("NTP64(seconds=1, nanos=2).subsec_nanos()", TYPE, "2"),
            ('s = Selector("a"); s.key_expr = "b"; str(s)', ATTRIBUTE, "'b'"),
            ('s = Selector("a"); s.parameters = "x=1"; str(s)', ATTRIBUTE, "'a?x=1'"),
            (
                "zenoh.QueryConsolidation(zenoh.ConsolidationMode.LATEST).mode",
                "<built-in method mode of QueryConsolidation object>",
                "ConsolidationMode.LATEST",
            ),
            ("handlers.FifoChannel[int]", TYPE, "FifoChannel[int]"),
            ("handlers.Callback[int]", TYPE, "Callback[int]"),
            ("zenoh.LinkEventsListener[int]", TYPE, "LinkEventsListener[int]"),
        ],
    ),
    "The `repr` of values": Value(
        "the text of the Rust types does not help Python programmers, or is as long as a payload",
        [
            ("Encoding.TEXT_PLAIN", "Encoding(Encoding { id: 4, schema: None })", "Encoding('text/plain')"),
            ('ZBytes("abc")', "ZBytes(ZBuf { slices: [[61, 62, 63]] })", "ZBytes(b'abc')"),
            ('WhatAmIMatcher("peer|router")', "WhatAmIMatcher(131)", "WhatAmIMatcher('router|peer')"),
            (
                "zenoh.QueryConsolidation.AUTO",
                "<QueryConsolidation object>",
                "QueryConsolidation(ConsolidationMode.AUTO)",
            ),
            (
                "handlers.Callback(print)",
                "Callback { callback: , drop: None, …",
                "<Callback of <built-in function print>>",
            ),
            ("handlers.FifoChannel(3)", "<FifoChannel object>", "FifoChannel(3)"),
            ("handlers.RingChannel(3)", "<RingChannel object>", "RingChannel(3)"),
            ("handlers.DefaultHandler()", "<DefaultHandler object>", "DefaultHandler()"),
            (
                "zenoh.CancellationToken()",
                "CancellationTokenInner { on_cancel_handlers: 0, …",
                "<CancellationToken not cancelled>",
            ),
            ("Config()", "Config(Config { id: None, metadata: Null, …", "<Config mode=peer connect=[] …"),
            ('zenoh.ZError("x")', "ZError('x')", "ZwireError('x')"),
        ],
    ),
    "Equality by content": Value(
        "in eclipse-zenoh two objects with the same content are different; `hash` works in both",
        [
            ("Config() == Config()", "False", "True"),
            ('Parameters("a=1") == Parameters("a=1")', "False", "True"),
            ('Selector("a") == Selector("a")', "False", "True"),
            ('WhatAmIMatcher("peer") == WhatAmIMatcher("peer")', "False", "True"),
            ("zenoh.QueryConsolidation.AUTO == zenoh.QueryConsolidation.DEFAULT", "False", "True"),
        ],
    ),
    "Additional argument types": Value(
        "the meaning of these arguments is unambiguous",
        [
            ('KeyExpr(KeyExpr("a"))', TYPE, "ke`a`"),
            ('KeyExpr("a").join(KeyExpr("b"))', TYPE, "ke`a/b`"),
            ('KeyExpr("a").concat(KeyExpr("b"))', TYPE, "ke`ab`"),
            ('"a" / KeyExpr("b")', TYPE, "ke`a/b`"),
            ('str(Encoding(Encoding("a")))', TYPE, "'a'"),
            ('str(Parameters(Parameters("a=1")))', TYPE, "'a=1'"),
            ('str(Selector(Selector("a/b?x=1")))', TYPE, "'a/b?x=1'"),
            ('ZBytes(memoryview(b"x")).to_bytes()', TYPE, "b'x'"),
            ('ZBytes(ZBytes(b"x")).to_bytes()', TYPE, "b'x'"),
            ('ZBytes([b"a", bytearray(b"b")]).to_bytes()', TYPE, "b'ab'"),
            ('bytes(zenoh.TimestampId(zenoh.TimestampId(b"a")))[:1]', TYPE, "b'a'"),
            ('Timestamp.parse_rfc3339("7386690599959157260/33")', ERROR, "7386690599959157260/33"),
            ("c = Config(); c.insert_json5('id', None); c.get_json('id')", TYPE, "'null'"),
            ("c = Config(); c.insert_json5('adminspace/enabled', True)", TYPE, "None"),
            (
                'c = Config(); c.insert_json5("", \'{mode: "client"}\'); c.get_json("mode")',
                ERROR,
                "'\"client\"'",
            ),
            ("ext.z_deserialize(typing.List[int], ext.z_serialize([1, 2]))", TYPE, "[1, 2]"),
        ],
    ),
    "Additional operations": Value(
        "users have requested these operations, or Python programs expect them",
        [
            ('KeyExpr("a") < KeyExpr("b")', TYPE, "True"),
            ('copy.copy(KeyExpr("a"))', TYPE, "ke`a`"),
            ('ZBytes(b"a")[0]', TYPE, "97"),
            ('list(ZBytes(b"ab"))', TYPE, "[97, 98]"),
            ('bytearray(ZBytes(b"ab"))', TYPE, "bytearray(b'ab')"),
            ('int(ZBytes(b"1"))', TYPE, "1"),
            ("Encoding.TEXT_PLAIN.id", ATTRIBUTE, "4"),
            ('zenoh.ZenohId("a")', TYPE, "a"),
            ("zenoh.Priority(5)", TYPE, "Priority.DATA"),
            ("len(list(zenoh.Priority))", TYPE, "7"),
            ("zenoh.Priority.DATA.name", ATTRIBUTE, "'DATA'"),
            ("{zenoh.Priority.DATA: 1}", TYPE, "{Priority.DATA: 1}"),
        ],
    ),
    "Wrong values are refused with a `ZError`": Value(
        "eclipse-zenoh accepts such a value without effect, or overflows",
        [
            ("c = Config(); c.insert_json5('queries_default_timeout', '-1')", "None", ERROR),
            ('str(Encoding("x" * 300))[:1]', "'x'", ERROR),
            ('ext.z_deserialize(int, b"abc")', TYPE, ERROR),
            ("issubclass(ext.ZDeserializeError, zenoh.ZError)", "False", "True"),
            (
                'Timestamp(NTP64(0, 0), b"a").get_diff_duration(Timestamp(NTP64(1, 0), b"a"))',
                "datetime.timedelta(days=49710, seconds=23295)",
                "datetime.timedelta(days=-1, seconds=86399)",
            ),
        ],
    ),
    "Texts of a configuration": Value(
        "the values are the same; secret and unset keys are included, and rules keep their given form",
        [
            (
                'Config().get_json("listen/endpoints")',
                '\'{"router":["tcp/[::]:7447"],"peer":["tcp/[::]:0"]}\'',
                '\'{"router":["tcp/[::]:7447"],"peer":["tcp/[::]:0"],"client":[]}\'',
            ),
            (
                'Config().get_json("connect")',
                '\'{"timeout_ms":null,"endpoints":[],"exit_on_failure":null,"retry":null}\'',
                '\'{"timeout_ms":null,"endpoints":[],"exit_on_failure":null,"retry":{"period_init_ms":null,…',
            ),
            (
                (
                    'c = Config(); k = "qos/network"; '
                    "c.insert_json5(k, '[{messages: [\"put\"], overwrite: {express: true}}]'); c.get_json(k)"
                ),
                '\'[{"id":null,"zids":null,"interfaces":null,"link_protocols":null,"messages":["put"],…',
                '\'[{"messages":["put"],"overwrite":{"express":true}}]\'',
            ),
            ('Config().get_json("")', ERROR, '\'{"id":null,…'),
        ],
    ),
}

SCENES = {
    ("publishers", "the truth of a matching status"): Scene(
        "`bool(publisher.matching_status)` without a subscriber",
        "True",
        "False",
        "the stubs call it a `bool`",
    ),
    ("publishers", "the key of an undeclared one"): Scene(
        "attributes of an undeclared object, and of a dropped query",
        ERROR,
        "as before",
        "a log line about the object should not fail",
    ),
    ("channels", "RingChannel: rest"): Scene(
        "items left in a `RingChannel` after `undeclare()`",
        "lost",
        "can still be taken, as from other channels",
        "the items have arrived",
    ),
    ("channels", "undeclare within with"): Scene(
        "`undeclare()` within the `with` block of the same object",
        ERROR,
        "no further effect",
        "the block would undeclare the object at its end",
    ),
    ("queries", "get express"): Scene(
        "`query.reply(..., express=True)`",
        "has no effect",
        "the reply is sent at once",
        "the parameter requests it",
    ),
    ("queries", "text of a query"): Scene(
        "`str(query)`",
        'Query { selector: "keyx=1" }',
        "key?x=1",
        "the text of a query is its selector",
    ),
    ("queries", "kept after its answer"): Scene(
        "a query that its callback has answered, and that is kept in a list, a global or a traceback",
        "open until its last reference is gone: the get waits for its whole timeout and gets an error",
        "finished when the callback returns; a further answer raises an error. A query that the callback "
        "itself has not answered stays open, as in eclipse-zenoh",
        "the query has its answer; a program that answers later sends all answers later",
    ),
    ("queries", "answered in a loop"): Scene(
        "`for query in queryable:` while it waits for the next query",
        "the loop variable keeps the last query open: the get waits for the whole timeout",
        "finished, if the loop iteration has answered it; `recv()` behaves as in eclipse-zenoh",
        "a loop variable does not indicate further answers",
    ),
    ("queries", "key after drop"): Scene(
        "`query.key_expr` after `query.drop()`",
        ERROR,
        "as before",
        "as for undeclared objects",
    ),
}

# Differences that one comparison of both modules cannot show, or that take longer: each has tests of its own.
ON_PURPOSE = [
    (
        "a callback of a queryable that raises an exception",
        "the get ends without a reply",
        "the get has an error reply with type and message of the exception",
    ),
    (
        "an unread channel",
        "blocks its publisher without limit",
        "blocks it for a bounded time, then drops and counts",
    ),
    (
        "`Callback(..., indirect=False)`",
        "runs in the network thread",
        "runs in a callback thread: it cannot block the network",
    ),
    ("a `get` without replies", "does not report the reason", "`Handler.end` has the reason"),
    ("a session in a forked child", "`put` returns and sends nothing, `close` hangs", "raises `UsageError`"),
    ("values in pickles, `multiprocessing`, Spark", "cannot be pickled", "can be pickled"),
    (
        "errors",
        "one `ZError` with the text of a Rust error",
        "a tree of classes below `ZError`, with attributes",
    ),
    ("an unknown key of a configuration", "`unknown key`", "`ConfigError` with the path and the nearest key"),
    (
        "`timestamp_callback` and received messages",
        "called in the network thread",
        "called in the thread that takes the message",
    ),
    (
        "the log",
        "lines on standard output, after `init_log_from_env_or` or `try_init_log_from_env`",
        "Python's `logging`; those two write lines to standard error as well",
    ),
    (
        "`zenoh.shm`",
        "shared memory with other processes of eclipse-zenoh",
        "every name; shares memory with zwire (no copy) and with eclipse-zenoh; never revokes a buffer",
    ),
]
