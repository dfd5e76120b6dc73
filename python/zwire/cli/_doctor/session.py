"""Checks with a session: certificates, users, roles, versions, access rules, clocks, drops."""

from __future__ import annotations

import json
import re
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zwire import zenoh
from zwire.cli import _admin
from zwire.cli._doctor.findings import Finding
from zwire.cli._doctor.multicast import value
from zwire.errors import ConfigError, ConnectError, HandshakeError, TimedOut, ZwireError

if TYPE_CHECKING:
    from collections.abc import Iterator

_DRIFT = 0.5
"""Seconds that a clock may be ahead before routers replace its time stamps: their default."""

_DROPS = {
    "link.tx_dropped": "messages, because a link was full: the other side of that link is too slow",
    "handler.dropped": "samples, because a program of that node did not take them in time",
    "handler.queries_dropped": "queries, because a program of that node did not take them in time",
    "session.dropped.out_link_lost": "messages, because their link was lost",
    "session.dropped.in_bad_key": "messages with a key that is unknown or not legal",
    "node.invalid_keys": "messages with a key that is unknown or not legal",
    "node.future_dropped": "publications with a time stamp in the future: a clock is ahead",
}

_LOSSES = re.compile(r"dropped|_drop(_|$)")

_REASONS = {
    "expired": (
        "certificate-expired",
        "a certificate is not valid any more by the clock of this host, or that clock is wrong",
        "`date` on both hosts; if it is right, issue a new certificate",
    ),
    "not-yet-valid": (
        "certificate-early",
        "a certificate is not valid yet by the clock of this host: most often that clock is wrong",
        "`date` on both hosts, and set the clock by NTP",
    ),
    "unknown-authority": (
        "certificate-authority",
        "no certificate in root_ca_certificate has signed that of the other side",
        "give transport/link/tls/root_ca_certificate the authority that signed it, on the side that refuses",
    ),
    "name": (
        "certificate-name",
        "the certificate is for another host than that of the endpoint",
        "give a name of the certificate in the endpoint, or issue one with this name (subjectAltName)",
    ),
    "certificate": ("certificate", "the certificate is not accepted", "the message above has the reason"),
    "no-certificate": (
        "certificate-demanded",
        "the other side demands a certificate (enable_mtls), and this configuration has none",
        "set transport/link/tls/connect_certificate and connect_private_key",
    ),
    "denied": (
        "user",
        "the other side does not accept this user or password",
        "compare transport/auth/usrpwd",
    ),
    "demanded": (
        "user-demanded",
        "the other side demands a user and a password, and this configuration has none",
        "set transport/auth/usrpwd/user and password",
    ),
    "not-asked": (
        "user-not-asked",
        "this configuration has a user, and the other side does not ask for one",
        "remove transport/auth/usrpwd here, or configure it there",
    ),
    "not-understood": (
        "other-protocol",
        "one side speaks TLS or WebSocket, and the other does not",
        "compare the protocol of the endpoint with `listen/endpoints` of that node",
    ),
    "closed-in-handshake": (
        "other-protocol",
        "the other side closes where TLS begins: it speaks no TLS on this port, or no version that both know",
        "compare the protocol of the endpoint with `listen/endpoints` of that node",
    ),
    "self": ("same-id", "the endpoint is this node itself, or a node with the same `id`", "remove `id` here"),
}


@dataclass
class Pair:
    """Two sessions with the same node, to send something from the one to the other."""

    near: zenoh.Session
    far: zenoh.Session

    def close(self) -> None:
        """Close both."""
        self.near.close(timeout=1.0)
        self.far.close(timeout=1.0)


def prepared(config: zenoh.Config, *, endpoint: str | None, wait: float) -> zenoh.Config:
    """Return the configuration of the sessions of a diagnosis.

    They do not listen, have no id, run no plugins and write no capture, so that the program that is diagnosed
    may run meanwhile; the router stamps what they publish, by its clock.
    """
    own = zenoh.Config(config)
    own.insert_json5("plugins", "null")
    own.insert_json5("zwire/tap", "null")
    own.insert_json5("listen/endpoints", "[]")
    own.insert_json5("id", "null")
    own.insert_json5("timestamping/enabled", "false")
    if value(own, "mode") == "router":
        own.insert_json5("mode", '"client"')
    if endpoint is not None:
        own.insert_json5("connect/endpoints", json.dumps([endpoint]))
        own.insert_json5("scouting/multicast/enabled", "false")
    own.insert_json5("connect/exit_on_failure", "true")
    own.insert_json5("connect/timeout_ms", "0")
    own.insert_json5("scouting/timeout", str(int(wait * 1000)))
    return own


