"""Reads pcap and pcapng files, also compressed by gzip, and writes one record per message.

Zenoh is recognised on any port, over TCP, UDP, multicast and WebSocket; so are ZMTP, ZRE with its beacons,
ZRE/LOG and zgossip. Other traffic is left alone. Bytes that do not decode become a record that says where
and why. Messages under CURVE are encrypted; only their handshakes are decoded.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from zwire._lazy import pa, pq
from zwire.capture import Decoder, decode
from zwire.cli import _options, _progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EPILOG = """\
examples:
  zwire decode traffic.pcap
      one line per message
  zwire decode traffic.pcap --format jsonl | jq 'select(.message == "push") | .key'
      the keys of all publications
  zwire decode *.pcap.gz --format parquet -o traffic.parquet
      a table of several captures
  tcpdump -w - -U port 7447 | zwire decode -
      while it is captured
  zwire decode old.pcap --port 7447
      a session of Zenoh that is too short to be recognised
  zwire decode zre.pcap --format jsonl | jq 'select(.message == "shout") | [.peer, .group]'
      the sender and group of every shout
  zwire decode secure.pcap --curve-key @secrets.txt
      ZMTP under CURVE, with a file of secret keys
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="pcap or pcapng; - for the standard input")
    parser.add_argument(
        "--format",
        choices=["text", "jsonl", "arrow", "parquet"],
        default="text",
        help="readable text, one JSON object per line, Arrow IPC stream, or Parquet (default: text)",
    )
    _options.add_several(
        parser,
        "--port",
        metavar="N",
        type=_port,
        help="take everything on this TCP or UDP port for Zenoh; may be given several times",
    )
    parser.add_argument(
        "--curve-key",
        metavar="KEY",
        type=_keys,
        action="extend",
        default=[],
        help="secret CURVE key, Z85 or hexadecimal; @FILE for a file of them; may be given several times",
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT", type=Path, help="write to this file, not to the standard output"
    )


def run(args: argparse.Namespace) -> int:
    """Write all records."""
    if args.format in {"arrow", "parquet"}:
        if importlib.util.find_spec("pyarrow") is None:
            return _options.refuse("decode", f"{args.format} needs pyarrow: pip install 'zwire[arrow]'", 1)
        if args.output is None and sys.stdout.isatty():
            return _options.refuse(
                "decode", f"{args.format} is not for terminals: give -o FILE, or a pipe", 2
            )
    files = ["/dev/stdin" if name == "-" else name for name in args.files]
    if args.output is not None and any(_same(args.output, name) for name in files):
        return _options.refuse(
            "decode", f"{args.output} is one of the captures: writing there would empty it", 2
        )
    decoder = decode(*files, ports=args.port, keys=args.curve_key)
    with _options.stop_signals(), _shown(decoder, args.output), _output(args.output) as out:
        if args.format in {"arrow", "parquet"}:
            found = _table(decoder, args.format, out)
        else:
            found = _lines(decoder.text if args.format == "text" else decoder.jsonl, out)
    if not found:
        hint = "" if args.port else "; --port N where its port is known"
        _options.say(f"zwire decode: no Zenoh and no ZMTP in {' '.join(args.files)}{hint}")
    return 0


def _same(output: Path, name: str) -> bool:
    """Whether both are one regular file; a terminal or a pipe may be read and written."""
    return output.is_file() and Path(name).is_file() and output.samefile(name)


def _port(text: str) -> int:
    number = int(text)
    if not 0 < number < 1 << 16:
        raise ValueError
    return number


_port.__name__ = "port"  # argparse says "invalid port value"


def _keys(text: str) -> list[str]:
    # Another error would be shown with the value, and that is a secret.
    try:
        keys = Path(text[1:]).read_text(encoding="ascii").split() if text.startswith("@") else [text]
        decode(keys=keys)
    except (OSError, ValueError) as error:
        reason = f"{text[1:]}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise argparse.ArgumentTypeError(reason) from None
    return keys


@contextlib.contextmanager
def _output(path: Path | None) -> Iterator[BinaryIO]:
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with path.open("wb") as file:
        yield file


def _lines(more: Callable[[], bytes], out: BinaryIO) -> bool:
    found = False
    while text := more():
        out.write(text)
        out.flush()
        found = True
    return found


def _table(decoder: Decoder, form: str, out: BinaryIO) -> bool:
    found = False
    open_ = pa.ipc.new_stream if form == "arrow" else pq.ParquetWriter
    with open_(out, pa.schema(decoder)) as writer:
        for batch in decoder:
            table = pa.record_batch(batch)
            writer.write_batch(table)
            found = found or table.num_rows > 0
    return found


def _shown(decoder: Decoder, out: Path | None) -> contextlib.AbstractContextManager[None]:
    """Draw a bar if the records go elsewhere; decoding holds no lock of the interpreter."""
    if out is None and sys.stdout.isatty():
        return contextlib.nullcontext()
    return _progress.drawn(lambda seconds: _bar(decoder, seconds))


def _bar(decoder: Decoder, seconds: float) -> str:
    position, size = decoder.position, decoder.size
    rate = f"{position / max(seconds, 1e-3) / 1e6:.0f} MB/s"
    return f"{_progress.bar(position / size)} {rate}" if size else f"{position / 1e6:.1f} MB {rate}"
