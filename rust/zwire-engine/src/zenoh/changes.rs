//! Changes of the configuration of an open session: by writes to the admin space (`zenoh-behaviour` 6.1), and by a
//! file that is read again.
//!
//! A change is validated as a whole, with the rest of the configuration. It is applied at once, or refused with the
//! path and the reason; both are logged, and the last ones can be read in the admin space.

use crate::{
    config::{BUILT_IN, Config, ConfigError, Connect, NodeConfig, Target},
    error::Error,
    net::io::{Io, group_of},
    rt::clock,
    zenoh::{
        connect::{dial::Failures, keep},
        core::Side,
        gate::Ticket,
        intercept::asking,
        link::Link,
        live::{Current, Kept, LIVE},
        shared::SessionShared,
    },
};
use serde_json::{Map, json};
use std::sync::Arc;
use tokio::sync::oneshot;
use zwire_proto::zenoh::{
    KeyExpr, Reliability, WhatAmI, ZenohId,
    intercept::{Ingress, Interceptor},
    node::FaceId,
    session::{Sample, SampleKind},
    wire::{CloseReason, Del, NetworkMessage, Push, PushBody, Put, WireExpr},
};

/// Keys of [`LIVE`] that only routers and peers can change: the rules of links, and the nodes to connect to.
const OF_NODES: &[&str] =
    &["access_control", "connect/endpoints", "downsampling", "low_pass_filter", "qos/network"];

/// Path below which a delete closes the links to a node: `zwire/links/<id>`.
const LINKS: &str = "zwire/links/";

/// Most characters of a path, a value or a reason in the log of changes: the 128 that are kept take no more than 2 MiB.
const SHOWN: usize = 1024;

/// Plugins of `zwire router` that no session acts on.
const OF_ROUTER: &[&str] = &["rest", "remote_api"];

/// Payload of the put that a sender has to be able to send after its change: about as long as the value of a key.
const PROBE: &[u8] = &[0; 16];

/// Attachment of a write that is applied even if its sender can write nothing more afterwards.
const FORCE: &[u8] = b"force";

/// Refused change.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    path: String,
    reason: String,
}

fn refuse(path: &str, reason: impl Into<String>) -> Refusal {
    Refusal { path: path.to_owned(), reason: reason.into() }
}

/// Sender of a change, as far as this node knows it.
struct Sender {
    /// The link that the write came by, and the node there or the member of its group; `None` for this node itself, and
    /// for a link that is gone.
    link: Option<(Arc<Link>, ZenohId)>,
    text: String,
}

impl Sender {
    fn own(text: &str) -> Self {
        Self { link: None, text: text.to_owned() }
    }

    fn of(shared: &SessionShared, sample: &Sample) -> Self {
        if sample.link == 0 {
            return Self::own("this session");
        }
        let core = shared.core.lock();
        let link = match &core.side {
            Side::Client(link) => link.as_ref().map(|link| (link.clone(), link.params.remote)),
            Side::Node(side) => {
                let face = FaceId(sample.link);
                let link = side.links.get(&face).or_else(|| side.members.get(&face));
                link.cloned().zip(side.node.remote(face))
            }
        };
        let Some((link, remote)) = link else {
            let locator = core.origins.locator(sample.link);
            return Self::own(locator.as_deref().unwrap_or("a link that has ended"));
        };
        let name = link.auth_identifier().map(|name| format!(" as {name}")).unwrap_or_default();
        let source = sample.source_info.as_ref().filter(|source| source.zid != remote.zid);
        let source = source.map(|source| format!(", published by {}", source.zid)).unwrap_or_default();
        let text = format!("{} {} at {}{name}{source}", remote.whatami, remote.zid, link.peer);
        Self { link: Some((link, remote.zid)), text }
    }
}

/// Keeps a session with the node at one of `targets`, until a change of the configuration takes them away. Returns
/// the outcome of the first session.
pub(crate) fn keep_connected(
    shared: &Arc<SessionShared>,
    targets: Vec<Target>,
    ticket: Option<Ticket>,
) -> oneshot::Receiver<Result<(), Failures>> {
    let (sender, first) = oneshot::channel();
    let current = Current::default();
    let weak = Arc::downgrade(shared);
    let task = keep::keep_connected(weak, targets.clone(), ticket, sender, current.clone());
    let task = shared.spawn(task);
    shared.live.with_kept(|kept| kept.push(Kept { targets, task, current }));
    first
}

