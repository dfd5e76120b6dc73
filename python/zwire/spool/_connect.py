"""Reading a spool through a range server, without its files."""

from __future__ import annotations

import json
import time
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from zwire import errors, zenoh
from zwire._closing import Closing
from zwire._zwire import SpoolReceiver, SpoolRows
from zwire.errors import SpoolDenied, SpoolError, SpoolMismatch, SpoolUnreachable, UsageError
from zwire.spool._append import undone
from zwire.spool._secret import Credential
from zwire.spool._serve import GAPS, ROOT
from zwire.spool._view import Spool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zwire._zwire import ArrowBatch, SpoolView
    from zwire.spool._view import Wanted

SCHEME = "zwire:"
"""Prefix of the names of spools read through a range server."""

# Bytes of an answer, and how many answers are under way at once. Together they bound the memory of a reader
# that is slower than the network.
_MAX_BYTES, _AHEAD = 4 << 20, 4

# Most replies of an answer; the server sends no more.
_MAX_REPLIES = 4096 + 1

# Seconds before the first repeat, and the longest pause before any.
_FIRST, _LONGEST = 0.05, 2.0

# Timeout of one reply, as a part of the time limit for all repeats.
_SHARE = 3


class RemoteSpool(Closing, Spool):
    """A spool behind a range server, with the interface of one in a folder.

    It opens its session on first use, and pickles as its id, its secret and the configuration of that
    session; one created with a session does not pickle. Close it, or use it as a context manager.
    """

    def __init__(
        self,
        id: str | None = None,
        *,
        session: zenoh.Session | None = None,
        config: zenoh.Config | Mapping[str, Any] | None = None,
        timeout: float = 30.0,
        secret: str | None = None,
    ) -> None:
        """Find the server; see :func:`connect`."""
        view = RemoteView(
            session, None if config is None else zenoh.Config(config).get_json(""), timeout, secret
        )
        if id is None and view.credential is not None:
            id = view.credential.spool
        with undone(view.close):
            view.find(id)
        self._use(view)

    def _use(self, view: RemoteView) -> None:
        self._remote = view
        # The view has the methods of a view of a folder.
        self._view = cast("SpoolView", view)
        self.path: str = SCHEME + view.id

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from id and configuration, without a query."""
        view = self._remote
        if view.given is not None:
            raise UsageError("a spool that was given a session does not pickle: give its config instead")
        secret = None if view.credential is None else str(view.credential)
        return _rebuild, (view.about, view.config, view.timeout, secret)

    def __repr__(self) -> str:
        """Show the id; secret and configuration stay hidden."""
        return f"RemoteSpool(id={self.id!r})"

    def close(self) -> None:
        """Close the session, if it was opened here."""
        self._remote.close()


def _rebuild(
    about: dict[str, Any], config: str | None, timeout: float, secret: str | None = None
) -> RemoteSpool:
    spool = RemoteSpool.__new__(RemoteSpool)
    view = RemoteView(None, config, timeout, secret)
    view.learn(about)
    spool._use(view)  # noqa: SLF001 - made here
    return spool


class RemoteView:
    """The interface of ``SpoolView``, answered over a session."""

    tier: str | None = None
    """The server reads its tier; readers do not learn of it."""

    def __init__(
        self, session: zenoh.Session | None, config: str | None, timeout: float, secret: str | None
    ) -> None:
        self.given, self.config, self.timeout = session, config, timeout
        self.credential = None if secret is None else Credential.parse(secret)
        self._opened: zenoh.Session | None = None

    def learn(self, about: dict[str, Any]) -> None:
        """Take the metadata of the spool, with the names of ``SpoolView``."""
        self.about = about
        self.id: str = about["spool"]
        self.table: str = about["table"]
        self.shard_count: int = about["shards"]
        self.shard_keys: list[str] | None = about["shard_keys"]
        self.columns: list[str] = about["columns"]
        if self.credential is not None and self.credential.spool != self.id:
            raise SpoolMismatch(f"the secret is of spool {self.credential.spool}, and this is {self.id}")

    def get(
        self,
        selector: str,
        most: int,
        *,
        each: bool = False,
        **options: Any,  # noqa: ANN401
    ) -> zenoh.Handler[zenoh.Reply]:
        """Query one server, or ``each``, for at most so many replies; open the session if none was given."""
        session = self.given or self._opened
        if session is None:
            config = None if self.config is None else zenoh.Config.from_json5(self.config)
            session = self._opened = zenoh.open(config)
        return session.get(
            selector,
            zenoh.handlers.FifoChannel(most),
            target=zenoh.QueryTarget.ALL if each else zenoh.QueryTarget.BEST_MATCHING,
            consolidation=zenoh.ConsolidationMode.NONE,
            congestion_control=zenoh.CongestionControl.BLOCK,
            **options,
        )

    def close(self) -> None:
        """Close the session, if it was opened here."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def find(self, name: str | None) -> None:
        """Learn id and metadata of the spool; without a name, of the only one."""
        if name is not None and not (len(name) == 32 and set(name) <= set("0123456789abcdef")):
            raise SpoolError(f"{name!r} is no id of a spool: it has 32 hexadecimal digits")
        found = self._ask("about", None, f"{ROOT}/{name or '*'}", all_of_them=name is None)
        ids = sorted({about["spool"] for about in found})
        if len(ids) > 1:
            raise SpoolMismatch(f"several spools are served here, say which: {', '.join(ids)}")
        if found[0].get("v") != 1:
            raise SpoolMismatch(f"a range server that speaks version {found[0].get('v')!r}, this is 1")
        self.learn(found[0])

    # The following names and shapes are those of SpoolView.

    def marks(self) -> list[dict[str, int]]:
        found: list[dict[str, int]] = self._one("marks")["marks"]
        self.shard_count = len(found) - 1
        return found

    def changes(self) -> list[dict[int, int]]:
        # A server that does not know of changes has none.
        return [_offsets(ends) for ends in self._one("marks").get("changes", [])]

    def bounds(self) -> list[tuple[int, int]]:
        return [(mark["earliest"], mark["end"]) for mark in self.marks()]

    def at(self, when: int) -> dict[int, int]:
        return _offsets(self._one("at", at=when)["offsets"])

    def received(self, shard: int, offset: int) -> int | None:
        found: int | None = self._one("received", shard=shard, offset=offset)["received"]
        return found

    def walk(
        self,
        start: dict[int, int],
        end: dict[int, int],
        limits: tuple[int | None, int | None],
        wanted: Wanted | None = None,
    ) -> dict[int, int]:
        given: dict[str, Any] = {"start": start, "end": end, "rows": limits[0], "bytes": limits[1]}
        return _offsets(self._one("walk", **given, **_wanted(wanted))["offsets"])

    def split(
        self, start: dict[int, int], end: dict[int, int], parts: int, wanted: Wanted | None = None
    ) -> list[tuple[int, ...]]:
        given: dict[str, Any] = {"start": start, "end": end, "parts": max(0, parts)}
        return [tuple(part) for part in self._one("split", **given, **_wanted(wanted))["ranges"]]

    def plan(
        self, start: dict[int, int], end: dict[int, int], wanted: Wanted | None = None
    ) -> tuple[int, ...]:
        return tuple(self._one("plan", start=start, end=end, **_wanted(wanted))["plan"])

    def commit(self, consumer: str, offsets: dict[int, int], _now: int) -> None:
        # The clock of the server counts, since the server compares the times.
        if self.credential is None:
            raise SpoolDenied(
                f"spool {self.id}: a commit to a range server needs its secret: connect(secret=...)"
            )
        proof = self.credential.of(consumer).proof(offsets)
        self._one("commit", consumer=consumer, offsets=offsets, proof=proof)

    def consumers(self) -> dict[str, tuple[dict[int, int], int]]:
        found = self._one("consumers")["consumers"]
        return {name: (_offsets(offsets), at) for name, (offsets, at) in found.items()}

    def read(
        self,
        shard: int | None,
        range: tuple[int, int],
        columns: list[str] | None,
        limits: tuple[int, int],
        wanted: Wanted | None = None,
    ) -> SpoolRows:
        place = SCHEME + self.id
        receiver = SpoolReceiver(place, self.table, self.columns, shard, range, columns, limits)
        if wanted is not None:
            # A server that does not know selections sends all blocks.
            receiver.select(wanted)
        fetch = Fetch(self, receiver, shard, range[1], wanted)
        with undone(fetch.cancel):
            # Errors of the range are raised now.
            fetch.step()
        return SpoolRows.over(receiver, fetch.batches())

    def _one(self, what: str, **given: Any) -> dict[str, Any]:  # noqa: ANN401 - of JSON
        return self._ask(what, given, f"{ROOT}/{self.id}")[0]

    def _ask(
        self, what: str, given: Mapping[str, Any] | None, key: str, *, all_of_them: bool = False
    ) -> list[dict[str, Any]]:
        """Query, and repeat the query until a reply comes or time is over."""
        patience = Patience(self.timeout)
        payload = json.dumps(given) if given else None
        while True:
            found, ended = [], ""
            options: Any = {"payload": payload, "timeout": patience.share}
            replies = self.get(f"{key}?do={what}", 1024, each=all_of_them, **options)
            for reply in replies:
                if reply.ok is not None:
                    found.append(json.loads(reply.ok.payload.to_bytes()))
                    if not all_of_them:
                        return found
                else:
                    ended = _refused(reply.err)
            if found:
                return found
            patience.wait(f"{key}: {_reason(replies.end, ended)}", None, None)


