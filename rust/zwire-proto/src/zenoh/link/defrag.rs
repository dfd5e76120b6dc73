//! [`Defrag`]: the message that a channel is collecting (`zenoh-wire` 3.10).
//!
//! A link and a dissector of captures put messages together by the same rules and differ in what they tolerate,
//! which is a [`DefragPolicy`]: [`Strict`] or [`Lossy`].

use super::sn;
use crate::{
    buf::Reader,
    error::DecodeErrorKind,
    zenoh::wire::{Fragment, NetworkMessage, is_network},
};
use bytes::Bytes;
use core::fmt::Debug;
use std::collections::VecDeque;

/// What a first fragment says about the length of its message is believed up to here, so that usual
/// messages are collected without growing. The memory is not touched before bytes arrive, and it
/// counts against the bound of the link; beyond it the buffer grows with what has arrived.
const BELIEVED: usize = 2 << 20;

/// Buffers of whole messages from here on are used again: smaller ones cost little to allocate, and for larger ones the
/// system clears fresh pages, which takes longer than copying the message.
const SPARE_FROM: usize = 128 << 10;

/// Bytes of buffers that a link keeps for the next messages: two camera frames of 8 MiB and their headers. They count as
/// memory of incomplete messages, and go when the peer has nothing to send.
const SPARE_BYTES: usize = (16 << 20) + (64 << 10);

/// The tolerance of a [`Defrag`].
pub trait DefragPolicy {
    /// Place of a fragment; that of the first one comes back with the message.
    type Place: Copy + Debug + PartialEq;

    /// Whether a FRAME ends the rest of a message that was dropped, where fragments are not marked.
    const FRAME_ENDS_REST: bool;

    /// Whether a fragment without First mark, which continues nothing, begins a message. Asked only where the
    /// sender may leave the mark out.
    fn begins(data: &Bytes, more: bool) -> bool;

    /// The length of the whole message, at least, as its first fragment claims it; 0 where it is not asked.
    fn claim(first: &Bytes) -> usize;

    /// Whether buffers of messages that are no longer used serve for the next ones.
    const RECYCLES: bool;
}

/// Policy of links: fragments come from the first one on, and nothing is missing that was not lost.
#[derive(Clone, Copy, Debug)]
pub struct Strict;

impl DefragPolicy for Strict {
    type Place = ();

    const FRAME_ENDS_REST: bool = false;
    const RECYCLES: bool = true;

    fn begins(_data: &Bytes, _more: bool) -> bool {
        true
    }

    #[cold]
    fn claim(first: &Bytes) -> usize {
        match NetworkMessage::decode(&mut Reader::new(first).with_shared_memory()) {
            // Decoding runs out of bytes: so many more are in the message.
            Err(error) => match error.kind {
                DecodeErrorKind::Truncated { needed } => first.len().saturating_add(needed),
                _ => first.len(),
            },
            Ok(_) => first.len(),
        }
    }
}

/// Policy of dissectors: a capture may begin inside a message and lack parts of it. A fragment without mark
/// has to look like the start of a message.
#[derive(Clone, Copy, Debug)]
pub struct Lossy;

impl DefragPolicy for Lossy {
    /// Offset of the batch in its stream.
    type Place = u64;

    const FRAME_ENDS_REST: bool = true;
    const RECYCLES: bool = false;

    fn begins(data: &Bytes, more: bool) -> bool {
        if !data.first().is_some_and(|header| is_network(*header)) {
            return false;
        }
        let mut reader = Reader::new(data).with_shared_memory();
        match NetworkMessage::decode(&mut reader) {
            Ok(_) => !more && reader.is_empty(),
            Err(error) => more && matches!(error.kind, DecodeErrorKind::Truncated { .. }),
        }
    }

    fn claim(_first: &Bytes) -> usize {
        0
    }
}

/// How a sender writes fragments, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentRules {
    /// Whether First and Drop are marked.
    pub marks: Option<bool>,
    /// The mask of sequence numbers.
    pub sn_mask: Option<u32>,
}

impl FragmentRules {
    /// Whether fragments are known to be marked.
    const fn are_marked(self) -> bool {
        matches!(self.marks, Some(true))
    }

    /// Whether `sn` is next to `last`. Where the width of sequence numbers is not known, it may wrap at each
    /// of them.
    fn follows(self, last: u32, sn: u32) -> bool {
        match self.sn_mask {
            Some(mask) => sn == sn::next(last, mask),
            None => {
                sn == last.wrapping_add(1)
                    || (sn == 0 && matches!(last, 0x7f | 0x3fff | 0x0fff_ffff | u32::MAX))
            }
        }
    }
}

