//! [`LinkLending`]: what a link has on loan, with either kind of neighbour.

use super::{
    Lend, LendingState, Unread,
    named::{self, NamedLending},
};
use crate::{
    lending::{self, ChannelLending, OPENING, Ticket},
    zenoh::{link::Link, shared::SessionShared},
};
use bytes::Bytes;
use std::sync::Arc;
use zwire_proto::zenoh::{
    Payload, PayloadParts, Priority,
    wire::{NetworkMessage, PayloadSlice},
};

/// Loans of both sides of a link.
#[derive(Clone)]
pub(crate) enum LinkLending {
    /// With a node of zwire.
    Channel(Arc<ChannelLending>),
    /// With a node of Eclipse Zenoh.
    Named(Arc<NamedLending>),
}

impl LinkLending {
    pub(super) fn state(&self) -> LendingState {
        let (failure, on) = match self {
            Self::Channel(lending) => (lending.failure(), LendingState::On),
            Self::Named(lending) => (lending.failure(), LendingState::Eclipse),
        };
        failure.map_or(on, LendingState::Failed)
    }

    /// Puts the payload of a message on loan, if it can be lent. One that is not sent is
    /// [taken back](Self::take_back).
    #[inline]
    pub(crate) fn lend(&self, message: &NetworkMessage) -> Lend {
        match self {
            Self::Channel(lending) => lend(lending, message),
            Self::Named(lending) => lending.lend(message),
        }
    }

    /// Ends the loans of a message that was not sent.
    pub(crate) fn take_back(&self, message: &NetworkMessage) {
        match self {
            Self::Channel(lending) => take_back(lending, message),
            Self::Named(lending) => lending.take_back(message),
        }
    }

    /// The payload that a description in sliced form stands for, of a message with that priority.
    pub(super) fn borrow(&self, sliced: &Payload, priority: Priority) -> Result<Payload, Unread> {
        match self {
            Self::Channel(lending) => borrow(lending, sliced).ok_or(Unread::Stale),
            Self::Named(lending) => lending.borrow(sliced, priority),
        }
    }

    /// Whether the other side finds what was lent also after this process has ended.
    pub(crate) fn is_found(&self) -> bool {
        match self {
            Self::Channel(_) => true,
            Self::Named(lending) => lending.is_found(),
        }
    }
}

/// Puts the payload of a message on loan to a node of zwire.
#[inline]
fn lend(lending: &ChannelLending, message: &NetworkMessage) -> Lend {
    match message.shareable() {
        Some(payload) if payload.len() >= lending.threshold() => lend_large(lending, message, payload),
        _ => Lend::Small,
    }
}

#[inline(never)]
fn lend_large(lending: &ChannelLending, message: &NetworkMessage, payload: &Payload) -> Lend {
    let parts = payload.parts();
    if message.is_in_shared_memory() || parts.len() > PayloadSlice::MOST {
        return Lend::Unlent;
    }
    let mut slices = Vec::with_capacity(parts.len());
    let lent = lending.lend(parts, payload.len(), |part, loan| {
        slices.push(loan.map_or_else(|| PayloadSlice::Raw(part.clone()), PayloadSlice::Loan));
    });
    let Some(urgent) = lent else { return Lend::Unlent };
    let mut message = message.clone();
    message.replace_shareable(PayloadSlice::encode_all(&slices), true);
    Lend::Lent { message, urgent }
}

/// Ends the loans of a message that was not sent.
#[cold]
fn take_back(lending: &ChannelLending, message: &NetworkMessage) {
    let slices = message.shareable().map(|payload| PayloadSlice::decode_all(payload));
    lending.take_back(slices.into_iter().flatten().flatten().filter_map(|slice| match slice {
        PayloadSlice::Loan(description) => Some(description),
        PayloadSlice::Raw(_) | PayloadSlice::Foreign(_) => None,
    }));
}

/// The bytes that a payload in sliced form describes; `None` if a part of it is no loan of this link.
fn borrow(lending: &ChannelLending, sliced: &Payload) -> Option<Payload> {
    let slices = match PayloadSlice::decode_all(sliced) {
        Ok(slices) => slices,
        Err(error) => {
            tracing::debug!(%error, "a payload in shared memory does not decode");
            return None;
        }
    };
    // All are looked at: loans of a payload that is dropped are returned.
    let mut parts = Vec::with_capacity(slices.len());
    for slice in slices {
        parts.push(match slice {
            PayloadSlice::Raw(bytes) => Some(bytes),
            PayloadSlice::Loan(description) => lending.resolve(&description),
            PayloadSlice::Foreign(_) => None,
        });
    }
    let mut whole: Vec<Bytes> = parts.into_iter().collect::<Option<_>>()?;
    if whole.len() == 1 {
        return whole.pop().map(Payload::from);
    }
    let mut parts = PayloadParts::default();
    whole.into_iter().for_each(|part| parts.push(part));
    Some(parts.finish())
}

/// Starts lending on a link if both of its sides have agreed on it. An acceptor passes its `ticket`.
pub(crate) fn start(shared: &Arc<SessionShared>, link: &Arc<Link>, ticket: Option<Ticket>) {
    if let Some(terms) = link.params.lending {
        let target = link.clone();
        let set = move |opened: Result<_, _>| target.set_lending(opened.map(LinkLending::Channel));
        // Not a task of the session, which may close before its neighbours have dropped what is on loan.
        let (peer, closing) = (link.peer.clone(), link.clone());
        let closed = async move { closing.closed().await };
        shared.runtime.spawn(lending::run(shared.lending.clone(), peer, closed, terms, ticket, OPENING, set));
    } else if let Some(terms) = link.params.named
        && let Some(own) = named::start(shared, link, terms)
    {
        link.set_lending(Ok(LinkLending::Named(own.clone())));
        shared.runtime.spawn(named::run(own, link.clone()));
    }
}
