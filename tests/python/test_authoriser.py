"""A function of the program as authoriser: what it is asked, when it is not, and what its failures do."""

import contextlib
import http.client
import json
import logging
import signal
import subprocess
import sys
import threading
import time

import pytest

from nodes import LOCAL, client, eventually, router, settings
from remote_api import RemoteClient, field, u32
from zwire import http as zwire_http
from zwire import zenoh
from zwire.cli import main
from zwire.errors import ConfigError, TimedOut, UsageError

NOTHING = {"enabled": True, "default_permission": "deny", "rules": [], "subjects": [], "policies": []}
DENY = {"access_control": NOTHING}


class Judge:
    """An authoriser that notes what it is asked."""

    def __init__(self, decide=lambda request: True):
        self.decide = decide
        self.asked = []

    def __call__(self, request):
        self.asked.append((request.flow, request.action, str(request.key_expr)))
        return self.decide(request)

    def count(self, *what):
        return self.asked.count(what)


def number(hub, name):
    return hub.stats()[f"authoriser.{name}"]


@contextlib.contextmanager
def line(judge, **more):
    """A hub with an authoriser, and two clients."""
    config = settings("router", listen=LOCAL, **{**DENY, **more})
    with zenoh.open(config, authoriser=judge) as hub, client(hub) as robot, client(hub) as desk:
        yield hub, robot, desk
        # No link was closed on the way.
        assert len(hub.info.links()) == 2


def subscribed(desk, key="**"):
    subscriber = desk.declare_subscriber(key)
    assert desk.ready(timeout=10)
    return subscriber


def test_it_decides_where_no_rule_does_and_is_asked_once():
    judge = Judge(lambda request: str(request.key_expr) != "shut")
    rule = {"id": "open", "permission": "allow", "messages": ["put"], "key_exprs": ["open"]}
    rules = {
        "enabled": True,
        "default_permission": "allow",
        "rules": [rule],
        "subjects": [{"id": "all"}],
        "policies": [{"rules": ["open"], "subjects": ["all"]}],
    }
    with line(judge, access_control=rules) as (hub, robot, desk):
        subscriber = subscribed(desk)
        for key in ("shut", "open", "a", "a", "shut", "a"):
            robot.put(key, key)
        got = [str(subscriber.recv(timeout=10).key_expr) for _ in range(4)]
        assert got == ["open", "a", "a", "a"]
        assert judge.count("ingress", "put", "a") == 1
        assert judge.count("egress", "put", "a") == 1
        assert judge.count("ingress", "put", "shut") == 1
        assert judge.count("ingress", "put", "open") == 0, "a rule decides about it"
        assert judge.count("ingress", "declare_subscriber", "**") == 1
        assert number(hub, "denied") == 1
        assert number(hub, "cached") >= 4
        assert number(hub, "asked") == len(judge.asked)


def test_the_request_names_the_other_end():
    seen = []

    def judge(request):
        seen.append(request)
        return True

    with line(judge) as (hub, robot, _):
        robot.put("a", "x")
        eventually(lambda: any(str(one.key_expr) == "a" for one in seen), "it is asked")
        request = next(one for one in seen if str(one.key_expr) == "a")
        assert request.zid == robot.zid()
        assert (request.protocol, request.user, request.certificate) == ("tcp", None, None)
        assert request.interfaces == ["lo"]
        assert repr(request) == "<AccessRequest ingress put a>"
        assert hub.zid() != request.zid


def test_the_order_of_a_link_is_kept_while_answers_are_slow():
    def judge(request):
        time.sleep(0.005)
        return True

    with line(judge) as (_, robot, desk):
        subscriber = subscribed(desk, "k/**")
        keys = [f"k/{number % 7}/{number}" if number % 3 else "k/same" for number in range(30)]
        for key in keys:
            robot.put(key, key)
        assert [str(subscriber.recv(timeout=10).key_expr) for _ in keys] == keys


def test_a_function_that_hangs_denies_and_holds_up_no_other_link():
    gate = threading.Event()

    def judge(request):
        if str(request.key_expr) == "slow" and request.flow == "ingress" and request.action == "put":
            gate.wait(20)
        return True

    with line(judge) as (hub, robot, desk):
        hub.set_authoriser(judge, deadline=0.5)
        subscriber = subscribed(desk)
        # A subscriber of the hub has what an answer has let in.
        heard = hub.declare_subscriber("known")
        robot.put("known", "1")
        desk.put("known", "2")
        assert {heard.recv(timeout=10).payload.to_string() for _ in range(2)} == {"1", "2"}
        assert {subscriber.recv(timeout=10).payload.to_string() for _ in range(2)} == {"1", "2"}
        robot.put("slow", "x")
        robot.put("known", "3")
        # The link of the robot waits, that of the desk does not: what is known of it passes at once.
        desk.put("known", "4")
        assert [heard.recv(timeout=10).payload.to_string() for _ in range(2)] == ["4", "3"]
        assert [subscriber.recv(timeout=10).payload.to_string() for _ in range(2)] == ["4", "3"]
        assert number(hub, "timed_out") == 1
        gate.set()

        # The answer was late, and counts for the messages that follow.
        def passes():
            robot.put("slow", "y")
            with contextlib.suppress(TimedOut):
                return str(subscriber.recv(timeout=0.1).key_expr) == "slow"
            return False

        eventually(passes, "the late answer counts")


