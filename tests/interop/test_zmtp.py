"""Sockets of zwire with libzmq at the other end, through pyzmq."""

import collections
import os
import signal
import socket as sockets
import struct
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest
import zmq
from zmq.auth.thread import ThreadAuthenticator

from nodes import eventually
from zwire import errors, zmtp

ANY = "tcp://127.0.0.1:*"
WAIT = 10
MIB = 1 << 20


class Zmq:
    """Sockets of libzmq that do not outlive their test."""

    def __init__(self):
        self.context = zmq.Context()
        self.sockets = []

    def open(self, kind, **options):
        socket = self.context.socket(kind)
        socket.linger = 0
        socket.rcvtimeo = socket.sndtimeo = 1000 * WAIT
        for name, value in options.items():
            setattr(socket, name, value)
        self.sockets.append(socket)
        return socket

    def bound(self, kind, **options):
        socket = self.open(kind, **options)
        return socket, f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"

    def monitor(self, socket):
        """Monitor the events of its connections."""
        monitor = socket.get_monitor_socket()
        monitor.rcvtimeo = 100
        self.sockets.append(monitor)
        return monitor

    def end(self):
        for socket in self.sockets:
            socket.close(0)
        self.context.term()


@pytest.fixture
def theirs():
    made = Zmq()
    yield made
    made.end()


def join(ours, other, binder):
    """Connect one to the other."""
    if binder == "ours":
        other.connect(ours.bind(ANY))
    else:
        ours.connect(f"tcp://127.0.0.1:{other.bind_to_random_port('tcp://127.0.0.1')}")


def wait_for_event(socket, kind):
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        for event in socket.events(timeout=0.1):
            if event.type == kind:
                return event
    pytest.fail(f"no {kind}")


binders = pytest.mark.parametrize("binder", ["ours", "theirs"])
SIZES = [0, 1, 255, 256, 4096, 70_000, MIB]


@binders
def test_our_dealer_and_their_router(theirs, binder):
    router = theirs.open(zmq.ROUTER)
    with zmtp.Dealer(identity=b"ours") as dealer:
        join(dealer, router, binder)
        for size in SIZES:
            dealer.send([b"head", os.urandom(size), b""], timeout=WAIT)
            identity, head, body, empty = router.recv_multipart()
            assert (identity, head, len(body), empty) == (b"ours", b"head", size, b"")
            router.send_multipart([identity, body, b"back"])
            assert dealer.recv(timeout=WAIT) == [body, b"back"]


@binders
def test_our_router_and_their_dealer(theirs, binder):
    dealer = theirs.open(zmq.DEALER, identity=b"theirs")
    anonymous = theirs.open(zmq.DEALER)
    with zmtp.Router(mandatory=True) as router:
        join(router, dealer, binder)
        for size in SIZES:
            body = os.urandom(size)
            dealer.send_multipart([body, b"", b"x"])
            assert router.recv(timeout=WAIT) == [b"theirs", body, b"", b"x"]
            router.send([b"theirs", b"re", body], timeout=WAIT)
            assert dealer.recv_multipart() == [b"re", body]
        with pytest.raises(errors.Unreachable) as caught:
            router.send([b"nobody", b"x"])
        assert caught.value.identity == b"nobody"
        join(router, anonymous, binder)
        anonymous.send(b"who am I?")
        identity, _ = router.recv(timeout=WAIT)
        assert identity[0] == 0
        assert len(identity) == 5
        router.send([identity, b"somebody"])
        assert anonymous.recv() == b"somebody"


@pytest.mark.parametrize(
    ("dealers", "runs"),
    [
        (300, 4),
        pytest.param(300, 25, marks=pytest.mark.long),
        pytest.param(2000, 25, marks=[pytest.mark.long, pytest.mark.timeout(600)]),
    ],
)
def test_a_fleet_that_connects_at_once_loses_nothing(dealers, runs):
    """More dealers than handshakes that may be in progress: libzmq completes one with the READY it gets."""
    for _ in range(runs):
        fleet = Zmq()
        fleet.context.set(zmq.MAX_SOCKETS, 2 * dealers)
        with zmtp.Router() as router:
            endpoint = router.bind(ANY)
            sockets = [fleet.open(zmq.DEALER, identity=b"%d" % number) for number in range(dealers)]
            for socket in sockets:
                socket.connect(endpoint)
            for socket in sockets:
                socket.send(b"first")
                socket.send(b"second")
            got = collections.Counter(router.recv(timeout=WAIT)[0] for _ in range(2 * dealers))
            assert set(got.values()) == {2}
        fleet.end()


