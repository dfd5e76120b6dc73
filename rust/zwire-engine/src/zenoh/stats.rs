//! Statistics: by name, by link, by consumer. They are collected on demand; messages only touch the
//! counters of their link and queue.

use crate::{
    rt::{clock, queue::QueueStats},
    zenoh::{
        connectivity::LinkEnd,
        core::{Core, Side},
        link::{LaneReport, Link},
    },
};
use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use std::collections::{BTreeMap, VecDeque};
use zwire_proto::zenoh::{KeyExpr, WhatAmI, ZenohId, session::EntityId};

/// Adds fields of a struct under their own names.
macro_rules! named {
    ($add:ident, $prefix:literal, $stats:expr; $($field:ident),+) => {
        $($add(concat!($prefix, ".", stringify!($field)), $stats.$field);)+
    };
}

pub(crate) fn collect(core: &Core) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    let mut add = |name: &str, value: u64| *out.entry(name.to_owned()).or_default() += value;
    let stats = core.api.stats();
    named!(
        add, "session", stats;
        pushes_sent, pushes_received, samples_delivered, requests_sent, requests_received,
        queries_delivered, responses_sent, responses_received, replies_delivered, declarations_sent,
        declarations_received, links_up
    );
    named!(
        add, "session.dropped", stats.dropped;
        put_no_link, put_no_subscriber, put_no_local_subscriber, out_link_lost, in_bad_key,
        push_no_subscriber, request_refused, reply_late, reply_bad_key, reply_consolidated,
        consolidation_overflow, declare_ignored
    );
    if let Side::Node(side) = &core.side {
        let stats = side.node.stats();
        named!(
            add, "node", stats;
            pushes_in, pushes_out, pushes_unmatched, requests_in, requests_out, responses,
            query_timeouts, interest_timeouts, invalid_keys, future_dropped, future_replaced,
            unknown_requests, ignored
        );
    }
    let mut links = core.past.links;
    for link in core.links() {
        links.add(&link);
    }
    named!(
        add, "link", links;
        tx_bytes, tx_messages, tx_writes, tx_dropped, rx_bytes, rx_messages
    );
    add("links", core.links().len() as u64);
    add("links.reconnected", core.connectivity.reconnected);
    for (word, count) in LinkEnd::WORDS.iter().zip(core.connectivity.ended) {
        add(&format!("links.ended.{}", word.replace('-', "_")), count);
    }
    let past = &core.past;
    add("handler.dropped", past.samples_dropped + core.samples.values().map(|q| q.dropped()).sum::<u64>());
    add("handler.replaced", past.samples_replaced + core.samples.values().map(|q| q.replaced()).sum::<u64>());
    let queries = core.queries.values().map(|q| q.dropped()).sum::<u64>();
    add("handler.queries_dropped", past.queries_dropped + queries);
    let replies = core.gets.values().map(|replies| replies.queue.dropped()).sum::<u64>();
    add("handler.replies_dropped", past.replies_dropped + replies);
    add("gets.open", core.gets.len() as u64);
    add("queries.open", core.api.open_queries() as u64);
    out.insert(DROPS.to_owned(), LOSSES.iter().filter_map(|name| out.get(*name)).sum());
    out
}

/// Counters that may fall again.
pub(crate) const GAUGES: [&str; 3] = ["links", "gets.open", "queries.open"];

/// The sum of [`LOSSES`].
const DROPS: &str = "drops";

/// Counters of messages that were sent but did not arrive although they could have.
const LOSSES: [&str; 6] = [
    "link.tx_dropped",
    "handler.dropped",
    "handler.queries_dropped",
    "handler.replies_dropped",
    "session.dropped.put_no_link",
    "session.dropped.out_link_lost",
];

/// Summed counters of links.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkTotals {
    tx_bytes: u64,
    tx_messages: u64,
    tx_writes: u64,
    tx_dropped: u64,
    rx_bytes: u64,
    rx_messages: u64,
}

impl LinkTotals {
    fn add(&mut self, link: &Link) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let stats = &link.stats;
        self.tx_bytes += get(&stats.tx_bytes);
        self.tx_messages += stats.tx_messages.iter().map(get).sum::<u64>();
        self.tx_writes += get(&stats.tx_writes);
        self.tx_dropped += stats.tx_dropped.iter().map(get).sum::<u64>();
        self.rx_bytes += get(&stats.rx_bytes);
        self.rx_messages += get(&stats.rx_messages);
    }
}

/// Counters of links and queues that no longer exist, kept so that no sum falls.
#[derive(Debug, Default)]
pub(crate) struct Past {
    links: LinkTotals,
    pub(crate) samples_dropped: u64,
    pub(crate) samples_replaced: u64,
    pub(crate) queries_dropped: u64,
    pub(crate) replies_dropped: u64,
    rate: Rate,
}

impl Past {
    /// Adds the counters of a link that ended.
    pub(crate) fn link(&mut self, link: &Link) {
        self.links.add(link);
    }
}

/// Rate of a counter, computed from readings.
#[derive(Debug)]
struct Rate {
    /// Readings with their times, the oldest first.
    seen: VecDeque<(Duration, u64)>,
}

