"""Tables that notebooks show; texts of other nodes are no HTML."""

from html.parser import HTMLParser

import pytest

import nodes
from zwire import _html, aio, stats, zenoh

PATIENCE = 10.0
HOSTILE = '<script>alert("x")</script>'


class Reader(HTMLParser):
    """The tags and texts of a table."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        assert not attrs
        self.tags.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


def read(shown):
    reader = Reader(shown)
    assert reader.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    return reader.texts


@pytest.fixture
def session(hub):
    with nodes.client(hub) as session:
        session.ready(timeout=PATIENCE)
        yield session


def test_a_session_shows_its_links(hub, session):
    texts = read(session._repr_html_())
    assert texts[0] == f"Session {session.zid()}, 1 links"
    assert texts[5:8] == [str(hub.zid()), "router", session.info.links()[0].src]
    assert aio.Session(session)._repr_html_() == session._repr_html_()
    session.close()
    assert "closed" in read(session._repr_html_())


def test_samples_and_replies_show_their_values(session):
    with session.declare_subscriber("a") as subscriber:
        session.put("a", HOSTILE, attachment=b"\xff", encoding="text/plain")
        session.delete("a")
        put, deletion = (subscriber.recv(timeout=PATIENCE) for _ in range(2))
    texts = read(put._repr_html_())
    assert HOSTILE in texts
    assert "0xff" in texts
    assert "payload" not in read(deletion._repr_html_())
    with session.declare_queryable("q", lambda query: query.reply("q", "ä" * 1000)):
        (reply,) = session.get("q", timeout=PATIENCE)
    assert any(text.startswith("äää") and text.endswith("2000 bytes") for text in read(reply._repr_html_()))
    with session.declare_queryable("q", lambda query: query.reply_err(HOSTILE)):
        (reply,) = session.get("q", timeout=PATIENCE)
    assert HOSTILE in read(reply._repr_html_())


def test_counters_show_what_is_not_zero(session):
    table = stats.Table(session.stats())
    texts = read(table._repr_html_())
    assert "link.tx_messages" in texts
    assert session.info.links()[0].dst in texts
    assert "session.dropped.in_bad_key" not in texts
    assert repr(table).startswith("Table({'link.rx_bytes': ")
    assert "in_bad_key" not in repr(table)


def test_only_some_classes_have_a_table():
    assert not hasattr(zenoh.KeyExpr("a"), "_repr_html_")
    assert _html._text("\x1b<") == "\\u001b&lt;"
