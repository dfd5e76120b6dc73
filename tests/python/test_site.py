"""The documentation as a site: pictures, links and anchors, accessibility, search."""

from __future__ import annotations

import contextlib
import functools
import html.parser
import http.server
import importlib
import importlib.resources
import subprocess
import sys
import threading
import time
import urllib.parse
from typing import TYPE_CHECKING

import pytest

import browser as browsers
import snippets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCS = snippets.ROOT / "docs"
BUILT = DOCS / "_build" / "html"

sys.path.insert(0, str(DOCS / "_ext"))

diagrams = importlib.import_module("zwire_diagrams")


def test_pictures_are_small():
    sizes = {path.name: path.stat().st_size for path in (DOCS / "_static").glob("*.*g")}
    assert {"fleet.png", "crates.svg", "spool.svg", "top.svg", "live-page.png"} <= sizes.keys()
    assert {name: size for name, size in sizes.items() if size >= 150_000} == {}


def test_pictures_are_shown():
    text = "".join((snippets.ROOT / page).read_text() for page in snippets.pages())
    pictures = [path.name for path in (DOCS / "_static").glob("*.*g")]
    assert [name for name in pictures if f"_static/{name}" not in text] == []


@pytest.mark.parametrize("draw", diagrams.DIAGRAMS)
def test_diagrams_are_those_of_the_script(draw):
    diagram = draw()
    path = DOCS / "_static" / f"{diagram.name}.svg"
    assert path.read_text() == diagram.svg(), "run python docs/_ext/zwire_diagrams.py"
    assert any(
        f"_static/{diagram.name}.svg)" in (snippets.ROOT / page).read_text() for page in snippets.pages()
    )


def test_the_layers_of_the_diagram_are_those_of_the_manifests():
    """Each crate stands above the crates that it uses."""
    rows: dict[str, int] = {}
    for y, names in diagrams.LAYERS:
        rows |= {name: y for name, _ in names}
    crates = {path.parent.name: path.read_text() for path in snippets.ROOT.glob("rust/zwire-*/Cargo.toml")}
    assert crates.keys() <= rows.keys()
    for crate, manifest in crates.items():
        used = {
            line.partition(".")[0].split()[0] for line in manifest.splitlines() if line.startswith("zwire-")
        }
        assert [name for name in used if name in crates and rows[name] <= rows[crate]] == []


class Anchors(html.parser.HTMLParser):
    """Ids and local links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"id", "name"} and value:
                self.ids.add(value)
            elif name in {"href", "src"} and value and not urllib.parse.urlsplit(value).scheme:
                self.links.add(value)


@pytest.fixture(scope="module")
def site() -> Path:
    """The built pages; `make docs-html` builds the same."""
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "-b", "html"]
    subprocess.run([*command, str(DOCS), str(BUILT)], check=True, timeout=500, cwd=snippets.ROOT)
    return BUILT


@pytest.mark.long
@pytest.mark.timeout(600)
def test_links_and_anchors_of_the_built_pages_lead_somewhere(site):
    pages = {path: Anchors(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 100, "the pages are not found"
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            known = pages.get(target)
            anchor = urllib.parse.unquote(parts.fragment)
            if not target.exists() or (known and anchor and anchor not in known.ids):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert sorted(broken) == []


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves the pages, and the one of unknown addresses, and prints nothing."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        if code != http.HTTPStatus.NOT_FOUND:
            super().send_error(code, message, explain)
            return
        body = (BUILT / "404.html").read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browsers.Browser]:
    with browsers.running(tmp_path_factory.mktemp("browser")) as running:
        yield running


def until(page: browsers.Page, condition: str) -> None:
    end = time.monotonic() + browsers.PATIENCE
    while True:
        # The document changes while a page is loaded.
        with contextlib.suppress(AssertionError):
            if page.run(condition):
                return
        assert time.monotonic() < end, f"{condition} within {browsers.PATIENCE:g} s"
        time.sleep(0.05)


@contextlib.contextmanager
def shown(browser: browsers.Browser, url: str, *size: int, dark: bool = False) -> Iterator[browsers.Page]:
    page = browser.open(url, *size, dark=dark)
    until(page, f"location.href.startsWith({url!r}) && document.readyState === 'complete'")
    yield page
    page.close()


PAGES = [
    "index.html",
    "guide/getting-started.html",
    "guide/spool.html",
    "howto/index.html",
    "tutorials/fleet-dashboard.html",
    "guide/configuration.html",
    "api/index.html",
    "api/zwire.zenoh.html",
    "api/zwire.zenoh.Subscriber.html",
    "search.html?q=publish",
    "missing/page.html",
]


def found(browser: browsers.Browser, address: str, words: str) -> list[str]:
    """The pages that a search lists."""
    query = urllib.parse.quote(words)
    with shown(browser, f"{address}/search.html?q={query}", 1280, 900) as page:
        links = "[...document.querySelectorAll('#search-results li a')]"
        until(page, f"{links}.length > 3")
        hits = page.run(f"{links}.map((link) => link.pathname.slice(1))")
    return list(hits)


# Markup of Furo and Sphinx: the link to the source of a page is in no landmark, and parameters of long
# signatures are a list of definitions without terms.
APART = {"region", "definition-list"}

# Pages that say how to do a thing.
HOW_TO = ("howto/", "guide/", "tutorials/")

AXE = """axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }).then((result) =>
  result.violations.map((one) =>
    [one.id, one.help, one.nodes.length, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160))]))"""


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, False), (1280, True)])
def test_pages_are_accessible_and_fit(browser, address, width, dark):
    rules = (importlib.resources.files("axe_core_python") / "axe.min.js").read_text()
    found = {}
    for name in PAGES:
        with shown(browser, f"{address}/{name}", width, 900, dark=dark) as page:
            page.run(f"{rules}; true")
            violations = [one for one in page.run(AXE) if one[0] not in APART]
            wide = page.run("document.documentElement.scrollWidth - innerWidth")
            if violations or wide > 0:
                found[name] = (violations, wide)
            if "missing" not in name:  # that address is an error, as it should be
                assert page.problems == []
    assert found == {}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("publish", "howto/publish.html"),
        ("subscribe", "howto/receive.html"),
        ("queryable", "howto/ask.html"),
        ("liveliness", "howto/presence.html"),
        ("spool", "guide/spool.html"),
        ("asyncio", "guide/asyncio.html"),
        ("access control", "guide/policies.html"),
    ],
)
def test_the_search_finds_how_to_before_the_reference(browser, address, words, wanted):
    hits = found(browser, address, words)
    assert wanted in hits[:3]
    assert hits[0].startswith(HOW_TO)
    assert not [hit for hit in hits[: hits.index(wanted)] if not hit.startswith(HOW_TO)]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_reference_is_found_by_exact_names(browser, address):
    assert [hit for hit in found(browser, address, "declare_subscriber")[:5] if hit.startswith("api/")]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_blocks_have_buttons_and_pages_their_version(browser, address):
    with shown(browser, f"{address}/guide/getting-started.html", 1280, 900) as page:
        until(page, "document.querySelectorAll('button.copybtn').length > 3")
        (release,) = {
            line.split('"')[1]
            for line in (snippets.ROOT / "Cargo.toml").read_text().splitlines()
            if line.startswith("version = ")
        }
        assert release in page.text(".sidebar-brand-text")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_page_of_unknown_addresses_leads_back(browser, address):
    with shown(browser, f"{address}/guide/deep/missing.html", 1280, 900) as page:
        assert page.text("h1") == "Page not found"
        until(page, "document.querySelector('a').getAttribute('href') === '/index.html'")
