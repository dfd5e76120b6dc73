"""Reads recordings to their end first, and publishes none of them if one is damaged.

A damaged file is reported with the byte up to which it is whole; `--whole` plays it up to there.
Otherwise the command is `zwire replay`, with the same options.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zwire import recording
from zwire.cli import _options, _playing, _progress
from zwire.errors import RecordingError

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire play run.mcap
      to a hub on this machine, as fast as it was recorded
  zwire play run-*.mcap --keys 'robot/*/pose' --rate 2x --loop 3
      the files of a rotation, three times
  zwire play run.mcap --whole
      a file whose recorder was killed
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--whole", action="store_true", help="play damaged files up to their damage (default: refuse them)"
    )
    _playing.configure(parser)


def run(args: argparse.Namespace) -> int:
    """Look for damage, then publish."""
    return _playing.run(args, whole=args.whole, look=lambda found: _refused(args, found))


def _refused(args: argparse.Namespace, found: recording.Recording) -> int:
    """Report damage and losses; return an exit code other than 0 if nothing shall be published."""
    # A wrong configuration is reported before files are read to their end.
    _options.session_config(args)
    with _options.stop_signals():
        damaged = _look(args, found.size)
    for damage in damaged:
        place = f"damaged at byte {damage.offset} of {damage.size}"
        _options.say(f"zwire play: {damage.file}: {place}, {damage.rows} samples before it: {damage.problem}")
    if damaged and not args.whole:
        return _options.refuse("play", "nothing was published; --whole plays what is before the damage", 1)
    for source in args.sources:
        _losses(Path(source))
    return 0


def _look(args: argparse.Namespace, size: int) -> list[recording.Damage]:
    at = 0

    def progress(position: int) -> None:
        nonlocal at
        at = position

    with _progress.drawn(lambda _seconds: f"{_progress.bar(at / max(size, 1))} looking for damage"):
        return recording.damage(*args.sources, format=args.format, progress=progress)


def _losses(path: Path) -> None:
    """Say what the recorder has missed."""
    if not path.is_file():
        return
    try:
        known = recording.losses(path)
    except RecordingError as error:
        # The rows do not depend on it.
        _options.say(f"note: {error}")
        return
    if known:
        missing = sum(loss.samples or 0 for loss in known)
        reasons = ", ".join(dict.fromkeys(loss.reason for loss in known))
        _options.say(f"note: {path} names {len(known)} losses, {missing} samples: {reasons}")
