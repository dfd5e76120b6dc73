//! Nodes that stand for peers of other networks.
//!
//! Each has a mailbox and a connection to every peer of the LAN, so their number is bounded. Only the active bridge has
//! them. They are nodes of a bridge by their headers, so that no bridge takes them for peers of the LAN.

use crate::{
    net::Far,
    options::Mode,
    worker::{Kind, MIRROR_HEADER, Never, Worker},
};
use core::time::Duration;
use serde_json::Value;
use zwire_engine::{Handler, Replies, zre::Node};
use zwire_proto::{
    Text,
    zenoh::session::Get,
    zre::{Uuid, node::EventKind},
};

/// Time for which a peer is known before a node stands for it: a beacon period, in which a peer of that UUID on this LAN is
/// found.
const AGE: Duration = Duration::from_millis(1100);

/// Time for which the description of a peer is waited for. A program of Zenoh may have none.
const ASK: Duration = Duration::from_secs(1);

/// Nodes that start in one go: each takes a port, and greets all peers.
const AT_ONCE: usize = 8;

/// Descriptions that are asked for at once.
const ASKED: usize = 64;

/// Most headers, and most octets of a name or value, that a description can give a node.
const HEADERS: usize = 64;
const TEXT: usize = 255;

/// Description of a peer of another network.
pub(crate) enum Info {
    Unknown,
    Asked(Replies),
    Known {
        name: Option<String>,
        headers: Vec<(Text, Text)>,
    },
    /// A node stands for it, or none can at present.
    Refused,
}

/// Node that stands for a peer.
pub(crate) struct Virtual {
    pub(crate) node: Node,
}

impl Virtual {
    /// Joins or leaves a group.
    pub(crate) fn set_member(&self, group: &Text, is_member: bool) {
        let done = if is_member { self.node.join(group) } else { self.node.leave(group) };
        if let Err(error) = done {
            tracing::debug!(%group, %error, "a node of the mirror mode cannot join or leave a group");
        }
    }
}

/// Name and headers in a description. What is not of the form is left out.
fn read(json: &[u8]) -> (Option<String>, Vec<(Text, Text)>) {
    let short = |text: &&str| text.len() <= TEXT && !text.contains('\0');
    let info: Value = serde_json::from_slice(json).unwrap_or_default();
    let name = info.get("name").and_then(Value::as_str).filter(short).filter(|name| !name.is_empty());
    let headers = info.get("headers").and_then(Value::as_object).into_iter().flatten();
    let headers = headers.filter_map(|(name, value)| {
        let value = value.as_str().filter(short)?;
        let name = Some(name.as_str()).filter(short).filter(|name| !name.is_empty())?;
        Some((Text::from(name), Text::from(value)))
    });
    (name.map(str::to_owned), headers.take(HEADERS).collect())
}

impl Worker {
    /// Makes the nodes of peers that have none, as far as they are described.
    pub(crate) fn mirror(&mut self, now: Duration) {
        if self.mode != Mode::Mirror {
            return;
        }
        // Peers of this LAN are seen by the other bridges of this LAN as well.
        let (peers, election) = (&self.peers, &self.election);
        let is_near = |uuid: &Uuid, far: &Far| {
            peers.get(uuid).is_some_and(|peer| peer.kind == Kind::Real)
                || far.bridges.iter().all(|bridge| election.is_of_lan(now, *bridge))
        };
        let mut asked = self.far.values().filter(|far| matches!(far.info, Info::Asked(_))).count();
        let mut ready = Vec::new();
        for (uuid, far) in &mut self.far {
            let is_young = now.saturating_sub(far.since) < AGE;
            if is_young || self.virtuals.contains_key(uuid) || is_near(uuid, far) {
                continue;
            }
            match &far.info {
                Info::Unknown if asked < ASKED => {
                    let Some(key) = self.network.info(uuid) else { continue };
                    let get = Get { timeout: Some(ASK), ..Get::new(key) };
                    if let Ok((_, replies)) =
                        self.session.get(get, Handler::Fifo(16), &mut Never(&mut Default::default()))
                    {
                        far.info = Info::Asked(replies);
                        asked += 1;
                    }
                }
                Info::Asked(replies) => {
                    let reply = replies.queue.try_recv();
                    if let Ok(Some(reply)) = &reply
                        && let Ok(sample) = &reply.result
                    {
                        let (name, headers) = read(&sample.payload);
                        far.info = Info::Known { name, headers };
                    } else if reply.is_err() || replies.done.get().is_some() {
                        far.info = Info::Known { name: None, headers: Vec::new() };
                    }
                }
                Info::Known { .. } if ready.len() < AT_ONCE => ready.push(*uuid),
                _ => {}
            }
        }
        for uuid in ready {
            self.make_virtual(uuid);
        }
    }

