"""Keys, tokens, QoS, gids and attachments of rmw_zenoh: vectors of `zenoh-services` 6, and other packages."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zwire import ros2
from zwire.errors import DecodeError, InvalidValue
from zwire.ros2 import DurabilityPolicy, HistoryPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy
from zwire.ros2 import _keys as keys

STRING = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"
# Seen on the wire (`zenoh-services` 6.4).
TOKEN = (
    "@ros2_lv/0/aac3178e146ba6f1fc6e6a4085e77f21/0/10/MP/%/%/talker/%chatter/"
    f"std_msgs::msg::dds_::String_/{STRING}/::,7:,:,:,,"
)
NODE = "@ros2_lv/0/aac3178e146ba6f1fc6e6a4085e77f21/0/0/NN/%/%robot1/talker"


def test_a_token_reads_and_writes():
    entity = keys.read_token(TOKEN)
    assert (entity.kind, entity.node_name, entity.name) == (ros2.EntityKind.PUBLISHER, "/talker", "/chatter")
    assert (entity.type, entity.hash) == ("std_msgs/msg/String", STRING)
    assert entity.qos == QoSProfile(depth=7)
    assert entity.token() == TOKEN
    assert entity.key == f"0/chatter/std_msgs::msg::dds_::String_/{STRING}"
    assert keys.read_key(entity.key) == (0, "/chatter", "std_msgs/msg/String", STRING)

    node = keys.read_token(NODE)
    assert (node.node_name, node.namespace, node.qos) == ("/robot1/talker", "/robot1", None)
    assert node.token() == NODE
    secured = TOKEN.replace("/%/%/talker", "/%robots%a/%/talker")
    assert keys.read_token(secured).enclave == "/robots/a"
    assert keys.read_token(secured).token() == secured
    # Later distributions append chunks.
    assert keys.read_token(f"{TOKEN}/backends:cpu,cuda") == entity


def test_gid_and_attachment_are_those_of_rmw_zenoh():
    gid = keys.gid(TOKEN)
    assert gid.hex() == "c128aa5567af01b7163eae5e2a8362d7"
    octets = keys.Attachment(1, 1_700_000_000_000_000_000, gid).pack()
    assert octets.hex() == "010000000000000000002a36fe9c971710" + gid.hex()
    assert keys.read_attachment(octets) == (1, 1_700_000_000_000_000_000, gid)


@pytest.mark.parametrize(
    ("octets", "problem"),
    [
        (None, "none"),
        (b"", "0 octets"),
        (bytes(32), "32 octets"),
        (bytes(34), "34 octets"),
        (bytes(33), "gid of 0"),
    ],
)
def test_other_attachments_are_refused(octets, problem):
    with pytest.raises(DecodeError, match=problem):
        keys.read_attachment(octets)


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        ("::,7:,:,:,,", QoSProfile(depth=7)),
        ("::,:,:,:,,", QoSProfile(depth=42)),
        ("2::,5:,:,:,,", QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)),
        (":1:,1:,:,:,,", QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)),
        ("::2,:,:,:,,", QoSProfile(depth=42, history=HistoryPolicy.KEEP_ALL)),
        ("::,10:1,500000000:,:,,", QoSProfile(deadline=1.5)),
        (
            "::,10:,:2,0:3,0,100000000",
            QoSProfile(
                lifespan=2, liveliness=LivelinessPolicy.MANUAL_BY_TOPIC, liveliness_lease_duration=0.1
            ),
        ),
    ],
)
def test_qos_reads_and_writes(text, profile):
    assert QoSProfile.from_text(text) == profile
    assert profile.text() == text


@pytest.mark.parametrize(
    "text", ["", "::", "::,7:,:,:,", "9::,7:,:,:,,", "::,x:,:,:,,", "::,-1:,:,:,,", "::,7:1,9999999999:,:,,"]
)
def test_other_qos_is_refused(text):
    with pytest.raises(DecodeError, match="qos"):
        QoSProfile.from_text(text)


def replaced(at, chunk):
    chunks = TOKEN.split("/")
    chunks[at] = chunk
    return "/".join(chunks)


@pytest.mark.parametrize(
    ("token", "part"),
    [
        (replaced(0, "@ros2"), "token"),
        (replaced(1, "x"), "domain"),
        (replaced(2, ".."), "zid"),
        (replaced(2, "zid"), "zid"),
        (replaced(3, "1" * 400), "nid"),
        (replaced(5, "XX"), "kind"),
        (replaced(9, "%" + "a" * 300), "name"),
        (replaced(9, "%a\u202eb"), "name"),
        (replaced(10, "String"), "type"),
        (replaced(11, "RIHS01_12"), "hash"),
        (replaced(12, ":" * 500), "qos"),
        (TOKEN.rpartition("/")[0], "token"),
        (TOKEN + "/x" * 3000, "token"),
        ("@ros2_lv/0", "token"),
    ],
)
def test_hostile_tokens_are_refused_by_the_part(token, part):
    with pytest.raises(DecodeError) as caught:
        keys.read_token(token)
    assert caught.value.reading == part
    assert len(str(caught.value)) < 300


@given(st.text(alphabet=st.sampled_from("@ros2_lv/%:,0123456789abcdefMPNS*$?#\0\u202e"), max_size=200))
def test_no_token_raises_another_error(text):
    for read in (keys.read_token, keys.read_key, QoSProfile.from_text):
        with contextlib.suppress(DecodeError):
            read(text)


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("chatter", "/robot1/chatter"),
        ("/chatter", "/chatter"),
        ("~", "/robot1/talker"),
        ("~/chatter", "/robot1/talker/chatter"),
        ("camera/image_raw", "/robot1/camera/image_raw"),
        ("fibonacci/_action/status", "/robot1/fibonacci/_action/status"),
    ],
)
def test_names_become_full(given, full):
    assert keys.full_name(given, "/robot1", "talker") == full


@pytest.mark.parametrize("name", ["", "/", "/2d", "a//b", "a/", "a-b", "a__b", "/ä", "a/*", "**", "a" * 300])
def test_other_names_are_refused(name):
    with pytest.raises(InvalidValue, match="name"):
        keys.full_name(name)


def test_another_implementation_makes_the_same_keys():
    pamoja = pytest.importorskip("pamoja.ros2")
    for name, type_ in {
        "/cmd_vel": "geometry_msgs/msg/Twist",
        "/robot1/camera/image": "sensor_msgs/msg/Image",
        "/add": "example_interfaces/srv/AddTwoInts",
    }.items():
        assert pamoja.entity_key(7, name, type_, STRING) == keys.topic_key(7, name, type_, STRING)
        assert pamoja.percent_mangle(name) == keys.mangled(name)
    for name in ("/a", "/a/_b", "/2a", "a/", "/a//b", "/a__b", "/a-b"):
        legal = True
        try:
            keys.full_name(name)
        except InvalidValue:
            legal = False
        assert pamoja.is_valid_name(name) == legal, name


def test_a_third_one_makes_the_same_tokens():
    sdk = pytest.importorskip("zenoh_ros2_sdk")
    from zenoh_ros2_sdk.attachment import Attachment
    from zenoh_ros2_sdk.keyexpr import endpoint_liveliness_keyexpr, node_liveliness_keyexpr

    node = sdk.entity.NodeEntity(3, "aac3178e146ba6f1fc6e6a4085e77f21", 4, "talker", "/robot1")
    endpoint = sdk.entity.EndpointEntity(
        node, 9, sdk.entity.EntityKind.SERVICE, "/a/b", "a::srv::dds_::B_", STRING, "::,10:,:,:,,"
    )
    for token in (node_liveliness_keyexpr(node), endpoint_liveliness_keyexpr(endpoint)):
        assert keys.read_token(token).token() == token
    octets = keys.Attachment(5, 6, bytes(range(16))).pack()
    assert Attachment.from_bytes(octets).to_bytes() == octets


@pytest.mark.parametrize(
    ("offered", "requested", "reason"),
    [
        ({"reliability": ReliabilityPolicy.BEST_EFFORT}, {}, "reliability"),
        ({}, {"durability": DurabilityPolicy.TRANSIENT_LOCAL}, "durability"),
        ({"deadline": 2.0}, {"deadline": 1.0}, "deadline: offered 2 s, asked for 1 s"),
        ({}, {"deadline": 1.0}, "deadline: offered no limit"),
        ({}, {"liveliness": LivelinessPolicy.MANUAL_BY_TOPIC}, "liveliness"),
        ({}, {"liveliness_lease_duration": 1.0}, "lease"),
    ],
)
def test_incompatible_profiles_have_a_reason(offered, requested, reason):
    (found,) = ros2.incompatible(QoSProfile(**offered), QoSProfile(**requested))
    assert reason in found
    assert ros2.incompatible(QoSProfile(**offered), QoSProfile(**offered)) == []


@pytest.mark.parametrize("values", [{"depth": -1}, {"deadline": -1.0}, {"lifespan": 1e12}])
def test_profiles_out_of_range_are_refused(values):
    with pytest.raises(InvalidValue, match=next(iter(values))):
        QoSProfile(**values)
