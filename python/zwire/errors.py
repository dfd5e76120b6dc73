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
      DefinitionError         also ValueError; type, field, file, line
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
        RemoteError           an exception of its program; type, message, traceback
      PayloadError            also ValueError; key, encoding, schema, path, offset
        UnknownEncoding       no codec reads it; known
        SchemaMismatch        a value of something else; expected
      StalePayload            also BufferError; a borrowed payload that its sender has taken back
      SpoolError              a spool that cannot be read or written; shard, offset
        SpoolCorrupt          octets that its writer did not write so, or that are missing; resumes
        OffsetOutOfRange      also LookupError; offsets that are no longer, or not yet, there
        SpoolDenied           a commit without its secret, a store without credentials
        SpoolLocked           another writer has it
        SpoolMismatch         another spool, or another one than wanted
        SpoolUnreachable      also TimeoutError; a range server or a store does not answer
      StorageError            a storage whose volume cannot be read or written; file, key
        StorageCorrupt        a file, or the entry of a key, that its checksums contradict
        StorageLocked         another storage has the folder
        NotDurable            also TimeoutError; seconds
      SinkError               a table of a lakehouse that cannot be read or written; table
        SinkConflict          another writer uses the same name

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
    "DefinitionError",
    "HandshakeError",
    "InvalidValue",
    "KeyExprError",
    "LinkClosed",
    "LocalProtocolError",
    "NotDurable",
    "NotSupported",
    "OffsetOutOfRange",
    "PayloadError",
    "ProtocolError",
    "QueryError",
    "QueueFull",
    "RecordingError",
    "RemoteError",
    "RemoteProtocolError",
    "RowError",
    "SchemaMismatch",
    "SessionClosed",
    "SinkConflict",
    "SinkError",
    "SpoolCorrupt",
    "SpoolDenied",
    "SpoolError",
    "SpoolLocked",
    "SpoolMismatch",
    "SpoolUnreachable",
    "StalePayload",
    "StorageCorrupt",
    "StorageError",
    "StorageLocked",
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


class DefinitionError(ZwireError, ValueError):
    """A definition of a ROS 2 type that cannot be read, or a type without a definition.

    ``type`` is the name of the type, ``field`` that of a field, ``file`` a path and ``line`` the line in the
    text of the type, counted from 1; each is ``None`` if it is not known.
    """

    type: str | None
    field: str | None
    file: str | None
    line: int | None


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


class RemoteError(QueryError):
    """An exception that the program of a queryable raised while it answered.

    ``type`` is the name of its class, such as ``ValueError`` or ``fleet.errors.NoRoute``, ``message`` is its
    text. ``traceback`` is ``None``, unless the session of the queryable has ``traceback`` as
    ``zwire/handler/error_reply``. ``payload`` and ``encoding`` are those of the reply.
    """

    type: str | None
    message: str | None
    traceback: str | None


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


class StalePayload(ZwireError, BufferError):
    """A payload that was borrowed from eclipse-zenoh (``zwire/shared_memory/borrow``) and taken back.

    Its sender has given the memory to another payload, or may do so at any moment. No bytes of it are
    returned.
    """


class SinkError(ZwireError):
    """A table of a lakehouse that cannot be read or written; ``table`` is its address."""

    table: str | None


class SinkConflict(SinkError):
    """A batch that another writer with the same name may have written; nothing was appended to ``table``."""


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
    """A range server or an object store that did not answer, or answered with errors, for too long.

    ``shard`` and ``offset`` are the place up to which rows were read, if reading had begun.
    """


class OffsetOutOfRange(SpoolError, LookupError):
    """Offsets that were deleted already, or not written yet; the message has the range available.

    ``shard`` and ``offset`` are the requested place.
    """


class SpoolDenied(SpoolError):
    """A commit over the network that the range server refuses: without a secret, or with the wrong one.

    Or an object store that refuses the credentials of the process, which may have expired. ``shard`` and
    ``offset`` are the place up to which rows were read from it, and otherwise ``None``.
    """


class SpoolLocked(SpoolError):
    """Another writer has the spool; ``shard`` and ``offset`` are ``None``."""


class SpoolMismatch(SpoolError):
    """A spool other than the expected one, or of another shape; ``shard`` and ``offset`` are ``None``."""


class StorageError(ZwireError):
    """A volume of a storage that cannot be read or written; ``file`` is the file concerned, if there is one.

    ``key`` is the key concerned, ``None`` if it is the whole volume.
    """

    file: str | None
    key: str | None


class StorageCorrupt(StorageError):
    """A file of a storage that differs from what was written, or the entry of ``key`` in it."""


class StorageLocked(StorageError):
    """Another storage, of this process or another one, has the folder of ``file``; ``key`` is ``None``."""


class NotDurable(StorageError, TimeoutError):
    """Updates that are not on the disk after ``seconds``.

    They may be later, unless the volume has refused them or the queue has dropped them: then the message
    counts them.

    ``file`` and ``key`` are ``None``: the message has the reason.
    """

    seconds: float | None
