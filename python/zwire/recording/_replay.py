"""Publishing a recording again."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict, Unpack

from zwire._lazy import pa
from zwire._rows import KeyFilter, payload_bytes, unique
from zwire.errors import RowError, TimedOut
from zwire.recording._keys import Remap, legal
from zwire.recording._play import Due, Player, prepared
from zwire.recording._rows import arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    from zwire.recording._play import Ready
    from zwire.zenoh import MatchingStatus, Session

Timestamps: TypeAlias = Literal["original", "new"]

_LONGEST = 1.0
"""Longest single wait in seconds: bounds the effect of a change of the clock."""

_WATCHED = 64
"""Number of keys of the first batch on which to wait for subscribers; each needs a declaration."""


class Replayed(NamedTuple):
    """Counts of the rows published, so far or in all."""

    rows: int
    bytes: int
    """Bytes of payload published."""
    seconds: float
    """Seconds since the first row."""
    late: float
    """Largest delay of rows, in seconds."""
    played: float
    """Seconds of the recording played."""
    unsent: int
    """Rows not sent because the client had no link."""


class ReplayOptions(TypedDict, total=False):
    """Options of a replay by keyword.

    ::

        fast: recording.ReplayOptions = {"rate": None, "remap": {"demo": "again"}}
        with recording.Recorder(session, ["demo/**"], "run.mcap"):
            session.put("demo/a", "x")
        print(recording.replay(session, recording.read("run.mcap"), **fast).rows)  # 1
    """

    rate: float | None
    loop: int | None
    keys: Iterable[str]
    remap: Mapping[str, str]
    timestamps: Timestamps
    max_gap: float | None
    priority: int | None
    congestion: Literal["block", "block_first", "drop"] | None
    express: bool | None
    wait_for_subscribers: float | None
    progress: Callable[[Replayed], object] | None


def replay(session: Session, batches: Iterable[Any], **options: Unpack[ReplayOptions]) -> Replayed:
    """Publish the rows of batches again, with the pauses of the recording.

    Rows keep key, payload, kind, encoding, attachment, and quality of service unless an option overrides it.
    They get no source information: this session is their source now. A row that is due and cannot be sent
    waits, and later ones with it; then the replay catches up, because times count from the first row.
    ``late`` is the largest delay. A batch is read ahead while another one is played.

    Args:
        session: The session that publishes.
        batches: The recording from :func:`read`, or any batches that :func:`conform` takes, in the order of
            time. A row earlier than the one before it is published together with that.
        **options: ``rate``: times the speed of the recording (1.0); ``None`` plays without pauses. ``loop``:
            how often (1), ``None`` is without end; then ``batches`` must be something that can be read
            again, as a recording or a list. ``keys``: key expressions; what none of them intersects stays
            behind. ``remap``: from keys to keys, see :class:`Remap`. ``timestamps``: ``new`` (default) leaves
            them to session and routers, ``original`` publishes those of the recording, with the id of this
            session where a row has a time but no clock. ``max_gap``: longer pauses are that many seconds
            of the recording. ``priority`` (1 to 7), ``congestion``, ``express``: of all rows; as recorded
            if left out, but for ``congestion``, which is ``block``: ``None`` is as recorded.
            ``wait_for_subscribers``: seconds to wait before the first row until one of the first keys has
            a subscriber. ``progress``: called after each group of rows with the counts so far; rows of a
            group that was interrupted are not counted.

    Returns:
        Counts of the published rows. They are queued for the network: ``session.flush()`` waits until they
        are received.

    Raises:
        RowError: A row cannot be published; the rows before it are.
        RecordingError: The recording is damaged; the rows before the damage are published.
        TimedOut: No subscriber appeared in time; nothing is published.
        SessionClosed: The session is closed.
        ValueError: An option is wrong.
    """
    return drive(session, batches, options, clock=time.monotonic, sleep=time.sleep)


def drive(
    session: Session,
    batches: Iterable[Any],
    options: ReplayOptions,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
) -> Replayed:
    """Publish rows that are due, wait for the others."""
    run = _Run(session, options)
    with contextlib.closing(run.ready(batches)) as ready:
        player = Player(ready, rate=run.rate, max_gap=run.max_gap)
        while (step := player.step(now := clock())) is not None:
            if isinstance(step, Due):
                try:
                    run.publish(step)
                    now = clock()
                finally:
                    # Also for a run ended by an interrupt or a bad row.
                    run.tell(player, now)
            elif step:
                sleep(min(step, _LONGEST))
    return run.done


class _Run:
    """A replay: its checked options, and counts so far."""

    def __init__(self, session: Session, options: ReplayOptions) -> None:
        arrow()
        unknown = options.keys() - ReplayOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"replay has no option {', '.join(sorted(unknown))}")
        self.rate = _number(options, "rate", 1.0)
        self.max_gap = _number(options, "max_gap", None)
        self._loop = options.get("loop", 1)
        if self._loop is not None and self._loop < 1:
            raise ValueError(f"loop must be 1 or more, not {self._loop}")
        self._patience = _number(options, "wait_for_subscribers", None)
        self._stamped = _choice(options, "timestamps", "new", ("original", "new")) == "original"
        keys = list(options.get("keys", ()))
        self._keys = KeyFilter(keys) if keys else None
        rules = options.get("remap")
        self._remap = Remap(rules) if rules else None
        self._congestion = _choice(options, "congestion", "block", (None, "block", "block_first", "drop"))
        self._priority = _choice(options, "priority", None, (None, *range(1, 8)))
        self._express = options.get("express")
        self._progress = options.get("progress")
        self._session = session
        self.done = Replayed(0, 0, 0.0, 0.0, 0.0, 0)

    def ready(self, batches: Iterable[Any]) -> Generator[Ready]:
        """Yield the batches ready for publishing, reading one ahead."""
        if self._loop != 1 and iter(batches) is batches:
            raise ValueError("an iterator is used up after one round: loop needs a recording or a list")
        found = prepared(batches, loop=self._loop, keys=self._keys, remap=self._remap)
        return _ahead(found, self._wait_for_subscribers)

    def publish(self, due: Due) -> None:
        """Publish rows, and count them."""
        try:
            size, unsent = self._put(due.batch)
        except RowError as error:
            row, key, reason = error.row or 0, error.key, error.reason
            self._count(row, payload_bytes(due.batch.slice(0, row)), due.late)
            number = self.done.rows
            problem = f"row {number} of what is published, key {key!r}: {reason}"
            raise RowError(problem, row=number, key=key, reason=reason) from None
        self._count(due.batch.num_rows, size, due.late, unsent)

    def _count(self, rows: int, size: int, late: float, unsent: int = 0) -> None:
        done = self.done
        more = {"rows": done.rows + rows, "bytes": done.bytes + size, "unsent": done.unsent + unsent}
        self.done = done._replace(late=max(done.late, late), **more)

    def tell(self, player: Player, now: float) -> None:
        """Report the progress."""
        self.done = self.done._replace(seconds=now - player.began, played=player.played)
        if self._progress is not None:
            self._progress(self.done)

    def _put(self, batch: pa.RecordBatch) -> tuple[int, int]:
        """Publish rows; return their bytes, and the number that were not sent."""
        from zwire.zenoh import CongestionControl, Priority

        congestion, priority = self._congestion, self._priority
        summary = self._session.put_batch(
            self._publications(batch),
            congestion_control=None if congestion is None else CongestionControl[congestion.upper()],
            priority=None if priority is None else Priority(priority),
            express=self._express,
        )
        return summary.bytes, summary.unmatched

    def _publications(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns for `put_batch`: quality of service that no option overrides, and stamps."""
        names = ["encoding", "attachment", "kind"]
        given = {"congestion": self._congestion, "priority": self._priority, "express": self._express}
        names += [name for name, value in given.items() if value is None]
        names += ["timestamp", "hlc", "hlc_id"] if self._stamped else []
        held = [name for name in names if batch.column(name).null_count < batch.num_rows]
        return pa.RecordBatch.from_pydict({name: batch.column(name) for name in ("key", "payload", *held)})

    def _wait_for_subscribers(self, first: Ready) -> None:
        """Wait until one of the first keys has a subscriber."""
        if self._patience is None:
            return
        names, _ = unique(first.batch.column("key"))
        # A subscription to an illegal key is impossible; it is an error when its row is due.
        keys = [name for name in names if name is not None and legal(name)][:_WATCHED]
        there = threading.Event()

        def look(status: MatchingStatus) -> None:
            if status.matching:
                there.set()

        with contextlib.ExitStack() as stack:
            for key in keys:
                publisher = stack.enter_context(self._session.declare_publisher(key))
                stack.enter_context(publisher.declare_matching_listener(look))
                if publisher.matching_status.matching:
                    return
            if not there.wait(self._patience):
                shown = f"{keys[0]} and {len(keys) - 1} other keys" if len(keys) > 1 else "".join(keys)
                problem = f"no subscriber for {shown} within {self._patience:g} s"
                raise TimedOut(problem, seconds=self._patience)


def _number(options: ReplayOptions, name: str, default: float | None) -> float | None:
    found: Any = options.get(name, default)
    positive = name == "rate"
    if found is not None and not (0 < found < inf or (found == 0 and not positive)):
        raise ValueError(f"{name} must be {'above 0' if positive else '0 or more'}, not {found!r}")
    return None if found is None else float(found)


def _choice(options: ReplayOptions, name: str, default: Any, allowed: tuple[Any, ...]) -> Any:  # noqa: ANN401
    found = options.get(name, default)
    if found not in allowed:
        choices = ", ".join(str(choice) for choice in allowed if choice is not None)
        raise ValueError(f"{name} must be one of {choices}, not {found!r}")
    return found


def _ahead(batches: Iterator[Ready], begin: Callable[[Ready], object]) -> Generator[Ready]:
    """Read each batch while the one before is played; ``begin`` is called before the first is."""
    with ThreadPoolExecutor(1, "zwire-replay") as pool:
        future = pool.submit(next, batches, None)
        found = future.result()
        if found is not None:
            begin(found)
        while found is not None:
            future = pool.submit(next, batches, None)
            yield found
            found = future.result()
