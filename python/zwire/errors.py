"""Errors of zwire, as a tree.

::

    ZwireError
      ConfigError             also ValueError; path, nearest
      UsageError              forked process, undeclared object, a call that makes no sense there
        SessionClosed
      InvalidValue            also ValueError; no timestamp, id or matcher
      KeyExprError            also ValueError; a key expression that is not legal
      RowError                also ValueError; row, key, reason
      RecordingError          also ValueError; file, rows
      UnknownPeer             also LookupError; peer
      NotSupported            also NotImplementedError; what eclipse-zenoh has and this does not
      TransportError
        ConnectError          also ConnectionError; endpoint
          HandshakeError      endpoint, reason
            AuthenticationError  endpoint, reason
        LinkClosed            reason, by_peer
        TimedOut              also TimeoutError; seconds
        QueueFull
        Unreachable           identity
        Undelivered           rows, missing
      ProtocolError           abstract
        LocalProtocolError    we were about to break a rule
        RemoteProtocolError   the peer did
          DecodeError         also ValueError; reading, offset
      QueryError              a queryable answered with an error; payload, encoding
      PayloadError            also ValueError; key, encoding, schema, path, offset
        UnknownEncoding       no codec reads it; known
        SchemaMismatch        a value of something else; expected
      SpoolError              a spool that cannot be read or written; shard, offset
        SpoolCorrupt          octets that its writer did not write so, or that are missing; resumes
        OffsetOutOfRange      also LookupError; offsets that are no longer, or not yet, there
        SpoolDenied           a commit without the secret of its consumer
        SpoolLocked           another writer has it
        SpoolMismatch         another spool, or another one than wanted
        SpoolUnreachable      also TimeoutError; a range server does not answer

Every class pickles. ``zwire.zenoh.ZError`` is another name of :class:`ZwireError`.
"""

# ruff: noqa: N818 - the names say what happened, not each time that it is an error.

from __future__ import annotations

# Type checkers go by this name; importing it from typing would take half the time of our import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

__all__ = [
    "AuthenticationError",
    "ConfigError",
    "ConnectError",
    "DecodeError",
    "HandshakeError",
    "InvalidValue",
    "KeyExprError",
    "LinkClosed",
    "LocalProtocolError",
    "NotSupported",
    "OffsetOutOfRange",
    "PayloadError",
    "ProtocolError",
    "QueryError",
    "QueueFull",
    "RecordingError",
    "RemoteProtocolError",
    "RowError",
    "SchemaMismatch",
    "SessionClosed",
    "SpoolCorrupt",
    "SpoolDenied",
    "SpoolError",
    "SpoolLocked",
    "SpoolMismatch",
    "SpoolUnreachable",
    "TimedOut",
    "TransportError",
    "Undelivered",
    "UnknownEncoding",
    "UnknownPeer",
    "Unreachable",
    "UsageError",
    "ZwireError",
]


class ZwireError(Exception):
    """Base of all errors that zwire raises.

    Keyword arguments become attributes; classes that have some annotate them.
    """

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Add the annotated names to the fields of the base."""
        own = [name for name in cls.__annotations__ if name not in cls._fields]
        cls._fields = (*cls._fields, *own)

    def __init__(self, *args: object, **fields: object) -> None:
        """Keep message and further arguments, and one attribute per field, ``None`` if it is not given."""
        super().__init__(*args)
        unknown = fields.keys() - set(self._fields)
        if unknown:
            names = ", ".join(sorted(unknown))
            raise TypeError(f"{type(self).__name__} has no field {names}")
        for name in self._fields:
            setattr(self, name, fields.get(name))

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from arguments and fields."""
        fields = {name: getattr(self, name) for name in self._fields}
        return _rebuild, (type(self), self.args, fields)


def _rebuild(cls: type[ZwireError], args: tuple[Any, ...], fields: dict[str, Any]) -> ZwireError:
    return cls(*args, **fields)


class ConfigError(ZwireError, ValueError):
    """A configuration that cannot be used; ``path`` names the key, ``nearest`` a known one like it."""

    path: str | None
    nearest: str | None


class UsageError(ZwireError):
    """An undeclared object, one inherited over a fork, or a call that is not possible in this place."""


class SessionClosed(UsageError):
    """The session, node or socket is closed: raised by calls that wait for it or use it afterwards."""


class InvalidValue(ZwireError, ValueError):
    """A text, number or id that is no valid timestamp, node id, encoding or matcher."""


class KeyExprError(ZwireError, ValueError):
    """A key expression that is not legal or not canonical; ``offset`` is the byte where it is wrong."""

    offset: int | None


class RowError(ZwireError, ValueError):
    """A row of a batch that cannot be published; the rows before it are.

    ``row`` counts from 0, ``key`` is the key in the row, ``reason`` says what is wrong.
    """

    row: int | None
    key: str | None
    reason: str | None


