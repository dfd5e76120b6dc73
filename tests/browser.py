"""A browser without a window, steered over a pipe by the DevTools protocol; and what its pages do wrong."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import queue
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PATIENCE = 30.0
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"]


def program() -> str:
    """Return the path of the browser."""
    folder = os.environ.get("ZWIRE_BROWSER")
    if not folder:
        pytest.skip("ZWIRE_BROWSER names no folder (`make setup` fills one)")
    missing = Path(folder) / "chromium.missing"
    if missing.exists():
        pytest.skip(f"chromium is not available: {missing.read_text().strip()}")
    return str(Path(folder) / "chromium")


class Page:
    """A page, with what it has told, asked and failed at."""

    def __init__(self, browser: Browser, session: str) -> None:
        self.browser, self.session = browser, session
        self.problems: list[str] = []
        self.urls: list[str] = []

    @property
    def hosts(self) -> set[str]:
        """Hosts with ports that the page has asked for something."""
        return {urlsplit(url).netloc for url in self.urls if not url.startswith(("data:", "blob:", "about:"))}

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **params)

    def close(self) -> None:
        """End the page: one that is left draws and connects again beside the next."""
        del self.browser.pages[self.session]
        self.call("Page.close")

    def run(self, code: str) -> Any:
        """Return the value of an expression; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''"))

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def fill(self, selector: str, text: str) -> None:
        """Put a text into a field, as if it were typed."""
        field = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{field}.value = {json.dumps(text)}; {field}.dispatchEvent(new Event('input'))")

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)

    def shot(self, file: Path) -> None:
        """Write a picture of what is on the screen."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """Note an event."""
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(f"{details['text']} {details.get('exception', {}).get('description', '')}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning", "assert"}:
            self.problems.append(f"console.{params['type']}: {params['args']}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
            self.problems.append(f"{params['entry']['source']}: {params['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            self.urls.append(params["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.urls.append(params["url"])


class Browser:
    """A running browser."""

    def __init__(self, process: subprocess.Popen[bytes], reader: int, writer: int) -> None:
        self.process, self.reader, self.writer = process, reader, writer
        self.answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self.pages: dict[str, Page] = {}
        self.number = 0
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def listen(self) -> None:
        rest = b""
        while part := os.read(self.reader, 1 << 16):
            *whole, rest = (rest + part).split(b"\0")
            for raw in whole:
                message = json.loads(raw)
                if "id" in message:
                    self.answers.pop(message["id"]).put(message)
                elif (page := self.pages.get(message.get("sessionId", ""))) is not None:
                    page.hear(message["method"], message["params"])

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command; return its result."""
        self.number += 1
        answer = self.answers[self.number] = queue.Queue()
        message = {"id": self.number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        left = json.dumps(message).encode() + b"\0"
        while left:
            left = left[os.write(self.writer, left) :]
        result = answer.get(timeout=PATIENCE)
        assert "error" not in result, f"{method}: {result['error']}"
        found: dict[str, Any] = result["result"]
        return found

    def open(self, url: str, width: int = 1280, height: int = 800, *, dark: bool = False) -> Page:
        """Open a page."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.size(width, height, dark=dark)
        page.call("Page.navigate", url=url)
        return page


@contextlib.contextmanager
def running(folder: Path, prefix: Sequence[str] = ()) -> Iterator[Browser]:
    """Run a browser with a profile in this folder; the prefix is a command that runs it (`nsenter`)."""
    path = program()
    ends = [*os.pipe(), *os.pipe()]
    # Numbers that no redirection below writes over.
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends]
    for end in ends:
        os.close(end)
    commands, writer, reader, events = high
    arguments = [*OPTIONS, "--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}", "about:blank"]
    log = (folder / "browser.log").open("w")
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{events}', "bash", *prefix, path, *arguments],
        stdout=log,
        stderr=log,
        pass_fds=[commands, events],
        env={**os.environ, "HOME": str(folder)},
    )
    os.close(commands)
    os.close(events)
    browser = Browser(process, reader, writer)
    try:
        yield browser
    finally:
        process.terminate()
        try:
            process.wait(20)
        finally:
            process.kill()
            browser.thread.join(20)
            os.close(reader)
            os.close(writer)
            log.close()
