"""``zwire.zmtp`` alone: what a user sees, and what rude peers cost."""

import collections
import contextlib
import gc
import os
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nodes import eventually
from zwire import errors, zmtp

ANY = "tcp://127.0.0.1:*"
WAIT = 10


@pytest.fixture
def pair():
    with zmtp.Router() as router, zmtp.Dealer(identity=b"d") as dealer:
        dealer.connect(router.bind(ANY), wait=WAIT)
        yield router, dealer


def address(endpoint):
    host, port = endpoint.removeprefix("tcp://").split(":")
    return host, int(port)


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        (b"x", [b"x"]),
        ("é", ["é".encode()]),
        (bytearray(b"x"), [b"x"]),
        (memoryview(b"xyz")[1:], [b"yz"]),
        (np.arange(3, dtype="<u2"), [b"\0\0\1\0\2\0"]),
        ([b"a", "b", b""], [b"a", b"b", b""]),
        ((b"a", b"b"), [b"a", b"b"]),
        (bytes(1 << 20), [bytes(1 << 20)]),
        ([b"head", bytes(300_000)], [b"head", bytes(300_000)]),
    ],
    ids=["bytes", "text", "bytearray", "memoryview", "array", "list", "tuple", "large", "large in a list"],
)
def test_messages_arrive_as_they_were_sent(pair, sent, got):
    router, dealer = pair
    dealer.send(sent, timeout=WAIT)
    assert router.recv(timeout=WAIT) == [b"d", *got]
    dealer.send_many([sent, sent], timeout=WAIT)
    assert [router.recv(timeout=WAIT) for _ in range(2)] == 2 * [[b"d", *got]]


def test_what_is_no_message_is_an_error(pair):
    router, dealer = pair
    with pytest.raises(TypeError):
        dealer.send(5)
    with pytest.raises(TypeError):
        dealer.send([b"a", None])
    with pytest.raises(errors.InvalidValue):
        dealer.send([])
    with pytest.raises(errors.InvalidValue):
        router.send(b"identity and nothing else")
    with pytest.raises(TypeError):
        dealer.send_many(b"not a list")
    with pytest.raises(ValueError, match="timeout"):
        dealer.recv(timeout=-1)
    with pytest.raises(TypeError, match="list<binary>"):
        dealer.send_many(pa.array([1, 2]))
    with pytest.raises(ValueError, match="null"):
        dealer.send_many(pa.array([b"a", None]))
    with pytest.raises(ValueError, match="at least one frame"):
        dealer.send_many(pa.array([[b"a"], []], pa.list_(pa.binary())))


def test_nothing_in_time_is_said(pair):
    router, _ = pair
    with pytest.raises(errors.TimedOut) as caught:
        router.recv(timeout=0.02)
    assert caught.value.seconds == 0.02
    with pytest.raises(errors.TimedOut):
        router.recv(timeout=0)
    assert router.recv_many(10, timeout=0) == []
    assert pa.record_batch(router.recv_batch(timeout=0)).num_rows == 0


def test_large_frames_are_not_copied_on_request(pair):
    router, dealer = pair
    dealer.send([b"x", bytes(range(256)) * 4096], timeout=WAIT)
    identity, head, body = router.recv(timeout=WAIT, copy=False)
    assert (identity, bytes(head), len(body)) == (b"d", b"x", 1 << 20)
    assert np.frombuffer(body, np.uint8)[255::256].min() == 255


def test_arrow_both_ways(pair):
    router, dealer = pair
    rows = [b"%d" % n for n in range(5000)]
    assert dealer.send_many(pa.array(rows), timeout=WAIT) == 5000
    assert dealer.send_many(pa.array([[b"a", b"b"], [b"c"]], pa.large_list(pa.large_binary()))) == 2
    assert dealer.send_many(pa.array(["text"]), head=[b"h", b"i"]) == 1
    batches = []
    while sum(len(batch) for batch in batches) < 5003:
        batches.append(pa.record_batch(router.recv_batch(max_rows=2000, timeout=WAIT)))
        assert 0 < batches[-1].num_rows <= 2000
    table = pa.Table.from_batches(batches)
    assert table.schema.names == ["identity", "frames"]
    assert table["identity"].unique().to_pylist() == [b"d"]
    assert table["frames"].to_pylist() == [
        *([row] for row in rows),
        [b"a", b"b"],
        [b"c"],
        [b"h", b"i", b"text"],
    ]
    # At a router the identity is a head as well.
    assert router.send_many(pa.array([b"1", b"2"]), head=b"d") == 2
    assert dealer.recv_many(2, timeout=WAIT)[0] == [b"1"]
    large = os.urandom(1 << 20)
    dealer.send(large)
    assert pa.record_batch(router.recv_batch(timeout=WAIT))["frames"].to_pylist()[-1] == [large]


