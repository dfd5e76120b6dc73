//! Fuzz body of a multicast group.

use crate::{
    Now,
    buf::Reader,
    zenoh::{
        Reliability, WhatAmI, ZenohId,
        group::{GroupConfig, GroupEvent, GroupRx},
        link::{StreamFramer, TxConfig},
        wire::{BatchReader, CloseReason, NetworkMessage},
    },
};
use bytes::{Bytes, BytesMut};
use core::{net::SocketAddr, time::Duration};
use std::collections::BTreeMap;

const MEMBERS: usize = 3;
const MEMORY: usize = 1000;

/// Runs the bytes as a script: each piece begins with an operation, a source and a length.
pub fn group(script: &[u8]) {
    let script = Bytes::copy_from_slice(script);
    let zid = ZenohId::new(0x99).expect("not zero");
    let config = GroupConfig {
        qos: script.len().is_multiple_of(2),
        max_members: MEMBERS,
        reassembly_bytes: MEMORY,
        ..GroupConfig::new(zid, WhatAmI::Peer)
    };
    let mut now = Duration::from_secs(1);
    let (mut rx, mut tx) = (GroupRx::new(config.clone()), config.sender(TxConfig::default(), Now::at(now)));
    let framer = StreamFramer::new(&config.params());
    let mut members = BTreeMap::new();
    let (mut messages, mut at) = (Vec::new(), 0);
    while let [what, from, len, rest @ ..] = &script[at..] {
        let len = rest.len().min(usize::from(*len));
        let bytes = script.slice(at + 3..at + 3 + len);
        at += 3 + len;
        now += Duration::from_millis(u64::from(what >> 3) * 100);
        let clock = Now::at(now);
        let mut heard = None;
        match what & 7 {
            0 => {
                rx.handle_timeout(clock);
                tx.handle_timeout(clock);
            }
            1 => tx.announce(clock),
            2 if len == 0 => tx.close(CloseReason::GENERIC),
            2 => {
                if let Ok(message) = NetworkMessage::decode(&mut Reader::new(&bytes)) {
                    let _ = tx.push(&message, Reliability::Reliable);
                }
            }
            _ => {
                let from = SocketAddr::from(([10, 0, 0, from & 7], 1));
                heard = rx.handle_datagram(clock, from, bytes, &mut messages);
            }
        }
        while let Some(event) = rx.poll_event() {
            match event {
                GroupEvent::Joined { member, remote, .. } => {
                    assert_ne!(remote.zid, zid);
                    assert_eq!(members.insert(member, remote.zid), None);
                    tx.announce(clock);
                }
                GroupEvent::Left { member } => assert!(members.remove(&member).is_some()),
            }
        }
        match heard {
            Some(heard) => {
                assert!(members.contains_key(&heard.member));
                if heard.closed.is_some() {
                    members.remove(&heard.member);
                }
            }
            None => assert!(messages.is_empty()),
        }
        messages.clear();
        assert!(members.len() <= MEMBERS && rx.reassembling() <= MEMORY);
        assert_eq!(members.keys().copied().collect::<Vec<_>>(), {
            let mut there: Vec<_> = rx.members().map(|(member, ..)| member).collect();
            there.sort();
            there
        });
        assert!(members.is_empty() || rx.poll_timeout().is_some());
        // Every member can read what this node sends.
        let (mut parts, mut stream) = (Vec::new(), BytesMut::new());
        tx.poll_transmit(clock, &mut parts, usize::MAX);
        parts.iter().for_each(|part| stream.extend_from_slice(part));
        while let Some(datagram) = framer.next(&mut stream).expect("our own batches fit") {
            let mut walk = BatchReader::new(&datagram);
            while walk.next_item().expect("our own batches decode").is_some() {}
        }
        assert!(stream.is_empty() && tx.is_idle());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A JOIN, a KEEP_ALIVE, a fragment, a frame with a PUSH, CLOSE.
    const PIECES: [&[u8]; 5] = [
        b"\xa7\x09\x31\xa4\xa3\xa2\xa1\x0a\x9e\x9f\xe0\x1b\xc2\xf0\x8c\x5b\x27\x01",
        b"\x04",
        b"\xe6\x9e\x9f\xe0\x1b\x02\x1d\x00\x03\x66\x2f\x79\x01\x7a",
        b"\x25\x9f\x9f\xe0\x1b\x1d\x00\x03f/x\x01\x01z",
        b"\x03\x00",
    ];

    proptest! {
        #[test]
        fn whatever_comes(data in prop::collection::vec(any::<u8>(), 0..400)) {
            group(&data);
        }

        #[test]
        fn whatever_is_said(steps in prop::collection::vec((any::<u8>(), any::<u8>(), 0..5_usize), 0..80)) {
            let mut script = Vec::new();
            for (what, from, piece) in steps {
                let mut piece = PIECES[piece].to_vec();
                if piece[0] == 0xa7 {
                    piece[3] = from & 7;
                }
                script.extend([what, from, piece.len() as u8]);
                script.extend(piece);
            }
            group(&script);
        }
    }
}
