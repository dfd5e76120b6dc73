//! Election of a group's leader: an echo algorithm with extinction, drafts of zyre 2.0.1 and later
//! (`zre` 12).
//!
//! The smallest id wins. Each node of the group takes part, whether it is a candidate or not. ELECT and
//! LEADER go only to peers that understand them, and to others once they have sent one.

use super::{
    super::{Generation, Uuid, wire::Body},
    EventKind, NodeError, ZreNode,
};
use crate::{Now, Text};
use bytes::Bytes;
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(super) struct Election {
    /// Whether this node is a candidate.
    contest: bool,
    wave: Option<Wave>,
    leader: Option<Uuid>,
}

/// The wave of the best candidate so far.
#[derive(Debug)]
struct Wave {
    candidate: Uuid,
    /// Peer that told this node first; `None`: this node is the candidate.
    father: Option<Uuid>,
    /// Peers that were sent the candidate.
    told: BTreeSet<Uuid>,
    /// Peers that sent the candidate, and those that sent its victory.
    heard: BTreeSet<Uuid>,
    led: BTreeSet<Uuid>,
    /// Whether the echo was sent to the father.
    echoed: bool,
}

impl Wave {
    fn new(candidate: Uuid, father: Option<Uuid>) -> Self {
        let (told, heard, led) = Default::default();
        Self { candidate, father, told, heard, led, echoed: false }
    }
}

impl ZreNode {
    /// Makes this node a candidate in a group. All members must support elections: pyre and zyre up to
    /// 2.0.0 do not, and with one of them no election ends.
    ///
    /// # Errors
    /// This node is not in the group, or in too many elections.
    pub fn contest(&mut self, now: Now, group: &Text) -> Result<(), NodeError> {
        self.check_running()?;
        if !self.groups.contains(group) {
            return Err(NodeError::NotInGroup { group: group.clone() });
        }
        let own = self.config.uuid;
        let election = self.elections.entry(group.clone()).or_default();
        election.contest = true;
        if election.leader.is_none_or(|leader| own < leader) {
            self.start_election(now, group);
        }
        Ok(())
    }

    /// The leader of a group, as far as this node knows.
    #[must_use]
    pub fn leader(&self, group: &str) -> Option<Uuid> {
        self.elections.get(group)?.leader
    }

    /// Whether the connection to the peer uses 36/ZRE or later.
    pub(super) fn is_young(&self, uuid: &Uuid) -> bool {
        let dealer = self.peers.get(uuid).and_then(|peer| peer.dealer.as_ref());
        dealer.is_some_and(|dealer| dealer.generation >= Generation::Rfc36)
    }

    pub(super) fn knows_drafts(&self, uuid: &Uuid) -> bool {
        let knows = self.config.drafts || self.peers.get(uuid).is_some_and(|peer| peer.drafts);
        knows && self.is_young(uuid)
    }

    /// Also called whenever a peer joins the group.
    pub(super) fn start_election(&mut self, now: Now, group: &Text) {
        let own = self.config.uuid;
        let Some(election) = self.elections.get_mut(group).filter(|election| election.contest) else {
            return;
        };
        // A wave of this node goes on, and one of a better candidate wins anyway.
        if election.wave.as_ref().is_none_or(|wave| own < wave.candidate) {
            election.wave = Some(Wave::new(own, None));
            election.leader = None;
        }
        self.spread(now, group);
    }

    /// Sends the candidate to all members that support elections and were not told.
    fn spread(&mut self, now: Now, group: &Text) {
        let members: Vec<Uuid> = self.peers_of(group).filter(|uuid| self.knows_drafts(uuid)).collect();
        for uuid in members {
            let Some(wave) = self.elections.get_mut(group).and_then(|e| e.wave.as_mut()) else { return };
            if wave.father != Some(uuid) && wave.told.insert(uuid) {
                let challenger = Bytes::copy_from_slice(&wave.candidate.to_hex());
                self.elect(now, &uuid, group, challenger);
            }
        }
    }

