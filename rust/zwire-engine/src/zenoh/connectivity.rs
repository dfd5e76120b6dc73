//! Connected nodes: links as reported to the application, and events when they come up or go down.

use crate::{
    net::interfaces::interfaces_with,
    rt::queue::{Queue, Weigh},
    zenoh::link::{Link, LinkEnd},
};
use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};
use zwire_proto::zenoh::{Priority, Reliability, WhatAmI, ZenohId};

/// Description of a link, for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// The node at the other end.
    pub zid: ZenohId,
    /// Role of that node.
    pub whatami: WhatAmI,
    /// Whether each priority is a channel of its own.
    pub qos: bool,
    /// Local end, as a locator.
    pub src: String,
    /// Remote end, as a locator.
    pub dst: String,
    /// Multicast group, as a locator.
    pub group: Option<String>,
    /// Largest batch, in bytes.
    pub mtu: u16,
    /// Whether the link is a byte stream.
    pub streamed: bool,
    /// Whether both ends have agreed on shared memory.
    pub lending: bool,
    /// Names of the interfaces that have the local address.
    pub interfaces: Vec<String>,
    /// User name with which the peer has authenticated itself.
    pub user: Option<String>,
    /// First and last priority that the link carries.
    pub priorities: Option<(Priority, Priority)>,
    /// Reliability of the link: whether messages arrive unless it ends.
    pub reliability: Reliability,
}

impl LinkInfo {
    /// Describes an established link.
    #[must_use]
    pub fn of(link: &Link) -> Self {
        let params = &link.params;
        let all = params.qos.then_some((Priority::Control, Priority::Background));
        let reliable = if link.is_reliable() { Reliability::Reliable } else { Reliability::BestEffort };
        Self {
            zid: params.remote.zid,
            whatami: params.remote.whatami,
            qos: params.qos,
            src: link.local.clone(),
            dst: link.peer.clone(),
            group: None,
            mtu: params.batch_size,
            streamed: params.streamed,
            lending: params.is_lending(),
            interfaces: link.addresses.map_or_else(Vec::new, |(local, _)| interfaces_with(local.ip())),
            user: link.auth_identifier().map(str::to_owned),
            priorities: params.qos_link.priorities.or(all),
            reliability: params.qos_link.reliability.unwrap_or(reliable),
        }
    }
}

/// Change of a link, or of all links with a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Connected for the first time.
    Connected,
    /// Connected again: a client's next link, or a link with a node that was connected before.
    Reconnected,
    /// Disconnected, and why.
    Disconnected(LinkEnd),
}

impl Change {
    /// Short name of the change, for programs.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Reconnected => "reconnected",
            Self::Disconnected(_) => "disconnected",
        }
    }

    /// Reason of a disconnection.
    #[must_use]
    pub const fn end(&self) -> Option<&LinkEnd> {
        if let Self::Disconnected(end) = self { Some(end) } else { None }
    }
}

/// Event: a node was connected or disconnected.
#[derive(Clone, Debug)]
pub struct TransportEvent {
    /// Kind of change.
    pub change: Change,
    /// The first link with the node, or the last one.
    pub link: Arc<LinkInfo>,
}

/// Event: a link came up or went down.
#[derive(Clone, Debug)]
pub struct LinkEvent {
    /// Kind of change.
    pub change: Change,
    /// The link.
    pub link: Arc<LinkInfo>,
}

impl Weigh for TransportEvent {
    fn weight(&self) -> usize {
        size_of::<Self>()
    }
}

impl Weigh for LinkEvent {
    fn weight(&self) -> usize {
        size_of::<Self>()
    }
}

/// Most nodes that are remembered after their links are gone; the newest are kept.
const REMEMBERED: usize = 4096;

