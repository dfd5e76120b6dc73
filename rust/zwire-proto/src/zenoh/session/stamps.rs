//! [`Stamps`]: when a message passed where (instrumentation, TsStack in `zenoh-wire` 4.2).
//!
//! The sender asks for it. It notes when it sends; each node that passes the message on, and each session
//! that takes it, add when they did. An answer goes on with the stamps of its query.

use core::any::Any;
use std::sync::Arc;

use super::Session;
use crate::{
    Now,
    zenoh::wire::{TsRecord, TsStack},
};

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

impl Session {
    /// Sets who makes the stamps of this session.
    pub fn set_stamper(&mut self, stamper: Stamper) {
        self.stamper = Some(stamper);
    }

    /// A message of the own session: it comes straight here.
    #[inline]
    pub(super) fn stay(&mut self, now: Now, stamps: Option<&Stamps>) -> Option<Box<Stamps>> {
        let stack = stamps?.stack.clone();
        Some(self.receive(now, stack, &[TsStack::RECEIVE]))
    }

    /// A message of the north. A node of the own process has noted that it passed it on.
    #[inline]
    pub(super) fn arrive(&mut self, now: Now, stack: Option<Box<TsStack>>) -> Option<Box<Stamps>> {
        Some(self.arrived(now, *stack?))
    }

    #[cold]
    fn arrived(&mut self, now: Now, mut stack: TsStack) -> Box<Stamps> {
        let own_node = self.north.as_ref().is_some_and(|north| north.remote.zid == self.config.zid);
        let last = stack.records.last();
        if own_node && self.stamper.is_some() && last.is_some_and(|last| last.flags == TsStack::ROUTE) {
            // It cannot ask the one who makes our stamps.
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
