//! Zenoh among streams and datagrams: its sessions on whatever port, and their messages as records.

mod datagram;
mod keys;
mod plausible;
mod reassembly;
mod recent;
mod session;
mod socket;
mod stream;

pub(super) use datagram::{Datagram, Datagrams};
pub(super) use keys::Total;
pub(super) use reassembly::Budget;
pub(super) use stream::ZenohStream;

use super::{limits, record, shared};
