"""Options that commands on the network share, and the session that they describe."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypedDict

from zwire import zenoh
from zwire._text import printable
from zwire.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

DEFAULT_ENDPOINT = "tcp/127.0.0.1:7447"
"""Default endpoint of a hub on this machine."""

_YEAR = 366 * 86400
"""Upper bound of times given, in seconds: small enough that no clock overflows."""

CONGESTION = {
    "drop": zenoh.CongestionControl.DROP,
    "block": zenoh.CongestionControl.BLOCK,
    "block_first": zenoh.CongestionControl.BLOCK_FIRST,
}


def add_several(group: argparse._ActionsContainer, *names: str, **more: Any) -> None:  # noqa: ANN401 - argparse's
    """Add an option that may be given several times."""
    group.add_argument(*names, action="append", default=[], **more)


def add_seconds(group: argparse._ActionsContainer, *names: str, **more: Any) -> None:  # noqa: ANN401 - argparse's
    """Add an option with a time to wait."""
    group.add_argument(*names, type=seconds, metavar="SECONDS", **more)


def add_count(group: argparse._ActionsContainer, *names: str, **more: Any) -> None:  # noqa: ANN401 - argparse's
    """Add an option with a number of at least 1."""
    group.add_argument(*names, type=positive, metavar="N", **more)


def add_format(group: argparse._ActionsContainer, help: str | None = None) -> None:
    """Add the option that chooses between text for people and JSON Lines."""
    group.add_argument("--format", choices=["text", "jsonl"], default="text", help=help)


def add_network(parser: argparse.ArgumentParser, *, mode: str | None = None) -> None:
    """Add the options of a session."""
    group = parser.add_argument_group(
        "network",
        "--cfg overrides the other options, and those override the file.\n"
        + (
            "Without any of them this is a client of " + DEFAULT_ENDPOINT + "."
            if mode is None
            else f"Without --listen it listens on {DEFAULT_ENDPOINT}."
        ),
    )
    add_several(
        group,
        "-e",
        "--connect",
        metavar="ENDPOINT",
        help="endpoint to connect to, such as tcp/192.168.1.5:7447; several are tried in turn",
    )
    add_several(
        group, "-l", "--listen", metavar="ENDPOINT", help="endpoint to listen on; port 0 takes a free one"
    )
    group.add_argument(
        "-m",
        "--mode",
        choices=["client", "peer", "router"],
        default=mode,
        help=f"role of this node (default: {mode or 'client, or peer with --listen'})",
    )
    group.add_argument("-c", "--config", metavar="FILE", type=Path, help="configuration as JSON5 or YAML")
    add_several(
        group,
        "--cfg",
        metavar="KEY:VALUE",
        help="one key of the configuration, such as transport/link/tx/lease:5000; the value is JSON5",
    )
    group.add_argument(
        "--tap",
        metavar="FILE.pcap",
        type=Path,
        help="write everything that crosses the wire to a capture that Wireshark and `zwire decode` read",
    )


def session_config(args: argparse.Namespace) -> zenoh.Config:
    """Return the configuration that the options describe."""
    config = zenoh.Config() if args.config is None else zenoh.Config.from_file(args.config)
    listening = bool(args.listen) or _given(config, "listen/endpoints")
    mode = args.mode
    if mode is None and not _given(config, "mode"):
        mode = "peer" if listening else "client"
    if mode is not None:
        config.insert_json5("mode", json.dumps(mode))
    router = _value(config, "mode") == "router"
    connect = args.connect
    if not connect and not listening and not router and not _given(config, "connect/endpoints"):
        connect = [DEFAULT_ENDPOINT]
    if connect:
        config.insert_json5("connect/endpoints", json.dumps(connect))
    if args.listen or (router and not listening):
        config.insert_json5("listen/endpoints", json.dumps(args.listen or [DEFAULT_ENDPOINT]))
    if router and not _given(config, "adminspace/enabled"):
        # Tools that look for hubs read their role and id there; write access stays off.
        config.insert_json5("adminspace/enabled", "true")
    if args.tap is not None:
        config.insert_json5("zwire/tap", json.dumps(str(args.tap)))
    for assignment in args.cfg:
        key, colon, value = assignment.partition(":")
        if not colon:
            # What follows the key may be a secret, here and below.
            key = assignment.partition("=")[0]
            raise ConfigError(f"--cfg {key}: expected KEY:VALUE, such as mode:'\"client\"'")
        try:
            config.insert_json5(key, value)
        except ConfigError as error:
            # The JSON5 parser sees the value alone; text without quotes is its most frequent error.
            # A value that is no JSON5 has no path yet.
            hint = "" if error.path is not None else f"; a text has quotes: --cfg '{key}:\"...\"'"
            raise ConfigError(f"--cfg {key}: {error}{hint}") from error
    return config


def open_session(args: argparse.Namespace) -> zenoh.Session:
    """Open the session that the options describe."""
    return zenoh.open(session_config(args))


def _value(config: zenoh.Config, key: str) -> object:
    return json.loads(config.get_json(key))


def _given(config: zenoh.Config, key: str) -> bool:
    """Whether a file has set a key: its value differs from that of an empty configuration."""
    return _value(config, key) != _value(zenoh.Config(), key)


def add_qos(parser: argparse.ArgumentParser, *, congestion: str) -> None:
    """Add the options of quality of service."""
    group = parser.add_argument_group("quality of service")
    group.add_argument(
        "--priority",
        type=int,
        choices=range(1, 8),
        default=5,
        help="1 (real time) to 7 (background); default 5",
    )
    group.add_argument(
        "--congestion",
        choices=sorted(CONGESTION),
        default=congestion,
        help=f"what happens when a queue is full (default: {congestion})",
    )
    group.add_argument("--express", action="store_true", help="past the batches, for lowest latency")


class Qos(TypedDict):
    """Quality of service, as keywords of ``put`` and ``delete``."""

    priority: zenoh.Priority
    congestion_control: zenoh.CongestionControl
    express: bool


def qos(args: argparse.Namespace) -> Qos:
    """Return the quality of service that the options describe."""
    return {
        "priority": zenoh.Priority(args.priority),
        "congestion_control": CONGESTION[args.congestion],
        "express": args.express,
    }


def add_limits(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the options that end a receiving command."""
    add_count(parser, "-n", "--count", help=f"end after N {what} (default: run until interrupted)")
    add_seconds(parser, "--timeout", help="end after that time in any case; exit code 3 if fewer than N came")


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


