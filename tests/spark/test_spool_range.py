"""Spools behind range servers in Spark: the same tables and streams as of their folders."""

import pickle

import pytest
from pyspark.errors import AnalysisException

import nodes
import zwire.spark as zs
from zwire import spool
from zwire.errors import ConfigError, SpoolCorrupt, SpoolMismatch, SpoolUnreachable
from zwire.spark.sources import _stream

SECONDS = 60
COLUMNS = ["key", "payload", "shard", "offset", "recv_ts"]

pytestmark = pytest.mark.smoke


def write(folder, rows, *, first=0, shards=2, **options):
    with spool.Appender(folder, shards=shards, **options) as appender:
        for number in range(first, first + rows):
            appender.append(key=f"k/{number % 7}", payload=b"%d" % number, recv_ts=number * 1_000_000)
            if number % 100 == 99:
                appender.flush()
        appender.append_gap(0, "drop", count=7)
    return spool.open(folder)


def numbers(frame):
    return sorted(int(bytes(row.payload)) for row in frame.select("payload").collect())


@pytest.fixture
def served(client, tmp_path):
    local = write(tmp_path / "a", 1000)
    with spool.serve(tmp_path / "a", session=client) as server:
        server.ready(5)
        yield local


def follow(places, endpoint, **options):
    given = {"spool": places, "endpoints": endpoint, "startingOffsets": "earliest", **options}
    return _stream.SpoolStreamReader(given, zs.schema.SAMPLE.select(COLUMNS).spark(), "zwire", "samples")


def read(reader, start, end):
    """As Spark does it: reader and partitions travel."""
    rows = []
    for part in reader.partitions(start, end):
        again = pickle.loads(pickle.dumps(reader))
        for batch in again.read(pickle.loads(pickle.dumps(part))):
            rows += batch.to_pylist()
    return rows


def test_a_table_of_two_servers_and_a_folder(spark, served, hub, endpoint, tmp_path):
    other = write(tmp_path / "b", 500, first=1000)
    write(tmp_path / "c", 100, first=1500)
    with spool.serve(tmp_path / "b", session=hub):
        options = {"spool": f"zwire:{served.id}, zwire:{other.id},{tmp_path / 'c'}", "endpoints": endpoint}
        remote = spark.read.format("zwire").options(**options).load()
        folders = ",".join(str(tmp_path / name) for name in "abc")
        local = spark.read.format("zwire").option("spool", folders).load()
        assert remote.schema == local.schema
        assert sorted(remote.collect()) == sorted(local.collect())
        lost = spark.read.format("zwire.gaps").options(**options).load()
        assert lost.groupBy().sum("count").first()[0] == 21


def test_a_stream_of_a_server_goes_on_where_it_was(spark, served, endpoint, tmp_path):
    options = {
        "spool": f"zwire:{served.id}",
        "endpoints": endpoint,
        "startingOffsets": "earliest",
        "maxRowsPerTrigger": "400",
        "consumer": "query",
        "consumerSecret": f"file:{tmp_path / 'secret'}",
    }
    (tmp_path / "secret").write_text(spool.secret(tmp_path / "a", "query"))
    stream = spark.readStream.format("zwire").options(**options).load()
    for rows in (1000, 1300):
        writer = stream.writeStream.format("parquet").trigger(availableNow=True)
        query = writer.start(str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
        assert query.awaitTermination(SECONDS)
        assert numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(rows))
        assert list(served.consumers()) == ["query"]
        write(tmp_path / "a", 300, first=rows)


def test_a_query_commits_with_the_secrets_of_its_spools(served, hub, endpoint, tmp_path, monkeypatch, caplog):
    other = write(tmp_path / "b", 10, first=1000)
    both = (spool.secret(tmp_path / "a"), spool.secret(tmp_path / "b"))
    places = f"zwire:{served.id},zwire:{other.id}"
    with spool.serve(tmp_path / "b", session=hub):
        # Without a secret it reads, and says that no rows are kept for it.
        reader = follow(places, endpoint)
        start = reader.initialOffset()
        end = reader.latestOffset(start)
        assert len(read(reader, start, end)) == 1010
        reader.commit(end)
        assert served.consumers() == other.consumers() == {}
        assert ("needs its secret" in caplog.text) == _stream.ADMISSION
        monkeypatch.setenv("ZWIRE_TEST_SECRETS", "\n".join(both))
        reader = follow(places, endpoint, consumer="mine", consumerSecret="env:ZWIRE_TEST_SECRETS")
        reader.initialOffset()
        reader.commit(end)
        assert served.consumers() == {
            "mine": {int(shard): at for shard, at in end["spools"][served.id].items()}
        }
        assert list(other.consumers()) == ["mine"]
        for text in both:
            assert text.rpartition(":")[2].encode() not in pickle.dumps(reader)
        # A secret of one consumer says its name.
        monkeypatch.setenv("ZWIRE_TEST_SECRETS", spool.secret(tmp_path / "a", "nightly"))
        reader = follow("zwire:" + served.id, endpoint, consumerSecret="env:ZWIRE_TEST_SECRETS")
        assert "consumer" not in reader.initialOffset()
        assert set(served.consumers()) == {"mine", "nightly"}
    for secret, problem in ((both[0], "would be in plans"), ("env:ZWIRE_MISSING", "not set in this process")):
        with pytest.raises(ConfigError, match=problem) as caught:
            follow("zwire:", endpoint, consumerSecret=secret).initialOffset()
        assert both[0] not in str(caught.value)
    with pytest.raises(ConfigError, match="is for spools behind a range server"):
        follow(str(tmp_path / "a"), "", consumerSecret="env:X", endpoints="").initialOffset()


