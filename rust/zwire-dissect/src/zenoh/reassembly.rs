//! Messages in fragments, per channel (`zenoh-wire` 3.10).

use super::{
    limits::{MAX_MESSAGE, MAX_REASSEMBLY},
    record::{Cause, Torn},
};
use bytes::Bytes;
use zwire_proto::{
    buf::Reader,
    error::DecodeErrorKind,
    zenoh::{
        Priority, Reliability,
        wire::{Fragment, NetworkMessage, is_network},
    },
};

/// The memory of all messages that are being put together, in all sessions.
#[derive(Debug)]
pub(crate) struct Budget {
    used: usize,
    max_message: usize,
    max_bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { used: 0, max_message: MAX_MESSAGE, max_bytes: MAX_REASSEMBLY }
    }
}

/// The channels of one side of a session.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    /// By priority and reliability; most are never used.
    channels: [Option<Box<Channel>>; 2 * Priority::COUNT],
}

/// A message that is whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Its bytes.
    pub(crate) bytes: Bytes,
    /// Where its first fragment began.
    pub(crate) offset: u64,
    /// Whether its first fragment was marked. Else it was taken for one by its looks, and the message
    /// has to fill its bytes exactly.
    pub(crate) marked: bool,
}

/// What could not be put together, and where it began.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) offset: u64,
    pub(crate) cause: Cause,
}

#[derive(Debug, Default)]
enum Channel {
    #[default]
    Idle,
    Collecting {
        bytes: Vec<u8>,
        /// Of the last fragment.
        sn: u32,
        offset: u64,
        marked: bool,
    },
    /// The rest of a message that was told as lost.
    Skipping,
}

const fn index(priority: Priority, reliability: Reliability) -> usize {
    2 * priority as usize + reliability as usize
}

/// Whether `sn` is next to `last`. Where the width of sequence numbers is not known, it may wrap at
/// each of them.
fn follows(last: u32, sn: u32, mask: Option<u32>) -> bool {
    match mask {
        Some(mask) => sn == last.wrapping_add(1) & mask,
        None => {
            sn == last.wrapping_add(1) || (sn == 0 && matches!(last, 0x7f | 0x3fff | 0x0fff_ffff | u32::MAX))
        }
    }
}

impl Channels {
    /// Takes a fragment that begins at `offset`. `marks`: whether the sender marks first fragments,
    /// as far as is known.
    pub(crate) fn push(
        &mut self,
        fragment: Fragment,
        data: &Bytes,
        offset: u64,
        (marks, mask): (Option<bool>, Option<u32>),
        budget: &mut Budget,
    ) -> (Option<Whole>, Option<Lost>) {
        let channel = self.channels[index(fragment.priority, fragment.reliability)].get_or_insert_default();
        let Fragment { sn, more, .. } = fragment;
        if fragment.drop && marks != Some(false) {
            return (None, channel.reset(Torn::GivenUp, budget));
        }
        let mut lost = None;
        match &mut **channel {
            Channel::Collecting { bytes, sn: last, .. } if !fragment.first && follows(*last, sn, mask) => {
                *last = sn;
                if !append(bytes, data, budget) {
                    lost = channel.reset(Torn::TooLarge, budget);
                    **channel = if more { Channel::Skipping } else { Channel::Idle };
                    return (None, lost);
                }
                if more {
                    return (None, None);
                }
                let Channel::Collecting { bytes, offset, marked, .. } = core::mem::take(&mut **channel)
                else {
                    return (None, None);
                };
                budget.used -= bytes.capacity();
                return (Some(Whole { bytes: bytes.into(), offset, marked }), None);
            }
            Channel::Collecting { .. } => {
                lost = channel.reset(Torn::Missing, budget);
                if marks != Some(true) {
                    **channel = Channel::Skipping;
                }
            }
            Channel::Idle | Channel::Skipping => {}
        }
        let marked = fragment.first;
        // Without marks only the bytes tell whether this is the start of a message.
        let starts = marked
            || (marks != Some(true) && matches!(**channel, Channel::Idle) && looks_like_a_start(data, more));
        if !starts {
            if lost.is_none() && matches!(**channel, Channel::Idle) {
                lost = Some(Lost { offset, cause: Cause::Stray { sn } });
            }
            **channel = if more { Channel::Skipping } else { Channel::Idle };
            return (None, lost);
        }
        if !more {
            **channel = Channel::Idle;
            return (Some(Whole { bytes: data.clone(), offset, marked }), lost);
        }
        let mut bytes = Vec::new();
        let fits = append(&mut bytes, data, budget);
        **channel = Channel::Collecting { bytes, sn, offset, marked };
        if !fits {
            lost = channel.reset(Torn::TooLarge, budget);
            **channel = Channel::Skipping;
        }
        (None, lost)
    }

    /// A FRAME came on the channel.
    #[inline]
    pub(crate) fn interrupt(
        &mut self,
        priority: Priority,
        reliability: Reliability,
        budget: &mut Budget,
    ) -> Option<Lost> {
        let channel = self.channels[index(priority, reliability)].as_mut()?;
        channel.reset(Torn::Interrupted, budget)
    }

