//! Channels of a session: messages in fragments (`zenoh-wire` 3.10), and numbers of the last datagrams.

use super::record::{Cause, Torn};
use bytes::Bytes;
use zwire_proto::zenoh::{
    Priority, Reliability,
    link::defrag::{Defrag, DefragBudget, DefragOutcome, DroppedMessage, FragmentRules, Lossy, WholeMessage},
    wire::Fragment,
};

/// The channels of one side of a session.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    /// By priority and reliability; most are never used.
    channels: [Option<Box<Defrag<Lossy>>>; 2 * Priority::COUNT],
}

/// A message in fragments or a part of it that was lost, and where it began.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) offset: u64,
    pub(crate) cause: Cause,
}

impl Lost {
    fn torn(dropped: DroppedMessage<u64>, why: Torn) -> Self {
        let DroppedMessage { place, sn, len } = dropped;
        Self { offset: place, cause: Cause::Torn { sn, bytes: len as u64, why } }
    }
}

const fn index(priority: Priority, reliability: Reliability) -> usize {
    2 * priority as usize + reliability as usize
}

impl Channels {
    /// Takes a fragment that begins at `offset`.
    pub(crate) fn push(
        &mut self,
        fragment: Fragment,
        data: &Bytes,
        offset: u64,
        rules: FragmentRules,
        budget: &mut DefragBudget,
    ) -> (Option<WholeMessage<u64>>, Option<Lost>) {
        let channel = self.channels[index(fragment.priority, fragment.reliability)].get_or_insert_default();
        let (outcome, torn) = channel.push(fragment, data, offset, rules, budget);
        let torn = torn.map(|torn| Lost::torn(torn, Torn::Missing));
        match outcome {
            DefragOutcome::Collected => (None, torn),
            DefragOutcome::Whole(whole) => (Some(whole), torn),
            DefragOutcome::GivenUp(dropped) => (None, dropped.map(|it| Lost::torn(it, Torn::GivenUp))),
            DefragOutcome::Stray { told: true } => (None, torn),
            DefragOutcome::Stray { told: false } => {
                (None, Some(Lost { offset, cause: Cause::Stray { sn: fragment.sn } }))
            }
            DefragOutcome::TooLarge(dropped) => (None, Some(Lost::torn(dropped, Torn::TooLarge))),
        }
    }

    /// A FRAME came on the channel.
    #[inline]
    pub(crate) fn interrupt(
        &mut self,
        priority: Priority,
        reliability: Reliability,
        rules: FragmentRules,
        budget: &mut DefragBudget,
    ) -> Option<Lost> {
        let channel = self.channels[index(priority, reliability)].as_mut()?;
        channel.interrupt(rules, budget).map(|torn| Lost::torn(torn, Torn::Interrupted))
    }

    /// The session is over: what is half collected on each channel is lost.
    pub(crate) fn finish(&mut self, budget: &mut DefragBudget) -> Vec<Lost> {
        let channels = core::mem::take(&mut self.channels).into_iter().flatten();
        channels
            .filter_map(|mut channel| channel.finish(budget))
            .map(|dropped| Lost::torn(dropped, Torn::End))
            .collect()
    }
}

/// The sequence numbers that one side has used last.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// By priority and reliability; most are never used.
    channels: Option<Box<[Window; 2 * Priority::COUNT]>>,
}

/// The highest number, and which of the 31 below it were seen: bit 0 is the highest.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    highest: u32,
    seen: u32,
}

impl Recent {
    /// Records a number; `false` if it was seen before.
    pub(crate) fn insert(&mut self, priority: Priority, reliability: Reliability, sn: u32) -> bool {
        let channels = self.channels.get_or_insert_default();
        channels[index(priority, reliability)].insert(sn)
    }
}

