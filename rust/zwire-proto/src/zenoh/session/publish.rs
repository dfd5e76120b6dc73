//! Publications, sent and received (`zenoh-behaviour` 3.2, 3.4, 4.5). This is the hot path: for a
//! repeated key, nothing is looked up and nothing allocated.

use super::{
    Session, SessionResult,
    error::SessionError,
    routes::{InRoute, OutRoute},
    sample::Sample,
    stamps::Stamps,
    types::{EntityId, Event, Locality, Publication, Published, stamp},
};
use crate::{
    Now, Text,
    zenoh::{
        KeyExpr, Qos, Reliability,
        entity::EntityKind,
        wire::{NetworkMessage, Push, PushBody, WireExpr},
    },
};

/// Receiver of publications and samples that would otherwise wait in the queues of outputs. For drivers
/// that have drained [`Session::poll_transmit`] and [`Session::poll_event`].
pub trait DataSink {
    /// A PUSH for the north. Its contents may be taken.
    fn push(&mut self, message: &mut NetworkMessage, reliability: Reliability);
    /// A sample for a subscriber.
    fn sample(&mut self, subscriber: EntityId, sample: Sample);
}

/// A message without a key, which is filled in later.
#[inline]
const fn carrier(qos: Qos, body: PushBody) -> NetworkMessage {
    NetworkMessage::Push(Push {
        key: WireExpr::EMPTY,
        qos,
        timestamp: None,
        node_id: 0,
        ts_stack: None,
        body,
    })
}

#[cfg(test)]
struct Queues {
    transmits: std::collections::VecDeque<(NetworkMessage, Reliability)>,
    events: std::collections::VecDeque<Event>,
}

#[cfg(test)]
impl DataSink for Queues {
    fn push(&mut self, message: &mut NetworkMessage, reliability: Reliability) {
        self.transmits.push_back((message.clone(), reliability));
    }

    fn sample(&mut self, subscriber: EntityId, sample: Sample) {
        self.events.push_back(Event::Sample { subscriber, sample });
    }
}

impl Session {
    /// Lets `work` write into the queues of outputs.
    #[cfg(test)]
    fn with_queues<R>(&mut self, work: impl FnOnce(&mut Self, &mut Queues) -> R) -> R {
        let mut queues = Queues {
            transmits: core::mem::take(&mut self.transmits),
            events: core::mem::take(&mut self.events),
        };
        let result = work(self, &mut queues);
        (self.transmits, self.events) = (queues.transmits, queues.events);
        result
    }

    /// Like [`Self::put_to`], into the queues of outputs.
    #[cfg(test)]
    pub(crate) fn put(&mut self, now: Now, publication: Publication) -> SessionResult<Published> {
        self.with_queues(|session, queues| session.put_to(now, publication, queues))
    }

    /// Publishes or deletes, with outputs passed directly to `sink`. Never blocks: without a link only the
    /// own session gets it.
    ///
    /// # Errors
    /// The session is closed, or the key does not fit into the namespace.
    #[inline]
    pub fn put_to(
        &mut self,
        now: Now,
        publication: Publication,
        sink: &mut impl DataSink,
    ) -> SessionResult<Published> {
        self.check_open()?;
        let Publication { key, body, qos, reliability, destination, stamps } = publication;
        let how = (reliability, destination, stamps);
        self.push_out(now, &key, &mut carrier(qos, body), how, sink)
    }

    /// Like [`Self::put_to`], with a message of the caller, which can be reused for many publications.
    /// It must be a PUSH; its key is filled in here, and its body may be taken.
    #[inline]
    pub fn put_message_to(
        &mut self,
        now: Now,
        key: &KeyExpr,
        message: &mut NetworkMessage,
        reliability: Reliability,
        destination: Locality,
        sink: &mut impl DataSink,
    ) -> SessionResult<Published> {
        self.check_open()?;
        self.push_out(now, key, message, (reliability, destination, None), sink)
    }

    /// Like [`Self::publish_to`], into the queues of outputs.
    #[cfg(test)]
    pub(crate) fn publish(
        &mut self,
        now: Now,
        publisher: EntityId,
        body: PushBody,
    ) -> SessionResult<Published> {
        self.with_queues(|session, queues| session.publish_to(now, publisher, body, None, queues))
    }

    /// Publishes or deletes with the key and the options of a publisher, with stamps if the caller wants
    /// them, and outputs passed directly to `sink`.
    ///
    /// # Errors
    /// The session is closed, or there is no such publisher.
    #[inline]
    pub fn publish_to(
        &mut self,
        now: Now,
        publisher: EntityId,
        body: PushBody,
        stamps: Option<Box<Stamps>>,
        sink: &mut impl DataSink,
    ) -> SessionResult<Published> {
        self.check_open()?;
        let known = self.entities.outlets.get(&publisher);
        let Some(known) = known.filter(|known| known.counterpart == EntityKind::Subscriber) else {
            return Err(SessionError::UnknownEntity { id: publisher, expected: "publisher" });
        };
        let key = known.key.inner.clone();
        let (qos, how) = (known.qos, (known.reliability, known.destination, stamps));
        self.push_out(now, &key, &mut carrier(qos, body), how, sink)
    }

