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
use zwire_proto::zenoh::{
    Priority, ZenohId,
    advanced::{AdvancedPublisher, AdvancedSubscriber, Miss},
    node::NodeEvent,
    session::{GetEnd, Reply, Sample},
    wire::PushBody,
};

impl Weigh for Sample {
    fn weight(&self) -> usize {
        // The struct itself and its share of the key.
        size_of::<Self>() + self.payload.len() + self.attachment.as_ref().map_or(0, bytes::Bytes::len)
    }

    fn key(&self) -> Option<&str> {
        Some(self.key.as_str())
    }

    #[inline]
    fn secure(&mut self) -> bool {
        self.payload.secure()
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

    fn secure(&mut self) -> bool {
        self.result.as_mut().map_or(true, Weigh::secure)
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
    signals: Vec<ConsumerQueue>,
    /// Samples of a link for one subscriber, which go into its queue together.
    pub(super) staged: VecDeque<Sample>,
    pub(super) staged_for: Option<Arc<Queue<Sample>>>,
    /// Events of the node about other nodes, with the neighbour at the face of the event.
    pub(super) events: Vec<(NodeEvent, Option<ZenohId>)>,
    /// A lane was full.
    pub(crate) congested: bool,
    /// A change happened that a [`Watch`](crate::Watch) may wait for.
    pub(crate) told: bool,
    /// When a thread of the application publishes; `None` for what links bring, which leaves at once.
    pub(super) moment: Option<Moment>,
    /// Set for batches: skip the flush decision of each message.
    pub(crate) many: bool,
    /// The message is a question whose caller waits for the answer, or asks another one.
    pub(crate) asks: bool,
    /// The answer to another query is likely to follow, and takes that of this one along.
    pub(crate) followed: bool,
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

    /// The consumer of `queue` is told once the lock is released, and waited for if it is over its bound.
    #[inline]
    pub(super) fn pushed<T: Weigh>(&mut self, queue: &Arc<Queue<T>>, pushed: Pushed)
    where
        Arc<Queue<T>>: Into<ConsumerQueue>,
    {
        // What arrives together mostly goes to the same queue.
        let is_same = |last: &ConsumerQueue| last.address() == Arc::as_ptr(queue).cast();
        if !self.signals.last().is_some_and(is_same) {
            self.signals.push(queue.clone().into());
        }
        if pushed == Pushed::Over && !matches!(self.waits.last(), Some(Wait::Queue(last)) if is_same(last)) {
            self.waits.push(Wait::Queue(queue.clone().into()));
        }
    }

    /// Writes what was queued, and drops what was displaced. Of a command that queued messages: whether this
    /// thread wrote, and whether it left some to be collected.
    pub(crate) fn settle(&mut self, now: Duration) -> Option<(bool, bool)> {
        let mut published = None;
        let gathered = core::mem::take(&mut self.gathered);
        if gathered || !self.flush.is_empty() {
            let moment = self.moment.unwrap_or(Moment { now, before: Burst::default() });
            let (mut wrote, mut left) = (false, gathered);
            for (link, urgency) in self.flush.drain(..) {
                // What arrived together leaves together: nothing more is to come.
                let urgency = if self.moment.is_some() { urgency } else { Urgency::Now };
                let written = link.settle(moment, urgency);
                (wrote, left) = (wrote | written, left | !written);
            }
            published = self.moment.map(|_| (wrote, left));
        }
        self.signals.drain(..).for_each(|consumer| consumer.signal());
        self.garbage.clear();
        published
    }

    /// Waits for everything that is over its bound, each link at most so long.
    pub(crate) async fn wait_all(&mut self, patience: Duration) {
        for wait in self.waits.drain(..) {
            wait.wait(patience).await;
        }
    }
}

macro_rules! consumers {
    ($($kind:ident: $item:ty),+) => {
        /// Queue with a consumer to notify, or to wait for.
        pub(crate) enum ConsumerQueue {
            $($kind(Arc<Queue<$item>>)),+
        }

        impl ConsumerQueue {
            /// Address of the queue, for comparisons.
            fn address(&self) -> *const () {
                match self { $(Self::$kind(queue) => Arc::as_ptr(queue).cast()),+ }
            }

            fn signal(&self) {
                match self { $(Self::$kind(queue) => queue.signal()),+ }
            }

            async fn wait_space(&self) {
                match self { $(Self::$kind(queue) => queue.wait_space().await),+ }
            }

            pub(crate) fn wait_space_blocking(&self) {
                match self { $(Self::$kind(queue) => queue.wait_space_blocking()),+ }
            }
        }

        $(impl From<Arc<Queue<$item>>> for ConsumerQueue {
            fn from(queue: Arc<Queue<$item>>) -> Self {
                Self::$kind(queue)
            }
        })+
    };
}

consumers!(Samples: Sample, Queries: Query, Replies: Reply, Misses: Miss);

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
    Queue(ConsumerQueue),
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
            Self::Queue(consumer) => consumer.wait_space().await,
        }
    }
}
