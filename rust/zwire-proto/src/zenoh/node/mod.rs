//! The routing machine of a router or of a peer (`zenoh-behaviour` 4 and 5).
//!
//! A [`Node`] knows faces: each is a link to another node, or a session of the same process. It stores
//! the declarations of each face, sends each face the declarations that it is interested in, and
//! forwards data, queries and replies.
//!
//! | File | Content |
//! | --- | --- |
//! | `face` | one face: its keys, entities, interests, requests; forwarding rules |
//! | `budget` | what declarations and matching may cost, and the shares of faces |
//! | `tables`, `trie` | declarations of all faces, by key |
//! | `declare`, `interest` | declarations in, announcements out |
//! | `gradual` | work on thousands of declarations, in steps |
//! | `push`, `routes` | data, and cached routes |
//! | `query` | requests, replies, ends |
//! | `waiting` | interests, queries and groups with a deadline |
//! | `gossip`, `gossip_table` | information about nodes for neighbours, and the links of a peer |
//! | `gateway` | a peer and its router |
//! | `group` | multicast groups, and which nodes are only reached there |
//! | `network` | the routers of a network, their links, their trees |
//! | `review` | declarations under rules that have changed |
//! | `routers` | declarations to routers, and the ways of data and queries among them |

mod barrier;
mod budget;
mod config;
mod declare;
mod error;
mod event;
mod face;
mod gateway;
mod gossip;
mod gossip_table;
mod gradual;
mod group;
mod ids;
mod interest;
#[cfg(any(test, feature = "fuzzing"))]
mod invariant;
mod network;
mod push;
mod query;
mod report;
mod review;
mod routers;
mod routes;
mod stats;
mod tables;
#[cfg(test)]
mod tests;
mod trie;
mod waiting;

pub use config::{FaceKind, FaceLimits, GossipConfig, NodeConfig, NodeMode};
pub use error::FaceError;
pub use event::NodeEvent;
pub use ids::FaceId;
pub use report::{Declarers, GraphReport, Topic};
pub use review::Review;
pub use stats::NodeStats;

use super::{
    Hlc, Reliability, Remote,
    wire::{Declaration, NetworkMessage, Resolution},
};
use crate::{Now, Text};
use budget::NodeBudget;
use core::time::Duration;
use event::Events;
use face::{Face, Region};
use gossip_table::GossipTable;
use gradual::GradualWork;
use network::Network;
use std::collections::{BTreeMap, VecDeque};
use tables::Tables;
use waiting::{Groups, RoutedQueries, WaitingRoom};

/// Outgoing messages for which a queue keeps room.
const MANY_OUT: usize = 4096;

/// The tables of a node and the rules that work on them.
///
/// | Family | Methods |
/// | --- | --- |
/// | input | [`handle_face_up`](Self::handle_face_up), [`handle_message`](Self::handle_message), [`handle_face_down`](Self::handle_face_down), [`handle_timeout`](Self::handle_timeout) |
/// | output | [`poll_transmit`](Self::poll_transmit) until `None`, [`poll_event`](Self::poll_event) likewise, then [`poll_timeout`](Self::poll_timeout) |
/// | command | [`set_locators`](Self::set_locators) |
/// | getter | [`config`](Self::config), [`stats`](Self::stats), [`remote`](Self::remote), [`count_matching`](Self::count_matching), [`declarers`](Self::declarers), [`routers`](Self::routers), [`neighbours`](Self::neighbours) |
///
/// After each input, drain [`poll_transmit`](Self::poll_transmit): the queue of outputs is bounded by
/// the effects of one input, which are one message per face for data, and one per declared key for an
/// interest. Outputs for one face must keep their order; those for different faces may be reordered.
#[derive(Debug)]
pub struct Node {
    config: NodeConfig,
    /// Time of the last input except data.
    mono: Duration,
    faces: BTreeMap<FaceId, Face>,
    tables: Tables,
    budget: NodeBudget,
    work: GradualWork,
    /// Incremented by each change that may alter a route of data.
    version: u64,
    queries: RoutedQueries,
    /// Interests that wait with D_FINAL for other nodes, by asker and interest id.
    waiting: WaitingRoom,
    groups: Groups,
    /// Barriers that wait for neighbours.
    barriers: WaitingRoom,
    hlc: Option<Hlc>,
    /// Clock for instrumentation, separate from the clock of timestamps.
    stamps: Hlc,
    network: Network,
    gossip: GossipTable,
    out: VecDeque<(FaceId, NetworkMessage, Reliability)>,
    events: Events,
    stats: NodeStats,
}

