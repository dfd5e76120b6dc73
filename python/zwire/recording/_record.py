"""Recording of live samples."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import time
from collections import deque
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypedDict, Unpack

from zwire._lazy import library, pa, pc
from zwire._rows import KeyFilter, payload_bytes
from zwire.errors import SessionClosed, UsageError
from zwire.recording._files import by_name
from zwire.recording._losses import Loss
from zwire.recording._rotation import Names, opener
from zwire.recording._rows import arrow, conform
from zwire.recording._write import NOT_IN_MCAP, WRITTEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from os import PathLike

    from zwire.recording._mcap import McapSchema
    from zwire.recording._rotation import Growing
    from zwire.zenoh import Session
    from zwire.zenoh.ext import Miss

_QUEUE = 65_536
"""Samples that wait in a subscriber."""

_WAITING = 64 << 20
"""Bytes that wait for the file."""

_LOOK = 0.1
"""Seconds between two looks at the end of a recorder, and at the counters of losses."""

_CLOSE_LOOK = 0.01
"""Seconds between two looks of a caller of `close` at the threads of a recorder."""

_MOST_LOSSES = 10_000
"""Losses of which a file has a record each; those beyond are added up at its end."""


class RecordOptions(TypedDict, total=False):
    """Options of a recorder by keyword.

    ::

        hourly: recording.RecordOptions = {"rotate_seconds": 3600, "rotate_bytes": 1 << 30}
        with recording.Recorder(session, ["demo/**"], "run.mcap", **hourly) as recorder:
            session.put("demo/a", "x")
        print([file.name for file in recorder.stats().files])  # ['run-0001.mcap']
    """

    format: str | None
    rotate_bytes: int | None
    rotate_seconds: float | None
    flush_seconds: float
    recovery: bool
    schemas: Mapping[str, McapSchema] | None
    compress: bool


class Recorded(NamedTuple):
    """Counts of a recorder, so far or in all."""

    rows: int
    bytes: int
    """Bytes of payload."""
    files: tuple[Path, ...]
    """The newest files, at most a hundred, in the order of writing."""
    rotated: int
    """Number of complete files."""
    losses: dict[str, int]
    """Losses by reason, see :class:`Loss`; those without a number count as one."""
    lost: dict[str, int]
    """Columns without a place in the format, and the number of rows with a value there."""


class Recorder:
    """Writes the samples of key expressions into a file, or into files that follow each other.

    ::

        with recording.Recorder(session, ["robot/**"], "run.mcap") as recorder:
            session.put("robot/1/pose", "1.5")
        print(recorder.stats().rows)  # 1

    A thread for each key expression and one for the file do the work. Rows and losses are given to the
    system ``flush_seconds`` after they were received, so the end of the process loses none that are older.
    The end of a killed MCAP or Arrow file is missing, and :func:`read` returns its complete part.
    Rows of Parquet are in ``NAME.partial.arrow`` beside the file until it is complete.

    Args:
        session: The session; it has to stay open as long as the recorder.
        keys: Key expressions. A sample that several of them intersect is recorded once.
        path: The file. With rotation a number is set before the suffix (``run-0001.mcap``), and numbers
            continue behind those of existing files. Existing files are never replaced.
        **options: ``format``: ``mcap``, ``parquet`` or ``arrow``; by the name if left out. ``rotate_bytes``,
            ``rotate_seconds``: a file of this size or age is completed, and the next one begins.
            ``flush_seconds``: 0.5 if left out. ``recovery``: ask the caches of publishers for missing
            samples (true). ``schemas``, ``compress``: as of :func:`write`.

    Raises:
        FileExistsError: The file exists.
        ValueError: An option is wrong.
        KeyExprError: One of ``keys`` is not legal.
        ImportError: pyarrow or mcap are missing (``zwire[arrow]``, ``zwire[record]``).
    """

    def __init__(
        self,
        session: Session,
        keys: Iterable[str],
        path: str | PathLike[str],
        **options: Unpack[RecordOptions],
    ) -> None:
        settings = _Settings(Path(path), options)
        expressions = list(dict.fromkeys(keys))
        if not expressions:
            raise ValueError("no key expression given")
        self._session = session
        self._settings = settings
        self._names = Names(settings.path, numbered=settings.rotates)
        self._open = opener(settings.form, options.get("schemas"), compress=options.get("compress", True))
        self._state = threading.Condition()
        # All below is under that lock, but for the file, which the writing thread has alone.
        self._waiting: deque[pa.RecordBatch] = deque()
        self._taken: deque[pa.RecordBatch] = deque()
        self._bytes_waiting = self._unwritten = 0
        self._found: dict[tuple[str, str | None, str | None], Loss] = {}
        self._ending = self._stopped = self._closed = False
        self._failed: BaseException | None = None
        self._began = time.monotonic()
        self._noted = self._rows = 0
        self._completing: threading.Thread | None = None
        self._beyond: dict[str, Loss] = {}
        self._done = Recorded(0, 0, (), 0, {}, {})
        self._links = _links(session)
        self._receiving: list[threading.Thread] = []
        self._running: set[threading.Thread] = set()
        self._entities = contextlib.ExitStack()
        self._writing = threading.Thread(target=self._guarded, args=(self._write,), name="zwire-record")
        try:
            for number, key in enumerate(expressions):
                self._declare(key, expressions[:number], recovery=options.get("recovery", True))
            # After the declarations, so that an illegal key leaves no file behind.
            self._file: Growing = self._open(self._names())
            with self._state:
                self._done = self._done._replace(files=(self._file.path,))
            # Not `Thread.is_alive`: up to Python 3.12 an interrupt of `join` takes a thread for ended.
            self._running.update((*self._receiving, self._writing))
            for thread in (*self._receiving, self._writing):
                thread.start()
        except BaseException:
            self._ending = self._stopped = True
            self._entities.close()
            raise

    def __repr__(self) -> str:
        return f"<Recorder of {self._file.path}, {self._done.rows} rows>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_args: object) -> None:
        self.close()

    def stats(self) -> Recorded:
        """Return the counts so far."""
        with self._state:
            return self._done

    def check(self) -> None:
        """Raise the error that has ended the recording, such as that of a full disk."""
        if self._failed is not None:
            raise self._failed

    def close(self) -> Recorded:
        """Record what was received until now, complete the file, and return the counts.

        A call that an interrupt ends can be repeated; the file is completed without it, too.

        Raises:
            OSError: The file cannot be written.
        """
        if self._closed:
            return self.stats()
        # Without the lock: an interrupt within the Python code of a Condition can leave it locked, or raise
        # RuntimeError. The receiving threads read the flag every 0.1 s, and wake the writing one at the end.
        self._ending = True
        while self._running:
            time.sleep(_CLOSE_LOOK)
        for thread in (*self._receiving, self._writing):
            thread.join()
        self._entities.close()
        self._closed = True
        self.check()
        return self.stats()

    def _declare(self, key: str, earlier: list[str], *, recovery: bool) -> None:
        from zwire.zenoh import ext
        from zwire.zenoh.handlers import Channel

        subscriber = ext.declare_advanced_subscriber(
            self._session,
            key,
            Channel(_QUEUE, full="drop_newest"),
            recovery=ext.RecoveryConfig(heartbeat=True) if recovery else None,
        )
        self._entities.enter_context(subscriber)

        def missed(miss: Miss) -> None:
            self._lose("gap", miss.nb, key, f"{miss.source.zid}/{miss.source.eid}")

        listener = self._entities.enter_context(subscriber.sample_miss_listener(missed))
        other = KeyFilter(earlier) if earlier else None
        arguments = (self._receive, subscriber, listener, key, other)
        name = f"zwire-record-{len(self._receiving)}"
        self._receiving.append(threading.Thread(target=self._guarded, args=arguments, name=name))

    def _guarded(self, call: Any, *arguments: Any) -> None:  # noqa: ANN401 - of that call
        """Run one of the threads; its error ends the recording, and the caller of `check` gets it."""
        try:
            call(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised by `check` and `close`
            self._fail(error)
        finally:
            with self._state:
                self._running.discard(threading.current_thread())
                self._state.notify_all()

    def _received_all(self) -> bool:
        """Return whether all has been received that is to be written."""
        return self._ending and not self._running - {self._writing}

    def _fail(self, error: BaseException) -> None:
        with self._state:
            self._failed = self._failed or error
            self._ending = True
            self._state.notify_all()

    def _receive(self, subscriber: Any, listener: Any, key: str, earlier: KeyFilter | None) -> None:  # noqa: ANN401
        dropped = 0
        for batch in self._batches(subscriber, listener):
            now = dt.datetime.now(dt.UTC)
            dropped = self._dropped(subscriber, key, dropped)
            if not batch.num_rows:
                continue
            if earlier is not None:
                self._give(conform(batch.filter(pc.invert(earlier.mask(batch.column("key")))), recv_ts=now))
            else:
                self._give(conform(batch, recv_ts=now))
        self._dropped(subscriber, key, dropped)

    def _batches(self, subscriber: Any, listener: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
        """Yield what is received until the end is asked for, then what is in the queue."""
        while not self._ending:
            try:
                batch = pa.record_batch(subscriber.recv_batch(timeout=_LOOK))
            except SessionClosed:
                return
            yield batch
        # A queue that is still filled may never be empty. And losses noticed later would not be in the file.
        subscriber.undeclare()
        listener.undeclare()
        while True:
            try:
                batch = pa.record_batch(subscriber.recv_batch(timeout=0))
            except (SessionClosed, UsageError):
                return  # the queue is closed and empty
            if not batch.num_rows:
                return
            yield batch

    def _dropped(self, subscriber: Any, key: str, before: int) -> int:  # noqa: ANN401
        """Count the samples for which the queue had no space, and return the counter."""
        count = int(subscriber.dropped)
        if count > before:
            self._lose("drop", count - before, key)
        return count

    def _give(self, batch: pa.RecordBatch) -> None:
        with self._state:
            # A batch larger than the bound waits alone.
            while not self._stopped and self._bytes_waiting and self._bytes_waiting + batch.nbytes > _WAITING:
                self._state.wait(_LOOK)
            if self._stopped:
                self._unwritten += batch.num_rows
                return
            self._waiting.append(batch)
            self._bytes_waiting += batch.nbytes
            self._state.notify_all()

    def _lose(
        self, reason: str, count: int | None, key: str | None = None, source: str | None = None
    ) -> None:
        with self._state:
            known = self._found.get((reason, key, source))
            more = count if known is None or known.samples is None else (count or 0) + known.samples
            noticed = dt.datetime.now(dt.UTC) if known is None else known.noticed
            self._found[reason, key, source] = Loss(reason, more, key, source, noticed)
            counted = dict(self._done.losses)
            counted[reason] = counted.get(reason, 0) + (1 if count is None else count)
            self._done = self._done._replace(losses=counted)

    def _write(self) -> None:
        try:
            self._fill()
        except BaseException as error:
            # Now, because the file may not be completed either: the first error names the cause.
            self._fail(error)
            raise
        finally:
            self._complete()

    def _fill(self) -> None:
        flushed = time.monotonic()
        while True:
            last = self._take(flushed + self._settings.flush)
            while self._taken:
                self._add(self._taken[0])
                self._taken.popleft()
            if last or time.monotonic() >= flushed + self._settings.flush:
                self._flush()
                flushed = time.monotonic()
                if self._full():
                    self._rotate()
            if last:
                return

    def _take(self, until: float) -> bool:
        """Take the batches that wait; without any, wait for some until a time.

        Returns:
            Whether they are the last ones.
        """
        with self._state:
            self._state.wait_for(
                lambda: self._waiting or self._received_all(), max(0.0, until - time.monotonic())
            )
            self._taken.extend(self._waiting)
            self._waiting.clear()
            self._bytes_waiting = 0
            self._state.notify_all()
            return self._received_all()

    def _add(self, batch: pa.RecordBatch) -> None:
        refused = self._file.write(batch)
        if refused:
            self._lose("channels", refused)
        lost = dict(self._done.lost)
        for name in NOT_IN_MCAP if self._settings.form == "mcap" else ():
            column = batch.column(name)
            if len(column) > column.null_count:
                lost[name] = lost.get(name, 0) + len(column) - column.null_count
        self._rows += batch.num_rows - refused
        with self._state:
            done = self._done
            rows, size = done.rows + batch.num_rows - refused, done.bytes + payload_bytes(batch)
            self._done = done._replace(rows=rows, bytes=size, lost=lost)

    def _flush(self) -> None:
        self._note_found()
        self._file.flush()

    def _note_found(self) -> None:
        ended, again = _links(self._session)
        for reason, count in (("link", ended - self._links[0]), ("reconnect", again - self._links[1])):
            if count > 0:
                self._lose(reason, None)
        self._links = ended, again
        with self._state:
            found, self._found = list(self._found.values()), {}
        for loss in found:
            self._note(loss)

    def _note(self, loss: Loss) -> None:
        if self._noted < _MOST_LOSSES:
            self._noted += 1
            self._file.note(loss)
            return
        before = self._beyond.get(loss.reason)
        count = (loss.samples or 1) + (0 if before is None else before.samples or 0)
        noticed = loss.noticed if before is None else before.noticed
        self._beyond[loss.reason] = Loss(loss.reason, count, None, None, noticed)

    def _full(self) -> bool:
        if not self._rows:
            return False
        settings = self._settings
        age = time.monotonic() - self._began
        return age >= settings.rotate_seconds or self._file.size() >= settings.rotate_bytes

    def _rotate(self) -> None:
        """Begin the next file; the present one is completed meanwhile, because Parquet takes its time."""
        self._end_losses()
        self._wait_for_completion()
        # First: without a next file the present one is completed as the last.
        following = self._open(self._names())
        self._completing = threading.Thread(
            target=self._guarded, args=(self._file.close,), name="zwire-record-end"
        )
        self._completing.start()
        self._file = following
        self._began, self._noted, self._rows = time.monotonic(), 0, 0
        with self._state:
            done = self._done
            files = (*done.files, self._file.path)[-100:]
            self._done = done._replace(files=files, rotated=done.rotated + 1)

    def _complete(self) -> None:
        try:
            self._note_rest()
        finally:
            self._wait_for_completion()
            self._file.close()

    def _note_rest(self) -> None:
        """Note the losses not noted yet, after an error also the samples that did not reach the file."""
        with self._state:
            self._stopped = True
            self._state.notify_all()
            self._state.wait_for(self._received_all)
        unwritten = self._unwritten + sum(batch.num_rows for batch in (*self._taken, *self._waiting))
        if unwritten:
            self._lose("error", unwritten)
        self._note_found()
        self._end_losses()

    def _end_losses(self) -> None:
        for loss in self._beyond.values():
            self._file.note(loss)
        self._beyond = {}

    def _wait_for_completion(self) -> None:
        if self._completing is not None:
            self._completing.join()


class _Settings:
    """Checked options of a recorder."""

    def __init__(self, path: Path, options: RecordOptions) -> None:
        unknown = options.keys() - RecordOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"Recorder has no option {', '.join(sorted(unknown))}")
        self.path = path
        form = options.get("format") or by_name(path)
        if form not in WRITTEN:
            raise ValueError(f"format must be one of {', '.join(WRITTEN)}, not {form or path.name!r}")
        self.form: str = form
        arrow()
        if form == "mcap":
            library("mcap", "record")
        self.rotate_bytes = _positive(options, "rotate_bytes", inf)
        self.rotate_seconds = _positive(options, "rotate_seconds", inf)
        self.flush = _positive(options, "flush_seconds", 0.5)
        self.rotates = min(self.rotate_bytes, self.rotate_seconds) < inf


def _positive(options: RecordOptions, name: str, default: float) -> float:
    found: Any = options.get(name)
    if found is None:
        return default
    if not 0 < found < inf:
        raise ValueError(f"{name} must be above 0, not {found!r}")
    return float(found)


def _links(session: Session) -> tuple[int, int]:
    """Return how many links have ended, and how many came back."""
    stats: Any = session.stats()
    ended = sum(count for name, count in stats.items() if name.startswith("links.ended."))
    return ended, stats["links.reconnected"]
