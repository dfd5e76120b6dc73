//! Groups of this node and of its peers, and messages sent to them (`zre` 11.4, 11.5).

use super::{
    super::{
        Uuid, limits,
        wire::{Body, EncodeError, LogEvent, Stencil},
    },
    Action, Delivery, EventKind, NodeError, Shouted, ZreNode,
};
use crate::{Now, Text};
use bytes::Bytes;

impl ZreNode {
    /// Joins a group and tells all peers; `false`: the node was already in it.
    ///
    /// # Errors
    /// A name that cannot be sent to peers, or more groups than fit into a HELLO.
    pub fn join(&mut self, now: Now, group: &Text) -> Result<bool, NodeError> {
        self.check_running()?;
        self.check_group(group)?;
        if !self.groups.insert(group.clone()) {
            return Ok(false);
        }
        for generation in self.config.generations.iter() {
            if let Err(error) = self.hello(generation, None).encode(generation) {
                self.groups.remove(group);
                return Err(error.into());
            }
        }
        self.tell_change(now, group, true);
        Ok(true)
    }

    /// Leaves a group and tells all peers; `false`: the node is not in it.
    ///
    /// # Errors
    /// The node is stopped.
    pub fn leave(&mut self, now: Now, group: &Text) -> Result<bool, NodeError> {
        self.check_running()?;
        if !self.groups.remove(group) {
            return Ok(false);
        }
        self.elections.remove(group);
        self.tell_change(now, group, false);
        Ok(true)
    }

    /// Sends a change of the own groups to connected peers; for others their first HELLO contains it.
    fn tell_change(&mut self, now: Now, group: &Text, joined: bool) {
        // "incremented each time the peer joins or leaves a group"
        self.status = self.status.wrapping_add(1);
        self.hellos.clear();
        let (octets, status) = (Bytes::copy_from_slice(group.as_bytes()), self.status);
        let body = match joined {
            true => Body::Join { group: octets, status },
            false => Body::Leave { group: octets, status },
        };
        let all: Vec<Uuid> =
            self.peers.iter().filter(|(_, peer)| peer.dealer.is_some()).map(|(uuid, _)| *uuid).collect();
        for uuid in all {
            // A new HELLO already contains the change; sending it again would make the status wrong.
            if !self.renew_when_long(now, &uuid) {
                let _told = self.send_now(now, &uuid, body.clone());
            }
        }
        self.tell_named(&body);
        self.log(now, if joined { LogEvent::JOIN } else { LogEvent::LEAVE }, 0, group);
    }

    /// Sends a content to one peer.
    ///
    /// # Errors
    /// Unknown peer, no connection to it, or a content that its generation cannot express.
    pub fn whisper(&mut self, now: Now, peer: &Uuid, content: Vec<Bytes>) -> Result<(), NodeError> {
        self.check_running()?;
        if self.peers.get(peer).is_none_or(|peer| peer.session.is_none()) {
            return Err(NodeError::UnknownPeer { peer: *peer });
        }
        self.send(now, peer, Body::Whisper { content })
    }

    /// Sends a content to each peer of a group. This node need not be a member.
    ///
    /// # Errors
    /// A name or a content that cannot be sent to any peer.
    pub fn shout(&mut self, now: Now, group: &Text, content: Vec<Bytes>) -> Result<Shouted, NodeError> {
        self.check_running()?;
        if !self.members.contains_key(group) {
            self.check_group(group)?;
        }
        if content.is_empty() {
            return Err(EncodeError::NoContent { message: "SHOUT" }.into());
        }
        if self.config.renew_after.is_some() {
            let members: Vec<Uuid> = self.peers_of(group).collect();
            members.iter().for_each(|uuid| _ = self.renew_when_long(now, uuid));
        }
        let Some(members) = self.members.get(group) else { return Ok(Shouted::default()) };
        let body = Body::Shout { group: Bytes::copy_from_slice(group.as_bytes()), content };
        let mut stencils: [Option<Result<Stencil, EncodeError>>; 4] = Default::default();
        let mut shouted = Shouted { peers: Vec::with_capacity(members.len()) };
        let mut logged = Vec::new();
        let early = self.early.iter().filter(|uuid| members.contains(uuid));
        for uuid in early.chain(members.iter().filter(|uuid| !self.early.contains(uuid))) {
            let Some(peer) = self.peers.get_mut(uuid) else { continue };
            let waits = peer.may_wait();
            let Some(dealer) = &mut peer.dealer else {
                let delivery = match waits.then(|| peer.wait(body.clone())) {
                    None => Delivery::NotResponding,
                    Some(Ok(())) => Delivery::Queued,
                    Some(Err(EncodeError::MultiFrame { .. })) => Delivery::Refused,
                    Some(Err(error)) => return Err(error.into()),
                };
                shouted.peers.push((*uuid, delivery));
                continue;
            };
            let generation = dealer.generation;
            let stencil = &mut stencils[generation as usize];
            match stencil.get_or_insert_with(|| Stencil::new(generation, &body)) {
                Ok(stencil) => {
                    let sequence = dealer.count();
                    let frames = stencil.frames(sequence, body.content());
                    self.actions.push_back(Action::Send { dealer: dealer.id, peer: Some(*uuid), frames });
                    self.stats.messages_out += 1;
                    shouted.peers.push((*uuid, Delivery::Queued));
                    if self.config.log_traffic {
                        logged.push((*uuid, sequence));
                    }
                }
                Err(EncodeError::MultiFrame { .. }) => shouted.peers.push((*uuid, Delivery::Refused)),
                Err(error) => return Err(error.clone().into()),
            }
        }
        if shouted.count(Delivery::Queued) > 0 {
            self.last_sent = Some(now.mono);
        }
        for (uuid, sequence) in &logged {
            self.log_message(now, LogEvent::SEND, uuid, body.id(), *sequence);
        }
        Ok(shouted)
    }

    pub(super) fn handle_join(&mut self, now: Now, uuid: &Uuid, group: Text, status: u8) {
        self.check_status(uuid, status);
        let Some(session) = self.peers.get_mut(uuid).and_then(|peer| peer.session.as_mut()) else { return };
        if session.groups.len() >= limits::MAX_GROUPS || group.is_empty() {
            self.stats.groups_dropped += 1;
        } else if session.groups.insert(group.clone()) {
            self.add_member(&group, uuid);
            self.start_election(now, &group);
            self.event(uuid, EventKind::Join { group });
        }
    }

    pub(super) fn handle_leave(&mut self, now: Now, uuid: &Uuid, group: Text, status: u8) {
        self.check_status(uuid, status);
        let Some(session) = self.peers.get_mut(uuid).and_then(|peer| peer.session.as_mut()) else { return };
        if session.groups.remove(&group) {
            self.remove_member(&group, uuid);
            self.member_left(now, &group, uuid);
            self.event(uuid, EventKind::Leave { group });
        }
    }

    /// "Never send a wrong one; never abort" (`zre` 16.9): the sender's status is adopted.
    fn check_status(&mut self, uuid: &Uuid, status: u8) {
        let Some(session) = self.peers.get_mut(uuid).and_then(|peer| peer.session.as_mut()) else { return };
        if session.status.wrapping_add(1) != status {
            self.stats.status_repaired += 1;
        }
        session.status = status;
    }
}
