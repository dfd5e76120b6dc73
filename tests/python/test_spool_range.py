"""Range servers: a spool is read where its files are not, as if they were there."""

from __future__ import annotations

import json
import pickle
import random
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from nodes import client, eventually, router
from zwire import errors, spool, zenoh
from zwire.spool import _serve
from zwire.spool._serve import ROOT

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def hub() -> Iterator[zenoh.Session]:
    with router() as session:
        yield session


def fill(path: Path, rows: int, **keywords: Any) -> None:
    with spool.Appender(path, **keywords) as appender:
        for number in range(rows):
            appender.append(key=f"robot/{number % 7}", payload=f"payload {number}".encode())
            if number % 37 == 36:
                appender.flush()
        appender.append_gap(0, count=3, detail="made for the test")


def table(view: spool.Spool, start: dict, end: dict, **keywords: Any) -> list[dict]:
    found = []
    for shard, stop in end.items():
        for batch in view.read(shard, start[shard], stop, **keywords):
            found += pa.record_batch(batch).to_pylist()
    return found


def collect(batches: spool.Rows, numbers: list[int]) -> None:
    """Add the first column of batches, as far as they come."""
    for batch in batches:
        numbers += pa.record_batch(batch).column(0).to_pylist()


@pytest.fixture
def served(hub, tmp_path):
    """A view of the files, and one through a server."""
    fill(tmp_path / "spool", 2000, shards=3, segment_bytes=60_000)
    with (
        client(hub) as session,
        client(hub) as reader,
        spool.serve(tmp_path / "spool", session=session) as server,
        spool.connect(session=reader, timeout=5, secret=spool.secret(tmp_path / "spool")) as remote,
    ):
        assert server.id == remote.id
        yield spool.open(tmp_path / "spool"), remote


def test_a_range_server_gives_everything_that_files_give(served):
    local, remote = served
    for name in ("id", "table", "shards", "columns", "shard_keys"):
        assert getattr(remote, name) == getattr(local, name)
    for name in ("earliest", "end", "marks", "gaps_start", "gaps_end", "consumers"):
        assert getattr(remote, name)() == getattr(local, name)()
    start, end = local.earliest(), local.end()
    assert remote.at(0) == local.at(0) == start
    assert remote.at(time.time() + 60) == end
    assert remote.received(1, start[1] + 5) == local.received(1, start[1] + 5)
    for limits in ({"max_rows": 100}, {"max_bytes": 50_000}, {"max_rows": 7, "max_bytes": 1}):
        assert remote.walk(start, end, **limits) == local.walk(start, end, **limits)
    assert remote.split(start, end, 7) == local.split(start, end, 7)
    assert table(remote, start, end) == table(local, start, end)
    gaps = [[row for batch in view.gaps() for row in pa.record_batch(batch).to_pylist()] for view in served]
    assert gaps[0] == gaps[1]
    assert gaps[0][0]["detail"] == "made for the test"
    remote.commit("somebody", {0: 3, 1: 4})
    assert local.consumers() == remote.consumers() == {"somebody": {0: 3, 1: 4}}
    assert repr(remote) == f"RemoteSpool(id='{local.id}')"


