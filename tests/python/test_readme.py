"""The examples of the README run as they stand, against a hub of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def hub():
    """The endpoint of a hub that the command line started."""
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("zwire")), "router", "--listen", "tcp/127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            for line in process.stdout:
                if found := re.search(r"tcp/127\.0\.0\.1:\d+", line):
                    yield found[0]
                    break
            else:
                pytest.fail("the hub has printed no endpoint")
        finally:
            process.terminate()


def test_the_first_example_is_ten_lines_that_run(hub, capsys):
    code, _zre, _spark = blocks("python")
    assert len(code.splitlines()) <= 10
    assert "tcp/127.0.0.1:7447" in code
    exec(compile(code.replace("tcp/127.0.0.1:7447", hub), str(README), "exec"), {})
    assert capsys.readouterr().out == "fleet/7/battery 0.83\n"


def test_every_make_target_of_the_documents_exists():
    makefile = (README.parent / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    pages = [README, README.parent / "CONTRIBUTING.md"]
    named = {name for page in pages for name in re.findall(r"[`\n]make ([a-z-]+)", page.read_text())}
    assert len(named) > 5, "the guard has not found the commands"
    assert named <= targets
