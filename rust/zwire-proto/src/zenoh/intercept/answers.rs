//! [`Answers`]: what an authority has said about the messages of one link.

use super::{Flow, MessageKind};
use crate::{Now, zenoh::KeyExpr};
use core::time::Duration;
use std::collections::{HashMap, VecDeque};

/// Most answers that are kept of one link; the oldest goes first. A program uses some hundreds of keys.
pub(super) const MAX_ANSWERS: usize = 4096;

/// Longest key with a kept answer, so that those of a link take no more than 1 MiB.
const MAX_ANSWER_LEN: usize = 256;

/// Message that no rule decides about, so that an authority has to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inquiry {
    /// Direction of the message.
    pub flow: Flow,
    /// Its kind.
    pub kind: MessageKind,
    /// Its key; `None`: an interest in the tokens of all keys.
    pub key: Option<KeyExpr>,
}

/// Answer of an authority to an [`Inquiry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the message passes.
    pub allowed: bool,
    /// How long the answer counts for further messages of the kind and the key.
    pub ttl: Duration,
}

/// Answers of an authority, each until it expires.
#[derive(Debug, Default)]
pub(super) struct Answers {
    known: HashMap<Inquiry, (bool, Duration)>,
    /// The same in the order in which they came first.
    order: VecDeque<Inquiry>,
    /// How many messages they have decided about.
    pub(super) used: u64,
}

impl Answers {
    pub(super) fn get(&mut self, now: Now, inquiry: &Inquiry) -> Option<bool> {
        let (allowed, until) = *self.known.get(inquiry)?;
        if now.mono >= until {
            return None;
        }
        self.used += 1;
        Some(allowed)
    }

    pub(super) fn keep(&mut self, now: Now, inquiry: Inquiry, answer: Answer) {
        if inquiry.key.as_ref().is_some_and(|key| key.len() > MAX_ANSWER_LEN) {
            return;
        }
        let entry = (answer.allowed, now.mono.saturating_add(answer.ttl));
        if let Some(known) = self.known.get_mut(&inquiry) {
            *known = entry;
            return;
        }
        if self.order.len() >= MAX_ANSWERS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        // A stored key of a peer must not keep a receive buffer alive.
        let inquiry = Inquiry { key: inquiry.key.map(|key| key.unshared()), ..inquiry };
        self.order.push_back(inquiry.clone());
        self.known.insert(inquiry, entry);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        debug_assert_eq!(self.known.len(), self.order.len());
        self.known.len()
    }
}
