//! Keys of a storage: full on the network, without `strip_prefix` in the volume.

use crate::error::{Error, Result};
use zwire_proto::zenoh::KeyExpr;

/// Key expression of a storage and the prefix that its volume does not store.
#[derive(Clone, Debug)]
pub struct Place {
    key: KeyExpr,
    prefix: Option<KeyExpr>,
}

/// Contiguous keys of a volume: a key and all keys below it, or every key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Key without `/` at its end; `None` for all keys.
    pub root: Option<String>,
}

impl Span {
    /// First key that may belong to the span.
    #[must_use]
    pub fn start(&self) -> &str {
        self.root.as_deref().unwrap_or("")
    }

    /// First key behind the span; `None` if the span is open.
    #[must_use]
    pub fn end(&self) -> Option<String> {
        // The octet behind `/`.
        self.root.as_ref().map(|root| format!("{root}0"))
    }

    /// Whether the key belongs to the span: keys such as `a-b` lie between `a` and `a/b`.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        let Some(root) = &self.root else { return true };
        key.strip_prefix(root.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl Place {
    /// # Errors
    /// A prefix with wildcards, or one that is no prefix of whole chunks of the key expression.
    pub fn new(key: KeyExpr, prefix: Option<KeyExpr>) -> Result<Self> {
        if let Some(prefix) = &prefix {
            let refuse = |problem: String| Error::Setting { path: "strip_prefix".to_owned(), problem };
            if prefix.is_wild() {
                return Err(refuse(format!("{prefix} has a wildcard; a prefix has none")));
            }
            let below = key.strip_prefix(prefix.as_str());
            if !below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
                return Err(refuse(format!(
                    "{prefix} is no prefix, in whole chunks, of the key expression {key}"
                )));
            }
        }
        Ok(Self { key, prefix })
    }

    /// Key expression of the storage.
    #[must_use]
    pub const fn key(&self) -> &KeyExpr {
        &self.key
    }

    /// Prefix that the volume does not store.
    #[must_use]
    pub const fn prefix(&self) -> Option<&KeyExpr> {
        self.prefix.as_ref()
    }

    /// Key in the volume: empty for the prefix itself; `None` for a key of another place.
    #[must_use]
    pub fn strip<'a>(&self, key: &'a str) -> Option<&'a str> {
        let Some(prefix) = &self.prefix else { return Some(key) };
        let rest = key.strip_prefix(prefix.as_str())?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/').filter(|rest| !rest.is_empty()) }
    }

    /// Key on the network.
    ///
    /// # Errors
    /// The stored text is no key.
    pub fn restore(&self, stored: &str) -> Result<KeyExpr> {
        let full = match &self.prefix {
            None => KeyExpr::new(stored),
            Some(prefix) if stored.is_empty() => Ok(prefix.clone()),
            Some(prefix) => KeyExpr::new(format!("{prefix}/{stored}")),
        };
        full.map_err(|error| Error::Volume { action: "name a key", problem: format!("{stored:?}: {error}") })
    }

    /// Key on the network of a stored text, if it is one of this place that a querier has asked for. Other programs and
    /// earlier configurations leave others in a volume.
    #[must_use]
    pub fn restore_of(&self, stored: &str, asked: &KeyExpr) -> Option<KeyExpr> {
        self.restore(stored).ok().filter(|key| key.intersects(asked) && key.intersects(&self.key))
    }

    /// Keys of the volume that a key expression may select.
    #[must_use]
    pub fn span(&self, wanted: &KeyExpr) -> Span {
        let Some(literal) = wanted.non_wild_prefix() else { return Span::default() };
        match self.strip(literal) {
            Some(root) if !root.is_empty() => Span { root: Some(root.to_owned()) },
            _ => Span::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> KeyExpr {
        KeyExpr::new(text).unwrap()
    }

    #[test]
    fn a_prefix_is_stripped_and_restored() {
        let place = Place::new(key("demo/a/**"), Some(key("demo/a"))).unwrap();
        assert_eq!(place.strip("demo/a/b/c"), Some("b/c"));
        assert_eq!(place.strip("demo/a"), Some(""));
        assert_eq!(place.strip("demo/ab"), None);
        assert_eq!(place.restore("b/c").unwrap(), key("demo/a/b/c"));
        assert_eq!(place.restore("").unwrap(), key("demo/a"));
    }

    #[test]
    fn a_prefix_that_is_none_is_refused() {
        for prefix in ["demo/b", "dem", "demo/*"] {
            let refused = Place::new(key("demo/a/**"), Some(key(prefix)));
            assert!(matches!(refused, Err(Error::Setting { .. })), "{prefix}");
        }
    }

    #[test]
    fn a_wildcard_needs_the_keys_below_its_literal_chunks() {
        let bare = Place::new(key("demo/**"), None).unwrap();
        assert_eq!(bare.span(&key("demo/a/*/c")).root.as_deref(), Some("demo/a"));
        assert_eq!(bare.span(&key("**/c")), Span::default());
        let stripped = Place::new(key("demo/**"), Some(key("demo"))).unwrap();
        assert_eq!(stripped.span(&key("demo/a/**")).root.as_deref(), Some("a"));
        assert_eq!(stripped.span(&key("demo/**")), Span::default());
        assert_eq!(stripped.span(&key("*/a")), Span::default());
        let span = Span { root: Some("a".to_owned()) };
        for (text, inside) in [("a", true), ("a/b", true), ("a-b", false), ("ab", false), ("b", false)] {
            assert_eq!(span.contains(text), inside, "{text}");
            let between = text >= span.start() && text < span.end().unwrap().as_str();
            assert!(!inside || between, "{text}");
        }
    }
}
