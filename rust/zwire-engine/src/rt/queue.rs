//! [`Queue`]: the bounded hand-off between the receive loop and a consumer.
//!
//! The receive loop never runs user code and never waits inside a lock. It pushes, and if a queue has
//! exceeded its bound it waits **afterwards**, at most `deadline`, for the consumer. A consumer that
//! takes nothing within that time is *stalled*: from then on new items are dropped and counted without
//! any waiting, until the consumer takes something again. So a slow consumer applies back-pressure to its
//! sender, and a stopped one costs the other consumers a single deadline. Queues of the other policies
//! never make the producer wait, except `Hold`, and differ in the items that they drop.

mod latest;

use crate::clock;
use core::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};
use latest::Latest;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};
use tokio::sync::Notify;
use zwire_proto::Text;

/// Producer of the items of a queue that are answers: told before a consumer waits for one, so that questions which
/// are still collected leave.
pub trait Asker: Send + Sync {
    /// Sends what is collected.
    fn send_collected(&self);
}

/// Share of a queue's byte bound that an item takes.
pub trait Weigh {
    /// Approximate weight in bytes.
    fn weight(&self) -> usize;

    /// Key of the item: a newer item with the same key may replace it, see [`Overflow::Latest`].
    fn key(&self) -> Option<&str> {
        None
    }

    /// Notes that other items follow: they are taken with it, or wait.
    fn set_followed(&mut self) {}

    /// Copies what another process may take back; false if it was taken back, and the item is dropped.
    fn secure(&mut self) -> bool {
        true
    }
}

/// Policy for an item that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The producer waits up to the deadline, then the newest item is dropped.
    Wait {
        /// Longest wait of a producer for a full queue.
        deadline: Duration,
    },
    /// The producer waits without limit; nothing is dropped.
    Hold,
    /// The newest item is dropped, without waiting.
    DropNewest,
    /// The oldest item is dropped, without waiting.
    DropOldest,
    /// An item replaces a waiting one with the same key; if there is none, the oldest is dropped. Never
    /// waits.
    Latest,
}

impl Overflow {
    const fn waits(self) -> bool {
        matches!(self, Self::Wait { .. } | Self::Hold)
    }

    /// Short name of the policy.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Wait { .. } => "block",
            Self::Hold => "hold",
            Self::DropNewest => "drop_newest",
            Self::DropOldest => "drop_oldest",
            Self::Latest => "latest",
        }
    }

    /// Effect of a full queue, for log texts.
    const fn consequence(self) -> &'static str {
        match self {
            Self::Wait { .. } => "the consumer took nothing within the deadline, new items are dropped",
            Self::Hold => "its producer waits",
            Self::DropNewest => "new items are dropped",
            Self::DropOldest | Self::Latest => "the oldest items are dropped",
        }
    }
}

/// Bounds of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most items; at least 1.
    pub messages: usize,
    /// Most bytes; a single item may be larger.
    pub bytes: usize,
    /// Policy at either bound.
    pub overflow: Overflow,
}

/// Outcome of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The item was stored.
    Stored,
    /// The item was stored, and the queue is now over its bound: the producer should wait for space.
    Over,
    /// The item was dropped, or it displaced the oldest.
    Dropped,
    /// The consumer is gone.
    Closed,
}

/// Counters of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStats {
    /// Items pushed, including those that were dropped.
    pub received: u64,
    /// Items that were dropped at the bound.
    pub dropped: u64,
    /// Items replaced by newer ones of their key.
    pub replaced: u64,
    /// Items waiting for the consumer.
    pub waiting: usize,
    /// Weight of the waiting items.
    pub waiting_bytes: usize,
    /// Bounds of the queue, and its policy.
    pub bounds: Bounds,
    /// Whether the consumer has taken nothing within the deadline, so that new items are dropped at once.
    pub stalled: bool,
}

/// State of a queue after taking from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Items are waiting.
    More,
    /// Empty for now.
    Nothing,
    /// Empty and closed.
    Ended,
}

