"""Samples, replies and batches as data frames of pandas and arrays of numpy.

>>> from zwire import frames
>>> frame = frames.to_pandas(subscriber.recv_batch(timeout=5), values=True)  # doctest: +SKIP
>>> image = frames.to_numpy(sample)  # doctest: +SKIP

Needs ``zwire[pandas]`` and ``zwire[numpy]``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from zwire._lazy import library, pc
from zwire._text import is_json, strict_json
from zwire.columns import RECEIVED, REPLY
from zwire.errors import PayloadError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

__all__ = ["to_numpy", "to_pandas", "value"]

_BATCH = ("__arrow_c_array__", "__arrow_c_stream__")


def value(payload: Any, encoding: object = "zenoh/bytes") -> Any:  # noqa: ANN401 - of the encoding
    """Return a payload as a value of Python, as its encoding says.

    JSON becomes its value, text a ``str``, ``application/x-npy`` an array of numpy. Payloads without an
    encoding become the value of JSON, else a text, else bytes; those of other encodings stay bytes.

    Args:
        payload: Bytes, any buffer.
        encoding: Encoding of the payload.

    Raises:
        PayloadError: The payload is not of its encoding.
    """
    name = str(encoding).partition(";")[0]
    if name == "application/x-npy":
        from zwire import typed

        return typed.decode(payload, name, library("numpy", "numpy").ndarray)
    data = bytes(payload)
    if is_json(name):
        try:
            return strict_json(data)
        except (ValueError, RecursionError) as error:
            raise PayloadError(f"{name}: no JSON: {error}", encoding=name) from error
    if name.startswith("text/") or name == "zenoh/string":
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise PayloadError(f"{name}: no UTF-8: {error.reason}", encoding=name) from error
    if name != "zenoh/bytes":
        return data
    try:
        return strict_json(data)
    except (ValueError, RecursionError):
        pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def to_pandas(source: Any, *, values: bool = False) -> pd.DataFrame:  # noqa: ANN401 - see below
    """Return rows as a data frame of pandas.

    Args:
        source: A batch of ``recv_batch`` or anything with the Arrow C interface (a recording, a table), or
            samples or replies: an iterable of them, such as the handler of a get. Samples have the columns of
            ``zwire.columns.RECEIVED``, replies those of ``zwire.columns.REPLY``.
        values: Add a column ``value`` with :func:`value` of each payload; null for deletions, errors, and
            payloads that are not of their encoding.

    Raises:
        ImportError: pandas or pyarrow are missing (``zwire[pandas]``).
        TypeError: The source is something else.
    """
    library("pandas", "pandas")
    pa: Any = library("pyarrow", "pandas")
    if hasattr(source, _BATCH[1]):
        table = pa.table(source)
    elif hasattr(source, _BATCH[0]):
        table = pa.Table.from_batches([pa.record_batch(source)])
    else:
        table = _table(pa, _messages(source))
    if {"kind", "payload"} <= {*table.column_names}:
        # A batch has empty bytes there.
        payload = table.column("payload")
        kept = pc.if_else(pc.equal(table.column("kind"), "del"), pa.scalar(None, payload.type), payload)
        table = table.set_column(table.column_names.index("payload"), "payload", kept)
    frame: pd.DataFrame = table.to_pandas()
    if values:
        encodings = frame["encoding"] if "encoding" in frame else [None] * len(frame)
        errors = frame["error"] if "error" in frame else [None] * len(frame)
        found = [
            None if payload is None or error is not None else _valued(payload, encoding)
            for payload, encoding, error in zip(frame["payload"], encodings, errors, strict=True)
        ]
        frame["value"] = _objects(found)
    return frame


def to_numpy(source: Any, dtype: Any = None) -> np.ndarray[Any, np.dtype[Any]]:  # noqa: ANN401
    """Return the payload of a message as an array of numpy; of several messages, one array of all.

    Args:
        source: A sample or a reply, or an iterable of them. Payloads are arrays of ``zwire.typed``
            (``application/x-npy``), or numbers and lists of numbers as JSON or text. Arrays of several
            messages have one shape, and get a new first axis.
        dtype: Data type of the values. Payloads of other encodings are then the bytes of such values.

    Raises:
        ImportError: numpy is missing (``zwire[numpy]``).
        PayloadError: A payload is no array, or the shapes differ.
        TypeError: The source is something else.
    """
    numpy: Any = library("numpy", "numpy")
    if hasattr(source, "payload") or hasattr(source, "ok"):
        return _array(numpy, source, dtype)  # type: ignore[no-any-return]  # of numpy
    arrays = [_array(numpy, message, dtype) for message in _messages(source)]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise PayloadError(f"arrays of different shapes: {', '.join(map(str, sorted(shapes)[:5]))}")
    found: np.ndarray[Any, np.dtype[Any]]
    found = numpy.array(arrays) if arrays else numpy.empty(0, dtype)
    return found


def _array(np: Any, message: Any, dtype: Any) -> Any:  # noqa: ANN401
    sample = _sample(message)
    name = str(sample.encoding).partition(";")[0]
    raw = dtype is not None and name not in {"application/x-npy", "application/json", "text/json"}
    try:
        if raw and not name.startswith("text/") and name != "zenoh/string":
            return np.frombuffer(memoryview(sample.payload), dtype)
        found = value(sample.payload, sample.encoding)
        if isinstance(found, str):
            found = float(found)
        array = np.asarray(found, dtype)
    except (TypeError, ValueError) as error:
        if isinstance(error, PayloadError):
            raise
        raise PayloadError(f"{sample.key_expr}: no array: {error}", key=str(sample.key_expr)) from error
    if array.dtype.kind not in "biufc":
        text = f"{sample.key_expr}: a payload of {name} is no array of numbers; dtype= reads its bytes"
        raise PayloadError(text, key=str(sample.key_expr), encoding=name)
    return array


def _sample(message: Any) -> Any:  # noqa: ANN401
    """Return the sample of a message: of a reply, or of a message of zwire.typed."""
    if hasattr(message, "ok"):
        if message.ok is None:
            raise PayloadError("the reply is an error")
        return message.ok
    return message


def _messages(source: Any) -> list[Any]:  # noqa: ANN401
    if hasattr(source, "payload") or hasattr(source, "ok"):
        return [source]
    if isinstance(source, Iterable) and not isinstance(source, str | bytes):
        messages = list(source)
        if all(hasattr(message, "payload") or hasattr(message, "ok") for message in messages):
            return messages
    raise TypeError(f"a batch, samples or replies are expected, not {type(source).__name__}")


def _table(pa: Any, messages: list[Any]) -> Any:  # noqa: ANN401
    if messages and hasattr(messages[0], "ok"):
        return pa.Table.from_pylist([_reply(message) for message in messages], schema=REPLY.arrow())
    return pa.Table.from_pylist([_row(message) for message in messages], schema=RECEIVED.arrow())


def _row(sample: Any) -> dict[str, Any]:  # noqa: ANN401
    deleted = sample.kind.name == "DELETE"
    return {
        "key": str(sample.key_expr),
        "payload": None if deleted else bytes(sample.payload),
        "kind": "del" if deleted else "put",
        "encoding": str(sample.encoding),
        "timestamp": None if sample.timestamp is None else sample.timestamp.get_time(),
        "attachment": None if sample.attachment is None else bytes(sample.attachment),
        "priority": int(sample.priority),
        "congestion": sample.congestion_control.name.lower(),
        "express": sample.express,
    }


def _reply(reply: Any) -> dict[str, Any]:  # noqa: ANN401
    replier = None if reply.replier_id is None else str(reply.replier_id.zid)
    if reply.ok is None:
        payload = bytes(reply.err.payload)
        fields = {"payload": payload, "encoding": str(reply.err.encoding)}
        return {**fields, "replier": replier, "error": payload.decode(errors="replace")}
    row = _row(reply.ok)
    return {**{name: row[name] for name in ("key", "payload", "encoding", "timestamp")}, "replier": replier}


def _valued(payload: bytes, encoding: str | None) -> Any:  # noqa: ANN401
    try:
        found = value(payload, encoding or "zenoh/bytes")
    except PayloadError:
        return None
    return None if isinstance(found, float) and math.isnan(found) else found


def _objects(values: list[Any]) -> Any:  # noqa: ANN401
    """Return a column of values; one of numbers has their type."""
    pandas: Any = library("pandas", "pandas")
    if values and all(type(each) in {int, float} for each in values):
        return pandas.array(values)
    return pandas.Series(values, dtype=object)