/// Buffers of messages that were whole, for the next ones.
#[derive(Clone, Debug)]
struct Spares {
    most: usize,
    /// With the capacity of each; in use as long as there is another reference to its bytes.
    buffers: VecDeque<(Bytes, usize)>,
    /// Their capacities together.
    bytes: usize,
}

impl Spares {
    /// Keeps a buffer, and at most `room` bytes of them.
    fn keep(&mut self, bytes: Bytes, capacity: usize, room: usize) {
        let most = room.min(self.most);
        if !(SPARE_FROM..=most).contains(&capacity) {
            return;
        }
        self.buffers.push_back((bytes, capacity));
        self.bytes += capacity;
        while self.bytes > most {
            self.bytes -= self.buffers.pop_front().map_or(self.bytes, |(_, capacity)| capacity);
        }
    }

    /// An unused buffer for a message of `len` bytes, of at most `most`. One of twice the size would hold more memory than
    /// the queues that the message goes through know of.
    fn take(&mut self, len: usize, most: usize) -> Option<Vec<u8>> {
        let fits = len..=most.min(len.saturating_mul(2));
        let at =
            self.buffers.iter().position(|(bytes, capacity)| fits.contains(capacity) && bytes.is_unique())?;
        let (bytes, capacity) = self.buffers.remove(at)?;
        self.bytes -= capacity;
        let mut unused = bytes.try_into_mut().ok()?;
        unused.clear();
        Some(unused.into())
    }

    fn clear(&mut self) {
        self.buffers.clear();
        self.bytes = 0;
    }
}

/// The bounds of reassembly, and how much of them is used on all channels that share it.
#[derive(Clone, Debug)]
pub struct DefragBudget {
    /// Largest message.
    pub(super) max_message_size: usize,
    /// Most memory of all channels.
    pub(super) bytes: usize,
    /// Memory in use.
    pub(super) used: usize,
    spares: Spares,
}

impl DefragBudget {
    /// A budget of which nothing is used: the largest message, and the most memory of all channels.
    #[must_use]
    pub const fn new(max_message_size: usize, bytes: usize) -> Self {
        let spares = Spares { most: SPARE_BYTES, buffers: VecDeque::new(), bytes: 0 };
        Self { max_message_size, bytes, used: 0, spares }
    }

    /// Without buffers for the next messages, for many senders with one bound: a silent one would keep memory from the
    /// others.
    pub(super) const fn without_spares(mut self) -> Self {
        self.spares.most = 0;
        self
    }

    /// Memory in use.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used
    }

    /// Memory in use, and that of buffers which are kept for the next messages.
    pub(super) const fn held(&self) -> usize {
        self.used + self.spares.bytes
    }

    /// Changes the most memory of all channels.
    pub(super) fn set_bytes(&mut self, bytes: usize) {
        self.bytes = bytes;
        self.fit();
    }

    /// Gives up spare buffers where messages need their memory.
    fn fit(&mut self) {
        if self.held() > self.bytes {
            self.spares.clear();
        }
    }

    /// Gives up the buffers that are kept for the next messages.
    pub(super) fn idle(&mut self) {
        self.spares.clear();
    }
}

/// Result of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefragOutcome<Place> {
    /// Kept; the message goes on.
    Collected,
    /// The message is whole.
    Whole(WholeMessage<Place>),
    /// The sender gave the message up; what was collected of it, if anything.
    GivenUp(Option<DroppedMessage<Place>>),
    /// Dropped: First is missing, or a fragment before it.
    Stray {
        /// A fragment of the same message was already told as stray, or the message as torn.
        told: bool,
    },
    /// Dropped with what was collected: beyond the bounds.
    TooLarge(DroppedMessage<Place>),
}

/// A message that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeMessage<Place> {
    /// Its bytes.
    pub bytes: Bytes,
    /// Place of its first fragment.
    pub place: Place,
    /// Whether its first fragment was marked. Else the policy took it for one.
    pub marked: bool,
}

/// A message that was dropped half collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedMessage<Place> {
    /// Place of its first fragment.
    pub place: Place,
    /// Sequence number of its last fragment.
    pub sn: u32,
    /// Bytes that were collected.
    pub len: usize,
}

