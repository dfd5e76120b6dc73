"""The command line, against a hub of its own: outputs, exit codes, signals, captures."""

import base64
import contextlib
import ctypes
import importlib
import json
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from zwire import zenoh
from zwire.capture import decode
from zwire.cli import COMMANDS, main


@pytest.fixture
def start():
    """Starts commands; whatever still runs at the end of the test is killed."""
    with contextlib.ExitStack() as stack:

        def begin(*arguments, **kwargs):
            process = subprocess.Popen(
                [sys.executable, "-m", "zwire", *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                **kwargs,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield begin


@pytest.fixture
def subscribed(start, hub):
    def begin(*arguments):
        process = start("sub", *arguments, "-e", hub)
        assert process.stderr.readline().startswith("subscribed to ")
        return process

    return begin


@pytest.fixture
def hub(start):
    process = start("router", "--listen", "tcp/127.0.0.1:0")
    yield process.stdout.readline().strip()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 0, err


@pytest.fixture
def session(hub):
    config = zenoh.Config()
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", json.dumps([hub]))
    with zenoh.open(config) as opened:
        yield opened


def test_every_command_explains_itself_with_examples(capsys):
    for name in COMMANDS:
        assert main([name, "--help"]) == 0
        text = capsys.readouterr().out
        assert "example" in text, name
        assert f"zwire {name}" in text
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n    {name} " in text for name in COMMANDS)


def test_help_imports_no_command():
    code = (
        "import sys, zwire.cli; zwire.cli.main(['--help']);"
        "sys.exit(any(m.startswith('zwire.cli.') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_router_prints_its_endpoint_and_stops_cleanly(number, start):
    process = start("router", "--listen", "tcp/127.0.0.1:0")
    endpoint = process.stdout.readline().strip()
    assert endpoint.startswith("tcp/127.0.0.1:")
    assert not endpoint.endswith(":0")
    process.send_signal(number)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err


def test_router_stops_whichever_thread_gets_the_signal(start):
    """A signal that interrupts no wait of the main thread, as one that comes just before the wait."""
    process = start("router", "--listen", "tcp/127.0.0.1:0")
    process.stdout.readline()
    assert "is ready" in process.stderr.readline()
    threads = {int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()}
    other = max(threads - {process.pid})
    assert ctypes.CDLL(None).tgkill(process.pid, other, signal.SIGINT) == 0
    _, err = process.communicate(timeout=5)
    assert (process.returncode, err) == (0, "")


def test_put_reaches_sub_as_text(hub, subscribed):
    process = subscribed("demo/**", "-n", "3", "--timeout", "20")
    assert main(["put", "demo/a", "hello\n", "--encoding", "text/plain", "-e", hub]) == 0
    assert main(["put", "demo/b", "x", "-e", hub]) == 0
    assert main(["delete", "demo/a", "-e", hub]) == 0
    out, _ = process.communicate(timeout=20)
    assert out == 'demo/a text/plain "hello\\n"\ndemo/b zenoh/bytes x\ndemo/a deleted\n'
    assert process.returncode == 0


def test_sub_prints_json_lines(hub, session, subscribed):
    process = subscribed("demo/*", "-n", "2", "--timeout", "20", "--format", "jsonl")
    session.put(
        "demo/a",
        b"\x00\xff",
        encoding="image/png",
        attachment=b"at",
        priority=zenoh.Priority.DATA_HIGH,
        congestion_control=zenoh.CongestionControl.BLOCK,
        express=True,
    )
    session.delete("demo/a")
    out, _ = process.communicate(timeout=20)
    put, deletion = map(json.loads, out.splitlines())
    assert put.pop("timestamp").count("/") == 1
    assert put == {
        "key": "demo/a",
        "kind": "put",
        "payload": base64.b64encode(b"\x00\xff").decode(),
        "encoding": "image/png",
        "attachment": base64.b64encode(b"at").decode(),
        "priority": 4,
        "congestion": "block",
        "express": True,
    }
    assert (deletion["kind"], deletion["payload"], deletion["encoding"]) == ("del", None, None)


def test_sub_says_when_too_little_came(hub, subscribed):
    process = subscribed("demo/**", "-n", "1", "--timeout", "0.2")
    _, err = process.communicate(timeout=20)
    assert process.returncode == 3
    assert err == "zwire sub: 0 of 1 came in 0.2 s\n"


def test_queryable_says_when_too_little_came(hub, start):
    process = start("queryable", "demo/x", "v", "-n", "2", "--timeout", "0.2", "-e", hub)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 3
    assert err.splitlines()[-1] == "zwire queryable: 0 of 2 came in 0.2 s"


def test_a_closed_output_is_no_traceback():
    command = f'"{sys.executable}" -m zwire --version >&-'
    assert subprocess.run(["sh", "-c", command], check=False, capture_output=True, timeout=20).stderr == b""


@pytest.mark.parametrize(("limit", "code"), [((), 0), (("-n", "5"), 130)])
def test_interrupting_sub_is_its_end_or_a_failure(hub, limit, code, subscribed):
    process = subscribed("demo/**", *limit)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=10)
    assert process.returncode == code
    assert "Traceback" not in err


def test_sub_ends_with_its_reader(hub, subscribed):
    process = subscribed("demo/**")
    process.stdout.close()
    assert main(["put", "demo/a", "x", "-e", hub]) == 0
    assert process.wait(10) == 141
    assert process.stderr.read() == ""
    process.stderr.close()


def test_lines_are_published_one_by_one(hub, session, start):
    subscriber = session.declare_subscriber("demo/count")
    process = start("put", "demo/count", "--lines", "-e", hub, stdin=subprocess.PIPE)
    process.communicate("".join(f"{number}\n" for number in range(1000)), timeout=20)
    assert process.returncode == 0
    values = [int(subscriber.recv(timeout=5).payload.to_string()) for _ in range(1000)]
    assert values == list(range(1000))


def test_a_file_is_published_as_it_is(hub, session, tmp_path):
    path = tmp_path / "value"
    path.write_bytes(bytes(range(256)) * 4096)
    subscriber = session.declare_subscriber("demo/file")
    assert main(["put", "demo/file", "--file", str(path), "-e", hub]) == 0
    assert subscriber.recv(timeout=5).payload.to_bytes() == path.read_bytes()


def test_queryable_answers_get(hub, capsys, start):
    process = start("queryable", "demo/q/*", "--echo", "-n", "2", "-e", hub)
    assert process.stderr.readline() == "answering demo/q/*\n"
    assert main(["get", "demo/q/1?a=b", "--payload", "12", "--encoding", "text/plain", "-e", hub]) == 0
    assert capsys.readouterr().out == "demo/q/1 text/plain 12\n"
    assert main(["get", "demo/q/2", "--format", "jsonl", "-e", hub]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["key"], answer["kind"], answer["payload"]) == ("demo/q/2", "put", "")
    out, _ = process.communicate(timeout=10)
    assert out == "demo/q/1?a=b 12\ndemo/q/2\n"
    assert process.returncode == 0


def test_get_tells_errors_from_silence(hub, capsys, start):
    process = start("queryable", "demo/q", "--error", "not today", "-n", "1", "-e", hub)
    process.stderr.readline()
    assert main(["get", "demo/q", "-e", hub]) == 1
    out, err = capsys.readouterr()
    assert (out, "not today" in err) == ("", True)
    process.communicate(timeout=10)
    assert main(["get", "demo/nobody", "-e", hub]) == 3
    assert "no queryable answered" in capsys.readouterr().err


def test_a_deletion_is_an_answer(hub, capsys, start):
    process = start("queryable", "demo/q", "--delete", "-n", "1", "-e", hub)
    process.stderr.readline()
    assert main(["get", "demo/q", "-e", hub]) == 0
    assert capsys.readouterr().out == "demo/q deleted\n"
    process.communicate(timeout=10)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["put", "demo//a", "x"], 2, "demo//a"),
        (["put", "a", "x", "--cfg", "mod:1"], 2, "did you mean `mode`"),
        (["put", "a", "x", "--cfg", "nonsense"], 2, "KEY:VALUE"),
        (["put", "a", "x", "-c", "/does/not/exist.json5"], 2, "/does/not/exist.json5"),
        (["put", "a", "x", "-e", "tcp/127.0.0.1:1"], 1, "127.0.0.1:1"),
        (["put", "a", "--file", "/does/not/exist"], 1, "/does/not/exist"),
        (["put", "a"], 2, "required"),
        (["put", "a", "x", "-n", "0"], 2, "invalid count"),
        (["put", "a", "x", "--interval", "-1"], 2, "invalid seconds"),
        (["put", "a", "--lines", "-n", "2"], 2, "--lines or -n"),
        (["put", "a", "--file", "/does/not/exist"], 1, "put: /does/not/exist: No such file"),
        (["put", "", "x"], 2, "put: '': a key"),
        (["put", "a", "x", "--cfg", "mode:client"], 2, "--cfg 'mode:\"...\"'"),
        (["get", "a", "--timeout", "-1"], 2, "invalid seconds"),
        (["sub", "a", "--timeout", "nan"], 2, "invalid seconds"),
        (["router", "--mode", "client"], 2, 'not "client"'),
        (["sub", "a", "-n", "0"], 2, "invalid count"),
        (["fly"], 2, "fly"),
        ([], 2, "COMMAND"),
    ],
)
def test_mistakes_are_one_line(hub, capsys, arguments, code, words):
    if arguments and "-e" not in arguments and arguments[0] == "put":
        arguments = [*arguments, "-e", hub]
    assert main(arguments) == code
    err = capsys.readouterr().err
    assert words in err.splitlines()[-1]
    assert "Traceback" not in err


