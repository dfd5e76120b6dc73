"""Declared keys, locality, and what different subscribers of one session get."""

import time

import zenoh

with zenoh.open(zenoh.Config.from_env()) as a, zenoh.open(zenoh.Config.from_env()) as b:
    far = b.declare_subscriber("place/**")
    near = a.declare_subscriber("place/**")
    remote = a.declare_subscriber("place/**", allowed_origin=zenoh.Locality.REMOTE)
    local = a.declare_subscriber("place/**", allowed_origin=zenoh.Locality.SESSION_LOCAL)
    key = a.declare_keyexpr("place/declared")
    print(key, key == zenoh.KeyExpr("place/declared"), key.join("x"))
    publisher = a.declare_publisher(key, allowed_destination=zenoh.Locality.REMOTE)
    while not publisher.matching_status.matching:
        time.sleep(0.01)
    publisher.put("to others")
    a.put(key, "to all")
    a.put(key, "to us", allowed_destination=zenoh.Locality.SESSION_LOCAL)
    a.put("place/*", "to several keys")
    a.put("place/end", "end")
    for name, subscriber in [("far", far), ("near", near), ("local", local)]:
        for sample in subscriber:
            print(name, sample.key_expr, sample.payload.to_string())
            if sample.payload.to_string() == "end":
                break
    print("remote", remote.try_recv())
    a.undeclare(key)
    print(far.key_expr, far.key_expr.intersects("place/x"))
