//! ZRE node: finds peers, keeps a session with each, tracks their groups (RFC 20, 36, 43; `zre` 11,
//! 15).
//!
//! | File | Content |
//! | --- | --- |
//! | `discovery` | beacons and other sources of peers; leaving |
//! | `sessions` | HELLO, sequences, restarts, recovery after a loss |
//! | `groups` | joining, leaving, whispering, shouting; the groups of others |
//! | `liveness` | evasive, silent, expired; failed connections |
//! | `election` | leaders of groups |
//! | `named` | configured endpoints with unknown nodes |
//! | `log` | ZRE/LOG |
//! | `diary` | ignored messages, and the reasons |
//!
//! | Family | Methods |
//! | --- | --- |
//! | input | [`handle_beacon`](ZreNode::handle_beacon), [`handle_found`](ZreNode::handle_found), [`handle_endpoint`](ZreNode::handle_endpoint), [`handle_resolved`](ZreNode::handle_resolved), [`handle_dealer_connected`](ZreNode::handle_dealer_connected), [`handle_message`](ZreNode::handle_message), [`handle_attempt_failed`](ZreNode::handle_attempt_failed), [`handle_dealer_failed`](ZreNode::handle_dealer_failed), [`handle_timeout`](ZreNode::handle_timeout) |
//! | command | [`join`](ZreNode::join), [`leave`](ZreNode::leave), [`whisper`](ZreNode::whisper), [`shout`](ZreNode::shout), [`contest`](ZreNode::contest), [`stop`](ZreNode::stop) |
//! | output | [`poll_action`](ZreNode::poll_action), [`poll_event`](ZreNode::poll_event), [`poll_timeout`](ZreNode::poll_timeout) |
//! | getter | [`peers`](ZreNode::peers), [`peers_of`](ZreNode::peers_of), [`peer_groups`](ZreNode::peer_groups), [`peer_address`](ZreNode::peer_address), [`peer_headers`](ZreNode::peer_headers), [`own_groups`](ZreNode::own_groups), [`stats`](ZreNode::stats), [`ignored`](ZreNode::ignored) |
//!
//! After each input or command, drain `poll_action` and `poll_event`, then arm a timer with
//! `poll_timeout`. One input causes at most one message per peer, or one event per group of a peer.

mod config;
mod diary;
mod discovery;
mod election;
mod error;
mod groups;
mod liveness;
mod log;
mod named;
mod peer;
mod sessions;
mod speakers;
mod stats;
#[cfg(test)]
mod tests;
mod types;

pub use config::{Interface, ZreNodeConfig};
pub use diary::{Ignored, Reason, Source};
pub use error::NodeError;
pub use speakers::{ContestEnd, SpeakerAdmission, SpeakerId, SpeakerLink, Speakers};
pub use stats::ZreNodeStats;
pub use types::{Action, DealerId, Delivery, EventKind, Origin, Shouted, ZreEvent};

use super::{
    Generation, Uuid,
    wire::{Address, Body, Hello, Stencil, ZreMessage},
    z85,
};
use crate::{Now, Text};
use bytes::Bytes;
use core::{net::IpAddr, time::Duration};
use diary::Diary;
use discovery::Newcomers;
use election::Election;
use named::{EndpointWay, Named};
use peer::{KnownPeer, PeerDealer, lossy, short_name};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Node of a ZRE network; see the [module](self).
#[derive(Debug)]
pub struct ZreNode {
    config: ZreNodeConfig,
    peers: BTreeMap<Uuid, KnownPeer>,
    /// Peer of each endpoint to which a DEALER goes.
    endpoints: HashMap<Bytes, Uuid>,
    dealers: HashMap<DealerId, EndpointWay>,
    /// Endpoints of the configuration.
    named: BTreeMap<Bytes, Named>,
    /// Next deadline of the configured endpoints.
    next_named: Option<Duration>,
    /// Endpoint that has been sent a PING, and the time until which an answer counts as its own.
    probed: Option<(Bytes, Duration)>,
    /// New nodes that beacons have announced.
    newcomers: Newcomers,
    /// Peers without a HELLO, oldest first.
    unanswered: BTreeSet<(Duration, Uuid)>,
    /// Peers of the first generations that expired here or were dropped, and may still have a session with this
    /// node, with their endpoints.
    given_up: BTreeMap<Uuid, Bytes>,
    groups: BTreeSet<Text>,
    /// Members of each group.
    members: BTreeMap<Text, BTreeSet<Uuid>>,
    /// Peers with a session that began with the header `early` of the configuration in HELLO.
    early: BTreeSet<Uuid>,
    status: u8,
    /// Own endpoints, by interface.
    own_endpoints: Vec<Bytes>,
    /// Encoded HELLO by generation and own endpoint; valid until the own groups change.
    hellos: Vec<(Generation, Bytes, Stencil)>,
    next_dealer: u64,
    next_beacon: Option<Duration>,
    /// Time of the last message of the application.
    last_sent: Option<Duration>,
    /// Next deadline of each peer: never later than its first due timer, often earlier, since a sign of
    /// life does not move it.
    deadlines: BTreeSet<(Duration, Uuid)>,
    /// After a goodbye to peers of the first generations: time until which this node stays silent.
    quiet_until: Option<Duration>,
    /// The last restart for peers of the first generations, and the pause before the next one.
    restarted: Option<(Duration, Duration)>,
    /// Time of the next restart, for peers that were dropped since the last one.
    restart_at: Option<Duration>,
    /// After `stop`: number of goodbyes left.
    goodbyes: Option<u8>,
    stopped: bool,
    elections: BTreeMap<Text, Election>,
    collectors: BTreeMap<Bytes, BTreeSet<Uuid>>,
    actions: VecDeque<Action>,
    events: VecDeque<ZreEvent>,
    stats: ZreNodeStats,
    diary: Diary,
    /// Number of times that a peer was checked.
    #[cfg(test)]
    checks: u64,
}

