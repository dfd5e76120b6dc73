"""Publishes values of a dataclass, in the format given by an option."""

from dataclasses import dataclass

import common

from zwire import typed


@dataclass
class Position:
    """A position. Subscribers in any language declare a class of this name with these fields."""

    x: float
    y: float = 0.0


options = common.parser(__doc__)
options.add_argument("--codec", default="json", choices=["json", "cbor", "msgpack", "zenoh"])
common.add_count(options, "values")
args = options.parse_args()

with (
    common.open_session(args) as session,
    typed.publisher(session, args.key, Position, codec=args.codec) as publisher,
):
    publisher.wait_matching()
    for number in range(args.count or 3):
        publisher.put(Position(number, number / 2))
    print(f"published as {publisher.encoding}", flush=True)
    session.flush(timeout=10)