def test_options_are_checked():
    with pytest.raises(errors.ConfigError) as caught:
        zmtp.Dealer(high_water_marc=3)
    assert (caught.value.path, caught.value.nearest) == ("high_water_marc", "high_water_mark")
    public, secret = zmtp.keypair()
    for wrong in (
        {"identity": b"\0x"},
        {"identity": bytes(256)},
        {"high_water_mark": 0},
        {"heartbeat": -1.0},
        {"version": "2.0"},
        {"server_key": public},
        {"secret_key": "short"},
        {"secret_key": secret, "public_key": zmtp.keypair()[0]},
        {"secret_key": secret, "plain": ("a", "b")},
        {"plain": ("user", "x" * 256)},
        {"plain": "user"},
        {"plain": True},
        {"metadata": {"Identity": b"x"}},
    ):
        with pytest.raises(errors.ConfigError) as caught:
            zmtp.Dealer(**wrong)
        assert caught.value.path in {*wrong, "secret_key"}, wrong
    assert zmtp.options()["heartbeat"] == 5.0


def test_wrong_endpoints_are_errors_at_once(pair):
    router, dealer = pair
    for endpoint in ("tcp/127.0.0.1:1", "ipc://x", "tcp://127.0.0.1", "tcp://:1"):
        with pytest.raises(errors.InvalidValue):
            router.bind(endpoint)
        with pytest.raises(errors.InvalidValue):
            dealer.connect(endpoint)
    with pytest.raises(errors.InvalidValue):
        dealer.connect("tcp://*:1")
    with pytest.raises(errors.InvalidValue):
        dealer.disconnect("tcp://127.0.0.1:1")
    with pytest.raises(errors.ConnectError):
        zmtp.Router().bind(router.endpoints[0])


def test_each_socket_does_its_own(pair):
    _, dealer = pair
    with zmtp.Pub() as pub, zmtp.Sub() as sub:
        for wrong in (
            lambda: pub.recv(timeout=0),
            lambda: pub.recv_batch(timeout=0),
            lambda: sub.send(b"x"),
            lambda: dealer.subscribe(b""),
            lambda: pub.unsubscribe(b""),
        ):
            with pytest.raises(errors.UsageError):
                wrong()
        pub.send(b"to nobody")
        assert not sub.unsubscribe(b"never subscribed to")


def test_a_closed_socket_gives_what_has_come_and_then_says_so(pair):
    router, dealer = pair
    dealer.send_many([b"1", b"2"])
    eventually(lambda: router.stats()["received.waiting"] == 2)
    router.close()
    assert router.closed
    assert [frames[1] for frames in router] == [b"1", b"2"]
    for after in (router.recv, lambda: router.send([b"d", b"x"]), lambda: router.bind(ANY)):
        with pytest.raises(errors.UsageError):
            after()
    router.close()


def test_a_waiting_thread_hears_of_the_end():
    router = zmtp.Router()
    router.bind(ANY)
    raised = []

    def wait():
        try:
            router.recv()
        except errors.UsageError as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    router.close()
    thread.join(WAIT)
    assert len(raised) == 1


def test_linger_has_an_end():
    with zmtp.Dealer(linger=0.05) as dealer:
        dealer.connect("tcp://127.0.0.1:1")
        dealer.send(b"never arrives")
        start = time.monotonic()
    assert 0.04 < time.monotonic() - start < 2


def test_a_dropped_socket_is_closed():
    router = zmtp.Router()
    endpoint = router.bind(ANY)
    with zmtp.Dealer(reconnect=10) as dealer:
        dealer.connect(endpoint, wait=WAIT)
        del router
        gc.collect()
        eventually(lambda: dealer.connected == 0)


