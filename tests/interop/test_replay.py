"""Replays as seen by a subscriber of eclipse-zenoh; also replays of files recorded by other programs."""

import base64
import datetime as dt

import mcap.writer
import pyarrow as pa
import pytest

from interop.harness import ECLIPSE, PATIENCE, ZWIRE
from zwire import recording, zenoh
from zwire.cli import main
from zwire.spark import schema

BEGIN = dt.datetime(2026, 3, 4, 5, 6, 7, tzinfo=dt.UTC)
STAMP = zenoh.Timestamp(zenoh.NTP64(1_772_600_767, 250_000_000), zenoh.TimestampId(b"\x42"))

ROWS = [
    {
        "key": "replay/put",
        "payload": b"\x00one",
        "kind": "put",
        "encoding": "application/protobuf;demo.Pose",
        "hlc": int(STAMP.get_time_as_ntp64()),
        "hlc_id": b"\x42",
        "attachment": b"\x01beside",
        "priority": 2,
        "recv_ts": BEGIN,
    },
    {"key": "replay/del", "payload": None, "kind": "del", "attachment": b"why", "recv_ts": BEGIN},
]


@pytest.fixture(params=[ZWIRE, ECLIPSE])
def hub(request, net):
    return net.hub(request.param)


@pytest.fixture
def listener(net, hub):
    """A client of eclipse-zenoh that collects what comes below ``replay``."""
    client = net.client(ECLIPSE, hub)
    client.subscribe(name="sub", key="replay/**")
    return client


def replayed(hub, *arguments):
    return main(["replay", *map(str, arguments), "-e", hub.endpoint, "--wait-for-subscribers", str(PATIENCE)])


@pytest.mark.parametrize("timestamps", ["original", "new"])
def test_a_subscriber_of_theirs_gets_everything(hub, listener, tmp_path, timestamps):
    rows = pa.Table.from_pylist(ROWS, schema=schema.SAMPLE.arrow()).to_batches()
    recording.write(rows, tmp_path / "run.parquet")
    assert replayed(hub, tmp_path / "run.parquet", "--timestamps", timestamps) == 0
    put, deleted = listener.received(name="sub", count=2, seconds=PATIENCE)
    assert (put["key"], put["kind"], put["encoding"]) == (
        "replay/put",
        "PUT",
        "application/protobuf;demo.Pose",
    )
    assert base64.b64decode(put["payload"]) == b"\x00one"
    assert base64.b64decode(put["attachment"]) == b"\x01beside"
    assert put["priority"] == "INTERACTIVE_HIGH"
    assert (deleted["key"], deleted["kind"]) == ("replay/del", "DELETE")
    assert base64.b64decode(deleted["attachment"]) == b"why"
    assert (put["timestamp"] == str(STAMP)) == (timestamps == "original")


def test_what_others_have_recorded_as_mcap_is_published(hub, listener, tmp_path):
    with (tmp_path / "bag.mcap").open("wb") as file:
        writer = mcap.writer.Writer(file)
        writer.start("ros2", "somebody")
        shape = writer.register_schema("std_msgs/msg/String", "ros2msg", b"string data")
        channel = writer.register_channel("/chatter", "cdr", shape)
        for number in range(3):
            writer.add_message(channel, number * 1000, b"\x00\x01\x00\x00%d" % number, 0)
        writer.finish()
    assert replayed(hub, tmp_path / "bag.mcap", "--remap", "=replay") == 0
    got = listener.received(name="sub", count=3, seconds=PATIENCE)
    assert [base64.b64decode(each["payload"])[4:] for each in got] == [b"0", b"1", b"2"]
    assert {(each["key"], each["encoding"]) for each in got} == {
        ("replay/chatter", "application/cdr;std_msgs/msg/String")
    }
