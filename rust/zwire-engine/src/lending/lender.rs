//! [`Lending`]: the pool of a session; [`Loans`]: what a link has on loan.

use super::{LendingFailure, LendingStats, buffer::PayloadBuffer, door::Doors, files::NamedMemory};
use crate::{
    config::{SharedMemory, SharedMessage},
    rt::{
        clock,
        runtime::{Birth, PerProcess},
    },
};
use bytes::Bytes;
use core::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::{
    io,
    os::fd::AsFd,
    sync::{Arc, Weak},
};
use zwire_proto::lending::{ChannelMessage, Lender, LoanDescription, MAX_LOANS, SegmentState};
use zwire_shm::{Channel, Chunk, MAX_FDS, Memory, Place, Pool, ReturnRing, WeakMemory};

/// Links of this process that lend. Each may have chunks of any pool on loan. A forked child does not see the links of its
/// parent: it would take loans that borrowers have returned to the parent.
static LENDING: PerProcess<Mutex<Vec<Weak<dyn LoanBook>>>> = PerProcess::new();

/// Whether a program has asked for memory to write in.
static EXPLICIT: AtomicBool = AtomicBool::new(false);

/// Loans of one link, as pools see them.
pub(crate) trait LoanBook: Send + Sync {
    /// Ends the loans that the borrower has returned.
    fn take_returns(&self);

    /// Whether it belongs to a link of that session which has no room for a payload of `len` bytes.
    fn is_tight(&self, of: &Lending, len: usize) -> bool;
}

/// Notes that a program has asked for memory to write in.
pub(super) fn set_explicit() {
    EXPLICIT.store(true, Ordering::Relaxed);
}

/// Whether a program has written a payload into shared memory.
#[inline]
pub(crate) fn is_explicit(parts: &[Bytes]) -> bool {
    EXPLICIT.load(Ordering::Relaxed) && parts.iter().any(|part| Place::of(part).is_some())
}

/// The links of [`LENDING`] that still exist. The list is not locked while the caller works on them.
fn lending_links() -> Vec<Arc<dyn LoanBook>> {
    LENDING.get(Mutex::default).lock().iter().filter_map(Weak::upgrade).collect()
}

/// Ends all loans that borrowers have returned to this process.
pub(super) fn collect() {
    lending_links().iter().for_each(|link| link.take_returns());
}

/// A chunk of a pool, if need be one that borrowers have returned. An error says that the system has no memory.
pub(super) fn allocate_in(pool: &Pool, len: usize) -> io::Result<Option<Chunk>> {
    if let Some(chunk) = pool.try_allocate(len)? {
        return Ok(Some(chunk));
    }
    collect();
    pool.try_allocate(len)
}

/// Lending of one session.
pub(crate) struct Lending {
    settings: SharedMemory,
    pool: Pool,
    pub(super) doors: Doors,
    /// That of neighbours of Eclipse Zenoh.
    pub(crate) named: NamedMemory,
    /// Number of links that lend by a channel; without any that lends nothing is placed in a pool.
    pub(super) partners: AtomicUsize,
    /// A link has no room for a payload like the last one.
    tight: AtomicBool,
    /// Payloads that are not to wait for room, because the last wait was in vain.
    weary: AtomicU32,
    pub(crate) birth: Birth,
    pub(crate) stats: LendingStats,
}

impl Lending {
    /// `allowed`: whether it is offered at all, if the settings want it.
    pub(crate) fn new(settings: &SharedMemory, allowed: bool) -> Arc<Self> {
        Arc::new(Self {
            pool: Pool::new(settings.pool_size),
            named: NamedMemory::new(settings.pool_size),
            settings: SharedMemory { enabled: settings.enabled && allowed, ..settings.clone() },
            doors: Doors::default(),
            partners: AtomicUsize::new(0),
            tight: AtomicBool::new(false),
            weary: AtomicU32::new(0),
            birth: Birth::here(),
            stats: LendingStats::default(),
        })
    }

    /// Whether the settings want lending at all.
    pub(crate) const fn is_enabled(&self) -> bool {
        self.settings.enabled
    }

