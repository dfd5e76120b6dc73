//! Zenoh in streams and datagrams: finds its sessions on any port, and makes records of messages.

mod datagram;
mod keys;
mod plausible;
mod reassembly;
mod session;
mod socket;
mod stream;

pub(super) use datagram::{Datagram, Datagrams};
pub(super) use stream::ZenohStream;

use super::{limits, record, shared, side};
