//! [`Queue`]: the bounded hand-off between the receive loop and a consumer.
//!
//! The receive loop never runs user code and never waits inside a lock. It pushes, and where a queue
//! has gone over its bound it waits **afterwards**, at most `deadline`, for the consumer. A consumer
//! that does not move within that time is *stalled*: from then on what comes is dropped and counted
//! without any waiting, until the consumer takes something again. So a slow consumer slows its
//! sender down, and a stopped one costs the others one deadline and nothing more. Queues of the other
//! policies make nobody wait, and differ in what they give up.

mod latest;

use crate::clock;
use core::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};
use latest::Latest;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::Notify;
use zwire_proto::Text;

/// What an item takes of a queue's byte bound.
pub trait Weigh {
    /// In bytes, roughly.
    fn weight(&self) -> usize;

    /// What it is about: a newer item with the same key may take its place, see [`Overflow::Latest`].
    fn key(&self) -> Option<&str> {
        None
    }
}

/// What happens to an item that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The producer waits up to the deadline, then the newest is dropped.
    Wait {
        /// How long a producer waits for a full queue.
        deadline: Duration,
    },
    /// The producer waits for as long as it takes; nothing is dropped.
    Hold,
    /// The newest is dropped; nobody waits.
    DropNewest,
    /// The oldest is dropped; nobody waits.
    DropOldest,
    /// An item takes the place of the one with the same key, if that still waits; else the oldest is
    /// dropped. Nobody waits.
    Latest,
}

impl Overflow {
    const fn waits(self) -> bool {
        matches!(self, Self::Wait { .. } | Self::Hold)
    }

    /// What a full queue does, in a word.
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

    /// What a queue that is full does, for people.
    const fn consequence(self) -> &'static str {
        match self {
            Self::Wait { .. } => "nobody took anything within the deadline, what comes is dropped",
            Self::Hold => "its producer waits",
            Self::DropNewest => "what comes is dropped",
            Self::DropOldest | Self::Latest => "the oldest are dropped",
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
    /// What happens at either bound.
    pub overflow: Overflow,
}

/// What became of a pushed item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is in.
    Stored,
    /// It is in, and the queue is now over its bound: the producer should wait for space.
    Over,
    /// It was dropped, or it pushed the oldest out.
    Dropped,
    /// The consumer is gone.
    Closed,
}

/// What has come to a queue, and what waits in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStats {
    /// Items that came, those among them that found no place.
    pub received: u64,
    /// Items that were dropped at the bound.
    pub dropped: u64,
    /// Items that gave their place to newer ones of their key.
    pub replaced: u64,
    /// Items that wait for the consumer.
    pub waiting: usize,
    /// Their weight.
    pub waiting_bytes: usize,
    /// Most that may wait, and what happens then.
    pub bounds: Bounds,
    /// Whether nobody has taken anything within the deadline, and what comes is dropped at once.
    pub stalled: bool,
}

/// What is left in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Something.
    More,
    /// Nothing right now.
    Nothing,
    /// Nothing, for ever.
    Ended,
}

/// Why [`Queue::recv`] came back without an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// Nothing came in time.
    Timeout,
    /// The queue is closed and empty.
    Closed,
    /// The caller's check asked to stop.
    Interrupted,
}

