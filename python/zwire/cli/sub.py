"""Prints "subscribed to ..." on the standard error when it is ready, and samples on the standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.cli import _format, _options

if TYPE_CHECKING:
    import argparse

    from zwire.zenoh import Handler, Sample, Subscriber

EPILOG = """\
examples:
  zwire sub 'demo/**'
      until Ctrl-C
  zwire sub 'robot/*/pose' -n 10 --timeout 30
      the next ten, or exit code 3 after half a minute
  zwire sub '**' --format jsonl > samples.jsonl
      everything
  zwire sub 'robot/*/pose' --format jsonl | jq .payload.x
      payloads that are JSON
"""

_AT_ONCE = 1024
"""Samples that are formatted before they are printed; more would only delay the first."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("key", type=_options.key, help="key expression to subscribe to")
    _options.add_limits(parser, "samples")
    _options.add_format(parser, _format.HELP)
    _format.add_payload(parser)
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Print samples until there were enough or it is interrupted."""
    with (
        _options.running(endless=args.count is None),
        _options.open_session(args) as session,
        session.declare_subscriber(args.key) as subscriber,
    ):
        _options.settle(session)
        _options.say(f"subscribed to {args.key}")
        code = _print(subscriber, args)
        if subscriber.dropped:
            _options.say(f"zwire sub: {subscriber.dropped} samples were dropped: output was too slow")
        return code
    return 0


def _print(subscriber: Subscriber[Handler[Sample]], args: argparse.Namespace) -> int:
    line = _format.sample_formatter(args.format, args.payload)
    remaining = _options.countdown(args.timeout)
    missing = args.count
    while missing is None or missing > 0:
        left = remaining()
        if left == 0:
            return _options.too_few("sub", (args.count or 0) - (missing or 0), args)
        at_most = _AT_ONCE if missing is None else min(_AT_ONCE, missing)
        samples = subscriber.recv_many(at_most, timeout=left)
        _options.show(*map(line, samples))
        if missing is not None:
            missing -= len(samples)
    return 0
