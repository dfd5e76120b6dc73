"""Parts shared by ``zwire play`` and ``zwire replay``: options, the publishing, and its progress."""

from __future__ import annotations

import argparse
import bisect
import datetime as dt
from typing import TYPE_CHECKING, Any

from zwire import recording, zenoh
from zwire.cli import _options, _progress
from zwire.errors import RecordingError, TimedOut
from zwire.recording._play import PLAYED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PATIENCE = 10.0
"""Seconds for the network to take the queued rest."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of both commands."""
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="file, or folder of files")
    parser.add_argument(
        "--format",
        choices=["parquet", "arrow", "mcap", "pcap"],
        help="of the files (default: what they begin with)",
    )
    what = parser.add_argument_group("what is published")
    _options.add_several(what, "--keys", metavar="KEYEXPR", type=_options.key, help="these; again for more")
    what.add_argument(
        "--start",
        "--from",
        dest="start",
        metavar="TIME",
        type=_when,
        help="instant, or seconds from the beginning",
    )
    what.add_argument("--end", "--to", dest="stop", metavar="TIME", type=_when, help="the same, for the end")
    what.add_argument(
        "--link", metavar="PATTERN", help="only samples from this address, such as '10.0.0.7:*'"
    )
    _options.add_several(
        what,
        "--remap",
        metavar="FROM=TO",
        type=_rule,
        help="other keys: a/b=c names all below a/b, 'a/*/x=b/*/y' keeps what * stands for",
    )
    what.add_argument(
        "--timestamps",
        choices=["original", "new"],
        default="new",
        help="original: those of the recording; new: set by session and routers (default: new)",
    )
    when = parser.add_argument_group("when")
    when.add_argument(
        "--rate",
        type=_rate,
        default=1.0,
        metavar="N|max",
        help="times the speed, such as 0.5 or 2x (default: 1)",
    )
    when.add_argument("--loop", type=_rounds, default=1, metavar="N", help="how often; 0 is until Ctrl-C")
    _options.add_seconds(when, "--max-gap", help="pauses of the recording last no longer")
    _options.add_seconds(
        when,
        "--wait-for-subscribers",
        help="begin when one of the first keys has a subscriber; exit code 3 if none has in time",
    )
    group = parser.add_argument_group("quality of service")
    group.add_argument(
        "--priority",
        type=int,
        choices=range(1, 8),
        help="1 (real time) to 7 (background); default: as recorded",
    )
    group.add_argument(
        "--congestion",
        choices=["recorded", *sorted(_options.CONGESTION)],
        default="block",
        help="policy when a queue is full (default: block, without losses)",
    )
    group.add_argument(
        "--express", action="store_true", default=None, help="past the batches (default: as recorded)"
    )
    _options.add_network(parser)


def run(
    args: argparse.Namespace, *, whole: bool = False, look: Callable[[recording.Recording], int] | None = None
) -> int:
    """Open the recordings of the options and publish them, until the end or until it is interrupted.

    Args:
        args: The options.
        whole: Whether damage is the end of a file, not an error.
        look: Called with the recordings before any is published; another exit code than 0 ends the command.

    Raises:
        RecordingError: A source is no recording.
    """
    try:
        recording.Remap(dict(args.remap))
        # Nothing of it is read yet.
        found = recording.read(
            *args.sources,
            format=args.format,
            columns=PLAYED,
            keys=args.keys,
            start=args.start,
            stop=args.stop,
            link=args.link,
            whole=whole,
        )
        code = look(found) if look else 0
    except ImportError as error:
        return _options.refuse(args.command, str(error), 1)
    except RecordingError:
        raise
    except ValueError as error:
        return _options.refuse(args.command, str(error), 2)
    return code or _publish(args, found)


def _publish(args: argparse.Namespace, found: recording.Recording) -> int:
    command = args.command
    state = _State(found, args.loop)
    with _options.stop_signals():
        try:
            with _options.open_session(args) as session, _progress.drawn(state.line):
                state.replay(session, args, dict(args.remap))
                session.flush(timeout=_PATIENCE)
        except TimedOut as error:
            if state.done is None and args.wait_for_subscribers is not None:
                return _options.refuse(command, str(error), 3)
            raise
        except ImportError as error:
            return _options.refuse(command, str(error), 1)
        finally:
            if state.done is not None:
                _options.say(_summary(state.done))
    return 1 if state.done is not None and state.done.unsent else 0


class _State:
    """Progress of a replay, and a recording that notes the position of its rows in the files."""

    def __init__(self, found: recording.Recording, loop: int | None) -> None:
        self._found = found
        self._size = found.size * loop if loop else None
        self._round = 0
        self._rows = [0]
        self._positions = [0]
        self.done: recording.Replayed | None = None

    def replay(self, session: zenoh.Session, args: argparse.Namespace, remap: dict[str, str]) -> None:
        recording.replay(
            session,
            self,
            rate=args.rate,
            loop=args.loop,
            remap=remap,
            timestamps=args.timestamps,
            max_gap=args.max_gap,
            priority=args.priority,
            congestion=None if args.congestion == "recorded" else args.congestion,
            express=args.express,
            wait_for_subscribers=args.wait_for_subscribers,
            progress=self.tell,
        )

    def __iter__(self) -> Iterator[Any]:
        # Rows are read ahead of those that are published.
        for batch in self._found:
            self._positions.append(self._round * self._found.size + self._found.position)
            self._rows.append(self._rows[-1] + batch.num_rows)
            yield batch
        self._round += 1

    def tell(self, done: recording.Replayed) -> None:
        self.done = done
        passed = bisect.bisect_right(self._rows, done.rows) - 1
        del self._rows[: max(0, passed)], self._positions[: max(0, passed)]

    def line(self, _seconds: float) -> str:
        done = self.done
        if done is None:
            return "waiting"
        said = f"{done.rows:,} samples, {done.played:.1f} s, late {done.late * 1000:.1f} ms"
        if not self._size:
            return said
        rows, positions = self._rows[:2], self._positions[:2]
        position = float(positions[0])
        if len(rows) == len(positions) == 2 and rows[1] > rows[0]:
            position += (done.rows - rows[0]) / (rows[1] - rows[0]) * (positions[1] - positions[0])
        return f"{_progress.bar(position / self._size)} {said}"


def _summary(done: recording.Replayed) -> str:
    late = f", late by {done.late * 1000:.1f} ms at most" if done.late else ""
    lost = f"; {done.unsent:,} of them went nowhere: there was no link" if done.unsent else ""
    return f"published {done.rows:,} samples, {done.bytes:,} bytes in {done.seconds:.3f} s{late}{lost}"


def _rule(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: expected FROM=TO")
    return old, new


def _when(text: str) -> dt.datetime | float:
    try:
        return _options.seconds(text)
    except argparse.ArgumentTypeError:
        pass
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        raise _options.expected("an instant as ISO 8601, or seconds from the beginning", text) from None


def _rate(text: str) -> float | None:
    if text == "max":
        return None
    try:
        number = float(text.removesuffix("x"))
    except ValueError:
        number = 0.0
    if not 0 < number <= 1e6:
        raise _options.expected("a speed, such as 0.5, 2x or max", text)
    return number


def _rounds(text: str) -> int | None:
    return _options.positive(text) if text != "0" else None