def test_the_fallback_is_configured():
    gate = threading.Event()
    with router(**DENY) as hub, client(hub) as robot:
        subscriber = hub.declare_subscriber("**")
        hub.set_authoriser(lambda request: gate.wait(20), deadline=0.01, fallback=True)
        try:
            robot.put("a", "x")
            assert str(subscriber.recv(timeout=10).key_expr) == "a"
        finally:
            gate.set()


@pytest.mark.parametrize(
    ("answer", "words"),
    [(lambda request: 1 / 0, "ZeroDivisionError"), (lambda request: "yes", "type str, not a bool")],
)
def test_failures_deny_and_are_logged_once(caplog, answer, words):
    def judge(request):
        return answer(request) if request.action == "put" else True

    with caplog.at_level(logging.WARNING, "zwire"), router(**DENY) as hub, client(hub) as robot:
        hub.set_authoriser(judge)
        subscriber = hub.declare_subscriber("**")
        for key in ("a", "b", "c"):
            robot.put(key, "x")
        robot.delete("d")
        assert subscriber.recv(timeout=10).kind == zenoh.SampleKind.DELETE
        assert number(hub, "raised") == 3
        eventually(lambda: words in caplog.text, "it is logged")
        assert caplog.text.count("the authoriser has failed") == 1


def test_answers_expire_and_are_forgotten():
    judge = Judge()
    with router(**DENY) as hub, client(hub) as robot:
        subscriber = hub.declare_subscriber("**")

        def put():
            robot.put("a", "x")
            assert subscriber.recv(timeout=10)
            return judge.count("ingress", "put", "a")

        hub.set_authoriser(judge, ttl=0.05)
        assert put() == 1
        eventually(lambda: put() > 1, "it is asked again")
        hub.set_authoriser(judge)
        before = put()
        assert put() == before
        hub.invalidate_authoriser()
        assert put() == before + 1
        config = hub.config()
        config.insert_json5("access_control/default_permission", '"allow"')
        hub.reconfigure(config)
        assert put() == before + 2
        # Without one the rules alone decide.
        hub.set_authoriser(None)
        judge.decide = lambda request: False
        assert put() == before + 2


def test_a_refused_query_ends_at_once_and_declarations_wait():
    judge = Judge(lambda request: request.action != "query" or str(request.key_expr) == "open")
    with line(judge) as (hub, robot, desk):
        for key in ("open", "shut"):
            desk.declare_queryable(key, lambda query: query.reply(query.key_expr, "x"))
        assert desk.ready(timeout=10)
        eventually(lambda: list(robot.get("open", timeout=10)), "the queryable is known")
        before = time.monotonic()
        assert list(robot.get("shut", timeout=20)) == []
        assert time.monotonic() - before < 10
        # An interest in all tokens has a request of its own.
        assert list(robot.liveliness().get("**", timeout=10)) == []
        assert judge.count("ingress", "liveliness_query", "**") == 1
        assert hub.zid()


def test_a_router_without_rules_asks_as_well():
    judge = Judge(lambda request: request.action != "put")
    with router() as hub, client(hub) as robot:
        hub.set_authoriser(judge)
        subscriber = hub.declare_subscriber("**")
        robot.put("a", "refused")
        robot.delete("a")
        assert subscriber.recv(timeout=10).kind == zenoh.SampleKind.DELETE
        hub.set_authoriser(None)
        robot.put("a", "x")
        assert subscriber.recv(timeout=10).kind == zenoh.SampleKind.PUT


def test_a_client_takes_it_when_it_opens():
    judge = Judge(lambda request: str(request.key_expr) != "shut")
    with router() as hub:
        config = settings("client", connect=hub.listening())
        with zenoh.open(config, authoriser=judge) as robot:
            subscriber = robot.declare_subscriber("**")
            assert robot.ready(timeout=10)
            hub.put("shut", "x")
            hub.put("open", "x")
            assert str(subscriber.recv(timeout=10).key_expr) == "open"
            with pytest.raises(UsageError, match="open"):
                robot.set_authoriser(None)
            with pytest.raises(UsageError, match="open"):
                robot.invalidate_authoriser()


