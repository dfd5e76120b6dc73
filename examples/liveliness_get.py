"""Lists the liveliness tokens that are alive."""

import common

options = common.parser(__doc__, key="group/**")
options.add_argument("--timeout", type=float, default=10.0, help="seconds")
args = options.parse_args()

with common.open_session(args) as session:
    for reply in session.liveliness().get(args.key, timeout=args.timeout):
        if reply.ok is not None:
            print(f"alive: {reply.ok.key_expr}")