/// Links that are up, nodes seen before, and listeners to their changes.
#[derive(Default)]
pub(crate) struct Connectivity {
    /// Set for clients, which have one link after the other.
    one_link: bool,
    links: Vec<Arc<LinkInfo>>,
    known: HashSet<ZenohId>,
    /// Nodes seen before, in the order of their first link.
    met: VecDeque<ZenohId>,
    listeners: Vec<(u64, ConnectivityListener)>,
    last: u64,
    /// Number of times that a known node has connected again.
    pub(crate) reconnected: u64,
    /// Number of ended links, by [`LinkEnd::word`].
    pub(crate) ended: [u64; LinkEnd::WORDS.len()],
}

enum ConnectivityListener {
    Transports(Arc<Queue<TransportEvent>>),
    Links(Arc<Queue<LinkEvent>>),
}

impl Connectivity {
    pub(crate) fn new(one_link: bool) -> Self {
        Self { one_link, ..Self::default() }
    }

    /// Links that are up.
    pub(crate) fn links(&self) -> &[Arc<LinkInfo>] {
        &self.links
    }

    /// Records that a link came up.
    pub(crate) fn up(&mut self, link: Arc<LinkInfo>) {
        let first = !self.links.iter().any(|known| known.zid == link.zid);
        let again = self.known.contains(&link.zid) || self.one_link && !self.known.is_empty();
        if self.known.insert(link.zid) {
            self.met.push_back(link.zid);
            if self.met.len() > REMEMBERED
                && let Some(oldest) = self.met.pop_front()
            {
                self.known.remove(&oldest);
            }
        }
        self.links.push(link.clone());
        self.reconnected += u64::from(first && again);
        let change = if first && again { Change::Reconnected } else { Change::Connected };
        self.tell(&link, first, &change);
    }

    /// Records that a link went down.
    pub(crate) fn down(&mut self, link: &LinkInfo, end: LinkEnd) {
        let Some(at) = self.links.iter().position(|known| **known == *link) else { return };
        let link = self.links.swap_remove(at);
        if let Some(word) = LinkEnd::WORDS.iter().position(|word| *word == end.word()) {
            self.ended[word] += 1;
        }
        let last = !self.links.iter().any(|known| known.zid == link.zid);
        self.tell(&link, last, &Change::Disconnected(end));
    }

    /// Notifies the listeners. Link events precede the event of their node when links end, and follow it
    /// when they come up.
    fn tell(&self, link: &Arc<LinkInfo>, transport: bool, change: &Change) {
        let up = !matches!(change, Change::Disconnected(_));
        for turn in [up, !up] {
            for (_, listener) in &self.listeners {
                match listener {
                    ConnectivityListener::Transports(queue) if turn && transport => {
                        give(queue, TransportEvent { change: change.clone(), link: link.clone() });
                    }
                    ConnectivityListener::Links(queue) if !turn => {
                        give(queue, LinkEvent { change: change.clone(), link: link.clone() });
                    }
                    _ => {}
                }
            }
        }
    }

    pub(crate) fn listen_transports(&mut self, queue: Arc<Queue<TransportEvent>>, history: bool) -> u64 {
        let mut told = HashSet::new();
        for link in self.links.iter().filter(|link| history && told.insert(link.zid)) {
            give(&queue, TransportEvent { change: Change::Connected, link: link.clone() });
        }
        self.listen(ConnectivityListener::Transports(queue))
    }

    pub(crate) fn listen_links(&mut self, queue: Arc<Queue<LinkEvent>>, history: bool) -> u64 {
        for link in self.links.iter().filter(|_| history) {
            give(&queue, LinkEvent { change: Change::Connected, link: link.clone() });
        }
        self.listen(ConnectivityListener::Links(queue))
    }

    fn listen(&mut self, listener: ConnectivityListener) -> u64 {
        self.last += 1;
        self.listeners.push((self.last, listener));
        self.last
    }

    /// Removes one listener.
    pub(crate) fn forget(&mut self, id: u64) {
        if let Some(at) = self.listeners.iter().position(|(known, _)| *known == id) {
            end(self.listeners.swap_remove(at).1);
        }
    }

