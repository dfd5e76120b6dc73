//! Errors of bytes that do not decode.

use thiserror::Error;

/// Decoding error: the field being read, its offset, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reading}: {kind} at offset {offset}")]
pub struct DecodeError {
    /// Message and field being read, in the terms of the specification: `PUT payload`.
    pub reading: &'static str,
    /// Offset from the start of the buffer that was handed to the decoder, in bytes.
    pub offset: usize,
    /// Reason for the failure.
    pub kind: DecodeErrorKind,
}

/// Reason why bytes do not decode.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeErrorKind {
    /// The buffer ends inside the field.
    #[error("{needed} more bytes needed")]
    Truncated {
        /// How many bytes are missing.
        needed: usize,
    },
    /// An integer exceeds the bound of its field.
    #[error("value {value} above the bound {bound}")]
    OutOfRange {
        /// The value on the wire.
        value: u64,
        /// The largest legal value.
        bound: u64,
    },
    /// A value below the smallest legal one, or one that the field forbids.
    #[error("illegal value {value}")]
    Illegal {
        /// The value on the wire.
        value: u64,
    },
    /// A message id that this place does not allow.
    #[error("unknown id {id:#04x}")]
    UnknownId {
        /// The id bits of the header byte.
        id: u8,
    },
    /// A command with another name than the only one allowed in this place.
    #[error("unexpected command")]
    Name,
    /// A string is not UTF-8.
    #[error("not UTF-8")]
    Utf8,
    /// An unknown extension is marked mandatory.
    #[error("unknown mandatory extension {header:#04x}")]
    UnknownMandatoryExtension {
        /// The extension header without its more-bit.
        header: u8,
    },
    /// The reserved extension encoding 3.
    #[error("reserved extension encoding in {header:#04x}")]
    ReservedEncoding {
        /// The header byte.
        header: u8,
    },
    /// Two extensions that exclude each other.
    #[error("extension {header:#04x} excludes one before it")]
    ConflictingExtension {
        /// The header of the second, without its more-bit.
        header: u8,
    },
    /// Bytes are left where the field must end.
    #[error("{left} bytes left over")]
    TrailingBytes {
        /// How many bytes are left.
        left: usize,
    },
    /// A key expression that is not canonical or not legal.
    #[error("invalid key expression")]
    KeyExpr,
    /// A payload of shared memory, which was not negotiated.
    #[error("shared memory was not negotiated")]
    SharedMemory,
    /// A batch that does not decompress.
    #[error("LZ4 block does not decompress")]
    Compression,
}

/// The result of reading from the wire.
pub type Result<T> = core::result::Result<T, DecodeError>;
