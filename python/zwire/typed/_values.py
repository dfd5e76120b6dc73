"""Payloads and values: writers and readers for a model, and their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from zwire.errors import PayloadError, SchemaMismatch, UnknownEncoding
from zwire.typed import _formats
from zwire.typed._registry import Registry, registry
from zwire.typed._tree import Misfit
from zwire.zenoh import Encoding, SampleKind, ZBytes

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from zwire.typed._codec import Codec
    from zwire.zenoh import Sample

T = TypeVar("T")

ANY_SCHEMA = "*"
"""The schema of a reader that accepts payloads of every schema."""

# Encodings come from peers, so the cache is bounded.
_REMEMBERED = 256
# The encoding of a payload sent without one.
_UNTOLD = "zenoh/bytes"


def codec_for(model: Any, codec: Codec | str | None, among: Registry) -> Codec:  # noqa: ANN401
    """Return the codec that writes a model.

    Raises:
        TypeError: The codec has no form for the model.
        ValueError: No codec has that name.
    """
    if isinstance(codec, str) or codec is None:
        codec = among.named(codec or _formats.default_codec(model))
    codec.check(model)
    return codec


class Writer(Generic[T]):
    """Writes values of one model under one encoding."""

    def __init__(
        self, model: type[T], codec: Codec | str | None, schema: str | None, among: Registry | None
    ) -> None:
        """Choose the codec, and check that it supports the model."""
        self.model = model
        self.codec: Codec = codec_for(model, codec, among or registry)
        self.schema: str | None = schema if schema is not None else self.codec.schema(model)
        # By its text, since with_schema would replace the whole text of one without a number.
        name = self.codec.encoding
        self.encoding: Encoding = Encoding(f"{name};{self.schema}" if self.schema else name)

    def write(self, value: T, key: object = None) -> Buffer | str:
        """Write a value.

        Raises:
            PayloadError: The value, or a part of it, has no form.
        """
        try:
            return self.codec.encode(value, self.model)
        except Exception as error:
            raise self._problem(error, key) from error

    def _problem(self, error: Exception, key: object) -> PayloadError:
        return problem(error, key, self.codec.encoding, self.schema)


class Reader(Generic[T]):
    """Reads payloads of any encoding as values of one model."""

    def __init__(
        self, model: type[T], codec: Codec | str | None, schema: str | None, among: Registry | None
    ) -> None:
        """Choose the codec of payloads without an encoding."""
        self.model = model
        self._registry = among or registry
        self._raw = _formats.is_raw(model)
        self._untold: Codec | None = None
        try:
            self._untold = codec_for(model, codec, self._registry)
        except TypeError:
            # The default codec does not support this model, but payloads may have other encodings.
            if codec is not None or not self._registry.takes(model):
                raise
        self._schema = schema
        self._known: dict[Encoding, tuple[Codec, str | None]] = {}
        self._version = self._registry.version

    def read(self, payload: ZBytes, encoding: Encoding, key: object = None) -> T:
        """Read a payload.

        Raises:
            PayloadError: The payload is no value of the model.
            SchemaMismatch: The payload has another schema.
            StalePayload: The payload was borrowed, and its sender has taken it back.
            UnknownEncoding: No codec reads its encoding.
        """
        if self.model is not ZBytes:
            # Codecs read bytes that nothing takes back.
            payload = ZBytes(payload)
        if self._version != self._registry.version:
            self._known.clear()
            self._version = self._registry.version
        known = self._known.get(encoding) or self._find(encoding, key)
        try:
            if self._raw:
                value: T = _formats.raw(payload, self.model)
            else:
                value = known[0].decode(payload, self.model)
        except Exception as error:
            raise problem(error, key, *told(encoding)) from error
        return value

    def sample(self, sample: Sample) -> tuple[T | None, PayloadError | None]:
        """Read the value of a sample, or return the error; a deletion has neither."""
        if sample.kind == SampleKind.DELETE:
            return None, None
        try:
            return self.read(sample.payload, sample.encoding, sample.key_expr), None
        except PayloadError as error:
            return None, error

    def _find(self, encoding: Encoding, key: object) -> tuple[Codec, str | None]:
        """Choose the codec of an encoding, and check that it supports the model."""
        name, schema = told(encoding)
        if self._untold and ((name == _UNTOLD and schema is None) or (self._raw and self._schema is None)):
            # A model of raw bytes accepts every encoding.
            codec, schema = self._untold, None
        else:
            try:
                codec = self._registry.find(name, schema)
            except UnknownEncoding as error:
                fields = {"encoding": name, "schema": schema, "known": error.known}
                raise UnknownEncoding(_placed(str(error), key), key=_text(key), **fields) from None
        expected = self._schema if self._schema is not None else codec.schema(self.model)
        if expected != ANY_SCHEMA and not codec.accepts(schema, expected):
            text = f"{name}: schema {(schema or '')[:100]!r} where {expected!r} is expected"
            raise SchemaMismatch(
                _placed(text, key), key=_text(key), encoding=name, schema=schema, expected=expected
            )
        if not self._raw:
            try:
                codec.check(self.model)
            except Exception as error:
                raise problem(error, key, name, schema) from error
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[encoding] = codec, schema
        return codec, schema


def told(encoding: Encoding) -> tuple[str, str | None]:
    """Split an encoding into name and schema."""
    name, _, schema = str(encoding).partition(";")
    return name, schema or None


def problem(error: Exception, key: object, encoding: str, schema: str | None) -> PayloadError:
    """Convert any error of a codec into a ``PayloadError``; the original stays its cause."""
    path = getattr(error, "path", None) if isinstance(error, Misfit | PayloadError) else None
    offset = getattr(error, "offset", None) if isinstance(error, Misfit | PayloadError) else None
    if isinstance(error, Misfit | PayloadError | ImportError | TypeError):
        text = str(error)
    elif isinstance(error, RecursionError):
        text = "nested too deeply"
    else:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    place = f" at {path}" if path else ""
    place += f" at byte {offset}" if offset is not None else ""
    # A library may quote any length of a payload.
    message = _placed(f"{encoding[:100]}: {text[:300]}{place}", key)
    return PayloadError(message, key=_text(key), encoding=encoding, schema=schema, path=path, offset=offset)


def _placed(text: str, key: object) -> str:
    return text if key is None else f"{key}: {text}"


def _text(key: object) -> str | None:
    return None if key is None else str(key)


# ---- Without a session ------------------------------------------------------------------------------


def encode(
    value: Any,  # noqa: ANN401 - any value that the codec takes
    model: Any = None,  # noqa: ANN401 - any type
    *,
    codec: Codec | str | None = None,
    schema: str | None = None,
    registry: Registry | None = None,
) -> tuple[ZBytes, Encoding]:
    """Return the payload of a value and the encoding to publish it with.

    Args:
        value: The value.
        model: The type to write it as; by default its class.
        codec: A codec, or the name of one; by default the one that suits the model.
        schema: The schema in the encoding, instead of the model's own; ``""`` for none.
        registry: Registry in which codecs are looked up by name, instead of that of the process.

    Raises:
        PayloadError: The value, or a part of it, has no form.
        TypeError: The model has no form.
    """
    writer: Writer[Any] = Writer(type(value) if model is None else model, codec, schema, registry)
    return ZBytes(writer.write(value)), writer.encoding


def decode(
    payload: Buffer,
    encoding: Encoding | str,
    model: type[T],
    *,
    codec: Codec | str | None = None,
    schema: str | None = None,
    registry: Registry | None = None,
) -> T:
    """Read a payload of an encoding as a value of a model.

    Args:
        payload: Any buffer, such as the payload of a sample or an attachment.
        encoding: The encoding of the payload.
        model: The type to read.
        codec: Codec for ``zenoh/bytes``, which is no particular encoding.
        schema: The schema to expect, instead of the model's own; ``"*"`` is any.
        registry: Registry in which codecs are looked up, instead of that of the process.

    Raises:
        PayloadError: The payload is no value of the model; see its subclasses.
        TypeError: The model has no form.
    """
    into = payload if isinstance(payload, ZBytes) else ZBytes(payload)
    return Reader(model, codec, schema, registry).read(into, Encoding(encoding))


def to_frames(
    value: Any,  # noqa: ANN401
    model: Any = None,  # noqa: ANN401
    *,
    codec: Codec | str | None = None,
    schema: str | None = None,
    registry: Registry | None = None,
) -> list[bytes]:
    """Return a value as the content of a ZRE message: a frame with the encoding, and the payload.

    Parameters and errors are those of :func:`encode`.
    """
    payload, encoding = encode(value, model, codec=codec, schema=schema, registry=registry)
    return [str(encoding).encode(), bytes(payload)]


def from_frames(
    content: list[bytes],
    model: type[T],
    *,
    codec: Codec | str | None = None,
    schema: str | None = None,
    registry: Registry | None = None,
) -> T:
    """Read the content of a ZRE message: the frames of :func:`to_frames`, or a single frame.

    A single frame, all that 20/ZRE has, has no encoding, and is read by ``codec``.

    Raises:
        PayloadError: The content is no value of the model, or has other frames; see its subclasses.
    """
    if len(content) == 1:
        return decode(content[0], _UNTOLD, model, codec=codec, schema=schema, registry=registry)
    if len(content) != 2:
        raise PayloadError(f"a value has one frame or two, not {len(content)}")
    try:
        encoding = Encoding(content[0].decode())
    except ValueError as error:
        raise PayloadError(f"the first of two frames is no encoding: {error}") from error
    return decode(content[1], encoding, model, codec=codec, schema=schema, registry=registry)