def test_a_forked_child_gets_an_error_and_the_parent_goes_on(pair):
    router, dealer = pair
    dealer.send(b"before")
    assert router.recv(timeout=WAIT) == [b"d", b"before"]
    child = os.fork()
    if child == 0:
        failed = 0
        for use in (
            lambda: dealer.send(b"x"),
            lambda: router.recv(timeout=0),
            router.stats,
            lambda: dealer.send_many([b"x"]),
        ):
            try:
                use()
            except errors.UsageError:
                failed += 1
        dealer.close()
        os._exit(0 if failed == 4 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    dealer.send(b"after")
    assert router.recv(timeout=WAIT) == [b"d", b"after"]


def test_an_authenticator_that_raises_lets_nobody_in(capfd):
    public, secret = zmtp.keypair()
    _, own = zmtp.keypair()

    def authenticator(mechanism, peer, credentials):
        raise RuntimeError("no database")

    with zmtp.Router(secret_key=secret, authenticator=authenticator) as router:
        endpoint = router.bind(ANY)
        unraisable = []
        old, sys.unraisablehook = sys.unraisablehook, unraisable.append
        try:
            with (
                zmtp.Dealer(secret_key=own, server_key=public) as dealer,
                pytest.raises(errors.AuthenticationError, match="500"),
            ):
                dealer.connect(endpoint, wait=WAIT)
        finally:
            sys.unraisablehook = old
        assert "no database" in str(unraisable[0].exc_value)
        unraisable.clear()


PLAIN = b"\xff" + bytes(8) + b"\x7f\x03\x00PLAIN" + bytes(47)
GUESS = b"\x05HELLO\x05guess\x05wrong"


def test_guessers_of_a_password_leave_others_their_turn():
    """Their handshakes wait for a slow authenticator, and for each other."""
    running, most = collections.Counter(), collections.Counter()

    def authenticator(mechanism, peer, credentials):
        running[peer] += 1
        most[peer] = max(most[peer], running[peer])
        time.sleep(0.3)
        running[peer] -= 1
        return credentials == (b"user", b"password")

    over = threading.Event()
    guesses = collections.deque()

    def guess(place):
        while not over.is_set():
            with contextlib.suppress(OSError):
                stream = socket.create_connection(place, timeout=1, source_address=("127.0.0.9", 0))
                guesses.append(stream)
                stream.sendall(PLAIN + b"\x04" + bytes([len(GUESS)]) + GUESS)
            if len(guesses) > 600:
                guesses.popleft().close()

    with zmtp.Router(plain=True, authenticator=authenticator) as router:
        endpoint = router.bind(ANY)
        thread = threading.Thread(target=guess, args=(address(endpoint),))
        thread.start()
        try:
            eventually(lambda: len(guesses) >= 500)
            for _ in range(3):
                start = time.monotonic()
                with zmtp.Dealer(plain=("user", "password")) as honest:
                    honest.connect(endpoint, wait=WAIT)
                assert time.monotonic() - start < 3
        finally:
            over.set()
            thread.join()
            for stream in guesses:
                stream.close()
    assert most["127.0.0.9"] <= 4
    assert most["127.0.0.1"] == 1


def test_a_recorded_handshake_of_curve_opens_nothing():
    """The octets of an accepted client, sent again, belong to keys that the server has dropped."""
    public, secret = zmtp.keypair()
    with zmtp.Router(secret_key=secret) as router, socket.create_server(("127.0.0.1", 0)) as proxy:
        place = address(router.bind(ANY))
        recorded = []

        def relay(source, sink, into):
            with contextlib.suppress(OSError):
                while piece := source.recv(65536):
                    into.append(piece)
                    sink.sendall(piece)

        with zmtp.Dealer(secret_key=zmtp.keypair()[1], server_key=public) as dealer:
            dealer.connect(f"tcp://127.0.0.1:{proxy.getsockname()[1]}")
            near, far = proxy.accept()[0], socket.create_connection(place)
            for pair in ((near, far, recorded), (far, near, [])):
                threading.Thread(target=relay, args=pair, daemon=True).start()
            dealer.send(b"once")
            assert router.recv(timeout=WAIT)[1:] == [b"once"]
        near.close()
        far.close()
        eventually(lambda: router.stats()["connected"] == 0)
        opened = router.stats()["connections"]
        for cut in (None, -1):
            with socket.create_connection(place, timeout=WAIT) as again:
                for piece in recorded[:cut]:
                    again.sendall(piece)
                    time.sleep(0.02)
                again.settimeout(WAIT)
                with contextlib.suppress(OSError):
                    while again.recv(4096):
                        pass
        assert router.stats()["connections"] == opened
        with pytest.raises(errors.TimedOut):
            router.recv(timeout=0.2)


@pytest.mark.parametrize("mechanism", [b"NULL", b"PLAIN", b"CURVE"])
def test_a_server_takes_no_other_mechanism_than_its_own(mechanism):
    """A client cannot do with less: without keys, or without a password."""
    servers = {
        b"PLAIN": {"plain": True, "authenticator": lambda *_: True},
        b"CURVE": {"secret_key": zmtp.keypair()[1]},
    }
    for name, settings in servers.items():
        if name == mechanism:
            continue
        with zmtp.Router(**settings) as router:
            place = address(router.bind(ANY))
            with socket.create_connection(place, timeout=WAIT) as stream:
                stream.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + mechanism.ljust(20, b"\0") + bytes(32))
                stream.sendall(ready() + b"\x00\x05stole")
                with contextlib.suppress(OSError):
                    while stream.recv(4096):
                        pass
            assert router.stats()["connections"] == 0
            with pytest.raises(errors.TimedOut):
                router.recv(timeout=0.1)