@binders
def test_our_pub_and_their_sub(theirs, binder):
    sub = theirs.open(zmq.SUB)
    sub.subscribe(b"temp")
    with zmtp.Pub() as pub:
        join(pub, sub, binder)
        sub.rcvtimeo = 20

        def published():
            pub.send([b"temp/hello", b""])
            try:
                return sub.recv_multipart()
            except zmq.Again:
                return None

        eventually(published)
        sub.rcvtimeo = 300
        pub.send_many(
            [[b"humidity", b"1"], [b"temp", b"2"], [b"tem", b"3"], [b"temperature", os.urandom(MIB)]]
        )
        got = []
        while not got or got[-1][0] != b"temperature":
            got.append(sub.recv_multipart())
        assert [frames[0] for frames in got if frames[0] != b"temp/hello"] == [b"temp", b"temperature"]
        assert len(got[-1][1]) == MIB
        sub.unsubscribe(b"temp")
        eventually(lambda: not published())


@binders
def test_our_sub_and_their_pub(theirs, binder):
    pub = theirs.open(zmq.PUB)
    with zmtp.Sub([b"temp", b"a"]) as sub:
        join(sub, pub, binder)

        def published(topic=b"temp"):
            pub.send_multipart([topic, b"x"])
            try:
                return sub.recv(timeout=0.02)
            except errors.TimedOut:
                return None

        eventually(published)
        while sub.recv_many(100, timeout=0.1):
            pass
        pub.send(b"humidity")
        pub.send_multipart([b"a", os.urandom(MIB)])
        assert len(sub.recv(timeout=WAIT)[1]) == MIB
        assert sub.stats()["received.ignored"] == 0, "the publisher filters for a peer of 3.1"
        assert sub.unsubscribe("temp")
        eventually(lambda: not published())
        with pytest.raises(errors.UsageError):
            sub.send(b"x")


COUNT = 100_000


def numbers():
    return [b"%08d" % n for n in range(COUNT)]


def test_a_hundred_thousand_of_ours_in_order(theirs):
    router, endpoint = theirs.bound(zmq.ROUTER)
    with zmtp.Dealer() as dealer:
        dealer.connect(endpoint)
        sender = threading.Thread(target=lambda: dealer.send_many(numbers(), timeout=WAIT))
        sender.start()
        assert [router.recv_multipart()[1] for _ in range(COUNT)] == numbers()
        sender.join()


def test_a_hundred_thousand_of_ours_one_by_one(theirs):
    router, endpoint = theirs.bound(zmq.ROUTER)

    def send():
        with zmtp.Dealer(linger=WAIT) as dealer:
            dealer.connect(endpoint)
            for number in numbers():
                dealer.send(number, timeout=WAIT)

    sender = threading.Thread(target=send)
    sender.start()
    assert [router.recv_multipart()[1] for _ in range(COUNT)] == numbers()
    sender.join()


def test_a_hundred_thousand_of_theirs_in_order(theirs):
    dealer = theirs.open(zmq.DEALER)
    with zmtp.Router() as router:
        dealer.connect(router.bind(ANY))

        def send():
            for number in numbers():
                dealer.send(number)

        sender = threading.Thread(target=send)
        sender.start()
        got = []
        while len(got) < COUNT:
            batch = pa.record_batch(router.recv_batch(timeout=WAIT))
            assert batch.num_rows
            got += batch["frames"].flatten().to_pylist()
        sender.join()
        assert got == numbers()


def send_until(exception, send):
    """Send until that is raised; how often it was not."""
    for sent in range(10_000):
        try:
            send(sent)
        except exception:
            return sent
    return pytest.fail(f"no {exception}")


def test_a_full_queue_says_so_and_holds_the_sender(theirs):
    dealer, endpoint = theirs.bound(zmq.DEALER, rcvhwm=1)
    body = bytes(MIB)
    with zmtp.Dealer(high_water_mark=3) as ours:
        ours.connect(endpoint, wait=WAIT)
        sent = send_until(errors.QueueFull, lambda _: ours.send(body, timeout=0))
        # What was written meanwhile has made room.
        sent += send_until(errors.TimedOut, lambda _: ours.send(body, timeout=0.3))
        got = 0
        while got < sent:
            assert len(dealer.recv()) == MIB
            got += 1
        ours.send(b"again", timeout=WAIT)
        assert dealer.recv() == b"again"


