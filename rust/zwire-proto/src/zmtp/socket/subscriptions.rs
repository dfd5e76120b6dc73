//! [`Subscriptions`]: finds the connections of a publisher that subscribe to a message (`zmtp` 9).
//!
//! ```text
//!        ""            a radix tree: each edge is a piece of prefixes, each node knows the
//!       /  \           connections subscribed to the prefix on the way to it
//!    "bat"  "temp"
//!     /  \
//!  "tery" "h"
//! ```
//!
//! Nodes are kept in a list and refer to each other by index, so that no depth overflows the stack.

use crate::zmtp::limits::{MAX_SUBSCRIPTION_BYTES, SUBSCRIPTION_COST};
use bytes::Bytes;
use std::collections::{BTreeSet, HashMap};
use thiserror::Error;

/// A connection, numbered by the owner of the set.
pub type PeerKey = u64;

const ROOT: usize = 0;

/// Error for a subscriber with more subscriptions than [`MAX_SUBSCRIPTION_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("subscriptions of {bytes} bytes, {MAX_SUBSCRIPTION_BYTES} are allowed")]
pub struct TooManySubscriptions {
    /// Bytes that the subscriptions would take.
    pub bytes: usize,
}

/// The prefixes that each connection has subscribed to: a set, as at a publisher of libzmq, so that one
/// CANCEL removes a prefix that was subscribed to twice.
#[derive(Debug)]
pub struct Subscriptions {
    nodes: Vec<TrieNode>,
    /// Free nodes, for reuse.
    free: Vec<usize>,
    peers: HashMap<PeerKey, Wishes>,
}

#[derive(Debug, Default)]
struct TrieNode {
    /// The bytes from the parent to here.
    label: Bytes,
    parent: usize,
    /// Children, by the first byte of their labels.
    children: Vec<(u8, usize)>,
    /// Subscribed connections, in order.
    peers: Vec<PeerKey>,
}

#[derive(Debug, Default)]
struct Wishes {
    prefixes: BTreeSet<Bytes>,
    bytes: usize,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self { nodes: vec![TrieNode::default()], free: Vec::new(), peers: HashMap::new() }
    }
}

impl Subscriptions {
    /// Subscribes the connection to messages that begin with the prefix. Returns whether that is new.
    ///
    /// # Errors
    /// The subscriptions exceed the bound; the connection must be closed.
    pub fn subscribe(&mut self, peer: PeerKey, prefix: &[u8]) -> Result<bool, TooManySubscriptions> {
        let wishes = self.peers.get(&peer);
        if wishes.is_some_and(|wishes| wishes.prefixes.contains(prefix)) {
            return Ok(false);
        }
        let bytes = wishes.map_or(0, |wishes| wishes.bytes);
        let bytes = bytes.saturating_add(prefix.len()).saturating_add(SUBSCRIPTION_COST);
        if bytes > MAX_SUBSCRIPTION_BYTES {
            return Err(TooManySubscriptions { bytes });
        }
        let wishes = self.peers.entry(peer).or_default();
        wishes.bytes = bytes;
        // A copy, which does not keep the receive buffer alive.
        let prefix = Bytes::copy_from_slice(prefix);
        wishes.prefixes.insert(prefix.clone());
        let node = self.make(&prefix);
        let peers = &mut self.nodes[node].peers;
        if let Err(at) = peers.binary_search(&peer) {
            peers.insert(at, peer);
        }
        Ok(true)
    }

    /// Cancels a subscription of the connection. Returns whether it existed.
    pub fn cancel(&mut self, peer: PeerKey, prefix: &[u8]) -> bool {
        let Some(wishes) = self.peers.get_mut(&peer) else { return false };
        if !wishes.prefixes.remove(prefix) {
            return false;
        }
        wishes.bytes -= prefix.len() + SUBSCRIPTION_COST;
        if wishes.prefixes.is_empty() {
            self.peers.remove(&peer);
        }
        self.forget(peer, prefix);
        true
    }

    /// Removes all subscriptions of a closed connection.
    pub fn disconnect(&mut self, peer: PeerKey) {
        let wishes = self.peers.remove(&peer).unwrap_or_default();
        wishes.prefixes.iter().for_each(|prefix| self.forget(peer, prefix));
    }

