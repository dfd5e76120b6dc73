"""The built-in codecs.

Libraries are imported on first use; if one is missing, the error names the extra.
"""

from __future__ import annotations

import io
import json
import math
from abc import abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from zwire._lazy import library
from zwire.typed import _shape
from zwire.typed._arrow import ArrowCodec, is_arrow
from zwire.typed._codec import Codec, name_of
from zwire.typed._numpy import NumpyCodec, is_ndarray
from zwire.typed._serialized import form
from zwire.typed._tree import CBOR, JSON, MAX_DEPTH, MSGPACK, Misfit, Wire, check_tree, instance
from zwire.zenoh import ZBytes, ext

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from zwire.typed._tree import Converter

_RAW = (bytes, bytearray, memoryview, ZBytes)


def is_raw(model: Any) -> bool:  # noqa: ANN401
    """Return whether a model stands for the bytes of a payload themselves, in any encoding."""
    return any(model is cls for cls in _RAW)


def raw(payload: ZBytes, model: Any) -> Any:  # noqa: ANN401
    """Convert a payload to one of the types of buffers, without a copy for a view."""
    if model is ZBytes:
        return payload
    return memoryview(payload) if model is memoryview else model(payload)


def default_codec(model: Any) -> str:  # noqa: ANN401
    """Return the name of the default codec of a model."""
    if is_raw(model):
        return "bytes"
    if model is str:
        return "text"
    if _is_message(model):
        return "protobuf"
    if is_arrow(model):
        return "arrow"
    if is_ndarray(model):
        return "numpy"
    return "json"


def _is_message(model: Any) -> bool:  # noqa: ANN401
    return _shape.is_model_of("google.protobuf.message", "Message", model)


# ---- Trees ------------------------------------------------------------------------------------------


class _Own(NamedTuple):
    """Functions of the library of a model."""

    encode: Callable[[Any], Buffer]
    decode: Callable[[ZBytes], Any]


@lru_cache(maxsize=1024)
def _own_struct(module: str, model: Any) -> _Own:  # noqa: ANN401
    msgspec = library(module, "msgspec")
    return _Own(msgspec.encode, lambda payload: _shape.convert(msgspec.decode, payload, model))


@lru_cache(maxsize=1024)
def _own_json(model: Any) -> _Own | None:  # noqa: ANN401
    if _is_message(model):
        json_format = library("google.protobuf.json_format", "codecs")
        return _Own(
            lambda value: json_format.MessageToJson(value, indent=None).encode(),
            lambda payload: json_format.Parse(_text(payload), model(), ignore_unknown_fields=True),
        )
    if _shape.is_pydantic(model):
        adapter = _shape.adapter(model)
        return _Own(adapter.dump_json, lambda payload: _shape.validate(adapter.validate_json, bytes(payload)))
    return _own_struct("msgspec.json", model) if _shape.is_struct(model) else None


class _TreeCodec(Codec):
    """Base of codecs for maps, lists and scalars."""

    wire: Wire

    def check(self, model: Any) -> None:  # noqa: ANN401
        if is_raw(model) or is_arrow(model) or is_ndarray(model) or _is_message(model):
            raise TypeError(f"{name_of(model)} has no form in {self.wire.name}")
        _shape.converter(model, self.wire)

    def encode(self, value: Any, model: Any) -> Buffer:  # noqa: ANN401
        if own := self.own(model):
            return own.encode(instance(value, model))
        return self.write(_shape.converter(model, self.wire).dump(value))

    def decode(self, payload: ZBytes, model: Any) -> Any:  # noqa: ANN401
        if own := self.own(model):
            return own.decode(payload)
        shape = _shape.converter(model, self.wire)
        tree = self.read(payload, shape)
        if not shape.closed:
            check_tree(tree, self.wire)
        return shape.load(tree)

    def own(self, model: Any) -> _Own | None:  # noqa: ANN401, ARG002
        """Return how the library of a model writes and reads this format, if it does."""
        return None

    @abstractmethod
    def write(self, tree: Any) -> Buffer:  # noqa: ANN401
        """Convert a tree to bytes."""

    @abstractmethod
    def read(self, payload: ZBytes, shape: Converter) -> Any:  # noqa: ANN401
        """Convert bytes to a tree; the tree is checked unless the shape is closed."""


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise Misfit(f"{text[:40]} is beyond the numbers of float")
    return number