impl ZreNode {
    /// A node that sends beacons from the first [`handle_timeout`](Self::handle_timeout) on.
    ///
    /// # Errors
    /// A configuration that cannot be announced to peers.
    pub fn new(now: Now, config: ZreNodeConfig) -> Result<Self, NodeError> {
        if config.interfaces.is_empty() && config.advertise.is_none() {
            return Err(NodeError::NoAddress);
        }
        if let Some(endpoint) = &config.advertise
            && split_endpoint(endpoint.as_bytes()).is_none()
        {
            return Err(NodeError::Endpoint { endpoint: endpoint.clone() });
        }
        if config.generations.iter().next().is_none() {
            return Err(NodeError::NoGeneration);
        }
        if let Some(key) = config.public_key {
            if config.generations.iter().any(Generation::is_legacy) {
                return Err(NodeError::SecureLegacy);
            }
            if key[0] == 0 {
                return Err(NodeError::KeyBeginsWithZero);
            }
        }
        let node = Self {
            next_beacon: config.beacon_interval.map(|_| now.mono),
            peers: BTreeMap::new(),
            endpoints: HashMap::new(),
            dealers: HashMap::new(),
            named: BTreeMap::new(),
            next_named: None,
            probed: None,
            newcomers: Newcomers::default(),
            unanswered: BTreeSet::new(),
            given_up: BTreeMap::new(),
            groups: BTreeSet::new(),
            members: BTreeMap::new(),
            early: BTreeSet::new(),
            status: 0,
            own_endpoints: Self::endpoints_of(&config),
            hellos: Vec::new(),
            next_dealer: 0,
            last_sent: None,
            deadlines: BTreeSet::new(),
            quiet_until: None,
            restarted: None,
            restart_at: None,
            goodbyes: None,
            stopped: false,
            elections: BTreeMap::new(),
            collectors: BTreeMap::new(),
            actions: VecDeque::new(),
            events: VecDeque::new(),
            stats: ZreNodeStats::default(),
            diary: Diary::default(),
            #[cfg(test)]
            checks: 0,
            config,
        };
        for generation in node.config.generations.iter() {
            node.hello(generation, None).encode(generation)?;
        }
        Ok(node)
    }

    // Outputs.

