//! [`Queue`]: the bounded hand-off between the receive loop and a consumer.
//!
//! The receive loop never runs user code and never waits inside a lock. It pushes, and where a queue
//! has gone over its bound it waits **afterwards**, at most `deadline`, for the consumer. A consumer
//! that does not move within that time is *stalled*: from then on what comes is dropped and counted
//! without any waiting, until the consumer takes something again. So a slow consumer slows its
//! sender down, and a stopped one costs the others one deadline and nothing more.

use core::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{collections::VecDeque, sync::Arc, time::Instant};
use tokio::sync::Notify;

/// What an item takes of a queue's byte bound.
pub trait Weigh {
    /// In bytes, roughly.
    fn weight(&self) -> usize;
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
    /// The oldest is dropped; nobody waits.
    DropOldest,
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

struct Inner<T> {
    items: VecDeque<T>,
    /// Empty; takes the place of `items` when all of them are taken.
    spare: VecDeque<T>,
    bytes: usize,
    closed: bool,
    stalled: bool,
    /// Pushed since the consumer was told.
    unsignalled: bool,
    waker: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// A bounded queue between threads, and between tasks and threads.
pub struct Queue<T> {
    inner: Mutex<Inner<T>>,
    bounds: Bounds,
    readable: Condvar,
    space: Condvar,
    space_async: Notify,
    dropped: AtomicU64,
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
        Arc::new(Self {
            inner: Mutex::new(Inner {
                items: VecDeque::new(),
                spare: VecDeque::new(),
                bytes: 0,
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

    fn count_drop(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Hands an item over. Never waits, and tells the consumer nothing: [`Self::signal`] follows once
    /// everything that belongs together is in, so that the consumer wakes once for all of it.
    ///
    /// Whatever falls out of the queue is returned, so that the caller can drop it outside of its
    /// own locks.
    pub fn push(&self, item: T) -> (Pushed, Option<T>) {
        let weight = item.weight();
        let mut inner = self.inner.lock();
        if inner.closed {
            return (Pushed::Closed, Some(item));
        }
        let mut out = (Pushed::Stored, None);
        match self.bounds.overflow {
            Overflow::Wait { .. } => {
                if inner.stalled && self.full(&inner) {
                    drop(inner);
                    self.count_drop();
                    return (Pushed::Dropped, Some(item));
                }
            }
            Overflow::Hold => {}
            Overflow::DropOldest => {
                if self.full(&inner)
                    && let Some(old) = inner.items.pop_front()
                {
                    inner.bytes -= old.weight();
                    self.count_drop();
                    out = (Pushed::Dropped, Some(old));
                }
            }
        }
        inner.items.push_back(item);
        inner.bytes += weight;
        if self.bounds.overflow != Overflow::DropOldest && self.over(&inner) {
            out.0 = Pushed::Over;
        }
        inner.unsignalled = true;
        out
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
        for item in items {
            inner_mut.bytes += item.weight();
            inner_mut.items.push_back(item);
            inner_mut.unsignalled = true;
        }
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
            Overflow::Wait { deadline } => Some(tokio::time::Instant::now() + deadline),
            Overflow::Hold => None,
            Overflow::DropOldest => return,
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
        let end = Instant::now() + deadline;
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
            tracing::warn!("a consumer has stopped: its queue is full and further messages are dropped");
        }
    }

    /// So much was taken out: lets the queue go, and wakes who waited for room.
    fn taken(&self, mut inner: MutexGuard<'_, Inner<T>>, weight: usize) {
        inner.bytes -= weight;
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
        match inner.items.pop_front() {
            Some(item) => {
                self.taken(inner, item.weight());
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
        let end = timeout.and_then(|t| Instant::now().checked_add(t));
        let mut inner = self.inner.lock();
        loop {
            if !inner.items.is_empty() {
                return Ok(());
            }
            if inner.closed {
                return Err(RecvError::Closed);
            }
            let now = Instant::now();
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
    pub fn drain_into(&self, out: &mut Vec<T>, max: usize) -> usize {
        let mut inner = self.inner.lock();
        let n = inner.items.len().min(max);
        if n == 0 {
            return 0;
        }
        out.reserve(n);
        let mut weight = 0;
        for item in inner.items.drain(..n) {
            weight += item.weight();
            out.push(item);
        }
        self.taken(inner, weight);
        n
    }

    /// Up to `max` items and `max_bytes` of them, but one if there is one; an item of `alone` bytes or
    /// more at the head comes alone. All of them at once are not moved, only their list is. When they are
    /// done with, [`Self::give_back`] saves making the next list.
    pub fn take_many(&self, max: usize, max_bytes: usize, alone: usize) -> VecDeque<T> {
        let mut inner = self.inner.lock();
        let inner_mut = &mut *inner;
        let large = inner_mut.items.front().is_some_and(|first| first.weight() >= alone);
        let max = if large { max.min(1) } else { max };
        let (taken, weight) = if inner_mut.items.len() <= max && inner_mut.bytes <= max_bytes {
            let spare = core::mem::take(&mut inner_mut.spare);
            (core::mem::replace(&mut inner_mut.items, spare), inner_mut.bytes)
        } else {
            let mut weight = 0;
            let mut count = 0;
            for item in inner_mut.items.iter().take(max) {
                if count > 0 && weight + item.weight() > max_bytes {
                    break;
                }
                (count, weight) = (count + 1, weight + item.weight());
            }
            (inner_mut.items.drain(..count).collect(), weight)
        };
        if taken.is_empty() {
            return taken;
        }
        self.taken(inner, weight);
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

    /// How many items were dropped at the bound.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for u32 {
        fn weight(&self) -> usize {
            8
        }
    }

    fn waiting(messages: usize, deadline_ms: u64) -> Arc<Queue<u32>> {
        let overflow = Overflow::Wait { deadline: Duration::from_millis(deadline_ms) };
        Queue::new(Bounds { messages, bytes: 1 << 20, overflow })
    }

    #[tokio::test]
    async fn a_queue_that_holds_drops_nothing() {
        let queue = Queue::new(Bounds { messages: 4, bytes: 1 << 20, overflow: Overflow::Hold });
        assert_eq!(queue.push_all(0..4), Pushed::Stored);
        assert_eq!(queue.push_all(4..9), Pushed::Over);
        assert_eq!(queue.push(9).0, Pushed::Over);
        let waits = tokio::time::timeout(Duration::from_millis(50), queue.wait_space()).await;
        assert!(waits.is_err(), "for as long as it takes");
        let mut out = Vec::new();
        queue.drain_into(&mut out, 100);
        assert_eq!(out, (0..10).collect::<Vec<u32>>());
        queue.wait_space().await;
        assert_eq!(queue.dropped(), 0);
        queue.close();
        assert_eq!(queue.push_all(0..1), Pushed::Closed);
    }

    #[test]
    fn taking_all_leaves_an_empty_queue_that_goes_on() {
        let q = waiting(4, 1_000);
        for round in 0..3 {
            for item in 0..4 {
                q.push(item);
            }
            let taken = q.take_many(10, 1 << 20, 100);
            assert_eq!(taken.iter().copied().collect::<Vec<_>>(), [0, 1, 2, 3], "round {round}");
            assert_eq!((q.len(), q.inner.lock().bytes), (0, 0));
            q.give_back(taken);
        }
        assert!(q.take_many(10, 1 << 20, 100).is_empty());
    }

    #[test]
    fn taking_some_leaves_the_others() {
        let q = waiting(4, 1_000);
        for item in 0..4 {
            q.push(item);
        }
        assert_eq!(q.take_many(2, 1 << 20, 100), [0, 1]);
        assert_eq!(q.len(), 2);
        assert_eq!(q.take_many(3, 15, 100), [2], "eight bytes each");
        q.push(4);
        assert_eq!(q.take_many(3, 0, 100), [3], "one, however large it is");
        q.push(5);
        assert_eq!(q.take_many(3, 1 << 20, 8), [4], "so large that it comes alone");
        assert!(q.take_many(0, 1 << 20, 8).is_empty());
        assert_eq!(q.take_many(1, 1 << 20, 8), [5]);
        assert_eq!(q.inner.lock().bytes, 0);
    }

    #[test]
    fn a_stalled_consumer_costs_one_deadline() {
        let q = waiting(2, 20);
        assert_eq!(q.push(1).0, Pushed::Stored);
        assert_eq!(q.push(2).0, Pushed::Stored);
        assert_eq!(q.push(3).0, Pushed::Over);
        let start = Instant::now();
        q.wait_space_blocking();
        assert!(start.elapsed() >= Duration::from_millis(20));
        // Stalled now: dropped at once, nobody waits again.
        assert_eq!(q.push(4).0, Pushed::Dropped);
        let start = Instant::now();
        q.wait_space_blocking();
        assert!(start.elapsed() < Duration::from_millis(10));
        assert_eq!(q.dropped(), 1);
        // It moves again: everything that was stored is there, and pushes are stored again.
        let mut out = Vec::new();
        assert_eq!(q.drain_into(&mut out, 10), 3);
        assert_eq!(out, [1, 2, 3]);
        assert_eq!(q.push(5).0, Pushed::Stored);
    }

    #[test]
    fn a_slow_consumer_loses_nothing() {
        let q = waiting(4, 5_000);
        let producer = {
            let q = q.clone();
            std::thread::spawn(move || {
                for i in 0..1000 {
                    let pushed = q.push(i).0;
                    q.signal();
                    if pushed == Pushed::Over {
                        q.wait_space_blocking();
                    }
                }
                q.close();
            })
        };
        let mut got = Vec::new();
        while let Ok(item) = q.recv(Some(Duration::from_secs(5)), &mut || false) {
            got.push(item);
        }
        producer.join().unwrap();
        assert_eq!(got, (0..1000).collect::<Vec<_>>());
        assert_eq!(q.dropped(), 0);
    }

    #[test]
    fn a_ring_keeps_the_newest() {
        let q = Queue::new(Bounds { messages: 2, bytes: 1 << 20, overflow: Overflow::DropOldest });
        for i in 0..5u32 {
            q.push(i);
        }
        let mut out = Vec::new();
        q.drain_into(&mut out, 10);
        assert_eq!(out, [3, 4]);
        assert_eq!(q.dropped(), 3);
    }

    #[test]
    fn recv_ends_at_timeout_close_and_interrupt() {
        let q = waiting(2, 10);
        assert_eq!(q.recv(Some(Duration::from_millis(5)), &mut || false), Err(RecvError::Timeout));
        assert_eq!(q.recv(None, &mut || true), Err(RecvError::Interrupted));
        q.push(1);
        q.close();
        assert_eq!(q.recv(None, &mut || false), Ok(1));
        assert_eq!(q.recv(None, &mut || false), Err(RecvError::Closed));
        assert_eq!(q.push(2).0, Pushed::Closed);
    }

    #[tokio::test]
    async fn tasks_wait_for_space_too() {
        let q = waiting(1, 5_000);
        q.push(1);
        assert_eq!(q.push(2).0, Pushed::Over);
        let waiter = {
            let q = q.clone();
            tokio::spawn(async move { q.wait_space().await })
        };
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(!waiter.is_finished());
        assert_eq!(q.try_recv(), Ok(Some(1)));
        tokio::time::timeout(Duration::from_secs(1), waiter).await.unwrap().unwrap();
    }
}
