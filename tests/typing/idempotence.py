"""Filters of subscribers that may get things twice."""

from typing import assert_type
from uuid import UUID

from zwire import aio, zenoh
from zwire.idempotence import Filter, Identity, commit_key, receipt_key


def filters(session: zenoh.Session, sample: zenoh.Sample) -> None:
    once = Filter(max_ranges=100)
    assert_type(once.is_new(sample), bool)
    subscriber = session.declare_subscriber(commit_key("a", UUID(int=1)))
    assert_type(once.new(subscriber.recv_many(10)), list[zenoh.Sample])
    # pyarrow leaves its types open.
    once.batch(subscriber.recv_batch())  # pyright: ignore[reportUnknownMemberType]
    assert_type(once.receipts(session, "a"), zenoh.Queryable[None])
    assert_type(once.missing(sample.payload.to_bytes()), int)
    assert_type(once.stats(), dict[str, int])
    once.is_new(b"x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def on_event_loops(session: aio.Session, subscriber: aio.Subscriber) -> None:
    once = Filter()
    assert_type([sample async for sample in subscriber if once.is_new(sample)], list[zenoh.Sample])
    async with once.receipts(session, "a") as queryable:
        assert_type(queryable, aio.Queryable)


def identities(sample: zenoh.Sample) -> None:
    assert_type(Identity.of(sample), Identity | None)
    assert_type(Identity(UUID(int=1), 0, 0, 7).attachment(b"more"), bytes)
    assert_type(receipt_key("a"), str)
