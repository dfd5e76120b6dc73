"""Every block of code in the documentation runs as it stands or says why not; ``snippets.py`` has how.

Each page has an interpreter and, where the kernel allows it, a network of its own that is nothing but a
loopback.
"""

import functools
import os
import shutil
import socket
import subprocess
import sys

import pytest

import snippets
from zwire.errors import ConfigError

pytestmark = pytest.mark.slow

PAGES = [page for page in snippets.pages() if snippets.to_run(page)]

# Programs that the blocks of a page call, besides our own.
CALLS = {"docs/howto/secure.md": "openssl", "docs/security/hardening.md": "openssl"}

# With root, and else with a user namespace.
WAYS = (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"])


@functools.cache
def isolation():
    """The prefix that runs a command in a network of its own; empty where that is impossible."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        return []
    for way in WAYS:
        command = [*way, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        if subprocess.run([*command, "true"], capture_output=True, timeout=20, check=False).returncode == 0:
            return command
    return []


def somebody_listens():
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", 7447)) == 0


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_the_page_run(page):
    if not isolation() and somebody_listens():
        pytest.skip("TCP port 7447 is taken, and there are no network namespaces (unshare, ip)")
    if (program := CALLS.get(page)) and not shutil.which(program):
        pytest.skip(f"the page calls {program} (apt-get install {program})")
    done = subprocess.run(
        [*isolation(), sys.executable, "-W", "error", snippets.__file__, page],
        capture_output=True,
        text=True,
        timeout=snippets.PAGE + 3,
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout


def test_the_blocks_are_found():
    kinds = {block.language for page in PAGES for block in snippets.to_run(page)}
    assert kinds >= {"python", "console", "json5"}
    assert {"README.md", "docs/guide/getting-started.md", "docs/guide/zre.md"} <= set(PAGES)


def test_blocks_that_another_test_runs_are_known_to_it():
    others = {
        (page, block.detail)
        for page in snippets.pages()
        for block in snippets.blocks(page)
        if block.mark == "run by"
    }
    assert ("docs/guide/spark.md", "tests/spark/test_guide.py") in others
    for page, other in others:
        assert f'"{page}"' in (snippets.ROOT / other).read_text()


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(snippets, "ROOT", tmp_path)

    def write(text):
        (tmp_path / "page.md").write_text(text)
        return "page.md"

    return write


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(2)\n```\n\n<!-- output -->\n```text\n3\n```\n",
        "```python\nassert False\n```\n",
        "<!-- raises: KeyError -->\n```python\npass\n```\n",
        "<!-- raises: KeyError -->\n```python\n[][0]\n```\n",
        "```console\n$ echo 2\n3\n```\n",
        "```console\n$ false\n```\n",
        "```sh\nfalse\ntrue\n```\n",
        "```json5\n{mod: 'client'}\n```\n",
        "````python\n1 / 0\n````\n",
    ],
)
def test_a_block_that_does_not_do_what_it_says_is_seen(page, text):
    name = page(text)
    with snippets.Runner(name) as runner:
        *before, last = snippets.to_run(name)
        for block in before:
            runner.run(block)
        with pytest.raises((AssertionError, IndexError, ZeroDivisionError, ConfigError)):
            runner.run(last)


def test_what_a_page_shows_comes(page):
    name = page(
        "```python\nx = 2\n```\nThen\n```python\nprint(x, 'words')\n```\n"
        "<!-- output -->\n```text\n2 ...\n```\n"
        "<!-- raises: ZeroDivisionError -->\n```python\nx / 0\n```\n"
        "<!-- stays -->\n```console\n"
        "$ sh -c 'echo first; sleep 0.1; echo second; sleep 30'\nfirst\nsecond\n```\n"
        "```console\n$ echo a; echo b\na\n...\n$ true\n```\n"
        "<!-- not run: has no end -->\n```python\nwhile True: pass\n```\n"
    )
    with snippets.Runner(name) as runner:
        for block in snippets.to_run(name):
            runner.run(block)


@pytest.mark.parametrize("text", ["```\nx\n```\n", "```perl\nx\n```\n", "<!-- not run -->\n```sh\nx\n```\n"])
def test_blocks_of_no_known_kind_are_refused(page, text):
    with pytest.raises(ValueError, match=r"page\.md:\d"):
        snippets.blocks(page(text))
