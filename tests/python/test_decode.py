"""Decoding captures from Python and from the command line.

What is in the captures is checked by the tests of the core, fact by fact; here it is that all ways out say
the same.
"""

import base64
import contextlib
import gzip
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

import truth
from terminal import handles_signals, shown
from zwire import zenoh
from zwire.capture import Decoder, decode
from zwire.cli import _format, main
from zwire.errors import DecodeError

pytestmark = pytest.mark.slow

FIELDS = [
    "ts",
    "src",
    "dst",
    "protocol",
    "message",
    "kind",
    "key",
    "scope",
    "suffix",
    "payload",
    "encoding",
    "timestamp",
    "hlc",
    "hlc_id",
    "attachment",
    "priority",
    "congestion",
    "express",
    "request_id",
    "parameters",
    "consolidation",
    "target",
    "sn",
    "peer",
    "name",
    "address",
    "group",
    "sequence",
    "status",
    "groups",
    "headers",
    "content",
    "error",
    "offset",
]

# Small captures of each kind of link and message.
NAMES = [
    "pubsub-basic",
    "declared-keyexpr",
    "query",
    "router",
    "compression",
    "old-version",
    "udp",
    "scouting",
    "zre-v2-chat",
    "zre-v1-rfc20",
    "zre-draft-election",
    "zmtp-null",
]


def path(name):
    return Path(truth.path(name))


def unpacked(name):
    return gzip.decompress(path(name).read_bytes())


def lines(decoder):
    text = b"".join(iter(decoder.jsonl, b""))
    return [json.loads(line) for line in text.splitlines()]


def printed(out, form):
    """The records that the command has printed, with bytes as base64; they were in that form."""
    found = []
    for line in out.splitlines():
        record = json.loads(line)
        for name in ("payload", "attachment", "content"):
            kind = record.pop(f"{name}_as")
            value = record[name]
            assert (kind is None) == (value is None)
            kinds = kind if isinstance(kind, list) else [kind]
            assert form == "auto" or set(kinds) <= {form, None}
            if name == "content" and value is not None:
                record[name] = [as_base64(*each) for each in zip(value, kind, strict=True)]
            elif value is not None:
                record[name] = as_base64(value, kind)
        found.append(record)
    return found


def as_base64(value, kind):
    """A value of JSON Lines in base64; a JSON value as the text that the records of the tests have."""
    if kind == "hex":
        value = base64.b64encode(bytes.fromhex(value)).decode()
    elif kind in {"text", "json"}:
        text = value if kind == "text" else json.dumps(value)
        value = base64.b64encode(text.encode()).decode()
    return value


def table(decoder):
    return pa.Table.from_batches([pa.record_batch(batch) for batch in decoder], schema=pa.schema(decoder))


def as_json(row):
    """A row of a table as the line that says the same."""
    row = dict(row)
    # Lines have the time stamp as one text.
    hlc, clock = row.pop("hlc"), row.pop("hlc_id")
    if hlc is not None:
        stamp = zenoh.Timestamp(zenoh.NTP64.from_int(hlc & (1 << 64) - 1), clock)
        assert row["timestamp"] == stamp.get_time()
        row["timestamp"] = stamp.to_string_rfc3339_lossy()
    elif row["timestamp"] is not None:
        row["timestamp"] = row["timestamp"].strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
    row["ts"] = pytest.approx(row["ts"].timestamp(), abs=1e-6)
    for field in ("payload", "attachment"):
        if row[field] is not None:
            row[field] = base64.b64encode(row[field]).decode()
    if row["content"] is not None:
        row["content"] = [base64.b64encode(frame).decode() for frame in row["content"]]
    if row["headers"] is not None:
        row["headers"] = dict(row["headers"])
    return row


@pytest.mark.parametrize("name", NAMES)
def test_batches_and_lines_say_the_same(name):
    expected = lines(decode(path(name)))
    rows = table(decode(path(name))).to_pylist()
    assert len(rows) == len(expected) > 20
    for row, line in zip(rows, expected, strict=True):
        assert list(row) == FIELDS
        assert list(line) == [name for name in FIELDS if name not in ("hlc", "hlc_id")]
        assert as_json(row) == line


