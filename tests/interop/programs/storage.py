"""Keeps the newest value of every key and gives them out."""

import time

import zenoh

store = {}


def keep(sample):
    if sample.kind == zenoh.SampleKind.DELETE:
        store.pop(str(sample.key_expr), None)
    else:
        store[str(sample.key_expr)] = sample


def give(query):
    for key, sample in list(store.items()):
        if query.key_expr.intersects(zenoh.KeyExpr(key)):
            query.reply(key, sample.payload, encoding=sample.encoding, timestamp=sample.timestamp)


with zenoh.open(zenoh.Config.from_env()) as keeper, zenoh.open(zenoh.Config.from_env()) as user:
    subscriber = keeper.declare_subscriber("store/**", keep)
    queryable = keeper.declare_queryable("store/**", give, complete=True)
    writer, reader = user.declare_publisher("store/a/*"), user.declare_querier("store/**")
    while not (writer.matching_status.matching and reader.matching_status.matching):
        time.sleep(0.01)
    for number in range(5):
        user.put(f"store/a/{number}", str(number * number), encoding="text/plain")
    user.put("store/b", "other")
    user.delete("store/a/3")
    user.put("store/a/0", "zero")
    user.put("store/end", "")
    while "store/end" not in store:
        time.sleep(0.01)
    for selector in ("store/**", "store/a/*", "store/a/3", "store/*", "other/**"):
        print(selector)
        for reply in sorted(user.get(selector), key=lambda r: str(r.ok.key_expr)):
            print(" ", reply.ok.key_expr, reply.ok.payload.to_string(), reply.ok.encoding)
            assert reply.ok.timestamp is not None, "the router stamps"
