//! What advanced publishers and subscribers declare beside their keys.
//!
//! | Who | Key |
//! | --- | --- |
//! | publisher, numbered: queryable of its cache, token, heartbeats | `<key>/@adv/pub/<zid>/<eid>/_` |
//! | publisher, stamped with times | `<key>/@adv/pub/<zid>/uhlc/_` |
//! | subscriber: token | `<key>/@adv/sub/<zid>/<eid>/_` |
//!
//! The last chunk is free for what a publisher wants to tell of itself. No wildcard matches `@adv`, so that
//! nobody meets these keys who does not ask for them.

use crate::zenoh::{KeyExpr, ZenohId, keyexpr::KeyExprError};

/// In the place of a number, at publishers whose samples are told apart by their times.
const CLOCK: &str = "uhlc";

/// Who numbers publications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// Its node.
    pub zid: ZenohId,
    /// Its number within the node.
    pub eid: u32,
}

/// Who has declared a token or sends a heartbeat, as its key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// A publisher that numbers.
    Numbered(Source),
    /// A publisher of that node whose samples have times.
    Stamped(ZenohId),
}

/// Where a publisher declares; without a number it is one that is stamped with times.
///
/// # Errors
/// The key leaves no room for more.
pub fn of_publisher(key: &KeyExpr, zid: ZenohId, eid: Option<u32>) -> Result<KeyExpr, KeyExprError> {
    match eid {
        Some(eid) => key.join(&format!("@adv/pub/{zid}/{eid}/_")),
        None => key.join(&format!("@adv/pub/{zid}/{CLOCK}/_")),
    }
}

/// Where a subscriber declares.
///
/// # Errors
/// The key leaves no room for more.
pub fn of_subscriber(key: &KeyExpr, source: Source) -> Result<KeyExpr, KeyExprError> {
    key.join(&format!("@adv/sub/{}/{}/_", source.zid, source.eid))
}

/// Where all publishers declare that publish on a key.
///
/// # Errors
/// The key leaves no room for more.
pub fn of_all_publishers(key: &KeyExpr) -> Result<KeyExpr, KeyExprError> {
    key.join("@adv/pub/**")
}

/// Where everybody declares, whatever else there may come to be.
///
/// # Errors
/// The key leaves no room for more.
pub fn of_all(key: &KeyExpr) -> Result<KeyExpr, KeyExprError> {
    key.join("@adv/**")
}

/// Where one publisher is asked, whatever it says of itself.
///
/// # Errors
/// The key leaves no room for more.
pub fn of_source(key: &KeyExpr, source: Source) -> Result<KeyExpr, KeyExprError> {
    key.join(&format!("@adv/*/{}/{}/**", source.zid, source.eid))
}

/// Which publisher has declared on this key.
#[must_use]
pub fn publisher_of(key: &str) -> Option<Declared> {
    let mut chunks = key.split('/');
    while chunks.next()? != "@adv" {}
    if chunks.next()? != "pub" {
        return None;
    }
    let zid = chunks.next()?.parse().ok()?;
    match chunks.next()? {
        CLOCK => Some(Declared::Stamped(zid)),
        // What is no plain number is none of ours: `+5` parses.
        eid if eid.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(Declared::Numbered(Source { zid, eid: eid.parse().ok()? }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_say_who_it_is() {
        let key: KeyExpr = "demo/a".parse().unwrap();
        let zid: ZenohId = "1e02ab".parse().unwrap();
        let source = Source { zid, eid: 7 };
        let numbered = of_publisher(&key, zid, Some(7)).unwrap();
        let stamped = of_publisher(&key, zid, None).unwrap();
        assert_eq!(numbered, "demo/a/@adv/pub/1e02ab/7/_");
        assert_eq!(stamped, "demo/a/@adv/pub/1e02ab/uhlc/_");
        assert_eq!(of_subscriber(&key, source).unwrap(), "demo/a/@adv/sub/1e02ab/7/_");
        assert_eq!(publisher_of(&numbered), Some(Declared::Numbered(source)));
        assert_eq!(publisher_of(&stamped), Some(Declared::Stamped(zid)));
        for wild in ["demo/a", "demo/*", "demo/**", "**"] {
            let wild: KeyExpr = wild.parse().unwrap();
            assert!(of_all_publishers(&wild).unwrap().intersects(&numbered));
            assert!(of_all(&wild).unwrap().intersects(&numbered));
            assert!(of_source(&wild, source).unwrap().intersects(&numbered));
            assert!(!of_source(&wild, Source { eid: 8, ..source }).unwrap().intersects(&numbered));
        }
    }

    #[test]
    fn other_keys_say_nothing() {
        for key in [
            "demo/a",
            "demo/@adv",
            "demo/@adv/sub/1e/7/_",
            "demo/@adv/pub",
            "demo/@adv/pub/1e",
            "demo/@adv/pub/xyz/7/_",
            "demo/@adv/pub/0/7/_",
            "demo/@adv/pub/1e/+7/_",
            "demo/@adv/pub/1e/seven/_",
            "demo/@adv/pub/1e/4294967296/_",
        ] {
            assert_eq!(publisher_of(key), None, "{key}");
        }
        // What a publisher says of itself is its own affair.
        let zid = "1e".parse().unwrap();
        let known = Some(Declared::Numbered(Source { zid, eid: 7 }));
        assert_eq!(publisher_of("@adv/pub/1e/7"), known);
        assert_eq!(publisher_of("demo/@adv/pub/1e/7/left/wheel"), known);
    }
}