def test_segments_without_wanted_rows_are_not_sent(hub, tmp_path, monkeypatch):
    with spool.Appender(tmp_path) as appender:
        for number in range(200):
            appender.append(key=f"fleet/{number // 10 % 10}", payload=bytes(1000), recv_ts=number * 1_000_000)
            if number % 10 == 9:
                appender.seal()
    local = spool.open(tmp_path)
    start, end = {0: 0}, {0: 200}
    with (
        spool.serve(tmp_path, session=hub) as server,
        spool.connect(
            server.id, config={"mode": "client", "connect/endpoints": hub.listening()}, timeout=10
        ) as remote,
    ):
        chosen: dict[str, Any] = {"keys": ["fleet/7/**", "fleet/1"], "since": 15, "until": 175.5}
        assert remote.plan(**chosen) == local.plan(**chosen)
        assert remote.split(start, end, 3, **chosen) == local.split(start, end, 3, **chosen)
        limited = {"max_rows": 25, **chosen}
        assert remote.walk(start, end, **limited) == local.walk(start, end, **limited)
        rows = remote.read(0, 0, 200, columns=["offset"], **chosen)
        assert rows.segments is None
        numbers: list[int] = []
        collect(rows, numbers)
        assert numbers == [*range(15, 20), *range(70, 80), *range(110, 120), *range(170, 176)]

        # A server of an earlier version ignores the selection; the reader leaves the rows out.
        monkeypatch.setattr(_serve, "_wanted", lambda _: None)
        numbers.clear()
        collect(remote.read(0, 0, 200, columns=["offset"], **chosen), numbers)
        assert len(numbers) == 31
        monkeypatch.undo()
        for wrong in ({"keys": "a"}, {"keys": [7]}, {"since": "now"}, {"keys": ["a//b"]}):
            with pytest.raises(errors.SpoolError):
                remote._view._one("plan", start=start, end=end, **wrong)


def test_any_range_with_any_columns_has_the_same_batches(served):
    local = served[0]
    chance = random.Random(7)
    for _ in range(25):
        shard = chance.choice(local.shards)
        end = local.end()[shard]
        start, stop = sorted(chance.randint(0, end) for _ in range(2))
        names = chance.sample(local.columns, chance.randint(1, 5))
        limits = {
            "max_rows": chance.choice([1, 10, 500, 32_768]),
            "max_bytes": chance.choice([1, 9999, 8 << 20]),
        }
        batches = [
            [pa.record_batch(batch) for batch in view.read(shard, start, stop, columns=names, **limits)]
            for view in served
        ]
        assert batches[0] == batches[1]
        schemas = [pa.schema(view.read(shard, start, stop, columns=names)) for view in served]
        assert schemas[0] == schemas[1]


def test_many_answers_are_under_way_at_once(hub, tmp_path, monkeypatch):
    from zwire.spool import _connect

    fill(tmp_path / "spool", 3000, segment_bytes=30_000)
    monkeypatch.setattr(_connect, "_MAX_BYTES", 10_000)
    most = 0
    ask = _connect.Fetch._ask

    def counted(self: _connect.Fetch, start: int) -> None:
        nonlocal most
        ask(self, start)
        most = max(most, len(self._answers))

    monkeypatch.setattr(_connect.Fetch, "_ask", counted)
    with (
        spool.serve(tmp_path / "spool", session=hub),
        client(hub) as reader,
        spool.connect(session=reader, timeout=5) as remote,
    ):
        offsets = []
        for batch in remote.read(0, 0, 3000, columns=["offset"], max_rows=50):
            offsets += pa.record_batch(batch).column(0).to_pylist()
    assert offsets == list(range(3000))
    assert 1 < most <= _connect._AHEAD


def test_what_is_not_there_is_the_same_error(served):
    local, remote = served
    end = local.end()[0]
    for shard, start, stop, columns in (
        (0, 0, end + 1, None),
        (0, end + 5, end + 5, None),
        (9, 0, 1, None),
        (0, 5, 2, None),
        (0, 0, 1, ["nonsense"]),
    ):
        said = []
        for view in served:
            with pytest.raises(errors.SpoolError) as caught:
                list(view.read(shard, start, stop, columns=columns))
            said.append((caught.type, caught.value.offset))
        assert said[0] == said[1], (shard, start, stop)
    assert list(remote.read(0, end, end)) == []
    with pytest.raises(errors.SpoolError, match="a name is 1 to 100 letters"):
        remote.commit("../x", {0: 1})


