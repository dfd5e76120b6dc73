"""A bridge between a ZRE network and Zenoh.

::

    from zwire import zenoh
    from zwire.bridge import zre as bridge

    with zenoh.open() as session, bridge.Bridge(session, ["chat", "robot-*"]):
        session.put("zre/group/chat/me", "hello, peers")

A SHOUT of a ZRE peer is a publication on ``<network>/group/<group>/<uuid>``, a WHISPER one on
``<network>/peer/<to>/<from>``; peers and memberships are liveliness tokens. Publications on these keys go
to ZRE. Only groups that are named cross. Several bridges may join one LAN to one network: one of them
forwards, another one takes over within two seconds.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from zwire import zre
from zwire._closing import Closing
from zwire._options import unknown_option
from zwire._zwire import ZreBridgeHandle, zre_uuid_of
from zwire.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zwire.zenoh import Config, Session, ZenohId

__all__ = ["Bridge", "Rule", "configured", "uuid_of", "without_bridges"]

_SECTION = "plugins/zre"


@dataclass(frozen=True)
class Rule:
    """Groups that cross a bridge. The first rule whose pattern has a group decides about it."""

    pattern: str
    """Name of a group, with ``*`` for any characters. Characters that a key cannot have are written as in
    keys: ``%2F`` for a slash."""

    to_zenoh: bool = True
    """Whether messages of ZRE peers are published."""

    to_zre: bool = True
    """Whether publications are sent to ZRE peers."""

    rate: int | None = None
    """Most messages of one sender in a second, of which all may come at once. By default any number."""


class Bridge(Closing):
    """Joins a ZRE network to the network of a session, until :meth:`close`. A context manager.

    The bridge is a node of the ZRE network, which is found as any other one.
    """

    def __init__(
        self,
        session: Session,
        groups: Iterable[str | Rule] = (),
        *,
        network: str = "zre",
        mode: Literal["one", "mirror", "observer"] = "one",
        whispers: bool = True,
        whisper_rate: int | None = None,
        log: bool = False,
        virtual_nodes: int = 200,
        queue: int = 16_384,
        queue_bytes: int = 16 << 20,
        total_bytes: int = 64 << 20,
        patience: float = 0.05,
        node: zre.Config | Mapping[str, Any] | None = None,
    ) -> None:
        """Start a bridge.

        Args:
            session: The session that it belongs to, and ends with.
            groups: Groups that cross, by name, by pattern or as :class:`Rule`; no group crosses that is not
                named.
            network: First part of its keys, so that several ZRE networks can share a network of Zenoh.
            mode: What ZRE peers see of Zenoh: ``one`` node, that of the bridge; ``mirror``: also a node for
                each peer of other bridges, with its UUID, name and groups; ``observer``: nothing of Zenoh
                goes to ZRE.
            whispers: Whether messages to single peers cross. The bridge subscribes to those of all LANs of
                the network.
            whisper_rate: Most of them of one sender in a second. By default any number.
            log: Whether the bridge collects ZRE/LOG of its peers, and publishes the records.
            virtual_nodes: Most nodes of the mirror mode: each has a connection to every peer of the LAN.
            queue: Most messages that wait in one direction, for each sender. Beyond, its oldest is dropped,
                and counted.
            queue_bytes: Most octets of them.
            total_bytes: Most octets that wait in one direction, of all senders.
            patience: Seconds for which a full queue of a ZRE peer is waited for; then the peer loses
                messages, and begins a new session.
            node: Settings of the ZRE node, such as its ``interfaces``, ``generations`` and keys.

        Raises:
            ConfigError: An option is not accepted.
            UsageError: The session has a bridge to this network already.
            SessionClosed: The session is closed.
        """
        settings = node if isinstance(node, zre.Config) else zre.Config.of(None, node or {})
        options: dict[str, Any] = {
            "network": network,
            "mode": mode,
            "groups": [_rule(rule) for rule in groups],
            "whispers": whispers,
            "whisper_rate": whisper_rate,
            "log": log,
            "virtual_nodes": virtual_nodes,
            "queue": queue,
            "queue_bytes": queue_bytes,
            "total_bytes": total_bytes,
            "patience": patience,
        }
        self.network: str = network
        self._handle = ZreBridgeHandle(session, options, settings.settings())

    def __repr__(self) -> str:
        """Show the network."""
        return f"<Bridge {self.network!r}>"

    @property
    def uuid(self) -> str:
        """UUID of its ZRE node: 32 upper-case hexadecimal digits."""
        return self._handle.uuid

    def stats(self) -> dict[str, Any]:
        """Return counters and state.

        The bridge is ``active`` in a ``term``, or in reserve beside ``other_bridges`` of its LAN. It sees
        ``peers`` there, and ``far_peers`` by other bridges; its node is in so many ``groups``, and
        ``virtual_nodes`` stand for far peers. ``problem`` is the reason why it has ended by itself, or
        ``None``.

        ``to_zenoh`` and ``to_zre`` messages have crossed. Others have not: ``not_named`` by a rule,
        ``above_rate``, ``dropped_to_zenoh`` and ``dropped_to_zre`` because their sender was too fast,
        ``duplicates``, ``looped`` through too many bridges, ``malformed``, ``failed`` in the session or the
        node, or ``spoofed`` under the UUID of a peer. Copies for single peers were lost because a queue was
        ``full``, a peer ``not_responding``, or of a generation that ``refused`` several frames; whispers
        because of an ``unknown_peer``; and messages ``lost_by_zre`` on their way to the bridge.

        After ``takeovers`` from other bridges, ``taken_over`` messages were passed on that they had not;
        whispers ``in_doubt`` may be lost. ``reserve_dropped`` ones were more than a bridge in reserve
        keeps. ``mirror_failed`` nodes did not start.
        """
        return self._handle.stats()

    def close(self, timeout: float = 5.0) -> None:
        """Send what waits, as far as there is room, and leave both networks. A second call does nothing.

        Raises:
            UsageError: The bridge has not ended within the timeout.
        """
        self._handle.close(timeout)


def uuid_of(zid: ZenohId | str) -> str:
    """Return the UUID that a program of Zenoh has in a bridged network: 32 lower-case digits.

    It follows from the id of its session: SHA3-256 of ``zwire-zre`` and the 16 octets of the id,
    little-endian; the first 16 octets of that as a UUID of version 8.

    Raises:
        ValueError: The text is no id.
    """
    return zre_uuid_of(str(zid))


def _rule(rule: str | Rule) -> tuple[str, bool, bool, int | None]:
    made = Rule(rule) if isinstance(rule, str) else rule
    return made.pattern, made.to_zenoh, made.to_zre, made.rate


def configured(session: Session, config: Config) -> list[Bridge]:
    """Start the bridges that a configuration asks for: ``plugins/zre/networks``, an object by network.

    Each value has the arguments of :class:`Bridge` by name. Groups are texts, or objects with the fields of
    :class:`Rule`.

    Args:
        session: The session to join.
        config: Configuration with the section. Without it no bridge starts.

    Raises:
        ConfigError: The section is not accepted.
        UsageError: The session has a bridge to a network already.
    """
    found: list[Bridge] = []
    try:
        for name, options in _networks(config).items():
            found.append(_of(session, name, options))
    except BaseException:
        for bridge in found:
            bridge.close()
        raise
    return found


def _of(session: Session, name: str, options: dict[str, Any]) -> Bridge:
    path = f"{_SECTION}/networks/{name}"
    try:
        return Bridge(session, network=name, **options)
    except ConfigError as error:
        where = f"{path}/{error.path}" if error.path else path
        raise ConfigError(f"{path}/{error}", path=where) from error


def _networks(config: Config) -> dict[str, dict[str, Any]]:
    """Return the arguments of each bridge by its network."""
    section = (json.loads(config.get_json("plugins")) or {}).get("zre")
    if section is None:
        return {}
    networks = _object(section, _SECTION).get("networks", {})
    for key in section:
        if key != "networks" and not key.startswith("__"):
            raise _unknown(_SECTION, key, ["networks"])
    found: dict[str, dict[str, Any]] = {}
    for name, given in _object(networks, f"{_SECTION}/networks").items():
        path = f"{_SECTION}/networks/{name}"
        options = dict(_object(given, path))
        for key in options:
            if key not in _ARGUMENTS:
                raise _unknown(path, key, _ARGUMENTS)
        groups = options.get("groups", [])
        if not isinstance(groups, list):
            raise ConfigError(f"`{path}/groups`: expected a list of patterns", path=f"{path}/groups")
        if options.get("node") is not None:
            _object(options["node"], f"{path}/node")
        options["groups"] = [_read_rule(rule, f"{path}/groups/{at}") for at, rule in enumerate(groups)]
        found[name] = options
    return found


_ARGUMENTS = (
    "groups",
    "mode",
    "whispers",
    "whisper_rate",
    "log",
    "virtual_nodes",
    "queue",
    "queue_bytes",
    "total_bytes",
    "patience",
    "node",
)


def _read_rule(rule: object, path: str) -> Rule:
    if isinstance(rule, str):
        return Rule(rule)
    fields = _object(rule, path)
    known = [field.name for field in dataclasses.fields(Rule)]
    for key in fields:
        if key not in known:
            raise _unknown(path, key, known)
    if not isinstance(fields.get("pattern"), str):
        raise ConfigError(f"`{path}/pattern`: expected a text", path=f"{path}/pattern")
    return Rule(**fields)


def _object(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"`{path}`: expected an object", path=path)
    return value


def _unknown(path: str, key: str, known: Iterable[str]) -> ConfigError:
    error = unknown_option(key, known)
    return ConfigError(f"`{path}`: {error}", path=f"{path}/{key}", nearest=error.nearest)


def without_bridges(config: Config) -> Config:
    """Return a configuration without the section that :func:`configured` reads, which no session acts on.

    Raises:
        ConfigError: The section is not accepted.
    """
    _networks(config)
    plugins = json.loads(config.get_json("plugins")) or {}
    left = type(config)(config)
    left.insert_json5("plugins", json.dumps({name: part for name, part in plugins.items() if name != "zre"}))
    return left