    /// The bytes of a payload: copied into the pool if a link lends, they are many, and the pool has room.
    #[inline]
    pub(crate) fn place_bytes(&self, bytes: Bytes) -> Bytes {
        if !self.is_wanted(bytes.len()) || self.birth.is_here() && Place::of(&bytes).is_some() {
            return bytes;
        }
        self.copy_into(self.pool(), core::slice::from_ref(&bytes)).unwrap_or(bytes)
    }

    /// Whether payloads of this size are to be placed in the pool.
    #[inline]
    pub(crate) fn is_wanted(&self, len: usize) -> bool {
        len >= self.settings.threshold
            && (self.partners.load(Ordering::Relaxed) > 0 || self.named.is_used())
            && self.settings.implicit
    }

    /// Whether payloads of such messages are placed in a pool.
    #[inline]
    pub(crate) fn is_implicit(&self, kind: SharedMessage) -> bool {
        self.settings.implicit && self.settings.messages.contains(&kind)
    }

    /// The pool that all links read which lend, if they are of one kind; else that of links with channels.
    pub(crate) fn pool(&self) -> &Pool {
        let has_channels = self.partners.load(Ordering::Relaxed) > 0;
        if self.named.is_used() && !has_channels { &self.named.pool } else { &self.pool }
    }

    /// A copy of the parts of a payload, in one piece in a pool.
    pub(crate) fn copy_into(&self, pool: &Pool, parts: &[Bytes]) -> Option<Bytes> {
        let mut chunk = self.allocate(pool, parts.iter().map(Bytes::len).sum())?;
        let mut room = chunk.as_mut_slice();
        for part in parts {
            let (own, rest) = room.split_at_mut(part.len());
            own.copy_from_slice(part);
            room = rest;
        }
        Some(chunk.freeze())
    }

    /// A copy of bytes: in the pool, if [`Self::place_bytes`] would put it there.
    pub(crate) fn copy_bytes(&self, bytes: &[u8]) -> Bytes {
        let wanted = self.is_wanted(bytes.len());
        match wanted.then(|| self.allocate(self.pool(), bytes.len())).flatten() {
            Some(mut chunk) => {
                chunk.as_mut_slice().copy_from_slice(bytes);
                chunk.freeze()
            }
            None => Bytes::copy_from_slice(bytes),
        }
    }

    /// Memory for a payload that is written before it is sent: in the pool, as far as it has room.
    pub(crate) fn buffer(&self, len: usize) -> Option<PayloadBuffer> {
        set_explicit();
        let chunk = if self.settings.enabled { self.allocate(self.pool(), len) } else { None };
        chunk.map(PayloadBuffer::shared).or_else(|| PayloadBuffer::private(len))
    }

    /// Memory for a copy of a payload that was received: in the pool, from which it can be lent on, as far as it has
    /// room. `None` if the system has no memory.
    pub(crate) fn room_for_copy(&self, len: usize) -> Option<PayloadBuffer> {
        let chunk = if self.birth.is_here() { allocate_in(self.pool(), len).ok().flatten() } else { None };
        chunk.map(PayloadBuffer::shared).or_else(|| PayloadBuffer::private(len))
    }

    /// A chunk of a pool. A forked child gets none: it has locks in the state in which threads of its parent have left
    /// them.
    fn allocate(&self, pool: &Pool, len: usize) -> Option<Chunk> {
        if !self.birth.is_here() {
            return None;
        }
        let chunk = allocate_in(pool, len).unwrap_or_else(|error| {
            if core::ptr::eq(pool, &raw const self.named.pool) {
                self.pause_named(&error);
            }
            None
        });
        if chunk.is_none() {
            self.stats.pool_full.fetch_add(1, Ordering::Relaxed);
        }
        chunk
    }

    /// Places nothing in memory with names for a while, and counts that: the system has refused it.
    pub(crate) fn pause_named(&self, error: &io::Error) {
        self.named.pause(error);
        self.note_failure(LendingFailure::System);
    }

