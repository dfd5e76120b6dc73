"""The command line, against a hub of its own: outputs, exit codes, signals, captures."""

import base64
import contextlib
import ctypes
import importlib
import itertools
import json
import shlex
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

import snippets
from terminal import handles_signals
from zwire import zenoh
from zwire.capture import decode
from zwire.cli import COMMANDS, _format, main, ros2, spool, zre
from zwire.errors import ConnectError


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
    process.send_signal(signal.SIGTERM)
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


def command_lines():
    """Each line with a command of zwire in the documentation and in the examples of help texts."""
    for page in snippets.pages():
        for block in snippets.blocks(page):
            if block.language in {"sh", "console"}:
                yield from block.text.replace("\\\n", " ").splitlines()
    for name in COMMANDS:
        module = importlib.import_module(f"zwire.cli.{name}")
        for part in ("", *(f"_{each}" for each in getattr(module, "SUBCOMMANDS", ()))):
            yield from importlib.import_module(f"zwire.cli.{name}{part}").EPILOG.splitlines()


def test_command_lines_of_the_documentation_are_understood(tmp_path, monkeypatch):
    parser = importlib.import_module("zwire.cli._parser")
    monkeypatch.chdir(tmp_path)
    Path("secrets.txt").write_text("JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6\n")
    found = 0
    for line in command_lines():
        words = shlex.split(line.strip().removeprefix("$ "), comments=True)
        for _, group in itertools.groupby(words, key=lambda word: word in {"|", "&"}):
            command = list(itertools.takewhile(lambda word: not word.startswith(">"), group))
            if command[:1] == ["zwire"]:
                found += 1
                code = 0
                try:
                    parser.parse(command[1:])
                except SystemExit as exit_:
                    code = exit_.code
                assert code == 0, line
    assert found > 80, "the lines are not found"


def test_help_imports_no_command():
    code = (
        "import sys, zwire.cli; zwire.cli.main(['--help']);"
        "sys.exit(any(m.startswith('zwire.cli.') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_router_prints_its_endpoint_and_stops_cleanly(number, code, start):
    process = start("router", "--listen", "tcp/127.0.0.1:0")
    endpoint = process.stdout.readline().strip()
    assert endpoint.startswith("tcp/127.0.0.1:")
    assert not endpoint.endswith(":0")
    process.send_signal(number)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out) == (code, "")
    assert "Traceback" not in err


def test_router_serves_http(start):
    process = start(
        "router", "--listen", "tcp/127.0.0.1:0", "--rest-http-port", "127.0.0.1:0",
        "--cfg", 'plugins/rest/tokens:[{token: "t", user: "ann"}]',
    )  # fmt: skip
    process.stdout.readline()
    url = process.stdout.readline().strip()
    request = urllib.request.Request(f"{url}/@/local/router", headers={"Authorization": "Bearer t"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert json.load(answer)[0]["key"].endswith("/router")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, "no effect" in err) == (0, False), err


def test_router_stops_whichever_thread_gets_the_signal(start):
    """A signal that interrupts no wait of the main thread, as one that comes just before the wait."""
    process = start("router", "--listen", "tcp/127.0.0.1:0")
    process.stdout.readline()
    assert "is ready" in process.stderr.readline()
    threads = {int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()}
    other = max(threads - {process.pid})
    assert ctypes.CDLL(None).tgkill(process.pid, other, signal.SIGINT) == 0
    _, err = process.communicate(timeout=5)
    assert (process.returncode, err) == (130, "")


@pytest.mark.parametrize(
    ("arguments", "before"),
    [
        (["router", "--listen", "tcp/127.0.0.1:0"], "say"),
        (["ui", "--port", "127.0.0.1:0", "-e"], "show"),
        (["trace", "-e"], "countdown"),
    ],
    ids=["router", "ui", "trace"],
)
def test_a_signal_within_any_line_of_a_wait_ends_the_command(arguments, before, hub, monkeypatch):
    """`Event.wait` raises RuntimeError if a signal comes while it has released its lock."""
    command = importlib.import_module(f"zwire.cli.{arguments[0]}")
    options = importlib.import_module("zwire.cli._options")
    waits = {command.__file__, threading.__file__}
    call = getattr(options, before)

    def counted(frame, event, _argument):
        nonlocal left
        if event == "line" and frame.f_code.co_filename in waits:
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGINT)
        return counted

    def called(*words):
        sys._getframe(1).f_trace = counted
        sys.settrace(counted)
        return call(*words)

    monkeypatch.setattr(options, before, called)
    monkeypatch.setattr(command, "_LOOK_SECONDS", 0.001)
    for line in range(1, 60):
        left = line
        try:
            code = main([*arguments, *[hub][: arguments[-1] == "-e"]])
        finally:
            sys.settrace(None)
        assert (code, line) == (130, line)


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
        "payload_as": "base64",
        "encoding": "image/png",
        "attachment": "at",
        "attachment_as": "text",
        "priority": 4,
        "congestion": "block",
        "express": True,
    }
    assert (deletion["kind"], deletion["payload"], deletion["encoding"]) == ("del", None, None)