    /// Replaces `out` by the connections subscribed to a message with this first frame, each once and
    /// in order.
    pub fn matches(&self, topic: &[u8], out: &mut Vec<PeerKey>) {
        out.clear();
        let (mut node, mut rest) = (ROOT, topic);
        out.extend_from_slice(&self.nodes[node].peers);
        let mut found = 1;
        while let Some(child) = self.child(node, rest) {
            let Some(behind) = rest.strip_prefix(&self.nodes[child].label[..]) else { break };
            (node, rest) = (child, behind);
            out.extend_from_slice(&self.nodes[node].peers);
            found += 1;
        }
        if found > 1 {
            out.sort_unstable();
            out.dedup();
        }
    }

    /// Number of prefixes, each counted once per connection.
    #[must_use]
    pub fn len(&self) -> usize {
        self.peers.values().map(|wishes| wishes.prefixes.len()).sum()
    }

    /// Whether there are no subscriptions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    fn child(&self, node: usize, rest: &[u8]) -> Option<usize> {
        let children = &self.nodes[node].children;
        let at = children.binary_search_by_key(rest.first()?, |(first, _)| *first).ok()?;
        Some(children[at].1)
    }

    fn add(&mut self, node: TrieNode) -> usize {
        let (parent, first) = (node.parent, node.label[0]);
        let index = match self.free.pop() {
            Some(index) => {
                self.nodes[index] = node;
                index
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        };
        let children = &mut self.nodes[parent].children;
        let at = children.partition_point(|(other, _)| *other < first);
        children.insert(at, (first, index));
        index
    }

    /// The node of a prefix, created if missing.
    fn make(&mut self, prefix: &Bytes) -> usize {
        let (mut node, mut at) = (ROOT, 0);
        while at < prefix.len() {
            let Some(child) = self.child(node, &prefix[at..]) else {
                return self.add(TrieNode { label: prefix.slice(at..), parent: node, ..TrieNode::default() });
            };
            let label = self.nodes[child].label.clone();
            let common = label.iter().zip(&prefix[at..]).take_while(|(a, b)| a == b).count();
            node = if common == label.len() { child } else { self.split(child, common) };
            at += common;
        }
        node
    }

    /// Inserts a node into the edge to `child`.
    fn split(&mut self, child: usize, at: usize) -> usize {
        let TrieNode { label, parent, .. } = &self.nodes[child];
        let (parent, label) = (*parent, label.clone());
        self.nodes[parent].children.retain(|(_, index)| *index != child);
        let middle = self.add(TrieNode { label: label.slice(..at), parent, ..TrieNode::default() });
        self.nodes[child].label = label.slice(at..);
        self.nodes[child].parent = middle;
        self.nodes[middle].children.push((label[at], child));
        middle
    }

    fn forget(&mut self, peer: PeerKey, prefix: &[u8]) {
        let (mut node, mut rest) = (ROOT, prefix);
        while let Some(child) = self.child(node, rest) {
            let Some(behind) = rest.strip_prefix(&self.nodes[child].label[..]) else { return };
            (node, rest) = (child, behind);
        }
        self.nodes[node].peers.retain(|other| *other != peer);
        // Nodes without use are removed, or a few subscribers could fill the memory with them.
        while node != ROOT && self.nodes[node].peers.is_empty() && self.nodes[node].children.is_empty() {
            let parent = self.nodes[node].parent;
            self.nodes[parent].children.retain(|(_, index)| *index != node);
            self.nodes[node] = TrieNode::default();
            self.free.push(node);
            node = parent;
        }
        if let (true, true, &[(first, child)]) =
            (node != ROOT, self.nodes[node].peers.is_empty(), &self.nodes[node].children[..])
        {
            debug_assert_eq!(self.nodes[child].label[0], first);
            self.join(node, child);
        }
    }

    /// Merges `node` and its only child into one edge.
    fn join(&mut self, node: usize, child: usize) {
        let TrieNode { label, parent, .. } = core::mem::take(&mut self.nodes[node]);
        self.free.push(node);
        self.nodes[child].label = [&label[..], &self.nodes[child].label].concat().into();
        self.nodes[child].parent = parent;
        for (_, index) in &mut self.nodes[parent].children {
            if *index == node {
                *index = child;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn who(subscriptions: &Subscriptions, topic: &[u8]) -> Vec<PeerKey> {
        let mut out = vec![99];
        subscriptions.matches(topic, &mut out);
        out
    }

    /// `zmtp` 9: binary prefixes, the empty one matches all, each connection once.
    #[test]
    fn prefixes_match_the_first_frame() {
        let mut all = Subscriptions::default();
        for (peer, prefix) in [(1, &b"battery"[..]), (2, b"bath"), (3, b"bat"), (3, b""), (4, b"battery/7")] {
            assert_eq!(all.subscribe(peer, prefix), Ok(true));
        }
        assert_eq!(who(&all, b"battery/7"), [1, 3, 4]);
        assert_eq!(who(&all, b"bath"), [2, 3]);
        assert_eq!(who(&all, b"ba"), [3]);
        assert_eq!(who(&all, b""), [3]);
        assert_eq!(all.len(), 5);
    }

    /// `zmtp` 9: libzmq keeps a set.
    #[test]
    fn one_cancel_takes_back_two_subscriptions() {
        let mut all = Subscriptions::default();
        assert_eq!(all.subscribe(1, b"a"), Ok(true));
        assert_eq!(all.subscribe(1, b"a"), Ok(false));
        assert!(all.cancel(1, b"a"));
        assert!(!all.cancel(1, b"a"));
        assert!(!all.cancel(2, b"a"));
        assert!(who(&all, b"a").is_empty());
        assert!(all.is_empty());
    }

    #[test]
    fn a_closed_connection_leaves_nothing() {
        let mut all = Subscriptions::default();
        for i in 0..200u8 {
            all.subscribe(1, &[i, i, i]).unwrap();
            all.subscribe(2, &[i, i]).unwrap();
        }
        all.disconnect(1);
        assert_eq!(who(&all, &[7, 7, 7]), [2]);
        all.disconnect(2);
        assert!(all.is_empty());
        assert_eq!(all.nodes.len() - all.free.len(), 1, "only the root is left");
    }

    /// A chain of nodes as deep as it is long, from a peer that sends little.
    #[test]
    fn depth_and_bytes_are_bounded() {
        let mut all = Subscriptions::default();
        let deep = vec![b'a'; 4000];
        for len in 1..deep.len() {
            all.subscribe(1, &deep[..len]).unwrap();
        }
        assert_eq!(who(&all, &deep), [1]);
        let error = all.subscribe(1, &vec![0; MAX_SUBSCRIPTION_BYTES]).unwrap_err();
        assert!(error.bytes > MAX_SUBSCRIPTION_BYTES);
        assert_eq!(all.subscribe(2, b"x"), Ok(true));
        all.disconnect(1);
        assert!(who(&all, &deep).is_empty());
    }

    proptest! {
        #[test]
        fn the_tree_agrees_with_a_list(
            steps in proptest::collection::vec(
                (0u8..10, 0u64..4, proptest::collection::vec(0u8..3, 0..6)), 0..120,
            ),
        ) {
            let mut tree = Subscriptions::default();
            let mut list: BTreeSet<(PeerKey, Vec<u8>)> = BTreeSet::new();
            for (what, peer, prefix) in steps {
                match what {
                    0..=5 => {
                        let new = list.insert((peer, prefix.clone()));
                        prop_assert_eq!(tree.subscribe(peer, &prefix), Ok(new));
                    }
                    6..=8 => {
                        let was = list.remove(&(peer, prefix.clone()));
                        prop_assert_eq!(tree.cancel(peer, &prefix), was);
                    }
                    _ => {
                        list.retain(|(other, _)| *other != peer);
                        tree.disconnect(peer);
                    }
                }
                let wanted: BTreeSet<PeerKey> =
                    list.iter().filter(|(_, p)| prefix.starts_with(p)).map(|(peer, _)| *peer).collect();
                prop_assert_eq!(who(&tree, &prefix), wanted.into_iter().collect::<Vec<_>>());
                prop_assert_eq!(tree.len(), list.len());
                // Each node has subscribers or branches.
                let prefixes: BTreeSet<&Vec<u8>> = list.iter().map(|(_, prefix)| prefix).collect();
                prop_assert!(tree.nodes.len() - tree.free.len() <= 1 + 2 * prefixes.len());
            }
        }
    }
}
