"""The types of ``zwire.bridge.mqtt``."""

from typing import assert_type

from zwire import metrics, zenoh
from zwire.bridge.mqtt import MqttBridge, MqttStats, MqttTls, MqttWill, Rule


def bridges(session: zenoh.Session) -> None:
    rules = [Rule("a/#", direction="in", qos=2), Rule(key_expr=zenoh.KeyExpr("b/*"), retain=True)]
    will = MqttWill("status", "gone", qos=1, retain=True)
    with MqttBridge(
        session,
        "mqtts://broker",
        rules,
        client_id="plant",
        spool="spool",
        version="3.1.1",
        tls=MqttTls("ca.pem"),
        will=will,
    ) as bridge:
        assert_type(bridge, MqttBridge)
        bridge.wait_connected(1.0)
        assert_type(bridge.flush(), bool)
        assert_type(bridge.stats(), MqttStats)
        assert_type(bridge.stats()["problem"], str | None)
        assert_type(metrics.prometheus(bridge, session), str)
