//! Stamps of a session: noted where a message leaves or arrives.

use super::{
    Session,
    stamps::{Stamper, Stamps},
};
use crate::{
    Now,
    zenoh::wire::{TsRecord, TsStack},
};

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
            stack.stamp(point, || match &self.stamper {
                None => TsRecord::new(point, &self.hlc.new_timestamp(now)),
                Some(_) => TsRecord { flags: point | TsRecord::USER, bytes: Default::default() },
            });
        }
        let made = stack.records.len() - before;
        let pending = self.stamper.clone().map(|stamper| (stamper, made));
        Box::new(Stamps { stack, route: None, pending })
    }
}
