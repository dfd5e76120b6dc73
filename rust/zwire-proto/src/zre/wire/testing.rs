//! Helpers for the tests of this folder: bytes are written as hex, with blanks between the fields.

use super::{Address, Hello, ZreMessage};
use crate::zre::Generation;
use bytes::Bytes;

pub(in crate::zre) fn unhex(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "{hex}");
    let digit = |b: u8| char::from(b).to_digit(16).unwrap_or_else(|| panic!("{hex}"));
    digits.chunks(2).map(|pair| (digit(pair[0]) << 4 | digit(pair[1])) as u8).collect()
}

/// Checks that the header frame decodes to the message, the message encodes to the frame, and each
/// truncation is an error.
pub(super) fn both_ways(generation: Generation, hex: &str, message: &ZreMessage) {
    let header = unhex(hex);
    let frames = message.encode(generation).unwrap_or_else(|error| panic!("{error}: {message:?}"));
    assert_eq!(frames[0], header, "{message:?}");
    assert_eq!(frames[1..], *message.body.content());
    assert_eq!(ZreMessage::decode(generation, &frames).as_ref(), Ok(message));
    for cut in 0..header.len() {
        let mut part = frames.clone();
        part[0] = header.slice(..cut);
        let result = ZreMessage::decode(generation, &part);
        assert!(result.is_err(), "{generation} cut at {cut}: {result:?}");
    }
}

/// The sender of `zre` 20.
pub(super) fn hello(generation: Generation) -> Hello {
    let text = Bytes::from_static;
    let legacy = generation.is_legacy();
    Hello {
        address: match legacy {
            true => Address::Mailbox { ip: text(b"10.99.0.3"), port: 49200 },
            false => Address::Endpoint(text(b"tcp://10.99.0.3:49200")),
        },
        groups: vec![text(b"CHAT"), text(b"SENSORS")],
        status: 2,
        name: if legacy { Bytes::new() } else { text(b"edge1") },
        headers: vec![(text(b"X-ROLE"), text(b"edge"))],
    }
}
