//! [`Link`]: one established connection, its sender and its receiver.
//!
//! Sending is *flush by whoever is there*. A thread that has pushed a message may write to the
//! socket itself: a message alone goes out at once, without a hand-over to another thread. While one
//! thread writes, others only push; the writer takes along what they pushed. A burst of messages is
//! not written one by one: from the second message within [`ALONE`] on they are collected until a
//! batch is worth a write or the batching time limit is over. What the socket does not take is left
//! to the link's task.

mod ways;

use crate::{
    burst::Moment,
    clock,
    connectivity::LinkEnd,
    intercept::Guard,
    io::{Ends, Io},
    pace::Pace,
    tap::TappedConnection,
};
use bytes::Bytes;
use core::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{Arc, OnceLock},
};
use tokio::sync::Notify;
use ways::Outlets;
use zwire_proto::{
    Now,
    zenoh::{
        CongestionControl, Priority, Reliability,
        intercept::Egress,
        link::{LinkParams, LinkTx, TxConfig},
        wire::{CloseReason, NetworkMessage},
    },
};

/// A message that comes this long after the one before it is alone and goes out at once. A loop of
/// puts comes every microsecond or two, an answer to a message of the peer not before one round trip
/// on loopback, 30 µs.
pub const ALONE: Duration = Duration::from_micros(20);

/// From this many queued bytes on the pushing thread writes: one full batch.
const FLUSH_BYTES: usize = 60 * 1024;

/// Most bytes taken from the lanes for one round of writing: enough for one `writev` to be cheap,
/// little enough for a higher priority to get in between.
const WRITE_BYTES: usize = 256 * 1024;

/// Rounds that a thread of the application writes before it leaves the rest to the link's task, so
/// that other threads' messages cannot hold it forever.
const ROUNDS: usize = 8;

/// How urgent a pushed message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Write now.
    Now,
    /// Write now if it is alone, else collect.
    Batch,
    /// Collect; something else follows.
    Later,
}

/// What happened to a pushed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is queued.
    Queued,
    /// It is queued behind others, and whoever sees to those sees to it: nothing is left to do.
    Gathered,
    /// The policy of the node is against it. Nothing is queued.
    Refused,
    /// It is queued, and its lane is over the bound: wait before the next.
    Over,
    /// It is queued, and its lane is full now. What may be dropped would be next.
    Full,
    /// It was dropped, its lane was full.
    Dropped,
}

/// Counters of one link.
#[derive(Debug, Default)]
pub struct LinkStats {
    /// Bytes written.
    pub tx_bytes: AtomicU64,
    /// Network messages queued, by lane.
    pub tx_messages: [AtomicU64; Priority::COUNT],
    /// Write calls.
    pub tx_writes: AtomicU64,
    /// Messages dropped because their lane was full, by lane.
    pub tx_dropped: [AtomicU64; Priority::COUNT],
    /// Bytes read.
    pub rx_bytes: AtomicU64,
    /// Network messages received.
    pub rx_messages: AtomicU64,
}

/// What goes through one lane of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneReport {
    /// Its priority.
    pub lane: Priority,
    /// Network messages queued.
    pub tx_messages: u64,
    /// Messages dropped because it was full.
    pub tx_dropped: u64,
    /// Bytes that wait to be written.
    pub waiting_bytes: usize,
    /// Most bytes that may wait.
    pub capacity_bytes: usize,
    /// Who waits for room in it.
    pub producers: usize,
}

/// How long the task of a link goes on looking for something to flush after there was something.
const AWAKE: Duration = Duration::from_millis(20);

/// How often it looks meanwhile: the resolution of its timer.
const TICK: Duration = Duration::from_millis(1);

struct Tx {
    machine: LinkTx,
    /// Taken from the machine, not yet written.
    out: VecDeque<Bytes>,
    /// Somebody is writing, or the task has taken over.
    busy: bool,
    /// The task is to wait for the socket and write on.
    handed_over: bool,
    /// The task is to flush at this time.
    flush_at: Option<Duration>,
    /// Until then the task looks by itself, every [`TICK`], whether there is something to flush.
    awake_until: Duration,
    /// It will look again without being told.
    awake: bool,
    last_push: Duration,
    /// The connection holds something that it could not write.
    unflushed: bool,
    dead: bool,
    pace: Pace,
    /// Where batches leave by more than one way.
    outlets: Option<Outlets>,
}

