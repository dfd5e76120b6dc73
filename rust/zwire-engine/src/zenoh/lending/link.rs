//! [`LinkLending`]: what a link has on loan, with either kind of neighbour.

use super::{
    Lend, LendingState, Unread,
    channel::{self, ChannelLending},
    door::Ticket,
    named::{self, NamedLending},
};
use crate::zenoh::{link::Link, shared::SessionShared};
use std::sync::Arc;
use zwire_proto::zenoh::{Payload, Priority, wire::NetworkMessage};

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
            Self::Channel(lending) => lending.lend(message),
            Self::Named(lending) => lending.lend(message),
        }
    }

    /// Ends the loans of a message that was not sent.
    pub(crate) fn take_back(&self, message: &NetworkMessage) {
        match self {
            Self::Channel(lending) => lending.take_back(message),
            Self::Named(lending) => lending.take_back(message),
        }
    }

    /// The payload that a description in sliced form stands for, of a message with that priority.
    pub(super) fn borrow(&self, sliced: &Payload, priority: Priority) -> Result<Payload, Unread> {
        match self {
            Self::Channel(lending) => lending.borrow(sliced).ok_or(Unread::Stale),
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

/// Starts lending on a link if both of its sides have agreed on it. An acceptor passes its `ticket`.
pub(crate) fn start(shared: &Arc<SessionShared>, link: &Arc<Link>, ticket: Option<Ticket>) {
    if let Some(terms) = link.params.lending {
        let target = link.clone();
        let set = move |opened: Result<_, _>| target.set_lending(opened.map(LinkLending::Channel));
        // Not a task of the session, which may close before its neighbours have dropped what is on loan.
        shared.runtime.spawn(channel::run(shared.lending.clone(), link.clone(), terms, ticket, set));
    } else if let Some(terms) = link.params.named
        && let Some(own) = named::start(shared, link, terms)
    {
        link.set_lending(Ok(LinkLending::Named(own.clone())));
        shared.runtime.spawn(named::run(own, link.clone()));
    }
}
