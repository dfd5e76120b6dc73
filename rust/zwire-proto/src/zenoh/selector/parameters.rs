//! Parameters: `name=value;name=value|value;name`.

use core::fmt;

use super::{TimeRange, TimeRangeError};
use crate::Text;

const BETWEEN_ITEMS: char = ';';
const BEFORE_VALUE: char = '=';
const BETWEEN_VALUES: char = '|';

/// The parameters of a query, in the order in which they were written.
///
/// There is no quoting, no escaping, no percent decoding and no trimming of spaces; `&` is an ordinary
/// character. Empty items are skipped, the first of several items with one name counts, and a
/// missing `=` means an empty value. Two of these are equal when their texts are.
///
/// A name that starts with `_` belongs to Zenoh, any other one to the application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parameters(Text);

impl Parameters {
    /// The name of a time range.
    pub const TIME: &'static str = "_time";
    /// The name of the item, without a value, that accepts replies on any key.
    pub const ANY_KEY: &'static str = "_anyke";

    /// From their text, without copying. Any text is valid; `;`, `=` and `|` at its end are cut.
    #[must_use]
    pub fn new(text: impl Into<Text>) -> Self {
        let text = text.into();
        let kept = text.trim_end_matches([BETWEEN_ITEMS, BEFORE_VALUE, BETWEEN_VALUES]);
        if kept.len() == text.len() { Self(text) } else { Self(text.slice_ref(kept)) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, shareable.
    #[must_use]
    pub fn text(&self) -> &Text {
        &self.0
    }

    /// Whether there are no parameters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values in the order of the text. A name that occurs several times comes several times.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> + Clone {
        let items = self.0.split(BETWEEN_ITEMS).filter(|item| !item.is_empty());
        items.map(|item| item.split_once(BEFORE_VALUE).unwrap_or((item, "")))
    }

    /// The value of `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find_map(|(other, value)| (other == name).then_some(value))
    }

    /// The value of `name`, split at each `|`; empty if there is no such name.
    pub fn values(&self, name: &str) -> impl DoubleEndedIterator<Item = &str> + Clone {
        self.get(name).into_iter().flat_map(|value| value.split(BETWEEN_VALUES))
    }

    /// Whether there is an item with this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether the names are in alphabetical order.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.iter().map(|(name, _)| name).is_sorted()
    }

    /// Whether there is an item and none has an empty name.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        !self.is_empty() && self.iter().all(|(name, _)| !name.is_empty())
    }

    /// Removes all items called `name`, then adds a new one at the end. Returns the previous value.
    /// Both are written verbatim: separators in them make further items.
    pub fn insert(&mut self, name: &str, value: &str) -> Option<Text> {
        let old = self.get(name).map(|old| self.0.slice_ref(old));
        self.0 = write(self.iter().filter(|(other, _)| *other != name).chain([(name, value)]));
        old
    }

    /// Removes all items called `name`. Returns the previous value.
    pub fn remove(&mut self, name: &str) -> Option<Text> {
        let old = self.get(name).map(|old| self.0.slice_ref(old))?;
        self.0 = write(self.iter().filter(|(other, _)| *other != name));
        Some(old)
    }

    /// Removes all items with names that occur in `others`, then appends those.
    pub fn extend(&mut self, others: &Self) {
        if !others.is_empty() {
            self.0 = write(self.iter().filter(|(name, _)| !others.contains(name)).chain(others.iter()));
        }
    }

    /// The time range of the query.
    ///
    /// # Errors
    /// An invalid `_time`.
    pub fn time_range(&self) -> Result<Option<TimeRange>, TimeRangeError> {
        self.get(Self::TIME).map(str::parse).transpose()
    }

    /// Sets `_time`, or removes it.
    pub fn set_time_range(&mut self, range: Option<&TimeRange>) {
        match range {
            Some(range) => self.insert(Self::TIME, &range.to_string()),
            None => self.remove(Self::TIME),
        };
    }

    /// Whether replies on any key are accepted, not only on keys that the query selects.
    #[must_use]
    pub fn accepts_any_key(&self) -> bool {
        self.contains(Self::ANY_KEY)
    }

    /// Sets `_anyke`, or removes it.
    pub fn set_accepts_any_key(&mut self, accepts: bool) {
        if !accepts {
            self.remove(Self::ANY_KEY);
        } else if !self.accepts_any_key() {
            self.insert(Self::ANY_KEY, "");
        }
    }
}

/// Text of the items; one without a name is left out.
fn write<'a>(items: impl Iterator<Item = (&'a str, &'a str)>) -> Text {
    let mut text = String::new();
    for (name, value) in items.filter(|(name, _)| !name.is_empty()) {
        if !text.is_empty() {
            text.push(BETWEEN_ITEMS);
        }
        text.push_str(name);
        if !value.is_empty() {
            text.push(BEFORE_VALUE);
            text.push_str(value);
        }
    }
    text.into()
}

