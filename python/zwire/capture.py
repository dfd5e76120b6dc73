r"""Captured traffic: the Zenoh, ZMTP and ZRE messages in pcap and pcapng files, as Arrow batches or lines.

>>> from zwire.capture import decode
>>> for batch in decode("traffic.pcap.gz"):  # doctest: +SKIP
...     print(pyarrow.record_batch(batch).to_pydict())

Each message is a row; so is each place where bytes that belong to one of the protocols could not be decoded.
Other traffic is ignored.

==================  =================================================================================
Column              Holds
==================  =================================================================================
``ts``              when the last byte was captured; in JSON Lines seconds since the UNIX epoch
``src``, ``dst``    ``ip:port`` of sender and receiver
``protocol``        ``zenoh``; ``zre``, ``zrelog``; ``zmtp`` for what other applications say over it, and for
                    what its sockets say; null where the capture file is damaged
``message``         Zenoh: ``push``, ``request``, ``response``, ``response_final``, ``declare``,
                    ``undeclare``, ``interest``, ``oam``; ``scout``, ``hello``; ``init``, ``open``,
                    ``close``, ``join``. ZRE: ``beacon``, ``hello``, ``whisper``, ``shout``, ``join``,
                    ``leave``, ``ping``, ``ping_ok``, ``goodbye``, ``elect``, ``leader``; ``gossip``. ZRE/LOG:
                    ``log``. ZMTP: ``greeting``, ``command``, ``message``. Everywhere: ``error``
``kind``            ``put`` or ``del`` of a push; ``query`` of a request; ``put``, ``del`` or ``err`` of a
                    response; a declaration's noun (``subscriber``, ``queryable``, ``token``, ``keyexpr``,
                    ``final``); an interest's mode; ``syn`` or ``ack`` of init and open. Of ZRE the generation
                    (``20``, ``zyre1``, ``36``, ``43``), of a beacon ``goodbye`` or null, of a gossip and a
                    log what happened; of a ZMTP command its name, of a greeting the mechanism, ``encrypted``
                    of a frame that no key has opened
``key``             the full key expression, with declared keys resolved
``scope``,          the key as on the wire, where its declaration is not in the capture and ``key`` is
``suffix``          null for that
``payload``         bytes; base64 in JSON Lines, as are ``attachment`` and ``content``. Of a ZMTP command what
                    follows its name: the topic of ``subscribe`` and ``cancel``, the context of ``ping``
``encoding``        ``name`` or ``name;schema``
``timestamp``       the time stamp, of a log its time; in JSON Lines ``instant/zid``, the instant as in
                    RFC 3339, and no ``hlc`` and ``hlc_id``
``hlc``,            all 64 bits of the time stamp, and the id of its clock as on the wire; null of a log
``hlc_id``
``attachment``      bytes
``priority``        0 (control) to 7 (background)
``congestion``      ``drop``, ``block``, ``block_first``
``express``         whether it was not to wait for more
``request_id``      joins a request, its responses and their end on one link
``parameters``      of a query, as are ``consolidation`` (``auto``, ``none``, ``monotonic``, ``latest``) and
                    ``target`` (``best_matching``, ``all``, ``all_complete``)
``sn``              sequence number of the frame; initial one of ``open``
``peer``            UUID of the node of ZRE that sent it, 32 upper-case hexadecimal digits; of a gossip that
                    of the node it is about
``name``            of a HELLO of ZRE; null of nodes that have none (before 36/ZRE)
``address``         where the node listens, ``tcp://ip:port``: of a HELLO, a beacon, a gossip
``group``           of shout, join, leave, elect and leader
``sequence``        number of a message of ZRE
``status``          how often the node joined or left a group: of hello, join and leave
``groups``          those of a HELLO, a list of strings
``headers``         names and values, a map (an object in JSON Lines): the headers of a HELLO; the properties
                    of a ZMTP handshake; ``X-PUBLICKEY`` of a beacon; ``level``, ``node`` and ``peer``
                    (hashes) of a log; ``challenger`` of elect, ``leader`` of leader; ``key``, ``value`` and
                    ``ttl`` of a gossip
``content``         frames of a whisper, a shout or a ZMTP message, a list of bytes; the text of a log
``error``           what could not be decoded, and in ``offset`` where in the stream, datagram or file
==================  =================================================================================

Texts of ZRE and ZMTP have no declared character set; one that is not UTF-8 is written with ``\xNN``.

A ZMTP connection is known by its greeting, on any port. If the greeting is not in the capture, it is known
by messages of ZRE, ZRE/LOG or zgossip and by commands, and a row with ``error`` says that its beginning is
missing: its messages have no ``peer``. Under CURVE the handshake is decoded and the rest is ``encrypted``,
unless ``keys`` are given.
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
    """A frame of Zenoh, for :func:`decode_frames`; a plain tuple is accepted as well.

    ::

        import pyarrow

        put = bytes.fromhex("25003d000664656d6f2f61010178")
        frame = capture.Frame(len(put).to_bytes(2, "little") + put, "10.0.0.7:40000", "10.0.0.1:7447")
        (row,) = pyarrow.table(capture.decode_frames([frame])).to_pylist()
        print(row["src"], row["key"])  # 10.0.0.7:40000 demo/a
    """

    data: Buffer | None
    """The bytes; None for an absent value."""
    src: str | None = None
    """Address of the sender: ``ip:port``, or any other name."""
    dst: str | None = None
    """Address of the receiver, likewise."""
    ts: datetime | float | None = None
    """Time in seconds since the UNIX epoch; a ``datetime`` without a zone is local time."""


def decode(
    *sources: Source,
    ports: Iterable[int] = (),
    keys: Iterable[str | Buffer] = (),
    max_rows: int = 32_768,
    max_bytes: int = 8 << 20,
) -> Decoder:
    """Decode captures, one after the other, in bounded memory.

    Args:
        sources: Paths of pcap or pcapng files, or buffers that hold one each; compressed by gzip or not.
        ports: TCP and UDP ports on which everything is Zenoh. Elsewhere a session is recognised by its
            handshake, or without one by a run of plausible batches.
        keys: Secret CURVE keys, each as Z85 (40 characters), as 64 hexadecimal digits, or as 32 bytes. A
            connection is decrypted with the transient secret of one of its ends; with that of the
            client a permanent secret of the server is needed as well. At most 1,024.
        max_rows: Most rows of a batch.
        max_bytes: Approximate limit on the bytes of a batch; a larger message makes a batch of its own.

    Returns:
        An iterator of batches, which is also an Arrow stream: ``pyarrow.table(decode(path))``. Its methods
        ``jsonl`` and ``text`` give lines instead.

    Raises:
        DecodeError: A source is no capture. Damage further on in a file is a row.
        OSError: A source cannot be read.
        ValueError: A key is invalid, or an option is out of its bounds.
    """
    secrets = [_key(key) for key in keys]
    return Decoder(list(sources), ports=list(ports), keys=secrets, max_rows=max_rows, max_bytes=max_bytes)


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def _key(key: str | Buffer) -> bytes:
    """Return the 32 bytes of a key; the error for an invalid one does not repeat its text."""
    if not isinstance(key, str):
        octets = bytes(key)
    elif len(key) == 64:
        octets = bytes.fromhex(key)
    elif len(key) == 40 and not set(key) - set(_Z85):
        words = [key[at : at + 5] for at in range(0, 40, 5)]
        values = [sum(_Z85.index(c) * 85 ** (4 - i) for i, c in enumerate(word)) for word in words]
        octets = b"".join(value.to_bytes(4, "big") for value in values if value < 1 << 32)
    else:
        octets = b""
    if len(octets) != 32:
        raise ValueError("a CURVE key is 40 characters of Z85, 64 hexadecimal digits or 32 bytes")
    return octets


def decode_frames(
    frames: Iterable[IntoFrame],
    *,
    stream: bool = True,
    max_rows: int = 32_768,
    max_bytes: int = 8 << 20,
) -> FrameDecoder:
    """Decode bytes of Zenoh that are in no capture, such as rows of a table or messages of a queue.

    Frames between the same two ends are one session, in which declared keys, fragments and compression are
    followed as in a capture: they have to come in order; frames of different sessions may be interleaved.
    The beginning of a session may be missing. An INIT begins a new session between the same ends. Frames
    without ends are all taken for one side of one session.

    The columns are those of :func:`decode`. ``src`` and ``dst`` are those given, ``ts`` is that of the
    frame with the last byte of the message; values not given are null.

    Args:
        frames: Buffers, or tuples ``(data, src, dst, ts)`` of which the last may be left out: see
            :class:`Frame`. They are consumed as needed.
        stream: Frames are pieces of a stream, cut anywhere: batches prefixed by their lengths.
            Otherwise each is one batch or datagram without a length; messages of scouting are told from
            those of sessions by the port 7446.
        max_rows: Most rows of a batch.
        max_bytes: Approximate limit on the bytes of a batch; a larger message makes a batch of its own.

    Returns:
        An iterator of batches, which is also an Arrow stream: ``pyarrow.table(decode_frames(frames))``. Bytes
        that do not decode are a row with ``error``.

    Raises:
        TypeError: A frame is neither a buffer nor such a tuple; raised while iterating, like any error of
            ``frames`` itself.
    """
    return FrameDecoder(frames, stream=stream, max_rows=max_rows, max_bytes=max_bytes)
