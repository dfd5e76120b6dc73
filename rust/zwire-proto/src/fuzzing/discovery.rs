//! Fuzz body of discovery and connection set-up.

use crate::{
    Now, Text,
    buf::Reader,
    zenoh::{
        WhatAmI, ZenohId,
        discovery::{
            Admission, Candidates, Claim, Contacts, DialOutcome, DueDial, GossipReach, MAX_DIALS,
            MAX_TRIED_LOCATORS, Scouting, ScoutingConfig, Transmit, fitted,
        },
        wire::ScoutingMessage,
    },
    zre::node::Interface,
};
use bytes::Bytes;
use core::{net::SocketAddr, time::Duration};
use std::{collections::BTreeMap, sync::Arc};

/// Most outputs of one datagram or one step of the clock.
const AT_ONCE: usize = 2;

/// Attempts and links of one node, as a driver would hold them.
struct Driver {
    own: ZenohId,
    contacts: Contacts,
    /// Attempts that wait for OPEN ACK, and links.
    opening: BTreeMap<ZenohId, Claim>,
    links: BTreeMap<ZenohId, Claim>,
}

impl Driver {
    fn step(&mut self, what: u8, zid: ZenohId) {
        match what & 3 {
            0 => {
                if let Some(claim) = self.contacts.open(zid) {
                    assert!(!self.links.contains_key(&zid), "a second session with {zid}");
                    assert!(self.opening.insert(zid, claim).is_none(), "a second attempt at {zid}");
                }
            }
            1 => {
                if let Some(claim) = self.opening.remove(&zid) {
                    self.contacts.confirm(zid, claim);
                    assert!(self.links.insert(zid, claim).is_none(), "a second session with {zid}");
                }
            }
            2 => match self.contacts.admit(zid) {
                Admission::Admitted(claim) => {
                    assert!(!self.opening.contains_key(&zid), "both connections become sessions with {zid}");
                    assert!(self.links.insert(zid, claim).is_none(), "a second session with {zid}");
                }
                Admission::Wait => assert!(self.opening.contains_key(&zid) && self.own < zid),
                Admission::Refused => {
                    let ours = self.opening.contains_key(&zid) && self.own >= zid;
                    assert!(ours || self.links.contains_key(&zid), "refused for no reason");
                }
            },
            _ => {
                if let Some(claim) = self.links.remove(&zid) {
                    self.contacts.release(zid, claim);
                }
            }
        }
        let there = self.links.contains_key(&zid) || self.opening.contains_key(&zid);
        assert!(there || !self.contacts.contains(zid), "{zid} is never free again");
    }
}

/// Runs the bytes as a script: each piece begins with an operation, its target and a length.
pub fn discovery(script: &[u8]) {
    let script = Bytes::copy_from_slice(script);
    let own = ZenohId::new(4).expect("not zero");
    let what = script.first().map_or(7, |byte| byte & 7);
    let config = ScoutingConfig { zid: own, whatami: WhatAmI::Peer, what, answer: true };
    let mut now = Now::at(Duration::from_secs(1));
    let mut scouting = Scouting::new(config, now);
    let mut candidates = Candidates::new();
    let mut driver =
        Driver { own, contacts: Contacts::new(own), opening: BTreeMap::new(), links: BTreeMap::new() };
    let networks = [Interface { address: [10, 0, 0, 1].into(), prefix: 24 }];
    let mut dialling: Vec<ZenohId> = Vec::new();
    let mut at = 0;
    while let [what, whom, len, rest @ ..] = &script[at..] {
        let len = rest.len().min(usize::from(*len));
        let bytes = script.slice(at + 3..at + 3 + len);
        at += 3 + len;
        now = Now::at(now.mono + Duration::from_millis(u64::from(what >> 3) * 50));
        let whom = whom & 15;
        let zid = ZenohId::new(u128::from(whom) + 1).expect("not zero");
        match what & 7 {
            0 => scouting.handle_timeout(now),
            1 => scouting.restart(now),
            2 => driver.step(bytes.first().copied().unwrap_or_default(), zid),
            3 => candidates.handle_lost(now, zid),
            4 if !dialling.is_empty() => {
                let ended = dialling.swap_remove(usize::from(whom) % dialling.len());
                let outcome = if bytes.is_empty() { DialOutcome::Failed } else { DialOutcome::Connected };
                candidates.handle_dialled(now, ended, outcome);
            }
            // The end of an attempt that was never begun.
            4 => candidates.handle_dialled(now, zid, DialOutcome::Failed),
            5 => {
                let reach = GossipReach { teller: None, own: Vec::new(), listed: Vec::new() };
                let told = (whom % 2 == 0).then(|| Arc::new(reach));
                let locators = vec!["tcp/10.0.0.9:7447".into(); usize::from(whom)];
                candidates.handle_found(now, zid, locators, told);
            }
            _ => scouting.handle_datagram(now, SocketAddr::from(([10, 0, 0, whom], 7)), &bytes),
        }
        let mut made = 0;
        while let Some(transmit) = scouting.poll_transmit() {
            made += 1;
            let datagram = match transmit {
                Transmit::Scout(datagram) => datagram,
                Transmit::Answer { to } => {
                    let text = core::str::from_utf8(&bytes).unwrap_or("tcp/127.0.0.1:1");
                    let all = [Text::from(text), "tcp/10.0.0.1:1".into()];
                    let told = fitted(&all, to.ip(), &networks);
                    assert!(told.len() <= all.len());
                    scouting.hello(told)
                }
            };
            ScoutingMessage::decode(&mut Reader::new(&datagram)).expect("our own datagrams decode");
        }
        while let Some(found) = scouting.poll_found() {
            made += 1;
            assert!(found.zid != own && found.locators.len() <= MAX_TRIED_LOCATORS);
            assert_ne!(found.whatami.to_mask() & config.what, 0);
            candidates.handle_found(now, found.zid, found.locators, None);
        }
        assert!(made <= AT_ONCE, "{made} from one step");
        candidates.handle_timeout(now);
        while let Some(DueDial { zid, locators, .. }) = candidates.poll_dial(now) {
            assert!(!locators.is_empty() && locators.len() <= MAX_TRIED_LOCATORS);
            assert!(!dialling.contains(&zid), "two attempts at {zid}");
            dialling.push(zid);
        }
        assert!(dialling.len() <= MAX_DIALS);
        // No candidate may stay in a state without a deadline.
        if let Some(due) = candidates.poll_timeout(now) {
            assert!(due >= now.mono);
        }
        assert_eq!(scouting.poll_timeout().is_some(), config.what != 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// SCOUT, HELLO with a locator, a number.
    const PIECES: [&[u8]; 5] =
        [b"\x01\x09\x07", b"\x22\x09\x01\x05\x01\x11tcp/10.0.0.5:7447", b"\x00", b"\x01", b"\x02"];

    proptest! {
        #[test]
        fn whatever_comes(data in prop::collection::vec(any::<u8>(), 0..400)) {
            discovery(&data);
        }

        #[test]
        fn whatever_happens(steps in prop::collection::vec((any::<u8>(), any::<u8>(), 0..5_usize), 0..120)) {
            let mut script = Vec::new();
            for (what, whom, piece) in steps {
                let mut piece = PIECES[piece].to_vec();
                if piece.len() > 5 {
                    piece[3] = (whom & 15) + 1;
                }
                script.extend([what, whom, piece.len() as u8]);
                script.extend(piece);
            }
            discovery(&script);
        }
    }
}
