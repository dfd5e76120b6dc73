"""ZRE/LOG: the collector of zwire with nodes of every kind, and zwire's node with foreign collectors."""

import time

from nodes import eventually
from zre.programs import rfc20


def check_times(records):
    now = time.time()
    assert all(now - 120 < r["time"] < now + 5 for r in records)


def hash_of(node):
    return rfc20.log_hash(node.endpoint.removeprefix("tcp://"))


def connected(collector, *nodes):
    """Wait until the collector hears each node: a record before that is lost. Return the other records."""
    records = []

    def heard():
        missing = {hash_of(node) for node in nodes} - {r["node"] for r in records if r["data"] == "PROBE"}
        for node in nodes:
            if hash_of(node) in missing:
                node.join("PROBE")
                node.leave("PROBE")
        records.extend(collector.ask("drain", seconds=0.05))
        return not missing

    eventually(heard, "records of each node", within=20)
    return without_probes(records)


def without_probes(records):
    return [r for r in records if r["data"] != "PROBE"]


def test_the_six_events_of_ten_nodes(party):
    """JOIN, LEAVE, ENTER, EXIT, SEND, RECV, each from each of ten nodes, with its hashes."""
    collector = party.zwire("collector", collect=True, generations=["20", "36"])
    nodes = [
        party.zwire(f"n{i}", generations=["20", "36"], log_traffic=True, interval=0.5) for i in range(10)
    ]
    for node in nodes:
        for other in nodes:
            if other is not node:
                node.wait("ENTER", other)
        node.wait("ENTER", collector)
    records = connected(collector, *nodes)
    for node in nodes:
        node.join("LOGGED")
    for node in nodes:
        for other in nodes:
            if other is not node:
                node.wait("JOIN", other, group="LOGGED")
        node.shout("LOGGED", "one")
    for node in nodes:
        node.leave("LOGGED")
    leaver = nodes.pop()
    leaver.stop()
    for node in nodes:
        node.wait("EXIT", leaver)
    records += without_probes(collector.ask("drain", seconds=2.0, within=60))
    check_times(records)
    hashes = {hash_of(n): n for n in [*nodes, leaver]}
    for event in ("JOIN", "LEAVE", "ENTER", "EXIT", "SEND", "RECV"):
        told = {r["node"] for r in records if r["event"] == event}
        # A node that has left does not see the others leave.
        expected = {h for h, n in hashes.items() if event != "EXIT" or n is not leaver}
        assert told >= expected, event
    joins = [r for r in records if r["event"] == "JOIN"]
    assert {(r["data"], r["peer"]) for r in joins} == {("LOGGED", 0)}


def test_a_scripted_node_reaches_our_collector(party):
    collector = party.zwire("collector", collect=True, generations=["20", "36"])
    node = party.scripted("20")
    node.wait("ENTER", collector)
    connected(collector, node)
    node.join("LOGGED")
    (record,) = [r for r in without_probes(collector.ask("drain", seconds=1.0)) if r["event"] == "JOIN"]
    assert record["data"] == "LOGGED"
    assert record["level"] == "INFO"
    assert record["peer"] == 0
    assert record["node"] == hash_of(node)
    check_times([record])


def test_zyre_of_2014_reaches_our_collector(party):
    collector = party.zwire("collector", collect=True, generations=["20", "zyre1", "36"])
    node = party.zyre("1.0.0")
    node.wait("ENTER", collector)
    connected(collector, node)
    node.join("LOGGED")
    records = without_probes(collector.ask("drain", seconds=1.0))
    (record,) = [r for r in records if r["event"] == "JOIN"]
    assert record["data"] == "LOGGED"
    assert record["node"] == hash_of(node)
    check_times(records)


def test_our_node_logs_to_a_foreign_collector(party):
    collector = party.scripted("20", collector=True)
    ours = party.zwire("ours", generations=["20", "36"])
    collector.wait("ENTER", ours)
    ours.wait("ENTER", collector)

    def heard():
        ours.join("PROBE")
        ours.leave("PROBE")
        return collector.told("LOG", data="PROBE")

    eventually(heard, "a record")
    ours.join("LOGGED")
    told = collector.wait("LOG", event="JOIN", data="LOGGED")
    assert (told["level"], told["peer"]) == ("INFO", 0)
    assert told["node"] == hash_of(ours)
    ours.leave("LOGGED")
    collector.wait("LOG", event="LEAVE", data="LOGGED")
    other = party.pyre("other")
    collector.wait("LOG", event="ENTER", data=other.endpoint)
    other.stop()
    collector.wait("LOG", event="EXIT")
