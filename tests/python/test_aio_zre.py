"""Nodes of ZRE on event loops."""

from __future__ import annotations

import contextlib
import socket

import anyio
import pyarrow as pa
import pytest

from loops import PATIENCE, everywhere
from nodes import free_port
from zwire import zre
from zwire.aio import zre as aio
from zwire.errors import TimedOut, UsageError


def settings():
    """Settings of nodes that find only each other, on the loopback."""
    return {"interfaces": "lo", "interval": 0.1, "beacon_port": free_port(socket.SOCK_DGRAM)}


@contextlib.asynccontextmanager
async def nodes(**more):
    found = settings()
    async with aio.Node("one", found) as one, aio.Node("two", found, **more) as two:
        for node in (one, two):
            assert len(await node.wait_for_peers(1, PATIENCE)) == 1
        yield one, two


@everywhere
async def test_nodes_talk():
    async with nodes() as (one, two):
        assert one.running
        assert one.peers() == [two.uuid]
        assert isinstance(await one.recv(PATIENCE), zre.Enter)
        assert await two.join("CHAT")
        assert isinstance(await one.recv(PATIENCE), zre.Join)
        assert await two.whisper(one.uuid, "hello") == zre.Delivery.QUEUED
        assert await two.whisper(one.uuid, "hello", patience=1.0) == zre.Delivery.QUEUED
        assert (await two.whisper_many(one.uuid, ["x"] * 100)).queued == 100
        content = []
        while len(content) < 50:
            content += [event.content for event in await one.recv_many(10)]
        while len(content) < 102:
            content += pa.record_batch(await one.recv_batch(timeout=PATIENCE)).column("content").to_pylist()
        assert content == [[b"hello"]] * 2 + [[b"x"]] * 100
        assert (await one.shout("CHAT", "all")).queued == 1
        with pytest.raises(TimedOut):
            await one.wait_for_peers(2, 0.01)
        with anyio.move_on_after(0.01):
            await one.wait_for_peers(2)
    kinds = [event.type async for event in one]
    assert kinds[-1] == "STOP"
    with pytest.raises(UsageError):
        await one.recv()


@everywhere
async def test_events_go_to_a_coroutine():
    seen, stopped = [], anyio.Event()

    async def called(event):
        await anyio.lowlevel.checkpoint()
        seen.append(event.type)
        if event.type == "STOP":
            stopped.set()

    async with nodes(callback=called) as (one, two):
        await one.whisper(two.uuid, "hello")
        with pytest.raises(UsageError, match="callback"):
            await two.recv()
        while "WHISPER" not in seen:
            await anyio.lowlevel.checkpoint()
    with anyio.fail_after(PATIENCE):
        await stopped.wait()
    assert seen[:2] == ["ENTER", "WHISPER"]


@everywhere
async def test_the_other_node_can_be_iterated_over_in_any_loop():
    found = settings()
    async with zre.Node("one", found) as one, zre.Node("two", found) as two:
        await anyio.to_thread.run_sync(one.wait_for_peers, 1, PATIENCE)
        await anyio.to_thread.run_sync(two.wait_for_peers, 1, PATIENCE)
        two.whisper(one.uuid, "x")
        kinds = []
        async for event in one:
            kinds.append(event.type)
            if event.type == "WHISPER":
                break
    kinds += [event.type async for event in one]
    assert kinds == ["ENTER", "WHISPER", "EXIT", "STOP"]
