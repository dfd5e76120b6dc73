"""Payloads of DataFrames as columns, by their encoding: JSON, CBOR, MessagePack, protobuf, Arrow IPC, CDR."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from zwire._lazy import pa
from zwire.spark._checked import added, check_kind, dtypes
from zwire.spark._types import sql_type, struct, struct_of, types

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from zwire.ros2 import MessageType
    from zwire.spark._payloads._apply import Spec
    from zwire.spark._payloads._msg import Record

__all__ = ["decode_payload", "payload_schema"]

Format: TypeAlias = Literal["auto", "json", "cbor", "msgpack", "protobuf", "arrow", "cdr"]

_FORMATS = ("auto", "json", "cbor", "msgpack", "protobuf", "arrow", "cdr")


def decode_payload(
    df: DataFrame,
    schema: str | StructType | None = None,
    *,
    format: Format = "auto",
    message: str | None = None,
    descriptors: bytes | str | PathLike[str] | None = None,
    definition: str | None = None,
    columns: Iterable[str] | None = None,
    payload: str = "payload",
    encoding: str = "encoding",
    prefix: str = "",
    errors: Literal["rows", "raise"] = "rows",
) -> DataFrame:
    """Decode payloads into columns: the row unchanged, then the columns of its payload, then ``error``.

    A payload that does not fit gives nulls, and in ``error`` the reason and the place; the row keeps
    everything else. A null payload, as of a deletion, gives nulls and no error. A payload of Arrow gives a
    row for each of its rows, and one with nulls if it has none; the first of them keeps the payload, the
    others have null.

    JSON, CBOR and MessagePack payloads have to be maps. They are read as by :mod:`zwire.typed`: a missing
    name is null, a name not in the schema is left out, numbers and texts are not converted into each other,
    octets in JSON are base64, times are RFC 3339 where the format has no type for them. Unsigned 64-bit
    integers, in protobuf and CDR, become their bit patterns.

    Args:
        df: Rows with payloads: samples, replies, messages of captures.
        schema: The columns, as DDL (``"x double, tags array<string>"``) or a ``StructType``. Needed for JSON,
            CBOR, MessagePack and Arrow (:func:`payload_schema` infers one); for CDR a way to name its
            fields in order, all of them, where there is no ``definition``.
        format: Format of the payloads; ``auto`` uses the column ``encoding``, row by row.
        message: For protobuf the full name of the message, for CDR the name of the type,
            ``package/msg/Type``, which only helps to find others of its package.
        descriptors: For protobuf the output of ``protoc --include_imports -o FILE``, or its path.
        definition: For CDR the definition of a ROS 2 message, with those of the types in it behind lines of
            ``=``, as recordings have it.
        columns: Columns to return, by default all.
        payload: Column with the bytes.
        encoding: Column with the encodings; only for ``auto``.
        prefix: Prefix of the names of the new columns, where they would collide with those of the row.
        errors: ``raise`` ends the task at the first payload that does not fit.

    Raises:
        ValueError: A column or an option is wrong or missing, or a description is invalid.
        ImportError: The library of a format is not installed (``zwire[codecs]``).
    """
    # Imported here and below: most users of the package do not decode payloads and need not load this.
    from zwire.spark._payloads._apply import Spec, Unpack, reader_of

    for name, given, allowed in (("format", format, _FORMATS), ("errors", errors, ("rows", "raise"))):
        if given not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {given!r}")
    kinds = dict(dtypes(df))
    check_kind(kinds, payload, "binary")
    if format == "auto":
        check_kind(kinds, encoding, "string", advice="; give format")
    found, record, described = _described(schema, format, message, descriptors, definition)
    if columns is not None:
        found = _chosen(found, list(columns))
    encoded = encoding if format == "auto" else None
    spec = Spec(found, format, payload, encoded, prefix, errors, message, described, record)
    if format != "auto":
        reader_of(spec, format)  # a missing description is an error here, not in the first task
    fields = [*found, *struct([("error", "string")])]
    return df.mapInArrow(Unpack(spec), added(df, prefix, fields, "payloads"))


def decode_record(
    df: DataFrame,
    type: MessageType[Any],
    columns: Iterable[str] | None,
    payload: str,
    prefix: str,
    errors: Literal["rows", "raise"],
) -> DataFrame:
    """Decode payloads of a type of ROS 2 into its columns, as :func:`decode_payload` does."""
    from zwire.spark._payloads._apply import Unpack

    spec = spec_of(type, columns, payload, prefix, errors)
    fields = [*spec.schema, *struct([("error", "string")])]
    return df.mapInArrow(Unpack(spec), added(df, prefix, fields, "the message"))


def spec_of(
    type: MessageType[Any],
    columns: Iterable[str] | None,
    payload: str,
    prefix: str,
    errors: Literal["rows", "raise"],
) -> Spec:
    """Return format and schema of a type of ROS 2."""
    from zwire.ros2._store import record_of
    from zwire.spark._payloads import _msg
    from zwire.spark._payloads._apply import Spec

    record = record_of(type)
    found = _msg.schema_of(record)
    if columns is not None:
        found = _chosen(found, list(columns))
    return Spec(found, "cdr", payload, None, prefix, errors, type.name, None, record)


def _described(
    schema: str | StructType | None,
    format: str,
    message: str | None,
    descriptors: bytes | str | PathLike[str] | None,
    definition: str | None,
) -> tuple[StructType, Record | None, bytes | None]:
    """Return the columns, and the description for formats with types of their own."""
    from zwire.spark._payloads import _msg, _protobuf

    found = None if schema is None else struct_of(schema)
    described = record = None
    if descriptors is not None:
        if message is None:
            raise ValueError("descriptors hold many messages: give the name of one as message")
        described = _protobuf.descriptors(descriptors)
        derived: Any = _protobuf.schema_of(_protobuf.message_class(message, described))
        found = _same(found, derived, message)
    if definition is not None:
        record = _msg.parse(definition, message or "")
        found = _same(found, _msg.schema_of(record), message or "the definition")
    elif found is not None and format in ("cdr", "auto"):
        with suppress(ValueError) if format == "auto" else nullcontext():
            record = _msg.record_of(found)
    if found is None:
        needed = {"protobuf": "message and descriptors", "cdr": "definition or schema"}
        raise ValueError(f"{format} needs {needed.get(format, 'a schema, descriptors or a definition')}")
    return found, record, described


def _same(given: StructType | None, derived: Any, what: str) -> StructType:  # noqa: ANN401 - a StructType
    """Check that a given schema equals the one derived from a description."""
    if given is not None and given != derived:
        raise ValueError(f"the schema is not that of {what}, which is {derived.simpleString()[:500]}")
    made: StructType = derived
    return made


def _chosen(schema: StructType, names: list[str]) -> StructType:
    known = schema.fieldNames()
    for name in names:
        if name not in known:
            raise ValueError(f"column {name!r} is not one of {', '.join(known)}")
    if not names or len(set(names)) < len(names):
        raise ValueError("columns must be at least one, and each once")
    return types.StructType([schema[name] for name in names])


def payload_schema(
    payloads: Iterable[bytes | None], format: Literal["json", "cbor", "msgpack", "arrow"] = "json"
) -> StructType:
    """Infer a schema from sample payloads, for :func:`decode_payload`.

    The schema covers the given payloads only: later ones may have other names and types. So print it
    once, and keep it in the job as text::

        some = [row.payload for row in df.select("payload").limit(1000).collect()]
        print(zwire.spark.payload_schema(some).simpleString())

    Args:
        payloads: The bytes of the payloads. Those that do not decode are left out, nulls too.
        format: Format of the payloads.

    Raises:
        ValueError: None of them decodes, or their types contradict each other; names the column.
    """
    from zwire.spark._payloads import _trees
    from zwire.spark._payloads._apply import arrow_codec
    from zwire.typed._tree import check_tree

    trees: list[dict[str, Any]] = []
    schemas: list[pa.Schema] = []
    last: Exception | None = None
    for payload in payloads:
        if payload is None:
            continue
        content: Any = bytes(payload)
        try:
            if format == "arrow":
                schemas.append(arrow_codec().decode(content, pa.Table).schema)
                continue
            codec = _trees.codec(format)
            tree = codec.read(content, _trees.shape(free_keys=True))
            check_tree(tree, codec.wire)
        except ImportError:
            raise
        except Exception as error:  # noqa: BLE001 - what libraries raise about a payload is theirs
            last = error
            continue
        if isinstance(tree, dict):
            trees.append(tree)
    if not trees and not schemas:
        reason = f": {last}" if last else ""
        raise ValueError(f"none of the payloads is a map or table of {format}{reason}")
    try:
        made = pa.unify_schemas(schemas) if schemas else pa.schema(pa.array(trees).type)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise ValueError(f"the payloads contradict each other: {error}") from None
    found: Any = sql_type(pa.struct(list(made)))
    return cast("StructType", found)
