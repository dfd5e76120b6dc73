//! Tests against the documents (tables of `zenoh-wire` 6), properties, and a comparison with
//! eclipse-zenoh.

mod hostile;
mod laws;
mod reference;
mod table;

use super::{
    KeyExpr, KeyExprError, KeyExprRule, SetIntersectionLevel, canonize, includes, intersects, model, validate,
};
use crate::Text;

fn key(text: &str) -> KeyExpr {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn every_row_of_the_document_holds_both_ways() {
    for (row, (a, b, meet, a_includes, b_includes)) in table::TABLE.into_iter().enumerate() {
        let row = row + 1;
        let (a, b) = (key(a), key(b));
        assert_eq!(a.intersects(&b), meet, "row {row}: {a} meets {b}");
        assert_eq!(b.intersects(&a), meet, "row {row}: {b} meets {a}");
        assert_eq!(a.includes(&b), a_includes, "row {row}: {a} includes {b}");
        assert_eq!(b.includes(&a), b_includes, "row {row}: {b} includes {a}");
        assert_eq!(intersects(&a, &b), meet, "row {row}, free function");
        assert_eq!(includes(&a, &b), a_includes, "row {row}, free function");
        let level = match (a == b, a_includes, meet) {
            (true, ..) => SetIntersectionLevel::Equals,
            (_, true, _) => SetIntersectionLevel::Includes,
            (_, _, true) => SetIntersectionLevel::Intersects,
            _ => SetIntersectionLevel::Disjoint,
        };
        assert_eq!(a.relation_to(&b), level, "row {row}");
    }
}

#[test]
fn each_rule_is_named_with_its_offset() {
    for (text, rule, offset) in [
        ("", KeyExprRule::Empty, 0),
        ("/", KeyExprRule::EmptyChunk, 0),
        ("/a", KeyExprRule::EmptyChunk, 0),
        ("a/", KeyExprRule::EmptyChunk, 2),
        ("a//b", KeyExprRule::EmptyChunk, 2),
        ("a/long/key//with/more", KeyExprRule::EmptyChunk, 11),
        ("a#b", KeyExprRule::Reserved, 1),
        ("a?b", KeyExprRule::Reserved, 1),
        ("some/longer/key?x", KeyExprRule::Reserved, 15),
        ("a*", KeyExprRule::Star, 1),
        ("*a", KeyExprRule::Star, 0),
        ("a/b*", KeyExprRule::Star, 3),
        ("***", KeyExprRule::Star, 0),
        ("@*", KeyExprRule::Star, 1),
        ("a/@**", KeyExprRule::Star, 3),
        ("a$**", KeyExprRule::Star, 3),
        ("a$", KeyExprRule::Dollar, 1),
        ("$", KeyExprRule::Dollar, 0),
        ("a$b", KeyExprRule::Dollar, 1),
        ("a$*$b", KeyExprRule::Dollar, 3),
        ("a$*$*b", KeyExprRule::DollarStarTwice, 1),
        ("$*$*", KeyExprRule::DollarStarTwice, 0),
        ("a/$*", KeyExprRule::DollarStarAlone, 2),
        ("$*", KeyExprRule::DollarStarAlone, 0),
        ("a/**/**", KeyExprRule::DoubleStarTwice, 5),
        ("**/*", KeyExprRule::StarAfterDoubleStar, 3),
    ] {
        let error = KeyExprError { rule, offset };
        assert_eq!(validate(text), Err(error), "{text}");
        assert_eq!(KeyExpr::new(text), Err(error), "{text}");
        assert_eq!(text.parse::<KeyExpr>(), Err(error), "{text}");
        assert!(error.to_string().ends_with(&format!("(at byte {offset})")));
    }
}

#[test]
fn everything_else_is_allowed_in_a_chunk() {
    for text in
        ["a b", "é/ü", "@", "a;b=c&d%20", "{x}+", ".", "..", "a/@$*", "@a$*", "A/a", "\u{0}", "a-b_c~!"]
    {
        assert_eq!(validate(text), Ok(text.contains('*')), "{text}");
    }
}

#[test]
fn canonisation_tables() {
    for (text, canonical) in [
        ("a/**/**/b", "a/**/b"),
        ("**/*", "*/**"),
        ("a/**/*/**", "a/*/**"),
        ("**/$*/b", "*/**/b"),
        ("a/$*$*/b", "a/*/b"),
        ("$*$*", "*"),
        ("**/**", "**"),
        ("$*$*$*", "*"),
        ("a$*$*$*b", "a$*b"),
        ("a$*$*/b$*$*$*$*", "a$*/b$*"),
        ("**/*/**/*/a/**/**", "*/*/**/a/**"),
        ("a/b", "a/b"),
    ] {
        assert_eq!(canonize(text), canonical);
        let shared = Text::from(text);
        assert_eq!(KeyExpr::autocanonize(shared).map(KeyExpr::into_text), Ok(Text::from(canonical)));
        assert_eq!(validate(canonical), Ok(canonical.contains('*')));
        assert_eq!(validate(text).is_ok(), text == canonical, "{text}");
    }
    let error = KeyExpr::autocanonize("**/**//a").map_err(|error| error.rule);
    assert_eq!(error, Err(KeyExprRule::EmptyChunk));
}

#[test]
fn a_key_shares_the_memory_of_its_text() {
    let text = Text::from("a/key/that/is/too/long/to/stand/in/place");
    let start = text.as_ptr();
    assert_eq!(KeyExpr::from_text(text.clone()).map(|key| key.as_ptr()), Ok(start));
    assert_eq!(KeyExpr::autocanonize(text).map(|key| key.as_ptr()), Ok(start));
}

#[test]
fn join_canonises_and_concat_does_not() {
    assert_eq!(key("a/**").join("**"), Ok(key("a/**")));
    assert_eq!(key("a/**").join("*/b"), Ok(key("a/*/**/b")));
    assert_eq!(key("a").join("b/c"), Ok(key("a/b/c")));
    assert_eq!(key("a").join("/b"), Err(KeyExprError { rule: KeyExprRule::EmptyChunk, offset: 2 }));
    assert_eq!(key("a").join(""), Err(KeyExprError { rule: KeyExprRule::EmptyChunk, offset: 2 }));

    assert_eq!(key("a").concat("b"), Ok(key("ab")));
    assert_eq!(key("a").concat(""), Ok(key("a")));
    assert_eq!(key("a").concat("/**"), Ok(key("a/**")));
    let refused = |offset| Err(KeyExprError { rule: KeyExprRule::StarMeetsStar, offset });
    assert_eq!(key("a/*").concat("*"), refused(3));
    assert_eq!(key("a$*").concat("*"), refused(3));
    let error = KeyExprError { rule: KeyExprRule::DoubleStarTwice, offset: 5 };
    assert_eq!(key("a/**").concat("/**"), Err(error));
}

#[test]
fn wildness_and_the_prefix_without_it() {
    for (text, wild, prefix) in [
        ("k/s", false, Some("k/s")),
        ("k/s/*", true, Some("k/s")),
        ("k/s/**", true, Some("k/s")),
        ("k/s/a$*", true, Some("k/s")),
        ("k/*/s", true, Some("k")),
        ("*", true, None),
        ("**/s", true, None),
        ("k$*/s", true, None),
        ("k/@s$*/t", true, Some("k")),
        ("@/a/**", true, Some("@/a")),
    ] {
        assert_eq!(key(text).is_wild(), wild, "{text}");
        assert_eq!(key(text).non_wild_prefix(), prefix, "{text}");
    }
}
