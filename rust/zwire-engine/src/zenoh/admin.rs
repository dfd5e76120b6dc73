//! Read-only admin space: answers of a node about itself (`zenoh-behaviour` 6.1).
//!
//! Served by a queryable of the node's own session on `@/<zid>/<role>/**`. One blocking task answers the
//! queries one after the other, so that neither the receive loop nor the core waits for an answer.

use crate::{
    error::Error,
    rt::queue::{Bounds, Overflow, Queue},
    zenoh::{
        connectivity::LinkInfo,
        core::{SessionCore, Side},
        effects::Effects,
        query::Query,
        shared::SessionShared,
        stats,
    },
};
use core::fmt::Write as _;
use flate2::{Compression, write::GzEncoder};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    io::Write as _,
    sync::{Arc, Weak},
};
use tokio::sync::Notify;
use zwire_proto::zenoh::{
    Encoding, KeyExpr, Parameters, WhatAmI, ZenohId,
    node::{Declarers, GraphReport, Topic},
    session::{QueryReply, QueryReplyBody, QueryableOptions},
    wire::{PushBody, Put},
};

/// Most queries that wait for their answer. A query beyond this bound is finished without a reply.
const WAITING: usize = 64;

const VERSION: &str = concat!("zwire v", env!("CARGO_PKG_VERSION"));

/// Starts the admin space if the configuration enables it.
pub(crate) fn start(shared: &Arc<SessionShared>) -> Result<(), Error> {
    let admin = shared.config.adminspace;
    if !admin.enabled || !admin.read {
        return Ok(());
    }
    let key = key(&format!("{}/**", prefix(shared.zid, shared.config.mode)));
    let bounds = Bounds { messages: WAITING, bytes: usize::MAX, overflow: Overflow::DropOldest };
    let queue: Arc<Queue<Query>> = Queue::new(bounds);
    let asked = Arc::new(Notify::new());
    let waker = asked.clone();
    queue.set_waker(Some(Arc::new(move || waker.notify_one())));
    shared.with_core(&mut Effects::default(), |core, now, _| -> Result<(), Error> {
        let id = core.api.declare_queryable(now, key, QueryableOptions::default())?;
        core.queries.insert(id, queue.clone());
        Ok(())
    })?;
    shared.spawn(run(Arc::downgrade(shared), queue, asked));
    Ok(())
}

async fn run(shared: Weak<SessionShared>, queue: Arc<Queue<Query>>, asked: Arc<Notify>) {
    loop {
        match queue.try_recv() {
            Ok(Some(query)) => {
                let Some(strong) = shared.upgrade() else { return };
                let weak = shared.clone();
                let answered = strong.runtime.spawn_blocking(move || {
                    if let Some(shared) = weak.upgrade() {
                        answer(&shared, &query);
                    }
                });
                drop(strong);
                // A panic in the answer drops the query, which finishes it as well.
                let _ = answered.await;
            }
            Ok(None) => asked.notified().await,
            Err(_) => return,
        }
    }
}

fn prefix(zid: ZenohId, whatami: WhatAmI) -> String {
    format!("@/{zid}/{whatami}")
}

fn key(text: &str) -> KeyExpr {
    // Ids and roles consist of letters and digits; the other parts are literals or key expressions
    // already.
    KeyExpr::new(text).expect("parts of a key expression")
}

struct Answer<'a> {
    query: &'a Query,
    prefix: String,
}

impl Answer<'_> {
    /// The key below the prefix, if the query can select it.
    fn selected(&self, path: &str) -> Option<KeyExpr> {
        let key = KeyExpr::new(format!("{}{path}", self.prefix)).ok();
        key.filter(|key| key.intersects(&self.query.key))
    }

    fn wants(&self, path: &str) -> bool {
        self.selected(path).is_some()
    }

    fn reply(&self, path: &str, encoding: Encoding, payload: Vec<u8>) {
        let Some(key) = self.selected(path) else { return };
        let body = PushBody::Put(Put { encoding, ..Put::new(payload) });
        let body = QueryReplyBody::Sample { key, body };
        // The reply fails if the asker is gone or the session is closed; no answer is needed then.
        let _ = self.query.reply(QueryReply { body, express: None, stamps: None }, &mut || false);
    }

    fn json(&self, path: &str, value: &Value) {
        self.reply(path, Encoding::APPLICATION_JSON, value.to_string().into_bytes());
    }
}

