//! Sequence numbers (`zenoh-wire` 3.11).

use crate::zenoh::ZenohId;
use keccak::Keccak;

/// The number after `sn`.
#[inline]
pub(super) const fn next(sn: u32, mask: u32) -> u32 {
    sn.wrapping_add(1) & mask
}

/// Receive window of one channel: accepts a number ahead of the last one by at most half the range.
#[derive(Clone, Copy, Debug)]
pub(super) struct SnWindow {
    last: u32,
}

impl SnWindow {
    /// A window before the first message, which should have the number `initial`.
    pub(super) const fn new(initial: u32, mask: u32) -> Self {
        Self { last: initial.wrapping_sub(1) & mask }
    }

    /// Accepts `sn`, which must be inside the mask; `false` for a duplicate or an old one, which must
    /// be dropped. Gaps are accepted: there is no retransmission.
    #[inline]
    pub(super) const fn accept(&mut self, sn: u32, mask: u32) -> bool {
        let gap = sn.wrapping_sub(self.last) & mask;
        let ahead = gap >= 1 && gap <= mask >> 1;
        if ahead {
            self.last = sn;
        }
        ahead
    }
}

/// How far the next number of a JOIN may lie behind the last one because messages overtook the JOIN.
/// Further behind, the numbers have restarted, or so much was lost that new ones look old.
const OVERTAKEN: u32 = 1 << 16;

impl SnWindow {
    /// Adopts `next`, the next number according to a JOIN.
    pub(super) const fn follow(&mut self, next: u32, mask: u32) {
        let last = next.wrapping_sub(1) & mask;
        let behind = self.last.wrapping_sub(last) & mask;
        let overtaken = if mask >> 3 < OVERTAKEN { mask >> 3 } else { OVERTAKEN };
        if behind > overtaken {
            self.last = last;
        }
    }
}

/// The first sequence number of all channels of this side: the low bits of SHAKE128(own zid ‖ peer's
/// zid), as in Eclipse Zenoh. Several links to one node must have the same one.
pub(super) fn initial(own: ZenohId, peer: ZenohId, mask: u32) -> u32 {
    let mut input = [0; 32];
    input[..own.wire_len()].copy_from_slice(&own.to_le_bytes()[..own.wire_len()]);
    let len = own.wire_len() + peer.wire_len();
    input[own.wire_len()..len].copy_from_slice(&peer.to_le_bytes()[..peer.wire_len()]);
    #[allow(clippy::cast_possible_truncation, reason = "no mask has more than 32 bits")]
    let low = shake128_u64(&input[..len]) as u32;
    low & mask
}

/// The first eight bytes of SHAKE128, little-endian, of less than one block of input.
fn shake128_u64(input: &[u8]) -> u64 {
    /// Bytes absorbed at once: 1600 − 2 · 128 bits.
    const RATE: usize = 168;
    let mut block = [0; RATE];
    block[..input.len()].copy_from_slice(input);
    // Domain separation and padding of FIPS 202.
    block[input.len()] = 0x1f;
    block[RATE - 1] |= 0x80;
    let mut state = [0; 25];
    for (lane, bytes) in state.iter_mut().zip(block.as_chunks::<8>().0) {
        *lane = u64::from_le_bytes(*bytes);
    }
    Keccak::new().with_f1600(|f1600| f1600(&mut state));
    state[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: u32 = 0x0fff_ffff;

    #[test]
    fn shake128_of_nothing() {
        // FIPS 202: 7f9c2ba4e88f827d…
        assert_eq!(shake128_u64(b"").to_le_bytes(), [0x7f, 0x9c, 0x2b, 0xa4, 0xe8, 0x8f, 0x82, 0x7d]);
    }

    /// `zenoh-wire` 8: the initial numbers of both sides of the examples.
    #[test]
    fn initial_sn_of_the_examples() {
        let client = ZenohId::new(0xb1b2_b3b4_b5b6_b7b8).unwrap();
        let router = ZenohId::new(0xa1a2_a3a4).unwrap();
        assert_eq!(initial(client, router, MASK), 56_588_229);
        assert_eq!(initial(router, client, MASK), 184_133_222);
        // E9: with 8 bits.
        assert_eq!(initial(client, router, 0x7f), 69);
        // E0.
        assert_eq!(initial(router, ZenohId::new(0x03_0201).unwrap(), MASK), 233_634_991);
    }

    #[test]
    fn window_is_half_the_range() {
        let mut window = SnWindow::new(0, MASK);
        assert!(window.accept(0, MASK), "the initial number itself is the first");
        assert!(!window.accept(0, MASK), "duplicate");
        assert!(window.accept(1000, MASK), "a gap is fine");
        assert!(!window.accept(999, MASK), "old");
        let mut window = SnWindow::new(1, MASK);
        assert!(!window.accept(1 << 27, MASK), "a jump of 2^27");
        assert!(window.accept((1 << 27) - 1, MASK), "a jump of 2^27 - 1");
    }

    #[test]
    fn what_was_lost_or_began_again_is_told() {
        let mut window = SnWindow::new(1000, MASK);
        window.follow(5000, MASK);
        assert!(!window.accept(4999, MASK), "it will not be sent any more");
        assert!(window.accept(5000, MASK));
        window.follow(4000, MASK);
        assert!(!window.accept(4500, MASK), "the JOIN was only overtaken");
        window.follow(MASK - (1 << 17), MASK);
        assert!(window.accept(MASK - (1 << 17), MASK), "the sender has started again");
        let mut window = SnWindow::new(0, 0x7f);
        window.follow(70, 0x7f);
        assert!(window.accept(70, 0x7f), "more than half the range was lost");
    }

    #[test]
    fn window_wraps_at_every_width() {
        for mask in [0x7f, 0x3fff, MASK, u32::MAX] {
            let mut window = SnWindow::new(mask, mask);
            let mut sn = mask;
            for _ in 0..300 {
                assert!(window.accept(sn, mask));
                sn = next(sn, mask);
            }
        }
    }
}
