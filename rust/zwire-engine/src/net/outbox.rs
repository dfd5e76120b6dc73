//! [`Outbox`]: the sending side of one connection, of every protocol.
//!
//! Any thread that has queued a message may write to the socket itself: a message alone goes out at once,
//! without a hand-over to another thread. While one thread writes, others only queue, and the writing thread
//! takes their messages along. A burst is not written message by message: from the second message within
//! [`ALONE`] on, messages are coalesced until a batch is worth a write or the time limit for batching is over.
//! What the socket does not accept is left to the task of the connection, [`run`].

use crate::rt::{clock, watch::Watch};
use core::time::Duration;
use parking_lot::{Mutex, MutexGuard};
use std::{io, sync::Arc};
use tokio::sync::Notify;
use zwire_proto::Now;

/// A message that comes this long after the one before goes out at once. Puts of a loop come every microsecond or
/// two, an answer to the peer not before a round trip of 30 µs on loopback.
pub(crate) const ALONE: Duration = Duration::from_micros(20);

/// From this many queued bytes, a full batch of Zenoh, the queueing thread writes: a call costs no more than a copy.
const FLUSH_BYTES: usize = 60 * 1024;

/// Most bytes of one round of writing: enough for a cheap `writev`, little enough to let higher priorities between.
pub(crate) const WRITE_BYTES: usize = 256 * 1024;

/// Rounds that a thread of the application writes before it leaves the rest to the connection's task, so
/// that other threads' messages cannot hold it forever.
const ROUNDS: usize = 8;

/// How long the task of a connection goes on looking for something to flush after there was something.
const AWAKE: Duration = Duration::from_millis(20);

/// How often it looks meanwhile: the resolution of its timer.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// Amount that one round of writing gave to the socket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) bytes: usize,
    pub(crate) calls: u64,
}

impl Written {
    /// One more call that the socket took `bytes` of.
    pub(crate) const fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.calls += 1;
    }
}

/// Messages that wait to be written, under the lock of an [`Outbox`].
pub(crate) trait Backlog: Send + 'static {
    /// Bytes that wait.
    fn queued_bytes(&self) -> usize;

    /// The next time at which [`Self::handle_timeout`] has something to do: keep-alives, heartbeats.
    fn poll_timeout(&self) -> Option<Duration>;

    fn handle_timeout(&mut self, now: Now);

    /// Whether messages can leave while another way of the connection waits for room.
    fn can_go_on(&self) -> bool {
        false
    }

    /// Whether the connection has several ways out, so that timeouts matter while one of them is full.
    fn has_ways(&self) -> bool {
        false
    }

    /// Whether producers that were rejected have to be told of room by the task.
    fn owes_room(&self) -> bool {
        false
    }

    /// As [`Self::owes_room`], which is false afterwards.
    fn take_room(&mut self) -> bool {
        false
    }
}

/// Connection that the bytes of an [`Outbox`] leave by.
pub(crate) trait Wire: Send + Sync + 'static {
    type Backlog: Backlog;
    /// Bytes taken out of the backlog for one round of writing.
    type Batch;

    fn outbox(&self) -> &Outbox<Self::Backlog>;

    /// Takes bytes for one round of writing out of the backlog; `None`: nothing is left to write. A connection
    /// that is `dead` encodes nothing new.
    fn take(&self, backlog: &mut Self::Backlog, dead: bool) -> Option<Self::Batch>;

    /// Writes, without a lock, as much as the socket accepts; returns a bit for each way that accepts no more.
    fn write(&self, batch: &mut Self::Batch) -> (Written, io::Result<u16>);

    /// Gives back a batch with what was not written. Whether the next round may follow at once.
    fn put_back(&self, backlog: &mut Self::Backlog, batch: Self::Batch, written: Written, full: u16) -> bool;

    /// Records why the connection breaks, before other threads can see that it has.
    fn note_failure(&self, _error: &io::Error) {}

    /// Ends the connection after a failed write. No lock is held.
    fn fail(&self, error: io::Error);

    /// Returns when the socket accepts bytes again.
    fn writable(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Returns when the connection is closed.
    fn closed(&self) -> impl Future<Output = ()> + Send;
}

