//! Admin space: answers of a node about itself, and changes of its configuration (`zenoh-behaviour` 6.1).
//!
//! Served by a queryable of the node's own session on `@/<zid>/<role>/**`, and a subscriber on `config/**` below.
//! For each, one blocking task handles the queries or writes one after the other, so that neither the receive loop
//! nor the core waits for them.

use crate::{
    config::{AccessQuestion, AccessVerdict, explain},
    error::Error,
    log::recent,
    rt::queue::{Bounds, Overflow, Queue, Weigh},
    zenoh::{
        changes,
        connectivity::LinkInfo,
        core::{SessionCore, Side},
        effects::Effects,
        link::{LaneReport, Link},
        query::Query,
        shared::{SessionShared, StatusEntry},
        stats,
    },
};
use core::{fmt::Write as _, sync::atomic::Ordering};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io::Write as _,
    sync::{Arc, Weak},
};
use tokio::sync::Notify;
use zwire_proto::zenoh::{
    Encoding, KeyExpr, Parameters, WhatAmI, ZenohId,
    intercept::{Inquiry, LinkFacts},
    node::{Declarers, GraphReport, Topic},
    session::{QueryReply, QueryReplyBody, QueryableOptions, Sample, SubscriberOptions},
    wire::{PushBody, Put},
};

/// Most queries that wait for their answer. A query beyond this bound is finished without a reply.
const WAITING: usize = 64;

const VERSION: &str = concat!("zwire v", env!("CARGO_PKG_VERSION"));

/// Most writes that wait to be applied. A write beyond this bound is lost, with a warning of the queue.
const WRITES: usize = 256;

/// Most bytes of waiting writes; one always fits.
const WRITE_BYTES: usize = 1 << 20;

/// Starts the admin space if the configuration enables it.
pub(crate) fn start(shared: &Arc<SessionShared>) -> Result<(), Error> {
    if !shared.live.admin().enabled {
        return Ok(());
    }
    let prefix = prefix(shared.zid, shared.config.mode);
    let bounds = Bounds { messages: WAITING, bytes: usize::MAX, overflow: Overflow::DropOldest };
    let queries: Arc<Queue<Query>> = Queue::new(bounds);
    let bounds = Bounds { messages: WRITES, bytes: WRITE_BYTES, overflow: Overflow::DropNewest };
    let writes: Arc<Queue<Sample>> = Queue::named(bounds, "writes to the admin space".into());
    shared.with_core(&mut Effects::default(), |core, now, _| -> Result<(), Error> {
        let all = key(&format!("{prefix}/**"));
        let id = core.api.declare_queryable(now, all, QueryableOptions::default())?;
        core.queries.insert(id, queries.clone());
        let config = key(&format!("{prefix}/config/**"));
        let id = core.api.declare_subscriber(now, config, SubscriberOptions::default())?;
        core.samples.insert(id, writes.clone());
        Ok(())
    })?;
    let weak = Arc::downgrade(shared);
    shared.spawn(run(weak.clone(), queries, |shared, query| answer(shared, &query)));
    shared.spawn(run(weak, writes, |shared, sample| changes::write(shared, &sample)));
    Ok(())
}