def test_stats_count_both_ways(pair):
    router, dealer = pair
    dealer.send_many([b"12345"] * 10)
    assert len(router.recv_many(10, timeout=WAIT)) >= 1
    eventually(lambda: router.stats()["received.messages"] == 10)
    # Octets are counted when the write has returned, and the router may have read them before that.
    eventually(lambda: dealer.stats()["sent.bytes"] == 70)
    stats = dealer.stats()
    assert (stats["sent.messages"], stats["sent.bytes"]) == (10, 70)
    assert stats["connected"] == stats["connections"] == 1
    assert router.identities() == [b"d"]


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48)


def ready(identity=b""):
    """READY of a DEALER."""
    body = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity"
    body += struct.pack(">I", len(identity)) + identity
    head = bytes([4, len(body)]) if len(body) < 256 else b"\x06" + struct.pack(">Q", len(body))
    return head + body


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_ten_thousand_mute_connections_harm_nobody(pair):
    router, dealer = pair
    host = address(router.endpoints[0])
    before = resident()
    kept = collections.deque()
    for n in range(10_000):
        peer = socket.create_connection(host, timeout=WAIT)
        # Mute, half a greeting, or a greeting and no READY.
        peer.sendall((b"", GREETING[:12], GREETING)[n % 3])
        kept.append(peer)
        if len(kept) > 500:
            kept.popleft().close()
        if n % 1000 == 0:
            dealer.send(b"%d" % n)
            assert router.recv(timeout=WAIT) == [b"d", b"%d" % n]
    grown = resident() - before
    for peer in kept:
        peer.close()
    assert grown < 32 << 20, f"{grown} bytes"
    dealer.send(b"still there")
    assert router.recv(timeout=WAIT) == [b"d", b"still there"]


def test_a_handshake_that_the_peer_may_have_completed_is_not_aborted():
    """A peer that has a READY may have sent messages with its own, and would lose them."""
    with zmtp.Router(max_handshakes=4) as router:
        host = address(router.bind("tcp://127.0.0.1:*"))
        with contextlib.ExitStack() as stack:
            promised = [stack.enter_context(socket.create_connection(host, timeout=WAIT)) for _ in range(20)]
            for peer in promised:
                peer.sendall(GREETING)
                # The greeting, and the READY of the router.
                got = b""
                while len(got) < len(GREETING) + 2:
                    got += peer.recv(1024)
            mute = [stack.enter_context(socket.create_connection(host, timeout=WAIT)) for _ in range(12)]
            # Of those that have said nothing, the oldest ones make room.
            for peer in mute[:8]:
                peer.settimeout(WAIT)
                with contextlib.suppress(ConnectionError):
                    while peer.recv(1024):
                        pass
            for number, peer in enumerate(promised):
                peer.sendall(ready(b"p%d" % number) + b"\x00\x02me")
            got = {tuple(router.recv(timeout=WAIT)) for _ in promised}
            assert got == {(b"p%d" % number, b"me") for number in range(20)}
            reasons = [event.reason for event in router.events(timeout=WAIT) if event.type == "FAILED"]
            assert reasons == ["too-many-handshakes"] * 8
            assert router.stats()["failures"] == 8


