"""Memory that processes on one machine share, with the names of ``zenoh.shm``.

Shared memory is not implemented. Sizes, alignments and policies can be created and inspected as there;
:class:`ShmProvider`, which would allocate, raises :class:`~zwire.errors.NotSupported`. A peer with shared
memory sends its payloads over the link: the handshake tells it to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias, final

from zwire.errors import InvalidValue, NotSupported

__all__ = [
    "AllocAlignment",
    "BlockOn",
    "Deallocate",
    "Defragment",
    "GarbageCollect",
    "JustAlloc",
    "MemoryLayout",
    "ShmProvider",
    "ZShm",
    "ZShmMut",
]

_REASON = "there is no shared memory between processes yet: payloads go through the link, give bytes instead"

# A size has 64 bits.
_MAX_POW = 63


@final
class AllocAlignment:
    """An alignment of ``2 ** pow`` bytes.

    Raises:
        InvalidValue: ``pow`` is not 0 to 63.
    """

    ALIGN_1_BYTE: ClassVar[AllocAlignment]
    ALIGN_2_BYTE: ClassVar[AllocAlignment]
    ALIGN_4_BYTE: ClassVar[AllocAlignment]
    ALIGN_8_BYTE: ClassVar[AllocAlignment]

    _pow: int

    def __new__(cls, pow: int) -> Self:
        """Check the exponent."""
        if not 0 <= pow <= _MAX_POW:
            raise InvalidValue(f"an alignment is 2 to the power of 0 to {_MAX_POW}, not of {pow}")
        made = super().__new__(cls)
        made._pow = pow
        return made

    def get_alignment_value(self) -> int:
        """Return the alignment in bytes."""
        return 1 << self._pow

    def align_size(self, size: int) -> int:
        """Return the size in bytes, rounded up to a multiple of the alignment.

        Raises:
            ValueError: The size is not positive.
        """
        if size <= 0:
            raise ValueError(f"a size is positive, not {size}")
        unit = 1 << self._pow
        return -(-size // unit) * unit

    def __eq__(self, other: object) -> bool:
        """Return whether the alignments are equal."""
        return self._pow == other._pow if isinstance(other, AllocAlignment) else NotImplemented

    def __hash__(self) -> int:
        """Return the hash of the exponent."""
        return hash(self._pow)

    def __repr__(self) -> str:
        """Return the expression that makes it."""
        return f"AllocAlignment({self._pow})"


AllocAlignment.ALIGN_1_BYTE = AllocAlignment(0)
AllocAlignment.ALIGN_2_BYTE = AllocAlignment(1)
AllocAlignment.ALIGN_4_BYTE = AllocAlignment(2)
AllocAlignment.ALIGN_8_BYTE = AllocAlignment(3)


class _Policy:
    """A policy for allocation when shared memory is short; without shared memory it has no effect."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _checked(*policies: _Policy) -> None:
    for policy in policies:
        if not isinstance(policy, _Policy):
            raise TypeError(f"expected a policy, not {type(policy).__name__}")


@final
class JustAlloc(_Policy):
    """Only try to allocate."""


# One default instance for all: it has no state.
_JUST_ALLOC = JustAlloc()


@final
class BlockOn(_Policy):
    """Retry the inner policy until it succeeds."""

    def __new__(cls, inner_policy: _AllocPolicy = _JUST_ALLOC) -> Self:
        """Check the policy."""
        _checked(inner_policy)
        return super().__new__(cls)


@final
class Deallocate(_Policy):
    """Revoke buffers from their users until allocation succeeds."""

    def __new__(
        cls, inner_policy: _AllocPolicy = _JUST_ALLOC, alt_policy: _AllocPolicy = _JUST_ALLOC
    ) -> Self:
        """Check the policies."""
        _checked(inner_policy, alt_policy)
        return super().__new__(cls)


@final
class Defragment(_Policy):
    """Where the inner policy fails: defragment, then use the other policy."""

    def __new__(
        cls, inner_policy: _AllocPolicy = _JUST_ALLOC, alt_policy: _AllocPolicy = _JUST_ALLOC
    ) -> Self:
        """Check the policies."""
        _checked(inner_policy, alt_policy)
        return super().__new__(cls)


