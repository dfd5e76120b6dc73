//! Remembered routes of publications.

use super::types::EntityId;
use crate::zenoh::{KeyExpr, wire::WireExpr};

/// Where a publication of ours on some key goes.
#[derive(Debug)]
pub(super) struct OutRoute {
    pub(super) wire: WireExpr,
    /// Whether the write-side filter lets it pass.
    pub(super) leaves: bool,
    pub(super) subscribers: Box<[EntityId]>,
}

/// Where a PUSH on some key goes.
#[derive(Debug)]
pub(super) struct InRoute {
    pub(super) key: KeyExpr,
    pub(super) subscribers: Box<[EntityId]>,
}