positive.__name__ = "count"  # argparse says "invalid count value"


def seconds(text: str) -> float:
    """Read a time to wait: 0 or more, and no longer than a year."""
    number = float(text)
    if not 0 <= number <= _YEAR:
        raise ValueError
    return number


def too_few(command: str, came: int, args: argparse.Namespace) -> int:
    """Report that the time was over first; return the exit code."""
    if args.count is None:
        return 0
    say(f"zwire {command}: {came} of {args.count} came in {args.timeout:g} s")
    return 3


def settings(option: str, given: list[str]) -> dict[str, Any]:
    """Read the values of an option of :func:`add_several`, NAME=VALUE each: JSON, or a text."""
    found: dict[str, Any] = {}
    for setting in given:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            # What follows the name may be a secret.
            name = re.split(r"[^\w.-]", setting)[0]
            raise ConfigError(f"{option} {name}: expected NAME=VALUE", path=option)
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def refuse(command: str, problem: str, code: int) -> int:
    """Report why a command cannot run; return its exit code."""
    say(f"zwire {command}: {problem}")
    return code


def show(*lines: str) -> None:
    """Print lines to standard output, each with :func:`printable`: commands print text of other nodes."""
    _write(sys.stdout, lines)


def say(*lines: str) -> None:
    """Print lines to standard error as :func:`show` does, so that a pipe does not get them."""
    _write(sys.stderr, lines)


def _write(out: TextIO, lines: Iterable[str]) -> None:
    # In one piece: the log writes to standard error from another thread.
    out.write("".join(f"{printable(line)}\n" for line in lines))
    out.flush()


def settle(session: zenoh.Session) -> None:
    """Wait until the hub knows the declarations, so that what is printed next holds.

    The wait is bounded: a hub that does not answer in time gets the declarations when it can.
    """
    session.ready(timeout=2.0)


def countdown(timeout: float | None) -> Callable[[], float | None]:
    """Return a function that gives the seconds left of a time; None for no limit."""
    end = None if timeout is None else time.monotonic() + timeout
    return lambda: None if end is None else max(0.0, end - time.monotonic())


@contextlib.contextmanager
def running(*, endless: bool) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end a command; for an endless one that is the normal end."""
    with stop_signals():
        try:
            yield
        except KeyboardInterrupt:
            if not endless:
                raise


@contextlib.contextmanager
def stop_signals() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does: by an exception at the point where it waits."""

    def stop(_number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
