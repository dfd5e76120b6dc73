"""Tokens: declared, found, watched, gone."""

import zenoh

with zenoh.open(zenoh.Config.from_env()) as watcher, zenoh.open(zenoh.Config.from_env()) as member:
    early = member.liveliness().declare_token("group/early")
    # Before any subscription: beside a subscriber on the same keys a get may lose its answer to it.
    alive = []
    while not alive:
        alive = [(r.ok.key_expr, r.ok.kind) for r in watcher.liveliness().get("group/**", timeout=5)]
    print("alive", *alive)
    everyone = watcher.liveliness().declare_subscriber("group/*", history=True)
    sample = everyone.recv()
    print(sample.kind, sample.key_expr, bytes(sample.payload))
    print(list(watcher.liveliness().get("nobody/*")))
    changes = watcher.liveliness().declare_subscriber("group/*")
    with member.liveliness().declare_token(zenoh.KeyExpr("group/late")):
        sample = changes.recv()
        print(sample.kind, sample.key_expr)
    sample = changes.recv()
    print(sample.kind, sample.key_expr)
    early.undeclare()
    sample = changes.recv()
    print(sample.kind, sample.key_expr)
    try:
        early.undeclare()
    except zenoh.ZError:
        print("undeclared already")
    member.liveliness().declare_token("group/forgotten")
    kept = member.liveliness().declare_token("group/kept")
    while str(changes.recv().key_expr) != "group/kept":
        pass
    member.close()
    sample = changes.recv()
    print(sample.kind, sample.key_expr)
    print([str(s.kind) for s in (everyone.recv(), everyone.recv(), everyone.recv())])
