//! State of one face: its remote, key numbers, declarations, interests and requests.

use super::{
    FaceError, FaceId, FaceKind, FaceLimits, NodeMode,
    budget::{Account, NodeBudget, QUICK},
    routes::RouteCache,
    tables::{FaceEntity, ResourceId},
    waiting::WaitingAsker,
};
use crate::{
    Text,
    limits::MAX_WILD_KEYEXPR_LEN,
    zenoh::{
        KeyExpr, Remote, WhatAmI, ZenohId,
        entity::EntityKind,
        key_table::{KeyTable, NumberUse, NumbersByKey},
        wire::{InterestMode, Mapping, QueryableInfo, WireExpr},
    },
};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

/// Place of a face in the topology (`zenoh-behaviour` 5.1). No messages are forwarded within `Peers`,
/// except by a router between two peers that have no link of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Region {
    /// Clients, and sessions of this process.
    Clients,
    /// Peers.
    Peers,
    /// Routers: the gateways of a peer; the other routers of a router's network.
    Routers,
    /// Multicast groups, as targets of messages.
    Group,
    /// Members of multicast groups, as sources of messages.
    Members,
}

/// An interest in future declarations.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub(super) kinds: [bool; 3],
    /// `None`: any key.
    pub(super) key: Option<KeyExpr>,
    /// Whether one declaration, with exactly `key`, is wanted for all keys that intersect it.
    pub(super) aggregate: bool,
}

impl Watch {
    fn length(&self) -> usize {
        self.key.as_ref().map_or(0, |key| key.len())
    }

    pub(super) fn covers(&self, kind: EntityKind, key: &KeyExpr) -> bool {
        self.kinds[kind as usize] && self.key.as_ref().is_none_or(|k| k.intersects(key))
    }
}

/// An interest of a client of this node, forwarded to a gateway.
#[derive(Debug)]
pub(super) struct Forwarded {
    pub(super) asker: FaceId,
    /// The id that the asker chose.
    pub(super) id: u32,
    pub(super) mode: InterestMode,
    pub(super) watch: Watch,
    /// Whether the gateway has sent all existing declarations.
    pub(super) finished: bool,
}

/// Part of a face in multicast groups.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InGroup {
    /// Of a member: its group.
    pub(super) group: Option<FaceId>,
    /// Of a link: its node is a member, too. Of a member: its node has a link, too.
    pub(super) twice: bool,
    /// Of a group: some members are reached only there.
    pub(super) wanted: bool,
    /// Of a group: some members are known.
    pub(super) peopled: bool,
}

/// Declaration that a face has of this node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    /// `None`: the face asked for future declarations only, so that only the end will be sent.
    pub(super) id: Option<u32>,
    pub(super) info: QueryableInfo,
    /// Whether the key itself was declared, not only an aggregate on it.
    pub(super) exact: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) query: u64,
    pub(super) deadline: Duration,
}

#[derive(Debug)]
pub(super) struct Face {
    pub(super) remote: Remote,
    pub(super) region: Region,
    /// Whether the face is sent all declarations without asking: neighbours in a mesh.
    pub(super) told_all: bool,
    /// Whether all declarations of the face are known. Until then all data is sent to it.
    pub(super) finalized: bool,
    pub(super) up_since: Duration,
    pub(super) in_group: InGroup,

    /// The numbers that the face gave to keys; the other way round for what is sent to it.
    keys: KeyTable<KeyExpr, NumbersByKey<KeyExpr>>,

    pub(super) entities: [BTreeMap<FaceEntity, ResourceId>; 3],
    pub(super) watches: BTreeMap<u32, Watch>,
    /// Length of the keys of all watches together.
    pub(super) watched_bytes: usize,
    /// The same, of keys longer than [`QUICK`] alone.
    pub(super) watched_slow_bytes: usize,
    pub(super) announced: [BTreeMap<KeyExpr, Announced>; 3],
    next_id: u32,
    pub(super) account: Account,

