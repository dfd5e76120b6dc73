//! Reports about the state of a node, for the admin space (`zenoh-behaviour` 6.1).

use super::{Node, NodeMode, face::Region, ids::RouterIx};
use crate::zenoh::{KeyExpr, WhatAmI, ZenohId, entity::EntityKind};
use std::collections::{BTreeMap, BTreeSet};

/// Kind of declaration to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Subscribers.
    Subscribers,
    /// Publishers: interests in subscribers.
    Publishers,
    /// Queryables.
    Queryables,
    /// Queriers: interests in queryables.
    Queriers,
    /// Liveliness tokens.
    Tokens,
}

impl Topic {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Subscribers, Self::Publishers, Self::Queryables, Self::Queriers, Self::Tokens];

    const fn kind(self) -> EntityKind {
        match self {
            Self::Subscribers | Self::Publishers => EntityKind::Subscriber,
            Self::Queryables | Self::Queriers => EntityKind::Queryable,
            Self::Tokens => EntityKind::Token,
        }
    }
}

/// Nodes that declared an entity on a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declarers {
    /// Routers; the node itself, if it is a router and any of its faces did, and a peer's gateway.
    pub routers: BTreeSet<ZenohId>,
    /// Peers; the node itself, if it is a peer and its session or a client did.
    pub peers: BTreeSet<ZenohId>,
    /// Clients, and the session of the node itself.
    pub clients: BTreeSet<ZenohId>,
}

/// Nodes and their links, from link states.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphReport {
    /// Ids of nodes; this node is the first.
    pub nodes: Vec<ZenohId>,
    /// Links between indices of nodes, each once, with their weights.
    pub links: Vec<(usize, usize, f64)>,
}

impl Node {
    /// All declarations of one kind, by key.
    #[must_use]
    pub fn declarers(&self, topic: Topic) -> BTreeMap<KeyExpr, Declarers> {
        match topic {
            Topic::Publishers | Topic::Queriers => self.interested(topic.kind()),
            Topic::Subscribers | Topic::Queryables | Topic::Tokens => self.declaring(topic.kind()),
        }
    }

    fn interested(&self, kind: EntityKind) -> BTreeMap<KeyExpr, Declarers> {
        let mut all: BTreeMap<KeyExpr, Declarers> = BTreeMap::new();
        for face in self.faces.values() {
            let wishes = face.watches.values().filter(|watch| watch.kinds[kind as usize]);
            for key in wishes.filter_map(|watch| watch.key.as_ref()) {
                let declarers = all.entry(key.clone()).or_default();
                match face.region {
                    Region::Clients => declarers.clients.insert(face.remote.zid),
                    _ => declarers.peers.insert(face.remote.zid),
                };
            }
        }
        all
    }

    fn declaring(&self, kind: EntityKind) -> BTreeMap<KeyExpr, Declarers> {
        let mut all = BTreeMap::new();
        for resource in self.tables.all() {
            let mut declarers = Declarers::default();
            for face in resource.entities(kind).filter_map(|(id, _)| self.faces.get(&id)) {
                let zid = face.remote.zid;
                match face.region {
                    Region::Clients => declarers.clients.insert(zid),
                    Region::Routers => declarers.routers.insert(zid),
                    _ => declarers.peers.insert(zid),
                };
            }
            let spoken_for = !declarers.clients.is_empty() || !declarers.peers.is_empty();
            match self.config.mode {
                NodeMode::Router if spoken_for => drop(declarers.routers.insert(self.config.zid)),
                NodeMode::Peer if !declarers.clients.is_empty() => {
                    declarers.peers.insert(self.config.zid);
                }
                _ => {}
            }
            let far = resource.routers(kind).filter_map(|(ix, _)| self.network.get(ix));
            declarers.routers.extend(far.map(|router| router.zid));
            if declarers != Declarers::default() {
                all.insert(resource.key.clone(), declarers);
            }
        }
        all
    }

    /// The network of routers, as far as this node knows it.
    #[must_use]
    pub fn routers(&self) -> GraphReport {
        let (numbers, links) = self.network.links_of_all();
        let place: BTreeMap<RouterIx, usize> = numbers.iter().copied().zip(0..).collect();
        let zid = |ix: &RouterIx| self.network.get(*ix).map(|router| router.zid);
        GraphReport {
            nodes: numbers.iter().filter_map(zid).collect(),
            links: links
                .into_iter()
                .filter_map(|(a, b, w)| Some((*place.get(&a)?, *place.get(&b)?, w)))
                .collect(),
        }
    }

    /// This node and the peers that it is linked to.
    #[must_use]
    pub fn peers(&self) -> GraphReport {
        self.linked(&[Region::Peers])
    }

    /// This node and the nodes it is linked to, except clients.
    #[must_use]
    pub fn neighbours(&self) -> GraphReport {
        self.linked(&[Region::Peers, Region::Routers])
    }

    fn linked(&self, regions: &[Region]) -> GraphReport {
        let others = self.faces.values().filter(|face| regions.contains(&face.region));
        let own = core::iter::once(self.config.zid);
        GraphReport { nodes: own.chain(others.map(|face| face.remote.zid)).collect(), links: Vec::new() }
    }

    /// Next hops between routers: source, destination, next.
    pub fn successors(&mut self) -> Vec<(ZenohId, ZenohId, ZenohId)> {
        let (numbers, _) = self.network.links_of_all();
        let mut all = Vec::new();
        for source in &numbers {
            for destination in numbers.iter().filter(|ix| **ix != super::network::OWN) {
                let next = self.network.successor(*source, *destination);
                let zid = |ix: RouterIx| self.network.get(ix).map(|router| router.zid);
                if let (Some(a), Some(b), Some(next)) = (zid(*source), zid(*destination), next.and_then(zid))
                {
                    all.push((a, b, next));
                }
            }
        }
        all
    }

    /// Weights that this router and that neighbour announce for their link; 0 is none.
    #[must_use]
    pub fn weights(&self, neighbour: ZenohId) -> Option<(u16, u16)> {
        self.network.weights_of(neighbour, self.config.zid)
    }

    /// The role of this node.
    #[must_use]
    pub fn whatami(&self) -> WhatAmI {
        self.config.mode.into()
    }
}
