//! Many messages at once, as fast as peers take them.
//!
//! A single message never waits: it finds the queue of a peer full, and the session begins anew. In a batch
//! that would be the rule and not the exception, so a batch waits for room.

use super::{
    core::NodeCore,
    node::{Node, shout, whisper},
    shared::NodeShared,
};
use crate::{
    error::Error,
    rt::watch::Missed,
    zmtp::{Outbound, Room, Writing},
};
use bytes::Bytes;
use core::time::Duration;
use std::sync::Arc;
use zwire_proto::{
    Now, Text,
    zre::{
        Uuid,
        node::{Delivery, NodeError},
    },
};

/// Messages under one lock of the node.
const CHUNK: usize = 64;

/// Bytes after which messages are sent, although more would fit: peers read the first ones while the next ones are copied
/// to shared memory, whose bound is a few of these.
const CHUNK_BYTES: usize = 4 << 20;

/// Where a batch goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BatchTarget {
    /// To one peer.
    Peer(Uuid),
    /// To each peer of a group.
    Group(Text),
}

/// Outcome of a batch: number of messages, and of their copies by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Messages.
    pub messages: u64,
    /// Copies that are on their way.
    pub queued: u64,
    /// Copies that found the queue of their peer full.
    pub full: u64,
    /// Copies for peers without a connection.
    pub not_responding: u64,
    /// Copies for peers of a generation with one frame per message.
    pub refused: u64,
}

impl Sent {
    fn count(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Queued => self.queued += 1,
            Delivery::Full => self.full += 1,
            Delivery::NotResponding => self.not_responding += 1,
            Delivery::Refused => self.refused += 1,
        }
    }
}

impl NodeCore {
    /// The connections to the peers of a batch.
    fn ways_of(&self, target: &BatchTarget) -> Vec<Arc<Outbound>> {
        let of = |peer: &Uuid| self.ways.get(&self.machine.dealer_of(peer)?).cloned();
        match target {
            BatchTarget::Peer(peer) => of(peer).into_iter().collect(),
            BatchTarget::Group(group) => self.machine.peers_of(group).filter_map(|peer| of(&peer)).collect(),
        }
    }
}

impl Node {
    /// Sends messages to a peer or a group. Where a queue has no room the batch waits for it, `patience` at
    /// most for each piece; a peer that does not take anything for so long loses messages, and begins anew.
    ///
    /// # Errors
    /// The peer is not there at the start; a content that no peer could be told; the node does not run. What
    /// went before is sent.
    pub fn send_many(
        &self,
        target: &BatchTarget,
        contents: &mut dyn Iterator<Item = Vec<Bytes>>,
        patience: Duration,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Sent, Error> {
        let mut sent = Sent::default();
        if let BatchTarget::Peer(peer) = target
            && self.look(|machine| machine.peer_name(peer).is_none())?
        {
            return Err(NodeError::UnknownPeer { peer: *peer }.into());
        }
        let chunk = CHUNK.min(self.shared.options.high_water_mark);
        let mut next = contents.next();
        while next.is_some() {
            let room = self.wait_for_room(target, chunk, patience, interrupted)?;
            let mut piece = Vec::with_capacity(chunk);
            let mut bytes = 0;
            // Without room one message is sent nevertheless, as the patience is over.
            while piece.len() < chunk
                && (piece.is_empty() || bytes < room.bytes.min(CHUNK_BYTES))
                && let Some(content) = next.take()
            {
                bytes += content.iter().map(Bytes::len).sum::<usize>();
                // Not under the lock of the node: it copies, and may wait.
                piece.push(self.place(content, !patience.is_zero()));
                next = contents.next();
            }
            self.run(|shared, core, now| {
                core.effects.writing = Writing::AtOnce;
                let mut piece = piece.into_iter();
                piece.try_for_each(|content| send_one(shared, core, now, target, content, &mut sent))
            })?;
        }
        Ok(sent)
    }

    /// Room in the queues of all peers of `target`: that of the fullest one.
    ///
    /// # Errors
    /// The node does not run.
    pub fn room(&self, target: &BatchTarget) -> Result<Room, Error> {
        let ways = self.run(|_, core, _| Ok(core.ways_of(target)))?;
        Ok(ways.iter().map(|way| way.room()).fold(Room::MAX, Room::min))
    }

    /// Waits until so many messages fit into the queues of the peers of `target`, `patience` at most. Returns
    /// what fits then.
    ///
    /// # Errors
    /// The node does not run, or the caller is interrupted.
    pub(super) fn wait_for_room(
        &self,
        target: &BatchTarget,
        messages: usize,
        patience: Duration,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Room, Error> {
        let mut last = Room::MAX;
        let look = || {
            let ways = match self.run(|_, core, _| Ok(core.ways_of(target))) {
                Ok(ways) => ways,
                Err(error) => return Some(Err(error)),
            };
            let room = || ways.iter().map(|way| way.room()).fold(Room::MAX, Room::min);
            let fits = |room: Room| room.messages >= messages && room.bytes > 0;
            last = room();
            if !fits(last) {
                // Asked for before the second look, so that no notification is missed.
                ways.iter().for_each(|way| way.want_room());
                last = room();
            }
            fits(last).then_some(Ok(last))
        };
        match self.shared.progress.wait(Some(patience), interrupted, look) {
            Ok(result) => result,
            Err(Missed::TimedOut) => Ok(last),
            Err(Missed::Interrupted) => Err(Error::Interrupted),
        }
    }
}

/// Sends a message of a batch.
fn send_one(
    shared: &Arc<NodeShared>,
    core: &mut NodeCore,
    now: Now,
    target: &BatchTarget,
    content: Vec<Bytes>,
    sent: &mut Sent,
) -> Result<(), Error> {
    match target {
        BatchTarget::Peer(peer) => match whisper(shared, core, now, peer, content) {
            Ok(delivery) => sent.count(delivery),
            // It was there at the start.
            Err(Error::Node(NodeError::UnknownPeer { .. })) => sent.count(Delivery::NotResponding),
            Err(error) => return Err(error),
        },
        BatchTarget::Group(group) => {
            let shouted = shout(shared, core, now, group, content)?;
            shouted.peers.into_iter().for_each(|(_, delivery)| sent.count(delivery));
        }
    }
    sent.messages += 1;
    Ok(())
}