def opened(config: zenoh.Config, wait: float) -> Pair | Finding:
    """Open two sessions, or return why there are none."""
    try:
        near = zenoh.open(config)
        try:
            far = zenoh.open(config)
        except ZwireError:
            near.close(timeout=1.0)
            raise
    except ConfigError as error:
        means = "a session with this configuration cannot be opened"
        return Finding("config", "fault", str(error), means, "correct the key that the message names")
    except HandshakeError as error:
        return _refused(error)
    except ConnectError as error:
        return Finding(
            "no-session", "fault", str(error), "no session could be opened", "see the findings above"
        )
    near.ready(timeout=wait)
    far.ready(timeout=wait)
    return Pair(near, far)


def _refused(error: HandshakeError) -> Finding:
    known = _REASONS.get(error.reason or "")
    if known is not None:
        return Finding(known[0], "fault", str(error), known[1], known[2])
    if "MAX_LINKS" in str(error):
        means = "the other side has a session with the same `id` already"
        return Finding("same-id", "fault", str(error), means, "remove `id` from one of the configurations")
    means = "the other side refuses the session"
    return Finding("refused-session", "fault", str(error), means, "its log says why (`-v`, RUST_LOG=info)")


def check_neighbours(session: zenoh.Session, told: dict[str, dict[str, Any]]) -> Iterator[Finding]:
    """Report role and version of the neighbours."""
    neighbours = session.info.transports()
    if not neighbours:
        yield Finding(
            "no-neighbour",
            "fault",
            "the session has no neighbour",
            "this node is alone: as a peer it waits for others, and none was found",
            "give the endpoint of another node, or look at the findings about scouting",
        )
    for transport in neighbours:
        zid, role = str(transport.zid), transport.whatami.name.lower()
        version = told.get(zid, {}).get("version")
        saw = f"connected to {role} {zid}, {'version not told' if version is None else f'version {version}'}"
        yield Finding("session", "ok", saw)


def check_forwarding(pair: Pair, own: zenoh.Config, wait: float) -> Iterator[Finding]:
    """Send a publication through the node on a key that only these sessions use; compare the clocks."""
    # `**` does not match a chunk that begins with @: no other subscriber gets this.
    key = f"@zwire/doctor/{secrets.token_hex(8)}"
    with pair.far.declare_subscriber(key) as subscriber, pair.near.declare_publisher(key) as publisher:
        subscriber.wait_ready(timeout=wait)
        if not _matches(publisher, wait):
            yield _not_forwarded(pair, own)
            return
        before = time.time()
        publisher.put(b"zwire doctor")
        try:
            sample = subscriber.recv(timeout=wait)
        except TimedOut:
            yield _not_forwarded(pair, own)
            return
        after = time.time()
    yield Finding(
        "forwarding", "ok", f"a publication came through the node in {(after - before) * 1e3:.1f} ms"
    )
    if sample.timestamp is None:
        yield Finding("clock", "note", "the node stamps no publications", "its clock cannot be compared")
        return
    stamp = sample.timestamp.get_time_as_ntp64().as_secs_f64()
    # The node stamped it between these two moments.
    ahead = stamp - after if stamp > after else min(0.0, stamp - before)
    if abs(ahead) > _DRIFT:
        way = "ahead of" if ahead > 0 else "behind"
        yield Finding(
            "clock",
            "fault",
            f"the clock of the node is {abs(ahead):.1f} s {way} that of this host",
            "routers replace or drop time stamps from their future; newest values, latencies and "
            "certificates are judged wrongly",
            "`date` on both hosts; let NTP or chrony set both clocks",
        )
    else:
        yield Finding(
            "clock", "ok", f"the clocks differ by less than {max(abs(ahead), after - before):.3f} s"
        )


def _matches(publisher: zenoh.Publisher, wait: float) -> bool:
    try:
        publisher.wait_matching(timeout=wait)
    except TimedOut:
        return False
    return True