/// Reason why [`Queue::recv`] returned without an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// No item arrived in time.
    Timeout,
    /// The queue is closed and empty.
    Closed,
    /// The caller's check asked to stop.
    Interrupted,
}

/// Items displaced by a push, for the caller to drop outside of its own locks.
#[derive(Debug)]
pub struct Out<T> {
    // Mostly there is at most one, which needs no allocation.
    first: Option<T>,
    rest: Vec<T>,
}

impl<T> Out<T> {
    const NONE: Self = Self { first: None, rest: Vec::new() };

    fn add(&mut self, item: T) {
        match self.first {
            None => self.first = Some(item),
            Some(_) => self.rest.push(item),
        }
    }
}

impl<T> IntoIterator for Out<T> {
    type Item = T;
    type IntoIter = core::iter::Chain<core::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

struct QueueInner<T> {
    items: VecDeque<T>,
    /// Empty list that replaces `items` when all of them are taken.
    spare: VecDeque<T>,
    bytes: usize,
    /// Items pushed.
    received: u64,
    /// Positions of the items by key, for [`Overflow::Latest`].
    latest: Option<Box<Latest>>,
    closed: bool,
    stalled: bool,
    /// Items pushed since the consumer was last notified.
    unsignalled: bool,
    waker: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl<T: Weigh> QueueInner<T> {
    fn take_first(&mut self) -> Option<T> {
        let mut item = self.items.pop_front()?;
        self.bytes -= item.weight();
        if let Some(latest) = &mut self.latest {
            latest.taken(&item);
        }
        if !self.items.is_empty() {
            item.set_followed();
        }
        Some(item)
    }

    #[inline]
    fn add(&mut self, item: T) {
        self.bytes += item.weight();
        if let Some(latest) = &mut self.latest {
            latest.added(&item, self.items.len());
        }
        self.items.push_back(item);
        self.unsignalled = true;
    }
}

/// A bounded queue between threads, and between tasks and threads.
pub struct Queue<T> {
    inner: Mutex<QueueInner<T>>,
    bounds: Bounds,
    readable: Condvar,
    space: Condvar,
    space_async: Notify,
    dropped: AtomicU64,
    replaced: AtomicU64,
    /// Name of the queue in log texts.
    name: Option<Text>,
    asker: Option<Weak<dyn Asker>>,
    /// Whether the warning about a full queue was logged.
    warned: AtomicBool,
    /// Producers waiting for space.
    waiting: AtomicUsize,
}

/// Guard that counts a waiting thread or task.
pub(super) struct WaiterCount<'a>(&'a AtomicUsize);

impl<'a> WaiterCount<'a> {
    pub(super) fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for WaiterCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Largest list that an idle queue keeps: small samples that arrive while a batch is made of others.
const SPARE_BYTES: usize = 2 << 20;

/// Interval at which a blocked thread asks its caller whether to go on, and so the delay of Ctrl-C.
pub const INTERRUPT_PERIOD: Duration = Duration::from_millis(50);

impl<T: Weigh> Queue<T> {
    /// Makes an empty queue.
    #[must_use]
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Self::make(bounds, None, None)
    }

    /// As [`Self::new`], for answers. A thread that waits for one, or sets a waker, tells the asker before.
    #[must_use]
    pub fn of_answers(bounds: Bounds, asker: Weak<dyn Asker>) -> Arc<Self> {
        Self::make(bounds, None, Some(asker))
    }

    /// As [`Self::new`]; the name appears in the warning that is logged when it is full for the first
    /// time.
    #[must_use]
    pub fn named(bounds: Bounds, name: Text) -> Arc<Self> {
        Self::make(bounds, Some(name), None)
    }

