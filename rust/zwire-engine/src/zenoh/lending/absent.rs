//! Lending on systems without sealed memory: it is never offered.

use super::{Lend, LendingState, Unread};
use crate::{
    config::SharedMessage,
    lending::{Lending, Ticket},
    net::io::Io,
    zenoh::{link::Link, shared::SessionShared},
};
use bytes::Bytes;
use core::convert::Infallible;
use std::sync::Arc;
use zwire_proto::{
    lending::LendingOffer,
    zenoh::{
        Payload, Priority,
        link::named::NamedOffer,
        wire::{NetworkMessage, PushBody},
    },
};

/// Never made.
pub(crate) struct LinkLending(Infallible);

impl Lending {
    pub(crate) fn offer(&self, _: &Io) -> Option<LendingOffer> {
        None
    }

    pub(crate) fn offer_named(&self, _: &Io) -> Option<NamedOffer> {
        None
    }

    pub(crate) fn expect(&self, _: &Arc<SessionShared>, _: &Io) -> Option<Ticket> {
        None
    }

    pub(crate) fn place_body(&self, _: SharedMessage, _: &mut PushBody) {}

    pub(crate) fn place(&self, _: SharedMessage, _: &mut Payload) {}

    pub(crate) fn copy(&self, _: SharedMessage, bytes: &[u8]) -> Bytes {
        Bytes::copy_from_slice(bytes)
    }
}

impl LinkLending {
    pub(super) fn state(&self) -> LendingState {
        match self.0 {}
    }

    pub(super) fn borrow(&self, _: &Payload, _: Priority) -> Result<Payload, Unread> {
        match self.0 {}
    }

    pub(crate) fn is_found(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn lend(&self, _: &NetworkMessage) -> Lend {
        match self.0 {}
    }

    pub(crate) fn take_back(&self, _: &NetworkMessage) {
        match self.0 {}
    }
}

pub(crate) fn start(_: &Arc<SessionShared>, _: &Arc<Link>, _: Option<Ticket>) {}
