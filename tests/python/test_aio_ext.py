"""Advanced publishers and subscribers on event loops."""

from __future__ import annotations

import anyio

from loops import PATIENCE, everywhere, pair, text
from zwire.aio import ext
from zwire.zenoh.ext import CacheConfig, HistoryConfig, MissDetectionConfig, RecoveryConfig


@everywhere
async def test_a_late_subscriber_gets_what_was_kept_and_what_comes():
    async with pair() as (near, far):
        detection = MissDetectionConfig(heartbeat=0.5)
        async with ext.declare_advanced_publisher(
            far, "a/b", cache=CacheConfig(10), sample_miss_detection=detection, publisher_detection=True
        ) as publisher:
            for i in range(5):
                await publisher.put(str(i))
            await far.ready(PATIENCE)
            subscriber = await ext.declare_advanced_subscriber(
                near,
                "a/*",
                history=HistoryConfig(detect_late_publishers=True),
                recovery=RecoveryConfig(heartbeat=True),
            )
            await subscriber.wait_ready(PATIENCE)
            await publisher.wait_matching(timeout=PATIENCE)
            await publisher.put("5")
            misses = subscriber.sample_miss_listener()
            with anyio.fail_after(PATIENCE):
                assert [text(await subscriber.recv()) for _ in range(6)] == list("012345")
            assert misses.try_recv() is None
            assert str((await subscriber.detect_publishers(history=True).recv(PATIENCE)).key_expr)
            await subscriber.undeclare()


@everywhere
async def test_its_callback_is_a_coroutine():
    got, came = [], anyio.Event()

    async def seen(sample):
        got.append(text(sample))
        came.set()

    async with pair() as (near, far):
        subscriber = ext.declare_advanced_subscriber(near, "a", seen)
        await subscriber.wait_ready(PATIENCE)
        await far.put("a", "1")
        with anyio.fail_after(PATIENCE):
            await came.wait()
    assert got == ["1"]