@pytest.mark.parametrize(
    ("payload", "encoding", "value", "form"),
    [
        (b"Gr\xc3\xbc\xc3\x9fe\n", "zenoh/bytes", "Grüße\n", "text"),
        (b'{"x": [1.5, null]}', "application/json;Pose", {"x": [1.5, None]}, "json"),
        (b'{\n "x": 1}', "application/ld+json", {"x": 1}, "json"),
        (b"[1", "application/json", "[1", "text"),
        (b"NaN", "application/json", "NaN", "text"),
        (b"[1e999]", "application/json", "[1e999]", "text"),
        (b"[" * 100_000, "application/json", "[" * 100_000, "text"),
        (b"\x1b[0m", "text/plain", "\x1b[0m", "text"),
        (b"\x00\x01", "zenoh/bytes", "AAE=", "base64"),
        (b"\xff", "application/json", "/w==", "base64"),
        (b"", "zenoh/bytes", "", "text"),
        (None, "", None, None),
    ],
)
def test_json_lines_carry_text_and_json_as_such(payload, encoding, value, form):
    fields = _format.payload_fields(payload, encoding, "auto")
    assert fields == {"payload": value, "payload_as": form}
    assert json.loads(json.dumps(fields)) == fields
    if payload is not None:
        for wanted, decoded in (("base64", base64.b64decode), ("hex", bytes.fromhex)):
            fields = _format.payload_fields(payload, encoding, wanted)
            assert (decoded(fields["payload"]), fields["payload_as"]) == (payload, wanted)


def test_attachments_are_shown_like_payloads():
    assert _format.attachment_fields(None, "auto") == {"attachment": None, "attachment_as": None}
    assert _format.attachment_fields(b"id=7", "auto") == {"attachment": "id=7", "attachment_as": "text"}
    assert _format.attachment_fields(b"\xff", "auto") == {"attachment": "/w==", "attachment_as": "base64"}
    assert _format.attachment_fields(b"id", "hex") == {"attachment": "6964", "attachment_as": "hex"}


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


@pytest.mark.parametrize(
    ("limit", "number", "code"),
    [
        ((), signal.SIGTERM, 0),
        ((), signal.SIGINT, 130),
        (("-n", "5"), signal.SIGTERM, 130),
        (("-n", "5"), signal.SIGINT, 130),
    ],
)
def test_interrupting_sub_is_its_end_or_a_failure(hub, limit, number, code, subscribed):
    process = subscribed("demo/**", *limit)
    process.send_signal(number)
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
    assert main(["get", "demo/q/1?a=b", "--value", "12", "--encoding", "text/plain", "-e", hub]) == 0
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


