"""Commands that show a running system, with nodes of eclipse-zenoh at the other side."""

import json
import threading

import pytest

from interop.harness import ECLIPSE, OLD, eventually
from zwire.cli import main

PATIENCE = 10.0


@pytest.fixture(params=[ECLIPSE, pytest.param(OLD, marks=pytest.mark.long)])
def hub(net, request):
    """A router of eclipse-zenoh that tells about itself, of its newest and its first release."""
    return net.hub(request.param, **{"adminspace/enabled": True})


def records(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_ping_and_bench(hub, capsys):
    assert main(["ping", "-e", hub.endpoint, "-n", "3", "--interval", "0"]) == 0
    assert "3 sent, 3 answered" in capsys.readouterr().out
    for kind, code in (("publish", 0), ("query", 0), ("subscribe", 3)):
        arguments = ["bench", kind, "--seconds", "0.3", "--timeout", "1", "--format", "jsonl"]
        assert main([*arguments, "-e", hub.endpoint]) == code
        total = records(capsys)[-1]
        assert (total["messages"] > 0) == (code == 0), kind


def test_ping_of_a_queryable(net, hub, capsys):
    script = [{"do": "reply", "payload": "x"}]
    net.client(ECLIPSE, hub).queryable(name="q", key="there/q", script=script)
    eventually(
        "an answer",
        lambda: main(["ping", "there/q", "-e", hub.endpoint, "-n", "1", "--timeout", "0.5"]) == 0,
        within=PATIENCE,
    )
    assert "ms from there/q" in capsys.readouterr().out


def test_info(hub, capsys):
    assert main(["info", "-e", hub.endpoint, "--format", "jsonl"]) == 0
    (neighbour,) = records(capsys)[0]["neighbours"]
    assert (neighbour["zid"], neighbour["role"]) == (hub.opened["zid"], "router")
    assert neighbour["version"]
    assert hub.endpoint in neighbour["locators"]


def test_liveliness(net, hub, capsys):
    net.client(ECLIPSE, hub).token(name="t", key="there/alive")
    eventually("the token", lambda: main(["liveliness", "there/*", "-e", hub.endpoint]) == 0, within=PATIENCE)
    assert "there/alive alive" in capsys.readouterr().out


def test_tree_and_top(net, hub, capsys):
    publisher = net.client(ECLIPSE, hub)

    # The value has to be published while the command listens.
    ended = threading.Event()

    def publish():
        while not ended.wait(0.05):
            publisher.put(key="there/a/b", payload="12")

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        assert main(["tree", "there/**", "--wait", "1", "-e", hub.endpoint]) == 0
        assert "└ b  integer" in capsys.readouterr().out
        assert main(["top", "--once", "--json", "--interval", "1", "-e", hub.endpoint]) == 0
    finally:
        ended.set()
        thread.join()
    look = json.loads(capsys.readouterr().out)
    assert "there/a/b" in {row["key"] for row in look["keys"]}
    links = {row["peer"] for row in look["links"] if row["node"] == hub.opened["zid"]}
    assert publisher.opened["zid"] in links


def test_doctor(hub, capsys):
    assert main(["doctor", hub.endpoint, "--json", "--wait", "1"]) == 0
    found = {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]}
    assert {"port", "node", "session", "forwarding", "clock"} <= found.keys()
    assert hub.opened["zid"] in found["node"]["saw"]


def test_trace(hub, capsys):
    assert main(["trace", "there/way", "--put", "x", "-e", hub.endpoint, "--format", "jsonl"]) == 0
    hops = records(capsys)
    # Its first release knows no stamps.
    assert (hub.opened["zid"] if hub.implementation == ECLIPSE else None) in {hop["node"] for hop in hops}
    assert main(["trace", "-n", "4", "-e", hub.endpoint, "--timeout", "20", "--format", "jsonl"]) == 0
    assert [record["message"] for record in records(capsys)] == ["init", "init", "open", "open"]
