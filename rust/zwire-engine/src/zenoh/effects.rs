//! [`Effects`]: work that the machines of a node leave for the time after their lock is released.

use crate::{
    net::burst::{Burst, Moment},
    rt::queue::{Pushed, Queue, Weigh},
    zenoh::{
        link::{Link, Urgency},
        query::Query,
    },
};
use core::time::Duration;
use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};
use zwire_proto::{
    Text,
    zenoh::{
        Priority, WhatAmI, ZenohId,
        advanced::{AdvancedPublisher, AdvancedSubscriber, Miss},
        session::{GetEnd, Reply, Sample},
        wire::PushBody,
    },
};

impl Weigh for Sample {
    fn weight(&self) -> usize {
        // The struct itself and its share of the key.
        size_of::<Self>() + self.payload.len() + self.attachment.as_ref().map_or(0, bytes::Bytes::len)
    }

    fn key(&self) -> Option<&str> {
        Some(self.key.as_str())
    }
}

impl Weigh for Reply {
    fn weight(&self) -> usize {
        size_of::<Self>()
            + match &self.result {
                Ok(sample) => sample.payload.len(),
                Err(error) => error.payload.len(),
            }
    }

    fn key(&self) -> Option<&str> {
        self.result.as_ref().ok().map(|sample| sample.key.as_str())
    }
}

impl Weigh for bool {
    fn weight(&self) -> usize {
        1
    }
}

/// Work that is due once the lock is released.
#[derive(Default)]
pub(crate) struct Effects {
    pub(super) flush: Vec<(Arc<Link>, Urgency)>,
    pub(crate) waits: Vec<Wait>,
    pub(super) signals: Vec<Signal>,
    /// Samples of a link for one subscriber, which go into its queue together.
    pub(super) staged: VecDeque<Sample>,
    pub(super) staged_for: Option<Arc<Queue<Sample>>>,
    /// Events of the node about other nodes.
    pub(crate) events: Vec<Heard>,
    /// A lane was full.
    pub(crate) congested: bool,
    /// A change happened that a [`Watch`](crate::Watch) may wait for.
    pub(crate) told: bool,
    /// When a thread of the application publishes; `None` for what links bring, which leaves at once.
    pub(super) moment: Option<Moment>,
    /// Set for batches: skip the flush decision of each message.
    pub(crate) many: bool,
    /// At least one message was coalesced; no flush is required for it.
    pub(super) gathered: bool,
    pub(super) garbage: Vec<Garbage>,
}

impl Effects {
    pub(super) fn settle_later(&mut self, link: &Arc<Link>, urgency: Urgency) {
        // Messages of one input mostly go to few links.
        match self.flush.iter_mut().rev().find(|(known, _)| Arc::ptr_eq(known, link)) {
            Some((_, known)) => {
                if urgency == Urgency::Now || *known == Urgency::Later {
                    *known = urgency;
                }
            }
            None => self.flush.push((link.clone(), urgency)),
        }
    }

    /// A command of the application comes.
    pub(crate) const fn begin(&mut self, moment: Moment) {
        self.moment = Some(moment);
    }

    /// Messages of a link come.
    pub(crate) const fn forward(&mut self) {
        self.moment = None;
    }

    /// Whether nothing has to be written, waited for, told or dropped.
    pub(crate) fn is_idle(&self) -> bool {
        self.flush.is_empty()
            && self.waits.is_empty()
            && self.signals.is_empty()
            && self.events.is_empty()
            && self.garbage.is_empty()
            && !self.told
    }

    /// Moves the staged samples into their queue.
    pub(crate) fn hand_over(&mut self) {
        let Some(queue) = &self.staged_for else { return };
        if self.staged.is_empty() {
            return;
        }
        let garbage = &mut self.garbage;
        let pushed = queue.push_many(&mut self.staged, |sample| garbage.push(Garbage::Sample(sample)));
        let queue = queue.clone();
        self.pushed(&queue, pushed);
    }

    /// The consumer of `queue` is to be told, and waited for if it is over its bound.
    pub(super) fn pushed(&mut self, queue: &Arc<Queue<Sample>>, pushed: Pushed) {
        if !matches!(self.signals.last(), Some(Signal::Samples(last)) if Arc::ptr_eq(last, queue)) {
            self.signals.push(Signal::Samples(queue.clone()));
        }
        if pushed == Pushed::Over
            && !matches!(self.waits.last(), Some(Wait::Samples(last)) if Arc::ptr_eq(last, queue))
        {
            self.waits.push(Wait::Samples(queue.clone()));
        }
    }

