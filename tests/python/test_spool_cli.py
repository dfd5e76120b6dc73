"""`zwire spool`: keeping, looking, exporting, and saying what is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nodes import client, eventually, router
from terminal import running
from zwire import errors, recording, spool, zenoh
from zwire.cli import main

if TYPE_CHECKING:
    from pathlib import Path


ALONE = ["-l", "tcp/127.0.0.1:0", "--cfg", "scouting/multicast/enabled:false"]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    folder = tmp_path / "spool"
    with spool.Appender(folder, shards=2, segment_bytes=8_000) as appender:
        for number in range(100):
            appender.append(key=f"k/{number % 10}", payload=f"{number}", recv_ts=1_000_000 * number)
            if number % 10 == 9:
                appender.flush()
        appender.append_gap(1, "drop", count=2, detail="full")
    return folder


def test_a_spooler_keeps_until_it_is_stopped(tmp_path):
    folder = tmp_path / "spool"
    with (
        router() as hub,
        client(hub) as publisher,
        running("spool", "keep", "--dir", folder, "a/**", "b", "-e", hub.listening()[0]) as said,
    ):
        assert "keeping a/** b in" in said
        for number in range(50):
            publisher.put(
                "a/x" if number % 2 else "b",
                str(number),
                congestion_control=zenoh.CongestionControl.BLOCK,
            )
        view = spool.open(folder)
        eventually(lambda: view.end() == {0: 50})
    (file,) = (folder / "0").glob("*.arrow")
    assert pa.ipc.open_file(file).read_all().num_rows == 50
    assert spool.verify(folder) == []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_spooler_ends_when_its_folder_is_removed(tmp_path, replaced):
    """Within a second, and with the exit code of an error."""
    folder = tmp_path / "spool"
    command = [
        sys.executable,
        "-m",
        "zwire",
        "spool",
        "keep",
        "--dir",
        str(folder),
        "a/**",
        "-m",
        "peer",
        *ALONE,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert "keeping a/** in" in process.stderr.readline()
        view = spool.open(folder)
        shutil.rmtree(folder)
        if replaced:
            folder.mkdir()
        gone = time.monotonic()
        # The end of the process takes half a second more.
        problem = f"{folder}: the folder of the spool was removed or replaced"
        assert any(problem in line for line in process.stderr)
        assert time.monotonic() - gone < 1.5
        assert process.wait(10) == 1
    with pytest.raises(errors.SpoolError, match="was removed or replaced") as caught:
        view.end()
    assert type(caught.value) is errors.SpoolError


def test_serve_answers_until_it_is_stopped(filled):
    with running("spool", "serve", filled, "-l", "tcp/127.0.0.1:0") as said:
        assert f"serving {filled}, spool" in said
        endpoint = said.split()[-1]
        config = {"mode": "client", "connect/endpoints": [endpoint]}
        with spool.connect(config=config, timeout=10) as remote:
            assert sum(remote.end().values()) == 100


def test_stat_says_what_is_there(filled, capsys):
    spool.open(filled).commit("query", {0: 1})
    assert main(["spool", "stat", str(filled)]) == 0
    out = capsys.readouterr().out
    assert "rows      100 in" in out
    assert "gaps      1" in out
    assert "consumer  query, 99 rows behind, last commit 20" in out
    assert main(["spool", "stat", str(filled), "--format", "jsonl"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["spool"] == spool.open(filled).id
    assert found["shards"]["0"]["segments"] > 1
    assert found["committed"]["query"] / 1e6 == pytest.approx(time.time(), abs=60)


def test_keys_choose_rows_and_segments(tmp_path, capsys):
    with spool.Appender(tmp_path) as appender:
        for number in range(40):
            appender.append(key=f"k/{number // 10}", payload=f"{number}", recv_ts=1_000_000 * number)
            if number % 10 == 9:
                appender.seal()
    size = (tmp_path / "0" / f"{20:020}.arrow").stat().st_size
    assert main(["spool", "stat", str(tmp_path), "--keys", "k/2"]) == 0
    assert f"plan      reads 1 of 4 segments, {size} bytes" in capsys.readouterr().out
    since = ["--since", "1970-01-01T00:00:25+00:00"]
    assert main(["spool", "stat", str(tmp_path), *since, "--format", "jsonl"]) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert (plan["segments"], plan["skipped"]) == (2, 2)
    keys = ["--keys", "k/2", "--keys", "k/3"]
    assert main(["spool", "cat", str(tmp_path), *keys, *since, "--columns", "offset"]) == 0
    assert capsys.readouterr().out.split() == [f"offset={number}" for number in range(25, 40)]
    assert main(["spool", "cat", str(tmp_path), "--keys", "a//b"]) == 2


def test_cat_prints_rows_in_the_order_of_their_offsets(filled, capsys):
    assert main(["spool", "cat", str(filled), "--columns", "key,payload,offset", "-n", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("key=k/")
    assert lines[2].endswith("offset=2")
    arguments = [
        "--format",
        "jsonl",
        "--since",
        "1970-01-01T00:00:50+00:00",
        "--until",
        "1970-01-01T00:01:00+00:00",
    ]
    assert main(["spool", "cat", str(filled), *arguments]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(row["payload"].isdigit(), row["payload_as"]) for row in rows} == {(True, "text")}
    assert {row["recv_ts"][:19] for row in rows} <= {f"1970-01-01T00:00:{number}" for number in range(50, 60)}
    assert len(rows) == 10
    assert main(["spool", "cat", str(filled), "--gaps"]) == 0
    assert "kind=drop" in capsys.readouterr().out


def test_export_writes_all_rows(filled, tmp_path, capsys):
    out = tmp_path / "out.parquet"
    assert main(["spool", "export", str(filled), "-o", str(out)]) == 0
    assert "100 rows" in capsys.readouterr().err
    table = pq.read_table(out)
    assert sorted(table["payload"].to_pylist(), key=int) == [b"%d" % number for number in range(100)]
    out = tmp_path / "out.arrow"
    assert (
        main(["spool", "export", str(filled), "-o", str(out), "--shard", "1", "--columns", "key,shard"]) == 0
    )
    table = pa.ipc.open_file(out).read_all()
    assert table.column_names == ["key", "shard"]
    assert set(table["shard"].to_pylist()) == {1}
    assert main(["spool", "export", str(filled), "-o", str(tmp_path / "x.csv")]) == 2
    out = tmp_path / "out.mcap"
    assert main(["spool", "export", str(filled), "-o", str(out)]) == 0
    batches = list(recording.read(out, columns=["payload"]))
    assert sum(batch.num_rows for batch in batches) == 100
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.arrow",
        "out.mcap",
        "out.parquet",
        "spool",
    ]


def test_verify_names_every_place_that_cannot_be_read(filled, capsys):
    assert main(["spool", "verify", str(filled)]) == 0
    assert "all of it can be read" in capsys.readouterr().err
    files = sorted((filled / "0").glob("*.arrow"))
    assert len(files) >= 2
    octets = bytearray(files[0].read_bytes())
    octets[-4000] ^= 1
    files[0].write_bytes(octets)
    (filled / "gaps" / f"{0:020}.arrow").unlink()
    assert main(["spool", "verify", str(filled)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == ["shard 0", "gap log"]
    first, second = spool.verify(filled)
    assert first.shard == 0
    assert files[0].name in first.message
    assert (second.shard, second.offset) == (-1, 0)


def test_what_makes_no_sense_is_refused(tmp_path, capsys):
    for arguments in (["a/b"], ["stat"], ["stat", "x", "y"], ["export", str(tmp_path)]):
        assert main(["spool", *arguments]) == 2
    assert main(["spool", "stat", str(tmp_path)]) == 1
    assert "there is no spool" in capsys.readouterr().err
    assert main(["spool", "keep", "--dir", str(tmp_path), "a", "--keep", "soon"]) == 2
    with pytest.raises(errors.SpoolError):
        spool.verify(tmp_path)
