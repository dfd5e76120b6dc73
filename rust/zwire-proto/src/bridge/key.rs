//! Keys of a bridged network: peers, groups and messages of ZRE in Zenoh.
//!
//! ```text
//! <net>/@peer/<uuid>/<bridge>      token: the peer is there, as that bridge sees it
//! <net>/@peer/<uuid>/info          queryable and put: name, headers, groups
//! <net>/@peer/<uuid>/state         put: evasive or ok
//! <net>/@group/<group>/<uuid>      token: the peer is in the group
//! <net>/@bridge/<bridge>           token and put: the bridge is there
//! <net>/@log/<uuid>                put: a record of ZRE/LOG
//! <net>/group/<group>/<sender>     put: a SHOUT
//! <net>/peer/<to>/<sender>         put or query: a WHISPER
//! ```
//!
//! The sender is part of the key, so that an access rule can say which program sends as which peer. `@` keeps all but the
//! messages out of `<net>/**`.

use super::escape::{escape, unescape};
use crate::{
    Text,
    zenoh::{KeyExpr, ZenohId},
    zre::Uuid,
};
use core::str::FromStr;
use sha3::{Digest, Sha3_256};
use thiserror::Error;

/// Longest name of a network, so that every name of ZRE fits into a key.
const MAX_NAME: usize = 255;

/// Error for a text that cannot be the name of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the name of a network is a key of at most 255 octets without wildcards and without chunks that begin with @"
)]
pub struct NetworkError;

/// Sender in the key of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// UUID of a peer, or of a program that has one.
    Peer(Uuid),
    /// Name of a program of Zenoh without a UUID.
    Named(Text),
}

impl Sender {
    /// UUID, if the sender has one.
    #[must_use]
    pub const fn uuid(&self) -> Option<Uuid> {
        match self {
            Self::Peer(uuid) => Some(*uuid),
            Self::Named(_) => None,
        }
    }
}

/// Meaning of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Token of a peer.
    Peer {
        /// The peer.
        uuid: Uuid,
        /// The bridge that sees it.
        bridge: ZenohId,
    },
    /// Description of a peer.
    Info(Uuid),
    /// State of a peer.
    State(Uuid),
    /// Token of a membership.
    Member {
        /// Name of the group.
        group: Text,
        /// The member.
        uuid: Uuid,
    },
    /// Token and signs of life of a bridge.
    Bridge(ZenohId),
    /// A record of ZRE/LOG.
    Log(Uuid),
    /// A SHOUT.
    Shout {
        /// Name of the group.
        group: Text,
        /// The sender.
        sender: Sender,
    },
    /// A WHISPER.
    Whisper {
        /// The receiver.
        to: Uuid,
        /// The sender.
        sender: Sender,
    },
}

/// Name of a bridged network, the prefix of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network(Text);

/// UUID of a program of Zenoh: SHA3-256 of `zwire-zre` and the 16 octets of its id, the first 16 octets of it, as a UUID of
/// version 8 (RFC 9562). Other programs compute it with the standard library of most languages.
#[must_use]
pub fn uuid_of(zid: ZenohId) -> Uuid {
    let digest = Sha3_256::new().chain_update(b"zwire-zre").chain_update(zid.to_le_bytes()).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    // libzmq refuses an identity that begins with a zero octet.
    bytes[0] = bytes[0].max(1);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid::from_bytes(bytes)
}

fn uuid(chunk: &str) -> Option<Uuid> {
    let lower = chunk.len() == 32 && chunk.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if lower { chunk.parse().ok() } else { None }
}

fn name(chunk: &str) -> Option<Text> {
    unescape(chunk).ok().and_then(|name| Text::from_utf8(name.into()).ok())
}

fn sender(chunk: &str) -> Option<Sender> {
    uuid(chunk).map(Sender::Peer).or_else(|| name(chunk).map(Sender::Named))
}

/// UUID as in keys: 32 lower-case digits.
fn lower(uuid: &Uuid) -> String {
    let mut text = uuid.to_string();
    text.make_ascii_lowercase();
    text
}

impl Network {
    /// A network of that name.
    ///
    /// # Errors
    /// The name cannot be the beginning of keys.
    pub fn new(name: &str) -> Result<Self, NetworkError> {
        let key = KeyExpr::new(name).map_err(|_| NetworkError)?;
        if key.is_wild() || name.len() > MAX_NAME || name.split('/').any(|chunk| chunk.starts_with('@')) {
            return Err(NetworkError);
        }
        Ok(Self(name.into()))
    }

