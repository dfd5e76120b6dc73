"""Differences visible to programs, with reasons. Tests check each; `docs/compatibility.md` lists them."""

from typing import NamedTuple


class Value(NamedTuple):
    """Expressions with one reason: their values there and here; an ellipsis stands for more text."""

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
    "Names and defaults of the stubs hold": Value(
        "the stubs of eclipse-zenoh say so, its module does not do it",
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
    "What the `repr` of a value says": Value(
        "the text of the Rust types says nothing to a reader of Python, or is as long as a payload",
        [
            ("Encoding.TEXT_PLAIN", "Encoding(Encoding { id: 4, schema: None })", "Encoding('text/plain')"),
            ('ZBytes("abc")', "ZBytes(ZBuf { slices: [[61, 62, 63]] })", "ZBytes(b'abc')"),
            ('WhatAmIMatcher("peer|router")', "WhatAmIMatcher(131)", "WhatAmIMatcher('router|peer')"),
            (
                "zenoh.QueryConsolidation.AUTO",
                "<QueryConsolidation object>",
                "QueryConsolidation(ConsolidationMode.AUTO)",
            ),
            ("handlers.Callback(print)", "Callback { callback: , drop: None, …", "<Callback object>"),
            (
                "zenoh.CancellationToken()",
                "CancellationTokenInner { on_cancel_handlers: 0, …",
                "<CancellationToken object>",
            ),
            ("Config()", "Config(Config { id: None, metadata: Null, …", "<Config mode=peer connect=[] …"),
            ('zenoh.ZError("x")', "ZError('x')", "ZwireError('x')"),
        ],
    ),
    "Equal content is equal": Value(
        "there two objects with one content are different; `hash` works here as there",
        [
            ("Config() == Config()", "False", "True"),
            ('Parameters("a=1") == Parameters("a=1")', "False", "True"),
            ('Selector("a") == Selector("a")', "False", "True"),
            ('WhatAmIMatcher("peer") == WhatAmIMatcher("peer")', "False", "True"),
            ("zenoh.QueryConsolidation.AUTO == zenoh.QueryConsolidation.DEFAULT", "False", "True"),
        ],
    ),
    "Arguments that are taken, too": Value(
        "the meaning is plain",
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
    "What values can do": Value(
        "users have asked for it, or Python programs expect it",
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
        "there it is taken and has no effect, or overflows",
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
        "the values are the same; keys that are secrets or unset are shown, too, rules as they were given",
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
        "attributes of what was undeclared, and of a query that was dropped",
        ERROR,
        "as before",
        "who writes a log line about it has no reason to fail",
    ),
    ("channels", "RingChannel: rest"): Scene(
        "what is left in a `RingChannel` after `undeclare()`",
        "lost",
        "can still be taken, as from other channels",
        "it has arrived",
    ),
    ("channels", "undeclare within with"): Scene(
        "`undeclare()` within the `with` block of the same object",
        ERROR,
        "nothing more happens",
        "what the block is to do at its end is done",
    ),
    ("queries", "get express"): Scene(
        "`query.reply(..., express=True)`",
        "has no effect",
        "the reply is sent at once",
        "it is what the parameter says",
    ),
    ("queries", "text of a query"): Scene(
        "`str(query)`",
        'Query { selector: "keyx=1" }',
        "key?x=1",
        "it is the text of its selector",
    ),
    ("queries", "kept after its answer"): Scene(
        "a query that its callback has answered, and that is kept in a list, a global or a traceback",
        "open until nothing refers to it: its asker waits for the whole timeout and gets a `Timeout` error",
        "finished when the callback returns; a further answer is an error that says so. One that the "
        "callback itself has not answered stays open, as there",
        "it has its answer; who answers later leaves all answers to later",
    ),
    ("queries", "answered in a loop"): Scene(
        "`for query in queryable:` while it waits for the next query",
        "the loop variable keeps the last query open: its asker waits for the whole timeout",
        "finished, if the turn of the loop has answered it; `recv()` is as there",
        "nobody sees a loop variable as a promise of further answers",
    ),
    ("queries", "key after drop"): Scene(
        "`query.key_expr` after `query.drop()`",
        ERROR,
        "as before",
        "as for what was undeclared",
    ),
}

# Differences that a test of one module cannot show, or that take longer: each has tests of its own.
ON_PURPOSE = [
    (
        "a channel that nobody reads",
        "holds its publisher up for ever",
        "holds it up for a bounded time, then drops and counts",
    ),
    (
        "`Callback(..., indirect=False)`",
        "runs in the thread of the network",
        "runs in a thread for callbacks: it cannot stop the network",
    ),
    ("a `get` that nobody answers", "says nothing about why", "`Handler.end` says how it ended"),
    ("a session in a forked child", "`put` returns and sends nothing, `close` hangs", "raises `UsageError`"),
    ("values in pickles, `multiprocessing`, Spark", "cannot be pickled", "can"),
    (
        "errors",
        "one `ZError` with the text of a Rust error",
        "a tree of classes below `ZError`, with attributes",
    ),
    ("an unknown key of a configuration", "`unknown key`", "`ConfigError` with the path and the nearest key"),
    (
        "`timestamp_callback` and what arrives",
        "called in the thread of the network",
        "called in the thread that takes the message",
    ),
    (
        "the log",
        "lines on standard output, if `init_log_from_env_or` or its twin was called",
        "Python's `logging`; those two write lines to standard error as well",
    ),
    ("`zenoh.shm`", "memory that processes share", "every name; `NotSupported` where memory would be shared"),
]
