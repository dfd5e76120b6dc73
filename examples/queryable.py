"""Answers queries."""

import common

options = common.parser(__doc__)
options.add_argument("-v", "--value", default="an answer")
common.add_count(options, "queries")
args = options.parse_args()

with common.open_session(args) as session, session.declare_queryable(args.key, complete=True) as queryable:
    queryable.wait_ready(timeout=10)
    print(f"answering {args.key}", flush=True)
    answered = 0
    while answered != args.count:
        # The querier is told that no more replies come when the block ends.
        with queryable.recv() as query:
            asked = "" if query.payload is None else f" ({query.payload.to_string()})"
            print(f"asked for {query.selector}{asked}", flush=True)
            query.reply(args.key, args.value)
        answered += 1
    session.flush(timeout=10)
