//! An index of declared key expressions by chunk.
//!
//! It finds a superset of the keys that intersect a key without visiting each declared key; the caller
//! compares the candidates.

use crate::{
    Text,
    limits::MAX_GLOB_BRANCHES,
    zenoh::{KeyExpr, keyexpr::intersects},
};
use std::collections::{BTreeMap, BTreeSet};

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
    /// The number of the key that ends here.
    exact: Option<u32>,
    /// Keys that continue, with chunks that are not indexed: by the length of the shortest key that they
    /// match, then by number.
    longer: BTreeSet<(usize, u32)>,
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
        self.exact.is_none()
            && self.longer.is_empty()
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
    /// Branches of chunks with `$*`, which are compared one by one.
    globs: usize,
}

/// Result of a search: the numbers of keys that may intersect, each once, and how many branches were visited.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub(super) numbers: Vec<u32>,
    pub(super) visited: usize,
}

/// Free places from which on [`shrink`] looks for those at the end.
const MANY_FREE: usize = 1024;

/// Gives back the places at the end of a list that are free, if more than half of all are. Those that are left
/// are filled from the front.
pub(super) fn shrink<T>(places: &mut Vec<T>, free: &mut Vec<u32>) {
    if free.len() < MANY_FREE || free.len() <= places.len() / 2 {
        return;
    }
    free.sort_unstable();
    while free.last().is_some_and(|last| *last as usize + 1 == places.len()) {
        free.pop();
        places.pop();
    }
    places.shrink_to(places.len() + places.len() / 4);
    free.shrink_to(free.len() + free.len() / 4);
    free.reverse();
}

impl Trie {
    pub(super) fn new() -> Self {
        Self { branches: vec![Branch::default()], free: Vec::new(), globs: 0 }
    }

    /// Adds a key; `shortest` is the length of the shortest key that it matches.
    pub(super) fn insert(&mut self, key: &KeyExpr, shortest: usize, number: u32) {
        let mut at = ROOT;
        let mut chunks = key.split('/').peekable();
        for _ in 0..DEPTH {
            let Some(chunk) = chunks.peek().copied() else { break };
            at = match self.branches[at as usize].child(chunk) {
                Some(child) => child,
                None if is_glob(chunk) && self.globs >= MAX_GLOB_BRANCHES => break,
                None => {
                    self.globs += usize::from(is_glob(chunk));
                    let child = self.allocate(Branch { is_double: chunk == "**", ..Branch::default() });
                    self.branches[at as usize].set_child(chunk, Some(child));
                    child
                }
            };
            chunks.next();
        }
        let branch = &mut self.branches[at as usize];
        match chunks.next() {
            None => branch.exact = Some(number),
            Some(_) => _ = branch.longer.insert((shortest, number)),
        }
    }

    /// Removes a key, given as to [`insert`](Self::insert).
    pub(super) fn remove(&mut self, key: &KeyExpr, shortest: usize, number: u32) {
        // The chunks of the key, and the branch above each.
        let mut path = Vec::new();
        let mut at = ROOT;
        let mut chunks = key.split('/');
        loop {
            // The branch for a next chunk may have been made after this key was added here.
            let branch = &mut self.branches[at as usize];
            if branch.longer.remove(&(shortest, number)) {
                break;
            }
            let Some(chunk) = chunks.next() else {
                branch.exact.take_if(|exact| *exact == number);
                break;
            };
            let Some(child) = branch.child(chunk) else { return };
            path.push((at, chunk));
            at = child;
        }
        // Empty branches are removed, from the tip.
        while let Some((above, chunk)) = path.pop().filter(|_| self.branches[at as usize].is_bare()) {
            self.branches[at as usize] = Branch::default();
            self.free.push(at);
            self.globs -= usize::from(is_glob(chunk));
            self.branches[above as usize].set_child(chunk, None);
            at = above;
        }
    }

    /// Gives back the memory of branches that are gone.
    pub(super) fn shrink(&mut self) {
        shrink(&mut self.branches, &mut self.free);
    }

    /// The keys that may intersect `key`.
    pub(super) fn candidates(&self, key: &KeyExpr) -> Candidates {
        let mut found = Candidates::default();
        let mut active = vec![ROOT];
        self.close(&mut active);
        // All branches that were active.
        let mut passed = Vec::new();
        let mut next = Vec::new();
        let longest = if key.is_wild() { usize::MAX } else { key.len() };
        for chunk in key.split('/') {
            if chunk.contains('*') {
                // From here on all branches below hold candidates.
                self.collect_below(core::mem::take(&mut active), &mut found);
                break;
            }
            let verbatim = chunk.starts_with('@');
            passed.extend_from_slice(&active);
            for at in active.drain(..) {
                let branch = &self.branches[at as usize];
                next.extend(branch.plain.get(chunk));
                if !verbatim {
                    next.extend(branch.star);
                    found.visited += branch.globs.len();
                    let globs = branch.globs.iter().filter(|(glob, _)| intersects(glob, chunk));
                    next.extend(globs.map(|(_, child)| *child));
                    if branch.is_double {
                        next.push(at);
                    }
                }
            }
            self.close(&mut next);
            core::mem::swap(&mut active, &mut next);
            if active.is_empty() {
                break;
            }
        }
        found.numbers.extend(active.iter().filter_map(|at| self.branches[*at as usize].exact));
        passed.append(&mut active);
        passed.sort_unstable();
        passed.dedup();
        found.visited += passed.len();
        for longer in passed.iter().map(|at| &self.branches[*at as usize].longer) {
            found.numbers.extend(longer.range(..=(longest, u32::MAX)).map(|(_, number)| *number));
        }
        found.numbers.sort_unstable();
        found.numbers.dedup();
        found
    }

