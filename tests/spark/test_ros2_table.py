"""Topics of ROS 2 as tables: by the types in keys and recordings, with the reason where one does not fit."""

import datetime as dt

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException

import zwire.spark as zs
from zwire import recording, ros2, spool
from zwire.errors import DefinitionError

NOW = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
STRING = ros2.message("std_msgs/msg/String")
POSE = ros2.message("geometry_msgs/msg/PoseStamped")


def key(topic, type_, hash_=None):
    package, kind, name = type_.name.split("/")
    return f"0/{topic}/{package}::{kind}::dds_::{name}_/{hash_ or type_.hash}"


def poses():
    """Messages of rmw_zenoh: two of a topic, one with another hash, one that is cut, others."""
    one = POSE.cls()
    one.header.frame_id, one.pose.position.x = "map", 1.5
    payload = POSE.encode(one)
    return [
        (key("robot/pose", POSE), payload),
        (key("robot/pose", POSE, "TypeHashNotSupported"), payload),
        (key("robot/pose", POSE, "RIHS01_" + "0f" * 32), payload),
        (key("robot/pose", POSE), payload[:30]),
        (key("robot/pose", POSE), None),
        (key("chatter", STRING), STRING.encode(STRING.cls("hello"))),
        ("robot/pose/other", b""),
    ]


def table(rows, **more):
    columns = {"key": [row[0] for row in rows], "payload": [row[1] for row in rows], **more}
    return recording.conform(pa.record_batch(columns), recv_ts=NOW)


PROBLEMS = [
    None,
    None,
    f"geometry_msgs/msg/PoseStamped has the hash {POSE.hash}, and the key RIHS01_{'0f' * 32}",
    "cdr: the payload ends early at pose.position.y at byte 30",
    None,
]


def test_a_topic_is_decoded_by_its_keys(spark):
    frame = spark.createDataFrame(poses(), "key string, payload binary").coalesce(1)
    found = zs.decode_ros2(frame, "/robot/pose")
    assert found.columns == ["key", "payload", "header", "pose", "error"]
    rows = found.collect()
    assert [row.error for row in rows] == PROBLEMS
    assert [row.pose is None for row in rows] == [False, False, True, True, True]
    assert (rows[0].header.frame_id, rows[1].pose.position.x) == ("map", 1.5)
    assert rows[2].payload == poses()[2][1], "the row keeps its payload"
    some = zs.decode_ros2(frame, "chatter", STRING.name, columns=["data"], prefix="m_")
    assert [(row.m_data, row.m_error) for row in some.collect()] == [("hello", None)]
    with pytest.raises(PythonException, match=r"the payload ends early at pose\.position\.y"):
        zs.decode_ros2(frame, "/robot/pose", errors="raise").collect()


def test_what_decode_ros2_refuses(spark):
    frame = spark.createDataFrame(poses(), "key string, payload binary")
    for given, problem in (
        (("/gone",), "there is no message of /gone: give its name"),
        (("/robot/pose/other",), "no key or encoding has the type of"),
    ):
        with pytest.raises(ValueError, match=problem):
            zs.decode_ros2(frame, *given)
    with pytest.raises(DefinitionError, match="there is no definition of a/msg/B"):
        zs.decode_ros2(frame, "/robot/pose", "a/msg/B")
    store = ros2.TypeStore(None)
    store.add("uint8[] payload", "a/msg/B")
    with pytest.raises(ValueError, match="there is a column 'payload' already"):
        zs.decode_ros2(frame, "/robot/pose", "a/msg/B", store=store)
    with pytest.raises(ValueError, match="must be string, not binary"):
        zs.decode_ros2(frame, "/robot/pose", key="payload")


def test_files_are_read_by_topic(spark, tmp_path):
    zs.register(spark)
    recording.write([table(poses()[:5])], str(tmp_path / "a.parquet"))
    recording.write([table(poses()[5:])], str(tmp_path / "b.mcap"))
    source = spark.read.format("zwire.ros2").option("minPartitions", 1)
    frame = source.option("topic", "/robot/pose").load(str(tmp_path))
    assert frame.columns == ["ts", "topic", "header", "pose", "error"]
    rows = frame.collect()
    assert [row.error for row in rows] == PROBLEMS
    assert {(row.ts.astimezone(dt.UTC), row.topic) for row in rows} == {(NOW, "/robot/pose")}
    assert rows[0].pose.position.x == 1.5
    chosen = source.option("columns", "data").option("topic", "chatter").load(str(tmp_path / "b.mcap"))
    assert [row.data for row in chosen.select("data").collect()] == ["hello"]


def test_a_bag_has_its_own_definitions(spark, tmp_path):
    """As ros2 bag record writes it: topics, the name of the type, and its definition."""
    zs.register(spark)
    store = ros2.TypeStore(None)
    definition = "uint64 count\nstring[] names\nInner[] inner\n===\nMSG: robot/Inner\nfloat32 x"
    store.add(definition, "robot/msg/Own")
    own = store.message("robot/msg/Own")
    inner = store.message("robot/msg/Inner").cls
    payload = own.encode(own.cls(2**64 - 1, ["a"], [inner(0.5)]))
    file = str(tmp_path / "run.mcap")
    schemas = {own.name: recording.McapSchema("ros2msg", definition.encode())}
    batch = table([("robot/own", payload)], encoding=[f"application/cdr;{own.name}"])
    recording.write([batch], file, schemas=schemas)
    source = spark.read.format("zwire.ros2").option("topic", "/robot/own")
    (row,) = source.load(file).collect()
    assert (row["count"], row.names, row.inner[0].x) == (-1, ["a"], 0.5)
    with pytest.raises(AnalysisException, match="there is no definition of robot/msg/Gone"):
        source.option("type", "robot/msg/Gone").load(file)
    folder = tmp_path / "robot" / "msg"
    folder.mkdir(parents=True)
    (folder / "Gone.msg").write_text("uint64 count")
    other = source.option("type", "robot/msg/Gone").option("definitions", str(tmp_path)).load(file)
    (row,) = other.collect()
    assert row.error == f"cdr: {len(payload) - 12} octets after the end: is it of another type? at byte 12"


def test_a_spool_is_read_by_topic(spark, tmp_path):
    zs.register(spark)
    with spool.Appender(str(tmp_path / "spool")) as appender:
        for name, payload in poses():
            if payload is not None:
                appender.append(key=name, payload=payload)
    source = spark.read.format("zwire.ros2").option("topic", "/robot/pose")
    rows = source.option("spool", str(tmp_path / "spool")).load().collect()
    assert {row.error for row in rows} == set(PROBLEMS)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "'topic' is missing"),
        ({"topic": "/gone"}, "no message of /gone has one"),
        ({"topic": "/chatter", "columns": "gone"}, "column 'gone' is not one of data"),
        ({"topic": "/chatter", "spool": "there"}, "'spool' and path exclude each other"),
    ],
)
def test_options_that_are_refused(spark, tmp_path, options, problem):
    zs.register(spark)
    file = str(tmp_path / "run.parquet")
    recording.write([table(poses())], file)
    with pytest.raises(AnalysisException, match=problem):
        spark.read.format("zwire.ros2").options(**options).load(file)