def test_damage_is_told_where_it_is_and_where_rows_begin_again(served, tmp_path):
    local, _ = served
    path = sorted((tmp_path / "spool" / "0").glob("*.arrow"))[1]
    octets = bytearray(path.read_bytes())
    octets[len(octets) // 2] ^= 4
    path.write_bytes(octets)
    said = []
    for view in served:
        rows, end = [], local.end()[0]
        with pytest.raises(errors.SpoolCorrupt) as caught:
            collect(view.read(0, 3, end, columns=["offset"]), rows)
        error = caught.value
        assert f"reading resumes at offset {error.resumes}" in str(error)
        assert rows == list(range(3, error.offset))
        rest = table(view, {0: error.resumes}, {0: end}, columns=["offset"])
        assert [row["offset"] for row in rest] == list(range(error.resumes, end))
        said.append((error.shard, error.offset, error.resumes))
    assert said[0] == said[1]


def test_a_deleted_segment_is_told_with_where_rows_begin_again(served, tmp_path):
    """The server has read none before: it keeps files open for requests that go on, also deleted ones."""
    local, remote = served
    sorted((tmp_path / "spool" / "0").glob("*.arrow"))[1].unlink()
    with pytest.raises(errors.SpoolCorrupt) as caught:
        table(remote, {0: 0}, local.end())
    assert caught.value.resumes == int(sorted((tmp_path / "spool" / "0").glob("*.arrow"))[1].stem)


def test_a_spooler_serves_what_it_keeps_while_it_grows(hub, tmp_path):
    with (
        client(hub) as reader,
        client(hub) as publisher,
        client(hub) as session,
        spool.Spooler(tmp_path, "robot/**", session=session, serve=True) as spooler,
    ):
        spooler.ready(5)
        with spool.connect(spooler.id, session=reader, timeout=5) as remote:
            seen = []

            def has_read(least: int) -> bool:
                start = {0: len(seen)}
                seen.extend(row["payload"] for row in table(remote, start, remote.end(), columns=["payload"]))
                return len(seen) >= least

            for part in range(10):
                for number in range(100):
                    publisher.put(
                        "robot/1", f"{part * 100 + number}", congestion_control=zenoh.CongestionControl.BLOCK
                    )
                # Half of it: the spooler is still at work on the rest.
                eventually(lambda: has_read((part + 1) * 50))  # noqa: B023 - done before the next
            eventually(lambda: spooler.stats()["received"] == 1000)
            assert spooler.flush(5)
            assert has_read(1000)
    assert [int(each) for each in seen] == list(range(1000))


def test_rows_that_are_deleted_while_they_are_read_are_out_of_range(served, tmp_path, monkeypatch):
    from zwire.spool import _connect

    local, remote = served
    monkeypatch.setattr(_connect, "_MAX_BYTES", 1)
    rows = iter(remote.read(0, 0, local.end()[0], max_rows=10))
    assert pa.record_batch(next(rows)).num_rows == 10
    with spool.Spooler(tmp_path / "spool", "nothing/**", shards=3, retention=spool.Retention(bytes=1)):
        deadline = time.monotonic() + 10
        while local.earliest()[0] == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with pytest.raises(errors.OffsetOutOfRange) as caught:
            list(rows)
    assert caught.value.shard == 0
    assert 10 <= caught.value.offset < local.earliest()[0]


SERVER = """
import sys
from zwire import spool, zenoh

session = zenoh.open({"mode": "client", "connect/endpoints": [sys.argv[2]]})
with spool.serve(sys.argv[1], session=session) as server:
    server.ready(10)
    print(server.id, flush=True)
    sys.stdin.read()
"""


def start_server(path: Path, hub: zenoh.Session) -> subprocess.Popen[str]:
    endpoint = str(hub.listening()[0])
    child = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(path), endpoint],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline()
    return child