    /// A `**` may also stand for no chunk: it is active whenever its parent is.
    fn close(&self, active: &mut Vec<u32>) {
        for i in 0..active.len() {
            active.extend(self.branches[active[i] as usize].double);
        }
        active.sort_unstable();
        active.dedup();
    }

    fn collect_below(&self, mut stack: Vec<u32>, found: &mut Candidates) {
        // A branch and the `**` below it may both be active; branches below that are then visited
        // twice.
        let mut seen = BTreeSet::new();
        while let Some(at) = stack.pop() {
            if seen.insert(at) {
                let branch = &self.branches[at as usize];
                found.numbers.extend(branch.exact);
                found.numbers.extend(branch.longer.iter().map(|(_, number)| *number));
                stack.extend(branch.children());
            }
        }
        found.visited += seen.len();
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

/// Whether a chunk has a branch among the `$*`.
fn is_glob(chunk: &str) -> bool {
    chunk.contains('$')
}

/// The length of the shortest key that a key expression matches; may be less, for `**` at an end.
pub(super) fn shortest(key: &str) -> usize {
    let mut length = 0;
    for chunk in key.split('/').filter(|chunk| *chunk != "**") {
        let gaps = chunk.bytes().filter(|byte| *byte == b'$').count();
        length += 1 + if chunk == "*" { 1 } else { chunk.len() - 2 * gaps };
    }
    length.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(text: &str) -> KeyExpr {
        KeyExpr::new(text).unwrap()
    }

    fn add(trie: &mut Trie, text: &str, number: u32) {
        trie.insert(&key(text), shortest(text), number);
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
            let keys: BTreeSet<_> = keys.into_iter().collect();
            for (number, key) in (0..).zip(&keys) {
                trie.insert(key, shortest(key), number);
            }
            let found = trie.candidates(&asked).numbers;
            for (number, key) in (0..).zip(&keys) {
                if key.intersects(&asked) {
                    prop_assert!(found.contains(&number), "{key} for {asked}");
                }
            }
        }

        #[test]
        fn what_is_removed_leaves_no_branch(keys in prop::collection::vec(any_key(), 0..40)) {
            let mut trie = Trie::new();
            // The tables hold each key once.
            let keys: BTreeSet<_> = keys.into_iter().collect();
            for (number, key) in (0..).zip(&keys) {
                trie.insert(key, shortest(key), number);
            }
            for (number, key) in (0..).zip(&keys) {
                trie.remove(key, shortest(key), number);
            }
            prop_assert_eq!(trie.branches.len(), trie.free.len() + 1);
            prop_assert!(trie.branches[ROOT as usize].is_bare());
        }
    }

    #[test]
    fn a_plain_key_does_not_meet_its_neighbours() {
        let mut trie = Trie::new();
        for number in 0..1000 {
            add(&mut trie, &format!("fleet/{number}/position"), number);
        }
        add(&mut trie, "fleet/*/position", 1000);
        assert_eq!(trie.candidates(&key("fleet/7/position")).numbers, [7, 1000]);
    }

    #[test]
    fn a_key_of_thousands_of_chunks_takes_eight_branches() {
        let mut trie = Trie::new();
        add(&mut trie, &["a"; 30_000].join("/"), 0);
        assert_eq!(trie.branches.len(), 1 + DEPTH);
        assert_eq!(trie.candidates(&key(&["a"; 9].join("/"))).numbers, [0; 0], "it is shorter");
        assert_eq!(trie.candidates(&key(&["a"; 30_001].join("/"))).numbers, [0]);
    }

    #[test]
    fn globs_beyond_the_bound_are_found_and_removed() {
        let mut trie = Trie::new();
        let texts: Vec<String> =
            (0..MAX_GLOB_BRANCHES + 10).map(|number| format!("a/{number}$*/b")).collect();
        (0..).zip(&texts).for_each(|(number, text)| add(&mut trie, text, number));
        assert_eq!(trie.globs, MAX_GLOB_BRANCHES);
        let last = texts.len() as u32 - 1;
        let asked = key(&format!("a/{last}/b"));
        assert!(trie.candidates(&asked).numbers.contains(&last));
        // A branch for the same chunk is made after the key was stored without.
        trie.remove(&key(&texts[0]), shortest(&texts[0]), 0);
        add(&mut trie, &format!("a/{last}$*/c"), last + 1);
        assert!(trie.candidates(&asked).numbers.contains(&last));
        (1..).zip(&texts[1..]).for_each(|(number, text)| trie.remove(&key(text), shortest(text), number));
        let text = format!("a/{last}$*/c");
        trie.remove(&key(&text), shortest(&text), last + 1);
        assert_eq!((trie.branches.len(), trie.globs), (trie.free.len() + 1, 0));
    }

    #[test]
    fn shortest_is_no_more_than_what_matches() {
        for (text, length) in
            [("a/b", 3), ("**", 0), ("**/a", 1), ("a/**/b", 3), ("*/$*a$*", 3), ("a$*/**", 1)]
        {
            assert_eq!(shortest(text), length, "{text}");
        }
    }
}