def test_rude_handshakes_cost_their_own_connection(pair):
    router, dealer = pair
    host = address(router.endpoints[0])
    for rude in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 4,
        os.urandom(500),
        GREETING.replace(b"NULL", b"null"),
        GREETING + b"\x06" + struct.pack(">Q", 1 << 40),
        GREETING + ready(bytes(300)),
        GREETING + ready().replace(b"DEALER", b"dealer"),
        GREETING + ready()[:-2],
        GREETING + ready() + b"\xff" * 100,
        GREETING + ready() + b"\x02" + struct.pack(">Q", 4 << 30),
    ):
        with socket.create_connection(host, timeout=WAIT) as peer:
            peer.sendall(rude)
            peer.shutdown(socket.SHUT_WR)
            try:
                while peer.recv(65536):
                    pass
            except ConnectionError:
                pass
    dealer.send(b"still there")
    assert router.recv(timeout=WAIT) == [b"d", b"still there"]


def test_a_wrong_identity_takes_nothing_from_its_owner(pair):
    router, dealer = pair
    # The router may see the end of the handshake later than the dealer.
    dealer.send([b"first"])
    assert router.recv(timeout=WAIT) == [b"d", b"first"]
    host = address(router.endpoints[0])
    with socket.create_connection(host, timeout=WAIT) as thief:
        thief.sendall(GREETING + ready(b"d") + b"\x00\x01x")
        try:
            while thief.recv(65536):
                pass
        except ConnectionError:
            pass
    router.send([b"d", b"for the owner"])
    assert dealer.recv(timeout=WAIT) == [b"for the owner"]
    # A first byte of 0 is the router's own, and tolerated from the network.
    with socket.create_connection(host, timeout=WAIT) as odd:
        odd.sendall(GREETING + ready(b"\0\0\0\0\1") + b"\x00\x01x")
        assert router.recv(timeout=WAIT) == [b"\0\0\0\0\1", b"x"]


def test_a_peer_is_given_up_when_it_asked_for_it(pair):
    router, _ = pair
    router.events()
    with socket.create_connection(address(router.endpoints[0]), timeout=WAIT) as peer:
        peer.sendall(GREETING + ready())
        time.sleep(0.1)
        # PING with a TTL of 0.3 s, and then nothing.
        peer.sendall(b"\x04\x07\x04PING\x00\x03")
        end = time.monotonic() + 3
        while "silent" not in {event.reason for event in router.events(timeout=0.1)}:
            assert time.monotonic() < end


def test_an_endpoint_has_only_so_many_connections():
    with zmtp.Router(max_connections=2) as router:
        endpoint = router.bind(ANY)
        dealers = [zmtp.Dealer(identity=b"%d" % n, reconnect=0.02) for n in range(3)]
        for dealer in dealers[:2]:
            dealer.connect(endpoint, wait=WAIT)
        eventually(lambda: router.connected == 2)
        dealers[2].connect(endpoint)
        dealers[2].send(b"when somebody has gone")
        end = time.monotonic() + WAIT
        while "too-many" not in {event.reason for event in router.events(timeout=0.1)}:
            assert time.monotonic() < end
        dealers[0].close()
        assert router.recv(timeout=WAIT) == [b"2", b"when somebody has gone"]
        for dealer in dealers:
            dealer.close()


def test_a_program_may_end_with_sockets_open():
    program = """
import threading, zwire.zmtp as zmtp
router, dealer = zmtp.Router(), zmtp.Dealer()
dealer.connect(router.bind("tcp://127.0.0.1:*"), wait=5)
dealer.send(b"x")
zmtp.Dealer(linger=None).connect("tcp://127.0.0.1:1")
threading.Thread(target=router.recv_many, args=(2,), daemon=True).start()
threading.Thread(target=lambda: [dealer.recv() for _ in range(3)], daemon=True).start()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_idle_connection_costs_little():
    count = 400
    with zmtp.Router() as router:
        host = address(router.bind(ANY))
        peers = []

        def connect(peers_wanted):
            while len(peers) < peers_wanted:
                peer = socket.create_connection(host, timeout=WAIT)
                peer.sendall(GREETING + ready() + b"\x00\x01x")
                peers.append(peer)
                router.recv(timeout=WAIT)

        connect(100)
        before = resident()
        connect(100 + count)
        per_connection = (resident() - before) / count
        for peer in peers:
            peer.close()
    assert per_connection < 10 * 1024, per_connection