def test_the_types_are_those_that_spark_takes():
    schema = pa.schema(decode(path("query")))
    text, number = pa.string(), pa.int64()
    assert schema.names == FIELDS
    assert all(field.nullable for field in schema)
    expected = dict.fromkeys(FIELDS, text) | {
        "ts": pa.timestamp("us", "UTC"),
        "timestamp": pa.timestamp("us", "UTC"),
        "hlc": number,
        "hlc_id": pa.binary(),
        "payload": pa.binary(),
        "attachment": pa.binary(),
        "priority": pa.int8(),
        "express": pa.bool_(),
        "scope": pa.int32(),
        "request_id": number,
        "sn": number,
        "sequence": pa.int32(),
        "status": pa.int32(),
        "groups": pa.list_(pa.field("element", text)),
        "headers": pa.map_(text, text),
        "content": pa.list_(pa.field("element", pa.binary())),
        "offset": number,
    }
    assert {field.name: field.type for field in schema} == expected
    assert table(decode(path("query"))).schema == schema


def test_a_decoder_is_an_arrow_stream():
    expected = table(decode(path("query")))
    assert pa.table(decode(path("query"))) == expected
    with pa.RecordBatchReader.from_stream(decode(path("query"), max_rows=10)) as reader:
        assert reader.read_all() == expected


def test_an_error_of_a_stream_names_the_file(tmp_path):
    (tmp_path / "x.pcap").write_bytes(b"no capture at all")
    with pytest.raises(pa.ArrowInvalid, match=r"x\.pcap"):
        pa.table(decode(tmp_path / "x.pcap"))


def test_batches_are_bounded_in_rows_and_bytes():
    whole = table(decode(path("fragmented")))
    batches = [pa.record_batch(batch) for batch in decode(path("fragmented"), max_rows=7)]
    assert {batch.num_rows for batch in batches[:-1]} == {7}
    assert pa.Table.from_batches(batches) == whole
    bound = 100_000
    batches = [pa.record_batch(batch) for batch in decode(path("fragmented"), max_bytes=bound)]
    assert pa.Table.from_batches(batches) == whole
    for batch in batches:
        payload = sum(len(value or b"") for value in batch["payload"].to_pylist())
        assert payload <= bound or batch.num_rows == 1
    with pytest.raises(ValueError, match="max_rows"):
        decode(path("query"), max_rows=0)


def test_sources_are_paths_and_buffers_packed_or_not(tmp_path):
    expected = lines(decode(path("query")))
    packed = path("query").read_bytes()
    plain = gzip.decompress(packed)
    (tmp_path / "plain.pcap").write_bytes(plain)
    for source in (
        packed,
        plain,
        memoryview(plain),
        bytearray(packed),
        str(path("query")),
        tmp_path / "plain.pcap",
    ):
        assert lines(decode(source)) == expected
    two = decode(plain, path("query"))
    assert two.size == len(plain) + len(packed)
    assert two.position == 0
    assert lines(two) == expected * 2
    assert two.position == two.size


def test_a_port_can_be_forced():
    late = unpacked("pubsub-basic")
    # Twelve packets from the middle are too few to tell.
    at, packets = 24, []
    while at < len(late):
        length = int.from_bytes(late[at + 8 : at + 12], "little")
        packets.append(late[at : at + 16 + length])
        at += 16 + length
    few = late[:24] + b"".join(packets[200:203])
    assert lines(decode(few)) == []
    records = lines(decode(few, ports=[7447]))
    pushes = [record for record in records if record["message"] == "push"]
    assert pushes
    assert all(
        record["key"] is None and record["scope"] and record["suffix"] is not None for record in pushes
    )


def mixed(names, seconds=1000):
    """Captures of one machine, as one: the packets of all of them, a time apart."""
    out = b""
    for number, name in enumerate(names):
        plain = gzip.decompress(path(name).read_bytes())
        assert plain[:4] == b"\xd4\xc3\xb2\xa1"
        out = out or plain[:24]
        at = 24
        while at < len(plain):
            length = int.from_bytes(plain[at + 8 : at + 12], "little")
            (time,) = struct.unpack_from("<I", plain, at)
            out += struct.pack("<I", time + number * seconds) + plain[at + 4 : at + 16 + length]
            at += 16 + length
    return out