    /// Name of the network.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Key of this network; `None` if a chunk is too long for a key.
    fn key(&self, kind: &str, first: &str, second: Option<&str>) -> Option<KeyExpr> {
        let mut text = format!("{}/{kind}/{first}", self.0);
        if let Some(second) = second {
            text.push('/');
            text.push_str(second);
        }
        KeyExpr::new(text).ok()
    }

    /// Key of a SHOUT; `None` if the name of the group is too long for a key.
    #[must_use]
    pub fn shout(&self, group: &str, sender: &Uuid) -> Option<KeyExpr> {
        self.key("group", &escape(group.as_bytes()), Some(&lower(sender)))
    }

    /// Key expression of the SHOUTs to groups; `chunk` is a pattern of encoded names.
    #[must_use]
    pub fn shouts(&self, chunk: &str) -> Option<KeyExpr> {
        self.key("group", chunk, Some("*"))
    }

    /// Key of a WHISPER.
    #[must_use]
    pub fn whisper(&self, to: &Uuid, sender: &Uuid) -> Option<KeyExpr> {
        self.key("peer", &lower(to), Some(&lower(sender)))
    }

    /// Key expression of all WHISPERs.
    #[must_use]
    pub fn whispers(&self) -> Option<KeyExpr> {
        self.key("peer", "*", Some("*"))
    }

    /// Key of the token of a peer.
    #[must_use]
    pub fn peer(&self, uuid: &Uuid, bridge: ZenohId) -> Option<KeyExpr> {
        self.key("@peer", &lower(uuid), Some(&bridge.to_string()))
    }

    /// Key expression of the tokens of all peers.
    #[must_use]
    pub fn peers(&self) -> Option<KeyExpr> {
        self.key("@peer", "*", Some("*"))
    }

    /// Key of the description of a peer.
    #[must_use]
    pub fn info(&self, uuid: &Uuid) -> Option<KeyExpr> {
        self.key("@peer", &lower(uuid), Some("info"))
    }

    /// Key expression of the descriptions of all peers.
    #[must_use]
    pub fn infos(&self) -> Option<KeyExpr> {
        self.key("@peer", "*", Some("info"))
    }

    /// Key of the state of a peer.
    #[must_use]
    pub fn state(&self, uuid: &Uuid) -> Option<KeyExpr> {
        self.key("@peer", &lower(uuid), Some("state"))
    }

    /// Key of the token of a membership; `None` if the name of the group is too long for a key.
    #[must_use]
    pub fn member(&self, group: &str, uuid: &Uuid) -> Option<KeyExpr> {
        self.key("@group", &escape(group.as_bytes()), Some(&lower(uuid)))
    }

    /// Key expression of the tokens of all memberships.
    #[must_use]
    pub fn members(&self) -> Option<KeyExpr> {
        self.key("@group", "*", Some("*"))
    }

    /// Key of the token and the signs of life of a bridge.
    #[must_use]
    pub fn bridge(&self, bridge: ZenohId) -> Option<KeyExpr> {
        self.key("@bridge", &bridge.to_string(), None)
    }

    /// Key expression of all bridges.
    #[must_use]
    pub fn bridges(&self) -> Option<KeyExpr> {
        self.key("@bridge", "*", None)
    }

    /// Key of the log of a peer.
    #[must_use]
    pub fn log(&self, uuid: &Uuid) -> Option<KeyExpr> {
        self.key("@log", &lower(uuid), None)
    }