def end_server(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.wait(10)
    child.stdin.close()
    child.stdout.close()


def test_a_server_that_is_killed_and_comes_back_is_not_noticed(hub, tmp_path, monkeypatch):
    from zwire.spool import _connect

    fill(tmp_path / "spool", 2000, segment_bytes=20_000)
    monkeypatch.setattr(_connect, "_MAX_BYTES", 4000)
    child = start_server(tmp_path / "spool", hub)
    try:
        with client(hub) as reader, spool.connect(session=reader, timeout=20) as remote:
            rows, killed = [], False
            for batch in remote.read(0, 0, 2000, columns=["offset"], max_rows=20):
                rows += pa.record_batch(batch).column(0).to_pylist()
                if len(rows) >= 500 and not killed:
                    killed = True
                    end_server(child)
                    child = start_server(tmp_path / "spool", hub)
            assert rows == list(range(2000))
    finally:
        end_server(child)


def test_a_server_that_stays_away_is_an_error_behind_what_has_come(hub, tmp_path, monkeypatch):
    from zwire.spool import _connect

    fill(tmp_path / "spool", 1000)
    monkeypatch.setattr(_connect, "_MAX_BYTES", 4000)
    child = start_server(tmp_path / "spool", hub)
    try:
        with client(hub) as reader, spool.connect(session=reader, timeout=0.6) as remote:
            rows = []
            batches = iter(remote.read(0, 0, 1000, columns=["offset"], max_rows=20))
            rows += pa.record_batch(next(batches)).column(0).to_pylist()
            end_server(child)
            with pytest.raises(errors.SpoolUnreachable, match="shard 0, offset") as caught:
                collect(batches, rows)
            assert rows == list(range(caught.value.offset))
            assert caught.value.shard == 0
            with pytest.raises(errors.SpoolUnreachable, match="no range server answers"):
                remote.end()
    finally:
        end_server(child)


def test_nobody_or_too_many_to_ask_is_told(hub, tmp_path):
    with client(hub) as reader:
        with pytest.raises(errors.SpoolUnreachable, match="no range server answers"):
            spool.connect("0" * 32, session=reader, timeout=0.2)
        with pytest.raises(errors.SpoolError, match="no id of a spool"):
            spool.connect("robots", session=reader)
        for name in ("a", "b"):
            fill(tmp_path / name, 1)
        with spool.serve(tmp_path / "a", session=hub) as a, spool.serve(tmp_path / "b", session=hub) as b:
            with pytest.raises(errors.SpoolMismatch, match="several spools") as caught:
                spool.connect(session=reader)
            assert a.id in str(caught.value)
            assert spool.connect(b.id, session=reader).id == b.id
            # Two that answer for the same: each row comes once.
            shutil.copytree(tmp_path / "a", tmp_path / "c")
            with client(hub) as third, spool.serve(tmp_path / "c", session=third) as c:
                assert c.id == a.id
                c.ready(5)
                assert len(table(spool.connect(a.id, session=reader), {0: 0}, {0: 1})) == 1


def test_it_pickles_as_id_and_configuration(hub, tmp_path):
    fill(tmp_path / "spool", 10)
    endpoint = str(hub.listening()[0])
    with spool.serve(tmp_path / "spool", session=hub) as server:
        given = {"mode": "client", "connect/endpoints": [endpoint]}
        secret = spool.secret(tmp_path / "spool")
        with (
            spool.connect(server.id, config=given, secret=secret) as remote,
            pickle.loads(pickle.dumps(remote)) as again,
        ):
            again.commit("another", {0: 1})
            assert again.id == server.id
            assert endpoint not in repr(again)
            assert table(again, {0: 0}, {0: 10}) == table(remote, {0: 0}, {0: 10})
        with (
            client(hub) as reader,
            spool.connect(session=reader) as remote,
            pytest.raises(errors.UsageError, match="give its config"),
        ):
            pickle.dumps(remote)


HOSTILE = [
    ("0", "", None),
    ("0", "from=0", None),
    ("0", "from=0;to=1", None),
    ("0", "from=-1;to=1;max=1", None),
    ("0", "from=0;to=99999999999999999999;max=1", None),
    ("0", "from=0;to=9223372036854775807;max=9223372036854775807", None),
    ("0", "from=5;to=2;max=1", None),
    ("0", "from=0;to=1;max=" + "9" * 3000, None),
    ("99", "from=0;to=1;max=1", None),
    ("../meta.json", "from=0;to=1;max=1", None),
    ("x", "from=0;to=1;max=1", None),
    ("*", "from=0;to=1;max=1", None),
    (None, "do=nonsense", None),
    (None, "do=walk", None),
    (None, "do=walk", "[]"),
    (None, "do=walk", "{"),
    (None, "do=walk", "[" * 100_000),
    (None, "do=walk", "x" * 300_000),
    (None, "do=walk", '{"start": {"0": 0}, "end": {"7": 1}}'),
    (None, "do=walk", '{"start": {"0": -1}, "end": {"0": 1}}'),
    (None, "do=walk", '{"start": {"0": 0}, "end": {"0": 1}, "rows": "many"}'),
    (None, "do=split", '{"start": {"0": 0}, "end": {"0": 1}, "parts": 1e99}'),
    (None, "do=split", '{"start": {"0": 0}, "end": {"0": 1}, "parts": 10000000000}'),
    (None, "do=at", '{"at": true}'),
    (None, "do=received", '{"shard": 0, "offset": 1000000}'),
    (None, "do=commit", '{"consumer": 7, "offsets": {}}'),
    (None, "do=commit", '{"consumer": "../../x", "offsets": {}}'),
]


@pytest.mark.parametrize(("shard", "parameters", "payload"), HOSTILE, ids=lambda each: str(each)[:40])
def test_hostile_questions_are_refused_with_words(silly, shard, parameters, payload):
    key = f"{ROOT}/{silly[1]}" + ("" if shard is None else f"/{shard}")
    replies = list(silly[0].get(f"{key}?{parameters}", payload=payload, timeout=5))
    if shard is not None and "/" in shard:
        assert replies == []  # keys without a range server
        return
    assert [reply.ok for reply in replies] == [None]
    said = json.loads(replies[0].err.payload.to_bytes())
    assert issubclass(getattr(errors, said["error"]), errors.SpoolError)
    assert 5 < len(said["message"]) < 1000


@pytest.fixture(scope="module")
def silly(tmp_path_factory):
    path = tmp_path_factory.mktemp("silly") / "spool"
    fill(path, 10)
    with router() as hub, client(hub) as reader, spool.serve(path, session=hub) as server:
        yield reader, server.id
        # It has come through all of it.
        with spool.connect(server.id, session=reader, timeout=5) as remote:
            assert len(table(remote, {0: 0}, {0: 10})) == 10


def test_a_server_may_take_no_commits_nor_too_many_names(hub, tmp_path, monkeypatch):
    from zwire.spool import _serve

    fill(tmp_path / "spool", 1)
    monkeypatch.setattr(_serve, "_MAX_CONSUMERS", 2)
    with client(hub) as reader:
        with spool.serve(tmp_path / "spool", session=hub, commits=False) as server:
            remote = spool.connect(server.id, session=reader, timeout=5)
            with pytest.raises(errors.SpoolDenied, match=r"connect\(secret=...\)"):
                remote.commit("a", {0: 1})
            remote = spool.connect(session=reader, timeout=5, secret=spool.secret(tmp_path / "spool"))
            with pytest.raises(errors.SpoolDenied, match="takes no commits: commits=False"):
                remote.commit("a", {0: 1})
        with spool.serve(tmp_path / "spool", session=hub):
            remote = spool.connect(session=reader, timeout=5, secret=spool.secret(tmp_path / "spool"))
            for name in ("a", "b", "a"):
                remote.commit(name, {0: 1})
            with pytest.raises(errors.SpoolError, match="2 consumers already"):
                remote.commit("c", {0: 1})


def test_a_commit_needs_the_secret_of_its_consumer(hub, tmp_path):
    fill(tmp_path / "spool", 10)
    local = spool.open(tmp_path / "spool")
    with client(hub) as reader, spool.serve(tmp_path / "spool", session=hub) as server:
        invented = f"{server.id}:nightly:{'0' * 64}"
        remote = spool.connect(session=reader, timeout=5, secret=invented)
        with pytest.raises(errors.SpoolDenied, match="its spool has no secret"):
            remote.commit("nightly", {0: 1})
        given = spool.secret(tmp_path / "spool", "nightly")
        assert given == spool.secret(tmp_path / "spool", "nightly")
        assert (tmp_path / "spool" / "secret").stat().st_mode & 0o777 == 0o600
        with pytest.raises(errors.SpoolDenied, match="'nightly' has another secret"):
            remote.commit("nightly", {0: 1})
        honest = spool.connect(session=reader, timeout=5, secret=given)
        assert given not in repr(vars(honest))
        with pytest.raises(errors.SpoolDenied, match="of consumer 'nightly', and cannot commit for 'weekly'"):
            honest.commit("weekly", {0: 1})
        honest.commit("nightly", {0: 4})
        # A commit that was recorded on the path, and comes again, does not move the consumer back.
        honest.commit("nightly", {0: 3})
        assert local.consumers() == honest.consumers() == {"nightly": {0: 4}}
        # All secrets are revoked with the file.
        (tmp_path / "spool" / "secret").unlink()
        with pytest.raises(errors.SpoolDenied, match="no secret"):
            honest.commit("nightly", {0: 5})
        renewed = spool.secret(tmp_path / "spool", "nightly")
        assert renewed != given
        with pytest.raises(errors.SpoolDenied, match="another secret"):
            honest.commit("nightly", {0: 5})
        spool.connect(session=reader, timeout=5, secret=renewed).commit("nightly", {0: 5})
        assert local.consumers() == {"nightly": {0: 5}}


@pytest.mark.parametrize("text", ["", "x", "a:b:c", f"{'0' * 32}:a/b:{'0' * 64}", f"{'0' * 32}:a:{'0' * 63}"])
def test_a_text_that_is_no_secret_is_refused(text):
    with pytest.raises(errors.ConfigError, match="as zwire spool secret prints it") as caught:
        spool.connect(secret=text)
    assert caught.value.path == "secret"


def test_a_secret_is_for_one_spool(hub, tmp_path):
    fill(tmp_path / "a", 1)
    fill(tmp_path / "b", 1)
    given = spool.secret(tmp_path / "a")
    with (
        client(hub) as reader,
        spool.serve(tmp_path / "a", session=hub),
        spool.serve(tmp_path / "b", session=hub),
    ):
        # The id is in the secret.
        assert spool.connect(session=reader, timeout=5, secret=given).id == given[:32]
        with pytest.raises(errors.SpoolMismatch, match="the secret is of spool"):
            spool.connect(spool.open(tmp_path / "b").id, session=reader, timeout=5, secret=given)


def test_many_programs_that_make_a_secret_at_once_get_the_same(tmp_path):
    fill(tmp_path, 1)
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: spool.secret(tmp_path), range(64)))) == 1
    assert not list(tmp_path.glob("*.new"))


