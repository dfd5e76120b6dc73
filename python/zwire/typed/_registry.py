"""The registry of codecs, by encoding."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from zwire.errors import UnknownEncoding
from zwire.typed._formats import CODECS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zwire.typed._codec import Codec
    from zwire.zenoh import Encoding

_ADVICE = {
    "application/python-serialized-object": (
        "pickles are not decoded, since reading one runs whatever code its sender wants"
    ),
}


class Registry:
    """Codecs by encoding, with or without a schema. The last registration wins.

    ::

        registry = typed.Registry(typed.registry)
        registry.register("text/plain;json", typed.registry.named("json"))
        subscriber = typed.subscriber(session, "demo/a", list[int], registry=registry)
        session.put("demo/a", "[1, 2]", encoding="text/plain;json")
        print(subscriber.recv(timeout=5).value)  # [1, 2]

    Args:
        parent: Registry that is searched next; without one only own codecs are known.
    """

    def __init__(self, parent: Registry | None = None) -> None:
        """Start without codecs of its own."""
        self._parent = parent
        self._lock = threading.Lock()
        self._by_encoding: dict[str, Codec] = {}
        self._changes = 0

    def __repr__(self) -> str:
        return f"<Registry of {', '.join(self._by_encoding) or 'no encodings'}, parent {self._parent!r}>"

    @property
    def version(self) -> int:
        """A number that changes with each registration."""
        return self._changes + (self._parent.version if self._parent else 0)

    def register(self, encoding: Encoding | str, codec: Codec) -> None:
        """Read payloads of an encoding by a codec, instead of the present one.

        An encoding with a schema, ``"application/json;fleet.Position"``, is for payloads of that schema only,
        and takes precedence over one without.
        """
        text = str(encoding)
        if not text.partition(";")[0]:
            raise ValueError("an encoding has a name")
        with self._lock:
            self._by_encoding[text] = codec
            self._changes += 1

    def find(self, encoding: str, schema: str | None = None) -> Codec:
        """Return the codec of an encoding.

        Raises:
            UnknownEncoding: No codec reads it.
        """
        at: Registry | None = self
        while at is not None:
            for text in (f"{encoding};{schema}", encoding) if schema is not None else (encoding,):
                if codec := at._by_encoding.get(text):  # noqa: SLF001 - one of its kind
                    return codec
            at = at._parent  # noqa: SLF001 - the same
        known = self.known()
        advice = _ADVICE.get(encoding, f"known are {', '.join(known)}")
        # An encoding of a peer can have any length.
        raise UnknownEncoding(
            f"no codec reads {encoding[:100]}: {advice}", encoding=encoding, schema=schema, known=known
        )

    def named(self, name: str) -> Codec:
        """Return the codec of a name, such as ``"json"``.

        Raises:
            ValueError: No codec has that name.
        """
        names: dict[str, Codec] = {}
        for codec in self._codecs():
            names.setdefault(codec.name, codec)
        if name not in names:
            raise ValueError(f"no codec is called {name!r}: there are {', '.join(sorted(names))}")
        return names[name]

    def takes(self, model: Any) -> bool:  # noqa: ANN401
        """Return whether any codec has a form for a model."""
        for codec in self._codecs():
            with contextlib.suppress(TypeError, ImportError):
                codec.check(model)
                return True
        return False

    def known(self) -> list[str]:
        """List the encodings with a codec."""
        inherited: Iterable[str] = self._parent.known() if self._parent else ()
        return sorted({*self._by_encoding, *inherited})

    def _codecs(self) -> list[Codec]:
        with self._lock:
            own = list(reversed(self._by_encoding.values()))
        return own + (self._parent._codecs() if self._parent else [])  # noqa: SLF001 - one of its kind


def _built_in() -> Registry:
    built_in = Registry()
    for codec in CODECS:
        for encoding in (codec.encoding, *codec.also):
            built_in.register(encoding, codec)
    return built_in


registry: Registry = Registry(_built_in())
"""The registry of the process: :func:`register` adds to it, and it is the default everywhere."""


def register(encoding: Encoding | str, codec: Codec) -> None:
    """Read payloads of an encoding by a codec in this process; see :meth:`Registry.register`."""
    registry.register(encoding, codec)
