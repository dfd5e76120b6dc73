"""Measures how fast a node takes publications, delivers them, and answers queries.

`publish` publishes as fast as the node takes it, on a key of its own unless KEY is given. `subscribe` counts
what arrives, with the time since the publication where there are time stamps: it includes the difference of
the two clocks. `query` sends queries and waits for their ends, --parallel of them at a time; the
default key has no queryable, so that the node alone answers. Each runs for --seconds, prints a line for each
second, and then a summary. Run `publish` and `subscribe` in two terminals to measure both ends of a node.

The exit code of `subscribe` is 3 if nothing came, that of `query` if no query ended in time.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from zwire import zenoh
from zwire.cli import _format, _measure, _options

if TYPE_CHECKING:
    import argparse

    from zwire.zenoh import Handler, Reply, Sample, Session

EPILOG = """\
examples:
  zwire bench subscribe --seconds 10
  zwire bench publish --size 1024 --seconds 8
      in another terminal: messages and bytes per second through the router on this machine
  zwire bench query -e tcp/192.168.1.5:7447 --parallel 16
      queries per second that a router there ends
  zwire bench query robot/1/status --format jsonl | tail -1 | jq .ms.p99
"""

_KEY = "zwire/bench"
_AT_ONCE = 4096
"""Samples that are taken, and publications between two looks at the clock, in one call at most."""


class _Count(NamedTuple):
    """Messages and bytes up to now."""

    messages: int
    bytes: int


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "kind",
        choices=["publish", "subscribe", "query"],
        metavar="KIND",
        help="one of publish, subscribe, query",
    )
    parser.add_argument("key", nargs="?", type=_options.key, default=_KEY, help=f"default: {_KEY}")
    _options.add_seconds(parser, "--seconds", default=3.0, help="length of the measurement (default: 3)")
    _options.add_count(parser, "--size", default=64, help="bytes of each payload (default: 64)")
    _options.add_count(parser, "--parallel", default=1, help="queries that are open at a time (default: 1)")
    _options.add_seconds(parser, "--timeout", default=10.0, help="of each query (default: 10)")
    _options.add_format(parser, _format.HELP)
    _options.add_qos(parser, congestion="block")
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, and print the rates."""
    if args.kind == "publish" and "*" in args.key:
        return _options.refuse("bench", f"{args.key}: a value is published on a key without wildcards", 2)
    measure = {"publish": _publish, "subscribe": _subscribe, "query": _query}[args.kind]
    with _options.stop_signals(), _options.open_session(args) as session:
        return measure(session, args, _Meter(args))


