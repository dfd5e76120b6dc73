"""The bridge to MQTT, against mosquitto: both ways, kills, cuts, slow sides, hostile topics."""

import contextlib
import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

import brokers
import nodes
import snippets
from interop.certificates import Authority
from nodes import eventually
from zwire import errors, spool, zenoh
from zwire.bridge.mqtt import MqttBridge, MqttTls, MqttWill, Rule

PROGRAM = Path(__file__).parent / "mqtt_program.py"


@pytest.fixture
def broker(tmp_path):
    made = brokers.Broker(tmp_path / "broker")
    yield made
    made.end()


@pytest.fixture
def hub():
    with nodes.router() as session:
        yield session


@pytest.fixture
def start(hub, tmp_path):
    """Starts bridges, each with a client session of its own."""
    made = []

    def start(address, *rules, wait=True, session=None, **options):
        options.setdefault("client_id", "bridge")
        options.setdefault("spool", tmp_path / options["client_id"])
        session = session or nodes.client(hub)
        bridge = MqttBridge(session, address, rules or [Rule("#")], **options)
        made.append((bridge, session))
        if wait:
            bridge.wait_connected()
        else:
            assert session.ready(10), "the hub does not know the subscribers of the bridge"
        return bridge

    yield start
    for bridge, session in made:
        bridge.close()
        session.close()


def collected(session, key):
    """A subscriber with the list of samples that it has got."""
    samples = []
    return session.declare_subscriber(key, samples.append), samples


def texts(samples):
    return [sample.payload.to_string() for sample in list(samples)]


def pairs(sample):
    return zenoh.ext.z_deserialize(dict[str, str], sample.attachment)