    /// Writes what was queued, and drops what was displaced. Of a command that queued messages: whether this
    /// thread wrote.
    pub(crate) fn settle(&mut self, now: Duration) -> Option<bool> {
        let mut published = None;
        let gathered = core::mem::take(&mut self.gathered);
        if gathered || !self.flush.is_empty() {
            let moment = self.moment.unwrap_or(Moment { now, before: Burst::default() });
            let mut wrote = false;
            for (link, urgency) in self.flush.drain(..) {
                // What arrived together leaves together: nothing more is to come.
                let urgency = if self.moment.is_some() { urgency } else { Urgency::Now };
                wrote |= link.settle(moment, urgency);
            }
            published = self.moment.map(|_| wrote);
        }
        for signal in self.signals.drain(..) {
            match signal {
                Signal::Samples(queue) => queue.signal(),
                Signal::Queries(queue) => queue.signal(),
                Signal::Replies(queue) => queue.signal(),
                Signal::Misses(queue) => queue.signal(),
            }
        }
        self.garbage.clear();
        published
    }

    /// Dropped once the lock is released.
    pub(crate) fn garbage(&mut self, garbage: Garbage) {
        self.garbage.push(garbage);
    }

    /// Waits for everything that is over its bound, each link at most so long.
    pub(crate) async fn wait_all(&mut self, patience: Duration) {
        for wait in self.waits.drain(..) {
            wait.wait(patience).await;
        }
    }

    /// The consumer of `queue` is told once the lock is released.
    pub(crate) fn signal(&mut self, signal: Signal) {
        // What arrives together mostly goes to the same queue.
        if self.signals.last() != Some(&signal) {
            self.signals.push(signal);
        }
    }
}

/// Event of the node about another node.
pub(crate) enum Heard {
    /// Its initial declarations are complete.
    Ready(ZenohId),
    /// Timestamps of its clock lie too far in the future; they came from a neighbour, or from this node.
    Ahead { clock: ZenohId, via: Option<ZenohId>, ahead: Duration, dropped: bool },
    /// A neighbour announced it.
    Of { zid: ZenohId, whatami: WhatAmI, locators: Vec<Text> },
}

/// Queue whose consumer is to be notified.
pub(crate) enum Signal {
    Samples(Arc<Queue<Sample>>),
    Queries(Arc<Queue<Query>>),
    Replies(Arc<Queue<Reply>>),
    Misses(Arc<Queue<Miss>>),
}

impl PartialEq for Signal {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Samples(a), Self::Samples(b)) => Arc::ptr_eq(a, b),
            (Self::Queries(a), Self::Queries(b)) => Arc::ptr_eq(a, b),
            (Self::Replies(a), Self::Replies(b)) => Arc::ptr_eq(a, b),
            (Self::Misses(a), Self::Misses(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// Dropped outside of the lock: dropping a query talks to the core.
#[allow(dead_code, reason = "held for its drop")]
pub(crate) enum Garbage {
    Sample(Sample),
    Query(Query),
    Reply(Reply),
    Queries(Arc<Queue<Query>>),
    Body(PushBody),
    Publisher(Box<AdvancedPublisher>),
    Subscriber(Box<AdvancedSubscriber>),
}

/// Queue or lane that is over its bound and is to be waited for.
pub(crate) enum Wait {
    Link(Arc<Link>, Priority),
    Samples(Arc<Queue<Sample>>),
    Queries(Arc<Queue<Query>>),
    Replies(Arc<Queue<Reply>>),
    Misses(Arc<Queue<Miss>>),
}

/// A sample into a queue.
#[inline]
pub(crate) fn give(queue: &Arc<Queue<Sample>>, sample: Sample, effects: &mut Effects) {
    // What a link brings mostly is for the same subscriber as what it has just brought.
    if effects.moment.is_none() && queue.takes_many() {
        if !effects.staged_for.as_ref().is_some_and(|staged_for| Arc::ptr_eq(staged_for, queue)) {
            effects.hand_over();
            effects.staged_for = Some(queue.clone());
        }
        effects.staged.push_back(sample);
        return;
    }
    let garbage = &mut effects.garbage;
    let pushed = queue.push_or(sample, |sample| garbage.push(Garbage::Sample(sample)));
    effects.pushed(queue, pushed);
}

/// The replies of one get.
#[derive(Clone)]
pub struct Replies {
    /// Closed when the get is over.
    pub queue: Arc<Queue<Reply>>,
    /// Set before the queue is closed.
    pub done: Arc<OnceLock<GetEnd>>,
}

impl Wait {
    pub(crate) async fn wait(self, limit: Duration) {
        match self {
            Self::Link(link, priority) => link.wait_space(priority, limit).await,
            Self::Samples(queue) => queue.wait_space().await,
            Self::Queries(queue) => queue.wait_space().await,
            Self::Replies(queue) => queue.wait_space().await,
            Self::Misses(queue) => queue.wait_space().await,
        }
    }
}