def test_get_shows_the_exception_of_a_service(hub, session, capsys):
    service = zenoh.handlers.Callback(lambda query: 1 / 0, on_error=lambda error: None)
    session.declare_queryable("demo/fail", service).wait_ready(timeout=5)
    assert main(["get", "demo/fail", "-e", hub]) == 1
    assert capsys.readouterr().err == "error ZeroDivisionError: division by zero\n"


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
        (["put", "a", "x", "-n", "0"], 2, "--count: expected a whole number of at least 1, not '0'"),
        (["put", "a", "x", "--interval", "-1"], 2, "--interval: expected a number of seconds"),
        (["put", "a", "--lines", "-n", "2"], 2, "--lines or -n"),
        (["put", "a", "--file", "/does/not/exist"], 1, "put: /does/not/exist: No such file"),
        (["put", "", "x"], 2, "put: '': a key"),
        (["put", "a", "x", "--cfg", "mode:client"], 2, "--cfg 'mode:\"...\"'"),
        (["get", "a", "--timeout", "-1"], 2, "expected a number of seconds"),
        (["sub", "a", "--timeout", "nan"], 2, "expected a number of seconds"),
        (["router", "--mode", "client"], 2, 'not "client"'),
        (["sub", "a", "-n", "0"], 2, "expected a whole number"),
        (["fly"], 2, "no command 'fly'; there are router, put"),
        (["putt"], 2, "zwire: no command 'putt'; did you mean put?"),
        (["--verson"], 2, "did you mean --version?"),
        (["spool", "kep"], 2, "zwire spool: no command 'kep'; did you mean keep?"),
        (["spool", "--dir", "x", "a"], 2, "zwire spool: no option --dir before a command"),
        (["zre", "whispr"], 2, "did you mean whisper?"),
        (["put", "a", "x", "--prority", "3"], 2, "zwire put: no option --prority; did you mean --priority?"),
        (["put", "a", "x", "--encodin", "text/plain"], 2, "did you mean --encoding?"),
        (["put", "a", "x", "--enc=hunter2"], 2, "no option --enc; did you mean --encoding?"),
        (["put", "a", "x", "--priority", "9"], 2, "--priority: expected one of 1 to 7, not 9"),
        (["put", "a", "x", "--congestion", "blok"], 2, "not 'blok'; did you mean block?"),
        (["put", "a", "x", "--encoding"], 2, "--encoding: a value is missing"),
        (["put", "a", "x", "hunter2"], 2, "1 argument too many: it takes KEY VALUE"),
        (["put"], 2, "KEY is missing"),
        (["scout", "ruter"], 2, "did you mean router?"),
        (["put", "a/#", "x"], 2, "the wildcards of Zenoh are *"),
        (["get", "a/#?b=c"], 2, "the wildcards of Zenoh are *"),
        (["spool", "keep", "--dir", "x", "a/#"], 2, "the wildcards of Zenoh are *"),
    ],
)
def test_mistakes_are_one_line(hub, capsys, arguments, code, words):
    if arguments and "-e" not in arguments and arguments[0] == "put":
        arguments = [*arguments, "-e", hub]
    assert main(arguments) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert "hunter2" not in line


@pytest.mark.parametrize(
    ("endpoint", "code", "words"),
    [
        (
            "tcp/127.0.0.1",
            2,
            "connect/endpoints: tcp/127.0.0.1: the port is missing, as in tcp/127.0.0.1:7447",
        ),
        (
            "tls/[::1]#connect_private_key_raw=hunter2",
            2,
            "tls/[::1]: the port is missing, as in tls/[::1]:7447",
        ),
        ("tcp/127.0.0.1:", 2, "the port is missing"),
        ("tcp/127.0.0.1:99999", 2, "tcp/127.0.0.1:99999: a port is a number from 0 to 65535"),
        ("tcp/127.0.0.1:http", 2, "a port is a number"),
        ("tcp/127.0.0.1:1", 1, "`zwire router --listen tcp/127.0.0.1:1` starts one"),
    ],
)
def test_a_wrong_endpoint_is_named_before_anything_connects(endpoint, code, words, tmp_path, capsys):
    config = tmp_path / "config.json5"
    config.write_text(json.dumps({"connect": {"endpoints": [endpoint]}}))
    for given in (["-e", endpoint], ["-c", str(config)], ["--cfg", f'connect/endpoints:["{endpoint}"]']):
        assert main(["put", "a", "x", *given]) == code
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line
        assert "hunter2" not in line


