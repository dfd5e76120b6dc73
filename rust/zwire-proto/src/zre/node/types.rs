//! Outputs of a node: actions for the driver, events for the application.

use super::super::{Generation, Uuid};
use crate::Text;
use bytes::Bytes;
use core::net::IpAddr;

/// The number of a DEALER, chosen by the node and never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DealerId(pub u64);

/// Origin of a message: what is known of its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Address of the other side. `None`: every endpoint is accepted.
    pub address: Option<IpAddr>,
    /// Key that the other side has proved by CURVE to own.
    pub key: Option<[u8; 32]>,
}

/// Action for the driver, to be executed in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a DEALER. Messages sent before it is connected are queued.
    Connect {
        /// Number of the DEALER.
        dealer: DealerId,
        /// Target peer; `None` while only the endpoint is known.
        peer: Option<Uuid>,
        /// `tcp://host:port`.
        endpoint: Bytes,
        /// Identity in the ZMTP greeting.
        identity: Bytes,
        /// The CURVE key of the other side.
        server_key: Option<[u8; 32]>,
    },
    /// Resolve the host of an endpoint, and pass the result to
    /// [`handle_resolved`](super::ZreNode::handle_resolved).
    Resolve {
        /// `tcp://host:port`.
        endpoint: Bytes,
    },
    /// Close a DEALER; unsent messages are dropped.
    Disconnect {
        /// Number of the DEALER.
        dealer: DealerId,
    },
    /// Send a message. If it cannot be queued, the driver must call
    /// [`handle_dealer_failed`](super::ZreNode::handle_dealer_failed): a skipped message breaks the
    /// session. For a SHOUT the driver then corrects the answer to the application with
    /// [`Shouted::correct`].
    Send {
        /// Number of the DEALER.
        dealer: DealerId,
        /// Target peer; `None` while only the endpoint is known.
        peer: Option<Uuid>,
        /// Frames of the message.
        frames: Vec<Bytes>,
    },
    /// Send a datagram to the broadcast address of an interface.
    Beacon {
        /// Index into the interfaces of the configuration.
        interface: usize,
        /// Bytes of the datagram.
        datagram: Bytes,
    },
    /// Connect the PUB of ZRE/LOG to a collector.
    ConnectLog {
        /// `tcp://host:port`.
        endpoint: Bytes,
    },
    /// Disconnect the PUB from a collector that left.
    DisconnectLog {
        /// `tcp://host:port`.
        endpoint: Bytes,
    },
    /// Publish a frame of ZRE/LOG.
    Log {
        /// The frame.
        frame: Bytes,
    },
}

/// Event for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZreEvent {
    /// Peer concerned; for STOP, and for a LEADER that is this node, this node.
    pub peer: Uuid,
    /// Name of the peer. Peers before 36/ZRE have the first six digits of their UUID.
    pub name: Text,
    /// Endpoint of the peer, from its HELLO.
    pub address: Text,
    /// Generation of the peer, once its HELLO has come.
    pub generation: Option<Generation>,
    /// Number of the message that caused the event; for `MessagesLost` the first missing one. `None` if
    /// no message did.
    pub sequence: Option<u16>,
    /// Group status of the peer, incremented with each JOIN and LEAVE.
    pub status: Option<u8>,
    /// Kind of the event.
    pub kind: EventKind,
}

/// Kind of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The peer has entered: its HELLO came.
    Enter {
        /// Headers of the HELLO.
        headers: Vec<(Text, Text)>,
    },
    /// The peer has left or expired. Raised once for each `Enter`.
    Exit,
    /// The peer gives no sign of life, though it got a PING.
    Evasive,
    /// The peer still does not answer.
    Silent,
    /// The peer joined a group.
    Join {
        /// Name of the group.
        group: Text,
    },
    /// The peer left a group.
    Leave {
        /// Name of the group.
        group: Text,
    },
    /// A message for this node.
    Whisper {
        /// Frames of the content.
        content: Vec<Bytes>,
    },
    /// A message to a group.
    Shout {
        /// Name of the group.
        group: Text,
        /// Frames of the content.
        content: Vec<Bytes>,
    },
    /// Messages of the peer did not arrive. An `Exit` follows, and an `Enter` once its session is
    /// renewed.
    MessagesLost {
        /// Number of lost messages; 0 if unknown, because the numbers went back.
        lost: u16,
    },
    /// The peer, or this node, leads a group.
    Leader {
        /// Name of the group.
        group: Text,
    },
    /// This node has stopped.
    Stop,
}

impl EventKind {
    /// Name of the event, as in zyre.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Enter { .. } => "ENTER",
            Self::Exit => "EXIT",
            Self::Evasive => "EVASIVE",
            Self::Silent => "SILENT",
            Self::Join { .. } => "JOIN",
            Self::Leave { .. } => "LEAVE",
            Self::Whisper { .. } => "WHISPER",
            Self::Shout { .. } => "SHOUT",
            Self::MessagesLost { .. } => "MESSAGES_LOST",
            Self::Leader { .. } => "LEADER",
            Self::Stop => "STOP",
        }
    }

    /// Group of the event, if it has one.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        match self {
            Self::Join { group }
            | Self::Leave { group }
            | Self::Shout { group, .. }
            | Self::Leader { group } => Some(group),
            _ => None,
        }
    }

    /// Frames of a message.
    #[must_use]
    pub fn content(&self) -> Option<&[Bytes]> {
        match self {
            Self::Whisper { content } | Self::Shout { content, .. } => Some(content),
            _ => None,
        }
    }

    /// Headers of a HELLO.
    #[must_use]
    pub fn headers(&self) -> Option<&[(Text, Text)]> {
        match self {
            Self::Enter { headers } => Some(headers),
            _ => None,
        }
    }
}

/// Outcome of a message for one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// Queued for transmission.
    Queued,
    /// The queue to the peer is full. Its session is renewed, since the number of the message is
    /// consumed.
    Full,
    /// There is no connection to the peer at present.
    NotResponding,
    /// The generation of the peer has one frame per message.
    Refused,
}

/// Outcome of a SHOUT.
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

    /// Replaces the outcome for a peer by that of the executed [`Action::Send`].
    pub fn correct(&mut self, peer: &Uuid, delivery: Delivery) {
        if let Ok(at) = self.peers.binary_search_by_key(peer, |(uuid, _)| *uuid) {
            self.peers[at].1 = delivery;
        }
    }
}
