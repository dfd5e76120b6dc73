//! Gossip: what neighbours are told of each other, and the gateways of a peer's links
//! (`zenoh-behaviour` 1.7, 5.5, `zenoh-wire` 4.9).
//!
//! A peer announces its id, its locators and its links; its gateways are also sent the links. A node
//! that receives this from a neighbour forwards it to its other neighbours, one hop far or, with
//! `multihop`, to all nodes. A router gossips with its peers only; between routers the same messages
//! build the network, see `network`.

use super::{
    FaceError, FaceId, Node, NodeMode,
    face::{Face, Region, relays},
};
use crate::{
    Now,
    limits::MAX_LINK_STATES,
    zenoh::{
        Remote, WhatAmI, ZenohId,
        wire::{ExtBody, LinkState, LinkStateList, Oam},
    },
};
use std::collections::BTreeSet;

impl Face {
    fn gossips(&self) -> bool {
        matches!(self.region, Region::Peers | Region::Routers) && !self.in_network()
    }
}

impl Node {
    pub(super) fn handle_oam(&mut self, now: Now, from: FaceId, oam: &Oam) -> Result<(), FaceError> {
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
            self.events.ready.insert(from);
        }
        if face.in_network() {
            self.version += 1;
            let (mut changes, ignored) = self.network.handle_records(now.mono, from, &list);
            for (zid, whatami, locators) in core::mem::take(&mut changes.discovered) {
                self.events.discovered(from, zid, whatami, locators);
            }
            self.stats.ignored += ignored;
            self.apply(changes);
            self.tables.note_work(self.network.take_work());
        } else {
            self.handle_gossip(from, &list);
        }
        Ok(())
    }

    fn handle_gossip(&mut self, from: FaceId, list: &LinkStateList) {
        let Some(face) = self.faces.get_mut(&from) else { return };
        for record in &list.0 {
            if let Some(zid) = record.zid
                && (face.psids.len() < MAX_LINK_STATES || face.psids.contains_key(&record.psid))
            {
                face.psids.insert(record.psid, (zid, record.gateway));
            }
        }
        let neighbour = face.remote.zid;
        let mut news: Vec<(ZenohId, WhatAmI)> = Vec::new();
        for record in &list.0 {
            // A router may omit its own record, which only a client would use: psid 0 is unknown then.
            let introduced = self.faces.get(&from).and_then(|face| face.psids.get(&record.psid));
            let Some(zid) = record.zid.or(introduced.map(|(zid, _)| *zid)) else {
                self.stats.ignored += 1;
                continue;
            };
            let Some(locators) = record.locators.as_ref().filter(|locators| !locators.is_empty()) else {
                continue;
            };
            if zid == self.config.zid {
                continue;
            }
            let whatami = record.whatami.unwrap_or(WhatAmI::Router);
            self.events.discovered(from, zid, whatami, locators.clone());
            let own_word = zid == neighbour && record.psid == 0;
            if !own_word && !self.config.gossip.multihop {
                continue;
            }
            let Some(known) = self.gossip.note(zid, whatami, from) else { continue };
            if known.locators.is_empty() || record.sn > known.sn {
                known.sn = record.sn;
                known.locators.clone_from(locators);
                news.push((zid, whatami));
            }
        }
        for (zid, _) in news {
            self.spread(zid, from);
        }
        // psid 0 is the sender itself. Links to nodes it has not introduced are ignored.
        if let Some(own) = list.0.iter().rfind(|record| record.psid == 0) {
            self.handle_links(from, own);
        }
    }

    /// Forwards a record of `from` about a node to all other neighbours.
    fn spread(&mut self, zid: ZenohId, from: FaceId) {
        if !self.config.gossip.enabled {
            return;
        }
        let Some(record) = self.gossip.record(zid, true) else { return };
        let list = LinkStateList(vec![record]);
        let others = self.faces_where(|id, face| {
            let concerned = id != from && face.gossips() && face.remote.zid != zid;
            concerned && self.tells_locators(face.remote.whatami)
        });
        for to in others {
            self.send_link_state(to, &list);
        }
    }

    /// Handles the links that a neighbour announces: linked peers are forwarded nothing of each other.
    fn handle_links(&mut self, from: FaceId, own: &LinkState) {
        let Some(face) = self.faces.get_mut(&from) else { return };
        if face.link_state_sn.is_some_and(|sn| own.sn < sn) {
            return;
        }
        face.link_state_sn = Some(own.sn);
        let named = || own.links.iter().filter_map(|psid| face.psids.get(psid));
        let links: BTreeSet<ZenohId> = named().map(|(zid, _)| *zid).collect();
        let gateways: BTreeSet<ZenohId> =
            named().filter(|(_, gateway)| *gateway).map(|(zid, _)| *zid).collect();
        if face.links == links && face.gateways == gateways {
            return;
        }
        let before = self.related(from);
        let mut served_otherwise = false;
        if let Some(face) = self.faces.get_mut(&from) {
            served_otherwise = face.gateways != gateways;
            face.links = links;
            face.gateways = gateways;
        }
        let after = self.related(from);
        for (other, _) in before.iter().zip(&after).filter(|(b, a)| b != a).map(|(b, _)| b) {
            self.relation_changed(from, *other);
            self.relation_changed(*other, from);
        }
        if served_otherwise && self.config.mode == NodeMode::Router {
            self.gateways_changed(from);
        }
    }

    /// For each face, whether messages of `from` are forwarded to it.
    fn related(&self, from: FaceId) -> Vec<(FaceId, bool)> {
        let Some(source) = self.faces.get(&from) else { return Vec::new() };
        self.faces
            .iter()
            .map(|(id, face)| (*id, relays(self.config.mode, (from, source), (*id, face))))
            .collect()
    }

    /// Sends the first link state on a new link to a peer or router.
    ///
    /// A peer that connects to a router waits for its link state, up to half a second; an empty list
    /// suffices (`zenoh-behaviour` 1.4).
    pub(super) fn greet(&mut self, now: Now, id: FaceId) {
        let Some(face) = self.faces.get(&id) else { return };
        let remote = face.remote;
        if face.in_network() {
            let changes = self.network.link_up(now, id, remote.zid);
            return self.apply(changes);
        }
        if !face.gossips() {
            return;
        }
        self.gossip.note(remote.zid, remote.whatami, id);
        let locators = self.tells_locators(remote.whatami);
        let peer = self.config.mode == NodeMode::Peer;
        let mut list = Vec::new();
        if peer {
            self.gossip.sn += 1;
            self.tell_gateways(Some(id), Some(remote.zid));
        }
        if peer || (self.config.gossip.multihop && locators) {
            list.push(self.own_record(id, locators));
        }
        let others = self.gossip.known.iter().filter(|(zid, known)| {
            // A router does not report nodes without locators.
            peer || (**zid != remote.zid && locators && !known.locators.is_empty())
        });
        list.extend(others.filter_map(|(zid, _)| self.gossip.record(*zid, locators)));
        self.send_link_state(id, &LinkStateList(list));
    }

    /// Handles the loss of a link to a peer or router.
    pub(super) fn part(&mut self, now: Now, id: FaceId, remote: Remote) {
        if remote.whatami == WhatAmI::Router && self.config.mode == NodeMode::Router {
            let changes = self.network.link_down(now, id);
            return self.apply(changes);
        }
        self.gossip.forget(id);
        if self.config.mode == NodeMode::Peer {
            self.gossip.sn += 1;
            self.tell_gateways(None, None);
        }
    }

    pub(super) fn tell_locators(&mut self, now: Now) {
        let locators = self.config.locators.clone();
        if self.config.mode == NodeMode::Router {
            let changes = self.network.set_locators(now, &locators);
            self.apply(changes);
            if !self.config.gossip.multihop {
                return;
            }
        }
        self.gossip.sn += 1;
        let told = self.faces_where(|_, face| face.gossips() && self.tells_locators(face.remote.whatami));
        for id in told {
            let record = self.own_record(id, true);
            self.send_link_state(id, &LinkStateList(vec![record]));
        }
    }

    fn tells_locators(&self, whatami: WhatAmI) -> bool {
        self.config.gossip.enabled && self.config.gossip.target & whatami.to_mask() != 0
    }

    /// Sends the links of this peer to its gateways, so that they do not forward messages that take the
    /// direct link; and the id of `new`, a neighbour that they may not know.
    fn tell_gateways(&mut self, except: Option<FaceId>, new: Option<ZenohId>) {
        // All gateways are routers.
        let locators = self.tells_locators(WhatAmI::Router);
        for id in self.faces_where(|id, face| face.is_gateway() && Some(id) != except) {
            let mut list = vec![self.own_record(id, false)];
            list.extend(new.and_then(|zid| self.gossip.record(zid, locators)));
            self.send_link_state(id, &LinkStateList(list));
        }
    }

    fn own_record(&self, to: FaceId, locators: bool) -> LinkState {
        let gateway = self.faces.get(&to).is_some_and(Face::is_gateway);
        let neighbours = self.faces.values().filter(|face| gateway && face.gossips());
        let links: BTreeSet<u64> = neighbours
            .filter_map(|face| self.gossip.known.get(&face.remote.zid))
            .map(|known| known.psid)
            .collect();
        LinkState {
            psid: 0,
            sn: self.gossip.sn,
            zid: Some(self.config.zid),
            whatami: Some(self.config.mode.into()),
            locators: (locators && !self.config.locators.is_empty()).then(|| self.config.locators.clone()),
            links: links.into_iter().collect(),
            ..LinkState::default()
        }
    }
}
