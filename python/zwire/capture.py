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

from zwire._zwire import Decoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike
    from typing import TypeAlias

    from typing_extensions import Buffer

    Source: TypeAlias = str | PathLike[str] | Buffer

__all__ = ["Decoder", "decode"]


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
