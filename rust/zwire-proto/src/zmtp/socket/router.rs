//! [`Router`]: maps identities to connections (`zmtp` 12.1).

use super::PeerKey;
use bytes::Bytes;
use std::collections::{HashMap, hash_map::Entry};

/// The first byte of identities that a router generates.
const MADE_UP: u8 = 0;

/// Result of a new connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The connection is known by this identity.
    Admitted(Bytes),
    /// The connection took over the identity of another connection, which must be closed.
    HandedOver {
        /// The identity.
        identity: Bytes,
        /// The previous holder of the identity.
        loser: PeerKey,
    },
    /// Another connection holds the identity: the new one must be closed without an ERROR and may
    /// retry.
    Taken,
}

/// The identities of a ROUTER's connections.
#[derive(Debug)]
pub struct Router {
    handover: bool,
    /// The next identity to generate.
    next: u32,
    keys: HashMap<Bytes, PeerKey>,
    identities: HashMap<PeerKey, Bytes>,
}

impl Router {
    /// With `handover` a new connection takes over an identity in use, and the previous holder is
    /// closed; else the new connection is closed. Generated identities count from `first`, which should
    /// be random.
    #[must_use]
    pub fn new(handover: bool, first: u32) -> Self {
        Self { handover, next: first, keys: HashMap::new(), identities: HashMap::new() }
    }

    /// Registers a connection with the identity of its peer. An empty identity is replaced by a
    /// generated one: a 0 and four bytes.
    pub fn open(&mut self, key: PeerKey, identity: &Bytes) -> Admission {
        let identity = if identity.is_empty() { self.make_up() } else { identity.clone() };
        let loser = match self.keys.entry(identity.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(key);
                None
            }
            Entry::Occupied(_) if !self.handover => return Admission::Taken,
            Entry::Occupied(mut entry) => Some(entry.insert(key)),
        };
        self.identities.insert(key, identity.clone());
        match loser {
            Some(loser) => {
                self.identities.remove(&loser);
                Admission::HandedOver { identity, loser }
            }
            None => Admission::Admitted(identity),
        }
    }

    fn make_up(&mut self) -> Bytes {
        loop {
            let [a, b, c, d] = self.next.to_be_bytes();
            self.next = self.next.wrapping_add(1);
            let identity = Bytes::copy_from_slice(&[MADE_UP, a, b, c, d]);
            // Peers may not set such an identity, but some do (`zmtp` 8.3); and the counter wraps after
            // 2^32.
            if !self.keys.contains_key(&identity) {
                return identity;
            }
        }
    }

    /// Removes a connection and returns its identity, if it still had one.
    pub fn close(&mut self, key: PeerKey) -> Option<Bytes> {
        let identity = self.identities.remove(&key)?;
        self.keys.remove(&identity);
        Some(identity)
    }

    /// The connection that has this identity.
    #[must_use]
    pub fn route(&self, identity: &[u8]) -> Option<PeerKey> {
        self.keys.get(identity).copied()
    }

    /// The identity put before messages of that connection; without one they are not delivered.
    #[must_use]
    pub fn identity(&self, key: PeerKey) -> Option<&Bytes> {
        self.identities.get(&key)
    }

    /// All identities in use.
    pub fn identities(&self) -> impl Iterator<Item = &Bytes> {
        self.keys.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAME: Bytes = Bytes::from_static(b"robot");

    #[test]
    fn peers_are_known_by_their_identity_or_by_one_that_is_made_up() {
        let mut router = Router::new(false, 0x0102_03ff);
        assert_eq!(router.open(1, &NAME), Admission::Admitted(NAME));
        let made = Bytes::from_static(&[0, 1, 2, 3, 0xff]);
        assert_eq!(router.open(2, &Bytes::new()), Admission::Admitted(made.clone()));
        let next = Bytes::from_static(&[0, 1, 2, 4, 0]);
        assert_eq!(router.open(3, &Bytes::new()), Admission::Admitted(next));
        assert_eq!((router.route(&NAME), router.route(&made), router.route(b"x")), (Some(1), Some(2), None));
        assert_eq!(router.identity(2), Some(&made));
        assert_eq!(router.close(2), Some(made.clone()));
        assert_eq!((router.route(&made), router.identity(2)), (None, None));
        assert_eq!(router.close(2), None);
    }

    #[test]
    fn a_made_up_identity_is_not_one_that_a_peer_has_set() {
        let mut router = Router::new(false, u32::MAX);
        router.open(1, &Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff]));
        let wrapped = Bytes::from_static(&[0; 5]);
        assert_eq!(router.open(2, &Bytes::new()), Admission::Admitted(wrapped));
    }

    #[test]
    fn without_handover_the_newcomer_has_to_go() {
        let mut router = Router::new(false, 0);
        router.open(1, &NAME);
        assert_eq!(router.open(2, &NAME), Admission::Taken);
        assert_eq!((router.route(&NAME), router.identity(2)), (Some(1), None));
        // Closing the previous holder leaves the other connection unchanged.
        assert_eq!(router.close(2), None);
        assert_eq!(router.route(&NAME), Some(1));
        // "If the old connection has been seen to close first, the newcomer is simply a new peer."
        router.close(1);
        assert_eq!(router.open(3, &NAME), Admission::Admitted(NAME));
    }

    #[test]
    fn with_handover_the_newcomer_takes_over_at_once() {
        let mut router = Router::new(true, 0);
        router.open(1, &NAME);
        assert_eq!(router.open(2, &NAME), Admission::HandedOver { identity: NAME, loser: 1 });
        // "Messages already received from the old connection and later ones are not delivered any more;
        // replies go to the new one."
        assert_eq!((router.route(&NAME), router.identity(1)), (Some(2), None));
        assert_eq!(router.close(1), None, "the end of the old one does not take the identity away");
        assert_eq!(router.route(&NAME), Some(2));
    }

    proptest! {
        /// Under any sequence of connects and closes, identities and connections map to each other.
        #[test]
        fn identities_and_connections_agree(
            handover: bool,
            steps in proptest::collection::vec((any::<bool>(), 0..8u64, 0..4u8), 0..60),
        ) {
            let mut router = Router::new(handover, 0);
            let mut open = std::collections::HashSet::new();
            for (up, key, name) in steps {
                if up && open.insert(key) {
                    let name = if name == 0 { Bytes::new() } else { Bytes::from(vec![name]) };
                    if router.open(key, &name) == Admission::Taken {
                        open.remove(&key);
                    }
                } else {
                    open.remove(&key);
                    router.close(key);
                }
                prop_assert_eq!(router.keys.len(), router.identities.len());
                for (key, identity) in &router.identities {
                    prop_assert_eq!(router.route(identity), Some(*key));
                    prop_assert!(open.contains(key));
                }
            }
        }
    }
}
