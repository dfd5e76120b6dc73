"""The live page in a real browser: what it shows, what it lets strangers do, and whether it keeps up."""

from __future__ import annotations

import base64
import json
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

import browser as browsers
import nodes
from zwire import http as zhttp
from zwire import zenoh
from zwire.errors import SessionClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from browser import Browser, Page

HERE = "127.0.0.1:0"
PATIENCE = 20.0

# The smallest image: one point.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

# Text of each element in sight, with its contrast to what is behind it.
CONTRAST = """(() => {
  const channel = (value) => (value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility()) continue;
    const [one, other] = [light(numbers(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) found.push(`${element.tagName} ${ratio.toFixed(2)} ${element.textContent.slice(0, 30)}`);
  }
  return found;
})()"""

# Controls that have no name for a screen reader.
NAMELESS = """[...document.querySelectorAll("input, select, textarea, button, canvas, [role]")]
  .filter((one) => !one.labels?.length && !one.textContent.trim())
  .filter((one) => one.role !== "status" && one.role !== "alert")
  .filter((one) => !one.ariaLabel && !one.getAttribute("aria-labelledby"))
  .map((one) => one.outerHTML)"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsers.running(tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture
def browser(running: Browser) -> Iterator[Browser]:
    yield running
    for page in list(running.pages.values()):
        page.close()


@contextmanager
def served(**options: Any) -> Iterator[tuple[zenoh.Session, zhttp.Server]]:
    """A router with a page."""
    more = {"adminspace__enabled": True, "timestamping__enabled": True, "metadata": {"name": "hub"}}
    with (
        nodes.router(**more) as router,
        zhttp.serve(router, HERE, **{"rest": False, "ui": True, "origins": [], **options}) as server,
    ):
        yield router, server


def live(browser: Browser, server: zhttp.Server, *size: int, dark: bool = False) -> Page:
    page = browser.open(f"{server.url}/", *size, dark=dark)
    wait(lambda: page.text("#state") == "live", "the page is live")
    return page


def rows(page: Page) -> dict[str, str]:
    """Values of the rows in sight, by the names of their chunks."""
    found = page.run(
        "[...document.querySelectorAll('.row')].filter((row) => !row.hidden)"
        ".map((row) => [...row.children].slice(0, 2).map((cell) => cell.textContent))"
    )
    return dict(found)


def pick(page: Page, key: str) -> None:
    """Choose a key, as a click on its row does."""
    page.run(f"zwirePage.tree.pick(zwirePage.keys.entries.get({json.dumps(key)}).chunk)")


def wait(condition: Callable[[], bool], what: str) -> None:
    nodes.eventually(condition, what, within=PATIENCE)


def shows(page: Page, selector: str, part: str) -> None:
    wait(lambda: part in page.text(selector), f"{part!r} in {selector}")


class Others:
    """Nodes that answer in the admin space as those of a large network do: a router for each twenty peers."""

    def __init__(self, session: zenoh.Session, hub: str, number: int) -> None:
        self.hub, self.looks = hub, 0
        self.zids = [f"{0xA000 + at:x}" for at in range(number)]
        self.queryable = session.declare_queryable("@/*/*", self.answer)

    def answer(self, query: zenoh.Query) -> None:
        self.looks += 1
        for at, zid in enumerate(self.zids):
            role = "router" if at % 20 == 0 else "peer"
            above = (self.hub, "router") if at % 20 == 0 else (self.zids[at - at % 20], "router")
            traffic = {"tx_bytes": self.looks * at * 1000, "rx_bytes": self.looks * 500, "waiting_bytes": 10}
            link = {"src": f"tcp/10.0.0.{at}:1", "dst": "tcp/10.0.1.1:7447", "stats": traffic}
            root = {
                "zid": zid,
                "version": "test",
                "metadata": {"name": f"node {at}"},
                "locators": [],
                "sessions": [{"peer": above[0], "whatami": above[1], "links": [link]}],
                "stats": {"link.tx_dropped": at * self.looks, "session.pushes_sent": 1},
            }
            # The page asks on while the test ends.
            with suppress(SessionClosed):
                query.reply(f"@/{zid}/{role}", json.dumps(root), encoding="application/json")


def test_values_nodes_and_tokens_are_shown(browser):
    with served() as (router, server), nodes.client(router) as robot:
        page = live(browser, server)
        shows(page, "#graph-note", "2 nodes")
        robot.put("fleet/7/speed", "1.25", encoding="text/plain")
        robot.put("fleet/7/pose", '{"x": 1.5, "name": "a"}', encoding="application/json")
        robot.put("fleet/7/raw", b"\x00\xff\x10")
        robot.put("fleet/cam", PNG, encoding="image/png")
        wait(lambda: "cam" in rows(page), "rows of the keys")
        seen = rows(page)
        assert seen["speed"] == "1.25"
        assert seen["pose"] == '{"x": 1.5, "name": "a"}'
        assert seen["raw"] == "00 ff 10 "
        assert seen["cam"].startswith("PNG image")
        robot.put("fleet/7/speed", "-3", encoding="text/plain")
        wait(lambda: rows(page)["speed"] == "-3", "the next value")

        pick(page, "fleet/7/pose")
        shows(page, "#value-text", '"x": 1.5')
        robot.put("fleet/7/pose", '{"x": 2.5, "name": "a"}', encoding="application/json")
        shows(page, "#value-legend", "x")
        assert page.text("#value-key") == "fleet/7/pose"
        pick(page, "fleet/7/speed")
        wait(lambda: page.run("!document.querySelector('#value-plot').hidden"), "a plot")
        assert page.run("zwirePage.keys.entries.get('fleet/7/speed').points.length") == 2
        pick(page, "fleet/7/raw")
        shows(page, "#value-text", "000000  00 ff 10")
        pick(page, "fleet/cam")
        wait(lambda: page.run("document.querySelector('#value-image img')?.naturalWidth") == 1, "the image")
        with robot.declare_queryable(
            "kept/*", lambda query: query.reply("kept/1", "by a storage")
        ) as storage:
            storage.wait_ready(timeout=PATIENCE)
            page.click("#ask")
            shows(page, "#keys-note", "1 replies to the query")
        wait(lambda: rows(page).get("1") == "by a storage", "the reply")
        robot.delete("fleet/7/raw")
        wait(lambda: rows(page)["raw"] == "deleted", "the deletion")

        page.click("#tab-nodes")
        shows(page, "#nodes", "hub")
        with nodes.client(router) as other, other.liveliness().declare_token("alive/other"):
            shows(page, "#graph-note", "3 nodes")
            shows(page, "#nodes", str(other.zid()))
            page.click("#tab-tokens")
            shows(page, "#tokens", "alive/other")
        wait(lambda: "alive" not in page.text("#tokens"), "the token goes")
        shows(page, "#graph-note", "2 nodes")
        page.click("#tab-links")
        shows(page, "#links", "B/s")
        page.click("#tab-log")
        shows(page, "#log", "zwire::zenoh::link: ")
        assert page.problems == []
        assert page.hosts == {server.address}


def test_drops_are_told_with_their_reasons(browser):
    with served() as (router, server), nodes.client(router) as robot:
        others = Others(robot, str(router.zid()), 3)
        page = live(browser, server)
        shows(page, "#graph-note", "5 nodes")
        page.click("#tab-drops")
        shows(page, "#drops", "the queue of a link was full")
        shows(page, "#drops", "node 2link.tx_dropped")
        wait(lambda: page.text("#figure-drops") != "0", "the rate of drops")
        assert others.looks >= 2
        assert page.problems == []


MARKUP = "<img src=x onerror=hacked=1><script>hacked=1</script>"


def test_strangers_get_no_further_than_text(browser):
    hostile = {
        "zid": "b0b",
        "version": [MARKUP],
        "metadata": {"name": MARKUP, "__proto__": {"polluted": 1}},
        "locators": [MARKUP, 7, None],
        "sessions": [
            None,
            7,
            {"peer": MARKUP, "whatami": "router", "links": []},
            {"peer": "b0c", "whatami": "peer", "links": [{"src": MARKUP, "dst": {}, "stats": {"a": "x"}}]},
            {"peer": "b0d", "whatami": "peer", "links": 7},
        ],
        "stats": {f"dropped.{MARKUP}": 5, "link.tx_dropped": -1, "drop": "many", "__proto__": 5},
    }

    def answer(query: zenoh.Query) -> None:
        query.reply("@/b0b/router", json.dumps(hostile))
        query.reply("@/b0e/peer", b"[" * 100_000)
        query.reply("@/b0f/peer", b"\xff\xfe")
        query.reply("@/b1f/king", "{}")
        query.reply_err(MARKUP)

    with served() as (router, server), nodes.client(router) as robot:
        page = live(browser, server)
        with robot.declare_queryable("@/*/*", answer):
            robot.put(f"evil/{MARKUP.replace('/', '|')}", MARKUP, encoding="text/html")
            robot.put("evil/json", json.dumps({MARKUP: 1, "__proto__": 2}), encoding="application/json")
            robot.put("evil/deep", b"[" * 200_000, encoding="application/json")
            robot.put("evil/utf8", b"caf\xe9 \xf0\x9f", encoding="text/plain")
            robot.put("evil/turn", "\u202egnp.exe\u007f", encoding="text/plain")
            robot.put("evil/svg", f'<svg onload="{MARKUP}"/>', encoding="image/svg+xml")
            robot.put("evil/bomb", PNG[:16] + b"\xff" * 8 + PNG[24:], encoding="image/png")
            # A lossless WebP of 16,384 by 16,384 points, a JPEG of 65,535 by 65,535.
            webp = b"RIFF\x20\0\0\0WEBPVP8L\x0c\0\0\0\x2f\xff\xff\xff\x0f".ljust(40, b"\0")
            robot.put("evil/webp", webp, encoding="image/webp")
            jpeg = b"\xff\xd8\xff\xe0\0\4\0\0\xff\xc0\0\x11\x08\xff\xff\xff\xff\3".ljust(64, b"\0")
            robot.put("evil/jpeg", jpeg, encoding="image/jpeg")
            nested = b"[" * 1000 + b"1," * 100_000 + b"1" + b"]" * 1000
            robot.put("evil/nested", nested, encoding="application/json")
            robot.put("evil/large", b"<b>" * 350_000, encoding="text/plain")
            robot.put("evil/" + "a/" * 500 + "z", "deep")
            robot.put("evil/" + "x" * 5000, "long")
            robot.put("evil/encoding", "x", encoding=f"{MARKUP};{MARKUP}"[:200])
            with robot.liveliness().declare_token(f"alive/{MARKUP.replace('/', '|')}"):
                for tab in ("tokens", "nodes", "drops", "links"):
                    page.click(f"#tab-{tab}")
                    shows(page, f"#{tab}", "<img src=x")
        wait(lambda: page.run("zwirePage.keys.samples") == 14, "all samples")
        for key in (
            "json",
            "deep",
            "utf8",
            "turn",
            "svg",
            "bomb",
            "webp",
            "jpeg",
            "nested",
            "large",
            "encoding",
        ):
            pick(page, f"evil/{key}")
            shows(page, "#value-key", f"evil/{key}")
            assert page.run("document.querySelector('#value-image').hidden"), key
        pick(page, "evil/turn")
        shows(page, "#value-text", "\u00b7gnp.exe\u00b7")
        pick(page, "evil/svg")
        shows(page, "#value-text", "<svg")
        assert page.run("zwirePage.keys.refused") == 1, "the long key"
        shows(page, "#keys-note", "1 samples are not shown")
        scripts = "document.scripts.length + document.querySelectorAll('.row *, td *, #value-text *').length"
        assert page.run(f"{scripts} - document.querySelectorAll('.row > span, td > canvas').length") == 1
        assert page.run("[typeof hacked, typeof ({}).polluted]") == ["undefined", "undefined"]
        assert page.run("document.title") == "zwire"
        assert page.problems == []
        assert page.hosts == {server.address}


def test_twenty_thousand_keys_are_bounded_and_counted(browser):
    with served() as (router, server), nodes.client(router) as robot:
        page = live(browser, server)
        for at in range(20_000):
            robot.put(f"many/{at}", str(at), congestion_control=zenoh.CongestionControl.BLOCK)
            # The server keeps 4,096 samples for a page.
            if at % 2000 == 1999:
                wait(lambda: page.run("zwirePage.keys.samples") == at + 1, "all samples")  # noqa: B023 - awaited
        shows(page, "#figure-keys", "10,000")
        shows(page, "#keys-note", "10,000 samples are not shown")
        assert "many  (10,000)" in rows(page)
        page.run("zwirePage.tree.toggle(zwirePage.keys.root.children.get('many'))")
        wait(lambda: rows(page).get("12") == "12", "the tree in order of numbers")
        assert page.run("document.querySelectorAll('.row').length") < 100
        page.fill("#filter", "999")
        wait(lambda: list(rows(page))[:3] == ["many", "999", "1999"], "the filter")
        assert page.problems == []


# Records the time between two pictures, until it is asked.
FRAMES = """(() => {
  window.deltas = [];
  let last = performance.now();
  const next = (now) => {
    if (!window.deltas) return;
    deltas.push(now - last);
    last = now;
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
})()"""


@pytest.mark.parametrize("seconds", [2, pytest.param(5, marks=pytest.mark.long)])
def test_it_keeps_up_with_a_thousand_keys_a_second_and_two_hundred_nodes(
    browser, tmp_path, record_property, seconds
):
    number = 1000
    with served() as (router, server), nodes.client(router) as robot, nodes.client(router) as teller:
        Others(teller, str(router.zid()), 200)
        page = live(browser, server, 1360, 850)
        shows(page, "#graph-note", "203 nodes")
        page.run(FRAMES)
        begin = time.monotonic()
        sent = 0

        def publish() -> None:
            nonlocal sent
            while (passed := time.monotonic() - begin) < seconds:
                while sent < passed * number:
                    robot.put(f"load/{sent % number // 50}/{sent % number}/value", str(sent))
                    sent += 1
                time.sleep(0.01)

        thread = threading.Thread(target=publish)
        thread.start()
        time.sleep(seconds / 2)
        page.shot(tmp_path / "load.png")
        thread.join()
        ended = time.monotonic()
        wait(lambda: page.run("zwirePage.keys.samples") == sent, "all samples")
        behind = time.monotonic() - ended
        deltas = sorted(page.run("(() => { const all = deltas; window.deltas = undefined; return all; })()"))
        middle, late, worst = deltas[len(deltas) // 2], deltas[len(deltas) * 19 // 20], deltas[-1]
        frames = f"{len(deltas)} frames: median {middle:.0f}, 95 % {late:.0f}, worst {worst:.0f} ms"
        seen = f"{frames}; {behind:.2f} s behind"
        record_property("frames", seen)
        print(seen)
        # A page that draws for each sample, or lays out all rows, has seconds between two pictures.
        # Both are 17 ms on an idle machine; the bounds leave room for one that other tests use.
        assert middle < 300
        assert late < 1000
        assert behind < 5
        last = f"load/{(sent - 1) % number // 50}/{(sent - 1) % number}/value"
        text = f"new TextDecoder().decode(zwirePage.keys.entries.get({json.dumps(last)}).payload)"
        assert page.run(text) == str(sent - 1)
        assert page.run("zwirePage.graph.nodes.size") == 203
        assert page.problems == []


def test_it_can_be_read_and_used_without_a_mouse(browser, tmp_path):
    with served(ui="write") as (router, server), nodes.client(router) as robot:
        Others(robot, str(router.zid()), 24)
        page = live(browser, server)
        for name in ("a", "b/c", "b/d", "e"):
            robot.put(f"keys/{name}", "12.5", encoding="text/plain")
        wait(lambda: "e" in rows(page), "rows of the keys")
        shows(page, "#graph-note", "26 nodes")
        assert page.run(NAMELESS) == []
        page.run("document.querySelector('#tree').focus()")
        for key, code in (("Home", 36), ("ArrowDown", 40), ("Enter", 13)):
            page.press(key, code)
        shows(page, "#value-key", "keys/a")
        active = page.text("#" + page.run("document.activeElement.getAttribute('aria-activedescendant')"))
        assert active.startswith("a12.5")
        for key, code in (("ArrowDown", 40), ("ArrowLeft", 37)):
            page.press(key, code)
        wait(lambda: "b  (2)" in rows(page), "a closed chunk")
        page.press("ArrowRight", 39)
        wait(lambda: "c" in rows(page), "an open chunk")
        page.run("document.querySelector('#tab-links').focus()")
        page.press("ArrowRight", 39)
        assert page.run("[document.activeElement.id, document.querySelector('#panel-nodes').hidden]") == [
            "tab-nodes",
            False,
        ]
        for name, width, height, dark in (
            ("desktop", 1280, 800, False),
            ("dark", 1280, 800, True),
            ("phone", 390, 844, False),
        ):
            page.size(width, height, dark=dark)
            assert page.run(CONTRAST) == [], name
            assert page.run("document.documentElement.scrollWidth <= innerWidth"), name
            page.shot(tmp_path / f"{name}.png")
            assert (tmp_path / f"{name}.png").stat().st_size > 10_000
        assert page.problems == []


def test_a_token_opens_the_page(browser):
    tokens = [zhttp.Token("correct-horse", user="dashboard")]
    with served(tokens=tokens) as (router, server), nodes.client(router) as robot:
        page = browser.open(f"{server.url}/")
        shows(page, "#state", "a token is needed")
        assert page.run("!document.querySelector('#login').hidden")
        page.fill("#token", "wrong")
        page.click("#login button")
        shows(page, "#login-problem", "does not accept")
        page.fill("#token", "correct-horse")
        page.click("#login button")
        shows(page, "#state", "live")
        robot.put("some/key", "seen")
        wait(lambda: rows(page).get("key") == "seen", "the value")
        assert page.run("document.querySelector('#login').hidden")
        assert "correct-horse" not in page.run("location.href + document.documentElement.outerHTML")


def test_rules_decide_what_a_page_sees(browser):
    rules = {
        "enabled": True,
        "default_permission": "deny",
        "rules": [
            {
                "id": "room",
                "permission": "allow",
                "messages": ["put", "declare_subscriber"],
                "key_exprs": ["room/**"],
            }
        ],
        "subjects": [{"id": "all"}],
        "policies": [{"rules": ["room"], "subjects": ["all"]}],
    }
    with (
        nodes.router(adminspace__enabled=True, access_control=rules) as router,
        zhttp.serve(router, HERE, ui=True) as server,
    ):
        page = live(browser, server)
        shows(page, "#keys-note", "the rules of this node refuse declare_subscriber on **")
        shows(page, "#graph-note", "the rules of this node refuse query on @/*/*")
        page.click("#tab-tokens")
        shows(page, "#tokens-note", "the rules of this node refuse")
        page.fill("#key", "room/**")
        page.run("document.querySelector('#key').dispatchEvent(new Event('change'))")
        wait(lambda: "refuse" not in page.text("#keys-note"), "the subscription")
        router.put("room/1", "seen")
        router.put("other/1", "hidden")
        wait(lambda: rows(page).get("1") == "seen", "the value")
        assert set(rows(page)) == {"room", "1"}
        assert page.problems == []


def test_it_comes_back_and_a_hidden_page_receives_nothing(browser):
    with served() as (router, server), router.declare_publisher("some/key") as publisher:
        page = live(browser, server)
        wait(lambda: bool(publisher.matching_status), "the subscription")
        page.run(
            "zwirePage.idle = 10;"
            "Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
        wait(lambda: not publisher.matching_status, "the end of the subscription")
        page.run("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
        wait(lambda: bool(publisher.matching_status), "the next subscription")
        page.click("#pause")
        wait(lambda: not publisher.matching_status, "the pause")
        shows(page, "#keys-note", "Paused")
        page.click("#pause")
        wait(lambda: bool(publisher.matching_status), "the end of the pause")
        page.click("#pause")
        wait(lambda: not publisher.matching_status, "the pause")
        shows(page, "#keys-note", "Paused")
        page.click("#pause")
        wait(lambda: bool(publisher.matching_status), "the end of the pause")
        assert page.problems == []
        server.close()
        shows(page, "#state", "connection lost")
        with zhttp.serve(router, server.address, rest=False, ui=True, origins=[]):
            shows(page, "#state", "live")
            publisher.put("again")
            wait(lambda: rows(page).get("key") == "again", "the value")


def test_a_page_that_reads_too_slowly_is_told(browser):
    with served() as (router, server), nodes.client(router) as robot:
        page = live(browser, server)
        shows(page, "#graph-note", "2 nodes")
        ended = threading.Event()

        def publish() -> None:
            for _ in range(100_000):
                robot.put("fast", bytes(2000), congestion_control=zenoh.CongestionControl.BLOCK)
                if ended.is_set():
                    break

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            page.run("(() => { const end = performance.now() + 2000; while (performance.now() < end); })()")
            shows(page, "#keys-note", "were dropped before they reached a page")
        finally:
            ended.set()
            thread.join()
        page.click("#tab-drops")
        shows(page, "#drops", "a subscriber took its samples too slowly")
        assert page.problems == []


def test_a_client_tells_that_its_router_is_away(browser):
    where = [f"tcp/127.0.0.1:{nodes.free_port()}"]
    hub = nodes.opened("router", listen=where)
    with (
        nodes.opened("client", connect=where, adminspace__enabled=True) as session,
        zhttp.serve(session, HERE, rest=False, ui=True, origins=[]) as server,
    ):
        page = live(browser, server)
        shows(page, "#graph-note", "2 nodes")
        hub.close()
        shows(page, "#state", "no router is connected")
        with nodes.opened("router", listen=where):
            shows(page, "#state", "live")
        assert page.problems == []


def test_a_page_publishes_only_if_it_may(browser):
    def publish(page: Page) -> None:
        page.fill("#write-key", "page/put")
        page.fill("#write-value", "by hand")
        page.run("document.querySelector('#write').requestSubmit()")

    with served(ui="write") as (router, server), router.declare_subscriber("page/**") as got:
        page = live(browser, server)
        publish(page)
        sample = got.recv(timeout=PATIENCE)
        assert (bytes(sample.payload), str(sample.encoding)) == (b"by hand", "text/plain")
        shows(page, "#write-result", "Published at")
        page.click("#write-delete")
        assert got.recv(timeout=PATIENCE).kind.name == "DELETE"
        assert page.problems == []
    with served(read_only=True) as (router, server), router.declare_subscriber("page/**") as got:
        page = live(browser, server)
        assert page.run("document.querySelector('#write').hidden")
        publish(page)
        shows(page, "#write-result", "read_only")
        assert got.try_recv() is None
        assert page.problems == []