@pytest.mark.parametrize("content", ["", "0" * 63, "x" * 64, "0" * 65, "\xff"])
def test_a_damaged_secret_takes_no_commit(hub, tmp_path, content):
    fill(tmp_path, 1)
    given = spool.secret(tmp_path)
    (tmp_path / "secret").write_text(content, encoding="latin-1")
    with (
        client(hub) as reader,
        spool.serve(tmp_path, session=hub),
        pytest.raises(errors.SpoolError, match="secret"),
    ):
        spool.connect(session=reader, timeout=5, secret=given).commit("a", {0: 1})
    with pytest.raises(errors.SpoolError, match="secret"):
        spool.secret(tmp_path)


def test_strangers_neither_delay_nor_allow_deletion(hub, tmp_path):
    keep = spool.Retention(seconds=0.0)
    given: dict[str, Any] = {"segment_bytes": 2_000, "segment_seconds": 0.1, "retention": keep}
    with (
        client(hub) as session,
        client(hub) as stranger,
        client(hub) as reader,
        spool.Spooler(tmp_path, "k", session=session, serve=True, **given) as spooler,
    ):
        spooler.ready(5)
        local = spool.open(tmp_path)
        secret = spool.secret(tmp_path, "honest")
        honest = spool.connect(session=reader, timeout=5, secret=secret)
        honest.commit("honest", {0: 0})
        for number in range(20):
            stranger.put("k", bytes(500), congestion_control=zenoh.CongestionControl.BLOCK)
            eventually(lambda: spooler.stats()["received"] == number + 1)  # noqa: B023 - done before the next
            assert spooler.flush(5)
        forged = ({}, {"proof": None}, {"proof": "0" * 64}, {"proof": "é"}, {"proof": 7})
        for name in ("honest", *(f"invented-{number}" for number in range(100))):
            for proof in forged[: 5 if name == "honest" else 1]:
                asked = json.dumps({"consumer": name, "offsets": {"0": 20}, **proof})
                replies = list(stranger.get(f"{ROOT}/{spooler.id}?do=commit", payload=asked, timeout=5))
                assert [json.loads(each.err.payload.to_bytes())["error"] for each in replies] == [
                    "SpoolDenied"
                ]
        # Housekeeping comes once a second.
        time.sleep(2.5)
        assert local.consumers() == {"honest": {0: 0}}
        assert local.earliest() == {0: 0}
        assert len(table(honest, {0: 0}, {0: 20})) == 20
        honest.commit("honest", {0: 20})
        eventually(lambda: local.earliest()[0] > 15)


