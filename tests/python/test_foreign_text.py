"""What other nodes name, publish and say reaches a terminal without the characters that steer it."""

import ast
import json
import logging
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import types
import unicodedata
from pathlib import Path

import pytest

import nodes
import zwire.cli
from zwire import metrics, spool, zenoh, zre
from zwire._text import printable
from zwire.cli import conformance, main, put, zre_log
from zwire.conformance import Verdict
from zwire.conformance.zenoh import _wire as wire
from zwire.errors import ConnectError

PATIENCE = 15.0

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\x7f\x85\u202egpj.\u2066\u200f\r\n\t\u2028end\x01"
"""Title, clear screen, colour in C1, DEL, NEL, directions, ends of lines; legal in a key expression."""

ESCAPED = (
    "\\u001b]0;title\\u0007\\u001b[2J\\u009b31m\\u007f\\u0085"
    "\\u202egpj.\\u2066\\u200f\\r\\n\\t\\u2028end\\u0001"
)

DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def acts(c):
    """Whether a terminal acts on a character; the end of a line is one of ours."""
    return c != "\n" and (
        unicodedata.category(c) in {"Cc", "Zl", "Zp", "Cs"}
        or unicodedata.bidirectional(c) in DIRECTIONS
        or c in "\u061c\u200e\u200f"
    )


def lines(text, count):
    """The lines of an output, so many, none of which steers a terminal."""
    assert not [hex(ord(c)) for c in text if acts(c)], text
    found = text.splitlines()
    assert len(found) == count, text
    return found