    /// Requests forwarded to this face, by the request id used there.
    pub(super) pending: BTreeMap<u32, Pending>,
    next_rid: u32,
    /// Largest id of a request, as negotiated with the link.
    pub(super) max_rid: u32,
    pub(super) queries: BTreeSet<u64>,
    /// Interests of clients forwarded to this face, a gateway, by the ids used there.
    pub(super) forwarded: BTreeMap<u32, Forwarded>,
    /// Barriers forwarded to this face, by the ids used there, and the waiting sessions.
    pub(super) barriers: BTreeMap<u32, WaitingAsker>,

    pub(super) cache: RouteCache,

    /// From its link states: its numbers for nodes, and which of them are gateways.
    pub(super) psids: BTreeMap<u64, (ZenohId, bool)>,
    pub(super) link_state_sn: Option<u64>,
    /// Whether it has sent a link state.
    pub(super) introduced: bool,
    /// Nodes that it is linked to.
    pub(super) links: BTreeSet<ZenohId>,
    /// Its gateways among them.
    pub(super) gateways: BTreeSet<ZenohId>,
}

/// A face and its number.
pub(super) type FaceRef<'a> = (FaceId, &'a Face);

impl Face {
    pub(super) fn new(
        mode: NodeMode,
        remote: Remote,
        kind: FaceKind,
        now: Duration,
        limits: &FaceLimits,
    ) -> Self {
        let region = match remote.whatami {
            _ if kind == FaceKind::Local => Region::Clients,
            _ if kind == FaceKind::Group => Region::Group,
            _ if matches!(kind, FaceKind::Member { .. }) => Region::Members,
            WhatAmI::Client => Region::Clients,
            WhatAmI::Peer => Region::Peers,
            WhatAmI::Router => Region::Routers,
        };
        Self {
            remote,
            region,
            told_all: match region {
                Region::Peers | Region::Routers => mode == NodeMode::Peer,
                Region::Group => true,
                Region::Clients | Region::Members => false,
            },
            in_group: InGroup {
                group: if let FaceKind::Member { group } = kind { Some(group) } else { None },
                ..InGroup::default()
            },
            finalized: !(mode == NodeMode::Peer && region == Region::Peers),
            up_since: now,
            keys: KeyTable::default(),
            entities: Default::default(),
            watches: BTreeMap::new(),
            watched_bytes: 0,
            watched_slow_bytes: 0,
            announced: Default::default(),
            next_id: 1,
            account: Account::new(kind == FaceKind::Local),
            pending: BTreeMap::new(),
            next_rid: 1,
            max_rid: u32::MAX,
            queries: BTreeSet::new(),
            forwarded: BTreeMap::new(),
            barriers: BTreeMap::new(),
            cache: RouteCache::new(limits.route_cache_bytes),
            psids: BTreeMap::new(),
            link_state_sn: None,
            introduced: false,
            links: BTreeSet::new(),
            gateways: BTreeSet::new(),
        }
    }

    // ---- keys ----

    /// The full key of a message of this face; `None` for an unknown scope, an empty key, one that is
    /// not canonical, and one with wildcards that is too long. May share the memory of the message.
    pub(super) fn resolve(&self, wire: &WireExpr) -> Option<KeyExpr> {
        self.expand(wire).filter(|key| !key.is_wild() || key.len() <= MAX_WILD_KEYEXPR_LEN)
    }

    fn expand(&self, wire: &WireExpr) -> Option<KeyExpr> {
        if wire.scope == 0 {
            return KeyExpr::from_text(wire.suffix.clone()).ok();
        }
        // This node declares no key numbers, so a number with M=0 is always unknown.
        let prefix = match wire.mapping {
            Mapping::Sender => self.keys.get(wire.scope)?,
            Mapping::Receiver => return None,
        };
        if wire.suffix.is_empty() {
            return Some(prefix.clone());
        }
        // Plain concatenation, no `/` inserted; the result has to be canonical.
        KeyExpr::from_text(wire.joined_to(prefix)).ok()
    }