    /// Counts a link, or a part of the memory, that cannot be used.
    pub(crate) fn note_failure(&self, failure: LendingFailure) {
        self.stats.failed[failure as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a payload of that size should [wait for room](Self::wait_room) before it is sent.
    #[inline]
    pub(crate) fn is_tight(&self, len: usize) -> bool {
        self.tight.load(Ordering::Relaxed) && len >= self.settings.threshold
    }

    pub(crate) fn set_tight(&self) {
        self.tight.store(true, Ordering::Relaxed);
    }

    /// Waits until borrowers have returned so much that a payload of `len` bytes can be lent, but not longer than it would
    /// take over the link. After a wait in vain, for a borrower that keeps what it has, the next payloads do not wait.
    pub(crate) fn wait_room(&self, len: usize) {
        /// Payloads that do not wait after one that has waited in vain.
        const WEARY: u32 = 16;
        /// Time of a link for a byte: 2 GB/s, the rate of loopback.
        const NANOS_PER_BYTE: f64 = 0.5;
        const LEAST: Duration = Duration::from_micros(200);
        const MOST: Duration = Duration::from_millis(10);
        /// Pauses between looks at what was returned: short at first, when one borrower has to go on, and longer where many
        /// share few processors.
        const LOOK: Duration = Duration::from_micros(50);
        const LONGEST_LOOK: Duration = Duration::from_micros(500);
        let weary = self.weary.load(Ordering::Relaxed);
        if weary > 0 || !self.birth.is_here() {
            self.weary.store(weary.saturating_sub(1), Ordering::Relaxed);
            return;
        }
        #[allow(clippy::cast_precision_loss, reason = "a time needs no more")]
        let limit = Duration::from_secs_f64(len as f64 * NANOS_PER_BYTE / 1e9).clamp(LEAST, MOST);
        let end = clock::mono() + limit;
        let mut look = LOOK;
        loop {
            if !lending_links().iter().any(|link| link.is_tight(self, len)) {
                return self.tight.store(false, Ordering::Relaxed);
            }
            if clock::mono() >= end {
                return self.weary.store(WEARY, Ordering::Relaxed);
            }
            std::thread::sleep(look);
            look = (2 * look).min(LONGEST_LOOK);
        }
    }

    /// Smallest payload that is lent.
    pub(crate) const fn threshold(&self) -> usize {
        self.settings.threshold
    }

    /// Ids of users of the system: their processes share memory with this one, beside those of its own user.
    pub(super) fn users(&self) -> &[u32] {
        &self.settings.users
    }

    /// Most bytes that one link has on loan: a slow receiver leaves half of the pool to the others.
    pub(crate) const fn share(&self) -> usize {
        self.settings.pool_size / 2
    }
}

/// Has [`collect`] look at the returns of a link.
pub(crate) fn add(link: Weak<dyn LoanBook>) {
    let mut links = LENDING.get(Mutex::default).lock();
    links.retain(|known| known.strong_count() > 0);
    links.push(link);
}

/// A link that lends, as [`Lending`] counts them.
pub(crate) struct Partner {
    lending: Arc<Lending>,
    count: fn(&Lending) -> &AtomicUsize,
}

impl Partner {
    /// `count`: which links it counts with.
    pub(crate) fn new(lending: &Arc<Lending>, count: fn(&Lending) -> &AtomicUsize) -> Self {
        count(lending).fetch_add(1, Ordering::Relaxed);
        Self { lending: lending.clone(), count }
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        (self.count)(&self.lending).fetch_sub(1, Ordering::Relaxed);
    }
}

/// What one link has on loan.
#[derive(Default)]
pub(super) struct Loans {
    lender: Lender<u64, WeakMemory, Bytes>,
    /// Bytes on loan.
    bytes: usize,
    /// Bytes lent since the link was last told to write.
    unsent: usize,
    ring: Option<ReturnRing>,
    ring_told: bool,
    /// The borrower takes nothing more.
    over: bool,
}

impl Loans {
    /// Puts those parts of a payload on loan that can be lent, unless one more of `len` bytes exceeds a bound, and calls
    /// `each` with every part. Returns whether there is a loan.
    pub(super) fn lend(
        &mut self,
        parts: &[Bytes],
        len: usize,
        share: usize,
        channel: &Channel,
        mut each: impl FnMut(&Bytes, Option<LoanDescription>),
    ) -> bool {
        self.take_returns();
        if self.over || self.is_full(len, share) {
            return false;
        }
        let mut some = false;
        for part in parts {
            let loan = self.lend_part(part, share, channel);
            some |= loan.is_some();
            each(part, loan);
        }
        some
    }

    fn lend_part(&mut self, part: &Bytes, share: usize, channel: &Channel) -> Option<LoanDescription> {
        if part.is_empty() {
            return None;
        }
        let place = Place::of(part)?;
        let memory = &place.memory;
        // Memory with a name can be truncated.
        if memory.name().is_some() {
            return None;
        }
        if !memory.keepers().is_empty() {
            // A third process has to keep the channels of all before it. What it keeps is on loan to this process as well,
            // and a part is left for the others behind it.
            let is_much = self.lender.loans() >= MAX_LOANS / 2 || self.bytes + part.len() > share / 4 * 3;
            if memory.keepers().len() >= MAX_FDS || is_much && self.bytes > 0 {
                return None;
            }
        }
        let segment = match self.lender.segment(memory.id(), || memory.downgrade()) {
            SegmentState::Mapped(number) => number,
            SegmentState::Unusable | SegmentState::TooMany => return None,
            SegmentState::New(number) => {
                if self.announce(number, memory, channel).is_none() {
                    self.lender.forget(&memory.id());
                }
                return None;
            }
        };
        let loan = self.lender.lend(part.clone())?;
        self.bytes += part.len();
        Some(LoanDescription { loan, segment, offset: place.offset as u64, len: part.len() as u64 })
    }

    /// Passes a segment to the borrower, and before the first one the ring. `None`: the borrower does not read, or the
    /// system has no descriptors; the next payload tries again.
    #[cold]
    fn announce(&mut self, segment: u32, memory: &Memory, channel: &Channel) -> Option<()> {
        if !self.ring_told {
            let ring = match &self.ring {
                Some(ring) => ring,
                None => self.ring.insert(ReturnRing::create(MAX_LOANS).ok()?),
            };
            let message = ChannelMessage::Ring { size: ring.size() as u64 };
            channel.send(&message.encode(), &[ring.fd()]).ok()?;
            self.ring_told = true;
        }
        let message = ChannelMessage::Segment { segment, size: memory.size() as u64 };
        let mut files = vec![memory.fd()];
        files.extend(memory.keepers().iter().map(|channel| channel.as_fd()));
        channel.send(&message.encode(), &files).ok()
    }

    /// Ends the loans that the borrower has returned.
    pub(super) fn take_returns(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        // A borrower that never stops writing must not keep this thread.
        for _ in 0..MAX_LOANS {
            let Some(number) = ring.take() else { break };
            self.bytes -= self.lender.end(number).map_or(0, |held| held.len());
        }
    }

    /// Segments that are given up, of which the borrower is to be told.
    pub(super) fn retire(&mut self) -> Vec<u32> {
        self.lender.retire(WeakMemory::is_gone)
    }

    /// Ends a loan after its description was not sent.
    pub(super) fn take_back(&mut self, loan: u32) {
        self.bytes -= self.lender.end(loan).map_or(0, |held| held.len());
    }

    pub(super) fn handle_mapped(&mut self, segment: u32) {
        self.lender.handle_mapped(segment);
    }

    /// Whether `len` more bytes on loan exceed a bound.
    pub(super) fn is_full(&self, len: usize, share: usize) -> bool {
        !self.over && (self.lender.loans() >= MAX_LOANS || self.bytes > 0 && self.bytes + len > share)
    }

    /// Counts `len` bytes that were lent. Returns whether the link is to write their descriptions now: if it can lend no
    /// more, or has much to write.
    pub(super) fn note_lent(&mut self, len: usize, is_full: bool) -> bool {
        /// Bytes after which a batch of descriptions is sent, although it has room for thousands more: the borrower
        /// reads the first ones while the next ones are written.
        const AT_ONCE: usize = 4 << 20;
        self.unsent += len;
        let urgent = is_full || self.unsent >= AT_ONCE;
        if urgent {
            self.unsent = 0;
        }
        urgent
    }

    /// Whether nothing is on loan.
    pub(super) fn is_empty(&self) -> bool {
        self.lender.loans() == 0
    }

    /// Lends nothing more.
    pub(super) fn stop(&mut self) {
        self.over = true;
    }

    /// Ends all loans: the borrower is gone.
    pub(super) fn end(&mut self) {
        self.over = true;
        self.ring = None;
        self.bytes = 0;
        drop(self.lender.end_all());
    }
}
