//! Nodes of ZRE, their events, and ZRE/LOG.

pub(crate) mod events;
pub(crate) mod log;
pub(crate) mod node;
pub(crate) mod settings;
