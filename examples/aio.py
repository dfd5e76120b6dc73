"""Publishes, receives, queries and answers in one event loop."""

import asyncio

import common

from zwire import aio

options = common.parser(__doc__)
args = options.parse_args()


async def answer(query: aio.Query) -> None:
    """Answer after a while; other queries are answered meanwhile."""
    await asyncio.sleep(0.01)
    await query.reply(args.key, "an answer")


async def main() -> None:
    """Run all of it at once."""
    async with (
        aio.open(common.config(args)) as session,
        session.declare_subscriber(args.key) as subscriber,
        session.declare_queryable(args.key, answer) as queryable,
    ):
        await subscriber.wait_ready(timeout=10)
        await queryable.wait_ready(timeout=10)
        for number in range(3):
            await session.put(args.key, f"value {number}")
        for sample in await subscriber.recv_many(3, timeout=10):
            print(f"{sample.key_expr}: {sample.payload.to_string()}")
        async for reply in session.get(args.key, timeout=10):
            if reply.ok is not None:
                print(f"{reply.ok.key_expr}: {reply.ok.payload.to_string()}")


asyncio.run(main())