    /// Ends the node that stands for a peer, if there is one. A peer that was refused has another chance: there is room.
    pub(crate) fn end_virtual(&mut self, uuid: &Uuid) {
        if self.virtuals.remove(uuid).is_none() {
            return;
        }
        // As long as it is known elsewhere, a node can stand for it again.
        if let Some(far) = self.far.get_mut(uuid) {
            far.info = Info::Unknown;
        }
        let virtuals = &self.virtuals;
        let mut refused = self.far.iter_mut();
        let refused =
            refused.find(|(uuid, far)| matches!(far.info, Info::Refused) && !virtuals.contains_key(*uuid));
        if let Some((_, far)) = refused {
            far.info = Info::Unknown;
        }
    }

    fn make_virtual(&mut self, uuid: Uuid) {
        let Some(far) = self.far.get_mut(&uuid) else { return };
        let Info::Known { name, headers } = core::mem::replace(&mut far.info, Info::Refused) else { return };
        if self.virtuals.len() >= self.most_virtual {
            self.shared.counters.mirror_failed.add(1);
            tracing::warn!(
                most = self.most_virtual,
                %uuid,
                "no node stands for this peer: the bridge has the most that its options allow"
            );
            return;
        }
        let mut options = self.template.clone();
        options.machine.uuid = uuid;
        options.machine.name = match name {
            Some(name) => name.as_str().into(),
            None => uuid.to_string()[..6].to_lowercase().as_str().into(),
        };
        let own = options.machine.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        options.machine.headers.extend(headers.into_iter().filter(|(name, _)| !own.contains(name)));
        options.machine.headers.push((MIRROR_HEADER.into(), "1".into()));
        // Ports of the node of the bridge are its own; its hub of gossip is a way to find this one.
        let own_hubs = core::mem::take(&mut options.gossip_bind);
        options.gossip_connect.extend(own_hubs);
        options.mailbox = zwire_engine::zre::options::MAILBOX_PORTS;
        options.machine.advertise = None;
        options.contest.clear();
        let rung = (self.rung.clone(), self.shared.clone());
        let started = Node::new(options).and_then(|node| {
            node.events().set_waker(Some(std::sync::Arc::new(move || {
                rung.0.lock().push(uuid);
                rung.1.bell.ring();
            })));
            for (group, members) in &self.groups {
                if members.far.contains(&uuid) {
                    node.join(group)?;
                }
            }
            node.start()?;
            Ok(node)
        });
        match started {
            Ok(node) => drop(self.virtuals.insert(uuid, Virtual { node })),
            Err(error) => {
                self.shared.counters.mirror_failed.add(1);
                tracing::warn!(%uuid, %error, "no node stands for this peer: it did not start");
            }
        }
    }

    /// WHISPERs to nodes that stand for peers. What else they hear, the node of the bridge hears as well.
    pub(crate) fn handle_virtual_events(&mut self, now: Duration) -> bool {
        if self.virtuals.is_empty() {
            self.rung.lock().clear();
            return false;
        }
        let rung = core::mem::take(&mut *self.rung.lock());
        let mut busy = false;
        for uuid in rung {
            let Some(node) = self.virtuals.get(&uuid) else { continue };
            let queue = node.node.events().clone();
            loop {
                let mut list = queue.take_many(1024, 4 << 20, usize::MAX);
                if list.is_empty() {
                    break;
                }
                busy = true;
                for event in list.drain(..) {
                    if let EventKind::Whisper { content } = event.event.kind {
                        self.handle_whisper(now, event.event.peer, Some(uuid), content);
                    }
                }
                queue.give_back(list);
            }
        }
        busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_of_strangers() {
        let (name, headers) =
            read(br#"{"name": "Ada", "headers": {"X-A": "1", "n": 2, "": "x"}, "groups": 5}"#);
        assert_eq!(name.as_deref(), Some("Ada"));
        assert_eq!(headers, [(Text::from("X-A"), Text::from("1"))]);
        for json in [&b"{"[..], b"[]", b"{\"name\": 5}", b"{\"name\": \"\"}", b"\xff"] {
            assert_eq!(read(json), (None, Vec::new()), "{json:?}");
        }
        let many: String = (0..1000).map(|at| format!("\"h{at}\": \"{}\",", "v".repeat(10))).collect();
        let json = format!("{{\"headers\": {{{many} \"long\": \"{}\"}}}}", "v".repeat(300));
        assert_eq!(read(json.as_bytes()).1.len(), HEADERS);
    }
}
