"""Messages of ROS 2, judged by rosbags: types and payloads of all of its common packages, byte for byte."""

import copy
import pickle
import random
import struct
import threading

import mcap.writer
import numpy as np
import pytest
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from zwire import ros2
from zwire.errors import DefinitionError, PayloadError, RecordingError
from zwire.ros2 import _definitions
from zwire.zenoh import ZBytes

JAZZY = get_typestore(Stores.ROS2_JAZZY)
NAMES = sorted(JAZZY.fielddefs)
RANGES = {"int8": "b", "uint8": "B", "char": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I"}
RANGES |= {"int64": "q", "uint64": "Q"}


def value(store, desc, rng, depth=0):
    """A random value for a field of rosbags."""
    kind, what = desc
    if kind == Nodetype.NAME:
        fields = store.fielddefs[what][1]
        return store.types[what](*(value(store, each, rng, depth + 1) for _, each in fields))
    if kind == Nodetype.BASE:
        base, most = what
        if base == "string":
            return "".join(rng.choices("azü\N{ROBOT FACE}", k=rng.randrange(9)))[: most or None]
        if base == "bool":
            return rng.random() < 0.5
        if base == "byte":
            return rng.randrange(128)
        if base.startswith("float"):
            number = rng.uniform(-1e6, 1e6)
            return struct.unpack("f", struct.pack("f", number))[0] if base == "float32" else number
        size = struct.calcsize(RANGES[base])
        low = 0 if RANGES[base].isupper() else -(1 << (8 * size - 1))
        return rng.randrange(low, low + (1 << 8 * size))
    item, length = what
    if kind == Nodetype.SEQUENCE:
        length = rng.randrange(min(length or 9, 9) + 1) if depth < 3 else rng.randrange(2)
    values = [value(store, item, rng, depth) for _ in range(length)]
    if item[0] == Nodetype.BASE and item[1][0] != "string":
        return np.array(values, {"byte": "u1", "char": "u1"}.get(item[1][0], item[1][0]))
    return values


def same(left, right):
    """Whether values of two libraries are equal."""
    if isinstance(left, np.ndarray):
        return left.dtype.newbyteorder("=") == right.dtype.newbyteorder("=") and np.array_equal(left, right)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if hasattr(left, "__msgtype__"):
        assert left.__msgtype__ == right.__msgtype__
        return all(same(getattr(left, name), getattr(right, name)) for name in type(right).__match_args__)
    return type(left) is type(right) and left == right


def samples(name, store=JAZZY, count=3):
    rng = random.Random(name)
    for _ in range(count):
        yield value(store, (Nodetype.NAME, name), rng)


def test_the_types_are_those_of_rosbags():
    store = ros2.TypeStore()
    assert len(NAMES) > 150
    assert set(NAMES) <= set(store.names())
    differ = [name for name in NAMES if JAZZY.hash_rihs01(name) != store.message(name).hash]
    # rosbags describes a char as a char; that of a .msg file is a uint8, see the hash of AddTwoInts below.
    assert differ == [
        "rmw_dds_common/msg/Gid",
        "rmw_dds_common/msg/NodeEntitiesInfo",
        "rmw_dds_common/msg/ParticipantEntitiesInfo",
        "service_msgs/msg/ServiceEventInfo",
        "std_msgs/msg/Char",
    ]
    for each in ros2.TypeStore("humble").names():
        assert each.count("/") == 2


@pytest.mark.parametrize("name", NAMES)
def test_every_type_is_read_and_written_as_by_rosbags(name):
    type_ = ros2.message(name)
    for theirs in samples(name):
        payload = bytes(JAZZY.serialize_cdr(theirs, name, little_endian=True))
        ours = type_.decode(payload)
        assert type_.encode(type_.decode(payload)) == payload
        assert same(theirs, ours)
        big = type_.decode(bytes(JAZZY.serialize_cdr(theirs, name, little_endian=False)))
        assert big == ours
        assert type_.encode(big) == payload
        assert type_.encode(theirs) == payload  # any object with the attributes
        assert ours == copy.deepcopy(ours) == pickle.loads(pickle.dumps(ours))
    empty = type_.cls()
    assert type_.decode(type_.encode(empty)) == empty


def test_hashes_that_rmw_zenoh_publishes():
    """zenoh-services 6.9; that of the service is in the design text of rmw_zenoh."""
    known = {
        "std_msgs/msg/String": "df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18",
        "geometry_msgs/msg/Twist": "9c45bf16",
        "sensor_msgs/msg/Image": "d31d41a9",
        "builtin_interfaces/msg/Time": "b106235e",
    }
    for name, digits in known.items():
        assert ros2.message(name).hash.startswith(f"RIHS01_{digits}")
    service = ros2.service("example_interfaces/srv/AddTwoInts")
    assert service.hash == "RIHS01_e118de6bf5eeb66a2491b5bda11202e7b68f198d6f67922cf30364858239c81a"


def test_a_message_is_like_a_dataclass():
    image = ros2.message("sensor_msgs/msg/Image").cls
    header = ros2.message("std_msgs/msg/Header").cls
    message = image(header(frame_id="camera"), height=2, width=3, encoding="mono8", data=b"abcdef")
    assert message.header.stamp.sec == message.step == 0
    assert image.__annotations__["header"] is header
    assert image.__annotations__["data"] is np.ndarray
    assert image.__match_args__[:2] == ("header", "height")
    assert message == image(header(frame_id="camera"), 2, 3, "mono8", 0, 0, np.frombuffer(b"abcdef", "u1"))
    assert message != image()
    assert repr(header(frame_id="x")) == "Header(stamp=Time(sec=0, nanosec=0), frame_id='x')"
    field = ros2.message("sensor_msgs/msg/PointField").cls
    assert (field.FLOAT32, field().datatype) == (7, 0)
    with pytest.raises(TypeError, match="has no field 'widht'"):
        image(widht=3)
    with pytest.raises(TypeError, match="header is given twice"):
        image(header(), header=header())
    with pytest.raises(TypeError, match="has 2 fields, 3 values"):
        header(1, 2, 3)
    with pytest.raises(AttributeError):
        message.widht = 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(message)


def test_defaults_and_constants_of_a_definition():
    store = ros2.TypeStore(None)
    text = """
int8 LEFT=-1
string NAME = "a # b"   # the name
float64 HALF=.5
bool ON=true
int32 speed 5 # default
string[] tags ["a", 'b']
uint8[3] three [1, 2, 0x3]
string from "here"
geometry_msgs/Nothing[2] two
===
MSG: geometry_msgs/Nothing
"""
    assert store.add(text, "robot/msg/Wheel") == ["geometry_msgs/msg/Nothing", "robot/msg/Wheel"]
    type_ = store.message("robot/Wheel")
    assert (type_.cls.LEFT, type_.cls.NAME, type_.cls.HALF, type_.cls.ON) == (-1, "a # b", 0.5, True)
    message = type_.cls()
    assert (message.speed, message.tags, message.from_) == (5, ["a", "b"], "here")
    assert message.three.tolist() == [1, 2, 3]
    assert len(message.two) == 2
    assert type_.decode(type_.encode(message)) == message
    assert store.add(text, "robot/msg/Wheel") == []


def test_images_are_views_of_the_payload():
    type_ = ros2.message("sensor_msgs/msg/PointCloud2")
    payload = type_.encode(type_.cls(data=np.arange(100_000, dtype="u1"), is_dense=True))
    for given in (payload, ZBytes(payload), bytearray(payload), memoryview(payload)):
        data = type_.decode(given).data
        assert np.array_equal(data, np.arange(100_000, dtype="u1"))
        assert not data.flags.writeable
        assert not data.flags.owndata
    assert np.shares_memory(type_.decode(payload).data, np.frombuffer(payload, "u1"))
    shared = ZBytes(payload)
    assert np.shares_memory(type_.decode(shared).data, np.frombuffer(shared, "u1"))
    # Publishers send it from where it was written.
    assert bytes(type_._payload(type_.decode(payload))) == payload
    # A payload that the program changes afterwards is not seen.
    own = bytearray(payload)
    message = type_.decode(own)
    own[:] = bytes(len(own))
    assert message.is_dense


def test_a_decoded_message_can_be_changed_before_it_is_read():
    type_, header = ros2.message("nav_msgs/msg/Path"), ros2.message("std_msgs/msg/Header")
    payload = type_.encode(type_.cls(header.cls(frame_id="a")))
    message = type_.decode(payload)
    assert type(message) is not type_.cls
    message.header = "b"
    assert (message.header, message.poses) == ("b", [])
    assert type(message) is type_.cls
    assert isinstance(type_.decode(payload), type_.cls)
    with pytest.raises(AttributeError):
        getattr(type_.decode(payload), "frame")  # noqa: B009 - the access
    with pytest.raises(AttributeError):
        type_.decode(payload).frame = 1
    match type_.decode(payload):
        case ros2.Message() as found:
            assert found.header.frame_id == "a"
    # A small one has its attributes at once.
    small = header.decode(header.encode(header.cls(frame_id="a")))
    assert type(small) is header.cls
    assert (small.frame_id, small.stamp.sec) == ("a", 0)


def test_booleans_other_than_one_are_true():
    store = ros2.TypeStore(None)
    store.add("bool one\nbool[] some", "a/msg/Flags")
    found = store.message("a/msg/Flags").decode(bytes.fromhex("00010000 02000000 03000000 0001ff"))
    assert found.one is True
    assert found.some.view("u1").tolist() == [0, 1, 1]


def test_threads_read_one_message():
    type_ = ros2.message("nav_msgs/msg/Path")
    pose = ros2.message("geometry_msgs/msg/PoseStamped").cls
    payload = type_.encode(type_.cls(poses=[pose() for _ in range(20)]))
    for _ in range(50):
        message, seen = type_.decode(payload), []
        threads = [threading.Thread(target=lambda m=message, s=seen: s.append(m.poses)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(seen) == 4
        assert message.poses == seen[0]


def test_every_cut_of_a_payload_is_an_error_with_its_place():
    name = "sensor_msgs/msg/JointState"
    type_ = ros2.message(name)
    (theirs,) = samples(name, count=1)
    payload = bytes(JAZZY.serialize_cdr(theirs, name))
    for end in range(len(payload)):
        with pytest.raises(PayloadError) as caught:
            type_.decode(payload[:end])
        assert (caught.value.encoding, caught.value.schema) == ("application/cdr", name)
        assert 0 <= caught.value.offset <= end
    for at in range(len(payload)):
        for flip in (0x01, 0x80, 0xFF):
            changed = bytearray(payload)
            changed[at] ^= flip
            try:
                found = type_.decode(changed)
            except PayloadError:
                continue
            assert len(found.header.frame_id) <= len(payload)
            assert len(found.position) + len(found.name) <= len(payload)


@pytest.mark.parametrize(
    ("payload", "problem", "path", "offset"),
    [
        ("00", "a payload of 1 octets has no header", None, 0),
        ("0007000000000000", "0007 is no header of plain CDR", None, 0),
        ("00010000 ffffffff 00", "4294967295 items or octets are announced, 1 left", "data", 4),
        ("00010000 06000000 6865", "6 items or octets are announced, 2 left", "data", 4),
        ("00010000 02000000 ff00", "no UTF-8", "data", 8),
        ("00010000 02000000 6100 00000000 00", "5 octets after the end: is it of another type?", None, 10),
    ],
)
def test_payloads_that_lie(payload, problem, path, offset):
    with pytest.raises(PayloadError, match=problem.replace("?", r"\?")) as caught:
        ros2.message("std_msgs/msg/String").decode(bytes.fromhex(payload))
    assert (caught.value.path, caught.value.offset) == (path, offset)


@pytest.mark.parametrize(
    ("name", "fields", "path", "problem"),
    [
        ("std_msgs/msg/String", {"data": 5}, "data", "5 is not a text"),
        ("std_msgs/msg/String", {"data": None}, "data", "NoneType is not a text"),
        ("std_msgs/msg/String", {"data": "\ud800"}, "data", "surrogates"),
        ("std_msgs/msg/UInt8", {"data": 256}, "data", "256 is not a uint8"),
        ("std_msgs/msg/Int8", {"data": 1.5}, "data", "1.5 is not an int8"),
        ("std_msgs/msg/Float32", {"data": 1e39}, "data", "not a float32"),
        ("std_msgs/msg/Float64", {"data": "x"}, "data", "str is not a float64"),
        ("std_msgs/msg/UInt8MultiArray", {"data": [1, 300]}, "data", "a number is beyond uint8"),
        ("std_msgs/msg/Int32MultiArray", {"data": [1.5]}, "data", "float64 is not one of int32"),
        ("std_msgs/msg/Header", {"stamp": 3}, "stamp.sec", "no attribute 'sec'"),
        ("sensor_msgs/msg/JointState", {"name": "arm"}, "name", "a list is expected"),
        ("sensor_msgs/msg/JointState", {"name": ["arm", 7]}, "name[1]", "7 is not a text"),
        ("sensor_msgs/msg/Imu", {"orientation_covariance": [1.0]}, "orientation_covariance", "1 items for"),
        ("tf2_msgs/msg/TFMessage", {"transforms": [1]}, "transforms[0].header", "no attribute"),
    ],
)
def test_values_that_are_none_of_their_field(name, fields, path, problem):
    type_ = ros2.message(name)
    with pytest.raises(PayloadError, match=problem) as caught:
        type_.encode(type_.cls(**fields))
    assert (caught.value.path, caught.value.schema, caught.value.offset) == (path, name, None)


def test_bounds_hold_both_ways():
    store = ros2.TypeStore(None)
    store.add("string<=3 text\nint16[<=2] few\nstring<=2[<=1] texts", "a/msg/Bounded")
    type_ = store.message("a/msg/Bounded")
    assert type_.decode(type_.encode(type_.cls("abc", [1, 2], ["ab"]))).few.tolist() == [1, 2]
    for message in (type_.cls("abcd"), type_.cls(few=[1, 2, 3]), type_.cls(texts=["abc"])):
        with pytest.raises(PayloadError, match="the type allows"):
            type_.encode(message)
    theirs = get_typestore(Stores.EMPTY)
    theirs.register(get_types_from_msg("string text\nint16[] few\nstring[] texts", "a/msg/Bounded"))
    long = theirs.types["a/msg/Bounded"]("abcd", np.zeros(0, "i2"), [])
    with pytest.raises(PayloadError, match="4 items or octets, and the type allows 3 at text"):
        type_.decode(bytes(theirs.serialize_cdr(long, "a/msg/Bounded")))
    mine = get_typestore(Stores.EMPTY)
    mine.register(get_types_from_msg("string<=3 text\nint16[<=2] few\nstring<=2[<=1] texts", "a/msg/Bounded"))
    assert mine.hash_rihs01("a/msg/Bounded") == type_.hash


# ---- Services and actions -----------------------------------------------------------------------------


def test_services_and_actions_of_the_common_packages():
    store = ros2.TypeStore()
    kinds = {"msg": store.message, "srv": store.service, "action": store.action}
    for name in store.names():
        found = kinds[name.split("/")[1]](name)
        assert found.name == name
        assert found.hash.startswith("RIHS01_")
    parameters = store.service("rcl_interfaces/srv/SetParameters")
    request = parameters.request.cls(parameters=[store.message("rcl_interfaces/msg/Parameter").cls("speed")])
    assert parameters.request.decode(parameters.request.encode(request)) == request
    assert parameters.request.name == "rcl_interfaces/srv/SetParameters_Request"
    assert store.message("example_interfaces/msg/String").cls("x").data == "x"


def test_an_action_is_made_of_services_and_a_topic():
    action = ros2.action("example_interfaces/action/Fibonacci")
    assert action.goal.cls(order=5).order == 5
    assert action.send_goal.name == "example_interfaces/action/Fibonacci_SendGoal"
    assert action.get_result.name == "example_interfaces/action/Fibonacci_GetResult"
    assert action.feedback_message.name == "example_interfaces/action/Fibonacci_FeedbackMessage"
    request = action.send_goal.request.cls(goal=action.goal.cls(7))
    assert request.goal_id.uuid.tolist() == [0] * 16
    assert action.send_goal.request.encode(request).hex() == "00010000" + "00" * 16 + "07000000"
    response = action.send_goal.response.cls(accepted=True)
    assert response.stamp.sec == 0
    result = action.get_result.response.cls(4, action.result.cls([1, 1, 2]))
    assert (
        action.get_result.response.encode(result).hex()
        == "00010000 04000000 03000000 01000000".replace(" ", "") + "0100000002000000"
    )
    feedback = action.feedback_message.cls(feedback=action.feedback.cls([1]))
    assert action.feedback_message.decode(action.feedback_message.encode(feedback)) == feedback
    hashes = {action.hash, action.send_goal.hash, action.get_result.hash, action.feedback_message.hash}
    assert len(hashes) == 4


# ---- Definitions --------------------------------------------------------------------------------------


def folder(tmp_path):
    for path, text in {
        "robot/msg/Wheel.msg": "std_msgs/Header header\nfloat64 speed\nSide side",
        "robot/msg/Side.msg": "uint8 LEFT=0\nuint8 side",
        "robot/srv/Turn.srv": "Wheel wheel\n---\nbool done",
        "arm/action/Reach.action": "geometry_msgs/Point target\n---\n---\nfloat32 left",
        "robot/README.md": "no definition",
    }.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_a_folder_of_packages(tmp_path):
    store = ros2.TypeStore()
    found = store.add_folder(folder(tmp_path))
    assert found == ["arm/action/Reach", "robot/msg/Side", "robot/msg/Wheel", "robot/srv/Turn"]
    theirs = get_typestore(Stores.ROS2_JAZZY)
    theirs.register(
        get_types_from_msg("uint8 LEFT=0\nuint8 side", "robot/msg/Side")
        | get_types_from_msg("std_msgs/Header header\nfloat64 speed\nSide side", "robot/msg/Wheel")
    )
    assert store.message("robot/msg/Wheel").hash == theirs.hash_rihs01("robot/msg/Wheel")
    turn = store.service("robot/srv/Turn")
    wheel = store.message("robot/msg/Wheel").cls(speed=2.0)
    assert turn.request.decode(turn.request.encode(turn.request.cls(wheel))).wheel == wheel
    assert store.action("arm/action/Reach").result.cls() == store.action("arm/action/Reach").result.cls()
    assert ros2.TypeStore().add_folder(tmp_path / "robot") == found[1:]


@pytest.mark.parametrize(
    ("path", "text", "problem", "line", "field"),
    [
        ("robot/msg/A.msg", "int8 x\nfloat65 y", "there is no definition of float65", 2, "y"),
        ("robot/msg/A.msg", "int8 x\n\nint8", "'int8' is no field", 3, None),
        ("robot/msg/A.msg", "int8 x 300", "300 is beyond the type", 1, "x"),
        ("robot/msg/A.msg", "int8 x\nint8 x", "x is there twice", 2, "x"),
        ("robot/srv/A.srv", "int8 x\n---\nint9 y", "there is no definition of int9", 3, "y"),
        ("robot/srv/A.srv", "int8 x", "1 parts at lines of ---, not 2", None, None),
        ("robot/msg/A.msg", "robot/Wheel w\nA a", "robot/A contains itself", None, None),
        ("robot/A.msg", "int8 x", "the file is in no folder 'msg'", None, None),
        ("std_msgs/msg/String.msg", "int8 x", "std_msgs/String differs from the definition", None, None),
        ("z/robot/msg/Wheel.msg", "int8 x", "robot/msg/Wheel is there twice", None, None),
        ("robot/msg/A-B.msg", "int8 x", "is no name such as package/msg/Type", None, None),
    ],
)
def test_a_file_that_is_no_definition_is_named(tmp_path, path, text, problem, line, field):
    file = folder(tmp_path) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    store = ros2.TypeStore()
    before = store.names()
    with pytest.raises(DefinitionError, match=problem) as caught:
        store.add_folder(tmp_path)
    assert (caught.value.file, caught.value.line, caught.value.field) == (str(file), line, field)
    assert str(file) in str(caught.value)
    assert store.names() == before, "all of a folder is added, or nothing"


def test_files_that_are_too_large_or_no_text(tmp_path):
    (tmp_path / "msg").mkdir()
    file = tmp_path / "msg" / "A.msg"
    file.write_bytes(b"\xff")
    with pytest.raises(DefinitionError, match="no UTF-8 at octet 0"):
        ros2.TypeStore(None).add_folder(tmp_path)
    file.write_text("#" * (2 << 20))
    with pytest.raises(DefinitionError, match="larger than"):
        ros2.TypeStore(None).add_folder(tmp_path)
    with pytest.raises(FileNotFoundError):
        ros2.TypeStore(None).add_folder(tmp_path / "none")


def test_types_that_are_not_there():
    store = ros2.TypeStore(None)
    assert store.names() == []
    for find in (store.message, store.service, store.action):
        with pytest.raises(DefinitionError, match="there is no definition of a/srv/B"):
            find("a/srv/B")
    with pytest.raises(DefinitionError, match="there is no definition of Gone"):
        store.add("Gone gone", "a/msg/B")
    with pytest.raises(ValueError, match="distribution must be one of"):
        ros2.TypeStore("dashing")


def test_few_lines_make_no_million_values():
    twice = [
        "T1 a\nT1 b",
        *(f"MSG: a/T{n}\nT{n + 1} a\nT{n + 1} b" for n in range(1, 40)),
        "MSG: a/T40\nint8 x",
    ]
    with pytest.raises(DefinitionError, match="1048576 are read"):
        _definitions.parse("\n===\n".join(twice), "a/msg/T")
    deep = ["T1 a", *(f"MSG: a/T{n}\nT{n + 1} a" for n in range(1, 99)), "MSG: a/T99\nint8 x"]
    with pytest.raises(DefinitionError, match="within 65 types"):
        _definitions.parse("\n===\n".join(deep), "a/msg/T")


def test_definitions_of_a_recording(tmp_path):
    path = tmp_path / "run.mcap"
    definition, _ = JAZZY.generate_msgdef("sensor_msgs/msg/Imu", ros_version=2)
    with path.open("wb") as file:
        writer = mcap.writer.Writer(file)
        writer.start()
        for name, text in (("sensor_msgs/msg/Imu", definition), ("robot/msg/Own", "int8 a\nint8 b")):
            schema = writer.register_schema(name, "ros2msg", text.encode())
            channel = writer.register_channel(topic=f"/{name}", message_encoding="cdr", schema_id=schema)
            writer.add_message(channel, log_time=1, publish_time=1, data=bytes(8))
        writer.register_schema("other", "protobuf", b"\xff")
        writer.finish()
    store = ros2.TypeStore()
    assert store.add_mcap(path) == ["robot/msg/Own"]
    own = ros2.TypeStore(None)
    assert own.add_mcap(path, names=["sensor_msgs/Imu"]) == [
        "builtin_interfaces/msg/Time",
        "geometry_msgs/msg/Quaternion",
        "geometry_msgs/msg/Vector3",
        "sensor_msgs/msg/Imu",
        "std_msgs/msg/Header",
    ]
    assert own.message("sensor_msgs/msg/Imu").hash == ros2.message("sensor_msgs/msg/Imu").hash
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(path.read_bytes()[:-60])
    assert ros2.TypeStore().add_mcap(cut) == ["robot/msg/Own"]
    cut.write_bytes(b"no recording")
    with pytest.raises(RecordingError):
        ros2.TypeStore().add_mcap(cut)


def test_classes_as_a_module_for_type_checkers():
    store = ros2.default_store()
    text = store.source(
        ["geometry_msgs/msg/Twist", "sensor_msgs/Image", "diagnostic_msgs/msg/DiagnosticStatus"]
    )
    names = {}
    exec(compile(text, "types", "exec"), names)
    assert names["Twist"] is ros2.message("geometry_msgs/msg/Twist").cls
    assert {"Vector3", "Image", "Header", "Time"} <= names.keys()
    assert "        data: NDArray[np.uint8] = _DEFAULT" in text
    assert "        WARN: ClassVar[int] = 1" in text
    assert ros2.default_store().message(names["Twist"]).name == "geometry_msgs/msg/Twist"
    with pytest.raises(DefinitionError, match="have the same name in a module"):
        store.source(["std_msgs/msg/String", "example_interfaces/msg/String"])