def test_one_capture_may_hold_everything():
    names = ["query", "zre-v2-chat", "zmtp-null", "udp", "zre-v1-zyre100"]
    expected = [line for name in names for line in lines(decode(path(name)))]
    found = lines(decode(mixed(names)))
    assert {line["protocol"] for line in found} == {"zenoh", "zmtp", "zre", "zrelog"}

    def essence(line):
        return json.dumps({key: line[key] for key in line if key != "ts"})

    assert sorted(map(essence, found)) == sorted(map(essence, expected))


def test_keys_open_what_is_said_under_curve(tmp_path, capsys):
    sealed = lines(decode(path("zre-draft-curve")))
    assert {line["kind"] for line in sealed if line["message"] == "message"} == {"encrypted"}
    keys = truth.keys("zre-draft-curve")
    opened = lines(decode(path("zre-draft-curve"), keys=keys))
    (shout,) = [line for line in opened if line["message"] == "shout"]
    assert (shout["group"], shout["content"]) == ("VAULT", [base64.b64encode(b"sealed").decode()])
    assert not [line for line in opened if line["kind"] == "encrypted"]
    # In any form, also by a file.
    assert lines(decode(path("zre-draft-curve"), keys=map(bytes.fromhex, keys))) == opened
    (tmp_path / "keys").write_text("\n".join(keys))
    source = str(path("zre-draft-curve"))
    assert main(["decode", source, "--format", "jsonl", "--curve-key", f"@{tmp_path}/keys"]) == 0
    assert printed(capsys.readouterr().out, "auto") == opened
    one_by_one = [word for key in keys for word in ("--curve-key", key)]
    assert main(["decode", source, "--format", "jsonl", *one_by_one]) == 0
    assert printed(capsys.readouterr().out, "auto") == opened


def test_what_is_no_key_is_refused_without_being_shown(tmp_path, capsys):
    # RFC 32 has no key, but what its text stands for.
    z85 = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"
    decode(keys=[z85, bytes(32), "00" * 32])
    for bad in ("", "hidden", z85[:-1], z85[:-1] + '"', "#" * 40, "g" * 64, bytes(31)):
        with pytest.raises(ValueError, match=r"a CURVE key is|hexadecimal") as caught:
            decode(keys=[bad])
        assert not bad or repr(bad) not in str(caught.value)
    with pytest.raises(ValueError, match="at most 1024"):
        decode(keys=[bytes(32)] * 1025)
    assert main(["decode", "x", "--curve-key", "hidden"]) == 2
    err = capsys.readouterr().err
    assert "a CURVE key is 40 characters" in err
    assert "hidden" not in err
    assert main(["decode", "x", "--curve-key", f"@{tmp_path}/missing"]) == 2
    assert "missing: No such file" in capsys.readouterr().err


def test_what_is_no_capture_is_an_error(tmp_path):
    with pytest.raises(DecodeError) as caught:
        list(decode(b"no capture at all"))
    assert caught.value.reading
    (tmp_path / "empty.pcap").write_bytes(b"")
    with pytest.raises(DecodeError, match=r"empty\.pcap"):
        list(decode(tmp_path / "empty.pcap"))
    with pytest.raises(FileNotFoundError) as missing:
        decode(tmp_path / "missing.pcap").jsonl()
    assert missing.value.filename == str(tmp_path / "missing.pcap")
    with pytest.raises(TypeError, match="capture"):
        decode(7)
    # The source behind a bad one is read.
    both = decode(b"no capture at all", path("query"))
    with pytest.raises(DecodeError):
        both.jsonl()
    assert len(lines(both)) == len(lines(decode(path("query"))))


