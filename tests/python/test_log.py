"""Records of the Rust side reach listeners through `logging`, and cost other programs nothing."""

import importlib
import json
import logging
import os
import re
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import zwire.log
from nodes import client, eventually, router
from zwire import cli

PATIENCE = 10
ROOT = Path(__file__).resolve().parents[2]

PRELUDE = """
import logging, os, signal, sys, threading, time
from zwire import zenoh
import zwire.log


def hub():
    return zenoh.open(
        {"mode": "router", "listen/endpoints": ["tcp/127.0.0.1:0"], "scouting/multicast/enabled": False}
    )


def client(endpoints):
    return zenoh.open({"mode": "client", "connect/endpoints": endpoints, "scouting/multicast/enabled": False})


def warned():
    '''A session that has told a warning.'''
    return zenoh.open({
        "mode": "client", "connect/endpoints": ["tcp/127.0.0.1:1"], "connect/exit_on_failure": False,
        "connect/timeout_ms": 0, "scouting/multicast/enabled": False,
    })


def threads():
    tasks = os.listdir("/proc/self/task")
    return sorted(open(f"/proc/self/task/{task}/comm").read().strip() for task in tasks)
"""
WARNING = "not connected: continuing, and trying again"


def program(code, **environment):
    """Exit code, standard output, standard error of Python code after the prelude."""
    inherited = {name: value for name, value in os.environ.items() if name != "RUST_LOG"}
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE * 2,
        env=inherited | environment,
    )
    return done.returncode, done.stdout, done.stderr


class Heard(logging.Handler):
    """Keeps what it hears."""

    def __init__(self):
        super().__init__()
        self.records = []
        self.condition = threading.Condition()

    def emit(self, record):
        with self.condition:
            self.records.append(record)
            self.condition.notify_all()

    def wait(self, wanted, count=1):
        """The records with some words in their message, once there are ``count`` of them."""
        with self.condition:
            self.condition.wait_for(lambda: len(self.having(wanted)) >= count, PATIENCE)
            found = self.having(wanted)
            assert len(found) >= count, [record.getMessage() for record in self.records]
            return found

    def having(self, wanted):
        return [record for record in self.records if wanted in record.getMessage()]


@pytest.fixture
def heard():
    """A handler for everything."""
    handler, logger = Heard(), logging.getLogger("zwire")
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(logging.DEBUG)
    zwire.log.limit()
    yield handler
    zwire.log.limit()
    logger.setLevel(before)
    logger.removeHandler(handler)
    assert zwire.log.flush()


def rude(hub, count):
    """Connections to a hub that are no Zenoh."""
    host, port = hub.listening()[0].removeprefix("tcp/").rsplit(":", 1)
    for _ in range(count):
        with socket.create_connection((host, int(port)), PATIENCE) as connection:
            connection.sendall(b"\x04\x00none")
            assert connection.recv(100) is not None


def test_a_record_names_its_layer_its_peer_and_the_cause(heard, hub):
    start = time.time()
    with client(hub) as session:
        pass
    (connected, *_) = heard.wait(f"connected: peer={hub.listening()[0]}")
    assert connected.name == "zwire.zenoh.link"
    assert connected.name in zwire.log.LOGGERS
    assert connected.levelno == logging.INFO
    assert connected.peer == hub.listening()[0]
    assert connected.zid == str(hub.zid())
    assert connected.whatami == "router"
    assert start - 1 <= connected.created <= time.time()
    assert connected.threadName.startswith("zwire-")
    assert connected.pathname.endswith(".rs")
    assert connected.lineno > 1
    (gone, *_) = heard.wait(f"zid={session.zid()}, reason=closed-by-peer")
    assert gone.reason == "closed-by-peer"
    text = logging.Formatter("%(levelname)s %(thread)d %(process)d %(message)s").format(gone)
    assert text.startswith("INFO ")


def test_passwords_that_every_user_can_read_draw_a_warning(heard, tmp_path):
    users = tmp_path / "users"
    users.write_text("robot:secret")
    settings = {"mode": "peer", "scouting/multicast/enabled": False, "listen/endpoints": []}
    settings["transport/auth/usrpwd/dictionary_file"] = str(users)
    users.chmod(0o640)
    zwire.zenoh.open(settings).close()
    assert zwire.log.flush()
    assert heard.having("read the passwords") == []
    users.chmod(0o644)
    zwire.zenoh.open(settings).close()
    [record] = heard.wait("read the passwords")
    assert record.levelno == logging.WARNING
    assert record.file == str(users)


