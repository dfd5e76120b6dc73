//! Z85 (RFC 32): the 32 octets of a CURVE key as 40 characters.

const ALPHABET: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// The text of a key.
#[must_use]
pub fn encode_key(key: &[u8; 32]) -> [u8; 40] {
    let mut text = [0; 40];
    for (five, four) in text.chunks_exact_mut(5).zip(key.chunks_exact(4)) {
        let mut value = four.iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
        for digit in five.iter_mut().rev() {
            *digit = ALPHABET[(value % 85) as usize];
            value /= 85;
        }
    }
    text
}

/// The key in a text; `None` if the text is no key.
#[must_use]
pub fn decode_key(text: &[u8]) -> Option<[u8; 32]> {
    let text: &[u8; 40] = text.try_into().ok()?;
    let mut key = [0; 32];
    for (four, five) in key.chunks_exact_mut(4).zip(text.chunks_exact(5)) {
        let mut value = 0_u64;
        for digit in five {
            value = value * 85 + ALPHABET.iter().position(|known| known == digit)? as u64;
        }
        four.copy_from_slice(&u32::try_from(value).ok()?.to_be_bytes());
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `zre` 20.6: the dummy key of octets 20 to 3F.
    #[test]
    fn the_key_of_the_document() {
        let key: [u8; 32] = core::array::from_fn(|i| 0x20 + i as u8);
        let text = encode_key(&key);
        assert_eq!(&text, b"ar.{NbQB=+c[cR@eg&FcfFLssg=mfIi5%2YjuU>)");
        assert_eq!(decode_key(&text), Some(key));
    }

    #[test]
    fn what_is_no_key() {
        assert_eq!(decode_key(&[b'0'; 39]), None);
        assert_eq!(decode_key(&[b'"'; 40]), None);
        // 85^5 - 1 is more than 32 bits hold.
        assert_eq!(decode_key(&[b'#'; 40]), None);
        assert_eq!(decode_key(&encode_key(&[0xff; 32])), Some([0xff; 32]));
        assert_eq!(decode_key(&[b'0'; 40]), Some([0; 32]));
    }
}