@pytest.fixture
def start():
    """Starts a command and waits for its first line on standard error."""
    processes = []

    def begin(*arguments, said="", **environment):
        process = subprocess.Popen(
            [sys.executable, "-m", "zwire", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
        )
        processes.append(process)
        while said and said not in (line := process.stderr.readline().decode()):
            assert line, f"it ended without {said!r}"
        return process

    yield begin
    for process in processes:
        process.kill()
        process.wait()


def ended(process, code=0):
    """Its output, once it has ended."""
    out, err = (text.decode() for text in process.communicate(timeout=PATIENCE * 2))
    assert process.returncode == code, err
    return out, err


def test_every_control_and_mark_of_direction_is_escaped():
    for c in map(chr, range(sys.maxunicode + 1)):
        assert printable(c).isascii() or not acts(c), hex(ord(c))
    assert printable("a\\b é日本 👩\u200d🚀\u00a0") == "a\\b é日本 👩\u200d🚀\u00a0"
    assert printable(HOSTILE) == ESCAPED
    assert json.loads(f'"{printable(HOSTILE)}"') == HOSTILE


def test_commands_write_in_one_place():
    """What a command prints goes through `show` or `say`."""
    folder = Path(zwire.cli.__file__).parent
    found = {}
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            call = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if call == "print" or re.fullmatch(r"sys\.std(out|err)(\.buffer)?\.write", call):
                found.setdefault(file.name, []).append(ast.unparse(node))
    # The bar of progress has escapes of its own around its escaped text.
    assert set(found) == {"_progress.py"}
    assert (folder / "_options.py").is_file()


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_sub(start, endpoint, session, form):
    process = start(
        "sub", "**", "-n", 2, "--timeout", 20, "--format", form, "-e", endpoint, said="subscribed"
    )
    session.put(f"k/{HOSTILE}", HOSTILE, encoding=f"text/{HOSTILE}")
    session.delete(f"k/{HOSTILE}")
    put, deleted = lines(ended(process)[0], 2)
    if form == "text":
        assert put == f'k/{ESCAPED} text/{ESCAPED} "{ESCAPED}"'
        assert deleted == f"k/{ESCAPED} deleted"
    else:
        assert json.loads(put)["key"] == json.loads(deleted)["key"] == f"k/{HOSTILE}"


def test_a_key_that_the_terminal_has_no_character_for_does_not_end_the_command(start, endpoint, session):
    process = start(
        "sub", "**", "-n", 1, "--timeout", 20, "-e", endpoint, said="subscribed", PYTHONIOENCODING="ascii"
    )
    session.put("k/é", "x")
    assert ended(process)[0] == "k/\\xe9 zenoh/bytes x\n"


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_get(endpoint, session, capsys, form):
    def answer(query):
        with query:
            query.reply(f"k/{HOSTILE}", HOSTILE, encoding=f"text/{HOSTILE}")
            query.reply_err(HOSTILE, encoding=f"text/{HOSTILE}")

    with session.declare_queryable("k/**", answer):
        session.ready(timeout=PATIENCE)
        assert main(["get", "k/**", "--consolidation", "none", "--format", form, "-e", endpoint]) == 1
    out, err = capsys.readouterr()
    if form == "text":
        assert lines(out, 1) == [f'k/{ESCAPED} text/{ESCAPED} "{ESCAPED}"']
        assert lines(err, 1) == [f'error text/{ESCAPED} "{ESCAPED}"']
    else:
        assert {json.loads(line)["kind"] for line in lines(out, 2)} == {"put", "err"}


def test_queryable(start, endpoint, session):
    process = start("queryable", "k/**", "--echo", "-n", 1, "--timeout", 20, "-e", endpoint, said="answering")
    list(session.get(f"k/{HOSTILE}?a={HOSTILE}", payload=HOSTILE, timeout=PATIENCE))
    assert lines(ended(process)[0], 1) == [f'k/{ESCAPED}?a={ESCAPED} "{ESCAPED}"']


def test_scout(start):
    port = nodes.free_port(socket.SOCK_DGRAM)
    locator = "tcp/\u202e\u2066evil:1"
    hello = bytes([0x22, 9, 0x30, 1, 2, 3, 4]) + b"\x01" + bytes([len(locator.encode())]) + locator.encode()
    assert wire.hello_of(hello).locators == [locator]
    with socket.socket(type=socket.SOCK_DGRAM) as node:
        node.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        node.bind(("", port))
        member = struct.pack("4s4s", socket.inet_aton("224.0.0.224"), socket.inet_aton("127.0.0.1"))
        node.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        node.settimeout(PATIENCE)
        for form in ("text", "jsonl"):
            address = ["--interface", "lo", "--address", f"224.0.0.224:{port}"]
            process = start("scout", *address, "-n", 1, "--timeout", 20, "--format", form)
            node.sendto(hello, node.recvfrom(2048)[1])
            out, _ = ended(process)
            assert "evil" in lines(out, 2 if form == "text" else 1)[-1]


@pytest.fixture
def node():
    """A node of ZRE with a hostile name and header, and the options of commands that find it."""
    port = nodes.free_port(socket.SOCK_DGRAM)
    settings = {"interfaces": "lo", "interval": 0.1, "beacon_port": port}
    headers = {"X-ROLE": HOSTILE, f"X-{HOSTILE}": "1"}
    node = zre.Node(f"n{HOSTILE}", headers=headers, **settings)
    node.join(f"g{HOSTILE}")
    with node:
        yield node, ["-i", "lo", "--port", str(port), "--interval", "0.1"]


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_peers_of_zre(start, node, form):
    _, options = node
    out, _ = ended(start("zre", "peers", "-n", 1, "--wait", 10, "--format", form, *options))
    (line,) = lines(out, 1)
    if form == "text":
        assert f"n{ESCAPED}" in line
        assert f"g{ESCAPED}" in line
        assert f"X-ROLE={ESCAPED}" in line
    else:
        row = json.loads(line)
        assert row["name"] == f"n{HOSTILE}"
        assert row["headers"]["X-ROLE"] == HOSTILE


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_chat_of_zre_and_its_log(start, node, form):
    node, options = node
    process = start("zre", "chat", "CHAT", "-vv", "--format", form, *options)
    node.join("CHAT")
    node.wait_for_peers(1, timeout=PATIENCE, group="CHAT")
    node.shout("CHAT", HOSTILE)
    (peer,) = node.peers()
    node.whisper(peer, [HOSTILE, b"\xff"])
    seen = b""
    while b"0xff" not in seen and b"/w==" not in seen:
        line = process.stdout.readline()
        assert line
        seen += line
    node.stop()
    seen += process.stdout.readline()
    out, err = process.communicate(b"", timeout=PATIENCE)
    text = (seen + out).decode()
    lines(text, len(text.splitlines()))
    lines(err.decode(), len(err.decode().splitlines()))
    if form == "text":
        assert f'n{ESCAPED} to CHAT: "{ESCAPED}"' in text
        assert f'n{ESCAPED}: "{ESCAPED}" | 0xff' in text
    assert "endtitle" not in text


@pytest.mark.parametrize("form", ["text", "json"])
def test_doctor_of_zre(start, node, form):
    _, options = node
    out, _ = ended(start("zre", "doctor", "--wait", 2, "--format", form, *options))
    lines(out, len(out.splitlines()))
    assert f"n{ESCAPED}" in out
    if form == "json":
        assert json.loads(out)["peers"][0]["name"] == f"n{HOSTILE}"


def test_whisper_of_zre(start, node):
    node, options = node
    _, err = ended(start("zre", "whisper", node.uuid, "hello", "--wait", 10, *options))
    assert f"n{ESCAPED}: queued" in lines(err, len(err.splitlines()))


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_records_of_zre_log(form):
    fields = {
        "time": 0.0,
        "level": "INFO",
        "event": "JOIN",
        "node": 1,
        "peer": 2,
        "data": HOSTILE,
        "sender": "",
    }
    line = zre_log._line(types.SimpleNamespace(**fields), form)
    assert ESCAPED in printable(line)


def test_decode(tmp_path, capfdbinary):
    path = tmp_path / "x.pcap"
    with nodes.router(zwire__tap=str(path)) as hub, nodes.client(hub) as session:
        session.put(f"k/{HOSTILE}", HOSTILE, encoding=f"text/{HOSTILE}")
        list(session.get(f"k/{HOSTILE}?a={HOSTILE}", timeout=1))
        session.flush(timeout=PATIENCE)
    for form in ("text", "jsonl"):
        assert main(["decode", str(path), "--format", form]) == 0
        out = capfdbinary.readouterr().out.decode()
        found = lines(out, len(out.splitlines()))
        if form == "jsonl":
            rows = [json.loads(line) for line in found]
            (push,) = [row for row in rows if row["message"] == "push" and row["kind"] == "put"][:1]
            assert (push["key"], push["encoding"]) == (f"k/{HOSTILE}", f"text/{HOSTILE}")
            assert f"a={HOSTILE}" in {row["parameters"] for row in rows}


def test_spool(tmp_path, capsys):
    folder = tmp_path / "spool"
    with spool.Appender(folder) as appender:
        appender.append(key=f"k/{HOSTILE}", payload=HOSTILE, encoding=f"text/{HOSTILE}", recv_ts=1)
        appender.append_gap(0, "drop", count=1, detail=HOSTILE)
    for arguments in (["cat", str(folder)], ["cat", str(folder), "--gaps"], ["stat", str(folder)]):
        for form in ("text", "jsonl"):
            assert main(["spool", *arguments, "--format", form]) == 0
            out = capsys.readouterr().out
            lines(out, len(out.splitlines()))
            if arguments[0] == "cat":
                assert ESCAPED in out
                assert len(out.splitlines()) == 1


def test_errors_and_verdicts(monkeypatch, capsys):
    def fail(_args):
        raise ConnectError(f"the peer says {HOSTILE}")

    monkeypatch.setattr(put, "run", fail)
    assert main(["put", "k", "v"]) == 1
    assert lines(capsys.readouterr().err, 1) == [f"zwire put: the peer says {ESCAPED}"]
    (rule, *_) = zwire.conformance.rules("zenoh")
    for form, count in (("text", 2), ("jsonl", 1)):
        conformance._tell(Verdict(rule, "deviates", HOSTILE), form=form)
        assert ESCAPED in lines(capsys.readouterr().out, count)[-1]


def test_the_log_of_a_command(monkeypatch, capsys):
    """Also that of modules in Python: no Rust has escaped their records."""
    monkeypatch.setattr(
        put, "run", lambda _args: logging.getLogger("zwire.spool").warning("x %s", HOSTILE) or 0
    )
    assert main(["put", "k", "v"]) == 0
    assert lines(capsys.readouterr().err, 1) == [f"zwire put: x {ESCAPED}"]


def test_records_of_the_log_are_one_line(caplog):
    """A peer is told of with its own words; RUST_LOG writes the same text."""
    port = nodes.free_port(socket.SOCK_DGRAM)
    with caplog.at_level("DEBUG", logger="zwire"):
        settings = {"interfaces": "lo", "interval": 0.1, "beacon_port": port}
        with zre.Node(f"n{HOSTILE}", **settings), zre.Node("other", **settings) as other:
            other.wait_for_peers(1, timeout=PATIENCE)
        zwire.log.flush()
    texts = [record.getMessage() for record in caplog.records]
    assert texts
    assert not [text for text in texts if any(acts(c) or c == "\n" for c in text)]


def test_labels_of_metrics():
    node = zre.Node(f"n{HOSTILE}", interfaces="lo", beacon_port=nodes.free_port(socket.SOCK_DGRAM))
    with node:
        for openmetrics in (False, True):
            text = metrics.prometheus(node, openmetrics=openmetrics)
            assert "title" in text
            assert not [c for c in text if acts(c)]


def test_a_stranger_that_publishes_hostile_keys_to_a_verbose_router(start):
    process = start("router", "--listen", "tcp/127.0.0.1:0", "-vv")
    endpoint = process.stdout.readline().decode().strip()
    with zenoh.open(nodes.settings("client", connect=[endpoint])) as session:
        subscriber = session.declare_subscriber(f"k/{HOSTILE}/**")
        session.liveliness().declare_token(f"t/{HOSTILE}")
        session.put(f"k/{HOSTILE}/x", HOSTILE)
        assert subscriber.recv(timeout=PATIENCE)
    done = threading.Event()
    threading.Timer(0.5, done.set).start()
    done.wait()
    process.terminate()
    out, err = ended(process)
    lines(out + err, len((out + err).splitlines()))
