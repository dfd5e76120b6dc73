//! [`Speakers`]: which connection speaks for a node (`zre` 3, `zmtp` 12.1).
//!
//! The newest connection with the identity of a node speaks for it: a node that restarts, or opens its
//! connection again, continues at once. Two rules keep a stranger that knows a UUID from taking the session
//! of its owner:
//!
//! - Under CURVE a connection with another key never takes over.
//! - Otherwise one from another address waits until it is known whether the node still answers: the caller
//!   asks the node, and a message on the old connection decides for that one, silence for the new one.

use super::super::{Uuid, wire::IdentityForm};
use crate::Now;
use bytes::Bytes;
use core::{net::IpAddr, time::Duration};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Time for a node to answer before a connection from another address takes over. It is half the time for which
/// a node that has moved takes the HELLO of this one for an answer, not for a restart.
const ANSWER: Duration = Duration::from_secs(1);
/// Time after a message within which a node need not be asked.
const RECENT: Duration = Duration::from_secs(1);

/// Number of a connection, chosen by the driver.
pub type SpeakerId = u64;

/// An accepted connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpeakerLink {
    /// Number of the connection.
    pub id: SpeakerId,
    /// Identity of its peer.
    pub identity: Bytes,
    /// Address of its peer.
    pub address: IpAddr,
    /// Key that the peer has proved to own.
    pub key: Option<[u8; 32]>,
}

/// Result of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeakerAdmission {
    /// It speaks for its node; a connection that spoke before must be closed.
    Admitted {
        /// The connection that spoke before.
        old: Option<SpeakerId>,
    },
    /// Its messages wait for [`Speakers::poll_end`], and this node must be asked for an answer.
    Waits {
        /// The node, if the identity is that of one.
        ask: Option<Uuid>,
    },
    /// It must be closed.
    Refused,
}

/// End of a contest between two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContestEnd {
    /// The connection that speaks for the node.
    pub winner: SpeakerId,
    /// The connection that must be closed; `None`: it is closed.
    pub loser: Option<SpeakerId>,
}

/// A node has several forms of identity, and one connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum SpeakerName {
    Node(Uuid),
    Other(Bytes),
}

impl SpeakerName {
    fn of(identity: &Bytes) -> Self {
        IdentityForm::decode(identity)
            .map_or_else(|| Self::Other(identity.clone()), |(_, uuid)| Self::Node(uuid))
    }
}

#[derive(Debug)]
struct Speaker {
    link: SpeakerLink,
    /// Time of its last message; of its begin, before.
    heard: Option<Duration>,
    /// A connection that waits to take over, and until when.
    next: Option<(SpeakerLink, Duration)>,
}

/// The connections that speak for nodes.
///
/// | Family | Methods |
/// | --- | --- |
/// | input | [`open`](Self::open), [`hear`](Self::hear), [`close`](Self::close), [`handle_timeout`](Self::handle_timeout) |
/// | output | [`poll_end`](Self::poll_end) until `None`, then [`poll_timeout`](Self::poll_timeout) |
#[derive(Debug)]
pub struct Speakers {
    all: HashMap<SpeakerName, Speaker>,
    /// Nodes with a connection that waits, by the end of the wait.
    contests: BTreeSet<(Duration, SpeakerName)>,
    ends: VecDeque<ContestEnd>,
    most: usize,
    refused: u64,
}

