"""Options that commands on the network share, and the session that they describe."""

from __future__ import annotations

import argparse
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
from zwire.errors import ConfigError, ConnectError

if TYPE_CHECKING:
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


def add_json(group: argparse._ActionsContainer) -> None:
    """Add the options that choose between text for people and one JSON object."""
    group.add_argument(
        "--format", choices=["text", "json"], default="text", help="text for people, or one JSON object"
    )
    group.add_argument(
        "--json", dest="format", action="store_const", const="json", help="the same as --format json"
    )


_KINDS = {
    "parquet": "parquet",
    "arrow": "arrow",
    "arrows": "arrow",
    "mcap": "mcap",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
}
"""Format of a file by the end of its name."""


def kind_of(path: Path | None) -> str | None:
    """Return the format that the name of a file asks for; None for another name."""
    return None if path is None else _KINDS.get(path.suffix.lower().removeprefix("."))


def add_network(parser: argparse.ArgumentParser, *, router: bool = False, mode: bool = True) -> None:
    """Add the options of a session; without ``mode`` all but that of its role."""
    group = parser.add_argument_group(
        "network",
        "--cfg overrides the other options, and those override the file.\n"
        + (
            "Without any of them this is a client of " + DEFAULT_ENDPOINT + "."
            if not router
            else f"Without --listen and without a file it listens on {DEFAULT_ENDPOINT}."
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
    if mode:
        group.add_argument(
            "-m",
            "--mode",
            choices=["client", "peer", "router"],
            help="role of this node (default: "
            + ("that of the file, or router)" if router else "client, or peer with --listen)"),
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


def session_config(args: argparse.Namespace, *, default: bool = True) -> zenoh.Config:
    """Return the configuration that the options describe, by ``default`` that of a client of this machine.

    ``plugins`` and ``zwire/tap`` of the file are left out; :func:`zwire.cli.router.router_config` has them.
    """
    config = zenoh.Config() if args.config is None else zenoh.Config.from_file(args.config)
    # The file may be that of a running router: its storages and servers are not started a second time, and
    # its capture is not overwritten. `--tap` and `--cfg` come later.
    config.insert_json5("plugins", "null")
    config.insert_json5("zwire/tap", "null")
    listening = bool(args.listen) or given(config, "listen/endpoints")
    mode = args.mode
    if mode is None and not given(config, "mode"):
        mode = "peer" if listening else "client"
    if mode is not None:
        config.insert_json5("mode", json.dumps(mode))
    router = _value(config, "mode") == "router"
    connect = args.connect
    if default and not connect and not listening and not router and not given(config, "connect/endpoints"):
        connect = [DEFAULT_ENDPOINT]
    if connect:
        config.insert_json5("connect/endpoints", json.dumps(connect))
    if args.listen or (router and not listening):
        config.insert_json5("listen/endpoints", json.dumps(args.listen or [DEFAULT_ENDPOINT]))
    if router and not given(config, "adminspace/enabled"):
        # Tools that look for hubs read their role and id there; write access stays off.
        config.insert_json5("adminspace/enabled", "true")
    if args.tap is not None:
        config.insert_json5("zwire/tap", json.dumps(str(args.tap)))
    apply_keys(config, args.cfg)
    check_endpoints(config)
    return config


def apply_keys(config: zenoh.Config, assignments: list[str]) -> None:
    """Set the keys of ``--cfg``, in their order; a leading slash of a key is dropped."""
    for assignment in assignments:
        path, colon, value = assignment.partition(":")
        if not colon:
            # What follows the key may be a secret, here and below.
            path = assignment.partition("=")[0]
            raise ConfigError(f"--cfg {path}: expected KEY:VALUE, such as mode:'\"client\"'")
        try:
            config.insert_json5(path, value)
        except ConfigError as error:
            # The JSON5 parser sees the value alone; text without quotes is its most frequent error.
            # A value that is no JSON5 has no path yet.
            hint = "" if error.path is not None else f"; a text has quotes: --cfg '{path}:\"...\"'"
            raise ConfigError(f"--cfg {path}: {error}{hint}") from error


_PORTS = {"tcp", "udp", "tls", "quic", "ws"}
"""Protocols whose addresses have a port."""


def check_endpoints(config: zenoh.Config) -> None:
    """Check the ports of endpoints before anything connects; hide parameters, which may be secrets."""
    for path in ("connect/endpoints", "listen/endpoints"):
        for endpoint in _texts(_value(config, path)):
            shown = re.split("[?#]", endpoint, maxsplit=1)[0]
            protocol, _, address = shown.partition("/")
            if protocol not in _PORTS:
                continue
            _, colon, number = address.rpartition(":")
            if not colon or not number or number.endswith("]"):
                whole = f"{protocol}/{address.removesuffix(':')}:7447"
                raise ConfigError(f"{path}: {shown}: the port is missing, as in {whole}", path=path)
            if not number.isdecimal() or int(number) > 65535:
                raise ConfigError(f"{path}: {shown}: a port is a number from 0 to 65535", path=path)


def _texts(value: object) -> Iterator[str]:
    """Iterate over the texts in a value: endpoints may stand in groups, and differ between roles."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name != "strategy":
                yield from _texts(item)


def advice(error: ConnectError) -> str:
    """Return what to do about an endpoint at which nothing listens; empty for another error."""
    if "refused (os error" not in str(error) or error.endpoint is None:
        return ""
    shown = re.split("[?#]", error.endpoint, maxsplit=1)[0]
    if shown == DEFAULT_ENDPOINT:
        return "; no router is running there, `zwire router` starts one"
    protocol, _, address = shown.partition("/")
    host, _, number = address.rpartition(":")
    if host in {"127.0.0.1", "localhost", "[::1]"}:
        return f"; no router is running there, `zwire router --listen {shown}` starts one"
    start = f"zwire router --listen {protocol}/0.0.0.0:{number}"
    return f"; no router is running there, `{start}` on that host starts one"


def open_session(args: argparse.Namespace) -> zenoh.Session:
    """Open the session that the options describe."""
    return zenoh.open(session_config(args))


def _value(config: zenoh.Config, key: str) -> object:
    return json.loads(config.get_json(key))


def given(config: zenoh.Config, key: str) -> bool:
    """Return whether a file has set a key: its value differs from that of an empty configuration."""
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


def expected(what: str, text: str) -> argparse.ArgumentTypeError:
    """Return the error for the value of an option that is something else."""
    return argparse.ArgumentTypeError(f"expected {what}, not {text!r}")


def positive(text: str) -> int:
    """Read a number of things."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise expected("a whole number of at least 1", text)
    return int(text)


def port(text: str) -> int:
    """Read a port."""
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise expected("a port, 1 to 65535", text)
    return int(text)


def seconds(text: str) -> float:
    """Read a time to wait: 0 or more, and no longer than a year."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= _YEAR:
        raise expected("a number of seconds, such as 0.5 or 30", text)
    return number


def key(text: str) -> str:
    """Check a key expression; say how wildcards of MQTT are written."""
    try:
        zenoh.KeyExpr(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}{_wildcards(text)}") from None
    if hint := _wildcards(text):
        say(f"note: + is an ordinary character in {text}{hint}")
    return text


def selector(text: str) -> str:
    """Check a selector: a key expression, and perhaps parameters."""
    key(text.partition("?")[0])
    return text


def _wildcards(text: str) -> str:
    """Return a hint about the wildcards of MQTT in a key expression; empty if it has none."""
    if "#" not in text and "+" not in text.split("/"):
        return ""
    return "; the wildcards of Zenoh are * for one level (not +) and ** for any number of levels (not #)"


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
    say(f"zwire {command}: {problem}" if command else f"zwire: {problem}")
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
    """Let Ctrl-C and SIGTERM end a command; SIGTERM is the normal end of an endless one.

    Service managers stop a service by SIGTERM and expect the exit code 0.
    """
    with stop_signals():
        try:
            yield
        except _Terminated:
            if not endless:
                raise


class _Terminated(KeyboardInterrupt):
    """Raised by SIGTERM."""


@contextlib.contextmanager
def stop_signals() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does: by an exception at the point where it waits."""

    def stop(_number: int, _frame: object) -> NoReturn:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
