"""What can go wrong, as a tree.

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
        SpoolLocked           another writer has it
        SpoolMismatch         another spool, or another one than wanted
        SpoolUnreachable      also TimeoutError; a range server does not answer

Every class pickles. ``zwire.zenoh.ZError`` is another name of :class:`ZwireError`.
"""

# ruff: noqa: N818 - the names say what happened, not each time that it is an error.

from __future__ import annotations

# A checker takes this name for what it says; importing it from typing would be half the time of our import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
    """Anything that zwire raises on its own account.

    Keyword arguments become attributes; classes that have some list them.
    """

    _fields: tuple[str, ...] = ()

    def __init__(self, *args: object, **fields: object) -> None:
        """Keep message and further arguments, and one attribute per field, ``None`` where it is not given."""
        super().__init__(*args)
        unknown = fields.keys() - set(self._fields)
        if unknown:
            names = ", ".join(sorted(unknown))
            problem = f"{type(self).__name__} has no field {names}"
            raise TypeError(problem)
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

    _fields = ("path", "nearest")
    path: str | None
    nearest: str | None


class UsageError(ZwireError):
    """An undeclared object, one of another process after a fork, or a call that makes no sense there."""


class SessionClosed(UsageError):
    """The session, node or socket is closed: whoever waited for it or uses it afterwards hears this."""


class InvalidValue(ZwireError, ValueError):
    """A text, number or id out of which no timestamp, node id, encoding or matcher can be made."""


class KeyExprError(ZwireError, ValueError):
    """A key expression that is not legal or not canonical; ``offset`` is the byte where it is wrong."""

    _fields = ("offset",)
    offset: int | None


class RowError(ZwireError, ValueError):
    """A row of a batch that cannot be published; those before it are.

    ``row`` counts from 0, ``key`` is as the row says it, ``reason`` what is wrong with it.
    """

    _fields = ("row", "key", "reason")
    row: int | None
    key: str | None
    reason: str | None


class RecordingError(ZwireError, ValueError):
    """A recording that cannot be read, not to its end, or cannot be written in a format.

    ``file`` is its path, ``rows`` how many of it could be read before.
    """

    _fields = ("file", "rows")
    file: str | None
    rows: int | None


class UnknownPeer(ZwireError, LookupError):
    """No node of that UUID is there, or none that has said HELLO; ``peer`` is the UUID."""

    _fields = ("peer",)
    peer: str | None


class NotSupported(ZwireError, NotImplementedError):
    """Something that eclipse-zenoh has and that does not exist here; the message says why."""


class TransportError(ZwireError):
    """The network, or what stands for it."""


class ConnectError(TransportError, ConnectionError):
    """No session could be opened; ``endpoint`` is the last one that was tried, if any was."""

    _fields: tuple[str, ...] = ("endpoint",)
    endpoint: str | None


class HandshakeError(ConnectError):
    """Somebody is at ``endpoint`` who does not let us in; ``reason`` says why in a word."""

    _fields = ("endpoint", "reason")
    reason: str | None


class AuthenticationError(HandshakeError):
    """A key or password is wrong, theirs or ours; see ``endpoint`` and ``reason``."""


class LinkClosed(TransportError):
    """The link ended; ``reason`` is that of the protocol, ``by_peer`` who closed it."""

    _fields = ("reason", "by_peer")
    reason: str | None
    by_peer: bool | None


class TimedOut(TransportError, TimeoutError):
    """Nothing came in time; ``seconds`` is how long was waited."""

    _fields = ("seconds",)
    seconds: float | None


class QueueFull(TransportError):
    """A bounded queue did not take the message within its deadline."""


class Unreachable(TransportError):
    """No peer of a ROUTER has this ``identity``."""

    _fields = ("identity",)
    identity: bytes | None


class Undelivered(TransportError):
    """Of ``rows`` that were sent ``missing`` have not arrived, as those say who should have them."""

    _fields = ("rows", "missing")
    rows: int | None
    missing: int | None


class ProtocolError(ZwireError):
    """A rule of the protocol; see the two subclasses for whose fault it is."""


class LocalProtocolError(ProtocolError):
    """We were about to break a rule; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer broke a rule."""


class DecodeError(RemoteProtocolError, ValueError):
    """Bytes that do not decode; ``reading`` names message and field, ``offset`` counts bytes."""

    _fields = ("reading", "offset")
    reading: str | None
    offset: int | None


class QueryError(ZwireError):
    """A queryable answered with an error; ``payload`` says which, in the format of ``encoding``."""

    _fields = ("payload", "encoding")
    payload: bytes | None
    encoding: str | None


class PayloadError(ZwireError, ValueError):
    """A payload that is no value of its model, or a value that the encoding has no form for.

    ``key`` is where it was published, ``encoding`` and ``schema`` are what it says it is. ``path`` names the
    part of the value, such as ``pose.points[3].x``, ``offset`` the byte of the payload; both are ``None``
    where nobody knows.
    """

    _fields: tuple[str, ...] = ("key", "encoding", "schema", "path", "offset")
    key: str | None
    encoding: str | None
    schema: str | None
    path: str | None
    offset: int | None


class UnknownEncoding(PayloadError):
    """An encoding that no codec reads; ``known`` lists those that one does, the rest is as in the parent.

    ``path`` and ``offset`` are ``None``; ``key``, ``encoding`` and ``schema`` say whose it is.
    """

    _fields = (*PayloadError._fields, "known")
    known: list[str] | None


class SchemaMismatch(PayloadError):
    """A payload whose ``schema`` is not the ``expected`` one; nothing of it was decoded.

    ``path`` and ``offset`` are ``None``; ``key`` and ``encoding`` say whose it is.
    """

    _fields = (*PayloadError._fields, "expected")
    expected: str | None


class SpoolError(ZwireError):
    """A spool that cannot be read or written: a missing folder, a full disk, a name of nothing.

    ``shard`` and ``offset`` say where; -1 stands for the log of gaps. They are ``None`` where the error is
    about the spool as a whole; the message has the file.
    """

    _fields: tuple[str, ...] = ("shard", "offset")
    shard: int | None
    offset: int | None


class SpoolCorrupt(SpoolError):
    """Octets of a spool that its writer did not write so, or that are missing; nothing of them is served.

    ``shard`` and ``offset`` are those of the first row that cannot be read. ``resumes`` is the offset from
    which on rows may be readable again; ``None`` where that is not known.
    """

    _fields = (*SpoolError._fields, "resumes")
    resumes: int | None


class SpoolUnreachable(SpoolError, TimeoutError):
    """A range server that does not answer, or has stopped in the middle of a range, for too long.

    ``shard`` and ``offset`` say how far reading has come, where it had begun.
    """


class OffsetOutOfRange(SpoolError, LookupError):
    """Offsets that were deleted already, or not written yet; the message has what is there.

    ``shard`` and ``offset`` are those that were asked for.
    """


class SpoolLocked(SpoolError):
    """Another writer has the spool; ``shard`` and ``offset`` are ``None``."""


class SpoolMismatch(SpoolError):
    """Another spool, or one of another shape than wanted; ``shard`` and ``offset`` are ``None``."""
