"""Sockets of libzmq and of zwire that do what `zwire.conformance.zmtp` asks of a target."""

import contextlib
import functools
import itertools
import threading
import time

import zmq

from zwire import errors, zmtp

USER = ("robot", "Secret")
# The key pair of the server in zmtp-15.9.
SERVER_SECRET = bytes(range(0x20, 0x40))
SERVER_KEY = "hgP.#hDUHSUiE^h?&P6wi8P5^Qk?rT(1ek&+[:+/"
HANDSHAKE = 2.0

LIBZMQ = {
    "REP": zmq.REP,
    "ROUTER": zmq.ROUTER,
    "DEALER": zmq.DEALER,
    "PUB": zmq.PUB,
    "XPUB": zmq.XPUB,
    "SUB": zmq.SUB,
    "XSUB": zmq.XSUB,
    "PULL": zmq.PULL,
    "PUSH": zmq.PUSH,
    "PAIR": zmq.PAIR,
}
ZWIRE = {"ROUTER": zmtp.Router, "DEALER": zmtp.Dealer, "PUB": zmtp.Pub, "SUB": zmtp.Sub}

OPTIONS = {
    "NULL": {},
    "PLAIN": {"username": USER[0], "password": USER[1]},
    "CURVE": {"server_key": SERVER_KEY},
}


@contextlib.contextmanager
def target(of, kind, mechanism="NULL", **settings):
    """Endpoint and options for a run, of a target of "libzmq" or "zwire"."""
    with {"libzmq": libzmq, "zwire": zwire}[of](kind, mechanism, **settings) as endpoint:
        yield endpoint.replace("://", "/"), {"handshake_timeout": HANDSHAKE, **OPTIONS[mechanism]}


@contextlib.contextmanager
def libzmq(kind, mechanism="NULL", **settings):
    """Endpoint of a socket of libzmq."""
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(zmq.Context())
        if mechanism != "NULL":
            zap = stack.enter_context(context.socket(zmq.REP))
            zap.linger = 0
            zap.bind("inproc://zeromq.zap.01")
            stack.enter_context(
                _running("REP", _of_libzmq(zap), lambda asked: zap.send_multipart(_allowed(asked)))
            )
        socket = stack.enter_context(context.socket(LIBZMQ[kind]))
        socket.linger = 0
        socket.sndtimeo = 200
        socket.handshake_ivl = int(HANDSHAKE * 1000)
        if mechanism == "PLAIN":
            socket.plain_server = True
        elif mechanism == "CURVE":
            socket.curve_server = True
            socket.curve_secretkey = SERVER_SECRET
            socket.curve_publickey = SERVER_KEY.encode()
        for name, value in settings.items():
            setattr(socket, name, value)
        if kind == "SUB":
            socket.subscribe(b"conformance")
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        if kind == "XSUB":
            socket.send(b"\1conformance")
        stack.enter_context(_running(kind, _of_libzmq(socket), socket.send_multipart))
        yield f"tcp://127.0.0.1:{port}"


@contextlib.contextmanager
def zwire(kind, mechanism="NULL", **settings):
    """Endpoint of a socket of zwire."""
    if mechanism == "PLAIN":
        right = tuple(text.encode() for text in USER)
        settings |= {"plain": True, "authenticator": lambda *asked: asked[2] == right}
    elif mechanism == "CURVE":
        settings |= {"secret_key": SERVER_SECRET}
    if kind == "SUB":
        settings["subscribe"] = b"conformance"
    with ZWIRE[kind](handshake_timeout=HANDSHAKE, **settings) as socket:
        endpoint = socket.bind("tcp://127.0.0.1:*")
        with _running(kind, _of_zwire(socket), functools.partial(socket.send, timeout=0.2)):
            yield endpoint


def _allowed(asked):
    """Reply of ZAP to a request."""
    version, request, _domain, _address, _identity, mechanism, *credentials = asked
    right = mechanism == b"CURVE" or [text.decode("latin-1") for text in credentials] == list(USER)
    return [version, request, b"200" if right else b"400", b"", b"", b""]


def _of_libzmq(socket):
    def receive(seconds):
        return socket.recv_multipart() if socket.poll(seconds * 1000) else None

    return receive


def _of_zwire(socket):
    def receive(seconds):
        try:
            return socket.recv(timeout=seconds)
        except errors.TimedOut:
            return None

    return receive


@contextlib.contextmanager
def _running(kind, receive, send):
    """The application of a target, in a thread."""
    stop = threading.Event()
    loop = {"REP": _echo, "ROUTER": _echo, "DEALER": _echo, "PUB": _publish, "XPUB": _publish, "PUSH": _push}
    failed = []

    def run():
        try:
            loop.get(kind, _drop)(kind, stop, receive, send)
        except Exception as error:  # noqa: BLE001 - the test that uses the target shows it
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)
        assert not thread.is_alive(), f"the {kind} does not stop"
        assert not failed, f"the {kind} failed: {failed}"


def _echo(_kind, stop, receive, send):
    while not stop.is_set():
        if message := receive(0.05):
            # A DEALER without a connection waits for one, which would keep it from stopping.
            with contextlib.suppress(zmq.Again, errors.TimedOut):
                send(message)


def _publish(kind, stop, receive, send):
    numbers = itertools.count(1)
    while not stop.is_set():
        if kind == "XPUB":
            while message := receive(0):
                send([b"events", message[0]])
        send([b"conformance", b"%d" % next(numbers)])
        stop.wait(0.04)


def _push(_kind, stop, _receive, send):
    number = 1
    while not stop.is_set():
        with contextlib.suppress(zmq.Again):
            send([b"%d" % number])
            number += 1
        time.sleep(0.002)


def _drop(_kind, stop, receive, _send):
    while not stop.is_set():
        receive(0.05)
