//! Keys of a segment: a summary that tells which key expressions match none of them.
//!
//! A summary has at most [`MAX_KEYS`] octets. It names all keys while they fit, else it is a filter (Bloom) of *tokens*:
//!
//! ```text
//! all keys: 1 | of each, in order: octets shared with the one before (8 bits) | octets of the rest (8 bits) | rest
//! filter:   2 | numbers of chunks that keys have (bits of 32, the last for more) | classes (32 bits) | bits
//! ```
//!
//! Tokens are the first `d` chunks of a key (classes 0 to 7, for `d` of 1 to 8), its chunk `i` (8 to 14, for `i` of 2 to
//! 8), and its last chunk (15). A summary has at most [`MAX_TOKENS`]; of more, the classes with the most of them are left
//! out, and the filter has no bit for a class that it does not know. Ten bits of the filter a token, and seven of them
//! set: of the key expressions with a token that no key has, it passes 0.8 %.
//!
//! Readers take a summary that they do not understand for one that any key may be in.

use bytes::Bytes;
use hashbrown::HashSet;
use std::{collections::BTreeSet, sync::Arc};

/// Most octets of a summary.
pub const MAX_KEYS: usize = 256;
/// Most tokens of a filter.
const MAX_TOKENS: usize = 192;
const BITS_OF_TOKEN: usize = 10;
const BITS_SET: u64 = 7;
/// Octets of keys beyond which they are not tried to be named.
const MAX_NAMED: usize = 4 << 10;
/// Keys that are known to be in a summary, so that they are not taken apart for each row; forgotten beyond it.
const MAX_SEEN: usize = 4096;
/// Longest prefix, and last position of a chunk, that have tokens.
const DEPTH: usize = 8;
const LAST: u32 = 15;
const CLASSES: usize = 16;
const ALL: u8 = 1;
const FILTER: u8 = 2;

/// Class and hash of a part of a key.
type Token = (u32, u64);

