"""A get that is given up."""

import time

import zenoh

with zenoh.open(zenoh.Config.from_env()) as session:
    queryable = session.declare_queryable("slow")
    token = zenoh.CancellationToken()
    print(token.is_cancelled)
    print(list(session.get("nobody", cancellation_token=token)))
    replies = session.get("slow", timeout=8, cancellation_token=token)
    query = queryable.recv()
    start = time.monotonic()
    token.cancel()
    print(list(replies), token.is_cancelled, time.monotonic() - start < 1)
    query.drop()
    try:
        session.get("slow", cancellation_token=token)
    except zenoh.ZError:
        print("refused")
