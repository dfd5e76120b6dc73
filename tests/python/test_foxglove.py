"""`zwire foxglove`, read by a client of the protocol of Foxglove (its subprotocol foxglove.sdk.v1)."""

import contextlib
import json
import signal
import struct
import time

import pytest

import nodes
from nodes import eventually, publishing
from remote_api import CLOSE, PING, PONG, RemoteClient
from zwire.cli import _bridge, main
from zwire.recording import McapSchema

PATIENCE = 20.0
TEXT, BINARY = 1, 2


class Client(RemoteClient):
    """Connection with a server; `advertised` are its channels by topic, `data` the messages."""

    def __init__(self, port):
        super().__init__(port, headers="Sec-WebSocket-Protocol: foxglove.sdk.v1\r\n")
        assert self.status == 101, self.head
        self.info = self.read()
        self.advertised = {}
        self.wanted = {}
        self.data = []

    def read(self):
        while True:
            first, size = self._exactly(2)
            if size >= 126:
                size = int.from_bytes(self._exactly(2 if size == 126 else 8), "big")
            payload = self._exactly(size)
            if first & 0xF == PING:
                self.frame(PONG, payload)
            elif first & 0xF == TEXT:
                return json.loads(payload)
            elif first & 0xF == BINARY:
                return payload
            assert first & 0xF not in {CLOSE, 0}, payload

    def until(self, condition):
        while not condition():
            message = self.read()
            if isinstance(message, bytes):
                kind, subscription, when = struct.unpack_from("<BIQ", message)
                assert kind == 1
                self.data.append((subscription, when, message[13:]))
            elif message["op"] == "advertise":
                self.advertised |= {channel["topic"]: channel for channel in message["channels"]}
            elif message["op"] == "status" and "Unknown channel" in message["message"]:
                # SDK 0.30 advertises a new channel a moment before it takes subscriptions to it.
                for topic, number in self.wanted.items():
                    if message["message"].endswith(f": {self.advertised[topic]['id']}"):
                        self.subscribe(topic, number)

    def topic(self, name):
        self.until(lambda: name in self.advertised)
        return self.advertised[name]

    def subscribe(self, topic, number):
        self.wanted[topic] = number
        entry = {"id": number, "channelId": self.topic(topic)["id"]}
        self.frame(TEXT, json.dumps({"op": "subscribe", "subscriptions": [entry]}).encode())

    def unsubscribe(self, number):
        self.frame(TEXT, json.dumps({"op": "unsubscribe", "subscriptionIds": [number]}).encode())

    def message(self, number):
        """The next message of a subscription."""
        del self.data[:]
        self.until(lambda: any(entry[0] == number for entry in self.data))
        return next(entry for entry in self.data if entry[0] == number)


@pytest.fixture
def served(hub):
    """Makes bridges over a session of the hub, and steps them until a condition holds."""
    with contextlib.ExitStack() as stack:

        def make(*keys, most=100, schemas=()):
            session = stack.enter_context(nodes.client(hub))
            bridge = _bridge.Bridge(
                session, list(keys), host="127.0.0.1", port=0, most=most, schemas=dict(schemas)
            )
            stack.callback(bridge.close)
            return bridge

        yield make


def stepped(bridge, condition, what="it"):
    eventually(lambda: bridge.step(0.01) or condition(), what, within=PATIENCE)


def test_a_client_reads_the_channels_and_messages_of_a_router(start, session):
    with publishing(session, "robot/1/pose", '{"x": 1.5}', encoding="application/json"):
        server = start("foxglove", "--port", "0", "--key", "robot/**", "--look", "0.5", "--every", "0.5")
        address = server.stdout.readline().strip()
        assert address.startswith("ws://127.0.0.1:")
        assert "https://app.foxglove.dev" in server.stderr.readline()
        before = time.time_ns()
        with Client(int(address.rpartition(":")[2])) as client:
            assert client.info["op"] == "serverInfo"
            assert (client.info["name"], client.info["capabilities"]) == ("zwire", [])
            channel = client.topic("robot/1/pose")
            assert (channel["encoding"], channel["schemaEncoding"]) == ("json", "jsonschema")
            client.subscribe("robot/1/pose", 7)
            _, when, payload = client.message(7)
        assert json.loads(payload) == {"x": 1.5}
        assert before <= when <= time.time_ns()
    server.send_signal(signal.SIGTERM)
    out, err = server.communicate(timeout=PATIENCE)
    assert (server.returncode, out) == (0, ""), err


def test_only_keys_that_a_client_listens_to_are_subscribed(served, hub, session):
    bridge = served("a/*")
    bridge.look()
    with publishing(session, "a/1", "1"), publishing(session, "a/2", "2"):
        stepped(bridge, lambda: bridge.counts.channels == 2)
    bridge.stop_looking()
    matching = session.declare_publisher("a/1")
    other = session.declare_publisher("a/2")
    eventually(lambda: not matching.matching_status and not other.matching_status)
    with Client(bridge.port) as client, Client(bridge.port) as second:
        client.subscribe("a/1", 1)
        second.subscribe("a/1", 1)
        stepped(bridge, lambda: bridge.subscribed() == ["a/1"] and len(bridge._served["a/1"].clients) == 2)
        eventually(lambda: matching.matching_status)
        assert not other.matching_status
        with publishing(session, "a/1", "7"):
            for one in (client, second):
                assert json.loads(one.message(1)[2]) == {"value": 7}
        client.unsubscribe(1)
        stepped(bridge, lambda: len(bridge._served["a/1"].clients) == 1)
        assert bridge.subscribed() == ["a/1"]
    # The end of a connection ends its subscriptions.
    stepped(bridge, lambda: bridge.subscribed() == [])
    eventually(lambda: not matching.matching_status)


