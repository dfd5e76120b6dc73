"""Arrays of numpy in its own format, NPY: shape and data type stand before the values."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, get_args, get_origin

from zwire._lazy import library
from zwire.typed._codec import Codec, name_of
from zwire.typed._shape import is_model_of
from zwire.typed._tree import Misfit, wanted

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from zwire.zenoh import ZBytes

_MOST_HEADER = 10_000
"""Bytes of a header, as numpy bounds it: it is parsed as a literal of Python."""


def is_ndarray(model: Any) -> bool:  # noqa: ANN401
    """Return whether a model is ``numpy.ndarray``, or ``NDArray`` of a data type."""
    return is_model_of("numpy", "ndarray", get_origin(model) or model)


class NumpyCodec(Codec):
    """Arrays of numpy as NPY files; an array that is read refers to the payload, and cannot be written to.

    ``numpy.typing.NDArray[numpy.float32]`` as the model demands that data type, in any byte order. Arrays of
    Python objects are refused: their form is a pickle.
    """

    name = "numpy"
    encoding = "application/x-npy"

    def check(self, model: Any) -> None:  # noqa: ANN401
        """Refuse a model that is no array."""
        library("numpy", "numpy")
        if not is_ndarray(model):
            raise TypeError(f"{name_of(model)} is no ndarray of numpy")

    def schema(self, model: Any) -> str | None:  # noqa: ANN401, ARG002
        """Return None: the payload has its own schema."""
        return None

    def encode(self, value: Any, model: Any) -> Buffer:  # noqa: ANN401
        """Write an array."""
        np = library("numpy", "numpy")
        if not isinstance(value, np.ndarray):
            raise wanted("ndarray", value)
        _fits(value.dtype, model)
        if value.dtype.hasobject:
            raise Misfit("an array of Python objects has no form but a pickle")
        out = io.BytesIO()
        try:
            np.lib.format.write_array(out, value, version=(1, 0), allow_pickle=False)
        except UnicodeEncodeError:
            raise Misfit("names of fields are in Latin-1") from None
        return out.getbuffer()

    def decode(self, payload: ZBytes, model: Any) -> Any:  # noqa: ANN401
        """Read an array."""
        np = library("numpy", "numpy")
        view = memoryview(payload)
        head = io.BytesIO(view[: _MOST_HEADER + 12])
        form = np.lib.format
        try:
            version = form.read_magic(head)
            if version == (1, 0):
                shape, fortran, dtype = form.read_array_header_1_0(head, max_header_size=_MOST_HEADER)
            elif version == (2, 0):
                shape, fortran, dtype = form.read_array_header_2_0(head, max_header_size=_MOST_HEADER)
            elif version == (3, 0):
                raise Misfit("names of fields beyond Latin-1 (NPY 3.0)")
            else:
                raise Misfit(f"version {version[0]}.{version[1]} of NPY is not known")
        except (ValueError, EOFError, RecursionError, MemoryError) as error:
            raise Misfit(f"no NPY: {error}") from error
        if dtype.hasobject:
            raise Misfit("an array of Python objects is a pickle, and is not read")
        _fits(dtype, model)
        values = view[head.tell() :]
        count = 1
        for length in shape:
            count *= length
        if dtype.itemsize == 0 or count * dtype.itemsize != len(values):
            raise Misfit(f"{len(values)} bytes for {shape} of {dtype}")
        array = np.frombuffer(values, dtype=dtype) if count else np.empty(0, dtype)
        array = array.reshape(shape, order="F" if fortran else "C")
        array.flags.writeable = False
        return array


def _fits(dtype: Any, model: Any) -> None:  # noqa: ANN401
    """Refuse an array of another data type than that of the model."""
    for argument in get_args(model)[1:]:
        for scalar in get_args(argument):
            if isinstance(scalar, type) and not issubclass(dtype.type, scalar):
                raise Misfit(f"an array of {scalar.__name__} is expected, not of {dtype}")
