"""Measures round trips: to the node that this one is connected to, or, with KEY, to a queryable.

Without KEY each ping asks the node for the liveliness tokens of a key that no node has. Every node of Zenoh
answers that itself, of any implementation, and no program is disturbed. With KEY each ping is a query, whose
time includes that of the program that answers. The exit code is 3 if no ping was answered, else 0.
"""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING, Any

from zwire.cli import _format, _measure, _options

if TYPE_CHECKING:
    import argparse

    from zwire.zenoh import Session

EPILOG = """\
examples:
  zwire ping -e tcp/192.168.1.5:7447
      five round trips to the router there
  zwire ping robot/1/status -n 100 --interval 0
      a hundred queries to a queryable, one after the other
  zwire ping --format jsonl | jq .ms
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "key", nargs="?", type=_options.selector, help="selector to query (default: the node)"
    )
    _options.add_count(parser, "-n", "--count", default=5, help="number of pings (default: 5)")
    _options.add_seconds(parser, "--interval", default=0.2, help="pause in between (default: 0.2)")
    _options.add_seconds(parser, "--timeout", default=2.0, help="wait for each answer (default: 2)")
    parser.add_argument("--size", type=_options.positive, metavar="BYTES", help="payload of each query")
    _options.add_format(parser, _format.HELP)
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Ping, print each answer, then a summary."""
    if args.size is not None and args.key is None:
        return _options.refuse("ping", "--size needs KEY: a node that answers itself takes no payload", 2)
    times: list[float] = []
    sent = 0
    with _options.stop_signals(), _options.open_session(args) as session:
        session.ready(timeout=args.timeout)
        try:
            for number in range(args.count):
                if number and args.interval:
                    time.sleep(args.interval)
                sent += 1
                took, source = _query(session, args) if args.key else _node(session, args.timeout)
                if took is not None:
                    times.append(took)
                _show(args, number + 1, took, source)
        finally:
            # Also at Ctrl-C: the summary is what the caller has waited for.
            _end(args, sent, times)
    return 0 if times else 3


def _node(session: Session, timeout: float) -> tuple[float | None, str]:
    """Ask the neighbours for tokens of a key of this ping alone; they say that there are none."""
    if not (links := session.info.links()):
        return None, "no link"
    key = f"@zwire/ping/{secrets.token_hex(8)}"
    begin = time.perf_counter()
    handler = session.liveliness().get(key, timeout=timeout)
    list(handler)
    took = time.perf_counter() - begin
    answered = handler.end not in {"timed_out", "link_lost", "cancelled"}
    return (took if answered else None), f"{links[0].zid} at {links[0].dst}"


def _query(session: Session, args: argparse.Namespace) -> tuple[float | None, str]:
    payload = None if args.size is None else bytes(args.size)
    begin = time.perf_counter()
    for reply in session.get(args.key, timeout=args.timeout, payload=payload, budget=1):
        took = time.perf_counter() - begin
        if reply.ok is not None:
            return took, str(reply.ok.key_expr)
        if reply.err is not None and bytes(reply.err.payload) != b"Timeout":
            return took, f"{args.key}: an error"
    return None, str(args.key)


def _show(args: argparse.Namespace, number: int, took: float | None, source: str) -> None:
    milliseconds = None if took is None else round(took * 1e3, 4)
    if args.format == "jsonl":
        fields: dict[str, Any] = {"ping": number, "ms": milliseconds, "from": source}
        _options.show(json.dumps(fields))
    elif milliseconds is None:
        _options.show(f"{number}: no answer within {args.timeout:g} s from {source}")
    else:
        _options.show(f"{number}: {milliseconds:.3f} ms from {source}")


def _end(args: argparse.Namespace, sent: int, times: list[float]) -> None:
    summary = _measure.summary(times)
    if args.format == "jsonl":
        _options.show(json.dumps({"sent": sent, "answered": len(times), "ms": summary}))
    else:
        _options.show(f"{sent} sent, {len(times)} answered: {_measure.spoken(summary)}")
