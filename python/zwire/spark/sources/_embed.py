"""A spooler inside the process that plans a query: for first experiments, without other processes."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

from zwire.errors import SpoolLocked, TimedOut
from zwire.spark._settings import resolved
from zwire.spark.sources._options import named
from zwire.spark.sources._spool import folders, remote

if TYPE_CHECKING:
    from zwire.spark.sources._options import Options
    from zwire.spool import Spooler

_log = logging.getLogger("zwire.spark")

EMBED = named("keyexprs|keyexpr|keys|subscribe")
"""Options that make a stream subscribe by itself."""

_READY, _LOCK, _CLOSE = 5.0, 15.0, 10.0
"""Time limits in seconds: for neighbours to know of the subscriptions; for the query before to close; and for
closing here."""

_KEPT = 600.0
"""Seconds for which a temporary folder keeps rows that were read."""


def check_embedded(options: Options) -> None:
    """Refuse wrong options of a stream that receives."""
    _keyexprs(options)
    if "spool" in options and options.called("keyexprs") == "subscribe":
        problem = "keyFilter selects rows of a spool, keyexprs receives into its folder while the query runs"
        raise options.error("subscribe", f"and a spool exclude each other: {problem}")
    if "spool" in options and (remote(options) or len(folders(options)) > 1):
        raise options.error("spool", "must be a single folder in a query that subscribes by itself")
    options.session()


def _keyexprs(options: Options) -> list[str]:
    found = options.keyexprs("keyexprs")
    if not found:
        raise options.error("keyexprs", "has no key expression")
    return found


class Embedded:
    """Receives into a spool for as long as its query runs."""

    def __init__(self, options: Options) -> None:
        # A temporary folder is deleted with the query.
        self.temporary = "spool" not in options
        self.folder = tempfile.mkdtemp(prefix="zwire-spool-") if self.temporary else folders(options)[0]
        try:
            self.spooler = self._open(options)
        except BaseException:
            self._clean()
            raise
        self.pid = os.getpid()
        # The signal may come at the very beginning of stop(); then this finishes the work.
        atexit.register(self.close)
        _end_in_order()
        lost = "and of an earlier run of this query, all is lost" if self.temporary else "is lost"
        _log.warning(
            "%s: this query receives by itself, into %s: what is sent while it does not run %s, and all of it"
            " has to run on this machine. For more start a spooler (Spooler, zwire spool), and give its"
            " folder as 'spool'",
            options.source,
            self.folder,
            lost,
        )
        try:
            self.spooler.ready(_READY)
        except TimedOut as error:
            _log.warning("%s: %s", options.source, error)

    def _open(self, options: Options) -> Spooler:
        from zwire.spool import Retention, Spooler
        from zwire.zenoh import Config

        given: dict[str, Any] = {"retention": Retention(seconds=_KEPT)} if self.temporary else {}
        config = Config.from_json5(resolved(options.session()))
        end = time.monotonic() + _LOCK
        while True:
            try:
                return Spooler(self.folder, _keyexprs(options), config=config, history=True, **given)
            except SpoolLocked:
                # A query that was stopped does not wait for this process, so the next one may start earlier.
                if time.monotonic() >= end:
                    raise
                time.sleep(0.1)

    def close(self) -> None:
        """Write all queued samples, and unlock the spool; only the first time."""
        if self.pid == os.getpid():
            _end_undisturbed()
            self.spooler.close(_CLOSE)
            self._clean()
            atexit.unregister(self.close)

    def _clean(self) -> None:
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _end_in_order() -> None:
    """Turn the signal by which Spark ends this process into an exception, so that ``stop()`` is called."""
    if _is_main() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)


def _end(*_: object) -> None:
    # Only once: a second exception would interrupt the handling of the first.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def _end_undisturbed() -> None:
    """Ignore signals from now on: Spark closes the connection, and sends a signal right behind."""
    if _is_main() and signal.getsignal(signal.SIGTERM) is _end:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
