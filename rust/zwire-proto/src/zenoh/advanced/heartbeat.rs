//! Heartbeat of a publisher: the number of its last publication.
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! ~   number      ~  u32, lowest byte first
//! +---------------+
//! ```

use bytes::Bytes;

/// The payload of a heartbeat.
#[must_use]
pub fn encode_heartbeat(last: u32) -> Bytes {
    Bytes::copy_from_slice(&last.to_le_bytes())
}

/// The number in a heartbeat. A payload of any length but four bytes is none.
#[must_use]
pub fn decode_heartbeat(payload: &[u8]) -> Option<u32> {
    payload.try_into().ok().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bytes_and_nothing_else() {
        // Heartbeat of eclipse-zenoh 1.10 after its fifth publication.
        assert_eq!(decode_heartbeat(b"\x04\0\0\0"), Some(4));
        assert_eq!(&encode_heartbeat(4)[..], b"\x04\0\0\0");
        for number in [0, 1, 0xff, 0x0100, u32::MAX] {
            assert_eq!(decode_heartbeat(&encode_heartbeat(number)), Some(number));
        }
        for payload in [&b""[..], b"\x04", b"\x04\0\0", b"\x04\0\0\0\0", b"\x04\0\0\0\0\0\0\0"] {
            assert_eq!(decode_heartbeat(payload), None, "{payload:?}");
        }
    }
}
