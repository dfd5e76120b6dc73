"""Calls that cannot work, and what they raise."""

import gc
import time

import zenoh


def attempt(what, call):
    try:
        result = call()
    except zenoh.ZError:
        print(what, "ZError")
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        print(what, type(error).__name__)
    else:
        print(what, type(result).__name__)


session = zenoh.open(zenoh.Config.from_env())
for name, payload in {"list": [1], "int": 1, "None": None, "float": 1.5, "dict": {}, "bool": True}.items():
    attempt(f"put {name}", lambda payload=payload: session.put("a", payload))
attempt("put at an illegal key", lambda: session.put("a//b", "x"))
attempt("put at a number", lambda: session.put(1, "x"))
attempt("put at a selector", lambda: session.put("a?b", "x"))
attempt("put without payload", lambda: session.put("a"))
attempt("put positional encoding", lambda: session.put("a", "x", "text/plain"))
attempt("put wrong encoding", lambda: session.put("a", "x", encoding=1))
attempt("put wrong priority", lambda: session.put("a", "x", priority=5))
attempt("put wrong congestion control", lambda: session.put("a", "x", congestion_control="BLOCK"))
attempt("put wrong timestamp", lambda: session.put("a", "x", timestamp="now"))
attempt("put wrong attachment", lambda: session.put("a", "x", attachment=[1]))
attempt("put unknown option", lambda: session.put("a", "x", colour="red"))
attempt("put by keyword", lambda: session.put(key_expr="a", payload="x"))
attempt("put with nothing chosen", lambda: session.put("a", "x", encoding=None, priority=None, express=None))
attempt("delete at an illegal key", lambda: session.delete("/"))
attempt("get at an illegal key", lambda: session.get("a//b"))
attempt("get wrong timeout", lambda: session.get("a", timeout="1"))
attempt("get negative timeout", lambda: session.get("a", timeout=-1))
attempt("get infinite timeout", lambda: session.get("a", timeout=float("inf")))
attempt("get wrong target", lambda: session.get("a", target=1))
attempt("get whole timeout", lambda: list(session.get("a", timeout=1)))
attempt("get mode", lambda: list(session.get("a", consolidation=zenoh.ConsolidationMode.NONE)))
attempt("get consolidation", lambda: list(session.get("a", consolidation=zenoh.QueryConsolidation.AUTO)))
attempt("recv of nothing", lambda: session.get("a").recv())
attempt("negative capacity", lambda: zenoh.handlers.FifoChannel(-1))
attempt("capacity as text", lambda: zenoh.handlers.RingChannel("1"))
attempt("make a sample", zenoh.Sample)
attempt("make a session", zenoh.Session)

for name, handler in {"int": 5, "text": "x", "pair": (1, 2), "triple": (print, 2, 3)}.items():
    attempt(f"subscribe with {name}", lambda handler=handler: session.declare_subscriber("a", handler))
    attempt(f"get with {name}", lambda handler=handler: session.get("a", handler))
attempt("undeclare a text", lambda: session.undeclare("text"))
attempt("undeclare a number", lambda: session.undeclare(5))
attempt("undeclare a key that is not declared", lambda: session.undeclare(zenoh.KeyExpr("b")))
print(zenoh.Reliability.DEFAULT)
matched = session.declare_publisher("a")
listeners = {
    "matching": matched.declare_matching_listener(),
    "transports": session.info.declare_transport_events_listener(),
    "links": session.info.declare_link_events_listener(),
}
for name, listener in listeners.items():
    attempt(f"undeclare {name}", listener.undeclare)
    attempt(f"undeclare {name} again", listener.undeclare)
    attempt(f"try_recv of {name} after", listener.try_recv)
matched.undeclare()

subscriber = session.declare_subscriber("a")
attempt("next of a subscriber", lambda: next(subscriber))
attempt("len of a subscriber", lambda: len(subscriber))
subscriber.undeclare()
attempt("undeclare again", subscriber.undeclare)
publisher = session.declare_publisher("a")
attempt("put with a key", lambda: publisher.put("a", "b"))
publisher.undeclare()
attempt("publish after", lambda: publisher.put("x"))
attempt("delete after", publisher.delete)
attempt("status after", lambda: publisher.matching_status)
attempt("undeclare again", publisher.undeclare)
queryable = session.declare_queryable("a")
queryable.undeclare()
attempt("undeclare again", queryable.undeclare)
querier = session.declare_querier("a")
querier.undeclare()
attempt("ask after", querier.get)
attempt("undeclare again", querier.undeclare)
token = session.liveliness().declare_token("a")
token.undeclare()
attempt("undeclare again", token.undeclare)
key = session.declare_keyexpr("declared/key")
session.put(key, "x")
session.undeclare(key)
attempt("undeclare a key that is not declared", lambda: session.undeclare(zenoh.KeyExpr("b")))
for what in (session.declare_subscriber("a"), session.declare_publisher("a"), session.declare_queryable("a")):
    attempt("undeclare by the session", lambda what=what: session.undeclare(what))
attempt("undeclare nothing", lambda: session.undeclare(None))

# A subscriber with a callback goes on without its handle, one with a channel ends with it.
got = []
session.declare_subscriber("background", got.append)
subscriber = session.declare_subscriber("foreground")
foreground = session.declare_publisher("foreground")
print(foreground.matching_status.matching)
handler = subscriber.handler
del subscriber
gc.collect()
session.put("background", "x")
session.put("foreground", "x")
while not got:
    time.sleep(0.01)
attempt("handler without its subscriber", handler.try_recv)
print(foreground.matching_status.matching)

# A callback that raises gets the next sample all the same.
calls = []


def fail(sample):
    calls.append(sample)
    raise RuntimeError("on purpose")


failing = session.declare_subscriber("fail", fail)
session.put("fail", "1")
session.put("fail", "2")
while len(calls) < 2:
    time.sleep(0.01)
print(len(calls))

subscriber = session.declare_subscriber("open")
session.put("open", "before")
publisher = session.declare_publisher("open")
querier = session.declare_querier("open")
liveliness = session.liveliness()
session.close()
session.close()
print(session.is_closed())
attempt("put when closed", lambda: session.put("a", "x"))
attempt("delete when closed", lambda: session.delete("a"))
attempt("get when closed", lambda: session.get("a"))
attempt("subscribe when closed", lambda: session.declare_subscriber("a"))
attempt("publisher when closed", lambda: session.declare_publisher("a"))
attempt("publish when closed", lambda: publisher.put("x"))
attempt("ask when closed", querier.get)
attempt("token when closed", lambda: liveliness.declare_token("a"))
attempt("what came before", subscriber.recv)
attempt("nothing more", subscriber.recv)
attempt("nothing more at once", subscriber.try_recv)
print(list(subscriber))
attempt("undeclare when closed", subscriber.undeclare)
attempt("undeclare when closed", publisher.undeclare)
