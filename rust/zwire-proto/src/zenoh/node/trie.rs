//! An index of declared key expressions by chunk.
//!
//! It finds a superset of the keys that intersect a key without visiting each declared key; the caller
//! compares the candidates.

use crate::{
    Text,
    zenoh::{KeyExpr, keyexpr::intersects},
};
use std::collections::BTreeMap;

/// Number of indexed chunks of a key. Longer keys are stored under their first chunks, so that a key of
/// 32 000 chunks takes no more nodes than one of eight.
pub(super) const DEPTH: usize = 8;

const ROOT: u32 = 0;

#[derive(Debug, Default)]
struct Branch {
    /// Chunks without a wildcard.
    plain: BTreeMap<Text, u32>,
    /// Chunks with `$*`.
    globs: BTreeMap<Text, u32>,
    /// `*`.
    star: Option<u32>,
    /// `**`.
    double: Option<u32>,
    /// Whether this branch is a `**`: it stays active for any chunk that is not verbatim.
    is_double: bool,
    /// Whether this branch is [`DEPTH`] chunks deep; `here` may hold longer keys.
    is_last: bool,
    /// The numbers of the keys that end here.
    here: Vec<u32>,
}

impl Branch {
    fn child(&self, chunk: &str) -> Option<u32> {
        match chunk {
            "*" => self.star,
            "**" => self.double,
            _ if chunk.contains('*') => self.globs.get(chunk).copied(),
            _ => self.plain.get(chunk).copied(),
        }
    }

    fn set_child(&mut self, chunk: &str, child: Option<u32>) {
        let map = match chunk {
            "*" => return self.star = child,
            "**" => return self.double = child,
            _ if chunk.contains('*') => &mut self.globs,
            _ => &mut self.plain,
        };
        match child {
            // A copy: a slice would keep the whole key alive for as long as the branch lives.
            Some(child) => map.insert(Text::from(chunk), child),
            None => map.remove(chunk),
        };
    }

    fn is_bare(&self) -> bool {
        self.here.is_empty()
            && self.plain.is_empty()
            && self.globs.is_empty()
            && self.star.is_none()
            && self.double.is_none()
    }

    fn children(&self) -> impl Iterator<Item = u32> {
        self.plain.values().chain(self.globs.values()).copied().chain(self.star).chain(self.double)
    }
}

/// Index of keys by chunk. Keys are known by numbers that the caller chooses.
#[derive(Debug)]
pub(super) struct Trie {
    branches: Vec<Branch>,
    free: Vec<u32>,
}

impl Trie {
    pub(super) fn new() -> Self {
        Self { branches: vec![Branch::default()], free: Vec::new() }
    }

    pub(super) fn insert(&mut self, key: &KeyExpr, number: u32) {
        let mut at = ROOT;
        for (depth, chunk) in key.split('/').take(DEPTH).enumerate() {
            at = match self.branches[at as usize].child(chunk) {
                Some(child) => child,
                None => {
                    let branch =
                        Branch { is_double: chunk == "**", is_last: depth + 1 == DEPTH, ..Branch::default() };
                    let child = self.allocate(branch);
                    self.branches[at as usize].set_child(chunk, Some(child));
                    child
                }
            };
        }
        self.branches[at as usize].here.push(number);
    }

    pub(super) fn remove(&mut self, key: &KeyExpr, number: u32) {
        // The chunks of the key, and the branch above each.
        let mut path = Vec::new();
        let mut at = ROOT;
        for chunk in key.split('/').take(DEPTH) {
            let Some(child) = self.branches[at as usize].child(chunk) else { return };
            path.push((at, chunk));
            at = child;
        }
        self.branches[at as usize].here.retain(|n| *n != number);
        // Empty branches are removed, from the tip.
        while let Some((above, chunk)) = path.pop().filter(|_| self.branches[at as usize].is_bare()) {
            self.branches[at as usize] = Branch::default();
            self.free.push(at);
            self.branches[above as usize].set_child(chunk, None);
            at = above;
        }
    }