/// Hash of a token: FNV-1a over its class and its octets, mixed. It is a part of the format.
fn token(class: u32, octets: &[u8]) -> Token {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for octet in [class as u8].iter().chain(octets) {
        hash = (hash ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (class, hash ^ hash >> 33)
}

/// Bits of a token in a filter of so many octets.
fn bits(hash: u64, octets: usize) -> impl Iterator<Item = usize> {
    let (first, step) = (hash & 0xffff_ffff, hash >> 32 | 1);
    (0..BITS_SET).map(move |index| ((first + index * step) % (octets as u64 * 8)) as usize)
}

/// Bit for a number of chunks.
const fn length(chunks: usize) -> u32 {
    1 << if chunks > 32 { 31 } else { chunks.saturating_sub(1) }
}

fn is_wild(text: &[u8]) -> bool {
    text.contains(&b'*')
}

/// Summary of the keys of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keys(Bytes);

impl Keys {
    /// A summary as it is stored.
    pub const fn stored(octets: Bytes) -> Self {
        Self(octets)
    }

    /// Octets to store.
    pub fn octets(&self) -> &[u8] {
        &self.0
    }

    /// Calls `each` with all keys until it returns true; then the result is true. `None` if the summary does not name
    /// its keys.
    fn any(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> Option<bool> {
        let (kind, mut rest) = self.0.split_first()?;
        if *kind != ALL {
            return None;
        }
        let mut key: Vec<u8> = Vec::with_capacity(64);
        while let Some(([shared, len], after)) = rest.split_first_chunk::<2>() {
            let (own, after) = after.split_at_checked((*len).into())?;
            if usize::from(*shared) > key.len() {
                return None;
            }
            key.truncate((*shared).into());
            key.extend_from_slice(own);
            if each(&key) {
                return Some(true);
            }
            rest = after;
        }
        rest.is_empty().then_some(false)
    }
}

/// Collector of the keys of a segment.
#[derive(Default)]
pub(crate) struct KeyCollector {
    seen: HashSet<Box<[u8]>>,
    /// All keys, and their octets, while they may be named.
    named: Option<(BTreeSet<Box<[u8]>>, usize)>,
    tokens: HashSet<Token>,
    counts: [usize; CLASSES],
    /// Classes that are left out.
    dropped: u32,
    lengths: u32,
    /// Whether a key has wildcards, so that the parts of it say nothing.
    wild: bool,
}

impl KeyCollector {
    pub(crate) fn new() -> Self {
        Self { named: Some(Default::default()), ..Self::default() }
    }

    pub(crate) fn add(&mut self, key: &[u8]) {
        if self.seen.contains(key) {
            return;
        }
        if self.seen.len() >= MAX_SEEN {
            self.seen.clear();
        }
        self.seen.insert(key.into());
        if let Some((named, octets)) = &mut self.named
            && named.insert(key.into())
        {
            *octets += key.len();
            if *octets > MAX_NAMED {
                self.named = None;
            }
        }
        self.wild |= is_wild(key);
        let (mut end, mut chunks, mut last) = (0, 0, &b""[..]);
        for chunk in key.split(|octet| *octet == b'/') {
            chunks += 1;
            end += chunk.len() + usize::from(chunks > 1);
            if chunks <= DEPTH {
                self.put(chunks as u32 - 1, &key[..end]);
            }
            if (2..=DEPTH).contains(&chunks) {
                self.put((DEPTH + chunks) as u32 - 2, chunk);
            }
            last = chunk;
        }
        self.put(LAST, last);
        self.lengths |= length(chunks);
    }

    fn put(&mut self, class: u32, octets: &[u8]) {
        if self.dropped & 1 << class != 0 || !self.tokens.insert(token(class, octets)) {
            return;
        }
        self.counts[class as usize] += 1;
        if self.tokens.len() > MAX_TOKENS {
            let most = (0..CLASSES).max_by_key(|class| self.counts[*class]).unwrap_or(0);
            self.counts[most] = 0;
            self.dropped |= 1 << most;
            self.tokens.retain(|(class, _)| *class as usize != most);
        }
    }

    /// Adds the keys of another summary; false if it does not name them.
    pub(crate) fn merge(&mut self, keys: &Keys) -> bool {
        let add = &mut |key: &[u8]| {
            self.add(key);
            false
        };
        keys.any(add).is_some()
    }

    pub(crate) fn finish(&self) -> Keys {
        let named = self.named.as_ref().and_then(|(named, _)| name_all(named));
        Keys(named.unwrap_or_else(|| self.filter()).into())
    }

    fn filter(&self) -> Vec<u8> {
        let len = (self.tokens.len() * BITS_OF_TOKEN).div_ceil(64).max(1) * 8;
        let (classes, lengths) =
            if self.wild { (0, u32::MAX) } else { (!self.dropped & ((1 << CLASSES) - 1), self.lengths) };
        let mut out = vec![FILTER];
        out.extend_from_slice(&lengths.to_le_bytes());
        out.extend_from_slice(&classes.to_le_bytes());
        let head = out.len();
        out.resize(head + len, 0);
        for (_, hash) in &self.tokens {
            for bit in bits(*hash, len) {
                out[head + bit / 8] |= 1 << (bit % 8);
            }
        }
        out
    }
}

/// Summary with all keys; `None` if it would be too long.
fn name_all(named: &BTreeSet<Box<[u8]>>) -> Option<Vec<u8>> {
    let (mut out, mut before) = (vec![ALL], &b""[..]);
    for key in named {
        let shared = before.iter().zip(key).take(255).take_while(|(a, b)| a == b).count();
        out.push(shared as u8);
        out.push(u8::try_from(key.len() - shared).ok()?);
        out.extend_from_slice(&key[shared..]);
        if out.len() > MAX_KEYS {
            return None;
        }
        before = key;
    }
    Some(out)
}

/// Rule for keys: whether rows with a key are wanted.
pub type Wants = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Choice of keys by key expressions.
#[derive(Clone)]
pub struct KeyChoice {
    patterns: Vec<Pattern>,
    wants: Wants,
}

impl core::fmt::Debug for KeyChoice {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.patterns.iter().map(|pattern| &pattern.text)).finish()
    }
}

impl KeyChoice {
    /// Choice of the keys that intersect one of these canonical key expressions; `wants` decides whether a key does.
    pub fn new<T: AsRef<str>>(expressions: &[T], wants: Wants) -> Self {
        Self { patterns: expressions.iter().map(|text| Pattern::new(text.as_ref())).collect(), wants }
    }

    /// Whether rows with a key are wanted.
    pub fn wants(&self, key: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.may_be(key.as_bytes())) && (self.wants)(key)
    }

    /// Whether a segment with these keys may have wanted rows; false only if it has none.
    pub fn may_be_in(&self, keys: &Keys) -> bool {
        let wants = &mut |key: &[u8]| {
            self.patterns.iter().any(|pattern| pattern.may_be(key))
                && str::from_utf8(key).map_or(true, |key| (self.wants)(key))
        };
        keys.any(wants)
            .unwrap_or_else(|| self.patterns.iter().any(|pattern| pattern.may_be_in_filter(&keys.0)))
    }
}