    #[inline]
    fn push_out(
        &mut self,
        now: Now,
        key: &KeyExpr,
        message: &mut NetworkMessage,
        (reliability, destination, stamps): (Reliability, Locality, Option<Box<Stamps>>),
        sink: &mut impl DataSink,
    ) -> SessionResult<Published> {
        let NetworkMessage::Push(push) = &mut *message else { return Ok(Published::default()) };
        let qos = push.qos;
        if self.config.timestamping {
            stamp(&mut push.body, || self.hlc.new_timestamp(now));
        }
        let place = match self.out_routes.find(key) {
            Some(place) => place,
            None => self.find_out_route(key)?,
        };
        let near = self.stay(now, stamps.as_deref());
        let Some(route) = self.out_routes.at(place) else { return Ok(Published::default()) };
        let sent = destination.remote() && route.leaves && self.north.is_some();
        let local = if destination.local() { &*route.subscribers } else { &[] };
        let published = Published { local: local.len(), sent };
        if destination.remote() && !sent {
            match self.north {
                Some(_) => self.stats.dropped.put_no_subscriber += 1,
                None => self.stats.dropped.put_no_link += 1,
            }
        } else if !sent && local.is_empty() {
            self.stats.dropped.put_no_local_subscriber += 1;
        }
        self.stats.samples_delivered += local.len() as u64;
        let (last, others) = match local.split_last() {
            Some((last, others)) => (Some(last), others),
            None => (None, local),
        };
        for &subscriber in others {
            let sample = Sample::new(key.clone(), push.body.clone(), qos, reliability);
            sink.sample(subscriber, sample.stamped(near.clone()));
        }
        if !sent {
            if let Some(&subscriber) = last {
                let sample = Sample::taking(key.clone(), &mut push.body, qos, reliability, near);
                sink.sample(subscriber, sample);
            }
            return Ok(published);
        }
        if let Some(&subscriber) = last {
            let sample = Sample::new(key.clone(), push.body.clone(), qos, reliability);
            sink.sample(subscriber, sample.stamped(near));
        }
        if let Some(stamps) = stamps {
            push.ts_stack = Some(stamps.leaving());
        }
        self.stats.pushes_sent += 1;
        // A reused message mostly has the key already.
        if push.key != route.wire {
            push.key = route.wire.clone();
        }
        sink.push(message, reliability);
        Ok(published)
    }

    #[cold]
    fn find_out_route(&mut self, key: &KeyExpr) -> SessionResult<usize> {
        let outer = self.outward(key.clone())?.outer;
        let matching =
            self.entities.subscribers.iter().filter(|(_, s)| s.origin.local() && s.key.inner.intersects(key));
        let subscribers = matching.map(|(&id, _)| id).collect();
        let leaves = self.may_leave(EntityKind::Subscriber, &outer, false);
        let outer = outer.unshared();
        let route = OutRoute { wire: self.known_wire(&outer), leaves, subscribers };
        let bytes = key.len() + outer.len() + size_of_val(&*route.subscribers);
        Ok(self.out_routes.insert(key.unshared(), route, bytes))
    }

    /// The short form of a declared key; any other one in full.
    pub(super) fn known_wire(&self, key: &KeyExpr) -> WireExpr {
        let declared = self.interests.on(EntityKind::Subscriber, key).is_some()
            || self.interests.on(EntityKind::Queryable, key).is_some();
        match &self.north {
            Some(north) if declared || north.keys.own.number(key).is_some() => north.keys.shortest(key),
            _ => WireExpr::full(key.text().clone()),
        }
    }

    pub(super) fn handle_push(&mut self, now: Now, mut push: Push, reliability: Reliability) {
        let mut events = core::mem::take(&mut self.events);
        self.handle_push_to(now, &mut push, reliability, |subscriber, sample| {
            events.push_back(Event::Sample { subscriber, sample });
        });
        self.events = events;
    }

    /// Handles a PUSH of the north like [`Self::handle_message`], with samples passed directly to
    /// `give`. The contents of the message are taken.
    #[inline]
    pub fn handle_push_to(
        &mut self,
        now: Now,
        push: &mut Push,
        reliability: Reliability,
        mut give: impl FnMut(EntityId, Sample),
    ) {
        if self.north.is_none() {
            return;
        }
        self.stats.pushes_received += 1;
        let place = match self.in_routes.find(&push.key) {
            Some(place) => place,
            None => match self.find_in_route(&push.key) {
                Some(place) => place,
                None => {
                    self.stats.dropped.in_bad_key += 1;
                    return;
                }
            },
        };
        if self.config.timestamping
            && let Some(timestamp) = push.body.timestamp()
        {
            // A timestamp too far ahead is ignored here; correcting it is the task of a router.
            let _ = self.hlc.update(timestamp, now);
        }
        let stamps = self.arrive(now, push.ts_stack.take());
        let Some(route) = self.in_routes.at(place) else { return };
        let Some((&last, others)) = route.subscribers.split_last() else {
            self.stats.dropped.push_no_subscriber += 1;
            return;
        };
        self.stats.samples_delivered += route.subscribers.len() as u64;
        for &subscriber in others {
            let sample = Sample::new(route.key.clone(), push.body.clone(), push.qos, reliability);
            give(subscriber, sample.stamped(stamps.clone()));
        }
        give(last, Sample::taking(route.key.clone(), &mut push.body, push.qos, reliability, stamps));
    }

    #[cold]
    fn find_in_route(&mut self, wire: &WireExpr) -> Option<usize> {
        let key = self.north.as_ref()?.keys.resolve(wire)?;
        let key = self.inward(&key)?.unshared();
        let matching = self
            .entities
            .subscribers
            .iter()
            .filter(|(_, s)| s.origin.remote() && s.key.inner.intersects(&key));
        let subscribers = matching.map(|(&id, _)| id).collect();
        let route = InRoute { key, subscribers };
        let bytes = route.key.len() + wire.suffix.len() + size_of_val(&*route.subscribers);
        let wire = WireExpr { suffix: Text::from(wire.suffix.as_str()), ..*wire };
        Some(self.in_routes.insert(wire, route, bytes))
    }

    pub(super) fn forget_routes(&mut self) {
        self.in_routes.forget();
        self.out_routes.forget();
    }
}
