"""Peers that break every rule against a live node: it lives, stays small, and others notice nothing."""

import pytest

IDENTITY = "01" + "5A" * 16
UUID = "5A" * 16

MEGABYTE = 1 << 20


@pytest.fixture
def scene(party):
    """A node, a rude peer, and a well-behaved one that must notice nothing."""
    ours = party.zwire("ours", groups=["CHAT"])
    good = party.pyre("good", groups=["CHAT"])
    rude = party.rude()
    ours.wait("JOIN", good, group="CHAT")
    good.wait("JOIN", ours, group="CHAT")
    yield ours, rude
    ours.shout("CHAT", "still there")
    good.wait("SHOUT", ours)
    good.shout("CHAT", "still there")
    ours.wait("SHOUT", good)
    assert "EXIT" not in ours.kinds(good)
    assert "EXIT" not in good.kinds(ours)


def greeted(ours, rude, *, identity=IDENTITY):
    """A session up to ENTER."""
    number = rude.ask("connect", endpoint=ours.endpoint, identity=identity)
    rude.ask("hello", number=number, endpoint=f"tcp://{rude.host.address}:9")
    ours.wait("ENTER", identity[2:])
    return number


@pytest.mark.parametrize(
    "octets",
    [
        "",
        "aa",
        "aaa0010200",
        "deadbeef",
        "aaa1010200",
        "aaa1010200010a",
        # 4,294,967,295 groups, and headers without end.
        "aaa1010200010161ffffffff",
        "aaa101020001016100000001ffffffff",
        "aaa10102000101610000000000016100ffffff",
        "aaa1090200010143",
        "aaa1ff020001",
    ],
)
def test_rubbish_in_place_of_hello(scene, octets):
    ours, rude = scene
    number = rude.ask("connect", endpoint=ours.endpoint, identity=IDENTITY)
    rude.ask("send", number=number, content=[octets])
    assert ours.told("ENTER", UUID) == []


@pytest.mark.parametrize(
    "content",
    [
        [""],
        ["aa"],
        ["aaa0020200"],
        ["aaa104020002044348"],
        ["aaa10402000204"],
        ["aaa1030200"],
        ["aaa102020002"],
        ["aaa1ff020002"],
        ["aaa104020002024141ff"],
        ["aaa104020002024180ff"],
    ],
)
def test_rubbish_in_a_session(scene, content):
    ours, rude = scene
    number = greeted(ours, rude)
    rude.ask("send", number=number, content=content)
    # Whatever came of that session, the next one works.
    rude.ask("hello", number=number, endpoint=f"tcp://{rude.host.address}:9")
    ours.wait("ENTER", UUID, count=2, within=5)


@pytest.mark.parametrize("identity", ["", "00", "5A" * 15, "02" + "5A" * 16, "01" + "5A" * 100])
def test_a_wrong_identity_enters_nobody(scene, identity):
    ours, rude = scene
    number = rude.ask("connect", endpoint=ours.endpoint, identity=identity)
    rude.ask("hello", number=number, endpoint=f"tcp://{rude.host.address}:9")
    # zyre does not look at the first octet, so we take it as zyre does.
    if identity.startswith("02"):
        ours.wait("ENTER", name="rude")
        return
    rude.host.run("sleep", "0.3")
    assert {e["name"] for e in ours.told("ENTER")} == {"good"}