    fn elect(&mut self, now: Now, uuid: &Uuid, group: &Text, challenger: Bytes) {
        let group = Bytes::copy_from_slice(group.as_bytes());
        let _told = self.send(now, uuid, Body::Elect { group, challenger });
    }

    fn lead(&mut self, now: Now, uuid: &Uuid, group: &Text, leader: Bytes) {
        let group = Bytes::copy_from_slice(group.as_bytes());
        let _told = self.send(now, uuid, Body::Leader { group, leader });
    }

    pub(super) fn handle_elect(&mut self, now: Now, uuid: &Uuid, group: Text, challenger: &[u8]) {
        let Some(challenger) = Uuid::from_hex(challenger) else {
            self.stats.malformed += 1;
            return;
        };
        if !self.groups.contains(&group) {
            return;
        }
        let own = self.config.uuid;
        let election = self.elections.entry(group.clone()).or_default();
        if election.contest && own < challenger && election.wave.is_none() {
            // The worse candidate does not know that this node is a candidate, too.
            self.start_election(now, &group);
            return;
        }
        let starts = match &election.wave {
            None => true,
            // The last election is decided, though some of its messages are still on the way.
            Some(wave) if challenger == wave.candidate => {
                !wave.led.is_empty() && wave.heard.contains(uuid) && challenger != own
            }
            Some(wave) => challenger < wave.candidate,
        };
        if starts {
            election.wave = Some(Wave::new(challenger, Some(*uuid)));
        }
        if let Some(wave) = election.wave.as_mut().filter(|wave| wave.candidate == challenger) {
            wave.heard.insert(*uuid);
        }
        self.spread(now, &group);
        self.echo(now, &group);
    }

    /// Once all members have sent the candidate, its wave goes back to the father; if this node is the
    /// candidate, it has won.
    fn echo(&mut self, now: Now, group: &Text) {
        let members: BTreeSet<Uuid> = self.peers_of(group).collect();
        let Some(wave) = self.elections.get_mut(group).and_then(|e| e.wave.as_mut()) else { return };
        if wave.echoed || members.is_empty() || !wave.heard.is_superset(&members) {
            return;
        }
        wave.echoed = true;
        let id = Bytes::copy_from_slice(&wave.candidate.to_hex());
        match wave.father {
            Some(father) => self.elect(now, &father, group, id),
            None => members.iter().for_each(|member| self.lead(now, member, group, id.clone())),
        }
    }

    pub(super) fn handle_leader(&mut self, now: Now, uuid: &Uuid, group: Text, leader: Bytes) {
        let Some(winner) = Uuid::from_hex(&leader) else {
            self.stats.malformed += 1;
            return;
        };
        let own = self.config.uuid;
        let members: BTreeSet<Uuid> = self.peers_of(&group).collect();
        // Without an election in progress LEADER is ignored.
        let Some(wave) = self.elections.get_mut(&group).and_then(|e| e.wave.as_mut()) else { return };
        let first = wave.led.is_empty();
        wave.led.insert(*uuid);
        let over = wave.led.is_superset(&members);
        if first && winner != own {
            for member in members.iter().filter(|member| self.knows_drafts(member)).collect::<Vec<_>>() {
                self.lead(now, member, &group, leader.clone());
            }
        }
        if over && let Some(election) = self.elections.get_mut(&group) {
            election.wave = None;
            election.leader = Some(winner);
            self.event(&winner, EventKind::Leader { group });
        }
    }

    /// "and when the current leader leaves"; also if a running election waits for the peer that left.
    pub(super) fn member_left(&mut self, now: Now, group: &Text, uuid: &Uuid) {
        let Some(election) = self.elections.get_mut(group) else { return };
        let led = election.leader == Some(*uuid);
        if led {
            election.leader = None;
        }
        let needed = |wave: &Wave| wave.candidate == *uuid || wave.father == Some(*uuid);
        if led || election.wave.as_ref().is_some_and(needed) {
            election.wave = None;
            self.start_election(now, group);
        } else {
            self.echo(now, group);
        }
    }
}
