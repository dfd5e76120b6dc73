//! Topics of MQTT as keys of Zenoh, and filters as key expressions.
//!
//! A level of a topic becomes a chunk of a key. Levels that are no chunks are escaped, so that every topic has a key, and
//! comes back from it:
//!
//! | Level | Chunk |
//! |---|---|
//! | empty | `%` |
//! | `%`, `*`, `$`, `?`, `#` and control characters in it | `%` and two hexadecimal digits of each octet |
//! | `@` at its begin | `%40` |
//! | `%2B` in it | `+`, which no topic has |
//! | any other | the same |

use core::fmt;
use zwire_proto::zenoh::KeyExpr;

/// Longest topic, in octets of UTF-8.
pub const MAX_TOPIC: usize = u16::MAX as usize;

/// Reason why a topic has no key, or a key no topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmapped {
    /// The key would be longer than keys may be.
    LongKey,
    /// The topic would be longer than topics may be.
    LongTopic,
    /// The topic is empty, or has a wildcard or a null character.
    BadTopic,
    /// The key has wildcards: it names many topics.
    Wildcard,
    /// The key is not below the prefix.
    Outside,
    /// The filter has a wildcard beside other characters, or `#` before its end.
    BadFilter,
    /// The key expression has `$*`, or `**` before its end: no filter means the same.
    NoFilter,
}

impl fmt::Display for Unmapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LongKey => "its key would have more than 65,535 octets",
            Self::LongTopic => "its topic would have more than 65,535 octets",
            Self::BadTopic => "a topic is not empty, and has no '+', '#' and null character",
            Self::Wildcard => "a key with wildcards is no topic",
            Self::Outside => "the key is not below the prefix of the bridge",
            Self::BadFilter => "in a filter '+' and '#' are levels of their own, and '#' is the last one",
            Self::NoFilter => "no filter of MQTT means '$*', or '**' before the end",
        })
    }
}

/// Octet that is escaped wherever it stands.
const fn is_special(octet: u8) -> bool {
    matches!(octet, b'%' | b'*' | b'$' | b'?' | b'#' | 0..0x20 | 0x7f)
}

fn push_hex(octet: u8, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(DIGITS[usize::from(octet >> 4)]));
    out.push(char::from(DIGITS[usize::from(octet & 15)]));
}

fn push_chunk(level: &str, out: &mut String) {
    if level.is_empty() {
        return out.push('%');
    }
    let plain = |c: char| !(c.is_control() || (c.is_ascii() && is_special(c as u8)));
    if !level.starts_with('@') && level.chars().all(plain) {
        return out.push_str(level);
    }
    let mut rest = level;
    while let Some(c) = rest.chars().next() {
        let first = rest.len() == level.len();
        if let Some(behind) = rest.strip_prefix("%2B") {
            out.push('+');
            rest = behind;
            continue;
        }
        if plain(c) && !(first && c == '@') {
            out.push(c);
        } else {
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|octet| push_hex(octet, out));
        }
        rest = &rest[c.len_utf8()..];
    }
}

/// Octet that two hexadecimal digits at the begin of a text stand for.
fn hex(text: &str) -> Option<u8> {
    let digits = text.as_bytes().get(..2)?;
    // Lower-case digits are never written.
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    Some(digit(digits[0])? << 4 | digit(digits[1])?)
}

/// Character at the begin of a text that was escaped, and the length of its escape.
fn escaped(text: &str, first: bool) -> Option<(char, usize)> {
    let octet = hex(text.strip_prefix('%')?)?;
    if is_special(octet) || (first && octet == b'@') {
        return Some((char::from(octet), 3));
    }
    // The other control characters have two octets.
    if octet == 0xc2 {
        let second = hex(text[3..].strip_prefix('%')?)?;
        return (0x80..0xa0).contains(&second).then_some((char::from(second), 6));
    }
    None
}

fn push_level(chunk: &str, out: &mut String) {
    if chunk == "%" {
        return;
    }
    if !chunk.contains(['%', '+']) {
        return out.push_str(chunk);
    }
    let mut rest = chunk;
    while let Some(c) = rest.chars().next() {
        let first = rest.len() == chunk.len();
        if c == '+' {
            out.push_str("%2B");
            rest = &rest[1..];
        } else if let Some((c, len)) = escaped(rest, first) {
            out.push(c);
            rest = &rest[len..];
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
}

fn push_prefix(prefix: &str, len: usize) -> String {
    let mut out = String::with_capacity(prefix.len() + len + 1);
    if !prefix.is_empty() {
        out.push_str(prefix);
        out.push('/');
    }
    out
}

/// Key of a topic, below a prefix that may be empty.
///
/// # Errors
/// [`Unmapped::BadTopic`], [`Unmapped::LongKey`].
pub fn key_of_topic(prefix: &str, topic: &str) -> Result<KeyExpr, Unmapped> {
    if topic.is_empty() || topic.contains(['+', '#', '\0']) {
        return Err(Unmapped::BadTopic);
    }
    let mut key = push_prefix(prefix, topic.len());
    for (index, level) in topic.split('/').enumerate() {
        if index > 0 {
            key.push('/');
        }
        push_chunk(level, &mut key);
    }
    // Chunks that are escaped are valid, so a key can only be too long.
    KeyExpr::new(key).map_err(|_| Unmapped::LongKey)
}

/// Part of a key behind a prefix.
fn below<'a>(prefix: &str, key: &'a str) -> Result<&'a str, Unmapped> {
    if prefix.is_empty() {
        return Ok(key);
    }
    key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/')).ok_or(Unmapped::Outside)
}

