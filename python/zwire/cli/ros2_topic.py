"""Lists topics, prints and measures their messages, publishes.

`echo`, `hz` and `bw` take the type from the graph; with a type they wait for a topic that is not there yet.
Exit code 3: the topic is not there, or fewer messages came than asked for.
"""

from __future__ import annotations

import itertools
import json
import time
from typing import TYPE_CHECKING, Any

from zwire.cli import _options, _ros2
from zwire.errors import TimedOut
from zwire.ros2 import DurabilityPolicy, EntityKind, QoSProfile, ReliabilityPolicy

if TYPE_CHECKING:
    import argparse

    from zwire import ros2

EPILOG = """\
examples:
  zwire ros2 topic list --show-types
  zwire ros2 topic echo /chatter -n 1 --format jsonl
  zwire ros2 topic echo /robot_description --durability transient_local
  zwire ros2 topic hz /camera/image --timeout 10
  zwire ros2 topic pub /chatter std_msgs/msg/String '{data: hello}' --rate 2 -n 10
"""

_VERBS = {
    "list": "names",
    "echo": "messages, as YAML",
    "hz": "rate",
    "bw": "octets per second",
    "info": "publishers and subscriptions, with quality of service",
    "pub": "publish VALUES, YAML such as '{data: hello}'",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _ros2.add_verb(parser, _VERBS, "name", "type", "values")
    parser.add_argument("--show-types", "-t", action="store_true", help="list: types, too")
    parser.add_argument("--all", "-a", action="store_true", help="list: names with an underscore, too")
    parser.add_argument("--full", action="store_true", help="echo: long arrays and texts as a whole")
    _options.add_count(parser, "-n", "--count", help="end after N messages")
    _options.add_seconds(parser, "--timeout", help="end after that time; exit code 3 if fewer than N came")
    _options.add_seconds(parser, "--period", default=1.0, help="hz, bw: between two lines (default: 1)")
    parser.add_argument("--rate", metavar="HZ", type=float, default=1.0, help="pub: per second (default: 1)")
    parser.add_argument(
        "--reliability", choices=["reliable", "best_effort"], help="quality of service (default: reliable)"
    )
    parser.add_argument(
        "--durability", choices=["volatile", "transient_local"], help="the same (default: volatile)"
    )
    _options.add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    if args.verb != "list":
        _ros2.need(args, "name")
    if args.verb == "pub":
        _ros2.need(args, "type", "values")
    try:
        endless = args.verb not in {"list", "info"} and args.count is None and args.timeout is None
        with _options.running(endless=endless), _ros2.node(args) as node:
            return int(_RUN[args.verb](args, node))
    except _ros2.NotThereError as error:
        return _options.refuse("ros2 topic", str(error), 3)


def _list(args: argparse.Namespace, node: ros2.Node) -> int:
    topics = node.graph.topics()
    _ros2.listing({n: t for n, t in topics.items() if args.all or not _ros2.is_hidden(n)}, args)
    return 0


def _info(args: argparse.Namespace, node: ros2.Node) -> int:
    name = node.resolve_topic_name(args.name)
    found = node.graph.endpoints(name, EntityKind.PUBLISHER, EntityKind.SUBSCRIPTION)
    if not found:
        raise _ros2.NotThereError(f"topic {name} is not there")
    for entity in sorted(found, key=lambda e: (e.kind.value, e.node_name)):
        qos = entity.qos or QoSProfile()
        row = {
            "kind": entity.kind.name.lower(),
            "node": entity.node_name,
            "type": entity.type,
            "hash": entity.hash,
            "reliability": qos.reliability.name.lower(),
            "durability": qos.durability.name.lower(),
            "history": qos.history.name.lower(),
            "depth": qos.depth,
        }
        if args.format == "jsonl":
            _options.show(json.dumps(row))
        else:
            _options.show(" ".join(str(value) for value in row.values()))
    return 0


def _subscribed(args: argparse.Namespace, node: ros2.Node, *, raw: bool) -> ros2.Subscription:
    name = node.resolve_topic_name(args.name)
    type_ = args.type or _ros2.topic_type(node, name)
    return node.create_subscription(type_, name, None, _qos(args, node, name), raw=raw)


def _qos(args: argparse.Namespace, node: ros2.Node, name: str) -> QoSProfile:
    """Return the profile asked for; what is not asked for is that of the publishers."""
    offered = [e.qos for e in node.graph.endpoints(name, EntityKind.PUBLISHER) if e.qos is not None]
    latched = bool(offered) and all(qos.durability is DurabilityPolicy.TRANSIENT_LOCAL for qos in offered)
    best = any(qos.reliability is ReliabilityPolicy.BEST_EFFORT for qos in offered)
    return QoSProfile(
        depth=100,
        reliability=ReliabilityPolicy[(args.reliability or ("best_effort" if best else "reliable")).upper()],
        durability=DurabilityPolicy[
            (args.durability or ("transient_local" if latched else "volatile")).upper()
        ],
    )


def _echo(args: argparse.Namespace, node: ros2.Node) -> int:
    subscription = _subscribed(args, node, raw=False)
    left = _options.countdown(args.timeout)
    came = 0
    while args.count is None or came < args.count:
        try:
            message = subscription.recv(left())
        except TimedOut:
            return _options.too_few("ros2 topic", came, args)
        came += 1
        _ros2.show(message, args.format, whole=args.full)
        if args.format == "text":
            _options.show("---")
    return 0


def _measured(args: argparse.Namespace, node: ros2.Node) -> int:
    """Print messages and octets per second, once in each period."""
    subscription = _subscribed(args, node, raw=True)
    left = _options.countdown(args.timeout)
    came = size = count = 0
    begun = time.monotonic()
    while args.count is None or came < args.count:
        wait = begun + args.period - time.monotonic()
        rest = left()
        try:
            size += len(subscription.recv(max(0.0, wait if rest is None else min(wait, rest))))
            came, count = came + 1, count + 1
        except TimedOut:
            if rest == 0:
                break
        if (passed := time.monotonic() - begun) >= args.period or came == args.count:
            _show_rate(args, count, size, max(passed, 1e-9))
            begun, count, size = time.monotonic(), 0, 0
    return 0 if args.count is None or came >= args.count else _options.too_few("ros2 topic", came, args)


def _show_rate(args: argparse.Namespace, count: int, size: int, seconds: float) -> None:
    row = {"hz": round(count / seconds, 3), "octets_per_second": round(size / seconds)}
    if args.format == "jsonl":
        _options.show(json.dumps(row))
    elif args.verb == "hz":
        _options.show(f"average rate: {row['hz']:.3f}")
    else:
        mean = size / count if count else 0
        _options.show(f"{row['octets_per_second']:,} B/s from {count} messages, mean {mean:,.0f} B")


def _pub(args: argparse.Namespace, node: ros2.Node) -> int:
    if args.rate <= 0:
        return _options.refuse("ros2 topic", "--rate: expected more than 0", 2)
    name = node.resolve_topic_name(args.name)
    publisher = node.create_publisher(args.type, name, _own_qos(args))
    message: Any = _ros2.filled(publisher.type, args.values)
    left = _options.countdown(args.timeout)
    try:
        publisher.wait_for_subscription(1.0 if args.count is None else (left() or 1.0))
    except TimedOut:
        _options.say(f"note: no subscription of {name} is there yet")
    for number in itertools.count(1):
        publisher.publish(message)
        if number == args.count or left() == 0:
            break
        time.sleep(1 / args.rate)
    node.context.session.flush(timeout=5.0)
    return 0


def _own_qos(args: argparse.Namespace) -> QoSProfile:
    return QoSProfile(
        reliability=ReliabilityPolicy[(args.reliability or "reliable").upper()],
        durability=DurabilityPolicy[(args.durability or "volatile").upper()],
    )


_RUN = {"list": _list, "echo": _echo, "hz": _measured, "bw": _measured, "info": _info, "pub": _pub}