def test_reading_is_restricted_by_key_rules(tmp_path):
    fill(tmp_path / "open", 5)
    fill(tmp_path / "closed", 5)
    ids = {name: spool.open(tmp_path / name).id for name in ("open", "closed")}
    rules = {
        "enabled": True,
        "default_permission": "deny",
        "rules": [
            {
                "id": "read",
                "permission": "allow",
                "messages": ["query", "reply", "declare_queryable"],
                "key_exprs": [f"{ROOT}/{ids['open']}", f"{ROOT}/{ids['open']}/**"],
            }
        ],
        "subjects": [{"id": "all"}],
        "policies": [{"rules": ["read"], "subjects": ["all"]}],
    }
    with (
        router(access_control=rules) as hub,
        client(hub) as reader,
        spool.serve(tmp_path / "open", session=hub),
        spool.serve(tmp_path / "closed", session=hub),
    ):
        with spool.connect(ids["open"], session=reader, timeout=5) as remote:
            assert len(table(remote, {0: 0}, {0: 5})) == 5
        for name in (ids["closed"], None):
            with pytest.raises(errors.SpoolUnreachable):
                spool.connect(name, session=reader, timeout=1)
        for selector in ("@zwire/**?do=about", f"{ROOT}/*/0?from=0;to=1;max=1", f"{ROOT}/{ids['closed']}/*"):
            assert list(reader.get(selector, timeout=1)) == []


def test_a_server_lets_go(hub, tmp_path):
    fill(tmp_path / "spool", 10)
    before = threading.active_count()
    server = spool.serve(tmp_path / "spool", session=hub)
    assert threading.active_count() == before + 5
    server.close()
    server.close()
    assert threading.active_count() == before
    with client(hub) as reader:
        assert list(reader.get(f"{ROOT}/{server.id}", timeout=1)) == []
