//! Keys that advanced publishers and subscribers declare beside their own.
//!
//! | Entity | Key |
//! | --- | --- |
//! | publisher, numbered: queryable of its cache, token, heartbeats | `<key>/@adv/pub/<zid>/<eid>/_` |
//! | publisher, stamped with times | `<key>/@adv/pub/<zid>/uhlc/_` |
//! | subscriber: token | `<key>/@adv/sub/<zid>/<eid>/_` |
//!
//! The last chunk is free for information about the publisher. No wildcard matches `@adv`, so that
//! these keys only reach entities that ask for them. No function here fails unless the joined key is too
//! long.

use crate::zenoh::{KeyExpr, ZenohId, keyexpr::KeyExprError, wire::SourceInfo};
use bytes::Bytes;

/// Replacement of the entity number, for publishers with timestamps instead of numbers.
const CLOCK: &str = "uhlc";

/// Publisher of numbered publications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleSource {
    /// Node of the publisher.
    pub zid: ZenohId,
    /// Entity number within the node.
    pub eid: u32,
}

impl SampleSource {
    pub(super) const fn of(info: &SourceInfo) -> Self {
        Self { zid: info.zid, eid: info.eid }
    }
}

/// Publisher that declared a token or sends a heartbeat, from its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclaredParts {
    /// A publisher with numbered samples.
    Numbered(SampleSource),
    /// A publisher of that node with timestamps.
    Stamped(ZenohId),
}

/// Key of a publisher's declarations; without a number it is one with timestamps.
pub fn of_publisher(key: &KeyExpr, zid: ZenohId, eid: Option<u32>) -> Result<KeyExpr, KeyExprError> {
    match eid {
        Some(eid) => key.join(&format!("@adv/pub/{zid}/{eid}/_")),
        None => key.join(&format!("@adv/pub/{zid}/{CLOCK}/_")),
    }
}

/// Key of a subscriber's declarations.
pub fn of_subscriber(key: &KeyExpr, source: SampleSource) -> Result<KeyExpr, KeyExprError> {
    key.join(&format!("@adv/sub/{}/{}/_", source.zid, source.eid))
}

/// Key of the declarations of all publishers on a key.
pub fn of_all_publishers(key: &KeyExpr) -> Result<KeyExpr, KeyExprError> {
    key.join("@adv/pub/**")
}

/// Key of all declarations, future kinds included.
pub fn of_all(key: &KeyExpr) -> Result<KeyExpr, KeyExprError> {
    key.join("@adv/**")
}

/// Key to query one publisher, whatever its last chunk.
pub fn of_source(key: &KeyExpr, source: SampleSource) -> Result<KeyExpr, KeyExprError> {
    key.join(&format!("@adv/*/{}/{}/**", source.zid, source.eid))
}

/// The publisher that declared this key.
#[must_use]
pub fn publisher_of(key: &str) -> Option<DeclaredParts> {
    let mut chunks = key.split('/');
    while chunks.next()? != "@adv" {}
    if chunks.next()? != "pub" {
        return None;
    }
    let zid = chunks.next()?.parse().ok()?;
    match chunks.next()? {
        CLOCK => Some(DeclaredParts::Stamped(zid)),
        // Only plain digits are valid: `+5` would parse.
        eid if eid.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(DeclaredParts::Numbered(SampleSource { zid, eid: eid.parse().ok()? }))
        }
        _ => None,
    }
}

/// The payload of a heartbeat: the number of the last publication in four bytes, lowest first.
#[must_use]
pub fn encode_heartbeat(last: u32) -> Bytes {
    Bytes::copy_from_slice(&last.to_le_bytes())
}

/// The number in a heartbeat. A payload of any length but four bytes is none.
#[must_use]
pub fn decode_heartbeat(payload: &[u8]) -> Option<u32> {
    payload.try_into().ok().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_say_who_it_is() {
        let key: KeyExpr = "demo/a".parse().unwrap();
        let zid: ZenohId = "1e02ab".parse().unwrap();
        let source = SampleSource { zid, eid: 7 };
        let numbered = of_publisher(&key, zid, Some(7)).unwrap();
        let stamped = of_publisher(&key, zid, None).unwrap();
        assert_eq!(numbered, "demo/a/@adv/pub/1e02ab/7/_");
        assert_eq!(stamped, "demo/a/@adv/pub/1e02ab/uhlc/_");
        assert_eq!(of_subscriber(&key, source).unwrap(), "demo/a/@adv/sub/1e02ab/7/_");
        assert_eq!(publisher_of(&numbered), Some(DeclaredParts::Numbered(source)));
        assert_eq!(publisher_of(&stamped), Some(DeclaredParts::Stamped(zid)));
        for wild in ["demo/a", "demo/*", "demo/**", "**"] {
            let wild: KeyExpr = wild.parse().unwrap();
            assert!(of_all_publishers(&wild).unwrap().intersects(&numbered));
            assert!(of_all(&wild).unwrap().intersects(&numbered));
            assert!(of_source(&wild, source).unwrap().intersects(&numbered));
            assert!(!of_source(&wild, SampleSource { eid: 8, ..source }).unwrap().intersects(&numbered));
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
        // The last chunk may hold any information of the publisher.
        let zid = "1e".parse().unwrap();
        let known = Some(DeclaredParts::Numbered(SampleSource { zid, eid: 7 }));
        assert_eq!(publisher_of("@adv/pub/1e/7"), known);
        assert_eq!(publisher_of("demo/@adv/pub/1e/7/left/wheel"), known);
    }

    #[test]
    fn four_bytes_and_nothing_else() {
        // Heartbeat of eclipse-zenoh 1.10 after its fifth publication.
        assert_eq!(decode_heartbeat(b"\x04\0\0\0"), Some(4));
        assert_eq!(&encode_heartbeat(4)[..], b"\x04\0\0\0");
        for number in [0, 1, 0xff, 0x0100, u32::MAX] {
            assert_eq!(decode_heartbeat(&encode_heartbeat(number)), Some(number));
        }
        for payload in [&b""[..], b"\x04", b"\x04\0\0", b"\x04\0\0\0\0", b"\x04\0\0\0\0\0\0\0"] {
            assert_eq!(decode_heartbeat(payload), None, "{payload:?}");
        }
    }
}
