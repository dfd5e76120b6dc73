"""Exceptions, and what they carry."""

from typing import assert_type

import zwire.zenoh as zenoh
from zwire import errors


def carried() -> None:
    try:
        zenoh.open()
    except errors.AuthenticationError as error:
        assert_type(error.endpoint, str | None)
        assert_type(error.reason, str | None)
    except errors.ConfigError as error:
        assert_type(error.path, str | None)
        assert_type(error.nearest, str | None)
        error.endpoint  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    except errors.TimedOut as error:
        assert_type(error.seconds, float | None)
    except errors.DecodeError as error:
        assert_type(error.offset, int | None)
    except errors.RemoteError as error:
        assert_type(error.type, str | None)
        assert_type(error.traceback, str | None)
    except errors.QueryError as error:
        assert_type(error.payload, bytes | None)


def builtin(subscriber: zenoh.Subscriber[zenoh.Handler[zenoh.Sample]]) -> None:
    try:
        subscriber.recv(timeout=1)
    except TimeoutError as error:
        assert_type(error, TimeoutError)
    except zenoh.ZError as error:
        assert_type(error, errors.ZwireError)
    kinds: list[type[ValueError]] = [errors.ConfigError, errors.KeyExprError, errors.RowError]
    assert kinds
    wrong: type[ValueError] = errors.TimedOut  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    assert wrong
