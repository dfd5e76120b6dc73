"""Range server: serves the files of a spool over zwire to readers on other hosts.

Queries on ``@zwire/spool/<id>`` return the description and the state of the spool. Queries on
``@zwire/spool/<id>/<shard>`` return ranges of offsets, with one reply for each block: its octets as in
the file.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from zwire import zenoh
from zwire._closing import Closing
from zwire._zwire import SpoolServer, SpoolView
from zwire.errors import ConfigError, SpoolDenied, SpoolError, TimedOut, UsageError, ZwireError
from zwire.spool._append import undone
from zwire.spool._secret import is_proven, load
from zwire.spool._view import located

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from zwire.spool._view import Wanted

_log = logging.getLogger("zwire.spool")

ROOT = "@zwire/spool"
"""Prefix of the keys of range servers."""

GAPS = "gaps"
"""Last chunk of the key of the gap log, in place of the number of a shard."""

# Most queries that wait for a thread. Further ones are not answered, and the reader sends them again.
_WAITING = 256

# Most bytes in the payload of a query: enough for the offsets of 1024 shards, twice.
_MAX_PAYLOAD = 256 << 10

# Most ranges of a plan.
_MAX_PARTS = 1 << 16

# Most key expressions of a selection: each is compared with each key.
_MAX_KEYS = 1024

# Most consumers created over the network: each is a file, and keeps rows from being deleted.
_MAX_CONSUMERS = 1024

# Seconds: between two checks whether the server is closed; without queries before files are closed; that
# `close` waits for answers in progress.
_TICK, _REST, _LEAVE = 0.5, 5.0, 10.0

_MOST = (1 << 63) - 1


class RangeServer(Closing):
    """Serves a spool to readers on the network, from its creation until :meth:`close`. A context manager.

    Like every reader it takes no lock and reads up to the published end, while another process may write.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        session: zenoh.Session | None = None,
        config: zenoh.Config | Mapping[str, Any] | None = None,
        commits: bool = True,
        threads: int = 4,
    ) -> None:
        """Open the spool, and declare the queryables; see :func:`serve`."""
        if threads < 1:
            raise ConfigError("threads: at least 1 is required", path="threads")
        self.path: str = located(path)
        self._view = SpoolView(self.path)
        self._server = SpoolServer(self.path)
        self._commits = commits
        self._closing = threading.Event()
        self._asked = time.monotonic()
        self._own = session is None
        self._session = zenoh.open(zenoh.Config(config)) if session is None else session
        self._threads: list[threading.Thread] = []
        self._queryables: list[Any] = []
        key = f"{ROOT}/{self._view.id}"
        with undone(self.close):
            for name, expression, answer, count in (
                ("about", key, self._about, 1),
                ("range", f"{key}/*", self._range, threads),
            ):
                channel: Any = zenoh.handlers.Channel(_WAITING, full="drop_newest")
                queryable = self._session.declare_queryable(expression, channel, complete=True)
                self._queryables.append(queryable)
                for number in range(count):
                    asked, called = (queryable.handler, answer), f"zwire-serve-{name}-{number}"
                    thread = threading.Thread(target=self._run, args=asked, name=called, daemon=True)
                    thread.start()
                    self._threads.append(thread)

    def __repr__(self) -> str:
        """Show the folder and the id."""
        return f"RangeServer({self.path!r}, id={self.id!r})"

    @property
    def id(self) -> str:
        """Id of the spool: 32 hexadecimal digits."""
        return self._view.id

    @property
    def session(self) -> zenoh.Session:
        """Session of the server."""
        return self._session

    def ready(self, timeout: float | None = None) -> None:
        """Wait until all neighbours know the queryables of the server.

        Raises:
            TimedOut: Some neighbours do not know them after ``timeout`` seconds.
        """
        for queryable in self._queryables:
            queryable.wait_ready(timeout)

    def close(self) -> None:
        """Stop answering, and wait up to 10 s for answers in progress. A second call does nothing."""
        self._closing.set()
        queryables, self._queryables = self._queryables, []
        for queryable in queryables:
            queryable.__exit__(None, None, None)
        end = time.monotonic() + _LEAVE
        threads, self._threads = self._threads, []
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        self._server.rest()
        if self._own:
            self._session.close()

    def _run(self, handler: Any, answer: Callable[[zenoh.Query], None]) -> None:  # noqa: ANN401
        while not self._closing.is_set():
            try:
                query = handler.recv(_TICK)
            except TimedOut:
                if time.monotonic() - self._asked > _REST:
                    self._server.rest()
                continue
            except UsageError:
                return  # the session is closed
            self._asked = time.monotonic()
            with query:
                self._one(query, answer)
            # Release the buffers of the query now: the next one may come in an hour.
            del query

    def _one(self, query: zenoh.Query, answer: Callable[[zenoh.Query], None]) -> None:
        """Answer a query, with an error reply if that fails."""
        try:
            try:
                answer(query)
            except (SpoolError, ValueError, RecursionError) as error:
                said = {"error": "SpoolError", "message": f"spool {self.id}: {error}"}
                if isinstance(error, SpoolError):
                    # The reader restores the error from its fields.
                    fields = {name: getattr(error, name) for name in error._fields}
                    said = {"error": type(error).__name__, "message": str(error), **fields}
                query.reply_err(json.dumps(said), encoding=zenoh.Encoding.APPLICATION_JSON)
        except ZwireError as error:
            # The reader is gone, or this session is closed.
            _log.debug("spool %s: an answer was not sent: %s", self.id, error)

    def _range(self, query: zenoh.Query) -> None:
        """Answer a query for a range, with a reply for each block."""
        key = str(query.key_expr)
        shard = key.rpartition("/")[2]
        asked = query.parameters
        number = None if shard == GAPS else _number("shard", shard, self._view.shard_count - 1)
        start, stop, most = (_number(name, asked.get(name)) for name in ("from", "to", "max"))
        wanted = _wanted(_given(query))
        for label, block in self._server.answer(number, start, stop, most, wanted):
            if self._closing.is_set():
                return
            query.reply(key, block, attachment=label)

    def _about(self, query: zenoh.Query) -> None:
        """Answer a query about the spool, or store the progress of a consumer."""
        asked = query.parameters
        said = json.dumps({"spool": self.id, **self._found(asked.get("do", "about"), _given(query))})
        query.reply(f"{ROOT}/{self.id}", said, encoding=zenoh.Encoding.APPLICATION_JSON)

    def _found(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        view = self._view
        match name:
            case "about":
                shards = {"shards": view.shard_count, "shard_keys": view.shard_keys}
                return {
                    "v": 1,
                    "table": view.table,
                    "columns": view.columns,
                    "created": view.created,
                    **shards,
                }
            case "marks":
                # Behind the marks: rows behind a change that they lack are not among these.
                return {"marks": view.marks(), "changes": view.changes()}
            case "at":
                return {"offsets": view.at(_number("at", given.get("at"), least=-_MOST))}
            case "received":
                shard = _number("shard", given.get("shard"), view.shard_count - 1)
                return {"received": view.received(shard, _number("offset", given.get("offset")))}
            case "walk":
                between = self._offsets(given, "start"), self._offsets(given, "end")
                limits = _optional("rows", given.get("rows")), _optional("bytes", given.get("bytes"))
                return {"offsets": view.walk(*between, limits, _wanted(given))}
            case "plan":
                between = self._offsets(given, "start"), self._offsets(given, "end")
                return {"plan": view.plan(*between, _wanted(given))}
            case "split":
                parts = _number("parts", given.get("parts"), _MAX_PARTS)
                between = self._offsets(given, "start"), self._offsets(given, "end")
                return {"ranges": view.split(*between, parts, _wanted(given))}
            case "commit":
                self._commit(given)
                return {}
            case "consumers":
                return {"consumers": view.consumers()}
        raise ValueError(f"unknown request {str(name)[:100]!r}")

    def _commit(self, given: Mapping[str, Any]) -> None:
        name = given.get("consumer")
        if not isinstance(name, str) or not name:
            raise ValueError("consumer: a name is required")
        offsets = self._offsets(given, "offsets")
        # Read at each commit: a secret that is made or deleted counts from then on.
        root = load(self.path) if self._commits else None
        if root is None:
            reason = "its spool has no secret (zwire spool secret)" if self._commits else "commits=False"
            raise SpoolDenied(f"spool {self.id}: this range server takes no commits: {reason}")
        if not is_proven(root, self.id, name, offsets, given.get("proof")):
            raise SpoolDenied(f"spool {self.id}: consumer {name[:100]!r} has another secret")
        known = self._view.consumers()
        if name not in known and len(known) >= _MAX_CONSUMERS:
            raise ValueError(f"there are {len(known)} consumers already")
        if name in known:
            # A commit that a host on the path has recorded, and sends again, moves nothing.
            for shard, offset in known[name][0].items():
                offsets[shard] = max(offset, offsets.get(shard, 0))
        self._view.commit(name, offsets, round(time.time() * 1_000_000))

    def _offsets(self, given: Mapping[str, Any], name: str) -> dict[int, int]:
        found = given.get(name)
        if not isinstance(found, dict):
            raise ValueError(f"{name}: expected offsets by shard")  # noqa: TRY004 - not of a program
        last = self._view.shard_count - 1
        return {
            _number("shard", shard, last): _number(f"{name}: shard {shard!r}", offset)
            for shard, offset in found.items()
        }


def _number(name: str, given: object, most: int = _MOST, least: int = 0) -> int:
    """Return a number, given as such or as decimal text, after a check of its range."""
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 20:
        given = int(given)
    if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= most:
        shown = repr(given)
        raise ValueError(f"{name[:100]}: expected a number of {least} to {most}, not {shown[:100]}")
    return given


def _optional(name: str, given: object, least: int = 0) -> int | None:
    return None if given is None else _number(name, given, least=least)


def _given(query: zenoh.Query) -> dict[str, Any]:
    """Return the fields of a request."""
    if query.payload is None:
        return {}
    if len(query.payload) > _MAX_PAYLOAD:
        raise ValueError(f"request of {len(query.payload)} bytes: more than {_MAX_PAYLOAD}")
    given = json.loads(query.payload.to_bytes())
    if not isinstance(given, dict):
        raise ValueError("request is not a JSON object")  # noqa: TRY004 - not of a program
    return given


def _wanted(given: Mapping[str, Any]) -> Wanted | None:
    """Return the selection of a request; ``None`` for all rows."""
    keys = given.get("keys")
    if keys is not None:
        strings = isinstance(keys, list) and all(isinstance(key, str) for key in keys)
        if not strings or len(keys) > _MAX_KEYS:
            raise ValueError(f"keys: expected at most {_MAX_KEYS} key expressions")
    since, until = (_optional(name, given.get(name), -_MOST) for name in ("since", "until"))
    return None if keys is since is until is None else (keys, since, until)


def serve(
    path: str | os.PathLike[str],
    *,
    session: zenoh.Session | None = None,
    config: zenoh.Config | Mapping[str, Any] | None = None,
    commits: bool = True,
    threads: int = 4,
) -> RangeServer:
    """Serve the spool in a folder to readers that :func:`connect`; another process may write it meanwhile.

    Args:
        path: The folder, or the address of a store. A store takes no commits over the network.
        session: Session of the server; by default one is opened, and closed with the server.
        config: Configuration of the session that is opened.
        commits: Whether readers may store their progress over the network. They need a :func:`secret` of
            the spool; without one in its folder no commit is taken. Requires a writable folder.
        threads: Number of ranges that are served at once.

    Raises:
        SpoolError: There is no spool, or it cannot be read.
    """
    return RangeServer(path, session=session, config=config, commits=commits, threads=threads)