/// Topic of a key.
///
/// # Errors
/// [`Unmapped::Wildcard`], [`Unmapped::Outside`], [`Unmapped::LongTopic`], [`Unmapped::BadTopic`] for a null character.
pub fn topic_of_key(prefix: &str, key: &str) -> Result<String, Unmapped> {
    if key.contains('*') {
        return Err(Unmapped::Wildcard);
    }
    let rest = below(prefix, key)?;
    let mut topic = String::with_capacity(rest.len());
    for (index, chunk) in rest.split('/').enumerate() {
        if index > 0 {
            topic.push('/');
        }
        push_level(chunk, &mut topic);
    }
    match topic.len() {
        _ if topic.contains('\0') => Err(Unmapped::BadTopic),
        0 => Err(Unmapped::BadTopic),
        1..=MAX_TOPIC => Ok(topic),
        _ => Err(Unmapped::LongTopic),
    }
}

/// Checks a filter.
///
/// # Errors
/// [`Unmapped::BadFilter`], [`Unmapped::LongTopic`].
pub fn check_filter(filter: &str) -> Result<(), Unmapped> {
    if filter.len() > MAX_TOPIC {
        return Err(Unmapped::LongTopic);
    }
    let last = filter.split('/').count() - 1;
    let legal = |(index, level): (usize, &str)| match level {
        "+" => true,
        "#" => index == last,
        level => !level.contains(['+', '#', '\0']),
    };
    let good = !filter.is_empty() && filter.split('/').enumerate().all(legal);
    if good { Ok(()) } else { Err(Unmapped::BadFilter) }
}

/// Key expression that has the keys of the topics of a filter; and of topics that begin with `$`, which wildcards of MQTT
/// do not match.
///
/// # Errors
/// [`Unmapped::BadFilter`], [`Unmapped::LongKey`].
pub fn key_of_filter(prefix: &str, filter: &str) -> Result<KeyExpr, Unmapped> {
    check_filter(filter)?;
    let mut key = push_prefix(prefix, filter.len());
    for (index, level) in filter.split('/').enumerate() {
        if index > 0 {
            key.push('/');
        }
        match level {
            "+" => key.push('*'),
            "#" => key.push_str("**"),
            level => push_chunk(level, &mut key),
        }
    }
    // `+/#` is the one form that is not canonical: `*/**`.
    KeyExpr::autocanonize(key).map_err(|_| Unmapped::LongKey)
}

/// Filter that has the topics of a key expression.
///
/// # Errors
/// [`Unmapped::NoFilter`], [`Unmapped::Outside`], [`Unmapped::LongTopic`].
pub fn filter_of_key(prefix: &str, key: &str) -> Result<String, Unmapped> {
    let rest = below(prefix, key)?;
    let last = rest.split('/').count() - 1;
    let mut filter = String::with_capacity(rest.len());
    for (index, chunk) in rest.split('/').enumerate() {
        if index > 0 {
            filter.push('/');
        }
        match chunk {
            "*" => filter.push('+'),
            "**" if index == last => filter.push('#'),
            chunk if chunk.contains('*') => return Err(Unmapped::NoFilter),
            chunk => push_level(chunk, &mut filter),
        }
    }
    check_filter(&filter)?;
    Ok(filter)
}