    /// The numbers of all keys that may intersect `key`, each once.
    pub(super) fn candidates(&self, key: &KeyExpr) -> Vec<u32> {
        let mut found = Vec::new();
        let mut active = vec![ROOT];
        self.close(&mut active);
        let mut next = Vec::new();
        for chunk in key.split('/') {
            if chunk.contains('*') {
                // From here on all branches below hold candidates.
                self.collect_below(active, &mut found);
                return unique(found);
            }
            let verbatim = chunk.starts_with('@');
            for at in active.drain(..) {
                let branch = &self.branches[at as usize];
                if branch.is_last {
                    found.extend_from_slice(&branch.here);
                    continue;
                }
                next.extend(branch.plain.get(chunk));
                if !verbatim {
                    next.extend(branch.star);
                    let globs = branch.globs.iter().filter(|(glob, _)| intersects(glob, chunk));
                    next.extend(globs.map(|(_, child)| *child));
                    if branch.is_double {
                        next.push(at);
                    }
                }
            }
            self.close(&mut next);
            core::mem::swap(&mut active, &mut next);
        }
        for at in active {
            found.extend_from_slice(&self.branches[at as usize].here);
        }
        unique(found)
    }

    /// A `**` may also stand for no chunk: it is active whenever its parent is.
    fn close(&self, active: &mut Vec<u32>) {
        for i in 0..active.len() {
            active.extend(self.branches[active[i] as usize].double);
        }
        active.sort_unstable();
        active.dedup();
    }

    fn collect_below(&self, mut stack: Vec<u32>, found: &mut Vec<u32>) {
        // A branch and the `**` below it may both be active; branches below that are then visited
        // twice.
        let mut seen = std::collections::BTreeSet::new();
        while let Some(at) = stack.pop() {
            if seen.insert(at) {
                let branch = &self.branches[at as usize];
                found.extend_from_slice(&branch.here);
                stack.extend(branch.children());
            }
        }
    }

    fn allocate(&mut self, branch: Branch) -> u32 {
        if let Some(at) = self.free.pop() {
            self.branches[at as usize] = branch;
            return at;
        }
        // Every branch costs a face more than 100 bytes of its budget; 2³² of them do not fit.
        let at = u32::try_from(self.branches.len()).expect("fewer than 2³² branches");
        self.branches.push(branch);
        at
    }
}

fn unique(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(text: &str) -> KeyExpr {
        KeyExpr::new(text).unwrap()
    }

    fn any_key() -> impl Strategy<Value = KeyExpr> {
        let chunk = prop::sample::select(vec!["a", "b", "ab", "@a", "*", "**", "a$*", "$*b"]);
        prop::collection::vec(chunk, 1..12)
            .prop_map(|chunks| KeyExpr::autocanonize(chunks.join("/")).unwrap())
    }

    proptest! {
        #[test]
        fn nothing_that_intersects_is_missed(keys in prop::collection::vec(any_key(), 0..40), asked in any_key()) {
            let mut trie = Trie::new();
            for (number, key) in (0..).zip(&keys) {
                trie.insert(key, number);
            }
            let found = trie.candidates(&asked);
            for (number, key) in (0..).zip(&keys) {
                if key.intersects(&asked) {
                    prop_assert!(found.contains(&number), "{key} for {asked}");
                }
            }
        }

        #[test]
        fn what_is_removed_leaves_no_branch(keys in prop::collection::vec(any_key(), 0..40)) {
            let mut trie = Trie::new();
            for (number, key) in (0..).zip(&keys) {
                trie.insert(key, number);
            }
            for (number, key) in (0..).zip(&keys) {
                trie.remove(key, number);
            }
            prop_assert_eq!(trie.branches.len(), trie.free.len() + 1);
            prop_assert!(trie.branches[ROOT as usize].is_bare());
        }
    }

    #[test]
    fn a_plain_key_does_not_meet_its_neighbours() {
        let mut trie = Trie::new();
        for number in 0..1000 {
            trie.insert(&key(&format!("fleet/{number}/position")), number);
        }
        trie.insert(&key("fleet/*/position"), 1000);
        assert_eq!(trie.candidates(&key("fleet/7/position")), [7, 1000]);
    }

    #[test]
    fn a_key_of_thousands_of_chunks_takes_eight_branches() {
        let mut trie = Trie::new();
        trie.insert(&key(&["a"; 30_000].join("/")), 0);
        assert_eq!(trie.branches.len(), 1 + DEPTH);
        assert_eq!(trie.candidates(&key(&["a"; 9].join("/"))), [0]);
    }
}
