"""Captures as tables."""

from pathlib import Path
from typing import assert_type

import zwire
from zwire.capture import Decoder, Frame, FrameDecoder, decode_frames


def files() -> None:
    decoder = zwire.decode("a.pcap", Path("b.pcapng"), b"\xd4\xc3\xb2\xa1", ports=[7447])
    assert_type(decoder, Decoder)
    for batch in decoder:
        assert_type(batch.num_rows, int)
        assert_type(batch.column_names, list[str])
    zwire.decode(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def frames() -> None:
    assert_type(decode_frames([b"x", Frame(b"y", "a", "b", 1.5)], stream=False), FrameDecoder)
    Frame(data="x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