def test_sources_of_configuration_have_an_order(tmp_path):
    options = importlib.import_module("zwire.cli._options")
    parser = importlib.import_module("argparse").ArgumentParser()
    options.add_network(parser)
    path = tmp_path / "config.json5"
    path.write_text('{mode: "router", listen: {endpoints: ["tcp/127.0.0.1:1"]}, zwire: {threads: 3}}')

    def config(*arguments):
        made = options.session_config(parser.parse_args(arguments))
        keys = ("mode", "listen/endpoints", "connect/endpoints", "zwire/threads", "zwire/tap")
        return [json.loads(made.get_json(key)) for key in keys]

    assert config("-c", str(path))[:2] == ["router", ["tcp/127.0.0.1:1"]]
    assert config("-c", str(path), "-l", "tcp/127.0.0.1:2")[1] == ["tcp/127.0.0.1:2"]
    assert config("-c", str(path), "--cfg", "zwire/threads:4")[3] == 4
    assert config("--tap", "x.pcap")[4] == "x.pcap"
    assert config("--tap", "x.pcap", "--cfg", 'zwire/tap:"y.pcap"')[4] == "y.pcap"
    assert config()[0] == "client"
    assert config()[2] == [options.DEFAULT_ENDPOINT]
    assert config("-l", "tcp/127.0.0.1:0")[0] == "peer"


