"""Peers that break the rules, against `zwire router` as a process of its own, while others go on.

Each test has a publisher and a subscriber that run through the hub all the time. Whatever the rude peer
does: they lose nothing, the hub's memory stays bounded, and the hub answers newcomers.
"""

import contextlib
import functools
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import nodes
import raw
from raw import PATIENCE, batch, closes, ended, pushed, receive, vle
from zwire import zenoh

pytestmark = pytest.mark.slow

MIB = 1024  # in KiB, as the kernel counts
# What the hub may grow by: queues of a few MiB per destination, buffers, and what the allocator keeps.
GROWTH_KIB = 64 * MIB


class Hub:
    """`zwire router` on a free port."""

    def __init__(self, *settings, address_space=None):
        options = [option for setting in settings for option in ("--cfg", setting)]
        command = [sys.executable, "-m", "zwire", "router", "--listen", "tcp/127.0.0.1:0", *options]
        if address_space is not None:
            command = ["/bin/sh", "-c", f'ulimit -v {address_space // 1024}; exec "$@"', "sh", *command]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.endpoint = self.process.stdout.readline().strip()
        self.address = raw.address_of(self.endpoint)

    def kib(self, field):
        """``VmRSS``: resident now; ``VmHWM``: at most so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith(field + ":"))
        return int(line.split()[1])

    def descriptors(self):
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            _, complaints = self.process.communicate(timeout=10)
        finally:
            self.process.kill()
        assert self.process.returncode == 0, complaints
        assert "panicked" not in complaints, complaints


def client(hub, **settings):
    return nodes.opened("client", connect=[hub.endpoint], **settings)


eventually = functools.partial(nodes.eventually, within=PATIENCE)


class Calm:
    """A publisher and a subscriber, each a client of the hub; numbered messages all the time."""

    def __init__(self, hub):
        self.hub = hub
        self.got = []
        self.sent = 0
        self.longest = 0.0
        self.stop = threading.Event()
        self.sender, self.receiver = client(hub), client(hub)
        self.receiver.declare_subscriber(
            "calm", lambda sample: self.got.append(int(sample.payload.to_string()))
        )
        self.publisher = self.sender.declare_publisher(
            "calm", congestion_control=zenoh.CongestionControl.BLOCK
        )
        eventually(lambda: self.publisher.matching_status.matching, "the subscription")
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stop.wait(0.002):
            start = time.monotonic()
            self.publisher.put(str(self.sent))
            self.longest = max(self.longest, time.monotonic() - start)
            self.sent += 1

    def check(self):
        """Everything arrives, in order; a newcomer is served."""
        already = self.sent
        eventually(lambda: self.sent > already + 20, "the publisher goes on")
        self.stop.set()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        with client(self.hub) as late:
            late.put("calm", "-1", congestion_control=zenoh.CongestionControl.BLOCK)
            with late.declare_queryable("late", lambda query: query.reply("late", "yes")):
                replies = [reply.ok.payload.to_string() for reply in late.get("late", timeout=5)]
            assert replies == ["yes"]
        eventually(lambda: -1 in self.got, "the newcomer's message")
        eventually(lambda: len(self.got) > self.sent, "every message")
        assert [n for n in self.got if n >= 0] == list(range(self.sent))

    def end(self):
        self.stop.set()
        self.thread.join(PATIENCE)
        self.sender.close()
        self.receiver.close()


@contextlib.contextmanager
def undisturbed(*settings, growth_kib=GROWTH_KIB, address_space=None):
    """A hub and calm traffic; the body is rude."""
    hub = Hub(*settings, address_space=address_space)
    try:
        calm = Calm(hub)
        try:
            before = hub.kib("VmRSS")
            yield hub
            calm.check()
            assert hub.kib("VmHWM") - before < growth_kib
            # The rude peers cost no other node time either.
            assert calm.longest < 2
        finally:
            calm.end()
    finally:
        hub.end()


def connect(hub):
    return raw.connect(hub.address)


def introduce(hub):
    return raw.introduce(hub.address)


def test_random_bytes():
    randomness = random.Random(7)
    with undisturbed() as hub:
        for number in range(60):
            with connect(hub) as stream:
                junk = randomness.randbytes(randomness.randrange(1, 20_000))
                # Also as what looks like a batch, and after a handshake.
                pushed(stream, batch(junk) if number % 2 else junk)
        for _ in range(20):
            with introduce(hub) as stream:
                for _ in range(20):
                    pushed(stream, batch(randomness.randbytes(randomness.randrange(1, 3_000))))


def test_half_a_handshake():
    init = b"\xc1\x09\x32\x01\x02\x03\x04\x0a\xff\xff\x81\x27\x01"
    with undisturbed("transport/unicast/accept_timeout:500") as hub, contextlib.ExitStack() as held:
        streams = []
        for cut in range(1, len(batch(init)) + 1):
            stream = held.enter_context(connect(hub))
            stream.sendall(batch(init)[:cut])
            streams.append(stream)
        # An answer was given, and nothing follows it; a cookie never issued; an OPEN before any INIT.
        for opening in (b"\x42\x0a\x05\x04abcd", b"\x02\x0a\x05\x00", b"\x43", b"\x04"):
            stream = held.enter_context(connect(hub))
            stream.sendall(batch(opening))
            streams.append(stream)
        for stream in streams:
            assert closes(stream)


@pytest.mark.parametrize("introduced", [False, True], ids=["before", "after"])
def test_a_length_without_body(introduced):
    settings = ["transport/unicast/accept_timeout:500", "transport/link/tx/lease:1000"]
    with undisturbed(*settings) as hub, contextlib.ExitStack() as held:
        before = hub.kib("VmRSS")
        for prefix in (b"\xff\xff", b"\x01\x00", b"\xff\xff\x25", b"\x00\x00", b"\x10"):
            for _ in range(20):
                stream = held.enter_context(introduce(hub) if introduced else connect(hub))
                stream.sendall(prefix)
        time.sleep(0.7)
        # A claimed length is no reason to hold its room: 100 of them would be 6.4 MiB twice over.
        assert hub.kib("VmRSS") - before < 32 * MIB


def test_thousands_of_connections_that_never_speak():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10_000, hard - 500)
    assert count >= 2_000, f"ulimit -Hn is {hard}: too low for this test"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 400), hard))
    try:
        with undisturbed() as hub, contextlib.ExitStack() as held:
            for number in range(count):
                stream = held.enter_context(socket.socket())
                stream.settimeout(PATIENCE)
                stream.connect(hub.address)
                if number % 1000 == 999:
                    # In their midst a newcomer gets in.
                    client(hub).close()
            # It keeps only so many of them.
            assert hub.descriptors() < 500
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


LENGTH = b"\xff\xff\xff\xff\x0f"
CLAIMS = {
    "payload": b"\x25\x05\x7d\x00\x01a\x01" + LENGTH + b"abc",
    "key": b"\x25\x05\x7d\x00" + LENGTH + b"a\x01\x01x",
    "attachment": b"\x25\x05\x7d\x00\x01a\x81\x43" + LENGTH + b"abc",
    "unknown extension": b"\x25\x05\xfd\x00\x01a\x4f" + LENGTH + b"abc",
    "payload of 2^64": b"\x25\x05\x7d\x00\x01a\x01" + b"\xff" * 9 + b"abc",
    "link state": b"\x25\x05\x5f\x01\x05" + LENGTH,
    "declared key": b"\xa5\x05\x31\x00\x3e\x62\x01\x00" + LENGTH + b"abc",
}


def test_claims_of_four_gigabytes():
    with undisturbed() as hub:
        for claim in CLAIMS.values():
            for _ in range(10):
                with introduce(hub) as stream:
                    stream.sendall(batch(claim))
                    # Only what is no link state has to end the link.
                    assert claim is CLAIMS["link state"] or closes(stream)
        # Before the handshake: a cookie of that length.
        with connect(hub) as stream:
            stream.sendall(batch(b"\x42\x0a\x05" + LENGTH + b"abc"))
            assert closes(stream)


def test_a_message_without_end():
    """Fragment after fragment, beyond the bound of what is put together."""
    bound = 16 * 1024 * 1024
    piece = bytes(60_000)
    with undisturbed(f"transport/link/rx/max_message_size:{bound}") as hub, contextlib.ExitStack() as held:
        for share in (2.5, 2.5, 0.9):
            stream = held.enter_context(introduce(hub))
            for number in range(5, 5 + int(share * bound) // len(piece)):
                first = number == 5
                header = (b"\xe6" if first else b"\x66") + vle(number) + (b"\x02" if first else b"")
                pushed(stream, batch(header + piece))


def test_fragments_where_memory_is_scarce():
    """Twelve links each collect a message of 60 MB in a process that has 900 MB of address space."""
    piece = bytes(60_000)
    with (
        undisturbed(address_space=900 << 20, growth_kib=300 * MIB) as hub,
        contextlib.ExitStack() as held,
    ):
        streams = [held.enter_context(introduce(hub)) for _ in range(12)]
        for number in range(5, 1005):
            first = number == 5
            header = (b"\xe6" if first else b"\x66") + vle(number) + (b"\x02" if first else b"")
            for stream in streams:
                pushed(stream, batch(header + piece))


def test_tens_of_thousands_of_tokens_cost_their_links_and_are_given_back():
    """Declared by six links, asked for by two that do not read; all leave at once."""
    with undisturbed("zwire/memory/limit:400000000", growth_kib=200 * MIB) as hub:
        # Pages of the program's file are no memory of its own: more of them are read with each new path.
        before, all_before = hub.kib("RssAnon"), hub.kib("VmRSS")
        with contextlib.ExitStack() as held:
            for link in range(6):
                stream = held.enter_context(introduce(hub))
                raw.Sender(stream).declare(raw.TOKEN, (f"t/{link}/{number}" for number in range(20_000)))
            for _ in range(2):
                raw.Sender(held.enter_context(introduce(hub))).send(raw.interest(1, raw.TOKENS))
            eventually(lambda: hub.kib("RssAnon") > before + 20 * MIB, "the tokens are kept")
        eventually(
            lambda: hub.kib("RssAnon") - before < 0.2 * all_before, "the memory is given back", within=10
        )


@pytest.mark.parametrize("congestion", ["DROP", "BLOCK"])
def test_a_client_that_never_reads(congestion):
    with undisturbed("transport/link/tx/lease:1000") as hub, client(hub) as flood:
        deaf = introduce(hub)
        # On Control: DECLARE D_SUBSCRIBER 1 with the full key.
        deaf.sendall(batch(b"\xa5\x05\x31\x00\x9e\x21\x08\x62\x01\x00\x05flood"))
        publisher = flood.declare_publisher(
            "flood", congestion_control=getattr(zenoh.CongestionControl, congestion)
        )
        eventually(lambda: publisher.matching_status.matching, "the deaf one's subscription")
        payload = bytes(60_000)
        # 60 MB, far more than sockets and queues hold; until it is thrown out, if it is.
        for _ in range(1_000):
            publisher.put(payload)
            if not publisher.matching_status.matching:
                break
        deaf.close()


def test_an_asker_that_never_reads():
    """Asks for large answers and takes none."""
    with undisturbed("transport/link/tx/lease:1000") as hub, client(hub) as answerer:
        answer = zenoh.ZBytes(bytes(100_000))
        asked = []

        def reply(query):
            asked.append(1)
            query.reply("large", answer)

        answerer.declare_queryable("large", reply)
        with client(hub) as polite:
            eventually(lambda: list(polite.get("large")), "an answer")
        deaf = introduce(hub)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for number in range(500):
                # REQUEST with the full key, QUERY without anything.
                request = b"\x7c" + vle(number) + b"\x00\x05large\x03"
                deaf.sendall(batch(b"\x25" + vle(5 + number) + request))
        eventually(lambda: len(asked) > 20, "it was asked")
        time.sleep(1)
        deaf.close()


def test_keys_that_are_slow_to_compare():
    """64 links that declare and publish keys of 4 KiB with many wildcards."""
    pattern = "**/" + "/".join(["a$*", "*"] * 660) + "/**/z"
    long = "/".join(["a"] * 2030)
    with undisturbed() as hub, contextlib.ExitStack() as held:
        links = [raw.Sender(held.enter_context(introduce(hub))) for _ in range(64)]
        # The first one stays just within the bound of all, and hears something when the hub has taken it in.
        links[0].declare(raw.SUBSCRIBER, [*(f"{pattern}0x{number}" for number in range(90)), "calm"])
        receive(links[0].stream)
        for number in range(32, 64):
            links[number].declare(raw.SUBSCRIBER, (f"{pattern}{number}x{at}" for at in range(120)))
        assert all(closes(link.stream) for link in links[32:])
        left = links[:32]
        for number in range(40):
            for at, link in enumerate(left):
                link.stream.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    link.send(raw.put(f"{number}x{at}/{long}"))
            time.sleep(0.05)
        assert not any(ended(link.stream) for link in left[1:3])


def test_many_who_come_and_go():
    with undisturbed() as hub:
        before = hub.descriptors()
        for number in range(300):
            stream = introduce(hub)
            stream.sendall(batch(b"\xa5\x05\x31\x00\x9e\x21\x08\x62\x01\x00\x04calm"))
            if number % 3 == 0:
                # CLOSE before leaving, or leaving at once, or with a reset.
                stream.sendall(batch(b"\x03\x00"))
            elif number % 3 == 1:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            stream.close()
        eventually(lambda: hub.descriptors() <= before, "their descriptors are released")
