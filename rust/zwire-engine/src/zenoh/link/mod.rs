//! [`Link`]: one established connection, its sender and its receiver.
//!
//! Messages are queued in the lanes of a `LinkBacklog`, each with a bound, and leave by the `Outbox` that
//! connections of every protocol have.

mod backlog;
mod end;
mod space;
mod ways;

use crate::{
    lending::LendingFailure,
    net::{
        burst::Moment,
        interfaces::interfaces_with,
        io::{Io, transport::Ends},
        outbox::{self, ALONE, Outbox, Sending},
        pace::Pace,
        tap::TappedConnection,
    },
    rt::{clock, watch::Watch},
    zenoh::{
        authority::Question,
        intercept::{Asker, Guard, Passage, RulesInForce, Waiting},
        lending::{Lend, LinkLending},
    },
};
pub use end::{LinkEnd, PeerFault};

use backlog::LinkBacklog;
use core::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};
use parking_lot::Condvar;
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, OnceLock},
};
use tokio::sync::Notify;
use ways::Outlets;
use zwire_proto::zenoh::{
    CongestionControl, Priority, Reliability, ZenohId,
    intercept::{Answer, Interceptor, LinkFacts},
    link::{LinkParams, LinkTx, TxConfig},
    wire::{CloseReason, NetworkMessage},
};

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

/// Outcome of a pushed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// Queued.
    Queued,
    /// Queued behind messages with a scheduled flush; the caller need not flush.
    Gathered,
    /// Queued, and to be written now: what it has on loan is much.
    Urgent,
    /// Refused by the policy of the node. Nothing is queued.
    Refused,
    /// Queued, and its lane is over the bound: wait before the next.
    Over,
    /// Queued, and its lane is full now: the next droppable message would be dropped.
    Full,
    /// Dropped, because its lane was full.
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
    /// Network messages dropped because their payload is in memory of the sender that this node cannot read.
    pub rx_shm_failed: AtomicU64,
    /// Network messages queued with a payload on loan.
    pub tx_lent: AtomicU64,
    /// Network messages with a large payload that crossed the link although it lends.
    pub tx_unlent: AtomicU64,
    /// Network messages received with a borrowed payload.
    pub rx_borrowed: AtomicU64,
}

/// Traffic and queue of one lane of a link.
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
    /// Number of producers that wait for room in it.
    pub producers: usize,
}

/// Established connection with a node or a multicast group.
pub struct Link {
    pub(crate) io: Io,
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
    outbox: Outbox<LinkBacklog>,
    space: Condvar,
    space_async: Notify,
    policy: LinkPolicy,
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
    pub(crate) tap: Option<TappedConnection>,
    /// Set before the first message, and replaced when the rules of the node change.
    guard: Arc<Guard>,
    /// Starts the task that releases messages held by the guard; set before the first message.
    holder: OnceLock<Holder>,
    /// Set when both sides have tried to open a channel.
    pub(crate) lending: OnceLock<Result<LinkLending, LendingFailure>>,
}

