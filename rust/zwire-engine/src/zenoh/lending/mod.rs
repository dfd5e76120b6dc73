//! Lending of payloads in shared memory to neighbours on the same host: what Zenoh adds to [`crate::lending`].
//!
//! [`LinkLending`] belongs to a link: the loans of both sides. Neighbours of Eclipse Zenoh have neither doors nor channels,
//! but files with names (`link::named`).

use crate::{lending::LendingFailure, zenoh::link::Link};
use core::sync::atomic::Ordering;
use zwire_proto::zenoh::{
    Reliability,
    wire::{CloseReason, NetworkMessage},
};

#[cfg(not(target_os = "linux"))]
mod absent;
#[cfg(target_os = "linux")]
mod held;
#[cfg(target_os = "linux")]
mod link;
#[cfg(target_os = "linux")]
mod named;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
mod reader;

#[cfg(not(target_os = "linux"))]
pub(crate) use absent::{LinkLending, start};
#[cfg(target_os = "linux")]
pub(crate) use link::{LinkLending, start};

/// Outcome of lending a message.
#[allow(clippy::large_enum_variant, reason = "it is taken apart where it is made")]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "never made there"))]
pub(crate) enum Lend {
    /// It has no payload, or a small one.
    Small,
    /// With its payload on loan; `urgent`, if the borrower has to hear of it before more can be lent.
    Lent { message: NetworkMessage, urgent: bool },
    /// Its payload crosses the link: the borrower has much on loan, or does not know the segment yet.
    Unlent,
}

/// Reason for which a payload in shared memory cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "never made there"))]
pub(crate) enum Unread {
    /// It is not on loan any more. The next one may be.
    Stale,
    /// The memory of the other side has an unknown form, or cannot be mapped: the next one will not be read either.
    Unusable,
}

/// State of lending on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LendingState {
    /// One side does not offer it, or they are not on the same host.
    Off,
    /// Both sides offer it, and the channel is being opened.
    Opening,
    /// Payloads are lent to a node of zwire.
    On,
    /// Payloads are lent to a node of Eclipse Zenoh.
    Eclipse,
    /// The channel could not be opened, or has ended.
    Failed(LendingFailure),
}

impl LendingState {
    /// Short name of the state, for programs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Opening => "opening",
            Self::On => "on",
            Self::Eclipse => "eclipse",
            Self::Failed(failure) => failure.word(),
        }
    }
}

impl Link {
    /// State of lending on this link.
    #[must_use]
    pub fn lending_state(&self) -> LendingState {
        match self.lending.get() {
            None if self.params.is_lending() => LendingState::Opening,
            None => LendingState::Off,
            Some(Ok(lending)) => lending.state(),
            Some(Err(failure)) => LendingState::Failed(*failure),
        }
    }

    /// Replaces descriptions of loans by the bytes, or by memory of a neighbour of Eclipse Zenoh that the session borrows.
    /// Messages with a payload that cannot be read are removed and counted.
    #[inline]
    pub(crate) fn borrow(&self, messages: &mut Vec<(NetworkMessage, Reliability)>) {
        if self.params.is_lending() && messages.iter().any(|(message, _)| message.is_in_shared_memory()) {
            self.borrow_some(messages);
        }
    }

    #[inline(never)]
    fn borrow_some(&self, messages: &mut Vec<(NetworkMessage, Reliability)>) {
        let lending = self.lending();
        let (mut borrowed, mut unusable) = (0, false);
        let before = messages.len();
        messages.retain_mut(|(message, _)| {
            if !message.is_in_shared_memory() {
                return true;
            }
            let Some((lending, payload)) = lending.zip(message.shareable()) else { return false };
            match lending.borrow(payload, message.qos().priority()) {
                Ok(payload) => {
                    message.replace_shareable(payload, false);
                    borrowed += 1;
                    true
                }
                Err(unread) => {
                    unusable |= unread == Unread::Unusable;
                    false
                }
            }
        });
        let failed = (before - messages.len()) as u64;
        self.stats.rx_borrowed.fetch_add(borrowed, Ordering::Relaxed);
        if failed > 0 && self.stats.rx_shm_failed.fetch_add(failed, Ordering::Relaxed) == 0 {
            tracing::warn!(
                peer = self.peer, zid = %self.params.remote.zid,
                "a payload in shared memory cannot be read: the message is dropped"
            );
        }
        if unusable {
            // Nothing takes the agreement back but a new link.
            tracing::warn!(
                peer = self.peer, zid = %self.params.remote.zid,
                "shared memory of a peer cannot be used: closing the link; the next one goes without"
            );
            self.finish(CloseReason::GENERIC);
            self.close();
        }
    }
}