impl Window {
    fn insert(&mut self, sn: u32) -> bool {
        let (above, below) = (sn.wrapping_sub(self.highest), self.highest.wrapping_sub(sn));
        if below < u32::BITS {
            let bit = 1 << below;
            let new = self.seen & bit == 0;
            self.seen |= bit;
            return new;
        }
        // A number far away means another session, or that the numbers wrapped.
        self.seen = self.seen.checked_shl(above).unwrap_or(0) | 1;
        self.highest = sn;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::{MAX_MESSAGE, MAX_REASSEMBLY};
    use super::*;
    use zwire_proto::zenoh::wire::{NetworkMessage, Push, PushBody, Put, WireExpr};

    const fn rules(marks: Option<bool>) -> FragmentRules {
        FragmentRules { marks, sn_mask: Some(0x7f) }
    }

    fn fragment(sn: u32, first: bool, more: bool) -> Fragment {
        let (reliability, priority) = (Reliability::Reliable, Priority::Data);
        Fragment { reliability, sn, priority, more, first, drop: false }
    }

    fn message(len: usize) -> Bytes {
        let push = Push::new(WireExpr::full("f/x"), PushBody::Put(Put::new(vec![7; len])));
        let mut out = Vec::new();
        NetworkMessage::Push(push).encode(&mut out);
        out.into()
    }

    #[test]
    fn a_message_is_put_together_and_its_memory_given_back() {
        let message = message(1000);
        for marks in [Some(true), Some(false), None] {
            let (mut channels, mut budget) =
                (Channels::default(), DefragBudget::new(MAX_MESSAGE, MAX_REASSEMBLY));
            let first = marks == Some(true);
            let mut push = |sn, first, more, range: core::ops::Range<usize>| {
                let data = message.slice(range);
                channels.push(fragment(sn, first, more), &data, sn.into(), rules(marks), &mut budget)
            };
            assert_eq!(push(126, first, true, 0..400), (None, None), "{marks:?}");
            assert_eq!(push(127, false, true, 400..800), (None, None));
            let whole = WholeMessage { bytes: message.clone(), place: 126, marked: first };
            assert_eq!(push(0, false, false, 800..message.len()), (Some(whole), None));
            assert_eq!(budget.used(), 0);
        }
    }

    #[test]
    fn what_cannot_be_completed_is_told_once() {
        let message = message(1000);
        for marks in [Some(true), Some(false), None] {
            let (mut channels, mut budget) =
                (Channels::default(), DefragBudget::new(MAX_MESSAGE, MAX_REASSEMBLY));
            let mut push = |sn, first, more, range: core::ops::Range<usize>| {
                let data = message.slice(range);
                channels.push(fragment(sn, first, more), &data, sn.into(), rules(marks), &mut budget)
            };
            // The start is missing.
            let stray = Lost { offset: 3, cause: Cause::Stray { sn: 3 } };
            assert_eq!(push(3, false, true, 400..800), (None, Some(stray)), "{marks:?}");
            assert_eq!(push(4, false, false, 800..900), (None, None));
            // One in the middle is missing.
            push(5, marks == Some(true), true, 0..400);
            let (whole, lost) = push(7, false, true, 600..800);
            let torn = Cause::Torn { sn: 5, bytes: 400, why: Torn::Missing };
            assert_eq!((whole, lost), (None, Some(Lost { offset: 5, cause: torn })));
            assert_eq!(push(8, false, false, 800..900), (None, None));
            assert!(push(9, marks == Some(true), true, 0..400).1.is_none());
            assert!(push(10, false, false, 400..message.len()).0.is_some());
            assert_eq!(budget.used(), 0);
        }
    }

    #[test]
    fn frames_marks_and_ends_tear_a_message() {
        let message = message(1000);
        let (mut channels, mut budget) =
            (Channels::default(), DefragBudget::new(MAX_MESSAGE, MAX_REASSEMBLY));
        let known = rules(Some(true));
        let (priority, reliability) = (Priority::Data, Reliability::Reliable);
        let why = |lost: Option<Lost>| match lost.map(|lost| lost.cause) {
            Some(Cause::Torn { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        channels.push(fragment(1, true, true), &message, 0, known, &mut budget);
        assert_eq!(channels.interrupt(priority, Reliability::BestEffort, known, &mut budget), None);
        assert_eq!(why(channels.interrupt(priority, reliability, known, &mut budget)), Torn::Interrupted);
        channels.push(fragment(2, true, true), &message, 0, known, &mut budget);
        let mark = Fragment { drop: true, ..fragment(3, false, false) };
        assert_eq!(why(channels.push(mark, &Bytes::new(), 0, known, &mut budget).1), Torn::GivenUp);
        channels.push(fragment(4, true, true), &message, 0, known, &mut budget);
        assert_eq!(why(channels.finish(&mut budget).pop()), Torn::End);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let message = message(1000);
        let mut channels = Channels::default();
        let mut budget = DefragBudget::new(2500, 2600);
        let known = rules(Some(true));
        for sn in 0..2 {
            assert_eq!(channels.push(fragment(sn, sn == 0, true), &message, 0, known, &mut budget).1, None);
        }
        let other = Fragment { priority: Priority::RealTime, ..fragment(0, true, true) };
        let lost = channels.push(other, &message, 0, known, &mut budget).1.unwrap();
        assert_eq!(lost.cause, Cause::Torn { sn: 0, bytes: 0, why: Torn::TooLarge });
        let lost = channels.push(fragment(2, false, true), &message, 0, known, &mut budget).1.unwrap();
        assert!(matches!(lost.cause, Cause::Torn { sn: 2, why: Torn::TooLarge, .. }));
        assert_eq!(channels.push(fragment(3, false, true), &message, 0, known, &mut budget), (None, None));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn only_what_came_lately_is_known() {
        let mut window = Window::default();
        for sn in [0, 5, 3, 127, 0, 1, u32::MAX, 1 << 27] {
            assert!(window.insert(sn), "{sn}");
            assert!(!window.insert(sn), "{sn}");
        }
        let mut window = Window::default();
        for (sn, new) in [(100, true), (131, true), (100, false), (132, true), (100, true), (99, true)] {
            assert_eq!(window.insert(sn), new, "{sn}");
        }
    }

    #[test]
    fn channels_have_numbers_of_their_own() {
        let mut recent = Recent::default();
        for priority in [Priority::Data, Priority::RealTime] {
            for reliability in [Reliability::Reliable, Reliability::BestEffort] {
                assert!(recent.insert(priority, reliability, 7));
                assert!(!recent.insert(priority, reliability, 7));
            }
        }
    }
}