impl Speakers {
    /// At most `most` nodes have a connection.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { all: HashMap::new(), contests: BTreeSet::new(), ends: VecDeque::new(), most, refused: 0 }
    }

    /// Handles a connection after its handshake.
    pub fn open(&mut self, now: Now, link: SpeakerLink) -> SpeakerAdmission {
        let name = SpeakerName::of(&link.identity);
        let Some(speaker) = self.all.get_mut(&name) else {
            if self.all.len() >= self.most {
                return SpeakerAdmission::Refused;
            }
            self.all.insert(name, Speaker { link, heard: None, next: None });
            return SpeakerAdmission::Admitted { old: None };
        };
        if speaker.link.key != link.key {
            self.refused += 1;
            return SpeakerAdmission::Refused;
        }
        // A connection that has said nothing has no session to protect.
        let Some(heard) =
            speaker.heard.filter(|_| link.key.is_none() && speaker.link.address != link.address)
        else {
            let old = core::mem::replace(&mut speaker.link, link).id;
            speaker.heard = None;
            if let Some((next, until)) = speaker.next.take() {
                self.contests.remove(&(until, name));
                self.ends.push_back(ContestEnd { winner: speaker.link.id, loser: Some(next.id) });
            }
            return SpeakerAdmission::Admitted { old: Some(old) };
        };
        if speaker.next.is_some() || now.mono.saturating_sub(heard) < RECENT {
            self.refused += 1;
            return SpeakerAdmission::Refused;
        }
        let until = now.mono + ANSWER;
        speaker.next = Some((link, until));
        let ask = if let SpeakerName::Node(uuid) = name { Some(uuid) } else { None };
        self.contests.insert((until, name));
        SpeakerAdmission::Waits { ask }
    }

    /// Handles messages of a connection. Whether it speaks for its node; if not, its messages wait or are
    /// dropped, see [`Self::waits`].
    pub fn hear(&mut self, now: Now, id: SpeakerId, identity: &Bytes) -> bool {
        let name = SpeakerName::of(identity);
        let Some(speaker) = self.all.get_mut(&name).filter(|one| one.link.id == id) else { return false };
        speaker.heard = Some(now.mono);
        if let Some((next, until)) = speaker.next.take() {
            self.contests.remove(&(until, name));
            self.refused += 1;
            self.ends.push_back(ContestEnd { winner: id, loser: Some(next.id) });
        }
        true
    }

    /// Whether a connection waits for the end of a contest.
    #[must_use]
    pub fn waits(&self, id: SpeakerId, identity: &Bytes) -> bool {
        let speaker = self.all.get(&SpeakerName::of(identity));
        speaker.and_then(|speaker| speaker.next.as_ref()).is_some_and(|(next, _)| next.id == id)
    }

    /// Handles the end of a connection. Whether it spoke for its node.
    pub fn close(&mut self, id: SpeakerId, identity: &Bytes) -> bool {
        let name = SpeakerName::of(identity);
        let Some(speaker) = self.all.get_mut(&name) else { return false };
        let spoke = speaker.link.id == id;
        if !spoke && speaker.next.as_ref().is_none_or(|(next, _)| next.id != id) {
            return false;
        }
        let next = speaker.next.take();
        if let Some((_, until)) = &next {
            self.contests.remove(&(*until, name.clone()));
        }
        match next.filter(|_| spoke) {
            Some((next, _)) => {
                self.ends.push_back(ContestEnd { winner: next.id, loser: None });
                *speaker = Speaker { link: next, heard: None, next: None };
            }
            None if spoke => drop(self.all.remove(&name)),
            None => {}
        }
        spoke
    }

    /// Call at the time of [`Self::poll_timeout`]: nodes that have not answered are taken over.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some((until, name)) = self.contests.pop_first() {
            if until > now.mono {
                self.contests.insert((until, name));
                break;
            }
            let Some(speaker) = self.all.get_mut(&name) else { continue };
            let Some((next, _)) = speaker.next.take() else { continue };
            let end = ContestEnd { winner: next.id, loser: Some(speaker.link.id) };
            *speaker = Speaker { link: next, heard: None, next: None };
            self.ends.push_back(end);
        }
    }

    /// The end of a contest.
    pub fn poll_end(&mut self) -> Option<ContestEnd> {
        self.ends.pop_front()
    }

    /// Deadline of [`Self::handle_timeout`], on the monotonic clock.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.contests.first().map(|(until, _)| *until)
    }

    /// The connection that speaks for a node.
    #[must_use]
    pub fn of(&self, uuid: &Uuid) -> Option<&SpeakerLink> {
        self.all.get(&SpeakerName::Node(*uuid)).map(|speaker| &speaker.link)
    }

    /// Connections refused because the node answers, or because of their key.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SpeakerAdmission::{Admitted, Refused, Waits};

    const NODE: Uuid = Uuid::from_bytes([7; 16]);

    fn at(ms: u64) -> Now {
        Now { mono: Duration::from_millis(ms), ..Now::default() }
    }

    fn link(id: u64, host: u8) -> SpeakerLink {
        let identity = IdentityForm::Prefixed.encode(&NODE);
        SpeakerLink { id, identity, address: IpAddr::from([10, 0, 0, host]), key: None }
    }

    fn keyed(id: u64, host: u8, key: u8) -> SpeakerLink {
        SpeakerLink { key: Some([key; 32]), ..link(id, host) }
    }

    /// Connection 1 from host 1 has spoken at 0 ms.
    fn spoken() -> Speakers {
        let mut speakers = Speakers::new(10);
        assert_eq!(speakers.open(at(0), link(1, 1)), Admitted { old: None });
        assert!(speakers.hear(at(0), 1, &link(1, 1).identity));
        speakers
    }

    #[test]
    fn the_newest_connection_of_an_address_speaks() {
        let mut speakers = spoken();
        assert_eq!(speakers.open(at(1), link(2, 1)), Admitted { old: Some(1) });
        let identity = link(2, 1).identity;
        assert!(!speakers.hear(at(2), 1, &identity) && speakers.hear(at(2), 2, &identity));
        assert!(!speakers.close(1, &identity), "the old one has gone already");
        assert!(speakers.close(2, &identity) && speakers.of(&NODE).is_none());
    }

    #[test]
    fn a_node_that_answers_keeps_its_session() {
        let mut speakers = spoken();
        assert_eq!(speakers.open(at(500), link(2, 2)), Refused, "it spoke a moment ago");
        assert_eq!(speakers.open(at(1500), link(3, 2)), Waits { ask: Some(NODE) });
        let identity = link(3, 2).identity;
        assert!(speakers.waits(3, &identity) && !speakers.hear(at(1600), 3, &identity));
        assert_eq!(speakers.open(at(1700), link(4, 3)), Refused, "one at a time");
        assert_eq!(speakers.poll_timeout(), Some(at(2500).mono));
        assert!(speakers.hear(at(1800), 1, &identity));
        assert_eq!(speakers.poll_end(), Some(ContestEnd { winner: 1, loser: Some(3) }));
        assert_eq!((speakers.poll_end(), speakers.poll_timeout(), speakers.refused()), (None, None, 3));
        assert!(!speakers.close(3, &identity));
        assert_eq!(speakers.of(&NODE).unwrap().id, 1);
    }

    #[test]
    fn a_node_that_is_silent_or_gone_is_taken_over() {
        let identity = link(1, 1).identity;
        let mut speakers = spoken();
        assert_eq!(speakers.open(at(1000), link(2, 2)), Waits { ask: Some(NODE) });
        speakers.handle_timeout(at(1999));
        assert_eq!(speakers.poll_end(), None);
        speakers.handle_timeout(at(2000));
        assert_eq!(speakers.poll_end(), Some(ContestEnd { winner: 2, loser: Some(1) }));
        assert!(speakers.hear(at(2001), 2, &identity) && !speakers.close(1, &identity));
        assert_eq!(speakers.open(at(5000), link(3, 3)), Waits { ask: Some(NODE) });
        assert!(speakers.close(2, &identity));
        assert_eq!(speakers.poll_end(), Some(ContestEnd { winner: 3, loser: None }));
        assert_eq!(speakers.of(&NODE).unwrap().id, 3);
        // Without a message of the node there is nothing to protect.
        assert_eq!(speakers.open(at(5001), link(4, 4)), Admitted { old: Some(3) });
    }

    #[test]
    fn the_owner_that_connects_again_ends_the_contest() {
        let mut speakers = spoken();
        speakers.open(at(1000), link(2, 2));
        assert_eq!(speakers.open(at(1001), link(3, 1)), Admitted { old: Some(1) });
        assert_eq!(speakers.poll_end(), Some(ContestEnd { winner: 3, loser: Some(2) }));
    }

    #[test]
    fn another_key_or_another_form_of_the_identity_changes_nothing() {
        let mut speakers = Speakers::new(10);
        speakers.open(at(0), keyed(1, 1, 1));
        assert_eq!(speakers.open(at(9000), keyed(2, 1, 2)), Refused);
        assert_eq!(speakers.open(at(9000), link(2, 1)), Refused);
        assert_eq!(speakers.open(at(9000), keyed(3, 2, 1)), Admitted { old: Some(1) }, "the same key");
        let mut speakers = spoken();
        for form in [IdentityForm::Bare, IdentityForm::Hex] {
            let other = SpeakerLink { identity: form.encode(&NODE), ..link(5, 2) };
            assert_eq!(speakers.open(at(10), other), Refused, "{form:?}");
        }
    }

    #[test]
    fn their_number_is_bounded() {
        let mut speakers = Speakers::new(1);
        let other = |id| SpeakerLink { identity: Bytes::from_static(b"x"), ..link(id, 1) };
        assert_eq!(speakers.open(at(0), other(1)), Admitted { old: None });
        assert_eq!(speakers.open(at(0), link(2, 1)), Refused);
        assert_eq!(speakers.open(at(0), other(3)), Admitted { old: Some(1) });
    }
}
