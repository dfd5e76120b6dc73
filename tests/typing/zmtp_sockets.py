"""Sockets of ZeroMQ."""

from typing import assert_type

from zwire import zenoh, zmtp


def sockets() -> None:
    with zmtp.Router(mandatory=True) as router, zmtp.Dealer(identity=b"d", linger=None) as dealer:
        assert_type(dealer.connect(router.bind("tcp://127.0.0.1:*"), wait=5), str)
        dealer.send("one frame")
        dealer.send([b"a", "b"], timeout=1)
        assert_type(router.recv(timeout=1), list[bytes])
        assert_type(router.recv(copy=False), list[zenoh.ZBytes])
        assert_type(router.recv_many(10), list[list[bytes]])
        assert_type(router.recv_many(10, copy=False), list[list[zenoh.ZBytes]])
        assert_type(dealer.send_many([[b"a"], [b"b"]]), int)
        for frames in router:
            assert_type(frames, list[bytes])
        for event in router.events(timeout=0):
            assert_type(event, zmtp.Event)
            assert_type(event.reason, str | None)
        dealer.send(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    zmtp.Dealer(hwm=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    zmtp.Dealer(heartbeat="5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    zmtp.Sub(["a", b"b"], high_water_mark=(1000, 10))
    zmtp.Pub(plain=("user", "password"))
    assert_type(zmtp.options(), dict[str, object])