    /// The next action.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ZreEvent> {
        self.events.pop_front()
    }

    /// Deadline of [`handle_timeout`](Self::handle_timeout), in monotonic time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let check = self.deadlines.first().map(|(at, _)| *at);
        [self.next_beacon, self.next_named, self.restart_at, check].into_iter().flatten().min()
    }

    // Getters.

    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> &ZreNodeConfig {
        &self.config
    }

    /// The counters.
    #[must_use]
    pub const fn stats(&self) -> &ZreNodeStats {
        &self.stats
    }

    /// Recently ignored messages, and the reasons.
    #[must_use]
    pub fn ignored(&self) -> &[Ignored] {
        self.diary.entries()
    }

    /// Whether the last goodbye was sent.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Peers that have entered.
    pub fn peers(&self) -> impl Iterator<Item = Uuid> {
        self.peers.iter().filter(|(_, peer)| peer.session.is_some()).map(|(uuid, _)| *uuid)
    }

    /// Peers that are members of a group.
    pub fn peers_of(&self, group: &str) -> impl Iterator<Item = Uuid> {
        self.members.get(group).into_iter().flatten().copied()
    }

    /// All groups that have peers as members.
    #[must_use]
    pub fn peer_groups(&self) -> BTreeSet<Text> {
        self.members.keys().cloned().collect()
    }

    /// The endpoint of a peer, from its HELLO.
    #[must_use]
    pub fn peer_address(&self, peer: &Uuid) -> Option<&Text> {
        Some(&self.peers.get(peer)?.session.as_ref()?.address)
    }

    /// The name of a peer.
    #[must_use]
    pub fn peer_name(&self, peer: &Uuid) -> Option<&Text> {
        Some(&self.peers.get(peer)?.session.as_ref()?.name)
    }

    /// Monotonic time of the last message or beacon of a peer.
    #[must_use]
    pub fn peer_heard(&self, peer: &Uuid) -> Option<Duration> {
        let peer = self.peers.get(peer)?;
        peer.beaconed.into_iter().chain([peer.heard]).max()
    }

    /// The DEALER to a peer, if there is one.
    #[must_use]
    pub fn dealer_of(&self, peer: &Uuid) -> Option<DealerId> {
        Some(self.peers.get(peer)?.dealer.as_ref()?.id)
    }

    /// The headers of a peer.
    #[must_use]
    pub fn peer_headers(&self, peer: &Uuid) -> Option<&[(Text, Text)]> {
        Some(&self.peers.get(peer)?.session.as_ref()?.headers)
    }

    /// The generation that a peer speaks.
    #[must_use]
    pub fn peer_generation(&self, peer: &Uuid) -> Option<Generation> {
        Some(self.peers.get(peer)?.session.as_ref()?.generation)
    }

    /// The endpoint that is announced to a peer of an unknown network.
    #[must_use]
    pub fn endpoint(&self) -> Bytes {
        self.own_endpoint(None)
    }

    /// The groups that this node is in.
    pub fn own_groups(&self) -> impl Iterator<Item = &Text> {
        self.groups.iter()
    }

    // Shared by the parts.

    /// The endpoint that is announced to a peer at `remote`.
    fn own_endpoint(&self, remote: Option<IpAddr>) -> Bytes {
        self.own_endpoints.get(self.nearest(remote)).cloned().unwrap_or_default()
    }

    /// The position of that endpoint among those of this node.
    fn nearest(&self, remote: Option<IpAddr>) -> usize {
        let near = |interface: &Interface| remote.is_some_and(|remote| interface.contains(remote));
        match self.config.advertise {
            Some(_) => 0,
            None => self.config.interfaces.iter().position(near).unwrap_or(0),
        }
    }

    /// Candidates for [`Self::own_endpoint`].
    fn endpoints_of(config: &ZreNodeConfig) -> Vec<Bytes> {
        match &config.advertise {
            Some(endpoint) => vec![Bytes::copy_from_slice(endpoint.as_bytes())],
            None => config.interfaces.iter().map(|at| endpoint_of(at.address, config.mailbox)).collect(),
        }
    }

    /// Sends HELLO; all peers of a generation and a network get the same octets.
    fn greet(&mut self, dealer: &mut PeerDealer, peer: Option<Uuid>, remote: Option<IpAddr>) {
        let endpoint = self.own_endpoint(remote);
        let generation = dealer.generation;
        let known = self.hellos.iter().position(|hello| hello.0 == generation && hello.1 == endpoint);
        let at = known.unwrap_or(self.hellos.len());
        if known.is_none() {
            let body = self.hello(generation, remote).body;
            // Encoding was checked when the node started, and with each group that it joined.
            let Ok(stencil) = Stencil::new(generation, &body) else { return };
            self.hellos.push((generation, endpoint, stencil));
        }
        dealer.announced = u16::try_from(self.nearest(remote)).ok();
        let frames = self.hellos[at].2.frames(dealer.count(), &[]);
        self.stats.messages_out += 1;
        self.actions.push_back(Action::Send { dealer: dealer.id, peer, frames });
    }

    /// The first message of a session.
    fn hello(&self, generation: Generation, remote: Option<IpAddr>) -> ZreMessage {
        let endpoint = self.own_endpoint(remote);
        let collector = self.config.collector.as_ref().map(|collector| self.collector(collector, &endpoint));
        let address = match split_endpoint(&endpoint) {
            Some((ip, port)) if generation.is_legacy() => Address::Mailbox { ip, port },
            _ => Address::Endpoint(endpoint),
        };
        let octets = |text: &Text| Bytes::copy_from_slice(text.as_bytes());
        let mut headers: Vec<(Bytes, Bytes)> =
            self.config.headers.iter().map(|(name, value)| (octets(name), octets(value))).collect();
        if let Some(endpoint) = collector {
            headers.push((Bytes::from_static(Hello::LOG_COLLECTOR), endpoint));
        }
        if let Some(key) = &self.config.public_key {
            let key = Bytes::copy_from_slice(&z85::encode_key(key));
            headers.push((Bytes::from_static(Hello::PUBLIC_KEY), key));
        }
        let body = Body::Hello(Hello {
            address,
            groups: self.groups.iter().map(octets).collect(),
            status: self.status,
            name: if generation.is_legacy() { Bytes::new() } else { octets(&self.config.name) },
            headers,
        });
        ZreMessage { sequence: 1, body }
    }

    /// The endpoint of the collector for peers that reach the mailbox at `mailbox`.
    fn collector(&self, collector: &Text, mailbox: &[u8]) -> Bytes {
        let host = |endpoint: &[u8]| endpoint.iter().rposition(|octet| *octet == b':');
        let own = collector.as_bytes();
        match (host(own), host(mailbox)) {
            (Some(port), Some(end)) if self.config.collector_everywhere => {
                Bytes::from([&mailbox[..end], &own[port..]].concat())
            }
            _ => Bytes::copy_from_slice(own),
        }
    }

    /// Checks that a group can be sent to peers of all configured generations.
    fn check_group(&self, group: &Text) -> Result<(), NodeError> {
        let group = Bytes::copy_from_slice(group.as_bytes());
        for generation in self.config.generations.iter() {
            let join = Body::Join { group: group.clone(), status: 0 };
            ZreMessage { sequence: 1, body: join }.encode(generation)?;
        }
        Ok(())
    }

    fn event(&mut self, uuid: &Uuid, kind: EventKind) {
        let (name, address) = match self.peers.get(uuid) {
            Some(peer) => {
                let name = peer.session.as_ref().map(|session| session.name.clone());
                (name.unwrap_or_else(|| short_name(uuid)), peer.address())
            }
            None if *uuid == self.config.uuid => (self.config.name.clone(), lossy(&self.own_endpoint(None))),
            None => (short_name(uuid), Text::EMPTY),
        };
        let session = self.peers.get(uuid).and_then(|peer| peer.session.as_ref());
        let sequence = session.and_then(|session| match &kind {
            EventKind::MessagesLost { .. } => Some(session.expected),
            EventKind::Enter { .. }
            | EventKind::Join { .. }
            | EventKind::Leave { .. }
            | EventKind::Whisper { .. }
            | EventKind::Shout { .. } => Some(session.expected.wrapping_sub(1)),
            EventKind::Exit
            | EventKind::Evasive
            | EventKind::Silent
            | EventKind::Leader { .. }
            | EventKind::Stop => None,
        });
        let (generation, status) = session.map(|session| (session.generation, session.status)).unzip();
        self.events.push_back(ZreEvent { peer: *uuid, name, address, generation, sequence, status, kind });
    }

    fn add_member(&mut self, group: &Text, uuid: &Uuid) {
        match self.members.get_mut(group) {
            Some(members) => _ = members.insert(*uuid),
            None => _ = self.members.insert(group.clone(), BTreeSet::from([*uuid])),
        }
    }

    fn remove_member(&mut self, group: &Text, uuid: &Uuid) {
        let Some(members) = self.members.get_mut(group) else { return };
        members.remove(uuid);
        if members.is_empty() {
            self.members.remove(group);
        }
    }

    /// Moves the deadline of a peer forward to that time, unless it is earlier already.
    fn wake(&mut self, uuid: &Uuid, at: Duration) {
        let Some(peer) = self.peers.get_mut(uuid) else { return };
        if peer.due.is_none_or(|due| at < due) {
            peer.due.into_iter().for_each(|due| _ = self.deadlines.remove(&(due, *uuid)));
            peer.due = Some(at);
            self.deadlines.insert((at, *uuid));
        }
    }

    fn check_running(&self) -> Result<(), NodeError> {
        if self.goodbyes.is_some() || self.stopped { Err(NodeError::Stopped) } else { Ok(()) }
    }
}

/// `tcp://ip:port`, an IPv6 address in brackets.
fn endpoint_of(ip: IpAddr, port: u16) -> Bytes {
    Bytes::from(format!("tcp://{}", core::net::SocketAddr::new(ip, port)))
}

/// Host and port of `tcp://host:port`.
fn split_endpoint(endpoint: &[u8]) -> Option<(Bytes, u16)> {
    let text = core::str::from_utf8(endpoint).ok()?.strip_prefix("tcp://")?;
    let (host, port) = text.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return None;
    }
    Some((Bytes::copy_from_slice(host.as_bytes()), port.parse().ok()?))
}

/// The address in `tcp://ip:port`; a name has none.
fn ip_of(endpoint: &[u8]) -> Option<IpAddr> {
    let (host, _) = split_endpoint(endpoint)?;
    core::str::from_utf8(&host).ok()?.parse().ok()
}
