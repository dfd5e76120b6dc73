"""REST of a session: answers as those of zenoh-plugin-rest, events, users, limits, and hostile clients."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import re
import resource
import socket
import ssl
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

import nodes
from interop.certificates import Authority
from zwire import __version__ as zwire_version
from zwire import errors, metrics, zenoh
from zwire import http as zhttp

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = "127.0.0.1:0"


@pytest.fixture
def router():
    """A router with its admin space."""
    with nodes.router(adminspace__enabled=True, timestamping__enabled=True) as session:
        yield session


@pytest.fixture
def server(router):
    """A server of it, for all clients."""
    with zhttp.serve(router, HERE) as server:
        yield server


class Answer:
    """Answer of the server."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


def ask(server: zhttp.Server, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
    """Send one request."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)) as connection:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        return Answer(connection.getresponse())


@contextmanager
def raw(server: zhttp.Server, sent: bytes = b"") -> Iterator[socket.socket]:
    """Connect without a client of HTTP."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as stream:
        stream.sendall(sent)
        yield stream


def whole(stream: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    parts = []
    with suppress(ConnectionResetError):
        while part := stream.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


@contextmanager
def stored(session: zenoh.Session, key: str, *samples: tuple[str, bytes, str]) -> Iterator[None]:
    """Answer queries with these keys, values and encodings."""

    def answer(query: zenoh.Query) -> None:
        for name, payload, encoding in samples:
            query.reply(name, payload, encoding=encoding)

    with session.declare_queryable(key, answer):
        yield


def test_answers_of_a_query_are_those_of_the_reference(router, server):
    samples = [
        ("demo/text", b'a "b"', "text/plain"),
        ("demo/json", b'{"b": 1, "a": [1.5, null]}', "application/json"),
        ("demo/bytes", b"\x00\xff", "zenoh/bytes"),
        ("demo/schema", b"x", "text/plain;charset=utf-8"),
        ("demo/none", b"", "text/plain"),
    ]
    with stored(router, "demo/**", *samples):
        got = ask(server, "GET", "/demo/**")
        posted = ask(server, "POST", "/demo/**")
    assert got.status == posted.status == 200
    assert got.headers["content-type"] == "application/json"
    assert got.headers["access-control-allow-origin"] == "*"
    assert got.headers["content-length"] == str(len(got.body))
    entries = [
        '{"key":"demo/text","value":"a \\"b\\"","encoding":"text/plain","timestamp":null}',
        '{"key":"demo/json","value":{"b":1,"a":[1.5,null]},"encoding":"application/json","timestamp":null}',
        '{"key":"demo/bytes","value":"AP8=","encoding":"zenoh/bytes","timestamp":null}',
        '{"key":"demo/schema","value":"eA==","encoding":"text/plain;charset=utf-8","timestamp":null}',
        '{"key":"demo/none","value":null,"encoding":"text/plain","timestamp":null}',
    ]
    # Latest consolidation delivers in an order of its own.
    assert {entry["key"]: entry for entry in got.json} == {e["key"]: e for e in map(json.loads, entries)}
    assert len(got.body) == len("[" + ",".join(entries) + "]")
    assert all(entry in got.text for entry in entries)
    assert sorted(posted.json, key=str) == sorted(got.json, key=str)


def test_a_query_without_a_match_is_an_empty_list(server):
    begun = time.monotonic()
    answer = ask(server, "GET", "/nobody/answers")
    assert (answer.status, answer.body) == (200, b"[]")
    assert time.monotonic() - begun < 5


def test_timestamps_have_number_and_id(router, server):
    stamp = router.new_timestamp()

    def answer(query: zenoh.Query) -> None:
        query.reply("t", b"1", encoding="text/plain", timestamp=stamp)

    with router.declare_queryable("t", answer):
        (entry,) = ask(server, "GET", "/t").json
    assert re.fullmatch(r"\d+/[0-9a-f]+", entry["timestamp"])
    assert entry["timestamp"].endswith("/" + str(router.zid()))


def test_selectors_have_their_parameters_as_they_are(router, server):
    seen = []

    def answer(query: zenoh.Query) -> None:
        seen.append((str(query.selector), query.payload and bytes(query.payload), str(query.encoding)))
        query.reply(query.key_expr, b"1")

    with router.declare_queryable("sel/**", answer):
        ask(server, "GET", "/sel/a?x=1;y=%20&z")
        ask(server, "POST", "/sel/a", b'{"a":1}', Content_Type="application/json")
    assert seen[0][0] == "sel/a?x=1;y=%20&z"
    assert seen[1] == ("sel/a", b'{"a":1}', "application/json")


def test_raw_is_the_value_of_the_first_reply(router, server):
    packed = gzip.compress(b"hello")
    encoding = "application/openmetrics-text; version=1.0.0; charset=utf-8;content-encoding=gzip"
    with (
        stored(router, "raw/text", ("raw/text", b"<b>", "text/html")),
        stored(router, "raw/gzip", ("raw/gzip", packed, encoding)),
        stored(router, "raw/odd", ("raw/odd", b"1", "foo")),
    ):
        text = ask(server, "GET", "/raw/text?_raw", Accept="text/html")
        packed_answer = ask(server, "GET", "/raw/gzip?_raw=false")
        odd = ask(server, "GET", "/raw/odd?_raw")
        none = ask(server, "GET", "/raw/none?_raw")
    assert (text.body, text.headers["content-type"]) == (b"<b>", "text/html")
    assert packed_answer.headers["content-encoding"] == "gzip"
    assert packed_answer.headers["content-type"].startswith("application/openmetrics-text")
    assert "content-encoding" not in packed_answer.headers["content-type"]
    assert gzip.decompress(packed_answer.body) == b"hello"
    assert odd.headers["content-type"] == "application/octet-stream"
    # A publisher must not get its scripts run as a page of this server.
    assert text.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert text.headers["x-content-type-options"] == "nosniff"
    assert (none.status, none.body) == (200, b"")


def test_error_replies_have_the_key_error(router, server):
    with router.declare_queryable("bad", lambda query: query.reply_err(b"no", encoding="text/plain")):
        answer = ask(server, "GET", "/bad")
        html = ask(server, "GET", "/bad", Accept="text/html")
    assert answer.text == '[{"key":"ERROR","value":"no","encoding":"text/plain","timestamp":null}]'
    assert html.text == "<dl>\n<dt>ERROR</dt>\n<dd>no</dd>\n</dl>\n"


def test_html_has_no_markup_of_values(router, server):
    with stored(router, "h", ("h", b"<script>alert(1)</script>", "text/plain")):
        answer = ask(server, "GET", "/h", Accept="text/html,application/json")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.text == "<dl>\n<dt>h</dt>\n<dd>&lt;script&gt;alert(1)&lt;/script&gt;</dd>\n</dl>\n"


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_values_are_published_with_their_encoding(router, server, method):
    with router.declare_subscriber("in/**") as subscriber:
        answer = ask(server, method, "/in/a%20b", b"v", Content_Type="text/plain")
        sample = subscriber.recv(timeout=10)
        ask(server, method, "/in/plain", b"w")
        plain = subscriber.recv(timeout=10)
    assert (answer.status, answer.body) == (200, b"")
    assert (str(sample.key_expr), bytes(sample.payload), str(sample.encoding)) == (
        "in/a b",
        b"v",
        "text/plain",
    )
    assert sample.kind == zenoh.SampleKind.PUT
    assert str(plain.encoding) == "zenoh/bytes"


def test_encodings_that_no_link_carries_are_refused(router, server):
    fits, long = "text/plain;" + "x" * 255, "text/plain;" + "x" * 256
    with nodes.client(router) as client, client.declare_subscriber("long") as subscriber:
        for method in ("PUT", "POST"):
            for encoding in (long, "y" * 256):
                answer = ask(server, method, "/long", b"1", Content_Type=encoding)
                assert (answer.status, "255" in answer.text) == (400, True), method
        assert ask(server, "PUT", "/long", b"1", Content_Type=fits).status == 200
        assert str(subscriber.recv(timeout=10).encoding) == fits


def test_keys_are_deleted(router, server):
    with router.declare_subscriber("gone") as subscriber:
        assert ask(server, "DELETE", "/gone").status == 200
        assert subscriber.recv(timeout=10).kind == zenoh.SampleKind.DELETE


def test_a_client_of_the_router_sees_what_is_put(router, server):
    with nodes.client(router) as other, other.declare_subscriber("far/**") as subscriber:
        subscriber.wait_ready(timeout=10)
        ask(server, "PUT", "/far/x", b"1")
        assert bytes(subscriber.recv(timeout=10).payload) == b"1"


def events(stream: Any, count: int) -> list[str]:
    """Return so many events, with their lines."""
    found, lines = [], []
    while len(found) < count:
        line = stream.readline().decode()
        assert line, "the stream has ended"
        if line == "\n":
            if lines and not lines[0].startswith(":"):
                found.append("".join(lines))
            lines = []
        else:
            lines.append(line)
    return found


@contextmanager
def listening(server: zhttp.Server, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
    """Open a stream of events."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)) as connection:
        connection.request("GET", path, headers={"Accept": "text/event-stream", **headers})
        response = connection.getresponse()
        assert response.status == 200
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-cache"
        yield response


def test_samples_are_events(router, server):
    with listening(server, "/ev/**?_raw") as stream:
        router.put("ev/a", "x\ny", encoding="text/plain", timestamp=None)
        router.delete("ev/a")
        put, deleted = events(stream, 2)
    head, data = put.splitlines()
    assert head == "event: PUT"
    entry = json.loads(data.removeprefix("data: "))
    assert list(entry) == ["key", "value", "encoding", "timestamp"]
    assert (entry["key"], entry["value"], entry["encoding"]) == ("ev/a", "x\ny", "text/plain")
    assert deleted.startswith('event: DELETE\ndata: {"key":"ev/a","value":null,"encoding":"zenoh/bytes",')


def test_a_stream_that_ends_undeclares_its_subscriber(router, server):
    with router.declare_publisher("seen") as publisher:
        with listening(server, "/seen"):
            assert publisher.matching_status.matching
        nodes.eventually(lambda: not publisher.matching_status.matching, "the subscriber of the stream")


def test_a_reader_that_does_not_read_holds_up_no_other(router, server):
    with listening(server, "/flood") as slow, listening(server, "/flood") as quick:
        for number in range(64):
            router.put("flood", bytes(64 << 10), encoding="zenoh/bytes")
            assert len(events(quick, 1)) == 1, number
        assert slow.status == 200


def test_the_admin_space_is_at_its_keys(router, server):
    for path in ("/@/local/router", "/@/router/local", f"/@/{router.zid()}/router"):
        (entry,) = ask(server, "GET", path).json
        assert entry["key"] == f"@/{router.zid()}/router"
        assert entry["value"]["zid"] == str(router.zid())
        assert entry["encoding"] == "application/json"
    answer = ask(server, "GET", "/@/*/router/metrics?_raw;compression=false")
    assert answer.body.endswith(b"# EOF\n")


def test_paths_that_are_no_keys_are_refused(server):
    for path, status, part in [
        ("/", 404, "empty"),
        ("/a//b", 400, "empty chunk"),
        ("/a/", 400, "empty chunk"),
        ("/%ff", 400, "UTF-8"),
        ("/a%23b", 400, "#"),
        ("/a/%2a%2a/%2a%2a", 400, "**"),
    ]:
        for method in ("GET", "PUT", "DELETE"):
            answer = ask(server, method, path)
            assert answer.status == status, (path[:40], answer.text[:200])
            assert part in answer.text, (path[:40], answer.text[:200])
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert ask(server, "GET", "/" + "a" * 70_000).status == 414
    problem = ask(server, "GET", "/a//b", Accept="application/json")
    assert problem.json["status"] == 400
    assert "empty chunk" in problem.json["error"]


def test_other_methods_are_refused(server):
    answer = ask(server, "TRACE", "/a")
    assert answer.status == 405
    assert answer.headers["allow"] == "GET,HEAD,POST,PUT,PATCH,DELETE"


def test_head_is_get_without_a_body(router, server):
    with stored(router, "hd", ("hd", b"1", "text/plain")):
        answer = ask(server, "HEAD", "/hd")
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"", "application/json")


def test_preflights_allow_what_pages_send(server):
    answer = ask(server, "OPTIONS", "/a", Origin="https://a.example", Access_Control_Request_Method="PUT")
    assert answer.status == 200
    assert "PUT" in answer.headers["access-control-allow-methods"]
    assert "content-type" in answer.headers["access-control-allow-headers"]
    assert answer.headers["access-control-allow-origin"] == "*"


def test_only_listed_origins_may_use_the_server(router):
    with (
        zhttp.serve(router, HERE, origins=["https://a.example"]) as server,
        router.declare_subscriber("o/**") as subscriber,
    ):
        good = ask(server, "PUT", "/o/good", b"", Origin="https://a.example")
        bad = ask(server, "PUT", "/o/bad", b"", Origin="https://b.example")
        none = ask(server, "PUT", "/o/none", b"")
        keys = [str(subscriber.recv(timeout=10).key_expr) for _ in range(2)]
    assert good.headers["access-control-allow-origin"] == "https://a.example"
    assert good.headers["vary"] == "origin"
    assert bad.status == 403
    assert "b.example" in bad.text
    assert bad.headers["access-control-allow-origin"] is None
    assert (none.status, keys) == (200, ["o/good", "o/none"])


def test_pages_of_other_sites_that_hide_their_origin_are_refused(router, server):
    with zhttp.serve(router, HERE, origins=["https://a.example"]) as listed:
        for site, status in [("cross-site", 403), ("same-site", 200), ("same-origin", 200), ("none", 200)]:
            assert ask(listed, "GET", "/o/x", Sec_Fetch_Site=site).status == status, site
        answer = ask(listed, "GET", "/o/x", Sec_Fetch_Site="cross-site", Origin="https://a.example")
        assert answer.status == 200
    assert ask(server, "GET", "/o/x", Sec_Fetch_Site="cross-site").status == 200


def test_passwords_that_a_browser_adds_are_refused(tmp_path):
    users = tmp_path / "users"
    users.write_text("bob:secret\n")
    basic = "Basic " + base64.b64encode(b"bob:secret").decode()
    with (
        nodes.router(transport__auth__usrpwd__dictionary_file=str(users)) as router,
        zhttp.serve(
            router, HERE, tokens=[zhttp.Token("abc", "ann")], origins=["*", "https://a.example"]
        ) as server,
    ):
        own = f"http://127.0.0.1:{server.port}"
        for origin, site, authorization, status in [
            ("https://b.example", "cross-site", basic, 403),
            ("null", "cross-site", basic, 403),
            (None, "cross-site", basic, 403),
            (None, "none", basic, 200),
            (own, "same-origin", basic, 200),
            ("https://a.example", "cross-site", basic, 200),
            ("https://b.example", "cross-site", "Bearer abc", 200),
        ]:
            headers = {"Authorization": authorization, "Sec-Fetch-Site": site}
            if origin is not None:
                headers["Origin"] = origin
            answer = ask(server, "PUT", "/a", b"", **headers)
            assert answer.status == status, (origin, site, authorization, answer.text)


def test_long_answers_are_compressed(router, server):
    with stored(router, "z", ("z", b"a" * 100_000, "text/plain")):
        packed = ask(server, "GET", "/z", Accept_Encoding="gzip")
        plain = ask(server, "GET", "/z")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < 2000 < len(plain.body)


def test_a_long_list_is_sent_while_it_is_collected(router, server):
    def answer(query: zenoh.Query) -> None:
        for number in range(2000):
            query.reply(f"many/{number}", bytes(1000), encoding="zenoh/bytes")

    with router.declare_queryable("many/**", answer):
        plain = ask(server, "GET", "/many/**?_time=[now(-1h)..]")
        packed = ask(server, "GET", "/many/**", Accept_Encoding="gzip")
    assert plain.headers["transfer-encoding"] == "chunked"
    assert {entry["key"] for entry in plain.json} == {f"many/{number}" for number in range(2000)}
    assert len(json.loads(gzip.decompress(packed.body))) == 2000


def test_health_readiness_and_counters(router, server):
    assert ask(server, "GET", "/health").json == {"status": "ok"}
    ready = ask(server, "GET", "/ready")
    assert (ready.status, ready.json["mode"], ready.json["zid"]) == (200, "router", str(router.zid()))
    metrics = ask(server, "GET", "/metrics")
    assert metrics.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert metrics.text.endswith("# EOF\n")
    assert metrics.text.count("# EOF") == 1
    assert f'zwire_http_answers_total{{local_id="{router.zid()}",status="2xx"}} 2\n' in metrics.text
    assert "zwire_session_samples_delivered_total" in metrics.text
    # A key of that name can be queried by POST.
    assert ask(server, "POST", "/metrics").body == b"[]"


def test_the_counters_have_the_names_of_the_module_metrics(router, server):
    """One name for each number in the admin space, over HTTP and in Python; those of zenohd beside them."""

    def names(text: str) -> dict[str, str]:
        lines = [line.split() for line in text.splitlines() if line.startswith("# TYPE ")]
        found = {name: kind for _, _, name, kind in lines}
        assert len(found) == len(lines), "each family comes once"
        return found

    with nodes.client(router):
        served = names(ask(server, "GET", "/metrics").text)
        (reply,) = router.get(f"@/{router.zid()}/router/metrics?compression=false")
        told = names(reply.ok.payload.to_string())
        own = names(metrics.prometheus(router, openmetrics=True, detail=False))
    assert {name: kind for name, kind in served.items() if not name.startswith("zwire_http_")} == told
    # The callbacks of the program are those of Python.
    assert own.pop("zwire_handler_errors") == "counter"
    assert {name: kind for name, kind in told.items() if name.startswith("zwire_")} == own
    assert {name: kind for name, kind in told.items() if name.startswith("zenoh_")} == {
        "zenoh_build": "info",
        "zenoh_transports_opened": "gauge",
        "zenoh_links_opened": "gauge",
        "zenoh_tx_bytes": "counter",
        "zenoh_rx_bytes": "counter",
        "zenoh_tx_network_message": "counter",
        "zenoh_rx_network_message": "counter",
    }


def test_the_admin_space_has_the_plugins_that_run(router):
    base = f"@/{router.zid()}/router"

    def told(selector: str) -> dict[str, Any]:
        replies = [reply.ok for reply in router.get(f"{base}/{selector}")]
        texts = {str(one.key_expr).removeprefix(f"{base}/"): one.payload.to_string() for one in replies}
        return {key: text if key.endswith("__path__") else json.loads(text) for key, text in texts.items()}

    def root() -> Any:
        (reply,) = router.get(base)
        return json.loads(reply.ok.payload.to_bytes())["plugins"]

    assert root() is None
    with zhttp.serve(router, HERE), zhttp.serve(router, HERE, rest=False):
        assert root() == {name: {"name": name, "path": "__static_lib__"} for name in ("rest", "remote_api")}
        plugins = told("plugins/**")
        assert plugins["plugins/rest"] == {
            "name": "rest",
            "id": "rest",
            "version": zwire_version,
            "long_version": zwire_version,
            "path": "__static_lib__",
            "state": "Started",
            "report": {"level": "Info"},
        }
        assert set(plugins) == {"plugins/rest", "plugins/remote_api"}
        assert told("status/plugins/rest/**") == {
            "status/plugins/rest/version": zwire_version,
            "status/plugins/rest/port": {"http_port": HERE},
            "status/plugins/rest/__path__": "__static_lib__",
        }
        assert told("status/plugins/remote_api/port") == {
            "status/plugins/remote_api/port": {"websocket_port": HERE}
        }
    assert root() is None
    assert told("plugins/**") == {}


def test_a_closed_session_is_not_ready():
    router = nodes.router()
    with zhttp.serve(router, HERE) as server:
        router.close()
        assert ask(server, "GET", "/health").status == 200
        assert ask(server, "GET", "/ready").status == 503
        answer = ask(server, "PUT", "/a", b"1")
        assert (answer.status, "closed" in answer.text) == (503, True)
    with pytest.raises(errors.SessionClosed):
        zhttp.serve(router, HERE)


def test_tokens_and_passwords(tmp_path):
    users = tmp_path / "users"
    users.write_text("bob:secret\n")
    with (
        nodes.router(transport__auth__usrpwd__dictionary_file=str(users)) as router,
        zhttp.serve(router, HERE, tokens=[zhttp.Token("abc", "ann")]) as server,
    ):
        basic = base64.b64encode(b"bob:secret").decode()
        wrong = base64.b64encode(b"bob:other").decode()
        for status, authorization in [
            (401, None),
            (200, "Bearer abc"),
            (401, "Bearer abd"),
            (200, f"Basic {basic}"),
            (401, f"Basic {wrong}"),
        ]:
            headers = {} if authorization is None else {"Authorization": authorization}
            answer = ask(server, "PUT", "/a", b"", **headers)
            assert answer.status == status, authorization
            if status == 401:
                assert answer.headers["www-authenticate"].startswith("Bearer")
        assert ask(server, "GET", "/metrics").status == 401
        # The import of a page has no credentials.
        assert ask(server, "GET", "/zwire.js").status == 200
        assert ask(server, "GET", "/health").status == 200
    assert "abc" not in repr(zhttp.Token("abc", "ann"))


def test_users_that_are_removed_are_logged_out(tmp_path):
    users = tmp_path / "users"
    users.write_text("bob:secret\neve:secret\n")
    settings = nodes.settings(
        "router", listen=nodes.LOCAL, transport__auth__usrpwd__dictionary_file=str(users)
    )
    eve = "Basic " + base64.b64encode(b"eve:secret").decode()
    bob, new = ("Basic " + base64.b64encode(pair).decode() for pair in (b"bob:secret", b"bob:other"))
    with zenoh.open(settings) as router, zhttp.serve(router, HERE, anonymous=False) as server:
        with listening(server, "/x", Authorization=eve) as stream:
            router.put("x", b"1")
            assert len(events(stream, 1)) == 1
            users.write_text("bob:other\n")
            router.reconfigure(zenoh.Config.from_dict(settings))
            assert stream.read() == b"", "the stream ends"
        for authorization, status in ((eve, 401), (bob, 401), (new, 200)):
            assert ask(server, "GET", "/x", Authorization=authorization).status == status


RULES = {
    "enabled": True,
    "default_permission": "deny",
    "rules": [
        {
            "id": "write",
            "permission": "allow",
            "messages": ["put", "query", "declare_subscriber", "declare_queryable", "reply"],
            "key_exprs": ["open/**"],
        }
    ],
    "subjects": [{"id": "ann", "usernames": ["ann"]}],
    "policies": [{"rules": ["write"], "subjects": ["ann"]}],
}


def test_access_rules_apply_to_users():
    tokens = [zhttp.Token("a", "ann"), zhttp.Token("b", "bob")]
    with nodes.router(access_control=RULES) as router, zhttp.serve(router, HERE, tokens=tokens) as server:
        with router.declare_subscriber("**") as subscriber:
            for token, key, status in [
                ("a", "open/x", 200),
                ("a", "closed/x", 403),
                ("b", "open/x", 403),
            ]:
                answer = ask(server, "PUT", f"/{key}", b"", Authorization=f"Bearer {token}")
                assert answer.status == status, (token, key, answer.text)
            assert str(subscriber.recv(timeout=10).key_expr) == "open/x"
            assert subscriber.try_recv() is None
        refused = ask(server, "GET", "/open/**", Authorization="Bearer b")
        assert refused.status == 403
        assert "query" in refused.text
        assert ask(server, "GET", "/open/**", Authorization="Bearer a").status == 200
        refused = ask(server, "DELETE", "/open/x", Authorization="Bearer a")
        assert refused.status == 403
        assert "delete" in refused.text
        refused = ask(server, "GET", "/closed/x", Authorization="Bearer a", Accept="text/event-stream")
        assert refused.status == 403


def test_counters_are_those_of_the_admin_space():
    tokens = [zhttp.Token("a", "ann"), zhttp.Token("b", "bob")]
    (rule,) = RULES["rules"]
    rules = RULES | {"rules": [rule | {"key_exprs": ["open/**", "@/*/router/metrics"]}]}
    with nodes.router(access_control=rules) as router, zhttp.serve(router, HERE, tokens=tokens) as server:
        assert ask(server, "GET", "/metrics", Authorization="Bearer a").status == 200
        refused = ask(server, "GET", "/metrics", Authorization="Bearer b")
        assert (refused.status, "/router/metrics" in refused.text) == (403, True)
    with nodes.router(adminspace__permissions__read=False) as router, zhttp.serve(router, HERE) as server:
        refused = ask(server, "GET", "/metrics")
        assert (refused.status, "adminspace/permissions/read" in refused.text) == (403, True)


def test_queries_and_replies_have_the_size_of_the_rules():
    rule = {
        "messages": ["query", "reply"],
        "flows": ["ingress", "egress"],
        "key_exprs": ["**"],
        "size_limit": 100,
    }
    with (
        nodes.router(low_pass_filter=[rule]) as router,
        zhttp.serve(router, HERE) as server,
        stored(
            router, "size/*", ("size/large", bytes(101), "zenoh/bytes"), ("size/small", b"", "zenoh/bytes")
        ),
    ):
        assert ask(server, "POST", "/size/large", bytes(101)).status == 403
        got = ask(server, "POST", "/size/*", bytes(100))
        assert (got.status, [entry["key"] for entry in got.json]) == (200, ["size/small"])


def changed(rules: dict[str, Any], messages: list[str]) -> zenoh.Config:
    """Return a configuration with other messages in the rule."""
    (rule,) = rules["rules"]
    return zenoh.Config.from_dict(
        nodes.settings("router", listen=nodes.LOCAL)
        | {"access_control": rules | {"rules": [rule | {"messages": messages}]}}
    )


def test_rules_that_change_apply_at_once():
    tokens = [zhttp.Token("a", "ann")]
    with nodes.router(access_control=RULES) as router, zhttp.serve(router, HERE, tokens=tokens) as server:
        with listening(server, "/open/x", Authorization="Bearer a") as stream:
            router.put("open/x", b"1")
            assert len(events(stream, 1)) == 1
            router.reconfigure(changed(RULES, ["query"]))
            router.put("open/x", b"2")
            assert stream.read() == b"", "the stream ends"
        assert ask(server, "PUT", "/open/x", b"3", Authorization="Bearer a").status == 403
        router.reconfigure(changed(RULES, ["put"]))
        assert ask(server, "PUT", "/open/x", b"4", Authorization="Bearer a").status == 200


def test_a_stream_ends_when_its_token_expires(router):
    token = zhttp.Token("abc", "ann", expires=time.time() + 1.5)
    with (
        zhttp.serve(router, HERE, tokens=[token]) as server,
        listening(server, "/x", Authorization="Bearer abc") as stream,
    ):
        router.put("x", b"1")
        assert len(events(stream, 1)) == 1
        assert stream.read() == b""
        assert time.time() >= token.expires
        assert ask(server, "GET", "/x", Authorization="Bearer abc").status == 401


def test_bodies_have_a_bound(router):
    with zhttp.serve(router, HERE, limits=zhttp.Limits(body=1000)) as server:
        assert ask(server, "PUT", "/a", bytes(1000)).status == 200
        declared = ask(server, "PUT", "/a", bytes(1001))
        assert declared.status == 413
        assert "1000" in declared.text
        chunked = b"PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        with raw(server, chunked + b"3e9\r\n" + bytes(1001) + b"\r\n0\r\n\r\n") as stream:
            assert stream.recv(1 << 16).startswith(b"HTTP/1.1 413 ")
        # The client waits for a word before it sends a gibibyte.
        huge = b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741824\r\nExpect: 100-continue\r\n\r\n"
        with raw(server, huge) as stream:
            assert stream.recv(1 << 16).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", b"400"),
        (b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 2\r\n\r\nab", b"400"),
        (b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na", b"400"),
        (b"PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", b"400"),
        (b"PUT /a HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
        (b"PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", b"400"),
        (b"PUT /a HTTP/1.1\r\nHost : x\r\n\r\n", b"400"),
        (b"PUT /a HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n", b"400"),
        (b"GET /a HTTP/9.9\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),
        (b"GET /a HTTP/1.1\r\n" + b"X: y\r\n" * 100 + b"\r\n", b"431"),
        (b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\n\r\n", b"4"),
    ],
    ids=lambda value: value[:60] if len(value) > 3 else value,
)
def test_requests_that_are_not_http_are_refused(router, server, request_, status):
    with router.declare_subscriber("**") as subscriber:
        with raw(
            server, request_ + b"PUT /smuggled HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
        ) as stream:
            answer = whole(stream)
        assert subscriber.try_recv() is None
    assert re.match(rb"HTTP/1\.[01] " + status, answer), answer[:100]
    assert answer.count(b"HTTP/1.") == 1
    assert ask(server, "GET", "/health").status == 200


def test_two_lengths_end_the_connection(router, server):
    both = (
        b"PUT /first HTTP/1.1\r\nHost: x\r\nContent-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    with router.declare_subscriber("**") as subscriber:
        with raw(server, both + b"PUT /second HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n") as stream:
            answer = whole(stream)
        assert str(subscriber.recv(timeout=10).key_expr) == "first"
        assert subscriber.try_recv() is None
    assert answer.count(b"HTTP/1.1 ") == 1


def test_requests_that_are_cut_publish_nothing(router, server):
    request = b"PUT /cut HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n0123456789"
    with router.declare_subscriber("cut") as subscriber:
        for end in range(0, len(request), 3):
            with raw(server, request[:end]):
                pass
        assert ask(server, "PUT", "/cut", b"whole").status == 200
        assert bytes(subscriber.recv(timeout=10).payload) == b"whole"
        assert subscriber.try_recv() is None


def test_mute_clients_make_room_for_others(router):
    with zhttp.serve(router, HERE, limits=zhttp.Limits(connections=32)) as server:
        mute = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(200)]
        try:
            for _ in range(40):
                assert ask(server, "GET", "/health").status == 200
            assert whole(mute[0]) == b"", "the oldest was closed"
        finally:
            for stream in mute:
                stream.close()
        counters = ask(server, "GET", "/metrics").text
        evicted = re.search(r"connections_evicted_total\{[^}]*\} (\d+)", counters)
        assert evicted is not None
        assert int(evicted[1]) >= 168


def test_ten_thousand_mute_clients(router, server):
    many = 10_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Both ends are in this process: the server has 4,096 of them.
    needed = many + 6000
    if hard < needed:
        pytest.skip(f"`ulimit -Hn` is {hard}: {needed} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    mute: list[socket.socket] = []
    try:
        with listening(server, "/news") as stream:
            for number in range(many):
                mute.append(socket.create_connection(("127.0.0.1", server.port), timeout=20))
                if number % 3 == 0:
                    mute[-1].sendall(b"GET /slow HTTP/1.1\r\nX-Slow: ")
            assert ask(server, "PUT", "/news", b"1").status == 200
            assert len(events(stream, 1)) == 1, "a stream is not closed for others"
    finally:
        for connection in mute:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_streams_have_a_bound(router):
    with zhttp.serve(router, HERE, limits=zhttp.Limits(streams=2)) as server:
        with listening(server, "/a"), listening(server, "/b"):
            answer = ask(server, "GET", "/c", Accept="text/event-stream")
            assert answer.status == 503
            assert "2 event streams" in answer.text

        def is_free() -> bool:
            with raw(server, b"GET /c HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n") as stream:
                return stream.recv(100).startswith(b"HTTP/1.1 200")

        nodes.eventually(is_free, "a stream that was free")


def test_hostile_selectors_are_answered(server):
    for parameters in [
        "_time=[now(..]",
        "_time=" + "[" * 5000,
        "_raw=" + "x" * 9000,
        ";;;=;=",
        "_anyke;_time=",
        "?" * 50,
    ]:
        assert ask(server, "GET", f"/sel/**?{parameters}").status == 200, parameters[:20]
    for path in ["/" + "*/" * 200 + "*", "/" + "**/a/" * 60 + "b", "/" + "$*a" * 300]:
        assert ask(server, "GET", path).status in (200, 400), path[:20]
    assert ask(server, "GET", "/health").status == 200


def test_addresses_that_are_taken_or_wrong(router, server):
    with pytest.raises(errors.ConnectError, match=server.address):
        zhttp.serve(router, server.address)
    with pytest.raises(errors.UsageError, match="http_port"):
        zhttp.serve(router, "nowhere")
    with pytest.raises(errors.UsageError, match="origins"):
        zhttp.serve(router, HERE, origins="*")
    with pytest.raises(errors.UsageError, match="listen_certificate"):
        zhttp.serve(router, HERE, tls=zhttp.Tls("/does/not/exist", "/neither"))


def test_configured_servers(router):
    config = zenoh.Config()
    assert zhttp.configured(router, config) == []
    config.insert_json5("plugins/rest", '{http_port: "127.0.0.1:0", __required__: true}')
    config.insert_json5("plugins/remote_api", '{websocket_port: "127.0.0.1:0"}')
    rest, remote = zhttp.configured(router, config)
    with rest, remote:
        assert ask(rest, "GET", "/a").body == b"[]"
        assert ask(remote, "GET", "/a").status == 404
    listed = zenoh.Config()
    listed.insert_json5("plugins", "[1]")
    with pytest.raises(errors.ConfigError, match="plugins"):
        zhttp.configured(router, listed)
    config.insert_json5("plugins/rest/htp_port", "1")
    with pytest.raises(errors.ConfigError, match="htp_port") as caught:
        zhttp.configured(router, config)
    assert caught.value.path == "plugins/rest"
    for plugins, path in (([1], "plugins"), ({"rest": {"__required__": True}}, "plugins/rest/http_port")):
        config.insert_json5("plugins", json.dumps(plugins))
        for check in (zhttp.without_servers, lambda config: zhttp.configured(router, config)):
            with pytest.raises(errors.ConfigError) as caught:
                check(config)
            assert caught.value.path == path


def test_a_server_that_is_closed_ends_its_streams(router):
    server = zhttp.serve(router, HERE)
    with listening(server, "/x") as stream:
        server.close()
        server.close()
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            stream.read()
    with pytest.raises(ConnectionError):
        ask(server, "GET", "/health")


def test_tls_with_and_without_client_certificates(router, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    trusting = ssl.create_default_context(cafile=str(authority.file))
    with zhttp.serve(router, HERE, tls=zhttp.Tls(certificate, key)) as server:
        assert server.url.startswith("https://127.0.0.1:")
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=20, context=trusting)
        connection.request("GET", "/ready")
        assert connection.getresponse().status == 200
        connection.close()
        with raw(server, b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n") as stream:
            assert b"HTTP/1.1" not in whole(stream)
    named = {"id": "named", "cert_common_names": ["client"]}
    rules = RULES | {"subjects": [named], "policies": [{"rules": ["write"], "subjects": ["named"]}]}
    own = ssl.create_default_context(cafile=str(authority.file))
    own.load_cert_chain(*map(str, authority.issue("client")))
    tls = zhttp.Tls(certificate, key, client_ca=authority.file)
    with nodes.router(access_control=rules) as ruled, zhttp.serve(ruled, HERE, tls=tls) as server:
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=20, context=own)
        for path, status in (("/open/x", 200), ("/closed/x", 403)):
            connection.request("PUT", path, body=b"1")
            answer = connection.getresponse()
            assert (answer.status, b"refuse" in answer.read()) == (status, status == 403)
        connection.request("PUT", "/open/x", body=b"1", headers={"Origin": "https://b.example"})
        assert connection.getresponse().status == 403, (
            "the browser adds the certificate to requests of any page"
        )
        connection.close()
        for context, accepted in ((own, True), (trusting, False)):
            connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=20, context=context)
            try:
                connection.request("GET", "/ready")
                assert connection.getresponse().status == 200
                assert accepted
            except (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected):
                assert not accepted
            finally:
                connection.close()