impl Tx {
    /// Whether somebody else writes, or nothing can be written.
    fn is_taken(&self) -> bool {
        self.busy
            && self
                .outlets
                .as_ref()
                .is_none_or(|outlets| !outlets.waiting || !outlets.can_go_on(&self.machine))
    }

    /// Bytes that wait in a lane.
    fn queued(&self, lane: Priority) -> usize {
        let best_effort = self.outlets.as_ref().and_then(|outlets| outlets.best_effort.as_ref());
        self.machine.queued_bytes(lane) + best_effort.map_or(0, |machine| machine.queued_bytes(lane))
    }

    fn queued_total(&self) -> usize {
        let best_effort = self.outlets.as_ref().and_then(|outlets| outlets.best_effort.as_ref());
        self.machine.queued_total() + best_effort.map_or(0, LinkTx::queued_total)
    }

    fn is_idle(&self) -> bool {
        let idle = |outlets: &Outlets| {
            outlets.is_empty() && outlets.best_effort.as_ref().is_none_or(LinkTx::is_idle)
        };
        self.out.is_empty() && self.machine.is_idle() && self.outlets.as_ref().is_none_or(idle)
    }

    /// When a sender wants to be looked at.
    fn poll_timeout(&self) -> Option<Duration> {
        let best_effort = self.outlets.as_ref().and_then(|outlets| outlets.best_effort.as_ref());
        [self.machine.poll_timeout(), best_effort.and_then(LinkTx::poll_timeout)].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Now) {
        self.machine.handle_timeout(now);
        if let Some(best_effort) = self.outlets.as_mut().and_then(|outlets| outlets.best_effort.as_mut()) {
            best_effort.handle_timeout(now);
        }
    }
}

/// One established connection.
pub struct Link {
    io: Io,
    /// Parameters of the handshake.
    pub params: LinkParams,
    /// Our end, as a locator.
    pub local: String,
    /// The peer's end, as a locator.
    pub peer: String,
    /// Both ends as addresses, ours first, where they have some.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// Counters.
    pub stats: LinkStats,
    since: Duration,
    tx: Mutex<Tx>,
    tx_wake: Notify,
    space: Condvar,
    space_async: Notify,
    lane_bytes: [usize; Priority::COUNT],
    batching: bool,
    time_limit: Duration,
    blocked: [AtomicBool; Priority::COUNT],
    /// Droppable messages have waited for this lane in vain: until there is room again none does.
    weary: [AtomicBool; Priority::COUNT],
    /// When something was written last, by the way that it has left.
    last_progress_us: [AtomicU64; Priority::COUNT],
    /// Whether each priority has a way of its own.
    by_priority: bool,
    /// How many wait for space in each lane.
    waiting: [AtomicUsize; Priority::COUNT],
    closed: AtomicBool,
    close_wake: Notify,
    end: OnceLock<LinkEnd>,
    /// The log has heard of it.
    end_told: AtomicBool,
    tap: Option<TappedConnection>,
    /// Set before the first message.
    guard: OnceLock<Guard>,
}

/// Local policy of a link.
#[derive(Clone, Debug)]
pub struct LinkPolicy {
    /// Bound of each lane in bytes.
    pub lane_bytes: [usize; Priority::COUNT],
    /// Whether messages are collected at all.
    pub batching: bool,
    /// How long a collected message may wait.
    pub time_limit: Duration,
    /// Keep-alives per lease.
    pub keep_alive: u32,
}