fn answer(shared: &SessionShared, query: &Query) {
    let answer = Answer { query, prefix: prefix(shared.zid, shared.config.mode) };
    let parameters = Parameters::new(query.parameters.clone());
    if answer.wants("") {
        answer.json("", &root(shared, parameters.contains("_stats")));
    }
    if answer.wants("/metrics") {
        metrics(shared, &answer, parameters.get("compression") != Some("false"));
    }
    for topic in Topic::ALL {
        let name = name(topic);
        // A wildcard `**` does not match the `@` keys of an admin space, hence the second test.
        if answer.wants(&format!("/{name}/**")) || query.key.as_str().contains(&format!("/{name}/")) {
            // Copied into a variable, here and below, to release the lock before the first reply.
            let all = declarers(&shared.core.lock(), topic);
            for (declared, by) in all {
                answer.json(&format!("/{name}/{declared}"), &declarers_json(&by));
            }
        }
    }
    if answer.wants("/linkstate/**") {
        let all = graphs(&shared.core.lock());
        for (region, graph) in all {
            answer.reply(&format!("/linkstate/{region}"), Encoding::TEXT_PLAIN, dot(&graph).into_bytes());
        }
    }
    if answer.wants("/route/**") {
        let all = successors(&mut shared.core.lock());
        for (source, destination, next) in all {
            let path = format!("/route/successor/src/{source}/dst/{destination}");
            answer.json(&path, &Value::String(next.to_string()));
        }
    }
}

const fn name(topic: Topic) -> &'static str {
    match topic {
        Topic::Subscribers => "subscriber",
        Topic::Publishers => "publisher",
        Topic::Queryables => "queryable",
        Topic::Queriers => "querier",
        Topic::Tokens => "token",
    }
}

fn declarers(core: &SessionCore, topic: Topic) -> BTreeMap<KeyExpr, Declarers> {
    match &core.side {
        Side::Node(side) => side.node.declarers(topic),
        Side::Client(_) => {
            let own = || Declarers { clients: [core.api.zid()].into(), ..Declarers::default() };
            core.api.declared_keys(topic).into_iter().map(|key| (key, own())).collect()
        }
    }
}

