//! Helpers for the tests of this folder: bytes are written as hex, with blanks between the fields.

use super::{Command, FrameHead};
use crate::{
    buf::Reader,
    error::{DecodeErrorKind, Result},
};
use bytes::Bytes;
use core::fmt::Debug;

pub(in crate::zmtp) fn unhex(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "{hex}");
    let digit = |b: u8| char::from(b).to_digit(16).unwrap_or_else(|| panic!("{hex}"));
    digits.chunks(2).map(|pair| (digit(pair[0]) << 4 | digit(pair[1])) as u8).collect()
}

pub(super) fn kind<T: Debug>(result: Result<T>) -> DecodeErrorKind {
    result.unwrap_err().kind
}

/// Checks that the frame decodes to the command and the command encodes to the frame. A truncated frame
/// is incomplete, and a truncated body never decodes to the same command.
pub(super) fn both_ways<C: Command + PartialEq + Debug>(hex: &str, command: &C) {
    let wire = unhex(hex);
    assert_eq!(command.to_frame(), wire, "{command:?}");
    let (head, start) = FrameHead::decode(&wire).unwrap().unwrap();
    assert_eq!(head, FrameHead::command(wire.len() - start), "{command:?}");
    assert_eq!(C::decode(&wire.slice(start..)).as_ref(), Ok(command));
    for cut in 0..wire.len() {
        let whole =
            FrameHead::decode(&wire[..cut]).unwrap().is_some_and(|(h, start)| cut - start >= h.len as usize);
        assert!(!whole, "cut at {cut}");
        if cut >= start {
            assert_ne!(C::decode(&wire.slice(start..cut)).as_ref(), Ok(command), "cut at {cut}");
        }
    }
}

/// Checks that each truncation is an error.
pub(super) fn cuts<T: Debug>(whole: &Bytes, decode: impl Fn(&mut Reader<'_>) -> Result<T>) {
    for cut in 0..whole.len() {
        let part = whole.slice(..cut);
        let result = decode(&mut Reader::new(&part));
        assert!(result.is_err(), "cut at {cut}: {result:?}");
    }
}

/// Like [`both_ways`], for a command of which each part is required.
pub(super) fn both_ways_whole<C: Command + PartialEq + Debug>(hex: &str, command: &C) {
    both_ways(hex, command);
    let wire = unhex(hex);
    let (_, start) = FrameHead::decode(&wire).unwrap().unwrap();
    for cut in start..wire.len() {
        let result = C::decode(&wire.slice(start..cut));
        assert!(result.is_err(), "cut at {cut}: {result:?}");
    }
}
