//! [`Defrag`]: the message that a channel is collecting (`zenoh-wire` 3.10).

use super::sn;
use crate::{
    buf::Reader,
    error::DecodeErrorKind,
    zenoh::wire::{Fragment, NetworkMessage},
};
use bytes::Bytes;

/// What a first fragment says about the length of its message is believed up to here, so that usual
/// messages are collected without growing. The memory is not touched before bytes arrive, and it
/// counts against the bound of the link; beyond it the buffer grows with what has arrived.
const BELIEVED: usize = 2 << 20;

/// The bounds of reassembly, and how much of them is used on all channels of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Largest message.
    pub(super) max_message_size: usize,
    /// Most memory of all channels.
    pub(super) bytes: usize,
    /// Memory in use.
    pub(super) used: usize,
}

/// What became of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Kept; the message goes on.
    Collected,
    /// The message is whole.
    Whole(Bytes),
    /// The sender gave the message up.
    GivenUp,
    /// Dropped: First is missing, or a fragment before it.
    Stray,
    /// Dropped with what was collected: beyond the bounds.
    TooLarge,
}

/// The reassembly of one channel.
#[derive(Debug, Default)]
pub(super) struct Defrag {
    bytes: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Waits for a first fragment.
    #[default]
    Empty,
    /// Collects; the next fragment has this sequence number, the whole message this length, as far
    /// as is known.
    Collecting { next: u32, claim: usize },
    /// The rest of a dropped message passes by. Only without marks, where nothing else tells it from
    /// the start of the next one.
    Skipping,
}

impl Defrag {
    /// Takes a fragment whose sequence number is good. Whether a message that was being collected
    /// had to be dropped for it is the second part of the answer.
    pub(super) fn push(
        &mut self,
        fragment: Fragment,
        data: &Bytes,
        marks: bool,
        sn_mask: u32,
        budget: &mut Budget,
    ) -> (Outcome, bool) {
        if fragment.drop && marks {
            self.reset(budget);
            return (Outcome::GivenUp, false);
        }
        let mut broken = false;
        let claim = match self.state {
            State::Collecting { next, claim } if next == fragment.sn && !fragment.first => Some(claim),
            State::Collecting { .. } => {
                broken = true;
                self.reset(budget);
                None
            }
            State::Empty | State::Skipping => None,
        };
        let claim = match claim {
            Some(claim) => claim,
            // Without marks a fragment that does not continue anything is a first one, unless a
            // message has just been torn.
            None if fragment.first || (!marks && !broken && self.state == State::Empty) => {
                if !fragment.more {
                    self.state = State::Empty;
                    return (Outcome::Whole(data.clone()), broken);
                }
                claimed(data)
            }
            None => {
                self.skip(fragment, marks);
                return (Outcome::Stray, broken);
            }
        };
        if !self.append(data, claim, budget) {
            self.reset(budget);
            self.skip(fragment, marks);
            return (Outcome::TooLarge, broken);
        }
        if fragment.more {
            self.state = State::Collecting { next: sn::next(fragment.sn, sn_mask), claim };
            return (Outcome::Collected, broken);
        }
        budget.used -= self.bytes.capacity();
        self.state = State::Empty;
        (Outcome::Whole(core::mem::take(&mut self.bytes).into()), broken)
    }

    /// A FRAME came on the channel: whether that tore a message.
    #[inline]
    pub(super) fn interrupt(&mut self, marks: bool, budget: &mut Budget) -> bool {
        if !matches!(self.state, State::Collecting { .. }) {
            return false;
        }
        self.reset(budget);
        // The rest of the torn message may still come.
        if !marks {
            self.state = State::Skipping;
        }
        true
    }

    const fn skip(&mut self, fragment: Fragment, marks: bool) {
        self.state = if marks || !fragment.more { State::Empty } else { State::Skipping };
    }

    fn reset(&mut self, budget: &mut Budget) {
        budget.used -= self.bytes.capacity();
        self.bytes = Vec::new();
        self.state = State::Empty;
    }

    fn append(&mut self, data: &Bytes, claim: usize, budget: &mut Budget) -> bool {
        let len = self.bytes.len() + data.len();
        if len > budget.max_message_size {
            return false;
        }
        if len > self.bytes.capacity() && !self.grow(len, claim, budget) {
            return false;
        }
        self.bytes.extend_from_slice(data);
        true
    }

    /// Makes room for `len` bytes: what the message claims to be, but not much more than what has
    /// arrived.
    fn grow(&mut self, len: usize, claim: usize, budget: &mut Budget) -> bool {
        let old = self.bytes.capacity();
        let free = budget.bytes.saturating_sub(budget.used - old);
        let doubled = len.saturating_mul(2);
        let wanted = if claim > len { claim.min(doubled.max(BELIEVED)) } else { doubled };
        let wanted = wanted.min(budget.max_message_size).min(free);
        if wanted < len {
            return false;
        }
        self.bytes.reserve_exact(wanted - self.bytes.len());
        budget.used = budget.used - old + self.bytes.capacity();
        true
    }
}

