"""A broker of MQTT for tests: mosquitto on the loopback, its clients, and a broker octet by octet."""

import contextlib
import json
import os
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest

from nodes import free_port

PATIENCE = 15.0
"""Seconds within which a program answers, on a busy machine."""

VERSIONS = {"3.1.1": "311", "5": "5"}
"""Versions of MQTT as mosquitto's clients name them."""

READY = "$SYS/broker/version"


def program(name):
    """Path of a program of mosquitto; skips without."""
    folder = os.environ.get("ZWIRE_BROKER")
    if not folder:
        pytest.skip("ZWIRE_BROKER names no folder (`make test-interop` fills one)")
    reason = Path(folder) / "mosquitto.missing"
    if reason.exists():
        pytest.skip(f"mosquitto: {reason.read_text().strip()}")
    return str(Path(folder) / name)


class Broker:
    """mosquitto, which keeps sessions over restarts."""

    def __init__(self, folder, *, lines=(), port=None):
        folder.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        self.config = folder / "mosquitto.conf"
        user = "user root\n" if os.getuid() == 0 else ""
        self.config.write_text(
            f"{user}listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
            f"persistence_location {folder}/\nmax_queued_messages 0\nmax_inflight_messages 1000\n"
            "autosave_interval 0\n" + "".join(f"{line}\n" for line in lines)
        )
        self.log = folder / "log"
        self.start()

    @property
    def url(self):
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self):
        with self.log.open("a") as log:
            command = [program("mosquitto"), "-c", str(self.config)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.01)

    def stop(self):
        """End it as an operator does: it writes its sessions."""
        self.process.terminate()
        self.process.wait(PATIENCE)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)

    def publish(self, topic, *payloads, qos=1, version="5", retain=False, properties=(), whole=False):
        """Publish lines with one client; or one text as a whole."""
        command = [
            program("mosquitto_pub"),
            "-p",
            str(self.port),
            "-t",
            topic,
            "-q",
            str(qos),
            "-V",
            VERSIONS[version],
        ]
        command += ["-r"] if retain else []
        for words in properties:
            command += ["-D", "publish", *words]
        # With lines of its input, mosquitto_pub waits 0.2 s before it ends.
        whole = whole or len(payloads) == 1
        text = str(payloads[0]) if whole else "".join(f"{payload}\n" for payload in payloads)
        done = subprocess.run(
            [*command, "-s" if whole else "-l"],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def listen(self, *topics, **options):
        return Listener(self, topics, **options)


class Listener:
    """mosquitto_sub: messages as it prints them, in their order.

    With QoS 2 its release 2.0.11 closes the connection when many messages come at once.
    """

    def __init__(self, broker, topics, *, qos=1, version="5"):
        command = [
            program("mosquitto_sub"),
            "-p",
            str(broker.port),
            "-q",
            str(qos),
            "-V",
            VERSIONS[version],
            "-F",
            "%j",
        ]
        # The last one is retained by the broker: once it comes, the others are subscribed.
        for topic in (*topics, READY):
            command += ["-t", topic]
        self.messages = []
        self.ready = threading.Event()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        assert self.ready.wait(PATIENCE), "mosquitto_sub has not subscribed"

    def _read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if message["topic"] == READY:
                self.ready.set()
            else:
                self.messages.append(message)

    def payloads(self):
        return [message["payload"] for message in list(self.messages)]

    def end(self):
        self.process.kill()
        self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        self.process.stdout.close()


class Relay:
    """TCP in the middle: it can be cut, and can stop taking octets."""

    def __init__(self, port):
        self.target = port
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.open = threading.Event()
        self.open.set()
        self.moving = threading.Event()
        self.moving.set()
        self.pairs = []
        self.accepting = threading.Thread(target=self._accept, daemon=True)
        self.accepting.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.server.accept()
                if not self.open.is_set():
                    near.close()
                    continue
                try:
                    far = socket.create_connection(("127.0.0.1", self.target), PATIENCE)
                except OSError:
                    near.close()
                    continue
                self.pairs.append((near, far))
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.moving.wait()
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def cut(self):
        """Break all connections, and refuse new ones."""
        self.open.clear()
        for pair in self.pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        self.pairs.clear()

    def mend(self):
        self.open.set()

    def end(self):
        self.moving.set()
        with contextlib.suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self.accepting.join(PATIENCE)
        self.cut()


class Octets:
    """The side of a broker, octet by octet: accepts one client after another."""

    def __init__(self, answer=b"\x20\x03\x00\x00\x00"):
        self.answer = answer
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(PATIENCE)
        self.port = self.server.getsockname()[1]

    @property
    def url(self):
        return f"mqtt://127.0.0.1:{self.port}"

    def accept(self):
        """The next client, after its CONNECT, the answer, and SUBSCRIBE."""
        client, _ = self.server.accept()
        client.settimeout(PATIENCE)
        link = OctetsLink(client)
        link.connect = link.packet()
        assert link.connect[0] == 0x10
        link.send(self.answer)
        return link

    def end(self):
        self.server.close()


class OctetsLink:
    """A client of ours, as its broker sees it."""

    def __init__(self, stream):
        self.stream = stream

    def send(self, octets):
        self.stream.sendall(octets)

    def _exactly(self, count):
        read = b""
        while len(read) < count:
            part = self.stream.recv(count - len(read))
            assert part, "the client closed"
            read += part
        return read

    def packet(self):
        """The first octet and the body of the next packet."""
        kind, length, shift = self._exactly(1)[0], 0, 0
        while True:
            octet = self._exactly(1)[0]
            length |= (octet & 0x7F) << shift
            shift += 7
            if not octet & 0x80:
                return kind, self._exactly(length)

    def wait_for(self, kind):
        """The body of the next packet of a kind; others are passed over."""
        end = time.monotonic() + PATIENCE
        while True:
            # Pings come also if the client has nothing else to send.
            assert time.monotonic() < end, f"no packet of kind {kind} within {PATIENCE} s"
            first, body = self.packet()
            if first >> 4 == kind:
                return first, body

    def end(self):
        self.stream.close()


def packet(kind, body):
    """A packet with its length."""
    length = len(body)
    head = bytearray([kind])
    while True:
        head.append(length & 0x7F | (0x80 if length > 0x7F else 0))
        length >>= 7
        if not length:
            return bytes(head) + body


def publish(topic, payload, *, qos=0, number=0, dup=False, retain=False):
    """PUBLISH of MQTT 5 without properties."""
    topic = topic if isinstance(topic, bytes) else topic.encode()
    head = struct.pack(">H", len(topic)) + topic + (struct.pack(">H", number) if qos else b"")
    return packet(0x30 | dup << 3 | qos << 1 | retain, head + b"\x00" + payload)
