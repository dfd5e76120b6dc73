"""Every block of code in the documentation runs as it stands or says why not; ``snippets.py`` has how.

Each page has an interpreter and, where the kernel allows it, a network of its own that is nothing but a
loopback.
"""

import functools
import json
import os
import re
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


# Pages that start a router on the default port themselves.
ROUTED = [page for page in PAGES if "zwire router" in (snippets.ROOT / page).read_text()]

# With multicast on the loopback, and the router of the quick start.
BESIDE = """
ip link set lo multicast on && ip route add 224.0.0.0/4 dev lo
"$1" -m zwire router > ready & router=$!
while ! [ -s ready ]; do sleep 0.05; done
"$1" -W error "$2" "$3"
code=$?
kill $router
exit $code
"""


@pytest.mark.long
@pytest.mark.parametrize("page", [page for page in PAGES if page not in ROUTED and page not in CALLS])
def test_the_blocks_of_the_page_run_beside_the_router_of_the_quick_start(page, tmp_path):
    if not isolation():
        pytest.skip("there are no network namespaces (unshare, ip)")
    environment = {name: value for name, value in os.environ.items() if name != "ZWIRE_SCOUTING_INTERFACE"}
    done = subprocess.run(
        [*isolation(), "sh", "-c", BESIDE, "sh", sys.executable, snippets.__file__, page],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=snippets.PAGE + 10,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout


# The names that the tests of these pages provide, see tests/spark/test_guide.py.
SPARK = (
    "from pyspark.sql import SparkSession; from zwire import zenoh; spark = SparkSession.builder.create(); "
)
PROVIDED = {
    "docs/index.md": SPARK + "values = questions = spark.table('t'); endpoint = folder = ''",
    "docs/guide/getting-started.md": SPARK + "endpoint = ''",
    "docs/guide/lakehouse.md": SPARK + "place = checkpoint = spooled = ''",
    "docs/guide/spark.md": SPARK + "receiver = zenoh.open(); config = folder = checkpoint = spooled = ''",
}

# Packages without types of their own: what comes of them is unknown.
UNTYPED = re.compile(r"^\s*(import|from) (pyarrow|pyspark|pandas|polars|duckdb|zwire\.spark)\b", re.MULTILINE)


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """The Python blocks of all pages: in one folder for each degree of strictness."""
    folder = tmp_path_factory.mktemp("modules")
    for page in snippets.pages():
        text = snippets.module(page, PROVIDED.get(page, ""))
        if not text.strip():
            continue
        into = folder / ("untyped" if UNTYPED.search(text) or "recv_table" in text else "typed")
        into.mkdir(exist_ok=True)
        (into / f"{re.sub('[^a-z]', '_', page.removesuffix('.md').lower())}.py").write_text(text)
    assert len(list(folder.rglob("*.py"))) > 30, "the blocks are not found"
    return folder


def checked(*command):
    """Run a type checker of the environment; its output if it reports something."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        cwd=snippets.ROOT,
        # pyright asks PyPI for a newer version otherwise.
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr if done.returncode else ""


@pytest.mark.timeout(120)
def test_the_blocks_pass_mypy(modules):
    cache = snippets.ROOT / ".mypy_cache" / "snippets"
    pages = sorted(modules.rglob("*.py"))
    assert checked("mypy", "--strict", "--cache-dir", cache, *pages) == ""


@pytest.mark.timeout(120)
def test_the_blocks_pass_pyright(modules):
    unknown = ("Argument", "Lambda", "Member", "Parameter", "Variable")
    settings = {
        "include": ["typed", "untyped"],
        "pythonVersion": "3.11",
        "typeCheckingMode": "strict",
        "extraPaths": [str(snippets.ROOT / "python")],
        "reportMissingTypeStubs": False,
        # A page shows names that it does not use, and the events that it is about.
        "reportUnusedImport": False,
        "reportMatchNotExhaustive": False,
        "executionEnvironments": [
            {"root": "untyped", **{f"reportUnknown{kind}Type": False for kind in unknown}},
            {"root": "typed"},
        ],
    }
    (modules / "pyrightconfig.json").write_text(json.dumps(settings))
    assert checked("pyright", "--pythonpath", sys.executable, "-p", modules) == ""


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


# Tests of pages on which no block can run as it stands; they name the page, or its commands and files.
OWNERS = {
    "docs/debugging.md": "tests/python/test_readme.py",
    "docs/from/zenohd.md": "tests/python/test_router_options.py",
    "docs/guide/cli.md": "tests/python/test_readme.py",
    "docs/guide/platforms.md": "tests/python/test_wheels.py",
    "docs/guide/spark-cluster.md": "tests/spark/test_cluster.py",
    "examples/spark/README.md": "tests/spark/test_examples.py",
}


def test_every_page_with_blocks_has_a_test():
    with_blocks, ran = set(), set()
    for page in snippets.pages():
        found = [block for block in snippets.blocks(page) if block.language in snippets.RUN]
        with_blocks |= {page} if found else set()
        ran |= {page} if any(block.mark != "not run" for block in found) else set()
    assert len(ran) > 30, "the blocks are not found"
    assert with_blocks - ran == OWNERS.keys()
    assert [test for test in OWNERS.values() if not (snippets.ROOT / test).is_file()] == []
