"""Publishes from one session and prints in another what arrives."""

import itertools
import time

import zenoh

with zenoh.open(zenoh.Config.from_env()) as pub, zenoh.open(zenoh.Config.from_env()) as sub:
    subscriber = sub.declare_subscriber("room/*/temperature")
    publisher = pub.declare_publisher(
        zenoh.KeyExpr("room").join("kitchen/temperature"),
        encoding=zenoh.Encoding.TEXT_PLAIN,
        congestion_control=zenoh.CongestionControl.BLOCK,
        priority=zenoh.Priority.DATA_HIGH,
        express=True,
    )
    print(publisher.key_expr, publisher.encoding, publisher.priority, publisher.congestion_control)
    while not publisher.matching_status.matching:
        time.sleep(0.01)
    publisher.put("21.5")
    publisher.put(b"\x00\xff", encoding="application/octet-stream", attachment="raw")
    publisher.put(zenoh.ZBytes("22"), encoding=zenoh.Encoding("text/plain;utf-8"), attachment=b"\x01")
    publisher.put(bytearray(b"23"), timestamp=pub.new_timestamp())
    publisher.delete(attachment="gone")
    received = [subscriber.recv() for _ in range(5)]
    # A node drops this one when its queue is full, so the queues have to be empty before it.
    pub.put("room/hall/temperature", "18", encoding="text/plain", priority=zenoh.Priority.DATA_HIGH)
    received.append(subscriber.recv())
    pub.put("room/hall/humidity", "no subscriber")
    high = {"congestion_control": zenoh.CongestionControl.BLOCK, "priority": zenoh.Priority.DATA_HIGH}
    pub.delete("room/hall/temperature", **high)
    pub.put("room/end/temperature", "", **high)
    for sample in itertools.chain(received, subscriber):
        attachment = None if sample.attachment is None else bytes(sample.attachment)
        print(sample.key_expr, sample.kind, bytes(sample.payload), sample.encoding, attachment)
        print(" ", sample.priority, sample.congestion_control, sample.express, sample.source_info)
        if sample.kind == zenoh.SampleKind.PUT and sample.key_expr == zenoh.KeyExpr("room/end/temperature"):
            break
    print(subscriber.try_recv())
    publisher.undeclare()
    subscriber.undeclare()
    print(pub.is_closed(), sub.is_closed())
print(pub.is_closed(), sub.is_closed())
