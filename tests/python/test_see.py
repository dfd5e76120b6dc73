"""Commands that show a running system: ping, bench, tree, info, liveliness."""

import json
import re
import signal

import pytest

import nodes
from nodes import publishing
from zwire.cli import _measure, _watch, main, tree

PATIENCE = 20.0


@pytest.fixture
def hub():
    """A router that tells about itself."""
    with nodes.router(adminspace__enabled=True) as hub:
        yield hub


def records(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_ping_of_a_node(hub, endpoint, capsys):
    assert main(["ping", "-e", endpoint, "-n", "3", "--interval", "0"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(re.fullmatch(rf"\d: [\d.]+ ms from {hub.zid()} at {endpoint}", line) for line in lines)
    assert last.startswith("3 sent, 3 answered: min ")
    assert main(["ping", "-e", endpoint, "-n", "2", "--interval", "0", "--format", "jsonl"]) == 0
    *pings, total = records(capsys)
    assert [ping["ping"] for ping in pings] == [1, 2]
    assert total["sent"] == total["answered"] == 2
    assert 0 < total["ms"]["min"] <= total["ms"]["median"] <= total["ms"]["p99"] <= total["ms"]["max"]


def test_ping_of_a_queryable(hub, endpoint, capsys):
    asked = []

    def answer(query):
        asked.append(len(query.payload))
        query.reply(query.key_expr, "x")

    with hub.declare_queryable("ping/me", answer):
        assert main(["ping", "ping/me", "--size", "9", "-e", endpoint, "-n", "2", "--interval", "0"]) == 0
    assert asked == [9, 9]
    assert "ms from ping/me" in capsys.readouterr().out
    assert main(["ping", "ping/none", "-e", endpoint, "-n", "1", "--timeout", "0.3"]) == 3
    assert "1 sent, 0 answered" in capsys.readouterr().out


def test_bench_of_both_ends(hub, endpoint, start, capsys):
    other = start("bench", "subscribe", "--seconds", "0.5", "--format", "jsonl")
    assert other.stderr.readline() == "subscribed to zwire/bench\n"
    assert main(["bench", "publish", "--seconds", "1.2", "--size", "100", "-e", endpoint]) == 0
    text = capsys.readouterr().out
    assert re.search(
        r"in all: \d+ in [\d.]+ s, [\d,]+/s, [\d.,]+ MB/s; size 100; matching True; dropped 0", text
    )
    out, err = other.communicate(timeout=PATIENCE)
    assert other.returncode == 0, err
    total = json.loads(out.splitlines()[-1])
    assert total["total"]
    assert total["messages"] > 0
    assert total["bytes_per_second"] == pytest.approx(total["messages_per_second"] * 100, rel=0.01)
    assert total["ms"]["median"] < 10_000


def test_bench_of_queries(hub, endpoint, capsys):
    assert (
        main(["bench", "query", "--seconds", "0.3", "--parallel", "4", "-e", endpoint, "--format", "jsonl"])
        == 0
    )
    (total,) = records(capsys)
    assert (total["kind"], total["replies"]) == ("query", 0)
    assert total["messages"] > 4
    with hub.declare_queryable("bench/me", lambda query: query.reply(query.key_expr, bytes(10))):
        assert (
            main(["bench", "query", "bench/me", "--seconds", "0.3", "-e", endpoint, "--format", "jsonl"]) == 0
        )
    (total,) = records(capsys)
    assert total["replies"] == total["messages"] > 0
    assert main(["bench", "subscribe", "none", "--seconds", "0.1", "--timeout", "0.1", "-e", endpoint]) == 3


def test_a_bench_does_not_publish_on_wildcards(capsys):
    assert main(["bench", "publish", "a/*"]) == 2
    assert "without wildcards" in capsys.readouterr().err


def test_tree_of_keys(hub, endpoint, capsys):
    with (
        publishing(hub, "fleet/7/pose", '{"x": 1}', encoding="application/json"),
        publishing(hub, "fleet/7", str),
        publishing(hub, "fleet/8/image", b"\xff\x00"),
    ):
        assert main(["tree", "fleet/**", "--wait", "1", "-e", endpoint]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "fleet"
        assert re.fullmatch(r"├ 7  integer x\d+ \d+", lines[1])
        assert re.fullmatch(
            r'│ └ pose  json object x\d+ "\{\\"x\\": 1\}"|│ └ pose  json object x\d+ \{"x": 1\}', lines[2]
        )
        assert lines[3] == "└ 8"
        assert re.fullmatch(r"  └ image  bytes x\d+ 0xff00", lines[4])
        assert main(["tree", "fleet/**", "--wait", "1", "--depth", "1", "-e", endpoint]) == 0
        assert capsys.readouterr().out == "fleet  (3 below)\n"
        assert main(["tree", "fleet/**", "--wait", "1", "-e", endpoint, "--format", "jsonl"]) == 0
        found = {record["key"]: record for record in records(capsys)}
    assert found["fleet/7/pose"]["payload"] == {"x": 1}
    assert (found["fleet/8/image"]["type"], found["fleet/8/image"]["payload_as"]) == ("bytes", "base64")
    assert main(["tree", "none", "--wait", "0.1", "-e", endpoint]) == 3


def test_a_tree_is_as_deep_as_its_keys():
    deep = "/".join("a" * 2000)
    leaves = {deep: None, "a/b": None}
    lines = tree._lines(leaves, None)
    assert (len(lines), lines[:2], lines[-1]) == (2001, ["a", "├ a"], "└ b")
    assert tree._lines(leaves, 1) == ["a  (2 below)"]


def test_tree_asks_only_if_told_to(hub, endpoint, capsys):
    asked = []

    def answer(query):
        asked.append(query)
        query.reply("stored/a", "kept")

    with hub.declare_queryable("stored/**", answer):
        assert main(["tree", "stored/**", "--wait", "0.2", "-e", endpoint]) == 3
        assert asked == []
        assert main(["tree", "stored/**", "--wait", "0.5", "--ask", "-e", endpoint]) == 0
    assert "kept" in capsys.readouterr().out


def test_a_tree_counts_what_is_below():
    leaves = dict.fromkeys(["a/b/c", "a/b", "a/b/d/e"])
    assert tree._lines(leaves, 1) == ["a  (3 below)"]


def test_info_of_a_router(hub, endpoint, capsys):
    assert main(["info", "-e", endpoint]) == 0
    text = capsys.readouterr().out
    assert f"router {hub.zid()}" in text
    assert "version " in text
    assert main(["info", "-e", endpoint, "--format", "jsonl"]) == 0
    (report,) = records(capsys)
    (neighbour,) = report["neighbours"]
    assert (neighbour["zid"], neighbour["role"], neighbour["locators"]) == (
        str(hub.zid()),
        "router",
        [endpoint],
    )
    (link,) = neighbour["links"]
    assert link["dst"] == endpoint
    assert link["reliability"] == "reliable"


def test_info_of_a_node_that_tells_nothing(capsys):
    with nodes.router() as quiet:
        assert main(["info", "-e", quiet.listening()[0], "--timeout", "1"]) == 0
    assert "tells nothing about itself" in capsys.readouterr().out


def test_liveliness(hub, endpoint, start, capsys):
    assert main(["liveliness", "fleet/*", "-e", endpoint]) == 3
    holder = start("liveliness", "--declare", "fleet/7")
    assert holder.stderr.readline() == "alive: fleet/7\n"
    assert main(["liveliness", "fleet/*", "-e", endpoint]) == 0
    assert capsys.readouterr().out == "fleet/7 alive\n"
    watch = start("liveliness", "fleet/*", "--watch", "-n", "2", "--format", "jsonl")
    assert watch.stderr.readline() == "watching fleet/*\n"
    assert json.loads(watch.stdout.readline()) == {"key": "fleet/7", "alive": True}
    holder.send_signal(signal.SIGTERM)
    assert holder.wait(PATIENCE) == 0
    assert json.loads(watch.stdout.readline()) == {"key": "fleet/7", "alive": False}
    assert watch.wait(PATIENCE) == 0
    assert main(["liveliness", "--declare", "-e", endpoint]) == 2


def test_keys_are_bounded(hub):
    keys = _watch.Keys(2)
    with hub.declare_subscriber("**") as subscriber:
        for key in ("a", "b", "c", "a"):
            hub.put(key, "1")
            keys.add(subscriber.recv(timeout=PATIENCE))
    assert (sorted(keys.keys), keys.refused, keys.keys["a"].samples) == (["a", "b"], 1, 2)


@pytest.mark.parametrize(
    ("payload", "encoding", "kind"),
    [
        (b"{}", "application/json", "json object"),
        (b"true", "application/json", "json boolean"),
        (b"{", "text/json", "json unreadable"),
        (b"1.5", None, "number"),
        (b"[1]", None, "array"),
        (b"true", None, "text"),
        (b"\x00", None, "bytes"),
        (b"\xff", None, "bytes"),
        (b"x", "text/plain", "text"),
        (b"x", "image/png", "image/png"),
    ],
)
def test_types_of_values(hub, payload, encoding, kind):
    with hub.declare_subscriber("a") as subscriber:
        hub.put("a", payload, encoding=encoding)
        assert _watch.type_of(subscriber.recv(timeout=PATIENCE)) == kind


def test_times_are_summed_up():
    assert _measure.summary([]) is None
    assert _measure.summary([0.001 * n for n in range(1, 101)]) == {
        "min": 1,
        "median": 50,
        "p99": 99,
        "max": 100,
    }
    assert _measure.spoken(None) == "no times"