    /// Meaning of a key; `None`: it is none of this network, or a name in it is not encoded as [`escape`] does.
    #[must_use]
    pub fn parse(&self, key: &str) -> Option<Place> {
        let mut chunks = key.strip_prefix(&*self.0)?.strip_prefix('/')?.split('/');
        let (kind, first) = (chunks.next()?, chunks.next()?);
        let (second, end) = (chunks.next(), chunks.next());
        if end.is_some() {
            return None;
        }
        Some(match (kind, second) {
            ("group", Some(from)) => Place::Shout { group: name(first)?, sender: sender(from)? },
            ("peer", Some(from)) => Place::Whisper { to: uuid(first)?, sender: sender(from)? },
            ("@peer", Some("info")) => Place::Info(uuid(first)?),
            ("@peer", Some("state")) => Place::State(uuid(first)?),
            ("@peer", Some(zid)) => Place::Peer { uuid: uuid(first)?, bridge: ZenohId::from_str(zid).ok()? },
            ("@group", Some(member)) => Place::Member { group: name(first)?, uuid: uuid(member)? },
            ("@bridge", None) => Place::Bridge(ZenohId::from_str(first).ok()?),
            ("@log", None) => Place::Log(uuid(first)?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const U: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
    const V: &str = "01000000000040008000000000000000";

    fn id(text: &str) -> Uuid {
        text.parse().unwrap()
    }

    /// The table of `zenoh-services` 7.4.
    #[test]
    fn keys_are_those_of_the_table() {
        let net = Network::new("zre").unwrap();
        let zid: ZenohId = "a1b2".parse().unwrap();
        let (u, v) = (id(U), id(V));
        let cases = [
            (net.peer(&u, zid), format!("zre/@peer/{U}/a1b2"), Place::Peer { uuid: u, bridge: zid }),
            (net.info(&u), format!("zre/@peer/{U}/info"), Place::Info(u)),
            (net.state(&u), format!("zre/@peer/{U}/state"), Place::State(u)),
            (
                net.member("a/b", &u),
                format!("zre/@group/a%2Fb/{U}"),
                Place::Member { group: "a/b".into(), uuid: u },
            ),
            (net.bridge(zid), "zre/@bridge/a1b2".to_owned(), Place::Bridge(zid)),
            (net.log(&u), format!("zre/@log/{U}"), Place::Log(u)),
            (
                net.shout("", &u),
                format!("zre/group/%/{U}"),
                Place::Shout { group: Text::EMPTY, sender: Sender::Peer(u) },
            ),
            (
                net.whisper(&u, &v),
                format!("zre/peer/{U}/{V}"),
                Place::Whisper { to: u, sender: Sender::Peer(v) },
            ),
        ];
        for (key, text, place) in cases {
            assert_eq!(key.unwrap().as_str(), text);
            assert_eq!(net.parse(&text), Some(place));
        }
    }

    #[test]
    fn a_program_sends_under_its_name() {
        let net = Network::new("a/b").unwrap();
        let named = Place::Shout { group: "chat".into(), sender: Sender::Named("me".into()) };
        assert_eq!(net.parse("a/b/group/chat/me"), Some(named));
        // Upper-case digits are a name: a UUID has one spelling.
        let upper = U.to_uppercase();
        let named = Place::Shout { group: "chat".into(), sender: Sender::Named(upper.as_str().into()) };
        assert_eq!(net.parse(&format!("a/b/group/chat/{upper}")), Some(named));
    }

    #[test]
    fn what_is_no_key_of_the_network() {
        let net = Network::new("zre").unwrap();
        for key in [
            "zre",
            "zre/group",
            "zre/group/chat",
            "zre/group/%63hat/me",
            "zre/group/chat/me/too",
            "zre/group/%FF/me",
            "zre/peer/me/you",
            "zrex/group/chat/me",
            "zre/@bridge/0",
            "zre/@bridge/xyz",
            "zre/@log/me",
            "zre/@peer/me/a1",
        ] {
            assert_eq!(net.parse(key), None, "{key}");
        }
    }

    #[test]
    fn names_of_networks() {
        assert!(Network::new("site/zre").is_ok());
        for name in ["", "a/", "/a", "*", "a/**", "@a", "a/@b", &"n".repeat(256)] {
            assert_eq!(Network::new(name), Err(NetworkError), "{name}");
        }
    }

    /// Computed with `hashlib.sha3_256` of Python.
    #[test]
    fn a_program_has_a_uuid_of_its_id() {
        let uuid = uuid_of("a1b2".parse().unwrap());
        assert_eq!(uuid.to_string(), UUID_OF_A1B2);
        assert_eq!(uuid.as_bytes()[6] >> 4, 8);
    }

    const UUID_OF_A1B2: &str = "4B4C07210F7F86279CCA141B7776B9AF";

    proptest! {
        #[test]
        fn groups_come_back(group in "\\PC{0,40}", bytes in any::<[u8; 16]>()) {
            let (net, uuid) = (Network::new("n/m").unwrap(), Uuid::from_bytes(bytes));
            let key = net.shout(&group, &uuid).unwrap();
            let place = Place::Shout { group: group.as_str().into(), sender: Sender::Peer(uuid) };
            prop_assert_eq!(net.parse(&key), Some(place));
            prop_assert!(net.shouts("*").unwrap().includes(&key));
            let key = net.member(&group, &uuid).unwrap();
            prop_assert!(net.members().unwrap().includes(&key));
        }

        #[test]
        fn no_key_panics(key in "zre/[@a-z]{0,6}/[%@a-f0-9/]{0,70}") {
            let _ = Network::new("zre").unwrap().parse(&key);
        }
    }
}
