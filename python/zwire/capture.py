"""Captured traffic: what is Zenoh in pcap and pcapng files, as Arrow batches or lines.

>>> from zwire.capture import decode
>>> for batch in decode("traffic.pcap.gz"):  # doctest: +SKIP
...     print(pyarrow.record_batch(batch).to_pydict())

Each network, scouting and session message is a row; so is each place where bytes of a session could not be
decoded. Whatever else the capture holds is left alone.

==================  =================================================================================
Column              Holds
==================  =================================================================================
``ts``              when the last byte was captured; in JSON Lines seconds since the UNIX epoch
``src``, ``dst``    ``ip:port`` of sender and receiver
``protocol``        ``zenoh``
``message``         ``push``, ``request``, ``response``, ``response_final``, ``declare``, ``undeclare``,
                    ``interest``, ``oam``; ``scout``, ``hello``; ``init``, ``open``, ``close``, ``join``;
                    ``error``
``kind``            ``put`` or ``del`` of a push; ``query`` of a request; ``put``, ``del`` or ``err`` of a
                    response; a declaration's noun (``subscriber``, ``queryable``, ``token``, ``keyexpr``,
                    ``final``); an interest's mode; ``syn`` or ``ack`` of init and open
``key``             the full key expression, with what was declared filled in
``scope``,          the key as on the wire, where its declaration is not in the capture and ``key`` is
``suffix``          null for that
``payload``         bytes; base64 in JSON Lines, as is ``attachment``
``encoding``        ``name`` or ``name;schema``
``timestamp``       ``instant/zid``, the instant as in RFC 3339
``attachment``      bytes
``priority``        0 (control) to 7 (background)
``congestion``      ``drop``, ``block``, ``block_first``
``express``         whether it was not to wait for more
``request_id``      joins a request, its responses and their end on one link
``parameters``      of a query, as are ``consolidation`` (``auto``, ``none``, ``monotonic``, ``latest``) and
                    ``target`` (``best_matching``, ``all``, ``all_complete``)
``sn``              sequence number of the frame; initial one of ``open``
``error``           what could not be decoded, and in ``offset`` where in the stream, datagram or file
==================  =================================================================================
"""

from __future__ import annotations

from typing import NamedTuple

from zwire._zwire import Decoder, FrameDecoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from os import PathLike
    from typing import TypeAlias

    from typing_extensions import Buffer

    Source: TypeAlias = str | PathLike[str] | Buffer
    IntoFrame: TypeAlias = (
        Buffer
        | tuple[Buffer | None]
        | tuple[Buffer | None, str | None]
        | tuple[Buffer | None, str | None, str | None]
        | tuple[Buffer | None, str | None, str | None, datetime | float | None]
    )

__all__ = ["Decoder", "Frame", "FrameDecoder", "decode", "decode_frames"]


class Frame(NamedTuple):
    """Some bytes of Zenoh, for :func:`decode_frames`; a plain tuple does as well."""

    data: Buffer | None
    """The bytes; None is none at all."""
    src: str | None = None
    """Who sent them: ``ip:port``, or any other name."""
    dst: str | None = None
    """To whom."""
    ts: datetime | float | None = None
    """When, in seconds since the UNIX epoch; a ``datetime`` without a zone is local time."""


def decode(
    *sources: Source,
    ports: Iterable[int] = (),
    max_rows: int = 32_768,
    max_bytes: int = 8 << 20,
) -> Decoder:
    """Decode captures, one after the other, in bounded memory.

    Args:
        sources: Paths of pcap or pcapng files, or buffers that hold one each; compressed by gzip or not.
        ports: TCP and UDP ports on which everything is Zenoh. Elsewhere a session is recognised by its
            handshake, or without one by a run of plausible batches.
        max_rows: Most rows of a batch.
        max_bytes: Most bytes of a batch, about; a message that is larger makes a batch of its own.

    Returns:
        An iterator of batches, which is also an Arrow stream: ``pyarrow.table(decode(path))``. Its methods
        ``jsonl`` and ``text`` give lines instead.

    Raises:
        DecodeError: A source is no capture. Damage further on in a file is a row.
        OSError: A source cannot be read.
    """
    return Decoder(list(sources), ports=list(ports), max_rows=max_rows, max_bytes=max_bytes)


def decode_frames(
    frames: Iterable[IntoFrame],
    *,
    stream: bool = True,
    max_rows: int = 32_768,
    max_bytes: int = 8 << 20,
) -> FrameDecoder:
    """Decode bytes of Zenoh that are in no capture, such as rows of a table or messages of a queue.

    What two ends say to each other is one session, in which declared keys, fragments and compression are
    followed as in a capture: its frames have to come in their order, those of different sessions may come in
    any. Its beginning may be missing. An INIT begins a new session between the same ends. Frames without ends
    are all taken for one side of one session.

    The columns are those of :func:`decode`. ``src`` and ``dst`` are as they were given, ``ts`` is that of the
    frame with the last byte of the message; what was not given is null.

    Args:
        frames: Buffers, or tuples ``(data, src, dst, ts)`` of which the last may be left out: see
            :class:`Frame`. They are taken as they are needed.
        stream: Frames are what was read from a connection, cut anywhere: batches with their lengths in front.
            Otherwise each is one batch or datagram without a length; messages of scouting are told from
            those of sessions by the port 7446.
        max_rows: Most rows of a batch.
        max_bytes: Most bytes of a batch, about; a message that is larger makes a batch of its own.

    Returns:
        An iterator of batches, which is also an Arrow stream: ``pyarrow.table(decode_frames(frames))``. Bytes
        that do not decode are a row with ``error``.

    Raises:
        TypeError: A frame is neither a buffer nor such a tuple; while iterating, as is whatever ``frames``
            raises itself.
    """
    return FrameDecoder(frames, stream=stream, max_rows=max_rows, max_bytes=max_bytes)
