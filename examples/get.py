"""Sends one query and prints the replies."""

import common

from zwire import zenoh

options = common.parser(__doc__, key=None)
options.add_argument("-s", "--selector", default="demo/example/**", help="default: %(default)s")
options.add_argument("-p", "--payload", help="a value for the queryables")
options.add_argument("--target", choices=["best_matching", "all", "all_complete"], default="best_matching")
options.add_argument("--timeout", type=float, default=10.0, help="seconds")
args = options.parse_args()

with common.open_session(args) as session:
    replies = session.get(
        args.selector,
        target=zenoh.QueryTarget[args.target.upper()],
        payload=args.payload,
        timeout=args.timeout,
    )
    for reply in replies:
        if reply.ok is not None:
            print(f"{reply.ok.key_expr}: {reply.ok.payload.to_string()}")
        elif reply.err is not None:
            print(f"error: {reply.err.payload.to_string()}")
    print(f"end: {replies.end}")