/// What fell out of a queue by a push, for the caller to drop outside of its own locks.
#[derive(Debug)]
pub struct Out<T> {
    // Mostly there is at most one, and no list of them is made.
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

struct Inner<T> {
    items: VecDeque<T>,
    /// Empty; takes the place of `items` when all of them are taken.
    spare: VecDeque<T>,
    bytes: usize,
    /// Items that came.
    received: u64,
    /// Where the items of each key are, if that matters.
    latest: Option<Box<Latest>>,
    closed: bool,
    stalled: bool,
    /// Pushed since the consumer was told.
    unsignalled: bool,
    waker: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl<T: Weigh> Inner<T> {
    fn take_first(&mut self) -> Option<T> {
        let item = self.items.pop_front()?;
        self.bytes -= item.weight();
        if let Some(latest) = &mut self.latest {
            latest.taken(&item);
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
    inner: Mutex<Inner<T>>,
    bounds: Bounds,
    readable: Condvar,
    space: Condvar,
    space_async: Notify,
    dropped: AtomicU64,
    replaced: AtomicU64,
    /// Whose queue it is, for people.
    name: Option<Text>,
    /// A full queue is a matter of one warning.
    warned: AtomicBool,
    /// Producers that wait for space.
    waiting: AtomicUsize,
}

/// Counts a producer that waits, as long as it does.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Largest list that an idle queue keeps: as many small samples as arrive while a batch is made of those
/// before them.
const SPARE_BYTES: usize = 2 << 20;

/// How often a blocked thread asks its caller whether to go on; Ctrl-C is noticed within it.
pub const INTERRUPT_PERIOD: Duration = Duration::from_millis(50);

impl<T: Weigh> Queue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Self::make(bounds, None)
    }

    /// As [`Self::new`]; one warning names it when it is full for the first time.
    #[must_use]
    pub fn named(bounds: Bounds, name: Text) -> Arc<Self> {
        Self::make(bounds, Some(name))
    }

    fn make(bounds: Bounds, name: Option<Text>) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
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
            warned: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
        })
    }

    fn over(&self, inner: &Inner<T>) -> bool {
        inner.items.len() > self.bounds.messages || (inner.bytes > self.bounds.bytes && inner.items.len() > 1)
    }

    fn full(&self, inner: &Inner<T>) -> bool {
        inner.items.len() >= self.bounds.messages || inner.bytes >= self.bounds.bytes
    }

    /// Producers that wait go on when a quarter is free, or the queue is empty: waking them for each
    /// item would cost more than handing it over.
    fn roomy(&self, inner: &Inner<T>) -> bool {
        let Bounds { messages, bytes, .. } = self.bounds;
        inner.items.is_empty()
            || (inner.items.len() <= messages - messages / 4 && inner.bytes <= bytes - bytes / 4)
    }

    fn count_drops(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// Says once that it is full, and what that means.
    fn warn(&self) {
        if self.warned.swap(true, Ordering::Relaxed) {
            return;
        }
        let name = self.name.as_ref().map_or("a handler", Text::as_str);
        let Bounds { messages, bytes, overflow } = self.bounds;
        tracing::warn!(
            messages,
            bytes,
            "the queue of {name} is full: {}, and counted; this is said once",
            overflow.consequence()
        );
    }

    /// Hands an item over. Never waits, and tells the consumer nothing: [`Self::signal`] follows once
    /// everything that belongs together is in, so that the consumer wakes once for all of it.
    pub fn push(&self, item: T) -> (Pushed, Out<T>) {
        let mut out = Out::NONE;
        let pushed = self.push_or(item, |item| out.add(item));
        (pushed, out)
    }

    /// As [`Self::push`]; what falls out goes to `out`, after the lock.
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

    /// An item finds no place.
    #[cold]
    fn refuse(&self, mut inner: MutexGuard<'_, Inner<T>>) -> Pushed {
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

    /// What [`Self::push_or`] does where nobody waits for a full queue.
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

    /// Whether [`Self::push_many`] may be used: whether producers wait where it is full.
    #[inline]
    pub(crate) const fn takes_many(&self) -> bool {
        self.bounds.overflow.waits()
    }

    /// As [`Self::push_or`] for each of `items`, with one lock; afterwards there is none left in the list.
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

    /// Hands over all that `items` gives, with one lock, to a queue that [holds](Overflow::Hold) its
    /// producer: it may get over its bound by them. [`Self::signal`] follows.
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

    /// Tells the consumer what was pushed.
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

    /// Waits until the queue is within its bounds. After the deadline, if it has one, it counts as stalled.
    pub async fn wait_space(&self) {
        let end = match self.bounds.overflow {
            Overflow::Wait { deadline } => Some(clock::instant(clock::mono() + deadline)),
            Overflow::Hold => None,
            Overflow::DropNewest | Overflow::DropOldest | Overflow::Latest => return,
        };
        let _waiting = Waiting::new(&self.waiting);
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
        let end = clock::deadline(clock::mono() + deadline);
        let _waiting = Waiting::new(&self.waiting);
        let mut inner = self.inner.lock();
        while !(inner.closed || inner.stalled || self.roomy(&inner)) {
            if self.space.wait_until(&mut inner, end).timed_out() {
                drop(inner);
                self.stall();
                return;
            }
        }
    }

    /// Whether a producer may go on: otherwise it should wait for space.
    pub fn has_space(&self) -> bool {
        let inner = self.inner.lock();
        inner.closed || inner.stalled || self.roomy(&inner)
    }

    fn stall(&self) {
        let mut inner = self.inner.lock();
        if !(inner.closed || self.roomy(&inner)) {
            inner.stalled = true;
            drop(inner);
            self.warn();
        }
    }

    /// Something was taken out: lets the queue go, and wakes who waited for room.
    fn taken(&self, mut inner: MutexGuard<'_, Inner<T>>) {
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

    /// The next item, waited for until `timeout` or until `interrupted` says so.
    ///
    /// # Errors
    /// Why none came.
    pub fn recv(
        &self,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<T, RecvError> {
        self.wait_readable(timeout, interrupted)?;
        match self.try_recv()? {
            Some(item) => Ok(item),
            // Another consumer was faster.
            None => self.recv(timeout, interrupted),
        }
    }

    /// Waits until there is something to take.
    ///
    /// # Errors
    /// Why there is nothing.
    pub fn wait_readable(
        &self,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), RecvError> {
        let end = timeout.and_then(|t| clock::mono().checked_add(t));
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

    /// Moves up to `max` items to `out` in one go; how many came.
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

    /// Up to `max` items and `max_bytes` of them, but one if there is one; an item of `alone` bytes or
    /// more at the head comes alone. All of them at once are not moved, only their list is. When they are
    /// done with, [`Self::give_back`] saves making the next list.
    pub fn take_many(&self, max: usize, max_bytes: usize, alone: usize) -> VecDeque<T> {
        let mut inner = self.inner.lock();
        let inner_mut = &mut *inner;
        let large = inner_mut.items.front().is_some_and(|first| first.weight() >= alone);
        let max = if large { max.min(1) } else { max };
        let taken = if inner_mut.items.len() <= max && inner_mut.bytes <= max_bytes {
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
            // Each is moved once.
            let mut taken = core::mem::take(&mut inner_mut.spare);
            taken.extend(inner_mut.items.drain(..count));
            taken
        };
        if taken.is_empty() {
            return taken;
        }
        self.taken(inner);
        taken
    }

    /// Drops what is left of [`Self::take_many`] and keeps the list, unless it is large.
    pub fn give_back(&self, mut list: VecDeque<T>) {
        list.clear();
        if list.capacity() * size_of::<T>() <= SPARE_BYTES {
            self.inner.lock().spare = list;
        }
    }

    /// Nothing more will be pushed; what is inside can still be taken.
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

    /// Calls `waker` whenever something was pushed, and at its end. It must be
    /// quick: it runs in the receive loop.
    pub fn set_waker(&self, waker: Option<Arc<dyn Fn() + Send + Sync>>) {
        let call = {
            let mut inner = self.inner.lock();
            inner.waker = waker;
            if inner.items.is_empty() && !inner.closed { None } else { inner.waker.clone() }
        };
        if let Some(waker) = call {
            waker();
        }
    }

    /// Whether there is more to take, or will be.
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

    /// How many items wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.lock().items.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What has come, and what waits.
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

    /// How many items were dropped at the bound.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// How many items gave their place to newer ones of their key.
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