def test_a_level_counts_from_the_moment_it_is_set(heard, hub):
    logger = logging.getLogger("zwire.zenoh.link")

    def hears():
        heard.records.clear()
        client(hub).close()
        assert zwire.log.flush()
        # Of the client's end alone: the hub may tell of the last link only now.
        return bool(heard.having(f"connected: peer={hub.listening()[0]}"))

    assert hears()
    logger.setLevel(logging.WARNING)
    assert not hears()
    logging.getLogger("zwire").setLevel(logging.WARNING)
    logger.setLevel(logging.NOTSET)
    assert not hears()
    logging.getLogger("zwire").setLevel(logging.DEBUG)
    assert hears()
    logging.disable(logging.INFO)
    assert not hears()
    logging.disable(logging.NOTSET)
    assert hears()


def test_this_python_tells_of_changed_levels():
    # Without it everything would be told and thrown away by the loggers.
    assert isinstance(logging.getLogger("zwire")._cache, zwire.log._Watched)


def test_of_many_records_the_first_are_heard_and_the_others_counted(heard, hub):
    zwire.log.limit(3, 0.5)
    rude(hub, 20)
    (summary,) = heard.wait("… and ")
    text = "an incoming connection failed"
    single = [record for record in heard.having(text) if record is not summary]
    assert summary.getMessage().startswith(f"… and {summary.left_out} more in 1 s, the last: {text}: peer=")
    assert summary.levelno == logging.DEBUG
    # A slow machine may need more than one period.
    assert len(single) + summary.left_out <= 20
    assert len(single) >= 3


def test_no_limit_is_none(heard, hub):
    zwire.log.limit(None)
    rude(hub, 20)
    assert len(heard.wait("an incoming connection failed", 20)) == 20
    with pytest.raises(ValueError, match="longer than 0 s"):
        zwire.log.limit(1, 0.0)


def test_a_handler_that_waits_holds_up_nobody_else(heard, hub):
    gate, entered = threading.Event(), threading.Event()

    class Waits(logging.Handler):
        def emit(self, _record):
            entered.set()
            gate.wait(PATIENCE)

    waits = Waits()
    logging.getLogger("zwire").addHandler(waits)
    try:
        with client(hub) as session:
            assert entered.wait(PATIENCE)
            subscriber = session.declare_subscriber("a")
            for number in range(100):
                session.put("a", str(number))
            assert [
                int(str(subscriber.recv(timeout=PATIENCE).payload.to_string())) for _ in range(100)
            ] == list(range(100))
            assert not zwire.log.flush(0.01)
    finally:
        gate.set()
        logging.getLogger("zwire").removeHandler(waits)
    assert zwire.log.flush(PATIENCE)


def test_a_filter_that_fails_costs_one_record(heard, hub, capsys):
    def fails(record):
        if record.getMessage().startswith("connected"):
            raise RuntimeError("filter")
        return True

    logger = logging.getLogger("zwire.zenoh.link")
    logger.addFilter(fails)
    try:
        client(hub).close()
        # Both ends tell of it.
        heard.wait("disconnected: peer", 2)
    finally:
        logger.removeFilter(fails)
    assert "RuntimeError: filter" in capsys.readouterr().err
    assert all(record.getMessage().startswith("dis") for record in heard.having("connected: peer"))


def test_links_of_a_session_that_closes_are_told_of(heard):
    """At both ends, once each, whichever side closes."""

    def ended(words="disconnected"):
        # A link of an earlier test may end only now.
        return [(record.zid, record.reason) for record in heard.having(words) if record.zid in ours]

    with router() as hub:
        with client(hub) as session:
            here, there = str(session.zid()), str(hub.zid())
            ours = {here, there}
            eventually(hub.info.links)
        eventually(lambda: len(ended()) >= 2)
        heard.wait(f"session closed: zid={here}")
        assert sorted(ended()) == sorted([(there, "closed"), (here, "closed-by-peer")])
        told = [r.getMessage() for r in heard.records]
        own = next(n for n, text in enumerate(told) if text.startswith("disconnected") and there in text)
        assert own < told.index(f"session closed: zid={here}")
        heard.records.clear()
        sessions = [client(hub), client(hub)]
        ours |= {str(session.zid()) for session in sessions}
        eventually(lambda: len(hub.info.links()) == 2)
    lost = "connection lost; publications are dropped"
    eventually(lambda: len(ended()) >= 2 and len(ended(lost)) >= 2)
    for session in sessions:
        session.close()
    for zid in {str(session.zid()) for session in sessions} | {there}:
        heard.wait(f"session closed: zid={zid}")
    assert sorted(ended()) == sorted((str(session.zid()), "closed") for session in sessions)
    assert ended(lost) == [(there, "closed-by-peer")] * 2