class RecordingError(ZwireError, ValueError):
    """A recording that cannot be read, or not to its end, or cannot be written in a format.

    ``file`` is its path, ``rows`` the number of rows read before the error.
    """

    file: str | None
    rows: int | None


class UnknownPeer(ZwireError, LookupError):
    """No node with that UUID is known, or it has not sent HELLO yet; ``peer`` is the UUID."""

    peer: str | None


class NotSupported(ZwireError, NotImplementedError):
    """A feature of eclipse-zenoh that does not exist here; the message says why."""


class TransportError(ZwireError):
    """An error of the network or of a connection."""


class ConnectError(TransportError, ConnectionError):
    """No session could be opened; ``endpoint`` is the last one tried, if any was."""

    endpoint: str | None


class HandshakeError(ConnectError):
    """The node at ``endpoint`` rejects the connection; ``reason`` is the reason as a keyword."""

    reason: str | None


class AuthenticationError(HandshakeError):
    """A key or password is wrong, on this side or on the other; see ``endpoint`` and ``reason``."""


class LinkClosed(TransportError):
    """The link ended; ``reason`` is that of the protocol, ``by_peer`` whether the peer closed it."""

    reason: str | None
    by_peer: bool | None


class TimedOut(TransportError, TimeoutError):
    """No result came in time; ``seconds`` is the length of the wait."""

    seconds: float | None


class QueueFull(TransportError):
    """A bounded queue did not take the message within its deadline."""


class Unreachable(TransportError):
    """No peer of a ROUTER has this ``identity``."""

    identity: bytes | None


class Undelivered(TransportError):
    """Rows that did not arrive: ``missing`` of ``rows`` sent, as reported by the intended receivers."""

    rows: int | None
    missing: int | None


class ProtocolError(ZwireError):
    """A broken rule of the protocol; the two subclasses tell on which side."""


class LocalProtocolError(ProtocolError):
    """A rule that this side was about to break; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer broke a rule."""


class DecodeError(RemoteProtocolError, ValueError):
    """Bytes that do not decode; ``reading`` names message and field, ``offset`` counts bytes."""

    reading: str | None
    offset: int | None


class QueryError(ZwireError):
    """An error reply of a queryable; ``payload`` is its content, in the format of ``encoding``."""

    payload: bytes | None
    encoding: str | None


class PayloadError(ZwireError, ValueError):
    """A payload that is no value of its model, or a value without a form in the encoding.

    ``key`` is the key of the publication, ``encoding`` and ``schema`` are those declared with the payload.
    ``path`` names the part of the value, such as ``pose.points[3].x``, ``offset`` the byte of the payload;
    both are ``None`` if unknown.
    """

    key: str | None
    encoding: str | None
    schema: str | None
    path: str | None
    offset: int | None


class UnknownEncoding(PayloadError):
    """An encoding that no codec reads; ``known`` lists the encodings with a codec.

    ``path`` and ``offset`` are ``None``; ``key``, ``encoding`` and ``schema`` are as in the parent.
    """

    known: list[str] | None


class SchemaMismatch(PayloadError):
    """A payload with a ``schema`` other than the ``expected`` one; nothing of it was decoded.

    ``path`` and ``offset`` are ``None``; ``key`` and ``encoding`` are as in the parent.
    """

    expected: str | None


class SpoolError(ZwireError):
    """A spool that cannot be read or written: a missing folder, a full disk, an unknown name.

    ``shard`` and ``offset`` are the place; -1 stands for the log of gaps. They are ``None`` if the error is
    about the spool as a whole; the message has the file.
    """

    shard: int | None
    offset: int | None


class SpoolCorrupt(SpoolError):
    """Bytes of a spool that differ from those written, or are missing; none of them are served.

    ``shard`` and ``offset`` are those of the first row that cannot be read. ``resumes`` is the offset from
    which on rows may be readable again; ``None`` where that is not known.
    """

    resumes: int | None


class SpoolUnreachable(SpoolError, TimeoutError):
    """A range server that did not answer, or stopped in the middle of a range, for too long.

    ``shard`` and ``offset`` are the place up to which rows were read, if reading had begun.
    """


class OffsetOutOfRange(SpoolError, LookupError):
    """Offsets that were deleted already, or not written yet; the message has the range available.

    ``shard`` and ``offset`` are the requested place.
    """


class SpoolDenied(SpoolError):
    """A commit over the network that the range server refuses: without a secret, or with the wrong one.

    ``shard`` and ``offset`` are ``None``.
    """


class SpoolLocked(SpoolError):
    """Another writer has the spool; ``shard`` and ``offset`` are ``None``."""


class SpoolMismatch(SpoolError):
    """A spool other than the expected one, or of another shape; ``shard`` and ``offset`` are ``None``."""