fn declarers_json(by: &Declarers) -> Value {
    let list = |zids: &std::collections::BTreeSet<ZenohId>| {
        Value::from(zids.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    json!({ "routers": list(&by.routers), "peers": list(&by.peers), "clients": list(&by.clients) })
}

fn root(shared: &SessionShared, with_stats: bool) -> Value {
    let core = shared.core.lock();
    let mut links: Vec<(ZenohId, Vec<&Arc<LinkInfo>>)> = Vec::new();
    for link in core.connectivity.links() {
        match links.iter_mut().find(|(zid, _)| *zid == link.zid) {
            Some((_, known)) => known.push(link),
            None => links.push((link.zid, vec![link])),
        }
    }
    let sessions: Vec<Value> = links
        .iter()
        .map(|(zid, links)| {
            let whatami = links[0].whatami;
            let ends: Vec<Value> =
                links.iter().map(|link| json!({ "src": link.src, "dst": link.dst })).collect();
            json!({
                "peer": zid.to_string(),
                "whatami": whatami.to_string(),
                "links": ends,
                "region": region(shared.config.mode, whatami),
                "shm": links.iter().any(|link| link.lending),
                "weight": weight(&core, *zid, whatami),
            })
        })
        .collect();
    let locators: Vec<String> =
        shared.listening.lock().iter().map(|listening| listening.locator.clone()).collect();
    let mut root = json!({
        "zid": shared.zid.to_string(),
        "version": VERSION,
        "metadata": shared.config.metadata,
        "locators": locators,
        "sessions": sessions,
        "plugins": null,
    });
    if with_stats && let Some(root) = root.as_object_mut() {
        let stats: Map<String, Value> =
            stats::collect(&core, shared).into_iter().map(|(name, value)| (name, value.into())).collect();
        root.insert("stats".into(), stats.into());
    }
    root
}

/// Region in which a neighbour stands (`zenoh-behaviour` 5.1).
const fn region(own: WhatAmI, remote: WhatAmI) -> &'static str {
    match (own, remote) {
        (_, WhatAmI::Client) => "south:0:client",
        (WhatAmI::Router, WhatAmI::Peer) => "south:0:peer",
        _ => "north",
    }
}

fn weight(core: &SessionCore, neighbour: ZenohId, whatami: WhatAmI) -> Value {
    const DEFAULT: u16 = 100;
    let Side::Node(side) = &core.side else { return Value::Null };
    if (side.node.whatami(), whatami) != (WhatAmI::Router, WhatAmI::Router) {
        return Value::Null;
    }
    let Some((own, theirs)) = side.node.weights(neighbour) else { return Value::Null };
    let said = |weight: u16| if weight == 0 { Value::Null } else { weight.into() };
    let actual = match own.max(theirs) {
        0 => DEFAULT,
        weight => weight,
    };
    json!({ "actual_weight": actual, "src_weight": said(own), "dst_weight": said(theirs) })
}

fn graphs(core: &SessionCore) -> Vec<(&'static str, GraphReport)> {
    let Side::Node(side) = &core.side else { return Vec::new() };
    match side.node.whatami() {
        WhatAmI::Router => vec![("north", side.node.routers()), ("south:0:peer", side.node.peers())],
        WhatAmI::Peer | WhatAmI::Client => vec![("north", side.node.neighbours())],
    }
}

fn successors(core: &mut SessionCore) -> Vec<(ZenohId, ZenohId, ZenohId)> {
    match &mut core.side {
        Side::Node(side) if side.node.whatami() == WhatAmI::Router => side.node.successors(),
        _ => Vec::new(),
    }
}

/// Graph in the DOT language of Graphviz.
fn dot(graph: &GraphReport) -> String {
    let mut text = String::from("graph {\n");
    // Writing to a `String` does not fail.
    for (place, zid) in graph.nodes.iter().enumerate() {
        let _ = writeln!(text, "    {place} [ label = \"{zid}\" ]");
    }
    for (a, b, weight) in &graph.links {
        let _ = writeln!(text, "    {a} -- {b} [ label = \"{weight}\" ]");
    }
    text.push_str("}\n");
    text
}

fn metrics(shared: &SessionShared, answer: &Answer<'_>, compressed: bool) {
    const SCHEMA: &str = " version=1.0.0; charset=utf-8";
    let counters = stats::collect(&shared.core.lock(), shared);
    let text = open_metrics(&counters, shared.zid, shared.config.mode);
    let openmetrics = Encoding::APPLICATION_OPENMETRICS_TEXT;
    if !compressed {
        answer.reply("/metrics", openmetrics.with_schema(SCHEMA), text.into_bytes());
        return;
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    if gzip.write_all(text.as_bytes()).is_ok()
        && let Ok(packed) = gzip.finish()
    {
        let schema = format!("{SCHEMA};content-encoding=gzip");
        answer.reply("/metrics", openmetrics.with_schema(schema), packed);
    }
}

/// Counters in the text format of `OpenMetrics`.
fn open_metrics(stats: &BTreeMap<String, u64>, zid: ZenohId, whatami: WhatAmI) -> String {
    let labels = format!("local_id=\"{zid}\",local_whatami=\"{whatami}\"");
    let mut text = format!(
        "# HELP zenoh_build Zenoh build version.\n# TYPE zenoh_build info\n\
         zenoh_build_info{{{labels},version=\"{VERSION}\"}} 1\n"
    );
    for (name, value) in stats {
        let metric = format!("zwire_{}", name.replace('.', "_"));
        // Writing to a `String` does not fail.
        let _ = if stats::GAUGES.contains(&name.as_str()) {
            writeln!(text, "# TYPE {metric} gauge\n{metric}{{{labels}}} {value}")
        } else {
            writeln!(text, "# TYPE {metric} counter\n{metric}_total{{{labels}}} {value}")
        };
    }
    text.push_str("# EOF\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zid(number: u128) -> ZenohId {
        ZenohId::new(number).unwrap()
    }

    #[test]
    fn graphs_are_written_as_the_reference_writes_them() {
        let graph =
            GraphReport { nodes: vec![zid(0xa), zid(0xb)], links: vec![(1, 0, 100.699_790_521_920_62)] };
        assert_eq!(
            dot(&graph),
            "graph {\n    0 [ label = \"a\" ]\n    1 [ label = \"b\" ]\n    \
             1 -- 0 [ label = \"100.69979052192062\" ]\n}\n"
        );
    }

    #[test]
    fn metrics_are_counters_and_gauges() {
        let stats = BTreeMap::from([("links".to_owned(), 2), ("session.dropped.put_no_link".to_owned(), 7)]);
        let text = open_metrics(&stats, zid(0xa), WhatAmI::Router);
        let lines: Vec<&str> = text.lines().skip(3).collect();
        assert_eq!(
            lines,
            [
                "# TYPE zwire_links gauge",
                "zwire_links{local_id=\"a\",local_whatami=\"router\"} 2",
                "# TYPE zwire_session_dropped_put_no_link counter",
                "zwire_session_dropped_put_no_link_total{local_id=\"a\",local_whatami=\"router\"} 7",
                "# EOF"
            ]
        );
    }
}