@pytest.mark.parametrize("version", ["3.1.1", "5"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_pass_both_ways(broker, hub, start, version, qos):
    _, samples = collected(hub, "**")
    bridge = start(broker.url, Rule("a/#", qos=qos), version=version)
    broker.publish("a/b", *range(50), qos=qos, version=version)
    eventually(lambda: len(samples) >= 50, "messages in Zenoh")
    assert texts(samples) == [str(number) for number in range(50)]
    assert {str(sample.key_expr) for sample in samples} == {"a/b"}

    listener = broker.listen("a/#")
    for number in range(50):
        hub.put("a/c", str(number))
    eventually(lambda: len(listener.messages) >= 50, "messages at the broker")
    listener.end()
    assert [(m["topic"], m["payload"], m["qos"]) for m in listener.messages] == [
        ("a/c", str(number), min(qos, 1)) for number in range(50)
    ]
    eventually(lambda: bridge.stats()["out_waiting"] == 0, "acknowledgements")
    stats = bridge.stats()
    assert (stats["in_put"], stats["out_sent"]) == (50, 50), stats
    assert stats["out_acked"] == (0 if qos == 0 else 50), stats
    eventually(lambda: len(samples) >= 100, "samples of the hub itself")
    # What the bridge published came back to none of both.
    assert (len(samples), stats["out_looped"]) == (100, 0), stats


def test_properties_are_attachments_and_content_types_encodings(broker, hub, start):
    _, samples = collected(hub, "**")
    start(broker.url, Rule("a"))
    properties = [
        ("user-property", "unit", "C"),
        ("content-type", "application/json"),
        ("response-topic", "r"),
        ("correlation-data", "\x01z"),
        ("message-expiry-interval", "60"),
    ]
    broker.publish("a", "21", properties=properties)
    eventually(lambda: samples, "the message")
    assert str(samples[0].encoding) == "application/json"
    assert pairs(samples[0]) == {
        "unit": "C",
        "mqtt-response-topic": "r",
        "mqtt-correlation-data": "017a",
        "mqtt-message-expiry": "60",
        "zwire-mqtt-via": "bridge",
    }
    listener = broker.listen("a")
    attachment = zenoh.ext.z_serialize({"unit": "K", "mqtt-response-topic": "x/y"})
    hub.put("a", "294", encoding="text/plain", attachment=attachment)
    eventually(lambda: listener.messages, "the message at the broker")
    listener.end()
    shown = listener.messages[0]["properties"]
    assert shown["content-type"] == "text/plain"
    assert shown["response-topic"] == "x/y"
    assert shown["user-properties"] == {"unit": "K", "zwire-mqtt-via": "bridge"}


def test_retained_messages_come_when_the_bridge_connects(broker, hub, start):
    broker.publish("a/1", "old", retain=True)
    _, samples = collected(hub, "**")
    start(broker.url, Rule("a/#", retain=True))
    eventually(lambda: samples, "the retained message")
    assert texts(samples) == ["old"]
    assert pairs(samples[0])["mqtt-retained"] == "1"
    hub.put("a/2", "kept")
    listener = None

    def retained():
        nonlocal listener
        listener = broker.listen("a/2")
        time.sleep(0.05)
        listener.end()
        return listener.payloads() == ["kept"]

    eventually(retained, "the retained sample")
    hub.delete("a/2")
    eventually(lambda: not retained(), "the deletion of the retained sample")


def test_the_last_message_is_that_of_a_broken_connection_alone(broker, hub, start, tmp_path):
    listener = broker.listen("status")
    will = MqttWill("status", "gone", qos=1)
    relay = brokers.Relay(broker.port)
    bridge = start(f"mqtt://127.0.0.1:{relay.port}", will=will, status_key="up/bridge")
    watcher = nodes.client(hub)
    assert [str(reply.ok.key_expr) for reply in watcher.liveliness().get("up/*")] == ["up/bridge"]
    bridge.close()
    assert listener.payloads() == []
    eventually(lambda: not list(watcher.liveliness().get("up/*")), "the end of the token")
    start(f"mqtt://127.0.0.1:{relay.port}", will=will)
    relay.cut()
    eventually(lambda: listener.payloads() == ["gone"], "the last message")
    relay.end()
    listener.end()
    watcher.close()


@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_two_bridges_between_the_same_networks_make_no_loop(broker, hub, start, version):
    _, samples = collected(hub, "**")
    listener = broker.listen("#")
    first = start(broker.url, Rule("a"), client_id="one", version=version)
    second = start(broker.url, Rule("a"), client_id="two", version=version)
    broker.publish("a", "m")
    hub.put("a", "z")

    def settled():
        before = len(samples), len(listener.messages)
        time.sleep(0.3)
        return before == (len(samples), len(listener.messages))

    eventually(settled, "the end of the loop")
    listener.end()
    # Each side has it from each bridge at most once more.
    assert 2 <= texts(samples).count("m") + listener.payloads().count("m") <= 12
    assert 2 <= texts(samples).count("z") + listener.payloads().count("z") <= 12
    assert first.stats()["out_looped"] + first.stats()["in_looped"] > 0 or second.stats()["out_looped"] > 0


HOSTILE = ["a//b/", "/a", "//", "a/*/**/$*", "@home/@x", "who?", "50%/%2B/%", "größe/температура"]


def test_topics_that_are_no_keys_pass_both_ways(broker, hub, start):
    _, samples = collected(hub, "net/**")
    listener = broker.listen("#")
    start(broker.url, Rule("#"), prefix="net")
    for number, topic in enumerate(HOSTILE, 1):
        broker.publish(topic, "in")
        eventually(lambda number=number: len(samples) == number, topic)
        # What the hub puts reaches its own subscriber as well.
        samples[-1:] = [samples[-1].key_expr]
    assert len(set(samples)) == len(HOSTILE)
    for key in list(samples):
        hub.put(key, "out")
    sent = lambda: [m["topic"] for m in list(listener.messages) if m["payload"] == "out"]  # noqa: E731
    eventually(lambda: len(sent()) == len(HOSTILE), "messages at the broker")
    listener.end()
    assert sent() == HOSTILE


def test_the_topics_of_the_broker_itself_pass_if_a_rule_names_them(broker, hub, start):
    _, samples = collected(hub, "**")
    start(broker.url, Rule("$SYS/broker/version", direction="in"), Rule("#"))
    eventually(lambda: samples, "the version")
    assert str(samples[0].key_expr) == "%24SYS/broker/version"
    assert b"mosquitto" in samples[0].payload.to_bytes()
    # No rule with a wildcard at its begin has these topics.
    assert {str(sample.key_expr) for sample in samples} == {"%24SYS/broker/version"}


def test_a_topic_of_the_largest_length_has_no_key_below_a_prefix(start, hub):
    octets = brokers.Octets()
    bridge = start(octets.url, prefix="net", wait=False)
    link = octets.accept()
    link.wait_for(8)
    link.send(brokers.publish("a" * 65_535, b"1", qos=1, number=7))
    assert link.wait_for(4) == (0x40, b"\x00\x07")
    assert bridge.stats()["in_unmapped"] == 1
    link.send(brokers.publish(b"a\x00b", b"1", qos=1, number=8))
    assert link.wait_for(4) == (0x40, b"\x00\x08")
    assert bridge.stats()["in_unmapped"] == 2
    link.send(brokers.publish(b"\xff\xfe", b"1"))
    # The standard has the receiver close the connection.
    with pytest.raises((AssertionError, OSError)):
        link.wait_for(4)
    link.end()
    link = octets.accept()
    link.wait_for(8)
    link.end()
    octets.end()


def test_messages_above_the_limit_are_counted_and_acknowledged(broker, hub, start):
    _, samples = collected(hub, "**")
    bridge = start(broker.url, version="3.1.1", max_packet_bytes=1 << 20)
    broker.publish("large", "x" * 100_000_000, version="3.1.1", retain=True, whole=True)
    broker.publish("small", "y")
    eventually(lambda: texts(samples) == ["y"], "the small message")
    stats = bridge.stats()
    assert (stats["in_too_large"], stats["connections"]) == (1, 1), stats
    # The other way: the bridge does not send what the broker would not take.
    hub.put("out", b"x" * (2 << 20))
    eventually(lambda: bridge.stats()["out_too_large"] == 1, "the count")
    assert bridge.flush()


def test_a_client_that_takes_the_session_ends_the_bridge(start):
    octets = brokers.Octets()
    bridge = start(octets.url, wait=False)
    link = octets.accept()
    link.wait_for(8)
    link.send(b"\xe0\x01\x8e")
    eventually(lambda: bridge.stats()["problem"], "the reason")
    with pytest.raises(errors.ConnectError, match="client_id"):
        bridge.wait_connected()
    link.end()
    octets.end()


def test_two_bridges_with_an_id_are_told_and_take_turns_slowly(broker, start, tmp_path):
    first = start(broker.url)
    with pytest.raises(errors.SpoolLocked):
        start(broker.url)
    second = start(broker.url, spool=tmp_path / "other")
    # This release of mosquitto ends the connection without a reason.
    problem = lambda: f"{first.stats()['problem']} {second.stats()['problem']}"  # noqa: E731
    eventually(lambda: "another client may have" in problem(), "the reason")
    assert first.stats()["connections"] + second.stats()["connections"] < 12


def test_samples_without_topics_are_counted(broker, hub, start):
    bridge = start(broker.url, Rule("#", qos=1))
    hub.put("a/*", "1")
    eventually(lambda: bridge.stats()["out_unmapped"] == 1, "the count")
    assert bridge.flush()
    assert bridge.stats()["out_sent"] == 0


class Process:
    """A bridge in a process of its own, to be killed."""

    def __init__(self, hub, broker, folder, qos):
        self.command = [sys.executable, str(PROGRAM), hub.listening()[0], broker.url, str(folder), str(qos)]
        self.uncertain = 0
        self.start()

    def start(self):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout.readline() == "connected\n"

    def stats(self):
        print("stats", file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def kill(self):
        self.uncertain += self.stats()["in_uncertain"]
        self.process.kill()
        self.process.communicate(timeout=20)


@pytest.mark.parametrize("qos", [1, 2])
def test_messages_survive_kills(broker, hub, tmp_path, qos):
    """Both ways at once, so that each kill meets messages on both."""
    _, samples = collected(hub, "in/**")
    listener = broker.listen("out/#")
    bridge = Process(hub, broker, tmp_path / "spool", qos)
    load = subprocess.Popen(
        [brokers.program("mosquitto_pub"), "-p", str(broker.port), "-t", "in/x", "-q", str(qos), "-l"],
        stdin=subprocess.PIPE,
        text=True,
    )
    total, kills = 3000, 3
    for number in range(total):
        # The bridge keeps a sample once it is in the spool: each kill waits for that.
        hub.put("out/x", str(number), congestion_control=zenoh.CongestionControl.BLOCK)
        print(number, file=load.stdin, flush=number % 20 == 0)
        if number % (total // kills) == 500:
            load.stdin.flush()
            seen = len(samples)
            stored = lambda end=number + 1: spool.open(tmp_path / "spool").end()[0] == end  # noqa: E731
            eventually(stored, "samples in the spool")
            eventually(lambda seen=seen: len(samples) > seen, "progress")
            bridge.kill()
            bridge.start()
    load.communicate(timeout=30)

    def settled():
        return len(set(texts(samples))) + bridge.uncertain + bridge.stats()["in_uncertain"] >= total

    eventually(settled, "all messages in Zenoh", within=20)
    eventually(lambda: len(set(listener.payloads())) == total, "all messages at the broker", within=20)
    eventually(lambda: bridge.stats()["out_waiting"] == 0, "acknowledgements")
    bridge.kill()
    listener.end()
    came, went = texts(samples), listener.payloads()
    missing = total - len(set(came))
    print(f"QoS {qos}: {len(came)} came, {missing} missing, {len(went)} went")
    if qos == 1:
        assert missing == 0
    else:
        assert len(came) == len(set(came)), "QoS 2 has doubled a message into Zenoh"
        assert missing <= bridge.uncertain <= kills * 64
        assert len(went) == total, "QoS 2 has doubled a message to the broker"


def test_a_cut_on_the_side_of_the_broker_loses_nothing(broker, hub, start):
    relay = brokers.Relay(broker.port)
    _, samples = collected(hub, "in/**")
    listener = broker.listen("out/#")
    bridge = start(f"mqtt://127.0.0.1:{relay.port}", Rule("in/#", qos=1), Rule("out/#", qos=2))
    for round_ in range(2):
        for number in range(100):
            hub.put("out/x", f"{round_}-{number}")
        relay.cut()
        eventually(lambda: not bridge.stats()["connected"], "the cut")
        for number in range(100, 200):
            hub.put("out/x", f"{round_}-{number}")
        broker.publish("in/x", *(f"{round_}-{number}" for number in range(100)))
        relay.mend()
        bridge.wait_connected()
    expected = {f"{round_}-{number}" for round_ in range(2) for number in range(200)}
    eventually(lambda: set(listener.payloads()) == expected, "messages at the broker", within=20)
    eventually(lambda: len(set(texts(samples))) == 200, "messages in Zenoh", within=20)
    assert len(listener.payloads()) == len(expected), "QoS 2 has doubled a message"
    assert bridge.flush()
    relay.end()
    listener.end()


def test_a_cut_on_the_side_of_zenoh_loses_nothing_with_qos_1(broker, hub, start):
    relay = brokers.Relay(int(hub.listening()[0].rpartition(":")[2]))
    session = nodes.opened("client", connect=[f"tcp/127.0.0.1:{relay.port}"])
    _, samples = collected(hub, "in/**")
    bridge = start(broker.url, Rule("in/#", qos=1), session=session)
    broker.publish("in/x", *range(100))
    eventually(lambda: len(samples) >= 100, "messages in Zenoh")
    relay.cut()
    broker.publish("in/x", *range(100, 200))
    assert len(set(texts(samples))) == 100
    relay.mend()
    eventually(lambda: len(set(texts(samples))) == 200, "messages after the cut", within=20)
    assert bridge.stats()["in_uncertain"] == 0


def test_a_broker_that_was_restarted_has_the_session(broker, hub, start):
    _, samples = collected(hub, "**")
    bridge = start(broker.url, Rule("a/#"))
    broker.stop()
    hub.put("a/x", "while it was away")
    eventually(lambda: bridge.stats()["out_waiting"] == 1, "the sample in the spool")
    broker.start()
    listener = broker.listen("a/#")
    bridge.wait_connected()
    assert bridge.flush()
    broker.publish("a/y", "again")
    eventually(lambda: "again" in texts(samples), "the message")
    listener.end()


def test_a_slow_broker_fills_the_spool_and_no_memory(broker, hub, start, tmp_path):
    relay = brokers.Relay(broker.port)
    bridge = start(f"mqtt://127.0.0.1:{relay.port}", Rule("a", qos=1), window=10, spool_bytes=4 << 20)
    relay.moving.clear()
    for number in range(4000):
        hub.put("a", str(number).encode() * 1000, congestion_control=zenoh.CongestionControl.BLOCK)
    folder = tmp_path / "bridge"
    eventually(lambda: spool.open(folder).end()[0] == 4000, "the spool")

    def size():
        octets = 0
        for file in folder.rglob("*"):
            # Retention deletes files meanwhile.
            with contextlib.suppress(FileNotFoundError):
                octets += file.stat().st_size
        return octets

    eventually(lambda: size() < 8 << 20, "the bound of the spool")
    relay.moving.set()
    assert bridge.flush(20)
    stats = bridge.stats()
    assert stats["out_acked"] + stats["out_expired"] == 4000, stats
    assert stats["out_expired"] > 0, stats
    relay.end()


def test_a_slow_zenoh_side_holds_the_messages_at_the_broker(broker, hub, start):
    relay = brokers.Relay(int(hub.listening()[0].rpartition(":")[2]))
    session = nodes.opened("client", connect=[f"tcp/127.0.0.1:{relay.port}"])
    _, samples = collected(hub, "in/**")
    bridge = start(broker.url, Rule("in/#", qos=1), session=session, window=20)
    broker.publish("in/x", "first")
    eventually(lambda: len(samples) == 1, "the first message")
    relay.moving.clear()
    broker.publish("in/x", *range(500))
    time.sleep(0.3)
    # No more than the window leaves the broker.
    assert bridge.stats()["in_received"] <= 21
    relay.moving.set()
    eventually(lambda: len(set(texts(samples))) == 501, "all messages", within=20)
    relay.end()


def test_a_message_with_qos_2_is_put_once(hub, start):
    octets = brokers.Octets()
    _, samples = collected(hub, "**")
    bridge = start(octets.url, wait=False)
    link = octets.accept()
    link.send(brokers.publish("a", b"1", qos=2, number=5))
    assert link.wait_for(5) == (0x50, b"\x00\x05")
    link.send(brokers.publish("a", b"1", qos=2, number=5, dup=True))
    assert link.wait_for(5) == (0x50, b"\x00\x05")
    link.end()
    # The session is there: the broker asks again on the next connection.
    octets.answer = b"\x20\x03\x01\x00\x00"
    link = octets.accept()
    link.send(brokers.publish("a", b"1", qos=2, number=5, dup=True))
    assert link.wait_for(5) == (0x50, b"\x00\x05")
    link.send(b"\x62\x02\x00\x05")
    assert link.wait_for(7) == (0x70, b"\x00\x05")
    # The identifier is free.
    link.send(brokers.publish("a", b"2", qos=2, number=5))
    assert link.wait_for(5) == (0x50, b"\x00\x05")
    # The router has the message, its subscriber a moment later.
    eventually(lambda: "2" in texts(samples), "the second message")
    assert texts(samples) == ["1", "2"]
    assert bridge.stats()["in_uncertain"] == 0
    link.end()
    octets.end()


def test_a_message_that_is_asked_again_while_it_is_put_is_acknowledged(hub, start):
    octets = brokers.Octets()
    relay = brokers.Relay(int(hub.listening()[0].rpartition(":")[2]))
    _, samples = collected(hub, "**")
    session = nodes.opened("client", connect=[f"tcp/127.0.0.1:{relay.port}"])
    bridge = start(octets.url, wait=False, session=session)
    link = octets.accept()
    link.wait_for(8)
    relay.moving.clear()
    link.send(brokers.publish("a", b"1", qos=2, number=5))
    eventually(lambda: bridge.stats()["in_put"] == 1, "the put")
    link.end()
    octets.answer = b"\x20\x03\x01\x00\x00"
    link = octets.accept()
    link.wait_for(8)
    link.send(brokers.publish("a", b"1", qos=2, number=5, dup=True))
    eventually(lambda: bridge.stats()["in_received"] == 2, "the second time")
    relay.moving.set()
    assert link.wait_for(5) == (0x50, b"\x00\x05")
    # The first one a second time would come before the next one.
    link.send(brokers.publish("a", b"2", qos=2, number=6))
    assert link.wait_for(5) == (0x50, b"\x00\x06")
    eventually(lambda: "2" in texts(samples), "the next message")
    assert texts(samples) == ["1", "2"]
    assert bridge.stats()["in_uncertain"] == 0
    link.end()
    octets.end()
    relay.end()


def test_a_bridge_is_connected_once_the_broker_has_answered_its_subscriptions(start):
    """Before that the broker would keep no message for it, if the connection broke."""
    octets = brokers.Octets()
    bridge = start(octets.url, *(Rule(f"a/{number}") for number in range(33)), wait=False)

    def is_connected(link):
        # The bridge acknowledges what no rule lets pass when it has processed all packets before.
        link.send(brokers.publish("other", b"", qos=1, number=1))
        assert link.wait_for(4) == (0x40, b"\x00\x01")
        return bridge.stats()["connected"]

    for connection in range(2):
        link = octets.accept()
        first, second = (link.wait_for(8)[1][:2] for _ in range(2))
        assert not is_connected(link)
        link.send(brokers.packet(0x90, first + b"\x00" + b"\x01" * 32))
        link.send(brokers.packet(0x90, first + b"\x00" + b"\x01" * 32))
        assert not is_connected(link)
        link.send(brokers.packet(0x90, second + b"\x00\x87"))
        bridge.wait_connected()
        stats = bridge.stats()
        assert stats["connections"] == connection + 1
        assert 'the subscription to "a/32", reason 0x87' in stats["problem"]
        link.end()
        eventually(lambda: not bridge.stats()["connected"], "the end of the connection")
    octets.end()


def test_a_broker_that_answers_no_subscription_is_named(start):
    octets = brokers.Octets()
    bridge = start(octets.url, wait=False)
    link = octets.accept()
    number = link.wait_for(8)[1][:2]
    eventually(lambda: bridge.stats()["problem"], "the reason", within=30)
    assert "has not answered the subscriptions" in bridge.stats()["problem"]
    assert not bridge.stats()["connected"]
    link.send(brokers.packet(0x90, number + b"\x00\x01"))
    bridge.wait_connected()
    assert bridge.stats()["problem"] is None
    link.end()
    octets.end()


@pytest.mark.parametrize(("limit", "rule"), [(b"\x24\x01", {"qos": 2}), (b"\x25\x00", {"retain": True})])
def test_a_broker_without_what_a_rule_asks_for_ends_the_bridge(start, limit, rule):
    octets = brokers.Octets(b"\x20\x05\x00\x00\x02" + limit)
    bridge = start(octets.url, Rule("a", **rule), wait=False)
    link = octets.accept()
    with pytest.raises(errors.ConnectError, match=r"rule \"a\".*ended"):
        bridge.wait_connected()
    link.end()
    octets.end()


def test_a_message_with_qos_2_to_the_broker_keeps_its_identifier(hub, start, tmp_path):
    octets = brokers.Octets()
    start(octets.url, Rule("a", qos=2), wait=False)
    link = octets.accept()
    link.wait_for(8)
    hub.put("a", "1")
    first, body = link.wait_for(3)
    assert first == 0x34
    number = body[3:5]
    link.end()
    octets.answer = b"\x20\x03\x01\x00\x00"
    link = octets.accept()
    assert link.wait_for(3) == (0x3C, body)
    link.send(b"\x50\x02" + number)
    assert link.wait_for(6) == (0x62, number)
    link.end()
    # The broker has the message: it is not sent again.
    link = octets.accept()
    link.wait_for(8)
    assert link.packet() == (0x62, number)
    link.send(b"\x70\x02" + number)
    hub.put("a", "2")
    first, body = link.wait_for(3)
    assert (first, struct.unpack(">H", body[3:5])[0]) == (0x34, struct.unpack(">H", number)[0] + 1)
    link.end()
    octets.end()


def test_what_the_broker_refuses_is_counted(hub, start):
    octets = brokers.Octets()
    bridge = start(octets.url, Rule("a", qos=1), wait=False)
    link = octets.accept()
    link.wait_for(8)
    hub.put("a", "1")
    _, body = link.wait_for(3)
    link.send(b"\x40\x03" + body[3:5] + b"\x87")
    eventually(lambda: bridge.stats()["out_refused"] == 1, "the count")
    assert bridge.flush()
    link.end()
    octets.end()


@pytest.mark.parametrize("code", [0x84, 0x85, 0x86, 0x87])
def test_a_broker_that_refuses_the_bridge_ends_it(start, code):
    octets = brokers.Octets(bytes([0x20, 3, 0, code, 0]))
    bridge = start(octets.url, wait=False)
    octets.accept().end()
    with pytest.raises(errors.ConnectError, match=f"{code:#x}"):
        bridge.wait_connected()
    octets.end()


def test_users_and_certificates(tmp_path, hub, start):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("broker")
    passwords = tmp_path / "passwords"
    subprocess.run(
        [brokers.program("mosquitto_passwd"), "-c", "-b", passwords, "plant", "secret"], check=True
    )
    port = nodes.free_port()
    lines = [
        f"listener {port} 127.0.0.1",
        f"certfile {certificate}",
        f"keyfile {key}",
        f"password_file {passwords}",
        "allow_anonymous false",
    ]
    broker = brokers.Broker(tmp_path / "broker", lines=lines)
    _, samples = collected(hub, "**")
    url = f"mqtts://127.0.0.1:{port}"
    bridge = start(url, Rule("a"), tls=MqttTls(authority.file), user="plant", password="secret")
    bridge.close()
    refused = start(
        url, Rule("a"), wait=False, client_id="x", tls=MqttTls(authority.file), user="plant", password="no"
    )
    with pytest.raises(errors.ConnectError, match="user or password"):
        refused.wait_connected()
    del samples
    broker.end()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"client_id": "a b"}, "client_id"),
        ({"window": 0}, "window"),
        ({"prefix": "a/**"}, "prefix"),
        ({"version": "4"}, "4"),
        ({"durability": "none"}, "none"),
        ({"password": "x"}, "password"),
        ({"tls": MqttTls("/none")}, "ca"),
    ],
)
def test_a_wrong_option_is_named(hub, tmp_path, options, name):
    options = {"client_id": "c", "spool": tmp_path / "spool", **options}
    with pytest.raises(errors.UsageError, match=name):
        MqttBridge(hub, "mqtt://127.0.0.1:1", [Rule("a")], **options)
    with pytest.raises(errors.UsageError, match=r"rules\[0\]"):
        MqttBridge(hub, "mqtt://127.0.0.1:1", [Rule("a#")], client_id="c", spool=tmp_path / "spool")


def test_the_blocks_of_the_guide_run(broker, tmp_path, monkeypatch):
    page, port = "docs/guide/mqtt.md", nodes.free_port()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(brokers.program('mosquitto')).parent}{os.pathsep}{os.environ['PATH']}")
    blocks = snippets.blocks(page)
    assert [block.language for block in blocks] == ["console", "console", *["python", "text"] * 2]
    with snippets.Runner(page) as runner:
        for block in blocks:
            block.text = block.text.replace("1883", str(broker.port)).replace("7447", str(port))
            if block.language == "console":
                command, _, expected = block.text.removeprefix("$ ").partition("\n")
                more = (
                    f" --listen tcp/127.0.0.1:{port}" if "router" in command else f" -e tcp/127.0.0.1:{port}"
                )
                runner.start(command + more, expected)
            elif block.language == "python":
                runner.run(block)
            else:
                assert runner.printed == block.text
