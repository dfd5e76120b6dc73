"""Names, keys, liveliness tokens, gids and attachments of rmw_zenoh (`zenoh-services` 6.1, 6.2 and 6.4).

A topic or service is the key ``<domain>/<name>/<type>/<hash>``. Each node and endpoint has a token::

    @ros2_lv/<domain>/<zid>/<nid>/<id>/<kind>/<enclave>/<namespace>/<node>
    @ros2_lv/<domain>/<zid>/<nid>/<id>/<kind>/<enclave>/<namespace>/<node>/<name>/<type>/<hash>/<qos>

Tokens and attachments come from other nodes: each part has a bound, and a part that is wrong is named.
"""

from __future__ import annotations

import enum
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from zwire._lazy import library
from zwire.errors import DecodeError, InvalidValue
from zwire.ros2._qos import QoSProfile

if TYPE_CHECKING:
    from collections.abc import Callable

ADMIN: Final = "@ros2_lv"
"""First chunk of every token."""

MOST_TOKEN: Final = 4096
"""Characters of a token that is read: four names of at most 247 characters, type, hash and QoS need 1,500."""

MOST_NAME: Final = 247
"""Characters of a name, as the middleware interface of ROS 2 limits topics (255 less the prefixes of DDS)."""

MOST_DOMAIN: Final = 232
"""Highest domain: the ports that DDS derives from higher ones would not exist."""

NO_HASH: Final = "TypeHashNotSupported"
"""Place of the hash in keys of distributions without hashes of types."""

_NODE_CHUNKS: Final = 9
_ENDPOINT_CHUNKS: Final = 13
_NUMBER = re.compile(r"[0-9]{1,20}")
_ZID = re.compile(r"[0-9a-f]{1,32}")
_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_NAME = re.compile(rf"~?(?:/?{_WORD}(?:/{_WORD})*)?")
_NODE = re.compile(_WORD)
_ROS_TYPE = re.compile(rf"({_WORD})/(msg|srv|action)/({_WORD})")
_DDS_TYPE = re.compile(rf"({_WORD})::(msg|srv|action)::dds_::({_WORD})_")
_HASH = re.compile(r"RIHS[0-9]{2}_[0-9a-f]{64}")


class EntityKind(enum.Enum):
    """Kinds of tokens.

    ::

        with ros2.Node("talker", session=session) as node:
            (entity,) = node.graph.entities(ros2.EntityKind.NODE)
            print(entity.kind.value)  # NN
    """

    NODE = "NN"
    PUBLISHER = "MP"
    SUBSCRIPTION = "MS"
    SERVICE = "SS"
    CLIENT = "SC"


@dataclass(frozen=True, slots=True)
class Entity:
    """A node of the graph, or an endpoint of one: the contents of a liveliness token.

    The last four fields are empty for a node.

    ::

        with ros2.Node("talker", session=session, namespace="robot1") as node:
            node.create_publisher("std_msgs/msg/String", "chatter")
            node.graph.wait_for(lambda graph: "/robot1/chatter" in graph.topics(), timeout=5)
            (entity,) = node.get_publishers_info_by_topic("/robot1/chatter")
            print(entity.node_name, entity.type)  # /robot1/talker std_msgs/msg/String
    """

    domain: int
    """Number of the domain."""
    zid: str
    """Id of the Zenoh session, in hexadecimal digits."""
    nid: int
    """Number of the node in its session."""
    id: int
    """Number of the entity in its session."""
    kind: EntityKind
    """Kind of the entity."""
    enclave: str
    """Security enclave, such as ``/robots``; mostly empty."""
    namespace: str
    """Namespace of the node, ``/`` for the root."""
    node: str
    """Name of the node without its namespace."""
    name: str = ""
    """Full name of the topic or service, such as ``/chatter``."""
    type: str = ""
    """Type, such as ``std_msgs/msg/String``."""
    hash: str = ""
    """Hash of the type: ``RIHS01_`` and 64 digits, or ``TypeHashNotSupported``."""
    qos: QoSProfile | None = None
    """Quality of service."""

    @property
    def node_name(self) -> str:
        """Name of the node with its namespace, such as ``/robot1/talker``."""
        return f"{self.namespace.rstrip('/')}/{self.node}"

    @property
    def key(self) -> str:
        """Key of the topic or service."""
        return topic_key(self.domain, self.name, self.type, self.hash)

    def token(self) -> str:
        """Return the text of the token."""
        head = (
            f"{ADMIN}/{self.domain}/{self.zid}/{self.nid}/{self.id}/{self.kind.value}"
            f"/{mangled(self.enclave)}/{mangled(self.namespace)}/{mangled(self.node)}"
        )
        if self.qos is None:
            return head
        return f"{head}/{mangled(self.name)}/{dds_type(self.type)}/{self.hash}/{self.qos.text()}"


