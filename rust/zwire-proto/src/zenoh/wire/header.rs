//! The header byte of a message.

/// The id bits of a header byte.
pub(super) const ID_MASK: u8 = 0x1f;
