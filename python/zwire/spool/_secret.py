"""Secrets of consumers: proof that a commit sent over the network is from the reader that it names.

A spool has one secret of 32 octets, in a file that its owner alone can read. The key of a consumer is the
HMAC-SHA256 of its name under that secret, so that no key is stored and a reader that has the key of one
consumer cannot compute another. A commit carries an HMAC-SHA256 of its content under the key of its consumer.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zwire.errors import ConfigError, SpoolDenied, SpoolError

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "secret"
"""Name of the file in the folder of the spool."""

ALL = "*"
"""In place of the name in a secret for all consumers."""

_OCTETS = 32

_TEXT = re.compile(r"([0-9a-f]{32}):(\*|[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}):([0-9a-f]{64})")


def load(folder: str) -> bytes | None:
    """Read the secret of a spool; ``None`` if it has none."""
    path = os.path.join(folder, FILE)  # noqa: PTH118 - pathlib would be a third of the import.
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123 - as above
            text = file.read(2 * _OCTETS + 2).strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SpoolError(f"{path}: the secret of the spool cannot be read: {error}") from None
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise SpoolError(f"{path}: expected {2 * _OCTETS} hexadecimal digits; delete it to make a new one")
    return bytes.fromhex(text)


def make(folder: str) -> bytes:
    """Return the secret of a spool; write a new one if it has none."""
    path = os.path.join(folder, FILE)  # noqa: PTH118 - as above
    draft = f"{path}.{os.getpid()}-{os.urandom(4).hex()}.new"
    while (found := load(folder)) is None:
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123
                file.write(os.urandom(_OCTETS).hex() + "\n")
                file.flush()
                os.fsync(file.fileno())
            # Of several programs that make one at once, the first one wins.
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        except OSError as error:
            raise SpoolError(f"{path}: the secret of the spool cannot be written: {error}") from None
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft)  # noqa: PTH108 - as above
    return found


@dataclass(frozen=True, repr=False)
class Credential:
    """A secret that a reader was given: for the consumer of a ``name`` of a ``spool``, or for :data:`ALL`."""

    spool: str
    name: str
    key: bytes

    @classmethod
    def parse(cls, text: str) -> Credential:
        """Read the text that :func:`zwire.spool.secret` returns."""
        found = _TEXT.fullmatch(text.strip())
        if found is None:
            form = "'<spool>:<consumer>:<64 hexadecimal digits>'"
            raise ConfigError(f"secret: expected {form}, as zwire spool secret prints it", path="secret")
        return cls(found[1], found[2], bytes.fromhex(found[3]))

    def __repr__(self) -> str:
        """Show the name, not the key."""
        return f"Credential({self.spool!r}, {self.name!r})"

    def __str__(self) -> str:
        """Return the text that :meth:`parse` reads."""
        return f"{self.spool}:{self.name}:{self.key.hex()}"

    def of(self, consumer: str) -> Credential:
        """Return the credential of one consumer."""
        if self.name == ALL:
            return Credential(self.spool, consumer, hmac.digest(self.key, consumer.encode(), "sha256"))
        if self.name != consumer:
            problem = f"the secret is of consumer {self.name!r}, and cannot commit for {consumer!r}"
            raise SpoolDenied(problem)
        return self

    def proof(self, offsets: Mapping[int, int]) -> str:
        """Return the proof of a commit of this consumer."""
        said = ",".join(f"{shard}:{offsets[shard]}" for shard in sorted(offsets))
        content = f"zwire spool commit 1\n{self.spool}\n{self.name}\n{said}"
        return hmac.digest(self.key, content.encode(), "sha256").hex()


def is_proven(root: bytes, spool: str, consumer: str, offsets: Mapping[int, int], proof: object) -> bool:
    """Whether the proof of a commit was made with the key of its consumer."""
    right = Credential(spool, ALL, root).of(consumer).proof(offsets)
    return isinstance(proof, str) and hmac.compare_digest(right.encode(), proof.encode())


def secret(path: str | os.PathLike[str], consumer: str | None = None) -> str:
    """Return the secret with which readers commit over the network; the spool gets one on the first call.

    Give it to :func:`connect`, or by reference to the option ``consumerSecret`` of Spark. It proves that a
    commit is from the consumer that it names. To revoke all secrets of a spool, delete the file ``secret`` in
    its folder.

    Args:
        path: The folder of the spool.
        consumer: Name of the only consumer that it is for; by default it is for all of them, and their
            holders can commit for each other.

    Raises:
        SpoolError: There is no spool in the folder, or it cannot be written.
        ConfigError: The name is no name of a consumer.
    """
    from zwire.spool._view import Spool

    spool = Spool(path)
    root = Credential(spool.id, ALL, make(spool.path))
    if consumer is None:
        return str(root)
    return str(Credential.parse(str(root.of(consumer))))