class Attachment(NamedTuple):
    """Bytes beside a message: its number, its time and its publisher.

    On the wire are 33 octets: the number and the time in nanoseconds, 8 each, little endian, the length of
    the gid, 1, and the gid, 16.

    ::

        packed = ros2.Attachment(1, 1_700_000_000_000_000_000, bytes(16)).pack()
        print(len(packed), packed[:8].hex())  # 33 0100000000000000
    """

    sequence: int
    """Number of the message at its publisher, from 1."""
    time: int
    """Nanoseconds since 1970 by the clock of the publisher."""
    gid: bytes
    """Id of the publisher, or of the client of a service."""

    def pack(self) -> bytes:
        """Return the 33 octets."""
        return _LAYOUT.pack(self.sequence, self.time, 16, self.gid)


_LAYOUT = struct.Struct("<qqB16s")


def read_attachment(octets: bytes | None) -> Attachment:
    """Read an attachment.

    Raises:
        DecodeError: It is missing, or has another form.
    """
    if octets is None:
        raise DecodeError("attachment: the message has none", reading="attachment", offset=0)
    if len(octets) != _LAYOUT.size:
        problem = f"attachment: {len(octets)} octets, and rmw_zenoh writes {_LAYOUT.size}"
        raise DecodeError(problem, reading="attachment", offset=min(len(octets), _LAYOUT.size))
    sequence, time, length, gid = _LAYOUT.unpack(octets)
    if length != 16:
        raise DecodeError(f"attachment: a gid of {length} octets, not 16", reading="attachment", offset=16)
    return Attachment(sequence, time, gid)


def gid(token: str) -> bytes:
    """Return the 16 octets of an endpoint's id: XXH3-128 of its token, the lowest octet first."""
    digest: Callable[[bytes], int] = library("xxhash", "ros2").xxh3_128_intdigest
    return digest(token.encode()).to_bytes(16, "little")


def mangled(name: str) -> str:
    """Return a name as one chunk of a token."""
    return name.replace("/", "%") or "%"


def dds_type(name: str) -> str:
    """Return the name of a type in keys: ``std_msgs/msg/String`` is ``std_msgs::msg::dds_::String_``.

    Raises:
        InvalidValue: The name is not ``package/msg|srv|action/Name``.
    """
    if (found := _ROS_TYPE.fullmatch(name)) is None:
        raise InvalidValue(
            f"type {name!r}: expected package/msg/Name, package/srv/Name or package/action/Name"
        )
    return f"{found[1]}::{found[2]}::dds_::{found[3]}_"


def ros_type(name: str) -> str:
    """Return the name of a type from that in a key.

    Raises:
        DecodeError: The name has another form.
    """
    if (found := _DDS_TYPE.fullmatch(name)) is None:
        raise DecodeError(f"type: {name[:80]!r} is not package::msg::dds_::Name_", reading="type", offset=0)
    return f"{found[1]}/{found[2]}/{found[3]}"


def topic_key(domain: int, name: str, type_: str, hash_: str) -> str:
    """Return the key of a topic or service; ``name`` is the full one."""
    return f"{domain}/{name.strip('/')}/{dds_type(type_)}/{hash_}"


def read_key(key: str) -> tuple[int, str, str, str]:
    """Return domain, full name, type and hash of a key.

    Raises:
        DecodeError: The key is none of a topic or service.
    """
    chunks = key.split("/")
    if len(key) > MOST_TOKEN or len(chunks) < 4:
        raise DecodeError("key: expected domain/name/type/hash", reading="key", offset=0)
    hash_ = _hash(chunks[-1])
    return _number("domain", chunks[0]), "/" + "/".join(chunks[1:-2]), ros_type(chunks[-2]), hash_


