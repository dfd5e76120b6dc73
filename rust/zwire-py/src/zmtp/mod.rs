//! Sockets of ZMTP.

pub(crate) mod options;
pub(crate) mod socket;