/// Applies a write to `@/<zid>/<role>/config/<path>`, or refuses it.
pub(crate) fn write(shared: &Arc<SessionShared>, sample: &Sample) {
    let key = sample.key.as_str();
    let Some((_, path)) = key.split_once("/config/") else { return };
    let sender = Sender::of(shared, sample);
    let forced = sample.attachment.as_deref() == Some(FORCE);
    let _turn = shared.live.turn();
    let before = shared.live.tree();
    let outcome = apply_write(shared, &before, (path, sample), &sender, forced);
    record(shared, &before, path, &sender, outcome);
}

fn apply_write(
    shared: &Arc<SessionShared>,
    before: &Config,
    (path, sample): (&str, &Sample),
    sender: &Sender,
    forced: bool,
) -> Result<(), Refusal> {
    if !shared.live.admin().write {
        return Err(refuse(path, "adminspace/permissions/write is false"));
    }
    if path.contains('*') {
        return Err(refuse(path, "a path of a configuration has no wildcards"));
    }
    let value = match sample.kind {
        SampleKind::Delete => None,
        SampleKind::Put => {
            let bytes = sample.payload.clone().into_bytes();
            let text = core::str::from_utf8(&bytes).map_err(|_| refuse(path, "the value is not UTF-8"))?;
            Some(Config::parse_json5(text).map_err(|error| refuse(path, error.to_string()))?)
        }
    };
    if let Some(zid) = path.strip_prefix(LINKS) {
        return close_links(shared, path, (zid, value.is_some()), sender, forced);
    }
    let after = before.edited(path, value).map_err(|error| refused(path, &error))?;
    let locked_out = |config: &NodeConfig| {
        if forced { None } else { lockout(shared, config, sender, (sample.kind, &sample.key)) }
    };
    change(shared, before, after, path, locked_out)
}

fn refused(path: &str, error: &ConfigError) -> Refusal {
    refuse(error.path().unwrap_or(path), error.to_string())
}