impl Link {
    pub(crate) fn new(
        io: Io,
        params: LinkParams,
        machine: LinkTx,
        policy: &LinkPolicy,
        tap: Option<TappedConnection>,
    ) -> io::Result<Arc<Self>> {
        let Ends { local, peer, addresses } = io.ends()?;
        // The engine holds the bound, because a message that blocks waits outside of the machine.
        let config = TxConfig { bytes_per_priority: usize::MAX, keep_alive: policy.keep_alive };
        let outlets = io
            .ways()
            .map(|ways| Outlets::new(ways, &params, |params| LinkTx::new(params, config, clock::now())));
        let by_priority = outlets.as_ref().is_some_and(|outlets| outlets.by_priority);
        let machine = if by_priority { machine.with_separate_lanes() } else { machine };
        let pace = Pace::new();
        io.set_room(pace.room());
        Ok(Arc::new(Self {
            local,
            peer,
            addresses,
            io,
            params,
            stats: LinkStats::default(),
            since: clock::mono(),
            tx: Mutex::new(Tx {
                machine,
                out: VecDeque::new(),
                busy: false,
                handed_over: false,
                flush_at: None,
                awake_until: Duration::ZERO,
                awake: false,
                last_push: Duration::ZERO,
                unflushed: false,
                dead: false,
                pace,
                outlets,
            }),
            tx_wake: Notify::new(),
            space: Condvar::new(),
            space_async: Notify::new(),
            lane_bytes: policy.lane_bytes,
            batching: policy.batching,
            time_limit: policy.time_limit,
            blocked: Default::default(),
            weary: Default::default(),
            last_progress_us: Default::default(),
            by_priority,
            waiting: Default::default(),
            closed: AtomicBool::new(false),
            close_wake: Notify::new(),
            end: OnceLock::new(),
            end_told: AtomicBool::new(false),
            tap,
            guard: OnceLock::new(),
        }))
    }

    pub(crate) const fn io(&self) -> &Io {
        &self.io
    }

    /// The name by which the peer has proved itself: that of its certificate, or its user name.
    #[must_use]
    pub fn auth_identifier(&self) -> Option<&str> {
        self.io.name().or_else(|| self.params.user.as_ref().map(zwire_proto::Text::as_str))
    }

    /// Whether what is sent arrives, unless the link ends.
    #[must_use]
    pub const fn is_reliable(&self) -> bool {
        self.io.is_reliable()
    }

    pub(crate) fn tap_received(&self, bytes: &[u8]) {
        if let Some(tap) = &self.tap {
            tap.received(bytes);
        }
    }

    /// What the policy of the node is for this link. Without a call nothing is held back.
    pub(crate) fn set_guard(&self, guard: Guard) {
        // Once, by whoever has made the link.
        let _ = self.guard.set(guard);
    }

    /// Leaves those of the peer's messages that the policy of the node lets in.
    pub(crate) fn admit(&self, messages: &mut Vec<(NetworkMessage, Reliability)>) {
        if let Some(guard) = self.guard.get() {
            guard.admit(messages, self);
        }
    }

    /// Queues a message. Never waits; writing is [`Self::settle`]'s business. That is not needed for one that
    /// may be collected and is [gathered](Sent::Gathered); `collect` says when it was published.
    pub(crate) fn push(
        &self,
        message: &NetworkMessage,
        reliability: Reliability,
        collect: Option<Moment>,
    ) -> Sent {
        match self.guard.get().map_or(Egress::Pass, |guard| guard.egress(message, reliability)) {
            Egress::Pass => self.queue(message, reliability, collect),
            Egress::Changed(message) => self.queue(&message, reliability, collect),
            Egress::Refused => Sent::Refused,
        }
    }

    fn queue(&self, message: &NetworkMessage, reliability: Reliability, collect: Option<Moment>) -> Sent {
        let qos = message.qos();
        let priority = qos.priority();
        let lane = self.lane(priority);
        let mut tx = self.tx.lock();
        if tx.dead {
            return Sent::Dropped;
        }
        let over = tx.queued(lane) >= self.lane_bytes[lane as usize];
        if over {
            let drop = match qos.congestion() {
                CongestionControl::Drop => true,
                CongestionControl::Block => false,
                // One such message may wait; while it does, the others are dropped.
                CongestionControl::BlockFirst => self.blocked[lane as usize].swap(true, Ordering::Relaxed),
            };
            if drop {
                drop_count(&self.stats.tx_dropped[lane as usize]);
                return Sent::Dropped;
            }
        } else {
            self.refresh_lane(lane);
        }
        let Tx { machine, outlets, .. } = &mut *tx;
        let machine = match outlets.as_mut().and_then(|outlets| outlets.best_effort.as_mut()) {
            Some(best_effort) if reliability == Reliability::BestEffort => best_effort,
            _ => machine,
        };
        if machine.push(message, reliability).is_err() {
            drop_count(&self.stats.tx_dropped[lane as usize]);
            return Sent::Dropped;
        }
        let full = tx.queued(lane) >= self.lane_bytes[lane as usize];
        let gathered = collect.is_some_and(|moment| self.gathers(&mut tx, moment));
        // With the lock there is no other writer, and nothing has to be atomic about adding.
        let count = &self.stats.tx_messages[lane as usize];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        drop(tx);
        match (over, full) {
            (true, _) => Sent::Over,
            (false, true) => Sent::Full,
            (false, false) if gathered => Sent::Gathered,
            (false, false) => Sent::Queued,
        }
    }

