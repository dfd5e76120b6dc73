"""Sends the same query again and again, once a queryable exists."""

import common

options = common.parser(__doc__)
common.add_interval(options, "questions")
options.add_argument("--timeout", type=float, default=10.0, help="seconds")
common.add_count(options, "questions")
args = options.parse_args()

with (
    common.open_session(args) as session,
    session.declare_querier(args.key, timeout=args.timeout) as querier,
):
    querier.wait_matching()
    for number in common.numbers(args):
        for reply in querier.get(parameters={"number": str(number)}, payload=f"question {number}"):
            if reply.ok is not None:
                print(f"{reply.ok.key_expr}: {reply.ok.payload.to_string()}", flush=True)
            elif reply.err is not None:
                print(f"error: {reply.err.payload.to_string()}", flush=True)
