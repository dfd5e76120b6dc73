"""Rules of ``docs/protocol/zmtp.md``, for one socket that listens.

The target tells its socket type and its mechanism itself. So that more than its handshake can be judged, a
program has to use the socket like this:

- REP, ROUTER and DEALER send each message that they get back, to the connection by which it came where the
  type allows that.
- PUB and XPUB publish a message of two frames each 50 ms or more often: ``conformance`` and a counter in
  decimal digits.
- XPUB also publishes each message that it gets, as two frames: ``events`` and the octets of the message.
- PUSH sends a message each 5 ms or more often, with a counter in decimal digits.
- SUB and XSUB subscribe to ``conformance``. They, PULL and all other types receive and drop.

Under CURVE the suite judges what no encryption is needed for. If the target has the secret key of the worked
example of zmtp-15.9, and ``server_key`` is the public key of it, the suite also judges the WELCOME.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.conformance.zmtp import (
    _commands,
    _errors,
    _framing,
    _greeting,
    _metadata,
    _older,
    _patterns,
    _security,
    _subscriptions,
)
from zwire.conformance.zmtp._book import BOOK
from zwire.conformance.zmtp._target import Target

if TYPE_CHECKING:
    from zwire.conformance._rules import Rule

__all__ = ["BOOK", "Target"]

# Importing the modules of rules has filled the book; its order is to be that of the document.
del _commands, _errors, _framing, _greeting, _metadata, _older, _patterns, _security, _subscriptions


def _place(entry: tuple[str, Rule]) -> list[int]:
    return [int(number) for number in entry[1].section.removeprefix("zmtp-").split(".")]


BOOK.rules = dict(sorted(BOOK.rules.items(), key=_place))