    /// The session is over: what is half collected on each channel is lost.
    pub(crate) fn finish(&mut self, budget: &mut Budget) -> Vec<Lost> {
        let channels = core::mem::take(&mut self.channels);
        channels.into_iter().flatten().filter_map(|mut channel| channel.reset(Torn::End, budget)).collect()
    }
}

impl Channel {
    fn reset(&mut self, why: Torn, budget: &mut Budget) -> Option<Lost> {
        let Self::Collecting { bytes, sn, offset, .. } = core::mem::take(self) else { return None };
        budget.used -= bytes.capacity();
        Some(Lost { offset, cause: Cause::Torn { sn, bytes: bytes.len() as u64, why } })
    }
}

fn append(bytes: &mut Vec<u8>, data: &Bytes, budget: &mut Budget) -> bool {
    let len = bytes.len() + data.len();
    if len > budget.max_message {
        return false;
    }
    if len > bytes.capacity() {
        let free = budget.max_bytes - (budget.used - bytes.capacity());
        let wanted = (2 * len).min(budget.max_message).min(free);
        if wanted < len {
            return false;
        }
        budget.used -= bytes.capacity();
        bytes.reserve_exact(wanted - bytes.len());
        budget.used += bytes.capacity();
    }
    bytes.extend_from_slice(data);
    true
}

/// Whether a network message begins with these bytes, and goes on behind them if there is more.
fn looks_like_a_start(data: &Bytes, more: bool) -> bool {
    if !data.first().is_some_and(|header| is_network(*header)) {
        return false;
    }
    let mut reader = Reader::new(data).with_shared_memory();
    match NetworkMessage::decode(&mut reader) {
        Ok(_) => !more && reader.is_empty(),
        Err(error) => more && matches!(error.kind, DecodeErrorKind::Truncated { .. }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zwire_proto::zenoh::wire::{Push, PushBody, Put, WireExpr};

    const MASK: Option<u32> = Some(0x7f);

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
            let (mut channels, mut budget) = (Channels::default(), Budget::default());
            let first = marks == Some(true);
            let mut push = |sn, first, more, range: core::ops::Range<usize>| {
                let data = message.slice(range);
                channels.push(fragment(sn, first, more), &data, sn.into(), (marks, MASK), &mut budget)
            };
            assert_eq!(push(126, first, true, 0..400), (None, None), "{marks:?}");
            assert_eq!(push(127, false, true, 400..800), (None, None));
            let whole = Whole { bytes: message.clone(), offset: 126, marked: first };
            assert_eq!(push(0, false, false, 800..message.len()), (Some(whole), None));
            assert_eq!(budget.used, 0);
        }
    }

    #[test]
    fn what_cannot_be_completed_is_told_once() {
        let message = message(1000);
        for marks in [Some(true), Some(false), None] {
            let (mut channels, mut budget) = (Channels::default(), Budget::default());
            let mut push = |sn, first, more, range: core::ops::Range<usize>| {
                let data = message.slice(range);
                channels.push(fragment(sn, first, more), &data, sn.into(), (marks, MASK), &mut budget)
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
            assert_eq!(budget.used, 0);
        }
    }

    #[test]
    fn frames_marks_and_ends_tear_a_message() {
        let message = message(1000);
        let (mut channels, mut budget) = (Channels::default(), Budget::default());
        let known = (Some(true), MASK);
        let (priority, reliability) = (Priority::Data, Reliability::Reliable);
        let why = |lost: Option<Lost>| match lost.map(|lost| lost.cause) {
            Some(Cause::Torn { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        channels.push(fragment(1, true, true), &message, 0, known, &mut budget);
        assert_eq!(channels.interrupt(priority, Reliability::BestEffort, &mut budget), None);
        assert_eq!(why(channels.interrupt(priority, reliability, &mut budget)), Torn::Interrupted);
        channels.push(fragment(2, true, true), &message, 0, known, &mut budget);
        let mark = Fragment { drop: true, ..fragment(3, false, false) };
        assert_eq!(why(channels.push(mark, &Bytes::new(), 0, known, &mut budget).1), Torn::GivenUp);
        channels.push(fragment(4, true, true), &message, 0, known, &mut budget);
        assert_eq!(why(channels.finish(&mut budget).pop()), Torn::End);
        assert_eq!(budget.used, 0);
    }

    #[test]
    fn memory_is_bounded() {
        let message = message(1000);
        let mut channels = Channels::default();
        let mut budget = Budget { used: 0, max_message: 2500, max_bytes: 2600 };
        let known = (Some(true), MASK);
        for sn in 0..2 {
            assert_eq!(channels.push(fragment(sn, sn == 0, true), &message, 0, known, &mut budget).1, None);
        }
        let other = Fragment { priority: Priority::RealTime, ..fragment(0, true, true) };
        let lost = channels.push(other, &message, 0, known, &mut budget).1.unwrap();
        assert_eq!(lost.cause, Cause::Torn { sn: 0, bytes: 0, why: Torn::TooLarge });
        let lost = channels.push(fragment(2, false, true), &message, 0, known, &mut budget).1.unwrap();
        assert!(matches!(lost.cause, Cause::Torn { sn: 2, why: Torn::TooLarge, .. }));
        assert_eq!(channels.push(fragment(3, false, true), &message, 0, known, &mut budget), (None, None));
        assert_eq!(budget.used, 0);
    }
}