    /// Whether [`Self::settle`] would do nothing for a message that is to be collected: so it is for nearly
    /// all of a burst.
    fn gathers(&self, tx: &mut Tx, moment: Moment) -> bool {
        let collected = || {
            let waits = self.batching && tx.flush_at.is_some();
            waits && !is_alone(tx, moment) && tx.queued_total() < FLUSH_BYTES
        };
        let gathered = tx.is_taken() || collected();
        if gathered {
            tx.last_push = moment.now;
        }
        gathered
    }

    /// After one or more pushes: writes, or sees to it that somebody will. Whether it was this thread that
    /// wrote.
    pub(crate) fn settle(&self, moment: Moment, urgency: Urgency) -> bool {
        let mut tx = self.tx.lock();
        let now = moment.now;
        let alone = is_alone(&tx, moment);
        tx.last_push = now;
        if tx.dead || tx.is_taken() {
            return false;
        }
        let write = match urgency {
            Urgency::Now => true,
            Urgency::Batch => alone || !self.batching,
            Urgency::Later => !self.batching,
        } || tx.queued_total() >= FLUSH_BYTES;
        if write {
            self.write_out(tx, ROUNDS);
        } else if tx.flush_at.is_none() {
            tx.flush_at = Some(now + self.time_limit);
            // Waking a thread costs more than the message, and mostly for nothing: what follows takes
            // along what waits.
            tx.awake_until = now + AWAKE;
            let awake = core::mem::replace(&mut tx.awake, true);
            drop(tx);
            if !awake {
                self.tx_wake.notify_one();
            }
        }
        write
    }