class _Meter:
    """The rate of each second, and the summary."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.kind, self.form = args.kind, args.format
        self.begin = self.last = time.monotonic()
        self.end: float = self.begin + args.seconds
        self.before = _Count(0, 0)

    def start(self) -> None:
        """Begin now: what was prepared does not count."""
        now = time.monotonic()
        self.end += now - self.begin
        self.begin = self.last = now

    def left(self, now: _Count) -> float:
        """Print a line if a second has passed; return the seconds that are left."""
        at = time.monotonic()
        if at - self.last >= 1.0:
            self._show(at - self.last, now.messages - self.before.messages, now.bytes - self.before.bytes, {})
            self.last, self.before = at, now
        return self.end - at

    def finish(self, count: _Count, **more: Any) -> None:  # noqa: ANN401 - numbers of one kind
        """Print the summary."""
        self._show(time.monotonic() - self.begin, count.messages, count.bytes, {"total": True, **more})

    def _show(self, seconds: float, messages: int, size: int, more: dict[str, Any]) -> None:
        seconds = max(seconds, 1e-9)
        fields = {
            "kind": self.kind,
            "seconds": round(seconds, 3),
            "messages": messages,
            "messages_per_second": round(messages / seconds, 1),
            "bytes_per_second": round(size / seconds, 1),
            **more,
        }
        if self.form == "jsonl":
            _options.show(json.dumps(fields))
            return
        total = "in all: " if more.get("total") else ""
        text = f"{total}{messages} in {seconds:.2f} s, {messages / seconds:,.0f}/s"
        text += f", {size / seconds / 1e6:,.2f} MB/s"
        if "ms" in more:
            text += f"; {_measure.spoken(more['ms'])}"
        text += "".join(f"; {name} {value}" for name, value in more.items() if name not in {"total", "ms"})
        _options.show(text)


def _publish(session: Session, args: argparse.Namespace, meter: _Meter) -> int:
    payload = bytes(args.size)
    qos = _options.qos(args)
    matching = True
    sent = 0
    with session.declare_publisher(args.key, **qos) as publisher:
        session.ready(timeout=2.0)
        matching = bool(publisher.matching_status)
        if not matching:
            _options.say("note: no subscriber of this key is known: publications end in this process")
        meter.start()
        put = publisher.put
        batch = 1
        while meter.left(_Count(sent, sent * args.size)) > 0:
            begin = time.monotonic()
            for _ in range(batch):
                put(payload)
            sent += batch
            # About 10 ms between two looks at the clock, also where a put waits for a slow link.
            spent = time.monotonic() - begin
            batch = max(1, min(_AT_ONCE, int(batch * 0.01 / max(spent, 1e-6))))
        session.flush(timeout=args.timeout)
        dropped = session.stats()["link.tx_dropped"]
        meter.finish(_Count(sent, sent * args.size), size=args.size, matching=matching, dropped=dropped)
    return 0


def _subscribe(session: Session, args: argparse.Namespace, meter: _Meter) -> int:
    messages = size = 0
    times: list[float] = []
    with session.declare_subscriber(args.key) as subscriber:
        _options.settle(session)
        _options.say(f"subscribed to {args.key}")
        # The clock begins with the first sample, so that the other side may start later.
        samples = subscriber.recv_many(_AT_ONCE, timeout=args.timeout)
        meter.start()
        while (left := meter.left(_Count(messages, size))) > 0 and samples is not None:
            messages += len(samples)
            size += sum(len(sample.payload) for sample in samples)
            _latency(samples, times)
            samples = subscriber.recv_many(_AT_ONCE, timeout=left)
        dropped = subscriber.dropped
    meter.finish(_Count(messages, size), ms=_measure.summary(times), dropped=dropped)
    return 0 if messages else 3


def _latency(samples: list[Sample], times: list[float]) -> None:
    """Add the time since the publication of the last sample that has a time stamp."""
    now = time.time()
    for sample in reversed(samples):
        if sample.timestamp is not None and len(times) < _measure.KEPT:
            times.append(now - sample.timestamp.get_time_as_ntp64().as_secs_f64())
            return


def _query(session: Session, args: argparse.Namespace, meter: _Meter) -> int:
    payload = None if args.key == _KEY else bytes(args.size)
    times: list[float] = []
    ended = replies = size = 0
    session.ready(timeout=2.0)
    meter.start()

    def ask() -> tuple[float, Handler[Reply]]:
        begin = time.perf_counter()
        return begin, session.get(
            args.key, zenoh.handlers.FifoChannel(64), timeout=args.timeout, payload=payload
        )

    open_ = [ask() for _ in range(args.parallel)]
    while meter.left(_Count(ended, size)) > 0:
        begin, handler = open_.pop(0)
        for reply in handler:
            replies += 1
            size += 0 if reply.ok is None else len(reply.ok.payload)
        if handler.end != "timed_out":
            ended += 1
            if len(times) < _measure.KEPT:
                times.append(time.perf_counter() - begin)
        open_.append(ask())
    meter.finish(_Count(ended, size), ms=_measure.summary(times), replies=replies)
    for _, handler in open_:
        # A queryable that still answers must not find the session closed.
        for _ in handler:
            pass
    return 0 if ended else 3
