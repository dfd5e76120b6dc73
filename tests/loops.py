"""Event loops for tests: each kind, and sessions on them."""

from __future__ import annotations

import functools

import anyio
import pytest

import nodes
from zwire import aio

PATIENCE = 10
ROUTER = nodes.settings("router", listen=nodes.LOCAL)
ALONE = nodes.settings("peer")
LOOPS = {
    "asyncio": {"backend": "asyncio"},
    "uvloop": {"backend": "asyncio", "backend_options": {"use_uvloop": True}},
    "trio": {"backend": "trio"},
}


def everywhere(test):
    """Run a test once on each kind of loop, within a time."""

    @pytest.mark.parametrize("loop", LOOPS)
    @functools.wraps(test)
    def run(loop):
        async def main():
            with anyio.fail_after(2 * PATIENCE):
                await test()

        anyio.run(main, **LOOPS[loop])

    # What pytest asks for is what `run` has.
    del run.__wrapped__
    return run


def pair():
    """Two clients of one router: publisher and subscriber are in different sessions, over a socket."""
    return _Pair()


class _Pair:
    async def __aenter__(self):
        self.hub = await aio.open(ROUTER)
        config = nodes.settings("client", connect=self.hub.listening())
        self.both = [await aio.open(config), await aio.open(config)]
        return self.both

    async def __aexit__(self, *_):
        for session in (*self.both, self.hub):
            await session.close()


def text(sample):
    return sample.payload.to_string()