def _no_constant(text: str) -> None:
    raise Misfit(f"{text} is no JSON")


_WRITER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_READER = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)


class JsonCodec(_TreeCodec):
    """JSON as in RFC 8259, in UTF-8; models of pydantic and msgspec are converted by their own libraries."""

    name = "json"
    encoding = "application/json"
    also = ("text/json",)
    wire = JSON

    def check(self, model: Any) -> None:  # noqa: ANN401
        if not _is_message(model):
            super().check(model)

    def own(self, model: Any) -> _Own | None:  # noqa: ANN401
        return _own_json(model)

    def write(self, tree: Any) -> bytes:  # noqa: ANN401
        return _WRITER.encode(tree).encode()

    def read(self, payload: ZBytes, shape: Converter) -> Any:  # noqa: ANN401, ARG002
        text = _text(payload)
        try:
            tree = _READER.decode(text)
        except json.JSONDecodeError as error:
            raise Misfit(f"no JSON: {error.msg}", len(text[: error.pos].encode())) from error
        # An escape can stand for half a surrogate pair, which no encodable text contains.
        if "\\ud" in text or "\\uD" in text:
            _WRITER.encode(tree).encode()
        return tree


def _text(payload: ZBytes) -> str:
    try:
        return str(memoryview(payload), "utf-8")
    except UnicodeDecodeError as error:
        raise Misfit(f"no UTF-8: {error.reason}", error.start) from error


def _refuse(_: object) -> None:
    raise Misfit("a tag that no model has a place for")


# Shared values let a few bytes become an endless or huge tree; regular expressions
# and mails would be parsed without need.
_REFUSED_TAGS = dict.fromkeys((25, 28, 29, 35, 36, 256), _refuse)


class CborCodec(_TreeCodec):
    """CBOR as in RFC 8949; times, decimals and UUIDs have their tags."""

    name = "cbor"
    encoding = "application/cbor"
    wire = CBOR

    def check(self, model: Any) -> None:  # noqa: ANN401
        library("cbor2", "codecs")
        super().check(model)

    def write(self, tree: Any) -> bytes:  # noqa: ANN401
        out: bytes = library("cbor2", "codecs").dumps(tree)
        return out

    def read(self, payload: ZBytes, shape: Converter) -> Any:  # noqa: ANN401
        cbor2 = library("cbor2", "codecs")
        stream = io.BytesIO(payload)
        decoder = cbor2.CBORDecoder(
            stream,
            max_depth=MAX_DEPTH + 1,
            semantic_decoders=_REFUSED_TAGS,
            # Keys of other types can be chosen so that all of them collide.
            strict_hashable_types=not shape.free_keys,
        )
        tree = decoder.decode()
        if stream.tell() < len(payload):
            raise Misfit("bytes after the end", stream.tell())
        return tree


class MsgpackCodec(_TreeCodec):
    """MessagePack; instants have its extension -1."""

    name = "msgpack"
    encoding = "application/msgpack"
    also = ("application/x-msgpack", "application/vnd.msgpack")
    wire = MSGPACK

    def check(self, model: Any) -> None:  # noqa: ANN401
        if not _shape.is_struct(model):
            library("msgpack", "codecs")
            super().check(model)

    def own(self, model: Any) -> _Own | None:  # noqa: ANN401
        return _own_struct("msgspec.msgpack", model) if _shape.is_struct(model) else None

    def write(self, tree: Any) -> bytes:  # noqa: ANN401
        out: bytes = library("msgpack", "codecs").packb(tree, datetime=True)
        return out

    def read(self, payload: ZBytes, shape: Converter) -> Any:  # noqa: ANN401
        # Claimed lengths are bounded by the length of the payload.
        msgpack = library("msgpack", "codecs")
        return msgpack.unpackb(payload, timestamp=3, strict_map_key=not shape.free_keys)