/// Function that starts the task which waits for the answer to a question.
pub(crate) type Holder = Box<dyn Fn(Arc<Question>) + Send + Sync>;

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
        policy: LinkPolicy,
        tap: Option<TappedConnection>,
        progress: Arc<Watch>,
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
            outbox: Outbox::new(LinkBacklog::new(machine, pace, outlets), false, progress),
            space: Condvar::new(),
            space_async: Notify::new(),
            policy,
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
            guard: Arc::default(),
            holder: OnceLock::new(),
            lending: OnceLock::new(),
        }))
    }

    /// The name by which the peer has proved itself: that of its certificate, or its user name.
    #[must_use]
    pub fn auth_identifier(&self) -> Option<&str> {
        self.io.name().or_else(|| self.params.user.as_ref().map(zwire_proto::Text::as_str))
    }

    /// Whether what is sent arrives, unless the link ends.
    #[must_use]
    pub fn is_reliable(&self) -> bool {
        self.io.is_reliable()
    }

    /// Applies the policy of the node to this link. `zid`: the node at the other end; `None` for the members of a
    /// group. Without a call nothing is held back.
    pub(crate) fn set_policy(&self, rules: &RulesInForce, zid: Option<ZenohId>, between_routers: bool) {
        if rules.policy.is_empty() {
            return self.guard.renew(None, |_| (None, ()));
        }
        self.with_facts(zid, |facts| {
            let made = Interceptor::new(&rules.policy, facts);
            let made = if between_routers { made.map(Interceptor::between_routers) } else { made };
            self.guard.renew(Asker::of(rules, facts), |_| (made, ()));
        });
    }

    /// Interceptor of the policy for messages of one member of the group of this link.
    pub(crate) fn guard(&self, rules: &RulesInForce, zid: Option<ZenohId>) -> Arc<Guard> {
        if rules.policy.is_empty() {
            return Arc::default();
        }
        Arc::new(self.with_facts(zid, |facts| Guard::of(rules, facts)))
    }

    /// The interceptor of this link.
    pub(crate) const fn own_guard(&self) -> &Arc<Guard> {
        &self.guard
    }

    /// Sets what happens when the first of some messages for the peer has to wait for the authority.
    pub(crate) fn set_holder(&self, holder: Holder) {
        // A link is registered once.
        let _ = self.holder.set(holder);
    }

    /// Queues a message that nothing follows soon.
    pub(crate) fn send(&self, message: &NetworkMessage, reliability: Reliability) {
        // A link that takes nothing more ends soon, and the message with it.
        self.queue(message, reliability, None);
    }

    /// Calls a function with what rules may select this link by, or one member of its group.
    pub(crate) fn with_facts<R>(&self, zid: Option<ZenohId>, f: impl FnOnce(&LinkFacts<'_>) -> R) -> R {
        let interfaces = self.addresses.map_or_else(Vec::new, |(local, _)| interfaces_with(local.ip()));
        f(&LinkFacts {
            zid,
            interfaces: &interfaces,
            protocol: self.local.split_once('/').map_or("", |(protocol, _)| protocol),
            common_name: self.io.name(),
            username: self.params.user.as_ref().map(zwire_proto::Text::as_str),
        })
    }

    /// Removes the peer's messages that the policy of the node refuses. Answers that their senders wait for are
    /// sent on this link. `answer`: of the authority, about the first message. Returns which interceptor has decided,
    /// for [`SessionShared::deliver`], and the messages that have to wait.
    ///
    /// [`SessionShared::deliver`]: crate::zenoh::shared::SessionShared::deliver
    pub(crate) fn admit(
        &self,
        messages: &mut Vec<(NetworkMessage, Reliability)>,
        answer: Option<(u64, Answer)>,
    ) -> (u64, Option<Waiting>) {
        let by = self.guard.changes();
        let admitted = self.guard.admit(messages, answer);
        self.send_answers(&admitted.refusals);
        (by, admitted.waiting)
    }

    /// Queues a message that the policy has been asked about already.
    pub(crate) fn push_past_rules(&self, message: &NetworkMessage) {
        self.send(message, Reliability::Reliable);
    }

    /// Sends the answers to messages that the policy has refused.
    pub(crate) fn send_answers(&self, answers: &[NetworkMessage]) {
        for answer in answers {
            self.push(answer, Reliability::Reliable, None);
        }
        if !answers.is_empty() {
            self.flush();
        }
    }

    /// Queues a message. Never waits; writing is [`Self::settle`]'s business. That is not needed for one that
    /// may be collected and is [gathered](Sent::Gathered); `collect` says when it was published.
    pub(crate) fn push(
        &self,
        message: &NetworkMessage,
        reliability: Reliability,
        collect: Option<Moment>,
    ) -> PushOutcome {
        match self.guard.egress(&|message, reliability| self.send(message, reliability), message, reliability)
        {
            Passage::Pass => self.queue(message, reliability, collect),
            Passage::Changed(message) => self.queue(&message, reliability, collect),
            Passage::Refused => PushOutcome::Refused,
            Passage::Held(first) => {
                if let (Some(question), Some(holder)) = (first, self.holder.get()) {
                    holder(question);
                }
                PushOutcome::Queued
            }
        }
    }

    /// Queues a message without a look at the rules.
    fn queue(
        &self,
        message: &NetworkMessage,
        reliability: Reliability,
        collect: Option<Moment>,
    ) -> PushOutcome {
        let qos = message.qos();
        let priority = qos.priority();
        let lane = self.lane(priority);
        let mut tx = self.outbox.lock();
        if tx.dead {
            return PushOutcome::Dropped;
        }
        let over = tx.backlog.queued(lane) >= self.policy.lane_bytes[lane as usize];
        if over {
            let drop = match qos.congestion() {
                CongestionControl::Drop => true,
                CongestionControl::Block => false,
                // One such message may wait; while it does, the others are dropped.
                CongestionControl::BlockFirst => self.blocked[lane as usize].swap(true, Ordering::Relaxed),
            };
            if drop {
                return self.drop_one(lane);
            }
        } else {
            self.refresh_lane(lane);
        }
        let lent = if tx.backlog.is_lossy(reliability) { None } else { self.lend(message) };
        let sent = lent.as_ref().map_or(message, |(lent, _)| lent);
        if tx.backlog.sender(reliability).push(sent, reliability).is_err() {
            if let Some((lent, _)) = lent {
                self.lending().inspect(|lending| lending.take_back(&lent));
            }
            return self.drop_one(lane);
        }
        let urgent = lent.is_some_and(|(_, urgent)| {
            self.stats.tx_lent.fetch_add(1, Ordering::Relaxed);
            urgent
        });
        let full = tx.backlog.queued(lane) >= self.policy.lane_bytes[lane as usize];
        let gathered = !urgent && collect.is_some_and(|moment| self.gathers(&mut tx, moment));
        // With the lock there is no other writer, and nothing has to be atomic about adding.
        let count = &self.stats.tx_messages[lane as usize];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        drop(tx);
        match (over, full) {
            (true, _) => PushOutcome::Over,
            (false, true) => PushOutcome::Full,
            (false, false) if urgent => PushOutcome::Urgent,
            (false, false) if gathered => PushOutcome::Gathered,
            (false, false) => PushOutcome::Queued,
        }
    }

    /// The loans of this link, once it lends.
    #[inline]
    pub(crate) fn lending(&self) -> Option<&LinkLending> {
        self.lending.get()?.as_ref().ok()
    }

    /// The message with its payload on loan, if the link lends, and whether it has to be written now.
    #[inline]
    fn lend(&self, message: &NetworkMessage) -> Option<(NetworkMessage, bool)> {
        match self.lending()?.lend(message) {
            Lend::Small => None,
            Lend::Lent { message, urgent } => Some((message, urgent)),
            Lend::Unlent => {
                self.stats.tx_unlent.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// Records whether the link lends. The first call counts.
    #[cfg(target_os = "linux")]
    pub(crate) fn set_lending(&self, lending: Result<LinkLending, LendingFailure>) {
        let _ = self.lending.set(lending);
    }

    fn drop_one(&self, lane: Priority) -> PushOutcome {
        self.stats.tx_dropped[lane as usize].fetch_add(1, Ordering::Relaxed);
        PushOutcome::Dropped
    }

    /// Whether [`Self::settle`] would do nothing for a message that may be coalesced, as for nearly all of a
    /// burst.
    fn gathers(&self, tx: &mut Sending<LinkBacklog>, moment: Moment) -> bool {
        let collected = || self.policy.batching && tx.is_scheduled() && !is_alone(tx, moment);
        let gathered = tx.is_taken() || collected();
        if gathered {
            tx.last_push = moment.now;
        }
        gathered
    }

    /// After one or more pushes: writes, or schedules a flush. Whether this thread wrote.
    pub(crate) fn settle(&self, moment: Moment, urgency: Urgency) -> bool {
        let mut tx = self.outbox.lock();
        let alone = is_alone(&tx, moment);
        tx.last_push = moment.now;
        let at_once = match urgency {
            Urgency::Now => true,
            Urgency::Batch => alone || !self.policy.batching,
            Urgency::Later => !self.policy.batching,
        };
        self.outbox.settle(self, tx, moment.now, at_once, self.policy.time_limit)
    }

    const fn lane(&self, priority: Priority) -> Priority {
        if self.params.qos { priority } else { Priority::Data }
    }

    /// Writes the messages that are queued.
    pub(crate) fn flush(&self) {
        self.outbox.flush(self);
    }

    /// Of a group: sends JOIN at once, because a new member has joined.
    pub(crate) fn announce(&self, now: zwire_proto::Now) {
        self.outbox.lock().backlog.machine.announce(now);
        self.flush();
        // The next deadline may be nearer now.
        self.outbox.wake();
    }

    /// Task of a link: delayed flushes, keep-alives, and writing when the socket was full.
    pub(crate) async fn run_tx(self: Arc<Self>) {
        // A socket that cannot be waited for is closed, as one whose task has ended.
        let _ = outbox::run(&self, || {}).await;
        self.close();
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
                "connection lost; publications are dropped until it is re-established"
            );
        } else {
            tracing::info!(peer = self.peer, %zid, reason = end.word(), detail = %end, "disconnected");
        }
    }

    /// For how long it has been there.
    pub(crate) fn age(&self) -> Duration {
        clock::mono().saturating_sub(self.since)
    }

    /// Traffic and queue of each lane; of the only one where priorities are not told apart.
    pub(crate) fn lanes(&self) -> Vec<LaneReport> {
        let queued = {
            let tx = self.outbox.lock();
            Priority::ALL.map(|lane| tx.backlog.queued(lane))
        };
        let all = self.params.qos;
        let lanes = Priority::ALL.into_iter().filter(|lane| all || *lane == Priority::Data);
        let report = |lane: Priority| LaneReport {
            lane,
            tx_messages: self.stats.tx_messages[lane as usize].load(Ordering::Relaxed),
            tx_dropped: self.stats.tx_dropped[lane as usize].load(Ordering::Relaxed),
            waiting_bytes: queued[lane as usize],
            capacity_bytes: self.policy.lane_bytes[lane as usize],
            producers: self.waiting[lane as usize].load(Ordering::Relaxed),
        };
        lanes.map(report).collect()
    }

    /// Says CLOSE, after everything that is queued.
    pub(crate) fn finish(&self, reason: CloseReason) {
        let mut tx = self.outbox.lock();
        if tx.dead {
            return;
        }
        tx.backlog.machine.close(reason);
        self.outbox.flush_locked(self, tx);
    }

    /// Whether the socket has accepted everything.
    pub(crate) fn is_written(&self) -> bool {
        let tx = self.outbox.lock();
        tx.dead || (tx.backlog.is_idle() && !tx.busy)
    }

    /// Whether nothing more is known to be on its way to the peer.
    pub(crate) fn is_delivered(&self) -> bool {
        let tx = self.outbox.lock();
        tx.dead || self.io.is_delivered() && self.lending().is_none_or(LinkLending::is_found)
    }

    /// Ends both tasks. Idempotent.
    pub(crate) fn close(&self) {
        self.outbox.kill();
        if !self.closed.swap(true, Ordering::AcqRel) {
            if let Some(tap) = &self.tap {
                tap.close();
            }
            self.io.close();
            self.close_wake.notify_waiters();
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
fn is_alone(tx: &Sending<LinkBacklog>, Moment { now, before }: Moment) -> bool {
    now.saturating_sub(tx.last_push) >= ALONE && !before.goes_on(now, tx.last_push)
}