    /// Like [`Self::resolve`], in memory of its own: a stored key must not keep a receive buffer alive.
    pub(super) fn resolve_owned(&self, wire: &WireExpr) -> Option<KeyExpr> {
        let key = self.resolve(wire)?;
        if wire.scope == 0 { key.as_str().parse().ok() } else { Some(key) }
    }

    /// D_KEYEXPR. A number in use keeps its key, 0 cannot be used. Returns whether something changed.
    pub(super) fn declare_key(
        &mut self,
        id: u16,
        key: KeyExpr,
        budget: &mut NodeBudget,
        limits: &FaceLimits,
    ) -> Result<bool, FaceError> {
        let account = &mut self.account;
        let number = self.keys.declare(id, key, |key| budget.charge(account, key, limits))?;
        Ok(number == NumberUse::New)
    }

    /// U_KEYEXPR. Returns whether something changed.
    pub(super) fn undeclare_key(&mut self, id: u16, budget: &mut NodeBudget) -> bool {
        let Some(key) = self.keys.undeclare(id) else { return false };
        budget.refund(&mut self.account, &key);
        true
    }

    /// The numbers that the face has given, and their keys.
    pub(super) fn key_numbers(&self) -> Vec<(u16, KeyExpr)> {
        self.keys.iter().map(|(number, key)| (number, key.clone())).collect()
    }

    /// The wire form of `key` for this face: with the longest prefix that it has a number for.
    pub(super) fn wire_expr(&self, key: &KeyExpr) -> WireExpr {
        match self.keys.longest_prefix(key) {
            Some((scope, len)) => {
                WireExpr { scope, mapping: Mapping::Receiver, suffix: Text::from(&key[len..]) }
            }
            None => WireExpr::full(key.text().clone()),
        }
    }

    // ---- declarations ----

    /// The declaration with this id; with a key the one on that key.
    pub(super) fn entities_with_id(
        &self,
        kind: EntityKind,
        id: u32,
    ) -> impl DoubleEndedIterator<Item = (FaceEntity, ResourceId)> {
        let range = FaceEntity { id, nth: 0 }..=FaceEntity { id, nth: u32::MAX };
        self.entities[kind as usize].range(range).map(|(entity, resource)| (*entity, *resource))
    }

    /// An id for a declaration to this face: one counter for all kinds, from 1.
    pub(super) fn new_id(&mut self) -> u32 {
        let id = self.next_id;
        // After 2³² declarations ids repeat; the few still alive are then far behind.
        self.next_id = self.next_id.checked_add(1).unwrap_or(1);
        id
    }

    /// Adds a watch; returns the one that had its id.
    pub(super) fn watch(&mut self, id: u32, watch: Watch) -> Option<Watch> {
        let length = watch.length();
        self.watched_bytes += length;
        self.watched_slow_bytes += if length > QUICK { length } else { 0 };
        self.watches.insert(id, watch)
    }

    /// Takes a removed or replaced watch into account.
    pub(super) fn unwatched(&mut self, watch: &Watch) {
        let length = watch.length();
        self.watched_bytes -= length;
        self.watched_slow_bytes -= if length > QUICK { length } else { 0 };
    }

    /// Whether the face must be told when an entity on exactly `key` appears or vanishes.
    pub(super) fn watches_key(&self, kind: EntityKind, key: &KeyExpr) -> bool {
        self.told_all || self.watches.values().any(|w| !w.aggregate && w.covers(kind, key))
    }

    /// Whether `key` is the key of an aggregate interest of this face.
    pub(super) fn watches_aggregate(&self, kind: EntityKind, key: &KeyExpr) -> bool {
        self.watches.values().any(|w| w.aggregate && w.kinds[kind as usize] && w.key.as_ref() == Some(key))
    }

    /// Whether the face has a declaration of `key` with an id, for any reason and interest.
    pub(super) fn was_told(&self, kind: EntityKind, key: &KeyExpr) -> bool {
        self.announced[kind as usize].get(key).is_some_and(|known| known.id.is_some())
    }