impl Node {
    /// A node without faces.
    #[must_use]
    pub fn new(config: NodeConfig) -> Self {
        Self {
            mono: Duration::ZERO,
            faces: BTreeMap::new(),
            tables: Tables::new(),
            budget: NodeBudget::default(),
            work: GradualWork::default(),
            version: 0,
            queries: RoutedQueries::default(),
            waiting: WaitingRoom::default(),
            groups: Groups::default(),
            barriers: WaitingRoom::default(),
            stamps: Hlc::new(config.zid),
            hlc: config.timestamping.then(|| Hlc::with_max_delta(config.zid, config.max_drift)),
            network: Network::new(&config),
            gossip: GossipTable::default(),
            out: VecDeque::new(),
            events: Events::default(),
            stats: NodeStats::default(),
            config,
        }
    }

    /// A link to `remote` is open, or a session of this process has started. An existing face of that
    /// number is taken down first.
    pub fn handle_face_up(&mut self, now: Now, id: FaceId, remote: Remote, kind: FaceKind) {
        self.mono = now.mono;
        self.handle_face_down(now, id);
        self.finish_leaving(id);
        let face = Face::new(self.config.mode, remote, kind, now.mono, &self.config.limits);
        let (told_all, region) = (face.told_all, face.region);
        self.budget.open(&face.account);
        self.faces.insert(id, face);
        self.version += 1;
        self.greet(now, id);
        let is_told = !told_all || self.tell_all(id);
        self.join_groups(now, id);
        match region {
            // Until it gets this, a peer sends all its data.
            Region::Peers if told_all && is_told => self.send_declare(id, Some(0), Declaration::Final),
            Region::Routers if told_all => self.ask_all(id),
            _ => {}
        }
    }

    /// Keeps the ids of requests to a face within the range negotiated with its link.
    pub fn limit_request_ids(&mut self, id: FaceId, resolution: Resolution) {
        if let Some(face) = self.faces.get_mut(&id) {
            face.max_rid = resolution.request_id_mask();
        }
    }

    /// The link is lost or closed, the session has ended. The declarations of the face are withdrawn,
    /// requests to it end, and its own requests are dropped. An unknown face is ignored.
    pub fn handle_face_down(&mut self, now: Now, id: FaceId) {
        self.mono = now.mono;
        let Some(face) = self.faces.get_mut(&id) else { return };
        let account = &face.account;
        self.work.note_freed(account.bytes());
        let announced = face.account.announced;
        self.budget.withdraw(&mut face.account, announced);
        // The face is sent no more messages, not even about its own end.
        face.told_all = false;
        face.watches.clear();
        (face.watched_bytes, face.watched_slow_bytes) = (0, 0);
        face.announced = Default::default();
        let (region, remote) = (face.region, face.remote);
        self.drop_queries_of(id);
        self.waiting.remove_all(id);
        self.withdraw_forwarded(id, None);
        self.stop_waiting_for(id);
        self.drop_barriers_of(id);
        if let Some(face) = self.faces.remove(&id) {
            self.budget.close(&face.account);
            self.withdraw_gradually(id, face);
        }
        self.tables.take_work();
        self.events.ready.remove(&id);
        self.version += 1;
        self.leave_groups(id);
        if matches!(region, Region::Peers | Region::Routers) {
            self.part(now, id, remote);
        }
    }

    /// Memory in bytes of the declarations that were withdrawn with their faces since the last call.
    pub fn take_freed(&mut self) -> usize {
        self.work.take_freed()
    }

    /// Handles `message` of a face.
    ///
    /// # Errors
    /// An error that closes the connection of the face; see [`FaceError`]. The first part of an answer, queued
    /// for the face before the error, is dropped.
    pub fn handle_message(
        &mut self,
        now: Now,
        id: FaceId,
        message: NetworkMessage,
        reliability: Reliability,
    ) -> Result<(), FaceError> {
        self.mono = now.mono;
        // Of timers and of the session of this process.
        self.tables.take_work();
        let member = self.faces.get(&id).is_some_and(|face| face.region == Region::Members);
        let queued = self.out.len();
        let result = match message {
            // Replies to these would have no way back.
            NetworkMessage::Request(_) | NetworkMessage::Interest(_) if member => {
                self.stats.ignored += 1;
                Ok(())
            }
            NetworkMessage::Push(_) => self.handle_push(now, id, message, reliability),
            NetworkMessage::Request(request) => self.handle_request(now, id, request, reliability),
            NetworkMessage::Response(response) => self.handle_response(now, id, response, reliability),
            NetworkMessage::ResponseFinal(end) => self.handle_response_final(id, end.id),
            NetworkMessage::Declare(declare) => self.handle_declare(id, declare),
            NetworkMessage::Interest(interest) => self.handle_interest(now, id, &interest),
            NetworkMessage::Oam(oam) => self.handle_oam(now, id, &oam),
        };
        self.charge_matching(now, id);
        if result.is_err() {
            let new = self.out.split_off(queued);
            self.out.extend(new.into_iter().filter(|(to, ..)| *to != id));
        }
        result
    }