/// State of a sender.
pub(crate) struct Sending<B> {
    pub(crate) backlog: B,
    /// A thread is writing, or the task has taken over.
    pub(crate) busy: bool,
    /// No thread is writing; the task will, when a way that was full has room.
    waiting: bool,
    /// A way has room, which became known while a thread was writing.
    again: bool,
    /// The task is to wait for the socket and write on.
    handed_over: bool,
    /// The task is to flush at this time.
    pub(crate) flush_at: Option<Duration>,
    /// Until then the task looks by itself, every [`TICK`], whether there is something to flush.
    awake_until: Duration,
    /// The task will look again without being woken.
    awake: bool,
    pub(crate) last_push: Duration,
    pub(crate) dead: bool,
}

impl<B: Backlog> Sending<B> {
    /// Whether another thread writes, or nothing can be written.
    pub(crate) fn is_taken(&self) -> bool {
        self.busy && !(self.waiting && self.backlog.can_go_on())
    }

    /// Whether a flush of coalesced messages is scheduled, and they do not fill a batch yet.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.flush_at.is_some() && self.backlog.queued_bytes() < FLUSH_BYTES
    }
}

/// Queue of a connection and the state of the thread or task that writes it.
pub(crate) struct Outbox<B> {
    sending: Mutex<Sending<B>>,
    wake: Notify,
    /// Told when everything is written, and when the connection is dead.
    progress: Arc<Watch>,
}

type SendingGuard<'a, W> = MutexGuard<'a, Sending<<W as Wire>::Backlog>>;

