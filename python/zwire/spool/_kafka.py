"""Server of spools for clients of Kafka: a topic is a spool, and a partition one of its shards."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from zwire._closing import Closing
from zwire._zwire import SpoolKafka
from zwire.errors import UsageError
from zwire.spool._view import located

if TYPE_CHECKING:
    from collections.abc import Iterable

LISTEN = "127.0.0.1:9092"
"""Default address: the port of Kafka, for clients on this machine."""


def topic_of(place: str | os.PathLike[str]) -> str:
    """Return the name of the topic of a spool without a name of its own: the last part of its place."""
    return re.split(r"[/\\]", located(place).rstrip("/\\"))[-1]


class KafkaServer(Closing):
    """Serves spools to clients of Kafka, from its creation until :meth:`close`. A context manager.

    Clients read, and may commit as groups. Every client that reaches the address may do both: there is no
    encryption and no user, so the default address is that of this machine alone.
    """

    def __init__(
        self,
        spools: str
        | os.PathLike[str]
        | Iterable[str | os.PathLike[str]]
        | Mapping[str, str | os.PathLike[str]],
        *,
        listen: str = LISTEN,
        advertised: str | None = None,
        commits: bool = True,
    ) -> None:
        """Open the spools and listen.

        Args:
            spools: Folder or address of a spool, several of them, or a dictionary of them by topic. Without
                names the topic of a spool is the last part of its place.
            listen: Address to listen on; port 0 takes a free one.
            advertised: Address that clients are told to connect to, behind a proxy or a translated address.
                By default the one that each client has used.
            commits: Whether groups may commit. A commit becomes the position of the consumer of that name,
                up to which ``Retention`` keeps rows.

        Raises:
            SpoolError: There is no spool, or it cannot be read.
            UsageError: The name of a topic is not allowed or given twice, or the spool has no samples.
            ConnectError: The address cannot be listened on.
        """
        if isinstance(spools, str | os.PathLike):
            spools = [spools]
        if not isinstance(spools, Mapping):
            named = [(topic_of(place), located(place)) for place in spools]
        else:
            named = [(name, located(place)) for name, place in spools.items()]
        if not named:
            raise UsageError("no spool: a server needs at least one")
        self.topics: list[str] = [name for name, _ in named]
        self._server = SpoolKafka(list(named), listen, advertised, commits)

    def __repr__(self) -> str:
        """Show the address and the topics."""
        return f"KafkaServer({self.address!r}, topics={self.topics!r})"

    @property
    def address(self) -> str:
        """Address that it listens on, for ``bootstrap.servers`` of clients."""
        return self._server.address

    def close(self) -> None:
        """Stop listening, and close all connections. A second call does nothing."""
        self._server.close()
