"""The same program with two imports: zeromq-pyre and zwire.zre.compat must do the same with it."""

import inspect
import os
import re
from pathlib import Path

import pyre
import pytest

from zwire.zre import compat

PROGRAMS = Path(__file__).with_name("pyre_programs")
MODULES = ["pyre", "zwire.zre.compat"]


def run(party, program, module, *arguments):
    host = party.network.host()
    return host.python(
        PROGRAMS / program,
        module,
        *arguments,
        stdin=-1,
        stdout=-1,
        stderr=-1,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )


def output(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def plain(text):
    """Without what differs from run to run: UUIDs, ports and addresses."""
    text = re.sub(r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b", "UUID", text)
    return re.sub(r"tcp://[0-9.]+:\d+", "ENDPOINT", text)


@pytest.mark.parametrize("program", ["frames.py", "events.py", "poll.py", "questions.py"])
def test_the_same_output(parties, program):
    outputs = []
    for module in MODULES:
        # The other one is always pyre's.
        party = parties()
        first = run(party, program, module, "first")
        second = run(party, program, "pyre", "second")
        outputs.append((plain(output(first)), plain(output(second))))
    assert outputs[0] == outputs[1]
    assert "SHOUT" in outputs[0][0]


def test_two_of_ours(parties):
    party = parties()
    first = run(party, "frames.py", MODULES[1], "first")
    second = run(party, "frames.py", MODULES[1], "second")
    assert "SHOUT" in output(first)
    assert "SHOUT" in output(second)


@pytest.mark.parametrize("name", ["Pyre", "PyreEvent"])
def test_every_public_name_is_there(name):
    theirs, ours = getattr(pyre, name), getattr(compat, name)
    missing = {n for n in dir(theirs) if not n.startswith("_")} - set(dir(ours))
    assert missing == set()
    for method in {n for n in dir(theirs) if not n.startswith("_")}:
        if not callable(getattr(theirs, method)):
            continue
        expected = list(inspect.signature(getattr(theirs, method)).parameters)
        assert list(inspect.signature(getattr(ours, method)).parameters)[: len(expected)] == expected, method


def test_what_raises_in_pyre_works_here():
    node = compat.Pyre("a")
    node.set_interval(500)
    node.set_port(5671)
    assert node.peers() == []
    assert node.endpoint() == ""
    node.join("A")
    assert node.own_groups() == ["A"]
