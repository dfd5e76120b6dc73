//! [`Text`]: UTF-8 stored inline, or sharing the buffer it arrived in.

use bytes::Bytes;
use core::fmt;

/// Longest text that is stored inline: as large as fits in one word more than [`Bytes`] has, beside its
/// niche. Most keys of real networks are this short.
const IN_PLACE: usize = 31;

/// An immutable UTF-8 string. Cloning never copies heap memory.
///
/// A short text is stored inline: it costs no reference count, and a key kept in a table does not keep
/// the receive buffer it came in alive. A longer one shares the buffer.
#[derive(Clone)]
pub struct Text(Repr);

#[derive(Clone)]
enum Repr {
    InPlace(Short),
    Shared(Bytes),
}

/// Words, not bytes: texts are moved often, and reading whole words from memory that was written in
/// smaller pieces is slow.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Short {
    /// The text, zeros, and its length in the last byte.
    raw: [u8; IN_PLACE + 1],
}

impl Short {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.raw[..usize::from(self.raw[IN_PLACE])]
    }
}

const _: () =
    assert!(size_of::<Text>() == size_of::<Short>() + 8 && size_of::<Bytes>() <= size_of::<Short>());

impl Text {
    /// The empty text.
    pub const EMPTY: Self = Self(Repr::InPlace(Short { raw: [0; IN_PLACE + 1] }));

    /// A text over static memory.
    #[must_use]
    pub const fn from_static(s: &'static str) -> Self {
        Self(Repr::Shared(Bytes::from_static(s.as_bytes())))
    }

    /// Checks that `bytes` are UTF-8 and keeps them.
    ///
    /// # Errors
    /// The bytes that are not UTF-8.
    pub fn from_utf8(bytes: Bytes) -> Result<Self, Bytes> {
        match core::str::from_utf8(&bytes) {
            Ok(_) => Ok(match Self::in_place(&bytes) {
                Some(text) => text,
                None => Self(Repr::Shared(bytes)),
            }),
            Err(_) => Err(bytes),
        }
    }

    /// Makes a text of `part`, which lies at `offset` of `buf` and was checked to be UTF-8.
    #[inline]
    pub(crate) fn of_checked(buf: &Bytes, offset: usize, part: &[u8]) -> Self {
        match Self::in_place(part) {
            Some(text) => text,
            None => Self(Repr::Shared(buf.slice(offset..offset + part.len()))),
        }
    }

    /// Stores `bytes`, already checked to be UTF-8, inline; `None` if they are too long.
    #[inline]
    fn in_place(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::EMPTY);
        }
        if bytes.len() > IN_PLACE {
            return None;
        }
        let mut words = [0; (IN_PLACE + 1) / 8];
        for (word, part) in words.iter_mut().zip(bytes.chunks(8)) {
            *word = word_of(part);
        }
        words[IN_PLACE / 8] |= (bytes.len() as u64) << 56;
        let mut raw = [0; IN_PLACE + 1];
        for (part, word) in raw.as_chunks_mut().0.iter_mut().zip(words) {
            *part = word.to_le_bytes();
        }
        Some(Self(Repr::InPlace(Short { raw })))
    }

    /// The text as a string slice.
    #[must_use]
    #[inline]
    #[allow(unsafe_code, reason = "every constructor has checked that the bytes are UTF-8")]
    pub fn as_str(&self) -> &str {
        let bytes = match &self.0 {
            Repr::InPlace(short) => short.bytes(),
            Repr::Shared(bytes) => &bytes[..],
        };
        // SAFETY: the field is private, immutable, and was checked by each constructor.
        unsafe { core::str::from_utf8_unchecked(bytes) }
    }

    /// The bytes; shared with the text unless it is stored inline.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Repr::InPlace(short) => Bytes::copy_from_slice(short.bytes()),
            Repr::Shared(bytes) => bytes,
        }
    }

    /// A part of the text; a long one shares its memory.
    ///
    /// # Panics
    /// If `part` is not a slice of `self`.
    #[must_use]
    pub fn slice_ref(&self, part: &str) -> Self {
        if let Some(text) = Self::in_place(part.as_bytes()) {
            return text;
        }
        match &self.0 {
            Repr::Shared(bytes) => Self(Repr::Shared(bytes.slice_ref(part.as_bytes()))),
            Repr::InPlace(..) => panic!("the part is longer than the text"),
        }
    }
}

