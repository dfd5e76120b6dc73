//! Routing of outgoing messages, and waiting until they can be queued.

use super::{
    super::{CloseReason, sending::closed},
    Machine, Pipe, Socket, SocketError, SocketShared, SocketState,
};
use crate::error::Error;
use bytes::Bytes;
use core::{sync::atomic::Ordering, time::Duration};
use std::collections::HashMap;
use zwire_proto::zmtp::{
    link::{Message, Rejected, ZmtpPushError},
    socket::{PeerKey, Undealt},
};

/// A message that could not be queued without waiting.
#[derive(Debug)]
pub struct Unsent {
    message: Message,
    error: Box<SocketError>,
}

impl Unsent {
    fn new(message: Message, error: SocketError) -> Self {
        Self { message, error: Box::new(error) }
    }

    /// Whether the message may still be queued, after a wait.
    fn may_wait(&self) -> bool {
        matches!(*self.error, SocketError::Full | SocketError::Nobody)
    }
}

impl Pipe {
    fn try_send_many(
        &self,
        messages: &mut dyn Iterator<Item = Message>,
        immediate: bool,
    ) -> (usize, Option<Rejected>) {
        match (&self.connection, &self.outbound) {
            (None, Some(outbound)) if !immediate => outbound.try_send_many(messages),
            (Some(connection), _) => match connection.try_send_many(messages) {
                // The connection has just ended; the next one gets the message.
                (taken, Some(Rejected { message, error: ZmtpPushError::Closed })) => match &self.outbound {
                    Some(outbound) if !immediate => {
                        let (more, rejected) =
                            outbound.try_send_many(&mut core::iter::once(message).chain(messages));
                        (taken + more, rejected)
                    }
                    _ => (taken, Some(closed(message))),
                },
                result => result,
            },
            _ => (0, messages.next().map(closed)),
        }
    }

    fn try_send(&self, message: Message, immediate: bool) -> Result<(), Rejected> {
        self.try_send_many(&mut core::iter::once(message), immediate).1.map_or(Ok(()), Err)
    }
}

impl Socket {
    /// Sends a message; a ROUTER takes its first frame as the identity. `timeout` limits the wait for
    /// room (`None`: no limit); a PUB, and a ROUTER that is not mandatory, never wait.
    pub fn send(
        &self,
        message: Message,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), SocketError> {
        self.shared.check()?;
        match self.shared.try_send(message) {
            Ok(()) => Ok(()),
            Err(unsent) => self.shared.wait_and_send(unsent, timeout, interrupted),
        }
    }

    /// Sends a message if that needs no waiting; otherwise returns it for [`Self::send_again`].
    pub fn try_send(&self, message: Message) -> Result<Option<Unsent>, SocketError> {
        self.shared.check()?;
        Ok(self.shared.try_send(message).err())
    }

    /// As [`Self::send`], for a message returned by [`Self::try_send`].
    pub fn send_again(
        &self,
        unsent: Unsent,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), SocketError> {
        self.shared.wait_and_send(unsent, timeout, interrupted)
    }

    /// Sends messages one after the other, many under one lock and with one write. `timeout` applies to
    /// each message that has to wait. Returns the number accepted, also with an error.
    pub fn send_many(
        &self,
        messages: &mut dyn Iterator<Item = Message>,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> (usize, Result<(), SocketError>) {
        let mut taken = 0;
        loop {
            if let Err(error) = self.shared.check() {
                return (taken, Err(error));
            }
            let (more, unsent) = self.shared.try_send_many(messages);
            taken += more;
            let Some(unsent) = unsent else { return (taken, Ok(())) };
            if let Err(error) = self.shared.wait_and_send(unsent, timeout, interrupted) {
                return (taken, Err(error));
            }
            taken += 1;
        }
    }
}

impl SocketShared {
    fn try_send(&self, message: Message) -> Result<(), Unsent> {
        self.try_send_many(&mut core::iter::once(message)).1.map_or(Ok(()), Err)
    }

    fn try_send_many(&self, messages: &mut dyn Iterator<Item = Message>) -> (usize, Option<Unsent>) {
        self.dirty.store(true, Ordering::Release);
        let mut state = self.state.lock();
        match state.machine {
            Machine::Dealer(_) => self.deal(&mut state, messages),
            Machine::Router(_) => {
                drop(state);
                let mut taken = 0;
                for message in messages {
                    match self.route(message) {
                        Ok(()) => taken += 1,
                        Err(unsent) => return (taken, Some(unsent)),
                    }
                }
                (taken, None)
            }
            Machine::Pub(_) => {
                drop(state);
                (self.publish(messages), None)
            }
            Machine::Sub(_) => {
                (0, messages.next().map(|message| Unsent::new(message, self.unsupported("send"))))
            }
        }
    }

    /// Distributes messages among the peers by round robin.
    fn deal(
        &self,
        state: &mut SocketState,
        messages: &mut dyn Iterator<Item = Message>,
    ) -> (usize, Option<Unsent>) {
        let SocketState { machine: Machine::Dealer(dealer), pipes, .. } = state else { return (0, None) };
        let immediate = self.options.immediate;
        if let Some(pipe) = dealer.only().and_then(|key| pipes.get(&key)) {
            let (taken, rejected) = pipe.try_send_many(messages, immediate);
            return (taken, rejected.map(|rejected| Unsent::new(rejected.message, SocketError::Full)));
        }
        let mut taken = 0;
        for message in messages {
            let dealt = dealer.deal(message, |key, message| match pipes.get(&key) {
                Some(pipe) => pipe.try_send(message, immediate).map_err(|rejected| rejected.message),
                None => Err(message),
            });
            match dealt {
                Ok(_) => taken += 1,
                Err((message, why)) => {
                    let error = match why {
                        Undealt::Nobody => refusal(pipes).unwrap_or(SocketError::Nobody),
                        Undealt::Full => Self::full(pipes),
                    };
                    return (taken, Some(Unsent::new(message, error)));
                }
            }
        }
        (taken, None)
    }

