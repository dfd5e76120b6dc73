//! Start of a ZMTP connection: its greetings.

use super::said::Said;
use bytes::Bytes;
use zwire_proto::{
    buf::Reader,
    error::{DecodeError, DecodeErrorKind, Result},
    zmtp::wire::{Greeting, Greeting2, SocketType, ZmtpGeneration},
};

/// Whether a connection begins with a ZMTP greeting; `None`: more bytes are needed to tell.
pub(crate) fn greets(first: &[u8]) -> Option<bool> {
    const REVISION: usize = 10;
    if first.first().is_some_and(|byte| *byte != 0xff) || first.get(9).is_some_and(|byte| *byte != 0x7f) {
        return Some(false);
    }
    if *first.get(REVISION)? == 0 {
        return Some(false);
    }
    let (code, next) = (first.get(11)?, first.get(12)?);
    if is_of_2(first) {
        return Some(*next == 0 && SocketType::from_code(*code).is_some());
    }
    let name: &[u8; 20] = first.get(12..32)?.try_into().ok()?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let (name, padding) = name.split_at(end);
    let letters = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"-_.+".contains(byte);
    Some(name.iter().all(letters) && padding.iter().all(|byte| *byte == 0))
}

/// Whether a greeting of at least 13 bytes is of ZMTP 2.0, by its revision or because it has no
/// mechanism: current libzmq announces 3 to peers of 2.0, too (`zmtp` 13.1).
fn is_of_2(first: &[u8]) -> bool {
    matches!(first.get(10), Some(1 | 2)) || first.get(12) == Some(&0)
}

/// The greeting of one side and its length; `None`: more bytes are needed.
pub(super) fn greeting(first: &[u8]) -> Option<(Result<Said>, usize)> {
    let generation = match ZmtpGeneration::detect(first) {
        Some(ZmtpGeneration::V3) if first.len() > 12 && is_of_2(first) => Some(ZmtpGeneration::V2),
        generation => generation,
    };
    Some(match generation {
        None => return None,
        Some(ZmtpGeneration::V3) if first.len() < Greeting::LEN => return None,
        Some(ZmtpGeneration::V3) => {
            let greeting = Greeting::decode(&mut Reader::new(&Bytes::copy_from_slice(first)));
            (greeting.map(Said::Greeting), Greeting::LEN)
        }
        Some(ZmtpGeneration::V2) => {
            let first = Bytes::copy_from_slice(first);
            let mut r = Reader::new(&first);
            match Greeting2::decode(&mut r) {
                Err(DecodeError { kind: DecodeErrorKind::Truncated { .. }, .. }) => return None,
                greeting => (greeting.map(Said::Greeting2), r.offset()),
            }
        }
        Some(ZmtpGeneration::V1 | ZmtpGeneration::Revision0) => {
            let value = first[0].into();
            let kind = DecodeErrorKind::Illegal { value };
            (Err(DecodeError { reading: "greeting signature", offset: 0, kind }), 0)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zwire_proto::zmtp::wire::Mechanism;

    #[test]
    fn a_greeting_is_told_from_other_beginnings() {
        let greeting = Greeting::new(Mechanism::CURVE).to_bytes();
        for cut in 0..32 {
            assert_eq!(greets(&greeting[..cut]), None, "{cut}");
        }
        assert_eq!(greets(&greeting), Some(true));
        let old = [&greeting[..10], &[1, 5, 0, 2, b'm', b'e']].concat();
        assert_eq!(greets(&old[..12]), None);
        assert_eq!(greets(&old), Some(true));
        // `zmtp` 13.1: a current ROUTER "SRVID" to a peer of 2.0.
        let new_to_old = [&greeting[..10], &[3, 6, 0, 5], b"SRVID"].concat();
        assert_eq!((greets(&new_to_old[..12]), greets(&new_to_old)), (None, Some(true)));
        let changed = |at: usize, value| {
            let mut other = greeting;
            other[at] = value;
            greets(&other)
        };
        for (at, value) in [(0, 0xfe), (9, 0x00), (9, 0x7e), (10, 0), (12, b'c'), (31, b'x')] {
            assert_eq!(changed(at, value), Some(false), "{at}");
        }
        assert_eq!(changed(1, 1), Some(true), "padding");
        assert_eq!(greets(b"GET / HTTP/1.1"), Some(false));
    }
}
