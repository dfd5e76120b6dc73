//! Reassembly of IP fragments.

use super::ip::{Fragment, IpPacket};
use bytes::Bytes;
use core::net::IpAddr;
use core::ops::Range;
use core::time::Duration;
use hashbrown::HashMap;

/// Longest reassembled payload: the length of an IP packet is a `u16`.
const MAX_PAYLOAD: usize = u16::MAX as usize;
/// Most packets in reassembly at once. With [`MAX_PAYLOAD`] it bounds the memory to 16 MiB; senders
/// finish a packet before they start the next, so the number of senders in flight counts.
const MAX_PACKETS: usize = 256;
/// Most separate pieces of one packet. A packet in minimum-size fragments of 576 bytes has 120.
const MAX_PIECES: usize = 1024;
/// Longest wait for the rest of a packet, as in RFC 791 and RFC 8200. The identification of an IPv4
/// packet repeats after 65536 packets, so old pieces must not be joined with an unrelated packet.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FragmentKey {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    id: u32,
}

/// A payload of which all fragments arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WholePacket {
    /// The payload up to the first byte that was not captured.
    pub(super) payload: Bytes,
    /// The length of the rest, if some fragment was cut by the capture.
    pub(super) missing: usize,
}

#[derive(Debug, Default)]
struct Assembly {
    buffer: Vec<u8>,
    /// Parts that arrived, sorted and disjoint.
    pieces: Vec<Range<usize>>,
    /// Length of the whole, known from the last fragment.
    len: Option<usize>,
    /// First byte that arrived on the wire but was cut by the capture.
    cut_at: Option<usize>,
    started: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Fragments {
    assemblies: HashMap<FragmentKey, Assembly>,
    /// Packets dropped: too many at once, too late, or contradictory.
    pub(super) dropped: u64,
}

impl Fragments {
    /// Takes in a fragment and gives the payload if this was the last one to come.
    pub(super) fn handle(
        &mut self,
        timestamp: Duration,
        packet: &IpPacket,
        fragment: Fragment,
        data: &[u8],
    ) -> Option<WholePacket> {
        let key =
            FragmentKey { src: packet.src, dst: packet.dst, protocol: packet.protocol, id: fragment.id };
        let assembly = self.assemblies.get(&key);
        if assembly.is_some_and(|assembly| timestamp.saturating_sub(assembly.started) > TIMEOUT) {
            self.drop_assembly(&key);
        }
        if self.assemblies.len() >= MAX_PACKETS && !self.assemblies.contains_key(&key) {
            self.evict(timestamp);
        }
        let assembly = self
            .assemblies
            .entry(key)
            .or_insert_with(|| Assembly { started: timestamp, ..Assembly::default() });
        match assembly.insert(fragment, data, packet.missing) {
            Some(false) => None,
            Some(true) => self.assemblies.remove(&key).map(Assembly::finish),
            None => {
                self.drop_assembly(&key);
                None
            }
        }
    }

    /// Marks the end of the capture: no waiting packet will become complete.
    pub(super) fn finish(&mut self) {
        self.dropped += self.assemblies.len() as u64;
        self.assemblies.clear();
    }

    fn drop_assembly(&mut self, key: &FragmentKey) {
        self.assemblies.remove(key);
        self.dropped += 1;
    }

    /// Makes room: drops what timed out, or the oldest.
    fn evict(&mut self, timestamp: Duration) {
        let before = self.assemblies.len();
        self.assemblies.retain(|_, assembly| timestamp.saturating_sub(assembly.started) <= TIMEOUT);
        if self.assemblies.len() == before {
            let oldest = self.assemblies.iter().min_by_key(|(_, assembly)| assembly.started);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                self.assemblies.remove(&key);
            }
        }
        self.dropped += (before - self.assemblies.len()) as u64;
    }
}

impl Assembly {
    /// Adds a fragment and returns whether the packet is complete now; `None`: it cannot belong to the packet.
    fn insert(&mut self, fragment: Fragment, data: &[u8], missing: usize) -> Option<bool> {
        let start = fragment.offset;
        let end = start + data.len() + missing;
        if end > MAX_PAYLOAD || self.pieces.len() >= MAX_PIECES {
            return None;
        }
        if !fragment.more && self.len.replace(end).is_some_and(|len| len != end) {
            return None;
        }
        let furthest = self.pieces.last().map_or(end, |last| last.end.max(end));
        if self.len.is_some_and(|len| furthest > len) {
            return None;
        }
        if missing > 0 {
            let cut = start + data.len();
            self.cut_at = Some(self.cut_at.map_or(cut, |at| at.min(cut)));
        }
        let have = start + data.len();
        if self.buffer.len() < have {
            self.buffer.resize(have, 0);
        }
        // Differing overlaps are an attack on observers. The last wins: no choice suits all.
        self.buffer[start..have].copy_from_slice(data);
        let first = self.pieces.partition_point(|piece| piece.end < start);
        let last = self.pieces.partition_point(|piece| piece.start <= end);
        let merged = match self.pieces.get(first..last) {
            Some([one]) => one.start.min(start)..one.end.max(end),
            Some([head, .., tail]) => head.start.min(start)..tail.end.max(end),
            _ => start..end,
        };
        self.pieces.splice(first..last, [merged]);
        Some(matches!(&self.pieces[..], [only] if only.start == 0 && Some(only.end) == self.len))
    }