/// The length that the first fragment of a message claims for the whole, at least: where decoding it
/// runs out of bytes.
#[cold]
fn claimed(first: &Bytes) -> usize {
    match NetworkMessage::decode(&mut Reader::new(first)) {
        Err(error) => match error.kind {
            DecodeErrorKind::Truncated { needed } => first.len().saturating_add(needed),
            _ => first.len(),
        },
        Ok(_) => first.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zenoh::{
        Priority, Reliability,
        wire::{Push, PushBody, Put, WireExpr},
    };

    const MASK: u32 = 0x0fff_ffff;

    fn budget(max_message_size: usize, bytes: usize) -> Budget {
        Budget { max_message_size, bytes, used: 0 }
    }

    fn fragment(sn: u32, first: bool, more: bool) -> Fragment {
        let (reliability, priority) = (Reliability::Reliable, Priority::Data);
        Fragment { reliability, sn, priority, more, first, drop: false }
    }

    fn message(len: usize) -> Vec<u8> {
        let push = Push::new(WireExpr::full("f/x"), PushBody::Put(Put::new(vec![7; len])));
        let mut out = Vec::new();
        NetworkMessage::Push(push).encode(&mut out);
        out
    }

    #[test]
    fn a_first_fragment_tells_the_length_of_the_message() {
        let message = message(1 << 20);
        let first = Bytes::copy_from_slice(&message[..100]);
        assert_eq!(claimed(&first), message.len());
        let mut defrag = Defrag::default();
        let mut budget = budget(1 << 30, 1 << 30);
        defrag.push(fragment(0, true, true), &first, true, MASK, &mut budget);
        assert_eq!(defrag.bytes.capacity(), message.len());
        let start = defrag.bytes.as_ptr();
        let rest = Bytes::copy_from_slice(&message[100..]);
        let (outcome, _) = defrag.push(fragment(1, false, false), &rest, true, MASK, &mut budget);
        let Outcome::Whole(whole) = outcome else { panic!("{outcome:?}") };
        assert_eq!(whole, message);
        assert_eq!(whole.as_ptr(), start, "collected without growing");
        assert_eq!(budget.used, 0);
    }

    #[test]
    fn a_hostile_claim_allocates_little() {
        let mut first = message(0);
        first.pop();
        // A payload of 4 GiB.
        first.extend([0xff, 0xff, 0xff, 0xff, 0x0f]);
        let first = Bytes::from(first);
        assert!(claimed(&first) > 1 << 31);
        let mut defrag = Defrag::default();
        let mut budget = budget(1 << 30, 1 << 30);
        defrag.push(fragment(0, true, true), &first, true, MASK, &mut budget);
        assert!(budget.used <= BELIEVED);
        let data = Bytes::from(vec![0; 49_000]);
        for sn in 1..200 {
            defrag.push(fragment(sn, false, true), &data, true, MASK, &mut budget);
            let arrived = first.len() + sn as usize * data.len();
            assert!(budget.used <= BELIEVED.max(2 * arrived), "{} for {arrived}", budget.used);
        }
    }

    #[test]
    fn the_budget_of_the_link_is_kept_and_given_back() {
        let mut defrag = Defrag::default();
        let mut other = Defrag::default();
        let mut budget = budget(1000, 1500);
        let data = Bytes::from(vec![0; 400]);
        let push = |d: &mut Defrag, sn, first, budget: &mut Budget| {
            d.push(fragment(sn, first, true), &data, true, MASK, budget).0
        };
        assert_eq!(push(&mut defrag, 0, true, &mut budget), Outcome::Collected);
        assert_eq!(push(&mut defrag, 1, false, &mut budget), Outcome::Collected);
        assert_eq!(push(&mut other, 0, true, &mut budget), Outcome::Collected);
        assert!(budget.used <= 1500);
        assert_eq!(push(&mut other, 1, false, &mut budget), Outcome::TooLarge, "of the link");
        assert_eq!(push(&mut defrag, 2, false, &mut budget), Outcome::TooLarge, "of a message");
        assert_eq!(budget.used, 0);
        assert_eq!(push(&mut defrag, 3, false, &mut budget), Outcome::Stray);
    }

    #[test]
    fn without_marks_the_rest_of_a_torn_message_is_skipped() {
        let mut defrag = Defrag::default();
        let mut budget = budget(1000, 1000);
        let mut push = |sn, more| {
            let data = Bytes::copy_from_slice(&[sn as u8]);
            defrag.push(fragment(sn, false, more), &data, false, MASK, &mut budget)
        };
        assert_eq!(push(0, true), (Outcome::Collected, false));
        assert_eq!(push(2, true), (Outcome::Stray, true), "1 is missing");
        assert_eq!(push(3, true), (Outcome::Stray, false));
        assert_eq!(push(4, false), (Outcome::Stray, false), "the last of the torn message");
        assert_eq!(push(5, true), (Outcome::Collected, false));
        assert_eq!(push(6, false), (Outcome::Whole(Bytes::from_static(&[5, 6])), false));
    }
}
