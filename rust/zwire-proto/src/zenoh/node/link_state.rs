//! OAM link state: who is linked to whom (`zenoh-behaviour` 5.5 to 5.7, `zenoh-wire` 4.9).
//!
//! A router only listens: from the links of its peers it knows between which of them it must not pass
//! anything on. A peer tells its neighbours who it is, and its gateways whom it is linked to.

use super::{
    FaceError, FaceId, Node, NodeMode,
    face::{Region, relays},
};
use crate::{
    limits::MAX_LINK_STATES,
    zenoh::{
        Reliability, WhatAmI,
        wire::{ExtBody, LinkState, LinkStateList, NetworkMessage, Oam},
    },
};

impl Node {
    pub(super) fn handle_oam(&mut self, from: FaceId, oam: &Oam) -> Result<(), FaceError> {
        let Some(face) = self.faces.get_mut(&from) else { return Err(FaceError::UnknownFace) };
        let (Oam::LINK_STATE, ExtBody::ZBuf(body), Region::Peers | Region::Routers) =
            (oam.id, &oam.body, face.region)
        else {
            self.stats.ignored += 1;
            return Ok(());
        };
        let list = LinkStateList::decode(body)?;
        if face.region == Region::Routers && !face.introduced {
            face.introduced = true;
            self.events.ready(from);
        }
        for record in &list.0 {
            if let (Some(zid), Some(locators)) = (record.zid, &record.locators)
                && !locators.is_empty()
                && zid != self.config.zid
            {
                let whatami = record.whatami.unwrap_or(WhatAmI::Router);
                self.events.discovered(zid, whatami, locators.clone());
            }
        }
        for record in &list.0 {
            if let Some(zid) = record.zid
                && (face.psids.len() < MAX_LINK_STATES || face.psids.contains_key(&record.psid))
            {
                face.psids.insert(record.psid, zid);
            }
        }
        // psid 0 is the sender itself. Links to nodes it has not introduced are ignored.
        let Some(own) = list.0.iter().rfind(|record| record.psid == 0) else { return Ok(()) };
        if face.link_state_sn.is_some_and(|sn| own.sn < sn) {
            return Ok(());
        }
        face.link_state_sn = Some(own.sn);
        let links = own.links.iter().filter_map(|psid| face.psids.get(psid).copied()).collect();
        if face.links == links {
            return Ok(());
        }
        let before = self.related(from);
        if let Some(face) = self.faces.get_mut(&from) {
            face.links = links;
        }
        let after = self.related(from);
        for (other, _) in before.iter().zip(&after).filter(|(b, a)| b != a).map(|(b, _)| b) {
            self.relation_changed(from, *other);
            self.relation_changed(*other, from);
        }
        Ok(())
    }

    /// For each face whether what is at `from` is passed on to it.
    fn related(&self, from: FaceId) -> Vec<(FaceId, bool)> {
        let Some(source) = self.faces.get(&from) else { return Vec::new() };
        self.faces
            .iter()
            .map(|(id, face)| (*id, relays(self.config.mode, (from, source), (*id, face))))
            .collect()
    }

    /// The first word on a new link to a peer or router.
    ///
    /// A peer whose connector leads to a router waits for its link state, up to half a second; an
    /// empty list will do (`zenoh-behaviour` 1.4). To a router that is our neighbour in a network of
    /// routers we say nothing: it passes nothing on to a node that has not introduced itself, and we
    /// could not follow its trees yet.
    pub(super) fn greet(&mut self, id: FaceId) {
        match (self.config.mode, self.faces.get(&id).map(|face| face.region)) {
            (NodeMode::Router, Some(Region::Peers)) => self.send_link_state(id, LinkStateList::default()),
            (NodeMode::Peer, Some(Region::Peers | Region::Routers)) => self.tell_links(),
            _ => {}
        }
    }

    /// Tells all neighbours of a peer who it is; its gateways also whom it is linked to, so that they
    /// do not pass on what goes the short way.
    pub(super) fn tell_links(&mut self) {
        if self.config.mode != NodeMode::Peer {
            return;
        }
        self.link_state_sn += 1;
        let neighbours: Vec<_> = self
            .faces
            .iter()
            .filter(|(_, face)| matches!(face.region, Region::Peers | Region::Routers))
            .map(|(id, face)| (*id, face.region, face.remote))
            .collect();
        let mut list = vec![LinkState {
            psid: 0,
            sn: self.link_state_sn,
            zid: Some(self.config.zid),
            whatami: Some(WhatAmI::Peer),
            locators: Some(self.config.locators.clone()),
            ..LinkState::default()
        }];
        list.extend(neighbours.iter().map(|(id, region, remote)| LinkState {
            psid: psid(*id),
            zid: Some(remote.zid),
            whatami: Some(remote.whatami),
            gateway: *region == Region::Routers,
            ..LinkState::default()
        }));
        for (id, region, _) in &neighbours {
            list[0].links = match region {
                Region::Routers => neighbours.iter().map(|(id, _, _)| psid(*id)).collect(),
                _ => Vec::new(),
            };
            self.send_link_state(*id, LinkStateList(list.clone()));
        }
    }

    fn send_link_state(&mut self, to: FaceId, list: LinkStateList) {
        let oam = Oam::new(Oam::LINK_STATE, ExtBody::ZBuf(list.encode()));
        self.out.push_back((to, NetworkMessage::Oam(oam), Reliability::Reliable));
    }
}

/// Our number for a neighbour: 0 is ourselves.
fn psid(id: FaceId) -> u64 {
    u64::from(id.0) + 1
}