impl Default for Rate {
    fn default() -> Self {
        Self { seen: VecDeque::from([(clock::mono(), 0)]) }
    }
}

impl Rate {
    /// Period of the mean if readings are frequent enough; else it begins at the reading before.
    const WINDOW: Duration = Duration::from_secs(10);
    /// Least distance between two readings that are stored.
    const STEP: Duration = Duration::from_secs(1);

    /// Rate per second, and the number of seconds over which it is the mean.
    fn look(&mut self, now: Duration, total: u64) -> (f64, f64) {
        while self.seen.get(1).is_some_and(|(at, _)| *at + Self::WINDOW <= now) {
            self.seen.pop_front();
        }
        let (since, before) = self.seen.front().copied().unwrap_or((now, total));
        if self.seen.back().is_none_or(|(at, _)| *at + Self::STEP <= now) {
            self.seen.push_back((now, total));
        }
        let seconds = now.saturating_sub(since).as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "a rate needs no more")]
        let rise = total.saturating_sub(before) as f64;
        (if seconds > 0.0 { rise / seconds } else { 0.0 }, seconds)
    }
}

/// Kind of the entity that takes items out of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerKind {
    /// A subscriber.
    Subscriber,
    /// A liveliness subscriber.
    Liveliness,
    /// A queryable.
    Queryable,
}

/// All statistics of a session.
#[derive(Debug)]
pub struct Report {
    /// Counters and gauges by name.
    pub counters: BTreeMap<String, u64>,
    /// Drops per second.
    pub drop_rate: f64,
    /// Number of seconds over which that is the mean.
    pub drop_rate_seconds: f64,
    /// Links that are up.
    pub links: Vec<LinkReport>,
    /// Queues with a consumer, in the order of their declaration.
    pub consumers: Vec<(ConsumerKind, KeyExpr, QueueStats)>,
}

/// Statistics of one link.
#[derive(Debug)]
pub struct LinkReport {
    /// Node at the other end; `None` for a multicast group.
    pub zid: Option<ZenohId>,
    /// Role of that node.
    pub whatami: Option<WhatAmI>,
    /// Local end, as a locator.
    pub src: String,
    /// Remote end, as a locator.
    pub dst: String,
    /// Time since the link came up.
    pub age: Duration,
    /// Bytes written, network messages queued, write calls, messages dropped, bytes read, network messages
    /// received.
    pub counters: [(&'static str, u64); 6],
    /// Lanes by falling priority; a single one if the link has no priorities.
    pub lanes: Vec<LaneReport>,
}

pub(crate) fn report(core: &mut Core) -> Report {
    let counters = collect(core);
    let drops = counters.get(DROPS).copied().unwrap_or(0);
    let (drop_rate, drop_rate_seconds) = core.past.rate.look(clock::mono(), drops);
    let links = core.links().iter().map(|link| link_report(link)).collect();
    let mut consumers: Vec<_> = core.consumers.iter().collect();
    consumers.sort_by_key(|(id, _)| **id);
    let stats = |id: &EntityId| {
        let samples = core.samples.get(id).map(|queue| queue.stats());
        samples.or_else(|| core.queries.get(id).map(|queue| queue.stats()))
    };
    let consumers = consumers
        .into_iter()
        .filter_map(|(id, (kind, key))| Some((*kind, key.clone(), stats(id)?)))
        .collect();
    Report { counters, drop_rate, drop_rate_seconds, links, consumers }
}

fn link_report(link: &Link) -> LinkReport {
    let mut totals = LinkTotals::default();
    totals.add(link);
    let LinkTotals { tx_bytes, tx_messages, tx_writes, tx_dropped, rx_bytes, rx_messages } = totals;
    let remote = (!link.is_group()).then_some(link.params.remote);
    LinkReport {
        zid: remote.map(|remote| remote.zid),
        whatami: remote.map(|remote| remote.whatami),
        src: link.local.clone(),
        dst: link.peer.clone(),
        age: link.age(),
        counters: [
            ("tx_bytes", tx_bytes),
            ("tx_messages", tx_messages),
            ("tx_writes", tx_writes),
            ("tx_dropped", tx_dropped),
            ("rx_bytes", rx_bytes),
            ("rx_messages", rx_messages),
        ],
        lanes: link.lanes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_seconds() {
        let at = Duration::from_secs;
        let mut rate = Rate { seen: VecDeque::from([(at(100), 0)]) };
        assert_eq!(rate.look(at(100), 0), (0.0, 0.0));
        assert_eq!(rate.look(at(102), 10), (5.0, 2.0));
        assert_eq!(rate.look(at(104), 10), (2.5, 4.0));
        // The reading of 102 is the last that is at least ten seconds old.
        assert_eq!(rate.look(at(113), 10), (0.0, 11.0));
        assert_eq!(rate.look(at(1_000), 897), (1.0, 887.0), "no reading in between");
        for second in 1_000..2_000 {
            rate.look(at(second), 897 + (second - 1_000) * 3);
        }
        assert!(rate.seen.len() < 15);
        assert_eq!(rate.look(at(2_000), 897 + 3_000), (3.0, 10.0));
    }
}
