"""A page in a real browser is a node: `make setup` gets the browser."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

import browser
import nodes
from zwire import http as zhttp
from zwire import zenoh

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = """\
<!doctype html>
<title>zwire</title>
<script type="module">
import { open } from "http://127.0.0.1:PORT/zwire.js";

const session = await open("ws/127.0.0.1:PORT");
const tell = (what, value) => session.put(`page/told/${what}`, value);
try {
  const info = await session.info();
  tell("zid", info.zid);

  await session.subscribe("py/put", (sample) => {
    tell("sample", [sample.key, sample.kind, sample.encoding, sample.text()]);
  });

  await session.queryable("page/square", (query) => {
    const number = query.json();
    if (number < 0) throw new RangeError("negative");
    query.reply("page/square", number * number);
  });

  const got = [];
  for await (const reply of session.get("py/numbers/*?from=3", { value: "body" })) got.push(reply.text());
  tell("replies", got.sort());

  await session.watch("py/alive/**", (sample) => tell("token", [sample.key, sample.kind]));
  await session.token("page/alive/1");
  const alive = [];
  for await (const token of session.alive("page/alive/*")) alive.push(token.key);
  tell("alive", alive);

  const options = { encoding: "text/plain", congestion: "block" };
  const publisher = await session.publisher("page/published", options);
  await publisher.onMatching((matching) => {
    if (matching) publisher.put("by the publisher");
  });

  const large = new Uint8Array(1 << 20).fill(7);
  await session.drain();
  session.put("page/large", large, { priority: "background", express: true, attachment: "att" });

  const events = new EventSource("http://127.0.0.1:PORT/py/event");
  events.addEventListener("PUT", (event) => tell("event", JSON.parse(event.data).value));
  events.onopen = async () => {
    const answer = await fetch("http://127.0.0.1:PORT/page/fetched", {
      method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ a: 1 }),
    });
    tell("fetch", answer.status);
  };

  let refused = "";
  await session.subscribe("a//b", () => {}).catch((error) => { refused = error.message; });
  tell("refused", refused);
  try {
    for await (const reply of session.get("a//b")) tell("error", reply.key);
  } catch (error) {
    tell("failed", error.message);
  }
  tell("ready", "");
} catch (error) {
  tell("error", String(error.stack));
}
</script>
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and prints nothing."""

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def shown(folder: Path, page: str) -> Iterator[None]:
    """Open a page in the browser."""
    program = browser.program()
    (folder / "site").mkdir()
    (folder / "site/index.html").write_text(page)
    site = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder / "site"))
    )
    thread = threading.Thread(target=site.serve_forever)
    thread.start()
    options = [
        *browser.OPTIONS,
        "--remote-debugging-port=0",
        f"--user-data-dir={folder / 'profile'}",
    ]
    log = (folder / "log").open("w")
    process = subprocess.Popen(
        [program, *options, f"http://127.0.0.1:{site.server_port}/"],
        stdout=log,
        stderr=log,
        env={**os.environ, "HOME": str(folder)},
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)
        site.shutdown()
        thread.join()
        site.server_close()
        log.close()


@pytest.mark.timeout(90)
def test_a_page_is_a_node(tmp_path):
    with (
        nodes.router() as router,
        zhttp.serve(router, "127.0.0.1:0") as server,
        nodes.client(router) as robot,
        robot.declare_subscriber("page/**") as told,
        robot.liveliness().declare_subscriber("page/alive/**", history=True) as living,
        robot.declare_queryable("py/numbers/*", numbers),
    ):
        told.wait_ready(timeout=10)
        with shown(tmp_path, PAGE.replace("PORT", str(server.port))):
            heard: dict[str, zenoh.Sample] = {}

            def wait_for(*keys: str) -> None:
                while not heard.keys() >= set(keys):
                    assert "page/told/error" not in heard, bytes(heard["page/told/error"].payload)
                    sample = told.recv(timeout=60)
                    heard[str(sample.key_expr)] = sample

            def text(key: str) -> str:
                return bytes(heard[key].payload).decode()

            wait_for("page/told/ready", "page/large", "page/published", "page/fetched", "page/told/fetch")
            assert text("page/told/zid") == str(router.zid())
            assert text("page/told/replies") == '["body 3","body 4"]'
            assert text("page/told/alive") == '["page/alive/1"]'
            assert "key" in text("page/told/refused")
            assert "key" in text("page/told/failed"), "a get that the router refuses ends"
            assert text("page/published") == "by the publisher"
            assert str(heard["page/published"].encoding) == "text/plain"
            assert text("page/told/fetch") == "200"
            assert (text("page/fetched"), str(heard["page/fetched"].encoding)) == (
                '{"a":1}',
                "application/json",
            )
            large = heard["page/large"]
            assert bytes(large.payload) == b"\x07" * (1 << 20)
            assert (large.priority, large.express) == (zenoh.Priority.BACKGROUND, True)
            assert large.attachment is not None
            assert bytes(large.attachment) == b"att"
            token = living.recv(timeout=20)
            assert (str(token.key_expr), token.kind) == ("page/alive/1", zenoh.SampleKind.PUT)

            robot.put("py/put", "hello", encoding="text/plain")
            robot.put("py/event", "news", encoding="text/plain")
            with robot.liveliness().declare_token("py/alive/robot"):
                wait_for("page/told/sample", "page/told/event", "page/told/token")
            assert text("page/told/sample") == '["py/put","put","text/plain","hello"]'
            assert text("page/told/event") == "news"
            assert text("page/told/token") == '["py/alive/robot","put"]'

            (reply,) = robot.get("page/square", payload="12", encoding="application/json", timeout=20)
            assert reply.ok is not None
            assert bytes(reply.ok.payload) == b"144"
            (reply,) = robot.get("page/square", payload="-1", encoding="application/json", timeout=20)
            assert reply.err is not None
            assert b"negative" in bytes(reply.err.payload)
        gone = living.recv(timeout=20)
        assert (str(gone.key_expr), gone.kind) == ("page/alive/1", zenoh.SampleKind.DELETE)


def numbers(query: zenoh.Query) -> None:
    """Reply with two numbers and the body of the query."""
    first = int(query.parameters.get("from") or 0)
    body = "" if query.payload is None else bytes(query.payload).decode()
    for number in (first, first + 1):
        query.reply(f"py/numbers/{number}", f"{body} {number}", encoding="text/plain")