def test_a_router_elsewhere_is_started_there():
    options = importlib.import_module("zwire.cli._options")
    problem = "could not connect: Connection refused (os error 111)"
    advice = options.advice(ConnectError(problem, endpoint="tls/10.0.0.7:7448#key=secret"))
    assert advice.endswith("`zwire router --listen tls/0.0.0.0:7448` on that host starts one")
    advice = options.advice(ConnectError(problem, endpoint=options.DEFAULT_ENDPOINT))
    assert advice.endswith("`zwire router` starts one")
    assert options.advice(ConnectError("no route", endpoint=options.DEFAULT_ENDPOINT)) == ""


def test_mistakes_are_found_before_anything_connects(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(zenoh, "open", lambda *_args, **_more: pytest.fail("a session was opened"))
    for arguments in (["put", "a//b", "x"], ["put", "a", "--file", str(tmp_path / "none")], ["get", "a//b"]):
        assert main(arguments) != 0
    for arguments in (["delete", "a?"], ["sub", ""], ["queryable", "a/", "x"], ["queryable", "a"]):
        assert main(arguments) == 2
    capsys.readouterr()


def test_arguments_stand_in_any_order(hub, session):
    subscriber = session.declare_subscriber("demo/order")
    options = ["-e", hub]
    for arguments in (
        ["put", "demo/order", *options, "1"],
        ["put", *options, "demo/order", "2"],
        ["put", "demo/order", "3", *options],
        ["put", "demo/order", *options, "--encoding", "text/plain", "--", "-4"],
        ["put", *options, "--", "demo/order", "-5"],
    ):
        assert main(arguments) == 0
    values = [subscriber.recv(timeout=5).payload.to_string() for _ in range(5)]
    assert values == ["1", "2", "3", "-4", "-5"]


def test_a_wildcard_of_mqtt_draws_a_hint(hub, start):
    process = start("sub", "demo/+/x", "-e", hub, "-n", "1", "--timeout", "0")
    _, err = process.communicate(timeout=20)
    assert err.startswith("note: + is an ordinary character in demo/+/x; the wildcards of Zenoh are *")
    assert "subscribed to demo/+/x" in err


def test_without_arguments_there_is_help(capsys):
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: zwire ")
    for group in (ros2, spool, zre):
        name = group.__name__.rpartition(".")[2]
        assert main([name]) == 0
        text = capsys.readouterr().out
        assert all(f"\n    {each} " in text for each in group.SUBCOMMANDS)
        for each in group.SUBCOMMANDS:
            assert main([name, each, "--help"]) == 0
            assert f"zwire {name} {each}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["put", "a", "--lines", "-l", "tcp/127.0.0.1:0"],
        ["put", "a", "--file", "-"],
        ["scout", "--timeout", "9"],
    ],
    ids=["lines", "file", "scout"],
)
def test_an_interrupted_command_says_so(arguments, start):
    process = start(*arguments, "-v", stdin=subprocess.PIPE)
    handles_signals(process)
    # Nothing tells that it waits by now; the exit code is the same before.
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
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


def test_a_command_does_not_write_the_capture_of_a_router(tmp_path):
    """A file of a router may name its capture, which a command with the same file must not overwrite."""
    file = tmp_path / "router.json5"
    file.write_text(json.dumps({"zwire": {"tap": "hub.pcap"}, "connect": {"endpoints": ["tcp/127.0.0.1:1"]}}))
    options = importlib.import_module("zwire.cli._options")
    parser = importlib.import_module("argparse").ArgumentParser()
    options.add_network(parser)

    def tap(*arguments):
        made = options.session_config(parser.parse_args(["-c", str(file), *arguments]))
        return json.loads(made.get_json("zwire/tap"))

    assert tap() is None
    assert tap("--tap", "own.pcap") == "own.pcap"
    assert tap("--cfg", 'zwire/tap:"own.pcap"') == "own.pcap"


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
