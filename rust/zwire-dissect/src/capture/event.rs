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
/// Of a connection: first `Open`, then `Data` and `Gap` with contiguous offsets per direction, then
/// `Close`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants say what their fields mean")]
pub enum FlowEvent {
    /// A connection appeared, with its first packet at `timestamp`. `from_start`: the capture has its beginning. If
    /// not, offset 0 is just where it starts, possibly in the middle of a message.
    Open { timestamp: Duration, connection: Connection, from_start: bool },
    /// The next bytes of a stream, the first of them at `offset`; a slice of the packet if the segment, captured at
    /// `timestamp`, came in order.
    Data { timestamp: Duration, connection: Connection, direction: Direction, offset: u64, data: Bytes },
    /// Bytes of a stream that the capture does not have: so many are `missing` from `offset` on. The stream goes on
    /// behind them, with a packet captured at `timestamp`.
    Gap { timestamp: Duration, connection: Connection, direction: Direction, offset: u64, missing: u64 },
    /// A connection is over; its last packet was captured at `timestamp`.
    Close { timestamp: Duration, connection: Connection, reason: CloseReason },
    /// A UDP datagram, reassembled if it came in IP fragments, the last of them at `timestamp`. The receiver may be a
    /// multicast group; so many bytes behind `data` are `missing`: they were on the wire and not captured.
    Datagram { timestamp: Duration, src: SocketAddr, dst: SocketAddr, data: Bytes, missing: usize },
}
