"""`zwire top`: one look, the text that filters and sorts, and the screen."""

import asyncio
import importlib.util
import json

import pytest

import nodes
from nodes import publishing
from zwire import zenoh
from zwire.cli import _board, main

PATIENCE = 20.0

needs_textual = pytest.mark.skipif(
    importlib.util.find_spec("textual") is None, reason="the screen needs textual (zwire[top])"
)


@pytest.fixture
def hub():
    """A router that tells about itself."""
    with nodes.router(adminspace__enabled=True) as hub:
        yield hub


def test_top_once(hub, endpoint, capsys):
    with publishing(hub, "fleet/7/pose", "12345678"), publishing(hub, "other/x", "y"):
        arguments = ["top", "--once", "--json", "--interval", "1", "-e", endpoint]
        assert main([*arguments, "--filter", "fleet/*/* >bytes"]) == 0
        look = json.loads(capsys.readouterr().out)
        assert main(["top", "--once", "--interval", "0.5", "-e", endpoint, "--view", "links"]) == 0
        text = capsys.readouterr().out
    (row,) = look["keys"]
    assert row["key"] == "fleet/7/pose"
    assert row["rate"] > 1
    assert row["bytes_per_second"] == pytest.approx(row["rate"] * 8, rel=0.1)
    assert row["latency_ms"] is not None
    assert row["publishers"] == [str(hub.zid())]
    assert {row["publisher"] for row in look["publishers"]} == {str(hub.zid())}
    own = [row for row in look["links"] if row["node"] == look["node"]]
    assert [(row["peer"], row["capacity_bytes"] > 0) for row in own] == [(str(hub.zid()), True)]
    assert any(row["node"] == str(hub.zid()) for row in look["links"])
    assert "waiting_bytes" in text


def test_top_shows_drops_with_their_reason(hub, endpoint, capsys):
    with hub.declare_subscriber("a", zenoh.handlers.Channel(1, full="drop_newest")):
        for _ in range(5):
            hub.put("a", "x")
        assert main(["top", "--once", "--json", "--interval", "0", "-e", endpoint]) == 0
    rows = json.loads(capsys.readouterr().out)["drops"]
    assert {"node": str(hub.zid()), "reason": "handler.dropped", "count": 4, "per_second": 0.0} in rows


@pytest.mark.parametrize(
    "told",
    [
        "no JSON",
        "[" * 100_000,
        "[]",
        '{"sessions": 1, "locators": {}, "stats": [], "version": {}}',
        '{"sessions": [1, {}, {"peer": 1, "links": 2}, {"links": [1, {}, "tcp/a"]}], "stats": {"a": NaN}}',
        '{"stats": {"handler.dropped": -1, "link.tx_dropped": "many", "node.future_replaced": 1e999}}',
    ],
)
def test_answers_of_other_nodes_may_be_anything(hub, endpoint, told, capsys):
    def answer(query):
        kind = str(query.key_expr).split("/")[3:4]
        query.reply("/".join(["@/beef/router", *kind, *["x" for _ in kind]]), told)

    with hub.declare_queryable("@/beef/**", answer):
        for command in (["top", "--once", "--json", "--interval", "0"], ["info"]):
            assert main([*command, "-e", endpoint]) == 0
        quiet = ["--cfg", "scouting/multicast/enabled:false"]
        assert main(["doctor", endpoint, "--json", "--wait", "0.5", *quiet]) == 0
    assert capsys.readouterr().err == ""


def test_typed_text_filters_and_sorts():
    rows = [
        {"key": key, "rate": rate, "bytes_per_second": 1, "latency_ms": latency}
        for key, rate, latency in [("a/b", 1.0, None), ("a/c", 3.0, 2.0), ("b/c", 2.0, 1.0)]
    ]

    def keys(text):
        return [row["key"] for row in _board.chosen(rows, text, "keys")]

    assert keys("") == ["a/c", "b/c", "a/b"]
    assert keys("<rate") == ["a/b", "b/c", "a/c"]
    assert keys("<key") == ["a/b", "a/c", "b/c"]
    assert keys(">lat") == ["a/c", "b/c", "a/b"]
    assert keys("<lat") == ["b/c", "a/c", "a/b"]
    assert keys("a/") == ["a/c", "a/b"]
    assert keys("a/* >rate") == ["a/c", "a/b"]
    assert keys("> < nothing") == []
    assert keys("a/** c") == ["a/c"]
    assert keys("a//*") == []


@needs_textual
def test_the_screen_filters_and_sorts_as_one_types(hub):
    from textual.widgets import DataTable, Input, Static

    from zwire.cli._screen import Top

    async def use(board):
        screen = Top(board, interval=0.2)
        async with screen.run_test(size=(160, 40)) as pilot:
            table = screen.query_one("#table-keys", DataTable)

            def shown():
                return [str(table.get_row_at(row)[0]) for row in range(table.row_count)]

            async def until(condition):
                for _ in range(200):
                    await pilot.pause(0.05)
                    if condition():
                        return
                raise AssertionError(shown())

            await until(lambda: sorted(shown()) == ["[red]/7", "fleet/7/pose"])
            assert screen.query_one("#summary", Static).region.y == 0
            assert table.region.bottom <= screen.size.height
            assert "2 keys" in str(screen.query_one("#summary", Static).render())
            await pilot.press(*"pose")
            await until(lambda: shown() == ["fleet/7/pose"])
            await pilot.press("escape")
            screen.query_one("#filter", Input).value = "<key"
            await until(lambda: shown() == ["[red]/7", "fleet/7/pose"])
            await pilot.press("f3")
            links = screen.query_one("#table-links", DataTable)
            await until(lambda: links.row_count >= 1)
            await pilot.press("ctrl+c")
        assert screen.return_code == 130

    with nodes.client(hub) as session:
        board = _board.Board(session, "**")
        board.subscriber.wait_ready(PATIENCE)
        # Once, and not all the time: the pilot waits for an idle processor before each key.
        for key in ("fleet/7/pose", "[red]/7"):
            hub.put(key, "x")
        asyncio.run(use(board))


def test_the_screen_says_what_it_needs(endpoint, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["top", "-e", endpoint]) == 1
    assert "pip install 'zwire[top]'" in capsys.readouterr().err
    assert main(["top", "--json", "-e", endpoint]) == 2
