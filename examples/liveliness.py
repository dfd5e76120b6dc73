"""Declares a liveliness token for as long as it runs."""

import threading

import common

options = common.parser(__doc__, key="group/python")
options.add_argument("--seconds", type=float, help="how long (default: until Ctrl-C)")
args = options.parse_args()

with common.open_session(args) as session, session.liveliness().declare_token(args.key) as token:
    token.wait_ready(timeout=10)
    print(f"alive: {args.key}", flush=True)
    threading.Event().wait(args.seconds)