def test_tap_writes_a_capture(tmp_path, start):
    path = tmp_path / "hub.pcap"
    process = start("router", "--listen", "tcp/127.0.0.1:0", "--tap", str(path))
    endpoint = process.stdout.readline().strip()
    sub = start("sub", "demo/tapped", "-n", "1", "-e", endpoint)
    sub.stderr.readline()
    assert main(["put", "demo/tapped", "the value", "-e", endpoint]) == 0
    # Once the subscriber has received the value, the hub has read it.
    assert sub.wait(10) == 0
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    capture = path.read_bytes()
    assert int.from_bytes(capture[:4], "little") in {0xA1B2C3D4, 0xA1B23C4D}
    # Without a port: the capture says by itself that it is Zenoh.
    decoder = decode(path)
    found = [json.loads(line) for line in b"".join(iter(decoder.jsonl, b"")).splitlines()]
    assert [record["message"] for record in found[:4]] == ["init", "init", "open", "open"]
    pushes = [record for record in found if record["message"] == "push"]
    value = base64.b64encode(b"the value").decode()
    assert {(record["key"], record["payload"]) for record in pushes} == {("demo/tapped", value)}


def test_an_interrupted_get_gives_up_at_once(hub, session, start):
    asked = threading.Event()
    queries = []
    queryable = session.declare_queryable("demo/slow", lambda query: (queries.append(query), asked.set()))
    process = start("get", "demo/slow", "-e", hub)
    assert asked.wait(10)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=5)
    assert process.returncode == 130
    assert "Traceback" not in err
    queryable.undeclare()


def test_conformance_of_a_node(hub, capsys):
    assert main(["conformance", hub, "--only", "zenoh-wire-3.3/"]) == 0
    assert "rules kept, 0 not" in capsys.readouterr().out
    assert main(["conformance", hub, "--only", "zenoh-wire-3.3/", "--format", "jsonl"]) == 0
    judged = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {verdict["outcome"] for verdict in judged} <= {"conforms", "unreachable"}


def test_conformance_of_a_port_with_another_protocol(capsys):
    def answer():
        connection, _ = other.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 400\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as other:
        endpoint = f"tcp/127.0.0.1:{other.getsockname()[1]}"
        thread = threading.Thread(target=answer)
        thread.start()
        assert main(["conformance", endpoint]) == 1
        thread.join()
    assert endpoint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "give the endpoint of a node"),
        (["udp/127.0.0.1:1"], "endpoint 'udp/127.0.0.1:1'"),
        (["tcp/127.0.0.1:1", "--set", "generation"], "--set generation: expected NAME=VALUE"),
        (["tcp/127.0.0.1:1", "--set", "flavour=3"], "flavour"),
    ],
)
def test_conformance_with_a_wrong_command_line(arguments, problem, capsys):
    assert main(["conformance", *arguments]) == 2
    assert problem in capsys.readouterr().err
