"""Watches liveliness tokens appear and disappear."""

import common

from zwire import zenoh

options = common.parser(__doc__, key="group/**")
common.add_count(options, "changes")
args = options.parse_args()

with (
    common.open_session(args) as session,
    session.liveliness().declare_subscriber(args.key, history=True) as subscriber,
):
    subscriber.wait_ready(timeout=10)
    print(f"watching {args.key}", flush=True)
    changes = 0
    while changes != args.count:
        sample = subscriber.recv()
        came = sample.kind == zenoh.SampleKind.PUT
        print(f"{'alive' if came else 'gone'}: {sample.key_expr}", flush=True)
        changes += 1