def test_channels_have_the_schemas_of_encodings(served, hub, session):
    schemas = {"demo.Pose": McapSchema("protobuf", b"a set"), "demo/Msg": McapSchema("ros2msg", b"float64 x")}
    bridge = served("e/*", schemas=schemas)
    payloads = {
        "e/json": ("application/json;Pose", b"{}"),
        "e/proto": ("application/protobuf;demo.Pose", b"\x08\x01"),
        "e/unknown": ("application/protobuf;demo.Other", b"\x08\x02"),
        "e/ros": ("application/cdr;demo/Msg", b"\x00\x01\x00\x00"),
        "e/raw": ("application/cbor", b"\xa0"),
        "e/image": ("image/png", b"\x89PNG"),
        "e/text": ("text/plain", b"words"),
    }
    bridge.look()

    def found():
        for key, (encoding, payload) in payloads.items():
            session.put(key, payload, encoding=encoding)
        return bridge.counts.channels == len(payloads)

    stepped(bridge, found)
    got = {}
    with Client(bridge.port) as client:
        for number, key in enumerate(payloads):
            client.subscribe(key, number)
        stepped(bridge, lambda: len(bridge.subscribed()) == len(payloads))
        here = session.declare_publisher("e/text")
        here.wait_matching(timeout=PATIENCE)
        session.ready(PATIENCE)

        def all_came():
            got.update({list(payloads)[number]: data for number, _, data in client.data})
            return len(got) == len(payloads)

        with contextlib.ExitStack() as stack:
            for key, (encoding, payload) in payloads.items():
                stack.enter_context(publishing(session, key, payload, encoding=encoding))
            client.until(all_came)
        channels = client.advertised
    shown = {
        key: (channel["encoding"], channel["schemaName"], channel["schemaEncoding"])
        for key, channel in channels.items()
    }
    assert shown == {
        "e/json": ("json", "Pose", "jsonschema"),
        "e/proto": ("protobuf", "demo.Pose", "protobuf"),
        "e/unknown": ("application/protobuf", "demo.Other", ""),
        "e/ros": ("cdr", "demo/Msg", "ros2msg"),
        "e/raw": ("application/cbor", "", ""),
        "e/image": ("protobuf", "foxglove.CompressedImage", "protobuf"),
        "e/text": ("json", "", "jsonschema"),
    }
    assert b"\x89PNG" in got.pop("e/image")
    assert json.loads(got.pop("e/text")) == {"value": "words"}
    assert got == {key: payload for key, (_, payload) in payloads.items() if key in got}


def test_channels_are_bounded_and_samples_of_another_encoding_are_left_out(served, hub, session):
    bridge = served("a/*", most=2)
    bridge.look()

    def found():
        for number in range(5):
            session.put(f"a/{number}", "{}", encoding="application/json")
        return len(bridge.counts.refused) == 2

    stepped(bridge, found)
    assert bridge.counts.channels == 2
    key = next(iter(bridge._served))
    with Client(bridge.port) as client:
        client.subscribe(key, 1)
        stepped(bridge, lambda: bridge.subscribed() == [key])
        session.declare_publisher(key).wait_matching(timeout=PATIENCE)
        session.delete(key)
        session.put(key, "{", encoding="application/json")
        session.put(key, "{}", encoding="text/plain")
        # The SDK tells of a subscription a moment before it sends messages to it.
        with publishing(session, key, '{"last": 1}', encoding="application/json"):
            # Samples from before the bound was reached may still arrive; the test puts one for each turn.
            came = (json.loads(client.message(1)[2]) for _ in range(1000))
            assert next(value for value in came if value != {}) == {"last": 1}
    assert bridge.counts.unfit == 2
    assert bridge.counts.sent > 0


@pytest.mark.parametrize(
    ("payload", "encoding", "shown"),
    [
        (b'{"a": 1}', "zenoh/bytes", b'{"a": 1}'),
        (b"7.5", "zenoh/bytes", b'{"value": 7.5}'),
        (b"[1]", "application/json", b'{"value": [1]}'),
        (b"NaN", "application/json", None),
        (b"{", "application/json;Pose", None),
        (b"{", "text/plain", b'{"value": "{"}'),
        (b"\xff", "zenoh/bytes", None),
        (b"[" * 100_000, "application/json", None),
    ],
)
def test_values_become_objects(payload, encoding, shown):
    with nodes.opened("peer") as session, session.declare_subscriber("k") as subscriber:
        session.put("k", payload, encoding=encoding)
        assert _bridge.as_object(subscriber.recv(PATIENCE)) == shown


def test_a_port_in_use_is_an_error(endpoint, served, hub, capsys):
    port = served("a").port
    assert main(["foxglove", "--port", str(port), "-e", endpoint]) == 1
    assert f"no server at 127.0.0.1:{port}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--key", "a//b"], "'a//b'"),
        (["--port", "70000"], "--port: expected a port"),
        (["--channels", "0"], "--channels: expected a whole number"),
        (["--look", "x"], "--look: expected a number of seconds"),
        (["--schema", "x=y.zip"], "expected NAME=FILE"),
        (["-e", "tcp/127.0.0.1"], "the port is missing"),
        (["word"], "takes options only"),
    ],
)
def test_wrong_arguments_are_named(arguments, said, capsys):
    assert main(["foxglove", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err or "pip install 'zwire[foxglove]'" in err


def test_without_the_sdk_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert main(["foxglove"]) == 2
    assert "pip install 'zwire[foxglove]'" in capsys.readouterr().err
