//! Errors of encoders: messages that must not be sent. They are caused by the caller.

use super::super::Generation;
use thiserror::Error;

/// Reason why a message would harm its receiver or cannot be expressed in its generation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// pyre crashes on text that is not UTF-8, zyre stops reading at a zero octet.
    #[error("{field} has to be UTF-8 without zero octets")]
    NotText {
        /// Message and field.
        field: &'static str,
    },
    /// A string that exceeds its length field or the limit of the receivers.
    #[error("{field} has {len} octets, {bound} are possible")]
    TooLong {
        /// Message and field.
        field: &'static str,
        /// Length given.
        len: usize,
        /// The bound.
        bound: usize,
    },
    /// A list that exceeds its count field.
    #[error("{field}: {count} entries, {bound} are possible")]
    TooMany {
        /// Message and field.
        field: &'static str,
        /// Number of entries given.
        count: usize,
        /// The bound.
        bound: usize,
    },
    /// A string that must not be empty.
    #[error("{field} must not be empty")]
    Empty {
        /// Message and field.
        field: &'static str,
    },
    /// WHISPER and SHOUT without a content frame corrupt the events of zyre and crash pyre.
    #[error("{message} needs a content frame, if necessary an empty one")]
    NoContent {
        /// Name of the message.
        message: &'static str,
    },
    /// "ZRE does not support multi-frame message contents" (RFC 20).
    #[error("{generation} has one content frame per message, not {frames}")]
    MultiFrame {
        /// The generation of the receiver.
        generation: Generation,
        /// Number of frames given.
        frames: usize,
    },
    /// A message on which peers of this generation abort.
    #[error("{generation} has no message {id}")]
    NotInGeneration {
        /// The number of the message.
        id: u8,
        /// The generation of the receiver.
        generation: Generation,
    },
    /// An address in the form of another generation.
    #[error("{generation} writes its address as {}", if generation.is_legacy() { "ip and port" } else { "endpoint" })]
    Address {
        /// The generation of the receiver.
        generation: Generation,
    },
    /// A header `name=value` is split at its first equals sign.
    #[error("the name of a header cannot hold an equals sign in {generation}")]
    HeaderName {
        /// The generation of the receiver.
        generation: Generation,
    },
    /// A number that the document does not define.
    #[error("{field} cannot be {value}")]
    Undefined {
        /// Message and field.
        field: &'static str,
        /// Value given.
        value: u8,
    },
}