    /// Removes all listeners without events: the session is closed.
    pub(crate) fn close(&mut self) {
        self.listeners.drain(..).for_each(|(_, listener)| end(listener));
    }
}

fn give<T: Weigh>(queue: &Queue<T>, event: T) {
    queue.push(event);
    queue.signal();
}

fn end(listener: ConnectivityListener) {
    match listener {
        ConnectivityListener::Transports(queue) => queue.close(),
        ConnectivityListener::Links(queue) => queue.close(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::queue::{Bounds, Overflow};

    fn link(zid: u128, port: u16) -> Arc<LinkInfo> {
        Arc::new(LinkInfo {
            zid: ZenohId::new(zid).unwrap(),
            whatami: WhatAmI::Peer,
            qos: true,
            src: "tcp/127.0.0.1:1".into(),
            dst: format!("tcp/127.0.0.1:{port}"),
            group: None,
            mtu: u16::MAX,
            streamed: true,
            lending: false,
            interfaces: Vec::new(),
            user: None,
            priorities: None,
            reliability: Reliability::Reliable,
        })
    }

    fn queue<T: Weigh>() -> Arc<Queue<T>> {
        Queue::new(Bounds { messages: 100, bytes: 1 << 20, overflow: Overflow::DropOldest })
    }

    fn changes(queue: &Queue<TransportEvent>) -> Vec<(u128, Change)> {
        let next = || queue.try_recv().ok().flatten();
        let zid = |event: &TransportEvent| u128::from_str_radix(&event.link.zid.to_string(), 16).unwrap();
        core::iter::from_fn(next).map(|event| (zid(&event), event.change)).collect()
    }

    #[test]
    fn a_node_is_connected_with_its_first_link_and_gone_with_its_last() {
        let mut connectivity = Connectivity::default();
        let (nodes, links) = (queue(), queue::<LinkEvent>());
        connectivity.listen_transports(nodes.clone(), false);
        let id = connectivity.listen_links(links.clone(), false);
        connectivity.up(link(1, 1));
        connectivity.up(link(1, 2));
        connectivity.up(link(2, 3));
        connectivity.down(&link(1, 1), LinkEnd::Lost);
        connectivity.down(&link(1, 1), LinkEnd::Lost);
        connectivity.down(&link(1, 2), LinkEnd::Silent);
        connectivity.up(link(1, 4));
        assert_eq!(
            changes(&nodes),
            [
                (1, Change::Connected),
                (2, Change::Connected),
                (1, Change::Disconnected(LinkEnd::Silent)),
                (1, Change::Reconnected)
            ]
        );
        assert_eq!(core::iter::from_fn(|| links.try_recv().ok().flatten()).count(), 6);
        let late = queue();
        connectivity.listen_transports(late.clone(), true);
        assert_eq!(changes(&late), [(2, Change::Connected), (1, Change::Connected)]);
        connectivity.forget(id);
        connectivity.down(&link(2, 3), LinkEnd::Closed);
        assert!(links.try_recv().is_err(), "closed and empty");
        connectivity.close();
    }

    #[test]
    fn a_client_reconnects_whoever_answers() {
        let mut connectivity = Connectivity::new(true);
        let nodes = queue();
        connectivity.listen_transports(nodes.clone(), false);
        connectivity.up(link(1, 1));
        connectivity.down(&link(1, 1), LinkEnd::Lost);
        connectivity.up(link(2, 1));
        assert_eq!(changes(&nodes).pop(), Some((2, Change::Reconnected)));
    }

    #[test]
    fn so_many_nodes_are_remembered_and_not_more() {
        let mut connectivity = Connectivity::default();
        for number in 1..=2 * REMEMBERED as u128 {
            connectivity.up(link(number, 1));
            connectivity.down(&link(number, 1), LinkEnd::Lost);
        }
        assert_eq!((connectivity.known.len(), connectivity.met.len()), (REMEMBERED, REMEMBERED));
    }
}
