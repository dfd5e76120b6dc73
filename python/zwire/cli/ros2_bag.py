"""Records topics into bags that `ros2 bag` reads, plays and describes such bags.

A bag is a folder of MCAP with `metadata.yaml`.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from zwire.cli import _options, _ros2
from zwire.errors import ConfigError
from zwire.ros2._bag import Bag, BagRecorder, play

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire ros2 bag record --output run /chatter /tf
  zwire ros2 bag record --output run --seconds 60
      all topics
  zwire ros2 bag play run --rate 2
  zwire ros2 bag info run
"""

_VERBS = {"record": "WORDS are topics, all if none", "play": "WORD is the bag", "info": "the same"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _ros2.add_verb(parser, _VERBS)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("-o", "--output", metavar="DIR", help="record: folder of the new bag")
    _options.add_seconds(parser, "--seconds", help="record: end after that time")
    parser.add_argument(
        "--rate", metavar="N", type=float, default=1.0, help="play: times the speed; 0 is at once"
    )
    _options.add_several(parser, "--topic", metavar="NAME", help="play: only this topic; again for more")
    _options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    if args.verb == "record":
        return _record(args)
    if len(args.words) != 1:
        raise ConfigError(f"{args.verb}: expected one folder of a bag", path="WORD")
    with Bag(args.words[0]) as bag:
        return _info(args, bag) if args.verb == "info" else _play(args, bag)


def _record(args: argparse.Namespace) -> int:
    if args.output is None:
        raise ConfigError("record: --output is missing", path="--output")
    left = _options.countdown(args.seconds)
    with _ros2.node(args) as node:
        topics = [node.resolve_topic_name(word) for word in args.words] or None
        recorder = BagRecorder(node, args.output, topics)
        try:
            with _options.running(endless=args.seconds is None):
                _options.say(f"recording into {args.output}")
                while (rest := left()) is None or rest > 0:
                    time.sleep(0.2 if rest is None else min(0.2, rest))
        finally:
            recorder.close()
            missing = "".join(f"; {reason}: {count}" for reason, count in recorder.left_out().items())
            topics = recorder.topics()
            _options.say(f"recorded {recorder.messages:,} messages of {len(topics)} topics{missing}")
    return 0


def _play(args: argparse.Namespace, bag: Bag) -> int:
    if args.rate < 0:
        raise ConfigError("--rate: expected 0 or more", path="--rate")
    with _options.stop_signals(), _ros2.node(args) as node:
        topics = [node.resolve_topic_name(name) for name in args.topic] or None
        count = play(node, bag, rate=args.rate or None, topics=topics)
        node.context.session.flush(timeout=10.0)
    _options.say(f"published {count:,} messages")
    return 0


def _info(args: argparse.Namespace, bag: Bag) -> int:
    rows = [{"name": t.name, "type": t.type, "messages": t.messages} for t in bag.topics()]
    told = {"start": bag.start, "duration": bag.duration, "messages": bag.messages, "topics": rows}
    if args.format == "json":
        _options.show(json.dumps(told))
        return 0
    _options.show(f"duration: {bag.duration / 1e9:.3f} s", f"messages: {bag.messages:,}")
    _options.show(*(f"{row['name']} {row['type']} {row['messages']:,}" for row in rows))
    return 0
