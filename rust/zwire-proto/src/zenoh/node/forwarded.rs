//! [`Forwarded`]: interests of clients, asked at a gateway.

use super::{FaceId, face::Watch};
use crate::zenoh::wire::InterestMode;

/// An interest of one of our clients, asked at a gateway.
#[derive(Debug)]
pub(super) struct Forwarded {
    pub(super) asker: FaceId,
    /// The id that the asker chose.
    pub(super) id: u32,
    pub(super) mode: InterestMode,
    pub(super) watch: Watch,
    /// The gateway has told what there was.
    pub(super) finished: bool,
}
