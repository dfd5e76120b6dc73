"""The first minutes of a user, typed into tmux and looked at in a browser, on a network of their own.

The commands are those of the installed environment. With ``ZWIRE_WHEEL`` they are those of this wheel, in a
virtual environment that is made here (`make wheel` sets it). With ``ZWIRE_PICTURES`` the pictures of the
documentation are written into that folder (`make screenshots`).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from rich.text import Text

import browser as browsers
import nodes
from network.namespaces import Network, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.slow,
    # The 30 s of other tests are too few for a virtual environment, a terminal and a browser beside a build.
    pytest.mark.timeout(120),
    pytest.mark.skipif(not shutil.which("tmux"), reason="the terminal is tmux (apt-get install tmux)"),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

PATIENCE = 30.0
COLUMNS, LINES = 100, 28

# The folder of the pictures, if they are wanted.
PICTURES = os.environ.get("ZWIRE_PICTURES")

# The wheel to install, if there is one.
WHEEL = os.environ.get("ZWIRE_WHEEL")

# Variables that a new terminal does not have. The network of the test is its own, so nodes may scout there.
APART = ("TMUX", "PYTEST", "ZWIRE_SCOUTING_INTERFACE", "NO_COLOR", "PROMPT_COMMAND", "BASH_ENV")
if WHEEL:  # the source tree may be in PYTHONPATH
    APART += ("PYTHON",)
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(APART)}

# The publishers are what a shell offers.
SPEED = "for ((n = 0; ; n++)); do echo $(((n % 40 - 20) ** 2)); sleep 0.1; done"
POSE = """for ((n = 0; ; n++)); do echo "{\\"x\\": $((n % 50)), \\"y\\": 7}"; sleep 0.1; done"""

# Rich's own format loads a font from another host.
SVG = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font: {char_height}px monospace; line-height: {line_height}px; white-space: pre }}
.{unique_id}-title {{ font: bold 18px sans-serif }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class Window:
    """A window of tmux with a shell."""

    def __init__(self, terminal: Terminal, name: str) -> None:
        self.terminal, self.name = terminal, name

    def type(self, line: str) -> None:
        """Type a line and Enter."""
        self.terminal.tmux("send-keys", "-t", self.name, "-l", line)
        self.press("Enter")

    def press(self, key: str) -> None:
        self.terminal.tmux("send-keys", "-t", self.name, key)

    def text(self, *options: str) -> str:
        """Return what the window shows; ``-e``: with colours."""
        return self.terminal.tmux("capture-pane", "-p", "-t", self.name, *options)

    def shows(self, pattern: str) -> re.Match[str]:
        """Wait until the window shows this; lines that are broken at the edge count as one."""
        found: list[re.Match[str]] = []

        def seen() -> bool:
            found[:] = re.finditer(pattern, self.text("-J"), re.MULTILINE)
            return bool(found)

        try:
            nodes.eventually(seen, pattern, within=PATIENCE)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}") from None
        return found[-1]

    def codes(self) -> list[str]:
        """Return the exit codes of all commands that have ended; a shell begins with one."""
        file = self.terminal.folder / f"{self.name}.codes"
        return file.read_text().split() if file.exists() else []

    def ends(self, act: Callable[[], None], code: int = 0) -> None:
        """Do something that ends the command of this window, with this exit code."""
        number = len(self.codes())
        act()
        nodes.eventually(lambda: len(self.codes()) > number, f"end of {self.name}", within=PATIENCE)
        assert self.codes()[-1] == str(code), self.text()

    def run(self, line: str, code: int = 0) -> None:
        """Clear the window, type a command, and wait for its end."""
        self.terminal.tmux("send-keys", "-t", self.name, "-R", "C-l")
        self.ends(lambda: self.type(line), code)

    def picture(self, name: str, title: str) -> None:
        """Write the window as a picture of the documentation, if these are wanted."""
        text = self.text("-e", "-N")
        console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
        # A shell leaves lines below its prompt.
        for line in Text.from_ansi(text.rstrip()).split():
            console.print(line, no_wrap=True, crop=True)
        drawn = console.export_svg(title=title, code_format=SVG, unique_id=name)
        assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "").replace("http://127.0.0.1", "")
        keep(f"{name}.svg", drawn.encode())


class Terminal:
    """A tmux of its own, on a host of the test's network."""

    def __init__(self, folder: Path, prefix: list[str], path: Path) -> None:
        self.command = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        self.folder, self.prefix = folder, prefix
        self.environment = {
            **ENVIRONMENT,
            "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
            "PS1": "$ ",
            "COLORTERM": "truecolor",
            "LC_ALL": "C.UTF-8",
        }

    def tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self.command, *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=self.folder,
            env=self.environment,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    @contextlib.contextmanager
    def window(self, name: str) -> Iterator[Window]:
        """Open a window; its programs end with it."""
        codes = f"PROMPT_COMMAND=echo $? >>{name}.codes"
        shell = [*self.prefix, "env", codes, "bash", "--norc", "--noprofile"]
        self.tmux("new-session", "-d", "-s", name, "-x", str(COLUMNS), "-y", str(LINES), *shell)
        # A server that ended with its last session has forgotten it.
        self.tmux("set-option", "-g", "default-terminal", "tmux-256color")
        self.tmux("set-option", "-t", name, "status", "off")
        try:
            window = Window(self, name)
            nodes.eventually(window.codes, f"a shell in {name}", within=PATIENCE)
            yield window
        finally:
            self.tmux("kill-session", "-t", name)