def test_a_full_inbox_holds_libzmq(theirs):
    dealer = theirs.open(zmq.DEALER, sndhwm=1, sndtimeo=300)
    with zmtp.Router(high_water_mark=10) as router:
        dealer.connect(router.bind(ANY))
        body = bytes(100_000)
        sent = send_until(zmq.Again, lambda n: dealer.send(b"%d" % n + body))
        assert router.stats()["received.waiting"] < 30
        for n in range(sent):
            assert router.recv(timeout=WAIT)[1].startswith(b"%d" % n)


FREEZER = """
import sys, zmq
socket = zmq.Context().socket(zmq.ROUTER)
print(socket.bind_to_random_port("tcp://127.0.0.1"), flush=True)
while True:
    socket.send_multipart(socket.recv_multipart())
"""


def test_a_frozen_peer_is_given_up_and_comes_back():
    peer = subprocess.Popen([sys.executable, "-c", FREEZER], stdout=subprocess.PIPE, text=True)
    try:
        endpoint = f"tcp://127.0.0.1:{int(peer.stdout.readline())}"
        with zmtp.Dealer(heartbeat=0.1, reconnect=0.05) as dealer:
            dealer.connect(endpoint, wait=WAIT)
            dealer.send(b"hello")
            assert dealer.recv(timeout=WAIT) == [b"hello"]
            # Ten heartbeats of silence of the application, and all is well.
            assert not [event for event in dealer.events(timeout=1) if event.type == "DISCONNECTED"]
            time.sleep(0.5)
            assert not [event for event in dealer.events() if event.type == "DISCONNECTED"]
            peer.send_signal(signal.SIGSTOP)
            event = wait_for_event(dealer, "DISCONNECTED")
            assert event.reason == "silent"
            assert isinstance(event.error, errors.LinkClosed)
            peer.send_signal(signal.SIGCONT)
            wait_for_event(dealer, "CONNECTED")
            dealer.send(b"again")
            assert dealer.recv(timeout=WAIT) == [b"again"]
    finally:
        peer.kill()
        peer.wait()
        peer.stdout.close()


def test_we_answer_the_heartbeats_of_libzmq(theirs):
    dealer = theirs.open(zmq.DEALER, heartbeat_ivl=50, heartbeat_timeout=200, heartbeat_ttl=500)
    with zmtp.Router(heartbeat=None) as router:
        dealer.connect(router.bind(ANY))
        wait_for_event(router, "CONNECTED")
        assert not router.events(timeout=1)


def test_both_come_back_after_a_restart(theirs):
    router, endpoint = theirs.bound(zmq.ROUTER)
    dealer = theirs.open(zmq.DEALER)
    with zmtp.Dealer(identity=b"ours", reconnect=0.05) as ours:
        ours.connect(endpoint, wait=WAIT)
        router.close(0)
        wait_for_event(ours, "DISCONNECTED")
        ours.send(b"meanwhile")
        again = theirs.open(zmq.ROUTER)
        eventually(lambda: _bound(again, endpoint))
        assert again.recv_multipart() == [b"ours", b"meanwhile"]
    with zmtp.Router() as first:
        endpoint = first.bind(ANY)
        dealer.connect(endpoint)
        wait_for_event(first, "CONNECTED")
    with zmtp.Router() as second:
        second.bind(endpoint)
        wait_for_event(second, "CONNECTED")
        dealer.send(b"hello")
        assert second.recv(timeout=WAIT)[1:] == [b"hello"]


def _bound(socket, endpoint):
    try:
        socket.bind(endpoint)
    except zmq.ZMQError:
        return False
    return True