def _not_forwarded(pair: Pair, own: zenoh.Config) -> Finding:
    roles = {transport.whatami.name.lower() for transport in pair.near.info.transports()}
    if "router" not in roles:
        return Finding(
            "peers-do-not-forward",
            "note",
            "a publication does not come through the node, which is a peer",
            "peers deliver to their neighbours and do not forward from one to the other",
            "a router forwards; between two neighbours of each other nothing is wrong",
        )
    if value(own, "access_control/enabled"):
        return Finding(
            "access-unknown",
            "note",
            "a publication on a key of this check does not come back",
            "access control here or at the node allows listed keys alone; --key K checks one of them",
        )
    return Finding(
        "access-unknown",
        "note",
        "the router does not forward a publication on a key of this check",
        "its access control allows listed keys alone; --key K checks one of them",
    )


def check_key(pair: Pair, config: zenoh.Config, key: str, wait: float, *, write: bool) -> Iterator[Finding]:
    """Look whether declarations on a key pass the node, and with ``write`` whether a publication does."""
    reached = _passes(pair, key, wait, write=write)
    if reached is None:
        yield Finding(
            "access", "ok", f"{key}: {'a publication comes' if write else 'a subscription is told'} through"
        )
        return
    saw = f"{key}: {reached}"
    if value(config, "access_control/enabled"):
        without = zenoh.Config(config)
        without.insert_json5("access_control/enabled", "false")
        other = opened(without, wait)
        if isinstance(other, Pair):
            try:
                own = _passes(other, key, wait, write=write) is None
            finally:
                other.close()
            if own:
                yield Finding(
                    "access-here",
                    "fault",
                    saw,
                    "the rules in access_control of this configuration deny it: without them it passes",
                    "allow put and declare_subscriber for the key, on ingress and egress",
                )
                return
    told = any(known.key == key for known in _admin.declared(pair.near, wait) if known.kind == "subscriber")
    yield Finding(
        "access",
        "fault",
        saw,
        "the node knows of the subscription, and keeps the message from it"
        if told
        else "access control of the node denies the key, the publication or the subscription",
        "allow put and declare_subscriber for the key in access_control of the node, on ingress and egress; "
        "look at its `downsampling` and `low_pass_filter` as well",
    )


def _passes(pair: Pair, key: str, wait: float, *, write: bool) -> str | None:
    """Return what does not come through the node; None if all does."""
    with pair.far.declare_subscriber(key) as subscriber, pair.near.declare_publisher(key) as publisher:
        subscriber.wait_ready(timeout=wait)
        if not _matches(publisher, wait):
            return "a subscription behind the node is not told to a publisher"
        if not write:
            return None
        mark = secrets.token_bytes(8)
        publisher.put(mark)
        end = time.monotonic() + wait
        while (left := end - time.monotonic()) > 0:
            try:
                if bytes(subscriber.recv(timeout=left).payload) == mark:
                    return None
            except TimedOut:
                break
        return "a publication does not come through the node"


def check_drops(told: dict[str, dict[str, Any]]) -> Iterator[Finding]:
    """Report what nodes have lost, as far as their admin space counts it."""
    counted = False
    for zid, root in told.items():
        numbers = root["stats"]
        if not numbers:
            continue
        counted = True
        name = f"{root['role']} {zid}"
        lost = {reason: numbers[reason] for reason in _DROPS if numbers.get(reason)}
        if not numbers.keys() & _DROPS.keys():
            # Another implementation, with other names of counters.
            lost = {n: number for n, number in numbers.items() if number and _LOSSES.search(n)}
        for reason, number in lost.items():
            yield Finding(
                "drops",
                "warning",
                f"{name} has dropped {number} {_DROPS.get(reason, 'messages')} ({reason})",
                "a receiver, or the way to it, is slower than what is sent to it"
                if reason.startswith(("link", "handler"))
                else "messages are lost before they reach a subscriber",
                "`zwire top` shows the queues; publish less, make the receiver faster, or publish with BLOCK",
            )
        if replaced := numbers.get("node.future_replaced", 0):
            yield Finding(
                "clock-of-publisher",
                "warning",
                f"{name} has replaced {replaced} time stamps from the future",
                "the clock of a publisher is ahead of that of the node",
                "compare the clocks of the publishers with that of the node; let NTP set them",
            )
        if not lost and not replaced:
            yield Finding("drops", "ok", f"{name} counts no lost messages")
    if not counted:
        yield Finding(
            "drops",
            "note",
            "no node tells its counters",
            "the admin space of the nodes is off, or access control hides it",
            "`adminspace/enabled: true` in the configuration of a node; it is on for `zwire router`",
        )