/// Conditions that all keys without wildcards meet which intersect a key expression.
#[derive(Clone)]
struct Pattern {
    text: Box<str>,
    /// Chunks without wildcards at its beginning and its end.
    prefix: Box<str>,
    suffix: Box<str>,
    tokens: Vec<Token>,
    /// Numbers of chunks that these keys may have.
    lengths: u32,
}

impl Pattern {
    fn new(text: &str) -> Self {
        let chunks: Vec<&str> = text.split('/').collect();
        let plain = chunks.iter().take_while(|chunk| !is_wild(chunk.as_bytes())).count();
        let ending = chunks.iter().rev().take_while(|chunk| !is_wild(chunk.as_bytes())).count();
        let prefix = chunks[..plain].join("/");
        let mut tokens: Vec<_> = (1..=plain.min(DEPTH))
            .map(|depth| token(depth as u32 - 1, chunks[..depth].join("/").as_bytes()))
            .collect();
        let fixed = chunks.iter().take_while(|chunk| **chunk != "**").count();
        for (index, chunk) in chunks.iter().enumerate().take(fixed.min(DEPTH)).skip(1) {
            if !is_wild(chunk.as_bytes()) {
                tokens.push(token((DEPTH + index - 1) as u32, chunk.as_bytes()));
            }
        }
        if ending > 0 {
            tokens.push(token(LAST, chunks[chunks.len() - 1].as_bytes()));
        }
        let least = chunks.iter().filter(|chunk| **chunk != "**").count();
        let lengths = if least == chunks.len() {
            length(least)
        } else {
            (least.max(1)..=33).map(length).fold(length(least.max(1)), |all, one| all | one)
        };
        Self {
            text: text.into(),
            prefix: prefix.into(),
            suffix: chunks[chunks.len() - ending..].join("/").into(),
            tokens,
            lengths,
        }
    }

    fn may_be(&self, key: &[u8]) -> bool {
        if is_wild(key) {
            return true;
        }
        let begins = key.strip_prefix(self.prefix.as_bytes());
        let ends = key.strip_suffix(self.suffix.as_bytes());
        let (none, slash) = (self.prefix.is_empty(), self.suffix.is_empty());
        begins.is_some_and(|rest| none || rest.is_empty() || rest[0] == b'/')
            && ends.is_some_and(|rest| slash || rest.is_empty() || rest[rest.len() - 1] == b'/')
    }

