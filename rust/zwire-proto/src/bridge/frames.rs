//! Contents of ZRE, which have frames, as payloads of Zenoh.
//!
//! ```text
//! one frame        the frame itself, zenoh/bytes
//! other numbers    count <z>, and each frame <z> <octets>: zenoh/serialized;zre-frames
//! ```
//!
//! The second is a list of byte strings in the serialization of zenoh-ext. A payload with another encoding is one frame.

use crate::{
    buf::{Reader, put_vle},
    error::Result,
    zenoh::{Encoding, Payload, payload::PayloadParts},
};
use bytes::Bytes;

/// Name of the form behind `zenoh/serialized`.
const SCHEMA: &str = "zre-frames";

/// Most frames of a content: each takes an octet on the wire, and the size of a reference in memory.
pub const MAX_FRAMES: usize = 4096;

/// Encoding of a content that is not one frame.
#[must_use]
pub fn encoding() -> Encoding {
    Encoding::ZENOH_SERIALIZED.with_schema(SCHEMA)
}

/// Makes a payload of a content. Large frames are not copied. `several` is [`encoding`], made once by the caller.
#[must_use]
pub fn join(mut content: Vec<Bytes>, several: &Encoding) -> (Payload, Encoding) {
    if content.len() == 1
        && let Some(frame) = content.pop()
    {
        return (frame.into(), Encoding::DEFAULT);
    }
    let mut parts = PayloadParts::default();
    let mut length = Vec::with_capacity(10);
    put_vle(&mut length, content.len() as u64);
    parts.copy(&length);
    for frame in content {
        length.clear();
        put_vle(&mut length, frame.len() as u64);
        parts.copy(&length);
        parts.push(frame);
    }
    (parts.finish(), several.clone())
}

/// Frames of a payload, which share its memory.
///
/// # Errors
/// The encoding says that it has several frames, and it does not.
pub fn split(payload: Payload, encoding: &Encoding) -> Result<Vec<Bytes>> {
    let several = encoding.id == Encoding::ZENOH_SERIALIZED.id
        && encoding.schema.as_ref().is_some_and(|schema| ***schema == *SCHEMA.as_bytes());
    let raw = payload.into_bytes();
    if !several {
        return Ok(vec![raw]);
    }
    let mut r = Reader::new(&raw);
    let count = r.count(MAX_FRAMES, "number of frames")?;
    let frames: Result<Vec<_>> = (0..count).map(|_| r.zbytes(raw.len() as u64, "frame")).collect();
    r.finish("frames")?;
    frames
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn octets_by_hand() {
        let several = encoding();
        assert_eq!(several.to_string(), "zenoh/serialized;zre-frames");
        let (payload, same) = join(vec![Bytes::from_static(b"one")], &several);
        assert_eq!((&payload[..], same), (&b"one"[..], Encoding::DEFAULT));
        let (payload, same) = join(Vec::new(), &several);
        assert_eq!((&payload[..], &same), (&b"\0"[..], &several));
        let (payload, _) = join(vec![Bytes::from_static(b"ab"), Bytes::new()], &several);
        assert_eq!(&payload[..], b"\x02\x02ab\0");
    }

    #[test]
    fn other_encodings_are_one_frame() {
        for text in ["zenoh/bytes", "text/plain", "zenoh/serialized", "zenoh/serialized;other"] {
            let frames = split(Payload::from(Bytes::from_static(b"\x02\x02ab")), &Encoding::from_text(text));
            assert_eq!(frames, Ok(vec![Bytes::from_static(b"\x02\x02ab")]), "{text}");
        }
    }

    #[test]
    fn false_lengths_are_refused() {
        for raw in [&b""[..], b"\x01", b"\x01\x05ab", b"\x01\x01ab", b"\xff\xff\xff\xff\x0f", b"\x81\x20"] {
            assert!(split(Payload::from(Bytes::from_static(raw)), &encoding()).is_err(), "{raw:?}");
        }
    }

    proptest! {
        #[test]
        fn contents_come_back(content in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..6)) {
            let content: Vec<Bytes> = content.into_iter().map(Bytes::from).collect();
            let (payload, encoding) = join(content.clone(), &encoding());
            prop_assert_eq!(split(payload, &encoding), Ok(content));
        }
    }
}