    /// Charges a face for the comparisons of its input.
    fn charge_matching(&mut self, now: Now, id: FaceId) {
        let work = self.tables.take_work();
        if work > 0
            && let Some(face) = self.faces.get_mut(&id)
        {
            let waits = self.budget.spend(now.mono, id, &mut face.account, work);
            self.stats.matching_waits += u64::from(waits);
        }
    }

    /// After an input of a face: the time until which the driver leaves its further messages unread. That is in
    /// the future if the face has used its time for matching, and now if this input took long, so that other
    /// faces come first.
    #[inline]
    pub fn take_wait(&mut self, id: FaceId) -> Option<Duration> {
        self.budget.take_wait(id)
    }

    /// Call at the time of [`Self::poll_timeout`]. An earlier call is harmless.
    pub fn handle_timeout(&mut self, now: Now) {
        self.handle_timeout_where(now, &|_| true);
    }

    /// As [`Self::handle_timeout`]; `has_room` tells whether a face has room for the next messages of a long answer.
    pub fn handle_timeout_where(&mut self, now: Now, has_room: &dyn Fn(FaceId) -> bool) {
        self.mono = now.mono;
        self.step(now, has_room);
        self.expire_queries(now);
        self.expire_interests(now);
        self.retell_groups(now);
        self.expire_barriers(now);
        self.grow_trees(now);
    }

    /// Sets the locators on which the node listens and announces them to its neighbours. The first call
    /// follows the binding of the listeners.
    pub fn set_locators(&mut self, now: Now, locators: Vec<Text>) {
        if self.config.locators != locators {
            self.config.locators = locators;
            self.tell_locators(now);
        }
    }

    /// Whether neither [`Self::poll_transmit`] nor [`Self::poll_event`] has anything.
    #[inline]
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.out.is_empty() && self.events.is_empty()
    }

    /// The next event; after each input until `None`. Events that are not polled are bounded: per node
    /// the last one is kept, for at most [`MAX_LINK_STATES`](crate::limits::MAX_LINK_STATES) nodes.
    pub fn poll_event(&mut self) -> Option<NodeEvent> {
        self.events.pop()
    }

    /// The next message to send, and its face.
    pub fn poll_transmit(&mut self) -> Option<(FaceId, NetworkMessage, Reliability)> {
        self.out.pop_front()
    }

    /// Takes all messages at once in exchange for an empty queue, without moving them. Equivalent to
    /// [`Self::poll_transmit`] until it returns `None`.
    pub fn take_transmits(&mut self, into: &mut VecDeque<(FaceId, NetworkMessage, Reliability)>) {
        debug_assert!(into.is_empty(), "what was taken before has to be passed on first");
        // Often the other queue is the larger one, and both are used in turns.
        if into.capacity() > 2 * MANY_OUT && self.out.len() < MANY_OUT {
            into.shrink_to(MANY_OUT);
        }
        core::mem::swap(&mut self.out, into);
    }

    /// Deadline of [`Self::handle_timeout`], on the monotonic clock.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        [
            self.queries.next_deadline(),
            self.waiting.next_deadline(),
            self.groups.next_deadline(),
            self.barriers.next_deadline(),
            self.network.next_deadline(),
            self.work.next_deadline(self.mono),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &NodeConfig {
        &self.config
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> NodeStats {
        self.stats
    }

    /// Queues a message on the reliable channel.
    fn send(&mut self, to: FaceId, message: NetworkMessage) {
        self.out.push_back((to, message, Reliability::Reliable));
    }

    /// The faces that fit, in ascending order.
    fn faces_where(&self, fits: impl Fn(FaceId, &Face) -> bool) -> Vec<FaceId> {
        self.faces.iter().filter(|(id, face)| fits(**id, face)).map(|(id, _)| *id).collect()
    }

    /// The remote of a face; `None`: unknown face.
    #[must_use]
    pub fn remote(&self, id: FaceId) -> Option<Remote> {
        self.faces.get(&id).map(|face| face.remote)
    }
}