    fn may_be_in_filter(&self, octets: &[u8]) -> bool {
        let Some(([FILTER], rest)) = octets.split_first_chunk::<1>() else { return true };
        let Some((lengths, rest)) = rest.split_first_chunk::<4>() else { return true };
        let Some((classes, filter)) = rest.split_first_chunk::<4>() else { return true };
        let (lengths, classes) = (u32::from_le_bytes(*lengths), u32::from_le_bytes(*classes));
        if filter.is_empty() || lengths & self.lengths == 0 {
            return filter.is_empty();
        }
        self.tokens
            .iter()
            .filter(|(class, _)| classes & 1 << class != 0)
            .all(|(_, hash)| bits(*hash, filter.len()).all(|bit| filter[bit / 8] & 1 << (bit % 8) != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whether a key expression matches a key without wildcards, chunk by chunk.
    fn matches(pattern: &[&str], key: &[&str]) -> bool {
        match pattern.split_first() {
            None => key.is_empty(),
            Some((&"**", rest)) => (0..=key.len()).any(|skip| matches(rest, &key[skip..])),
            Some((chunk, rest)) => {
                key.split_first().is_some_and(|(first, after)| fits(chunk, first) && matches(rest, after))
            }
        }
    }

    fn fits(chunk: &str, text: &str) -> bool {
        match chunk.split_once("$*") {
            _ if chunk == "*" => true,
            None => chunk == text,
            Some((before, after)) => text
                .strip_prefix(before)
                .is_some_and(|rest| (0..=rest.len()).any(|skip| fits(after, &rest[skip..]))),
        }
    }

    fn choice(expression: &str) -> KeyChoice {
        let pattern = expression.to_owned();
        let wants = move |key: &str| {
            let (pattern, key): (Vec<_>, Vec<_>) = (pattern.split('/').collect(), key.split('/').collect());
            key.join("").contains('*') || matches(&pattern, &key)
        };
        KeyChoice::new(&[expression], Arc::new(wants))
    }

    fn summary(keys: &[String]) -> Keys {
        let mut collector = KeyCollector::new();
        keys.iter().for_each(|key| collector.add(key.as_bytes()));
        collector.finish()
    }

    const CHUNK: &str = "[ab]{1,2}|[a-f]|[0-9]{1,3}";

    proptest! {
        /// Few keys are named, and many are filtered; neither ever leaves out a segment with a wanted row.
        #[test]
        fn no_segment_with_a_wanted_key_is_left_out(
            keys in prop::collection::vec(prop::collection::vec(CHUNK, 1..11), 0..40),
            more in 0_usize..300,
            wild in prop::option::weighted(0.1, "a/[*]/b|[*]{2}/a|b[$][*]/1"),
            pattern in prop::collection::vec(
                prop_oneof![CHUNK, Just("*".to_owned()), Just("**".to_owned()), Just("a$*".to_owned()), Just("$*1".to_owned())],
                1..8,
            ),
        ) {
            let mut keys: Vec<String> = keys.iter().map(|chunks| chunks.join("/")).collect();
            keys.extend((0..more).map(|number| format!("fleet/{number}/pose/{}", number % 7)));
            keys.extend(wild);
            let found = summary(&keys);
            prop_assert!(found.octets().len() <= MAX_KEYS);
            for expression in [pattern.join("/"), keys.first().cloned().unwrap_or("a".to_owned())] {
                let choice = choice(&expression);
                let wanted = keys.iter().any(|key| (choice.wants)(key));
                prop_assert_eq!(wanted, keys.iter().any(|key| choice.wants(key)));
                if wanted {
                    prop_assert!(choice.may_be_in(&found), "{} of {:?}", expression, keys);
                } else if found.octets()[0] == ALL {
                    prop_assert!(!choice.may_be_in(&found), "{} of {:?}", expression, keys);
                }
            }
        }

        /// Nothing panics, and what cannot be read may have any key.
        #[test]
        fn any_octets_are_a_summary(octets in prop::collection::vec(any::<u8>(), 0..80), kind in 0_u8..4) {
            let octets = [&[kind][..], &octets].concat();
            let may = choice("a/*/b").may_be_in(&Keys::stored(octets.clone().into()));
            prop_assert!(may || [ALL, FILTER].contains(&octets[0]));
        }
    }

    #[test]
    fn filters_pass_few_others() {
        // Thirty robots of a fleet, with five keys each, are too many to be named.
        let keys: Vec<String> = (0..150)
            .map(|number| format!("fleet/robot-{}/sensor/{}/value", number % 30, number % 5))
            .collect();
        let found = summary(&keys);
        assert_eq!(found.octets()[0], FILTER);
        let passed = |expressions: &dyn Fn(usize) -> String| {
            (0..10_000).filter(|number| choice(&expressions(*number)).may_be_in(&found)).count()
        };
        let prefixes = passed(&|number| format!("fleet/robot-{}/**", 1000 + number));
        assert!(prefixes < 200, "{prefixes} of 10000");
        let middles = passed(&|number| format!("fleet/*/sensor/{}/value", 1000 + number));
        assert!(middles < 200, "{middles} of 10000");
        let ends = passed(&|number| format!("**/value-{number}"));
        assert!(ends < 200, "{ends} of 10000");
        assert!(!choice("fleet/robot-1").may_be_in(&found), "no key has two chunks");
        assert!(choice("fleet/robot-7/**").may_be_in(&found));
    }
}
