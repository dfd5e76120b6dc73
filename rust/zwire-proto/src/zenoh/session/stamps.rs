//! [`Stamps`]: times at the nodes on a message's way (instrumentation, TsStack in `zenoh-wire` 4.2).
//!
//! The sender requests them. It adds the time of sending; each node that forwards the message, and each
//! session that receives it, add theirs. A reply continues the stamps of its query.

use core::any::Any;
use std::sync::Arc;

use super::Session;
use crate::{
    Now,
    zenoh::wire::{TsRecord, TsStack},
};

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

impl Session {
    /// Sets the source of this session's stamps.
    pub fn set_stamper(&mut self, stamper: Stamper) {
        self.stamper = Some(stamper);
    }

    /// Stamps of a message within the own session.
    #[inline]
    pub(super) fn stay(&mut self, now: Now, stamps: Option<&Stamps>) -> Option<Box<Stamps>> {
        let stack = stamps?.stack.clone();
        Some(self.receive(now, stack, &[TsStack::RECEIVE]))
    }

    /// Stamps of a message of the north. A node in the same process has added its forwarding time.
    #[inline]
    pub(super) fn arrive(&mut self, now: Now, stack: Option<Box<TsStack>>) -> Option<Box<Stamps>> {
        Some(self.arrived(now, *stack?))
    }

    #[cold]
    fn arrived(&mut self, now: Now, mut stack: TsStack) -> Box<Stamps> {
        let own_node = self.north.as_ref().is_some_and(|north| north.remote.zid == self.config.zid);
        let last = stack.records.last();
        if own_node && self.stamper.is_some() && last.is_some_and(|last| last.flags == TsStack::ROUTE) {
            // The node cannot call the source of this session's stamps, so its own stamp is replaced.
            stack.records.pop();
        } else if own_node {
            return self.receive(now, stack, &[TsStack::RECEIVE]);
        }
        self.receive(now, stack, &[TsStack::ROUTE, TsStack::RECEIVE])
    }

    #[cold]
    fn receive(&mut self, now: Now, mut stack: TsStack, points: &[u8]) -> Box<Stamps> {
        let before = stack.records.len();
        for &point in points {
            let timestamp = || TsRecord::new(point, &self.hlc.new_timestamp(now));
            match &self.stamper {
                None => stack.stamp(point, timestamp),
                Some(_) => {
                    stack.stamp(point, || TsRecord {
                        flags: point | TsRecord::USER,
                        bytes: Default::default(),
                    });
                }
            }
        }
        let made = stack.records.len() - before;
        let pending = self.stamper.clone().map(|stamper| (stamper, made));
        Box::new(Stamps { stack, route: None, pending })
    }
}
