//! Selectors: a key expression and parameters (`zenoh-wire` 6.6).

mod parameters;
mod time_range;

use core::{fmt, str::FromStr};

use super::{KeyExpr, keyexpr::KeyExprError};
use crate::Text;

pub use parameters::Parameters;
pub use time_range::{TimeExpr, TimeRange, TimeRangeError};

/// Selector of a query: `key?parameters`. On the wire the two travel apart, without the `?`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// Key expression to query.
    pub key: KeyExpr,
    /// Further information for the queryable.
    pub parameters: Parameters,
}

impl Selector {
    /// A selector of its two parts.
    #[must_use]
    pub fn new(key: KeyExpr, parameters: Parameters) -> Self {
        Self { key, parameters }
    }

    /// Parses `key?parameters`, split at the first `?`, without copying. The key is not canonised.
    ///
    /// # Errors
    /// Error of the key.
    pub fn from_text(text: impl Into<Text>) -> Result<Self, KeyExprError> {
        let text = text.into();
        let Some((key, parameters)) = text.split_once('?') else {
            return Ok(Self::from(KeyExpr::from_text(text)?));
        };
        let key = KeyExpr::from_text(text.slice_ref(key))?;
        Ok(Self { key, parameters: Parameters::new(text.slice_ref(parameters)) })
    }
}

impl From<KeyExpr> for Selector {
    fn from(key: KeyExpr) -> Self {
        Self { key, parameters: Parameters::default() }
    }
}
impl FromStr for Selector {
    type Err = KeyExprError;
    fn from_str(text: &str) -> Result<Self, KeyExprError> {
        Self::from_text(text)
    }
}
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if self.parameters.is_empty() { Ok(()) } else { write!(f, "?{}", self.parameters) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zenoh::keyexpr::KeyExprRule;

    #[test]
    fn the_first_question_mark_splits() {
        for (text, key, parameters, shown) in [
            ("a/b", "a/b", "", "a/b"),
            ("a/b?", "a/b", "", "a/b"),
            ("a/b?x=1?y", "a/b", "x=1?y", "a/b?x=1?y"),
            ("a?;b", "a", ";b", "a?;b"),
            ("a?b=1;", "a", "b=1", "a?b=1"),
            ("a/**?_time=[now(-1h)..]", "a/**", "_time=[now(-1h)..]", "a/**?_time=[now(-1h)..]"),
        ] {
            let selector: Selector = text.parse().unwrap();
            assert_eq!(selector.key, key);
            assert_eq!(selector.parameters.as_str(), parameters);
            assert_eq!(selector.to_string(), shown);
            assert_eq!(selector.to_string().parse(), Ok(selector));
        }
        let plain: Selector = "a/b".parse().unwrap();
        assert_eq!("a/b?".parse(), Ok(plain));
    }

    #[test]
    fn the_key_has_to_be_canonical() {
        for (text, rule, offset) in [
            ("?x", KeyExprRule::Empty, 0),
            ("", KeyExprRule::Empty, 0),
            ("a/**/**?x", KeyExprRule::DoubleStarTwice, 5),
            ("a#b?x", KeyExprRule::Reserved, 1),
        ] {
            assert_eq!(text.parse::<Selector>(), Err(KeyExprError { rule, offset }), "{text}");
        }
    }
}
