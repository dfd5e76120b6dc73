"""Spoolers of ZRE: what happens on the network is in the spool once, and what is missing is told."""

from __future__ import annotations

import contextlib
import struct
import uuid

import pyarrow as pa
import pytest

from nodes import eventually
from terminal import running
from zwire import errors, spool, zmtp, zre
from zwire.cli import main

QUIET = {"beacons": False, "bind": "127.0.0.1", "mailbox": 0}


def rows(folder) -> list[dict]:
    view = spool.open(folder)
    batches = view.read(0, view.earliest()[0], view.end()[0])
    return [row for batch in batches for row in pa.record_batch(batch).to_pylist()]


def gaps(folder) -> list[dict]:
    return [row for batch in spool.open(folder).gaps() for row in pa.record_batch(batch).to_pylist()]


def stored(spooler, count):
    """Wait for so many rows, and for everything that has come to be readable."""
    eventually(lambda: spooler.stats()["rows"] >= count)
    assert spooler.flush(5)


@contextlib.contextmanager
def peer(spooler, name, **config):
    """A node that has the spooler's as its peer."""
    with zre.Node(name, {**QUIET, "peers": [spooler.node.endpoint], **config}) as node:
        node.wait_for_peers(1, 10)
        yield node


class Rude:
    """Says whatever it likes under a UUID."""

    def __init__(self, endpoint, identity):
        self.identity = identity
        self.dealer = zmtp.Dealer(identity=b"\1" + identity.bytes)
        self.dealer.connect(endpoint, wait=5)

    def hello(self, name):
        def text(value):
            return bytes([len(value)]) + value.encode()

        # An unused port of the loopback.
        body = text("tcp://127.0.0.1:9") + struct.pack(">I", 0) + b"\0" + text(name) + struct.pack(">I", 0)
        self.send(1, 1, body)

    def whisper(self, sequence, content):
        self.send(2, sequence, b"", content)

    def send(self, message, sequence, body, *content):
        self.dealer.send([b"\xaa\xa1" + struct.pack(">BBH", message, 2, sequence) + body, *content])


def test_what_happens_is_in_the_spool_with_everything_that_goes_with_it(tmp_path):
    with spool.ZreSpooler(tmp_path, ["G"], config=QUIET) as spooler:
        with peer(spooler, "one", headers={"X-ROLE": "test"}) as one:
            one.join("G")
            one.join("OTHER")
            one.wait_for_peers(1, 10, group="G")
            one.shout("G", [b"a", b""])
            one.shout("OTHER", b"not wanted")
            one.whisper(spooler.node.uuid, b"w")
            one.leave("OTHER")
            stored(spooler, 6)
        stored(spooler, 7)
        assert spooler.stats()["bytes"] == 2
        endpoint = rows(tmp_path)[0]["address"]
        assert endpoint.startswith("tcp://127.0.0.1:")
    view = spool.open(tmp_path)
    assert view.table == "zre"
    found = rows(tmp_path)
    assert [row["type"] for row in found] == ["ENTER", "JOIN", "JOIN", "SHOUT", "WHISPER", "LEAVE", "EXIT"]
    assert {row["peer"] for row in found} == {one.uuid}
    assert {row["name"] for row in found} == {"one"}
    assert {row["version"] for row in found} == {2}
    assert [row["group"] for row in found] == [None, "G", "OTHER", "G", None, "OTHER", None]
    assert [row["content"] for row in found[3:5]] == [[b"a", b""], [b"w"]]
    assert found[0]["headers"] == [("X-ROLE", "test")]
    # Numbers of messages; the shout to the other group has none here, it had no receiver.
    assert [row["sequence"] for row in found] == [1, 2, 3, 4, 5, 6, None]
    assert [row["status"] for row in found] == [0, 1, 2, None, None, 3, None]
    assert [row["offset"] for row in found] == list(range(7))
    assert gaps(tmp_path) == []
    assert spool.verify(tmp_path) == []


def test_numbers_that_are_missing_and_peers_that_come_back_are_rows(tmp_path):
    who = uuid.UUID(int=(0x5A << 120) + 1)
    with spool.ZreSpooler(tmp_path, config=QUIET) as spooler:
        rude = Rude(spooler.node.endpoint, who)
        with rude.dealer:
            rude.hello("rude")
            rude.whisper(2, b"two")
            rude.whisper(6, b"six")
            stored(spooler, 3)
            assert spooler.stats()["lost"] == 3
            rude.hello("rude")
            rude.whisper(2, b"again")
            stored(spooler, 5)
    assert [row["type"] for row in rows(tmp_path)[:5]] == ["ENTER", "WHISPER", "EXIT", "ENTER", "WHISPER"]
    lost, back = gaps(tmp_path)
    assert (lost["kind"], lost["count"], lost["sn_from"], lost["sn_to"]) == ("gap", 3, 3, 5)
    assert lost["source_zid"] == back["source_zid"] == who.bytes
    # In front of the EXIT, and of the second ENTER.
    assert (lost["offset"], back["offset"]) == (2, 3)
    assert back["kind"] == "reconnect"
    assert "was gone for" in back["detail"]


def test_a_queue_that_is_full_drops_and_tells(tmp_path):
    with (
        spool.ZreSpooler(tmp_path, "G", config=QUIET, queue_bytes=20_000, linger=0) as spooler,
        peer(spooler, "fast") as fast,
    ):
        fast.wait_for_peers(1, 10, group="G")
        sent = 0
        while spooler.stats()["dropped"] == 0:
            sent += fast.shout_many("G", [bytes(30_000)] * 20, patience=10).queued
            assert sent < 20_000
        # All of them, and the ENTER of their node, which came first.
        eventually(lambda: spooler.stats()["received"] > sent)
        assert spooler.flush(5)
        dropped = spooler.stats()["dropped"]
        told = lambda: sum(row["count"] for row in gaps(tmp_path) if row["kind"] == "drop")  # noqa: E731
        eventually(lambda: told() == dropped)
        assert spool.open(tmp_path).marks()[0]["dropped"] == dropped
        assert len(rows(tmp_path)) == spooler.stats()["received"] - dropped