def test_it_plans_and_reads_as_from_the_folder(served, endpoint, tmp_path):
    remote, local = follow(f"zwire:{served.id}", endpoint), follow(str(tmp_path / "a"), endpoint="")
    found = []
    for reader in (remote, local):
        reader.given.pop("endpoints") if reader is local else None
        start = reader.initialOffset()
        end = reader.latestOffset(start)
        found.append((start["s"], end["s"], read(reader, start, end)))
        report = reader.reportLatestOffset()
        assert (report["lag_rows"], report["gaps"]) == (0, 1)
        limited = reader.latestOffset(start, _stream.ReadMaxRows(10)) if _stream.ADMISSION else end
        found[-1] += (limited["s"],)
        reader.stop()
    assert found[0] == found[1]
    assert len(found[0][2]) == 1000


def test_the_only_one_that_is_served_needs_no_id(served, endpoint):
    reader = follow("zwire:", endpoint)
    assert reader.initialOffset()["spool"] == served.id
    (part,) = reader.partitions(reader.initialOffset(), reader.latestOffset())
    assert {span.folder for span in part.spans} == {f"zwire:{served.id}"}


def test_secrets_are_named_and_travel_nowhere(tmp_path, monkeypatch):
    users = {"transport__auth__usrpwd__user": "me", "transport__auth__usrpwd__password": "open sesame"}
    write(tmp_path / "a", 10)
    lists = tmp_path / "users"
    lists.write_text("me:open sesame\n")
    monkeypatch.setenv("ZWIRE_TEST_PASSWORD", "open sesame")
    with (
        nodes.router(transport__auth__usrpwd__dictionary_file=str(lists), **users) as hub,
        spool.serve(tmp_path / "a", session=hub) as server,
    ):
        options = {
            "zenoh.transport.auth.usrpwd.user": "me",
            "zenoh.transport.auth.usrpwd.password": "env:ZWIRE_TEST_PASSWORD",
        }
        reader = follow(f"zwire:{server.id}", hub.listening()[0], **options)
        start = reader.initialOffset()
        end = reader.latestOffset(start)
        assert len(read(reader, start, end)) == 10
        for travels in (reader, *reader.partitions(start, end)):
            assert b"sesame" not in pickle.dumps(travels)
        with pytest.raises(ConfigError, match="a secret would be in plans"):
            follow("zwire:", "", **{"zenoh.transport.auth.usrpwd.password": "open sesame"}).initialOffset()
    zs.close_sessions()


def test_damage_behind_a_server_costs_its_block_if_that_is_allowed(served, endpoint, tmp_path):
    file = max((tmp_path / "a" / "0").glob("*.arrow"))
    octets = bytearray(file.read_bytes())
    octets[len(octets) // 2] ^= 1
    file.write_bytes(octets)
    strict = follow(f"zwire:{served.id}", endpoint)
    start = strict.initialOffset()
    end = strict.latestOffset(start)
    with pytest.raises(SpoolCorrupt) as caught:
        read(strict, start, end)
    lost = caught.value.resumes - caught.value.offset
    assert 0 < lost < 100
    lenient = follow(f"zwire:{served.id}", endpoint, failOnDataLoss="false")
    lenient.initialOffset()
    assert len(read(lenient, start, end)) == 1000 - lost


def test_a_server_that_is_away_ends_a_task_and_the_next_attempt_is_whole(
    hub, endpoint, tmp_path, monkeypatch
):
    from zwire.spool import _connect

    write(tmp_path / "a", 100)
    with nodes.client(hub) as session:
        server = spool.serve(tmp_path / "a", session=session)
        server.ready(5)
        reader = follow(f"zwire:{server.id}", endpoint)
        start = reader.initialOffset()
        end = reader.latestOffset(start)
        (part,) = reader.partitions(start, end)
        server.close()
        connect = _connect.connect
        monkeypatch.setattr(spool, "connect", lambda *given, **named: connect(*given, **named, timeout=0.3))
        with pytest.raises(SpoolUnreachable, match="no range server answers"):
            list(reader.read(part))
        with spool.serve(tmp_path / "a", session=session) as again:
            again.ready(5)
            assert sum(batch.num_rows for batch in reader.read(part)) == 100


def test_another_spool_is_refused(served, hub, endpoint, tmp_path):
    reader = follow(f"zwire:{served.id},zwire:{served.id}", endpoint)
    with pytest.raises(SpoolMismatch, match="are the same spool"):
        reader.initialOffset()


@pytest.mark.parametrize(
    ("source", "options", "problem"),
    [
        ("zwire", {"spool": "zwire:robots"}, "32 hexadecimal digits"),
        (
            "zwire",
            {"spool": "HERE", "endpoints": "tcp/127.0.0.1:1"},
            "behind a range server .* or 'keyexprs'",
        ),
        ("zwire.gaps", {"spool": "HERE", "zenoh.mode": "peer"}, "is for spools behind a range server"),
        ("zwire", {"spool": "zwire:", "zenoh.mod": "client"}, "did you mean|unknown"),
        ("zre", {"spool": "zwire:ID", "endpoints": "ENDPOINT"}, "holds samples, not zre"),
    ],
)
def test_wrong_options_are_said_when_loading(spark, served, endpoint, tmp_path, source, options, problem):
    texts = {"HERE": str(tmp_path / "a"), "ID": served.id, "ENDPOINT": endpoint}
    for old, new in texts.items():
        options = {name: value.replace(old, new) for name, value in options.items()}
    for reader in (spark.read, spark.readStream):
        with pytest.raises(AnalysisException, match=problem):
            reader.format(source).options(**options).load()