/// Handles what comes into a queue, one after the other.
async fn run<T: Weigh + Send + 'static>(
    shared: Weak<SessionShared>,
    queue: Arc<Queue<T>>,
    handle: fn(&Arc<SessionShared>, T),
) {
    let asked = Arc::new(Notify::new());
    let waker = asked.clone();
    queue.set_waker(Some(Arc::new(move || waker.notify_one())));
    loop {
        match queue.try_recv() {
            Ok(Some(item)) => {
                let Some(strong) = shared.upgrade() else { return };
                let weak = shared.clone();
                let handled = strong.runtime.spawn_blocking(move || {
                    if let Some(shared) = weak.upgrade() {
                        handle(&shared, item);
                    }
                });
                drop(strong);
                // A panic drops the item; a query is finished by that as well.
                let _ = handled.await;
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
    if !shared.live.admin().read {
        tracing::warn!(key = %query.key, "refusing a query of the admin space: adminspace/permissions/read is false");
        return;
    }
    let answer = Answer { query, prefix: prefix(shared.zid, shared.config.mode) };
    let parameters = Parameters::new(query.parameters.clone());
    if answer.wants("") {
        answer.json("", &root(shared, parameters.contains("_stats")));
    }
    if answer.wants("/metrics") {
        metrics(shared, &answer, parameters.get("compression") != Some("false"));
    }
    // Only for a query that names it: eclipse-zenoh has no such key.
    if query.key.as_str().contains("/status/") && answer.wants("/status/config") {
        answer.json("/status/config", &shared.live.status());
    }
    if query.key.as_str().contains("/status/access") && answer.wants("/status/access") {
        answer.json("/status/access", &access(shared, &parameters));
    }
    if query.key.as_str().contains("/status/log")
        && shared.log_served.load(Ordering::Relaxed)
        && answer.wants("/status/log")
    {
        answer.json("/status/log", &recent().into());
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
            let text = dot(&graph).into_bytes();
            // Its name until eclipse-zenoh 1.8, for a query that names it: views of networks still ask for it.
            let before = if region == "north" { "/linkstate/routers" } else { "/linkstate/peers" };
            if query.key.as_str().ends_with(before) && shared.config.mode == WhatAmI::Router {
                answer.reply(before, Encoding::TEXT_PLAIN, text);
            } else {
                answer.reply(&format!("/linkstate/{region}"), Encoding::TEXT_PLAIN, text);
            }
        }
    }
    if answer.wants("/status/plugins/**") || answer.wants("/plugins/**") {
        for (path, encoding, payload) in plugin_keys(shared) {
            answer.reply(&format!("/{path}"), encoding, payload);
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

/// Place of the code of a plugin in the words of zenohd: not a library of its own.
pub const PLUGIN_PATH: &str = "__static_lib__";

/// The key `plugins/<name>` of a plugin that runs, as zenohd has it. `name`: the ids of the plugin that it belongs to and
/// its own.
#[must_use]
pub fn plugin_report(name: &str, version: &str) -> StatusEntry {
    let id = name.rsplit('/').next().unwrap_or(name);
    let value = json!({
        "name": name,
        "id": id,
        "version": version,
        "long_version": version,
        "path": PLUGIN_PATH,
        "state": "Started",
        "report": { "level": "Info" },
    });
    (format!("plugins/{name}"), Encoding::APPLICATION_JSON, value.to_string().into_bytes())
}

/// Keys of the plugins that run. Sources whose plugin has ended are forgotten.
fn plugin_keys(shared: &SessionShared) -> Vec<StatusEntry> {
    let sources = shared.statuses.lock().clone();
    let mut gone = Vec::new();
    let mut keys = Vec::new();
    for source in sources {
        match source() {
            Some(found) => keys.extend(found),
            None => gone.push(source),
        }
    }
    if !gone.is_empty() {
        shared.statuses.lock().retain(|source| !gone.iter().any(|one| Arc::ptr_eq(one, source)));
    }
    keys
}

/// Plugins of the root document by their ids; null without one.
fn plugins(shared: &SessionShared) -> Value {
    let keys = plugin_keys(shared);
    let ids = keys.iter().filter_map(|(path, ..)| path.strip_prefix("plugins/"));
    let found: Map<String, Value> = ids
        .filter(|id| !id.contains('/'))
        .map(|id| (id.to_owned(), json!({ "name": id, "path": PLUGIN_PATH })))
        .collect();
    if found.is_empty() { Value::Null } else { found.into() }
}

/// Decision of access control about a message that the parameters describe: `message`, `flow` and `key`, and the link:
/// `user`, `certificate`, `zid`, `protocol`, `interface`.
fn access(shared: &SessionShared, parameters: &Parameters) -> Value {
    let get = |name| parameters.get(name);
    let zid = get("zid").map(str::parse).transpose();
    let interfaces: Vec<String> = get("interface").into_iter().map(str::to_owned).collect();
    let link = LinkFacts {
        zid: zid.ok().flatten(),
        interfaces: &interfaces,
        protocol: get("protocol").unwrap_or("tcp"),
        common_name: get("certificate"),
        username: get("user"),
    };
    let words = (get("message").unwrap_or("put"), get("flow").unwrap_or("ingress"));
    let question = AccessQuestion::new(link, words.0, words.1, get("key").unwrap_or_default());
    let verdict = question.and_then(|question| {
        let verdict = explain(&shared.live.tree(), &question)?;
        Ok(with_authority(shared, &question, verdict))
    });
    verdict.map_or_else(|error| json!({ "error": error.to_string() }), |verdict| verdict.to_json())
}

/// The verdict of the rules, or of the authority where no rule decides.
fn with_authority(
    shared: &SessionShared,
    question: &AccessQuestion<'_>,
    mut verdict: AccessVerdict,
) -> AccessVerdict {
    if verdict.rule.is_none() {
        let inquiry =
            Inquiry { flow: question.flow, kind: question.message, key: Some(question.key.clone()) };
        if let Some(answer) = shared.ask_authority(inquiry, &question.link) {
            verdict.allowed = answer.allowed;
            let word = if answer.allowed { "allows" } else { "denies" };
            verdict.reason = format!(
                "no rule for this link applies, and the authoriser {word} {} of {}",
                question.message.name(),
                question.key
            );
        }
    }
    verdict
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
    // Before the lock: a source may look at its session.
    let plugins = plugins(shared);
    let core = shared.core.lock();
    let mut links: Vec<(ZenohId, Vec<&Arc<LinkInfo>>)> = Vec::new();
    for link in core.connectivity.links() {
        match links.iter_mut().find(|(zid, _)| *zid == link.zid) {
            Some((_, known)) => known.push(link),
            None => links.push((link.zid, vec![link])),
        }
    }
    let mut counters = if with_stats { link_counters(&core) } else { LinkCounters::new() };
    let sessions: Vec<Value> = links
        .iter()
        .map(|(zid, links)| {
            let whatami = links[0].whatami;
            let ends: Vec<Value> = links
                .iter()
                .map(|link| {
                    let mut ends = json!({ "src": link.src, "dst": link.dst });
                    if let Some(counters) = take_counters(&mut counters, link) {
                        ends["stats"] = counters;
                    }
                    ends
                })
                .collect();
            let mut session =
                json!({ "peer": zid.to_string(), "whatami": whatami.to_string(), "links": ends });
            if let Some(group) = &links[0].group {
                session["group"] = group.as_str().into();
            } else {
                session["region"] = region(shared.config.mode, whatami).into();
                session["shm"] = links.iter().any(|link| link.lending).into();
                session["weight"] = weight(&core, *zid, whatami);
            }
            session
        })
        .collect();
    let locators: Vec<String> =
        shared.listening.lock().iter().map(|listening| listening.locator.clone()).collect();
    let mut root = json!({
        "zid": shared.zid.to_string(),
        "version": VERSION,
        "metadata": shared.live.metadata(),
        "locators": locators,
        "sessions": sessions,
        "plugins": plugins,
    });
    if with_stats && let Some(root) = root.as_object_mut() {
        let stats: Map<String, Value> =
            stats::collect(&core, shared).into_iter().map(|(name, value)| (name, value.into())).collect();
        root.insert("stats".into(), stats.into());
    }
    root
}

/// Counters of links by the node at the other end, which a group has not, and by the ends. Links of a node may have the
/// same ends: sockets of Unix have no name at the side of a client.
type LinkCounters = BTreeMap<(Option<ZenohId>, String, String), VecDeque<Value>>;

/// Counters of a link, each once; those of a group for each of its members.
fn take_counters(counters: &mut LinkCounters, link: &LinkInfo) -> Option<Value> {
    let (src, dst) = (link.src.clone(), link.dst.clone());
    let own = counters.get_mut(&(Some(link.zid), src.clone(), dst.clone())).and_then(VecDeque::pop_front);
    own.or_else(|| counters.get(&(None, src, dst)).and_then(|group| group.front().cloned()))
}

/// Counters and queue of each link.
fn link_counters(core: &SessionCore) -> LinkCounters {
    let report = |link: Arc<Link>| {
        let stats::LinkReport { zid, src, dst, age, counters, lanes, .. } = stats::link_report(&link);
        let mut told: Map<String, Value> =
            counters.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
        let sum = |of: fn(&LaneReport) -> usize| Value::from(lanes.iter().map(of).sum::<usize>());
        told.insert("waiting_bytes".into(), sum(|lane| lane.waiting_bytes));
        told.insert("capacity_bytes".into(), sum(|lane| lane.capacity_bytes));
        told.insert("seconds".into(), age.as_secs_f64().into());
        ((zid, src, dst), told.into())
    };
    let mut found = LinkCounters::new();
    for (ends, told) in core.links().into_iter().map(report) {
        found.entry(ends).or_default().push_back(told);
    }
    found
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
    let text = open_metrics(shared);
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

/// Counters in the text format of `OpenMetrics`: with the names of zenohd as far as it counts the same, and those of
/// the statistics.
pub(crate) fn open_metrics(shared: &SessionShared) -> String {
    let (stats, neighbours) = {
        let core = shared.core.lock();
        (stats::collect(&core, shared), Neighbours::of(&core))
    };
    metrics_text(&stats, &neighbours, shared.zid, shared.config.mode)
}

/// Nodes and links that a node has now.
#[derive(Debug, Default)]
struct Neighbours {
    nodes: usize,
    /// Number of links by protocol.
    links: BTreeMap<String, usize>,
}

impl Neighbours {
    fn of(core: &SessionCore) -> Self {
        let mut links = BTreeMap::new();
        for link in core.connectivity.links() {
            let protocol = link.src.split_once('/').map_or("", |(protocol, _)| protocol);
            *links.entry(protocol.to_owned()).or_default() += 1;
        }
        let nodes: BTreeSet<ZenohId> = core.connectivity.links().iter().map(|link| link.zid).collect();
        Self { nodes: nodes.len(), links }
    }
}

/// Families of zenohd (`zenoh-behaviour` 6.1) by the statistics that count the same.
const AS_ZENOHD: [(&str, &str); 4] = [
    ("tx_bytes", "link.tx_bytes"),
    ("rx_bytes", "link.rx_bytes"),
    ("tx_network_message", "link.tx_messages"),
    ("rx_network_message", "link.rx_messages"),
];

/// Families with a label for the last part of the names of their statistics.
const BY_REASON: [&str; 3] = ["session.dropped", "links.ended", "lending.failed"];

/// Family of a statistic, with its reason; `zwire.metrics` has the same.
fn family(name: &str) -> (&str, Option<&str>) {
    match name {
        "links" => ("links.open", None),
        "session.dropped.consolidation_overflow" => ("session.consolidation_overflow", None),
        _ => BY_REASON
            .into_iter()
            .find_map(|family| Some((family, Some(name.strip_prefix(family)?.strip_prefix('.')?))))
            .unwrap_or((name, None)),
    }
}

fn metrics_text(
    stats: &BTreeMap<String, u64>,
    neighbours: &Neighbours,
    zid: ZenohId,
    whatami: WhatAmI,
) -> String {
    let labels = format!("local_id=\"{zid}\",local_whatami=\"{whatami}\"");
    let mut text = format!(
        "# HELP zenoh_build Zenoh build version.\n# TYPE zenoh_build info\n\
         zenoh_build_info{{{labels},version=\"{VERSION}\"}} 1\n\
         # TYPE zenoh_transports_opened gauge\nzenoh_transports_opened{{{labels}}} {}\n\
         # TYPE zenoh_links_opened gauge\n",
        neighbours.nodes
    );
    // Writing to a `String` does not fail, here and below.
    for (protocol, links) in &neighbours.links {
        let _ = writeln!(text, "zenoh_links_opened{{{labels},protocol=\"{protocol}\"}} {links}");
    }
    for (name, of) in AS_ZENOHD {
        let value = stats.get(of).copied().unwrap_or(0);
        let _ = writeln!(text, "# TYPE zenoh_{name} counter\nzenoh_{name}_total{{{labels}}} {value}");
    }
    let mut families: BTreeMap<&str, Vec<(&str, u64)>> = BTreeMap::new();
    for (name, value) in stats {
        families.entry(family(name).0).or_default().push((name, *value));
    }
    for (of, samples) in families {
        let gauge = samples.iter().any(|(name, _)| stats::GAUGES.contains(name));
        let (kind, suffix) = if gauge { ("gauge", "") } else { ("counter", "_total") };
        let metric = format!("zwire_{}", of.replace('.', "_"));
        let _ = writeln!(text, "# TYPE {metric} {kind}");
        for (name, value) in samples {
            let reason = family(name).1.map(|reason| format!(",reason=\"{reason}\"")).unwrap_or_default();
            let _ = writeln!(text, "{metric}{suffix}{{{labels}{reason}}} {value}");
        }
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
        let stats = [
            ("link.tx_bytes", 9),
            ("links", 2),
            ("session.dropped.consolidation_overflow", 3),
            ("session.dropped.put_no_link", 7),
        ];
        let stats: BTreeMap<String, u64> =
            stats.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let neighbours = Neighbours { nodes: 1, links: BTreeMap::from([("tcp".to_owned(), 2)]) };
        let text = metrics_text(&stats, &neighbours, zid(0xa), WhatAmI::Router);
        let lines: Vec<&str> = text.lines().skip(3).collect();
        let at = |name: &str| lines.iter().position(|line| line.starts_with(name)).expect(name);
        assert_eq!(
            lines[..4],
            [
                "# TYPE zenoh_transports_opened gauge",
                "zenoh_transports_opened{local_id=\"a\",local_whatami=\"router\"} 1",
                "# TYPE zenoh_links_opened gauge",
                "zenoh_links_opened{local_id=\"a\",local_whatami=\"router\",protocol=\"tcp\"} 2",
            ]
        );
        assert_eq!(
            lines[at("zenoh_tx_bytes")],
            "zenoh_tx_bytes_total{local_id=\"a\",local_whatami=\"router\"} 9"
        );
        assert_eq!(
            lines[at("# TYPE zwire_links_open")..],
            [
                "# TYPE zwire_links_open gauge",
                "zwire_links_open{local_id=\"a\",local_whatami=\"router\"} 2",
                "# TYPE zwire_session_consolidation_overflow counter",
                "zwire_session_consolidation_overflow_total{local_id=\"a\",local_whatami=\"router\"} 3",
                "# TYPE zwire_session_dropped counter",
                "zwire_session_dropped_total{local_id=\"a\",local_whatami=\"router\",reason=\"put_no_link\"} 7",
                "# EOF"
            ]
        );
    }
}
