"""Outcomes of a message; the compiled module imports them from here."""

import enum


class Delivery(enum.StrEnum):
    """The outcome of a message for one peer.

    ::

        local = {"beacons": False, "bind": "127.0.0.1", "mailbox": 0}
        with zre.Node("one", local) as one, zre.Node("two", local, peers=[one.endpoint]) as two:
            two.wait_for_peers(1, timeout=5)
            outcome = two.whisper(one.uuid, "for you")
            print(outcome is zre.Delivery.QUEUED)  # True
    """

    QUEUED = "queued"
    """Queued for sending. Arrival shows only in the peer's own answers."""
    FULL = "full"
    """The queue of the peer is full. The message is lost, and the session begins anew."""
    NOT_RESPONDING = "not_responding"
    """The connection to the peer failed, and there is no new one yet."""
    REFUSED = "refused"
    """The content has several frames, and the generation of the peer allows one."""
