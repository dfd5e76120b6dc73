"""Prints values of a dataclass, in any format, and reports payloads that are none."""

from dataclasses import dataclass

import common

from zwire import typed


@dataclass
class Position:
    """A position."""

    x: float
    y: float = 0.0


options = common.parser(__doc__, key="demo/example/**")
common.add_count(options, "messages")
args = options.parse_args()

with common.open_session(args) as session, typed.subscriber(session, args.key, Position) as subscriber:
    subscriber.wait_ready(timeout=10)
    print(f"subscribed to {args.key}", flush=True)
    for seen, message in enumerate(subscriber, start=1):
        if message.deleted:
            print(f"{message.key_expr}: deleted", flush=True)
        elif message.error:
            print(message.error, flush=True)
        else:
            print(f"{message.key_expr}: {message.value}", flush=True)
        if seen == args.count:
            break
