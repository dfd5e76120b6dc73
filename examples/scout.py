"""Searches for nodes by multicast."""

import common

from zwire import zenoh
from zwire.errors import TimedOut

options = common.parser(__doc__, key=None)
options.add_argument("--what", default="router|peer", help="roles (default: %(default)s)")
options.add_argument("--timeout", type=float, default=1.0, help="seconds without a new answer")
args = options.parse_args()

found: set[zenoh.ZenohId] = set()
with zenoh.scout(what=args.what, config=common.config(args)) as answers:
    try:
        while True:
            hello = answers.recv(timeout=args.timeout)
            if hello.zid not in found:
                found.add(hello.zid)
                print(f"{hello.whatami} {hello.zid} at {', '.join(hello.locators)}")
    except TimedOut:
        print(f"{len(found)} found")