def test_libzmq_never_finds_fault_with_us(theirs):
    """A protocol error makes a connecting libzmq give up for good."""
    dealer = theirs.open(zmq.DEALER, reconnect_ivl=20)
    monitor = theirs.monitor(dealer)
    endpoint = None
    for n in range(5):
        with zmtp.Router(linger=0) as router:
            endpoint = router.bind(endpoint or ANY)
            if n == 0:
                dealer.connect(endpoint)
            wait_for_event(router, "CONNECTED")
            dealer.send(b"%d" % n)
            identity, body = router.recv(timeout=WAIT)
            assert body == b"%d" % n
            router.send([identity, os.urandom(300_000)])
    from zmq.utils.monitor import recv_monitor_message

    faults = []
    end = time.monotonic() + 0.5
    while monitor.poll(100) and time.monotonic() < end:
        event = recv_monitor_message(monitor)["event"]
        if event in (zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL, zmq.EVENT_HANDSHAKE_FAILED_AUTH):
            faults.append(event)
    dealer.disable_monitor()
    assert not faults


@pytest.fixture
def zap(theirs):
    """Their authenticator."""
    authenticator = ThreadAuthenticator(theirs.context)
    authenticator.start()
    yield authenticator
    authenticator.stop()


def test_curve_with_us_as_client(theirs, zap):
    zap.configure_curve(domain="*", location=zmq.auth.CURVE_ALLOW_ANY)
    public, secret = zmq.curve_keypair()
    router, endpoint = theirs.bound(
        zmq.ROUTER, curve_server=True, curve_secretkey=secret, curve_publickey=public
    )
    _, own = zmtp.keypair()
    with zmtp.Dealer(identity=b"ours", secret_key=own, server_key=public) as dealer:
        dealer.connect(endpoint, wait=WAIT)
        for size in SIZES:
            dealer.send([b"x", bytes(size)])
            assert router.recv_multipart() == [b"ours", b"x", bytes(size)]
            router.send_multipart([b"ours", bytes(size)])
            assert dealer.recv(timeout=WAIT) == [bytes(size)]
    wrong, _ = zmtp.keypair()
    with zmtp.Dealer(secret_key=own, server_key=wrong, linger=0) as dealer:
        with pytest.raises(errors.AuthenticationError) as caught:
            dealer.connect(endpoint, wait=WAIT)
        assert caught.value.endpoint == endpoint
        assert caught.value.reason == "not-understood"
        assert wait_for_event(dealer, "FAILED").reason == "not-understood"
        dealer.send(b"waits for a server that it can talk to")


def test_curve_with_us_as_server(theirs):
    public, secret = zmtp.keypair()
    good, bad = zmq.curve_keypair(), zmq.curve_keypair()
    asked = []

    def authenticator(mechanism, address, credentials):
        asked.append((mechanism, address, credentials))
        return zmq.utils.z85.encode(credentials[0]) == good[0]

    with zmtp.Router(secret_key=secret, authenticator=authenticator) as router:
        endpoint = router.bind(ANY)
        dealer = theirs.open(
            zmq.DEALER, curve_serverkey=public.encode(), curve_publickey=good[0], curve_secretkey=good[1]
        )
        dealer.connect(endpoint)
        for size in SIZES:
            dealer.send(bytes(size))
            identity, body = router.recv(timeout=WAIT)
            assert len(body) == size
            router.send([identity, bytes(size)])
            assert dealer.recv() == bytes(size)
        assert asked[0][:2] == ("CURVE", "127.0.0.1")
        stranger = theirs.open(
            zmq.DEALER, curve_serverkey=public.encode(), curve_publickey=bad[0], curve_secretkey=bad[1]
        )
        stranger.connect(endpoint)
        event = wait_for_event(router, "FAILED")
        assert event.reason == "denied"
        assert isinstance(event.error, errors.AuthenticationError)
        lost = theirs.open(
            zmq.DEALER, curve_serverkey=bad[0], curve_publickey=good[0], curve_secretkey=good[1]
        )
        lost.connect(endpoint)
        assert wait_for_event(router, "FAILED").reason == "key"