def read_token(key: str) -> Entity:
    """Read a liveliness token.

    Raises:
        DecodeError: It has another form; ``reading`` names the part.
    """
    if len(key) > MOST_TOKEN:
        raise DecodeError(f"token: more than {MOST_TOKEN} characters", reading="token", offset=MOST_TOKEN)
    chunks = key.split("/")
    if len(chunks) < _NODE_CHUNKS or chunks[0] != ADMIN:
        problem = f"token: {len(chunks)} chunks, and a node has {_NODE_CHUNKS}"
        raise DecodeError(problem, reading="token", offset=0)
    kind = _kind(chunks[5])
    if not _ZID.fullmatch(chunks[2]):
        raise DecodeError(f"zid: {chunks[2][:40]!r} is no id of a session", reading="zid", offset=0)
    name = type_ = hash_ = ""
    qos = None
    if kind is not EntityKind.NODE:
        # Later distributions append chunks, such as the kinds of buffers.
        if len(chunks) < _ENDPOINT_CHUNKS:
            problem = f"token: {len(chunks)} chunks, and an endpoint has {_ENDPOINT_CHUNKS}"
            raise DecodeError(problem, reading="token", offset=0)
        name, type_ = _plain("name", chunks[9]), ros_type(chunks[10])
        hash_, qos = _hash(chunks[11]), QoSProfile.from_text(chunks[12])
    return Entity(
        domain=_number("domain", chunks[1]),
        zid=chunks[2],
        nid=_number("nid", chunks[3]),
        id=_number("id", chunks[4]),
        kind=kind,
        enclave=_plain("enclave", chunks[6]).rstrip("/"),
        namespace=_plain("namespace", chunks[7]),
        node=_plain("node", chunks[8]).strip("/"),
        name=name,
        type=type_,
        hash=hash_,
        qos=qos,
    )


def _kind(text: str) -> EntityKind:
    try:
        return EntityKind(text)
    except ValueError:
        raise DecodeError(f"kind: {text[:20]!r} is unknown", reading="kind", offset=0) from None


def _number(part: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise DecodeError(f"{part}: {text[:40]!r} is no number", reading=part, offset=0)
    return int(text)


def _hash(text: str) -> str:
    if text != NO_HASH and not _HASH.fullmatch(text):
        raise DecodeError(f"hash: {text[:80]!r} is no hash of a type", reading="hash", offset=0)
    return text


def _plain(part: str, chunk: str) -> str:
    if len(chunk) > MOST_NAME + 1 or not chunk.isprintable():
        raise DecodeError(f"{part}: longer than {MOST_NAME} characters, or not text", reading=part, offset=0)
    return chunk.replace("%", "/")


def node_name(name: str) -> str:
    """Check the name of a node.

    Raises:
        InvalidValue: It has characters other than letters, digits and underscores, or begins with a digit.
    """
    if not _NODE.fullmatch(name) or len(name) > MOST_NAME:
        raise InvalidValue(f"node name {name!r}: expected letters, digits and underscores, no digit first")
    return name


def full_name(name: str, namespace: str = "/", node: str = "") -> str:
    """Return the full name of a topic, service or namespace, by the rules of ROS 2.

    ``/a`` stays, ``a`` is below the namespace, ``~/a`` below the node.

    Raises:
        InvalidValue: The name is not legal.
    """
    if not name or not _NAME.fullmatch(name) or name == "/" or "__" in name:
        rule = "words of letters, digits and single underscores between slashes, without a digit first"
        raise InvalidValue(f"name {name!r}: expected {rule}")
    base = namespace.rstrip("/")
    if name.startswith("~"):
        full = f"{base}/{node}{'/' if name[1:2] not in {'', '/'} else ''}{name[1:]}"
    else:
        full = name if name.startswith("/") else f"{base}/{name}"
    if len(full) > MOST_NAME:
        raise InvalidValue(f"name {full[:40]!r}...: {len(full)} characters, the most are {MOST_NAME}")
    return full
