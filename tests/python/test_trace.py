"""`zwire trace`: messages of a session, and the way of a publication."""

import json
import signal

import pytest

import nodes
from nodes import publishing
from zwire import zenoh
from zwire.cli import main

PATIENCE = 20.0


@pytest.fixture
def hub():
    """A router that tells about itself."""
    with nodes.router(adminspace__enabled=True) as hub:
        yield hub


def records(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_trace_of_messages(hub, start, form):
    process = start("trace", "traced/**", "--format", form)
    seen = []
    with publishing(hub, "traced/a", "the value"):
        for line in process.stdout:
            seen.append(line)
            if "traced/a" in line and "the value" in line:
                break
    assert "init" in seen[0].lower()
    process.send_signal(signal.SIGTERM)
    # What was read ahead of the last line is lost to `communicate`.
    rest = process.stdout.readlines()
    assert (process.wait(PATIENCE), process.stderr.read()) == (0, "")
    if form == "jsonl":
        push = json.loads(seen[-1])
        assert (push["message"], push["payload"], push["payload_as"]) == ("push", "the value", "text")
        assert all(json.loads(line) for line in (*seen, *rest))


def test_trace_of_so_many_messages(endpoint, capsys):
    assert main(["trace", "-n", "4", "-e", endpoint, "--timeout", "20", "--format", "jsonl"]) == 0
    assert [record["message"] for record in records(capsys)] == ["init", "init", "open", "open"]
    assert main(["trace", "-n", "100000", "-e", endpoint, "--timeout", "0.2"]) == 3


def test_trace_of_one_publication(hub, endpoint, capsys):
    assert main(["trace", "demo/way", "--put", "hello", "-e", endpoint, "--format", "jsonl"]) == 0
    hops = records(capsys)
    assert hops[0]["point"] == "send"
    assert hops[-1]["point"] == "receive"
    assert str(hub.zid()) in {hop["node"] for hop in hops if hop["role"] == "router"}
    assert (hops[0]["role"], hops[-1]["role"]) == ("publisher", "subscriber")
    times = [hop["ms"] for hop in hops]
    assert times[0] == 0
    assert times == sorted(times)
    assert main(["trace", "demo/way", "--put", "hello", "-e", endpoint]) == 0
    assert f"router {hub.zid()}" in capsys.readouterr().out
    assert main(["trace", "--put", "x", "-e", endpoint]) == 2


def test_the_way_of_a_publication_is_captured_by_one_session(endpoint, capsys, tmp_path, monkeypatch):
    taps, opened = [], zenoh.open

    def noted(config):
        taps.append(json.loads(config.get_json("zwire/tap")))
        return opened(config)

    monkeypatch.setattr(zenoh, "open", noted)
    file = tmp_path / "way.pcap"
    assert main(["trace", "demo/way", "--put", "hello", "-e", endpoint, "--tap", str(file)]) == 0
    assert taps == [str(file), None]
    capsys.readouterr()
    assert main(["decode", str(file)]) == 0
    assert "hello" in capsys.readouterr().out