def test_a_handler_may_publish_what_it_hears(heard, hub):
    with client(hub) as near, client(hub) as far:
        subscriber = near.declare_subscriber("log")
        subscriber.wait_ready(PATIENCE)

        class Publishes(logging.Handler):
            def emit(self, record):
                far.put("log", record.getMessage())

        publishes = Publishes()
        logging.getLogger("zwire").addHandler(publishes)
        try:
            rude(hub, 1)
            # What was told before may still be on its way.
            while "connection failed" not in subscriber.recv(timeout=PATIENCE).payload.to_string():
                pass
        finally:
            logging.getLogger("zwire").removeHandler(publishes)
            assert zwire.log.flush()


def test_without_configuration_warnings_are_heard_once_and_nothing_else():
    code, _, err = program("warned().close()")
    (line,) = err.splitlines()
    assert line.startswith(WARNING + ": error=could not connect to tcp/127.0.0.1:1: Connection refused")
    assert code == 0


def test_a_silent_program_has_no_thread_for_the_log_and_a_warning_starts_it():
    code, out, _ = program(
        """
        hub().close()
        assert "zwire-log" not in threads(), threads()
        session = warned()
        assert zwire.log.flush()
        print(threads().count("zwire-log"))
        session.close()
        """
    )
    assert (code, out) == (0, "1\n")


def test_a_forked_child_is_heard_on_its_own():
    code, out, err = program(
        """
        import warnings
        warnings.simplefilter("ignore")
        warned().close()
        assert zwire.log.flush()
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                signal.alarm(10)
                session = warned()
                flushed = zwire.log.flush()
                os._exit(0 if flushed and threads().count("zwire-log") == 1 else 3)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        warned().close()
        print(zwire.log.flush())
        """
    )
    assert (code, out) == (0, "True\n"), err
    assert err.count(WARNING) == 7


ENDS = {
    "while it is told much": """
        logging.basicConfig(level=5)
        keep = hub()
        clients = [client(keep.listening()) for _ in range(9)]
        """,
    "in a handler that waits for a lock": """
        lock = threading.Lock(); lock.acquire()
        class Waits(logging.Handler):
            def emit(self, record): lock.acquire()
        logging.getLogger("zwire").addHandler(Waits())
        keep = warned()
        """,
    "in a daemon thread that opens and closes": """
        logging.getLogger("zwire").setLevel(5)
        logging.getLogger("zwire").addHandler(logging.NullHandler())
        def loop():
            while True:
                try: hub().close()
                except zenoh.ZError: return
        threading.Thread(target=loop, daemon=True).start()
        time.sleep(0.1)
        """,
}


@pytest.mark.parametrize("code", ENDS.values(), ids=ENDS)
def test_the_end_of_a_program_waits_for_nobody(code):
    start = time.monotonic()
    code, _, err = program(code)
    assert code == 0, err
    assert "Fatal" not in err
    assert "Traceback" not in err
    assert time.monotonic() - start < PATIENCE


def test_the_end_says_what_was_counted():
    code, _, err = program(
        """
        zwire.log.limit(2, 3600)
        for _ in range(5):
            warned().close()
        """
    )
    assert code == 0
    assert [line.startswith(WARNING) for line in err.splitlines()] == [True, True, False]
    assert re.match(r"… and 3 more in \d+ s, the last: " + WARNING, err.splitlines()[2])


LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z +([A-Z]+) \S+ (\S+): ")

LINES = {
    # RUST_LOG, the call, the levels and targets that are written.
    "unset": (None, "try_init_log_from_env()", set()),
    "a level": ("info", "try_init_log_from_env()", {"INFO", "WARN"}),
    "a target of the reference": ("zenoh::net=debug,off", "try_init_log_from_env()", {"INFO", "DEBUG"}),
    "a target and a level": ("zenoh::net=off,warn", "try_init_log_from_env()", {"WARN"}),
    "off": ("off", "init_log_from_env_or('info')", set()),
    "wrong": ("zenoh=loud", "try_init_log_from_env()", set()),
    "wrong with another": ("zenoh=loud", "init_log_from_env_or('warn')", {"WARN"}),
    "unset with another": (None, "init_log_from_env_or('zwire=warn')", {"WARN"}),
    "twice": ("warn", "try_init_log_from_env(); zenoh.init_log_from_env_or('debug')", {"WARN"}),
}


