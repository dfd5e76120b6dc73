//! Streams and datagrams found in packets.

use bytes::Bytes;
use core::net::SocketAddr;
use core::time::Duration;
use zwire_proto::pcap::Direction;

/// The number of a connection, counted from zero in the order of appearance and never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// A TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connection {
    /// Tells apart connections between the same two sockets.
    pub id: ConnectionId,
    /// The side that connected. When the capture began later, the sender of the first data stands in.
    pub client: SocketAddr,
    /// The side that listened.
    pub server: SocketAddr,
}

impl Connection {
    /// The sender of this direction.
    #[must_use]
    pub const fn src(&self, direction: Direction) -> SocketAddr {
        match direction {
            Direction::ToServer => self.client,
            Direction::ToClient => self.server,
        }
    }

    /// The direction of what a socket sends.
    #[must_use]
    pub fn direction_from(&self, src: SocketAddr) -> Direction {
        if src == self.client { Direction::ToServer } else { Direction::ToClient }
    }

    /// The receiver of this direction.
    #[must_use]
    pub const fn dst(&self, direction: Direction) -> SocketAddr {
        self.src(direction.reverse())
    }
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both sides finished.
    Finished,
    /// Either side reset it.
    Reset,
    /// The same sockets opened a new connection; the end of this one is not in the capture.
    Reused,
    /// Evicted as the most silent of too many connections. Later packets open a new one.
    Evicted,
    /// The capture ends while the connection is open.
    CaptureEnd,
}

/// Something that happened in the capture.
///
/// Of one connection: first `Open`, then `Data` and `Gap` with contiguous offsets per direction, last
/// `Close`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowEvent {
    /// A connection appeared.
    Open {
        /// When its first packet was captured.
        timestamp: Duration,
        /// The connection.
        connection: Connection,
        /// Whether the capture has its beginning. If not, offset 0 is just where it starts, possibly
        /// in the middle of a message.
        from_start: bool,
    },
    /// The next bytes of a stream.
    Data {
        /// When the segment that holds them was captured.
        timestamp: Duration,
        /// The connection.
        connection: Connection,
        /// The stream.
        direction: Direction,
        /// Offset of the first byte in the stream.
        offset: u64,
        /// The bytes: a slice of the packet if the segment came in order.
        data: Bytes,
    },
    /// Bytes of a stream that the capture does not have. The stream goes on behind them.
    Gap {
        /// When the first packet behind the gap was captured.
        timestamp: Duration,
        /// The connection.
        connection: Connection,
        /// The stream.
        direction: Direction,
        /// Offset of the first missing byte in the stream.
        offset: u64,
        /// How many bytes are missing.
        missing: u64,
    },
    /// A connection is over.
    Close {
        /// When its last packet was captured.
        timestamp: Duration,
        /// The connection.
        connection: Connection,
        /// Why.
        reason: CloseReason,
    },
    /// A UDP datagram, reassembled if it came in IP fragments.
    Datagram {
        /// When it, or its last fragment, was captured.
        timestamp: Duration,
        /// The sender.
        src: SocketAddr,
        /// The receiver, possibly a multicast group.
        dst: SocketAddr,
        /// The payload as far as it was captured.
        data: Bytes,
        /// How many bytes behind `data` were on the wire and not captured.
        missing: usize,
    },
}
