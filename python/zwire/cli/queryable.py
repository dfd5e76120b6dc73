"""Prints "answering ..." on the standard error when it is ready, and each query on the standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.cli import _format, _options
from zwire.errors import TimedOut

if TYPE_CHECKING:
    import argparse

    from zwire.zenoh import Query

EPILOG = """\
examples:
  zwire queryable demo/hello world
      the same answer to every query
  zwire queryable 'echo/**' --echo
      each query gets its own payload back
  zwire queryable demo/broken --error "not today" -n 1
      one error, then the end
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("key", type=_options.key, help="key expression of the queries to answer")
    parser.add_argument("value", nargs="?", help="the answer; or one of these three:")
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument("--echo", action="store_true", help="answer with the payload of the query")
    answer.add_argument("--error", metavar="TEXT", help="answer with an error")
    answer.add_argument("--delete", action="store_true", help="answer that the key is deleted")
    parser.add_argument("--encoding", help="format of the answer, such as text/plain")
    parser.add_argument("--complete", action="store_true", help="declare it complete: no other need be asked")
    _options.add_limits(parser, "queries")
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Answer queries until there were enough or it is interrupted."""
    if (args.value is not None) + args.echo + (args.error is not None) + args.delete != 1:
        return _options.refuse("queryable", "one of VALUE, --echo, --error and --delete is required", 2)
    left = _options.countdown(args.timeout)
    answered = 0
    with (
        _options.running(endless=args.count is None),
        _options.open_session(args) as session,
        session.declare_queryable(args.key, complete=args.complete) as queryable,
    ):
        _options.settle(session)
        _options.say(f"answering {args.key}")
        while args.count is None or answered < args.count:
            try:
                with queryable.recv(timeout=left()) as query:
                    _options.show(_shown(query))
                    _answer(query, args)
            except TimedOut:
                return _options.too_few("queryable", answered, args)
            answered += 1
    return 0


def _answer(query: Query, args: argparse.Namespace) -> None:
    if args.error is not None:
        query.reply_err(args.error, encoding=args.encoding)
    elif args.delete:
        query.reply_del(_concrete(query, args.key))
    elif args.echo:
        encoding = args.encoding or query.encoding
        query.reply(_concrete(query, args.key), query.payload or b"", encoding=encoding)
    else:
        query.reply(_concrete(query, args.key), args.value, encoding=args.encoding)


def _concrete(query: Query, key: str) -> str:
    """Choose the key of the reply: the queryable's own, or that of the query if the former has wildcards."""
    return str(query.key_expr) if "*" in key else key


def _shown(query: Query) -> str:
    return str(query.selector) + ("" if query.payload is None else f" {_format.shown(query.payload)}")
