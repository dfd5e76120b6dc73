"""Memory that processes on one machine share, with the names of ``zenoh.shm``.

A buffer of a :class:`ShmProvider` is written in place and then sent: processes of zwire on the same host read
it there, those of eclipse-zenoh read a copy in shared memory, and others get its bytes over the link.
Programs need no provider: sessions place large payloads in shared memory by themselves, and
``publisher.loan()`` gives memory to write to.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias, final

from zwire._zwire import Loan, SharedPool, ZShm
from zwire._zwire import Loan as ZShmMut
from zwire.errors import InvalidValue, ZwireError

__all__ = [
    "AllocAlignment",
    "BlockOn",
    "Deallocate",
    "Defragment",
    "GarbageCollect",
    "JustAlloc",
    "Loan",
    "MemoryLayout",
    "ShmProvider",
    "ZShm",
    "ZShmMut",
]

# Alignment of every buffer, in bytes.
_ALIGNMENT = 64

# Seconds between two looks for memory that receivers have returned.
_POLL = 0.001

# A size has 64 bits.
_MAX_POW = 63


@final
class AllocAlignment:
    """An alignment of ``2 ** pow`` bytes.

    ::

        print(shm.AllocAlignment(6).get_alignment_value())  # 64
        print(shm.AllocAlignment.ALIGN_8_BYTE.align_size(13))  # 16

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
    """A policy for allocation when shared memory is short."""

    waits: bool = False
    """Whether the policy, or one within it, waits for room."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _checked(*policies: _Policy) -> bool:
    """Check the types of policies, and return whether one of them waits."""
    for policy in policies:
        if not isinstance(policy, _Policy):
            raise TypeError(f"expected a policy, not {type(policy).__name__}")
    return any(policy.waits for policy in policies)


@final
class JustAlloc(_Policy):
    """Only try to allocate.

    ::

        provider = shm.ShmProvider.default_backend(4096)
        frame = provider.alloc(4096)
        try:
            provider.alloc(4096, shm.JustAlloc())  # the default
        except zenoh.ZError as error:
            print(error)  # no shared memory for 4096 bytes: 0 of 4096 are left
    """


# One default instance for all: it has no state.
_JUST_ALLOC = JustAlloc()


@final
class BlockOn(_Policy):
    """Retry the inner policy until it succeeds.

    ::

        provider = shm.ShmProvider.default_backend(1 << 20)
        frame = provider.alloc(
            4096, shm.BlockOn(shm.GarbageCollect())
        )  # waits while receivers hold all memory
    """

    def __new__(cls, inner_policy: _AllocPolicy = _JUST_ALLOC) -> Self:
        """Check the policy."""
        _checked(inner_policy)
        made = super().__new__(cls)
        made.waits = True
        return made


@final
class Deallocate(_Policy):
    """Where the inner policy fails: use the other policy. Buffers in use are never revoked.

    The stubs of eclipse-zenoh have ``Deallocate(inner_policy, alt_policy)``, its module
    ``Deallocate(limit, inner_policy, alt_policy)``; both are accepted.

    ::

        provider = shm.ShmProvider.default_backend(1 << 20)
        frame = provider.alloc(4096, shm.Deallocate(shm.JustAlloc(), shm.BlockOn()))
    """

    def __new__(
        cls,
        inner_policy: _AllocPolicy | int = _JUST_ALLOC,
        alt_policy: _AllocPolicy = _JUST_ALLOC,
        third: _AllocPolicy = _JUST_ALLOC,
        *,
        limit: int = 0,  # noqa: ARG004 - kept for the signature
    ) -> Self:
        """Check the policies."""
        first = _JUST_ALLOC if isinstance(inner_policy, int) else inner_policy
        waits = _checked(first, alt_policy, third)
        made = super().__new__(cls)
        made.waits = waits
        return made


@final
class Defragment(_Policy):
    """Where the inner policy fails: defragment, then use the other policy.

    ::

        provider = shm.ShmProvider.default_backend(1 << 20)
        print(len(provider.alloc(4096, shm.Defragment())))  # 4096
    """

    def __new__(
        cls, inner_policy: _AllocPolicy = _JUST_ALLOC, alt_policy: _AllocPolicy = _JUST_ALLOC
    ) -> Self:
        """Check the policies."""
        waits = _checked(inner_policy, alt_policy)
        made = super().__new__(cls)
        made.waits = waits
        return made


@final
class GarbageCollect(_Policy):
    """Where the inner policy fails: collect returned buffers, then use the other policy.

    ::

        provider = shm.ShmProvider.default_backend(1 << 20)
        frames = [provider.alloc(1 << 19) for _ in range(2)]
        frames.clear()
        print(len(provider.alloc(1 << 19, shm.GarbageCollect())))  # 524288
    """

    def __new__(
        cls,
        inner_policy: _AllocPolicy = _JUST_ALLOC,
        alt_policy: _AllocPolicy = _JUST_ALLOC,
        *,
        safe: bool = True,  # noqa: ARG004 - kept for the signature: it is always safe
    ) -> Self:
        """Check the policies."""
        waits = _checked(inner_policy, alt_policy)
        made = super().__new__(cls)
        made.waits = waits
        return made


@final
class MemoryLayout:
    """A size in bytes that is a multiple of an alignment.

    ::

        layout = shm.MemoryLayout(64, shm.AllocAlignment.ALIGN_8_BYTE)
        provider = shm.ShmProvider.default_backend(1 << 20)
        print(len(provider.alloc(layout)))  # 64

    Raises:
        InvalidValue: The size is not positive, or no multiple of the alignment.
    """

    _size: int
    _alignment: AllocAlignment

    def __new__(
        cls, size: int | tuple[int, AllocAlignment], alignment: AllocAlignment = AllocAlignment.ALIGN_1_BYTE
    ) -> Self:
        """Check the size. A pair of both, as the module of eclipse-zenoh takes it, is accepted as well."""
        if isinstance(size, tuple):
            size, alignment = size
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


@final
class ShmProvider:
    """A provider of shared memory, of which no other process can take a part.

    Made by :meth:`default_backend`. Sessions have memory of their own, which ``publisher.loan()`` and
    ``session.loan()`` give without a provider.

    ::

        provider = shm.ShmProvider.default_backend(1 << 20)
        frame = provider.alloc(4096)
        frame[0:5] = b"hello"
        session.put("demo/frame", frame)
    """

    _pool: SharedPool
    _size: int

    def __new__(cls) -> Self:
        """Raise an error.

        Raises:
            TypeError: Always.
        """
        raise TypeError("a provider is made by ShmProvider.default_backend(size)")

    @classmethod
    def default_backend(cls, layout: _IntoMemoryLayout) -> Self:
        """Make a provider of so many bytes.

        The memory is taken from the system with the first buffers. It has no name in the file system, and is
        given back when the provider and all of its buffers are dropped, here and in other processes.

        Args:
            layout: Size in bytes, with or without an alignment.

        Raises:
            InvalidValue: The size is not positive, or no multiple of the alignment.
        """
        size = _layout(layout).size
        made = super().__new__(cls)
        made._pool, made._size = SharedPool(size), size
        return made

    def alloc(self, layout: _IntoMemoryLayout, policy: _AllocPolicy = _JUST_ALLOC) -> ZShmMut:
        """Take a buffer, with undefined contents.

        Args:
            layout: Size in bytes, with or without an alignment. Every buffer is aligned to 64 bytes.
            policy: What to do without room. Buffers that receivers have returned are collected in any case,
                and buffers in use are never revoked: :class:`BlockOn` waits, the others differ by name only.

        Raises:
            InvalidValue: The size is not positive, or the alignment is above 64 bytes.
            ZError: There is no room, or never will be.
        """
        layout = _layout(layout)
        if layout.alignment.get_alignment_value() > _ALIGNMENT:
            raise InvalidValue(f"buffers are aligned to {_ALIGNMENT} bytes, not to {layout.alignment!r}")
        while True:
            buffer = self._pool.allocate(layout.size)
            if buffer is not None:
                return buffer
            if layout.size > self._size or not policy.waits:
                raise ZwireError(
                    f"no shared memory for {layout.size} bytes: {self.available} of {self._size} are left"
                )
            time.sleep(_POLL)

    def defragment(self) -> None:
        """Join free memory; here neighbours are joined as soon as they are free."""

    def garbage_collect(self) -> int:
        """Collect buffers that receivers have returned.

        Returns:
            Bytes that are free.
        """
        self._pool.collect()
        return self.available

    def garbage_collect_unsafe(self) -> int:
        """Collect as :meth:`garbage_collect` does: buffers in use are never revoked."""
        return self.garbage_collect()

    @property
    def available(self) -> int:
        """Bytes that are free."""
        return self._pool.available

    def __repr__(self) -> str:
        """Return the size and what is free."""
        return f"<ShmProvider of {self._size} bytes, {self.available} free>"


def _layout(layout: _IntoMemoryLayout) -> MemoryLayout:
    match layout:
        case MemoryLayout():
            return layout
        case (int() as size, AllocAlignment() as alignment):
            return MemoryLayout(size, alignment)
        case int():
            return MemoryLayout(layout)
    expected = "a size, a size with an alignment, or a layout"
    raise TypeError(f"expected {expected}, not {type(layout).__name__}")


if TYPE_CHECKING:
    _AllocPolicy: TypeAlias = JustAlloc | BlockOn | Deallocate | Defragment | GarbageCollect
    _IntoMemoryLayout: TypeAlias = MemoryLayout | tuple[int, AllocAlignment] | int