    /// Error for a full socket. Without any connection, the refusal of a server is returned, as waiting
    /// would not help.
    fn full(pipes: &HashMap<PeerKey, Pipe>) -> SocketError {
        let nobody = pipes.values().all(|pipe| pipe.connection.is_none());
        refusal(pipes).filter(|_| nobody).unwrap_or(SocketError::Full)
    }

    /// Sends a message to the peer with the identity in its first frame.
    fn route(&self, message: Message) -> Result<(), Unsent> {
        let (Some(identity), true) = (message.frames().first().cloned(), message.frames().len() > 1) else {
            return Err(Unsent::new(message, SocketError::NoIdentity));
        };
        let connection = {
            let state = self.state.lock();
            let Machine::Router(router) = &state.machine else {
                return Err(Unsent::new(message, SocketError::NoIdentity));
            };
            let pipe = router.route(&identity).and_then(|key| state.pipes.get(&key));
            pipe.and_then(|pipe| pipe.connection.clone())
        };
        let rejected = match connection {
            None => ZmtpPushError::Closed,
            Some(connection) => {
                let mut frames = message.into_frames();
                frames.remove(0);
                // There was more than one frame.
                let Some(rest) = Message::of(frames) else { return Ok(()) };
                match connection.try_send(rest) {
                    Ok(()) => return Ok(()),
                    Err(Rejected { message: rest, error }) => {
                        let frames = core::iter::once(identity.clone()).chain(rest.into_frames()).collect();
                        return self.unrouted(frames, identity, error);
                    }
                }
            }
        };
        self.unrouted(message.into_frames(), identity, rejected)
    }

    fn unrouted(&self, frames: Vec<Bytes>, identity: Bytes, why: ZmtpPushError) -> Result<(), Unsent> {
        let gone = matches!(why, ZmtpPushError::Closed);
        if let (true, Some(message)) = (self.options.mandatory, Message::of(frames)) {
            let error = if gone { SocketError::Unreachable { identity } } else { SocketError::Full };
            return Err(Unsent::new(message, error));
        }
        let counters = &self.counters;
        let counter = if gone { &counters.dropped_unroutable } else { &counters.dropped_full };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Sends messages to all matching subscribers; a subscriber without room misses them.
    fn publish(&self, messages: &mut dyn Iterator<Item = Message>) -> usize {
        let mut taken = 0;
        let mut keys = Vec::new();
        let mut runs: HashMap<PeerKey, (Pipe, Vec<Message>)> = HashMap::new();
        {
            let state = self.state.lock();
            let Machine::Pub(subscriptions) = &state.machine else { return 0 };
            for message in messages {
                taken += 1;
                let Some(topic) = message.frames().first() else { continue };
                subscriptions.matches(topic, &mut keys);
                let mut push = |key: PeerKey, message: Message| {
                    if let Some(pipe) = state.pipes.get(&key) {
                        runs.entry(key).or_insert_with(|| (pipe.clone(), Vec::new())).1.push(message);
                    }
                };
                if let Some((last, others)) = keys.split_last() {
                    others.iter().for_each(|key| push(*key, message.clone()));
                    push(*last, message);
                }
            }
        }
        for (pipe, run) in runs.into_values() {
            let mut run = run.into_iter();
            loop {
                let (sent, rejected) = pipe.try_send_many(&mut run, self.options.immediate);
                if rejected.is_none() {
                    break;
                }
                self.counters.dropped_full.fetch_add(1, Ordering::Relaxed);
                if sent == 0 {
                    // The queue of this subscriber is full: drop the rest of its messages.
                    self.counters.dropped_full.fetch_add(run.len() as u64, Ordering::Relaxed);
                    break;
                }
            }
        }
        taken
    }

    fn wait_and_send(
        &self,
        unsent: Unsent,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), SocketError> {
        if !unsent.may_wait() || timeout == Some(Duration::ZERO) {
            return Err(*unsent.error);
        }
        let mut unsent = Some(unsent);
        let look = || {
            if let Err(error) = self.check() {
                return Some(Err(error));
            }
            match self.try_send(unsent.take()?.message) {
                Ok(()) => Some(Ok(())),
                Err(again) if again.may_wait() => {
                    unsent = Some(again);
                    None
                }
                Err(again) => Some(Err(*again.error)),
            }
        };
        match self.room.wait(timeout, interrupted, look) {
            Ok(result) => result,
            Err(missed) => Err(Error::missed(missed, "sending", timeout).into()),
        }
    }
}

/// The refusal of an endpoint, if there is one.
fn refusal(pipes: &HashMap<PeerKey, Pipe>) -> Option<SocketError> {
    pipes.values().find_map(|pipe| {
        let outbound = pipe.outbound.as_ref()?;
        let reason = pipe.failure.clone().filter(CloseReason::is_refusal)?;
        Some(SocketError::NotConnected { endpoint: outbound.endpoint().to_owned(), reason })
    })
}