def test_plain_both_ways(theirs, zap):
    zap.configure_plain(domain="*", passwords={"robot": "secret"})
    router, endpoint = theirs.bound(zmq.ROUTER, plain_server=True)
    with zmtp.Dealer(identity=b"ours", plain=("robot", "secret")) as dealer:
        dealer.connect(endpoint, wait=WAIT)
        dealer.send(b"x")
        assert router.recv_multipart() == [b"ours", b"x"]
    with zmtp.Dealer(plain=("robot", "password"), linger=0) as dealer:
        with pytest.raises(errors.AuthenticationError) as caught:
            dealer.connect(endpoint, wait=WAIT)
        assert caught.value.reason == "refused"
        # It was told so, and does not wait for ever.
        with pytest.raises(errors.AuthenticationError):
            dealer.send(b"x")
    with zmtp.Router(plain=True, authenticator=lambda *asked: asked[2] == (b"robot", b"secret")) as ours:
        endpoint = ours.bind(ANY)
        right = theirs.open(zmq.DEALER, plain_username=b"robot", plain_password=b"secret")
        right.connect(endpoint)
        right.send(b"x")
        assert ours.recv(timeout=WAIT)[1] == b"x"
        wrong = theirs.open(zmq.DEALER, plain_username=b"robot", plain_password=b"password")
        wrong.connect(endpoint)
        assert wait_for_event(ours, "FAILED").reason == "denied"


def test_who_cannot_meet_is_told(theirs):
    _, pub = theirs.bound(zmq.PUB)
    _, plain = theirs.bound(zmq.ROUTER, plain_server=True)
    with zmtp.Dealer(linger=0) as dealer:
        # libzmq closes without a word, often before its own READY is there.
        with pytest.raises(errors.HandshakeError) as caught:
            dealer.connect(pub, wait=1)
        assert caught.value.reason in {"socket-type", "closed-in-handshake"}
        with pytest.raises(errors.HandshakeError) as caught:
            dealer.connect(plain, wait=WAIT)
        assert caught.value.reason == "mechanism"
        with pytest.raises(errors.ConnectError) as caught:
            dealer.connect("tcp://127.0.0.1:1", wait=0.3)
        assert type(caught.value) is errors.ConnectError


def test_handover_to_a_dealer_that_comes_again(theirs):
    with zmtp.Router(handover=True) as router:
        endpoint = router.bind(ANY)
        first = theirs.open(zmq.DEALER, identity=b"robot", reconnect_ivl=-1)
        first.connect(endpoint)
        wait_for_event(router, "CONNECTED")
        second = theirs.open(zmq.DEALER, identity=b"robot")
        second.connect(endpoint)
        assert wait_for_event(router, "HANDED_OVER").identity == b"robot"
        router.send([b"robot", b"x"])
        assert second.recv() == b"x"


@pytest.mark.parametrize("version", ["3.0", "3.1"])
def test_older_versions_are_spoken(theirs, version):
    sub = theirs.open(zmq.SUB)
    sub.subscribe(b"")
    sub.rcvtimeo = 50
    with zmtp.Pub(version=version, heartbeat=0.05) as pub:
        sub.connect(pub.bind(ANY))

        def published():
            pub.send(b"x")
            try:
                return sub.recv() == b"x"
            except zmq.Again:
                return False

        eventually(published)


def test_a_peer_of_2_0_by_hand():
    """Octets of `zmtp` 13.1; no such library is left to test with."""
    with zmtp.Router() as router:
        host, port = router.bind(ANY).removeprefix("tcp://").split(":")
        with sockets.create_connection((host, int(port)), timeout=WAIT) as peer:
            peer.sendall(b"\xff" + bytes(8) + b"\x7f\x01\x05\x00\x02me\x01\x02hi\x00\x01x")
            assert router.recv(timeout=WAIT) == [b"me", b"hi", b"x"]
            router.send([b"me", b"back"])
            got = b""
            while not got.endswith(b"\x00\x04back"):
                got += peer.recv(100)
            assert got[10:13] == b"\x03\x06\x00" or got[9] == 0x7F


def test_a_claim_of_four_gib_ends_its_connection_only(theirs):
    dealer = theirs.open(zmq.DEALER)
    with zmtp.Router() as router:
        endpoint = router.bind(ANY)
        dealer.connect(endpoint)
        host, port = endpoint.removeprefix("tcp://").split(":")
        with sockets.create_connection((host, int(port)), timeout=WAIT) as rude:
            ready = b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
            rude.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48) + ready)
            rude.sendall(b"\x02" + struct.pack(">Q", 4 << 30) + bytes(1000))
            end = time.monotonic() + WAIT
            try:
                while rude.recv(65536):
                    assert time.monotonic() < end
            except ConnectionError:
                pass
        assert wait_for_event(router, "DISCONNECTED").reason == "protocol"
        dealer.send(b"unharmed")
        assert router.recv(timeout=WAIT)[1] == b"unharmed"