/// Whether a filter has a topic.
#[must_use]
pub fn matches(filter: &str, topic: &str) -> bool {
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let (mut levels, mut wanted) = (topic.split('/'), filter.split('/'));
    loop {
        match (wanted.next(), levels.next()) {
            (Some("#"), _) | (None, None) => return true,
            (Some("+"), Some(_)) => {}
            (Some(wanted), Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Topics with their keys.
    const VECTORS: [(&str, &str); 17] = [
        ("a/b", "a/b"),
        ("/a", "%/a"),
        ("a/", "a/%"),
        ("a//b", "a/%/b"),
        ("/", "%/%"),
        ("%", "%25"),
        ("%25", "%2525"),
        ("%2B", "+"),
        ("a%2Bb/%2b", "a+b/%252b"),
        ("$SYS/broker/uptime", "%24SYS/broker/uptime"),
        ("@home/a@b", "%40home/a@b"),
        ("a*b/**", "a%2Ab/%2A%2A"),
        ("who?", "who%3F"),
        ("a\tb", "a%09b"),
        ("\u{7f}\u{85}", "%7F%C2%85"),
        ("größe/температура", "größe/температура"),
        ("a b/c", "a b/c"),
    ];

    #[test]
    fn topics_have_keys_and_come_back() {
        for (topic, key) in VECTORS {
            assert_eq!(key_of_topic("", topic).unwrap().as_str(), key);
            assert_eq!(topic_of_key("", key).unwrap(), topic);
            let below = key_of_topic("net/mqtt", topic).unwrap();
            assert_eq!(below.as_str(), format!("net/mqtt/{key}"));
            assert_eq!(topic_of_key("net/mqtt", below.as_str()).unwrap(), topic);
        }
    }

    #[test]
    fn filters_are_key_expressions() {
        for (filter, key) in [
            ("a/+/b", "a/*/b"),
            ("a/#", "a/**"),
            ("#", "**"),
            ("+", "*"),
            ("+/#", "*/**"),
            ("/+", "%/*"),
            ("$SYS/#", "%24SYS/**"),
            ("a", "a"),
        ] {
            assert_eq!(key_of_filter("", filter).unwrap().as_str(), key);
            assert_eq!(filter_of_key("", key).unwrap(), filter);
            let below = key_of_filter("net", filter).unwrap();
            assert_eq!(filter_of_key("net", below.as_str()).unwrap(), filter);
        }
        for filter in ["", "a+", "#/a", "a/b#", "a\0"] {
            assert_eq!(key_of_filter("", filter), Err(Unmapped::BadFilter), "{filter:?}");
        }
        for key in ["a/**/b", "a$*", "**/a"] {
            assert_eq!(filter_of_key("", key), Err(Unmapped::NoFilter), "{key}");
        }
        assert_eq!(filter_of_key("net", "other/a"), Err(Unmapped::Outside));
    }

    #[test]
    fn what_is_no_topic_has_a_reason() {
        for topic in ["", "a/+", "#", "a\0b"] {
            assert_eq!(key_of_topic("", topic), Err(Unmapped::BadTopic), "{topic:?}");
        }
        assert_eq!(topic_of_key("", "a/*"), Err(Unmapped::Wildcard));
        assert_eq!(topic_of_key("", "a/%00"), Err(Unmapped::BadTopic));
        assert_eq!(topic_of_key("a", "ab/c"), Err(Unmapped::Outside));
        let longest = "a".repeat(MAX_TOPIC);
        assert_eq!(topic_of_key("", key_of_topic("", &longest).unwrap().as_str()), Ok(longest.clone()));
        assert_eq!(key_of_topic("net", &longest), Err(Unmapped::LongKey));
        assert_eq!(key_of_topic("", &"%".repeat(30_000)), Err(Unmapped::LongKey));
    }

    #[test]
    fn filters_match_as_the_standard_says() {
        // The examples of MQTT 5, section 4.7.
        for (filter, topic, expected) in [
            ("sport/tennis/player1/#", "sport/tennis/player1", true),
            ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true),
            ("sport/#", "sport", true),
            ("sport/tennis/+", "sport/tennis/player1/ranking", false),
            ("sport/+", "sport", false),
            ("sport/+", "sport/", true),
            ("+/+", "/finance", true),
            ("/+", "/finance", true),
            ("+", "/finance", false),
            ("#", "$SYS/a", false),
            ("+/monitor/Clients", "$SYS/monitor/Clients", false),
            ("$SYS/#", "$SYS/monitor/Clients", true),
        ] {
            assert_eq!(matches(filter, topic), expected, "{filter} {topic}");
        }
    }

    fn topics() -> impl Strategy<Value = String> {
        let level = prop_oneof![
            Just(String::new()),
            "[%@$*?\\x01-\\x1f\\x7f\u{80}-\u{9f}a2B5C4]{0,8}",
            "[^/+#\\x00]{0,8}"
        ];
        proptest::collection::vec(level, 1..6)
            .prop_map(|levels| levels.join("/"))
            .prop_filter("empty", |t| !t.is_empty())
    }

    proptest! {
        #[test]
        fn every_topic_comes_back(topic in topics(), prefix in prop_oneof![Just(""), Just("a"), Just("net/mqtt")]) {
            let key = key_of_topic(prefix, &topic).unwrap();
            prop_assert!(!key.is_wild());
            prop_assert_eq!(topic_of_key(prefix, key.as_str()).unwrap(), topic);
        }

        #[test]
        fn keys_without_percent_come_back(key in "[a-z+]{1,4}(/[a-z+@]{1,4}){0,3}") {
            prop_assume!(KeyExpr::new(key.clone()).is_ok() && !key.contains("/@"));
            let topic = topic_of_key("", &key).unwrap();
            let back = key_of_topic("", &topic).unwrap();
            prop_assert_eq!(back.as_str(), key);
        }

        #[test]
        fn a_filter_and_its_key_expression_agree(
            levels in proptest::collection::vec("[ab+]", 1..4), rest in any::<bool>(), topic in "[ab](/[ab]){0,4}"
        ) {
            let mut filter = levels.join("/");
            if rest {
                filter.push_str("/#");
            }
            let expression = key_of_filter("", &filter).unwrap();
            let key = key_of_topic("", &topic).unwrap();
            prop_assert_eq!(expression.intersects(&key), matches(&filter, &topic));
        }
    }
}
