"""Spools as topics of Kafka: clients of Kafka read, commit and share them; hostile ones cost a connection."""

from __future__ import annotations

import random
import socket
import struct
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import kafka
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from nodes import eventually
from terminal import running
from zwire import errors, spool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MEBI = 1 << 20

# Configuration of a session without a network.
ALONE = {"mode": "peer", "listen/endpoints": [], "scouting/multicast/enabled": False}

ROWS: list[dict[str, Any]] = [
    {"key": "robot/1", "payload": b"87", "encoding": "text/plain", "timestamp": 1_732_700_000_123_456},
    {"key": "robot/2", "payload": b"", "recv_ts": 1_732_700_001_000_000},
    {"key": "robot/1", "payload": None, "kind": "del", "attachment": b"gone\0"},
    {
        "key": "robot/3",
        "payload": bytes(range(256)) * (MEBI // 256),
        "source_zid": b"\x01\x02",
        "source_eid": 7,
        "source_sn": 1 << 40,
    },
    {"key": "robot/4", "payload": b"last"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a spool with the rows."""
    with spool.Appender(tmp_path / "fleet") as appender:
        for number, row in enumerate(ROWS):
            appender.append(**{"recv_ts": 1_732_700_000_000_000 + number * 1_000_000} | row)
    return tmp_path / "fleet"


@contextmanager
def served(*places: object, **keywords: Any) -> Iterator[spool.KafkaServer]:
    with spool.KafkaServer(
        places[0] if len(places) == 1 else places, listen="127.0.0.1:0", **keywords
    ) as server:
        yield server


@contextmanager
def consumer(server: spool.KafkaServer, group: str = "readers", **settings: Any) -> Iterator[Consumer]:
    """Return a consumer of librdkafka, which verifies checksums."""
    options = {
        "bootstrap.servers": server.address,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "check.crcs": True,
        "fetch.wait.max.ms": 100,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 100,
    }
    reader = Consumer(options | {name.replace("_", "."): value for name, value in settings.items()})
    try:
        yield reader
    finally:
        reader.close()


def take(reader: Consumer, count: int, seconds: float = 10.0) -> list[Any]:
    """Return messages; an error of the client fails the test."""
    found: list[Any] = []
    end = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < end:
        for message in reader.consume(count - len(found), 0.1):
            if message.error() is not None:
                raise KafkaException(message.error())
            found.append(message)
    assert len(found) == count
    return found


def fill(path: Path, rows: int, **keywords: Any) -> None:
    with spool.Appender(path, **keywords) as appender:
        for number in range(rows):
            appender.append(key=f"robot/{number % 7}", payload=f"{number}")
            if number % 37 == 36:
                appender.flush()


def check_rows(rows: list[tuple[Any, ...]]) -> None:
    """Compare offset, time, key, value and headers of records with the rows of the spool."""
    assert [row[0] for row in rows] == [0, 1, 2, 3, 4]
    assert [row[1] for row in rows] == [
        1_732_700_000_123,
        *(1_732_700_000_000 + 1000 * n for n in range(1, 5)),
    ]
    assert [row[2] for row in rows] == [row["key"].encode() for row in ROWS]
    assert [row[3] for row in rows] == [row["payload"] for row in ROWS]
    assert rows[0][4] == [("kind", b"put"), ("encoding", b"text/plain")]
    assert rows[1][4] == [("kind", b"put")]
    assert rows[2][4] == [("kind", b"del"), ("attachment", b"gone\0")]
    numbers = [("source_zid", b"\x01\x02"), ("source_eid", b"7"), ("source_sn", str(1 << 40).encode())]
    assert rows[3][4] == [("kind", b"put"), *numbers]


def test_librdkafka_reads_rows_as_they_are(folder):
    with served(folder) as server, consumer(server) as reader:
        reader.assign([TopicPartition("fleet", 0, 0)])
        found = take(reader, 5)
        check_rows([(m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers()) for m in found])
        (topic,) = reader.list_topics(timeout=5).topics.values()
        assert (topic.topic, list(topic.partitions)) == ("fleet", [0])


def test_kafka_python_reads_rows_as_they_are(folder):
    with served(folder) as server:
        reader = kafka.KafkaConsumer(bootstrap_servers=server.address, check_crcs=True, fetch_max_wait_ms=100)
        try:
            reader.assign([kafka.TopicPartition("fleet", 0)])
            reader.seek_to_beginning()
            found: list[Any] = []
            end = time.monotonic() + 10
            while len(found) < 5 and time.monotonic() < end:
                for records in reader.poll(timeout_ms=200).values():
                    found += records
            check_rows([(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in found])
        finally:
            reader.close()


@pytest.mark.parametrize("columns", [None, ["key", "payload"]], ids=["all", "few"])
@pytest.mark.parametrize("compression", ["none", "zstd", "lz4"])
def test_every_kind_of_spool_is_read_whole_and_in_order(tmp_path, columns, compression):
    path, chance = tmp_path / "mixed", random.Random(7)
    rows: dict[tuple[int, int], tuple[str, bytes]] = {}
    kept = {"columns": columns, "compression": compression, "segment_bytes": 200_000}
    with spool.Appender(path, shards=3, **kept) as appender:
        for number in range(2000):
            appender.append(
                key=f"k/{chance.randrange(9)}", payload=chance.randbytes(chance.choice([0, 9, 900]))
            )
            if number % 97 == 0:
                appender.flush()
    view = spool.open(path)
    for shard, end in view.end().items():
        for batch in view.read(shard, 0, end, columns=["offset", "key", "payload"]):
            for row in pa.record_batch(batch).to_pylist():
                rows[shard, row["offset"]] = row["key"], row["payload"]
    with served(path) as server, consumer(server, fetch_message_max_bytes=30_000) as reader:
        reader.assign([TopicPartition("mixed", shard, 0) for shard in view.shards])
        found = take(reader, 2000)
    assert {(m.partition(), m.offset()): (m.key().decode(), m.value()) for m in found} == rows
    for shard in view.shards:
        offsets = [m.offset() for m in found if m.partition() == shard]
        assert offsets == sorted(offsets)


def test_a_store_is_served_without_a_folder(tmp_path):
    path, tier = tmp_path / "fleet", f"file://{tmp_path}/archive"
    fill(path, 100)
    with spool.Spooler(path, "unused", config=ALONE, tier=tier) as spooler:
        eventually(lambda: spooler.stats()["tier"]["behind"] == 0 and spooler.stats()["tier"]["bytes"] > 0)
    with served(tier) as server, consumer(server) as reader:
        assert server.topics == ["archive"]
        reader.assign([TopicPartition("archive", 0, 0)])
        assert [m.offset() for m in take(reader, 100)] == list(range(100))
        reader.commit(asynchronous=False)
    assert spool.open(tier).consumers() == {"readers": {0: 100}}


def test_segments_that_are_merged_meanwhile_are_read_on_with_the_same_offsets(tmp_path):
    path, tier = tmp_path / "fleet", f"file://{tmp_path}/archive"
    with spool.Appender(path) as appender:
        for number in range(60):
            appender.append(key="robot/1", payload=f"{number}".encode())
            appender.seal()
    keep = spool.Retention(compact_bytes=None)
    with spool.Spooler(path, "unused", config=ALONE, tier=tier, retention=keep) as spooler:
        eventually(lambda: spooler.stats()["tier"]["behind"] == 0 and spooler.stats()["tier"]["bytes"] > 0)
    with served(tier) as server, consumer(server) as reader:
        reader.assign([TopicPartition(server.topics[0], 0, 0)])
        found = take(reader, 20)
        done = spool.compact(tier, grace_seconds=1)
        assert (done.segments, done.into) == (60, 1)
        # The client has fetched more already.
        reader.assign([TopicPartition(server.topics[0], 0, 20)])
        found += take(reader, 40)
    assert [(each.offset(), each.value()) for each in found] == [
        (number, f"{number}".encode()) for number in range(60)
    ]


def test_offsets_are_found_by_time_of_receipt(folder):
    with served(folder) as server, consumer(server) as reader:
        assert reader.get_watermark_offsets(TopicPartition("fleet", 0), timeout=5) == (0, 5)
        for time_, offset in (
            (0, 0),
            (1_732_700_001_000, 1),
            (1_732_700_001_001, 2),
            (1_732_700_009_000, -1),
        ):
            (found,) = reader.offsets_for_times([TopicPartition("fleet", 0, time_)], timeout=5)
            assert found.offset == offset, time_


def test_a_fetch_has_at_least_one_row_and_little_more_than_it_may_have(folder):
    with served(folder) as server, consumer(server, fetch_message_max_bytes=1000) as reader:
        reader.assign([TopicPartition("fleet", 0, 0)])
        assert [m.offset() for m in take(reader, 5)] == [0, 1, 2, 3, 4]


def test_a_growing_spool_is_followed(tmp_path):
    path = tmp_path / "live"
    with spool.Appender(path) as appender, served(path) as server, consumer(server) as reader:
        reader.assign([TopicPartition("live", 0, 0)])
        assert reader.poll(0.3) is None
        waits = []
        for number in range(20):
            appender.append(key="k", payload=str(number))
            begin = time.perf_counter()
            appender.flush()
            (message,) = take(reader, 1)
            waits.append(time.perf_counter() - begin)
            assert message.value() == str(number).encode()
    # The median is a few milliseconds; the bound leaves room for a loaded machine.
    assert sorted(waits)[10] < 0.25


def test_deleted_rows_are_out_of_range(tmp_path):
    path = tmp_path / "short"
    fill(path, 2000, segment_bytes=4000)
    retention = spool.Retention(bytes=10_000)
    with spool.Spooler(path, "unused", config=ALONE, retention=retention):
        eventually(lambda: spool.open(path).earliest()[0] > 0)
    earliest = spool.open(path).earliest()[0]
    with served(path) as server:
        with consumer(server, auto_offset_reset="error") as reader:
            reader.assign([TopicPartition("short", 0, 1)])
            with pytest.raises(KafkaException) as caught:
                take(reader, 1)
            assert caught.value.args[0].code() in (
                KafkaError.OFFSET_OUT_OF_RANGE,
                KafkaError._AUTO_OFFSET_RESET,
            )
        with consumer(server) as reader:
            reader.assign([TopicPartition("short", 0, 1)])
            assert take(reader, 1)[0].offset() == earliest
            assert reader.get_watermark_offsets(TopicPartition("short", 0), timeout=5) == (earliest, 2000)


def test_offsets_that_were_skipped_are_absent(tmp_path):
    path = tmp_path / "skipped"
    fill(path, 3)
    # As after a failure of power: nothing tells how many of the reserved offsets were used.
    (path / "marks").unlink()
    with spool.Appender(path) as appender:
        appender.append(key="k", payload="behind")
        appender.flush()
        end = spool.open(path).end()[0]
        assert end > 4
        with served(path) as server, consumer(server) as reader:
            reader.assign([TopicPartition("skipped", 0, 1)])
            found = take(reader, 3)
            assert [m.offset() for m in found] == [1, 2, end - 1]
            assert reader.get_watermark_offsets(TopicPartition("skipped", 0), timeout=5) == (0, end)


def test_a_damaged_block_is_an_error_behind_the_rows_before_it(tmp_path):
    path = tmp_path / "damaged"
    fill(path, 2 * 37)
    (segment,) = (path / "0").glob("*.arrow")
    octets = bytearray(segment.read_bytes())
    # Payloads of neighbouring rows: the two digits alone may be part of a random id before the block.
    at = octets.index(b"495051")
    octets[at] ^= 0xFF
    segment.write_bytes(octets)
    with served(path) as server, consumer(server) as reader:
        reader.assign([TopicPartition("damaged", 0, 30)])
        assert [m.offset() for m in take(reader, 7)] == list(range(30, 37))
        with pytest.raises(KafkaException, match=r"(?i)corrupt|crc|bad message|invalid"):
            take(reader, 1)


def test_a_group_commits_and_resumes(tmp_path):
    fill(tmp_path / "fleet", 200, shards=2)
    ends = spool.open(tmp_path / "fleet").end()
    with served(tmp_path / "fleet") as server:
        with consumer(server) as reader:
            reader.subscribe(["fleet"])
            first = take(reader, 50)
            reader.commit(asynchronous=False)
            at = {place.partition: place.offset for place in reader.committed(reader.assignment(), timeout=5)}
        offsets = spool.open(tmp_path / "fleet").consumers()["readers"]
        assert {shard: offset for shard, offset in at.items() if offset >= 0} == offsets
        with consumer(server) as reader:
            reader.subscribe(["fleet"])
            rest = take(reader, 150)
            assert {(m.partition(), m.offset()) for m in first + rest} == {
                (shard, offset) for shard, end in ends.items() for offset in range(end)
            }
        with consumer(server, group="others") as reader:
            (place,) = reader.committed([TopicPartition("fleet", 0)], timeout=5)
            assert place.offset < 0


def test_members_of_a_group_share_partitions(tmp_path):
    fill(tmp_path / "fleet", 400, shards=4)
    with served(tmp_path / "fleet") as server, consumer(server) as one:
        one.subscribe(["fleet"])
        take(one, 1)
        assert len(one.assignment()) == 4
        with consumer(server) as two:
            two.subscribe(["fleet"])
            eventually(lambda: (one.poll(0.05), two.poll(0.05), len(two.assignment()) == 2)[-1])
            assert {p.partition for p in one.assignment()}.isdisjoint(p.partition for p in two.assignment())
        eventually(lambda: (one.poll(0.05), len(one.assignment()) == 4)[-1])


def test_kafka_python_reads_and_commits_as_a_group(tmp_path):
    fill(tmp_path / "fleet", 100, shards=2)
    with served(tmp_path / "fleet") as server:
        reader = kafka.KafkaConsumer(
            "fleet",
            bootstrap_servers=server.address,
            group_id="python",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            consumer_timeout_ms=10_000,
            fetch_max_wait_ms=100,
        )
        try:
            found = {(r.partition, r.offset) for _, r in zip(range(100), reader, strict=False)}
            assert len(found) == 100
            reader.commit()
        finally:
            reader.close()
    assert spool.open(tmp_path / "fleet").consumers()["python"] == spool.open(tmp_path / "fleet").end()


def test_a_commit_is_refused_if_it_is_not_allowed(folder):
    with served(folder, commits=False) as server, consumer(server) as reader:
        reader.assign([TopicPartition("fleet", 0, 0)])
        take(reader, 1)
        with pytest.raises(KafkaException) as caught:
            reader.commit(asynchronous=False)
        assert caught.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    assert not spool.open(folder).consumers()


def test_a_group_with_a_name_that_no_consumer_has_is_refused(folder):
    with served(folder) as server, consumer(server, group="a/b") as reader:
        reader.assign([TopicPartition("fleet", 0, 0)])
        take(reader, 1)
        with pytest.raises(KafkaException) as caught:
            reader.commit(asynchronous=False)
        assert caught.value.args[0].code() == KafkaError.INVALID_GROUP_ID


def test_a_producer_is_refused_with_a_reason(folder):
    said: list[Any] = []
    with served(folder) as server:
        producer = Producer({"bootstrap.servers": server.address, "message.timeout.ms": 5000})
        producer.produce("fleet", b"no", on_delivery=lambda error, message: said.append(error))
        producer.flush(10)
    assert [error.code() for error in said] == [KafkaError.POLICY_VIOLATION]
    assert spool.open(folder).end() == {0: 5}


def test_several_spools_are_topics_and_an_unknown_one_is_an_error(tmp_path):
    fill(tmp_path / "a", 3)
    fill(tmp_path / "b", 5, shards=3)
    with spool.KafkaServer(
        {"first": tmp_path / "a", "second": tmp_path / "b"}, listen="127.0.0.1:0"
    ) as server:
        assert server.topics == ["first", "second"]
        with consumer(server) as reader:
            topics = reader.list_topics(timeout=5).topics
            assert {name: len(topic.partitions) for name, topic in topics.items()} == {
                "first": 1,
                "second": 3,
            }
            (unknown,) = reader.list_topics("third", timeout=5).topics.values()
            assert unknown.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


# --- every version, as another implementation has it


def ask(server: spool.KafkaServer, request: Any, response: Any) -> Any:
    """Send a request of kafka-python and decode the answer with it; both agree on every byte."""
    version = request.API_VERSION
    request.with_header(correlation_id=7, client_id="test")
    with connect(server) as link, link.makefile("rb") as answers:
        link.sendall(request.encode(header=True, framed=True))
        (length,) = struct.unpack(">i", answers.read(4))
        octets = answers.read(length)
    assert octets[:4] == struct.pack(">i", 7)
    decoded = response.decode(octets[4:], version=version)
    decoded._header = None  # of a request, to its encoder
    assert octets[4:] == bytes(decoded.encode(version=version)), version
    return decoded


def parts(kind: Any, inner: str, **fields: Any) -> list[Any]:
    """Return the topic of a request, with one partition."""
    (of_topic,) = {"name", "topic"} & set(kind.fields)
    part = getattr(kind, inner)(**fields)
    return [kind(**{of_topic: "fleet"}, partitions=[part])]


def requests(version: int) -> Iterator[tuple[Any, Any, Any]]:
    """Yield requests of a version, each with the type of the answer and a check of it."""
    found = []
    if 1 <= version <= 8:
        topics = [MetadataRequest.MetadataRequestTopic(name="fleet")]
        request = MetadataRequest(version=version, topics=topics)
        found.append((request, MetadataResponse, lambda a: [len(t.partitions) for t in a.topics] == [1]))
    if 1 <= version <= 5:
        wanted = parts(
            ListOffsetsRequest.ListOffsetsTopic, "ListOffsetsPartition", partition_index=0, timestamp=-1
        )
        request = ListOffsetsRequest(version=version, replica_id=-1, topics=wanted)
        found.append((request, ListOffsetsResponse, lambda a: a.topics[0].partitions[0].offset == 5))
        topics = [OffsetFetchRequest.OffsetFetchRequestTopic(name="fleet", partition_indexes=[0])]
        request = OffsetFetchRequest(version=version, group_id="versions", topics=topics)
        check = lambda a: a.topics[0].partitions[0].committed_offset in (-1, 3)  # noqa: E731
        found.append((request, OffsetFetchResponse, check))
    if 4 <= version <= 11:
        place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
        wanted = parts(FetchRequest.FetchTopic, "FetchPartition", **place)
        limits = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 100, "isolation_level": 0}
        request = FetchRequest(version=version, topics=wanted, **limits)
        check = lambda a: a.responses[0].partitions[0].high_watermark == 5  # noqa: E731
        found.append((request, FetchResponse, check))
    if 2 <= version <= 7:
        place = {"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}
        wanted = parts(OffsetCommitRequest.OffsetCommitRequestTopic, "OffsetCommitRequestPartition", **place)
        group = {"group_id": "versions", "generation_id_or_member_epoch": -1, "member_id": ""}
        request = OffsetCommitRequest(version=version, topics=wanted, **group)
        found.append((request, OffsetCommitResponse, lambda a: a.topics[0].partitions[0].error_code == 0))
    if version <= 2:
        request = FindCoordinatorRequest(version=version, key="versions", key_type=0)
        found.append((request, FindCoordinatorResponse, lambda a: a.error_code == 0))
    if 3 <= version <= 8:
        data = ProduceRequest.TopicProduceData(
            name="fleet",
            partition_data=[ProduceRequest.TopicProduceData.PartitionProduceData(index=0, records=b"")],
        )
        request = ProduceRequest(version=version, acks=1, timeout_ms=100, topic_data=[data])
        check = lambda a: a.responses[0].partition_responses[0].error_code == 44  # noqa: E731
        found.append((request, ProduceResponse, check))
    if version <= 3:
        yield ApiVersionsRequest(version=version), ApiVersionsResponse, lambda a: len(a.api_keys) == 12
    yield from found


@pytest.mark.parametrize("version", range(12))
def test_each_version_is_decoded_by_another_implementation(folder, version):
    with served(folder) as server:
        asked = 0
        for request, response, check in requests(version):
            assert check(ask(server, request, response)), request
            asked += 1
    assert asked > 0


def test_a_generation_is_decoded_in_each_version_by_another_implementation(folder):
    with served(folder) as server:
        for version in range(6):
            protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"topics")]
            group = {"group_id": f"versions-{version}"}
            times = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
            request = JoinGroupRequest(
                version=version, member_id="", protocol_type="consumer", protocols=protocols, **group, **times
            )
            joined = ask(server, request, JoinGroupResponse)
            assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, joined.member_id)
            assert [bytes(member.metadata) for member in joined.members] == [b"topics"]
            member = {"generation_id": 1, "member_id": joined.member_id}
            own = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
            request = SyncGroupRequest(version=min(version, 3), assignments=[own], **group, **member)
            assert bytes(ask(server, request, SyncGroupResponse).assignment) == b"all"
            request = HeartbeatRequest(version=min(version, 3), **group, **member)
            assert ask(server, request, HeartbeatResponse).error_code == 0
            request = LeaveGroupRequest(version=min(version, 2), member_id=joined.member_id, **group)
            assert ask(server, request, LeaveGroupResponse).error_code == 0


# --- hostile clients


def connect(server: spool.KafkaServer) -> socket.socket:
    host, _, port = server.address.rpartition(":")
    link = socket.create_connection((host, int(port)), 5)
    link.settimeout(5)
    return link


def is_closed(link: socket.socket) -> bool:
    """Return whether the server has closed a connection; octets that it has not read reset it."""
    try:
        return link.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "octets",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\0\0\0\0",
        b"\0\0\0\x08\0\x03\0\x08\0\0\0\x01",
        b"GET / HTTP/1.1\r\n\r\n",
        # Metadata of 2^31 topics, in a request that has the length that it says.
        b"\0\0\0\x10\0\x03\0\x01\0\0\0\x01\xff\xff\x7f\xff\xff\xff\0\0",
        # Offsets of the same topic, without partitions, twice.
        b"\0\0\0\x28\0\x02\0\x01\0\0\0\x01\xff\xff\xff\xff\xff\xff\0\0\0\x02" + 2 * b"\0\x05fleet\0\0\0\0",
        # A message that only brokers send each other.
        b"\0\0\0\x0a\0\x04\0\x00\0\0\0\x01\xff\xff",
    ],
)
def test_a_request_that_is_none_ends_its_connection_only(folder, octets):
    with served(folder) as server, consumer(server) as reader, connect(server) as link:
        link.sendall(octets)
        # The server may have reset the connection by now.
        with suppress(OSError):
            link.shutdown(socket.SHUT_WR)
        assert is_closed(link)
        reader.assign([TopicPartition("fleet", 0, 0)])
        take(reader, 5)


def test_a_version_that_is_not_known_is_answered_with_the_known_ones(folder):
    with served(folder) as server, connect(server) as link:
        link.sendall(b"\0\0\0\x0a\0\x12\0\x63\0\0\0\x09\xff\xff")
        answer = link.recv(4096)
        assert answer[4:10] == b"\0\0\0\x09\0\x23"


def test_connections_are_bounded_and_slow_ones_block_no_other(folder):
    with served(folder) as server:
        links = [connect(server) for _ in range(200)]
        try:
            for link in links:
                link.sendall(b"\0\0")
            with consumer(server) as reader:
                reader.assign([TopicPartition("fleet", 0, 0)])
                take(reader, 5)
            links += [connect(server) for _ in range(100)]
            refused = links[-1]
            assert is_closed(refused)
        finally:
            for link in links:
                link.close()
        with consumer(server) as reader:
            reader.assign([TopicPartition("fleet", 0, 0)])
            take(reader, 5)


def test_closing_ends_connections_and_waits(folder):
    with served(folder) as server, connect(server) as link:
        # A fetch that waits for rows for 20 s.
        body = struct.pack(">hhihiiiib", 1, 4, 1, -1, -1, 20_000, 1, MEBI, 0)
        body += struct.pack(">ih5sii", 1, 5, b"fleet", 1, 0) + struct.pack(">qi", 5, MEBI)
        link.sendall(struct.pack(">i", len(body)) + body)
        time.sleep(0.1)
        begin = time.monotonic()
        server.close()
        assert is_closed(link)
        assert time.monotonic() - begin < 5


# --- starting


def test_what_is_no_topic_is_refused(tmp_path, folder):
    with pytest.raises(errors.SpoolError, match="there is no spool"):
        spool.KafkaServer(tmp_path / "none", listen="127.0.0.1:0")
    with pytest.raises(errors.UsageError, match="two spools have this name"):
        spool.KafkaServer([folder, folder], listen="127.0.0.1:0")
    with pytest.raises(errors.UsageError, match="letters, digits"):
        spool.KafkaServer({"a b": folder}, listen="127.0.0.1:0")
    with pytest.raises(errors.UsageError, match="at least one"):
        spool.KafkaServer([])
    with pytest.raises(errors.UsageError, match="expected HOST:PORT"):
        spool.KafkaServer(folder, listen="9092")
    with spool.Appender(tmp_path / "zre", table="zre"):
        pass
    with pytest.raises(errors.UsageError, match="samples of Zenoh"):
        spool.KafkaServer(tmp_path / "zre", listen="127.0.0.1:0")
    with served(folder) as server, pytest.raises(errors.ConnectError) as caught:
        spool.KafkaServer(folder, listen=server.address)
    assert caught.value.endpoint == server.address


def test_a_client_is_told_the_advertised_address(folder):
    with served(folder, advertised="broker.example:19092") as server:
        answer = ask(server, MetadataRequest(version=1, topics=None), MetadataResponse)
        assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(0, "broker.example", 19092)]


def test_the_command_serves_until_it_is_stopped(folder):
    with running("spool", "kafka", f"fleet={folder}", "--listen", "127.0.0.1:0") as said:
        address = said.rsplit(" ", 1)[1].strip()
        reader = Consumer({"bootstrap.servers": address, "group.id": "g"})
        try:
            reader.assign([TopicPartition("fleet", 0, 0)])
            take(reader, 5)
        finally:
            reader.close()
