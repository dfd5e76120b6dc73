"""What became of a message; the compiled module looks it up here."""

import enum

__all__ = ["Delivery"]


class Delivery(enum.StrEnum):
    """What became of a message for one peer."""

    QUEUED = "queued"
    """It is on its way. Whether it arrives shows only in what the peer answers."""
    FULL = "full"
    """As many messages as may wait for the peer do. This one is lost, and the session begins anew."""
    NOT_RESPONDING = "not_responding"
    """The connection to the peer failed, and another one is not yet there."""
    REFUSED = "refused"
    """The content has several frames, and the generation of the peer one."""