@final
class GarbageCollect(_Policy):
    """Where the inner policy fails: free unreferenced buffers, then use the other policy."""

    def __new__(
        cls,
        inner_policy: _AllocPolicy = _JUST_ALLOC,
        alt_policy: _AllocPolicy = _JUST_ALLOC,
        *,
        safe: bool = True,  # noqa: ARG004 - kept for the signature
    ) -> Self:
        """Check the policies."""
        _checked(inner_policy, alt_policy)
        return super().__new__(cls)


@final
class MemoryLayout:
    """A size in bytes that is a multiple of an alignment.

    Raises:
        InvalidValue: The size is not positive, or no multiple of the alignment.
    """

    _size: int
    _alignment: AllocAlignment

    def __new__(cls, size: int, alignment: AllocAlignment = AllocAlignment.ALIGN_1_BYTE) -> Self:
        """Check the size."""
        if size <= 0 or size % alignment.get_alignment_value():
            raise InvalidValue(
                f"a size of {size} is no positive multiple of {alignment.get_alignment_value()}"
            )
        made = super().__new__(cls)
        made._size, made._alignment = size, alignment
        return made

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self._size

    @property
    def alignment(self) -> AllocAlignment:
        """The alignment of the size."""
        return self._alignment

    def __eq__(self, other: object) -> bool:
        """Both parts are equal."""
        if not isinstance(other, MemoryLayout):
            return NotImplemented
        return (self._size, self._alignment) == (other._size, other._alignment)

    def __hash__(self) -> int:
        """Return the hash of size and alignment."""
        return hash((self._size, self._alignment))

    def __repr__(self) -> str:
        """Return the expression that makes it."""
        return f"MemoryLayout({self._size}, {self._alignment!r})"


class _Absent:
    """Base of types that cannot exist without shared memory."""

    def __new__(cls) -> Self:
        """Raise ``NotSupported``."""
        raise NotSupported(_REASON)


class _Buffer(_Absent):
    """Bytes in shared memory."""

    def __bytes__(self) -> bytes:
        """Raise ``NotSupported``."""
        raise NotSupported(_REASON)

    def __str__(self) -> str:
        """Raise ``NotSupported``."""
        raise NotSupported(_REASON)


@final
class ShmProvider(_Absent):
    """A provider of shared memory; making one raises :class:`~zwire.errors.NotSupported`."""

    @classmethod
    def default_backend(cls, layout: _IntoMemoryLayout) -> Self:  # noqa: ARG003 - kept for the signature
        """Raise an error.

        Raises:
            NotSupported: Always.
        """
        raise NotSupported(_REASON)

    def alloc(self, layout: _IntoMemoryLayout, policy: _AllocPolicy = _JUST_ALLOC) -> ZShmMut:  # noqa: ARG002
        """Raise ``NotSupported``."""
        raise NotSupported(_REASON)

    def defragment(self) -> None:
        """Raise ``NotSupported``."""
        raise NotSupported(_REASON)

    def garbage_collect(self) -> int:
        """Raise ``NotSupported``."""
        raise NotSupported(_REASON)

    def garbage_collect_unsafe(self) -> int:
        """Raise ``NotSupported``."""
        raise NotSupported(_REASON)

    @property
    def available(self) -> int:
        """Raise ``NotSupported``."""
        raise NotSupported(_REASON)


@final
class ZShm(_Buffer):
    """A buffer in shared memory; making one raises :class:`~zwire.errors.NotSupported`."""

    def is_valid(self) -> bool:
        """Raise ``NotSupported``."""
        raise NotSupported(_REASON)


@final
class ZShmMut(_Buffer):
    """A writable buffer in shared memory; making one raises an error, too."""

    def __setitem__(self, item: int | slice, value: int | bytes | bytearray) -> None:
        """Raise ``NotSupported``."""
        raise NotSupported(_REASON)


if TYPE_CHECKING:
    _AllocPolicy: TypeAlias = JustAlloc | BlockOn | Deallocate | Defragment | GarbageCollect
    _IntoMemoryLayout: TypeAlias = MemoryLayout | tuple[int, AllocAlignment] | int
