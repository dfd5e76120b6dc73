"""The server of the live page: its files and their policy, pages of other origins, read-only servers."""

from __future__ import annotations

import http.client
import json
import re
import signal
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import nodes
from remote_api import DEFAULT_QOS, RemoteClient, field, u32
from zwire import errors
from zwire import http as zhttp
from zwire.cli import main

if TYPE_CHECKING:
    from email.message import Message

    from zwire import zenoh

HERE = "127.0.0.1:0"
PATIENCE = 20.0


@pytest.fixture
def router():
    with nodes.router(adminspace__enabled=True) as session:
        yield session


def ask(
    server: zhttp.Server, path: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, Message, bytes]:
    """Send one request."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as connection:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def test_the_page_has_files_with_a_policy(router):
    with zhttp.serve(router, HERE, ui=True, tokens=[zhttp.Token("t", "ann")]) as server:
        # Files hold no data, so they need no token.
        todo, seen = ["/"], set()
        while todo:
            path = todo.pop()
            if path in seen:
                continue
            seen.add(path)
            status, headers, body = ask(server, path)
            assert status == 200, path
            if path == "/zwire.js":
                continue
            policy = headers["content-security-policy"]
            assert policy.startswith("default-src 'self'; connect-src 'self'; ")
            assert "unsafe" not in policy
            assert "http" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            text = body.decode()
            todo += re.findall(r'(?:href|src|from )="?(/[^"]+)"', text) + re.findall(r'from "(/[^"]+)"', text)
            todo += [f"/ui/{name}" for name in re.findall(r'from "\./([^"]+)"', text)]
        assert {"/ui/page.css", "/ui/main.js", "/ui/graph.js", "/zwire.js"} <= seen
        assert ask(server, "/some/key")[0] == 401
        assert ask(server, "/ui/none.js")[0] == 401, "a key as any other"


def test_a_node_with_a_page_serves_its_log_to_clients_that_may_read(router):
    def log() -> list[str]:
        replies = [reply.ok for reply in router.get("@/*/router/status/log", timeout=PATIENCE)]
        return [line for reply in replies if reply is not None for line in json.loads(bytes(reply.payload))]

    assert log() == []
    with zhttp.serve(router, HERE, ui=True), nodes.client(router) as client:
        nodes.eventually(lambda: any(str(client.zid()) in line for line in log()), within=PATIENCE)
        assert len(log()) <= 200
        keys = [str(reply.ok.key_expr) for reply in router.get("@/*/router/**", timeout=PATIENCE) if reply.ok]
        assert keys
        assert not any(key.endswith("/log") for key in keys), "only for a query that names it"
    with (
        nodes.router(adminspace__enabled=True, adminspace__permissions__read=False) as mute,
        zhttp.serve(mute, HERE, ui=True),
    ):
        assert list(mute.get(f"@/{mute.zid()}/router/status/log", timeout=PATIENCE)) == []


def test_there_is_no_page_unless_it_is_asked_for(router):
    with zhttp.serve(router, HERE) as server:
        assert ask(server, "/")[0] == 404
        status, _, body = ask(server, "/ui/main.js")
        assert (status, json.loads(body)) == (200, []), "a key as any other"
    with pytest.raises(errors.UsageError, match="ui"):
        zhttp.serve(router, HERE, ui="write", read_only=True)
    with pytest.raises(errors.UsageError, match="ui"):
        zhttp.serve(router, HERE, ui=True, websocket=False)


def reply(query: zenoh.Query) -> None:
    query.reply("asked", "answer", encoding="text/plain")


def test_a_server_that_is_read_only_takes_nothing(router):
    with (
        zhttp.serve(router, HERE, read_only=True) as server,
        router.declare_subscriber("**") as got,
        router.declare_queryable("asked", reply),
        RemoteClient(server.port) as page,
    ):
        for method, body in (("PUT", b"x"), ("PATCH", b"x"), ("DELETE", None)):
            status, _, text = ask(server, "/some/key", method, body)
            assert (status, b"read_only" in text) == (403, True), text
        assert json.loads(ask(server, "/asked")[2])[0]["value"] == "answer"
        qos, encoding = bytes([DEFAULT_QOS]), b"\x00\x00\x00"
        key = field("some/key")
        refused = {
            "a publication": (14, key, field(b"x"), encoding, b"\x00\x00", qos),
            "a deletion": (15, key, b"\x00\x00", qos),
            "a publisher": (0, u32(1), key, encoding, qos),
            "a queryable": (4, u32(2), key, b"\x00\x02"),
            "a token": (8, u32(3), key),
        }
        for what, request in refused.items():
            answer = page.ask(*request)
            assert answer.id == 2, what
            assert "read_only" in answer.text(), what
        page.declare(2, u32(4), key, b"\x02")
        assert got.try_recv() is None


def test_the_counters_of_a_port_for_the_page_alone_are_read_by_address(router):
    """A page whose name was made to lead here is one of this server to the browser: it names no origin."""
    alone = {"rest": False, "ui": True, "origins": []}
    tokens = [zhttp.Token("secret", "ann")]
    with (
        zhttp.serve(router, HERE, **alone) as server,
        zhttp.serve(router, HERE, **alone, tokens=tokens, anonymous=True) as known,
        zhttp.serve(router, HERE, ui=True, origins=[]) as rest,
    ):
        for host, status in (("127.0.0.1", 200), ("localhost", 200), ("[::1]", 200), ("evil.example", 403)):
            answer = ask(server, "/metrics", Host=f"{host}:{server.port}")
            assert answer[0] == status, host
        assert b"name decides" in answer[2]
        assert ask(known, "/metrics", Host="robot", Authorization="Bearer secret")[0] == 200
        # A server of keys answers by name, as for curl: the page is not all that it is for.
        assert ask(rest, "/metrics", Host="robot")[0] == 200
        # Health is no secret.
        assert ask(server, "/health", Host="robot")[0] == 200


def test_pages_of_this_server_may_use_it_by_its_address_alone(router):
    with zhttp.serve(router, HERE, ui=True, origins=[]) as server:
        own = f"127.0.0.1:{server.port}"
        # The last: a name that its owner has led to this address.
        for host, origin, status in (
            (own, f"http://{own}", 101),
            (f"localhost:{server.port}", f"http://localhost:{server.port}", 101),
            (own, "http://evil.example", 403),
            (own, "null", 403),
            (f"evil.example:{server.port}", f"http://evil.example:{server.port}", 403),
        ):
            with RemoteClient(server.port, host=host, headers=f"Origin: {origin}\r\n") as page:
                assert page.status == status, (host, origin)
    with (
        zhttp.serve(router, HERE, ui=True, origins=["http://robot:80"]) as server,
        RemoteClient(server.port, host="robot:80", headers="Origin: http://robot:80\r\n") as page,
    ):
        assert page.status == 101
    with zhttp.serve(router, HERE, origins=[]) as server:
        own = f"127.0.0.1:{server.port}"
        with RemoteClient(server.port, host=own, headers=f"Origin: http://{own}\r\n") as page:
            assert page.status == 403, "a server without a page"


def test_the_command_serves_the_page_of_a_router(router, start):
    (endpoint,) = router.listening()
    process = start("ui", endpoint, "--port", HERE)
    url = process.stdout.readline().strip()
    match = re.fullmatch(r"http://(127\.0\.0\.1:\d+)/", url)
    assert match, url
    with closing(http.client.HTTPConnection(match[1], timeout=PATIENCE)) as connection:
        connection.request("GET", "/")
        assert b'data-access="read"' in connection.getresponse().read()
        connection.request("GET", "/some/key")
        assert connection.getresponse().status == 404, "the page alone"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")


def test_the_command_asks_for_a_token(router, start, tmp_path):
    (endpoint,) = router.listening()
    (tmp_path / "token").write_text("correct-horse\n")
    process = start("ui", "-e", endpoint, "--port", HERE, "--write", "--token-file", str(tmp_path / "token"))
    port = int(process.stdout.readline().strip(" /\n").rpartition(":")[2])
    with RemoteClient(port) as page:
        assert page.status == 401
    with RemoteClient(port, headers="Sec-WebSocket-Protocol: zwire, bearer.correct-horse\r\n") as page:
        assert page.ask(25).id == 0


@pytest.mark.parametrize("port", ["x", "1:y", "70000", "[::1]:"])
def test_the_command_wants_a_port(port, capsys):
    assert main(["ui", "--port", port]) == 2
    assert "[HOST:]PORT" in capsys.readouterr().err


def test_the_router_tells_where_its_page_is(start):
    process = start("router", "--listen", "tcp/127.0.0.1:0", "--rest-http-port", HERE, "--ui")
    process.stdout.readline()
    url = process.stdout.readline().strip()
    assert process.stderr.readline() == f"the live page is at {url}/\n"
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE)) as connection:
        connection.request("GET", "/")
        assert b"<title>zwire</title>" in connection.getresponse().read()
