"""Nodes of ZRE and their events."""

from typing import assert_type

from zwire import zre


def node() -> None:
    with zre.Node("a", headers={"X": "1"}, interval=0.5, generations=["20", "36"]) as it:
        assert_type(it, zre.Node)
        assert_type(it.whisper("0" * 32, "x"), zre.Delivery)
        shouted = it.shout("CHAT", ["x", b"y"], patience=1.0)
        assert_type(shouted, zre.Shouted)
        assert_type(shouted.peers, dict[str, zre.Delivery])
        assert_type(it.wait_for_peers(1, timeout=2, group="CHAT"), list[str])
        assert_type(it.peer_header("0" * 32, "X"), str | None)
        assert_type(it.shout_many("CHAT", ["x"]), zre.Sent)
        it.whisper("0" * 32, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        it.join(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    zre.Node("a", zre.Config(interval=0.5))


def events(it: zre.Node) -> None:
    for event in it:
        assert_type(event, zre.Event)
        match event:
            case zre.Enter():
                assert_type(event.headers, dict[str, str])
            case zre.Shout(group="CHAT"):
                assert_type(event.content, list[bytes])
            case zre.MessagesLost():
                assert_type(event.lost, int)
            case _:
                event.content  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    assert_type(it.try_recv(), zre.Event | None)
    assert_type(it.recv_many(3, timeout=1), list[zre.Event])


async def asynchronously(it: zre.Node) -> None:
    async for event in it:
        assert_type(event, zre.Event)


def logging() -> None:
    with zre.LogCollector("tcp://127.0.0.1:*") as log:
        assert_type(log.recv(timeout=1), zre.LogRecord)
    assert_type(zre.keypair(), tuple[str, str])