# ---- Formats with types of their own ----------------------------------------------------------------


class ProtobufCodec(Codec):
    """Messages of protobuf; the full name of a message type is the schema."""

    name = "protobuf"
    encoding = "application/protobuf"
    also = ("application/x-protobuf", "application/vnd.google.protobuf")

    def check(self, model: Any) -> None:  # noqa: ANN401
        if not _is_message(model):
            raise TypeError(f"{name_of(model)} is no message class of protobuf")

    def encode(self, value: Any, model: Any) -> bytes:  # noqa: ANN401
        out: bytes = instance(value, model).SerializeToString()
        return out

    def decode(self, payload: ZBytes, model: Any) -> Any:  # noqa: ANN401
        return model.FromString(bytes(payload))


class SerializedCodec(Codec):
    """The format of ``zwire.zenoh.ext``; a dataclass is the tuple of its fields."""

    name = "zenoh"
    encoding = "zenoh/serialized"

    def check(self, model: Any) -> None:  # noqa: ANN401
        form(model)

    def encode(self, value: Any, model: Any) -> ZBytes:  # noqa: ANN401
        return ext.z_serialize(form(model).dump(value))

    def decode(self, payload: ZBytes, model: Any) -> Any:  # noqa: ANN401
        shape = form(model)
        try:
            return shape.load(ext.z_deserialize(shape.type, payload))
        except ext.ZDeserializeError as error:
            raise Misfit(str(error), error.offset) from error


class TextCodec(Codec):
    """Text in UTF-8."""

    name = "text"
    encoding = "zenoh/string"
    also = ("text/plain",)

    def check(self, model: Any) -> None:  # noqa: ANN401
        if model is not str:
            raise TypeError(f"{name_of(model)} is not str")

    def schema(self, model: Any) -> str | None:  # noqa: ANN401, ARG002
        return None

    def encode(self, value: Any, model: Any) -> bytes:  # noqa: ANN401
        return str(instance(value, model)).encode()

    def decode(self, payload: ZBytes, model: Any) -> str:  # noqa: ANN401
        if model is not str:
            raise Misfit(f"a text is no {name_of(model)}")
        return _text(payload)


class BytesCodec(Codec):
    """Bytes, unchanged."""

    name = "bytes"
    encoding = "zenoh/bytes"
    also: tuple[str, ...] = ("application/octet-stream",)

    def check(self, model: Any) -> None:  # noqa: ANN401
        if not is_raw(model):
            raise TypeError(f"{name_of(model)} is none of bytes, bytearray, memoryview and ZBytes")

    def encode(self, value: Any, model: Any) -> Buffer:  # noqa: ANN401, ARG002
        # Any buffer is accepted: put checks it itself.
        out: Buffer = value
        return out

    def decode(self, payload: ZBytes, model: Any) -> Any:  # noqa: ANN401
        if not is_raw(model):
            raise Misfit(f"bytes are no {name_of(model)}")
        return raw(payload, model)


class CdrCodec(BytesCodec):
    """CDR, as written by ROS 2 and DDS, passed through unchanged; the schema is the name of the type."""

    name = "cdr"
    encoding = "application/cdr"
    also: tuple[str, ...] = ()


CODECS: tuple[Codec, ...] = (
    JsonCodec(),
    CborCodec(),
    MsgpackCodec(),
    ProtobufCodec(),
    ArrowCodec(),
    NumpyCodec(),
    SerializedCodec(),
    TextCodec(),
    CdrCodec(),
    BytesCodec(),
)