impl<B: Backlog> Outbox<B> {
    /// `loaded`: the backlog has messages from before; the task writes them when it starts. `progress` is told
    /// when everything is written, and when the connection is dead.
    pub(crate) fn new(backlog: B, loaded: bool, progress: Arc<Watch>) -> Self {
        Self {
            sending: Mutex::new(Sending {
                backlog,
                busy: loaded,
                waiting: false,
                again: false,
                handed_over: loaded,
                flush_at: None,
                awake_until: Duration::ZERO,
                awake: false,
                last_push: Duration::ZERO,
                dead: false,
            }),
            wake: Notify::new(),
            progress,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Sending<B>> {
        self.sending.lock()
    }

    /// Lets the task look at the deadlines of the backlog again.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Accepts and writes nothing any more.
    pub(crate) fn kill(&self) {
        self.sending.lock().dead = true;
        self.wake.notify_one();
        self.progress.notify();
    }

    /// Writes what is queued, unless another thread does.
    pub(crate) fn flush<W: Wire<Backlog = B>>(&self, wire: &W) {
        self.flush_locked(wire, self.lock());
    }

    /// As [`Self::flush`], under a lock that the caller has taken.
    pub(crate) fn flush_locked<W: Wire<Backlog = B>>(&self, wire: &W, sending: SendingGuard<'_, W>) {
        if !sending.dead && !sending.is_taken() {
            self.write_out(wire, sending, ROUNDS);
        }
    }

    /// After one or more messages were queued: writes at once if `at_once` or if a batch is full, else has the
    /// task flush after `limit`. Whether this thread wrote.
    pub(crate) fn settle<W: Wire<Backlog = B>>(
        &self,
        wire: &W,
        mut sending: SendingGuard<'_, W>,
        now: Duration,
        at_once: bool,
        limit: Duration,
    ) -> bool {
        if sending.dead || sending.is_taken() {
            return false;
        }
        let write = at_once || sending.backlog.queued_bytes() >= FLUSH_BYTES;
        if write {
            self.write_out(wire, sending, ROUNDS);
        } else if sending.flush_at.is_none() {
            sending.flush_at = Some(now + limit);
            // Waking a thread costs more than the message, and the next message mostly takes this one along.
            sending.awake_until = now + AWAKE;
            let awake = core::mem::replace(&mut sending.awake, true);
            drop(sending);
            if !awake {
                self.wake.notify_one();
            }
        }
        write
    }

    /// Writes until nothing is left, the socket is full, or `rounds` are over.
    fn write_out<'a, W: Wire<Backlog = B>>(
        &'a self,
        wire: &W,
        mut sending: SendingGuard<'a, W>,
        rounds: usize,
    ) {
        sending.busy = true;
        sending.flush_at = None;
        let mut left = rounds;
        loop {
            (sending.waiting, sending.again) = (false, false);
            let dead = sending.dead;
            let Some(mut batch) = wire.take(&mut sending.backlog, dead) else {
                sending.busy = false;
                sending.handed_over = false;
                let tell = sending.backlog.owes_room();
                drop(sending);
                if tell {
                    self.wake.notify_one();
                }
                self.progress.notify();
                return;
            };
            drop(sending);
            let (written, result) = wire.write(&mut batch);
            sending = self.lock();
            let full = result.as_ref().copied().unwrap_or_default();
            let go_on = wire.put_back(&mut sending.backlog, batch, written, full);
            if let Err(error) = result {
                wire.note_failure(&error);
                sending.dead = true;
                sending.busy = false;
                drop(sending);
                wire.fail(error);
                return;
            }
            left = left.saturating_sub(1);
            if left == 0 || (!go_on && !sending.again && !sending.backlog.can_go_on()) {
                sending.waiting = true;
                break;
            }
        }
        sending.handed_over = true;
        drop(sending);
        self.wake.notify_one();
    }

    /// Deadlines of the backlog, and a flush that is due.
    fn handle_timeout<W: Wire<Backlog = B>>(&self, wire: &W, handed_over: bool) {
        let now = clock::now();
        let mut sending = self.lock();
        let due = |at: Option<Duration>| at.is_some_and(|at| at <= now.mono);
        let alive = due(sending.backlog.poll_timeout());
        sending.backlog.handle_timeout(now);
        sending.handed_over |= handed_over;
        if !alive && !due(sending.flush_at) {
            // The task only looked, as it does every TICK while it is awake.
        } else if sending.is_taken() {
            sending.flush_at = None;
        } else {
            self.write_out(wire, sending, ROUNDS);
        }
    }
}

/// Task of a connection: delayed flushes, keep-alives, and writing when the socket was full. `on_room` is called
/// when producers that were rejected may go on. Returns when the connection is closed.
pub(crate) async fn run<W: Wire>(wire: &Arc<W>, on_room: impl Fn()) -> io::Result<()> {
    let outbox = wire.outbox();
    let sleep = tokio::time::sleep(Duration::ZERO);
    tokio::pin!(sleep);
    let has_ways = outbox.lock().backlog.has_ways();
    loop {
        let (deadline, handed_over, room) = {
            let mut sending = outbox.lock();
            if sending.dead {
                return Ok(());
            }
            let looks = sending.flush_at.is_some() || sending.awake;
            let now = if looks { clock::mono() } else { Duration::ZERO };
            let tick = (looks && now < sending.awake_until).then(|| now + TICK);
            sending.awake = tick.is_some() || sending.flush_at.is_some();
            let deadline =
                [sending.backlog.poll_timeout(), sending.flush_at, tick].into_iter().flatten().min();
            (deadline, core::mem::take(&mut sending.handed_over), sending.backlog.take_room())
        };
        if room {
            on_room();
        }
        // By other ways something may be due meanwhile.
        if handed_over && !has_ways {
            tokio::select! {
                ready = wire.writable() => ready?,
                () = wire.closed() => return Ok(()),
            }
            outbox.write_out(&**wire, outbox.lock(), usize::MAX);
            continue;
        }
        if let Some(deadline) = deadline {
            sleep.as_mut().reset(clock::instant(deadline));
        }
        tokio::select! {
            () = outbox.wake.notified() => outbox.lock().handed_over |= handed_over,
            () = &mut sleep, if deadline.is_some() => outbox.handle_timeout(&**wire, handed_over),
            ready = wire.writable(), if handed_over => {
                ready?;
                let mut sending = outbox.lock();
                if sending.busy && !sending.waiting {
                    sending.again = true;
                } else {
                    outbox.write_out(&**wire, sending, usize::MAX);
                }
            }
            () = wire.closed() => return Ok(()),
        }
    }
}
