//! Key expressions (`zenoh-wire` 6.1 to 6.4): `/`-separated chunks, some of them wild.
//!
//! | Chunk | Stands for |
//! | --- | --- |
//! | `*` | exactly one chunk that is not verbatim |
//! | `**` | any number of chunks, also none, none of them verbatim |
//! | `a$*b` | one chunk in which `$*` is any run of bytes, also an empty one |
//! | `@a` | "verbatim": only itself; no wildcard of any kind matches it |
//!
//! Keys on the wire must be canonical; a [`KeyExpr`] always is. All functions here are iterative and
//! take at most time proportional to the product of the two lengths, because the texts come from peers.

mod canon;
mod glob;
mod include;
mod intersect;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod model;
#[cfg(test)]
mod tests;

use core::{fmt, str::FromStr};
use thiserror::Error;

use crate::{Text, text::stands_for_str};

pub use canon::{canonize, validate};
pub use include::includes;
pub use intersect::intersects;

/// A canonical key expression.
///
/// Cloning copies nothing, and a key made of a [`Text`] shares its memory. Two of them are equal when
/// they denote the same set of keys, which is when their texts are equal.
#[derive(Clone)]
pub struct KeyExpr {
    text: Text,
    /// Whether `text` contains a `*`; found while validating, used for each match.
    wild: bool,
}

impl KeyExpr {
    /// Checks that `text` is a canonical key expression and keeps it.
    ///
    /// # Errors
    /// The first rule that `text` breaks and where.
    pub fn new(text: impl Into<Text>) -> Result<Self, KeyExprError> {
        Self::from_text(text.into())
    }

    /// Same as [`Self::new`], for an existing [`Text`].
    ///
    /// # Errors
    /// The first rule that `text` breaks and where.
    pub fn from_text(text: Text) -> Result<Self, KeyExprError> {
        let wild = validate(&text)?;
        Ok(Self { text, wild })
    }

    /// Canonises `text`, then checks it. A text that is already canonical is not copied.
    ///
    /// # Errors
    /// The first rule that the canonised text breaks and where; the offset counts in that text.
    pub fn autocanonize(text: impl Into<Text>) -> Result<Self, KeyExprError> {
        let text = text.into();
        match validate(&text) {
            Ok(wild) => Ok(Self { text, wild }),
            Err(_) => Self::from_text(canonize(&text).into()),
        }
    }

    /// The canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.text.as_str()
    }

    /// The canonical text, shareable.
    #[must_use]
    pub fn text(&self) -> &Text {
        &self.text
    }

    /// Converts into the canonical text.
    #[must_use]
    pub fn into_text(self) -> Text {
        self.text
    }

    /// A copy in memory of its own. A received key shares the memory of the whole receive buffer, and
    /// would keep it alive.
    #[must_use]
    pub fn unshared(&self) -> Self {
        Self { text: Text::from(self.as_str()), wild: self.wild }
    }

    /// Whether there is a key that both match. Symmetric.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        if self.wild || other.wild { intersects(self, other) } else { self.text == other.text }
    }

    /// Whether `self` matches every key that `other` matches.
    ///
    /// As in Eclipse Zenoh this is decided chunk by chunk and errs on the side of `false`: `*/**` is
    /// not found to include `**/a`.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        if self.wild { includes(self, other) } else { self.text == other.text }
    }

    /// Relation of the keys of `self` to those of `other`, seen from `self`.
    #[must_use]
    pub fn relation_to(&self, other: &Self) -> SetIntersectionLevel {
        if self == other {
            SetIntersectionLevel::Equals
        } else if self.includes(other) {
            SetIntersectionLevel::Includes
        } else if self.intersects(other) {
            SetIntersectionLevel::Intersects
        } else {
            SetIntersectionLevel::Disjoint
        }
    }

    /// `self/tail`, canonised: `**` joined with `**` is `**`.
    ///
    /// # Errors
    /// The first rule that the result breaks and where; the offset counts in the result.
    pub fn join(&self, tail: &str) -> Result<Self, KeyExprError> {
        let mut text = String::with_capacity(self.len() + 1 + tail.len());
        text.push_str(self);
        text.push('/');
        text.push_str(tail);
        Self::autocanonize(text)
    }

    /// Concatenates `self` and `tail`, without a `/` in between and without canonising.
    ///
    /// # Errors
    /// A `*` directly behind a `*`, even where the result would be legal (`a/*` and `*` would give
    /// `a/**`): it is hardly ever intended. Otherwise the first rule that the result breaks.
    pub fn concat(&self, tail: &str) -> Result<Self, KeyExprError> {
        if self.ends_with('*') && tail.starts_with('*') {
            return Err(KeyExprError { rule: KeyExprRule::StarMeetsStar, offset: self.len() });
        }
        let mut text = String::with_capacity(self.len() + tail.len());
        text.push_str(self);
        text.push_str(tail);
        Self::new(text)
    }

    /// Whether the text contains a `*`. A verbatim chunk such as `@$*` counts, as in Eclipse Zenoh.
    #[must_use]
    pub fn is_wild(&self) -> bool {
        self.wild
    }

    /// The longest run of whole chunks at the start without a wildcard: `k/s` of `k/s/*` and of
    /// `k/s/a$*`, all of `k/s`, nothing of `*/s`.
    #[must_use]
    pub fn non_wild_prefix(&self) -> Option<&str> {
        let Some(star) = self.find('*') else { return Some(self) };
        self[..star].rfind('/').map(|slash| &self[..slash])
    }
}

