"""The interface of codecs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from zwire.typed._shape import is_model_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from zwire.zenoh import ZBytes


def schema_name(model: Any) -> str | None:  # noqa: ANN401 - any model
    """Return the name of a model in the schema of an encoding.

    The name is its ``__schema_name__`` if it has one, the full name of a message of protobuf, and otherwise
    the name of the class without its module; types that are no model, such as ``dict`` or ``list[int]``, have
    none.
    """
    name = getattr(model, "__schema_name__", None)
    if isinstance(name, str):
        return name
    if is_model_of("google.protobuf.message", "Message", model):
        return str(model.DESCRIPTOR.full_name)
    if not isinstance(model, type) or model.__module__ == "builtins":
        return None
    own = (
        "__dataclass_fields__",
        "__pydantic_validator__",
        "__struct_fields__",
        "__required_keys__",
        "_fields",
    )
    return model.__name__ if any(hasattr(model, name) for name in own) else None


class Codec(ABC):
    r"""Conversion between values and payloads of one encoding.

    A codec of a program derives from this, sets ``name`` and ``encoding`` and has ``encode`` and ``decode``;
    :func:`register` makes it known.

    ::

        class Hex(typed.Codec):
            name = "hex"
            encoding = "text/x-hex"

            def encode(self, value, model):
                return bytes(value).hex()

            def decode(self, payload, model):
                return bytes.fromhex(payload.to_string())

        subscriber = typed.subscriber(session, "demo/hex", bytes, codec=Hex())
        typed.put(session, "demo/hex", b"\x01\xff", codec=Hex())
        print(subscriber.recv(timeout=5).sample.payload.to_string())  # 01ff
    """

    name: str
    """Name for ``codec="json"``."""
    encoding: str
    """The encoding that it writes, without a schema: ``application/json``."""
    also: tuple[str, ...] = ()
    """Further encodings that it reads."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.encoding}>"

    def check(self, model: Any) -> None:  # noqa: ANN401, B027 - most codecs of programs take what they get
        """Refuse a model that has no form in this codec, at the declaration.

        Raises:
            TypeError: The model has no form.
        """

    def schema(self, model: Any) -> str | None:  # noqa: ANN401
        """Return the schema that is written for a model and expected of payloads; ``None`` for none."""
        return schema_name(model)

    def accepts(self, schema: str | None, expected: str | None) -> bool:
        """Return whether a payload with one schema is accepted where another one is expected.

        A payload without a schema is accepted: most publishers in other languages set none.
        """
        return schema is None or expected is None or schema == expected

    @abstractmethod
    def encode(self, value: Any, model: Any) -> Buffer | str:  # noqa: ANN401
        """Write a value of the model. Any error becomes a ``PayloadError``."""

    @abstractmethod
    def decode(self, payload: ZBytes, model: Any) -> Any:  # noqa: ANN401
        """Read a value of the model from a buffer. Any error becomes a ``PayloadError``."""


# ---- For codecs -------------------------------------------------------------------------------------


def name_of(model: Any) -> str:  # noqa: ANN401
    """Return the name of a model for messages."""
    return getattr(model, "__name__", str(model))
