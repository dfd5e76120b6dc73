"""Nodes of ZRE in this process, on the loopback."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
import uuid

import pyarrow as pa
import pytest

import nodes
from nodes import event_of as until
from nodes import zre_node as make
from zwire import zmtp, zre
from zwire.errors import ConfigError, ConnectError, InvalidValue, TimedOut, UnknownPeer, UsageError

PATIENCE = 10


@pytest.fixture
def port() -> int:
    """Find a port of discovery that no other test has."""
    return nodes.free_port(socket.SOCK_DGRAM)


def meet(*nodes: zre.Node) -> None:
    for node in nodes:
        node.wait_for_peers(len(nodes) - 1, PATIENCE)


def test_two_nodes(port: int) -> None:
    one = make("one", port, headers={"X-ROLE": "edge"})
    one.set_header("X-MORE", "Grüße")
    assert one.join("CHAT")
    assert not one.join("CHAT")
    assert one.own_groups() == ["CHAT"]
    assert not one.running
    assert one.endpoint is None
    with one, make("two", port) as two:
        meet(one, two)
        assert one.running
        enter, join = two.recv(PATIENCE), two.recv(PATIENCE)
        assert isinstance(enter, zre.Enter)
        assert (enter.type, enter.peer, enter.name, enter.address) == ("ENTER", one.uuid, "one", one.endpoint)
        assert enter.headers == {"X-ROLE": "edge", "X-MORE": "Grüße"}
        assert enter.header("X-ROLE") == "edge"
        assert enter.header("X-NONE", "-") == "-"
        assert abs(enter.time - time.time()) < PATIENCE
        assert isinstance(join, zre.Join)
        assert (join.type, join.group) == ("JOIN", "CHAT")

        assert two.peers() == [one.uuid]
        assert two.peers_by_group("CHAT") == two.wait_for_peers(1, PATIENCE, group="CHAT") == [one.uuid]
        assert two.peers_by_group("NONE") == []
        assert two.peer_groups() == ["CHAT"]
        assert two.peer_name(one.uuid) == "one"
        assert two.peer_address(uuid.UUID(one.uuid)) == one.endpoint
        assert two.peer_header(one.uuid, "X-ROLE") == "edge"
        assert two.peer_header(one.uuid, "X-NONE") is None
        assert two.peer_generation(one.uuid) == "36"
        assert two.peer_name("0" * 32) is None

        assert two.whisper(one.uuid, "hello") is zre.Delivery.QUEUED
        whisper = until(one, zre.Whisper)
        assert whisper.content == [b"hello"]
        shouted = two.shout("CHAT", ["text", b"bytes", bytearray(b"array"), memoryview(b"view"), b""])
        assert shouted.peers == {one.uuid: "queued"}
        assert (shouted.queued, shouted.full, shouted.not_responding, shouted.refused) == (1, 0, 0, 0)
        shout = until(one, zre.Shout)
        assert (shout.group, shout.content) == ("CHAT", [b"text", b"bytes", b"array", b"view", b""])
        assert two.shout("NONE", "x").peers == {}
        assert one.leave("CHAT")
        assert until(two, zre.Leave).group == "CHAT"
        stats = two.stats()
        assert stats["messages_out"] >= 3
        assert stats["gaps"] == 0
    assert [event.type for event in two] == ["STOP"]
    assert until(one, zre.Exit).peer == two.uuid
    assert until(one, zre.Stop).peer == one.uuid
    with pytest.raises(UsageError, match="closed"):
        one.recv(1)
    one.stop()


def test_batches(port: int) -> None:
    with make("one", port, headers={"X-A": "1"}) as one, make("two", port) as two:
        meet(one, two)
        for number in range(1000):
            one.whisper(two.uuid, [b"%d" % number, b"x"])
        rows: list[dict[str, object]] = []
        while len(rows) < 1001:
            rows += pa.record_batch(two.recv_batch(timeout=PATIENCE)).to_pylist()
    assert rows[0]["type"] == "ENTER"
    assert rows[0]["headers"] == [("X-A", "1")]
    assert rows[0]["content"] is None
    assert [row["content"] for row in rows[1:]] == [[b"%d" % number, b"x"] for number in range(1000)]
    assert {row["peer"] for row in rows} == {one.uuid}
    assert {row["name"] for row in rows} == {"one"}
    schema = pa.schema(two_schema())
    assert pa.record_batch(empty_batch(port)).schema.equals(schema)


def two_schema() -> list[pa.Field]:
    """Tell the columns that the documentation promises."""
    return [
        pa.field("type", pa.string()),
        pa.field("peer", pa.string()),
        pa.field("name", pa.string()),
        pa.field("address", pa.string()),
        pa.field("group", pa.string()),
        pa.field("headers", pa.map_(pa.string(), pa.string())),
        pa.field("content", pa.list_(pa.field("element", pa.binary()))),
        pa.field("lost", pa.int32()),
        pa.field("recv_ts", pa.timestamp("us", "UTC")),
    ]


def empty_batch(port: int) -> object:
    with make("alone", port) as alone:
        return alone.recv_batch(timeout=0)


def test_many_messages_wait_for_room(port: int) -> None:
    """More than a queue holds, in one call: nothing is lost, and nothing is out of order."""
    count = 20_000
    settings = {"high_water_mark": 100}
    with make("one", port, **settings) as one, make("two", port) as two:
        two.join("G")
        meet(one, two)
        one.wait_for_peers(1, PATIENCE, group="G")
        sent = one.whisper_many(two.uuid, (b"%d" % number for number in range(count)))
        assert sent == zre.Sent(count, count, 0, 0, 0)
        batch = pa.record_batch({"content": [[b"%d" % number, b"x"] for number in range(count)]})
        assert one.shout_many("G", batch) == zre.Sent(count, count, 0, 0, 0)
        flat = pa.record_batch({"content": pa.array([b"flat"], pa.binary())})
        assert one.shout_many("G", flat).queued == 1
        got = []
        while len(got) < 2 * count + 1:
            got += [event.content for event in two.recv_many(65536, PATIENCE) if hasattr(event, "content")]
        assert got[:count] == [[b"%d" % number] for number in range(count)]
        assert got[count:-1] == [[b"%d" % number, b"x"] for number in range(count)]
        assert got[-1] == [b"flat"]
        assert one.shout_many("NONE", ["a", "b"]) == zre.Sent(2, 0, 0, 0, 0)
        # Megabytes: the bound in bytes is waited for as well.
        big = bytes(1 << 20)
        assert one.whisper_many(two.uuid, [big] * 200).queued == 200
        # One at a time, too.
        assert {one.whisper(two.uuid, big, patience=PATIENCE) for _ in range(200)} == {zre.Delivery.QUEUED}
        assert all(one.shout("G", big, patience=PATIENCE).queued == 1 for _ in range(200))
        with pytest.raises(UnknownPeer):
            one.whisper_many("0F" * 16, ["x"])
        with pytest.raises(TypeError):
            one.shout_many("G", [5])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="content"):
            one.shout_many("G", pa.record_batch({"a": [1], "b": [2]}))
        with pytest.raises(TypeError, match="list of binary"):
            one.shout_many("G", pa.record_batch({"a": [1]}))
        assert one.stats()["queue_full"] == 0


def test_callbacks(port: int) -> None:
    seen: list[str] = []
    done = threading.Event()

    def callback(event: zre.Event) -> None:
        seen.append(event.type)
        if event.type == "STOP":
            done.set()

    with make("one", port, callback=callback) as one, make("two", port) as two:
        meet(one, two)
        two.whisper(one.uuid, "x")
        with pytest.raises(UsageError, match="callback"):
            one.recv(0)
        two.stop()
        deadline = time.monotonic() + PATIENCE
        while "EXIT" not in seen and time.monotonic() < deadline:
            time.sleep(0.01)
    assert done.wait(PATIENCE)
    assert seen == ["ENTER", "WHISPER", "EXIT", "STOP"]


def test_messages_before_a_goodbye_reach_a_slow_receiver(port: int) -> None:
    """The goodbye is a datagram: it comes while thousands of messages are still unread."""
    with make("slow", port, queue=1000) as slow:
        with make("two", port) as two:
            meet(slow, two)
            for _ in range(5):
                two.whisper_many(slow.uuid, [b"x"] * 2000)
            # TCP may have room for less: what is not written by the end of the linger would be given up.
            ending = threading.Thread(target=two.stop, args=(PATIENCE,))
            ending.start()
            kinds: list[str] = []
            while kinds[-1:] != ["EXIT"]:
                time.sleep(0.3)
                kinds += [event.type for event in slow.recv_many(1000, PATIENCE)]
            ending.join(PATIENCE)
        assert kinds == ["ENTER", *["WHISPER"] * 10_000, "EXIT"]
        assert slow.stats()["before_hello"] == 0


def test_asyncio(port: int) -> None:
    async def listen(node: zre.Node) -> list[str]:
        return [event.type async for event in node]

    async def main() -> list[str]:
        async with make("one", port) as one:
            listener = asyncio.create_task(listen(one))
            async with make("two", port) as two:
                await asyncio.to_thread(meet, one, two)
                for _ in range(1000):
                    two.whisper(one.uuid, "x")
            # The loop goes on while the listener waits for what comes later.
            await asyncio.sleep(0.2)
            assert not listener.done()
        return await asyncio.wait_for(listener, PATIENCE)

    assert asyncio.run(main()) == ["ENTER", *["WHISPER"] * 1000, "EXIT", "STOP"]


def test_waiting(port: int) -> None:
    with make("alone", port) as alone:
        assert alone.try_recv() is None
        assert alone.recv_many(5, 0) == []
        with pytest.raises(TimedOut):
            alone.recv(0.01)
        with pytest.raises(TimedOut) as caught:
            alone.wait_for_peers(1, 0.05)
        assert caught.value.seconds == 0.05
        assert alone.wait_for_peers(0, 0) == []


def test_gossip() -> None:
    settings = {"bind": "127.0.0.1", "beacons": False}
    with zre.Node("hub", **settings) as hub:
        endpoint = hub.gossip_bind("tcp://127.0.0.1:*")
        with (
            zre.Node("one", gossip_connect=endpoint, **settings) as one,
            zre.Node("two", gossip_connect=[endpoint], **settings) as two,
        ):
            meet(hub, one, two)
            assert one.shout("NONE", "x").peers == {}


def test_peers_by_their_endpoints(port: int) -> None:
    settings = {"bind": "127.0.0.1", "beacons": False}
    with zre.Node("one", **settings) as one:
        name = one.endpoint.replace("127.0.0.1", "localhost")
        with zre.Node("two", peers=[one.endpoint], **settings) as two, zre.Node("three", **settings) as three:
            three.require_peer(name)
            meet(two, one)
            three.wait_for_peers(1, PATIENCE)
            assert one.wait_for_peers(2, PATIENCE) == sorted([two.uuid, three.uuid])
            three.whisper(one.uuid, "x")
            assert until(one, zre.Whisper).peer == three.uuid
            with pytest.raises(ConfigError, match="nowhere"):
                three.require_peer("nowhere")
        # A peer that is not there yet is asked again.
        late = zre.Node("late", mailbox=port, **settings)
        one.require_peer(f"tcp://127.0.0.1:{port}")
        time.sleep(0.3)
        with late:
            late.wait_for_peers(1, PATIENCE)


def test_keys(port: int) -> None:
    public, secret = zre.keypair()
    stranger, _ = zre.keypair()
    asked: list[str] = []

    def judge(key: str) -> bool:
        asked.append(key)
        return True

    with (
        make("one", port, secret_key=secret, allow=judge) as one,
        make("two", port, secret_key=zre.keypair()[1], allow=[public]) as two,
        make("three", port, secret_key=zre.keypair()[1], allow=[stranger]) as three,
        make("plain", port) as plain,
    ):
        # One would admit three, but three admits neither, and tells neither of itself.
        nodes.eventually(lambda: three.stats()["endpoints_refused"] >= 2)
        assert one.wait_for_peers(1, PATIENCE) == [two.uuid]
        two.wait_for_peers(1, PATIENCE)
        one.whisper(two.uuid, "sealed")
        assert until(two, zre.Whisper).content == [b"sealed"]
        assert three.peers() == plain.peers() == []
        assert one.peers() == [two.uuid]
        deadline = time.monotonic() + PATIENCE
        while not plain.doctor()["ignored"] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert any("CURVE" in ignored["reason"] for ignored in plain.doctor()["ignored"])
    assert asked
    assert secret not in repr(zre.Config(secret_key=secret))


def test_an_allowed_key_does_not_speak_for_the_node_of_another(port: int) -> None:
    """A second key with the UUID of a node ends nothing, in no form of its identity."""
    public, secret = zre.keypair()
    with (
        make("one", port, secret_key=secret, public_key=public) as one,
        make("two", port, secret_key=zre.keypair()[1]) as two,
    ):
        one.join("CHAT")
        two.join("CHAT")
        one.wait_for_peers(1, PATIENCE, group="CHAT")
        two.wait_for_peers(1, PATIENCE, group="CHAT")
        assert one.endpoint is not None
        member = zre.keypair()[1]
        taken = bytes.fromhex(two.uuid)
        for identity in (b"\x01" + taken, taken, two.uuid.encode()):
            with zmtp.Dealer(identity=identity, secret_key=member, server_key=public) as thief:
                thief.connect(one.endpoint, wait=PATIENCE)
                events: list[zmtp.Event] = []
                while not any(event.type == "DISCONNECTED" for event in events):
                    events += thief.events(timeout=PATIENCE)
        one.shout("CHAT", "to two")
        assert until(two, zre.Shout).content == [b"to two"]
        two.shout("CHAT", "to one")
        told = [one.recv(PATIENCE)]
        while not isinstance(told[-1], zre.Shout):
            told.append(one.recv(PATIENCE))
        assert not [event for event in told if isinstance(event, zre.Exit)]
        assert one.stats()["takeovers_refused"] + one.stats()["hello_security"] >= 3


def test_doctor(port: int) -> None:
    with make("alone", port) as alone:
        nodes.eventually(lambda: any(each.get("sent") for each in alone.doctor()["interfaces"]))
        found = alone.doctor()
    (lo,) = [interface for interface in found["interfaces"] if interface["name"] == "lo"]
    assert lo["used"]
    assert lo["sent"] >= 1
    assert lo["broadcast"] == "127.255.255.255"
    assert all(interface["why"] for interface in found["interfaces"] if not interface["used"])


@pytest.mark.parametrize(
    ("settings", "path", "problem"),
    [
        ({"evasive": 0}, "evasive", "above 0"),
        ({"evasive": 30}, "expired", "not above evasive"),
        ({"interval": "soon"}, "interval", "a number of seconds"),
        ({"generations": ["37"]}, "generations", "expected 20, zyre1, 36 or 43"),
        ({"generations": []}, None, "at least one generation"),
        ({"interfaces": "10.0.0.0/99"}, "interfaces", "10.0.0.0/99"),
        ({"mailbox": (5, 4)}, "mailbox", "a port or a pair of ports"),
        ({"mailbox": 70000}, "mailbox", "a port or a pair of ports"),
        ({"beacon_port": -1}, "beacon_port", "a port"),
        ({"secret_key": "short"}, "secret_key", "40 characters"),
        ({"public_key": zre.keypair()[0]}, "secret_key", "missing"),
        (
            {"secret_key": zre.keypair()[1], "public_key": zre.keypair()[0]},
            "public_key",
            "not the public key",
        ),
        ({"headers": ["a"]}, "headers", "mapping"),
        ({"headers": {"a": 1}}, "headers", "mapping"),
        ({"advertise": "nowhere"}, None, "tcp://host:port"),
        ({"uuid": "12"}, "uuid", "no UUID"),
        ({"on_overflow": "explode"}, "on_overflow", "drop_oldest"),
        ({"queue": 0}, "queue", "above 0"),
        ({"high_water_mark": 0}, "high_water_mark", "above 0"),
        ({"intervall": 1}, "intervall", "did you mean interval"),
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, object], path: str | None, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        zre.Node("x", **settings)
    assert caught.value.path == path


def test_configurations(port: int) -> None:
    base = zre.Config(name="base", interfaces="lo", beacon_port=port)
    assert zre.Node(config=base).name == "base"
    assert zre.Node("other", base).name == "other"
    assert zre.Node(config={"name": "mapped"}).name == "mapped"
    assert zre.Node(config=base, uuid="0F1E2D3C4B5A69788796A5B4C3D2E1F0").uuid.startswith("0F1E")
    assert zre.Node(uuid=uuid.UUID("0f1e2d3c4b5a69788796a5b4c3d2e1f0")).name == "0F1E2D"
    assert zre.Node().uuid != zre.Node().uuid


def test_wrong_use(port: int) -> None:
    node = make("x", port)
    with pytest.raises(UsageError, match="not started"):
        node.whisper("0" * 32, "x")
    with pytest.raises(InvalidValue):
        node.join("")
    with pytest.raises(InvalidValue):
        node.join("x" * 256)
    with node:
        with pytest.raises(UsageError, match="has started"):
            node.start()
        with pytest.raises(UsageError, match="has started"):
            node.set_header("a", "b")
        with pytest.raises(UnknownPeer) as caught:
            node.whisper("0F" * 16, "x")
        assert caught.value.peer == "0F" * 16
        with pytest.raises(InvalidValue, match="no UUID"):
            node.whisper("zz", "x")
        with pytest.raises(InvalidValue):
            node.shout("G", [])
        for wrong in (5, None, [5]):
            with pytest.raises(TypeError):
                node.shout("G", wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            node.whisper(5, "x")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="closed"):
        node.shout("G", "x")
    with pytest.raises(UsageError):
        node.join("G")
    assert node.peers() == []


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        node = zre.Node("x", bind="127.0.0.1", mailbox=port, beacons=False)
        with pytest.raises(ConnectError) as caught:
            node.start()
        assert caught.value.endpoint == f"tcp://127.0.0.1:{port}"


def test_a_fork(port: int) -> None:
    with make("one", port) as one, make("two", port) as two:
        meet(one, two)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                try:
                    one.whisper(two.uuid, "x")
                except UsageError:
                    with make("child", port) as node:
                        node.wait_for_peers(2, PATIENCE)
                    status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        # The parent goes on, and has seen the child come and go.
        until(one, zre.Exit)
        assert one.whisper(two.uuid, "x") is zre.Delivery.QUEUED


def test_exit_without_stop(port: int) -> None:
    """Peers hear a goodbye also when the program simply ends."""
    program = f"""
        from zwire import zre
        node = zre.Node("gone", interfaces="lo", interval=0.1, beacon_port={port}, callback=print)
        node.start()
        node.wait_for_peers(1, {PATIENCE})
    """
    with make("one", port) as one:
        begin = time.monotonic()
        subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=PATIENCE)
        until(one, zre.Enter)
        until(one, zre.Exit)
        assert time.monotonic() - begin < PATIENCE


def test_a_collector_on_all_addresses(port: int) -> None:
    """Its endpoint is announced with the address by which the peer reaches the node."""
    with zre.LogCollector() as log, make("one", port, collector=log.endpoint), make("two", port) as two:
        _, number = log.endpoint.rsplit(":", 1)
        assert 0xC000 <= int(number) <= 0xFFFF
        assert until(two, zre.Enter).headers["X-ZRELOG"] == f"tcp://127.0.0.1:{number}"


def test_logs(port: int) -> None:
    """Events at a node go to the collector that another node announces."""
    with (
        zre.LogCollector("tcp://127.0.0.1:*") as log,
        make("one", port, collector=log.endpoint) as one,
        make("two", port, log_traffic=True) as two,
    ):
        meet(one, two)
        two.join("G")
        until(one, zre.Join)
        one.whisper(two.uuid, "x")
        until(two, zre.Whisper)
        two.leave("G")
        until(one, zre.Leave)
        node = zre.log_hash(two.endpoint.removeprefix("tcp://"))
        peer = zre.log_hash(one.endpoint.removeprefix("tcp://"))
        one.stop()
        until(two, zre.Exit)
        two.stop()
        records = log.recv_many(100, PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while {record.event for record in records} < {"JOIN", "LEAVE", "ENTER", "SEND", "RECV"}:
            assert time.monotonic() < deadline, records
            records += log.recv_many(100, 0.1)
    assert {record.node for record in records} == {node}
    assert {record.peer for record in records if record.event == "ENTER"} == {peer}
    assert [record.data for record in records if record.event in {"JOIN", "LEAVE"}] == ["G", "G"]
    assert all(record.level == "INFO" and abs(record.time - time.time()) < PATIENCE for record in records)
    assert log.malformed == log.dropped == 0


def test_a_log_sender() -> None:
    with zre.LogCollector("tcp://127.0.0.1:*") as log, zre.LogSender("10.99.0.1:49152") as sender:
        sender.connect(log.endpoint)
        sender.log("INFO", "JOIN", "LOGGED", time=1795223068)
        sender.log("ERROR", data="Grüße", peer="10.99.0.2:1")
        first, second = log.recv(PATIENCE), log.recv(PATIENCE)
        assert (first.level, first.event, first.node, first.peer) == ("INFO", "JOIN", 0xBECF, 0)
        assert (first.time, first.data) == (1795223068, "LOGGED")
        assert (second.level, second.event, second.data) == ("ERROR", "", "Grüße")
        assert second.peer == zre.log_hash("10.99.0.2:1")
        with pytest.raises(InvalidValue, match="level is one of"):
            sender.log("DEBUG")
        with pytest.raises(InvalidValue, match="event is one of"):
            sender.log("INFO", "SLEEP")


def test_hashes() -> None:
    assert zre.log_hash("10.99.0.1:49152") == 0xBECF
    assert zre.log_hash("") == 0
