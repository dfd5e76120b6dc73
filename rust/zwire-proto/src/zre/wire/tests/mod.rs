//! Tests against the documents, and properties; tests of a single message are in its file.

mod examples;
mod laws;
mod problems;
mod rfc20;

use super::{
    Address, Beacon, Body, Elect, EncodeError, Gossip, Hello, IdentityForm, Join, Leader, Leave, Log,
    LogEvent, LogLevel, MessageId, Shout, Whisper, ZreMessage, log_hash,
    testing::{both_ways, hello, unhex},
};
use crate::{
    error::DecodeErrorKind,
    zre::{Generation, Uuid, limits},
};
use bytes::Bytes;

fn message(sequence: u16, body: Body) -> ZreMessage {
    ZreMessage { sequence, body }
}

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}
