//! [`Rules`]: groups that cross a bridge, with directions and rates. Nothing crosses that no rule names.

use super::escape::escape;
use crate::zenoh::{
    KeyExpr,
    discovery::bucket::Bucket,
    keyexpr::{includes, intersects},
};
use core::time::Duration;
use std::collections::HashMap;
use thiserror::Error;

/// Senders that rates are kept for: beyond, those of all are forgotten, which lets a burst pass.
const MAX_SENDERS: usize = 65_536;

/// Error for a text that is no pattern of groups.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{pattern:?} is no pattern of groups: it is a name, with * for any characters, and %2F in place of a slash"
)]
pub struct PatternError {
    /// The text.
    pub pattern: String,
}

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// From ZRE to Zenoh.
    ToZenoh,
    /// From Zenoh to ZRE.
    ToZre,
}

/// Rule for groups.
#[derive(Clone, Debug)]
pub struct GroupRule {
    /// Chunk of a key expression.
    chunk: KeyExpr,
    /// Whether SHOUTs of ZRE go to Zenoh.
    pub to_zenoh: bool,
    /// Whether publications of Zenoh go to ZRE.
    pub to_zre: bool,
    /// Most messages of a sender in a second; a second's worth may come at once.
    pub rate: Option<u32>,
}

impl GroupRule {
    /// A rule that lets groups pass in both directions. The pattern is a name encoded as in keys, with `*` for any
    /// characters.
    ///
    /// # Errors
    /// The text is no pattern.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let error = || PatternError { pattern: pattern.to_owned() };
        if pattern.contains('/') || pattern.starts_with('@') {
            return Err(error());
        }
        let stars = pattern.split('*').filter(|part| !part.is_empty()).count();
        let chunk = match stars {
            0 if pattern.contains('*') => "*".to_owned(),
            _ => {
                let mut chunk = pattern.replace("$*", "*");
                while chunk.contains("**") {
                    chunk = chunk.replace("**", "*");
                }
                chunk.replace('*', "$*")
            }
        };
        let chunk = KeyExpr::new(chunk).map_err(|_| error())?;
        // A spelling that no name has would let nothing pass.
        if !chunk.is_wild() && super::unescape(&chunk).is_err() {
            return Err(error());
        }
        Ok(Self { chunk, to_zenoh: true, to_zre: true, rate: None })
    }

    /// Chunk of the key expression that stands for the groups.
    #[must_use]
    pub fn chunk(&self) -> &str {
        &self.chunk
    }

    /// Name of the only group, if the pattern names one.
    #[must_use]
    pub fn literal(&self) -> Option<Vec<u8>> {
        if self.chunk.is_wild() { None } else { super::unescape(&self.chunk).ok() }
    }
}

/// Rules of a bridge.
#[derive(Debug, Default)]
pub struct Rules {
    groups: Vec<GroupRule>,
    whispers: Option<u32>,
    buckets: HashMap<(usize, u64), Bucket>,
}

impl Rules {
    /// The first rule for a group counts. `whispers` is the most WHISPERs of a sender in a second.
    #[must_use]
    pub fn new(groups: Vec<GroupRule>, whispers: Option<u32>) -> Self {
        Self { groups, whispers, buckets: HashMap::new() }
    }

    /// All rules for groups.
    #[must_use]
    pub fn groups(&self) -> &[GroupRule] {
        &self.groups
    }

    /// Number of the rule for a group; `None`: it does not cross.
    #[must_use]
    pub fn find(&self, group: &str) -> Option<usize> {
        let chunk = escape(group.as_bytes());
        self.groups.iter().position(|rule| includes(&rule.chunk, &chunk))
    }

    /// Whether a rule lets a direction pass.
    #[must_use]
    pub fn passes(&self, rule: usize, way: Way) -> bool {
        self.groups.get(rule).is_some_and(|rule| match way {
            Way::ToZenoh => rule.to_zenoh,
            Way::ToZre => rule.to_zre,
        })
    }

    /// Whether the rate of a rule lets one more message of a sender pass. `sender` is any number that stands for it.
    pub fn admit(&mut self, now: Duration, rule: usize, sender: u64) -> bool {
        match self.groups.get(rule).and_then(|rule| rule.rate) {
            Some(rate) => self.take(now, rule, sender, rate),
            None => true,
        }
    }

    /// Whether the rate lets one more WHISPER of a sender pass.
    pub fn admit_whisper(&mut self, now: Duration, sender: u64) -> bool {
        match self.whispers {
            Some(rate) => self.take(now, usize::MAX, sender, rate),
            None => true,
        }
    }

