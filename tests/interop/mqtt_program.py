"""A bridge to MQTT: ENDPOINT BROKER SPOOL QOS. Prints its counters for each line that it reads."""

import json
import sys

import nodes
from zwire.bridge.mqtt import MqttBridge, Rule

endpoint, broker, spool, qos = sys.argv[1:]
rules = [Rule("in/#", direction="in", qos=int(qos)), Rule("out/#", direction="out", qos=int(qos))]
with (
    nodes.opened("client", connect=[endpoint]) as session,
    MqttBridge(session, broker, rules, client_id="killed", spool=spool) as bridge,
):
    bridge.wait_connected()
    print("connected", flush=True)
    for _ in sys.stdin:
        print(json.dumps(bridge.stats()), flush=True)