    /// Keys with declarations at the face that may change when an entity on `key` changes.
    pub(super) fn concerned(&self, kind: EntityKind, key: &KeyExpr) -> BTreeSet<KeyExpr> {
        let mut keys = BTreeSet::new();
        if self.told_all || self.was_told(kind, key) {
            keys.insert(key.clone());
        }
        if self.told_all {
            return keys;
        }
        for watch in self.watches.values().filter(|w| w.covers(kind, key)) {
            match &watch.key {
                Some(k) if watch.aggregate => keys.insert(k.clone()),
                _ => keys.insert(key.clone()),
            };
        }
        keys
    }

    /// Declarations at the face due to `watch`, and possibly to others as well.
    pub(super) fn announced_for(&self, watch: &Watch) -> Vec<(EntityKind, KeyExpr)> {
        let mut keys = Vec::new();
        for kind in EntityKind::ALL {
            let told = self.announced[kind as usize].keys();
            let by_watch = told.filter(|key| {
                if watch.aggregate { watch.key.as_ref() == Some(key) } else { watch.covers(kind, key) }
            });
            if watch.kinds[kind as usize] {
                keys.extend(by_watch.map(|key| (kind, key.clone())));
            }
        }
        keys
    }

    // ---- requests ----

    /// Whether the face is a link of the network of routers that this node, a router, is in.
    pub(super) fn in_network(&self) -> bool {
        self.region == Region::Routers && !self.told_all
    }

    /// A request id that is not pending on this face; `None` if all that the link allows are.
    pub(super) fn new_rid(&mut self) -> Option<u32> {
        if self.pending.len() >= self.max_rid as usize {
            return None;
        }
        loop {
            let rid = self.next_rid;
            self.next_rid = if rid >= self.max_rid { 1 } else { rid + 1 };
            if !self.pending.contains_key(&rid) {
                return Some(rid);
            }
        }
    }
}

/// Whether declarations and data of `from` are forwarded to `to` (`zenoh-behaviour` 5.1, 5.3, 5.5).
pub(super) fn relays(mode: NodeMode, from: FaceRef<'_>, to: FaceRef<'_>) -> bool {
    if from.0 == to.0 {
        return false;
    }
    match (mode, from.1.region, to.1.region) {
        // Messages for members go to the group's face; nothing is forwarded between groups.
        (_, _, Region::Members) | (_, Region::Members | Region::Group, Region::Group) => false,
        (_, Region::Clients, Region::Group) | (_, Region::Members | Region::Group, Region::Clients) => true,
        // A node with both a link and a membership sends and receives in the group itself.
        (NodeMode::Router, Region::Peers, Region::Group) => !from.1.in_group.twice,
        (NodeMode::Router, Region::Members | Region::Group, Region::Peers) => !to.1.in_group.twice,
        (_, Region::Members | Region::Group, _) | (_, _, Region::Group) => false,
        (_, Region::Clients, Region::Clients) => true,
        (NodeMode::Router, Region::Clients, Region::Peers)
        | (NodeMode::Router, Region::Peers, Region::Clients) => true,
        // Peers with a link of their own would get everything twice.
        (NodeMode::Router, Region::Peers, Region::Peers) => !linked(from.1, to.1),
        // Between routers all messages follow trees, not links.
        (NodeMode::Router, Region::Routers, _) | (NodeMode::Router, _, Region::Routers) => false,
        // A peer forwards for its clients, not for its neighbours.
        (NodeMode::Peer, Region::Clients, _) | (NodeMode::Peer, _, Region::Clients) => true,
        (NodeMode::Peer, _, _) => false,
    }
}

/// Whether two peers are linked; the announcement of one end is enough.
fn linked(a: &Face, b: &Face) -> bool {
    a.links.contains(&b.remote.zid) || b.links.contains(&a.remote.zid)
}