@pytest.mark.parametrize("case", LINES.values(), ids=LINES)
def test_lines_are_written_as_rust_log_asks(case):
    variable, call, levels = case
    # A handler, so that nothing comes by the handler of last resort.
    code, out, err = program(
        f"logging.getLogger('zwire').addHandler(logging.NullHandler()); zenoh.{call}\n"
        "keep = hub(); client(keep.listening()).close(); keep.close(); warned().close()",
        **({} if variable is None else {"RUST_LOG": variable}),
    )
    assert (code, out) == (0, "")
    lines = [LINE.match(line) for line in err.splitlines()]
    assert all(lines), err
    assert {line[1] for line in lines} == levels
    assert {line[2].split("::")[0] for line in lines} <= {"zwire"}


def test_a_line_is_not_repeated_by_the_handler_of_last_resort():
    _, _, err = program("zenoh.init_log_from_env_or('warn'); warned().close()")
    assert err.count(WARNING) == 1
    _, _, err = program("zenoh.init_log_from_env_or('warn'); logging.basicConfig(); warned().close()")
    assert err.count(WARNING) == 2, "the program has asked for both"


def test_what_is_no_directive_is_said():
    _, _, err = program("zenoh.init_log_from_env_or('zenoh=loud')")
    assert err == "ignored: `zenoh=loud` is no directive such as `info` or `zwire::zenoh=debug`\n"


def test_no_field_has_a_name_that_a_record_has():
    reserved = {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime"}
    calls = []
    for path in (ROOT / "rust").rglob("src/**/*.rs"):
        source = re.sub(r'"(?:\\.|[^"])*"', '""', path.read_text())
        calls += [
            (path.name, call)
            for call in re.findall(r"tracing::(?:error|warn|info|debug|trace)!\(([^;]*)", source)
        ]
    assert len(calls) > 40, "the guard has found nothing"
    names = {
        (file, name)
        for file, call in calls
        for name in re.findall(r"(?:^|[,(\s])[%?]?(\w+)\s*(?==[^=]|,)", call.split('""')[0])
    }
    assert {"peer", "error", "endpoint", "reason"} <= {name for _, name in names}
    assert {(file, name) for file, name in names if name in reserved} == set()


def test_fields_keep_their_types(heard, hub):
    client(hub).close()
    (record, *_) = heard.wait("connected: ")
    attributes = {name: getattr(record, name) for name in ("peer", "zid", "local")}
    assert json.loads(json.dumps(attributes)) == attributes


def command(*arguments, **environment):
    """Exit code and standard error of a command that may fail to listen."""
    common = ["--cfg", "listen/exit_on_failure:false", "--cfg", "scouting/multicast/enabled:false"]
    inherited = {name: value for name, value in os.environ.items() if name != "RUST_LOG"}
    done = subprocess.run(
        [sys.executable, "-m", "zwire", "sub", "a", "--timeout", "0", *common, *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE * 2,
        env=inherited | environment,
    )
    return done.returncode, done.stderr.replace("subscribed to a\n", "")


# An address that no machine has; a peer does not wait for other nodes.
NOWHERE = ["-m", "peer", "-l", "tcp/192.0.2.1:7447"]
STAMPED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ([A-Z]+) +(zwire\.[a-z.]+): ")


def test_a_command_says_warnings_in_its_name():
    code, err = command(*NOWHERE)
    assert code == 0
    (line,) = err.splitlines()
    assert line.startswith(
        "zwire sub: not listening: continuing without this endpoint: "
        "error=could not listen on tcp/192.0.2.1:7447"
    )


@pytest.mark.parametrize(
    ("arguments", "levels"),
    [
        (["-v"], {"INFO"}),
        (["--log-level", "info"], {"INFO"}),
        (["--log-level", "warn"], set()),
        (["--log-level", "off"], set()),
        (["-vv"], {"DEBUG", "INFO"}),
    ],
)
def test_a_command_says_what_it_is_asked_for(arguments, levels, hub):
    code, err = command("-e", hub.listening()[0], *arguments)
    assert code == 0
    lines = [STAMPED.match(line) for line in err.splitlines()]
    assert all(lines), err
    assert {line[1] for line in lines} == levels


def test_rust_log_is_for_commands_too():
    code, err = command(*NOWHERE, RUST_LOG="zenoh::api=warn")
    assert code == 0
    (line,) = err.splitlines()
    assert LINE.match(line)


def test_every_command_has_the_options(capsys):
    commands = []
    for name in cli.COMMANDS:
        module = importlib.import_module(f"zwire.cli.{name}")
        commands += [[name, sub] for sub in getattr(module, "SUBCOMMANDS", ())] or [[name]]
    assert len(commands) > 12
    for names in commands:
        assert cli.main([*names, "--help"]) == 0
        text = capsys.readouterr().out
        assert "-v, --verbose" in text, names
        assert "--log-level LEVEL" in text, names
