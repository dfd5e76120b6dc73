//! Statistics: by name, by link, by consumer. They are collected on demand; messages only touch the
//! counters of their link and queue.

pub use crate::zenoh::{lending::LendingState, totals::ConsumerKind};
use crate::{
    rt::{clock, queue::QueueStats},
    zenoh::{
        core::{SessionCore, Side},
        link::{LaneReport, Link, LinkEnd},
        shared::SessionShared,
        totals::LinkTotals,
    },
};
use core::time::Duration;
use std::collections::BTreeMap;
use zwire_proto::zenoh::{KeyExpr, WhatAmI, ZenohId, session::EntityId};

/// Adds fields of a struct under their own names.
macro_rules! named {
    ($add:ident, $prefix:literal, $stats:expr; $($field:ident),+) => {
        $($add(concat!($prefix, ".", stringify!($field)), $stats.$field);)+
    };
}

pub(crate) fn collect(core: &SessionCore, shared: &SessionShared) -> BTreeMap<String, u64> {
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
            unknown_requests, ignored, matching_waits
        );
    }
    for (name, count) in shared.rules.counters.named() {
        add(&format!("authoriser.{name}"), count);
    }
    add("gossip.refused", shared.dials.refused());
    shared.lending.stats.each(&mut add);
    let mut links = core.past.links;
    for link in core.links() {
        links.add(&link);
    }
    links.named().iter().for_each(|(name, value)| add(&format!("link.{name}"), *value));
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
pub(crate) const GAUGES: [&str; 4] = ["links", "gets.open", "queries.open", "lending.held"];

/// The sum of [`LOSSES`].
const DROPS: &str = "drops";

/// Counters of messages that were sent but did not arrive although they could have.
const LOSSES: [&str; 8] = [
    "link.tx_dropped",
    "link.rx_shm_failed",
    "lending.stale",
    "handler.dropped",
    "handler.queries_dropped",
    "handler.replies_dropped",
    "session.dropped.put_no_link",
    "session.dropped.out_link_lost",
];

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
    /// received, messages dropped because their payload is in memory of the sender, messages whose payload is on loan,
    /// and borrowed.
    pub counters: [(&'static str, u64); LinkTotals::NAMES.len()],
    /// Whether payloads stay in shared memory, and why not.
    pub lending: LendingState,
    /// Lanes by falling priority; a single one if the link has no priorities.
    pub lanes: Vec<LaneReport>,
}

pub(crate) fn report(core: &mut SessionCore, shared: &SessionShared) -> Report {
    let counters = collect(core, shared);
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

pub(super) fn link_report(link: &Link) -> LinkReport {
    let mut totals = LinkTotals::default();
    totals.add(link);
    let remote = (!link.is_group()).then_some(link.params.remote);
    LinkReport {
        zid: remote.map(|remote| remote.zid),
        whatami: remote.map(|remote| remote.whatami),
        src: link.local.clone(),
        dst: link.peer.clone(),
        age: link.age(),
        counters: totals.named(),
        lending: link.lending_state(),
        lanes: link.lanes(),
    }
}