    fn take(&mut self, now: Duration, rule: usize, sender: u64, rate: u32) -> bool {
        if self.buckets.len() >= MAX_SENDERS && !self.buckets.contains_key(&(rule, sender)) {
            self.buckets.clear();
        }
        let rate = rate.max(1);
        let bucket = self.buckets.entry((rule, sender)).or_insert_with(|| Bucket::new(rate, rate - 1));
        bucket.take(now)
    }

    /// Chunks of key expressions that together have all groups of the rules, and no group twice. Groups of one direction
    /// are among them: a bridge in reserve has to see what the other one publishes.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<&str> {
        let mut chunks: Vec<&str> = Vec::new();
        for rule in &self.groups {
            if chunks.iter().any(|known| includes(known, rule.chunk())) {
                continue;
            }
            chunks.retain(|known| !includes(rule.chunk(), known));
            if chunks.iter().any(|known| intersects(known, rule.chunk())) {
                return vec!["*"];
            }
            chunks.push(rule.chunk());
        }
        chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rules(patterns: &[&str]) -> Rules {
        Rules::new(patterns.iter().map(|pattern| GroupRule::new(pattern).unwrap()).collect(), Some(2))
    }

    #[test]
    fn nothing_crosses_that_is_not_named() {
        let rules = rules(&["chat", "robot-*", "a%2Fb", "*-x"]);
        for (group, found) in [
            ("chat", Some(0)),
            ("chatter", None),
            ("robot-1", Some(1)),
            ("robot-x", Some(1)),
            ("a/b", Some(2)),
            ("y-x", Some(3)),
            ("", None),
            ("@", None),
        ] {
            assert_eq!(rules.find(group), found, "{group}");
        }
        assert_eq!(Rules::default().find("chat"), None);
        assert_eq!(super::Rules::new(vec![GroupRule::new("**").unwrap()], None).find("@any/thing"), Some(0));
    }

    #[test]
    fn patterns() {
        for (pattern, chunk) in [("*", "*"), ("**", "*"), ("a*b", "a$*b"), ("a$*b", "a$*b"), ("%", "%")] {
            assert_eq!(GroupRule::new(pattern).unwrap().chunk(), chunk);
        }
        for pattern in ["", "a/b", "@a", "a?", "#", "50%", "a%2fb", "%63hat"] {
            assert!(GroupRule::new(pattern).is_err(), "{pattern}");
        }
        assert_eq!(GroupRule::new("a%2Fb").unwrap().literal().as_deref(), Some(&b"a/b"[..]));
        assert_eq!(GroupRule::new("a*").unwrap().literal(), None);
    }

    #[test]
    fn no_subscription_has_a_group_twice() {
        for (patterns, wanted) in [
            (&["chat", "chat", "chat-*"][..], &["chat", "chat-$*"][..]),
            (&["a", "a*", "b"], &["a$*", "b"]),
            (&["a*", "*b"], &["*"]),
            (&[], &[]),
        ] {
            assert_eq!(rules(patterns).subscriptions(), wanted, "{patterns:?}");
        }
        let mut one_way = GroupRule::new("chat").unwrap();
        one_way.to_zre = false;
        let rules = Rules::new(vec![one_way], None);
        assert!(
            rules.passes(0, Way::ToZenoh) && !rules.passes(0, Way::ToZre) && !rules.passes(1, Way::ToZenoh)
        );
    }

    #[test]
    fn each_sender_has_its_rate() {
        let mut rule = GroupRule::new("*").unwrap();
        rule.rate = Some(3);
        let mut rules = Rules::new(vec![rule], Some(1));
        let now = Duration::from_secs(5);
        let passed = |rules: &mut Rules, now, sender| (0..10).filter(|_| rules.admit(now, 0, sender)).count();
        assert_eq!((passed(&mut rules, now, 1), passed(&mut rules, now, 2)), (3, 3));
        assert_eq!(passed(&mut rules, now + Duration::from_secs(1), 1), 3);
        assert!(rules.admit_whisper(now, 1) && !rules.admit_whisper(now, 1) && rules.admit_whisper(now, 2));
    }

    proptest! {
        #[test]
        fn the_subscriptions_have_what_the_rules_name(
            patterns in prop::collection::vec("[ab]{0,2}\\*?[ab]{0,2}", 1..5), group in "[ab]{0,4}"
        ) {
            let all: Vec<GroupRule> = patterns.iter().filter_map(|p| GroupRule::new(p).ok()).collect();
            let rules = Rules::new(all, None);
            let chunk = escape(group.as_bytes());
            let has = rules.subscriptions().iter().filter(|known| includes(known, &chunk)).count();
            prop_assert!(has <= 1);
            if rules.find(&group).is_some() {
                prop_assert_eq!(has, 1);
            }
        }
    }
}
