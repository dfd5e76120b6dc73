"""Names, types and units of the numbers in ``stats()`` of sessions, ZRE nodes and ZMTP sockets.

Counting takes no lock per message. A counter rises as long as its session is open, across reconnections of
links; a gauge is the present value. :data:`SESSION`, :data:`NODE`, :data:`SPOOL` and :data:`SPOOLER` describe
each number in a sentence.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, NotRequired, TypedDict

__all__ = [
    "MQTT",
    "NODE",
    "SESSION",
    "SINK",
    "SPOOL",
    "SPOOLER",
    "LaneStats",
    "LinkStats",
    "NodeStats",
    "QueueStats",
    "SessionStats",
    "SocketStats",
    "Stat",
    "Table",
]


class Stat(NamedTuple):
    """The description of one number.

    ::

        sent = stats.SESSION["session.pushes_sent"]
        print(sent.kind, sent.unit)  # counter messages
    """

    kind: Literal["counter", "gauge"]
    """Whether the number only rises."""
    unit: str
    """The unit: the things counted."""
    text: str
    """The meaning of the number, in a sentence."""


class LaneStats(TypedDict):
    """The traffic of one lane of a link: messages of one priority, or all if the link has no priorities.

    ::

        client = zenoh.open({"mode": "client", "connect/endpoints": session.listening()})
        client.ready(timeout=5)  # the session has answered
        (link,) = session.stats()["per_link"]
        print(link["lanes"]["data"]["waiting_bytes"])  # 0
    """

    tx_messages: int
    """Network messages that were queued."""
    tx_dropped: int
    """Network messages that were dropped, because the lane was full."""
    waiting_bytes: int
    """Bytes that wait to be written."""
    capacity_bytes: int
    """Most waiting bytes before messages are dropped or held up."""
    producers: int
    """Threads and tasks that are held up."""


class LinkStats(TypedDict):
    """An open link.

    ::

        client = zenoh.open({"mode": "client", "connect/endpoints": session.listening()})
        client.ready(timeout=5)  # the session has answered
        (link,) = session.stats()["per_link"]
        print(link["whatami"], link["zid"] == str(client.zid()))  # client True
    """

    zid: str | None
    """Id of the node at the other end; None for a multicast group."""
    whatami: Literal["router", "peer", "client"] | None
    """The role of the other end."""
    src: str
    """The own end, as a locator."""
    dst: str
    """The other end, as a locator."""
    seconds: float
    """Age of the link."""
    tx_bytes: int
    """Bytes written."""
    tx_messages: int
    """Network messages that were queued."""
    tx_writes: int
    """System calls that wrote."""
    tx_dropped: int
    """Network messages that were dropped, because their lane was full."""
    rx_bytes: int
    """Bytes read."""
    rx_messages: int
    """Network messages received."""
    rx_shm_failed: int
    """Network messages that were dropped, because their payload in shared memory of the sender cannot be
    read."""
    tx_lent: int
    """Network messages queued whose payload the other end reads in shared memory."""
    tx_unlent: int
    """Network messages with a large payload that crossed the link although it lends: the other end has much
    on loan, or does not know the memory yet."""
    rx_borrowed: int
    """Network messages received whose payload came in shared memory of the peer."""
    lending: Literal[
        "off", "opening", "on", "eclipse", "unreachable", "user", "timed_out", "system", "protocol"
    ]
    """Whether payloads may stay in shared memory. ``on``: with a node of zwire; ``eclipse``: with one of
    eclipse-zenoh; ``off``: both ends have not agreed on it, as on another host; ``unreachable``: another
    network namespace; ``user``: a process of another user; ``system``: the system has no memory for it;
    ``timed_out`` and ``protocol``: the channel beside the link failed, or the memory of the other end cannot
    be read."""
    lanes: dict[str, LaneStats]
    """Lanes by name of the priority, ``control`` to ``background``; ``data`` alone for a link without
    priorities."""


class QueueStats(TypedDict):
    """The queue between the network and one subscriber or queryable.

    ::

        subscriber = session.declare_subscriber("demo/**")
        session.put("demo/a", "x")
        (queue,) = session.stats()["per_subscriber"]
        print(queue["key_expr"], queue["waiting"])  # demo/** 1
    """

    key_expr: str
    """The key expression of the declaration."""
    kind: Literal["subscriber", "liveliness", "queryable"]
    """The kind of the declaration that takes items from the queue."""
    received: int
    """Items received, dropped ones included."""
    dropped: int
    """Items dropped because the queue was full."""
    replaced: int
    """Items replaced by a newer item of the same key."""
    waiting: int
    """Items in the queue."""
    waiting_bytes: int
    """Bytes in the queue."""
    capacity: int
    """Most items in the queue."""
    capacity_bytes: int
    """Most bytes in the queue, unless a single item has more."""
    full: Literal["block", "drop_newest", "drop_oldest", "latest"]
    """The behaviour when the queue is full."""
    stalled: bool
    """Whether the deadline passed without an item being taken: new items are dropped without another wait."""


SessionStats = TypedDict(
    "SessionStats",
    {
        "session.pushes_sent": int,
        "session.pushes_received": int,
        "session.samples_delivered": int,
        "session.requests_sent": int,
        "session.requests_received": int,
        "session.queries_delivered": int,
        "session.responses_sent": int,
        "session.responses_received": int,
        "session.replies_delivered": int,
        "session.declarations_sent": int,
        "session.declarations_received": int,
        "session.links_up": int,
        "session.dropped.put_no_link": int,
        "session.dropped.put_no_subscriber": int,
        "session.dropped.put_no_local_subscriber": int,
        "session.dropped.out_link_lost": int,
        "session.dropped.in_bad_key": int,
        "session.dropped.push_no_subscriber": int,
        "session.dropped.request_refused": int,
        "session.dropped.reply_late": int,
        "session.dropped.reply_bad_key": int,
        "session.dropped.reply_consolidated": int,
        "session.dropped.consolidation_overflow": int,
        "session.dropped.declare_ignored": int,
        "node.pushes_in": NotRequired[int],
        "node.pushes_out": NotRequired[int],
        "node.pushes_unmatched": NotRequired[int],
        "node.requests_in": NotRequired[int],
        "node.requests_out": NotRequired[int],
        "node.responses": NotRequired[int],
        "node.query_timeouts": NotRequired[int],
        "node.interest_timeouts": NotRequired[int],
        "node.invalid_keys": NotRequired[int],
        "node.future_dropped": NotRequired[int],
        "node.future_replaced": NotRequired[int],
        "node.unknown_requests": NotRequired[int],
        "node.ignored": NotRequired[int],
        "node.matching_waits": NotRequired[int],
        "authoriser.asked": int,
        "authoriser.denied": int,
        "authoriser.timed_out": int,
        "authoriser.raised": int,
        "authoriser.cached": int,
        "gossip.refused": int,
        "link.tx_bytes": int,
        "link.tx_messages": int,
        "link.tx_writes": int,
        "link.tx_dropped": int,
        "link.rx_bytes": int,
        "link.rx_messages": int,
        "link.rx_shm_failed": int,
        "link.tx_lent": int,
        "link.tx_unlent": int,
        "link.rx_borrowed": int,
        "lending.pool_full": int,
        "lending.borrowed": int,
        "lending.held": int,
        "lending.stale": int,
        "lending.failed.unreachable": int,
        "lending.failed.user": int,
        "lending.failed.timed_out": int,
        "lending.failed.system": int,
        "lending.failed.protocol": int,
        "links": int,
        "links.reconnected": int,
        "links.ended.closed": int,
        "links.ended.closed_by_peer": int,
        "links.ended.lost": int,
        "links.ended.io": int,
        "links.ended.silent": int,
        "links.ended.protocol": int,
        "links.ended.unresponsive": int,
        "handler.dropped": int,
        "handler.replaced": int,
        "handler.queries_dropped": int,
        "handler.replies_dropped": int,
        "handler.errors": int,
        "gets.open": int,
        "queries.open": int,
        "drops": int,
        "drops.per_second": float,
        "drops.seconds": float,
        "per_link": list[LinkStats],
        "per_subscriber": list[QueueStats],
        "per_queryable": list[QueueStats],
    },
)
"""Keys and types of :meth:`Session.stats() <zwire.zenoh.Session.stats>`. Keys of ``node`` exist in routers
and peers."""


def _messages(text: str) -> Stat:
    return Stat("counter", "messages", text)


SESSION: dict[str, Stat] = {
    "session.pushes_sent": _messages("Publications handed to the network."),
    "session.pushes_received": _messages("Publications that came from the network."),
    "session.samples_delivered": _messages("Samples handed to subscribers, from near and far."),
    "session.requests_sent": _messages("Queries handed to the network."),
    "session.requests_received": _messages("Queries that came from the network."),
    "session.queries_delivered": _messages("Queries handed to queryables, from near and far."),
    "session.responses_sent": _messages("Replies handed to the network."),
    "session.responses_received": _messages("Replies that came from the network."),
    "session.replies_delivered": _messages("Replies handed to gets."),
    "session.declarations_sent": _messages("Declarations and interests handed to the network."),
    "session.declarations_received": _messages("Declarations and interests that came from the network."),
    "session.links_up": Stat(
        "counter", "times", "How often the session got a network: 1, and once each time again."
    ),
    "session.dropped.put_no_link": _messages("Publications for the network while there was no link."),
    "session.dropped.put_no_subscriber": _messages(
        "Publications without a subscriber in the network; not sent."
    ),
    "session.dropped.put_no_local_subscriber": _messages(
        "Publications for the own session alone that it has no subscriber for."
    ),
    "session.dropped.out_link_lost": _messages("Messages that were on their way to a link when it was lost."),
    "session.dropped.in_bad_key": _messages("Messages that came with a key that is unknown or not legal."),
    "session.dropped.push_no_subscriber": _messages("Publications that came and that no subscriber matches."),
    "session.dropped.request_refused": _messages("Queries ended at once, because too many are open."),
    "session.dropped.reply_late": _messages("Replies to gets that are over."),
    "session.dropped.reply_bad_key": _messages("Replies on keys that were not asked for."),
    "session.dropped.reply_consolidated": _messages("Replies that were older than one on the same key."),
    "session.dropped.consolidation_overflow": Stat(
        "counter", "gets", "Gets with too many replies to consolidate; they were delivered as they came."
    ),
    "session.dropped.declare_ignored": _messages("Declarations that make no sense."),
    "node.pushes_in": _messages("Publications to forward, those of the own session included."),
    "node.pushes_out": _messages("Publications forwarded, once for each neighbour."),
    "node.pushes_unmatched": _messages("Publications without a matching subscriber."),
    "node.requests_in": _messages("Queries to forward."),
    "node.requests_out": _messages("Queries forwarded, once for each neighbour."),
    "node.responses": _messages("Replies forwarded."),
    "node.query_timeouts": Stat("counter", "queries", "Queries that a neighbour has not answered in time."),
    "node.interest_timeouts": Stat(
        "counter", "interests", "Interests that a neighbour has not answered in time."
    ),
    "node.invalid_keys": _messages("Messages of neighbours with a key that is unknown or not legal."),
    "node.future_dropped": _messages("Publications dropped for a time stamp in the future."),
    "node.future_replaced": _messages("Publications that got a new time stamp for one in the future."),
    "node.unknown_requests": _messages("Replies to queries that are over or unknown."),
    "node.ignored": _messages("Messages of neighbours that make no sense, or not here."),
    "node.matching_waits": _messages(
        "Messages after which a link was left unread for a while: it had used its time for matching keys."
    ),
    "authoriser.asked": Stat("counter", "questions", "Questions to the authoriser."),
    "authoriser.denied": Stat(
        "counter", "questions", "Questions that the authoriser has answered with False."
    ),
    "authoriser.timed_out": Stat(
        "counter", "questions", "Messages that the fall-back decided about, because no answer came in time."
    ),
    "authoriser.raised": Stat(
        "counter", "questions", "Questions at which the authoriser raised an exception or returned no bool."
    ),
    "authoriser.cached": _messages("Messages that an earlier answer of the authoriser has decided about."),
    "gossip.refused": Stat(
        "counter",
        "nodes",
        "Locators and nodes of gossip that were not connected to: in another network, or too many.",
    ),
    "link.tx_bytes": Stat("counter", "bytes", "Bytes written to links, ended ones included."),
    "link.tx_messages": _messages("Network messages queued for links."),
    "link.tx_writes": Stat("counter", "calls", "Calls of the system that wrote to links."),
    "link.tx_dropped": _messages("Network messages dropped, because the queue of their link was full."),
    "link.rx_bytes": Stat("counter", "bytes", "Bytes read from links."),
    "link.rx_messages": _messages("Network messages that came from links."),
    "link.rx_shm_failed": _messages(
        "Network messages dropped, because their payload is in shared memory that cannot be read."
    ),
    "link.tx_lent": _messages("Network messages queued whose payload the other end reads in shared memory."),
    "link.tx_unlent": _messages(
        "Network messages with a large payload that crossed a link although it lends: the other end has much"
        " on loan, or does not know the memory yet."
    ),
    "link.rx_borrowed": _messages(
        "Network messages that came from links and whose payload came in shared memory of the sender."
    ),
    "lending.pool_full": Stat(
        "counter",
        "payloads",
        "Payloads that went over links because the shared memory of the session was full.",
    ),
    "lending.borrowed": Stat(
        "counter", "payloads", "Payloads of eclipse-zenoh that were delivered in the memory of their sender."
    ),
    "lending.held": Stat(
        "gauge", "payloads", "Payloads of eclipse-zenoh that are held in the memory of their sender."
    ),
    "lending.stale": _messages(
        "Messages dropped on the way to a receiver of copies, because their sender had taken back the"
        " payload, which was borrowed."
    ),
    "lending.failed.unreachable": Stat(
        "counter",
        "links",
        "Links without shared memory: the other end is in another network namespace, or has another "
        "/dev/shm.",
    ),
    "lending.failed.user": Stat(
        "counter", "links", "Links without shared memory, because the other end belongs to another user."
    ),
    "lending.failed.timed_out": Stat(
        "counter", "links", "Links without shared memory, because the other end has not answered."
    ),
    "lending.failed.system": Stat(
        "counter",
        "links",
        "Links without shared memory, or pauses of it: the system has no memory, no room in /dev/shm or no "
        "descriptors, or locks no more memory.",
    ),
    "lending.failed.protocol": Stat(
        "counter",
        "links",
        "Links without shared memory: the other end has broken the rules, or its memory has an unknown "
        "layout.",
    ),
    "links": Stat("gauge", "links", "Open links."),
    "links.reconnected": Stat(
        "counter", "times", "How often a node that was connected before has come back."
    ),
    "links.ended.closed": Stat("counter", "links", "Links that this side has closed."),
    "links.ended.closed_by_peer": Stat("counter", "links", "Links closed by the other side."),
    "links.ended.lost": Stat("counter", "links", "Links that ended without a close message."),
    "links.ended.io": Stat("counter", "links", "Links that the operating system has ended."),
    "links.ended.silent": Stat(
        "counter", "links", "Links ended because the other side was silent for longer than its lease."
    ),
    "links.ended.protocol": Stat("counter", "links", "Links ended for a protocol error of the other side."),
    "links.ended.unresponsive": Stat("counter", "links", "Links ended because the peer stopped reading."),
    "handler.dropped": _messages("Samples that found the queue of their subscriber full."),
    "handler.replaced": _messages("Samples replaced in a queue by a newer one of the same key."),
    "handler.queries_dropped": _messages("Queries that found the queue of their queryable full."),
    "handler.replies_dropped": _messages("Replies that found the queue of their get full."),
    "handler.errors": Stat("counter", "calls", "Calls of callbacks that have raised."),
    "gets.open": Stat("gauge", "gets", "Gets of this session that are not over."),
    "queries.open": Stat("gauge", "queries", "Queries of others that this session has not finished."),
    "drops": _messages(
        "What was lost: the sum of link.tx_dropped, link.rx_shm_failed, handler.dropped,"
        " handler.queries_dropped, handler.replies_dropped, session.dropped.put_no_link and"
        " session.dropped.out_link_lost."
    ),
    "drops.per_second": Stat("gauge", "messages/s", "How fast drops rises, as the mean over drops.seconds."),
    "drops.seconds": Stat(
        "gauge", "s", "Time since a look at least 10 s ago, or since the one before, or since the beginning."
    ),
}
"""The description of each number in :class:`SessionStats`."""


class NodeStats(TypedDict):
    """Keys and types of :meth:`Node.stats() <zwire.zre.Node.stats>`; :data:`NODE` describes each.

    ::

        with zre.Node("alone", beacons=False, bind="127.0.0.1", mailbox=0) as node:
            numbers: stats.NodeStats = node.stats()
        print(numbers["messages_in"], stats.NODE["messages_in"].kind)  # 0 counter
    """

    beacons_out: int
    beacons_in: int
    beacons_own: int
    beacons_malformed: int
    beacons_security: int
    unanswered_dropped: int
    peers_refused: int
    endpoints_refused: int
    messages_out: int
    messages_in: int
    unknown_identities: int
    before_hello: int
    foreign_generation: int
    hello_security: int
    malformed: int
    gaps: int
    status_repaired: int
    groups_dropped: int
    renewed: int
    queue_full: int
    taken_over: int
    takeovers_refused: int
    events_dropped: int
    frames_lent: int
    frames_unlent: int
    frames_borrowed: int


NODE: dict[str, Stat] = {
    "beacons_out": Stat("counter", "beacons", "Beacons sent, one on each interface."),
    "beacons_in": Stat("counter", "beacons", "Beacons of others."),
    "beacons_own": Stat("counter", "beacons", "Beacons of this node itself."),
    "beacons_malformed": Stat("counter", "datagrams", "Datagrams that are no beacon."),
    "beacons_security": Stat(
        "counter", "beacons", "Beacons with a key where this node has none, or without."
    ),
    "unanswered_dropped": Stat("counter", "nodes", "New nodes refused because the limit was reached."),
    "peers_refused": Stat("counter", "peers", "Peers refused at HELLO because the limit was reached."),
    "endpoints_refused": Stat(
        "counter",
        "endpoints",
        "Endpoints of another host than the connection of the peer, or with a key not in `allow`.",
    ),
    "messages_out": _messages("Messages sent."),
    "messages_in": _messages("Messages that were understood and expected."),
    "unknown_identities": _messages("Messages without a sender, or from this node."),
    "before_hello": _messages("Messages before a HELLO."),
    "foreign_generation": _messages("HELLO of a generation that is not spoken here."),
    "hello_security": _messages("HELLO without a key, or with another than the beacon."),
    "malformed": _messages("Messages that cannot be read."),
    "gaps": Stat("counter", "gaps", "Breaks in the sequence of a peer: messages were lost."),
    "status_repaired": Stat(
        "counter", "times", "Group status of a peer that did not add up and was taken over."
    ),
    "groups_dropped": Stat("counter", "groups", "Groups of a peer beyond the bound."),
    "renewed": Stat("counter", "sessions", "Sessions that this node has begun anew."),
    "queue_full": _messages("Messages that found the queue of their peer full, and are lost."),
    "taken_over": Stat(
        "counter", "connections", "Connections that a newer one of the same peer has replaced."
    ),
    "takeovers_refused": Stat(
        "counter",
        "connections",
        "Connections refused because the peer of their UUID answers on another one, or has another key.",
    ),
    "events_dropped": Stat("counter", "events", "Events dropped because they were not taken in time."),
    "frames_lent": Stat(
        "counter", "frames", "Frames that peers on this host read in the memory of this process."
    ),
    "frames_unlent": Stat(
        "counter",
        "frames",
        "Large frames that crossed the socket to peers on this host: the first ones, and those without room.",
    ),
    "frames_borrowed": Stat("counter", "frames", "Frames read in the memory of peers on this host."),
}
"""The description of each number in :class:`NodeStats`."""

SPOOL: dict[str, Stat] = {
    "rows": Stat("gauge", "rows", "Rows that can be read."),
    "bytes": Stat("gauge", "bytes", "Bytes of the segments, those of the tier included."),
    "appended": Stat("counter", "rows", "Rows of a shard since it exists: the offset of its end."),
    "dropped": Stat("counter", "messages", "Messages that did not get into a shard."),
    "last_received_timestamp_seconds": Stat(
        "gauge", "seconds", "Time at which the newest row of a shard was received."
    ),
    "segments": Stat("gauge", "segments", "Segments of a shard."),
    "gaps": Stat("counter", "gaps", "Rows of the log of gaps that are kept, by reason."),
    "missing": Stat(
        "counter", "messages", "Messages that the kept rows of the log of gaps count, by reason."
    ),
    "consumer.lag_rows": Stat("gauge", "rows", "Rows that a consumer has not committed."),
    "consumer.lag_seconds": Stat(
        "gauge", "seconds", "Time from the arrival of the first such row to that of the newest row."
    ),
    "consumer.committed_timestamp_seconds": Stat(
        "gauge", "seconds", "Time of the last commit of a consumer."
    ),
    "folder_bytes": Stat("gauge", "bytes", "Bytes of all files of the folder."),
    "disk.free_bytes": Stat("gauge", "bytes", "Free bytes of the file system of the folder."),
    "disk.size_bytes": Stat("gauge", "bytes", "Size of the file system of the folder."),
    "tier.bytes": Stat("gauge", "bytes", "Bytes in the tier."),
    "tier.behind_rows": Stat("gauge", "rows", "Rows that the tier does not have yet."),
    "tier.reachable": Stat("gauge", "stores", "Whether the tier can be read."),
}
"""The numbers of a spool that :mod:`zwire.metrics` exports, whether a spooler runs or not."""


SPOOLER: dict[str, Stat] = {
    "received": _messages("Messages that came to the queue of a spooler."),
    "dropped": _messages("Messages that found the queue of a spooler full."),
    "waiting": Stat("gauge", "messages", "Messages in the queue of a spooler."),
    "waiting_bytes": Stat("gauge", "bytes", "Bytes in the queue of a spooler."),
    "rows": Stat("counter", "rows", "Rows that a spooler has written."),
    "payload_bytes": Stat("counter", "bytes", "Bytes of payload of these rows."),
    "raw_bytes": Stat("counter", "bytes", "Bytes of these rows with all columns, before compression."),
    "stored_bytes": Stat(
        "counter", "bytes", "Bytes of these rows with all columns, as they are in the files."
    ),
    "compression_ratio": Stat("gauge", "ratio", "Quotient of both, since the start of the spooler."),
    "lost": _messages("Messages that are missing by the numbers of their publishers or peers."),
    "duplicates": _messages("Messages that came more than once by these numbers."),
    "refused": _messages("Messages too large for the spool, or given up at its end."),
    "expired": Stat("counter", "consumers", "Consumers for which rows are no longer kept."),
    "failing": Stat("gauge", "spoolers", "Whether the last error of a spooler persists."),
    "tier.behind_segments": Stat("gauge", "segments", "Sealed segments that are not in the tier yet."),
    "tier.behind_bytes": Stat("gauge", "bytes", "Bytes of sealed segments that are not in the tier yet."),
    "tier.uploaded_bytes": Stat("counter", "bytes", "Bytes that a spooler has put into the tier."),
    "tier.merged_segments": Stat(
        "counter", "segments", "Small segments in the tier that a spooler has merged into larger ones."
    ),
    "tier.orphans": Stat(
        "counter", "objects", "Objects of interrupted uploads in the tier that a spooler has deleted."
    ),
    "tier.failures": Stat("counter", "attempts", "Attempts to use the tier that have failed."),
    "tier.failing": Stat("gauge", "stores", "Whether the last attempt to use the tier has failed."),
    "lease.holding": Stat("gauge", "spoolers", "Whether a spooler of a shared spool is the one that writes."),
    "lease.shards": Stat("gauge", "shards", "Shards that a spooler of a spread spool writes."),
    "lease.epoch": Stat("gauge", "epochs", "Number of the lease of a shared spool, as far as known."),
    "lease.takeovers": Stat(
        "counter", "takeovers", "Times that a spooler has begun to write a shared spool."
    ),
    "standby.messages": Stat("gauge", "messages", "Messages that wait until the tier has them."),
    "standby.bytes": Stat("gauge", "bytes", "Bytes of messages that wait until the tier has them."),
    "standby.dropped": _messages("Messages that found no room while another spooler writes."),
}
"""The numbers of a spooler that :mod:`zwire.metrics` exports; its ``stats()`` explains them."""

SINK: dict[str, Stat] = {
    "rows": Stat("counter", "rows", "Rows that a sink has appended to its table."),
    "filtered": Stat("counter", "rows", "Rows that the key filter of a sink has left out."),
    "commits": Stat("counter", "commits", "Transactions of a sink."),
    "lost": Stat("counter", "rows", "Rows that were deleted or damaged before a sink read them."),
    "lag_rows": Stat("gauge", "rows", "Rows of the spool that the table of a sink does not have yet."),
    "lag_seconds": Stat(
        "gauge", "seconds", "Time between the arrival of the first such row and of the newest row."
    ),
    "gaps": Stat("gauge", "rows", "Rows in the log of gaps of the spool that a sink reads."),
}
"""The description of each metric of a sink."""

MQTT: dict[str, Stat] = {
    "connected": Stat(
        "gauge", "connections", "Whether the broker has accepted a bridge and answered its subscriptions."
    ),
    "connections": Stat("counter", "connections", "Connections of a bridge that the broker has accepted."),
    "in_received": Stat("counter", "messages", "Messages from the broker."),
    "in_put": Stat("counter", "messages", "Messages that a bridge has put into Zenoh."),
    "in_repeated": Stat("counter", "messages", "Messages that were put once more, after a link was lost."),
    "in_looped": Stat("counter", "messages", "Messages that came back to a bridge, and were dropped."),
    "in_unmapped": Stat("counter", "messages", "Messages without a key, or on topics without a rule."),
    "in_too_large": Stat("counter", "messages", "Messages above the largest packet of a bridge."),
    "in_uncertain": Stat("counter", "messages", "Messages with QoS 2 that may be lost."),
    "out_sent": Stat("counter", "messages", "Messages that were sent to the broker."),
    "out_repeated": Stat("counter", "messages", "Messages that were sent once more to the broker."),
    "out_acked": Stat("counter", "messages", "Messages that the broker has acknowledged."),
    "out_looped": Stat("counter", "samples", "Samples that came back to a bridge, and were dropped."),
    "out_unmapped": Stat("counter", "samples", "Samples without a topic."),
    "out_too_large": Stat("counter", "samples", "Samples above the largest packet."),
    "out_refused": Stat("counter", "messages", "Messages that the broker has refused."),
    "out_expired": Stat("counter", "samples", "Samples that left a full spool unsent."),
    "out_dropped": Stat("counter", "samples", "Samples that the queues of a bridge have dropped."),
    "out_missing": Stat("counter", "samples", "Samples that are missing by the numbers of their publishers."),
    "out_waiting": Stat("gauge", "samples", "Samples that wait for the broker."),
}
"""The description of each metric of a bridge to MQTT."""

SocketStats = TypedDict(
    "SocketStats",
    {
        "connected": int,
        "connections": int,
        "failures": int,
        "sent.messages": int,
        "sent.bytes": int,
        "sent.writes": int,
        "sent.waiting": int,
        "sent.dropped_full": int,
        "sent.dropped_unroutable": int,
        "received.messages": int,
        "received.bytes": int,
        "received.reads": int,
        "received.waiting": int,
        "received.ignored": int,
        "events.dropped": int,
    },
)
"""Keys and types of ``stats()`` of a socket of :mod:`zwire.zmtp`: messages, bytes, calls. All are counters
but ``connected`` and both ``waiting``."""


class Table:
    """Counters of a session as a table in notebooks: ``zwire.stats.Table(session.stats())``.

    Counters that are zero are left out.
    """

    def __init__(self, stats: SessionStats) -> None:
        self.stats = stats

    def __repr__(self) -> str:
        """Return the counters that are not zero, in one line."""
        known = {name: value for name, value in self.stats.items() if isinstance(value, int) and value}
        return f"Table({known})"

    def _repr_html_(self) -> str:
        from zwire import _html

        return _html.stats(self.stats)
