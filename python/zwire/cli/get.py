"""Exit codes: 0 if there were answers, 1 if one of them was an error, 3 if no queryable answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire import zenoh
from zwire.cli import _format, _options

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire get 'robot/*/status'
  zwire get 'robot/1/log?from=10;to=20' --timeout 2
      parameters go after the question mark; what they mean is up to the queryable
  zwire get calc/square --value 12
  zwire get 'robot/**' --target all --consolidation none --format jsonl
      every answer of every queryable, as JSON Lines
"""

_TARGETS = {
    "best": zenoh.QueryTarget.BEST_MATCHING,
    "all": zenoh.QueryTarget.ALL,
    "all_complete": zenoh.QueryTarget.ALL_COMPLETE,
}
_CONSOLIDATION = {mode.name.lower(): mode for mode in zenoh.ConsolidationMode}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "selector", type=_options.selector, help="key expression, and parameters after a question mark"
    )
    parser.add_argument("--value", help="value of the query")
    parser.add_argument("--encoding", help="what the value is, such as application/json")
    parser.add_argument("--attachment", help="attachment of the query")
    parser.add_argument(
        "--target", choices=sorted(_TARGETS), default="best", help="queryables to ask (default: best)"
    )
    parser.add_argument(
        "--consolidation",
        choices=sorted(_CONSOLIDATION),
        default="auto",
        help="which of several answers on one key count (default: auto)",
    )
    _options.add_seconds(parser, "--timeout", default=10, help="default: 10")
    _options.add_count(parser, "--budget", help="end the query after N replies (default: no limit)")
    _options.add_format(parser, _format.HELP)
    _format.add_payload(parser)
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Send the query, and print replies as they come."""
    line = _format.reply_formatter(args.format, args.payload)
    answers = errors = 0
    with _options.stop_signals(), _options.open_session(args) as session:
        replies = session.get(
            args.selector,
            target=_TARGETS[args.target],
            consolidation=_CONSOLIDATION[args.consolidation],
            timeout=args.timeout,
            budget=args.budget,
            payload=args.value,
            encoding=args.encoding,
            attachment=args.attachment,
        )
        for reply in replies:
            answers += 1
            if reply.err is not None:
                errors += 1
            # An error is a reply too; as text it goes to standard error.
            show = _options.say if reply.err is not None and args.format == "text" else _options.show
            show(line(reply))
    if not answers:
        return _options.refuse("get", f"no queryable answered {args.selector}", 3)
    return 1 if errors else 0
