"""Echoes the messages of ping.py."""

import threading

import common

options = common.parser(__doc__, key=None)
options.add_argument("--seconds", type=float, help="how long (default: until Ctrl-C)")
args = options.parse_args()

with common.open_session(args) as session, session.declare_publisher("test/pong", express=True) as pong:
    ping = session.declare_subscriber("test/ping", lambda sample: pong.put(sample.payload))
    ping.wait_ready(timeout=10)
    print("sending back", flush=True)
    threading.Event().wait(args.seconds)