/// Up to eight bytes, padded with zeros. A copy of variable length would be a function call, and
/// reading a whole word that was written in pieces is slow.
#[inline]
fn word_of(bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.first_chunk() {
        return u64::from_le_bytes(*eight);
    }
    match (bytes.first_chunk(), bytes.last_chunk()) {
        // For lengths between four and eight the two halves overlap and agree in the middle.
        (Some(first), Some(last)) => {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            u64::from(first) | u64::from(last) << (8 * (bytes.len() - 4))
        }
        _ => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::EMPTY
    }
}
impl PartialEq for Text {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            // Fixed length, which needs no call; the bytes behind a text are zeros.
            (Repr::InPlace(one), Repr::InPlace(other)) => one.raw == other.raw,
            _ => self.as_str() == other.as_str(),
        }
    }
}
/// Implements for a type with `as_str` the traits that let it stand for a string slice. Order and hash are
/// those of `str`, which `Borrow` demands.
macro_rules! stands_for_str {
    ($type:ty) => {
        impl Eq for $type {}
        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Ord for $type {
            fn cmp(&self, other: &Self) -> core::cmp::Ordering {
                self.as_str().cmp(other.as_str())
            }
        }
        impl core::hash::Hash for $type {
            fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
                self.as_str().hash(state);
            }
        }
        impl core::ops::Deref for $type {
            type Target = str;
            fn deref(&self) -> &str {
                self.as_str()
            }
        }
        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }
        impl core::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }
        impl PartialEq<str> for $type {
            fn eq(&self, other: &str) -> bool {
                self.as_str() == other
            }
        }
        impl PartialEq<&str> for $type {
            fn eq(&self, other: &&str) -> bool {
                self.as_str() == *other
            }
        }
        impl core::fmt::Debug for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Debug::fmt(self.as_str(), f)
            }
        }
    };
}
pub(crate) use stands_for_str;

stands_for_str!(Text);
impl From<String> for Text {
    fn from(s: String) -> Self {
        match Self::in_place(s.as_bytes()) {
            Some(text) => text,
            None => Self(Repr::Shared(Bytes::from(s))),
        }
    }
}
impl From<&str> for Text {
    fn from(s: &str) -> Self {
        match Self::in_place(s.as_bytes()) {
            Some(text) => text,
            None => Self(Repr::Shared(Bytes::copy_from_slice(s.as_bytes()))),
        }
    }
}
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cmp::Ordering;

    #[test]
    fn short_texts_stand_in_place_and_long_ones_share() {
        for len in [0, 1, IN_PLACE - 1, IN_PLACE, IN_PLACE + 1, 1000] {
            let bytes = Bytes::from("k".repeat(len));
            let text = Text::from_utf8(bytes.clone()).unwrap();
            assert_eq!(text.as_str().len(), len);
            let shares = text.as_ptr() == bytes.as_ptr();
            assert_eq!(shares, len > IN_PLACE, "{len}");
            assert_eq!(text.clone().into_bytes(), bytes);
            assert_eq!(Text::from("k".repeat(len)), text);
            assert_eq!(Text::from("k".repeat(len).as_str()), text);
        }
    }

    #[test]
    fn texts_of_each_length_stay_what_they_are() {
        let alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGH";
        for len in 0..=IN_PLACE + 1 {
            let text = Text::from(&alphabet[..len]);
            assert_eq!(text.as_str(), &alphabet[..len]);
            assert_eq!(text, Text::from_static(&alphabet[..len]));
            let next = Text::from(&alphabet[1..=len]);
            assert_eq!(text == next, len == 0);
        }
    }

    #[test]
    fn where_the_bytes_stand_does_not_matter() {
        let (static_, in_place) = (Text::from_static("a/b"), Text::from("a/b"));
        assert_eq!(static_, in_place);
        assert_eq!(static_.cmp(&in_place), Ordering::Equal);
        let (long, short) = (Text::from("é".repeat(20)), Text::from("e"));
        assert_eq!(long.cmp(&short), Ordering::Greater);
        assert_eq!(static_.cmp(&short), Ordering::Less);
        let hash = |text: &Text| {
            std::hash::BuildHasher::hash_one(
                &std::hash::BuildHasherDefault::<std::collections::hash_map::DefaultHasher>::default(),
                text,
            )
        };
        assert_eq!(hash(&static_), hash(&in_place));
    }

    #[test]
    fn parts() {
        let text = Text::from("x".repeat(IN_PLACE + 1) + "/" + &"y".repeat(IN_PLACE + 1));
        let (left, right) = text.split_once('/').unwrap();
        assert_eq!(text.slice_ref(right).as_ptr(), right.as_ptr());
        assert_eq!(text.slice_ref(&left[..2]), "xx");
        let short = Text::from("x/y");
        assert_eq!(short.slice_ref(&short[2..]), "y");
        assert_eq!(short.slice_ref(""), Text::EMPTY);
    }

    #[test]
    fn what_is_not_utf8_comes_back() {
        assert_eq!(Text::from_utf8(Bytes::from_static(b"a\xff")), Err(Bytes::from_static(b"a\xff")));
    }
}