def _wanted(wanted: Wanted | None) -> dict[str, Any]:
    """Return the fields of a request that select rows."""
    given = dict(zip(("keys", "since", "until"), wanted or (), strict=False))
    return {name: value for name, value in given.items() if value is not None}


def _offsets(found: Mapping[str, int]) -> dict[int, int]:
    return {int(shard): offset for shard, offset in found.items()}


def _refused(error: zenoh.ReplyError | None) -> str:
    """Raise the error of a server's reply, of the same type; return the reason if no reply came in time."""
    assert error is not None  # noqa: S101 - a reply is a sample or an error
    text = error.payload.to_bytes()
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("message"), str):
        return text[:200].decode(errors="replace")
    kind = getattr(errors, str(said.get("error")), None)
    if not (isinstance(kind, type) and issubclass(kind, SpoolError)):
        kind = SpoolError
    fields = {name: said[name] for name in kind._fields if isinstance(said.get(name), int)}
    raise kind(said["message"], **fields)


def _reason(ended: str | None, said: str) -> str:
    return {
        "link_lost": "the link was lost",
        "timed_out": "the range server does not answer in time",
    }.get(ended or "timed_out", said or "no range server answers for it")


class Patience:
    """Time limit for repeated queries without progress."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        # Timeout of a single query, in seconds.
        self.share = max(0.001, seconds / _SHARE)
        self.progress()

    def progress(self) -> None:
        """Start the time limit again after progress."""
        self._end = time.monotonic() + self.seconds
        self._pause = _FIRST

    def wait(self, problem: str, shard: int | None, offset: int | None) -> None:
        """Wait before the next query, unless the time limit is over."""
        left = self._end - time.monotonic()
        if left <= 0:
            log = "gap log" if shard is None else f"shard {shard}"
            where = "" if offset is None else f"{log}, offset {offset}: "
            problem = f"{where}{problem}, for {self.seconds:g} s"
            raise SpoolUnreachable(problem, shard=-1 if shard is None else shard, offset=offset)
        time.sleep(min(self._pause, left))
        self._pause = min(2 * self._pause, _LONGEST)


class Answer:
    """A reply stream in progress."""

    def __init__(self, replies: Any) -> None:  # noqa: ANN401 - a handler of replies
        self.replies = replies
        # The offset behind its last row; unknown until the first reply.
        self.until: int | None = None
        self._first: deque[zenoh.Reply] = deque()

    def look(self) -> None:
        """Read the end of the answer, if its first reply has come."""
        if self.until is None and not self._first:
            try:
                reply = self.replies.try_recv()
            except UsageError:
                return  # it has ended
            if reply is not None:
                self._first.append(self._known(reply))

    def next(self, timeout: float) -> zenoh.Reply | None:
        """Return the next reply; ``None`` if none came in time, or the answer has ended."""
        if self._first:
            return self._first.popleft()
        try:
            found: list[zenoh.Reply] = self.replies.recv_many(1, timeout)
        except UsageError:
            return None
        return self._known(found[0]) if found else None

    def _known(self, reply: zenoh.Reply) -> zenoh.Reply:
        label = None if reply.ok is None else reply.ok.attachment
        if self.until is None and label is not None:
            self.until = SpoolReceiver.until(label)
        return reply


class Fetch:
    """Fetches a range: several answers are under way at once, and are taken in order."""

    def __init__(
        self,
        view: RemoteView,
        receiver: SpoolReceiver,
        shard: int | None,
        stop: int,
        wanted: Wanted | None,
    ) -> None:
        self._view, self._receiver, self._shard, self._stop = view, receiver, shard, stop
        self._payload = json.dumps(_wanted(wanted)) if wanted else None
        self._key = f"{ROOT}/{view.id}/{GAPS if shard is None else shard}"
        self._patience = Patience(view.timeout)
        self._answers: deque[Answer] = deque()
        self._token: zenoh.CancellationToken | None = None

    def batches(self) -> Iterator[ArrowBatch]:
        """Yield all batches of the range."""
        try:
            while True:
                while (batch := self._receiver.next_batch()) is not None:
                    yield batch
                if self._receiver.next >= self._stop:
                    return
                try:
                    self.step()
                except BaseException:
                    # The rows before the error are good.
                    self._receiver.finish()
                    while (batch := self._receiver.next_batch()) is not None:
                        yield batch
                    raise
        finally:
            self.cancel()

    def _ask(self, start: int) -> None:
        if self._token is None:
            self._token = zenoh.CancellationToken()
        # Several answers share the link.
        options: Any = {"timeout": self._patience.share * _AHEAD, "cancellation_token": self._token}
        options["payload"] = self._payload
        selector = f"{self._key}?from={start};to={self._stop};max={_MAX_BYTES}"
        self._answers.append(Answer(self._view.get(selector, _MAX_REPLIES, **options)))

    def cancel(self) -> None:
        """End all answers in progress."""
        token, self._token = self._token, None
        self._answers.clear()
        if token is not None:
            token.cancel()

    def step(self) -> None:
        """Take one reply, or repeat the query."""
        receiver = self._receiver
        if not self._answers:
            self._ask(receiver.next)
        answer = self._answers[0]
        reply = answer.next(self._patience.share)
        if reply is None or reply.ok is None:
            ended = answer.replies.end
            if ended == "completed" and reply is None and receiver.next >= self._stop:
                return  # an empty range
            said = "" if reply is None else _refused(reply.err)
            self.cancel()
            self._patience.wait(f"{self._view.id}: {_reason(ended, said)}", self._shard, receiver.next)
            return
        self._patience.progress()
        sample = reply.ok
        receiver.take(sample.attachment or zenoh.ZBytes(), sample.payload)
        if answer.until is not None and receiver.next >= answer.until:
            self._answers.popleft()
            if not self._answers and receiver.next < self._stop:
                self._ask(receiver.next)
        while 0 < len(self._answers) < _AHEAD:
            last = self._answers[-1]
            last.look()
            if last.until is None or last.until >= self._stop:
                break
            self._ask(last.until)


def connect(
    id: str | None = None,
    *,
    session: zenoh.Session | None = None,
    config: zenoh.Config | Mapping[str, Any] | None = None,
    timeout: float = 30.0,
    secret: str | None = None,
) -> RemoteSpool:
    """Open a spool through a range server (:func:`serve`, ``Spooler(serve=True)``).

    The interface is that of :func:`open`, errors too: blocks are verified where they arrive. A query without
    an answer is repeated from where the answer had stopped.

    Args:
        id: Id of the spool; by default that of the secret, or the only one that is served.
        session: Session for the queries; by default a session of its own is opened.
        config: Configuration of that session.
        timeout: Seconds without any progress after which reading gives up.
        secret: Text of :func:`secret` on the host of the spool, for :meth:`RemoteSpool.commit`; without it a
            commit raises :class:`zwire.errors.SpoolDenied`. Commits to a range server never go back.

    Raises:
        SpoolUnreachable: No range server answers.
        ConfigError: The secret is none.
        SpoolMismatch: Several are served, and ``id`` is not given; or the secret is of another spool.
    """
    return RemoteSpool(id, session=session, config=config, timeout=timeout, secret=secret)