def test_it_goes_on_where_it_was_and_says_what_it_missed(tmp_path):
    for number in range(2):
        with (
            spool.ZreSpooler(tmp_path, "G", config=QUIET, durability="disk") as spooler,
            peer(spooler, "one") as one,
        ):
            one.wait_for_peers(1, 10, group="G")
            one.shout("G", str(number))
            stored(spooler, 2)
    assert [row["content"] for row in rows(tmp_path) if row["type"] == "SHOUT"] == [[b"0"], [b"1"]]
    assert [row["kind"] for row in gaps(tmp_path)] == ["epoch"]
    view = spool.open(tmp_path)
    assert view.end()[0] == len(rows(tmp_path))


def test_a_node_of_ones_own_is_used_and_left_running(tmp_path):
    with zre.Node("mine", QUIET) as node:
        with spool.ZreSpooler(tmp_path, "G", node=node, columns=["name"]) as spooler:
            assert spooler.node is node
            with peer(spooler, "one"):
                stored(spooler, 1)
        assert node.running
        assert spool.open(tmp_path).columns == [
            "type",
            "peer",
            "name",
            "content",
            "recv_ts",
            "shard",
            "offset",
        ]
        with pytest.raises(errors.ConfigError, match="given"):
            spool.ZreSpooler(tmp_path, node=node, config=QUIET)
    with (
        zre.Node("heard", QUIET, callback=print) as node,
        pytest.raises(errors.UsageError, match="callback"),
    ):
        spool.ZreSpooler(tmp_path / "other", node=node)
    with pytest.raises(errors.ConfigError, match="overflow and queue_bytes"):
        spool.ZreSpooler(tmp_path, config={**QUIET, "queue_bytes": 5})
    with pytest.raises(errors.SpoolMismatch):
        spool.ZreLogSpooler(tmp_path, bind="tcp://127.0.0.1:*", announce=False)


def test_what_nodes_log_is_in_the_spool(tmp_path):
    with (
        spool.ZreLogSpooler(tmp_path, bind="tcp://127.0.0.1:*", announce=False) as spooler,
        zre.LogSender("10.0.0.1:5670") as sender,
    ):
        sender.connect(spooler.endpoint)
        sender.log("INFO", "JOIN", "group=G", peer=7, time=1_700_000_000.5)
        sender.log("ERROR", data="overheated")
        stored(spooler, 2)
        assert spooler.stats()["malformed"] == 0
    first, second = rows(tmp_path)
    assert (first["level"], first["event"], first["peer_hash"], first["data"]) == (3, 1, 7, "group=G")
    assert first["node_hash"] == second["node_hash"] == zre.log_hash("10.0.0.1:5670")
    assert first["timestamp"].timestamp() == 1_700_000_000.5
    assert (second["level"], second["event"], second["peer_hash"], second["data"]) == (1, 0, 0, "overheated")
    with pytest.raises(errors.ConfigError, match="log senders never wait"):
        spool.ZreLogSpooler(tmp_path, overflow="block")  # type: ignore[arg-type]


def test_nodes_are_told_of_the_collector(tmp_path):
    """By its node, which they meet here by its endpoint."""
    with (
        zre.Node("teller", QUIET) as teller,
        spool.ZreLogSpooler(
            tmp_path, bind="tcp://127.0.0.1:*", config={**QUIET, "peers": [teller.endpoint]}
        ) as spooler,
    ):
        stored(spooler, 1)
    assert rows(tmp_path)[0]["data"]


@pytest.mark.parametrize(
    ("options", "table", "count"),
    [(["--zre-group", "G"], "zre", 2), (["--zre-log", "tcp://127.0.0.1:*"], "zre.log", 1)],
)
def test_the_command_keeps_until_it_is_stopped(tmp_path, options, table, count):
    with zre.Node("shouter", QUIET) as shouter:
        settings = ["--zre", "beacons=false", "--zre", "bind=127.0.0.1", "--zre", "mailbox=0"]
        arguments = ["--dir", tmp_path, *options, *settings, "-e", shouter.endpoint]
        with running("spool", "keep", *arguments) as said:
            assert "keeping" in said
            shouter.wait_for_peers(1, 10)
            view = spool.open(tmp_path)
            eventually(lambda: view.end()[0] >= 1)
            if table == "zre":
                shouter.wait_for_peers(1, 10, group="G")
                shouter.shout("G", b"x")
            eventually(lambda: view.end()[0] >= count)
    assert view.table == table
    assert spool.verify(tmp_path) == []


def test_the_command_says_what_does_not_go_together(tmp_path, capsys):
    for options in (
        ["k", "--zre-group", "G"],
        ["--zre-group", "G", "--zre-log"],
        ["k", "--zre-log", "x"],
        [],
    ):
        assert main(["spool", "keep", "--dir", str(tmp_path), *options]) == 2
        assert "give one of them" in capsys.readouterr().err
    assert main(["spool", "keep", "--dir", str(tmp_path), "--zre-group", "G", "--zre", "x"]) == 2
    assert "NAME=VALUE" in capsys.readouterr().err
    assert main(["spool", "keep", "--dir", str(tmp_path), "--zre-group", "G", "--shards", "2"]) == 2
    assert main(["spool", "keep", "--dir", str(tmp_path), "--zre-group", "G", "-l", "tcp/x:0"]) == 2
    assert "--listen" in capsys.readouterr().err
