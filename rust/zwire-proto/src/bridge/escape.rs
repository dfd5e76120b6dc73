//! Names of ZRE as chunks of a key: percent-encoding of the octets that a chunk cannot have.
//!
//! A name without them is its own chunk. The encoding is reversible, and each name has exactly one chunk: an access rule
//! for a chunk cannot be evaded by another spelling of the name.

use core::fmt::Write as _;
use thiserror::Error;

/// Chunk of the empty name; a chunk of a key cannot be empty.
const EMPTY: &str = "%";

/// Error for a chunk that is not the encoding of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the chunk is no encoded name: it has an unexpected escape at offset {offset}")]
pub struct EscapeError {
    /// Offset of the first octet that the encoder does not write.
    pub offset: usize,
}

/// Whether a character has to be encoded wherever it stands.
fn is_special(character: char) -> bool {
    matches!(character, '%' | '/' | '*' | '$' | '?' | '#') || character.is_control()
}

/// Encodes a name as a chunk.
#[must_use]
pub fn escape(name: &[u8]) -> String {
    if name.is_empty() {
        return EMPTY.to_owned();
    }
    let mut chunk = String::with_capacity(name.len());
    let hex = |chunk: &mut String, octets: &[u8]| {
        for octet in octets {
            // Writing to a string cannot fail.
            let _ = write!(chunk, "%{octet:02X}");
        }
    };
    for part in name.utf8_chunks() {
        for character in part.valid().chars() {
            // A chunk that begins with `@` matches no wildcard.
            if is_special(character) || (character == '@' && chunk.is_empty()) {
                hex(&mut chunk, character.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                chunk.push(character);
            }
        }
        hex(&mut chunk, part.invalid());
    }
    chunk
}

/// Decodes a chunk.
///
/// # Errors
/// The chunk is not the encoding of any name.
pub fn unescape(chunk: &str) -> Result<Vec<u8>, EscapeError> {
    if chunk == EMPTY {
        return Ok(Vec::new());
    }
    let mut name = Vec::with_capacity(chunk.len());
    let mut rest = chunk.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            name.push(first);
            rest = tail;
            continue;
        }
        let digit = |at: usize| tail.get(at).and_then(|octet| char::from(*octet).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err(EscapeError { offset: chunk.len() - rest.len() });
        };
        #[allow(clippy::cast_possible_truncation, reason = "two hexadecimal digits")]
        name.push((high << 4 | low) as u8);
        rest = &tail[2..];
    }
    let canonical = escape(&name);
    if canonical == chunk {
        return Ok(name);
    }
    let differs = canonical.bytes().zip(chunk.bytes()).position(|(ours, theirs)| ours != theirs);
    Err(EscapeError { offset: differs.unwrap_or(canonical.len().min(chunk.len())) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zenoh::KeyExpr;
    use proptest::prelude::*;

    /// The rule of `zenoh-services` 7.5, by hand.
    const VECTORS: &[(&[u8], &str)] = &[
        (b"", "%"),
        (b"chat", "chat"),
        (b"%", "%25"),
        (b"a/b", "a%2Fb"),
        (b"*", "%2A"),
        (b"$*", "%24%2A"),
        (b"what?", "what%3F"),
        (b"#1", "%231"),
        (b"@home", "%40home"),
        (b"me@home", "me@home"),
        (b"a b", "a b"),
        (b"line\n", "line%0A"),
        (b"\x00\x7f", "%00%7F"),
        ("grün".as_bytes(), "grün"),
        ("\u{85}".as_bytes(), "%C2%85"),
        (b"\xff\xfe", "%FF%FE"),
        (b"a\xc3", "a%C3"),
        (b"@@", "%40@"),
    ];

    #[test]
    fn names_have_these_chunks() {
        for (name, chunk) in VECTORS {
            assert_eq!(escape(name), *chunk);
            assert_eq!(unescape(chunk).as_deref(), Ok(*name), "{chunk}");
        }
    }

    /// Other spellings would evade access rules.
    #[test]
    fn each_name_has_one_chunk() {
        for (chunk, offset) in [
            ("%63hat", 0),
            ("a%2fb", 3),
            ("%4", 0),
            ("%zz", 0),
            ("a%", 1),
            ("@home", 0),
            ("", 0),
            ("a%20b", 1),
        ] {
            assert_eq!(unescape(chunk), Err(EscapeError { offset }), "{chunk}");
        }
    }

    proptest! {
        #[test]
        fn every_name_is_one_literal_chunk_and_comes_back(name in prop::collection::vec(any::<u8>(), 0..300)) {
            let chunk = escape(&name);
            prop_assert_eq!(unescape(&chunk), Ok(name));
            prop_assert!(!chunk.contains('/'));
            let key = KeyExpr::new(chunk.as_str()).unwrap();
            prop_assert!(!key.is_wild());
            prop_assert!(KeyExpr::new("*").unwrap().includes(&key));
        }

        #[test]
        fn a_chunk_decodes_to_a_name_with_that_chunk(chunk in "[%@a-fA-F0-9é/*]{0,12}") {
            if let Ok(name) = unescape(&chunk) {
                prop_assert_eq!(escape(&name), chunk);
            }
        }
    }
}