def keep(name: str, data: bytes) -> None:
    """Write a picture of the documentation, if these are wanted."""
    if PICTURES:
        (Path(PICTURES) / name).write_bytes(data)


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    network = Network()
    try:
        for _ in range(2):
            network.host()
        yield network
    finally:
        network.end()


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `zwire`, installed from the wheel if there is one."""
    if not WHEEL:
        return Path(sys.executable).parent
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=PATIENCE)
    python = folder / "bin" / "python"
    # --no-index: zwire itself has no dependencies.
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", WHEEL]
    subprocess.run(install, check=True, timeout=PATIENCE)
    # Packages of extras are those that constraints.txt pins; zwire is found in the new environment first.
    (place,) = folder.glob("lib/python*/site-packages")
    (place / "extras.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    where = [python, "-c", "import zwire; print(zwire.__file__)"]
    found = subprocess.run(
        where, capture_output=True, text=True, check=True, cwd=folder, env=ENVIRONMENT, timeout=PATIENCE
    )
    assert Path(found.stdout).is_relative_to(folder)
    return folder / "bin"


@pytest.fixture
def window(
    tmp_path: Path, network: Network, commands: Path
) -> Callable[[str], contextlib.AbstractContextManager[Window]]:
    terminal = Terminal(tmp_path, network.hosts[0].namespace.prefix, commands)
    return terminal.window


def test_from_a_router_to_a_recording(window, network, tmp_path):
    near, far = network.hosts
    with contextlib.ExitStack() as stack:
        names = ("router", "speed", "pose", "shell", "doctor")
        router, speed, pose, shell, doctor = (stack.enter_context(window(name)) for name in names)
        router.type("zwire router --ui")
        router.shows(r"^hub \w+ is ready")
        url = router.shows(r"http://\S+/")[0]
        speed.type(f"{SPEED} | zwire put fleet/7/speed --lines --encoding text/plain")
        pose.type(f"{POSE} | zwire put fleet/8/pose --lines --encoding application/json")

        # Answers of the other host are lost, as behind a firewall.
        far.namespace.ip("rule add ipproto tcp sport 7447 blackhole")
        doctor.run(f"zwire doctor tcp/{far.address}:7447 --wait 1", code=1)
        assert "filtered" in doctor.text()
        doctor.picture("doctor", "zwire doctor")

        shell.type("zwire top")
        for key in ("fleet/7/speed", "fleet/8/pose"):
            # Two looks have a rate.
            shell.shows(rf"{key} +\d+\.\d")
        shell.picture("top", "zwire top")
        shell.ends(lambda: shell.press("C-q"))

        # A picture has a plot, and rates of links, which the page asks for every 2 s.
        samples = 50 if PICTURES else 2
        with browsers.running(tmp_path, near.namespace.prefix) as browser:
            page = browser.open(url, 1200, 760)
            nodes.eventually(lambda: page.text("#state") == "live", "the page", within=PATIENCE)
            nodes.eventually(lambda: "3 nodes" in page.text("#graph-note"), "all nodes", within=PATIENCE)
            keys = "zwirePage.keys.entries"
            nodes.eventually(lambda: page.run(f"{keys}.has('fleet/7/speed')"), "the key", within=PATIENCE)
            enough = f"{keys}.get('fleet/7/speed').count"
            page.run(f"zwirePage.tree.pick({keys}.get('fleet/7/speed').chunk)")
            nodes.eventually(lambda: page.text("#value-text").isdigit(), "the value", within=PATIENCE)
            nodes.eventually(lambda: page.run(enough) >= samples, "the plot", within=PATIENCE)
            page.shot(tmp_path / "live-page.png")
            keep("live-page.png", (tmp_path / "live-page.png").read_bytes())
            assert page.problems == []
            assert page.hosts == {url.split("/")[2]}

        shell.run("zwire record -o run.mcap 'fleet/**' --seconds 1 --tap run.pcap")
        shell.run("zwire decode run.pcap | cut -c -100 | head -n 20")
        shell.picture("decode", "zwire decode")
        shell.run("zwire decode run.pcap --format jsonl > run.jsonl")
        messages = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
        assert {"init", "open", "declare", "push"} <= {message["message"] for message in messages}
        shell.run("zwire play run.mcap --rate max --remap fleet=again")
        shell.shows(r"^published \d+ samples")
        for each in (speed, pose, router):
            each.ends(lambda each=each: each.press("C-c"), code=130)