def test_a_cut_file_is_read_up_to_there():
    plain = gzip.decompress(path("query").read_bytes())
    records = lines(decode(plain[: len(plain) // 2]))
    assert len(records) > 50
    assert records[-1]["message"] == "error" or any(record["message"] == "error" for record in records)
    faults = [record for record in records if record["error"] and record["error"].startswith("capture file")]
    assert len(faults) == 1
    assert faults[0]["src"] is None
    assert faults[0]["protocol"] is None
    assert faults[0]["offset"] > 0


def test_threads_share_a_decoder():
    decoder = decode(path("fragmented"), path("query"), max_rows=3)
    rows = []

    def take():
        rows.extend(pa.record_batch(batch).num_rows for batch in decoder)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    expected = len(lines(decode(path("fragmented"), path("query"))))
    assert sum(rows) == expected


def test_cli_formats(tmp_path, capfdbinary):
    source = str(path("query"))
    expected = lines(decode(source))
    assert main(["decode", source, "--format", "jsonl"]) == 0
    out, err = capfdbinary.readouterr()
    assert list(map(essential, printed(out, "auto"))) == list(map(essential, expected))
    assert err == b"", "no bar without a terminal"
    assert main(["decode", source]) == 0
    out, _ = capfdbinary.readouterr()
    assert len(out.splitlines()) == len(expected)
    assert b" request query #1 store/temp/* " in out
    arrow, parquet = tmp_path / "out.arrow", tmp_path / "out.parquet"
    assert main(["decode", source, "--format", "arrow", "-o", str(arrow)]) == 0
    assert main(["decode", source, source, "--format", "parquet", "-o", str(parquet)]) == 0
    whole = table(decode(source))
    with pa.ipc.open_stream(arrow) as reader:
        assert reader.read_all() == whole
    assert pa.parquet.read_table(parquet) == pa.concat_tables([whole, whole])


@pytest.mark.parametrize("form", ["auto", "base64", "hex"])
@pytest.mark.parametrize("name", ["pubsub-basic", "query", "zre-v2-chat", "zmtp-null"])
def test_cli_prints_bytes_in_any_form(name, form, capfdbinary):
    assert main(["decode", str(path(name)), "--format", "jsonl", "--payload", form]) == 0
    found = printed(capfdbinary.readouterr().out, form)
    expected = lines(decode(path(name)))
    assert any(record["payload"] or record["content"] for record in expected)
    assert [essential(record) for record in found] == [essential(record) for record in expected]


def essential(record):
    """A record in which JSON payloads are values: their text is not kept."""
    record = dict(record)
    if (record["encoding"] or "").startswith("application/json") and record["payload"] is not None:
        with contextlib.suppress(ValueError):
            record["payload"] = json.loads(base64.b64decode(record["payload"]))
    return record


def test_a_header_with_the_name_of_a_field_stays_as_it_is():
    line = (
        b'{"ts":1.123456789,"payload":null,"encoding":null,"attachment":null,"priority":5,'
        b'"headers":{"payload":"aGk=","content":"aGk="},"content":["aGk=","/w=="],"error":null}\n'
    )
    decoded = _format.decoded_line(line, "auto")
    assert b'"ts":1.123456789,' in decoded
    record = json.loads(decoded)
    assert record["headers"] == {"payload": "aGk=", "content": "aGk="}
    assert (record["content"], record["content_as"]) == (["hi", "/w=="], ["text", "base64"])
    assert record["payload_as"] is record["attachment_as"] is None


def test_cli_reads_a_pipe():
    plain = gzip.decompress(path("router").read_bytes())
    command = [sys.executable, "-m", "zwire", "decode", "-", "--format", "jsonl"]
    done = subprocess.run(command, input=plain, capture_output=True, check=True, timeout=20)
    assert printed(done.stdout, "auto") == lines(decode(plain))


def test_cli_prints_while_it_is_captured():
    plain = gzip.decompress(path("query").read_bytes())
    command = [sys.executable, "-m", "zwire", "decode", "-", "--format", "jsonl"]
    # Without a buffer: what is read ahead of the line would be lost to communicate().
    with subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(plain[: len(plain) // 2])
        process.stdin.flush()
        # The rest of the capture is still to come.
        assert json.loads(process.stdout.readline())["message"] == "init"
        rest, _ = process.communicate(plain[len(plain) // 2 :], timeout=20)
        assert process.returncode == 0
    assert 1 + len(rest.splitlines()) == len(lines(decode(plain)))


def test_cli_says_what_is_wrong(tmp_path, capsys):
    assert main(["decode", str(tmp_path / "missing.pcap")]) == 1
    assert "missing.pcap" in capsys.readouterr().err
    (tmp_path / "x.pcap").write_text("no capture at all")
    assert main(["decode", str(tmp_path / "x.pcap")]) == 1
    problem = f"zwire decode: {tmp_path / 'x.pcap'} is no capture: neither pcap nor pcapng\n"
    assert capsys.readouterr().err == problem
    (tmp_path / "x.pcap").write_bytes(b"")
    assert main(["decode", str(tmp_path / "x.pcap")]) == 1
    assert capsys.readouterr().err == problem
    assert main(["decode", "x", "--port", "70000"]) == 2
    assert main(["decode", "x", "--format", "xml"]) == 2


def test_cli_never_writes_over_a_capture(tmp_path, capsys):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap := unpacked("pubsub-basic"))
    assert main(["decode", str(path), "-o", f"{tmp_path}/../{tmp_path.name}/x.pcap"]) == 2
    assert "one of the captures" in capsys.readouterr().err
    assert path.read_bytes() == pcap


@pytest.mark.parametrize("format_", ["text", "jsonl", "arrow", "parquet"])
def test_cli_says_that_it_found_nothing(format_, tmp_path, capsys):
    path = tmp_path / "x.pcap"
    path.write_bytes(bytes.fromhex("d4c3b2a1 02000400 00000000 00000000 ffff0000 01000000"))
    assert main(["decode", str(path), "--format", format_, "-o", str(tmp_path / "out")]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"zwire decode: no Zenoh and no ZMTP in {path}; --port N where its port is known"


def test_cli_survives_a_closed_output(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(unpacked("pubsub-basic"))
    command = f'"{sys.executable}" -m zwire decode "{path}" >&-'
    done = subprocess.run(["sh", "-c", command], check=False, capture_output=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("start", [b"", b"\x1f"], ids=["nothing", "a byte"])
def test_cli_gives_up_before_anything_has_come(start):
    command = [sys.executable, "-m", "zwire", "decode", "-", "-v"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **pipes) as process:
        process.stdin.write(start)
        process.stdin.flush()
        handles_signals(process)
        # Nothing tells that it reads by now; the exit code is the same before.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, b"")


@pytest.mark.parametrize("format_", [None, "jsonl"])
def test_cli_goes_by_the_name_of_the_output(format_, tmp_path):
    for name, begin in (("x.parquet", b"PAR1"), ("x.jsonl", b"{"), ("x.txt", b"2"), ("x", b"2")):
        out = tmp_path / name
        given = [] if format_ is None else ["--format", format_]
        assert main(["decode", str(path("pubsub-basic")), "-o", str(out), *given]) == 0
        assert out.read_bytes().startswith(begin if format_ is None else b"{"), name
    assert main(["decode", str(path("pubsub-basic")), "-o", str(tmp_path / "x.mcap")]) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_cli_gives_up_when_it_is_told(number):
    pcap = unpacked("pubsub-basic")
    command = [sys.executable, "-m", "zwire", "decode", "-"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **pipes) as process:
        process.stdin.write(pcap)
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, b"")


def test_cli_draws_a_bar_on_a_terminal(tmp_path):
    big = tmp_path / "big.pcap"
    big.write_bytes(gzip.decompress(path("bulk").read_bytes()))
    command = [
        sys.executable,
        "-m",
        "zwire",
        "decode",
        str(big),
        "--format",
        "jsonl",
        "-o",
        os.devnull,
    ]
    seen = shown(command, stdout=subprocess.DEVNULL)
    assert b"%" in seen
    assert b"MB/s" in seen
    assert seen.endswith(b"\r\x1b[K"), "the line is left clean"


def test_the_decoder_does_not_pickle():
    import copy

    with pytest.raises(TypeError):
        copy.copy(Decoder([]))