@pytest.mark.parametrize("size", [1 << 32, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
def test_a_claim_of_gigabytes_takes_no_memory(scene, size):
    ours, rude = scene
    before = ours.ask("memory")
    number = greeted(ours, rude)
    rude.ask("octets", number=number, octets="02" + size.to_bytes(8, "big").hex() + "00" * 1000)
    assert rude.ask("closed", number=number, seconds=3)
    assert ours.ask("memory") - before < 8 * MEGABYTE


@pytest.mark.parametrize(
    "octets",
    [
        "474554202f20485454502f312e310d0a0d0a",
        "ff" * 64,
        "ff00000000000000017f00",
        "00" * 64,
        "5353482d322e300d0a",
    ],
)
def test_other_protocols_at_the_mailbox(scene, octets):
    ours, rude = scene
    rude.ask("raw", endpoint=ours.endpoint, octets=octets)


@pytest.mark.parametrize("form", ["01{}", "{}"])
def test_a_stranger_with_the_uuid_of_a_live_peer_changes_nothing(scene, form):
    """From another address: the peer answers, so its session goes on."""
    ours, rude = scene
    uuid = ours.told("ENTER")[0]["peer"]
    for turn in range(3):
        number = rude.ask("connect", endpoint=ours.endpoint, identity=form.format(uuid))
        rude.ask("hello", number=number, endpoint=f"tcp://{rude.host.address}:9")
        rude.ask("throw", octets=f"5a524501{uuid}0000", to=ours.host.address)
        assert rude.ask("closed", number=number, seconds=5)
        # Longer than a peer that has just spoken is not asked for an answer.
        ours.host.run("sleep", str(0.7 * turn))
    assert len(ours.told("ENTER")) == 1
    assert ours.ask("call", method="stats")["takeovers_refused"] >= 3


def test_a_peer_that_answers_from_nowhere_else_moves_to_another_address(scene, party):
    """The host of a peer has another address: its old connection is dead, and nothing ends it."""
    ours, rude = scene
    greeted(ours, rude)
    ours.host.run("sleep", "1.1")
    again = party.rude()
    number = again.ask("connect", endpoint=ours.endpoint, identity=IDENTITY)
    again.ask("hello", number=number, endpoint=f"tcp://{again.host.address}:9")
    ours.wait("ENTER", UUID, count=2, within=5)
    assert len(ours.told("EXIT", UUID)) == 1


def test_a_hello_with_the_endpoint_of_a_live_peer_ends_nothing(scene):
    """It comes from another host than the endpoint that it names: ours answers there, and the peer stays."""
    ours, rude = scene
    good = ours.told("ENTER")[0]
    number = rude.ask("connect", endpoint=ours.endpoint, identity=IDENTITY)
    rude.ask("hello", number=number, endpoint=good["address"])
    ours.wait("ENTER", UUID, address=good["address"])
    assert ours.ask("call", method="stats")["endpoints_refused"] == 1


@pytest.mark.parametrize(
    "endpoint", ["tcp://127.0.0.1:22", "tcp://0.0.0.0:22", "tcp://192.0.2.1:22", "tcp://localhost:22"]
)
def test_a_hello_makes_a_node_connect_to_no_other_host(scene, endpoint):
    ours, rude = scene
    number = rude.ask("connect", endpoint=ours.endpoint, identity=IDENTITY)
    rude.ask("hello", number=number, endpoint=endpoint)
    ours.wait("ENTER", UUID)
    assert ours.ask("call", method="stats")["endpoints_refused"] == 1


def test_datagrams_of_every_length(scene):
    ours, rude = scene
    for octets in [
        "",
        "5a",
        "5a5245",
        "5a524501",
        "5a524503" + "00" * 50,
        "5a524501" + "00" * 100,
        "ff" * 22,
    ]:
        # To ours alone: what starts as a beacon kills pyre unless it has the length of one.
        rude.ask("throw", octets=octets, to=ours.host.address)
    ours.host.run("sleep", "0.2")
    assert len(ours.told("ENTER")) == 1


def test_a_hundred_thousand_fake_beacons(scene):
    ours, rude = scene
    before = ours.ask("memory")
    # To ours alone: pyre would connect to each.
    rude.ask("flood", count=100_000, to=ours.host.address, within=60)
    assert ours.ask("memory", within=30) - before < 96 * MEGABYTE
    assert ours.ask("descriptors") < 2000


def test_a_hundred_silent_connections(scene):
    ours, rude = scene
    before = ours.ask("memory")
    rude.ask("hold", endpoint=ours.endpoint, count=100)
    assert ours.ask("memory") - before < 16 * MEGABYTE


def test_a_flood_of_greetings(scene):
    ours, rude = scene
    before = ours.ask("memory")
    rude.ask("greet", endpoint=ours.endpoint, count=500, within=60)
    assert ours.ask("memory") - before < 64 * MEGABYTE


def test_a_goodbye_from_another_address_ends_nothing(party):
    """Nothing authenticates a beacon, but it comes from another address than the connection of the node."""
    ours = party.zwire("ours")
    theirs = party.pyre("theirs")
    rude = party.rude()
    ours.wait("ENTER", theirs)
    theirs.wait("ENTER", ours)
    rude.ask("throw", octets="5a524501" + theirs.uuid + "0000")
    ours.host.run("sleep", "1")
    theirs.ask("stop")
    ours.wait("EXIT", theirs)
    assert len(ours.told("ENTER", theirs.uuid)) == 1
