//! Tests against the documents, and properties.

mod bodies;
mod examples;
mod laws;
mod problems;
mod rfc20;

use super::{
    Address, Beacon, Body, EncodeError, Gossip, Hello, IdentityForm, Log, LogEvent, LogLevel, MessageId,
    ZreMessage, log_hash,
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
