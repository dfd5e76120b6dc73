//! Counters by name: the machines' and the links'.

use crate::core::{Core, Side};
use core::sync::atomic::Ordering;
use std::collections::BTreeMap;

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
    for link in core.links() {
        let stats = &link.stats;
        for (name, counter) in [
            ("link.tx_bytes", &stats.tx_bytes),
            ("link.tx_messages", &stats.tx_messages),
            ("link.tx_writes", &stats.tx_writes),
            ("link.tx_dropped", &stats.tx_dropped),
            ("link.rx_bytes", &stats.rx_bytes),
            ("link.rx_messages", &stats.rx_messages),
        ] {
            add(name, counter.load(Ordering::Relaxed));
        }
    }
    add("links", core.links().len() as u64);
    add("handler.dropped", core.samples.values().map(|q| q.dropped()).sum());
    add("handler.replaced", core.samples.values().map(|q| q.replaced()).sum());
    add("handler.queries_dropped", core.queries.values().map(|q| q.dropped()).sum());
    out
}