/// Relation between the keys of two key expressions. Each level implies the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SetIntersectionLevel {
    /// No key in common.
    Disjoint,
    /// Some keys in common.
    Intersects,
    /// All keys of the other one.
    Includes,
    /// The same keys.
    Equals,
}

/// Reason why a text is not a canonical key expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error("{rule} (at byte {offset})")]
pub struct KeyExprError {
    /// The rule that is broken.
    pub rule: KeyExprRule,
    /// Offset of the byte that breaks it.
    pub offset: usize,
}

/// The rules of a canonical key expression (`zenoh-wire` 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum KeyExprRule {
    /// The text is empty.
    #[error("a key expression is not empty")]
    Empty,
    /// A `/` at the start, at the end, or after another.
    #[error("a key expression has no empty chunk: no `/` at the start, at the end or after another")]
    EmptyChunk,
    /// `#` or `?`.
    #[error("a key expression holds neither `#` nor `?`")]
    Reserved,
    /// A `*` that is neither `*`, nor `**`, nor part of `$*`.
    #[error("`*` stands only for a whole chunk, as `*` or `**`, or after `$`")]
    Star,
    /// A `$` that does not open `$*`.
    #[error("`$` is only allowed in `$*`")]
    Dollar,
    /// `$*$*` instead of `$*`.
    #[error("`$*$*` is written `$*`")]
    DollarStarTwice,
    /// A whole chunk `$*` instead of `*`.
    #[error("a chunk `$*` is written `*`")]
    DollarStarAlone,
    /// `**/**` instead of `**`.
    #[error("`**/**` is written `**`")]
    DoubleStarTwice,
    /// `**/*` instead of `*/**`.
    #[error("`**/*` is written `*/**`")]
    StarAfterDoubleStar,
    /// Two key expressions were concatenated with a `*` directly behind a `*`.
    #[error("`*` directly after `*` is probably a mistake; join with `/` or build the text yourself")]
    StarMeetsStar,
    /// Longer than [`MAX_KEYEXPR_LEN`](crate::limits::MAX_KEYEXPR_LEN).
    #[error("a key expression has at most 65535 bytes")]
    TooLong,
}

impl PartialEq for KeyExpr {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
stands_for_str!(KeyExpr);

impl FromStr for KeyExpr {
    type Err = KeyExprError;
    fn from_str(s: &str) -> Result<Self, KeyExprError> {
        // Fails before it copies.
        let wild = validate(s)?;
        Ok(Self { text: s.into(), wild })
    }
}
impl TryFrom<Text> for KeyExpr {
    type Error = KeyExprError;
    fn try_from(text: Text) -> Result<Self, KeyExprError> {
        Self::from_text(text)
    }
}
impl TryFrom<String> for KeyExpr {
    type Error = KeyExprError;
    fn try_from(text: String) -> Result<Self, KeyExprError> {
        Self::new(text)
    }
}
impl TryFrom<&str> for KeyExpr {
    type Error = KeyExprError;
    fn try_from(text: &str) -> Result<Self, KeyExprError> {
        text.parse()
    }
}
impl From<KeyExpr> for Text {
    fn from(key: KeyExpr) -> Self {
        key.text
    }
}
impl fmt::Display for KeyExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}
