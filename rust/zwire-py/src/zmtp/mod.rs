//! Sockets of ZMTP.

pub(crate) mod arrow;
pub(crate) mod options;
pub(crate) mod socket;
