//! Connections that this node opens: to the endpoints of its configuration, again after each loss.

pub(crate) mod client;
pub(crate) mod dial;
pub(crate) mod keep;
