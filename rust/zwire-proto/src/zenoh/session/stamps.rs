//! [`Stamps`]: times at the nodes on a message's way (instrumentation, TsStack in `zenoh-wire` 4.2).
//!
//! The sender requests them. It adds the time of sending; each node that forwards the message, and each
//! session that receives it, add theirs. A reply continues the stamps of its query.

use core::any::Any;
use std::sync::Arc;

use crate::zenoh::wire::{TsRecord, TsStack};

/// Source of the stamps of a session in place of its clock. The session never calls it: it may be slow,
/// or need locks of its own.
pub type Stamper = Arc<dyn Any + Send + Sync>;

/// The stamps of a message, in a session.
#[derive(Clone, Debug)]
pub struct Stamps {
    /// Requested stamps, and those collected.
    pub stack: TsStack,
    /// For a message to be sent: the stamp to add when it leaves the session.
    pub route: Option<TsRecord>,
    /// For a received message: the source of the last stamps, which have no bytes yet, and their
    /// number.
    pub pending: Option<(Stamper, usize)>,
}

impl PartialEq for Stamps {
    fn eq(&self, other: &Self) -> bool {
        self.stack == other.stack
    }
}

impl Eq for Stamps {}

impl Stamps {
    /// The stack of the message when it leaves the session.
    pub(super) fn leaving(self) -> Box<TsStack> {
        let Self { mut stack, route, .. } = self;
        if let Some(route) = route {
            stack.stamp(TsStack::ROUTE, || route);
        }
        Box::new(stack)
    }
}
