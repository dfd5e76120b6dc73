//! Weights of links, and the trees along which messages between routers travel (`zenoh-behaviour` 5.6).
//!
//! All routers of a network compute the same trees independently, so each number here must equal that
//! of Eclipse Zenoh: another formula makes loops and holes.

use super::super::ids::RouterIx;
use crate::zenoh::ZenohId;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Weight of a link without a configured one.
const DEFAULT_WEIGHT: u16 = 100;

/// Weight of the link between two routers: that of either end, or the greater of both, and up to one
/// per cent more, so that no two ways are equally long. 0 is no weight.
pub(super) fn weight(a: ZenohId, of_a: u16, b: ZenohId, of_b: u16) -> f64 {
    let weight = match of_a.max(of_b) {
        0 => DEFAULT_WEIGHT,
        weight => weight,
    };
    let hash = siphash13(a.min(b).number(), a.max(b).number());
    // The low half of the hash, as a share of the greatest such number.
    let share = f64::from(hash as u32) / f64::from(u32::MAX);
    f64::from(weight) * (1.0 + 0.01 * share)
}

/// SipHash-1-3 with the key 0 of two numbers, 32 bytes in little-endian order.
fn siphash13(first: u128, second: u128) -> u64 {
    let mut v =
        [0x736f_6d65_7073_6575_u64, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];
    let round = |v: &mut [u64; 4]| {
        v[0] = v[0].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[0] = v[0].rotate_left(32);
        v[2] = v[2].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[2] = v[2].rotate_left(32);
    };
    // The last word is the length, in its highest byte.
    let words = [first as u64, (first >> 64) as u64, second as u64, (second >> 64) as u64, 32 << 56];
    for word in words {
        v[3] ^= word;
        round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..3).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

/// Weighted links between routers, the input of the trees.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Graph(pub(super) Vec<Vec<(RouterIx, f64)>>);

impl Graph {
    /// Number of links, both directions counted.
    pub(super) fn size(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

/// The tree of one router, as one other router sees it.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Next router towards the root. `None`: this node is the root, or there is no way.
    pub(super) parent: Option<RouterIx>,
    /// Neighbours further from the root.
    pub(super) children: Vec<RouterIx>,
    /// For each router the neighbour through which it is reached.
    next: Vec<Option<RouterIx>>,
    /// Length of the way from the root.
    distance: Vec<f64>,
}

/// A length with a total order.
#[derive(PartialEq)]
struct Length(f64);

impl Eq for Length {}

impl Ord for Length {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Length {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Tree {
    /// The tree of `root`, seen from `own`.
    pub(super) fn new(graph: &Graph, root: RouterIx, own: RouterIx) -> Self {
        let size = graph.0.len();
        let (own, root) = (usize::from(own), usize::from(root));
        let mut tree =
            Self { next: vec![None; size], distance: vec![f64::INFINITY; size], ..Self::default() };
        if root >= size || own >= size {
            return tree;
        }
        let mut before: Vec<Option<RouterIx>> = vec![None; size];
        let mut order = Vec::new();
        let mut done = vec![false; size];
        let mut heap = BinaryHeap::from([Reverse((Length(0.0), root as RouterIx))]);
        tree.distance[root] = 0.0;
        while let Some(Reverse((Length(length), at))) = heap.pop() {
            if core::mem::replace(&mut done[usize::from(at)], true) {
                continue;
            }
            order.push(at);
            for (to, weight) in &graph.0[usize::from(at)] {
                // The sum is formed from the root outwards, as all routers do.
                let length = length + weight;
                if length < tree.distance[usize::from(*to)] {
                    tree.distance[usize::from(*to)] = length;
                    before[usize::from(*to)] = Some(at);
                    heap.push(Reverse((Length(length), *to)));
                }
            }
        }
        tree.parent = before[own];
        let own = own as RouterIx;
        for at in order {
            let place = usize::from(at);
            match before[place] {
                _ if at == own => {}
                Some(before) if before == own => {
                    tree.children.push(at);
                    tree.next[place] = Some(at);
                }
                // Below a child of this node, or else towards the root.
                Some(before) if before != own && done[usize::from(own)] => {
                    tree.next[place] = tree.next[usize::from(before)].or(tree.parent);
                }
                _ => tree.next[place] = tree.parent,
            }
        }
        tree
    }

    /// The neighbour through which `to` is reached.
    pub(super) fn next(&self, to: RouterIx) -> Option<RouterIx> {
        *self.next.get(usize::from(to))?
    }

    /// Distance of `to` from the root, in the unit of a queryable's distance.
    pub(super) fn distance(&self, to: RouterIx) -> u16 {
        // The cast cuts off fractions, and stays within the range of the type.
        self.distance.get(usize::from(to)).map_or(u16::MAX, |length| *length as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zid(text: &str) -> ZenohId {
        text.parse().unwrap()
    }

    /// The table of `zenoh-behaviour` 5.6, observed on 1.10.2.
    #[test]
    #[allow(clippy::float_cmp, reason = "the same bits at all routers is the point")]
    fn weights_are_those_of_the_reference() {
        let (long, short, seven) = (zid("ff00112233445566778899aabbccddee"), zid("a1b2"), zid("7"));
        assert_eq!(weight(long, 0, short, 0), 100.099_005_187_651_84);
        assert_eq!(weight(seven, 30, short, 0), 30.048_340_967_844_32);
        assert_eq!(weight(short, 0, seven, 30), 30.048_340_967_844_32);
        assert_eq!(weight(short, 20, seven, 30), 30.048_340_967_844_32);
        assert_eq!(weight(long, 0, seven, 0), 100.828_704_989_941_03);
    }

    fn graph(size: usize, edges: &[(RouterIx, RouterIx, f64)]) -> Graph {
        let mut graph = Graph(vec![Vec::new(); size]);
        for (a, b, weight) in edges {
            graph.0[usize::from(*a)].push((*b, *weight));
            graph.0[usize::from(*b)].push((*a, *weight));
        }
        graph
    }

    #[test]
    fn a_tree_says_whom_each_router_is_reached_through() {
        // 0 - 1 - 2 - 3, and a long way from 0 to 3; 4 hangs on 2; 5 is alone.
        let graph = graph(6, &[(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (0, 3, 9.0), (2, 4, 1.5)]);
        let own = Tree::new(&graph, 0, 0);
        assert_eq!((own.parent, &own.children[..]), (None, &[1][..]));
        assert_eq!([1, 2, 3, 4, 5].map(|to| own.next(to)), [Some(1), Some(1), Some(1), Some(1), None]);
        assert_eq!([1, 3, 4, 5].map(|to| own.distance(to)), [1, 3, 3, u16::MAX]);
        let of_zero = Tree::new(&graph, 0, 2);
        assert_eq!((of_zero.parent, &of_zero.children[..]), (Some(1), &[3, 4][..]));
        assert_eq!([0, 1, 3, 4].map(|to| of_zero.next(to)), [Some(1), Some(1), Some(3), Some(4)]);
        let apart = Tree::new(&graph, 5, 0);
        assert_eq!((apart.parent, apart.next(1), apart.children.len()), (None, None, 0));
    }
}