/// The reassembly of one channel.
#[derive(Debug)]
pub struct Defrag<P: DefragPolicy> {
    bytes: Vec<u8>,
    state: DefragState<P::Place>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DefragState<Place> {
    /// Waits for a first fragment.
    Idle,
    Collecting(Collecting<Place>),
    /// The rest of a dropped message passes by. Without marks nothing else tells it from the start of the
    /// next one.
    Skipping,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Collecting<Place> {
    /// Sequence number of the last fragment.
    sn: u32,
    /// Length of the whole message, as far as its first fragment claims it.
    claim: usize,
    place: Place,
    marked: bool,
}

impl<P: DefragPolicy> Default for Defrag<P> {
    fn default() -> Self {
        Self { bytes: Vec::new(), state: DefragState::Idle }
    }
}

impl<P: DefragPolicy> Defrag<P> {
    /// Takes a fragment whose sequence number is good. The second part of the answer is the message that was
    /// being collected and had to be dropped for the fragment.
    pub fn push(
        &mut self,
        fragment: Fragment,
        data: &Bytes,
        place: P::Place,
        rules: FragmentRules,
        budget: &mut DefragBudget,
    ) -> (DefragOutcome<P::Place>, Option<DroppedMessage<P::Place>>) {
        let Fragment { sn, first, more, .. } = fragment;
        if fragment.drop && rules.marks != Some(false) {
            let dropped = self.drop_collected(budget);
            self.state = DefragState::Idle;
            return (DefragOutcome::GivenUp(dropped), None);
        }
        let mut torn = None;
        if let DefragState::Collecting(collecting) = self.state {
            if !first && rules.follows(collecting.sn, sn) {
                return (self.collect(Collecting { sn, ..collecting }, data, more, budget), None);
            }
            torn = self.drop_collected(budget);
        }
        // Without marks a fragment that does not continue anything may be a first one, unless it is the rest
        // of a message that was dropped.
        let idle = matches!(self.state, DefragState::Idle);
        if !first && (rules.are_marked() || !idle || !P::begins(data, more)) {
            self.skip(more);
            return (DefragOutcome::Stray { told: !idle }, torn);
        }
        if !more {
            self.state = DefragState::Idle;
            let whole = WholeMessage { bytes: data.clone(), place, marked: first };
            return (DefragOutcome::Whole(whole), torn);
        }
        let collecting = Collecting { sn, claim: P::claim(data), place, marked: first };
        (self.collect(collecting, data, more, budget), torn)
    }

    /// A FRAME came on the channel: the message that it tore, if any.
    #[inline]
    pub fn interrupt(
        &mut self,
        rules: FragmentRules,
        budget: &mut DefragBudget,
    ) -> Option<DroppedMessage<P::Place>> {
        match self.state {
            DefragState::Idle => None,
            DefragState::Skipping => {
                if P::FRAME_ENDS_REST {
                    self.state = DefragState::Idle;
                }
                None
            }
            DefragState::Collecting(_) => {
                let torn = self.drop_collected(budget);
                if P::FRAME_ENDS_REST || rules.are_marked() {
                    self.state = DefragState::Idle;
                }
                torn
            }
        }
    }

    /// The channel ends: the message that it was collecting, if any.
    pub fn finish(&mut self, budget: &mut DefragBudget) -> Option<DroppedMessage<P::Place>> {
        let dropped = self.drop_collected(budget);
        self.state = DefragState::Idle;
        dropped
    }

    /// Drops what was collected; the rest of the message may still come.
    fn drop_collected(&mut self, budget: &mut DefragBudget) -> Option<DroppedMessage<P::Place>> {
        let DefragState::Collecting(Collecting { sn, place, .. }) = self.state else { return None };
        self.state = DefragState::Skipping;
        Some(self.release(sn, place, budget))
    }

    fn release(&mut self, sn: u32, place: P::Place, budget: &mut DefragBudget) -> DroppedMessage<P::Place> {
        budget.used -= self.bytes.capacity();
        let len = core::mem::take(&mut self.bytes).len();
        DroppedMessage { place, sn, len }
    }

    const fn skip(&mut self, more: bool) {
        self.state = if more { DefragState::Skipping } else { DefragState::Idle };
    }

    /// Adds a fragment to the message; its last number is then that of `collecting`.
    fn collect(
        &mut self,
        collecting: Collecting<P::Place>,
        data: &Bytes,
        more: bool,
        budget: &mut DefragBudget,
    ) -> DefragOutcome<P::Place> {
        let Collecting { sn, claim, place, marked } = collecting;
        if !self.append(data, claim, budget) {
            self.skip(more);
            return DefragOutcome::TooLarge(self.release(sn, place, budget));
        }
        if more {
            self.state = DefragState::Collecting(collecting);
            return DefragOutcome::Collected;
        }
        self.state = DefragState::Idle;
        let capacity = self.bytes.capacity();
        budget.used -= capacity;
        let collected = core::mem::take(&mut self.bytes);
        // A message much shorter than it has claimed to be must not hold the memory of its claim.
        let exact = collected.len() < capacity / 2;
        let bytes = if exact { Bytes::copy_from_slice(&collected) } else { Bytes::new() };
        let buffer = Bytes::from(collected);
        let bytes = if exact { bytes } else { buffer.clone() };
        if P::RECYCLES {
            budget.spares.keep(buffer, capacity, budget.bytes.saturating_sub(budget.used));
        }
        DefragOutcome::Whole(WholeMessage { bytes, place, marked })
    }

    fn append(&mut self, data: &Bytes, claim: usize, budget: &mut DefragBudget) -> bool {
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
    fn grow(&mut self, len: usize, claim: usize, budget: &mut DefragBudget) -> bool {
        let old = self.bytes.capacity();
        let free = budget.bytes.saturating_sub(budget.used - old);
        if old == 0
            && P::RECYCLES
            && let Some(spare) = budget.spares.take(claim.max(len), free)
        {
            self.bytes = spare;
            budget.used += self.bytes.capacity();
            return true;
        }
        let doubled = len.saturating_mul(2);
        let wanted = match claim {
            // The last fragment.
            claim if claim == len => len,
            claim if claim > len => claim.min(doubled.max(BELIEVED)),
            _ => doubled,
        };
        let wanted = wanted.min(budget.max_message_size).min(free);
        if wanted < len {
            return false;
        }
        // A peer chooses the size: if there is no memory for it, that costs the message.
        if self.bytes.try_reserve_exact(wanted - self.bytes.len()).is_err() {
            return false;
        }
        budget.used = budget.used - old + self.bytes.capacity();
        budget.fit();
        true
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

    const MARKS: FragmentRules = FragmentRules { marks: Some(true), sn_mask: Some(MASK) };
    const NO_MARKS: FragmentRules = FragmentRules { marks: Some(false), ..MARKS };

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
        assert_eq!(Strict::claim(&first), message.len());
        let mut defrag = Defrag::<Strict>::default();
        let mut budget = DefragBudget::new(1 << 30, 1 << 30);
        defrag.push(fragment(0, true, true), &first, (), MARKS, &mut budget);
        assert_eq!(defrag.bytes.capacity(), message.len());
        let start = defrag.bytes.as_ptr();
        let rest = Bytes::copy_from_slice(&message[100..]);
        let (outcome, _) = defrag.push(fragment(1, false, false), &rest, (), MARKS, &mut budget);
        let DefragOutcome::Whole(WholeMessage { bytes: whole, .. }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(whole, message);
        assert_eq!(whole.as_ptr(), start, "collected without growing");
        assert_eq!(budget.used, 0);
    }

    /// Collects a message in two fragments.
    fn whole(defrag: &mut Defrag<Strict>, budget: &mut DefragBudget, message: &[u8]) -> Bytes {
        let (first, rest) = message.split_at(100.min(message.len() / 2));
        let [first, rest] = [first, rest].map(Bytes::copy_from_slice);
        defrag.push(fragment(0, true, true), &first, (), MARKS, budget);
        let (outcome, _) = defrag.push(fragment(1, false, false), &rest, (), MARKS, budget);
        let DefragOutcome::Whole(WholeMessage { bytes, .. }) = outcome else { panic!("{outcome:?}") };
        assert_eq!((&bytes[..], budget.used), (message, 0));
        bytes
    }

    #[test]
    fn the_buffer_of_a_message_that_is_no_longer_used_serves_for_the_next() {
        let (mut defrag, mut budget) = (Defrag::default(), DefragBudget::new(1 << 30, 1 << 30));
        let message = message(1 << 20);
        let first = whole(&mut defrag, &mut budget, &message);
        let at = first.as_ptr();
        assert_eq!(budget.held(), message.len());
        // In use, also by a part.
        let part = first.slice(1000..1010);
        drop(first);
        let second = whole(&mut defrag, &mut budget, &message);
        assert_ne!(second.as_ptr(), at);
        drop((part, second));
        assert_eq!(whole(&mut defrag, &mut budget, &message).as_ptr(), at);
        assert_eq!(budget.held(), 2 * message.len());
        budget.idle();
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn buffers_that_are_kept_have_bounds() {
        let (mut defrag, mut budget) = (Defrag::default(), DefragBudget::new(1 << 30, 1 << 30));
        for len in [1_000, 100_000, 200_000, 1 << 20, 3 << 20, 4 << 20, 7 << 20, 17 << 20, 1 << 20] {
            let kept = whole(&mut defrag, &mut budget, &message(len));
            assert!(budget.held() <= SPARE_BYTES);
            drop(kept);
        }
        assert!(budget.held() > 1 << 20);
        budget.set_bytes(1 << 20);
        assert_eq!(budget.held(), 0, "the memory is needed elsewhere");
    }

    #[test]
    fn no_message_holds_more_than_twice_its_size() {
        let (mut defrag, mut budget) = (Defrag::default(), DefragBudget::new(1 << 30, 1 << 30));
        let large = whole(&mut defrag, &mut budget, &message(4 << 20));
        assert!(budget.held() > 4 << 20);
        let at = large.as_ptr() as usize..large.as_ptr() as usize + large.len();
        drop(large);
        let small = whole(&mut defrag, &mut budget, &message(1 << 20));
        assert!(!at.contains(&(small.as_ptr() as usize)));
        // One that claims 4 MiB and ends before.
        let cut = &message(4 << 20)[..200_000];
        assert!(!at.contains(&(whole(&mut defrag, &mut budget, cut).as_ptr() as usize)));
    }

    #[test]
    fn a_hostile_claim_allocates_little() {
        let mut first = message(0);
        first.pop();
        // A payload of 4 GiB.
        first.extend([0xff, 0xff, 0xff, 0xff, 0x0f]);
        let first = Bytes::from(first);
        assert!(Strict::claim(&first) > 1 << 31);
        let mut defrag = Defrag::<Strict>::default();
        let mut budget = DefragBudget::new(1 << 30, 1 << 30);
        defrag.push(fragment(0, true, true), &first, (), MARKS, &mut budget);
        assert!(budget.used <= BELIEVED);
        let data = Bytes::from(vec![0; 49_000]);
        for sn in 1..200 {
            defrag.push(fragment(sn, false, true), &data, (), MARKS, &mut budget);
            let arrived = first.len() + sn as usize * data.len();
            assert!(budget.used <= BELIEVED.max(2 * arrived), "{} for {arrived}", budget.used);
        }
    }

    #[test]
    fn the_budget_of_the_link_is_kept_and_given_back() {
        let mut defrag = Defrag::<Strict>::default();
        let mut other = Defrag::<Strict>::default();
        let mut budget = DefragBudget::new(1000, 1500);
        let data = Bytes::from(vec![0; 400]);
        let push = |d: &mut Defrag<Strict>, sn, first, budget: &mut DefragBudget| {
            d.push(fragment(sn, first, true), &data, (), MARKS, budget).0
        };
        assert_eq!(push(&mut defrag, 0, true, &mut budget), DefragOutcome::Collected);
        assert_eq!(push(&mut defrag, 1, false, &mut budget), DefragOutcome::Collected);
        assert_eq!(push(&mut other, 0, true, &mut budget), DefragOutcome::Collected);
        assert!(budget.used <= 1500);
        let of_link = DroppedMessage { place: (), sn: 1, len: 400 };
        assert_eq!(push(&mut other, 1, false, &mut budget), DefragOutcome::TooLarge(of_link), "of the link");
        let of_message = DroppedMessage { place: (), sn: 2, len: 800 };
        assert_eq!(
            push(&mut defrag, 2, false, &mut budget),
            DefragOutcome::TooLarge(of_message),
            "of a message"
        );
        assert_eq!(budget.used, 0);
        assert!(matches!(push(&mut defrag, 3, false, &mut budget), DefragOutcome::Stray { .. }));
    }

    #[test]
    fn without_marks_the_rest_of_a_torn_message_is_skipped() {
        let mut defrag = Defrag::<Strict>::default();
        let mut budget = DefragBudget::new(1000, 1000);
        let mut push = |sn, more| {
            let data = Bytes::copy_from_slice(&[sn as u8]);
            let (outcome, torn) = defrag.push(fragment(sn, false, more), &data, (), NO_MARKS, &mut budget);
            (outcome, torn.is_some())
        };
        let stray = DefragOutcome::Stray { told: true };
        assert_eq!(push(0, true), (DefragOutcome::Collected, false));
        assert_eq!(push(2, true), (stray.clone(), true), "1 is missing");
        assert_eq!(push(3, true), (stray.clone(), false));
        assert_eq!(push(4, false), (stray, false), "the last of the torn message");
        assert_eq!(push(5, true), (DefragOutcome::Collected, false));
        let whole = WholeMessage { bytes: Bytes::from_static(&[5, 6]), place: (), marked: false };
        assert_eq!(push(6, false), (DefragOutcome::Whole(whole), false));
    }
}