    fn finish(mut self) -> WholePacket {
        let len = self.len.unwrap_or(self.buffer.len());
        let have = self.cut_at.unwrap_or(len).min(self.buffer.len());
        self.buffer.truncate(have);
        WholePacket { payload: self.buffer.into(), missing: len - have }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(missing: usize) -> IpPacket {
        let addr = IpAddr::from([10, 0, 0, 1]);
        IpPacket { src: addr, dst: addr, protocol: 17, payload: 0..0, missing, fragment: None }
    }

    fn feed(
        fragments: &mut Fragments,
        id: u32,
        offset: usize,
        more: bool,
        data: &[u8],
    ) -> Option<WholePacket> {
        fragments.handle(Duration::ZERO, &packet(0), Fragment { id, offset, more }, data)
    }

    #[test]
    fn a_duplicate_and_an_overlap_do_no_harm() {
        let mut fragments = Fragments::default();
        assert_eq!(feed(&mut fragments, 1, 8, false, b"rest"), None);
        assert_eq!(feed(&mut fragments, 1, 8, false, b"rest"), None);
        let whole = feed(&mut fragments, 1, 0, true, b"0123456789").map(|whole| whole.payload);
        // The overlap lies inside the whole: 0..10 and 8..12.
        assert_eq!(whole.as_deref(), Some(&b"0123456789st"[..]));
        assert!(fragments.assemblies.is_empty());
    }

    #[test]
    fn a_cut_fragment_ends_the_payload_and_says_what_is_missing() {
        let mut fragments = Fragments::default();
        let first = Fragment { id: 1, offset: 0, more: true };
        assert_eq!(fragments.handle(Duration::ZERO, &packet(4), first, b"0123"), None);
        let whole = feed(&mut fragments, 1, 8, false, b"rest").unwrap();
        assert_eq!(whole, WholePacket { payload: Bytes::from_static(b"0123"), missing: 8 });
    }

    #[test]
    fn contradictions_are_dropped() {
        let mut fragments = Fragments::default();
        feed(&mut fragments, 1, 8, false, b"rest");
        assert_eq!(feed(&mut fragments, 1, 16, true, b"beyond the end"), None);
        assert_eq!(fragments.dropped, 1);
        feed(&mut fragments, 2, 65528, false, &[0; 8]);
        assert_eq!(fragments.dropped, 2);
        assert!(fragments.assemblies.is_empty());
    }

    #[test]
    fn a_flood_of_first_fragments_stays_within_the_bound() {
        let mut fragments = Fragments::default();
        for id in 0..10_000 {
            feed(&mut fragments, id, 65_000, true, &[0; 8]);
        }
        assert_eq!(fragments.assemblies.len(), MAX_PACKETS);
        assert_eq!(fragments.dropped, 10_000 - MAX_PACKETS as u64);
        let mut fragments = Fragments::default();
        for index in 0..8000 {
            feed(&mut fragments, 1, index * 16 % 65_000, true, &[1; 8]);
        }
        assert!(fragments.assemblies.values().all(|assembly| assembly.pieces.len() <= MAX_PIECES));
    }

    #[test]
    fn pieces_that_are_too_old_do_not_meet_new_ones() {
        let mut fragments = Fragments::default();
        feed(&mut fragments, 1, 0, true, b"01234567");
        let last = Fragment { id: 1, offset: 8, more: false };
        let late = fragments.handle(Duration::from_secs(61), &packet(0), last, b"rest");
        assert_eq!(late, None);
        assert_eq!(fragments.dropped, 1);
    }

    proptest! {
        #[test]
        fn any_order_gives_the_same_payload(
            len in 1usize..5000,
            step in 1usize..100,
            order in prop::collection::vec(any::<prop::sample::Index>(), 1..1000),
        ) {
            let payload: Vec<u8> = (0..len).map(|index| (index % 251) as u8).collect();
            let mut left: Vec<(usize, &[u8])> =
                payload.chunks(step * 8).enumerate().map(|(index, part)| (index * step * 8, part)).collect();
            let mut fragments = Fragments::default();
            let mut order = order.into_iter().cycle();
            while !left.is_empty() {
                let (offset, part) = left.swap_remove(order.next().unwrap().index(left.len()));
                let more = offset + part.len() < len;
                let whole = feed(&mut fragments, 1, offset, more, part);
                prop_assert_eq!(whole.is_some(), left.is_empty());
                if let Some(whole) = whole {
                    prop_assert_eq!(&whole.payload[..], &payload[..]);
                }
            }
        }
    }
}
