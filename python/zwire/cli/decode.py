"""Reads pcap and pcapng files, also compressed by gzip, and writes one record per message.

Zenoh is recognised on any port, over TCP, UDP, multicast and WebSocket; so are ZMTP, ZRE with its beacons,
ZRE/LOG and zgossip. Other traffic is left alone. Bytes that do not decode become a record that says where
and why. Messages under CURVE are encrypted; only their handshakes are decoded. The exit code is 3 if there
is no message.
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
from zwire.cli import _format, _options, _progress
from zwire.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EPILOG = """\
examples:
  zwire decode traffic.pcap
      one line per message
  zwire decode traffic.pcap --format jsonl | jq 'select(.message == "push") | .key'
      the keys of all publications
  zwire decode *.pcap.gz -o traffic.parquet
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
        help="readable text, one JSON object per line, Arrow IPC stream, or Parquet "
        "(default: by the name of the output, else text)",
    )
    _format.add_payload(parser)
    _options.add_several(
        parser,
        "--port",
        metavar="N",
        type=_options.port,
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
    kind = args.format or _options.kind_of(args.output) or "text"
    if kind == "mcap":
        return _options.refuse("decode", "records of captures are no MCAP: text, jsonl, arrow or parquet", 2)
    if kind in {"arrow", "parquet"}:
        if importlib.util.find_spec("pyarrow") is None:
            return _options.refuse("decode", f"{kind} needs pyarrow: pip install 'zwire[arrow]'", 1)
        if args.output is None and sys.stdout.isatty():
            return _options.refuse("decode", f"{kind} is not for terminals: give -o FILE, or a pipe", 2)
    if "-" in args.files and not Path("/dev/stdin").exists():
        return _options.refuse("decode", "this system has no /dev/stdin: give the name of a file", 2)
    files = ["/dev/stdin" if name == "-" else name for name in args.files]
    if args.output is not None and any(_same(args.output, name) for name in files):
        return _options.refuse(
            "decode", f"{args.output} is one of the captures: writing there would empty it", 2
        )
    with _options.stop_signals():
        try:
            found = _decode(args, files, kind)
        except DecodeError as error:
            if error.offset != 0 or error.reading not in {"capture file magic", "capture file header"}:
                raise
            name = str(error).partition(": capture file")[0].replace("/dev/stdin", "the standard input")
            return _options.refuse("decode", f"{name} is no capture: neither pcap nor pcapng", 1)
    if not found:
        hint = "" if args.port else "; --port N where its port is known"
        return _options.refuse("decode", f"no Zenoh and no ZMTP in {' '.join(args.files)}{hint}", 3)
    return 0


def _decode(args: argparse.Namespace, files: list[str], kind: str) -> bool:
    """Write the records; return whether there are any."""
    decoder = decode(*files, ports=args.port, keys=args.curve_key)
    with _shown(decoder, args.output), _output(args.output) as out:
        if kind in {"arrow", "parquet"}:
            return _table(decoder, kind, out)
        return _lines(decoder.text if kind == "text" else _records(decoder, args.payload), out)


def _same(output: Path, name: str) -> bool:
    """Whether both are one regular file; a terminal or a pipe may be read and written."""
    return output.is_file() and Path(name).is_file() and output.samefile(name)


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


def _records(decoder: Decoder, form: str) -> Callable[[], bytes]:
    """Return a function that gives the next lines, with payloads in that form; empty at the end."""

    def more() -> bytes:
        lines = decoder.jsonl().splitlines(keepends=True)
        return b"".join(_format.decoded_line(line, form) for line in lines)

    return more


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