/// Reason for which a key cannot change now.
fn fixed(shared: &SessionShared, path: &str) -> Option<String> {
    let is_in = |branches: &[&str]| {
        let rest = branches.iter().find_map(|branch| path.strip_prefix(branch));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if !is_in(LIVE) {
        return Some("it needs a restart".to_owned());
    }
    if shared.config.mode == WhatAmI::Client && is_in(OF_NODES) {
        return Some("a client needs a restart for it".to_owned());
    }
    let name = path.strip_prefix("plugins/")?.split('/').next()?;
    match shared.live.section(name).is_some() {
        true => None,
        false if OF_ROUTER.contains(&name) => Some(format!(
            "the HTTP server of plugin {name} changes by SIGHUP of zwire router, or by a restart"
        )),
        false if BUILT_IN.contains(&name) => Some(format!("plugin {name} does not run, or needs a restart")),
        false => Some(format!("nothing here does the work of plugin {name}")),
    }
}

/// Validates and applies a changed configuration. `path` is named if an error has no path of its own.
fn change(
    shared: &Arc<SessionShared>,
    before: &Config,
    after: Config,
    path: &str,
    locked_out: impl FnOnce(&NodeConfig) -> Option<String>,
) -> Result<(), Refusal> {
    let differences = after.differences(before);
    for key in &differences {
        if let Some(reason) = fixed(shared, key) {
            return Err(refuse(key, reason));
        }
    }
    let config = after.resolve().map_err(|error| refused(path, &error))?;
    if differences.iter().any(|key| key == "connect/endpoints") {
        let present = before.resolve().map_err(|error| refused(path, &error))?;
        if !groups(&present.connect).eq(groups(&config.connect)) {
            let reason = "groups of multicast are joined when a node starts: it needs a restart";
            return Err(refuse("connect/endpoints", reason));
        }
    }
    for target in config.connect.targets() {
        Io::check(target, &config.link).map_err(|reason| {
            refuse("connect/endpoints", format!("{}: {reason}", target.endpoint.locator()))
        })?;
    }
    if let Some(reason) = locked_out(&config) {
        return Err(refuse(
            path,
            format!("it would lock out its sender: {reason}; the attachment `force` applies it nevertheless"),
        ));
    }
    for key in &differences {
        let Some(name) = key.strip_prefix("plugins/") else { continue };
        if let Some(section) = shared.live.section(name) {
            let value = |config: &Config| config.find(key).cloned().unwrap_or_default();
            section(&value(before), &value(&after)).map_err(|reason| refuse(key, reason))?;
        }
    }
    if shared.rules.in_force().configured != config.intercept {
        after.warn_of_rules().map_err(|error| refused(path, &error))?;
        shared.replace_rules(config.intercept.clone());
    }
    if let Some(users) = &config.usrpwd.dictionary {
        shared.set_users(users);
    }
    if shared.config.mode != WhatAmI::Client {
        reconnect(shared, &config.connect);
    }
    shared.live.set(after, config.adminspace);
    Ok(())
}

/// The multicast groups among the nodes to connect to.
fn groups(connect: &Connect) -> impl Iterator<Item = &Target> {
    connect.targets().filter(|target| group_of(target).is_some())
}

/// Reason for which the sender could write nothing more under a configuration.
fn lockout(
    shared: &SessionShared,
    config: &NodeConfig,
    sender: &Sender,
    (kind, key): (SampleKind, &KeyExpr),
) -> Option<String> {
    let (link, zid) = sender.link.as_ref()?;
    if !config.adminspace.write {
        return Some("adminspace/permissions/write would be false".to_owned());
    }
    let (body, name) = match kind {
        SampleKind::Put => (PushBody::Put(Put::new(PROBE)), "put"),
        SampleKind::Delete => (PushBody::Del(Del::default()), "delete"),
    };
    // As the rules of a link see it: with the namespace of this session.
    let outer = match &shared.config.namespace {
        Some(namespace) => format!("{namespace}/{key}"),
        None => key.to_string(),
    };
    let mut message = NetworkMessage::Push(Push::new(WireExpr::full(outer), body));
    let policy = asking(&config.intercept, shared.rules.in_force().authority.is_some());
    let comes = link.with_facts(Some(*zid), |facts| {
        let Some(mut rules) = Interceptor::new(&policy, facts) else { return true };
        match rules.ingress_asking(clock::now(), &mut message, Reliability::Reliable, None) {
            Ingress::Pass => true,
            Ingress::Refused => false,
            Ingress::Ask(inquiry) => {
                shared.ask_authority(inquiry, facts).is_some_and(|answer| answer.allowed)
            }
        }
    });
    if !comes {
        return Some(format!("the rules of its link would refuse its {name} of {key}"));
    }
    let wanted: Vec<Vec<Target>> = keep::independent(&config.connect).collect();
    let is_own = |kept: &Kept| {
        let current = kept.current.get();
        !wanted.contains(&kept.targets) && current.is_some_and(|current| Arc::ptr_eq(&current, link))
    };
    shared
        .live
        .with_kept(|all| all.iter().any(is_own))
        .then(|| format!("the link to it, {}, would close", link.peer))
}

/// Connects to new endpoints, and closes the links to those that are gone.
fn reconnect(shared: &Arc<SessionShared>, connect: &Connect) {
    let mut wanted: Vec<Vec<Target>> = keep::independent(connect).collect();
    let gone: Vec<Kept> = shared.live.with_kept(|all| {
        let (kept, gone) = core::mem::take(all).into_iter().partition(|kept| {
            let place = wanted.iter().position(|targets| *targets == kept.targets);
            place.map(|place| wanted.remove(place)).is_some()
        });
        *all = kept;
        gone
    });
    for Kept { task, current, .. } in gone {
        task.abort();
        if let Some(link) = current.end() {
            end(&link);
        }
    }
    for targets in wanted {
        // No caller waits for the outcome: the log tells of failures.
        drop(keep_connected(shared, targets, None));
    }
}

fn end(link: &Link) {
    link.finish(CloseReason::GENERIC);
    link.close();
}

/// Closes the links to a node.
fn close_links(
    shared: &SessionShared,
    path: &str,
    (zid, is_put): (&str, bool),
    sender: &Sender,
    forced: bool,
) -> Result<(), Refusal> {
    if is_put {
        return Err(refuse(path, "links end by a delete; connect/endpoints makes new ones"));
    }
    let zid: ZenohId = zid.parse().map_err(|_| refuse(path, "the last part is no id of a node"))?;
    let links = shared.core.lock().links();
    let links: Vec<_> =
        links.into_iter().filter(|link| !link.is_group() && link.params.remote.zid == zid).collect();
    if links.is_empty() {
        return Err(refuse(path, "there is no link to this node"));
    }
    let own = |link: &Arc<Link>| sender.link.as_ref().is_some_and(|(own, _)| Arc::ptr_eq(own, link));
    if !forced && links.iter().any(own) {
        return Err(refuse(
            path,
            "it would close the link of its sender; the attachment `force` applies it nevertheless",
        ));
    }
    links.iter().for_each(|link| end(link));
    Ok(())
}

/// Logs a change, and remembers it.
fn record(
    shared: &SessionShared,
    before: &Config,
    path: &str,
    sender: &Sender,
    outcome: Result<(), Refusal>,
) {
    let after = shared.live.tree();
    // The nearest key: below it there may be a secret that only its name in the whole value reveals.
    let shown =
        |config: &Config| cut(&nearest(path).and_then(|key| config.shown(key).ok()).unwrap_or_default());
    let time = clock::now().wall.as_secs();
    let mut change = Map::new();
    change.insert("time".into(), time.into());
    let from = cut(&sender.text);
    change.insert("sender".into(), from.as_str().into());
    change.insert("path".into(), cut(path).into());
    let applied = outcome.is_ok();
    match outcome {
        Ok(()) => {
            let (before, after) = (shown(before), shown(&after));
            tracing::info!(sender = from, path, before, after, "the configuration was changed");
            change.insert("before".into(), before.into());
            change.insert("after".into(), after.into());
        }
        Err(Refusal { path: at, reason }) => {
            let (at, reason) = (cut(&at), cut(&reason));
            tracing::warn!(sender = from, at, reason, "refusing a change of the configuration");
            change.insert("refused".into(), json!({ "path": at, "reason": reason }));
        }
    }
    shared.live.remember(change.into(), applied);
}

/// Cuts a long text.
fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The longest part of a path that a configuration has; `None` for a path without one.
fn nearest(path: &str) -> Option<&str> {
    if path.starts_with(LINKS) {
        return None;
    }
    if path.starts_with("plugins/") {
        // A section, which a default configuration has not.
        return path.match_indices('/').map(|(end, _)| &path[..end]).nth(1).or(Some(path));
    }
    let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
    let known = Config::default();
    ends.map(|end| &path[..end]).rfind(|part| known.get(part).is_ok())
}

/// Applies a whole configuration, as far as a session can change while it is open. Returns what needs a restart,
/// with the reasons; an error if the rest is refused, and nothing has changed.
pub(crate) fn reconfigure(shared: &Arc<SessionShared>, wanted: &Config) -> Result<Vec<String>, Error> {
    wanted.resolve()?;
    let _turn = shared.live.turn();
    let before = shared.live.tree();
    let (mut after, mut restart) = (before.clone(), Vec::new());
    for key in wanted.differences(&before) {
        match fixed(shared, &key) {
            Some(reason) => restart.push(format!("{key} ({reason})")),
            None => {
                let value = wanted.get(&key).ok().filter(|value| !value.is_null()).cloned();
                after = after.edited(&key, value)?;
            }
        }
    }
    let sender = Sender::own("a configuration that was read again");
    let changed = after.differences(&before);
    match change(shared, &before, after, "", |_| None) {
        Err(Refusal { path, reason }) => {
            let told = reason.strip_prefix(&format!("`{path}`: ")).unwrap_or(&reason).to_owned();
            record(shared, &before, "", &sender, Err(refuse(&path, reason)));
            Err(ConfigError::Refused { path, reason: told }.into())
        }
        Ok(()) => {
            changed.iter().for_each(|path| record(shared, &before, path, &sender, Ok(())));
            Ok(restart)
        }
    }
}