    /// Writes until nothing is left, the socket is full, or `rounds` are over.
    fn write_out<'a>(&'a self, mut tx: parking_lot::MutexGuard<'a, Tx>, rounds: usize) {
        if tx.outlets.is_some() {
            return self.write_ways(tx, rounds);
        }
        tx.busy = true;
        tx.flush_at = None;
        for _ in 0..rounds {
            if tx.out.is_empty() {
                self.refill(&mut tx);
            }
            if tx.out.is_empty() && !tx.unflushed {
                tx.busy = false;
                tx.pace.idle();
                return;
            }
            let mut out = core::mem::take(&mut tx.out);
            drop(tx);
            let (written, result) = self.write_some(&mut out);
            tx = self.tx.lock();
            tx.out = out;
            let (now, full) = (clock::mono(), matches!(result, Ok(false)));
            if written > 0 {
                self.note_progress(0, now);
            }
            tx.unflushed = full;
            if let Some(room) = tx.pace.wrote(now, written, full) {
                self.io.set_room(room);
            }
            match result {
                Ok(true) if tx.pace.is_slow() && !self.io.is_drained() => break,
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.note_end(LinkEnd::of(&error));
                    tx.dead = true;
                    tx.busy = false;
                    drop(tx);
                    self.close();
                    return;
                }
            }
        }
        tx.handed_over = true;
        drop(tx);
        self.tx_wake.notify_one();
    }

    /// Who has waited goes on when a quarter of the lane is free: waking for each message would cost
    /// more than sending it.
    const fn low_water(&self, lane: Priority) -> usize {
        let bytes = self.lane_bytes[lane as usize];
        bytes - bytes / 4
    }

    const fn lane(&self, priority: Priority) -> Priority {
        if self.params.qos { priority } else { Priority::Data }
    }

    fn refill(&self, tx: &mut Tx) {
        let mut parts = Vec::new();
        let most = tx.pace.chunk(WRITE_BYTES);
        tx.machine.poll_transmit(clock::now(), &mut parts, most);
        if let Some(tap) = &self.tap {
            tap.sent(&parts);
        }
        tx.out.extend(parts);
        self.tell_waiting(tx);
    }

    fn note_progress(&self, way: usize, now: Duration) {
        self.last_progress_us[way].store(micros(now), Ordering::Relaxed);
    }

    /// Tells those who wait for lanes that have room again.
    fn tell_waiting(&self, tx: &Tx) {
        let roomy = |(lane, waiting): (&Priority, &AtomicUsize)| {
            waiting.load(Ordering::Relaxed) > 0 && tx.queued(*lane) <= self.low_water(*lane)
        };
        if Priority::ALL.iter().zip(&self.waiting).any(roomy) {
            self.space.notify_all();
            self.space_async.notify_waiters();
        }
    }

    /// Writes as much as the socket takes: how many bytes, and true when that was all.
    fn write_some(&self, out: &mut VecDeque<Bytes>) -> (usize, io::Result<bool>) {
        let mut total = 0;
        let result = self.io.try_write(out, |written| {
            total += written;
            self.stats.tx_writes.fetch_add(1, Ordering::Relaxed);
            self.stats.tx_bytes.fetch_add(written as u64, Ordering::Relaxed);
        });
        (total, result)
    }

    /// The task of a link: delayed flushes, keep-alives, and writing when the socket was full.
    pub(crate) async fn run_tx(self: Arc<Self>) {
        let sleep = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(sleep);
        let several = self.tx.lock().outlets.is_some();
        loop {
            let (deadline, handed_over) = {
                let mut tx = self.tx.lock();
                if tx.dead {
                    break;
                }
                let now = clock::mono();
                let tick = (now < tx.awake_until).then(|| now + TICK);
                tx.awake = tick.is_some() || tx.flush_at.is_some();
                let deadline = [tx.poll_timeout(), tx.flush_at, tick].into_iter().flatten().min();
                (deadline, core::mem::take(&mut tx.handed_over))
            };
            // By other ways something may be due meanwhile.
            if handed_over && !several {
                tokio::select! {
                    ready = self.io.writable() => if ready.is_err() { break },
                    () = self.closed() => break,
                }
                self.write_out(self.tx.lock(), usize::MAX);
                continue;
            }
            if let Some(deadline) = deadline {
                sleep.as_mut().reset(clock::instant(deadline));
            }
            tokio::select! {
                () = self.tx_wake.notified() => self.tx.lock().handed_over |= handed_over,
                () = &mut sleep, if deadline.is_some() => {
                    let now = clock::now();
                    let mut tx = self.tx.lock();
                    let due = |at: Option<Duration>| at.is_some_and(|at| at <= now.mono);
                    let alive = due(tx.poll_timeout());
                    tx.handle_timeout(now);
                    tx.handed_over |= handed_over;
                    if !alive && !due(tx.flush_at) {
                        // Only a look.
                    } else if tx.is_taken() {
                        tx.flush_at = None;
                    } else {
                        self.write_out(tx, ROUNDS);
                    }
                }
                ready = self.io.writable(), if handed_over => {
                    if ready.is_err() {
                        break;
                    }
                    let mut tx = self.tx.lock();
                    let busy = tx.busy;
                    match &mut tx.outlets {
                        Some(outlets) if busy && !outlets.waiting => outlets.again = true,
                        _ => self.write_out(tx, usize::MAX),
                    }
                }
                () = self.closed() => break,
            }
        }
        self.close();
    }

    /// Whether the lane of `priority` is over its bound.
    pub(crate) fn is_over(&self, priority: Priority) -> bool {
        self.lane_over(&self.tx.lock(), priority)
    }

    /// Whether a message of `priority` would find its lane full.
    #[must_use]
    pub fn is_congested(&self, priority: Priority) -> bool {
        self.is_over(priority)
    }

    fn lane_over(&self, tx: &Tx, priority: Priority) -> bool {
        let lane = self.lane(priority);
        let over = !tx.dead && tx.queued(lane) >= self.lane_bytes[lane as usize];
        if !over {
            self.blocked[lane as usize].store(false, Ordering::Relaxed);
            self.refresh_lane(lane);
        }
        over
    }

    /// There is room in the lane: droppable messages may wait for it again when it is full next.
    fn refresh_lane(&self, lane: Priority) {
        let weary = &self.weary[lane as usize];
        if weary.load(Ordering::Relaxed) {
            weary.store(false, Ordering::Relaxed);
        }
    }

    /// Whether a droppable message of `priority` has waited for room in vain, and there is none since.
    pub(crate) fn is_weary(&self, priority: Priority) -> bool {
        self.weary[self.lane(priority) as usize].load(Ordering::Relaxed)
    }

    /// Whether somebody who waits for the lane has to go on waiting.
    fn lane_tight(&self, tx: &Tx, priority: Priority) -> bool {
        let lane = self.lane(priority);
        let tight = !tx.dead && tx.queued(lane) > self.low_water(lane);
        if !tight {
            self.blocked[lane as usize].store(false, Ordering::Relaxed);
        }
        tight
    }

    /// Waits until the lane has room again. A peer that has taken nothing for `limit` is
    /// unresponsive and loses its connection.
    pub(crate) async fn wait_space(&self, priority: Priority, limit: Duration) {
        let start = clock::mono();
        self.waiting[self.lane(priority) as usize].fetch_add(1, Ordering::AcqRel);
        loop {
            let notified = self.space_async.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if !self.lane_tight(&self.tx.lock(), priority) {
                break;
            }
            let deadline = self.stuck_at(start, priority, limit);
            if tokio::time::timeout_at(clock::instant(deadline), notified).await.is_err()
                && clock::mono() >= self.stuck_at(start, priority, limit)
            {
                self.abandon();
                break;
            }
        }
        self.waiting[self.lane(priority) as usize].fetch_sub(1, Ordering::AcqRel);
    }

    /// As [`Self::wait_space`], for a thread of the application. False when `interrupted` said so.
    pub(crate) fn wait_space_blocking(
        &self,
        priority: Priority,
        limit: Duration,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> bool {
        let start = clock::mono();
        self.waiting[self.lane(priority) as usize].fetch_add(1, Ordering::AcqRel);
        let mut go_on = true;
        let mut tx = self.tx.lock();
        while self.lane_tight(&tx, priority) {
            if clock::mono() >= self.stuck_at(start, priority, limit) {
                drop(tx);
                self.abandon();
                break;
            }
            if self.space.wait_for(&mut tx, crate::queue::INTERRUPT_PERIOD).timed_out() {
                drop(tx);
                if interrupted() {
                    go_on = false;
                    break;
                }
                tx = self.tx.lock();
            }
        }
        self.waiting[self.lane(priority) as usize].fetch_sub(1, Ordering::AcqRel);
        go_on
    }

    /// Waits at most `limit` for space and gives up quietly: the grace of droppable messages. One waits;
    /// if that was in vain, the next ones do not until there was room again.
    pub(crate) fn wait_briefly(&self, priority: Priority, limit: Duration) {
        let mut tx = self.tx.lock();
        if !self.lane_over(&tx, priority) || self.is_weary(priority) {
            return;
        }
        let end = clock::deadline(clock::mono() + limit);
        self.waiting[self.lane(priority) as usize].fetch_add(1, Ordering::AcqRel);
        while self.lane_over(&tx, priority) {
            // Who waits is told when a quarter is free; at the end a little will do.
            if self.space.wait_until(&mut tx, end).timed_out() {
                if self.lane_over(&tx, priority)
                    && !self.weary[self.lane(priority) as usize].swap(true, Ordering::Relaxed)
                {
                    tracing::warn!(
                        target: crate::log::QUEUE,
                        peer = self.peer, zid = %self.params.remote.zid,
                        priority = ?self.lane(priority), bytes = tx.queued(self.lane(priority)),
                        "the queue of a link is full: messages that may be dropped are, until there is room"
                    );
                }
                break;
            }
        }
        drop(tx);
        self.waiting[self.lane(priority) as usize].fetch_sub(1, Ordering::AcqRel);
    }

    fn stuck_at(&self, start: Duration, priority: Priority, limit: Duration) -> Duration {
        let way = if self.by_priority { self.lane(priority) as usize } else { 0 };
        start.max(Duration::from_micros(self.last_progress_us[way].load(Ordering::Relaxed))) + limit
    }

    /// The peer does not drain: it is told so if it ever reads again, and the connection ends.
    fn abandon(&self) {
        tracing::warn!(peer = self.peer, zid = %self.params.remote.zid, "the peer does not read what was sent to it: closing its link");
        self.note_end(LinkEnd::Unresponsive);
        self.finish(CloseReason::UNRESPONSIVE);
        self.close();
    }

    /// Writes what is queued.
    pub(crate) fn flush(&self) {
        let tx = self.tx.lock();
        if !tx.dead && !tx.is_taken() {
            self.write_out(tx, ROUNDS);
        }
    }

    /// Of a group: somebody has joined it and wants to hear of us.
    pub(crate) fn announce(&self, now: zwire_proto::Now) {
        self.tx.lock().machine.announce(now);
        self.flush();
        // The next time may be nearer now.
        self.tx_wake.notify_one();
    }

    /// Whether it is a multicast group.
    #[must_use]
    pub const fn is_group(&self) -> bool {
        matches!(self.io, Io::Group(_))
    }

    /// Why the link ends; the first reason counts.
    pub(crate) fn note_end(&self, end: LinkEnd) {
        // A later one is a consequence of it.
        let _ = self.end.set(end);
    }

    /// Why the link has ended.
    pub(crate) fn end(&self) -> LinkEnd {
        self.end.get().cloned().unwrap_or(LinkEnd::Closed)
    }

    /// Tells the log that the link has ended, once; `missed`, if it was the only one of a session that goes on.
    pub(crate) fn tell_end(&self, missed: bool) {
        if self.end_told.swap(true, Ordering::AcqRel) {
            return;
        }
        let (end, zid) = (self.end(), self.params.remote.zid);
        if missed && end != LinkEnd::Closed && !crate::log::is_leaving() {
            tracing::warn!(
                peer = self.peer, %zid, reason = end.word(), detail = %end,
                "the connection is lost, and what is published until the next one"
            );
        } else {
            tracing::info!(peer = self.peer, %zid, reason = end.word(), detail = %end, "disconnected");
        }
    }

    /// For how long it has been there.
    pub(crate) fn age(&self) -> Duration {
        clock::mono().saturating_sub(self.since)
    }

    /// What goes through each lane, of one or of all.
    pub(crate) fn lanes(&self) -> Vec<LaneReport> {
        let queued = {
            let tx = self.tx.lock();
            Priority::ALL.map(|lane| tx.queued(lane))
        };
        let all = self.params.qos;
        let lanes = Priority::ALL.into_iter().filter(|lane| all || *lane == Priority::Data);
        let report = |lane: Priority| LaneReport {
            lane,
            tx_messages: self.stats.tx_messages[lane as usize].load(Ordering::Relaxed),
            tx_dropped: self.stats.tx_dropped[lane as usize].load(Ordering::Relaxed),
            waiting_bytes: queued[lane as usize],
            capacity_bytes: self.lane_bytes[lane as usize],
            producers: self.waiting[lane as usize].load(Ordering::Relaxed),
        };
        lanes.map(report).collect()
    }

    /// Says CLOSE, after everything that is queued.
    pub(crate) fn finish(&self, reason: CloseReason) {
        let mut tx = self.tx.lock();
        if tx.dead {
            return;
        }
        tx.machine.close(reason);
        if !tx.is_taken() {
            self.write_out(tx, ROUNDS);
        }
    }

    /// Whether everything was written.
    pub(crate) fn is_flushed(&self) -> bool {
        let tx = self.tx.lock();
        tx.dead || (tx.is_idle() && !tx.busy && self.io.is_delivered())
    }

    /// Ends both tasks. Idempotent.
    pub(crate) fn close(&self) {
        self.tx.lock().dead = true;
        if !self.closed.swap(true, Ordering::AcqRel) {
            if let Some(tap) = &self.tap {
                tap.close();
            }
            self.io.close();
            self.close_wake.notify_waiters();
            self.tx_wake.notify_one();
            self.space.notify_all();
            self.space_async.notify_waiters();
        }
    }

    /// Whether the link was told to close.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns once [`Self::close`] was called.
    pub(crate) async fn closed(&self) {
        let notified = self.close_wake.notified();
        tokio::pin!(notified);
        notified.as_mut().enable();
        if !self.is_closed() {
            notified.await;
        }
    }
}

/// Whether a message is no part of a burst.
fn is_alone(tx: &Tx, Moment { now, before }: Moment) -> bool {
    now.saturating_sub(tx.last_push) >= ALONE && !before.goes_on(now, tx.last_push)
}

fn drop_count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[allow(clippy::cast_possible_truncation, reason = "u64 microseconds last for half a million years")]
const fn micros(duration: Duration) -> u64 {
    duration.as_micros() as u64
}
