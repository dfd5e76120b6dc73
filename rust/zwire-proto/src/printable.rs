//! [`printable`]: foreign text without the characters that steer a terminal.

use core::fmt::Write as _;
use std::borrow::Cow;

/// Escapes the characters of foreign text that a terminal, a log or a JSON viewer acts on instead of
/// showing: controls (C0, DEL, C1), ends of lines and paragraphs, and marks that change the direction of
/// text. The escapes are those of JSON, `\u001b`; a backslash of the text stays as it is.
///
/// `zwire._text.printable` escapes the same characters.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| matches!(byte, 0x20..=0x7e);
    if text.bytes().all(plain) || !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            // Writing to a `String` does not fail; all of these characters have at most four digits.
            c if acts(c) => drop(write!(escaped, "\\u{:04x}", u32::from(c))),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

const fn acts(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{61c}'
        | '\u{200e}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{206f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_steers_nothing_stays_and_is_not_copied() {
        for text in ["", "robot/1 \"a\\b\"", "é日本 👩\u{200d}🚀 a\u{a0}b"] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn controls_ends_of_lines_and_directions_are_escaped() {
        assert_eq!(printable("a\n\r\tb"), "a\\n\\r\\tb");
        assert_eq!(printable("\u{1b}]0;x\u{7}\u{7f}\u{9b}31m"), "\\u001b]0;x\\u0007\\u007f\\u009b31m");
        assert_eq!(printable("é\u{202e}gpj\u{2066}\u{2028}"), "é\\u202egpj\\u2066\\u2028");
        for c in (0..=0x10_ffff).filter_map(char::from_u32).filter(|c| c.is_control()) {
            assert!(printable(&c.to_string()).is_ascii(), "{c:?}");
        }
    }

    #[test]
    fn the_escapes_are_those_of_json() {
        let text = "\u{1}\u{1b}\n\u{7f}\u{85}\u{202e}";
        let parsed: String = serde_json::from_str(&format!("\"{}\"", printable(text))).unwrap();
        assert_eq!(parsed, text);
    }
}
