"""Decodes the messages of a session while they cross its links, or follows one publication by its stamps.

Without --put it is a node that subscribes to KEY, and prints each message that it sends and receives, as
`zwire decode` prints those of a capture. With `--mode router --listen ENDPOINT` it is a hub, and prints what
it forwards for others. With --put it publishes VALUE on KEY and prints where and when that publication
passed: in the session that sends it, in each router, in the session that gets it, by the clocks of these
nodes. Behind a router that does not know stamps, such as eclipse-zenoh 1.0, it arrives without any.

The exit code is 3 if --timeout ends before -n messages, or a publication does not arrive.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zwire import zenoh
from zwire.capture import decode
from zwire.cli import _format, _options
from zwire.errors import ConfigError, TimedOut

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from zwire.capture import Decoder

EPILOG = """\
examples:
  zwire trace 'robot/**' -e tcp/192.168.1.5:7447
      every message of a session there, until Ctrl-C
  zwire trace --mode router --listen tcp/0.0.0.0:7447 --format jsonl | jq 'select(.message == "declare")'
      the declarations that pass a hub
  zwire trace demo/way --put hello
      the way of one publication, with the time at each hop
"""

_KEEP_ALIVE = 1000
"""Lease in milliseconds: each keep-alive, four times in it, also passes on what the capture has collected."""

_WAIT = 5.0

_LOOK_SECONDS = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "key", nargs="?", type=_options.key, default="**", help="key to subscribe to (default: **)"
    )
    parser.add_argument("--put", metavar="VALUE", help="publish this on the key, and follow it")
    _options.add_limits(parser, "messages, or publications of --put")
    _options.add_format(parser, _format.HELP)
    _format.add_payload(parser)
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Trace messages or one publication."""
    if args.put is not None and "*" in args.key:
        return _options.refuse("trace", "--put needs KEY, without wildcards", 2)
    if args.put is not None:
        with _options.stop_signals():
            return _follow(args)
    if args.tap is not None:
        raise ConfigError("a trace reads the tap itself: leave out --tap, or use `zwire sub --tap FILE`")
    if not Path("/dev/fd").is_dir():
        return _options.refuse("trace", "needs the folder /dev/fd, which this system does not have", 1)
    with _options.running(endless=args.count is None):
        return _messages(args)
    return 0


def _messages(args: argparse.Namespace) -> int:
    read, write = os.pipe()
    # A lock that the printer releases, no Event: a signal within the Python code of `Event.wait` can raise
    # RuntimeError for its lock.
    enough = threading.Lock()
    enough.acquire()
    printer = None
    try:
        config = _options.session_config(args)
        config.insert_json5("zwire/tap", json.dumps(f"/dev/fd/{write}"))
        config.insert_json5("transport/link/tx/lease", str(_KEEP_ALIVE))
        session = zenoh.open(config)
        try:
            decoder = decode(f"/dev/fd/{read}")
            printer = threading.Thread(target=_print, args=(decoder, args, enough), daemon=True)
            printer.start()
            # A callback and no queue: the messages are printed, not the samples.
            session.declare_subscriber(args.key, lambda _sample: None)
            left = _options.countdown(args.timeout)
            done = False
            while not done:
                rest = left()
                done = enough.acquire(timeout=_LOOK_SECONDS if rest is None else min(_LOOK_SECONDS, rest))
                if left() == 0:
                    break
        finally:
            # The capture ends when nothing refers to the session, and with it the printing.
            session.close()
            del session
    finally:
        os.close(write)
        if printer is not None:
            printer.join(_WAIT)
        os.close(read)
    return 0 if done or args.count is None else 3


def _print(decoder: Decoder, args: argparse.Namespace, enough: threading.Lock) -> None:
    """Print records until there were enough, or the session ends."""
    lines = _records(decoder, args)
    with contextlib.suppress(BrokenPipeError):
        for line in lines if args.count is None else itertools.islice(lines, args.count):
            _options.show(line)
    enough.release()
    # What comes until the session is closed is read: a full pipe would hold up its links.
    for _ in lines:
        pass


def _records(decoder: Decoder, args: argparse.Namespace) -> Iterator[str]:
    more = decoder.text if args.format == "text" else decoder.jsonl
    while piece := more():
        for line in piece.splitlines():
            yield (line if args.format == "text" else _format.decoded_line(line, args.payload)).decode()


def _follow(args: argparse.Namespace) -> int:
    """Publish with stamps, and print them where the publication arrives."""
    points = zenoh.TimestampInstrumentationBuilder().set_send(True).set_route(True).set_receive(True).build()
    wait = _WAIT if args.timeout is None else args.timeout
    config = _options.session_config(args)
    # A second session with the same capture would truncate that of the first.
    untapped = zenoh.Config(config)
    untapped.insert_json5("zwire/tap", "null")
    with (
        zenoh.open(config) as near,
        zenoh.open(untapped) as far,
        far.declare_subscriber(args.key) as subscriber,
        near.declare_publisher(args.key, congestion_control=zenoh.CongestionControl.BLOCK) as publisher,
    ):
        subscriber.wait_ready(timeout=wait)
        names = _names(near, far)
        try:
            publisher.wait_matching(timeout=wait)
            for _ in range(args.count or 1):
                publisher.put(args.put, timestamp_instrumentation=points)
                sample = subscriber.recv(timeout=wait)
                _options.show(*_hops(sample, names, args.format))
        except TimedOut:
            return _options.refuse("trace", f"no publication on {args.key} arrived within {wait:g} s", 3)
    return 0


def _names(near: zenoh.Session, far: zenoh.Session) -> dict[str, str]:
    """Return names of nodes by id: the ends, and neighbours by their role."""
    names = {}
    for session in (near, far):
        for transport in session.info.transports():
            names[str(transport.zid)] = transport.whatami.name.lower()
    return names | {str(near.zid()): "publisher", str(far.zid()): "subscriber"}


def _hops(sample: zenoh.Sample, names: dict[str, str], form: str) -> list[str]:
    stack = sample.timestamp_stack
    lines = []
    first = before = None
    for record in [] if stack is None else stack.records:
        stamp = record.timestamp()
        fields: dict[str, Any] = {"key": str(sample.key_expr), "point": record.point.name.lower()}
        if isinstance(stamp, zenoh.Timestamp):
            node, now = str(stamp.get_id()), stamp.get_time_as_ntp64().as_nanos()
            first = now if first is None else first
            fields |= {
                "node": node,
                "role": names.get(node),
                "time": stamp.to_string_rfc3339_lossy().partition("/")[0],
                "ms": round((now - first) / 1e6, 6),
                "hop_ms": None if before is None else round((now - before) / 1e6, 6),
            }
            before = now
        else:
            fields |= {"node": None, "role": None, "time": stamp.hex(), "ms": None, "hop_ms": None}
        lines.append(json.dumps(fields) if form == "jsonl" else _line(fields))
    if not lines:
        # Of a router that does not know stamps.
        nothing = {
            "key": str(sample.key_expr),
            **dict.fromkeys(("point", "node", "role", "time", "ms", "hop_ms")),
        }
        lines = [json.dumps(nothing) if form == "jsonl" else f"{sample.key_expr}: arrived without stamps"]
    return lines


def _line(fields: dict[str, Any]) -> str:
    hop = "" if fields["hop_ms"] is None else f"+{fields['hop_ms']:.3f} ms"
    place = f"{fields['role'] or 'node'} {fields['node'] or ''}"
    return f"{fields['time']}  {hop:>14}  {fields['point']:8} {place}".rstrip()