impl<'a> FromIterator<(&'a str, &'a str)> for Parameters {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(items: I) -> Self {
        Self(write(items.into_iter()))
    }
}
impl<T: Into<Text>> From<T> for Parameters {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}
impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(parameters: &Parameters) -> Vec<(&str, &str)> {
        parameters.iter().collect()
    }

    #[test]
    fn table_of_the_document() {
        let parameters = Parameters::from("a=1;b;c=2=3;a=4");
        assert_eq!(parameters.get("a"), Some("1"));
        assert_eq!(parameters.get("b"), Some(""));
        assert_eq!(parameters.get("c"), Some("2=3"));
        assert_eq!(parameters.get("d"), None);
        assert_eq!(items(&parameters), [("a", "1"), ("b", ""), ("c", "2=3"), ("a", "4")]);

        assert_eq!(items(&"a=1;;b=2;".into()), [("a", "1"), ("b", "2")]);

        let list = Parameters::from("a=1|2|3");
        assert_eq!(list.get("a"), Some("1|2|3"));
        assert_eq!(list.values("a").collect::<Vec<_>>(), ["1", "2", "3"]);
        assert_eq!(list.values("b").count(), 0);

        assert_eq!(items(&"a=1&b=2".into()), [("a", "1&b=2")]);
        assert_eq!(items(&" a = 1 ".into()), [(" a ", " 1 ")]);
        assert_eq!(items(&"a%20b=c%3Bd".into()), [("a%20b", "c%3Bd")]);
    }

    #[test]
    fn the_end_is_cut_as_in_the_reference() {
        for (text, kept) in [
            ("a=1;;b=2;", "a=1;;b=2"),
            ("a=1;=", "a=1"),
            ("a=|", "a"),
            ("a=1|", "a=1"),
            ("a;|", "a"),
            ("a=1;b==", "a=1;b"),
            ("a=", "a"),
            (";a=1", ";a=1"),
            ("a=||1", "a=||1"),
            (";;;", ""),
            ("", ""),
        ] {
            assert_eq!(Parameters::from(text).as_str(), kept, "{text}");
        }
        assert_eq!(Parameters::from("a=").values("a").collect::<Vec<_>>(), [""]);
        assert_eq!(Parameters::from("a=||1").values("a").collect::<Vec<_>>(), ["", "", "1"]);
    }

    #[test]
    fn empty_names_are_kept_but_not_well_formed() {
        assert_eq!(items(&"=x".into()), [("", "x")]);
        assert_eq!(items(&"=;a=1".into()), [("", ""), ("a", "1")]);
        assert!(!Parameters::from("=x").is_well_formed());
        assert!(!Parameters::from("").is_well_formed());
        assert!(Parameters::from("x").is_well_formed());
    }

    #[test]
    fn changes_of_the_reference() {
        // Text; after inserting a=9, z=9, an empty z; after removing a, q; after extending by a=7;n=8.
        for (text, a9, z9, z, without_a, without_q, extended) in [
            (
                "a=1;b=2;a=3",
                "b=2;a=9",
                "a=1;b=2;a=3;z=9",
                "a=1;b=2;a=3;z",
                "b=2",
                "a=1;b=2;a=3",
                "b=2;a=7;n=8",
            ),
            ("", "a=9", "z=9", "z", "", "", "a=7;n=8"),
            ("a=1", "a=9", "a=1;z=9", "a=1;z", "", "a=1", "a=7;n=8"),
            ("x;a=1;y=2", "x;y=2;a=9", "x;a=1;y=2;z=9", "x;a=1;y=2;z", "x;y=2", "x;a=1;y=2", "x;y=2;a=7;n=8"),
        ] {
            let changed = |change: &dyn Fn(&mut Parameters) -> Option<Text>| {
                let mut parameters = Parameters::from(text);
                let old = change(&mut parameters);
                (old, parameters.as_str().to_owned())
            };
            let old = Parameters::from(text).get("a").map(Text::from);
            assert_eq!(changed(&|p| p.insert("a", "9")), (old.clone(), a9.into()));
            assert_eq!(changed(&|p| p.insert("z", "9")), (None, z9.into()));
            assert_eq!(changed(&|p| p.insert("z", "")), (None, z.into()));
            assert_eq!(changed(&|p| p.remove("a")), (old, without_a.into()));
            assert_eq!(changed(&|p| p.remove("q")), (None, without_q.into()));
            let extend = |p: &mut Parameters| {
                p.extend(&"a=7;n=8".into());
                None
            };
            assert_eq!(changed(&extend), (None, extended.into()));
        }
        let mut parameters = Parameters::from("a=1");
        assert_eq!(parameters.insert("", "v"), None);
        assert_eq!(parameters.as_str(), "a=1");
    }

    #[test]
    fn order_and_equality() {
        assert!(Parameters::from("a=1;b;b;c").is_ordered());
        assert!(Parameters::from("").is_ordered());
        assert!(!Parameters::from("b;a").is_ordered());
        assert_ne!(Parameters::from("a=1;b=2"), Parameters::from("b=2;a=1"));
        let made: Parameters = [("b", "1"), ("a", ""), ("", "x"), ("c", "2|3")].into_iter().collect();
        assert_eq!(made.as_str(), "b=1;a;c=2|3");
    }

    #[test]
    fn names_of_zenoh() {
        let mut parameters = Parameters::from("x=1;_anyke");
        assert!(parameters.accepts_any_key());
        parameters.set_accepts_any_key(true);
        assert_eq!(parameters.as_str(), "x=1;_anyke");
        parameters.set_accepts_any_key(false);
        assert_eq!(parameters.as_str(), "x=1");
        parameters.set_accepts_any_key(true);
        assert_eq!(parameters.as_str(), "x=1;_anyke");

        assert_eq!(parameters.time_range(), Ok(None));
        let range = "[now(-1h)..]".parse().unwrap();
        parameters.set_time_range(Some(&range));
        assert_eq!(parameters.as_str(), "x=1;_anyke;_time=[now(-3600s)..]");
        assert_eq!(parameters.time_range(), Ok(Some(range)));
        parameters.set_time_range(None);
        assert_eq!(parameters.as_str(), "x=1;_anyke");
        // The duration form holds the separator of items, so that only its head arrives.
        assert!(Parameters::from("_time=[now();1h]").time_range().is_err());
    }

    #[test]
    fn texts_are_shared() {
        let text = Text::from("a=1;b=2;name=a-value-of-some-length;;");
        assert_eq!(Parameters::new(text.clone()).as_str().as_ptr(), text.as_ptr());
    }
}
