//! [`Stamps`]: when a message passed where (instrumentation, TsStack in `zenoh-wire` 4.2).
//!
//! The sender asks for it. It notes when it sends; each node that passes the message on, and each session
//! that takes it, add when they did. An answer goes on with the stamps of its query.

use core::any::Any;
use std::sync::Arc;

use crate::zenoh::wire::{TsRecord, TsStack};

/// Who makes the stamps of a session instead of its clock. The session never calls it: it may be slow, or
/// want locks of its own.
pub type Stamper = Arc<dyn Any + Send + Sync>;

/// The stamps of a message, in a session.
#[derive(Clone, Debug)]
pub struct Stamps {
    /// What is wanted, and what was collected.
    pub stack: TsStack,
    /// Of a message that is sent: the stamp that it gets where it leaves the session.
    pub route: Option<TsRecord>,
    /// Of a message that was received: who has to make the last stamps, which have no bytes yet, and how many.
    pub pending: Option<(Stamper, usize)>,
}

impl PartialEq for Stamps {
    fn eq(&self, other: &Self) -> bool {
        self.stack == other.stack
    }
}

impl Eq for Stamps {}

impl Stamps {
    /// The stack as it leaves the session.
    pub(super) fn leaving(self) -> Box<TsStack> {
        let Self { mut stack, route, .. } = self;
        if let Some(route) = route {
            stack.stamp(TsStack::ROUTE, || route);
        }
        Box::new(stack)
    }
}
