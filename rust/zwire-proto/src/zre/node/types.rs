//! What goes out of a node: actions for the driver, events for the application.

use super::super::{Generation, Uuid};
use crate::Text;
use bytes::Bytes;

/// The number of a DEALER, chosen by the node and never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DealerId(pub u64);

/// What the driver has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a DEALER. What is sent before it is connected waits.
    Connect {
        /// Its number.
        dealer: DealerId,
        /// Whom it is for; `None` while only the endpoint is known.
        peer: Option<Uuid>,
        /// `tcp://host:port`.
        endpoint: Bytes,
        /// What it says in its greeting.
        identity: Bytes,
        /// The CURVE key of the other side.
        server_key: Option<[u8; 32]>,
    },
    /// Find out what the host of an endpoint means, and say it to
    /// [`handle_resolved`](super::Node::handle_resolved).
    Resolve {
        /// `tcp://host:port`.
        endpoint: Bytes,
    },
    /// Close a DEALER; what it has not sent is dropped.
    Disconnect {
        /// Its number.
        dealer: DealerId,
    },
    /// Send a message. If it cannot be queued, [`handle_dealer_failed`](super::Node::handle_dealer_failed)
    /// has to say so: a message that is left out costs the session. Of a SHOUT the answer to the
    /// application is then corrected by [`Shouted::correct`].
    Send {
        /// Where.
        dealer: DealerId,
        /// Whom it is for; `None` while only the endpoint is known.
        peer: Option<Uuid>,
        /// Its frames.
        frames: Vec<Bytes>,
    },
    /// Send a datagram to the broadcast address of an interface.
    Beacon {
        /// Index into the interfaces of the configuration.
        interface: usize,
        /// What.
        datagram: Bytes,
    },
    /// Connect the PUB of ZRE/LOG to a collector.
    ConnectLog {
        /// `tcp://host:port`.
        endpoint: Bytes,
    },
    /// Disconnect it from a collector that left.
    DisconnectLog {
        /// `tcp://host:port`.
        endpoint: Bytes,
    },
    /// Publish a frame of ZRE/LOG.
    Log {
        /// What.
        frame: Bytes,
    },
}

/// Something that the application wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which peer; of STOP and of a LEADER that is this node, this node.
    pub peer: Uuid,
    /// Its name. Peers before 36/ZRE have the first six digits of their UUID.
    pub name: Text,
    /// Where it listens, as its HELLO says.
    pub address: Text,
    /// Which form of ZRE it speaks, once its HELLO has come.
    pub generation: Option<Generation>,
    /// The number of the message that has told of it; of `MessagesLost` the first one that is missing. `None`
    /// where no message has.
    pub sequence: Option<u16>,
    /// The status of its groups; it goes up by one with each JOIN and LEAVE.
    pub status: Option<u8>,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The peer is there: its HELLO came.
    Enter {
        /// Its headers.
        headers: Vec<(Text, Text)>,
    },
    /// The peer is gone. Comes once for each `Enter`.
    Exit,
    /// The peer gives no sign of life, though it was asked for one.
    Evasive,
    /// It still does not answer.
    Silent,
    /// The peer is in a group now.
    Join {
        /// Which.
        group: Text,
    },
    /// The peer is not in a group any more.
    Leave {
        /// Which.
        group: Text,
    },
    /// A message for this node.
    Whisper {
        /// Its frames.
        content: Vec<Bytes>,
    },
    /// A message for a group.
    Shout {
        /// Which.
        group: Text,
        /// Its frames.
        content: Vec<Bytes>,
    },
    /// Messages of the peer did not arrive. An `Exit` follows, and an `Enter` when it is there again.
    MessagesLost {
        /// How many; 0 where it cannot be told, because the numbers went back.
        lost: u16,
    },
    /// The peer, or this node, leads a group.
    Leader {
        /// Which.
        group: Text,
    },
    /// This node has stopped.
    Stop,
}

/// What became of a message for one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// It is on its way.
    Queued,
    /// The queue to the peer is full. Its session begins anew, since the number of the message is used.
    Full,
    /// There is no connection to the peer at present.
    NotResponding,
    /// The generation of the peer has one frame per message.
    Refused,
}

/// What became of a SHOUT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shouted {
    /// Each member of the group, by UUID.
    pub peers: Vec<(Uuid, Delivery)>,
}

impl Shouted {
    /// Members with that outcome.
    #[must_use]
    pub fn count(&self, delivery: Delivery) -> usize {
        self.peers.iter().filter(|(_, found)| *found == delivery).count()
    }

    /// What a driver found out when it executed the [`Action::Send`] to that peer.
    pub fn correct(&mut self, peer: &Uuid, delivery: Delivery) {
        if let Ok(at) = self.peers.binary_search_by_key(peer, |(uuid, _)| *uuid) {
            self.peers[at].1 = delivery;
        }
    }
}
