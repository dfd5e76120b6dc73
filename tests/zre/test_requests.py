"""Wishes of users of other ZRE implementations, as tests: one section per wish."""

import subprocess
import time

import pytest

from network.namespaces import Network
from nodes import eventually
from zre.peers import Party

MEGABYTE = 1 << 20


# ---- Messages do not vanish without a word ----


def test_a_full_queue_is_told_and_loses_whole_messages_only(party):
    ours = party.zwire("ours", high_water_mark=50)
    theirs = party.zwire("theirs")
    ours.wait("ENTER", theirs)
    theirs.wait("ENTER", ours)
    theirs.freeze()
    became = {}
    for _ in range(3000):
        outcome = ours.whisper(theirs, b"x" * 10_000)
        became[outcome] = became.get(outcome, 0) + 1
        if outcome != "queued":
            break
    theirs.thaw()
    assert became.get("full") == 1
    # What is lost is told at the other end, and the session begins anew.
    theirs.wait("ENTER", ours, count=1)
    ours.host.run("sleep", "2")
    ours.whisper(theirs, "after")
    theirs.wait("WHISPER", ours, content=[b"after"])
    assert {len(e["content"][0]) for e in theirs.told("WHISPER", ours)} == {10_000, 5}


def test_a_shout_to_nobody_says_so(party):
    ours = party.zwire("ours")
    assert ours.shout("NOBODY", "hello") == {"queued": 0, "not_responding": 0, "refused": 0}


# ---- Discovery on any network ----


def second_network(party, host, prefix):
    """Add an interface to a host, with an address of another network."""
    host.namespace.ip(
        "link add name eth1 type veth peer name eth1peer",
        "link set eth1peer up",
        f"address add {prefix}.1/24 broadcast + dev eth1",
        "link set eth1 up",
    )


def test_each_beacon_advertises_an_address_of_its_interface(party):
    host = party.network.host()
    second_network(party, host, "10.98.0")
    ours = party.zwire("ours", host=host)
    theirs = party.pyre("theirs")
    assert theirs.wait("ENTER", ours)["address"].startswith("tcp://10.99.0.1:")
    ours.wait("ENTER", theirs)
    used = [i["name"] for i in ours.ask("call", method="doctor")["interfaces"] if i["used"]]
    assert used == ["eth0", "eth1"]


@pytest.mark.parametrize("selector", ["eth0", "10.99.0.1", "10.99.0.0/24", "eth0*"])
def test_an_interface_is_chosen_by_name_address_network_or_pattern(party, selector):
    host = party.network.host()
    second_network(party, host, "10.98.0")
    ours = party.zwire("ours", host=host, interfaces=[selector])
    theirs = party.pyre("theirs")
    theirs.wait("ENTER", ours)
    interfaces = {i["name"]: i for i in ours.ask("call", method="doctor")["interfaces"]}
    assert interfaces["eth0"]["used"]
    assert not interfaces["eth1"]["used"]
    assert interfaces["eth1"]["why"]


def test_hosts_with_nothing_but_loopback(party):
    host = party.network.host()
    host.down()
    a = party.zwire("a", host=host)
    b = party.zwire("b", host=host)
    a.wait("ENTER", b)
    b.wait("ENTER", a)


def test_several_nodes_on_one_host(party):
    host = party.network.host()
    nodes = [party.zwire(f"n{i}", host=host) for i in range(3)]
    nodes.append(party.pyre("pyre", host=host))
    for node in nodes:
        for other in nodes:
            if other is not node:
                node.wait("ENTER", other)


def test_a_beacon_port_in_use_degrades_to_the_others(party):
    host = party.network.host()
    code = (
        "import socket, time; s = socket.socket(2, 2); s.bind(('', 5670)); print(flush=True); time.sleep(60)"
    )
    taken = host.popen("-c", code, stdout=subprocess.PIPE)
    assert taken.stdout.readline()
    theirs = party.zwire("theirs")
    ours = party.zwire("ours", host=host, peers=[theirs.endpoint])
    ours.wait("ENTER", theirs)
    theirs.wait("ENTER", ours)
    assert taken.poll() is None
    taken.stdout.close()
    assert ours.ask("call", method="doctor")["beacons_unheard"]


def test_dead_static_peers_delay_nobody(party):
    """20 peers that are not there, and one that is."""
    theirs = party.zwire("theirs", beacons=False)
    dead = [f"tcp://10.99.0.{n}:9" for n in range(100, 120)]
    ours = party.zwire("ours", beacons=False, peers=[*dead, theirs.endpoint])
    ours.wait("ENTER", theirs, within=2)


# ---- No slow consumer hurts the others ----


def test_a_frozen_peer_does_not_slow_the_others(party):
    ours = party.zwire("ours", groups=["G"])
    frozen = party.zwire("frozen", groups=["G"])
    good = party.zwire("good", groups=["G"])
    for peer in (frozen, good):
        ours.wait("JOIN", peer, group="G")
    frozen.freeze()
    start = time.monotonic()
    for number in range(2000):
        ours.send("shout", group="G", content=[str(number).encode().hex()])
    for _ in range(2000):
        ours.answer()
    good.wait("SHOUT", ours, count=2000, within=10)
    assert time.monotonic() - start < 10
    assert [int(e["content"][0]) for e in good.told("SHOUT", ours)] == list(range(2000))
    frozen.thaw()


# ---- Ready when it says so ----