    fn make(bounds: Bounds, name: Option<Text>, asker: Option<Weak<dyn Asker>>) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(QueueInner {
                items: VecDeque::new(),
                spare: VecDeque::new(),
                bytes: 0,
                received: 0,
                latest: (bounds.overflow == Overflow::Latest).then(Box::default),
                closed: false,
                stalled: false,
                unsignalled: false,
                waker: None,
            }),
            bounds: Bounds { messages: bounds.messages.max(1), ..bounds },
            readable: Condvar::new(),
            space: Condvar::new(),
            space_async: Notify::new(),
            dropped: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
            name,
            asker,
            warned: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
        })
    }

    fn over(&self, inner: &QueueInner<T>) -> bool {
        inner.items.len() > self.bounds.messages || (inner.bytes > self.bounds.bytes && inner.items.len() > 1)
    }

    fn full(&self, inner: &QueueInner<T>) -> bool {
        inner.items.len() >= self.bounds.messages || inner.bytes >= self.bounds.bytes
    }

    /// Producers go on when a quarter is free, or all: waking them for each item would cost more than passing it.
    fn roomy(&self, inner: &QueueInner<T>) -> bool {
        let Bounds { messages, bytes, .. } = self.bounds;
        inner.items.is_empty()
            || (inner.items.len() <= messages - messages / 4 && inner.bytes <= bytes - bytes / 4)
    }

    fn count_drops(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// Logs once that the queue is full, and the effect.
    fn warn(&self) {
        if self.warned.swap(true, Ordering::Relaxed) {
            return;
        }
        let name = self.name.as_ref().map_or("a handler", Text::as_str);
        let Bounds { messages, bytes, overflow } = self.bounds;
        tracing::warn!(
            messages,
            bytes,
            "the queue of {name} is full: {}, and counted; logged once per queue",
            overflow.consequence()
        );
    }

    /// Pushes an item. Never waits, and does not notify the consumer: [`Self::signal`] follows once all
    /// items that belong together are in, so that the consumer wakes once for all of them.
    pub fn push(&self, item: T) -> (Pushed, Out<T>) {
        let mut out = Out::NONE;
        let pushed = self.push_or(item, |item| out.add(item));
        (pushed, out)
    }

    /// As [`Self::push`]; displaced items go to `out`, after the lock.
    #[inline]
    pub fn push_or(&self, item: T, mut out: impl FnMut(T)) -> Pushed {
        if !self.bounds.overflow.waits() {
            return self.push_without_waits(item, &mut out);
        }
        let mut inner = self.inner.lock();
        let waits = matches!(self.bounds.overflow, Overflow::Wait { .. });
        if inner.closed || (waits && inner.stalled && self.full(&inner)) {
            let pushed = self.refuse(inner);
            out(item);
            return pushed;
        }
        inner.received += 1;
        inner.add(item);
        if self.over(&inner) { Pushed::Over } else { Pushed::Stored }
    }

    /// Handles an item that does not fit.
    #[cold]
    fn refuse(&self, mut inner: MutexGuard<'_, QueueInner<T>>) -> Pushed {
        if inner.closed {
            return Pushed::Closed;
        }
        inner.received += 1;
        drop(inner);
        self.count_drops(1);
        if self.name.is_some() {
            self.warn();
        }
        Pushed::Dropped
    }

    /// Part of [`Self::push_or`] for queues that never make the producer wait.
    fn push_without_waits(&self, item: T, out: &mut impl FnMut(T)) -> Pushed {
        let mut inner = self.inner.lock();
        if inner.closed || (self.bounds.overflow == Overflow::DropNewest && self.full(&inner)) {
            let pushed = self.refuse(inner);
            out(item);
            return pushed;
        }
        inner.received += 1;
        let inner_mut = &mut *inner;
        let mut item = item;
        if let Some(latest) = &inner_mut.latest
            && let Some(place) = latest.place_of(&item).and_then(|at| inner_mut.items.get_mut(at))
        {
            inner_mut.bytes = inner_mut.bytes + item.weight() - place.weight();
            core::mem::swap(place, &mut item);
            inner_mut.unsignalled = true;
            self.replaced.fetch_add(1, Ordering::Relaxed);
            drop(inner);
            out(item);
            return Pushed::Stored;
        }
        let mut old = Out::NONE;
        let mut count = 0;
        while self.full(&inner)
            && let Some(first) = inner.take_first()
        {
            old.add(first);
            count += 1;
        }
        inner.add(item);
        drop(inner);
        if count == 0 {
            return Pushed::Stored;
        }
        self.count_drops(count);
        if self.name.is_some() {
            self.warn();
        }
        old.into_iter().for_each(out);
        Pushed::Dropped
    }

    /// Whether [`Self::push_many`] may be used: whether producers wait for a full queue.
    #[inline]
    pub(crate) const fn takes_many(&self) -> bool {
        self.bounds.overflow.waits()
    }

    /// As [`Self::push_or`] for each of `items`, under one lock; the list is empty afterwards.
    pub(crate) fn push_many(&self, items: &mut VecDeque<T>, mut out: impl FnMut(T)) -> Pushed {
        debug_assert!(self.takes_many());
        let mut inner = self.inner.lock();
        if inner.closed {
            drop(inner);
            items.drain(..).for_each(out);
            return Pushed::Closed;
        }
        let waits = matches!(self.bounds.overflow, Overflow::Wait { .. });
        if waits && inner.stalled {
            drop(inner);
            let pushed = items.drain(..).map(|item| self.push_or(item, &mut out));
            return pushed.last().unwrap_or(Pushed::Stored);
        }
        inner.received += items.len() as u64;
        inner.bytes += items.iter().map(Weigh::weight).sum::<usize>();
        inner.unsignalled |= !items.is_empty();
        inner.items.append(items);
        if self.over(&inner) { Pushed::Over } else { Pushed::Stored }
    }

    /// Pushes all items of an iterator under one lock, to a queue that [holds](Overflow::Hold) its
    /// producer; they may exceed its bound. [`Self::signal`] follows.
    pub fn push_all(&self, items: impl Iterator<Item = T>) -> Pushed {
        debug_assert_eq!(self.bounds.overflow, Overflow::Hold);
        let mut inner = self.inner.lock();
        if inner.closed {
            return Pushed::Closed;
        }
        let inner_mut = &mut *inner;
        items.for_each(|item| {
            inner_mut.received += 1;
            inner_mut.add(item);
        });
        if self.over(&inner) { Pushed::Over } else { Pushed::Stored }
    }

    /// Notifies the consumer of the pushed items.
    pub fn signal(&self) {
        let mut inner = self.inner.lock();
        if !core::mem::take(&mut inner.unsignalled) {
            return;
        }
        let waker = inner.waker.clone();
        drop(inner);
        self.readable.notify_one();
        if let Some(waker) = waker {
            waker();
        }
    }

    /// Waits until the queue is within its bounds. When the deadline expires, if there is one, it counts
    /// as stalled.
    pub async fn wait_space(&self) {
        let end = match self.bounds.overflow {
            Overflow::Wait { deadline } => Some(clock::instant(clock::mono() + deadline)),
            Overflow::Hold => None,
            Overflow::DropNewest | Overflow::DropOldest | Overflow::Latest => return,
        };
        let _waiting = WaiterCount::new(&self.waiting);
        loop {
            let notified = self.space_async.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.has_space() {
                return;
            }
            match end {
                None => notified.await,
                Some(end) => {
                    if tokio::time::timeout_at(end, notified).await.is_err() {
                        self.stall();
                        return;
                    }
                }
            }
        }
    }

    /// As [`Self::wait_space`], for a thread of the application.
    pub fn wait_space_blocking(&self) {
        let Overflow::Wait { deadline } = self.bounds.overflow else { return };
        let _waiting = WaiterCount::new(&self.waiting);
        let mut inner = self.inner.lock();
        let blocked = |inner: &mut QueueInner<T>| !self.accepts(inner);
        if self.space.wait_while_for(&mut inner, blocked, deadline).timed_out() {
            drop(inner);
            self.stall();
        }
    }

    /// Whether a producer may go on; if not, it should wait for space.
    pub fn has_space(&self) -> bool {
        self.accepts(&self.inner.lock())
    }

    fn accepts(&self, inner: &QueueInner<T>) -> bool {
        inner.closed || inner.stalled || self.roomy(inner)
    }

    fn stall(&self) {
        let mut inner = self.inner.lock();
        if !(inner.closed || self.roomy(&inner)) {
            inner.stalled = true;
            drop(inner);
            self.warn();
        }
    }

    /// Handles the removal of items: ends a stall, and wakes waiting producers.
    fn taken(&self, mut inner: MutexGuard<'_, QueueInner<T>>) {
        inner.stalled = false;
        let wake = self.waiting.load(Ordering::Acquire) > 0 && self.roomy(&inner);
        drop(inner);
        if wake {
            self.wake_producers();
        }
    }

    fn wake_producers(&self) {
        self.space.notify_all();
        self.space_async.notify_waiters();
    }

    /// The next item, if there is one.
    pub fn try_recv(&self) -> Result<Option<T>, RecvError> {
        let mut inner = self.inner.lock();
        match inner.take_first() {
            Some(item) => {
                self.taken(inner);
                Ok(Some(item))
            }
            None if inner.closed => Err(RecvError::Closed),
            None => Ok(None),
        }
    }

    /// The next item; waits until `timeout` or until `interrupted` returns true.
    ///
    /// # Errors
    /// Reason why there is none.
    pub fn recv(
        &self,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<T, RecvError> {
        self.wait_readable(timeout, interrupted)?;
        match self.try_recv()? {
            Some(item) => Ok(item),
            // Another consumer took it first.
            None => self.recv(timeout, interrupted),
        }
    }

    /// Whether the items answer questions, see [`Self::of_answers`].
    pub const fn is_of_answers(&self) -> bool {
        self.asker.is_some()
    }

    /// Has the producer of answers send the questions that it collects, unless an answer is here.
    pub fn before_waiting(&self) {
        if let Some(asker) = self.asker.as_ref().and_then(Weak::upgrade)
            && self.is_empty()
        {
            asker.send_collected();
        }
    }

    /// Waits until there is an item to take.
    ///
    /// # Errors
    /// Reason why there is none.
    pub fn wait_readable(
        &self,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), RecvError> {
        let end = timeout.and_then(|t| clock::mono().checked_add(t));
        self.before_waiting();
        let mut inner = self.inner.lock();
        loop {
            if !inner.items.is_empty() {
                return Ok(());
            }
            if inner.closed {
                return Err(RecvError::Closed);
            }
            let now = clock::mono();
            if end.is_some_and(|end| now >= end) {
                return Err(RecvError::Timeout);
            }
            let slice = end.map_or(INTERRUPT_PERIOD, |end| (end - now).min(INTERRUPT_PERIOD));
            if self.readable.wait_for(&mut inner, slice).timed_out() && inner.items.is_empty() {
                drop(inner);
                if interrupted() {
                    return Err(RecvError::Interrupted);
                }
                inner = self.inner.lock();
            }
        }
    }

    /// Moves up to `max` items to `out` in one go; returns their number.
    pub fn drain_into(&self, out: &mut impl Extend<T>, max: usize) -> usize {
        let mut inner = self.inner.lock();
        let count = inner.items.len().min(max);
        if count == 0 {
            return 0;
        }
        let inner_mut = &mut *inner;
        out.extend((0..count).map_while(|_| inner_mut.take_first()));
        self.taken(inner);
        count
    }

    /// Takes up to `max` items of up to `max_bytes`, but at least one if there is one; an item of `alone`
    /// bytes or more at the head is taken alone. Items whose payload another process has taken back are dropped; nothing
    /// takes back those of the others. [`Self::give_back`] afterwards saves an allocation.
    pub fn take_many(&self, max: usize, max_bytes: usize, alone: usize) -> VecDeque<T> {
        let mut taken = self.take_singles(max, max_bytes, alone);
        taken.retain_mut(Weigh::secure);
        taken
    }

    /// As [`Self::take_many`], for items that are handed on one by one: their receiver asks whether the payload of each is
    /// valid. If all of them fit, the list itself is taken without moving items.
    pub fn take_singles(&self, max: usize, max_bytes: usize, alone: usize) -> VecDeque<T> {
        let mut inner = self.inner.lock();
        let inner_mut = &mut *inner;
        let large = inner_mut.items.front().is_some_and(|first| first.weight() >= alone);
        let max = if large { max.min(1) } else { max };
        let mut taken = if inner_mut.items.len() <= max && inner_mut.bytes <= max_bytes {
            inner_mut.bytes = 0;
            if let Some(latest) = &mut inner_mut.latest {
                latest.all_taken(inner_mut.items.len());
            }
            let spare = core::mem::take(&mut inner_mut.spare);
            core::mem::replace(&mut inner_mut.items, spare)
        } else {
            let mut weight = 0;
            let mut count = 0;
            for item in inner_mut.items.iter().take(max) {
                if count > 0 && weight + item.weight() > max_bytes {
                    break;
                }
                (count, weight) = (count + 1, weight + item.weight());
            }
            inner_mut.bytes -= weight;
            if let Some(latest) = &mut inner_mut.latest {
                inner_mut.items.iter().take(count).for_each(|item| latest.taken(item));
            }
            // Moves each item once.
            let mut taken = core::mem::take(&mut inner_mut.spare);
            taken.extend(inner_mut.items.drain(..count));
            taken
        };
        if taken.is_empty() {
            return taken;
        }
        let followed = taken.len() - usize::from(inner.items.is_empty());
        taken.iter_mut().take(followed).for_each(Weigh::set_followed);
        self.taken(inner);
        taken
    }

    /// Drops the remains of [`Self::take_many`] and keeps the list for reuse, unless it is large.
    pub fn give_back(&self, mut list: VecDeque<T>) {
        list.clear();
        if list.capacity() * size_of::<T>() <= SPARE_BYTES {
            self.inner.lock().spare = list;
        }
    }

    /// Closes the queue: nothing more is pushed; items inside can still be taken.
    pub fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        let waker = inner.waker.take();
        drop(inner);
        self.readable.notify_all();
        self.wake_producers();
        if let Some(waker) = waker {
            waker();
        }
    }

    /// Sets a function that is called after each push and when the queue closes. It must be quick: it
    /// runs in the receive loop.
    pub fn set_waker(&self, waker: Option<Arc<dyn Fn() + Send + Sync>>) {
        let call = {
            let mut inner = self.inner.lock();
            inner.waker = waker;
            if inner.items.is_empty() && !inner.closed { None } else { inner.waker.clone() }
        };
        match call {
            Some(waker) => waker(),
            None => self.before_waiting(),
        }
    }

    /// Whether there is more to take, now or later.
    #[must_use]
    pub fn rest(&self) -> Rest {
        let inner = self.inner.lock();
        match (inner.items.is_empty(), inner.closed) {
            (false, _) => Rest::More,
            (true, false) => Rest::Nothing,
            (true, true) => Rest::Ended,
        }
    }

    /// Whether [`Self::close`] was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.lock().closed
    }

    /// Number of waiting items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.lock().items.len()
    }

    /// Whether no item is waiting.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counters of the queue.
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        let inner = self.inner.lock();
        QueueStats {
            received: inner.received,
            dropped: self.dropped(),
            replaced: self.replaced(),
            waiting: inner.items.len(),
            waiting_bytes: inner.bytes,
            bounds: self.bounds,
            stalled: inner.stalled,
        }
    }

    /// Number of items dropped at the bound.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Number of items replaced by newer ones of their key.
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
