//! Captures of live traffic: from the bytes of a file to ordered streams and datagrams.
//!
//! ```text
//! chunks of a file --CaptureReader--> Packet --Flows--> FlowEvent --WebSocket--> messages
//! ```
//!
//! These stages do not know which protocol the streams carry. They work on files of any size in bounded
//! memory: each stage holds at most what its bounds allow.

mod buffer;
mod event;
mod field;
mod file;
mod flows;
mod fragment;
mod half;
mod ip;
mod link;
mod pcap;
mod pcapng;
mod tcp;
mod transport;
mod ws;

pub use buffer::StreamBuffer;
pub use event::{CloseReason, Connection, ConnectionId, FlowEvent};
pub use file::{CaptureReader, LinkType, MAX_PACKET_LEN, Packet};
pub use flows::{FlowStats, Flows};
pub use half::{MAX_HELD_BYTES, MAX_HELD_PIECES, MAX_HELD_TOTAL};
pub use tcp::MAX_CONNECTIONS;
pub use ws::{MAX_HTTP_HEAD, MAX_WS_MESSAGE, WebSocket, WsMessage, WsState};
pub use zwire_proto::pcap::Direction;
