"""Serves keys to the Foxglove app, or to another client of its protocol. Needs zwire[foxglove].

Prints the address of the server when clients can connect. Keys that are seen become channels; a key is only
subscribed to while a client listens to its channel. To see new keys, the command subscribes to all of them
for `--look` seconds every `--every` seconds. Clients read, they publish nothing.
"""

from __future__ import annotations

import importlib.util
import time
from typing import TYPE_CHECKING, NoReturn

from zwire.cli import _bridge, _options, _progress, _schemas
from zwire.errors import ConfigError

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire foxglove
      all keys of the router on this machine, at ws://127.0.0.1:8765
  zwire foxglove -e tcp/192.168.1.5:7447 --key 'robot/*/pose' --key 'robot/*/camera'
      some keys of a router elsewhere
  zwire foxglove --schema demo.Pose=pose.desc --port 9000
      with the definition of a schema of protobuf
"""

_STEP = 0.2
"""Seconds between two looks at the signals that end the command."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _options.add_several(
        parser,
        "--key",
        metavar="KEYEXPR",
        type=_options.key,
        help="keys to serve; again for more (default: **)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=_port, default=8765, metavar="N", help="port; 0 takes a free one (default: 8765)"
    )
    _options.add_count(parser, "--channels", default=1000, help="most keys that are served (default: 1000)")
    _options.add_seconds(parser, "--look", default=3.0, help="length of a look for new keys (default: 3)")
    _options.add_seconds(parser, "--every", default=30.0, help="time between two of them (default: 30)")
    _schemas.add(parser)
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until the command is interrupted."""
    if importlib.util.find_spec("foxglove") is None:
        raise ConfigError("foxglove needs its SDK: pip install 'zwire[foxglove]'", path="foxglove")
    schemas = _schemas.read(args)
    config = _options.session_config(args)
    from zwire import zenoh

    with _options.running(endless=True), zenoh.open(config) as session:
        keys = args.key or ["**"]
        bridge = _bridge.Bridge(
            session, keys, host=args.host, port=args.port, most=args.channels, schemas=schemas
        )
        try:
            _serve(bridge, args)
        finally:
            bridge.close()
    return 0


def _serve(bridge: _bridge.Bridge, args: argparse.Namespace) -> NoReturn:
    host = f"[{args.host}]" if ":" in args.host else args.host
    _options.show(f"ws://{host}:{bridge.port}")
    _options.say(f"open {bridge.app_url}, Ctrl-C ends it")
    if args.host not in {"127.0.0.1", "::1", "localhost"}:
        _options.say(
            f"note: clients need no password: all that reach {host}:{bridge.port} can read these keys"
        )

    def line(_seconds: float) -> str:
        counts, open_ = bridge.counts, len(bridge.subscribed())
        served = f"{counts.channels} channels, {open_} subscribed"
        return f"{served}, {counts.sent:,} messages, {counts.unfit:,} unfit"

    full = False
    with _progress.drawn(line):
        while True:
            bridge.look()
            _steps(bridge, args.look)
            bridge.stop_looking()
            if bridge.counts.refused and not full:
                full = True
                _options.say(
                    f"note: there are more than {args.channels} keys: --channels, or --key for fewer"
                )
            _steps(bridge, args.every)


def _steps(bridge: _bridge.Bridge, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        bridge.step(min(left, _STEP))


def _port(text: str) -> int:
    return 0 if text == "0" else _options.port(text)
