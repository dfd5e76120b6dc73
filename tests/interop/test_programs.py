"""Programs that say ``import zenoh`` do the same with ``import zwire.zenoh as zenoh``."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from interop.harness import ECLIPSE, ZWIRE, Net

PROGRAMS = sorted(Path(__file__).with_name("programs").glob("*.py"))

# A program takes well below a second on an idle machine.
SECONDS = 20


@pytest.fixture(scope="module", params=[ZWIRE, ECLIPSE])
def hub(request, tmp_path_factory):
    """A configuration file for sessions that are clients of a hub."""
    net = Net()
    hub = net.hub(request.param)
    path = tmp_path_factory.mktemp("config") / "client.json5"
    config = {
        "mode": "client",
        "connect": {"endpoints": [hub.endpoint]},
        "scouting": {"multicast": {"enabled": False}},
    }
    path.write_text(json.dumps(config))
    yield path
    net.end()


def ported(source):
    """The program with its imports changed, and nothing else."""
    changed, count = re.subn(r"(?m)^import zenoh$", "import zwire.zenoh as zenoh", source)
    assert count == 1, "a program says `import zenoh` once"
    return re.sub(r"(?m)^from zenoh\b", "from zwire.zenoh", changed)


def run(program, config):
    return subprocess.Popen(
        [sys.executable, "-W", "error", program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ZENOH_CONFIG": str(config)},
    )


def test_there_are_programs():
    assert len(PROGRAMS) >= 14


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_it_prints_the_same(hub, program, tmp_path):
    copy = tmp_path / program.name
    copy.write_text(ported(program.read_text()))
    outputs = []
    for path in (program, copy):
        # One after the other: they use the same keys.
        process = run(path, hub)
        try:
            output, complaints = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            output, complaints = process.communicate()
            raise AssertionError(f"no end of {path}\n{output}\n{complaints}") from None
        assert process.returncode == 0, f"{output}\n{complaints}"
        outputs.append(output)
    theirs, ours = outputs
    assert theirs.count("\n") >= 4
    assert ours == theirs