def test_the_first_message_after_waiting_arrives(parties):
    """No sleeps: a node that waits for a member of a group reaches it with the first message."""
    party = parties()
    theirs = party.zwire("theirs", groups=["G"])
    sender = party.zwire("sender", interval=0.1)
    sender.wait("ENTER", theirs)
    lost = sender.ask("first_messages", times=50, group="G", within=60)
    assert lost == 0
    theirs.wait("SHOUT", count=50)


# ---- Shutdown ----


@pytest.mark.long
def test_starts_and_stops_leave_nothing_behind(party):
    theirs = party.zwire("theirs")
    ours = party.zwire("ours", interval=0.2)
    ours.wait("ENTER", theirs)
    ours.ask("cycle", times=20, peers=1, within=60)
    time.sleep(1.0)
    before = {k: ours.ask(k) for k in ("threads", "descriptors", "memory")}
    ours.ask("cycle", times=100, peers=1, within=100)
    # The last connections are still closing.
    time.sleep(1.0)
    after = {k: ours.ask(k) for k in before}
    assert after["threads"] <= before["threads"]
    assert after["descriptors"] <= before["descriptors"] + 1
    assert after["memory"] < before["memory"] + 8 * MEGABYTE


def test_two_thousand_joins_and_leaves(party):
    ours = party.zwire("ours")
    theirs = party.zyre()
    ours.wait("ENTER", theirs)
    theirs.wait("ENTER", ours)
    for _ in range(2000):
        ours.send("join", group="G")
        ours.send("leave", group="G")
    for _ in range(4000):
        ours.answer(within=30)
    theirs.wait("LEAVE", ours, count=2000, within=30)


# ---- Timers, restarts ----


def test_timers_are_those_of_the_node(party):
    ours = party.zwire("ours", evasive=0.5, expired=1.5, ping_interval=0.25)
    theirs = party.zwire("theirs")
    entered = ours.wait("ENTER", theirs)
    theirs.kill()
    gone = ours.wait("EXIT", theirs, within=4)
    assert 1.4 < gone["time"] - entered["time"] < 3.5
    assert ours.kinds(theirs).count("EVASIVE") == 1
    assert ours.kinds(theirs).count("SILENT") <= 1


@pytest.mark.parametrize("pause", [0.0, 1.5])
@pytest.mark.parametrize("same", [True, False], ids=["same-uuid", "new-uuid"])
def test_a_killed_peer_that_comes_back_is_one_exit_and_one_enter(party, same, pause):
    ours = party.zwire("ours")
    first = party.zwire("theirs", mailbox=50000)
    ours.wait("ENTER", first)
    first.wait("ENTER", ours)
    first.kill()
    time.sleep(pause)
    more = {"uuid": first.uuid} if same else {}
    second = party.zwire("theirs", host=first.host, mailbox=50000, **more)
    second.wait("ENTER", ours)
    ours.wait("ENTER", second, count=2 if same else 1)
    ours.host.run("sleep", "1.5")
    told = [e["type"] for e in ours.told() if e["type"] in ("ENTER", "EXIT")]
    assert told == ["ENTER", "EXIT", "ENTER"]
    assert second.kinds(ours) == ["ENTER"]


# ---- Finding peers ----


def test_the_doctor_says_why_a_peer_is_ignored(party):
    ours = party.zwire("ours", generations=["36"])
    rude = party.rude()
    rude.ask("throw", octets="5a5245ff", to=ours.host.address)
    party.scripted("20")

    def ignored_by_ours():
        return ours.ask("call", method="doctor")["ignored"]

    eventually(lambda: len(ignored_by_ours()) >= 2, "both are ignored")
    ignored = ignored_by_ours()
    assert {"source", "reason", "count", "last"} <= set(ignored[0])
    by_source = {i["source"].rpartition(":")[0] or i["source"]: i["reason"] for i in ignored}
    assert any(rude.host.address in source for source in by_source), ignored


# ---- Fixed ports and firewalls ----


def test_every_port_can_be_chosen(party):
    a = party.zwire("a", beacon_port=5999, mailbox=[50100, 50110])
    b = party.zwire("b", beacon_port=5999, mailbox=50200)
    other = party.zwire("other")
    a.wait("ENTER", b)
    assert 50100 <= int(a.endpoint.rpartition(":")[2]) <= 50110
    assert b.endpoint.endswith(":50200")
    other.host.run("sleep", "1")
    assert other.told("ENTER") == []


def test_an_advertised_endpoint_is_what_peers_are_told(party):
    """As behind an address translation: the peer connects where it is told."""
    host = party.network.host()
    ours = party.zwire(
        "ours", host=host, beacons=False, mailbox=50300, advertise=f"tcp://{host.address}:50300"
    )
    theirs = party.pyre("theirs")
    other = party.zwire("other", peers=[ours.endpoint])
    assert other.wait("ENTER", ours)["address"] == f"tcp://{host.address}:50300"
    theirs.wait("ENTER", other)


# ---- Without broadcast ----


def test_static_peers_and_gossip_where_nothing_is_broadcast(namespaces):
    """A switch that loses each broadcast."""
    network = Network({"loss": 0.0})
    party = Party(network)
    try:
        hosts = [network.host() for _ in range(3)]
        network.connect()
        network.respoil(loss=1.0, only="udp")
        hub = f"tcp://{hosts[0].address}:9000"
        a = party.zwire("a", host=hosts[0], gossip_bind=hub)
        b = party.zwire("b", host=hosts[1], gossip_connect=[hub])
        c = party.zwire("c", host=hosts[2], peers=[a.endpoint])
        a.wait("ENTER", b)
        b.wait("ENTER", a)
        a.wait("ENTER", c)
        c.wait("ENTER", a)
    finally:
        party.end()
        network.end()