def test_arguments_are_checked():
    with router() as hub:
        with pytest.raises(TypeError, match="callable"):
            hub.set_authoriser(3)
        for name in ("deadline", "ttl"):
            with pytest.raises(ValueError, match=name):
                hub.set_authoriser(None, **{name: 0})
            with pytest.raises(ValueError, match=name):
                hub.set_authoriser(None, **{name: -1})
    with pytest.raises(TypeError, match="callable"):
        zenoh.open({"mode": "peer"}, authoriser="x")


def test_clients_of_http_are_asked_about():
    judge = Judge(lambda request: "shut" not in str(request.key_expr))

    def ask(server, method, path):
        with contextlib.closing(http.client.HTTPConnection(server.address, timeout=20)) as connection:
            connection.request(method, path, body=b"x" if method == "PUT" else None)
            answer = connection.getresponse()
            return answer.status, answer.read()

    with router(**DENY) as hub, zwire_http.serve(hub, "127.0.0.1:0") as server:
        assert ask(server, "PUT", "/a")[0] == 403, "the default permission"
        hub.set_authoriser(judge)
        subscriber = hub.declare_subscriber("**")
        with hub.declare_queryable(
            "q/*", lambda query: [query.reply(f"q/{name}", name) for name in ("1", "shut")]
        ):
            assert ask(server, "PUT", "/a")[0] == 200
            assert str(subscriber.recv(timeout=10).key_expr) == "a"
            assert ask(server, "PUT", "/shut")[0] == 403
            status, body = ask(server, "GET", "/q/*")
            assert (status, [reply["key"] for reply in json.loads(body)]) == (200, ["q/1"])
            assert ask(server, "GET", "/shut")[0] == 403
        with RemoteClient(server.port) as page:
            page.declare(2, u32(1), field("a"), b"\x02")
            assert page.ask(2, u32(2), field("shut"), b"\x02").id == 2
            hub.put("a", "y")
            assert page.event().id == 5
    assert judge.count("egress", "put", "a") == 1
    assert judge.count("egress", "reply", "q/shut") == 1


def test_explain_asks_the_authoriser(capsys):
    judge = Judge(lambda request: request.user == "ann")
    with router(adminspace__enabled=True) as hub:
        hub.set_authoriser(lambda request: judge(request) if request.user else True)
        ask = ["acl", "explain", "-e", hub.listening()[0], "--put", "fleet/7"]
        assert main([*ask, "--user", "ann"]) == 0
        assert main([*ask, "--user", "bob"]) == 1
    out = capsys.readouterr().out
    assert "allowed: no rule for this link applies, and the authoriser allows put of fleet/7" in out
    assert "the authoriser denies put of fleet/7" in out


def test_the_router_takes_a_function_of_a_module(tmp_path):
    (tmp_path / "fleet_rules.py").write_text(
        "def judge(request):\n    return str(request.key_expr) != 'shut'\n"
    )
    command = [sys.executable, "-m", "zwire", "router", "-l", *LOCAL, "--no-multicast-scouting"]
    process = subprocess.Popen(
        [*command, "--authoriser", "fleet_rules:judge"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            endpoint = process.stdout.readline().strip()
            with (
                zenoh.open(settings("client", connect=[endpoint])) as robot,
                zenoh.open(settings("client", connect=[endpoint])) as desk,
            ):
                subscriber = subscribed(desk)
                robot.put("shut", "x")
                robot.put("open", "x")
                assert str(subscriber.recv(timeout=10).key_expr) == "open"
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0


@pytest.mark.parametrize("name", ["no_such_module:judge", "json:judge", "json:__name__", "json", ":x"])
def test_the_router_refuses_what_is_no_function(name, capsys):
    assert main(["router", "-l", *LOCAL, "--authoriser", name]) == 2
    assert "--authoriser" in capsys.readouterr().err


def test_config_errors_are_those_of_the_command():
    from zwire.cli import router as command

    with pytest.raises(ConfigError, match="expected MODULE:FUNCTION"):
        command._authoriser("json:nothing")
    assert command._authoriser("json:loads") is json.loads
    assert command._authoriser(None) is None


def test_a_session_that_closes_sends_what_waits_for_an_answer():
    def judge(request):
        time.sleep(0.05 if request.action == "put" else 0)
        return True

    with router() as hub, hub.declare_subscriber("a") as subscriber:
        config = settings("client", connect=hub.listening())
        with zenoh.open(config, authoriser=judge) as robot:
            assert robot.ready(timeout=10)
            robot.put("a", "last")
        assert subscriber.recv(timeout=10).payload.to_string() == "last"
