//! Helpers for tests: bytes are written as hex, with blanks between the fields.

use super::{NetworkMessage, ScoutingMessage, TransportMessage};
use crate::{
    buf::Reader,
    error::{DecodeErrorKind, Result},
};
use bytes::Bytes;
use core::fmt::Debug;

pub(in crate::zenoh) fn unhex(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "{hex}");
    let digit = |b: u8| char::from(b).to_digit(16).unwrap_or_else(|| panic!("{hex}"));
    digits.chunks(2).map(|pair| (digit(pair[0]) << 4 | digit(pair[1])) as u8).collect()
}

pub(super) fn network(hex: &str) -> Result<NetworkMessage> {
    whole(&unhex(hex), NetworkMessage::decode)
}

pub(super) fn transport(hex: &str) -> Result<TransportMessage> {
    whole(&unhex(hex), TransportMessage::decode)
}

pub(super) fn scouting(hex: &str) -> Result<ScoutingMessage> {
    whole(&unhex(hex), ScoutingMessage::decode)
}

fn whole<T>(bytes: &Bytes, decode: impl Fn(&mut Reader<'_>) -> Result<T>) -> Result<T> {
    let mut r = Reader::new(bytes);
    let message = decode(&mut r)?;
    r.finish("test message")?;
    Ok(message)
}

pub(super) fn kind<T: Debug>(result: Result<T>) -> DecodeErrorKind {
    result.unwrap_err().kind
}

/// Checks that the bytes decode to the message, the message encodes to the bytes, and each truncation
/// is an error.
pub(super) fn both_ways(hex: &str, message: &NetworkMessage) {
    let mut out = Vec::new();
    message.encode(&mut out);
    assert_eq!(out, unhex(hex)[..], "{message:?}");
    assert_eq!(network(hex).as_ref(), Ok(message));
    cuts(&unhex(hex), NetworkMessage::decode);
}

/// Like [`both_ways`], for transport messages except FRAME and FRAGMENT, which have contents behind
/// them.
pub(super) fn both_ways_transport(hex: &str, message: &TransportMessage) {
    let mut out = Vec::new();
    message.encode(&mut out);
    assert_eq!(out, unhex(hex)[..], "{message:?}");
    assert_eq!(transport(hex).as_ref(), Ok(message));
    cuts(&unhex(hex), TransportMessage::decode);
}

/// Like [`both_ways`], for scouting messages.
pub(super) fn both_ways_scouting(hex: &str, message: &ScoutingMessage) {
    let mut out = Vec::new();
    message.encode(&mut out);
    assert_eq!(out, unhex(hex)[..], "{message:?}");
    assert_eq!(scouting(hex).as_ref(), Ok(message));
    cuts(&unhex(hex), ScoutingMessage::decode);
}

fn cuts<T: Debug>(whole: &Bytes, decode: impl Fn(&mut Reader<'_>) -> Result<T>) {
    for cut in 0..whole.len() {
        let part = whole.slice(..cut);
        let result = decode(&mut Reader::new(&part));
        assert!(result.is_err(), "cut at {cut}: {result:?}");
    }
}
